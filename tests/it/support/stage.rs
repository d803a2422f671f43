//! Several processes on one database, with the network in small around them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use localnet::{
    Net, NetOptions, ids, records,
    seed::{Seeded, Size, seed},
    traffic::Traffic,
};
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::{
    eventually::{eventually, eventually_blocking},
    http, index,
    place::{Kind, Place},
    process::{Exit, Instance},
    source, truth,
};

/// Whatever a loaded machine may take, where the test is not about how long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The TTL of [`Stage::quick`].
pub(crate) const QUICK_TTL: Duration = Duration::from_secs(3);

/// The shortest times that still leave a loaded machine a second for each renewal.
const QUICK: [(&str, &str); 7] = [
    ("ATCR__LEASES__RENEW_EVERY", "250ms"),
    ("ATCR__LEASES__RENEW_TIMEOUT", "1s"),
    ("ATCR__LEASES__TRUST_FOR", "2s"),
    ("ATCR__LEASES__STOP_WITHIN", "1s"),
    ("ATCR__LEASES__TTL", "3s"),
    ("ATCR__LEASES__GRACE", "3s"),
    ("ATCR__LEASES__POLL_EVERY", "250ms"),
];

/// The settings of the tests, on which a stage puts addresses.
pub(crate) const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/settings/test.toml");

pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) net: Arc<Net>,
    pub(crate) seeded: Seeded,
    settings: BTreeMap<String, String>,
    file: PathBuf,
}

/// Traffic that flows until this is dropped.
pub(crate) struct Flow {
    task: JoinHandle<()>,
    /// Held during each change.
    flows: Arc<Mutex<bool>>,
}

/// After it no change is made: the task may be in the middle of one, which an abort does not wait for, and what is expected is
/// read next.
impl Drop for Flow {
    fn drop(&mut self) {
        *self.flows.lock().unwrap() = false;
        self.task.abort();
    }
}

impl Stage {
    /// A fresh database and a seeded network; the default times.
    pub(crate) async fn new(kind: Kind) -> Stage {
        Stage::on(Place::fresh(kind).await).await
    }

    /// The same on this database. A position is saved in it, from which the stream tells everything: an instance
    /// without one begins with what is new.
    pub(crate) async fn on(place: Place) -> Stage {
        let from_us = ids::now_us();
        let stage = Stage::bare(place).await;
        let (exit, text) = stage.command(&["migrate"]);
        assert_eq!(exit, Exit::Code(0), "{text}");
        let host = stage.net.jetstream(0).address();
        let insert = format!(
            "INSERT INTO stream_cursor (wire, host, time_us, saved_at) VALUES ('v1', '{host}', {from_us}, {from_us})"
        );
        stage.place.execute(&insert).await;
        stage
    }

    /// The same on a database that stays as it is.
    pub(crate) async fn bare(place: Place) -> Stage {
        let net = Net::start(NetOptions::default()).await.unwrap();
        let seeded = seed(&net, Size::default(), 1);
        let stage =
            Stage { place, net: Arc::new(net), seeded, settings: BTreeMap::new(), file: SETTINGS.into() };
        let (url, net) = (stage.place.url().to_owned(), stage.net.clone());
        stage
            .with("ATCR__DATABASE__URL", &url)
            .with("ATCR__JETSTREAM__ENABLED", "true")
            .with("ATCR__JETSTREAM__URLS", &net.jetstream(0).url())
            .with("ATCR__IDENTITY__PLC_URL", &net.plc_url())
            .with("ATCR__NETWORK__TEST_HOSTS", &net.test_hosts().to_string())
    }

    /// The same with a setting by its environment variable.
    pub(crate) fn with(mut self, variable: &str, value: &str) -> Stage {
        self.settings.insert(variable.to_owned(), value.to_owned());
        self
    }

    /// The same with another settings file.
    pub(crate) fn with_file(mut self, file: &Path) -> Stage {
        self.file = file.to_owned();
        self
    }

    /// The same with a TTL of [`QUICK_TTL`] and all else in proportion.
    pub(crate) fn quick(self) -> Stage {
        QUICK.iter().fold(self, |stage, (variable, value)| stage.with(variable, value))
    }

    /// The environment of an instance with this label.
    pub(crate) fn environment(&self, label: &str) -> BTreeMap<String, String> {
        let mut environment = self.settings.clone();
        environment.insert("ATCR__INSTANCE__LABEL".to_owned(), label.to_owned());
        environment
    }

    /// Runs the program with these arguments and the stage's settings.
    pub(crate) fn spawn(&self, label: &str, arguments: &[&str]) -> Instance {
        let environment = self.environment(label);
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let file = self.file.to_str().unwrap();
        Instance::spawn(&[&["--settings", file], arguments].concat(), &environment)
    }

    /// Starts an instance.
    pub(crate) fn start(&self, label: &str) -> Instance {
        self.spawn(label, &["run"])
    }

    /// Runs a command to its end: how it ended, and what it printed.
    pub(crate) fn command(&self, arguments: &[&str]) -> (Exit, String) {
        let mut command = self.spawn("command", arguments);
        let exit = command.wait_exit(PATIENCE);
        (exit, command.lines().join("\n"))
    }

