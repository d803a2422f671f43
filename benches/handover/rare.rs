//! What takes seconds by design, so a few rounds do: an external worker's grace, a stopped process, a pulled cable.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use leased_actors::lease::timing::Timing;
use rustix::process::Signal;
use tokio::runtime::Runtime;

use crate::Place;
use crate::contenders::Contenders;
use crate::percentiles;
use crate::process::ms;
use crate::support::postgres::Postgres;

const ROUNDS: usize = 5;

/// What a stopped process gets once it goes on, to do what it must not.
const AFTER_RESUME: Duration = Duration::from_secs(3);

/// Prints a row each.
pub(crate) fn measure(place: &Place<'_>) {
    let (name, url) = (place.name(), place.url());
    let timing = match place {
        Place::Sqlite(_) => Timing::SQLITE,
        Place::Postgres(..) => Timing::POSTGRES,
    };
    if let Place::Postgres(..) = place {
        let took = crashes(&url, "external-bench");
        row(name, "SIGKILL, external worker: at least G, at most", took, timing.grace + ms_of(100));
    }
    let took = stops(&url);
    row(name, "SIGSTOP", took, timing.ttl + timing.renew_every + ms_of(100));
    if let Place::Postgres(..) = place {
        if is_cuttable() {
            row(name, "cut off, fenced worker", cuts("fenced-bench"), ms_of(3_600));
            row(name, "cut off, external worker", cuts("external-bench"), ms_of(6_600));
        } else {
            println!("{name} | cut off | not run: it needs root and `ip netns`");
        }
    }
}

fn row(place: &str, what: &str, took: Vec<f64>, bound: Duration) {
    let least = took.iter().copied().fold(f64::INFINITY, f64::min);
    let (median, most) = percentiles(took);
    println!(
        "{place} | {what} | least {least:.0}, median {median:.0}, most {most:.0} | bound {:.0}",
        ms(bound)
    );
}

fn ms_of(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn crashes(url: &str, worker: &str) -> Vec<f64> {
    let (mut contenders, mut holder) = two(worker, [url, url], [None, None]);
    let rounds = (0..ROUNDS).map(|_| {
        let killed = contenders.signal(holder, Signal::KILL);
        let began = contenders.began();
        assert_ne!(began.by, holder);
        contenders.replace(holder, url);
        contenders.until_registered();
        holder = began.by;
        ms(began.at - killed)
    });
    rounds.collect()
}

/// The one that was stopped goes on after its successor has begun, and begins nothing by itself: it registers anew and
/// stands by.
fn stops(url: &str) -> Vec<f64> {
    let (contenders, mut holder) = two("fenced-bench", [url, url], [None, None]);
    let rounds = (0..ROUNDS).map(|_| {
        let stopped = contenders.signal(holder, Signal::STOP);
        let began = contenders.began();
        assert_ne!(began.by, holder);
        contenders.signal(holder, Signal::CONT);
        contenders.until_registered();
        let again = contenders.began_within(AFTER_RESUME);
        assert!(again.is_none(), "a worker began although nobody ended");
        holder = began.by;
        ms(began.at - stopped)
    });
    rounds.collect()
}

/// A server and cables of its own for each round: whoever was cut off is not taken back.
fn cuts(worker: &str) -> Vec<f64> {
    let server = Postgres::private_with(&[("listen_addresses", "*")]);
    let hba = server.directory().join("data/pg_hba.conf");
    OpenOptions::new().append(true).open(hba).unwrap().write_all(b"host all all all password\n").unwrap();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(server.execute("SELECT pg_reload_conf()"));
    let rounds = (0..ROUNDS).map(|_| {
        let url = runtime.block_on(server.fresh_database());
        let cables = [Cable::lay(0), Cable::lay(1)];
        let urls = [0, 1]
            .map(|at| url.replace("127.0.0.1", &cables[at].near).replace("localhost", &cables[at].near));
        let spaces = [0, 1].map(|at| Some(cables[at].space.as_str()));
        let (contenders, holder) = two(worker, [&urls[0], &urls[1]], spaces);
        let cut = std::time::Instant::now();
        cables[holder].pull();
        let began = contenders.began();
        assert_ne!(began.by, holder);
        ms(began.at - cut)
    });
    rounds.collect()
}

/// Two contenders of which one works; which one.
fn two(worker: &str, urls: [&str; 2], spaces: [Option<&str>; 2]) -> (Contenders, usize) {
    let mut contenders = Contenders::new(&[worker]);
    contenders.start(urls[0], spaces[0]);
    let holder = contenders.began().by;
    contenders.start(urls[1], spaces[1]);
    contenders.until_registered();
    (contenders, holder)
}

fn is_cuttable() -> bool {
    let listed = Command::new("ip").args(["netns", "list"]).output();
    rustix::process::geteuid().is_root() && listed.is_ok_and(|output| output.status.success())
}

/// A network namespace and the pair of virtual interfaces that leads to it; gone when it is dropped.
struct Cable {
    space: String,
    near_end: String,
    near: String,
}

impl Cable {
    fn lay(at: usize) -> Cable {
        let id = std::process::id();
        let (space, near_end) = (format!("ho{id}n{at}"), format!("ho{id}h{at}"));
        let address = |last: usize| format!("10.{}.{}.{}", 192 + id % 60, id / 60 % 256, at * 4 + last);
        let (near, far) = (address(1), address(2));
        for line in [
            format!("netns add {space}"),
            format!("link add {near_end} type veth peer name e0 netns {space}"),
            format!("addr add {near}/30 dev {near_end}"),
            format!("link set {near_end} up"),
            format!("-n {space} addr add {far}/30 dev e0"),
            format!("-n {space} link set e0 up"),
            format!("-n {space} link set lo up"),
        ] {
            ip(&line);
        }
        Cable { space, near_end, near }
    }

    /// Packets vanish from now on, and nobody is told.
    fn pull(&self) {
        ip(&format!("link set {} down", self.near_end));
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for line in [format!("link del {}", self.near_end), format!("netns del {}", self.space)] {
            let _ = Command::new("ip").args(line.split(' ')).status();
        }
    }
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split(' ')).status().unwrap();
    assert!(status.success(), "ip {line}");
}
