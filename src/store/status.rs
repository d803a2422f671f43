//! What people want to know at a glance, as it stands in the database.

use super::backfill::RunReport;
use super::labels::LabelerPosition;
use super::outbox::OutboxReport;
use super::queries::status;
use super::{Database, ReadError, StreamCursor};
use crate::atproto::Micros;

/// An instance that is not dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// Its incarnation.
    pub incarnation: String,
    /// Its label.
    pub label: String,
    /// Its host name.
    pub host: String,
    /// Its process number.
    pub pid: u32,
    /// `up` or `draining`.
    pub state: String,
    /// Where its status page is, if it is served.
    pub admin_address: Option<String>,
    /// When it registered.
    pub since: Micros,
    /// Microseconds since its last renewal.
    pub renewed_us_ago: i64,
}

/// Up to where a stream is in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// The position.
    pub cursor: StreamCursor,
    /// Microseconds since its time.
    pub us_behind: i64,
    /// When it was saved.
    pub saved_at: Micros,
    /// Microseconds since then.
    pub saved_us_ago: i64,
}

/// The latest backfill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStatus {
    /// Why: a word.
    pub reason: String,
    /// Whether every record is written anew.
    pub forced: bool,
    /// When it began.
    pub started_at: Micros,
    /// When it ended.
    pub ended_at: Option<Micros>,
    /// Whether it ended by its age, or as another one began.
    pub given_up: bool,
    /// How far it is.
    pub report: RunReport,
}

/// Wishes to have repositories read again that nobody has fulfilled yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WishStatus {
    /// How many.
    pub count: u64,
    /// Whether one of them is about every repository.
    pub every: bool,
    /// Microseconds since the oldest.
    pub oldest_us_ago: Option<i64>,
}

/// What time it is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// By the database: its server, or this machine itself.
    pub database: Micros,
    /// The newest time in the history of the leases.
    pub newest: Option<Micros>,
}

/// The labeler that is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelerStatus {
    /// Its DID.
    pub labeler: String,
    /// Whether its labels count with a good signature alone.
    pub verify: bool,
    /// Up to where it was heard.
    pub position: LabelerPosition,
    /// When that was saved.
    pub saved_at: Micros,
    /// Microseconds since then.
    pub saved_us_ago: i64,
}

/// What labelers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelsStatus {
    /// The one in effect, if there was ever one.
    pub labeler: Option<LabelerStatus>,
    /// Its labels that are in effect.
    pub in_effect: u64,
    /// Its labels that are not verified.
    pub not_verified: u64,
    /// Subjects that are taken down.
    pub taken_down: u64,
}

/// All of it but the leases and the labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Every instance that is not dead, by label.
    pub instances: Vec<InstanceStatus>,
    /// Every position, the one that moved last first.
    pub streams: Vec<StreamStatus>,
    /// The latest backfill, if there was one.
    pub run: Option<RunStatus>,
    /// What waits for a backfill.
    pub wishes: WishStatus,
    /// What waits to be delivered.
    pub outbox: OutboxReport,
}

impl Database {
    /// What time it is by the database, and by what was written to it.
    pub async fn clocks(&self) -> Result<Clocks, ReadError> {
        let (database, newest) = status::clocks(&mut self.session().await?).await?;
        Ok(Clocks { database: Micros(database), newest: newest.map(Micros) })
    }

    /// What people want to know at a glance. Read one after the other, so it may show two moments.
    pub async fn status(&self) -> Result<Status, ReadError> {
        let (report, outbox) = (self.backfill_report().await?, self.outbox_report().await?);
        let session = &mut self.session().await?;
        let run = match report {
            Some(report) => status::run(session, report.id).await?.map(|row| run(row, report)),
            None => None,
        };
        let wishes = status::wishes(session).await?.map(|(count, every, oldest_us_ago)| WishStatus {
            count: u64::try_from(count).unwrap_or(0),
            every: every > 0,
            oldest_us_ago,
        });
        Ok(Status {
            instances: status::instances(session).await?.into_iter().map(instance).collect(),
            streams: status::streams(session).await?.into_iter().map(stream).collect(),
            run,
            wishes: wishes.unwrap_or_default(),
            outbox,
        })
    }
}

impl Database {
    /// What labelers say, at a glance. Counts the labels, so it costs more the more there are.
    pub async fn labels_status(&self) -> Result<LabelsStatus, ReadError> {
        let taken_down = self.takedowns().await?;
        let session = &mut self.session().await?;
        let labeler = status::labeler(session).await?.map(labeler);
        let (in_effect, not_verified) = status::labels(session).await?.unwrap_or_default();
        let count = |number| u64::try_from(number).unwrap_or(0);
        let (in_effect, not_verified) = (count(in_effect), count(not_verified));
        Ok(LabelsStatus { labeler, in_effect, not_verified, taken_down })
    }

    /// Up to where each stream is in the index.
    pub async fn streams_status(&self) -> Result<Vec<StreamStatus>, ReadError> {
        let session = &mut self.session().await?;
        Ok(status::streams(session).await?.into_iter().map(stream).collect())
    }
}

fn instance(row: status::InstanceRow) -> InstanceStatus {
    let (incarnation, label, host, pid, state, admin_address, registered_at, renewed_us_ago) = row;
    let (pid, since) = (u32::try_from(pid).unwrap_or_default(), Micros(registered_at));
    InstanceStatus { incarnation, label, host, pid, state, admin_address, since, renewed_us_ago }
}

fn stream(row: status::StreamRow) -> StreamStatus {
    let (wire, host, time_us, seq, us_behind, saved_at, saved_us_ago) = row;
    let cursor = StreamCursor { wire, host, time_us, seq };
    StreamStatus { cursor, us_behind, saved_at: Micros(saved_at), saved_us_ago }
}

fn labeler(row: status::LabelerRow) -> LabelerStatus {
    let (labeler, verify, seq, era, saved_at, saved_us_ago) = row;
    let position = LabelerPosition { seq, era };
    LabelerStatus { labeler, verify, position, saved_at: Micros(saved_at), saved_us_ago }
}

fn run(row: status::RunRow, report: RunReport) -> RunStatus {
    let (reason, forced, started_at, ended_at, given_up) = row;
    let (started_at, ended_at) = (Micros(started_at), ended_at.map(Micros));
    RunStatus { reason, forced, started_at, ended_at, given_up, report }
}
