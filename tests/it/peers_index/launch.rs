//! How instances are started on one database and one set of peers; apart from the world, so that they can be started
//! while others write to it.

use std::{collections::BTreeMap, time::Duration};

use crate::support::{
    peers::Peers,
    process::{Exit, Instance},
};

/// Of a command that waits for the backfill, on a loaded machine.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);

/// The environment of our program.
#[derive(Clone)]
pub(super) struct Launch(BTreeMap<String, String>);

impl Launch {
    /// The stream of these peers on this database, without the backfill.
    pub(super) fn on(peers: &Peers, database: &str) -> Launch {
        // The peers listen on one address family.
        let pds = peers.pds().url().replace("http://localhost", "127.0.0.1");
        Launch(BTreeMap::new())
            .with("ATCR__DATABASE__URL", database)
            .with("ATCR__ADMIN__LISTEN", "127.0.0.1:0")
            .with("ATCR__NETWORK__ALLOW_LOOPBACK", "true")
            .with("ATCR__NETWORK__TEST_HOSTS", &pds)
            .with("ATCR__IDENTITY__PLC_URL", &peers.plc_url())
            .with("ATCR__JETSTREAM__URLS", &peers.jetstream_url())
            .with("ATCR__BACKFILL__ENABLED", "false")
            .with("ATCR__CLEANUP__ENABLED", "false")
            .with("ATCR__WEBHOOKS__ENABLED", "false")
            .with("ATCR__TELEMETRY__FORMAT", "json")
            .with("ATCR__TELEMETRY__LEVEL", "info,atcr_workers=debug")
    }

    /// The same with a setting by its environment variable.
    pub(super) fn with(mut self, variable: &str, value: &str) -> Launch {
        self.0.insert(variable.to_owned(), value.to_owned());
        self
    }

    /// Starts an instance.
    pub(super) fn start(&self, label: &str) -> Instance {
        self.clone().with("ATCR__INSTANCE__LABEL", label).spawn(&["run"])
    }

    /// Has every repository read again, and waits for it.
    #[track_caller]
    pub(super) fn backfill_all(&self) {
        let mut command = self.spawn(&["backfill", "--all"]);
        let exit = command.wait_exit(COMMAND_WITHIN);
        assert_eq!(exit, Exit::Code(0), "{}", command.lines().join("\n"));
    }

    fn spawn(&self, arguments: &[&str]) -> Instance {
        let environment: Vec<_> = self.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        Instance::spawn(arguments, &environment)
    }
}
