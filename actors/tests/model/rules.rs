//! What a run of the check explores: its times, its faults, its bounds, and what is broken on purpose.

use std::time::Duration;

use leased_actors::lease::Effects;
use leased_actors::lease::timing::Timing;

/// One tick. Everything in the model happens on whole ticks.
pub const TICK: Duration = Duration::from_secs(1);

/// D, in ticks: the store drops a session that was silent for so long.
pub const SERVER_DROP: u64 = 3;

/// F=2 S=1 D=3 G=3 TTL=4 ticks, a renewal per tick. T lies within the tick: a call is answered in its tick, or failed.
pub const SAFE: Timing = Timing {
    renew_every: TICK,
    renew_timeout: Duration::from_millis(500),
    trust_for: Duration::from_secs(2),
    stop_within: TICK,
    server_drop: Duration::from_secs(SERVER_DROP),
    grace: Duration::from_secs(3),
    ttl: Duration::from_secs(4),
    poll_every: TICK,
};

/// A guard taken away, in the store or around the instance. `None` = everything as it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    None,
    /// A wait once owed is not carried past a release or a further claim.
    CarriedWait,
    /// A wait that is owed is kept as a time of the store's wall clock, so that claimers wait what is left of it.
    WallClockWait,
    /// The answer to a claim gives trust, as a renewal sent at its receipt would.
    ClaimTrusts,
    /// An instance is dead when the store's wall clock says that its last renewal is older than the TTL.
    WallClockTtl,
    /// An instance without a beacon counts as one that expired: nobody waits the grace.
    TtlBeforeBeacon,
    /// A release is sent while the worker still runs.
    ReleaseFirst,
    /// A worker's transaction is not checked against its term.
    Fence,
}

/// What may go wrong in a run, each for one of the allowed faults. What undoes it (heal, resume, restart, the store
/// coming back) is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Cut(usize),
    Pause(usize),
    Crash(usize),
    /// The session ends, the process lives.
    Kill(usize),
    Drain(usize),
    Shutdown(usize),
    /// The store ends with all its sessions, and is away until it is back. It forgets no commit.
    StoreDown,
    /// The store's wall clock jumps by so many ticks.
    ClockStep(i64),
    /// What the instance sends in its next turn is executed, and the answers are lost.
    ReplyLost(usize),
    /// The same, and the answers come a turn later.
    ReplyLate(usize),
    /// What it sends in its next turn is executed a tick later.
    CallLate(usize),
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub effects: Effects,
    pub timing: Timing,
    pub broken: Broken,
    pub faults_max: u8,
    pub ticks_max: u64,
    /// Which faults happen at all.
    pub faults: fn(usize) -> Vec<Fault>,
    /// Whether only what the guards are there for counts, an overlap (I2) or a late write (I3), and not that a guard is
    /// gone: so it must be for what is broken on purpose.
    pub only_overlap: bool,
}

pub fn all_faults(node: usize) -> Vec<Fault> {
    use Fault::*;
    let mut faults = vec![
        Cut(node),
        Pause(node),
        Crash(node),
        Kill(node),
        Drain(node),
        Shutdown(node),
        ReplyLost(node),
        ReplyLate(node),
        CallLate(node),
    ];
    if node == 0 {
        faults.extend([StoreDown, ClockStep(6), ClockStep(-6)]);
    }
    faults
}
