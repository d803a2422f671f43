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
    subscriber(settings, io::stderr().is_terminal(), io::stderr)?
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
    let mut filter = EnvFilter::try_new(&settings.level).map_err(|error| TelemetryError::Directives {
        directives: settings.level.clone(),
        reason: error.to_string(),
    })?;
    // Every actor opens a span of ractor's around its handlers; our lines carry what they need as fields.
    if !settings.level.contains("ractor") {
        filter = filter.add_directive("ractor=warn".parse().expect("the directive is good"));
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, terminal: bool) -> String {
        let lines = Lines::default();
        let out = lines.clone();
        let settings = Telemetry { format, level: level.into() };
        let subscriber = subscriber(&settings, terminal, move || out.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("worker", lease.name = "jetstream").entered();
            tracing::info!(lease.epoch = 7, "acquired");
            tracing::debug!("quiet");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn auto_is_for_people_in_a_terminal_and_for_machines_elsewhere() {
        let machine = logged(LogFormat::Auto, "info", false);
        let line: serde_json::Value = serde_json::from_str(machine.trim()).unwrap();
        assert_eq!(line["message"], "acquired");
        assert_eq!(line["lease.epoch"], 7);
        assert!(line["span"].is_null() && line["spans"].is_null(), "{machine}");
        assert!(logged(LogFormat::Auto, "info", true).contains("\u{1b}["), "no colours");
    }

    #[test]
    fn a_chosen_format_holds_wherever_the_log_goes() {
        let people = logged(LogFormat::Pretty, "info", false);
        assert!(
            people.contains("acquired") && !people.contains('{') && !people.contains('\u{1b}'),
            "{people}"
        );
        assert!(logged(LogFormat::Json, "info", true).starts_with('{'));
    }

    #[test]
    fn the_level_may_be_directives() {
        assert!(logged(LogFormat::Json, "warn,atcr_workers=debug", false).contains("quiet"));
        assert_eq!(logged(LogFormat::Json, "warn", false), "");
    }

    #[test]
    fn directives_that_are_not_good_are_an_error() {
        let settings = Telemetry { format: LogFormat::Json, level: "a=loud".into() };
        let error = subscriber(&settings, false, io::sink).err().unwrap();
        assert!(error.to_string().starts_with("read the log directives \"a=loud\""));
    }
}
