//! Memory of this process as the kernel counts it, whatever the allocator says; and what "flat" means.

use std::fs;

/// Samples until here (a fifth) are warm-up: pools, caches of SQLite and the allocator's arenas fill.
const WARM_UP: usize = 5;

/// How far the highest sample may be above the median. A full queue, or a batch of large records, is within it; over
/// 800,000 events into 30 MiB it is a leak of 6 bytes per event. At double that would be 12; at half one batch of
/// manifests that meets a full queue would fail the run.
pub(crate) const PEAK_MAX: f64 = 1.15;

/// In MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// `VmRSS`.
    pub(crate) resident: f64,
    /// `VmHWM`: the most that was ever resident, between samples too.
    pub(crate) peak: f64,
}

pub(crate) fn now() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    };
    Memory { resident: field("VmRSS:"), peak: field("VmHWM:") }
}

/// The highest sample after the warm-up, over the median of those; and that sample.
pub(crate) fn growth(resident: &[f64]) -> (f64, f64) {
    let mut warm = resident[resident.len() / WARM_UP..].to_vec();
    warm.sort_by(f64::total_cmp);
    let (median, highest) = (warm[warm.len() / 2], warm[warm.len() - 1]);
    (highest / median, highest)
}

/// Panics if memory grew after the warm-up.
pub(crate) fn assert_flat(resident: &[f64]) {
    let (ratio, highest) = growth(resident);
    println!("flat: highest {highest:.1} MiB, {ratio:.3} x the median of {} samples", resident.len());
    assert!(ratio <= PEAK_MAX, "memory grew: {ratio:.3} x the median, more than {PEAK_MAX}");
}
