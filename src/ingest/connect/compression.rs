//! Which dictionary a host is asked to compress with. Dictionaries are worth a few round trips and never the stream:
//! whatever is wrong with them, the host is asked for plain messages instead.

use std::collections::HashMap;
use std::sync::Arc;

use super::address::Host;
use super::inflate::{DICTIONARY_BYTES_MAX, Dictionary, NoDictionary};
use crate::atproto::guard::{GuardError, Guarded};
use crate::ingest::wire::Wire;

/// So many failures in a row, and a host is asked for plain messages until the worker starts anew. Half gives up for one
/// dictionary that is replaced in a bad moment; double is cut off a few times more.
const FAILURES_MAX: u32 = 3;

/// What hosts may be asked to compress with.
#[derive(Clone, Default)]
pub struct Compression {
    /// The dictionary of the first wire, which no host serves. None: plain messages.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Fetches those of the second wire. None: plain messages.
    pub client: Option<Guarded>,
}

/// Why a dictionary could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0}")]
    Request(#[from] GuardError),
    #[error("the host answered {0}")]
    Status(u16),
    #[error("{0}")]
    Content(#[from] NoDictionary),
}

/// The dictionaries of one task, and how its hosts do with them.
pub(super) struct Dictionaries {
    compression: Compression,
    /// By their numbers, which never change their content.
    known: HashMap<u32, Arc<Dictionary>>,
    hosts: HashMap<(Wire, Arc<str>), Use>,
}

/// How it goes with one host.
#[derive(Debug, Default)]
struct Use {
    /// The dictionary that it was last known to compress with.
    present: Option<u32>,
    failures: u32,
}

impl Dictionaries {
    pub(super) fn new(compression: Compression) -> Self {
        Self { compression, known: HashMap::new(), hosts: HashMap::new() }
    }

    /// The dictionary to ask `host` to compress with; none: ask for plain messages. Fetches it if need be, within the
    /// client's time limit. Cancel-safe.
    pub(super) async fn of(&mut self, host: &Host) -> Option<Arc<Dictionary>> {
        let using = self.hosts.entry((host.wire(), host.key().clone())).or_default();
        if using.failures >= FAILURES_MAX {
            return None;
        }
        if host.wire() == Wire::V1 {
            return self.compression.dictionary.clone();
        }
        let client = self.compression.client.as_ref()?;
        if let Some(known) = using.present.and_then(|id| self.known.get(&id)) {
            return Some(known.clone());
        }
        match fetch(client, host, using.present).await {
            Ok(dictionary) => {
                tracing::debug!(host = %host.key(), id = dictionary.id(), "fetched the stream's dictionary");
                using.present = Some(dictionary.id());
                Some(self.known.entry(dictionary.id()).or_insert(dictionary).clone())
            }
            Err(error) => {
                tracing::info!(host = %host.key(), %error, "no dictionary from the host; asking for plain messages");
                using.present = None;
                using.failures += 1;
                None
            }
        }
    }

    /// The host compressed with another dictionary than it was asked to, or refused that one, or sent what could not be
    /// read. `other` is the number that it named.
    pub(super) fn failed(&mut self, host: &Host, other: Option<u32>) {
        let using = self.hosts.entry((host.wire(), host.key().clone())).or_default();
        using.present = other;
        using.failures += 1;
        if using.failures == FAILURES_MAX {
            tracing::warn!(host = %host.key(), "compression does not work with this host; asking for plain messages from now on");
        }
    }

    /// The host sent what could be read.
    pub(super) fn worked(&mut self, host: &Host) {
        let using = self.hosts.entry((host.wire(), host.key().clone())).or_default();
        if using.failures < FAILURES_MAX {
            using.failures = 0;
        }
    }
}

async fn fetch(client: &Guarded, host: &Host, id: Option<u32>) -> Result<Arc<Dictionary>, FetchError> {
    let answer = client.get(&host.dictionary(id), DICTIONARY_BYTES_MAX).await?;
    match answer.status {
        200 => Ok(Arc::new(Dictionary::read(&answer.body)?)),
        status => Err(FetchError::Status(status)),
    }
}
