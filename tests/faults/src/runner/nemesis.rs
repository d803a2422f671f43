//! The nemeses: what is done to contenders and their database, and how long a lease may be idle after it.

mod clocks;
mod processes;
mod server;
mod writers;

use rand::Rng;
use rand::rngs::StdRng;

use super::machine::Need;
use super::place::Kind;
use super::stage::{LEASES, Stage};

/// One kind of fault.
pub(super) struct Nemesis {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) on: &'static [Kind],
    pub(super) needs: Need,
    pub(super) act: fn(&mut Stage, &mut StdRng) -> Result<(), String>,
}

impl Nemesis {
    /// The databases that it is for.
    pub(super) fn databases(&self) -> String {
        self.on.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

const BOTH: &[Kind] = &[Kind::Sqlite, Kind::Postgres];
const FILE: &[Kind] = &[Kind::Sqlite];
const SERVER: &[Kind] = &[Kind::Postgres];

/// All of them.
#[rustfmt::skip]
pub(super) const NEMESES: &[Nemesis] = &[
    Nemesis { name: "kill", what: "SIGKILL a holder", on: BOTH, needs: Need::Nothing, act: processes::kill },
    Nemesis { name: "children", what: "SIGKILL a holder that starts children all the time", on: BOTH, needs: Need::Nothing, act: processes::children },
    Nemesis { name: "pause", what: "SIGSTOP a holder for longer than the TTL, then SIGCONT", on: BOTH, needs: Need::Nothing, act: processes::pause },
    Nemesis { name: "deaf", what: "drop all news, then SIGTERM a holder", on: BOTH, needs: Need::Nothing, act: processes::deaf },
    Nemesis { name: "rounds", what: "stop and start contenders in turn", on: BOTH, needs: Need::Nothing, act: processes::rounds },
    Nemesis { name: "suspend", what: "a holder's CLOCK_BOOTTIME jumps 120 s ahead, its timers stand still", on: BOTH, needs: Need::Nothing, act: clocks::suspend },
    Nemesis { name: "clock", what: "a holder's wall clock steps by 3 minutes, forth and back", on: BOTH, needs: Need::FakeTime, act: clocks::of_an_instance },
    Nemesis { name: "server-clock", what: "the server's wall clock steps by 3 minutes, forth and back", on: SERVER, needs: Need::FakeTime, act: clocks::of_the_server },
    Nemesis { name: "cut", what: "pull a holder's network cable, and plug it in again", on: SERVER, needs: Need::Network, act: server::cut },
    Nemesis { name: "beacon", what: "pg_terminate_backend of a holder's beacon", on: SERVER, needs: Need::Nothing, act: server::beacon },
    Nemesis { name: "listener", what: "pg_terminate_backend of all LISTEN sessions, then SIGTERM a holder", on: SERVER, needs: Need::Nothing, act: server::listener },
    Nemesis { name: "ring", what: "pg_terminate_backend of all sessions that watch a beacon, then SIGKILL a holder", on: SERVER, needs: Need::Nothing, act: server::ring },
    Nemesis { name: "restart", what: "stop the server with -m immediate, and start it", on: SERVER, needs: Need::Nothing, act: server::restart },
    Nemesis { name: "promote", what: "stop the primary, promote its standby", on: SERVER, needs: Need::Nothing, act: server::promote },
    Nemesis { name: "pooler", what: "database.url through pgbouncer in transaction mode with a direct_url, SIGKILL a holder", on: SERVER, needs: Need::Pooler, act: server::pooler },
    Nemesis { name: "pooler-only", what: "the same without a direct_url: the TTL alone", on: SERVER, needs: Need::Pooler, act: server::pooler_only },
    Nemesis { name: "busy", what: "another writer keeps the file in one transaction", on: FILE, needs: Need::Nothing, act: writers::busy },
    Nemesis { name: "full", what: "the disk is full, then has room again", on: FILE, needs: Need::Mounts, act: writers::full },
];

/// The contender that has a lease chosen by chance.
fn a_holder(stage: &mut Stage, random: &mut StdRng) -> Result<usize, String> {
    holder_of(stage, LEASES[random.random_range(0..LEASES.len())])
}

/// The contender that has a lease, chosen by chance, whose worker acts outside the database.
fn an_external_holder(stage: &mut Stage, random: &mut StdRng) -> Result<usize, String> {
    let external: Vec<&str> = LEASES.into_iter().filter(|name| name.starts_with("external")).collect();
    holder_of(stage, external[random.random_range(0..external.len())])
}

fn holder_of(stage: &mut Stage, name: &str) -> Result<usize, String> {
    stage.look();
    stage.holder(name).ok_or_else(|| format!("nobody has {name}"))
}
