//! `migrate`: the schema, applied or only looked at.

use crate::app::{self, Exit, Refusal};
use crate::settings::Settings;

/// Applies what is pending, or lists it.
///
/// # Errors
/// If the database does not answer, or is of a newer version.
pub async fn run(settings: &Settings, check: bool) -> Result<Exit, Refusal> {
    let database = app::open(settings).await?;
    let (word, names) = if check {
        ("pending", database.pending_migrations().await?)
    } else {
        ("applied", database.migrate().await?)
    };
    let printed = super::print(|out| {
        for name in &names {
            writeln!(out, "{word} {name}")?;
        }
        if names.is_empty() { writeln!(out, "the database is up to date") } else { Ok(()) }
    });
    Ok(if check && !names.is_empty() { Exit::Failed } else { printed })
}
