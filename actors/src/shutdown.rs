//! How an instance ended: which leases were released, which were left to expire, which workers never confirmed.

use std::fmt;

use serde::Serialize;

use crate::lease::LeaseName;
use crate::lease::slot::Outcome;

/// The end of an instance, as `sysexits` and the operator's log want it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Released, and the release was acknowledged.
    pub released: Vec<LeaseName>,
    /// Somebody else had it already.
    pub lost: Vec<LeaseName>,
    /// The store did not acknowledge: its TTL frees it.
    pub left_to_expire: Vec<LeaseName>,
    /// The worker did not confirm its stop in time, so nothing was released.
    pub overdue: Vec<LeaseName>,
}

impl Report {
    /// Sorts the outcomes of every lease.
    pub fn of(outcomes: Vec<(LeaseName, Outcome)>) -> Self {
        let mut report = Self::default();
        for (name, outcome) in outcomes {
            match outcome {
                Outcome::NotOurs => {}
                Outcome::Released => report.released.push(name),
                Outcome::Lost => report.lost.push(name),
                Outcome::LeftToExpire => report.left_to_expire.push(name),
                Outcome::Overdue => report.overdue.push(name),
            }
        }
        report
    }

    /// Whether nothing of this instance keeps a successor waiting.
    pub fn is_clean(&self) -> bool {
        self.left_to_expire.is_empty() && self.overdue.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("released", &self.released),
            ("lost", &self.lost),
            ("left to expire", &self.left_to_expire),
            ("overdue", &self.overdue),
        ];
        let mut first = true;
        for (word, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            let names: Vec<_> = names.iter().map(LeaseName::as_str).collect();
            write!(f, "{}{word}: {}", if first { "" } else { "; " }, names.join(", "))?;
            first = false;
        }
        if first { f.write_str("no lease was ours") } else { Ok(()) }
    }
}
