//! rocketman, which the registry reads its stream with today, follows localnet's first wire: what it ingests is what the
//! repositories hold, over a cut connection too.
#![cfg(test)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use localnet::{
    Net, NetOptions, records,
    seed::{Size, seed},
    until,
};
use rocketman::{
    connection::JetstreamConnection,
    endpoints::JetstreamEndpoints,
    handler::{Ingestors, handle_message},
    ingestion::LexiconIngestor,
    options::JetstreamOptions,
    types::event::{Event, Kind, Operation},
};
use serde_json::{Value, json};

/// rocketman waits for a second before it connects again, and longer each time.
const SOON: Duration = Duration::from_secs(30);

/// Records by author, collection and key.
type Records = BTreeMap<(String, String, String), Value>;

/// What was ingested.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    records: Records,
    others: Vec<(Kind, String)>,
    errors: Vec<String>,
}

#[async_trait]
impl LexiconIngestor for Heard {
    async fn ingest(&self, event: Event<Value>) -> anyhow::Result<()> {
        let mut told = self.0.lock().unwrap();
        let Some(commit) = event.commit else {
            told.others.push((event.kind, event.did));
            return Ok(());
        };
        let address = (event.did, commit.collection, commit.rkey);
        match commit.operation {
            Operation::Delete => told.records.remove(&address),
            _ => told.records.insert(address, commit.record.unwrap()),
        };
        Ok(())
    }
}

impl Heard {
    fn ingestor(&self) -> Box<dyn LexiconIngestor + Send + Sync> {
        Box::new(self.clone())
    }

    async fn becomes(&self, what: &str, net: &Net) {
        let same = until(SOON, || self.0.lock().unwrap().records == held(net)).await;
        let told = self.0.lock().unwrap();
        assert!(same, "{what}: {} of {} records, {:?}", told.records.len(), held(net).len(), told.errors);
    }
}

/// What the repositories hold.
fn held(net: &Net) -> Records {
    let of = |collection: &&'static str| {
        let collection = collection.to_string();
        let records = net.records(&collection).into_iter();
        records.map(move |((did, rkey), record)| ((did, collection.clone(), rkey), record.value))
    };
    records::COLLECTIONS.iter().flat_map(of).collect()
}

/// Follows the stream in tasks that end with the test.
fn follow(net: &Net) -> Heard {
    let heard = Heard::default();
    let mut ingestors = Ingestors::new();
    let collections: Vec<String> = records::COLLECTIONS.iter().map(ToString::to_string).collect();
    for collection in &collections {
        ingestors.commits.insert(collection.clone(), heard.ingestor());
    }
    (ingestors.identity, ingestors.account) = (Some(heard.ingestor()), Some(heard.ingestor()));
    let options = JetstreamOptions::builder()
        .ws_url(JetstreamEndpoints::Custom(net.jetstream(0).url()))
        .wanted_collections(collections)
        .build();
    let connection = JetstreamConnection::new(options);
    let (messages, reconnect) = (connection.get_msg_rx(), connection.get_reconnect_tx());
    // Older than anything: from the oldest that there is.
    let cursor = Arc::new(Mutex::new(Some(1)));
    let (known, errors) = (cursor.clone(), heard.clone());
    tokio::spawn(async move {
        while let Ok(message) = messages.recv().await {
            if let Err(error) = handle_message(message, &ingestors, reconnect.clone(), known.clone()).await {
                errors.0.lock().unwrap().errors.push(error.to_string());
            }
        }
    });
    tokio::spawn(async move {
        let _ = connection.connect(cursor).await;
    });
    heard
}

#[tokio::test]
async fn rocketman_ingests_what_the_repositories_hold() {
    let net = Net::start(NetOptions::default()).await.unwrap();
    let seeded = seed(&net, Size::default(), 1);
    let (user, server) = (seeded.users[0].as_str(), net.jetstream(0));
    let heard = follow(&net);
    heard.becomes("the replay", &net).await;

    let tag = |number: i32| json!({ "repository": "web", "tag": "live", "number": number });
    for number in 0..3 {
        net.put(user, records::TAG, "live", tag(number));
        net.put(user, records::TAG, &format!("live{number}"), tag(number));
    }
    net.delete(user, records::TAG, "live1");
    net.identity_event(user);
    net.set_account(user, false, Some("deactivated"));
    net.set_account(user, true, None);
    heard.becomes("live events", &net).await;
    let others = || {
        let told = heard.0.lock().unwrap();
        let of = |kind: &Kind| told.others.iter().filter(|(k, did)| k == kind && did == user).count();
        (of(&Kind::Identity), of(&Kind::Account))
    };
    assert!(until(SOON, || others().0 >= 1 && others().1 >= 2).await, "{:?}", others());

    let before = server.stats().handshakes;
    server.cut();
    net.put(user, records::TAG, "gap", tag(9));
    net.delete(user, records::TAG, "live2");
    assert!(until(SOON, || server.stats().handshakes > before).await, "it connects again");
    heard.becomes("a cut connection", &net).await;
    assert_eq!(heard.0.lock().unwrap().errors, Vec::<String>::new());
}
