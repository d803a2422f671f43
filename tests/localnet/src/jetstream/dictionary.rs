//! zstd dictionaries of this network's own: trained once on its own lines, and numbered as asked.

use std::sync::OnceLock;

use zstd::bulk::Compressor;

use crate::events::{self, Mix};

/// The number of the dictionary that the first wire's servers compress with.
pub const V1_DICTIONARY: u32 = 1_612_007_021;
/// The number that servers of the second wire begin with.
pub const V2_DICTIONARY: u32 = 20_260_811;

/// The production's is eight times as large; smaller ones compress worse and train faster.
const BYTES: usize = 8 << 10;
/// Lines to train on: about 0.2 MB.
const LINES: usize = 300;
/// Where a dictionary's number stands (RFC 8878, section 5).
const NUMBER: std::ops::Range<usize> = 4..8;
/// zstd's own default.
const LEVEL: i32 = 3;

/// How frames leave that are to be compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compressed {
    /// With the dictionary that was asked for.
    #[default]
    Rightly,
    /// With the dictionary of this number, whatever was asked for.
    With(u32),
    /// So that nobody can read them.
    Broken,
}

/// The dictionary of this number. All have the same content.
///
/// # Panics
/// If this network's lines are not enough to train one.
pub fn dictionary(id: u32) -> Vec<u8> {
    static TRAINED: OnceLock<Vec<u8>> = OnceLock::new();
    let trained = TRAINED.get_or_init(|| {
        let lines: Vec<_> =
            events::lines(Mix { registry_share: 0.5, ..Mix::default() }).take(LINES).collect();
        zstd::dict::from_samples(&lines, BYTES).expect("three hundred lines make a dictionary")
    });
    let mut numbered = trained.clone();
    numbered[NUMBER].copy_from_slice(&id.to_le_bytes());
    numbered
}

/// Compresses the frames of one connection.
pub(super) struct Deflate {
    asked: u32,
    using: u32,
    compressor: Compressor<'static>,
}

impl Deflate {
    pub(super) fn new(id: u32) -> Self {
        let compressor = compressor(id);
        Self { asked: id, using: id, compressor }
    }

    pub(super) fn frame(&mut self, text: &[u8], how: Compressed) -> Vec<u8> {
        let wanted = if let Compressed::With(id) = how { id } else { self.asked };
        if wanted != self.using {
            (self.using, self.compressor) = (wanted, compressor(wanted));
        }
        let mut frame = self.compressor.compress(text).expect("a frame is never too long for zstd");
        if how == Compressed::Broken {
            // Block type 3 does not exist, so the first block's header is that of no block.
            let at = frame.len() / 2;
            frame[at..].fill(0xff);
        }
        frame
    }
}

fn compressor(id: u32) -> Compressor<'static> {
    Compressor::with_dictionary(LEVEL, &dictionary(id)).expect("our own dictionary is good")
}
