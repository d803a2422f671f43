//! For each invariant a history that breaks it, which is found, beside the good one, which passes.

use super::{check, rows};
use crate::history::{Event, RUNNER, What};

const MS: u64 = 1_000_000;

/// At a millisecond, by process `p`, whose incarnation has the same name.
fn at(ms: u64, p: &str, what: What) -> Event {
    Event { at: ms * MS, ..Event::now(p, what) }.by(p)
}

fn of(ms: u64, p: &str, name: &str, epoch: i64, what: What) -> Event {
    at(ms, p, what).of(name, epoch)
}

fn runner(ms: u64, what: What) -> Event {
    Event { at: ms * MS, ..Event::now(RUNNER, what) }
}

fn claimed(sent_ms: u64, wait_ms: u64) -> What {
    What::Claimed { sent: sent_ms * MS, wait: wait_ms * MS, reason: "released".into() }
}

fn began(ms: u64, p: &str) -> Event {
    let time = |ms: u64| ms * MS;
    let what = What::Began {
        pid: 1,
        label: p.into(),
        renew_every: time(200),
        trust_for: time(800),
        stop_within: time(500),
        grace: time(1_300),
        ttl: time(1_500),
        poll_every: time(300),
    };
    Event { at: ms * MS, ..Event::now(p, what) }
}

fn released(sent_ms: u64) -> What {
    What::Released { sent: sent_ms * MS, ours: true }
}

/// Two processes, `a` and `b`; `a` has the lease from 1,000 and gives it to `b` at 2,000, which has it until 3,000.
fn good() -> Vec<Event> {
    let mut events =
        vec![began(0, "a"), at(10, "a", What::Registered), began(0, "b"), at(10, "b", What::Registered)];
    for beat in 1..=15 {
        let sent = beat * 200;
        events.extend(["a", "b"].map(|p| at(sent + 5, p, What::Renewed { sent: sent * MS })));
    }
    let external = What::Started { external: true };
    events.extend([
        of(1_000, "a", "x", 1, claimed(990, 0)),
        of(1_001, "a", "x", 1, external.clone()),
        runner(1_500, What::Fault { nemesis: "stop".into(), within: 100 * MS, heals: false }),
        of(1_990, "a", "x", 1, What::Stopped),
        of(2_000, "a", "x", 1, released(1_991)),
        of(2_010, "b", "x", 2, claimed(2_005, 0)),
        of(2_011, "b", "x", 2, external),
        at(2_100, "a", What::Closing),
        Event { incarnation: None, ..at(2_200, "a", What::Exit { code: 0 }) },
        of(2_995, "b", "x", 2, What::Stopped),
        of(3_000, "b", "x", 2, released(2_996)),
    ]);
    events.extend((0..190).map(|n| of(1_002 + n * 5, "a", "x", 1, What::Acted)));
    events.extend((0..190).map(|n| of(2_012 + n * 5, "b", "x", 2, What::Acted)));
    for n in 1..=50_i64 {
        let sent = n.unsigned_abs() * 60;
        let both = [What::Ordered { place: n, n }, What::Committed { n }];
        events.extend(both.map(|what| of(sent, "b", "y", 1, what)));
    }
    events.sort_by_key(|event| event.at);
    events
}

/// The good history with these lines added shows a break of this invariant, and of no other.
#[track_caller]
fn breaks(invariant: u8, more: &[Event]) {
    let mut events = good();
    events.extend_from_slice(more);
    finds(invariant, &events);
}

#[track_caller]
fn finds(invariant: u8, events: &[Event]) {
    let found = check(events);
    assert!(found.iter().any(|v| v.invariant == invariant), "not found: I{invariant} in {found:?}");
    assert!(found.iter().all(|v| v.invariant == invariant), "more than I{invariant}: {found:?}");
    assert!(found.iter().all(|v| v.lines.iter().all(|line| *line >= 1 && *line <= events.len())));
}

#[test]
fn a_good_history_passes() {
    assert_eq!(check(&good()), []);
}

#[test]
fn i1_an_epoch_that_does_not_rise_is_found() {
    breaks(1, &[of(3_100, "b", "x", 1, claimed(3_050, 0)), of(3_150, "b", "x", 1, What::Lost)]);
    breaks(
        1,
        &[
            of(3_100, "b", "z", 5, claimed(3_050, 0)),
            of(3_200, "a", "z", 5, What::Listed),
            of(3_201, "a", "z", 5, What::Lost),
        ],
    );
}

#[test]
fn i2_two_that_run_at_once_are_found_unless_one_was_paused() {
    let overlap = [of(2_300, "a", "x", 1, What::Stopped)];
    let mut events = good();
    events.retain(|e| {
        !(e.process == "a" && matches!(e.what, What::Stopped | What::Released { .. } | What::Exit { .. }))
    });
    events.extend(overlap);
    finds(2, &events);
    events.push(at(1_200, "a", What::Paused));
    events.push(at(2_250, "a", What::Resumed));
    events.retain(|e| !(e.process == "a" && e.what == What::Acted && e.at > 1_200 * MS));
    assert!(check(&events).iter().all(|v| v.invariant != 2));
    breaks(2, &[of(2_030, "b", "x", 1, What::Acted)].map(|e| Event { incarnation: None, ..e }));
}

#[test]
fn i3_an_old_epoch_that_commits_late_is_found() {
    breaks(
        3,
        &[
            of(0, "b", "y", 2, What::Ordered { place: 51, n: 1 }),
            of(0, "a", "y", 1, What::Ordered { place: 52, n: 99 }),
        ]
        .map(|e| Event { incarnation: None, ..e }),
    );
    breaks(3, &[of(1_300, "b", "y", 1, What::Refused { n: 3 })]);
    let mut events = good();
    events.push(of(1_405, "b", "y", 1, What::Committed { n: 99 }));
    finds(3, &events);
}

