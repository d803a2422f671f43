//! One label: its texts as they came, and what they may be at most.

use crate::atproto::cbor::Value;
use crate::atproto::{Did, Micros};

/// The lexicon's bound on a value, in bytes.
const VAL_LEN_MAX: usize = 128;
/// The key of a row (labeler, subject, value) has to fit into an index page of PostgreSQL, a third of 8 KiB.
pub(super) const KEY_LEN_MAX: usize = 2_500;
/// Real ones have 59 characters.
const CID_LEN_MAX: usize = 256;
/// Real ones have 24 characters.
const TIME_LEN_MAX: usize = 64;
/// A signature has 64 bytes; anything else is none.
const SIG_LEN_MAX: usize = 256;

/// A label, with every text as it came: they are what is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::labels) struct Label {
    pub(in crate::labels) ver: Option<i64>,
    pub(in crate::labels) src: Did,
    pub(in crate::labels) uri: String,
    pub(in crate::labels) cid: Option<String>,
    pub(in crate::labels) val: String,
    /// Absent and false mean the same, but are not signed the same.
    pub(in crate::labels) neg: Option<bool>,
    pub(in crate::labels) cts: (String, Micros),
    pub(in crate::labels) exp: Option<(String, Micros)>,
    pub(in crate::labels) sig: Option<Vec<u8>>,
}

/// Why something is no label that we keep; a word for a metric's label.
pub(in crate::labels) type Fault = &'static str;

pub(super) fn of_cbor(value: &Value) -> Result<Label, Fault> {
    if !matches!(value, Value::Map(_)) {
        return Err("shape");
    }
    let optional = |key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(_) => Err("shape"),
    };
    let neg = match value.get("neg") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(neg)) => Some(*neg),
        Some(_) => return Err("shape"),
    };
    let sig = match value.get("sig") {
        None | Some(Value::Null) => None,
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        Some(_) => return Err("shape"),
    };
    let raw = Raw {
        ver: value.get("ver").and_then(Value::int),
        src: optional("src")?,
        uri: optional("uri")?,
        cid: optional("cid")?,
        val: optional("val")?,
        neg,
        cts: optional("cts")?,
        exp: optional("exp")?,
        sig,
    };
    raw.checked()
}

/// A label whose texts are not judged yet.
pub(super) struct Raw {
    pub(super) ver: Option<i64>,
    pub(super) src: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) cid: Option<String>,
    pub(super) val: Option<String>,
    pub(super) neg: Option<bool>,
    pub(super) cts: Option<String>,
    pub(super) exp: Option<String>,
    pub(super) sig: Option<Vec<u8>>,
}

impl Raw {
    pub(super) fn checked(self) -> Result<Label, Fault> {
        let src = Did::parse(&self.src.ok_or("missing")?).map_err(|_| "src")?;
        let uri = self.uri.filter(|uri| !uri.is_empty()).ok_or("missing")?;
        let val = self.val.filter(|val| !val.is_empty()).ok_or("missing")?;
        let fits = val.len() <= VAL_LEN_MAX && src.as_str().len() + uri.len() + val.len() <= KEY_LEN_MAX;
        let fits = fits && self.cid.as_ref().is_none_or(|cid| cid.len() <= CID_LEN_MAX);
        if !fits || self.sig.as_ref().is_some_and(|sig| sig.len() > SIG_LEN_MAX) {
            return Err("too_long");
        }
        if [Some(&uri), Some(&val), self.cid.as_ref()].into_iter().flatten().any(|text| text.contains('\0')) {
            return Err("nul");
        }
        let cts = time(self.cts.ok_or("missing")?)?;
        let exp = self.exp.map(time).transpose()?;
        let Raw { ver, cid, neg, sig, .. } = self;
        Ok(Label { ver, src, uri, cid, val, neg, cts, exp, sig })
    }
}

fn time(text: String) -> Result<(String, Micros), Fault> {
    let at = Some(&text).filter(|text| text.len() <= TIME_LEN_MAX).and_then(|text| Micros::parse(text));
    at.map(|at| (text, at)).ok_or("time")
}
