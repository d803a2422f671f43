//! `leases drain`, `undrain`, `move`, `pause`, `resume`: a wish is written to the database, and its fulfilment waited for.

use std::time::Duration;

use leased_actors::clock::Clock;
use leased_actors::lease::{Incarnation, LeaseName, LeaseStore, LeaseView};
use tokio::time::sleep;

use crate::app::{Exit, Refusal};
use crate::store::SqlLeases;
use crate::wishes::{self, named};

/// How long a fulfilment is waited for: several renewals, a worker's stop, and a new holder's start.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Asks an instance to give its leases up and take none, and waits until it has none.
pub(super) async fn drain(leases: &SqlLeases, instance: &str) -> Result<Exit, Refusal> {
    let who = wishes::drain(leases, instance, true).await.map_err(Refusal::failed)?;
    tell(&format!("{} takes no leases any more", named(&who)));
    let all = leases.instances().await.map_err(Refusal::failed)?;
    let alone = !all.iter().any(|other| other.incarnation != who.incarnation && other.state == "up");
    let nobody = if alone { ": nobody else is up, so its workers run nowhere" } else { "" };
    fulfilled(leases, "its leases have not all left", move |all| {
        let there = all.iter().filter(|lease| holds(lease, who.incarnation));
        let there: Vec<&str> = there.map(|lease| lease.name.as_str()).collect();
        if there.is_empty() {
            Ok(format!("it has none{nobody}"))
        } else {
            Err(format!("{} to leave", there.join(", ")))
        }
    })
    .await
}

/// Lets an instance take leases again.
pub(super) async fn undrain(leases: &SqlLeases, instance: &str) -> Result<Exit, Refusal> {
    let who = wishes::drain(leases, instance, false).await.map_err(Refusal::failed)?;
    Ok(tell(&format!("{} takes leases again", named(&who))))
}

/// Moves a lease to an instance, and waits until it is there.
pub(super) async fn hand(leases: &SqlLeases, name: &LeaseName, instance: &str) -> Result<Exit, Refusal> {
    let who = wishes::hand(leases, name, instance).await.map_err(Refusal::failed)?;
    let name = name.clone();
    fulfilled(leases, "it did not come there", move |all| {
        let lease = all.iter().find(|lease| lease.name == name).ok_or("it is gone")?;
        if holds(lease, who.incarnation) {
            Ok(format!("{name} is at {}, epoch {}", named(&who), lease.epoch))
        } else {
            Err(format!("{name} is {}", lease.state))
        }
    })
    .await
}

/// Stops a lease's worker everywhere, and waits until it is.
pub(super) async fn pause(leases: &SqlLeases, name: &LeaseName) -> Result<Exit, Refusal> {
    wishes::pause(leases, name, true).await.map_err(Refusal::failed)?;
    let name = name.clone();
    fulfilled(leases, "it still runs", move |all| {
        let lease = all.iter().find(|lease| lease.name == name).ok_or("it is gone")?;
        let paused = lease.holder.is_none() && lease.paused;
        if paused { Ok(format!("{name} is paused")) } else { Err(format!("{name} is {}", lease.state)) }
    })
    .await
}

/// Lets a paused lease's worker run again.
pub(super) async fn resume(leases: &SqlLeases, name: &LeaseName) -> Result<Exit, Refusal> {
    wishes::pause(leases, name, false).await.map_err(Refusal::failed)?;
    Ok(tell(&format!("{name} may run again")))
}

fn holds(lease: &LeaseView, who: Incarnation) -> bool {
    lease.holder.as_ref().is_some_and(|holder| holder.incarnation == who)
}

/// Waits until `look` is content with the list; what it says last is told.
async fn fulfilled(
    leases: &SqlLeases,
    otherwise: &str,
    look: impl Fn(&[LeaseView]) -> Result<String, String>,
) -> Result<Exit, Refusal> {
    let (clock, mut last) = (Clock::boottime(), String::new());
    let since = clock.now();
    loop {
        match look(&leases.list().await.map_err(Refusal::failed)?) {
            Ok(done) => return Ok(tell(&done)),
            Err(waiting) if waiting != last => {
                tell(&format!("waiting: {waiting}"));
                last = waiting;
            }
            Err(_) => {}
        }
        if clock.now().since(since) > PATIENCE {
            return Err(Refusal::failed(format!(
                "{otherwise} within {PATIENCE:?} ({last}); the wish stays, and `atcr-workers leases` shows when it is \
                 carried out"
            )));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn tell(what: &str) -> Exit {
    crate::cli::print(|out| writeln!(out, "{what}"))
}
