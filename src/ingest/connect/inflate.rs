//! Compressed messages: dictionaries, and what a message is that was made with one. No network, no files.
//!
//! zstd's own C library does the work: a dictionary of 64 KiB and more is where it is measured to be several times as
//! fast as what is written in Rust, it is fuzzed for years, and a C compiler is needed for SQLite and ring anyway.

use std::io;
use std::sync::Arc;

use tokio_tungstenite::tungstenite::Bytes;
use zstd::bulk::Decompressor;
use zstd::zstd_safe;

/// How a compressed message begins (RFC 8878, section 3.1.1).
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How a dictionary begins (section 5); its number follows.
const DICTIONARY: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// A dictionary larger than this is refused: the known ones have 64 and 110 KiB. Half would do; double lets a host make us
/// hold more.
pub const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// A zstd dictionary that is known to be one.
#[derive(Clone, Debug)]
pub struct Dictionary {
    id: u32,
    bytes: Arc<[u8]>,
}

/// Why some bytes are no dictionary.
#[derive(Debug, thiserror::Error)]
pub enum NoDictionary {
    /// It does not begin as one.
    #[error("not a zstd dictionary")]
    Magic,
    /// Longer than [`DICTIONARY_BYTES_MAX`].
    #[error("a zstd dictionary of {0} bytes, at most {DICTIONARY_BYTES_MAX} are taken")]
    Size(usize),
    /// Its tables are broken.
    #[error("a broken zstd dictionary: {0}")]
    Broken(#[source] io::Error),
}

impl Dictionary {
    /// Reads one, tables included.
    ///
    /// # Errors
    /// [`NoDictionary`] for everything else.
    pub fn read(bytes: &[u8]) -> Result<Self, NoDictionary> {
        let rest = bytes.strip_prefix(&DICTIONARY).ok_or(NoDictionary::Magic)?;
        let id = rest.first_chunk().map(|id| u32::from_le_bytes(*id)).filter(|id| *id > 0);
        let id = id.ok_or(NoDictionary::Magic)?;
        if bytes.len() > DICTIONARY_BYTES_MAX {
            return Err(NoDictionary::Size(bytes.len()));
        }
        Decompressor::with_dictionary(bytes).map_err(NoDictionary::Broken)?;
        Ok(Self { id, bytes: bytes.into() })
    }

    /// Its number, which each message that was made with it names.
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// Why a compressed message could not be read. It is not skipped: what follows would move the position past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undecodable {
    #[error(
        "a compressed message that was not asked for; on the first wire jetstream.zstd_dictionary names what reads it"
    )]
    NotAskedFor,
    #[error("a message compressed with dictionary {0}, which was not asked for")]
    OtherDictionary(u32),
    #[error("a broken compressed message")]
    Broken,
}

impl Undecodable {
    /// A word for a metric's label.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::NotAskedFor => "not_asked_for",
            Self::OtherDictionary(_) => "other_dictionary",
            Self::Broken => "broken",
        }
    }
}

/// Reads the messages of one connection, compressed or not.
pub(super) struct Inflate {
    dictionary: Option<(u32, Decompressor<'static>)>,
    /// Holds one message; grows to the largest.
    room: Vec<u8>,
    bytes_max: usize,
}

impl Inflate {
    /// With this dictionary, if any. Longer messages than `bytes_max` arrive empty, as they do from the sieve.
    pub(super) fn new(dictionary: Option<&Dictionary>, bytes_max: usize) -> Self {
        let with = |dictionary: &Dictionary| {
            Some((dictionary.id, Decompressor::with_dictionary(&dictionary.bytes).ok()?))
        };
        Self { dictionary: dictionary.and_then(with), room: Vec::new(), bytes_max }
    }

