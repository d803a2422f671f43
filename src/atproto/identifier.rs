//! What every identifier has in common. The rules of each stand with its type.

use thiserror::Error;

/// A text that is not the identifier it should be. Carries no copy of the text: it is a stranger's, and may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a valid {0}")]
pub struct SyntaxError(pub(super) &'static str);

/// A checked text of its own type, stored as exactly one allocation. `$make` checks and, where needed, normalises.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $make:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks `text`. Nothing is allocated for a text that is refused.
            pub fn parse(text: &str) -> Result<Self, $crate::atproto::SyntaxError> {
                $make(text).map(Self).ok_or($crate::atproto::SyntaxError($what))
            }

            /// The text, as it is stored and sent.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        $crate::atproto::identifier::text_traits!($name, $what);
    };
}

/// The traits that follow from `parse` and `as_str`.
macro_rules! text_traits {
    ($name:ident, $what:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::atproto::SyntaxError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("a ", $what))
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::parse(text).map_err(E::custom)
                    }
                }
                from.deserialize_str(Text)
            }
        }
    };
}

pub(super) use {identifier, text_traits};
