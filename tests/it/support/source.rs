//! What the network in small holds, as the rows that the index must have for it.

use std::collections::BTreeMap;

use localnet::{Net, records};

use super::{
    index::Rows,
    truth::{self, Identity, Said},
};

/// Address of a record: DID, collection, record key.
type Address = (String, String, String);

/// The rows that follow from everything that was ever published, and from who the authors are.
pub(crate) fn rows(net: &Net) -> Rows {
    let mut said: BTreeMap<Address, Said> = BTreeMap::new();
    for commit in net.jetstream(0).published_commits() {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let (did, body) = (text(&commit["did"]), &commit["commit"]);
        let address = (did, text(&body["collection"]), text(&body["rkey"]));
        said.insert(address.clone(), of(address, None));
    }
    for collection in records::COLLECTIONS {
        for ((did, rkey), record) in net.records(collection) {
            let address = (did, collection.to_owned(), rkey);
            said.insert(address.clone(), of(address, Some(record)));
        }
    }
    let identity = |did: String| {
        let account = net.account(&did).unwrap();
        let pds = account.pds.map_or_else(|| format!("http://{}", account.handle), |pds| net.pds_url_of(pds));
        (did, Identity::active(&account.handle, &pds))
    };
    truth::rows(&said.into_values().collect::<Vec<_>>(), &net.dids().into_iter().map(identity).collect())
}

fn of((did, collection, rkey): Address, record: Option<localnet::network::Record>) -> Said {
    let (cid, value) = record.map(|record| (record.cid, record.value)).unzip();
    Said { did, collection, rkey, cid, value }
}
