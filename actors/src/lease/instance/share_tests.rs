//! How several instances share many leases out: who asks for which, and who waits.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::lease::{Epoch, Heartbeat, LeaseRow, Peer};
use crate::restart::Intensity;

const TIMING: Timing = Timing::POSTGRES;

const NOW: Moment = Moment::from_nanos(1 << 40);

const LEASES: u8 = 12;

fn name(of: u8) -> LeaseName {
    format!("work-{of:02}").parse().unwrap()
}

/// The lease as a renewal shows it.
fn row(of: u8, holder: Option<Incarnation>) -> LeaseRow {
    LeaseRow {
        name: name(of),
        epoch: Epoch(1),
        holder,
        holder_alive: holder.is_some(),
        paused: false,
        desired: None,
        cool_down: Duration::ZERO,
        failures: 0,
    }
}

/// A renewal's answer: these instances, and who has each lease.
fn world(peers: &[Incarnation], holder: impl Fn(u8) -> Option<Incarnation>) -> Renewal {
    let peer = |who: &Incarnation| Peer { incarnation: *who, renew_seq: 1, ttl: TIMING.ttl, up: true };
    Renewal::Alive(Heartbeat {
        leases: (0..LEASES).map(|of| row(of, holder(of))).collect(),
        peers: peers.iter().map(peer).collect(),
    })
}

fn registered(me: Incarnation) -> Instance {
    let slots = (0..LEASES).map(|of| Slot::new(name(of), Effects::Fenced, Intensity::default())).collect();
    let mut instance = Instance::new(TIMING, slots);
    instance.step(Event::Registered(me, Ok(())), NOW, 0.0);
    instance
}

/// The leases that an instance asks for.
fn asked(commands: &[Command]) -> BTreeSet<LeaseName> {
    let ask = |command: &Command| match command {
        Command::Claim(ask) => Some(ask.name.clone()),
        _ => None,
    };
    commands.iter().filter_map(ask).collect()
}

#[test]
fn instances_that_see_the_same_free_leases_ask_for_different_ones() {
    let all: Vec<_> = std::iter::repeat_with(Incarnation::new).take(3).collect();
    let ask = |me: &Incarnation| {
        let renewed = Event::Renewed(*me, NOW, Ok(world(&all, |_| None)));
        asked(&registered(*me).step(renewed, NOW, 0.0))
    };
    let asked: Vec<_> = all.iter().map(ask).collect();
    assert!(asked.iter().all(|leases| leases.len() == 4), "{asked:?}");
    assert_eq!(asked.iter().flatten().collect::<BTreeSet<_>>().len(), 12, "{asked:?}");
}

#[test]
fn each_lease_beyond_the_share_waits_longer_than_the_one_before_it() {
    let (me, other) = (Incarnation::new(), Incarnation::new());
    let mut instance = registered(me);
    let commands = instance.step(Event::Renewed(me, NOW, Ok(world(&[me, other], |_| None))), NOW, 0.0);
    assert_eq!(asked(&commands).len(), 6);
    let mut waits: Vec<_> =
        instance.slots().filter_map(Slot::due).map(|at| at.since(NOW).as_millis()).collect();
    waits.sort_unstable();
    assert_eq!(waits, [50, 100, 150, 200, 250, 300]);
    let later = NOW + Duration::from_millis(100);
    assert_eq!(asked(&instance.step(Event::Tick, later, 0.0)).len(), 2, "nobody came for them");
}

/// A dead one's leases are nobody's share but that of those who are left.
#[test]
fn who_waits_for_others_asks_at_once_when_its_share_has_grown() {
    let (me, other, dead) = (Incarnation::new(), Incarnation::new(), Incarnation::new());
    let mut instance = registered(me);
    let holder = |of: u8| Some([me, other, dead][usize::from(of % 3)]);
    instance.step(
        Event::Renewed(me, NOW, Ok(world(&[me, other, dead], |of| holder(of).filter(|who| *who != me)))),
        NOW,
        0.0,
    );
    let later = NOW + Duration::from_millis(10);
    for of in (0..LEASES).step_by(3) {
        let term = TermId { name: name(of), holder: me, epoch: Epoch(1) };
        let after = crate::lease::HandOver { reason: "first", gap: Duration::ZERO };
        let claim = Claim { term, wait: Duration::ZERO, after };
        instance.step(Event::Claimed(name(of), me, Ok(Some(claim))), later, 0.0);
    }
    let news = instance.step(Event::News(me, News::Beaconless(dead)), later, 0.0);
    assert!(asked(&news).is_empty() && news.contains(&Command::Bury(me)), "the others are told: {news:?}");
    let later = later + Duration::from_millis(10);
    let left = world(&[me, other], |of| holder(of).filter(|who| *who != dead));
    assert_eq!(asked(&instance.step(Event::Renewed(me, later, Ok(left)), later, 0.0)).len(), 2);
}
