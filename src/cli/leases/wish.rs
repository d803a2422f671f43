//! `leases drain`, `undrain`, `move`, `pause`, `resume`: a wish is written to the database, and its fulfilment waited for.

use std::time::Duration;

use leased_actors::clock::Clock;
use leased_actors::lease::{Incarnation, LeaseName, LeaseStore, LeaseView};
use tokio::time::sleep;

use crate::app::{Exit, Refusal};
use crate::store::{InstanceView, SqlLeases};

/// How long a fulfilment is waited for: several renewals, a worker's stop, and a new holder's start.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Asks an instance to give its leases up and take none, and waits until it has none.
pub(super) async fn drain(leases: &SqlLeases, instance: &str) -> Result<Exit, Refusal> {
    let who = find(leases, instance).await?;
    written(leases.set_draining(who.incarnation, true).await, &who.label)?;
    tell(&format!("{} takes no leases any more", named(&who)));
    fulfilled(leases, "its leases have not all left", move |all| {
        let left: Vec<_> = all.iter().filter(|lease| holds(lease, who.incarnation)).collect();
        if left.is_empty() {
            Ok("it has none".to_owned())
        } else {
            Err(format!("{} still there", left.len()))
        }
    })
    .await
}

/// Lets an instance take leases again.
pub(super) async fn undrain(leases: &SqlLeases, instance: &str) -> Result<Exit, Refusal> {
    let who = find(leases, instance).await?;
    written(leases.set_draining(who.incarnation, false).await, &who.label)?;
    Ok(tell(&format!("{} takes leases again", named(&who))))
}

/// Moves a lease to an instance, and waits until it is there.
pub(super) async fn hand(leases: &SqlLeases, name: &LeaseName, instance: &str) -> Result<Exit, Refusal> {
    let who = find(leases, instance).await?;
    if who.state != "up" {
        return Err(Refusal::failed(format!("{} is {}: it takes no leases", named(&who), who.state)));
    }
    written(leases.set_desired(name, who.incarnation).await, name.as_str())?;
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
    written(leases.set_paused(name, true).await, name.as_str())?;
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
    written(leases.set_paused(name, false).await, name.as_str())?;
    Ok(tell(&format!("{name} may run again")))
}

/// The one instance that a prefix of its incarnation, or its label, means.
async fn find(leases: &SqlLeases, instance: &str) -> Result<InstanceView, Refusal> {
    let all = leases.instances().await.map_err(Refusal::failed)?;
    let means = |view: &&InstanceView| {
        view.label == instance || !instance.is_empty() && view.incarnation.to_string().starts_with(instance)
    };
    let mut found: Vec<_> = all.iter().filter(means).cloned().collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => {
            let ids: Vec<_> = all.iter().filter(means).map(named).collect();
            Err(Refusal::failed(format!(
                "{instance:?} means several: {}; say more of the incarnation",
                ids.join(", ")
            )))
        }
        (None, _) => {
            let ids: Vec<_> = all.iter().map(named).collect();
            Err(Refusal::failed(format!("no instance {instance:?}; there are: {}", ids.join(", "))))
        }
    }
}

fn named(view: &InstanceView) -> String {
    let short: String = view.incarnation.to_string().chars().take(6).collect();
    format!("{} ({short})", view.label.escape_debug())
}

fn holds(lease: &LeaseView, who: Incarnation) -> bool {
    lease.holder.as_ref().is_some_and(|holder| holder.incarnation == who)
}

fn written(outcome: Result<bool, leased_actors::lease::StoreError>, what: &str) -> Result<(), Refusal> {
    match outcome {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::failed(format!("{what}: there is no such lease or living instance"))),
        Err(error) => Err(Refusal::failed(error)),
    }
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
                "{otherwise} within {PATIENCE:?} ({last}); the wish stays, and is carried out when it can be"
            )));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn tell(what: &str) -> Exit {
    crate::cli::print(|out| writeln!(out, "{what}"))
}
