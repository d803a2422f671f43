//! Who is asked, by whom, how often, and what is told of it.

use std::net::TcpListener;

use localnet::network::Fault;

use super::stage::{HEALTH, after_a_round, asked, fails, has_captain, has_manifest, stage, told};
use crate::support::{
    eventually::eventually,
    index,
    place::{Kind, on_both_databases},
    process::Exit,
    stage::{PATIENCE, Stage},
};

on_both_databases!(every_instance_asks_each_hold_and_tells_what_it_found);

/// One hold for each way to answer and not to.
async fn every_instance_asks_each_hold_and_tells_what_it_found(kind: Kind) {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stage = stage(kind).await.with("ATCR__REGISTRY__DEFAULT_HOLD_DID", "did:web:own.test");
    let stage = stage.with("ATCR__REGISTRY__MANAGED_HOLDS", "did:web:managed.test");
    let (on_pds, nobody) = (stage.net.add_account("plc-hold"), "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa");
    let closed = format!("did:web:localhost%3A{closed}");
    for hold in ["did:web:up.test", "did:web:slow.test", "did:web:broken.test", &on_pds] {
        has_captain(&stage, hold).await;
    }
    for hold in ["did:web:up.test", "did:web:html.test", "did:web:elsewhere.test", "did:web:silent.test"] {
        has_manifest(&stage, hold).await;
    }
    for hold in [nobody, &closed, "did:web:intranet", "did:key:zq3"] {
        has_manifest(&stage, hold).await;
    }
    fails(&stage, "slow.test", Fault::SlowBody);
    fails(&stage, "broken.test", Fault::Status(500));
    fails(&stage, "html.test", Fault::Html(404));
    fails(&stage, "elsewhere.test", Fault::Redirect(1));
    fails(&stage, "silent.test", Fault::Never);
    let before = index::read(stage.place.url(), index::CONTENT).await.unwrap();

    let instances = [stage.start("one"), stage.start("two")];
    for instance in &instances {
        let found = after_a_round(instance);
        let down = |hold: &str, why: &str| {
            let (found, state) = (&found[hold], "unreachable");
            assert_eq!(
                (found["state"].as_str(), &found["reachable"]),
                (Some(state), &false.into()),
                "{hold}"
            );
            assert!(found["error"].as_str().unwrap().contains(why), "{found}");
        };
        for up in ["up", "slow", "own", "managed"]
            .map(|name| format!("did:web:{name}.test"))
            .iter()
            .chain([&on_pds])
        {
            let found = &found[up];
            assert_eq!(
                (found["state"].as_str(), &found["error"]),
                (Some("reachable"), &().into()),
                "{found}"
            );
            assert!(found["checked_at"].is_string(), "{found}");
        }
        down("did:web:broken.test", "status 500");
        down("did:web:html.test", "status 404");
        down("did:web:elsewhere.test", "status 302");
        down("did:web:silent.test", "within 5s");
        down(&closed, "efused");
        down(nobody, "does not exist");
        down("did:web:intranet", "host name");
        down("did:key:zq3", "neither plc nor web");
        assert_eq!(found.len(), 13);
        assert_eq!(told(instance, "?did=did:web:up.test"), (200, found["did:web:up.test"].clone()));
        let of = |state| instance.metric("atcr_hold_health_holds", &[("state", state)]);
        assert_eq!([of("reachable"), of("unreachable"), of("unknown")], [Some(5.0), Some(8.0), Some(0.0)]);
        let missing = instance.lines().into_iter().find(|line| line.contains("not in this version yet"));
        assert!(missing.is_none_or(|line| !line.contains("hold-health")));
    }
    // Each has asked all that have a server, once; nobody has asked another one's answers.
    assert_eq!(asked(&stage, None), 2 * 9);
    assert_eq!([asked(&stage, Some("up.test")), asked(&stage, Some("silent.test"))], [2, 2]);
    assert_eq!(index::read(stage.place.url(), index::CONTENT).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_not_asked_yet_is_asked_once_for_all_who_want_to_know() {
    let stage = stage(Kind::Sqlite).await.with("ATCR__REGISTRY__DEFAULT_HOLD_DID", "did:web:first.test");
    let stage = stage.with("ATCR__HOLD_HEALTH__CONCURRENCY", "1");
    has_captain(&stage, "did:web:wanted.test").await;
    fails(&stage, "first.test", Fault::Late(3_000));
    fails(&stage, "wanted.test", Fault::Late(500));
    let instance = stage.start("one");
    eventually("the first hold is being asked", PATIENCE, async || match asked(&stage, Some("first.test")) {
        1 => Ok(()),
        n => Err(n),
    })
    .await;

    let states: Vec<_> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| told(&instance, "?did=did:web:wanted.test").1["state"].clone());
        let asking: Vec<_> = (0..20).map(|_| ask()).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(states, vec!["reachable"; 20]);
    after_a_round(&instance);
    assert_eq!(asked(&stage, Some("wanted.test")), 1, "GET {HEALTH}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_unknown_taken_for_reachable_and_not_asked() {
    let stage = stage(Kind::Sqlite).await;
    let mut instance = stage.start("one");
    after_a_round(&instance);
    for query in ["?did=did:web:stranger.test", "?did=did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"] {
        let (status, hold) = told(&instance, query);
        assert_eq!(
            (status, hold["state"].as_str(), &hold["reachable"]),
            (200, Some("unknown"), &true.into())
        );
    }
    assert_eq!((asked(&stage, None), stage.net.visits().len()), (0, 0));
    assert_eq!(told(&instance, "?did=no-did").0, 400);
    instance.signal(rustix::process::Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_asks_every_hold_is_taken_for_reachable() {
    let stage: Stage = stage(Kind::Sqlite).await.with("ATCR__HOLD_HEALTH__ENABLED", "false");
    has_captain(&stage, "did:web:up.test").await;
    let instance = stage.start("one");
    let (status, list) = told(&instance, "");
    assert_eq!((status, &list["enabled"], list["holds"].as_array().unwrap().len()), (200, &false.into(), 0));
    assert_eq!(told(&instance, "?did=did:web:up.test").1["reachable"], true);
}
