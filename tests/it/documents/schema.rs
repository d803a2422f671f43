//! `migrations/README.md`: every table is classified, every column is there, every query runs, on both databases.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::shown::{document, spans};
use crate::style::none;
use crate::support::place::{Kind, Place, on_both_databases};
use crate::support::stage::{Stage, until_in};

on_both_databases!(
    every_table_is_classified_and_every_column_is_there,
    every_query_that_is_shown_finds_something,
);

const PAGE: &str = "migrations/README.md";

type Columns = BTreeMap<String, BTreeSet<String>>;

/// The stable ones with all their columns, and the names of the others.
fn classified() -> (Columns, BTreeSet<String>) {
    let (mut stable, mut ours) = (Columns::new(), BTreeSet::new());
    for (heading, cells) in document(PAGE).rows() {
        let names = cells.first().map(|cell| spans(cell)).unwrap_or_default();
        if heading == "What is stable" && !names.is_empty() {
            let columns = cells[1..3].iter().flat_map(|cell| spans(cell)).collect();
            stable.insert(names[0].clone(), columns);
        } else if heading == "What is ours" {
            ours.extend(names);
        }
    }
    (stable, ours)
}

async fn actual(place: &Place) -> Columns {
    let lines = place.lines(match place.kind() {
        Kind::Sqlite => {
            "SELECT m.name || ' ' || p.name AS line FROM sqlite_master m, pragma_table_info(m.name) p
             WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite%'"
        }
        Kind::Postgres => {
            "SELECT table_name || ' ' || column_name AS line FROM information_schema.columns
             WHERE table_schema = current_schema()"
        }
    });
    let mut columns = Columns::new();
    for line in lines.await {
        let (table, column) = line.split_once(' ').unwrap();
        columns.entry(table.to_owned()).or_default().insert(column.to_owned());
    }
    columns
}

async fn every_table_is_classified_and_every_column_is_there(kind: Kind) {
    let stage = Stage::new(kind).await;
    let (stable, ours) = classified();
    let actual = actual(&stage.place).await;
    assert!(actual.len() > 30 && stable.len() > 15, "{actual:?}");
    let named = |table: &&String| stable.contains_key(*table) || ours.contains(*table);
    none(actual.keys().filter(|table| !named(table)).cloned(), "tables that the page does not classify");
    let gone = stable.keys().chain(&ours).filter(|table| !actual.contains_key(*table));
    none(gone.cloned(), "tables that only the page has");
    let differ = stable.iter().filter(|(table, columns)| actual[*table] != **columns);
    none(
        differ.map(|(table, columns)| {
            let different: Vec<_> = actual[table].symmetric_difference(columns).collect();
            format!("{table}: {different:?}")
        }),
        "columns that only the table or only the page has",
    );
    let both = stable.keys().filter(|table| ours.contains(*table));
    none(both.cloned(), "tables that are stable and ours");
}

async fn every_query_that_is_shown_finds_something(kind: Kind) {
    let stage = Stage::new(kind).await;
    let instance = stage.start("indexing");
    until_in(&instance, "running");
    stage.caught_up().await;
    let image = "SELECT m.did || ' ' || m.repository AS line FROM manifests m
        JOIN layers l ON l.did = m.did AND l.rkey = m.rkey JOIN tags t ON t.did = m.did AND t.repository = m.repository";
    let image = stage.place.lines(image).await.swap_remove(0);
    let (did, repository) = image.split_once(' ').unwrap();
    fill(&stage, did).await;
    let blocks = document(PAGE).blocks().into_iter().filter(|block| block.language == "sql");
    let queries: Vec<String> = blocks.map(|block| block.text).collect();
    assert!(queries.len() > 5, "{queries:?}");
    for query in queries {
        let query = query
            .replace("did:plc:ewvi7nxzyoun6zhxrhs64oiz", did)
            .replace("'app'", &format!("'{repository}'"));
        let rows = format!(
            "SELECT CAST(COUNT(*) AS TEXT) AS line FROM ({}) q",
            query.trim_end().trim_end_matches(';')
        );
        assert_ne!(stage.place.lines(&rows).await, ["0"], "{query}");
    }
}

/// What the stream of the network in small does not bring: a takedown (of nothing that is shown), a webhook with a delivery,
/// and a scan by a hold that hosts what it scans.
async fn fill(stage: &Stage, did: &str) {
    let hosted =
        "SELECT m.did || ' ' || m.repository || ' ' || m.digest || ' ' || m.hold_did AS line FROM manifests m
        JOIN captains c ON c.hold_did = m.hold_did";
    let hosted = stage.place.lines(hosted).await.swap_remove(0);
    let [owner, repository, digest, hold] = hosted.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{hosted}")
    };
    let rows = format!(
        "INSERT INTO labeler_cursor (src, in_effect, verify, saved_at) VALUES ('did:plc:labeler', TRUE, TRUE, 1);
         INSERT INTO labels (src, uri, val, neg, cts, verified, subject, did, name, changed_at)
             VALUES ('did:plc:labeler', 'at://did:plc:gone/io.atcr.tag/x', '!takedown', FALSE, 1, TRUE, 'tag', 'did:plc:gone', 'x', 1);
         INSERT INTO scans (hold_did, rkey, manifest_digest, repository, owner_did, critical, high, medium, low, total,
                 scanner_version, scanned_at)
             VALUES ('{hold}', 'documents', '{digest}', '{repository}', '{owner}', 0, 0, 1, 2, 3, '1', 1);
         INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at)
             VALUES (1, '{did}', 'https://ci.example/hook', 8, 1, 1);
         INSERT INTO webhook_deliveries (id, webhook_id, trigger, dedupe_key, repository, digest, tag, event, status, created_at,
                 asked_at) VALUES ('whd_x', 1, 'push', 'x', 'app', 'sha256:0', '', '{{}}', 'delivered', 1, 1)"
    );
    stage.place.execute(&rows).await;
}
