//! No statement reads a whole table to find a few rows of it: what is quick on a small index stays so on a large one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use atcr_workers::atproto::{Collection, Handle, Micros};
use atcr_workers::outbox::{Attempted, Rules, Site, Tiers, Trigger};
use atcr_workers::settings::Tier;
use atcr_workers::store::backfill::{
    Gone, ListName, ListedPart, RepoOutcome, RepoRead, RepoState, RunPlan, RunTotals, Whole,
};
use atcr_workers::store::labels::{About, LabelRow, Subject};
use atcr_workers::store::outbox::Look;
use atcr_workers::store::webhooks::{Added, NewWebhook, User};
use atcr_workers::store::{HandleFound, IdentityFound, SWEEPS, Tx};
use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};
use leased_actors::lease::{LeaseStore, Release, Term};

use super::fixture::Fixture;
use super::samples::*;

/// The tables that grow with the network, and what statements call them for short.
const LARGE: [&str; 25] = [
    "users",
    "records",
    "manifests",
    "layers",
    "manifest_references",
    "manifest_annotations",
    "tags",
    "stars",
    "repo_pages",
    "profiles",
    "captains",
    "crew",
    "hold_repository_stats",
    "repository_stats",
    "scans",
    "backfill_repo",
    "labels",
    "webhooks",
    "webhook_deliveries",
    "w",
    "d",
    "r",
    "s",
    "m",
    "c",
];

/// What each connection of this process ran, by the file's path.
static TEXTS: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Watcher {
    path: String,
}

