//! Time by the wall, and time of this process's processors: on a shared machine the wall also measures the neighbours.

use std::ops::{Add, AddAssign};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// What something took, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wall: f64,
    /// User and system time of the whole process.
    pub(crate) cpu: f64,
}

/// A measurement under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }

    pub(crate) fn stop(self) -> Cost {
        Cost { wall: self.wall.elapsed().as_secs_f64(), cpu: cpu_seconds() - self.cpu }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
