//! Whether the labeler has signed a label. [`judge`] is pure; [`Signer`] knows the labeler's key and asks for it anew when a
//! signature is not good under the one at hand: once for all labels that are not, and seldom.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::decode::Label;
use super::meters;
use crate::atproto::Did;
use crate::atproto::cbor::{self, Value};
use crate::atproto::identity::{IdentityError, Labeler, Resolver};
use crate::atproto::key::PublicKey;

/// What is to be done with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its signature is good.
    Good,
    /// It carries none.
    Unsigned,
    /// It carries one that is not good.
    Bad,
    /// Nobody asks.
    Unasked,
    /// Another labeler's: nothing of it is kept.
    Foreign,
}

/// Judges a label by the key, if there is one. `verify`: whether anybody asks.
pub(super) fn judge(label: &Label, src: &Did, key: Option<&PublicKey>, verify: bool) -> Verdict {
    if label.src != *src {
        return Verdict::Foreign;
    }
    match (&label.sig, key) {
        _ if !verify => Verdict::Unasked,
        (None, _) => Verdict::Unsigned,
        (Some(sig), Some(key)) if signed_forms(label).any(|bytes| key.has_signed(&bytes, sig)) => {
            Verdict::Good
        }
        _ => Verdict::Bad,
    }
}

/// The bytes that a labeler may have signed: the label as it came, without its signature and what the specification does not
/// know. One that says `neg: false` may have signed it so (@skyware/labeler does), or without (the reference labeler does).
fn signed_forms(label: &Label) -> impl Iterator<Item = Vec<u8>> + use<> {
    let as_came = signed_bytes(label, label.neg);
    let shorter = (label.neg == Some(false)).then(|| signed_bytes(label, None));
    std::iter::once(as_came).chain(shorter)
}

/// Keys in their order: all have three letters.
fn signed_bytes(label: &Label, neg: Option<bool>) -> Vec<u8> {
    let text = |text: &str| Value::Text(text.to_owned());
    let fields = [
        ("cid", label.cid.as_deref().map(text)),
        ("cts", Some(text(&label.cts.0))),
        ("exp", label.exp.as_ref().map(|(exp, _)| text(exp))),
        ("neg", neg.map(Value::Bool)),
        ("src", Some(text(label.src.as_str()))),
        ("uri", Some(text(&label.uri))),
        ("val", Some(text(&label.val))),
        ("ver", label.ver.map(Value::Int)),
    ];
    let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let mut bytes = Vec::new();
    cbor::write(&Value::Map(given.collect()), &mut bytes);
    bytes
}

/// The labeler, as its document had it last.
pub(super) struct Signer {
    did: Did,
    resolver: Arc<Resolver>,
    verify: bool,
    ask_every: Duration,
    state: Mutex<State>,
}

struct State {
    known: Arc<Labeler>,
    /// When a label last made us ask.
    asked_at: Option<Instant>,
    /// A label was not good, and the document was too young to be asked for again.
    is_due: bool,
}

impl Signer {
    /// Of a labeler that was found just now. Its document is asked for at most once in `ask_every`.
    pub(super) fn new(found: Labeler, resolver: Arc<Resolver>, verify: bool, ask_every: Duration) -> Self {
        let did = found.did.clone();
        let state = State { known: Arc::new(found), asked_at: None, is_due: false };
        Self { did, resolver, verify, ask_every, state: Mutex::new(state) }
    }

    pub(super) fn did(&self) -> &Did {
        &self.did
    }

    pub(super) fn verifies(&self) -> bool {
        self.verify
    }

    pub(super) async fn known(&self) -> Arc<Labeler> {
        self.state.lock().await.known.clone()
    }

    /// Judges labels. If any is not good under the key at hand, the document is asked for once, if it is old enough.
    pub(super) async fn judge_all(&self, labels: &[Label]) -> Vec<Verdict> {
        let mut state = self.state.lock().await;
        let judged = |key: Option<&PublicKey>| -> Vec<Verdict> {
            labels.iter().map(|label| judge(label, &self.did, key, self.verify)).collect()
        };
        let verdicts = judged(state.known.key.as_ref());
        if !verdicts.contains(&Verdict::Bad) {
            return verdicts;
        }
        state.is_due = true;
        let before = state.known.key.clone();
        self.ask(&mut state).await;
        if state.known.key == before { verdicts } else { judged(state.known.key.as_ref()) }
    }

    /// Asks for the document again if a label that was not good still waits for it. Whether the key is another one now.
    pub(super) async fn catch_up(&self) -> bool {
        let mut state = self.state.lock().await;
        let before = state.known.key.clone();
        if state.is_due {
            self.ask(&mut state).await;
        }
        state.known.key != before
    }

    /// Asks for the document again because the labeler is not where it was: it may have moved.
    pub(super) async fn look_again(&self) {
        self.ask(&mut *self.state.lock().await).await;
    }

    /// Asks, unless it was asked lately. A document that cannot be had leaves what is known, and the question due.
    async fn ask(&self, state: &mut State) {
        if state.asked_at.is_some_and(|at| at.elapsed() < self.ask_every) {
            return;
        }
        state.asked_at = Some(Instant::now());
        let found = self.resolver.labeler(&self.did).await;
        meters::looked_up(&found);
        match found {
            Ok(found) => {
                state.is_due = false;
                if found.key != state.known.key {
                    tracing::warn!(labeler = %self.did, "the labeler has another key now");
                }
                state.known = Arc::new(found);
            }
            Err(error) => warn(&self.did, &error),
        }
    }
}

fn warn(did: &Did, error: &IdentityError) {
    tracing::warn!(labeler = %did, %error, "the labeler's document was not had; its last one stands in");
}

#[cfg(test)]
mod tests;
