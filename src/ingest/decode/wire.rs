//! The JSON as hosts send it: every field optional here, so that a missing one has its own error in `decode`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    pub(super) did: Option<Text<'a>>,
    pub(super) time_us: Option<i64>,
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) commit: Option<Commit<'a>>,
    #[serde(borrow)]
    pub(super) identity: Option<Identity<'a>>,
    #[serde(borrow)]
    pub(super) account: Option<Account<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Commit<'a> {
    #[serde(borrow)]
    pub(super) rev: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) operation: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) collection: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) rkey: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) record: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cid: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Identity<'a> {
    #[serde(borrow)]
    pub(super) handle: Option<Text<'a>>,
    pub(super) seq: Option<i64>,
    #[serde(borrow)]
    pub(super) time: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Account<'a> {
    pub(super) active: Option<bool>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    pub(super) seq: Option<i64>,
    #[serde(borrow)]
    pub(super) time: Option<Text<'a>>,
}

/// A string, borrowed unless it holds an escape. A type of its own because serde never borrows an `Option<Cow<str>>`.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Text<'a> {
    pub(super) fn into_inner(self) -> Cow<'a, str> {
        self.0
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
