//! Why nobody carries a wish out: the same for every worker.

use leased_actors::lease::{LeaseStore, LeaseView};

use crate::app::Refusal;
use crate::store::SqlLeases;

/// Why nobody can take up a wish to this worker now, if that is so.
pub(super) async fn nobody(leases: &SqlLeases, worker: &str) -> Result<Option<String>, Refusal> {
    if leases.instances().await.map_err(Refusal::failed)?.is_empty() {
        return Ok(Some("no instance is up: start one with `atcr-workers run`".to_owned()));
    }
    let all = leases.list().await.map_err(Refusal::failed)?;
    let lease = all.iter().find(|lease: &&LeaseView| lease.name.as_str() == worker);
    Ok(match lease {
        None => Some(format!("no instance runs the worker {worker}: set {worker}.enabled = true on one")),
        Some(lease) if lease.paused => {
            Some(format!("the lease {worker} is paused: `atcr-workers leases resume {worker}`"))
        }
        Some(_) => None,
    })
}
