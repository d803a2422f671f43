//! The built program beside the network in small, for what only a process shows: its end, its memory, its crashes.

use std::{path::Path, time::Duration};

use localnet::{Net, NetOptions};

use super::{
    rows::{On, Rows},
    stage::migrate,
};
use crate::support::process::Instance;

/// A network and a database without anybody between them.
pub(super) struct Network {
    pub(super) net: Net,
    pub(super) rows: Rows,
}

impl Network {
    pub(super) async fn start(on: On) -> Self {
        let net = Net::start(NetOptions::default()).await.unwrap();
        Self { net, rows: Rows::fresh(on).await }
    }

    /// Starts the program, with `more` of the environment.
    pub(super) fn instance(&self, more: &[(&str, &str)]) -> Instance {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("settings/test.toml");
        let (url, stream) = (self.rows.url(), self.net.jetstream(0).url());
        let (plc, hosts) = (self.net.plc_url(), self.net.test_hosts().to_string());
        let ours = [
            ("ATCR__DATABASE__URL", url.as_str()),
            ("ATCR__IDENTITY__PLC_URL", &plc),
            ("ATCR__JETSTREAM__ENABLED", "true"),
            ("ATCR__JETSTREAM__URLS", &stream),
            ("ATCR__NETWORK__TEST_HOSTS", &hosts),
        ];
        let environment: Vec<_> = ours.into_iter().chain(more.iter().copied()).collect();
        Instance::spawn(&["--settings", file.to_str().unwrap()], &environment)
    }

    /// Makes the tables, so that the positions can be written down from the first on.
    pub(super) async fn prepare(&self) {
        migrate(&self.rows);
        self.rows.write_down_positions().await;
    }
}

/// Bytes of a process in memory now.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

/// Time that a process has computed since it began.
pub(super) fn computed(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may hold spaces: count from behind it. Fields 14 and 15 of proc(5), in hundredths of a
    // second on every Linux.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|&at| fields[at].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
