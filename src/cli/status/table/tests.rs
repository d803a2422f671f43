//! The table of a report with everything in it, and of one with nothing.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use leased_actors::lease::{Epoch, HolderView, Incarnation};

use super::*;
use crate::atproto::{Did, Micros};
use crate::health::{HoldList, HoldState, State};
use crate::status::{Hearing, Told};
use crate::store::StreamCursor;
use crate::store::backfill::{RunReport, RunTotals};
use crate::store::labels::LabelerPosition;
use crate::store::outbox::OutboxReport;
use crate::store::status::{
    InstanceStatus, LabelerStatus, LabelsStatus, RunStatus, Status, StreamStatus, WishStatus,
};

const AT: Micros = Micros(1_790_000_000_000_000);

fn instance(incarnation: &str, label: &str, host: &str) -> InstanceStatus {
    InstanceStatus {
        incarnation: incarnation.to_owned(),
        label: label.to_owned(),
        host: host.to_owned(),
        pid: 4_194_304,
        state: "draining".to_owned(),
        admin_address: Some("10.0.0.1:9464".to_owned()),
        since: AT,
        renewed_us_ago: 7_199_000_000,
    }
}

fn hold(name: &str, state: State) -> HoldState {
    HoldState {
        did: Did::parse(&format!("did:web:{name}")).unwrap(),
        state,
        reachable: state != State::Unreachable,
        checked_at: None,
        error: (state == State::Unreachable).then(|| "it answered\nwith status 500, ".repeat(10)),
    }
}

fn labels() -> LabelsStatus {
    let position = LabelerPosition { seq: 9_999_999, era: 1 };
    let labeler = LabelerStatus {
        labeler: format!("did:web:{}", "x".repeat(60)),
        verify: true,
        position,
        saved_at: AT,
        saved_us_ago: 1,
    };
    LabelsStatus { labeler: Some(labeler), in_effect: 1_000_000, not_verified: 9, taken_down: 1_234 }
}

fn hearing(by: Incarnation) -> Hearing {
    Hearing {
        incarnation: Some(by.to_string()),
        connected: false,
        last_label_at: None,
        last_check_at: None,
        position_refused: true,
    }
}

fn full() -> StatusReport {
    let long = "a-label-that-is-as-long-as-labels-may-be-and-then-some";
    let me = Incarnation::new();
    let told = |down: usize| {
        let down =
            (0..down).map(|n| hold(&format!("hold{n}.{}.example", "x".repeat(60)), State::Unreachable));
        let holds = down.chain([hold("up.example", State::Reachable), hold("new.example", State::Unknown)]);
        let list = HoldList {
            round_ended_at: Some("2026-12-01T13:27:31.000Z".to_owned()),
            left_out: 12_345,
            holds: holds.collect(),
        };
        Told { incarnation: Some(me.to_string()), version: "0.1.0".to_owned(), enabled: true, list }
    };
    let cursor = |host: &str| StreamCursor {
        wire: "v1".to_owned(),
        host: host.to_owned(),
        time_us: AT.0,
        seq: Some(i64::MAX),
    };
    let stream = |host| StreamStatus {
        cursor: cursor(host),
        us_behind: 119_400_000,
        saved_at: AT,
        saved_us_ago: 7_100_000_000,
    };
    let totals =
        RunTotals { records: 9_999_999_999_999_999, changed: 123_456_789, missed: 123_456_789, requests: 1 };
    let report =
        RunReport { id: 1_234, found: 12_345_678, waiting: 1, failed: 12, lists: 9, totals, is_ended: false };
    let run = RunStatus {
        reason: "operator".to_owned(),
        forced: true,
        started_at: AT,
        ended_at: None,
        given_up: false,
        report,
    };
    let n = 1_000_000;
    let outbox = OutboxReport { waiting: n, oldest_due: Duration::from_secs(900), enabled: n, disabled: n };
    let status = Status {
        outbox,
        instances: vec![
            instance(&me.to_string(), long, "a-host-with-a-long-name"),
            instance("b", "web\x1b[2J", "web2"),
        ],
        streams: vec![stream("jetstream2.us-west.bsky.network:443"), stream(&"long.".repeat(30))],
        run: Some(run),
        wishes: WishStatus { count: 1_000_000, every: true, oldest_us_ago: Some(900_000_000_000) },
    };
    let holder = HolderView { incarnation: me, label: long.to_owned(), host: "h".to_owned(), pid: 1 };
    let lease = LeaseView {
        name: "hold-health2".parse().unwrap(),
        epoch: Epoch(9_999_999_999_999),
        state: "stopping",
        holder: Some(holder),
        since: Some("2026-12-01T13:27:31.000Z".to_owned()),
        paused: false,
        desired: None,
    };
    let labeler = LeaseView { name: "labeler".parse().unwrap(), ..lease.clone() };
    let leases = vec![lease.clone(), LeaseView { holder: None, since: None, ..lease }, labeler];
    let mut full = StatusReport::new(status, labels(), leases);
    full.heard(&me.to_string(), Ok(hearing(me)));
    full.told(&me.to_string(), Ok(told(25)));
    full.told("b", Ok(told(0)));
    full
}

#[test]
fn no_line_is_wider_than_a_terminal_and_none_writes_to_it_what_it_should_not() {
    let text = text(&full());
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

#[test]
fn what_matters_is_not_what_is_cut() {
    let full = full();
    let (text, me) = (text(&full), &full.instances[0].incarnation[..6]);
    for part in [
        &format!("a-label-that… {me} a-host-wi… 4194304 draining 2026-09-21T14:13 120 min ago"),
        &format!("stopping  9999999999999  2026-12-01T13:27:31  a-label-tha… {me}"),
        "v1 jetstream2.us-west.bsky.network:443",
        "at 119 s ago, saved 118 min ago",
        "run 1234 (operator, every record anew) running since 2026-09-21T14:13",
        "12345677 of 12345678 repositories, 12 failed, 9 lists to read",
        "9999999999999999 records, 123456789 had changed, 123456789 the stream missed",
        "1000000 wishes wait (one: every repository), the oldest from 10 days ago",
        "1000000 deliveries wait, due 15 min ago; 1000000 webhooks, 1000000 disabled",
        &format!("a-label-that… {me} 2026-12-01T13:27 1 up, 25 down, 1 unknown"),
        "… it refuses our position: no takedowns",
        "1234 subjects taken down, 1000000 labels count, 9 not verified, at 9999999",
        "12345 more holds are not asked",
        "down did:web:hold0.xxxxxxxxxxxxxxxxxxxxxxxxx…: it answered with status 500",
        "and 15 more (--json has them all)",
        "another one answers at its address",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert_eq!(full.instances[0].version.as_deref(), Some("0.1.0"));
    assert_eq!(full.instances[1].version, None);
}

#[test]
fn nothing_is_said_to_be_nothing() {
    let nothing = text(&StatusReport::new(Status::default(), LabelsStatus::default(), Vec::new()));
    let expected = "INSTANCES\n  none (or leases.enabled is off)\nLEASES\n  none yet: no instance has run on this \
                    database\nSTREAMS\n  nothing was read yet\nBACKFILL\n  no run yet\nOUTBOX\n  0 deliveries wait; 0 webhooks\nLABELS\n  no labeler was ever followed (labeler.did)\nHOLDS\n  no instance to ask\n";
    assert_eq!(nothing, expected);
}
