//! A listing beside the stream, at the door of the store.

use std::collections::BTreeMap;

use atcr_workers::atproto::{Change, Collection, Rev, State};
use atcr_workers::store::backfill::{Changed, ListedPart, Whole};
use atcr_workers::store::{MERGE_ROWS_MAX, Tx, WriteError};
use leased_actors::lease::Term;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::store::fixture::Fixture;
use crate::store::on_both;
use crate::store::samples::{captain, change, did, manifest, rev, stats, tag};

on_both! {
    what_a_listing_lacks_goes_only_where_the_listing_is_whole
    a_listing_larger_than_a_transaction_is_merged_in_parts
    listings_of_several_repositories_are_merged_together_each_at_its_own_revision
    a_merge_under_a_term_that_is_over_changes_nothing
    a_deleted_account_takes_everything_with_it_sums_included
}

/// A record's content: 0 is none.
type Version = u8;

#[derive(Clone, Debug)]
struct Scenario {
    /// Which record became what, a revision each.
    history: Vec<(usize, Version)>,
    /// How many of them had happened when the listing's revision was asked for.
    listed_at: usize,
    /// By how many more each record's page was read.
    listed_late: Vec<usize>,
    /// Of those that came before the merge and were in the listing: lost for good.
    lost: Vec<bool>,
    /// How many had come when each step of the merge was done; sorted.
    merged_after: [usize; 3],
    forced: bool,
    /// From which on all is sent once more at the end.
    replayed_from: usize,
}

const RECORDS: usize = 4;

fn scenario() -> impl Strategy<Value = Scenario> {
    let history = prop::collection::vec((0..RECORDS, 0_u8..4), 1..14);
    history.prop_flat_map(|history| {
        let n = history.len();
        let merged_after = [0..=n, 0..=n, 0..=n].prop_map(|mut steps| {
            steps.sort_unstable();
            steps
        });
        let (late, lost) =
            (prop::collection::vec(0..4_usize, RECORDS), prop::collection::vec(any::<bool>(), n));
        (Just(history), 0..=n, late, lost, merged_after, any::<bool>(), 0..=n).prop_map(
            |(history, listed_at, listed_late, lost, merged_after, forced, replayed_from)| Scenario {
                history,
                listed_at,
                listed_late,
                lost,
                merged_after,
                forced,
                replayed_from,
            },
        )
    })
}

/// Records 0 and 1 are manifests, 2 and 3 are tags.
fn at(author: &str, record: usize, version: Version, n: usize) -> Change {
    let collection = if record < 2 { Collection::Manifest } else { Collection::Tag };
    let n = u32::try_from(n).unwrap();
    let content = match (version, collection) {
        (0, _) => State::Absent,
        // One version breaks the lexicon.
        (3, _) => State::Unreadable,
        (_, Collection::Manifest) => State::Present(Box::new(manifest("app", None, version.into()))),
        _ => State::Present(Box::new(tag("app", "latest", version.into()))),
    };
    let mut change = change(author, &format!("r{record}"), n, collection, content);
    change.cid = (version > 0).then(|| format!("cid-of-version-{version}"));
    change
}

/// What each record is after so many steps.
fn fold(history: &[(usize, Version)]) -> BTreeMap<usize, Version> {
    history.iter().copied().collect()
}

struct Player<'a> {
    fixture: &'a Fixture,
    term: &'a Term,
    author: String,
    scenario: &'a Scenario,
}

