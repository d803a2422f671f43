//! What probes are told: who runs what here, that standing by is healthy, and that a database that is away is no reason to
//! start anew.

use serde_json::{Value, json};

use crate::support::{
    eventually::eventually_blocking,
    http,
    place::{Kind, Place, on_both_databases},
    postgres::{Postgres, Stop},
    process::Instance,
    stage::{PATIENCE, Stage, until_ready, until_standby},
};

on_both_databases!(readiness_says_which_workers_run_here_and_that_standing_by_is_ready);

async fn readiness_says_which_workers_run_here_and_that_standing_by_is_ready(kind: Kind) {
    let stage = Stage::new(kind).await;
    let instances = ["one", "two"].map(|label| stage.start(label));
    let worker = stage.worker(&instances.each_ref());
    let (working, standby) = (&instances[worker], &instances[1 - worker]);
    until_standby(standby);
    let told = |instance: &Instance| {
        let (status, answer) = asked(instance);
        assert_eq!(status, 200, "{answer}");
        [&answer["ready"], &answer["reason"], &answer["running"], &answer["standing_by"]].map(Value::clone)
    };
    assert_eq!(told(working), [json!(true), Value::Null, json!(["jetstream"]), json!(false)]);
    assert_eq!(told(standby), [json!(true), Value::Null, json!([]), json!(true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_database_an_instance_is_not_ready_and_alive_all_the_same() {
    let server = Postgres::private();
    let stage = Stage::on(Place::on(&server).await).await;
    let instance = stage.start("alone");
    until_ready(&instance);
    server.stop(Stop::Fast);
    let answer = eventually_blocking("it is not ready", PATIENCE, || match asked(&instance) {
        (503, answer) => Ok(answer),
        other => Err(other),
    });
    assert_eq!((&answer["ready"], &answer["standing_by"]), (&json!(false), &json!(false)));
    assert!(answer["reason"].as_str().unwrap().contains("is the database away?"), "{answer}");
    let alive = http::get(&format!("http://{}/healthz", instance.admin_address())).unwrap();
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok\n"));
    server.start();
    until_ready(&instance);
}

fn asked(instance: &Instance) -> (u16, Value) {
    let answer = http::get(&format!("http://{}/readyz", instance.admin_address())).unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}
