//! What an instance costs that only stands by.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Place;

const WATCHED_FOR: Duration = Duration::from_secs(30);

/// USER_HZ, the same on every Linux that Rust builds for here.
const TICKS_PER_SECOND: f64 = 100.0;

/// Watches the one with this process id, and what the server is asked in the meantime by all of them.
#[allow(clippy::disallowed_methods, reason = "watching for a fixed time is the point")]
pub(crate) fn watch(place: &Place, pid: u32, count: usize) -> String {
    let log = place.log_statements(true);
    let (ticks, asked) = (ticks(pid), log.as_deref().map_or(0, statements));
    std::thread::sleep(WATCHED_FOR);
    let share = (self::ticks(pid) - ticks) / TICKS_PER_SECOND / WATCHED_FOR.as_secs_f64();
    let mut line = format!(
        "{:<10} an idle one of {count}, {} s: {:.1} MiB resident, {:.2} % of a processor",
        place.name(),
        WATCHED_FOR.as_secs(),
        resident_mib(pid),
        share * 100.0
    );
    if let Some(log) = log {
        let asked = statements(&log) - asked;
        let each = asked as f64 / count as f64 / WATCHED_FOR.as_secs_f64();
        line += &format!(", {each:.2} statements per second and instance");
        place.log_statements(false);
    }
    line
}

/// User and system time so far.
fn ticks(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // Fields 14 and 15 of proc_pid_stat(5); the first here is the third there.
    fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
}

fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

fn statements(log: &Path) -> usize {
    let log = fs::read_to_string(log).unwrap();
    let is_one = |line: &&str| line.contains("LOG:  statement: ") || line.contains("LOG:  execute ");
    log.lines().filter(is_one).count()
}
