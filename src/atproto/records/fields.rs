//! The fields of one JSON object, read one by one, so that a bad field harms nothing but itself.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use url::Url;

use super::RecordError::{self, BadField, MissingField, TooLarge};
use super::digest::is_digest;
use crate::atproto::did::Did;
use crate::atproto::times::Micros;

/// The most entries of a list or map that are read. Images have at most some 127 layers; each entry becomes a row.
const ENTRIES_MAX: usize = 1_000;

/// Where counts and sizes are cut off: beyond any honest one, and sums over millions of rows stay within an `i64`.
const COUNT_MAX: i64 = 1_000_000_000_000;

/// The longest DID that a record may name: a did:web of the longest name that DNS allows. Longer ones resolve nowhere, and
/// three of the 2,048 bytes that the syntax allows would not fit into one entry of a PostgreSQL index (2,704 bytes).
const DID_LEN_MAX: usize = "did:web:".len() + 253;

/// An object's fields, each as its unread text.
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    pub(super) fn read(json: &'a str) -> Result<Self, RecordError> {
        serde_json::from_str(json).map_err(|_| RecordError::NotJson)
    }

    /// Every field with its unread text.
    pub(super) fn entries(&self) -> Result<impl Iterator<Item = (&str, &'a RawValue)>, RecordError> {
        if self.0.len() > ENTRIES_MAX {
            return Err(TooLarge);
        }
        Ok(self.0.iter().map(|(name, value)| (&**name, *value)))
    }

    /// `None` if the field is absent or null; of several with one name the last counts, as everywhere in JSON.
    fn get(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().rev().find(|(key, _)| key == name)?;
        (value.get() != "null").then(|| value.get())
    }

    fn value<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, RecordError> {
        self.get(name).map(|json| serde_json::from_str(json).map_err(|_| BadField(name))).transpose()
    }

    pub(super) fn string(&self, name: &'static str) -> Result<Option<String>, RecordError> {
        self.value(name)
    }

    /// A name: 1 to `len_max` bytes, without U+0000. `None` if absent.
    pub(super) fn name_if_any(
        &self,
        name: &'static str,
        len_max: usize,
    ) -> Result<Option<String>, RecordError> {
        let text = self.string(name)?;
        let valid =
            text.as_ref().is_none_or(|text| (1..=len_max).contains(&text.len()) && !text.contains('\0'));
        if valid { Ok(text) } else { Err(BadField(name)) }
    }

    pub(super) fn name(&self, name: &'static str, len_max: usize) -> Result<String, RecordError> {
        self.name_if_any(name, len_max)?.ok_or(MissingField(name))
    }

    /// Text that is only shown: stripped of U+0000, absent if empty or too long.
    pub(super) fn prose(&self, name: &'static str, len_max: usize) -> Option<String> {
        let text = self.string(name).ok()??;
        (1..=len_max).contains(&text.len()).then(|| without_nul(text)).filter(|text| !text.is_empty())
    }

    pub(super) fn digest(&self, name: &'static str) -> Result<String, RecordError> {
        let text = self.string(name)?.ok_or(MissingField(name))?;
        if is_digest(&text) { Ok(text) } else { Err(BadField(name)) }
    }

    pub(super) fn did(&self, name: &'static str) -> Result<Did, RecordError> {
        let did: Did = self.value(name)?.ok_or(MissingField(name))?;
        if fits(&did) { Ok(did) } else { Err(BadField(name)) }
    }

    pub(super) fn did_if_any(&self, name: &'static str) -> Option<Did> {
        self.did(name).ok()
    }

    /// A hold, by its DID or by the address that older records give for it.
    pub(super) fn hold_if_any(&self, name: &'static str) -> Option<Did> {
        let text = self.string(name).ok()??;
        Did::parse(&text).ok().or_else(|| did_of_address(&text)).filter(fits)
    }

    pub(super) fn time_if_any(&self, name: &'static str) -> Option<Micros> {
        Micros::parse(&self.string(name).ok()??)
    }

    pub(super) fn time(&self, name: &'static str) -> Result<Micros, RecordError> {
        let text = self.string(name)?.ok_or(MissingField(name))?;
        Micros::parse(&text).ok_or(BadField(name))
    }

    pub(super) fn integer(&self, name: &'static str) -> Result<i64, RecordError> {
        self.value(name)?.ok_or(MissingField(name))
    }

    /// A count of something: an integer, cut to what can be summed.
    pub(super) fn count(&self, name: &'static str) -> Result<i64, RecordError> {
        Ok(self.integer(name)?.clamp(0, COUNT_MAX))
    }

    /// False if absent: writers leave out what is false.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, RecordError> {
        Ok(self.value(name)?.unwrap_or(false))
    }

    /// `None` if absent; an error if it is there and no object.
    pub(super) fn object(&self, name: &'static str) -> Result<Option<Fields<'a>>, RecordError> {
        self.value(name)
    }

    /// What `read` makes of each element of a list; no elements if the list is absent. Elements that it makes nothing of
    /// are left out.
    pub(super) fn list<T>(
        &self,
        name: &'static str,
        read: impl Fn(&'a str) -> Option<T>,
    ) -> Result<Vec<T>, RecordError> {
        let elements: Vec<&RawValue> = self.value(name)?.unwrap_or_default();
        if elements.len() > ENTRIES_MAX {
            return Err(TooLarge);
        }
        Ok(elements.into_iter().filter_map(|element| read(element.get())).collect())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

/// Whether a DID is short enough to be stored.
pub(super) fn fits(did: &Did) -> bool {
    did.as_str().len() <= DID_LEN_MAX
}

pub(super) fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "") } else { text }
}

/// The did:web of a service that is known by its address: `did:web:HOST`, or `did:web:HOST%3APORT`.
fn did_of_address(address: &str) -> Option<Did> {
    let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let port = url.port().map(|port| format!("%3A{port}")).unwrap_or_default();
    Did::parse(&format!("did:web:{}{port}", url.host_str()?)).ok()
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Key(name), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }

        from.deserialize_map(Object)
    }
}

/// `Cow` itself always copies; `borrow` keeps a name without escapes where it stands.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
