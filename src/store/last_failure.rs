//! Why no connection could be made. A pool tries in the background and tells its callers only that they waited too long.

use std::sync::{Arc, Mutex, PoisonError};

use diesel::ConnectionResult;
use diesel_async::pooled_connection::bb8::RunError;

use super::ReadError;

/// The reason of the latest attempt, if it failed. Shared by the pools of a database.
#[derive(Clone, Debug, Default)]
pub(super) struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    /// Notes how an attempt to connect ended, and passes it on.
    pub(super) fn note<C>(&self, attempt: ConnectionResult<C>) -> ConnectionResult<C> {
        let reason = attempt.as_ref().err().map(ToString::to_string);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        attempt
    }

    /// What a caller is told who got no connection.
    pub(super) fn explain(&self, error: RunError) -> ReadError {
        let reason = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ReadError(match (error, reason) {
            (RunError::User(error), _) => error.to_string(),
            (RunError::TimedOut, Some(reason)) => reason,
            (RunError::TimedOut, None) => {
                "no connection in time: all are in use, or the database is slow to answer".to_owned()
            }
        })
    }
}
