//! What a takedown hides: an account, a repository, a manifest, a tag; and what it does not.

use atcr_workers::{atproto::Rkey, store::labels::Subject};
use localnet::labeler::Label;

use super::stage::{Stage, on_both};
use crate::support::place::Kind;

const TAKEDOWN: &str = "!takedown";
const ALICE: &str = "did:plc:alice";

on_both! {
    each_subject_hides_itself_and_nothing_beside_it,
    a_repository_with_a_slash_is_what_its_page_names,
    nobody_escapes_by_rewriting_a_record,
    what_is_hidden_is_gone_from_a_list_that_joins_the_view,
    a_sweep_forgets_old_ends_and_a_replay_brings_back_none_for_good,
}

fn manifest(digit: char) -> String {
    format!("at://{ALICE}/io.atcr.manifest/{}", digit.to_string().repeat(64))
}

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

async fn is_down(
    stage: &Stage,
    did: &str,
    repository: Option<&str>,
    digest: Option<&str>,
    tag: Option<&str>,
) -> bool {
    let (did, tag) = (did.parse().unwrap(), tag.map(|tag| tag.parse::<Rkey>().unwrap()));
    let subject = Subject { did: &did, repository, digest, tag_rkey: tag.as_ref() };
    stage.database.is_taken_down(&subject).await.unwrap()
}

async fn each_subject_hides_itself_and_nothing_beside_it(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    let page = format!("at://{ALICE}/io.atcr.repo.page/app");
    let tag = format!("at://{ALICE}/io.atcr.tag/app_v1");
    for uri in [&page, &manifest('a'), &tag, "did:plc:carol"] {
        stage.labeler.say(uri, TAKEDOWN);
    }
    stage.heard_all().await;
    let (a, b) = (digest('a'), digest('b'));
    for (did, repository, digest, tag, expected) in [
        (ALICE, None, None, None, false),
        (ALICE, Some("app"), None, None, true),
        (ALICE, Some("other"), None, None, false),
        (ALICE, Some("other"), Some(a.as_str()), None, true),
        (ALICE, Some("other"), Some(b.as_str()), None, false),
        (ALICE, None, Some(b.as_str()), Some("app_v1"), true),
        (ALICE, None, None, Some("app_v2"), false),
        ("did:plc:bob", Some("app"), Some(a.as_str()), Some("app_v1"), false),
        ("did:plc:carol", None, None, None, true),
        ("did:plc:carol", Some("any"), Some(b.as_str()), Some("any"), true),
    ] {
        let is_down = is_down(&stage, did, repository, digest, tag).await;
        assert_eq!(is_down, expected, "{did} {repository:?} {digest:?} {tag:?}");
    }
    for uri in [&page, &manifest('a'), &tag, "did:plc:carol"] {
        stage.labeler.negate(uri, TAKEDOWN);
    }
    stage.heard_all().await;
    assert!(!is_down(&stage, ALICE, Some("app"), Some(&a), Some("app_v1")).await);
    assert!(!is_down(&stage, "did:plc:carol", None, None, None).await);
    stage.stop().await;
}

async fn put_page(stage: &Stage, rkey: &str, repository: &str) {
    let user = format!("INSERT INTO users (did, first_seen) VALUES ('{ALICE}', 1) ON CONFLICT DO NOTHING");
    stage.place.execute(&user).await;
    let page = format!(
        "INSERT INTO repo_pages (did, rkey, repository, created_at, updated_at)
         VALUES ('{ALICE}', '{rkey}', '{repository}', 1, 1)
         ON CONFLICT (did, rkey) DO UPDATE SET repository = excluded.repository"
    );
    stage.place.execute(&page).await;
}

async fn a_repository_with_a_slash_is_what_its_page_names(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(&format!("at://{ALICE}/io.atcr.repo.page/org-app"), TAKEDOWN);
    stage.labeler.say(&format!("at://{ALICE}/io.atcr.repo.page/org/other"), TAKEDOWN);
    stage.heard_all().await;
    assert!(!is_down(&stage, ALICE, Some("org/app"), None, None).await);
    assert!(is_down(&stage, ALICE, Some("org/other"), None, None).await);
    // The page comes after its label: the order does not matter.
    put_page(&stage, "org-app", "org/app").await;
    assert!(is_down(&stage, ALICE, Some("org/app"), None, None).await);
    stage.stop().await;
}

