//! What others' reports warn of, held against the short run: each test names its claim and the report.

use crate::short::{postgres, sqlite};

#[test]
fn no_invariant_is_broken_on_sqlite() {
    assert!(sqlite().passed, "{}", sqlite().text());
}

#[test]
fn no_invariant_is_broken_on_postgres() {
    assert!(postgres().passed, "{}", postgres().text());
}

#[test]
fn a_killed_holder_is_succeeded() {
    sqlite().withstood("kill");
    postgres().withstood("kill");
    postgres().withstood("ring");
}

#[test]
fn a_hung_holder_is_succeeded_after_its_ttl_and_does_nothing_when_it_wakes() {
    sqlite().withstood("pause");
    postgres().withstood("pause");
}

#[test]
fn without_any_news_a_lease_moves_within_the_poll() {
    sqlite().withstood("deaf");
    postgres().withstood("deaf");
}

#[test]
fn starts_and_stops_in_any_order_leave_every_lease_running() {
    sqlite().withstood("rounds");
    postgres().withstood("rounds");
}

#[test]
fn a_full_disk_is_survived_by_the_terms() {
    sqlite().withstood("full");
}

#[test]
fn a_promoted_standby_takes_the_leases_over() {
    postgres().withstood("promote");
}

#[test]
fn a_pooler_in_transaction_mode_is_refused_or_served() {
    postgres().withstood("pooler");
    postgres().withstood("pooler-only");
}

// L20: hashicorp/vault#11319
// L21: hashicorp/vault#17643
#[test]
fn after_a_hard_restart_of_the_server_one_of_all_works_within_five_seconds() {
    postgres().withstood("restart");
    if let Some(row) = postgres().row("restart") {
        assert!(row.hand_overs > 0 && row.slowest_ms < 5_000, "{row:?}");
    }
}

// L22: madelson/DistributedLock#230, liquibase/liquibase#872
#[test]
fn after_a_pulled_cable_another_takes_over_within_drop_and_grace() {
    postgres().withstood("cut");
    if let Some(row) = postgres().row("cut") {
        // D is three seconds, and so is G by default.
        assert!(row.hand_overs > 0 && row.slowest_ms < 6_000, "{row:?}");
    }
}

// L23: hapostgres/pg_auto_failover#1028, #1180
// L36: apache/kafka#7771, #8453
// L33: hashicorp/consul#1843
#[test]
fn a_holder_that_was_cut_off_stops_in_time_and_contends_again_when_it_is_back() {
    // I8 and I2 say that it stopped, I3 that its late writes were refused, and the next nemesis began only after it
    // renewed and every lease was at work.
    postgres().withstood("cut");
    assert!(postgres().passed, "{}", postgres().text());
}

// L24: timgit/pg-boss#850, #851; bensheldon/good_job#303, #1417
#[test]
fn after_all_listeners_were_ended_a_release_still_moves_within_the_poll() {
    postgres().withstood("listener");
}

// L25: Soju06/codex-lb#1682
#[test]
fn a_writer_that_hogs_the_file_is_recovered_from_within_two_seconds() {
    sqlite().withstood("busy");
    if let Some(row) = sqlite().row("busy") {
        assert!(row.slowest_ms < 2_000, "{row:?}");
    }
}

// L26: rails/solid_queue#763, #778
#[test]
fn after_a_suspend_the_worker_stops_and_its_process_works_again() {
    for run in [sqlite(), postgres()] {
        run.withstood("suspend");
        assert!(
            !run.text().contains("ended by itself"),
            "a process was ended by its watchdog:\n{}",
            run.text()
        );
    }
}

// L29: quartz-scheduler/quartz#548, #463; lukas-krecan/ShedLock#231, #263, #639
#[test]
fn a_wall_clock_that_steps_by_three_minutes_changes_nothing() {
    sqlite().withstood("clock");
    postgres().withstood("clock");
    postgres().withstood("server-clock");
}

// L35: patroni/patroni#2070
#[test]
fn after_a_lost_session_nobody_runs_beside_the_process_that_still_lives() {
    postgres().withstood("beacon");
    if let Some(row) = postgres().row("beacon") {
        assert!(row.hand_overs > 0, "{row:?}");
    }
}

// L41: cq27-dev/rag-rat#409, #410; tox-dev/filelock#634
#[test]
fn children_do_not_keep_a_killed_holders_beacon() {
    sqlite().withstood("children");
    postgres().withstood("children");
}
