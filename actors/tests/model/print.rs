//! A fingerprint of a state: equal for states that differ only in when they happen and in what their identities are
//! called. It reads the `Debug` text, so that no field of the state machine can be forgotten.

use std::fmt::{self, Debug, Write};

use crate::rules::{Broken, Rules, SERVER_DROP, TICK};
use crate::store::Store;
use crate::world::World;

/// Beyond the TTL, how long ago something was makes no difference.
const PAST: i64 = 4;

pub struct Print<'a> {
    lanes: u64,
    now: u64,
    store: &'a Store,
    /// Identities by the order in which they are met.
    names: Vec<String>,
    /// The one met last.
    last: usize,
    next: Next,
}

/// What the next number in the text is.
#[derive(Clone, Copy)]
enum Next {
    Text,
    Moment,
    Epoch,
    Seq,
    Identity,
}

impl<'a> Print<'a> {
    pub fn new(store: &'a Store, now: u64) -> Self {
        Self { lanes: 0, now, store, names: Vec::new(), last: 0, next: Next::Text }
    }

    pub fn of(mut self, state: &dyn Debug) -> Self {
        write!(self, "{state:?}").expect("hashing does not fail");
        self
    }

    pub fn number(mut self, number: u64) -> Self {
        self.mix(number);
        self
    }

    /// A tick, as so many from now.
    pub fn tick(self, tick: u64) -> Self {
        let rest = tick.saturating_sub(self.now);
        self.number(rest)
    }

    pub fn finish(self) -> u64 {
        let mixed = (self.lanes ^ (self.lanes >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    fn mix(&mut self, word: u64) {
        self.lanes = (self.lanes.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn value(&mut self, digits: &str) -> Option<u64> {
        let number = || digits.parse::<i64>().ok();
        let value = match self.next {
            Next::Text => return None,
            Next::Moment => {
                let tick = i64::try_from(u128::from(digits.parse::<u64>().ok()?) / TICK.as_nanos()).ok()?;
                (tick - self.now.cast_signed()).max(-PAST)
            }
            Next::Epoch => (self.store.lease.epoch - number()?).min(3),
            Next::Seq => {
                let number = number()?;
                let who = self.names.get(self.last)?.parse().ok()?;
                self.store.instances.get(&who).map_or(99, |row| row.renew_seq - number)
            }
            Next::Identity => {
                let known = self.names.iter().position(|name| name == digits);
                self.last = known.unwrap_or(self.names.len());
                if known.is_none() {
                    self.names.push(digits.to_owned());
                }
                i64::try_from(self.last).ok()?
            }
        };
        self.next = Next::Text;
        Some(value.cast_unsigned())
    }
}

impl Write for Print<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_value = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(value) = is_value.then(|| self.value(text)).flatten() {
            self.mix(value);
            return Ok(());
        }
        match text {
            "Moment" => self.next = Next::Moment,
            "Epoch" => self.next = Next::Epoch,
            "renew_seq" => self.next = Next::Seq,
            _ if text.ends_with("Incarnation(") => self.next = Next::Identity,
            _ => {}
        }
        for chunk in text.as_bytes().chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.mix(word);
        }
        Ok(())
    }
}

impl World {
    /// Equal for states from which the same may follow.
    pub fn fingerprint(&self, rules: &Rules) -> u64 {
        let mut print = Print::new(&self.store, self.now).number(self.turn as u64).number(self.faults.into());
        for node in &self.nodes {
            let flags = [node.is_down, node.is_closing, node.is_cut, node.is_paused];
            let flags = flags.iter().fold(0, |word, flag| word << 1 | u64::from(*flag));
            let silent = (self.now - node.heard_at.min(self.now)).min(SERVER_DROP);
            let granted = node.granted.map_or(9, |epoch| (self.store.lease.epoch - epoch).min(3));
            print =
                print.number(flags).number(node.life.into()).number(silent).number(granted.cast_unsigned());
            if node.is_down {
                continue;
            }
            print = print.of(&node.instance).of(&node.inbox);
            if let Some(worker) = &node.worker {
                print = print.of(&worker.term).tick(worker.trusted_until);
                print = print.number(worker.stop_by.map_or(99, |by| by.saturating_sub(self.now)));
            }
        }
        let lease = &self.store.lease;
        for (who, row) in &self.store.instances {
            let flags = [row.is_up, row.has_beacon].iter().fold(0, |word, flag| word << 1 | u64::from(*flag));
            print = print.of(who).of(&row.dead).number(flags).number(row.node as u64).number(row.life.into());
            print = print.number(row.drop_at.map_or(99, |at| at.saturating_sub(self.now)));
            if rules.broken == Broken::WallClockTtl {
                let silent = self.store.wall(self.now) - row.renewed_at;
                print = print.number(silent.cast_unsigned());
            }
        }
        print = print.of(&lease.holder).number(lease.owed).tick(lease.owed_until);
        if rules.broken == Broken::WallClockWait {
            let wait = (lease.start_not_before - self.store.wall(self.now)).max(0);
            print = print.number(wait.cast_unsigned());
        }
        print = print.number(self.store.clock_offset.cast_unsigned()).number(self.store.is_up.into());
        let behind = (lease.epoch - lease.committed).min(3);
        print.number(behind.cast_unsigned()).of(&self.flights).finish()
    }
}
