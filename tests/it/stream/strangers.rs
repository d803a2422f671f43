//! The accounts of the whole network pass by: those that nobody here knows cost nothing, and a stream that carries only
//! them looks neither dead nor fresh.

use std::time::Instant;

use localnet::{
    ids,
    network::On as Asked,
    seed::{Size, seed},
};

use super::{
    processes::{Network, computed, resident_bytes},
    rows::{On, as_folded},
    stage::{DROPPED, IDLE_LIMIT, SOON, Stage},
};
use crate::support::{
    eventually::eventually,
    index::{self, Part, part},
};

const STRANGERS: usize = 100_000;
const FRESH: &str = "atcr_stream_last_event_timestamp_seconds";
const WRITTEN: Part = part("written", "written", "id what");
/// From now on every statement that may write is written down with its table, whether or not it finds a row.
const WRITE_DOWN: &str = "CREATE TABLE written (id BIGSERIAL PRIMARY KEY, what TEXT);
    CREATE FUNCTION write_down_statement() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO written (what) VALUES (TG_TABLE_NAME); RETURN NULL; END $$;
    DO $$ DECLARE name TEXT; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'written' LOOP
            EXECUTE format('CREATE TRIGGER written AFTER INSERT OR UPDATE OR DELETE ON %I
                FOR EACH STATEMENT EXECUTE FUNCTION write_down_statement()', name);
        END LOOP;
    END $$";

/// jetstream-legacy#38, jetstream#142: every subscriber gets the account and identity events of the whole network.
/// statusphere-example-app#66: a row for each of those accounts, without bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_about_strangers_adds_no_row_writes_only_positions_and_asks_nobody() {
    let network = Network::start(On::Postgres).await;
    let instance = network.instance(&[("ATCR__LEASES__ENABLED", "false")]);
    assert!(network.net.jetstream(0).subscribed(1, SOON).await);
    seed(&network.net, Size::default(), 1);
    let content = settled(&network).await;
    let asked = network.net.requests(&Asked::any());
    network.rows.execute(WRITE_DOWN).await;
    let since = Instant::now();
    let (cpu, memory) = (computed(instance.pid()), resident_bytes(instance.pid()));

    for number in 0..STRANGERS {
        let stranger = ids::did_plc(2, &number.to_string());
        match number % 4 {
            0 => network.net.account_event(&stranger, true, None),
            1 => network.net.account_event(&stranger, false, Some("deleted")),
            _ => network.net.identity_event(&stranger),
        }
    }
    eventually("all strangers are dropped", 3 * SOON, async || {
        let seen = instance.metric(DROPPED, &[("reason", "unknown_account")]);
        if seen == Some(STRANGERS as f64) { Ok(()) } else { Err(seen) }
    })
    .await;
    let cpu = computed(instance.pid()) - cpu;
    let memory = resident_bytes(instance.pid()).saturating_sub(memory);
    println!("{STRANGERS} strangers: {cpu:?} of one processor, {} KiB more in memory", memory >> 10);

    assert_eq!(settled(&network).await, content);
    assert_eq!(network.net.requests(&Asked::any()), asked);
    let saved_at_most = since.elapsed().as_secs() / 5 + 2;
    let written = network.rows.read(WRITTEN).await;
    assert!(written.iter().all(|row| row["what"] == "stream_cursor"), "{written:?}");
    assert!(written.len() <= saved_at_most as usize, "{} positions saved", written.len());
}

/// jetstream-legacy#25: nothing but waiting for account events kept a client alive, and there were none for a while.
/// zzstoatzz/plyr.fm#1739: a host delivered everything but our collections for ten hours, and the client looked healthy.
#[tokio::test]
async fn a_quiet_stream_stays_healthy_and_one_without_our_records_grows_old() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    let fresh = stage.metric(FRESH, &[("collection", "io.atcr.tag")]);
    assert!((ids::now_us() as f64 / 1e6 - fresh).abs() < 120.0, "{fresh}");

    // Quiet for several idle limits: said to be stale, and kept.
    stage.counts("atcr_stream_stale", &[], 1.0).await;
    tokio::time::sleep(2 * IDLE_LIMIT).await;
    assert_eq!(stage.net.jetstream(0).stats().connects, 1);
    assert_eq!(stage.failure(), None);

    // Others' events end that; ours are withheld, and their metric stands still.
    stage.net.jetstream(0).withhold_commits(true);
    let host = stage.key(0);
    eventually("the host is no longer stale", SOON, async || {
        stage.net.account_event(&ids::did_plc(3, "stranger"), true, None);
        stage.net.put(&seeded.users[0], "io.atcr.tag", "lost_v1", serde_json::json!({}));
        let stale = stage.metric("atcr_stream_stale", &[("host", &host)]);
        let dropped = stage.metric(DROPPED, &[("reason", "unknown_account")]);
        if stale == 0.0 && dropped > 0.0 { Ok(()) } else { Err((stale, dropped)) }
    })
    .await;
    assert_eq!(stage.metric(FRESH, &[("collection", "io.atcr.tag")]), fresh);
    stage.stop().await;
}

/// The content once all that was published and all identities are in it.
async fn settled(network: &Network) -> index::Rows {
    eventually("the index is the in-order fold of the events", SOON, async || {
        as_folded(&network.net, &network.rows, &[]).await
    })
    .await
}