    /// What `leases --json` prints.
    pub(crate) fn leases(&self) -> Vec<Value> {
        let (exit, text) = self.command(&["leases", "--json"]);
        assert_eq!(exit, Exit::Code(0), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Waits until exactly one of these instances runs the worker, and tells which by its place.
    #[track_caller]
    pub(crate) fn worker(&self, instances: &[&Instance]) -> usize {
        eventually_blocking("one instance runs the worker", PATIENCE, || {
            let running = |at: &usize| is_in(instances[*at], "running");
            let running: Vec<usize> = (0..instances.len()).filter(running).collect();
            match running.as_slice() {
                [one] => Ok(*one),
                others => Err(others.to_vec()),
            }
        })
    }

    /// Makes changes at this rate until the answer is dropped.
    pub(crate) fn traffic(&self, seed: u64, per_second: f64) -> Flow {
        let (net, mut traffic) = (self.net.clone(), Traffic::new(&self.seeded, seed, 0.3));
        let flows = Arc::new(Mutex::new(true));
        let going = flows.clone();
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            loop {
                ticks.tick().await;
                let going = going.lock().unwrap();
                if !*going {
                    return;
                }
                traffic.step(&net);
            }
        });
        Flow { task, flows }
    }

    /// Makes so many changes at once.
    pub(crate) fn changes(&self, seed: u64, count: usize) {
        let mut traffic = Traffic::new(&self.seeded, seed, 0.0);
        (0..count).for_each(|_| traffic.step(&self.net));
    }

    /// Waits until the index knows of each record at its latest revision, and of no other.
    pub(crate) async fn caught_up(&self) {
        let expected: BTreeSet<String> = records::COLLECTIONS
            .iter()
            .flat_map(|collection| {
                let records = self.net.records(collection).into_iter();
                records.map(move |((did, rkey), record)| {
                    format!("{did} {collection} {rkey} {} {}", record.rev, record.cid)
                })
            })
            .collect();
        eventually("the index has caught up", PATIENCE, async || {
            let known = self.place.lines(
                "SELECT did || ' ' || collection || ' ' || rkey || ' ' || rev || ' ' || COALESCE(cid, '-') AS line
                 FROM records WHERE state = 'present'",
            );
            let known: BTreeSet<String> = known.await.into_iter().collect();
            let differ = known.symmetric_difference(&expected).count();
            let some = |of: &BTreeSet<String>, not_of: &BTreeSet<String>| {
                of.difference(not_of).take(2).cloned().collect::<Vec<_>>()
            };
            let (missing, superfluous) = (some(&expected, &known), some(&known, &expected));
            let all = expected.len();
            let told = || format!("{differ} of {all} records differ: {missing:?} missing, {superfluous:?} superfluous");
            if differ == 0 { Ok(()) } else { Err(told()) }
        })
        .await;
    }

    /// Waits until every table is what the repositories hold, revisions included.
    pub(crate) async fn is_the_source(&self) {
        self.caught_up().await;
        self.says_what_the_source_says().await;
    }

    /// The same but for the revisions: a backfill knows one of a whole repository, not that of each record.
    pub(crate) async fn says_what_the_source_says(&self) {
        eventually("every table is what the repositories hold", PATIENCE, async || {
            let found = index::read(self.place.url(), index::CONTENT).await.expect("the database answers");
            truth::compare(&found, &source::rows(&self.net))
        })
        .await;
    }

    /// The history of the lease: epoch, incarnation and what, in the order of the epochs and of time.
    pub(crate) async fn history(&self) -> Vec<(i64, i64, String, String)> {
        let lines = self.place.lines(
            "SELECT epoch || ' ' || at || ' ' || incarnation || ' ' || what AS line
             FROM lease_event WHERE name = 'jetstream' ORDER BY epoch, at",
        );
        let event = |line: String| {
            let mut words = line.splitn(4, ' ').map(str::to_owned);
            let mut word = || words.next().unwrap();
            (word().parse().unwrap(), word().parse().unwrap(), word(), word())
        };
        lines.await.into_iter().map(event).collect()
    }

    /// The epoch of the lease.
    pub(crate) async fn epoch(&self) -> i64 {
        let lines =
            self.place.lines("SELECT CAST(epoch AS TEXT) AS line FROM lease WHERE name = 'jetstream'");
        lines.await[0].parse().unwrap()
    }
}

/// Whether the lease is in this state in this instance, by its metrics.
pub(crate) fn is_in(instance: &Instance, state: &str) -> bool {
    instance.metric("lease_state", &[("lease", "jetstream"), ("state", state)]) == Some(1.0)
}

/// Waits until the lease is in this state in this instance.
#[track_caller]
pub(crate) fn until_in(instance: &Instance, state: &str) {
    eventually_blocking(&format!("the lease is {state}"), PATIENCE, || {
        if is_in(instance, state) { Ok(()) } else { Err("another state") }
    });
}

/// Waits until this instance is registered, trusted, and without the lease.
#[track_caller]
pub(crate) fn until_standby(instance: &Instance) {
    until_ready(instance);
    until_in(instance, "standby");
}

/// Waits until this instance is registered and trusted.
#[track_caller]
pub(crate) fn until_ready(instance: &Instance) {
    let ready = format!("http://{}/readyz", instance.admin_address());
    eventually_blocking("it is ready", PATIENCE, || match http::get(&ready).map(|r| (r.status, r.body)) {
        Ok((200, _)) => Ok(()),
        other => Err(other),
    });
}
