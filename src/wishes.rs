//! What operators may ask for: written to the database, and carried out by the instances. The command line and the status page
//! ask with the same functions; here nothing waits for the fulfilment.

use leased_actors::lease::{LeaseName, LeaseStore, StoreError};

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
    written(leases.set_draining(who.incarnation, draining).await?, &named(&who))?;
    Ok(who)
}

/// Asks for a lease to move to an instance.
///
/// # Errors
/// If there is no such lease or no such living instance, it takes none, or the database does not answer.
pub async fn hand(leases: &SqlLeases, name: &LeaseName, instance: &str) -> Result<InstanceView, Refused> {
    let who = find(leases, instance).await?;
    if who.state != "up" {
        return Err(Refused::Conflict(format!(
            "{} is {}: it takes no leases; `atcr-workers leases undrain {}` first",
            named(&who),
            who.state,
            shortened(&who)
        )));
    }
    known(leases, name).await?;
    written(leases.set_desired(name, who.incarnation).await?, &named(&who))?;
    Ok(who)
}

/// Asks for a lease's worker to be stopped everywhere, or to run again.
///
/// # Errors
/// If there is no such lease, or the database does not answer.
pub async fn pause(leases: &SqlLeases, name: &LeaseName, paused: bool) -> Result<(), Refused> {
    known(leases, name).await?;
    written(leases.set_paused(name, paused).await?, name.as_str())
}

/// Refuses a name that no lease has, with those that there are.
///
/// # Errors
/// If there is no such lease, or the database does not answer.
pub async fn known(leases: &SqlLeases, name: &LeaseName) -> Result<(), Refused> {
    let all = leases.list().await?;
    if all.iter().any(|lease| lease.name == *name) {
        return Ok(());
    }
    let names: Vec<_> = all.iter().map(|lease| lease.name.as_str()).collect();
    let there = match names.as_slice() {
        [] => "none yet: no instance has run on this database".to_owned(),
        names => names.join(", "),
    };
    Err(Refused::Unknown(format!("{name}: there is no such lease; there are: {there}")))
}

/// An instance as people name it: its label, and the beginning of its incarnation.
pub fn named(view: &InstanceView) -> String {
    format!("{} ({})", view.label.escape_debug(), shortened(view))
}

fn shortened(view: &InstanceView) -> String {
    view.incarnation.to_string().chars().take(6).collect()
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
        [] if all.is_empty() => {
            Err(Refused::Unknown("no instance is up: start one with `atcr-workers run`".to_owned()))
        }
        [] => {
            let there = names(&all.iter().collect::<Vec<_>>());
            Err(Refused::Unknown(format!("no instance {instance:?}; there are: {there}")))
        }
        _ => Err(Refused::Conflict(format!(
            "{instance:?} means several: {}; say the first digits of one",
            names(&found)
        ))),
    }
}

fn written(is_written: bool, what: &str) -> Result<(), Refused> {
    let refused =
        || Refused::Unknown(format!("{what} has ended meanwhile: `atcr-workers status` lists who is there"));
    if is_written { Ok(()) } else { Err(refused()) }
}
