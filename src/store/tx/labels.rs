//! What the labeler's worker does in a fenced transaction.

use super::Tx;
use crate::atproto::Did;
use crate::store::labels::{LabelRow, LabelerPosition};
use crate::store::{WriteError, queries};

impl Tx {
    /// Puts a labeler into effect, in the place of any other, and tells from where to hear it. `verify`: whether only labels
    /// with a good signature count; `key`: by which it is good now. Once that changes, labels that were not good under the
    /// key before are heard again.
    pub async fn follow_labeler(
        &mut self,
        src: &Did,
        verify: bool,
        key: Option<&str>,
    ) -> Result<LabelerPosition, WriteError> {
        let (seq, era) = queries::labels::follow(&mut self.session, src.as_str(), verify, key).await?;
        Ok(LabelerPosition { seq, era })
    }

    /// Stores labels of a labeler where they are its latest word; how many were. Any interleaving, repetition and replay of
    /// what it says ends in the same. `labels` has each subject and value once; `verify` as it is followed with.
    pub async fn store_labels(
        &mut self,
        src: &Did,
        era: i64,
        verify: bool,
        labels: &[LabelRow],
    ) -> Result<usize, WriteError> {
        Ok(queries::labels::store(&mut self.session, src.as_str(), era, verify, labels).await?)
    }

    /// Notes up to which number a labeler was heard; never back.
    pub async fn save_labeler_seq(&mut self, src: &Did, seq: i64) -> Result<(), WriteError> {
        Ok(queries::labels::advance(&mut self.session, src.as_str(), seq).await?)
    }

    /// Hears a labeler from its beginning again: its numbers have begun anew.
    pub async fn restart_labeler(&mut self, src: &Did) -> Result<(), WriteError> {
        Ok(queries::labels::restart(&mut self.session, src.as_str()).await?)
    }
}