    /// The message itself; empty if it is too long.
    pub(super) fn message(&mut self, bytes: Bytes) -> Result<Bytes, Undecodable> {
        if !bytes.starts_with(&FRAME) {
            return Ok(bytes);
        }
        let (id, decompressor) = self.dictionary.as_mut().ok_or(Undecodable::NotAskedFor)?;
        let named = zstd_safe::get_dict_id_from_frame(&bytes).map(u32::from);
        if let Some(other) = named.filter(|named| named != id) {
            return Err(Undecodable::OtherDictionary(other));
        }
        // A message may claim any size, and be far smaller than it claims.
        let claimed = zstd_safe::get_frame_content_size(&bytes).map_err(|_| Undecodable::Broken)?;
        let claimed = claimed.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if claimed.is_some_and(|size| size > self.bytes_max) {
            return Ok(Bytes::new());
        }
        self.room.clear();
        self.room.reserve_exact(claimed.unwrap_or(self.bytes_max));
        decompressor.decompress_to_buffer(&bytes, &mut self.room).map_err(|_| Undecodable::Broken)?;
        Ok(Bytes::copy_from_slice(&self.room))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use proptest::prelude::*;
    use zstd::bulk::Compressor;

    use super::*;

    /// A dictionary of this number, trained on lines like these messages.
    pub(in crate::ingest::connect) fn trained(id: u32) -> (Dictionary, Vec<u8>) {
        let bytes = localnet::jetstream::dictionary(id);
        (Dictionary::read(&bytes).unwrap(), bytes)
    }

    fn compressed(dictionary: &[u8], text: &[u8]) -> Bytes {
        Compressor::with_dictionary(3, dictionary).unwrap().compress(text).unwrap().into()
    }

    #[test]
    fn a_message_is_read_with_the_dictionary_that_it_names() {
        let (dictionary, bytes) = trained(5);
        assert_eq!(dictionary.id(), 5);
        let mut inflate = Inflate::new(Some(&dictionary), 100);
        let text = br#"{"$type":"message","payload":{}}"#;
        assert_eq!(inflate.message(compressed(&bytes, text)), Ok(Bytes::from_static(text)));
        assert_eq!(
            inflate.message(Bytes::from_static(text)),
            Ok(Bytes::from_static(text)),
            "plain ones pass"
        );
        let other = compressed(&trained(6).1, text);
        assert_eq!(inflate.message(other.clone()), Err(Undecodable::OtherDictionary(6)));
        assert_eq!(Inflate::new(None, 100).message(other), Err(Undecodable::NotAskedFor));
    }

    #[test]
    fn a_message_that_becomes_too_long_arrives_empty_and_costs_no_memory() {
        let (dictionary, bytes) = trained(5);
        let mut inflate = Inflate::new(Some(&dictionary), 1_000);
        assert_eq!(inflate.message(compressed(&bytes, &vec![b' '; 64 << 20])), Ok(Bytes::new()));
        assert_eq!(inflate.message(compressed(&bytes, &[b' '; 1_000])).unwrap().len(), 1_000);
        assert!(inflate.room.capacity() <= 1_000);
    }

    #[test]
    fn what_is_no_dictionary_is_refused() {
        let (_, good) = trained(5);
        assert!(matches!(Dictionary::read(b""), Err(NoDictionary::Magic)));
        assert!(matches!(Dictionary::read(b"{\"a\": 1}"), Err(NoDictionary::Magic)));
        assert!(matches!(Dictionary::read(&DICTIONARY), Err(NoDictionary::Magic)));
        assert!(matches!(Dictionary::read(&good[..40]), Err(NoDictionary::Broken(_))));
        let long = [&good[..], &[0; DICTIONARY_BYTES_MAX]].concat();
        assert!(matches!(Dictionary::read(&long), Err(NoDictionary::Size(_))));
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 4_usize..100, byte in any::<u8>(), cut in 4_usize..100) {
            let (dictionary, bytes) = trained(5);
            let mut inflate = Inflate::new(Some(&dictionary), 1_000);
            let mut damaged = compressed(&bytes, &[b'a'; 300]).to_vec();
            let (at, cut) = (at % damaged.len(), cut % damaged.len());
            damaged[at] = byte;
            let _ = inflate.message(damaged.clone().into());
            damaged.truncate(cut);
            let _ = inflate.message(damaged.into());
        }
    }
}
