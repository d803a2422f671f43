//! Whether a handle leads back to the account that claims it: <https://atproto.com/specs/handle#handle-resolution>.
//!
//! Two ways: a TXT record, and a file on the host. The record wins where both answer, so the file is asked only where there
//! is no record. (chive-pub/chive#77: with only one of them implemented, half of the handles fail.)

use super::{HandleCheck, Resolver};
use crate::atproto::did::Did;
use crate::atproto::guard::{Answer, GuardError};
use crate::atproto::handle::Handle;

/// A DID has at most 2,048 bytes; real ones have 32.
const ANSWER_LEN_MAX: usize = 2_048;

/// What one of the two ways says.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// The handle leads here.
    Did(Did),
    /// It says nothing: this way is not used.
    Nothing,
    /// It says several things at once, which the specification counts as a failure of the handle.
    Several,
    /// It could not be asked.
    Failed(String),
}

impl Resolver {
    pub(super) async fn check_handle(&self, did: &Did, handle: Handle) -> HandleCheck {
        if !self.may_ask(&handle) {
            return HandleCheck::Invalid;
        }
        let record = self.ask_record(&handle).await;
        // Where a record answers, the file's answer would not count.
        let file = match &record {
            Found::Nothing | Found::Failed(_) => self.ask_file(&handle).await,
            Found::Did(_) | Found::Several => Found::Nothing,
        };
        judge(did, handle, record, file)
    }

    async fn ask_record(&self, handle: &Handle) -> Found {
        // bsky.social uses files only, for millions of handles; test names have no DNS.
        if handle.as_str().ends_with(".bsky.social") || self.guarded.is_test_host(handle.as_str()) {
            return Found::Nothing;
        }
        match self.txt.txt(&format!("_atproto.{handle}.")).await {
            Ok(texts) => record_says(&texts),
            Err(reason) => Found::Failed(reason),
        }
    }

    async fn ask_file(&self, handle: &Handle) -> Found {
        let url = format!("https://{handle}/.well-known/atproto-did");
        match self.guarded.get_once(&url, ANSWER_LEN_MAX).await {
            Ok(answer) => file_says(&answer),
            Err(error @ GuardError::NoRoots(_)) => Found::Failed(error.to_string()),
            Err(error) if error.is_temporary() => Found::Failed(error.to_string()),
            // An answer that is too long, or a host off the public network, is no proof and will not become one.
            Err(_) => Found::Nothing,
        }
    }
}

fn judge(did: &Did, handle: Handle, record: Found, file: Found) -> HandleCheck {
    match (record, file) {
        (Found::Did(found), _) | (Found::Nothing | Found::Failed(_), Found::Did(found)) if found == *did => {
            HandleCheck::Valid(handle)
        }
        // The record, had it answered, might have named the account.
        (Found::Failed(reason), _) | (Found::Nothing, Found::Failed(reason)) => HandleCheck::Unknown(reason),
        (Found::Did(_) | Found::Several | Found::Nothing, _) => HandleCheck::Invalid,
    }
}

/// Other texts may stand beside it; of those for us, all must say the same.
fn record_says(texts: &[String]) -> Found {
    let mut dids = texts.iter().filter_map(|text| Did::parse(text.strip_prefix("did=")?).ok());
    match dids.next() {
        None => Found::Nothing,
        Some(first) if dids.all(|did| did == first) => Found::Did(first),
        Some(_) => Found::Several,
    }
}

fn file_says(answer: &Answer) -> Found {
    match answer.status {
        200..=299 => {
            let text = std::str::from_utf8(&answer.body).ok();
            text.and_then(|text| Did::parse(text.trim()).ok()).map_or(Found::Nothing, Found::Did)
        }
        408 | 425 | 429 | 500..=599 => {
            Found::Failed(format!("its host answered with status {}", answer.status))
        }
        // A redirect among them: the specification would let us follow it, our own rule does not.
        _ => Found::Nothing,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn did(text: &str) -> Did {
        Did::parse(text).unwrap()
    }

    #[test]
    fn the_record_wins_and_doubt_is_never_a_verdict() {
        let (me, other) = (|| Found::Did(did("did:plc:me")), || Found::Did(did("did:plc:other")));
        let failed = || Found::Failed("down".to_owned());
        let handle = Handle::parse("me.example").unwrap();
        let (valid, invalid) = (HandleCheck::Valid(handle.clone()), HandleCheck::Invalid);
        let unknown = HandleCheck::Unknown("down".to_owned());
        for (record, file, verdict) in [
            (me(), Found::Nothing, &valid),
            (me(), other(), &valid),
            (other(), me(), &invalid),
            (Found::Several, me(), &invalid),
            (Found::Nothing, me(), &valid),
            (Found::Nothing, other(), &invalid),
            (Found::Nothing, Found::Nothing, &invalid),
            (Found::Nothing, failed(), &unknown),
            (failed(), me(), &valid),
            (failed(), other(), &unknown),
            (failed(), Found::Nothing, &unknown),
            (failed(), failed(), &unknown),
        ] {
            let what = format!("{record:?} {file:?}");
            assert_eq!(judge(&did("did:plc:me"), handle.clone(), record, file), *verdict, "{what}");
        }
    }

    #[test]
    fn a_record_speaks_with_one_voice_or_not_at_all() {
        let says =
            |texts: &[&str]| record_says(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(says(&["v=spf1", "did=did:plc:a"]), Found::Did(did("did:plc:a")));
        assert_eq!(says(&["did=did:plc:a", "did=did:plc:a"]), Found::Did(did("did:plc:a")));
        assert_eq!(says(&["did=did:plc:a", "did=did:plc:b"]), Found::Several);
        assert_eq!(says(&["did=nonsense", "did:plc:a", ""]), Found::Nothing);
        assert_eq!(says(&[]), Found::Nothing);
    }
}
