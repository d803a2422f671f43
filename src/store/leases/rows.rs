//! What the rows mean: the statements' answers in the words of `leased-actors`.

use std::time::Duration;

use leased_actors::lease::{
    Ask, Claim, Epoch, HandOver, Heartbeat, HolderView, LeaseRow, LeaseView, Peer, TermId,
};

use crate::store::queries::{lease_list, leases};

pub(super) fn claimed(ask: &Ask, (epoch, wait_us, death, released, gap_us): leases::AcquiredRow) -> Claim {
    Claim {
        term: TermId { name: ask.name.clone(), holder: ask.me, epoch: Epoch(epoch) },
        wait: duration(wait_us),
        after: HandOver { reason: reason(death.as_deref(), released), gap: duration(gap_us) },
    }
}

fn reason(death: Option<&str>, released: bool) -> &'static str {
    match death {
        Some("left") => "left",
        Some("beacon") => "beacon",
        Some(_) => "ttl",
        None if released => "released",
        None => "first",
    }
}

pub(super) fn heartbeat(rows: Vec<leases::WorldRow>) -> Result<Heartbeat, String> {
    let mut heartbeat = Heartbeat::default();
    for (is_lease, id, holder, number, alive, paused, time_us, failures, desired) in rows {
        if is_lease {
            heartbeat.leases.push(LeaseRow {
                name: stored(&id)?,
                epoch: Epoch(number),
                holder: holder.as_deref().map(stored).transpose()?,
                holder_alive: alive,
                paused,
                desired: desired.as_deref().map(stored).transpose()?,
                cool_down: duration(time_us),
                failures: u32::try_from(failures).unwrap_or(u32::MAX),
            });
        } else {
            heartbeat.peers.push(Peer {
                incarnation: stored(&id)?,
                renew_seq: number,
                ttl: duration(time_us),
                up: alive,
            });
        }
    }
    Ok(heartbeat)
}

pub(super) fn view((lease, holder): lease_list::ListRow) -> Result<LeaseView, String> {
    let (name, epoch, since_us, waits, paused, desired, cools) = lease;
    let draining = holder.as_ref().is_some_and(|(.., draining)| *draining);
    let state = match (&holder, paused) {
        (Some(_), _) if draining => "stopping",
        (Some(_), _) if waits => "waiting",
        (Some(_), _) => "running",
        (None, true) => "paused",
        (None, false) if cools => "cooling",
        (None, false) => "free",
    };
    // A dead holder is none: the row names it until somebody acquires.
    let since = since_us.filter(|_| holder.is_some()).and_then(chrono::DateTime::from_timestamp_micros);
    let holder = holder.map(|(incarnation, label, host, pid, _)| {
        let pid = u32::try_from(pid).unwrap_or_default();
        Ok::<_, String>(HolderView { incarnation: stored(&incarnation)?, label, host, pid })
    });
    Ok(LeaseView {
        name: stored(&name)?,
        epoch: Epoch(epoch),
        state,
        holder: holder.transpose()?,
        since: since.map(|at| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)),
        paused,
        desired,
    })
}

pub(in crate::store) fn stored<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| format!("a stored {}", error.to_string()))
}

pub(super) fn duration(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}
