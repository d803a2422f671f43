//! The fence: the only way to a writing transaction.
//!
//! A lease is a hint; what excludes two workers is the first statement of each of their transactions. It finds the
//! lease's row with our holder and epoch, its holder not dead, and locks it against a claim until the transaction
//! ends: by a shared row lock on PostgreSQL, on SQLite by being the one writer from the start.

use leased_actors::lease::Term;

use super::session::{Session, Work};
use super::tx::Tx;
use super::{Database, Store, WriteError, queries, sqlite};

/// Whether writes show a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// Each transaction checks its term in the database.
    Leased,
    /// Leases are disabled: terms live in memory, and only their own trust counts.
    Unleased,
}

impl Database {
    /// Runs `work` in a transaction under `term`, and commits if it succeeds.
    ///
    /// Cancel-safe: a dropped call is still carried to its end, committed or not, and never cut in two.
    pub async fn fenced<R, F>(&self, term: &Term, work: F) -> Result<R, WriteError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Tx) -> Result<R, WriteError>
            + Work<&'r mut Tx, Result<R, WriteError>, Running: Send>
            + Send
            + 'static,
        R: Send + 'static,
    {
        if !term.is_trusted() {
            return Err(WriteError::Untrusted(term.id().clone()));
        }
        let (database, term) = (self.clone(), term.clone());
        match tokio::spawn(async move { database.run_fenced(term, work).await }).await {
            Ok(outcome) => outcome,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(WriteError::Database("the process is ending".to_owned())),
            },
        }
    }

    async fn run_fenced<R, F>(&self, term: Term, work: F) -> Result<R, WriteError>
    where
        for<'r> F: AsyncFnOnce(&'r mut Tx) -> Result<R, WriteError>
            + Work<&'r mut Tx, Result<R, WriteError>, Running: Send>
            + Send,
        R: Send,
    {
        let lined_up = match self.store() {
            Store::Postgres { .. } => None,
            Store::Sqlite { gate, .. } => Some((gate, sqlite::Gate::line_up(gate).await)),
        };
        let mut session = self.session().await.map_err(|error| WriteError::Database(error.0))?;
        let _turn = match lined_up {
            None => None,
            Some((gate, lined_up)) => Some(gate.enter_batch(lined_up).await),
        };
        // The wait for the turn may have outlasted it.
        if !term.is_trusted() {
            return Err(WriteError::Untrusted(term.id().clone()));
        }
        session.begin().await?;
        let mut tx = Tx::new(session);
        let outcome = match self.check(&mut tx.session, &term).await {
            Ok(()) => work(&mut tx).await,
            Err(error) => Err(error),
        };
        tx.session.end(outcome).await
    }

    async fn check(&self, session: &mut Session, term: &Term) -> Result<(), WriteError> {
        let valid = match self.shared.fencing {
            Fencing::Unleased => true,
            Fencing::Leased => queries::fence::matches(session, term.id()).await?,
        };
        if valid { Ok(()) } else { Err(WriteError::Stale(term.id().clone())) }
    }
}
