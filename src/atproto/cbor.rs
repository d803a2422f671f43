//! The protocol's CBOR: read from strangers, and written again as it was signed. Owns the format alone.
//! <https://dasl.ing/drisl.html>
//!
//! Reading refuses what has no place in it (indefinite lengths, keys that are no text or come twice, other tags, half
//! floats) and is indifferent to what it cannot be misread by: the order of keys, and numbers that are longer than need be.

mod read;
mod write;

pub use read::{CborError, read};
pub use write::write;

/// The tag of a link.
const LINK: u64 = 42;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values, in the order in which they came.
    Map(Vec<(String, Value)>),
    /// A link, as it was written.
    Link(Vec<u8>),
    /// A truth value.
    Bool(bool),
    /// A number with a fraction.
    Float(f64),
    /// Nothing.
    Null,
}

impl Value {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text that it is.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer that it is.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(int) => Some(*int),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
