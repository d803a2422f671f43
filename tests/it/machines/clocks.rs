//! Clocks that are far off: leases go by none of them, nothing is lost, and it is said.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::Started;
use crate::support::{
    eventually::eventually_blocking,
    machine::at_time,
    place::{Kind, on_both_databases},
    process::{Exit, Instance},
    stage::{PATIENCE, Stage, until_in, until_standby},
};

on_both_databases!(
    a_clock_in_the_next_century_is_told_where_that_can_be_known_and_leases_move_as_ever,
    a_clock_in_1970_is_told_and_neither_moves_a_position_nor_a_lease,
);

fn start_at(stage: &Stage, time: &str) -> Option<Instance> {
    let environment: BTreeMap<_, _> = stage.environment(time);
    let fake = at_time("an instance whose clock is far off", time)?;
    Some(Started::new(&[], &["run"], stage.place.url()).with(environment).with(fake).start())
}

fn complains(instance: &Instance, parts: &[&str]) {
    instance.wait_for_line("it complains of the clock", PATIENCE, |line| {
        line.contains("WARN") && parts.iter().all(|part| line.contains(part))
    });
}

async fn a_clock_in_the_next_century_is_told_where_that_can_be_known_and_leases_move_as_ever(kind: Kind) {
    let stage = Stage::new(kind).await;
    let Some(mut ahead) = start_at(&stage, "@2100-01-01 00:00:00") else { return };
    until_in(&ahead, "running");
    if kind == Kind::Postgres {
        complains(&ahead, &["2100-01-01", "the database server's says"]);
    }
    stage.changes(1, 20);
    stage.caught_up().await;
    let epoch = stage.epoch().await;
    let right = stage.start("right");
    until_standby(&right);
    if kind == Kind::Sqlite {
        complains(&right, &["a row of 2100-01-01"]);
    }
    ahead.signal(Signal::TERM);
    assert_eq!(ahead.wait_exit(PATIENCE), Exit::Code(0));
    until_in(&right, "running");
    assert!(stage.epoch().await > epoch, "epochs rise, whatever the clocks say");
    stage.changes(2, 20);
    stage.is_the_source().await;
    right.signal(Signal::KILL);
    until_in(&stage.start("next"), "running");
}

async fn a_clock_in_1970_is_told_and_neither_moves_a_position_nor_a_lease(kind: Kind) {
    let stage = Stage::new(kind).await;
    let select = "SELECT CAST(time_us AS TEXT) AS line FROM stream_cursor";
    let stood = stage.place.lines(select).await;
    let Some(mut behind) = start_at(&stage, "@1970-01-02 00:00:00") else { return };
    until_in(&behind, "running");
    complains(&behind, &["1970-01-02", "NTP"]);
    stage.changes(1, 20);
    complains(&behind, &["ahead of this machine's clock", "is the clock right?"]);
    eventually_blocking("what comes is of the future", PATIENCE, || {
        let dropped = behind.metric("atcr_stream_dropped_total", &[("reason", "future")]);
        if dropped >= Some(20.0) { Ok(()) } else { Err(dropped) }
    });
    let epoch = stage.epoch().await;
    let right = stage.start("right");
    until_standby(&right);
    behind.signal(Signal::TERM);
    assert_eq!(behind.wait_exit(PATIENCE), Exit::Code(0));
    assert_eq!(stage.place.lines(select).await, stood, "nothing was passed over");
    until_in(&right, "running");
    assert!(stage.epoch().await > epoch);
    stage.is_the_source().await;
}
