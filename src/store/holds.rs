//! Which holds the index knows of.

use super::queries::{backfill_runs, holds};
use super::{Database, ReadError, stored_did};
use crate::atproto::Did;

/// So many of each kind are read. Any account can name holds that do not exist, ten thousand of them at most; at half, one
/// account could crowd out the rest, at double, it costs a megabyte more.
const READ_MAX: i64 = 10_000;

/// The holds of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHolds {
    /// Those that have a captain, in the order of their DIDs.
    pub captained: Vec<Did>,
    /// Those that manifests name, in the order of their DIDs; some are among the former.
    pub named: Vec<Did>,
}

impl Database {
    /// The holds that the index knows of: ten thousand of each kind at most.
    pub async fn known_holds(&self) -> Result<KnownHolds, ReadError> {
        let session = &mut self.session().await?;
        let dids = |texts: Vec<String>| texts.iter().map(|text| stored_did(text)).collect::<Result<_, _>>();
        Ok(KnownHolds {
            captained: dids(holds::with_captain(session, READ_MAX).await?)?,
            named: dids(backfill_runs::holds_beyond(session, "", READ_MAX).await?)?,
        })
    }
}
