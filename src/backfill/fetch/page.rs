//! One page of a listing, from bytes to changes. Pure.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::atproto::xrpc::{self, XrpcError};
use crate::atproto::{AtUri, Change, Collection, Did, Rev, State, change, records};
use crate::backfill::pages::Walk;

/// A record stays raw text until its collection's own reader takes it: no depth of nesting can do harm here.
#[derive(Deserialize)]
struct ListRecords<'a> {
    #[serde(borrow)]
    records: Vec<Entry<'a>>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    uri: String,
    cid: Option<String>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Whose page it is.
pub(super) struct Place<'a> {
    pub(super) did: &'a Did,
    pub(super) collection: Collection,
    pub(super) rev: Rev,
}

/// Adds the records of the page that are new to the walk, and returns its cursor.
///
/// What lies elsewhere than in this collection of this repository is left out: a PDS speaks for its own accounts only. So
/// is what has no address: nothing in the index can be meant by it.
pub(super) fn read(
    of: &Place<'_>,
    (pds, body): (&str, &[u8]),
    walk: &mut Walk,
    into: &mut Vec<Change>,
) -> Result<Option<String>, XrpcError> {
    let page: ListRecords<'_> = xrpc::read(pds, body)?;
    for entry in page.records {
        let is_new = walk.note(&entry.uri);
        let Ok(AtUri { did, collection, rkey }) = AtUri::parse(&entry.uri) else { continue };
        if !is_new || did != *of.did || collection.as_str() != of.collection.nsid() {
            continue;
        }
        let state = records::read(of.collection, &rkey, entry.value.get())
            .map_or(State::Unreadable, |record| State::Present(Box::new(record)));
        let cid = entry.cid.as_deref().and_then(change::cid);
        into.push(Change { did, collection: of.collection, rkey, rev: of.rev, cid, state });
    }
    Ok(page.cursor)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::backfill::pages::Bounds;

    fn page(body: &str) -> Result<(Vec<Change>, Option<String>), XrpcError> {
        let did = Did::parse("did:plc:alice").unwrap();
        let rev = Rev::parse("3mptbypluud2a").unwrap();
        let of = Place { did: &did, collection: Collection::Tag, rev };
        let mut walk = Walk::new(Bounds { full_from: 50, pages_max: 9, entries_max: 99 }, None);
        let mut changes = Vec::new();
        let cursor = read(&of, ("https://pds.example", body.as_bytes()), &mut walk, &mut changes)?;
        Ok((changes, cursor))
    }

    fn entry(uri: &str, value: &Value) -> Value {
        json!({ "uri": uri, "cid": "bafyreialice", "value": value })
    }

    fn tag() -> Value {
        let manifest = format!("at://did:plc:alice/io.atcr.manifest/{}", "a".repeat(64));
        json!({ "$type": "io.atcr.tag", "repository": "hello", "tag": "latest", "manifest": manifest })
    }

    #[test]
    fn a_record_counts_only_in_the_place_that_was_asked_for() {
        let ours = "at://did:plc:alice/io.atcr.tag/hello_latest";
        let entries = [
            entry(ours, &tag()),
            entry(ours, &tag()),
            entry("at://did:plc:bob/io.atcr.tag/hello_latest", &tag()),
            entry("at://did:plc:alice/io.atcr.manifest/hello_latest", &tag()),
            entry("at://alice.test/io.atcr.tag/hello_latest", &tag()),
            entry("hello_latest", &tag()),
        ];
        let (changes, cursor) = page(&json!({ "records": entries, "cursor": "c" }).to_string()).unwrap();
        assert_eq!(cursor.as_deref(), Some("c"));
        let [change] = &*changes else { panic!("{changes:?}") };
        assert_eq!(change.rkey.as_str(), "hello_latest");
        assert_eq!((change.rev.as_str(), change.cid.as_deref()), ("3mptbypluud2a", Some("bafyreialice")));
        assert!(matches!(change.state, State::Present(_)));
    }

    #[test]
    fn a_record_that_breaks_its_lexicon_is_told_as_unreadable() {
        for value in [json!({}), json!(5), json!({ "$type": "io.atcr.manifest" })] {
            let body = json!({ "records": [entry("at://did:plc:alice/io.atcr.tag/x", &value)] });
            let (changes, _) = page(&body.to_string()).unwrap();
            assert_eq!(changes[0].state, State::Unreadable, "{value}");
        }
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let body = format!(
            r#"{{"records":[{{"uri":"at://did:plc:alice/io.atcr.tag/x","value":{deep}}}],"x":{deep}}}"#
        );
        assert_eq!(page(&body).unwrap().0[0].state, State::Unreadable);
    }

    #[test]
    fn what_is_no_page_is_an_error_and_never_an_empty_listing() {
        for body in
            ["", "<html>", "{}", "[]", r#"{"records":null}"#, r#"{"records":[{}]}"#, r#"{"error":"x"}"#]
        {
            assert!(matches!(page(body), Err(XrpcError::NotXrpc { .. })), "{body}");
        }
    }
}
