//! Many leases: what a statement count has to do with them, and how fast a dead instance's are running again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Place;
use crate::contenders::{Began, Contenders};
use crate::idle;
use crate::process::ms;

const LEASES: [usize; 2] = [5, 500];

const INSTANCES: usize = 10;

/// For a first balance, and for the one after a crash: twice what it may take.
const BALANCE_WITHIN: Duration = Duration::from_secs(120);

/// Who works under which lease.
#[derive(Default)]
struct Loads {
    of: BTreeMap<String, usize>,
}

impl Loads {
    fn take(&mut self, began: &Began) {
        self.of.insert(began.lease.clone(), began.by);
    }

    /// The most and the least that one of these has.
    fn spread(&self, living: &[usize]) -> (usize, usize) {
        let count = |who: &usize| self.of.values().filter(|by| *by == who).count();
        let counts: Vec<usize> = living.iter().map(count).collect();
        (counts.iter().max().copied().unwrap_or(0), counts.iter().min().copied().unwrap_or(0))
    }

    fn is_even(&self, living: &[usize]) -> bool {
        let (most, least) = self.spread(living);
        most - least <= 1
    }
}

/// Statements of two instances in steady state, with few leases and with many. The server counts them.
pub(crate) fn statements(place: &Place<'_>) {
    for leases in LEASES {
        let place = place.another();
        let mut contenders = Contenders::new(&["--leases", &leases.to_string()]);
        let url = place.url();
        contenders.start(&url, None);
        let mut loads = Loads::default();
        while loads.of.len() < leases {
            loads.take(&contenders.began());
        }
        contenders.start(&url, None);
        contenders.until_registered();
        until_even(&contenders, &mut loads, &[0, 1]);
        println!("{leases} leases: {}", idle::watch(&place, contenders.group.pid(1), 2));
    }
}

/// Ten instances, one killed.
pub(crate) fn crash(place: &Place<'_>) {
    let [_, leases] = LEASES;
    let place = place.another();
    let (url, name) = (place.url(), place.name());
    let mut contenders = Contenders::new(&["--leases", &leases.to_string()]);
    let begun = Instant::now();
    (0..INSTANCES).for_each(|_| contenders.start(&url, None));
    let mut loads = Loads::default();
    while loads.of.len() < leases {
        loads.take(&contenders.began());
    }
    println!(
        "{name} | {leases} leases, {INSTANCES} instances | all running after {:.0} ms",
        ms(begun.elapsed())
    );
    let all: Vec<usize> = (0..INSTANCES).collect();
    let (even, took) = until_even(&contenders, &mut loads, &all);
    println!("{name} | first balance | {} s, {even:?} at most and least", took.as_secs());

    let mut lost: Vec<String> =
        loads.of.iter().filter(|(_, by)| **by == 0).map(|(name, _)| name.clone()).collect();
    let (count, killed) = (lost.len(), contenders.signal(0, Signal::KILL));
    let mut last = killed;
    while !lost.is_empty() {
        let began = contenders.began();
        lost.retain(|name| *name != began.lease);
        (last, _) = (began.at, loads.take(&began));
    }
    println!(
        "{name} | one killed that had {count} | all running after {:.0} ms | bound 1000",
        ms(last - killed)
    );
    let (even, took) = until_even(&contenders, &mut loads, &all[1..]);
    println!("{name} | balance after it | {} s, {even:?} at most and least | bound 60 s", took.as_secs());
}

/// Waits until nobody has more than one lease more than another; the loads then, and how long it took.
fn until_even(contenders: &Contenders, loads: &mut Loads, living: &[usize]) -> ((usize, usize), Duration) {
    let begun = Instant::now();
    while !loads.is_even(living) && begun.elapsed() < BALANCE_WITHIN {
        if let Some(began) = contenders.began_within(Duration::from_secs(1)) {
            loads.take(&began);
        }
    }
    (loads.spread(living), begun.elapsed())
}
