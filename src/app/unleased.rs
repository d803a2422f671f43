//! Without leases, this must be the only instance: start is refused beside another one that lives.

use std::collections::BTreeMap;
use std::time::Duration;

use leased_actors::clock::Clock;
use leased_actors::lease::{Incarnation, Peer};
use tokio::time::sleep;

use super::Refusal;
use crate::store::{Database, SqlLeases};

/// How often the registered instances are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Returns once no registered instance can be alive: at once if there is none, after their TTL if they stand still.
///
/// # Errors
/// [`super::Exit::Settings`] as soon as one of them renews.
pub(super) async fn refuse_beside_another(
    database: &Database,
    clock: &Clock,
    ttl: Duration,
) -> Result<(), Refusal> {
    let leases = SqlLeases::new(database.clone());
    let look = async || leases.peers().await.map_err(Refusal::failed);
    let first: BTreeMap<_, _> = look().await?.into_iter().map(|peer| (peer.incarnation, peer)).collect();
    let Some(longest) = first.values().map(|peer| peer.ttl.max(ttl)).max() else { return Ok(()) };
    tracing::info!(instances = first.len(), wait = ?longest, "leases.enabled is off: seeing whether registered instances are alive");
    let (since, until) = (clock.now(), longest);
    while clock.now().since(since) < until {
        sleep(LOOK_EVERY).await;
        if let Some(alive) = look().await?.iter().find(|peer| has_moved(&first, peer)) {
            return Err(Refusal::settings(format!(
                "leases.enabled = false: expected no other instance on this database, but {} is alive; \
                 stop it, or set leases.enabled to true",
                alive.incarnation
            )));
        }
    }
    Ok(())
}

/// Whether an instance has renewed, or come, since the first look.
fn has_moved(first: &BTreeMap<Incarnation, Peer>, now: &Peer) -> bool {
    first.get(&now.incarnation).is_none_or(|then| then.renew_seq != now.renew_seq)
}
