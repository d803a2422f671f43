//! What `atcr-workers status` and the status page say: one object, made of what the database has and of what instances tell.
//! Pure. The names of the fields, and their order, are the interface; fields may be added.

mod backfill;
mod holds;
mod labels;

use leased_actors::lease::LeaseView;
use serde::Serialize;

use super::holds::Told;
use super::labeler::Hearing;
use crate::atproto::Micros;
use crate::store::outbox::OutboxReport;
use crate::store::status::{InstanceStatus, LabelsStatus, Status, StreamStatus};

pub use backfill::{Backfill, Run};
pub use holds::HoldsOf;
pub use labels::Labels;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct StatusReport {
    /// Every instance that is not dead, by label. None where leases are off: nobody registers.
    pub instances: Vec<Instance>,
    /// Every lease, by name; as `leases --json`.
    pub leases: Vec<LeaseView>,
    /// Every host's position, the one that moved last first.
    pub streams: Vec<Stream>,
    /// The latest run, and what waits for one.
    pub backfill: Backfill,
    /// What waits to be delivered to webhooks.
    pub outbox: Outbox,
    /// What the labeler says, and how we stand with it.
    pub labels: Labels,
    /// Which holds answer, by instance: each knows for itself only.
    pub holds: Vec<HoldsOf>,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instance {
    /// Its incarnation.
    pub incarnation: String,
    /// Its label.
    pub label: String,
    /// Its host name.
    pub host: String,
    /// Its process number there.
    pub pid: u32,
    /// `up` or `draining`.
    pub state: String,
    /// Since when it is registered (RFC 3339, UTC).
    pub since: Option<String>,
    /// Seconds since its last renewal.
    pub renewed_seconds_ago: f64,
    /// Where its status page, metrics and holds are, if they are served.
    pub admin_address: Option<String>,
    /// The program's version there, if the instance was asked and answered.
    pub version: Option<String>,
}

/// A host's position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// `v1` or `v2`.
    pub wire: String,
    /// Host and port.
    pub host: String,
    /// The time up to which it is in the index (RFC 3339, UTC).
    pub position: Option<String>,
    /// Seconds since that time: how far behind the index is, or how long ago another host was turned to.
    pub position_seconds_ago: f64,
    /// The number of the last event, where the wire numbers them.
    pub seq: Option<i64>,
    /// When the position was saved (RFC 3339, UTC).
    pub saved_at: Option<String>,
    /// Seconds since then.
    pub saved_seconds_ago: f64,
}

/// The outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outbox {
    /// Deliveries that wait for their first or next attempt.
    pub waiting: u64,
    /// For how many seconds the one that is due the longest has been due; 0: none is.
    pub due_seconds: f64,
    /// Webhooks that are enabled.
    pub webhooks: u64,
    /// Webhooks that are disabled.
    pub webhooks_disabled: u64,
}

impl StatusReport {
    /// Puts together what the database has. Each instance is yet to be asked.
    pub fn new(status: Status, labels: LabelsStatus, leases: Vec<LeaseView>) -> Self {
        let mut report = Self {
            holds: status.instances.iter().map(HoldsOf::unasked).collect(),
            instances: status.instances.into_iter().map(Instance::from).collect(),
            leases,
            streams: status.streams.into_iter().map(Stream::from).collect(),
            backfill: Backfill::new(status.run, status.wishes),
            outbox: Outbox::from(status.outbox),
            labels: Labels::new(labels),
        };
        if report.labeler_holder().is_some() {
            report.labels.reason = Some("it was not asked".to_owned());
        }
        report
    }

    /// Takes what instances told for an earlier report, of those that are still there.
    pub fn as_told(&mut self, earlier: &StatusReport) {
        for instance in &mut self.instances {
            let known = earlier.instances.iter().find(|known| known.incarnation == instance.incarnation);
            instance.version = known.and_then(|known| known.version.clone());
        }
        for holds in &mut self.holds {
            if let Some(known) = earlier.holds.iter().find(|known| known.incarnation == holds.incarnation) {
                holds.clone_from(known);
            }
        }
        let holder = |of: &StatusReport| of.labeler_holder().map(|holder| holder.incarnation.clone());
        if holder(self).is_some() && holder(self) == holder(earlier) {
            self.labels.as_told(&earlier.labels);
        }
    }

    /// Who has the lease of the labeler.
    pub fn labeler_holder(&self) -> Option<&Instance> {
        let lease = self.leases.iter().find(|lease| lease.name.as_str() == "labeler")?;
        let holder = lease.holder.as_ref()?.incarnation.to_string();
        self.instances.iter().find(|instance| instance.incarnation == holder)
    }

    /// Takes what the holder of the labeler's lease told when asked at its address, or why it did not.
    pub fn heard(&mut self, incarnation: &str, told: Result<Hearing, String>) {
        self.labels.take(told.and_then(|told| match told.incarnation.as_deref() {
            Some(by) if by == incarnation => Ok(told),
            _ => Err(ANOTHER.to_owned()),
        }));
    }

    /// Takes what an instance told when asked at its address, or why it did not. Another one's word is not taken for its own:
    /// the address of a dead instance may have a new owner.
    pub fn told(&mut self, incarnation: &str, told: Result<Told, String>) {
        let told = told.and_then(|told| match told.incarnation.as_deref() {
            Some(by) if by == incarnation => Ok(told),
            _ => Err(ANOTHER.to_owned()),
        });
        let instance = self.instances.iter_mut().find(|instance| instance.incarnation == incarnation);
        if let (Some(instance), Ok(told)) = (instance, &told) {
            instance.version = Some(told.version.clone());
        }
        if let Some(holds) = self.holds.iter_mut().find(|holds| holds.incarnation == incarnation) {
            holds.take(told);
        }
    }
}

impl From<InstanceStatus> for Instance {
    fn from(of: InstanceStatus) -> Self {
        let InstanceStatus { incarnation, label, host, pid, state, admin_address, since, renewed_us_ago } =
            of;
        let (since, renewed_seconds_ago) = (time(since), seconds(renewed_us_ago));
        Self {
            incarnation,
            label,
            host,
            pid,
            state,
            since,
            renewed_seconds_ago,
            admin_address,
            version: None,
        }
    }
}

impl From<StreamStatus> for Stream {
    fn from(of: StreamStatus) -> Self {
        Self {
            position: time(Micros(of.cursor.time_us)),
            position_seconds_ago: seconds(of.us_behind),
            seq: of.cursor.seq,
            wire: of.cursor.wire,
            host: of.cursor.host,
            saved_at: time(of.saved_at),
            saved_seconds_ago: seconds(of.saved_us_ago),
        }
    }
}

impl From<OutboxReport> for Outbox {
    fn from(of: OutboxReport) -> Self {
        let due_us = i64::try_from(of.oldest_due.as_micros()).unwrap_or(i64::MAX);
        Self {
            waiting: of.waiting,
            due_seconds: seconds(due_us),
            webhooks: of.enabled,
            webhooks_disabled: of.disabled,
        }
    }
}

/// Whoever answers there, it is not who was asked.
const ANOTHER: &str = "another one answers at its address";

/// RFC 3339, UTC. None: out of range.
pub(super) fn time(at: Micros) -> Option<String> {
    let at = chrono::DateTime::from_timestamp_micros(at.0)?;
    Some(at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
}

/// To the millisecond. A clock that was set back makes no negative ages.
fn seconds(us: i64) -> f64 {
    (us.max(0) / 1_000) as f64 / 1_000.0
}
