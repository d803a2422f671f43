//! Operators' wishes about leases and instances, and what people ask about them. Wishes stand in the database and are
//! carried out by the instances at their next renewal, so they work from any machine.

use leased_actors::lease::{Epoch, Incarnation, LeaseName, StoreError};
use serde::Serialize;

use super::leases::{SqlLeases, rows::stored};
use super::queries::lease_wishes;
use super::session::Session;

/// A registered instance that is not dead, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstanceView {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its label.
    pub label: String,
    /// Its host name.
    pub host: String,
    /// Its process number.
    pub pid: u32,
    /// `up` or `draining`.
    pub state: String,
}

/// Something that happened to a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseEvent {
    /// When, by the database's clock (RFC 3339, UTC).
    pub at: String,
    /// Which lease.
    pub name: LeaseName,
    /// Under which epoch.
    pub epoch: Epoch,
    /// By which incarnation.
    pub incarnation: Incarnation,
    /// Its label, if it is still known.
    pub label: Option<String>,
    /// `acquired`, `released`, `released after failures`, `left`, `expired`, `beacon gone`.
    pub what: String,
}

impl SqlLeases {
    /// Every instance that is not dead, by label.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn instances(&self) -> Result<Vec<InstanceView>, StoreError> {
        let operation = "list instances";
        let rows = self.read(operation, async |s: &mut Session| lease_wishes::instances(s).await).await?;
        let view = |(incarnation, label, host, pid, state): lease_wishes::InstanceRow| {
            let pid = u32::try_from(pid).unwrap_or_default();
            Ok::<_, String>(InstanceView { incarnation: stored(&incarnation)?, label, host, pid, state })
        };
        let views: Result<_, _> = rows.into_iter().map(view).collect();
        views.map_err(|reason| StoreError { operation: operation.to_owned(), reason })
    }

    /// The latest `limit` events, the newest first; of one lease, or of all.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn history(&self, name: Option<&LeaseName>, limit: u32) -> Result<Vec<LeaseEvent>, StoreError> {
        let (operation, name) = ("read the history of leases", name.cloned());
        let rows = self
            .read(operation, async move |s: &mut Session| {
                lease_wishes::history(s, name.as_ref(), limit).await
            })
            .await?;
        let event = |(at_us, name, epoch, incarnation, label, what): lease_wishes::EventRow| {
            let at = chrono::DateTime::from_timestamp_micros(at_us).ok_or("a time out of range")?;
            Ok::<_, String>(LeaseEvent {
                at: at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
                name: stored(&name)?,
                epoch: Epoch(epoch),
                incarnation: stored(&incarnation)?,
                label,
                what,
            })
        };
        let events: Result<_, _> = rows.into_iter().map(event).collect();
        events.map_err(|reason| StoreError { operation: operation.to_owned(), reason })
    }

    /// Wishes that nobody runs `name`, or lifts that. False: there is no such lease.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn set_paused(&self, name: &LeaseName, paused: bool) -> Result<bool, StoreError> {
        let (operation, name) = (format!("pause {name}"), name.clone());
        self.wish(operation, async move |s: &mut Session| lease_wishes::set_paused(s, &name, paused).await)
            .await
    }

    /// Wishes that `to` runs `name`. False: there is no such lease.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn set_desired(&self, name: &LeaseName, to: Incarnation) -> Result<bool, StoreError> {
        let (operation, name) = (format!("move {name}"), name.clone());
        self.wish(operation, async move |s: &mut Session| lease_wishes::set_desired(s, &name, to).await).await
    }

    /// Wishes that an instance gives its leases up and takes none, or lifts that. False: it is dead, or there is none.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn set_draining(&self, who: Incarnation, draining: bool) -> Result<bool, StoreError> {
        let operation = format!("drain {who}");
        self.wish(operation, async move |s: &mut Session| lease_wishes::set_draining(s, who, draining).await)
            .await
    }
}
