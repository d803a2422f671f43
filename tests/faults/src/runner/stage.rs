//! Contenders on a database, what they did so far, and what is done to them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atcr_workers::app;
use atcr_workers::settings::Settings;
use leased_actors::lease::timing::Timing;
use rustix::process::Signal;

use super::machine::Machine;
use super::place::{Kind, Place};
use super::process::{Contender, pause, poll};
use crate::history::{Event, RUNNER, Recorder, What, now, parse};

/// Whatever a loaded machine may take, where the checker says how long it may.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long nothing is done at the end at least; at most five seconds more for each lease, which is how often one moves.
const QUIET: Duration = Duration::from_secs(2);

/// The leases of each run: two of each kind.
pub(super) const LEASES: [&str; 4] = ["external-1", "external-2", "fenced-1", "fenced-2"];

/// The times of a run: of the leases, and of the faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) timing: Timing,
    /// Of a writer that keeps the file, a full disk, a server that is down.
    pub(super) outage: Duration,
    /// Starts and stops.
    pub(super) rounds: u32,
}

impl Times {
    /// The shortest that leave a loaded machine of two cores half a second for each renewal.
    pub(super) fn short(kind: Kind) -> Self {
        let ms = Duration::from_millis;
        let timing = Timing {
            renew_every: ms(200),
            renew_timeout: ms(500),
            trust_for: ms(900),
            stop_within: ms(500),
            ttl: ms(1_500),
            grace: ms(1_500),
            poll_every: ms(300),
            ..Timing::POSTGRES
        };
        match kind {
            Kind::Postgres => Self { timing, outage: ms(1_500), rounds: 4 },
            Kind::Sqlite => {
                let own = Timing { renew_timeout: ms(1_000), trust_for: ms(1_500), ttl: ms(2_000), ..timing };
                Self {
                    timing: Timing { grace: Duration::ZERO, server_drop: Duration::ZERO, ..own },
                    outage: ms(3_000),
                    rounds: 4,
                }
            }
        }
    }

    /// The product's defaults, and faults as long as their reports.
    pub(super) fn long(kind: Kind) -> Self {
        let timing = match kind {
            Kind::Postgres => Timing::POSTGRES,
            Kind::Sqlite => Timing::SQLITE,
        };
        Self { timing, outage: Duration::from_secs(60), rounds: 200 }
    }

    /// Within so long whatever is free is seen, with all news lost, on a loaded machine.
    pub(super) fn soon(&self) -> Duration {
        self.timing.poll_every + self.timing.renew_every + Duration::from_millis(500)
    }
}

/// A place for one contender.
struct Slot {
    contender: Option<Contender>,
    process: Option<String>,
}

/// One run.
pub(super) struct Stage {
    pub(super) place: Place,
    pub(super) times: Times,
    pub(super) folder: PathBuf,
    pub(super) fake_time: Option<PathBuf>,
    pub(super) pooler: Option<PathBuf>,
    /// More environment for contenders that are started from now on.
    pub(super) environment: Vec<(String, String)>,
    /// The port of a pooler that contenders are led to which are started from now on.
    pub(super) through: Option<u16>,
    /// What a nemesis had to leave out, and why.
    pub(super) left_out: Vec<String>,
    history: PathBuf,
    recorder: Recorder,
    slots: Vec<Slot>,
    tail: File,
    rest: String,
    events: Vec<Event>,
    effects: BTreeMap<String, (u64, String)>,
    renewals: BTreeMap<String, u64>,
    processes: BTreeMap<u32, String>,
}

