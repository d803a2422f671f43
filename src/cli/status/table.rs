//! The report as a table of 80 columns. Pure. Nothing of it is for programs: they take the JSON.

use leased_actors::lease::LeaseView;

use crate::cli::columns::{COLUMNS, cut, fitted, named};
use crate::cli::leases::table;
use crate::status::report::{Backfill, HoldsOf, Instance, Labels, Outbox, Run, StatusReport, Stream};

/// Before each line of a section.
const INDENT: usize = 2;

/// Holds that do not answer, of one instance. The rest is counted.
const DOWN_MAX: usize = 10;

/// The whole text, in lines.
pub(super) fn text(report: &StatusReport) -> String {
    let lines = [
        section("INSTANCES", instances(&report.instances), "none (or leases.enabled is off)"),
        section("LEASES", leases(&report.leases), "none yet: no instance has run on this database"),
        section("STREAMS", report.streams.iter().map(stream).collect(), "nothing was read yet"),
        section("BACKFILL", backfill(&report.backfill), "no run yet"),
        section("OUTBOX", outbox(&report.outbox), ""),
        section("LABELS", labels(&report.labels), "no labeler was ever followed (labeler.did)"),
        section("HOLDS", report.holds.iter().flat_map(holds).collect(), "no instance to ask"),
    ];
    lines.concat().iter().map(|line| format!("{}\n", fitted(line))).collect()
}

fn section(title: &str, lines: Vec<String>, otherwise: &str) -> Vec<String> {
    let lines = if lines.is_empty() { vec![otherwise.to_owned()] } else { lines };
    let lines = lines.into_iter().map(|line| format!("{:INDENT$}{line}", ""));
    std::iter::once(title.to_owned()).chain(lines).collect()
}

fn instances(all: &[Instance]) -> Vec<String> {
    let row = |who: &str, host: &str, pid: &str, state: &str, since: &str, renewed: &str| {
        format!("{who:<20} {host:<10} {pid:>7} {state:<8} {since:<16} {renewed}")
    };
    let head = row("INSTANCE", "HOST", "PID", "STATE", "SINCE", "RENEWED");
    let line = |of: &Instance| {
        let renewed = ago(of.renewed_seconds_ago);
        let (who, host) = (named(&of.label, &of.incarnation, 20), cut(&of.host, 10));
        row(&who, &host, &of.pid.to_string(), &of.state, minute(of.since.as_deref()), &renewed)
    };
    let lines: Vec<String> = all.iter().map(line).collect();
    if lines.is_empty() { lines } else { std::iter::once(head).chain(lines).collect() }
}

fn leases(all: &[LeaseView]) -> Vec<String> {
    if all.is_empty() { Vec::new() } else { table::leases(all, COLUMNS - INDENT) }
}

fn stream(of: &Stream) -> String {
    let (behind, saved) = (ago(of.position_seconds_ago), ago(of.saved_seconds_ago));
    let host = cut(&of.host, 40);
    format!("{} {host:<40} at {behind}, saved {saved}", of.wire)
}

fn backfill(of: &Backfill) -> Vec<String> {
    let mut lines: Vec<String> = of.run.iter().flat_map(run).collect();
    if of.requests > 0 {
        let every = if of.requests_every { " (one: every repository)" } else { "" };
        let oldest = of
            .requests_oldest_seconds_ago
            .map_or_else(String::new, |age| format!(", the oldest from {}", ago(age)));
        lines.push(format!("{} wishes wait{every}{oldest}", of.requests));
    }
    lines
}

fn run(of: &Run) -> [String; 3] {
    let forced = if of.forced { ", every record anew" } else { "" };
    let when = match &of.ended_at {
        Some(_) => format!("{} {}", of.state, minute(of.ended_at.as_deref())),
        None => format!("{} since {}", of.state, minute(of.started_at.as_deref())),
    };
    let lists = match of.lists_waiting {
        0 => String::new(),
        more => format!(", {more} lists to read"),
    };
    let Run { id, reason, repositories, repositories_done, repositories_failed, .. } = of;
    let Run { records, records_changed, records_missed, .. } = of;
    [
        format!("run {id} ({reason}{forced}) {when}"),
        format!("{repositories_done} of {repositories} repositories, {repositories_failed} failed{lists}"),
        format!("{records} records, {records_changed} had changed, {records_missed} the stream missed"),
    ]
}

fn outbox(of: &Outbox) -> Vec<String> {
    let due = if of.due_seconds > 0.0 { format!(", due {}", ago(of.due_seconds)) } else { String::new() };
    let disabled = match of.webhooks_disabled {
        0 => String::new(),
        some => format!(", {some} disabled"),
    };
    vec![format!("{} deliveries wait{due}; {} webhooks{disabled}", of.waiting, of.webhooks)]
}

fn labels(of: &Labels) -> Vec<String> {
    let (Some(labeler), Some(seq)) = (&of.labeler, of.seq) else { return Vec::new() };
    let standing = match (of.position_refused, of.connected) {
        (Some(true), _) => "it refuses our position: no takedowns",
        (_, Some(true)) => "connected",
        (_, Some(false)) => "not connected",
        (_, None) => of.reason.as_deref().unwrap_or_default(),
    };
    let not_verified = match of.not_verified {
        0 => String::new(),
        some => format!(", {some} not verified"),
    };
    let (taken_down, in_effect) = (of.taken_down, of.in_effect);
    vec![
        format!("{} {standing}", cut(labeler, 40)),
        format!("{taken_down} subjects taken down, {in_effect} labels count{not_verified}, at {seq}"),
    ]
}

fn holds(of: &HoldsOf) -> Vec<String> {
    let who = named(&of.label, &of.incarnation, 20);
    let (Some(reachable), Some(unreachable), Some(unknown)) = (of.reachable, of.unreachable, of.unknown)
    else {
        return vec![format!("{who:<20} {}", of.reason.as_deref().unwrap_or_default())];
    };
    if of.enabled == Some(false) {
        return vec![format!("{who:<20} not asked (hold_health.enabled)")];
    }
    let at = of.round_ended_at.as_deref().map_or("no round yet", |at| minute(Some(at)));
    let mut lines = vec![format!("{who:<20} {at} {reachable} up, {unreachable} down, {unknown} unknown")];
    let down = of.down.iter().take(DOWN_MAX);
    lines.extend(down.map(|hold| {
        format!("  down {}: {}", cut(hold.did.as_str(), 40), hold.error.as_deref().unwrap_or_default())
    }));
    if of.down.len() > DOWN_MAX {
        lines.push(format!("  and {} more (--json has them all)", of.down.len() - DOWN_MAX));
    }
    lines.extend(
        of.left_out.filter(|more| *more > 0).map(|more| format!("  {more} more holds are not asked")),
    );
    lines
}

/// `2026-12-01 13:27`; in a text of a fixed form.
fn minute(at: Option<&str>) -> &str {
    at.map_or("-", |at| at.get(..16).unwrap_or(at))
}

fn ago(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1} s ago"),
        ..120.0 => format!("{seconds:.0} s ago"),
        ..7_200.0 => format!("{:.0} min ago", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h ago", seconds / 3_600.0),
        _ => format!("{:.0} days ago", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests;
