//! Whether the labeler has signed a label: pure. The key is [`signer`]'s to know.

mod signer;

use super::decode::Label;
use crate::atproto::Did;
use crate::atproto::cbor::{self, Value};
use crate::atproto::key::PublicKey;

pub(super) use signer::Signer;

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

#[cfg(test)]
mod tests;
