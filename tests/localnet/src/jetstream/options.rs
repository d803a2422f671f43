//! What a subscriber wants: the query, and `options_update`.

use std::collections::HashSet;

use serde::Deserialize;

use super::dictionary::V1_DICTIONARY;
use super::event::Kind;
use super::faults::OfV2;
use super::log::{Entry, What};
use super::v2;
use crate::http::{Answer, Request};

const COLLECTIONS_MAX: usize = 100;
const DIDS_MAX: usize = 10_000;

/// A parsed query.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) is_v2: bool,
    pub(super) wants: Wants,
    pub(super) cursor: Option<i64>,
    pub(super) require_hello: bool,
    /// The dictionary to compress with.
    pub(super) dictionary: Option<u32>,
}

impl Options {
    /// Of the first wire; the error is the text of the 400.
    pub(super) fn parse(request: &Request) -> Result<Self, String> {
        let zstd = request.header("socket-encoding").is_some_and(|v| v.contains("zstd"));
        let zstd = zstd || request.parameter("compress").as_deref() == Some("true");
        let cursor =
            request.parameter("cursor").map(|c| c.parse().map_err(|_| format!("invalid cursor: {c}")));
        // Garbage counts as no limit, as on the real server.
        let size = request.parameter("maxMessageSizeBytes").and_then(|v| v.parse().ok());
        let wants = Wants::new(Payload {
            wanted_collections: request.parameters("wantedCollections"),
            wanted_dids: request.parameters("wantedDids"),
            max_message_size_bytes: size.unwrap_or(0),
        })?;
        let require_hello = request.parameter("requireHello").as_deref() == Some("true");
        let dictionary = zstd.then_some(V1_DICTIONARY);
        Ok(Self { is_v2: false, wants, cursor: cursor.transpose()?, require_hello, dictionary })
    }

    /// Of the second wire.
    pub(super) fn parse_v2(request: &Request, of_v2: OfV2) -> Result<Self, Answer> {
        let old = ["wantedCollections", "wantedDids"];
        if let Some(name) = old.iter().find(|name| !request.parameters(name).is_empty()) {
            return Err(v2::invalid(&format!("{name} is a parameter of /subscribe")));
        }
        let number = |name: &str| match request.parameter(name).map(|text| text.parse::<i64>()) {
            None => Ok(None),
            Some(Ok(number)) if number >= 0 => Ok(Some(number)),
            Some(_) => Err(v2::invalid(&format!("{name} is no number"))),
        };
        let dictionary = number("zstdDictionary")?;
        if dictionary.is_some_and(|id| id != i64::from(of_v2.dictionary)) {
            let message = format!("current dictionary id is {}", of_v2.dictionary);
            return Err(Answer::error(400, "UnknownZstdDictionary", &message));
        }
        let mut wants = Wants::new(Payload {
            wanted_collections: request.parameters("collections"),
            wanted_dids: request.parameters("dids"),
            max_message_size_bytes: number("maxMessageSizeBytes")?.unwrap_or(0),
        })
        .map_err(|text| v2::invalid(&text))?;
        wants.kinds = Some(Vec::new());
        for kind in request.parameters("kinds") {
            let known = serde_json::from_value(kind.clone().into()).unwrap_or(Kind::Other);
            if known == Kind::Other {
                return Err(v2::invalid(&format!("unknown kind: {kind}")));
            }
            wants.kinds.get_or_insert_default().push(known);
        }
        let no_commits = wants.kinds.as_ref().is_some_and(|k| !k.is_empty() && !k.contains(&Kind::Commit));
        if no_commits && !request.parameters("collections").is_empty() {
            return Err(v2::invalid("collections without commits"));
        }
        let dictionary = dictionary.map(|_| of_v2.dictionary);
        Ok(Self { is_v2: true, wants, cursor: number("cursor")?, require_hello: false, dictionary })
    }
}

#[derive(Deserialize)]
struct Update {
    #[serde(rename = "type")]
    kind: String,
    payload: Option<Payload>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Payload {
    wanted_collections: Vec<String>,
    wanted_dids: Vec<String>,
    max_message_size_bytes: i64,
}

/// The filter of one subscriber.
#[derive(Debug, Default)]
pub(super) struct Wants {
    collections: HashSet<String>,
    prefixes: Vec<String>,
    dids: HashSet<String>,
    /// None on the first wire, which has no `#sync`; empty: all.
    kinds: Option<Vec<Kind>>,
    bytes_max: Option<usize>,
}

impl Wants {
    /// Reads a client's message: None if its type is unknown, which is ignored.
    pub(super) fn from_message(text: &[u8]) -> Result<Option<Self>, String> {
        let update: Update = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if update.kind != "options_update" {
            return Ok(None);
        }
        Self::new(update.payload.unwrap_or_default()).map(Some)
    }

    fn new(payload: Payload) -> Result<Self, String> {
        let mut wants = Self {
            bytes_max: usize::try_from(payload.max_message_size_bytes).ok().filter(|n| *n > 0),
            ..Self::default()
        };
        let collections: Vec<_> = payload.wanted_collections.into_iter().filter(|c| !c.is_empty()).collect();
        if collections.len() > COLLECTIONS_MAX {
            return Err("too many wanted collections".to_owned());
        }
        for collection in collections {
            match collection.strip_suffix(".*") {
                Some(prefix) if is_dotted(prefix, 2) => wants.prefixes.push(format!("{prefix}.")),
                None if is_dotted(&collection, 3) => drop(wants.collections.insert(collection)),
                _ => return Err(format!("invalid collection: {collection}")),
            }
        }
        wants.dids = payload.wanted_dids.into_iter().filter(|d| !d.is_empty()).collect();
        if wants.dids.len() > DIDS_MAX {
            return Err("too many wanted DIDs".to_owned());
        }
        match wants.dids.iter().find(|d| !is_did(d)) {
            Some(did) => Err(format!("invalid DID: {did}")),
            None => Ok(wants),
        }
    }

    /// Whether a frame of this length goes to this subscriber.
    pub(super) fn has_room_for(&self, frame: &[u8]) -> bool {
        self.bytes_max.is_none_or(|max| frame.len() <= max)
    }

    /// Whether the entry goes to this subscriber, by what it is about; raw frames always do.
    pub(super) fn matches(&self, entry: &Entry) -> bool {
        let What::Event { did, kind, collection, .. } = &entry.what else { return true };
        let is_wanted = match &self.kinds {
            None => *kind != Kind::Sync,
            Some(kinds) => kinds.is_empty() || kinds.contains(kind),
        };
        if !is_wanted {
            return false;
        }
        if !self.dids.is_empty() && !self.dids.contains(did) {
            return false;
        }
        let Some(collection) = collection else { return true };
        (self.collections.is_empty() && self.prefixes.is_empty())
            || self.collections.contains(collection)
            || self.prefixes.iter().any(|prefix| collection.starts_with(prefix))
    }
}

fn is_dotted(name: &str, segments_min: usize) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    name.split('.').count() >= segments_min
        && name.split('.').all(|s| !s.is_empty() && s.chars().all(of_name))
}

fn is_did(text: &str) -> bool {
    text.strip_prefix("did:").and_then(|rest| rest.split_once(':')).is_some_and(|(method, id)| {
        !method.is_empty() && method.bytes().all(|b| b.is_ascii_lowercase()) && !id.is_empty()
    })
}