async fn nobody_escapes_by_rewriting_a_record(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    let page = format!("at://{ALICE}/io.atcr.repo.page/app");
    stage.labeler.say_label(Label { cid: Some("bafyold".into()), ..Label::of(&page, TAKEDOWN) });
    stage.heard_all().await;
    put_page(&stage, "app", "another/name").await;
    assert!(is_down(&stage, ALICE, Some("app"), None, None).await);
    stage.stop().await;
}

// S35: bluesky-social/atproto#2552
async fn what_is_hidden_is_gone_from_a_list_that_joins_the_view(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    put_page(&stage, "app", "app").await;
    for (digit, repository) in [('a', "app"), ('b', "app"), ('c', "other")] {
        let insert = format!(
            "INSERT INTO manifests (did, rkey, repository, digest, media_type, schema_version, created_at)
             VALUES ('{ALICE}', '{}', '{repository}', '{}', 'm', 2, 1)",
            digit.to_string().repeat(64),
            digest(digit)
        );
        stage.place.execute(&insert).await;
    }
    let list = "SELECT m.digest AS line FROM manifests m WHERE NOT EXISTS (
                    SELECT 1 FROM taken_down t WHERE t.did = m.did AND (t.subject = 'account'
                        OR t.repository = m.repository OR t.digest = m.digest)) ORDER BY m.digest";
    let listed = async |stage: &Stage| stage.place.lines(list).await;
    assert_eq!(listed(&stage).await.len(), 3);
    stage.labeler.say(&manifest('a'), TAKEDOWN);
    stage.heard_all().await;
    assert_eq!(listed(&stage).await, [digest('b'), digest('c')]);
    stage.labeler.say(&format!("at://{ALICE}/io.atcr.repo.page/app"), TAKEDOWN);
    stage.heard_all().await;
    assert_eq!(listed(&stage).await, [digest('c')]);
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.heard_all().await;
    assert_eq!(listed(&stage).await, [""; 0]);
    for uri in [manifest('a'), format!("at://{ALICE}/io.atcr.repo.page/app"), ALICE.to_owned()] {
        stage.labeler.negate(&uri, TAKEDOWN);
    }
    stage.heard_all().await;
    assert_eq!(listed(&stage).await.len(), 3);
    stage.stop().await;
}

async fn a_sweep_forgets_old_ends_and_a_replay_brings_back_none_for_good(kind: Kind) {
    let mut stage = Stage::following(kind).await;
    stage.labeler.say(ALICE, TAKEDOWN);
    stage.labeler.negate(ALICE, TAKEDOWN);
    stage.labeler.say("did:plc:bob", TAKEDOWN);
    stage
        .labeler
        .say_label(Label::of("did:plc:carol", TAKEDOWN).until(super::stage::in_seconds(-40 * 24 * 3600)));
    stage.heard_all().await;
    stage.stop().await;
    stage.place.execute("UPDATE labels SET ended_at = ended_at - 2678400000000 WHERE neg").await;
    let sweep = atcr_workers::store::SWEEPS.iter().find(|sweep| sweep.table == "labels").unwrap();
    let term = leased_actors::lease::Term::new(
        leased_actors::lease::TermId {
            name: "work".parse().unwrap(),
            holder: leased_actors::testing::registration("here").incarnation,
            epoch: leased_actors::lease::Epoch(1),
        },
        crate::store::fixture::trust(),
    );
    let swept = async move |tx: &mut atcr_workers::store::Tx| tx.sweep(sweep, super::stage::NEVER).await;
    assert_eq!(stage.database.fenced(&term, swept).await.unwrap(), 2);
    assert_eq!(stage.hidden().await, ["did:plc:bob"]);
    stage.place.execute("UPDATE labeler_cursor SET seq = 0").await;
    stage.start_and_subscribe().await;
    stage.hides_what_the_labeler_says().await;
    assert_eq!(stage.hidden().await, ["did:plc:bob"]);
    stage.stop().await;
}
