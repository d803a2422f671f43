//! What an incarnation hears: the ring, and the notify file.

use std::collections::VecDeque;
use std::io;

use leased_actors::lease::{Incarnation, LeaseName, News};
use tokio::sync::mpsc;

use super::notify::Watch;

/// The ears of an incarnation. Nothing that was heard is lost when a listener is dropped.
#[derive(Debug)]
pub(in crate::store) struct Ears {
    ring: mpsc::Receiver<Incarnation>,
    /// None where the system cannot watch files.
    watch: Option<Watch>,
    /// Touched, and the rows not read since.
    is_stirred: bool,
    heard: VecDeque<News>,
}

impl Ears {
    pub(super) fn new(ring: mpsc::Receiver<Incarnation>, watch: Option<Watch>) -> Self {
        Self { ring, watch, is_stirred: false, heard: VecDeque::new() }
    }

    /// What was heard and not told yet.
    pub(in crate::store) fn next(&mut self) -> Option<News> {
        self.heard.pop_front()
    }

    /// Whether the rows have to be read to know what happened.
    pub(in crate::store) fn is_stirred(&self) -> bool {
        self.is_stirred
    }

    /// Takes which leases are free, read since the touch.
    pub(in crate::store) fn read(&mut self, free: Vec<LeaseName>) {
        self.is_stirred = false;
        self.heard.extend(free.into_iter().map(News::Freed));
        if self.heard.is_empty() {
            self.heard.push_back(News::Look);
        }
    }

    /// Waits until there is something to tell or to read. An error: files cannot be watched any more.
    pub(in crate::store) async fn listen(&mut self) -> io::Result<()> {
        let touched = async {
            match &self.watch {
                Some(watch) => watch.touched().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(who) = self.ring.recv() => self.heard.push_back(News::Beaconless(who)),
            touched = touched => {
                self.is_stirred = true;
                if touched.is_err() {
                    self.watch = None;
                }
                return touched;
            }
        }
        Ok(())
    }
}
