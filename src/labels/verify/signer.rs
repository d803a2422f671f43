//! The labeler's key. Its document is asked for anew when a label is not good under the key at hand: once for all labels that
//! are not, and seldom.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Verdict, judge};
use crate::atproto::Did;
use crate::atproto::identity::{IdentityError, Labeler, Resolver};
use crate::atproto::key::PublicKey;
use crate::labels::decode::Label;
use crate::labels::meters;

/// How long a label that was not good is worth asking for another key. At half, a directory that is late for an hour hides a
/// takedown until the next label; at double, a labeler that signs badly has its source asked for twice as long.
const DUE_FOR: Duration = Duration::from_secs(3600);

/// The labeler, as its document had it last.
pub(in crate::labels) struct Signer {
    did: Did,
    resolver: Arc<Resolver>,
    verify: bool,
    ask_every: Duration,
    state: Mutex<State>,
}

struct State {
    known: Arc<Labeler>,
    /// When a label last made us ask, and when a stream that was not reached did.
    asked_at: Option<Instant>,
    looked_at: Option<Instant>,
    /// Until when a label that was not good makes us ask: its key may be published later than it was used.
    due_until: Option<Instant>,
}

impl Signer {
    /// Of a labeler that was found just now. Its document is asked for at most once in `ask_every`.
    pub(in crate::labels) fn new(
        found: Labeler,
        resolver: Arc<Resolver>,
        verify: bool,
        ask_every: Duration,
    ) -> Self {
        let did = found.did.clone();
        let state = State { known: Arc::new(found), asked_at: None, looked_at: None, due_until: None };
        Self { did, resolver, verify, ask_every, state: Mutex::new(state) }
    }

    pub(in crate::labels) fn did(&self) -> &Did {
        &self.did
    }

    pub(in crate::labels) fn verifies(&self) -> bool {
        self.verify
    }

    pub(in crate::labels) async fn known(&self) -> Arc<Labeler> {
        self.state.lock().await.known.clone()
    }

    /// Judges labels. If any is not good under the key at hand, the document is asked for once, if it is old enough.
    pub(in crate::labels) async fn judge_all(&self, labels: &[Label]) -> Vec<Verdict> {
        let mut state = self.state.lock().await;
        let judged = |key: Option<&PublicKey>| -> Vec<Verdict> {
            labels.iter().map(|label| judge(label, &self.did, key, self.verify)).collect()
        };
        let verdicts = judged(state.known.key.as_ref());
        if !verdicts.contains(&Verdict::Bad) {
            return verdicts;
        }
        state.due_until = Some(Instant::now() + DUE_FOR);
        let before = state.known.key.clone();
        self.ask(&mut state).await;
        if state.known.key == before { verdicts } else { judged(state.known.key.as_ref()) }
    }

    /// Asks for the document again if a label that was not good lately waits for it. Whether the key is another one now.
    pub(in crate::labels) async fn catch_up(&self) -> bool {
        let mut state = self.state.lock().await;
        let before = state.known.key.clone();
        if state.due_until.is_some_and(|until| Instant::now() < until) {
            self.ask(&mut state).await;
        }
        state.known.key != before
    }

    /// Asks for the document again because the labeler is not where it was: it may have moved.
    pub(in crate::labels) async fn look_again(&self) {
        let mut state = self.state.lock().await;
        if is_over(state.looked_at, self.ask_every) {
            state.looked_at = Some(Instant::now());
            self.fetch(&mut state).await;
        }
    }

    /// Asks because of a label, unless that was done lately.
    async fn ask(&self, state: &mut State) {
        if is_over(state.asked_at, self.ask_every) {
            state.asked_at = Some(Instant::now());
            self.fetch(state).await;
        }
    }

    /// A document that cannot be had leaves what is known.
    async fn fetch(&self, state: &mut State) {
        let found = self.resolver.labeler(&self.did).await;
        meters::looked_up(&found);
        match found {
            Ok(found) => {
                if found.key != state.known.key {
                    state.due_until = None;
                    tracing::warn!(labeler = %self.did, "the labeler has another key now");
                }
                state.known = Arc::new(found);
            }
            Err(error) => warn(&self.did, &error),
        }
    }
}

fn is_over(at: Option<Instant>, every: Duration) -> bool {
    at.is_none_or(|at| at.elapsed() >= every)
}

fn warn(did: &Did, error: &IdentityError) {
    tracing::warn!(labeler = %did, %error, "the labeler's document was not had; its last one stands in");
}
