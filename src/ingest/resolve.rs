//! Who the authors are, asked beside the stream. What has to be asked stands in the database (`users.identity_due_at`),
//! so that no crash forgets it and no queue of it grows here.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use leased_actors::lease::Term;
use leased_actors::worker::{Context, WorkerError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::meters;
use crate::atproto::Did;
use crate::atproto::identity::{IdentityError, Resolver};
use crate::store::{Database, HandleFound, IdentityDue, IdentityFound, WriteError};

/// Look-ups at once. At half, a first start with thousands of authors takes twice as long; at double, directories see
/// twice the load from one registry.
const AT_ONCE: usize = 8;

/// Due look-ups read at once.
const READ_AT_ONCE: u32 = 64;

/// How often the due ones are looked for without being told: for those that were put off.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks up what is due until told to stop.
pub(super) async fn run(
    database: Database,
    resolver: Arc<Resolver>,
    context: Context,
    due: Arc<Notify>,
) -> Result<(), WorkerError> {
    let mut lookups =
        Lookups { database, resolver, term: context.term, tasks: JoinSet::new(), asking: HashSet::new() };
    loop {
        let free = AT_ONCE - lookups.tasks.len();
        let more = if free > 0 { lookups.start(free).await } else { false };
        tokio::select! {
            () = context.stop.cancelled() => return Ok(()),
            Some(done) = lookups.tasks.join_next(), if !lookups.tasks.is_empty() => lookups.done(done),
            () = due.notified(), if !more => {}
            () = sleep(LOOK_EVERY), if !more => {}
        }
    }
}

struct Lookups {
    database: Database,
    resolver: Arc<Resolver>,
    term: Term,
    tasks: JoinSet<Did>,
    asking: HashSet<Did>,
}

impl Lookups {
    /// Starts look-ups up to `free`. True: there are more than could be started.
    async fn start(&mut self, free: usize) -> bool {
        let due = match self.database.due_identities(READ_AT_ONCE).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "due identities not read");
                return false;
            }
        };
        let mut waiting = due.into_iter().filter(|due| !self.asking.contains(&due.did)).collect::<Vec<_>>();
        let more = waiting.len() > free;
        waiting.truncate(free);
        for due in waiting {
            self.asking.insert(due.did.clone());
            self.tasks.spawn(look_up(self.database.clone(), self.resolver.clone(), self.term.clone(), due));
        }
        more
    }

    fn done(&mut self, done: Result<Did, tokio::task::JoinError>) {
        match done {
            Ok(did) => drop(self.asking.remove(&did)),
            Err(error) => {
                // Whose it was is not known any more: ask again whatever is still due.
                tracing::error!(%error, "an identity look-up failed unexpectedly");
                self.asking.clear();
            }
        }
    }
}

/// One look-up and the storing of what it found. A refused write leaves it due.
async fn look_up(database: Database, resolver: Arc<Resolver>, term: Term, due: IdentityDue) -> Did {
    let did = due.did.clone();
    let found = match resolver.resolve(&did).await {
        Ok(identity) => Some(IdentityFound::from(identity)),
        Err(IdentityError::NotFound(_) | IdentityError::Deleted(_)) => {
            Some(IdentityFound { handle: HandleFound::Invalid, pds: None })
        }
        Err(error) => {
            tracing::debug!(%did, %error, "identity not resolved");
            None
        }
    };
    meters::looked_up(found.as_ref());
    if let Err(error) = store(&database, &term, due, found).await {
        tracing::debug!(%did, %error, "identity not stored; it stays due");
        sleep(Duration::from_secs(1)).await;
    }
    did
}

async fn store(
    database: &Database,
    term: &Term,
    due: IdentityDue,
    found: Option<IdentityFound>,
) -> Result<(), WriteError> {
    database
        .fenced(term, async move |tx| match &found {
            Some(found) => tx.set_identity(&due, found).await,
            None => tx.identity_failed(&due).await,
        })
        .await
}
