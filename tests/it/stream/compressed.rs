//! Compressed streams: whatever is wrong with a dictionary, no event is lost over it.

use std::{fs, sync::Arc, time::Duration};

use atcr_workers::ingest::connect::Dictionary;
use localnet::{
    jetstream::{Compressed, Raw, V1_DICTIONARY, V2_DICTIONARY, dictionary},
    seed::{Size, seed},
    traffic::Traffic,
};

use super::{
    processes,
    rows::On,
    second_wire::followed,
    stage::{CONNECTS, DISCONNECTS, SOON, Stage},
};
use crate::support::{eventually::eventually, process::Exit};

const UNDECODABLE: &str = "atcr_stream_undecodable_total";

fn last_query(stage: &Stage) -> String {
    stage.net.jetstream(0).stats().queries.pop().unwrap()
}

#[tokio::test]
async fn the_dictionary_of_the_second_wire_is_fetched_once_and_again_when_it_was_replaced() {
    let (mut stage, mut traffic) = followed(On::Sqlite).await;
    let jetstream = stage.net.jetstream(0);
    assert!(
        last_query(&stage).ends_with(&format!("zstdDictionary={V2_DICTIONARY}")),
        "{}",
        last_query(&stage)
    );
    jetstream.cut();
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    assert_eq!(jetstream.stats().dictionaries, 1, "kept by its number");

    jetstream.set_dictionary(7);
    jetstream.cut();
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    assert!(last_query(&stage).ends_with("zstdDictionary=7"), "{}", last_query(&stage));
    assert_eq!(jetstream.stats().dictionaries, 2);
    assert_eq!(stage.metric(CONNECTS, &[("outcome", "status_4xx")]), 1.0);
    assert_eq!(stage.metric(UNDECODABLE, &[]), 0.0);
    stage.stop().await;
}

#[tokio::test]
async fn a_message_that_names_another_dictionary_is_read_with_that_one() {
    let (mut stage, mut traffic) = followed(On::Sqlite).await;
    let jetstream = stage.net.jetstream(0);
    jetstream.set_dictionary(9);
    jetstream.set_compressed(Compressed::With(9));
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    stage.saves_the_newest_number().await;
    assert_eq!(stage.metric(UNDECODABLE, &[("reason", "other_dictionary")]), 1.0);
    assert!(last_query(&stage).ends_with("zstdDictionary=9"), "{}", last_query(&stage));
    assert_eq!(jetstream.stats().dictionaries, 2);
    stage.stop().await;
}

#[tokio::test]
async fn messages_that_nobody_can_read_are_counted_and_asked_for_without_compression() {
    for on in [On::Sqlite, On::Postgres] {
        let (mut stage, mut traffic) = followed(on).await;
        stage.net.jetstream(0).set_compressed(Compressed::Broken);
        (0..20).for_each(|_| traffic.step(&stage.net));
        stage.becomes_the_fold().await;
        stage.saves_the_newest_number().await;
        assert_eq!(stage.metric(UNDECODABLE, &[("reason", "broken")]), 3.0);
        assert!(!last_query(&stage).contains("zstd"), "{}", last_query(&stage));
        stage.stop().await;
    }
}

#[tokio::test]
async fn the_first_wire_is_compressed_with_the_dictionary_of_the_settings() {
    let mut stage = Stage::on(On::Sqlite).await;
    let ours = Dictionary::read(&dictionary(V1_DICTIONARY)).unwrap();
    stage.follow.compression.dictionary = Some(Arc::new(ours));
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    assert!(last_query(&stage).contains("compress=true"), "{}", last_query(&stage));
    stage.net.jetstream(0).set_compressed(Compressed::With(5));
    let mut traffic = Traffic::new(&seeded, 1, 0.2);
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    assert_eq!(stage.metric(UNDECODABLE, &[("reason", "other_dictionary")]), 3.0);
    assert!(!last_query(&stage).contains("compress"), "{}", last_query(&stage));
    stage.stop().await;
}

// S5: bluesky-social/jetstream-legacy#36
#[tokio::test]
async fn a_compressed_message_without_a_dictionary_is_no_silent_skip() {
    let mut stage = Stage::on(On::Sqlite).await;
    stage.start_and_subscribe().await;
    let seeded = seed(&stage.net, Size::default(), 1);
    stage.becomes_the_fold().await;
    stage.saves_the_newest_position().await;
    stage.net.jetstream(0).send_raw(Raw::Binary(vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0]));
    stage.counts(UNDECODABLE, &[("reason", "not_asked_for")], 1.0).await;
    stage.counts(DISCONNECTS, &[("reason", "undecodable")], 1.0).await;
    let mut traffic = Traffic::new(&seeded, 1, 0.2);
    (0..20).for_each(|_| traffic.step(&stage.net));
    stage.becomes_the_fold().await;
    stage.stop().await;
}

// S5: bluesky-social/jetstream-legacy#36
#[tokio::test]
async fn a_file_that_is_no_dictionary_is_told_at_the_start() {
    let network = processes::Network::start(On::Sqlite).await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("text"), "no dictionary").unwrap();
    fs::write(path("short"), &dictionary(5)[..60]).unwrap();
    let wrong = [("missing", "No such file"), ("text", "not a zstd dictionary"), ("short", "broken zstd")];
    for (name, reason) in wrong {
        let mut instance = network.instance(&[("ATCR__JETSTREAM__ZSTD_DICTIONARY", &path(name))]);
        assert_eq!(instance.wait_exit(Duration::from_secs(60)), Exit::Code(78), "{name}");
        let lines = instance.lines().join("\n");
        for expected in ["jetstream.zstd_dictionary", name, reason] {
            assert!(lines.contains(expected), "no {expected:?} in\n{lines}");
        }
    }
    fs::write(path("good"), dictionary(V1_DICTIONARY)).unwrap();
    let good = path("good");
    let instance = network.instance(&[("ATCR__JETSTREAM__ZSTD_DICTIONARY", &good)]);
    let jetstream = network.net.jetstream(0);
    eventually("a compressed stream is asked for", SOON, async || {
        let queries = jetstream.stats().queries;
        if queries.iter().any(|query| query.contains("compress=true")) { Ok(()) } else { Err(queries) }
    })
    .await;
    drop(instance);
}
