//! Names and identities: of leases, processes, registrations and terms.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

/// The name of a lease, which is the name of its worker: 1 to 64 of `a-z 0-9 -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LeaseName(Arc<str>);

/// A text that is no lease name.
#[derive(Debug, thiserror::Error)]
#[error("lease name {0:?}: expected 1 to 64 of a-z, 0-9 and '-'")]
pub struct BadLeaseName(String);

impl LeaseName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LeaseName {
    type Err = BadLeaseName;

    fn from_str(text: &str) -> Result<Self, BadLeaseName> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good = (1..=64).contains(&text.len()) && text.bytes().all(plain);
        if good { Ok(Self(text.into())) } else { Err(BadLeaseName(text.into())) }
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In tables, names stand in columns.
        f.pad(&self.0)
    }
}

/// A random 128-bit identity, written as 32 hex digits. Random, because host names, pids and boot ids repeat.
macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// A new one, from the thread's cryptographic generator.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(rand::random())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:032x})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
                let value = u128::from_str_radix(text, 16).ok().filter(|_| digits);
                value.map(Self).ok_or_else(|| BadId(text.into()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

/// A text that is no random identity.
#[derive(Debug, thiserror::Error)]
#[error("identity {0:?}: expected 32 hex digits")]
pub struct BadId(String);

random_id! {
    /// One registration of a process. A process that was declared dead, or lost its session, registers anew.
    Incarnation
}
random_id! {
    /// One process, from its start to its end.
    ProcessId
}

/// The fencing token: rises at every acquire of a name, never reused. At most 63 bits, so that every database keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Epoch(pub i64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// (name, holder, epoch): what every operation is scoped to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TermId {
    /// The lease.
    pub name: LeaseName,
    /// The incarnation that the row names.
    pub holder: Incarnation,
    /// The epoch of the acquire.
    pub epoch: Epoch,
}

impl fmt::Display for TermId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at epoch {}", self.name, self.epoch)
    }
}
