//! What the registry's events leave in the tables, told from the lines alone.

use std::collections::{BTreeMap, HashMap, HashSet};

use localnet::{ids, records};
use serde_json::Value;

/// The hold that all made-up records are in.
const HOLD: &str = "did:web:hold01.test";

/// The hold's own record, without which its counts do not count.
pub(crate) fn captain(time_us: i64) -> Vec<u8> {
    let (record, collection) = (records::captain(HOLD, time_us), records::CAPTAIN);
    let rev = ids::tid(time_us, 5);
    format!(
        r#"{{"did":"{HOLD}","time_us":{time_us},"kind":"commit","commit":{{"rev":"{rev}","operation":"create","collection":"{collection}","rkey":"self","record":{record}}}}}"#
    )
    .into_bytes()
}

/// DID, collection, rkey.
type Key = (String, String, String);

/// The registry's records as the lines leave them, kept without any code of the product.
#[derive(Default)]
pub(crate) struct Truth {
    /// None: deleted.
    records: HashMap<Key, Option<Value>>,
}

impl Truth {
    /// Takes a line, in the order of sending.
    pub(crate) fn note(&mut self, line: &[u8]) {
        if !line.windows(9).any(|part| part == b"\"io.atcr.") {
            return;
        }
        let mut event: Value = serde_json::from_slice(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let commit = &event["commit"];
        let key = (text(&event["did"]), text(&commit["collection"]), text(&commit["rkey"]));
        let record = event["commit"].get_mut("record").map(Value::take);
        self.records.insert(key, record);
    }

    /// How many rows each table must have then.
    pub(crate) fn rows(&self) -> BTreeMap<String, usize> {
        let of = |collection: &'static str| {
            self.records.iter().filter_map(move |((did, its, _), record)| {
                if its == collection { record.as_ref().map(|record| (did, record)) } else { None }
            })
        };
        let parts = |name: &str| -> usize {
            let count = |record: &Value| match &record[name] {
                Value::Array(list) => list.len(),
                Value::Object(map) => map.len(),
                _ => 0,
            };
            of(records::MANIFEST).map(|(_, record)| count(record)).sum()
        };
        let repository =
            |did: &str, record: &Value| (did.to_owned(), record["repository"].as_str().map(str::to_owned));
        let hosted: HashSet<_> = of(records::MANIFEST).map(|(did, record)| repository(did, record)).collect();
        let counted = of(records::STATS)
            .filter(|(_, record)| hosted.contains(&repository(record["ownerDid"].as_str().unwrap(), record)));
        let users: HashSet<_> = self.records.keys().map(|(did, ..)| did).collect();
        let rows = [
            ("users", users.len()),
            ("records", self.records.len()),
            ("manifests", of(records::MANIFEST).count()),
            ("layers", parts("layers")),
            ("manifest_annotations", parts("annotations")),
            ("tags", of(records::TAG).count()),
            ("stars", of(records::STAR).count()),
            ("repo_pages", of(records::PAGE).count()),
            ("captains", of(records::CAPTAIN).count()),
            ("scans", of(records::SCAN).count()),
            ("hold_repository_stats", of(records::STATS).count()),
            ("repository_stats", counted.count()),
        ];
        rows.into_iter().map(|(table, count)| (table.to_owned(), count)).collect()
    }

    /// The records that were ever seen, each with whether it is there.
    pub(crate) fn records(&self) -> Vec<String> {
        let line = |((did, collection, rkey), record): (&Key, &Option<Value>)| {
            let state = if record.is_some() { "present" } else { "absent" };
            format!("{did} {collection} {rkey} {state}")
        };
        let mut lines: Vec<_> = self.records.iter().map(line).collect();
        lines.sort();
        lines
    }
}