#[test]
fn i4_a_release_that_changes_another_epoch_is_found() {
    breaks(4, &[of(2_500, "a", "x", 1, released(2_400))]);
}

#[test]
fn i5_a_dead_incarnation_that_renews_is_found() {
    breaks(
        5,
        &[Event {
            incarnation: None,
            ..at(2_500, "a", What::Declared { who: "b".into(), sent: 2_450 * MS })
        }],
    );
}

#[test]
fn i6_a_release_before_the_stop_is_found() {
    let mut events = good();
    for event in &mut events {
        if event.what == released(2_996) {
            event.what = released(2_900);
        }
    }
    finds(6, &events);
}

#[test]
fn i7_an_exit_that_leaves_a_term_is_found() {
    breaks(7, &[of(1_800, "a", "z", 1, claimed(1_700, 0))]);
}

#[test]
fn i8_a_worker_that_outlives_its_trust_is_found() {
    let mut events = good();
    events.retain(|e| !(e.process == "b" && matches!(e.what, What::Renewed { .. }) && e.at > 2_050 * MS));
    events.push(of(4_000, "b", "x", 2, What::Acted));
    events.retain(|e| !(e.process == "b" && matches!(e.what, What::Stopped | What::Released { .. })));
    events.push(of(4_001, "b", "x", 2, What::Stopped));
    events.push(runner(2_050, What::Fault { nemesis: "cut".into(), within: 9_000 * MS, heals: false }));
    finds(8, &events);
    let mut suspended = good();
    suspended.retain(|e| !(e.process == "b" && matches!(e.what, What::Renewed { .. }) && e.at > 2_250 * MS));
    suspended.push(at(2_300, "b", What::Shifted { by: 120_000 * MS }));
    finds(8, &suspended);
}

#[test]
fn i9_a_lease_that_nobody_runs_is_found() {
    let late = [
        began(0, "c"),
        at(5_900, "c", What::Renewed { sent: 5_900 * MS }),
        of(6_000, "c", "x", 3, What::Acted),
    ];
    breaks(9, &late);
    let mut waits = good();
    waits.push(runner(3_500, What::Settled));
    assert_eq!(check(&waits), []);
    let mut never = good();
    never.push(runner(9_000, What::Settled));
    finds(9, &never);
}

#[test]
fn i10_a_start_without_claim_trust_or_wait_is_found() {
    breaks(10, &[of(2_500, "b", "fenced-9", 4, What::Started { external: false })]);
    let wait = [
        of(2_400, "b", "fenced-9", 4, claimed(2_390, 600)),
        of(2_500, "b", "fenced-9", 4, What::Started { external: false }),
    ];
    breaks(10, &wait);
    let mut untrusted = good();
    untrusted.extend([
        of(4_500, "b", "fenced-9", 4, claimed(4_490, 0)),
        of(4_501, "b", "fenced-9", 4, What::Started { external: false }),
    ]);
    finds(10, &untrusted);
}

#[test]
fn i10_a_wait_that_another_owed_is_carried() {
    let carried = [
        of(2_100, "a", "fenced-9", 4, claimed(2_090, 900)),
        of(2_150, "a", "fenced-9", 4, What::Lost),
        of(2_200, "b", "fenced-9", 5, claimed(2_190, 0)),
        of(2_500, "b", "fenced-9", 5, What::Started { external: false }),
    ];
    breaks(10, &carried);
}

#[test]
fn i11_a_process_that_ends_and_starts_a_worker_is_found() {
    breaks(
        11,
        &[
            of(2_500, "a", "fenced-9", 4, claimed(2_490, 0)),
            of(2_501, "a", "fenced-9", 4, What::Started { external: false }),
            of(2_502, "a", "fenced-9", 4, What::Stopped),
            of(2_503, "a", "fenced-9", 4, released(2_503)),
        ],
    );
}

#[test]
fn i12_a_worker_that_starts_again_and_again_is_found() {
    let mut more = vec![of(2_400, "b", "fenced-9", 4, claimed(2_390, 0))];
    more.extend((0..5).flat_map(|n| {
        [(0, What::Started { external: false }), (1, What::Stopped)]
            .map(|(late, what)| of(2_410 + n * 10 + late, "b", "fenced-9", 4, what))
    }));
    breaks(12, &more);
}

#[test]
fn i13_leases_on_one_instance_and_needless_moves_are_found() {
    let mut events = good();
    events.retain(|e| e.what != What::Closing && e.what != What::Exit { code: 0 });
    events.push(runner(2_300, What::Quiet));
    events.extend((1..=3).flat_map(|n| {
        let name = format!("idle-{n}");
        [
            of(2_310, "b", &name, 1, claimed(2_305, 0)),
            of(2_311, "b", &name, 1, What::Started { external: false }),
        ]
    }));
    events.push(runner(2_900, What::Settled));
    finds(13, &events);
}

#[test]
fn i14_a_process_that_never_comes_back_is_found() {
    let mut events = good();
    events.push(Event { at: 3_100 * MS, ..at(3_100, "b", What::Dead) });
    assert_eq!(check(&events), []);
    events.push(runner(3_600, What::Settled));
    finds(14, &events);
}

#[test]
fn i15_calls_that_grow_are_found() {
    let mut events = good();
    events.push(runner(2_300, What::Quiet));
    events.extend((0..40).map(|n| at(2_301 + n, "b", What::Looked)));
    events.push(runner(2_900, What::Settled));
    finds(15, &events);
}

#[test]
fn a_row_tells_the_longest_time_without_an_effect() {
    let rows = rows(&good());
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].claims, rows[0].slowest), (1, (2_012 - 1_947) * MS));
}
