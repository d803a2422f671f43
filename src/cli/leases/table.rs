//! Leases and their history as tables of 80 columns. Pure. Nothing of it is for programs: they take the JSON.

use leased_actors::lease::LeaseView;

use crate::cli::columns::{COLUMNS, fitted, named};
use crate::store::LeaseEvent;

/// A time to the second; the JSON has milliseconds.
const SECONDS: usize = 19;

/// The widest epoch for ages, and on any timeline of PostgreSQL below 22.
const EPOCH: usize = 14;

/// A row for each lease below a heading, in so many columns: the last one, the holder, gets what the others leave.
pub(in crate::cli) fn leases(all: &[LeaseView], columns: usize) -> Vec<String> {
    let row = |name: &str, state: &str, epoch: &str, since: &str, who: &str| {
        fitted(&format!("{name:<12} {state:<8} {epoch:>EPOCH$}  {since:<SECONDS$}  {who}"))
    };
    let head = row("LEASE", "STATE", "EPOCH", "SINCE", "HOLDER");
    let who_len_max = columns.saturating_sub(12 + 1 + 8 + 1 + EPOCH + 2 + SECONDS + 2);
    let line = |of: &LeaseView| {
        let since = of.since.as_deref().map_or("-", |since| since.get(..SECONDS).unwrap_or(since));
        let holder = of.holder.as_ref();
        let who =
            holder.map_or("-".to_owned(), |of| named(&of.label, &of.incarnation.to_string(), who_len_max));
        row(of.name.as_str(), of.state, &of.epoch.to_string(), since, &who)
    };
    std::iter::once(head).chain(all.iter().map(line)).collect()
}

/// A row for each event below a heading. Names and what happened are as wide as they need to be, and who it was gets the rest.
pub(super) fn history(events: &[LeaseEvent]) -> Vec<String> {
    let widest = |text: fn(&LeaseEvent) -> &str, least: usize| {
        events.iter().map(|event| text(event).chars().count()).max().unwrap_or(0).max(least)
    };
    let (names, whats) = (widest(|event| event.name.as_str(), 5), widest(|event| &event.what, 4));
    let row = |at: &str, name: &str, epoch: &str, what: &str, who: &str| {
        fitted(&format!("{at:<SECONDS$} {name:<names$} {epoch:>EPOCH$}  {what:<whats$} {who}"))
    };
    let who_len_max = COLUMNS.saturating_sub(SECONDS + 1 + names + 1 + EPOCH + 2 + whats + 1);
    let line = |of: &LeaseEvent| {
        let at = of.at.get(..SECONDS).unwrap_or(&of.at);
        let who = named(of.label.as_deref().unwrap_or("-"), &of.incarnation.to_string(), who_len_max);
        row(at, of.name.as_str(), &of.epoch.to_string(), &of.what, &who)
    };
    std::iter::once(row("AT", "LEASE", "EPOCH", "WHAT", "WHO")).chain(events.iter().map(line)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use leased_actors::lease::{Epoch, HolderView, Incarnation};

    use super::*;

    const LONG: &str = "a-label-of-a-machine-whose-name-is-longer-than-any-table\u{1b}[2J";

    fn incarnation() -> Incarnation {
        "0123456789abcdef0123456789abcdef".parse().unwrap()
    }

    fn fits(lines: &[String]) {
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "{lines:#?}");
        assert!(lines[1..].iter().all(|line| line.ends_with(" 012345")), "{lines:#?}");
    }

    #[test]
    fn a_long_label_is_cut_and_the_incarnation_is_not() {
        let holder =
            HolderView { incarnation: incarnation(), label: LONG.into(), host: LONG.into(), pid: u32::MAX };
        let view = |name: &str| LeaseView {
            name: name.parse().unwrap(),
            epoch: Epoch(99_999_999_999_999),
            state: "stopping",
            holder: Some(holder.clone()),
            since: Some("2026-12-01T13:27:31.000Z".into()),
            paused: false,
            desired: None,
        };
        let lines = leases(&["jetstream", "a", "hold-tiers"].map(view), COLUMNS);
        fits(&lines);
        assert!(lines[1].contains("a-label-of-a-… 012345"), "{lines:#?}");
    }

    #[test]
    fn the_longest_end_of_a_term_leaves_room_for_whom() {
        let event = |what: &str| LeaseEvent {
            at: "2026-12-01T13:27:31.000Z".into(),
            name: "jetstream".parse().unwrap(),
            epoch: Epoch(99_999_999_999_999),
            incarnation: incarnation(),
            label: Some(LONG.into()),
            what: what.into(),
        };
        fits(&history(&["released after failures", "acquired", "beacon gone"].map(event)));
        let lines = history(&["acquired"].map(event));
        fits(&lines);
        assert!(lines[1].contains("acquired a-label-of-a"), "{lines:#?}");
    }
}
