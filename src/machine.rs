//! What is wrong with this machine that much would fail of later, each time in other words: its clock, and the certificates
//! that it trusts. Told once, at start; nothing is refused for it, as both may be put right while the process runs.

use std::time::Duration;

use chrono::DateTime;

use crate::atproto::Micros;
use crate::store::Database;
use crate::store::status::Clocks;

/// 2026-01-01, before which this program did not exist: what machines without a battery begin with is far below.
const SINCE_US: i64 = 1_767_225_600 * 1_000_000;

/// Less is what clocks of different machines do. The stream takes an event that is further ahead for none of now; at half,
/// clocks that are set by hand are complained of; at double, events are dropped and nothing was said.
const APART_MAX: Duration = Duration::from_secs(10 * 60);

/// Looks, and says what is wrong.
pub async fn look(database: &Database) {
    let clocks = database.clocks().await.ok();
    let certificates = rustls_native_certs::load_native_certs().certs.len();
    for what in complaints(Micros::now(), clocks, certificates) {
        tracing::warn!("{what}");
    }
}

fn complaints(now: Micros, clocks: Option<Clocks>, certificates: usize) -> Vec<String> {
    let mut found = Vec::new();
    if now.0 < SINCE_US {
        found.push(format!(
            "this machine's clock says {}, which is long past: set it (NTP); until then certificates are not accepted, and \
             events of the stream count as of the future",
            shown(now)
        ));
    }
    if let Some(clocks) = clocks {
        let apart = Duration::from_micros(now.0.abs_diff(clocks.database.0));
        if apart > APART_MAX {
            let (mine, theirs) = (shown(now), shown(clocks.database));
            found.push(format!(
                "this machine's clock says {mine}, the database server's says {theirs}: one of them is wrong"
            ));
        }
        if let Some(newest) = clocks.newest
            && newest.0 > now.0.saturating_add(APART_MAX.as_micros() as i64)
        {
            found.push(format!(
                "the clock says {}, and the database has a row of {}: the clock is behind, or was ahead when that was \
                 written; what was put off then, waits until then",
                shown(now),
                shown(newest)
            ));
        }
    }
    if certificates == 0 {
        found.push(
            "no certificate authorities were found on this machine: nobody can be asked by TLS; install ca-certificates, or \
             name their file in SSL_CERT_FILE"
                .to_owned(),
        );
    }
    found
}

fn shown(at: Micros) -> String {
    let time = DateTime::from_timestamp_micros(at.0);
    time.map_or_else(|| format!("{} µs", at.0), |time| time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros(SINCE_US + 1);

    fn of(now: i64, database: i64, newest: Option<i64>, certificates: usize) -> String {
        let clocks = Clocks { database: Micros(database), newest: newest.map(Micros) };
        complaints(Micros(now), Some(clocks), certificates).join("\n")
    }

    #[test]
    fn a_machine_as_it_should_be_is_not_complained_of() {
        assert_eq!(of(NOW.0, NOW.0, Some(NOW.0), 100), "");
        let near = APART_MAX.as_micros() as i64;
        assert_eq!(of(NOW.0, NOW.0 + near, Some(NOW.0 + near), 100), "");
        assert_eq!(complaints(NOW, None, 100), [""; 0]);
    }

    #[test]
    fn each_fault_is_told_with_what_was_found() {
        let far = NOW.0 + APART_MAX.as_micros() as i64 + 1;
        assert!(of(86_400_000_000, 86_400_000_000, None, 1).contains("says 1970-01-02 00:00:00 UTC"));
        assert!(of(NOW.0, far, None, 1).contains("the database server's says 2026-01-01 00:10:00 UTC"));
        assert!(of(NOW.0, NOW.0, Some(far), 1).contains("a row of 2026-01-01 00:10:00 UTC"));
        assert!(of(NOW.0, NOW.0, None, 0).contains("SSL_CERT_FILE"));
    }
}
