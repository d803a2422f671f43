//! The rows that a set of records must give: a second reading of what the registry's records mean, written from the
//! lexicons and sharing no code with the product, so that the two can disagree.
//!
//! It is strict where the product forgives (an optional field that is out of bounds), so keep such records out, or make
//! the rule one of both. `truth/read.rs` has what each record says; here is what they say together.

mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::index::{self, Rows, row};

/// What a repository says about one of its records.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) did: String,
    pub(crate) collection: String,
    pub(crate) rkey: String,
    /// None for a record that was deleted.
    pub(crate) cid: Option<String>,
    /// None for a record that was deleted.
    pub(crate) value: Option<Value>,
}

/// Who an author is. One that is not told of has no handle, no PDS, and is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) handle: String,
    pub(crate) pds: Option<String>,
    pub(crate) active: bool,
    pub(crate) status: Option<String>,
}

impl Identity {
    /// An account with a verified handle on this PDS.
    pub(crate) fn active(handle: &str, pds: &str) -> Identity {
        Identity { handle: handle.to_owned(), pds: Some(pds.to_owned()), active: true, status: None }
    }
}

/// Columns by name.
type Row = BTreeMap<String, Value>;

/// The rows of [`index::CONTENT`] that follow from these records (each address at most once) and identities by DID.
pub(crate) fn rows(said: &[Said], identities: &BTreeMap<String, Identity>) -> Rows {
    let mut tables: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for record in said {
        let address = fields(json!({
            "did": record.did, "collection": record.collection, "rkey": record.rkey, "cid": record.cid,
        }));
        let Some(value) = &record.value else {
            tables.entry("tombstones").or_default().push(address);
            continue;
        };
        let read = read::read(&record.did, &record.collection, &record.rkey, value);
        let state = if read.is_some() { "present" } else { "unreadable" };
        tables.entry("records").or_default().push(with(address, json!({ "state": state })));
        for (table, columns) in read.unwrap_or_default() {
            tables.entry(table).or_default().push(fields(columns));
        }
    }
    let authors: BTreeSet<&str> = said.iter().map(|record| record.did.as_str()).collect();
    tables.insert("users", authors.into_iter().map(|did| user(did, identities.get(did))).collect());
    tables.insert("repository_annotations", repository_annotations(&tables));
    tables.insert("repository_stats", repository_stats(&tables));

    let mut rows: Rows = index::CONTENT.iter().map(|part| (part.name.to_owned(), BTreeSet::new())).collect();
    for (table, found) in tables {
        rows.get_mut(table).expect("a table of the index").extend(found.into_iter().map(row));
    }
    rows
}

/// Err: what is missing and what is superfluous, table by table.
pub(crate) fn compare(found: &Rows, wanted: &Rows) -> Result<(), Difference> {
    let tables: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let none = BTreeSet::new();
    let mut text = String::new();
    for table in tables {
        let (found, wanted) = (found.get(table).unwrap_or(&none), wanted.get(table).unwrap_or(&none));
        let lines = |what: &str, rows: &mut dyn Iterator<Item = &String>| {
            rows.map(|row| format!("    {what} {row}\n")).collect::<String>()
        };
        let lines = lines("missing    ", &mut wanted.difference(found))
            + &lines("superfluous", &mut found.difference(wanted));
        if !lines.is_empty() {
            text += &format!("{table}: {} rows, should be {}\n{lines}", found.len(), wanted.len());
        }
    }
    if text.is_empty() { Ok(()) } else { Err(Difference(text)) }
}

/// What [`compare`] found, printed for people.
pub(crate) struct Difference(pub(crate) String);

impl std::fmt::Debug for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the index is not what the records say\n{}", self.0)
    }
}

fn user(did: &str, identity: Option<&Identity>) -> Row {
    let unknown = Identity { handle: "handle.invalid".to_owned(), pds: None, active: true, status: None };
    let Identity { handle, pds, active, status } = identity.unwrap_or(&unknown);
    fields(json!({ "did": did, "handle": handle, "pds": pds, "active": active, "status": status }))
}

/// A repository has the annotations of its most recent manifest that has any.
fn repository_annotations(tables: &BTreeMap<&str, Vec<Row>>) -> Vec<Row> {
    let annotations = table(tables, "manifest_annotations");
    let of = |manifest: &Row| -> Vec<&Row> {
        let is_of = |annotation: &&Row| equal(annotation, manifest, &["did", "rkey"]);
        annotations.iter().filter(is_of).collect()
    };
    let mut newest: BTreeMap<[String; 2], &Row> = BTreeMap::new();
    for manifest in table(tables, "manifests").iter().filter(|manifest| !of(manifest).is_empty()) {
        let age = |manifest: &Row| {
            let text = |column: &str| text(manifest, column);
            (manifest["created_at"].as_i64().unwrap(), text("digest"), text("rkey"))
        };
        let kept =
            newest.entry(["did", "repository"].map(|column| text(manifest, column))).or_insert(manifest);
        if age(kept) < age(manifest) {
            *kept = manifest;
        }
    }
    let described = |manifest: &Row, annotation: &Row| {
        fields(json!({
            "did": manifest["did"], "repository": manifest["repository"], "updated_at": manifest["created_at"],
            "key": annotation["key"], "value": annotation["value"],
        }))
    };
    newest.values().flat_map(|m| of(m).into_iter().map(|annotation| described(m, annotation))).collect()
}

/// The sums over the counts of known holds (they have a captain) that host the repository (a manifest names them).
fn repository_stats(tables: &BTreeMap<&str, Vec<Row>>) -> Vec<Row> {
    let mut sums: BTreeMap<[String; 2], Vec<&Row>> = BTreeMap::new();
    for count in table(tables, "hold_repository_stats") {
        let known = table(tables, "captains").iter().any(|captain| captain["hold_did"] == count["hold_did"]);
        let hosts = table(tables, "manifests").iter().any(|manifest| {
            manifest["did"] == count["owner_did"] && equal(manifest, count, &["repository", "hold_did"])
        });
        if known && hosts {
            sums.entry(["owner_did", "repository"].map(|column| text(count, column)))
                .or_default()
                .push(count);
        }
    }
    let sum = |([did, repository], counts): ([String; 2], Vec<&Row>)| {
        let numbers = |column: &'static str| counts.iter().filter_map(move |count| count[column].as_i64());
        fields(json!({
            "did": did, "repository": repository,
            "pull_count": numbers("pull_count").sum::<i64>(), "push_count": numbers("push_count").sum::<i64>(),
            "last_pull": numbers("last_pull").max(), "last_push": numbers("last_push").max(),
            "updated_at": numbers("updated_at").max(),
        }))
    };
    sums.into_iter().map(sum).collect()
}

fn table<'a>(tables: &'a BTreeMap<&str, Vec<Row>>, name: &str) -> &'a [Row] {
    tables.get(name).map_or(&[], Vec::as_slice)
}

fn equal(one: &Row, other: &Row, columns: &[&str]) -> bool {
    columns.iter().all(|column| one[*column] == other[*column])
}

fn text(row: &Row, column: &str) -> String {
    row[column].as_str().unwrap().to_owned()
}

fn fields(value: Value) -> Row {
    let Value::Object(fields) = value else { panic!("no row: {value}") };
    fields.into_iter().collect()
}

fn with(mut row: Row, more: Value) -> Row {
    row.extend(fields(more));
    row
}