impl Stage {
    pub(super) fn set(
        kind: Kind,
        instances: usize,
        times: Times,
        machine: &Machine,
        keep: Option<&Path>,
    ) -> Result<Self, String> {
        let folder = match keep {
            Some(folder) => fs::create_dir_all(folder).map(|()| folder.to_owned()),
            None => tempfile::Builder::new().prefix("faults-").tempdir().map(tempfile::TempDir::keep),
        };
        let folder = folder.map_err(|error| error.to_string())?;
        // The server's user passes through it.
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o711))
            .map_err(|e| e.to_string())?;
        let database =
            tempfile::Builder::new().prefix("database-").tempdir_in(&folder).map(tempfile::TempDir::keep);
        let database = database.map_err(|error| error.to_string())?;
        super::machine::hand_over(&database)?;
        let history = folder.join("history.jsonl");
        let _ = fs::remove_file(&history);
        let recorder = Recorder::open(Some(&history)).map_err(|error| error.to_string())?;
        let place = Place::make(kind, &database, instances, machine)?;
        migrate(&place.own_url())?;
        place.number_commits()?;
        Ok(Self {
            place,
            times,
            folder: database,
            fake_time: machine.fake_time.clone(),
            pooler: machine.pooler.clone(),
            environment: Vec::new(),
            through: None,
            left_out: Vec::new(),
            tail: File::open(&history).map_err(|error| error.to_string())?,
            history,
            recorder,
            slots: (0..instances).map(|_| Slot { contender: None, process: None }).collect(),
            rest: String::new(),
            events: Vec::new(),
            effects: BTreeMap::new(),
            renewals: BTreeMap::new(),
            processes: BTreeMap::new(),
        })
    }

    pub(super) fn instances(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn start_all(&mut self) -> Result<(), String> {
        (0..self.slots.len()).try_for_each(|at| self.start(at))
    }

    fn spawn(&mut self, at: usize) -> Result<u32, String> {
        let mut environment = environment(&self.times.timing, &self.place.url(at, self.through), at);
        environment.extend(self.environment.iter().cloned());
        let mut arguments: Vec<String> = LEASES.iter().map(|&name| name.to_owned()).collect();
        let history = self.history.display().to_string();
        arguments.extend(["--with-parent", "--pace", "10", "--history", &history].map(str::to_owned));
        let log = self.history.with_file_name(format!("contender-{at}.log"));
        let contender = Contender::spawn(self.place.space(at).as_deref(), &arguments, &environment, &log)?;
        let pid = contender.pid();
        self.slots[at] = Slot { contender: Some(contender), process: None };
        Ok(pid)
    }

    /// Starts a contender in an empty place, and waits for its first line.
    pub(super) fn start(&mut self, at: usize) -> Result<(), String> {
        let pid = self.spawn(at)?;
        let process = poll("a contender begins", PATIENCE, || {
            self.read();
            if self.slots[at].contender.as_mut().is_some_and(|contender| contender.ended().is_some()) {
                return Err("it ended".to_owned());
            }
            self.processes.get(&pid).cloned().ok_or_else(|| "no line yet".to_owned())
        })?;
        self.slots[at].process = Some(process);
        Ok(())
    }

    /// Starts a contender in an empty place that is to end by itself; with which code it does.
    pub(super) fn start_in_vain(&mut self, at: usize) -> Result<Option<i32>, String> {
        self.spawn(at)?;
        let mut contender = self.slots[at].contender.take().ok_or("it was not started")?;
        poll("a contender ends by itself", PATIENCE, || {
            contender.ended().map(|status| status.code()).ok_or_else(|| "it runs".to_owned())
        })
    }

    /// Waits until every contender renews and every lease is at work. One that ended by itself is started again, as
    /// the registry or systemd does it, and that is told.
    pub(super) fn until_well(&mut self, after: &str) -> Result<(), String> {
        // Whoever has lost its session or its term knows it by two renewals.
        let (renewed, works) = (now(), now() + 2 * nanos(self.times.timing.renew_every));
        poll(&format!("all is well after {after}"), PATIENCE, || {
            self.look();
            self.revive()?;
            let silent = |slot: &&Slot| {
                !slot.process.as_ref().is_some_and(|p| self.renewals.get(p).is_some_and(|at| *at >= renewed))
            };
            let silent = self.slots.iter().filter(silent).count();
            let idle: Vec<_> = LEASES.iter().filter(|&&name| !self.works_since(name, works)).collect();
            if silent == 0 && idle.is_empty() {
                return Ok(());
            }
            Err(format!("{silent} do not renew, idle: {idle:?}"))
        })
    }

    /// Waits until every lease is at work in a contender that is not at this place.
    pub(super) fn until_elsewhere(&mut self, at: usize, within: Duration) -> Result<(), String> {
        let since = now();
        poll("every lease is at work elsewhere", within, || {
            self.look();
            let not = |name: &&&str| self.holder(name) == Some(at) || !self.works_since(name, since);
            let idle: Vec<_> = LEASES.iter().filter(not).collect();
            if idle.is_empty() { Ok(()) } else { Err(format!("{idle:?}")) }
        })
    }

    /// Waits until the contender at this place registers anew.
    pub(super) fn until_registered(&mut self, at: usize) -> Result<(), String> {
        let before = self.registrations(at);
        poll("it registers anew", PATIENCE, || {
            self.look();
            if self.registrations(at) > before { Ok(()) } else { Err("not yet".to_owned()) }
        })
    }

    fn registrations(&self, at: usize) -> usize {
        let process = self.slots[at].process.as_deref();
        let registered =
            |event: &&Event| event.what == What::Registered && Some(event.process.as_str()) == process;
        self.events.iter().filter(registered).count()
    }

    fn works_since(&self, name: &str, since: u64) -> bool {
        self.effects.get(name).is_some_and(|(at, _)| *at >= since)
    }

    /// The place whose contender did the lease's last work.
    pub(super) fn holder(&self, name: &str) -> Option<usize> {
        let (_, process) = self.effects.get(name)?;
        self.slots.iter().position(|slot| slot.process.as_ref() == Some(process))
    }

    /// Reads what was written meanwhile.
    pub(super) fn look(&mut self) {
        self.read();
    }

    pub(super) fn fault(&mut self, nemesis: &str, within: Duration, heals: bool) {
        self.write(What::Fault { nemesis: nemesis.to_owned(), within: nanos(within), heals });
    }

    pub(super) fn healed(&mut self) {
        self.write(What::Healed);
    }

    pub(super) fn write(&mut self, what: What) {
        self.recorder.write(&Event::now(RUNNER, what));
    }

    /// Records what is done to a contender.
    pub(super) fn write_of(&mut self, at: usize, what: What) {
        if let Some(process) = &self.slots[at].process {
            self.recorder.write(&Event::now(process, what));
        }
    }

    pub(super) fn signal(&mut self, at: usize, signal: Signal) {
        if let Some(contender) = &self.slots[at].contender {
            contender.signal(signal);
        }
    }

    pub(super) fn tell(&mut self, at: usize, line: &str) -> Result<(), String> {
        self.slots[at].contender.as_mut().map_or(Ok(()), |contender| contender.tell(line))
    }

    /// As a crash: SIGKILL, and gone.
    pub(super) fn kill(&mut self, at: usize) -> Result<(), String> {
        self.signal(at, Signal::KILL);
        self.write_of(at, What::Killed);
        self.reap(at)
    }

    /// As an operator: SIGTERM, and wait for its end.
    pub(super) fn stop(&mut self, at: usize) -> Result<(), String> {
        self.signal(at, Signal::TERM);
        self.reap(at)
    }

    fn reap(&mut self, at: usize) -> Result<(), String> {
        if let Some(mut contender) = self.slots[at].contender.take() {
            contender.reap(PATIENCE)?;
        }
        self.write_of(at, What::Gone);
        self.slots[at].process = None;
        Ok(())
    }

    /// Starts a contender in each empty place.
    pub(super) fn start_missing(&mut self) -> Result<(), String> {
        let empty = |at: &usize| self.slots[*at].contender.is_none();
        let empty: Vec<usize> = (0..self.slots.len()).filter(empty).collect();
        empty.into_iter().try_for_each(|at| self.start(at))
    }

    fn revive(&mut self) -> Result<(), String> {
        for at in 0..self.slots.len() {
            let Some(status) = self.slots[at].contender.as_mut().and_then(Contender::ended) else { continue };
            println!("           contender {at} ended by itself ({status}) and is started again");
            self.reap(at)?;
            self.start(at)?;
        }
        Ok(())
    }

    /// Leaves everything alone until the leases are spread, if they ever are: the checker says whether.
    pub(super) fn leave_alone(&mut self) -> Result<(), String> {
        self.write(What::Quiet);
        let begun = Instant::now();
        let most = QUIET + Duration::from_secs(5) * u32::try_from(LEASES.len() + 1).unwrap_or(1);
        while begun.elapsed() < most {
            pause(Duration::from_millis(50));
            self.look();
            let count = |at: usize| LEASES.iter().filter(|name| self.holder(name) == Some(at)).count();
            let counts: Vec<usize> = (0..self.slots.len()).map(count).collect();
            let even =
                counts.iter().max().zip(counts.iter().min()).is_some_and(|(most, least)| most - least <= 1);
            if even && begun.elapsed() >= QUIET {
                break;
            }
        }
        self.write(What::Settled);
        Ok(())
    }

    /// Ends all contenders in order, asks the database for the order of the commits, and hands out the history.
    pub(super) fn end(mut self) -> (PathBuf, Vec<Event>) {
        for at in 0..self.slots.len() {
            self.signal(at, Signal::TERM);
        }
        for at in 0..self.slots.len() {
            if let Err(error) = self.reap(at) {
                println!("contender {at}: {error}");
            }
        }
        match self.place.commits() {
            Ok(commits) => {
                for c in commits {
                    let ordered = What::Ordered { place: c.place, n: c.n };
                    self.recorder.write(&Event::now(RUNNER, ordered).of(&c.name, c.epoch));
                }
            }
            Err(error) => println!("the order of commits is not known: {error}"),
        }
        self.read();
        (self.history, self.events)
    }

    fn read(&mut self) {
        let mut more = Vec::new();
        if self.tail.read_to_end(&mut more).is_err() {
            return;
        }
        self.rest.push_str(&String::from_utf8_lossy(&more));
        let whole = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        for event in parse(&std::mem::replace(&mut self.rest, rest)) {
            match (&event.what, &event.name) {
                (What::Began { pid, .. }, _) => drop(self.processes.insert(*pid, event.process.clone())),
                (What::Renewed { .. }, _) => drop(self.renewals.insert(event.process.clone(), event.at)),
                (What::Acted | What::Committed { .. }, Some(name)) => {
                    self.effects.insert(name.clone(), (event.at, event.process.clone()));
                }
                _ => {}
            }
            self.events.push(event);
        }
    }
}

