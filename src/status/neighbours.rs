//! Asks the instances on this machine for what is only in their memory. Those elsewhere are not asked: most listen on
//! loopback, and a private address of theirs is none of ours to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use serde::de::DeserializeOwned;

use super::holds::Told;
use super::report::{Instance, StatusReport};
use crate::atproto::guard::{GuardError, GuardSettings, Guarded};

/// An instance answers from memory, in milliseconds. One that hangs is told of after so long.
const WITHIN: Duration = Duration::from_secs(2);

/// A thousand holds with an error each have half of it.
const BODY_LEN_MAX: usize = 1 << 20;

/// Instances that are asked. More than a few on one machine are a test.
const ASKED_MAX: usize = 64;

/// A client for instances on this machine.
///
/// # Errors
/// If it cannot be made.
pub fn client(user_agent: &str) -> Result<Guarded, GuardError> {
    let user_agent = user_agent.to_owned();
    let settings = GuardSettings {
        allow_loopback: true,
        test_hosts: None,
        user_agent,
        timeout: WITHIN,
        per_host: ASKED_MAX,
    };
    Guarded::trusting(settings)
}

/// Asks each instance on `host`, which is this machine, and puts what it tells into the report.
pub async fn ask(client: &Guarded, host: &str, report: &mut StatusReport) {
    let asked: Vec<Instance> = report.instances.iter().take(ASKED_MAX).cloned().collect();
    let tell = async |instance: &Instance| match address(instance, host) {
        Ok(address) => ask_one::<Told>(client, address, "holds").await,
        Err(reason) => Err(reason),
    };
    let told = join_all(asked.iter().map(tell)).await;
    for (instance, told) in asked.iter().zip(told) {
        report.told(&instance.incarnation, told);
    }
    if let Some(holder) = report.labeler_holder().cloned() {
        let heard = match address(&holder, host) {
            Ok(address) => ask_one(client, address, "labeler").await,
            Err(reason) => Err(reason),
        };
        report.heard(&holder.incarnation, heard);
    }
}

async fn ask_one<T: DeserializeOwned>(
    client: &Guarded,
    address: SocketAddr,
    what: &str,
) -> Result<T, String> {
    let answer = client.get(&format!("http://{address}/{what}"), BODY_LEN_MAX).await;
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status {
        200 => serde_json::from_slice(&answer.body).map_err(|_| "its answer makes no sense".to_owned()),
        status => Err(format!("it answered with status {status}")),
    }
}

/// Where an instance is asked from this machine, or why it is not.
fn address(instance: &Instance, host: &str) -> Result<SocketAddr, String> {
    let Some(text) = &instance.admin_address else {
        return Err("it serves no address (admin.listen)".to_owned());
    };
    if instance.host != host {
        return Err(format!("ask the instance at {text} on {}", instance.host));
    }
    let mut address: SocketAddr = text.parse().map_err(|_| format!("its address is {text}"))?;
    if address.ip().is_unspecified() {
        let loopback = match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        address.set_ip(loopback);
    }
    Ok(address)
}