impl Player<'_> {
    async fn live(&self, n: usize) {
        let (record, version) = self.scenario.history[n];
        let change = at(&self.author, record, version, n + 1);
        self.fixture.apply(self.term, &[change]).await;
    }

    /// The listing in two parts, and then what it lacks.
    async fn merge(&self, step: usize) {
        let scenario = self.scenario;
        let rev = rev(u32::try_from(scenario.listed_at).unwrap());
        if step == 2 {
            for collection in [Collection::Tag, Collection::Manifest] {
                delete_unlisted(self.fixture, self.term, &self.author, collection, rev).await;
            }
            return;
        }
        let listed = |record: usize| {
            let seen = (scenario.listed_at + scenario.listed_late[record]).min(scenario.history.len());
            let version = fold(&scenario.history[..seen]).get(&record).copied().unwrap_or(0);
            (version > 0).then(|| at(&self.author, record, version, scenario.listed_at))
        };
        let records = [step * 2, step * 2 + 1].into_iter().filter_map(listed).collect();
        merge(self.fixture, self.term, &self.author, rev, records, scenario.forced).await;
    }

    async fn play(&self) {
        let scenario = self.scenario;
        let mut steps = (0..3).peekable();
        for n in 0..=scenario.history.len() {
            while steps.peek().is_some_and(|step| scenario.merged_after[*step] <= n) {
                self.merge(steps.next().unwrap()).await;
            }
            let may_be_lost = n < scenario.listed_at && n < scenario.merged_after[0];
            if n < scenario.history.len() && !(may_be_lost && scenario.lost[n]) {
                self.live(n).await;
            }
        }
        // What was lost stays lost.
        let first = scenario.replayed_from.max(scenario.listed_at);
        for n in first..scenario.history.len() {
            self.live(n).await;
        }
    }
}

async fn merge(fixture: &Fixture, term: &Term, author: &str, rev: Rev, records: Vec<Change>, forced: bool) {
    let part = ListedPart { did: did(author), rev, records, forced };
    fixture.database.fenced(term, async move |tx: &mut Tx| tx.merge(&[&part]).await).await.unwrap();
}

async fn delete_unlisted(fixture: &Fixture, term: &Term, author: &str, of: Collection, rev: Rev) -> usize {
    let whole = Whole { did: did(author), rev, collections: vec![of] };
    let work = async move |tx: &mut Tx| tx.delete_unlisted(&[whole]).await;
    fixture.database.fenced(term, work).await.unwrap()[0].values().sum()
}

/// Records that are shown, by what they say, and layers, which belong to their manifests.
async fn shown(fixture: &Fixture, author: &str) -> Vec<String> {
    let query = format!(
        "SELECT rkey || ' ' || created_at AS line FROM tags WHERE did = '{author}'
         UNION ALL SELECT rkey || ' ' || (created_at - 1000) FROM manifests WHERE did = '{author}'
         UNION ALL SELECT rkey || ' layer ' || layer_index FROM layers WHERE did = '{author}'"
    );
    let mut lines = fixture.lines(&query).await;
    lines.sort();
    lines
}

