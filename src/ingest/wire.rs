//! The two wires that hosts of the stream speak. The path of an address tells which one it is.

/// The path of the second wire ends so.
const V2_PATH: &str = "/network.bsky.jetstream.subscribeEvents";

/// How a host sends events, and how it numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wire {
    /// `/subscribe`: positions are times in microseconds, which other hosts understand more or less.
    V1,
    /// `network.bsky.jetstream.subscribeEvents`: positions are numbers of one host alone.
    V2,
}

impl Wire {
    /// The wire of an address with this path.
    pub fn of_path(path: &str) -> Self {
        if path.trim_end_matches('/').ends_with(V2_PATH) { Self::V2 } else { Self::V1 }
    }

    /// As positions are kept under it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// The wire of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::V1, Self::V2].into_iter().find(|wire| wire.name() == name)
    }
}
