//! What is kept for replay, under the log's lock.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::Entry;
use crate::ids;

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) entries: VecDeque<Arc<Entry>>,
    /// Position of `entries[0]`.
    pub(super) first: u64,
    pub(super) retain: usize,
    pub(super) clock_us: i64,
    /// The number of the next event, from 1 on.
    pub(super) next_seq: u64,
    pub(super) newest_us: i64,
    pub(super) jitter_us: u64,
    pub(super) random: StdRng,
    pub(super) window: usize,
    pub(super) held_back: Vec<Arc<Entry>>,
    pub(super) rewind_us: i64,
    pub(super) withhold: bool,
    pub(super) truth: VecDeque<Arc<[u8]>>,
}

impl Kept {
    pub(super) fn new(retain: usize, jitter_us: u64, seed: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            retain: retain.max(1),
            clock_us: 0,
            next_seq: 1,
            newest_us: 0,
            jitter_us,
            random: StdRng::seed_from_u64(seed),
            window: 0,
            held_back: Vec::new(),
            rewind_us: 0,
            withhold: false,
            truth: VecDeque::new(),
        }
    }

    pub(super) fn head(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Strictly rising from the wall clock, then the jitter on what is shown.
    pub(super) fn tick(&mut self) -> i64 {
        self.clock_us = ids::now_us().max(self.clock_us + 1);
        let early = if self.jitter_us == 0 { 0 } else { self.random.random_range(0..=self.jitter_us) };
        self.clock_us.saturating_sub_unsigned(early)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    pub(super) fn let_go(&mut self) {
        let mut entries = std::mem::take(&mut self.held_back);
        if self.window > 1 {
            entries.shuffle(&mut self.random);
        }
        self.append(entries);
    }

    pub(super) fn append(&mut self, entries: Vec<Arc<Entry>>) {
        self.entries.extend(entries);
        while self.entries.len() > self.retain {
            self.drop_oldest();
        }
    }

    pub(super) fn drop_oldest(&mut self) {
        self.entries.pop_front();
        self.first += 1;
    }
}
