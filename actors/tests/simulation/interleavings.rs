//! Calls and answers of one instance that overtake one another in every way that chance finds.

use std::time::Duration;

use leased_actors::clock::{Clock, Moment};
use leased_actors::lease::instance::{Event, Instance};
use leased_actors::lease::slot::{Command, Slot};
use leased_actors::lease::{Effects, Incarnation, LeaseName, LeaseStore, TermId};
use leased_actors::memory::MemoryStore;
use leased_actors::restart::Intensity;
use leased_actors::testing::registration;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::world::{TIMING, now};

const INTERLEAVINGS: u64 = 10_000;
const STEPS: usize = 150;

/// What has been sent and has not arrived.
enum UnderWay {
    Call(Command, Moment),
    Answer(Event),
}

/// One instance and its store, and everything between them.
struct Between {
    clock: Clock,
    store: MemoryStore,
    instance: Instance,
    random: StdRng,
    under_way: Vec<UnderWay>,
    /// Terms whose release the store has acknowledged.
    released: Vec<TermId>,
    renewals_after_release: usize,
}

fn name() -> LeaseName {
    "work".parse().unwrap()
}

impl Between {
    fn new(seed: u64) -> Self {
        let (clock, effects) =
            (Clock::manual(), [Effects::Fenced, Effects::External][usize::from(seed % 2 == 1)]);
        let slot = Slot::new(name(), effects, Intensity::default());
        Self {
            store: MemoryStore::new(clock.clone()),
            clock,
            instance: Instance::new(TIMING, vec![slot]),
            random: StdRng::seed_from_u64(seed),
            under_way: vec![],
            released: vec![],
            renewals_after_release: 0,
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0 | 1 => {
                self.clock.advance(Duration::from_millis(self.random.random_range(1..400)));
                self.hear(Event::Tick);
            }
            // An operator's wish is what makes it release.
            2 => self.store.pause(&name(), self.random.random()),
            3 => {
                let worker = self.instance.slots().next().and_then(|slot| slot.term().cloned());
                worker.into_iter().for_each(|term| self.hear(Event::Ended(term)));
            }
            _ if self.under_way.is_empty() => {}
            _ => match self.under_way.swap_remove(self.random.random_range(0..self.under_way.len())) {
                UnderWay::Call(command, sent) => self.call(command, sent),
                UnderWay::Answer(event) => self.hear(event),
            },
        }
        self.check();
    }

    fn hear(&mut self, event: Event) {
        let sent = self.clock.now();
        for command in self.instance.step(event, sent, 0.0) {
            if let Command::Start(term, _) | Command::Restart(term) = &command {
                assert!(!self.released.contains(term), "{term} starts after its release");
            }
            match command {
                Command::Stop { term, .. } => self.under_way.push(UnderWay::Answer(Event::Ended(term))),
                Command::Trust(_) | Command::EndTrust | Command::Listen(_) => {}
                Command::Start(..) | Command::Restart(_) | Command::End => {}
                call => self.under_way.push(UnderWay::Call(call, sent)),
            }
        }
    }

    fn call(&mut self, command: Command, sent: Moment) {
        let answer = match command {
            Command::Register => {
                let me = registration("one");
                Event::Registered(me.incarnation, now(self.store.register(&me, &[name()])))
            }
            Command::Renew(me) => {
                self.renewals_after_release += usize::from(!self.released.is_empty());
                Event::Renewed(me, sent, now(self.store.renew(me)))
            }
            Command::Claim(ask) => Event::Claimed(name(), ask.me, now(self.store.claim(&ask))),
            Command::Release(term, how) => {
                let reply = now(self.store.release(&term, how));
                self.released.extend((reply == Ok(true)).then(|| term.clone()));
                Event::Released(term, reply)
            }
            Command::Bury(me) => Event::Buried(now(self.store.bury(me))),
            other => unreachable!("{other:?}: nobody else is there, and nobody ends"),
        };
        self.under_way.push(UnderWay::Answer(answer));
    }

    /// No row names a term again whose release was acknowledged.
    fn check(&self) {
        let lease = now(self.store.list()).unwrap().pop();
        let Some((lease, holder)) =
            lease.and_then(|lease| lease.holder.clone().map(|holder| (lease, holder)))
        else {
            return;
        };
        let holder: Incarnation = holder.incarnation;
        let revived = |term: &TermId| term.holder == holder && term.epoch == lease.epoch;
        assert!(!self.released.iter().any(revived), "epoch {} is back", lease.epoch);
    }
}

// L32: awslabs/dynamodb-lock-client#29 #6 #62; tristanls#1 #21; ray#63773
#[test]
fn no_renewal_brings_a_released_term_back_in_ten_thousand_interleavings() {
    let (mut released, mut renewed) = (0, 0);
    for seed in 0..INTERLEAVINGS {
        let mut between = Between::new(seed);
        between.hear(Event::Tick);
        (0..STEPS).for_each(|_| between.step());
        released += between.released.len();
        renewed += between.renewals_after_release;
    }
    assert!(released > 10_000 && renewed > 10_000, "{released} releases, {renewed} renewals after one");
}
