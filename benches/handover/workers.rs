//! Processes of the built worker on one database, of which one has the lease.

use std::time::Duration;

use rustix::process::Signal;

use crate::http;
use crate::process::{Group, ms};
use crate::support::eventually::eventually_blocking;

/// Built by cargo in the bench's own profile.
const WORKER: &str = env!("CARGO_BIN_EXE_atcr-workers");

const ACQUIRED: &str = "lease acquired, worker started";

const ARGUMENTS: [&str; 1] = ["run"];

/// For a start, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Beyond "ready", a standby opens what it watches with. At half, the slowest starts on a loaded machine count as slow
/// hand-overs; at double, only the run is longer.
const SETTLE: Duration = Duration::from_millis(150);

pub(crate) struct Workers {
    group: Group,
    url: String,
    holder: usize,
}

impl Workers {
    /// Starts so many, and waits until one works and all others stand by.
    pub(crate) fn start(url: &str, count: usize) -> Workers {
        let mut workers = Workers { group: Group::new(), url: url.to_owned(), holder: 0 };
        workers.group.start(WORKER, &ARGUMENTS, &environment(url));
        workers.group.line(ACQUIRED);
        for _ in 1..count {
            workers.group.start(WORKER, &ARGUMENTS, &environment(url));
            workers.until_ready();
        }
        workers
    }

    /// Ends the holder; the milliseconds from the signal to the line of its successor. Then another stands by in its
    /// place.
    pub(crate) fn hand_over(&mut self, signal: Signal) -> f64 {
        let sent = self.group.signal(self.holder, signal);
        let acquired = self.group.line(ACQUIRED);
        assert_ne!(acquired.from, self.holder, "the holder itself acquired anew");
        self.group.replace(self.holder, WORKER, &ARGUMENTS, &environment(&self.url));
        self.until_ready();
        self.holder = acquired.from;
        ms(acquired.at - sent)
    }

    /// The process id of one that stands by.
    pub(crate) fn standby(&self) -> u32 {
        self.group.pid(usize::from(self.holder == 0))
    }

    /// Waits until the one that was started last is registered and trusted.
    #[allow(clippy::disallowed_methods, reason = "a pause, no waiting for anything that can be asked for")]
    fn until_ready(&self) {
        let line = self.group.line("\"admin.address\"").text;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let ready = format!("http://{}/readyz", line["admin.address"].as_str().unwrap());
        eventually_blocking("it is ready", PATIENCE, || match http::get(&ready) {
            Ok(response) if response.status == 200 => Ok(()),
            other => Err(other.map(|response| response.body)),
        });
        std::thread::sleep(SETTLE);
    }
}

fn environment(url: &str) -> [(&str, &str); 10] {
    [
        ("ATCR__DATABASE__URL", url),
        ("ATCR__ADMIN__LISTEN", "127.0.0.1:0"),
        ("ATCR__NETWORK__ALLOW_LOOPBACK", "true"),
        // Nobody listens there, nor can without privileges.
        ("ATCR__JETSTREAM__URLS", "ws://127.0.0.1:1/subscribe"),
        ("ATCR__IDENTITY__PLC_URL", "http://127.0.0.1:1"),
        // One lease, so that the line that is waited for is about it.
        ("ATCR__BACKFILL__ENABLED", "false"),
        ("ATCR__CLEANUP__ENABLED", "false"),
        ("ATCR__WEBHOOKS__ENABLED", "false"),
        ("ATCR__TELEMETRY__FORMAT", "json"),
        ("ATCR__TELEMETRY__LEVEL", "info"),
    ]
}