impl Instrumentation for Watcher {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        match event {
            InstrumentationEvent::StartEstablishConnection { url, .. } => self.path = url.to_owned(),
            InstrumentationEvent::StartQuery { query, .. } => {
                let text = query.to_string();
                let text = text.split(" -- binds:").next().unwrap_or_default().trim().to_owned();
                TEXTS.lock().unwrap().entry(self.path.clone()).or_default().insert(text);
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_reads_a_whole_table() {
    set_default_instrumentation(|| Some(Box::<Watcher>::default())).unwrap();
    let fixture = Fixture::sqlite().await;
    let term = fixture.term().await;
    let (user, hold) = ("did:plc:user", "did:web:hold");
    let batch = |n: u32| {
        let at = i64::from(n);
        let two = |author, rkey: &str, record: fn(i64) -> _| {
            [
                present(author, &format!("{rkey}1"), n, record(at)),
                present(author, &format!("{rkey}2"), n, record(at)),
            ]
        };
        let mut batch =
            vec![present(hold, "self", n, captain(user)), present(user, "self", n, profile(None, at))];
        batch.extend(two(user, "m", |at| manifest("app", Some("did:web:hold"), at)));
        batch.extend(two(user, "t", |at| tag("app", "latest", at)));
        batch.extend(two(user, "s", |_| star("did:plc:user", "app")));
        batch.extend(two(hold, "c", |at| crew("did:plc:user", at)));
        batch.extend(two(hold, "n", |at| stats("did:plc:user", "app", at, at)));
        batch.extend(two(hold, "v", |at| scan("did:plc:user", "app", at)));
        batch
    };
    let path = fixture.options.url.strip_prefix("sqlite://").unwrap();
    for n in 1..=2 {
        fixture.apply(&term, &batch(n)).await;
        if n == 1 {
            let texts = TEXTS.lock().unwrap()[path].clone();
            let of_outbox: Vec<_> =
                texts.iter().filter(|text| is_plain(text) && text.contains("webhook")).collect();
            assert_eq!(of_outbox.len(), 1, "what a batch costs that no webhook cares for: {of_outbox:?}");
        }
        outbox(&fixture, &term, user).await;
    }
    let due = fixture.database.due_identities(10).await.unwrap().remove(0);
    let work = async move |tx: &mut Tx| {
        tx.mark_identity_due(&[did("did:plc:user"), did("did:web:hold")]).await?;
        let handle = HandleFound::Valid(Handle::parse("user.test").unwrap());
        tx.set_identity(&due, &IdentityFound { handle, pds: None }).await?;
        tx.identity_failed(&due).await
    };
    fixture.database.fenced(&term, work).await.unwrap();
    backfill(&fixture, &term).await;
    labels(&fixture, &term).await;
    fixture.database.known_holds().await.unwrap();
    fixture.leases.renew(term.id().holder).await.unwrap();
    fixture.leases.release(term.id(), Release::Free).await.unwrap();

    let texts = TEXTS.lock().unwrap()[path].clone();
    let texts: Vec<_> = texts.iter().filter(|text| is_plain(text)).collect();
    assert!(texts.len() > 30, "only {} statements were seen", texts.len());
    let mut scans = Vec::new();
    for text in texts {
        let plan = fixture.plan(text).await;
        let of_large = |step: &&String| {
            let scanned = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            scanned.is_some_and(|table| LARGE.contains(&table))
        };
        scans.extend(plan.iter().filter(of_large).map(|step| format!("{step}: {text}")));
    }
    assert!(scans.is_empty(), "{}", scans.join("\n"));
}

/// What the labeler's worker writes, and what is asked of it.
async fn labels(fixture: &Fixture, term: &Term) {
    let label = LabelRow {
        uri: "did:plc:user".into(),
        val: "!takedown".into(),
        cid: None,
        neg: false,
        cts: Micros(1),
        exp: None,
        seq: Some(1),
        verified: true,
        about: Some(About::Account(did("did:plc:user"))),
    };
    let sweep = SWEEPS.iter().find(|sweep| sweep.table == "labels").unwrap();
    let work = async move |tx: &mut Tx| {
        let src = did("did:plc:labeler");
        tx.follow_labeler(&src, true, Some("key")).await?;
        tx.store_labels(&src, 0, true, &[label]).await?;
        tx.save_labeler_seq(&src, 1).await?;
        tx.restart_labeler(&src).await?;
        tx.sweep(sweep, std::time::Duration::ZERO).await
    };
    fixture.database.fenced(term, work).await.unwrap();
    let of = did("did:plc:user");
    let subject = Subject { did: &of, repository: Some("app"), digest: None, tag_rkey: None };
    assert!(fixture.database.is_taken_down(&subject).await.unwrap());
}

/// Whether it reads or writes rows.
fn is_plain(text: &str) -> bool {
    let verbs = ["WITH", "SELECT", "INSERT", "UPDATE", "DELETE"];
    verbs.iter().any(|verb| text.starts_with(verb))
}

/// What the outbox takes out and writes; from the second time on, the index puts in for the webhooks that are there.
async fn outbox(fixture: &Fixture, term: &Term, user: &str) {
    let new = NewWebhook {
        user: User::Did(did(user)),
        url: "https://ci.example/".into(),
        secret: None,
        triggers: Trigger::SETTABLE.to_vec(),
    };
    let tier = Tier { name: "all".into(), price_ids: Vec::new(), max_webhooks: 9, all_triggers: true };
    let give_up_after = Duration::from_secs(60);
    let rules = Rules { tiers: Tiers::of(&[tier]), site: Site::default(), give_up_after };
    let Added::As(webhook) = fixture.leases.add_webhook(new, rules.tiers.clone()).await.unwrap() else {
        panic!("nine are allowed");
    };
    fixture.leases.test_webhook(webhook).await.unwrap();
    let look = Look { busy: Vec::new(), per_webhook: 9, limit: 99 };
    let work = async move |tx: &mut Tx| {
        let mut due = tx.due_deliveries(&rules, &look).await?;
        for (at, delivery) in due.deliveries.iter().enumerate() {
            let result = match at % 3 {
                0 => Attempted::Delivered { code: 200 },
                1 => Attempted::Failed { code: None, error: "down".into() },
                _ => Attempted::Retry { code: None, error: "down".into(), after: Duration::ZERO },
            };
            tx.delivery_attempted(&delivery.id, &result).await?;
        }
        Ok(due.deliveries.remove(0).id)
    };
    let first = fixture.database.fenced(term, work).await.unwrap();
    fixture.leases.redeliver(first).await.unwrap();
    fixture.leases.disable_webhook(webhook, "for now".into()).await.unwrap();
    fixture.leases.enable_webhook(webhook).await.unwrap();
}

/// What a backfill asks and writes.
async fn backfill(fixture: &Fixture, term: &Term) {
    let database = &fixture.database;
    let (user, hold) = (did("did:plc:user"), did("did:web:hold"));
    let plan = RunPlan {
        reason: "start".into(),
        forced: false,
        lists: vec![ListName::Users, ListName::Holds],
        seeds: vec![hold.clone()],
    };
    let work = async move |tx: &mut Tx| tx.begin_run(&plan).await;
    let run = database.fenced(term, work).await.unwrap();
    for list in [ListName::Users, ListName::Holds] {
        database.named_repos(&list, None, 10).await.unwrap();
    }
    let (list, found) = (database.due_list().await.unwrap().unwrap(), vec![user.clone()]);
    let work = async move |tx: &mut Tx| {
        tx.found_repos(&list, false, &found, Some("did:plc:user")).await?;
        tx.list_failed(&list, "down", Some(std::time::Duration::ZERO), true).await
    };
    database.fenced(term, work).await.unwrap();
    let repo = database.due_repos(10).await.unwrap().remove(0);
    database.is_run_done(run).await.unwrap();
    database.backfill_report().await.unwrap();
    database.backfill_repo(&user).await.unwrap();
    database.backfill_asked_at(Some(&user)).await.unwrap();
    let records = vec![present("did:plc:user", "t1", 3, tag("app", "latest", 1))];
    let part = ListedPart { did: user.clone(), rev: rev(3), records, forced: false };
    let outcome = RepoOutcome {
        state: RepoState::Read,
        rev: Some(Some(rev(3))),
        is_listed: true,
        failures: 0,
        error: None,
        next_in: None,
        gone: Gone::Not,
    };
    let whole = Whole { did: user.clone(), rev: rev(3), collections: vec![Collection::Tag] };
    let handle = HandleFound::Valid(Handle::parse("user.test").unwrap());
    let read = RepoRead {
        did: user.clone(),
        at: Micros(1),
        standing: Some((false, Some("suspended".into()))),
        identity: Some(IdentityFound { handle, pds: Some("http://pds".into()) }),
        identity_due: repo.identity_due,
        outcome,
    };
    let work = async move |tx: &mut Tx| {
        tx.force_repos(std::slice::from_ref(&user)).await?;
        tx.merge(&[&part]).await?;
        tx.delete_unlisted(&[whole]).await?;
        tx.stream_passed().await?;
        tx.repos_read(&[read]).await?;
        tx.add_to_run(run, &RunTotals::default()).await?;
        while tx.forget_records(&hold).await? {}
        tx.delete_account(&hold).await?;
        tx.end_run(run).await
    };
    database.fenced(term, work).await.unwrap();
}
