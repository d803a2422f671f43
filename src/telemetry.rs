//! Where the process's own words go: one line per event on standard error, so that standard output stays for what a
//! command prints. The level and the form are `settings.telemetry`'s.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::{LogFormat, Telemetry};

/// The log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The directives are not good; the settings refuse such.
    #[error("read the log directives {directives:?}: {reason}")]
    Directives {
        /// As given.
        directives: String,
        /// What the parser said.
        reason: String,
    },
    /// Another subscriber is there already.
    #[error("install the log's subscriber: {0}")]
    Installed(String),
}

/// Sends the process's log to standard error, from now on. Once per process.
///
/// # Errors
/// A second call, or directives that the settings would have refused.
pub fn init(settings: &Telemetry) -> Result<(), TelemetryError> {
    let people = io::stderr().is_terminal();
    subscriber(settings, people, io::stderr)?
        .try_init()
        .map_err(|error| TelemetryError::Installed(error.to_string()))
}

/// The subscriber that `settings` describe, writing to `out`, which is a terminal or not.
fn subscriber<W>(
    settings: &Telemetry,
    terminal: bool,
    out: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&settings.level).map_err(|error| TelemetryError::Directives {
        directives: settings.level.clone(),
        reason: error.to_string(),
    })?;
    // Spans are not logged: actors' names are in them, and every line that needs one carries it as a field.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(out).with_ansi(terminal);
    let pretty = match settings.format {
        LogFormat::Auto => terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    Ok(if pretty {
        Box::new(builder.compact().finish())
    } else {
        Box::new(builder.json().flatten_event(true).with_current_span(false).with_span_list(false).finish())
    })
}
