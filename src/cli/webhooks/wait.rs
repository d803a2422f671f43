//! Waits for the first attempt of a delivery, and says how it went.

use std::time::Duration;

use leased_actors::clock::Clock;
use tokio::time::sleep;

use crate::app::{Exit, Refusal};
use crate::cli::nobody::nobody;
use crate::settings::Settings;
use crate::store::SqlLeases;
use crate::store::webhooks::Standing;

/// How long nobody may take it up: several looks of the worker, and a hand-over of its lease with the grace.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) async fn outcome(
    settings: &Settings,
    leases: SqlLeases,
    delivery: &str,
    no_wait: bool,
) -> Result<Exit, Refusal> {
    let nobody = match settings.leases.enabled {
        true => nobody(&leases, "webhooks").await?,
        false => None,
    };
    if no_wait {
        let more = nobody.map_or_else(String::new, |why| format!("; it waits: {why}"));
        return Ok(crate::cli::print(|out| writeln!(out, "{delivery} is due{more}")));
    }
    if let Some(why) = nobody {
        return Err(Refusal::failed(format!("{why}; {delivery} is due, and goes out when one runs it")));
    }
    let clock = Clock::boottime();
    let until = clock.now() + settings.webhooks.timeout + PATIENCE;
    loop {
        let standing = leases.delivery(delivery).await.map_err(Refusal::failed)?;
        let Some(standing) = standing else {
            return Err(Refusal::failed(format!("{delivery} went with its webhook")));
        };
        if let Some((exit, how)) = said(&standing) {
            return match crate::cli::print(|out| writeln!(out, "{delivery} {how}")) {
                Exit::Stopped => Ok(exit),
                failed => Ok(failed),
            };
        }
        if clock.now() >= until {
            return Err(Refusal::failed(format!(
                "{delivery} was not tried in time; it stays due, and `atcr-workers status` shows what waits"
            )));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// How the first attempt went, once there was one.
fn said(standing: &Standing) -> Option<(Exit, String)> {
    let error = standing.error.as_deref().unwrap_or("no reason is known");
    Some(match standing.status.as_str() {
        "delivered" => {
            let code = standing.code.map_or_else(String::new, |code| format!(", answered {code}"));
            (Exit::Stopped, format!("delivered{code}"))
        }
        "withheld" => {
            let reason = standing.reason.as_deref().unwrap_or("no reason is known");
            (Exit::Failed, format!("withheld: {reason}"))
        }
        "failed" => (Exit::Failed, format!("failed: {error}")),
        _ if standing.attempts > 0 => (Exit::Failed, format!("not delivered: {error}; it is tried again")),
        _ => return None,
    })
}