fn expected(history: &[(usize, Version)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (record, version) in fold(history).into_iter().filter(|(_, version)| [1, 2].contains(version)) {
        lines.push(format!("r{record} {version}"));
        if record < 2 {
            lines.extend((0..version).map(|layer| format!("r{record} layer {layer}")));
        }
    }
    lines.sort();
    lines
}

/// Any interleaving of live events and a listing, with events lost before it and sent twice after it.
fn play_all(cases: u32, fixture: impl AsyncFnOnce() -> Fixture) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (fixture, term) = runtime.block_on(async {
        let fixture = fixture().await;
        let term = fixture.term().await;
        (fixture, term)
    });
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let world = std::cell::Cell::new(0_u32);
    let outcome = runner.run(&scenario(), |scenario| {
        world.set(world.get() + 1);
        let author = format!("did:plc:world{}", world.get());
        let player = Player { fixture: &fixture, term: &term, author, scenario: &scenario };
        let found = runtime.block_on(async {
            player.play().await;
            shown(&fixture, &player.author).await
        });
        prop_assert_eq!(found, expected(&scenario.history));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn whatever_way_live_events_and_a_listing_meet_the_index_ends_as_the_repository_on_sqlite() {
    play_all(200, Fixture::sqlite);
}

#[test]
fn whatever_way_live_events_and_a_listing_meet_the_index_ends_as_the_repository_on_postgres() {
    play_all(60, Fixture::postgres);
}

async fn what_a_listing_lacks_goes_only_where_the_listing_is_whole(fixture: Fixture) {
    let (term, me) = (fixture.term().await, "did:plc:me");
    let known = [at(me, 0, 1, 1), at(me, 2, 1, 1), at(me, 3, 1, 3)];
    fixture.apply(&term, &known).await;
    // Of the tags the listing has none: the older one was deleted, the newer one came after it. Manifests were not read.
    assert_eq!(delete_unlisted(&fixture, &term, me, Collection::Tag, rev(2)).await, 1);
    assert_eq!(shown(&fixture, me).await, ["r0 1", "r0 layer 0", "r3 1"]);
    // What was deleted stays so, whatever comes late.
    fixture.apply(&term, &known).await;
    assert_eq!(shown(&fixture, me).await, ["r0 1", "r0 layer 0", "r3 1"]);
    assert_eq!(delete_unlisted(&fixture, &term, me, Collection::Tag, rev(2)).await, 0);
}

async fn a_listing_larger_than_a_transaction_is_merged_in_parts(fixture: Fixture) {
    let (term, me) = (fixture.term().await, "did:plc:me");
    let count = MERGE_ROWS_MAX + 1;
    let tags = |n: u32| -> Vec<Change> {
        let of =
            |i| change(me, &format!("t{i}"), n, Collection::Tag, State::Present(Box::new(tag("a", "b", 1))));
        (0..count).map(of).collect()
    };
    for part in tags(1).chunks(MERGE_ROWS_MAX) {
        merge(&fixture, &term, me, rev(1), part.to_vec(), false).await;
    }
    let shown = async || fixture.lines("SELECT CAST(COUNT(*) AS TEXT) AS line FROM tags").await;
    assert_eq!(shown().await, [count.to_string()]);
    // All of them gone.
    assert_eq!(delete_unlisted(&fixture, &term, me, Collection::Tag, rev(2)).await, MERGE_ROWS_MAX);
    assert_eq!(delete_unlisted(&fixture, &term, me, Collection::Tag, rev(2)).await, 1);
    assert_eq!(shown().await, ["0"]);
}

async fn listings_of_several_repositories_are_merged_together_each_at_its_own_revision(fixture: Fixture) {
    let term = fixture.term().await;
    let [one, two, bare] = ["did:plc:one", "did:plc:two", "did:plc:bare"];
    // Both have changed at 3. What is listed of the first is from before that, and of the second from after it.
    let known = |who| [at(who, 0, 1, 3), at(who, 2, 1, 3), at(who, 3, 1, 1)];
    for who in [one, two, bare] {
        fixture.apply(&term, &known(who)).await;
    }
    let listed = |who, n: usize, records: &[usize]| ListedPart {
        did: did(who),
        rev: rev(u32::try_from(n).unwrap()),
        records: records.iter().map(|record| at(who, *record, 2, n)).collect(),
        forced: false,
    };
    let parts = [listed(two, 4, &[0]), listed(bare, 4, &[]), listed(one, 2, &[0, 1])];
    let work = async move |tx: &mut Tx| {
        let merged = tx.merge(&parts.iter().collect::<Vec<_>>()).await?;
        let whole = |part: &ListedPart| Whole {
            did: part.did.clone(),
            rev: part.rev,
            collections: vec![Collection::Manifest, Collection::Tag],
        };
        let deleted = tx.delete_unlisted(&parts.iter().map(whole).collect::<Vec<_>>()).await?;
        Ok((merged.changed, deleted))
    };
    let (changed, deleted) = fixture.database.fenced(&term, work).await.unwrap();
    let (manifests, tags) = (Collection::Manifest, Collection::Tag);
    assert_eq!(changed, [[(manifests, 1)].into(), Changed::new(), [(manifests, 1)].into()]);
    assert_eq!(deleted, [Changed::from([(tags, 2)]), [(manifests, 1), (tags, 2)].into(), [(tags, 1)].into()]);
    let layers = ["r0 layer 0", "r1 2", "r1 layer 0", "r1 layer 1", "r2 1"];
    assert_eq!(shown(&fixture, one).await, [&["r0 1"], &layers[..]].concat());
    assert_eq!(shown(&fixture, two).await, ["r0 2", "r0 layer 0", "r0 layer 1"]);
    assert_eq!(shown(&fixture, bare).await, [""; 0]);
}

async fn a_merge_under_a_term_that_is_over_changes_nothing(fixture: Fixture) {
    use leased_actors::lease::{LeaseStore, Release};
    let (term, me) = (fixture.term().await, "did:plc:me");
    fixture.leases.release(term.id(), Release::Free).await.unwrap();
    let part = ListedPart { did: did(me), rev: rev(1), records: vec![at(me, 2, 1, 1)], forced: true };
    let merged = fixture.database.fenced(&term, async move |tx: &mut Tx| tx.merge(&[&part]).await).await;
    assert!(matches!(merged, Err(WriteError::Stale(_))), "{merged:?}");
    let gone = async move |tx: &mut Tx| tx.delete_account(&did("did:plc:me")).await;
    assert!(matches!(fixture.database.fenced(&term, gone).await, Err(WriteError::Stale(_))));
    assert!(fixture.database.known_dids().await.unwrap().is_empty());
}

async fn a_deleted_account_takes_everything_with_it_sums_included(fixture: Fixture) {
    use crate::store::samples::present;
    let term = fixture.term().await;
    let (hold, other, owner) = ("did:web:hold", "did:web:other", "did:plc:owner");
    let mut changes = vec![
        present(owner, "m1", 1, manifest("app", Some(hold), 3)),
        present(owner, "m2", 1, manifest("app", Some(other), 2)),
        present(owner, "m3", 1, manifest("own", Some(hold), 2)),
        present(owner, "t", 1, tag("app", "latest", 1)),
    ];
    for (hold, pulls) in [(hold, 5), (other, 7)] {
        changes.push(present(hold, "self", 1, captain(owner)));
        changes.push(present(hold, "s1", 1, stats(owner, "app", pulls, 1)));
    }
    changes.push(present(hold, "s2", 1, stats(owner, "own", 9, 1)));
    fixture.apply(&term, &changes).await;
    let sums = async || {
        let mut sums = fixture
            .lines("SELECT did || ' ' || repository || ' ' || pull_count AS line FROM repository_stats")
            .await;
        sums.sort();
        sums
    };
    assert_eq!(sums().await, ["did:plc:owner app 12", "did:plc:owner own 9"]);

    // The hold's counts count no more.
    delete(&fixture, &term, hold).await;
    assert_eq!(sums().await, ["did:plc:owner app 7"]);
    delete(&fixture, &term, owner).await;
    assert_eq!(sums().await, Vec::<String>::new());
    for table in
        ["records", "manifests", "layers", "manifest_references", "manifest_annotations", "tags", "users"]
    {
        let column = if table == "users" { "did" } else { "DISTINCT did" };
        let left = fixture.lines(&format!("SELECT {column} AS line FROM {table}")).await;
        let expected: &[&str] = if ["records", "users"].contains(&table) { &[other] } else { &[] };
        assert_eq!(left, expected, "{table}");
    }
    // The other hold says what it said.
    let left = fixture.lines("SELECT hold_did AS line FROM hold_repository_stats").await;
    assert_eq!(left, [other]);
}

async fn delete(fixture: &Fixture, term: &Term, who: &str) {
    let who = did(who);
    let work = async move |tx: &mut Tx| {
        while tx.forget_records(&who).await? {}
        tx.delete_account(&who).await
    };
    assert!(fixture.database.fenced(term, work).await.unwrap());
}
