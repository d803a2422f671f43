//! Faults of PostgreSQL, and of the way to it.

use std::time::Duration;

use rand::rngs::StdRng;

use super::{a_holder, an_external_holder};
use crate::history::What;
use crate::runner::place::Place;
use crate::runner::pooler::{Pooler, mixes_statements_up};
use crate::runner::postgres::Server;
use crate::runner::process::{pause, poll};
use crate::runner::stage::Stage;

/// All that is needed to reach a server that is back: the longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(1);

pub(super) fn cut(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = an_external_holder(stage, random)?;
    let timing = stage.times.timing;
    let lost = timing.ttl.max(timing.server_drop) + timing.grace + timing.stop_within;
    stage.fault("cut", lost + stage.times.soon(), false);
    cable(stage, at, false)?;
    stage.write_of(at, What::Cut);
    let elsewhere = stage.until_elsewhere(at, lost * 3);
    cable(stage, at, true)?;
    stage.write_of(at, What::Mended);
    elsewhere
}

fn cable(stage: &Stage, at: usize, whole: bool) -> Result<(), String> {
    match &stage.place {
        Place::Server { network: Some(network), .. } if whole => network.mend(at),
        Place::Server { network: Some(network), .. } => network.cut(at),
        _ => Err("no network of its own".to_owned()),
    }
}

pub(super) fn beacon(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = an_external_holder(stage, random)?;
    stage.fault("beacon", stage.times.timing.grace + stage.times.soon() + RETRY_MAX, false);
    let key = format!(
        "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN lease_instance i
            ON i.beacon_key = (l.classid::BIGINT << 32) + l.objid::BIGINT
         WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND i.label = 'contender-{at}'"
    );
    terminate(stage, &key)?;
    stage.until_registered(at)
}

pub(super) fn listener(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = a_holder(stage, random)?;
    stage.fault("listener", stage.times.soon(), false);
    terminate(stage, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'")?;
    stage.stop(at)?;
    stage.until_elsewhere(at, stage.times.timing.ttl * 10)?;
    stage.start(at)
}

pub(super) fn ring(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    let at = a_holder(stage, random)?;
    stage.fault("ring", stage.times.timing.grace + stage.times.soon(), false);
    terminate(
        stage,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
    )?;
    stage.kill(at)?;
    stage.until_elsewhere(at, stage.times.timing.ttl * 10)?;
    stage.start(at)
}

/// Ends sessions, of which there must be one at least.
fn terminate(stage: &Stage, sql: &str) -> Result<(), String> {
    let Place::Server { server, .. } = &stage.place else { return Ok(()) };
    poll("a session is ended", Duration::from_secs(5), || {
        let ended = server.sql("faults", sql)?;
        if ended.contains('t') { Ok(()) } else { Err("none was there".to_owned()) }
    })
}

pub(super) fn restart(stage: &mut Stage, _random: &mut StdRng) -> Result<(), String> {
    let (within, outage) = (after_an_outage(stage), stage.times.outage.min(Duration::from_secs(10)));
    stage.fault("restart", within, true);
    let Place::Server { server, .. } = &mut stage.place else { return Ok(()) };
    server.stop(true)?;
    pause(outage);
    server.start(&[])?;
    stage.healed();
    Ok(())
}

pub(super) fn promote(stage: &mut Stage, _random: &mut StdRng) -> Result<(), String> {
    let (within, folder) = (after_an_outage(stage), stage.folder.clone());
    let Place::Server { server, ports, .. } = &mut stage.place else { return Ok(()) };
    let other = if server.port == ports[0] { ports[1] } else { ports[0] };
    let standby = server.standby(&folder, other)?;
    stage.fault("promote", within, true);
    let Place::Server { server, .. } = &mut stage.place else { return Ok(()) };
    server.stop(false)?;
    standby.promote()?;
    **server = standby;
    stage.healed();
    Ok(())
}

/// L21: five seconds with the product's times.
fn after_an_outage(stage: &Stage) -> Duration {
    stage.times.timing.grace + stage.times.soon() + RETRY_MAX
}

pub(super) fn pooler(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    through(stage, random, "pooler", true)
}

pub(super) fn pooler_only(stage: &mut Stage, random: &mut StdRng) -> Result<(), String> {
    through(stage, random, "pooler-only", false)
}

/// Starts every contender anew with its database behind a pooler, kills one of them, and leads all back.
fn through(stage: &mut Stage, random: &mut StdRng, name: &str, directly: bool) -> Result<(), String> {
    let program = stage.pooler.clone().ok_or("no pgbouncer")?;
    let Place::Server { server, network, .. } = &stage.place else { return Ok(()) };
    let hosts: Vec<String> =
        network.iter().flat_map(|n| (0..stage.instances()).map(|at| n.address(at))).collect();
    let (pooler, port) = (Pooler::start(&program, &stage.folder, server.port, &hosts)?, server.port);
    let prepare = |stage: &mut Stage, at: usize| {
        let host = hosts.get(at).map_or("127.0.0.1", String::as_str);
        let direct = ("ATCR__DATABASE__DIRECT_URL".to_owned(), Server::url(host, &[port]));
        stage.environment = if directly { vec![direct] } else { Vec::new() };
        stage.through = Some(pooler.port);
    };
    let old = mixes_statements_up(&program)?;
    let played = match old {
        true => is_refused(stage, name, &prepare),
        false => move_all(stage, &prepare).and_then(|()| take_over(stage, random, name, directly)),
    };
    let back = |stage: &mut Stage, _: usize| {
        stage.environment.clear();
        stage.through = None;
    };
    let back = if old { Ok(back(stage, 0)) } else { move_all(stage, back) };
    stage.start_missing()?;
    played.and(back)
}

fn take_over(stage: &mut Stage, random: &mut StdRng, name: &str, directly: bool) -> Result<(), String> {
    stage.until_well("a start behind a pooler")?;
    let (at, timing) = (a_holder(stage, random)?, stage.times.timing);
    let noticed = if directly { Duration::ZERO } else { timing.ttl + timing.renew_every };
    stage.fault(name, noticed + timing.grace + stage.times.soon(), false);
    stage.kill(at)?;
    stage.until_elsewhere(at, timing.ttl * 10)
}

/// A pooler that mixes up prepared statements would lose writes: the product must not start behind it.
fn is_refused(stage: &mut Stage, name: &str, prepare: impl Fn(&mut Stage, usize)) -> Result<(), String> {
    stage.fault(name, stage.times.soon(), false);
    stage.stop(0)?;
    prepare(stage, 0);
    let code = stage.start_in_vain(0)?;
    stage.left_out.push(format!("{name}: a take-over (this pgbouncer is older than 1.21, and refused)"));
    if code == Some(78) { Ok(()) } else { Err(format!("not refused: it ended with {code:?}")) }
}

/// Stops and starts every contender, one after the other.
fn move_all(stage: &mut Stage, prepare: impl Fn(&mut Stage, usize)) -> Result<(), String> {
    for at in 0..stage.instances() {
        stage.fault("move", stage.times.soon() + stage.times.timing.grace, false);
        stage.stop(at)?;
        prepare(stage, at);
        stage.start(at)?;
    }
    Ok(())
}
