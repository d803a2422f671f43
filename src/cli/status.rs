//! `status`: everything at a glance, read from the database, so that it works from any machine; and from the instances on
//! this one, which holds answer, and how they stand with the labeler.

mod table;

use leased_actors::lease::LeaseStore;

use crate::app::{self, Exit, Refusal};
use crate::settings::Settings;
use crate::status::neighbours;
use crate::status::report::StatusReport;
use crate::store::SqlLeases;

/// Prints the report.
///
/// # Errors
/// If the database does not answer.
pub async fn run(settings: &Settings, json: bool) -> Result<Exit, Refusal> {
    let database = app::open_ready(settings).await?;
    let leases = SqlLeases::new(database.clone()).list().await.map_err(Refusal::failed)?;
    let status = database.status().await.map_err(Refusal::failed)?;
    let labels = database.labels_status().await.map_err(Refusal::failed)?;
    let mut report = StatusReport::new(status, labels, leases);
    let client = neighbours::client(&settings.network.user_agent).map_err(Refusal::failed)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    neighbours::ask(&client, &host, &mut report).await;
    Ok(super::print(|out| {
        if !json {
            return out.write_all(table::text(&report).as_bytes());
        }
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)
    }))
}