/// Removes the folder of a history that nobody asked to keep.
pub(super) fn sweep(history: &Path) {
    if let Some(folder) = history.parent() {
        let _ = fs::remove_dir_all(folder);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn environment(timing: &Timing, url: &str, at: usize) -> Vec<(String, String)> {
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    let settings = [
        ("DATABASE__URL", url.to_owned()),
        ("INSTANCE__LABEL", format!("contender-{at}")),
        ("LEASES__RENEW_EVERY", ms(timing.renew_every)),
        ("LEASES__RENEW_TIMEOUT", ms(timing.renew_timeout)),
        ("LEASES__TRUST_FOR", ms(timing.trust_for)),
        ("LEASES__STOP_WITHIN", ms(timing.stop_within)),
        ("LEASES__TTL", ms(timing.ttl)),
        ("LEASES__GRACE", ms(timing.grace)),
        ("LEASES__POLL_EVERY", ms(timing.poll_every)),
        ("TELEMETRY__FORMAT", "json".to_owned()),
        ("TELEMETRY__LEVEL", "info,leased_actors=debug".to_owned()),
    ];
    settings.into_iter().map(|(key, value)| (format!("ATCR__{key}"), value)).collect()
}

/// Brings the schema in before anybody uses it.
fn migrate(url: &str) -> Result<(), String> {
    let environment = [("ATCR__DATABASE__URL".to_owned(), url.to_owned())];
    let settings = Settings::load(None, environment).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let database = app::open(&settings).await.map_err(|error| error.to_string())?;
        database.migrate().await.map(drop).map_err(|error| error.to_string())
    })
}
