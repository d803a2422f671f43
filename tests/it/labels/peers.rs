//! Against the real labelers, @skyware/labeler and Ozone: whatever happens on the way, what is hidden is what the labeler's own
//! list says.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    eventually::eventually,
    http,
    peers::{Peers, Seed},
    place::{Kind, Place, on_both_databases},
    postgres::Postgres,
    process::{Exit, Instance},
    stage::{SETTINGS, until_ready},
};

const TAKEDOWN: &str = "!takedown";

/// From a label to the database, over a restart of either side, on a loaded machine.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

on_both_databases!(what_is_hidden_is_what_skyware_says, what_is_hidden_is_what_ozone_says);

async fn what_is_hidden_is_what_skyware_says(kind: Kind) {
    follows(kind, "labeler").await;
}

async fn what_is_hidden_is_what_ozone_says(kind: Kind) {
    follows(kind, "ozone").await;
}

struct World {
    peers: Peers,
    place: Place,
    name: &'static str,
    instances: Vec<Instance>,
}

// S35: bluesky-social/atproto#2552
async fn follows(kind: Kind, name: &'static str) {
    let of_labeler = Postgres::shared().fresh_database().await;
    let Some(peers) = Peers::start_with(Seed::Nothing, &of_labeler) else { return };
    peers.start_again(name);
    let mut world = World { peers, place: Place::fresh(kind).await, name, instances: Vec::new() };
    // Said before anybody listens.
    world.say(0..6, false);
    world.start_instance();
    world.is_settled("what was said before").await;
    world.say(4..9, false);
    world.say(0..2, true);
    world.is_settled("labels and negations").await;
    world.say(0..1, false);
    world.is_settled("a label that is said again").await;

    world.start_instance();
    until_ready(&world.instances[1]);
    world.say(9..12, false);
    world.kill_first(Signal::KILL);
    world.say(2..4, true);
    world.is_settled("a crash").await;
    world.start_instance();
    until_ready(&world.instances[1]);
    world.say(12..15, false);
    world.kill_first(Signal::TERM);
    world.say(5..7, true);
    world.is_settled("a take-over").await;

    // The labeler restarts, and says more after it.
    world.peers.stop(name);
    world.peers.start_again(name);
    world.say(15..18, false);
    world.is_settled("a restart of the labeler").await;

    // S37: the directory has the new key, and the labeler signs with it after its restart.
    world.peers.tell_labeler(name, "rotate", &json!({}));
    world.peers.stop(name);
    world.peers.start_again(name);
    world.say(18..21, false);
    world.say(7..8, true);
    world.is_settled("another key").await;
    assert!(world.hidden().await.len() > 10);
}

impl World {
    /// Says that users are taken down, or takes it back.
    fn say(&self, users: std::ops::Range<u32>, neg: bool) {
        for user in users {
            // Every third on an account, on a manifest, on a tag.
            let uri = match user % 3 {
                0 => format!("did:plc:user{user:024}"),
                1 => format!("at://did:plc:user{user:024}/io.atcr.manifest/{user:064x}"),
                _ => format!("at://did:plc:user{user:024}/io.atcr.tag/app_v{user}"),
            };
            self.peers.tell_labeler(self.name, "label", &json!({ "uri": uri, "val": TAKEDOWN, "neg": neg }));
        }
    }

    fn start_instance(&mut self) {
        let plc = self.peers.plc_url();
        let did = self.peers.labeler_did(self.name);
        self.instances.push(Instance::spawn(
            &["--settings", SETTINGS, "run"],
            &[
                ("ATCR__DATABASE__URL", self.place.url()),
                ("ATCR__IDENTITY__PLC_URL", &plc),
                ("ATCR__LABELER__DID", &did),
                ("ATCR__NETWORK__TIMEOUT", "10s"),
            ],
        ));
    }

    fn kill_first(&mut self, signal: Signal) {
        let mut first = self.instances.remove(0);
        first.signal(signal);
        let expected = if signal == Signal::TERM { Exit::Code(0) } else { Exit::Signal(9) };
        assert_eq!(first.wait_exit(Duration::from_secs(60)), expected);
    }

    /// Waits until what is hidden is what the labeler's list says.
    async fn is_settled(&self, after: &str) {
        let said = self.said();
        eventually(
            &format!("what is hidden is what {} says, after {after}", self.name),
            SETTLED_WITHIN,
            async || {
                let hidden = self.hidden().await;
                if hidden == said { Ok(()) } else { Err((hidden, said.clone())) }
            },
        )
        .await;
    }

    async fn hidden(&self) -> BTreeSet<String> {
        let lines = match self.place.open().await {
            Ok(mut session) => session.lines("SELECT uri AS line FROM taken_down").await,
            Err(error) => Err(error),
        };
        lines.unwrap_or_default().into_iter().collect()
    }

    /// What stands in the labeler's list: of each subject the last word.
    fn said(&self) -> BTreeSet<String> {
        let mut last: BTreeMap<String, (String, bool)> = BTreeMap::new();
        let (base, mut cursor) =
            (self.peers.labeler_url(self.name).replace("localhost", "127.0.0.1"), "0".to_owned());
        loop {
            let url =
                format!("{base}/xrpc/com.atproto.label.queryLabels?uriPatterns=*&limit=250&cursor={cursor}");
            let answer = http::get(&url).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.body);
            let page: Value = serde_json::from_str(&answer.body).unwrap();
            let labels = page["labels"].as_array().unwrap();
            if labels.is_empty() {
                return last.into_iter().filter(|(_, (_, neg))| !neg).map(|(uri, _)| uri).collect();
            }
            for label in labels {
                let text = |key: &str| label[key].as_str().unwrap().to_owned();
                let (uri, cts, neg) = (text("uri"), text("cts"), label["neg"] == true);
                if last.get(&uri).is_none_or(|(before, _)| *before <= cts) {
                    last.insert(uri, (cts, neg));
                }
            }
            cursor = page["cursor"].as_str().unwrap_or_default().to_owned();
        }
    }
}
