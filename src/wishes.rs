//! What operators may ask for: written to the database, and carried out by the instances. The command line and the status page
//! ask with the same functions; here nothing waits for the fulfilment.

use leased_actors::lease::{LeaseName, StoreError};

use crate::store::{InstanceView, SqlLeases};

/// Why a wish was not written. Its text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// What was named is not there.
    #[error("{0}")]
    Unknown(String),
    /// It is there, and cannot do it.
    #[error("{0}")]
    Conflict(String),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Asks an instance to give its leases up and take none, or lifts that.
///
/// # Errors
/// If no living instance is meant, or the database does not answer.
pub async fn drain(leases: &SqlLeases, instance: &str, draining: bool) -> Result<InstanceView, Refused> {
    let who = find(leases, instance).await?;
    written(leases.set_draining(who.incarnation, draining).await?, &who.label)?;
    Ok(who)
}

/// Asks for a lease to move to an instance.
///
/// # Errors
/// If there is no such lease or no such living instance, it takes none, or the database does not answer.
pub async fn hand(leases: &SqlLeases, name: &LeaseName, instance: &str) -> Result<InstanceView, Refused> {
    let who = find(leases, instance).await?;
    if who.state != "up" {
        return Err(Refused::Conflict(format!("{} is {}: it takes no leases", named(&who), who.state)));
    }
    written(leases.set_desired(name, who.incarnation).await?, name.as_str())?;
    Ok(who)
}

/// Asks for a lease's worker to be stopped everywhere, or to run again.
///
/// # Errors
/// If there is no such lease, or the database does not answer.
pub async fn pause(leases: &SqlLeases, name: &LeaseName, paused: bool) -> Result<(), Refused> {
    written(leases.set_paused(name, paused).await?, name.as_str())
}

/// An instance as people name it: its label, and the beginning of its incarnation.
pub fn named(view: &InstanceView) -> String {
    let short: String = view.incarnation.to_string().chars().take(6).collect();
    format!("{} ({short})", view.label.escape_debug())
}

/// The one instance that a prefix of its incarnation, or its label, means.
async fn find(leases: &SqlLeases, instance: &str) -> Result<InstanceView, Refused> {
    let all = leases.instances().await?;
    let means = |view: &&InstanceView| {
        view.label == instance || !instance.is_empty() && view.incarnation.to_string().starts_with(instance)
    };
    let found: Vec<&InstanceView> = all.iter().filter(means).collect();
    let names = |views: &[&InstanceView]| views.iter().map(|view| named(view)).collect::<Vec<_>>().join(", ");
    match found[..] {
        [only] => Ok(only.clone()),
        [] => {
            let there = names(&all.iter().collect::<Vec<_>>());
            Err(Refused::Unknown(format!("no instance {instance:?}; there are: {there}")))
        }
        _ => Err(Refused::Conflict(format!(
            "{instance:?} means several: {}; say more of the incarnation",
            names(&found)
        ))),
    }
}

fn written(is_written: bool, what: &str) -> Result<(), Refused> {
    let refused = || Refused::Unknown(format!("{what}: there is no such lease or living instance"));
    if is_written { Ok(()) } else { Err(refused()) }
}
