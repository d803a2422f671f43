//! The other process: the network, what is in it, and how often it was asked.

use std::collections::BTreeMap;
use std::ops::Sub;
use std::process::Stdio;

use localnet::network::{Made, Site};
use localnet::{Net, NetOptions, ids, records};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// So many that it is not their limits that are measured.
const PDSES: usize = 64;

/// Of all made images, under which nothing but itself is known.
const HOLD: &str = "hold01";

/// Where everything is, and how many rows the tables must have once all is read.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Setting {
    pub(crate) plc_url: String,
    pub(crate) relay_url: String,
    pub(crate) test_hosts: std::net::SocketAddr,
    /// Named by no relay.
    pub(crate) hold: String,
    pub(crate) rows: BTreeMap<String, usize>,
}

/// Requests so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Counts {
    pub(crate) relays: u64,
    pub(crate) latest: u64,
    lists: u64,
    /// Documents and handles.
    identities: u64,
}

impl Counts {
    pub(crate) fn all(&self) -> u64 {
        self.relays + self.latest + self.lists + self.identities
    }

    /// In which way these are others than those.
    pub(crate) fn differences(&self, other: &Self) -> Option<String> {
        let each = |counts: &Self| [counts.relays, counts.latest, counts.lists, counts.identities];
        (each(self) != each(other)).then(|| format!("asked {self:?}, the bare client {other:?}"))
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            relays: self.relays - before.relays,
            latest: self.latest - before.latest,
            lists: self.lists - before.lists,
            identities: self.identities - before.identities,
        }
    }
}

/// The network's process, as the measured one sees it. Ends with it.
pub(crate) struct Network {
    pub(crate) setting: Setting,
    ask: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Network {
    pub(crate) async fn spawn(repositories: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["network", &repositories.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let ask = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = said.next_line().await.unwrap().expect("the network says where it is");
        Self { setting: serde_json::from_str(&line).unwrap(), ask, said, _child: child }
    }

    pub(crate) async fn counts(&mut self) -> Counts {
        self.ask.write_all(b"counts\n").await.unwrap();
        let line = self.said.next_line().await.unwrap().expect("the network says how often it was asked");
        serde_json::from_str(&line).unwrap()
    }
}

/// The whole life of the network's process: until its standard input ends.
pub(crate) async fn serve(repositories: usize, records_each: usize) {
    let options =
        NetOptions { pdses: PDSES, named_pdses: true, jetstreams: Vec::new(), ..NetOptions::default() };
    let net = Net::start(options).await.unwrap();
    net.add_made_accounts(repositories, Made::records(records_each));
    let hold = net.add_web_account(HOLD);
    net.put_unseen(&hold, records::CAPTAIN, "self", records::captain("did:plc:captain", ids::now_us()));
    let setting = Setting {
        plc_url: net.plc_url(),
        relay_url: net.relay_url_of(0),
        test_hosts: net.test_hosts(),
        hold,
        rows: rows(&net),
    };
    println!("{}", serde_json::to_string(&setting).unwrap());
    let line = || tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    while line().await.unwrap().is_some() {
        println!("{}", serde_json::to_string(&counts(&net)).unwrap());
    }
}

fn counts(net: &Net) -> Counts {
    let mut counts = Counts::default();
    for ((site, _, path), n) in net.request_counts() {
        match (site, path.as_str()) {
            (Site::Relay(_), _) => counts.relays += n,
            (_, "/xrpc/com.atproto.sync.getLatestCommit") => counts.latest += n,
            (_, "/xrpc/com.atproto.repo.listRecords") => counts.lists += n,
            _ => counts.identities += n,
        }
    }
    counts
}

/// What the tables must hold, without any code of the product.
fn rows(net: &Net) -> BTreeMap<String, usize> {
    let manifests = net.records(records::MANIFEST);
    let parts = |name: &str| -> usize {
        let count = |value: &Value| match &value[name] {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        manifests.values().map(|record| count(&record.value)).sum()
    };
    let all = |collection| net.records(collection).len();
    let (profiles, tags, captains) = (all(records::PROFILE), all(records::TAG), all(records::CAPTAIN));
    let rows = [
        ("users", net.dids().len()),
        ("records", manifests.len() + profiles + tags + captains),
        ("profiles", profiles),
        ("manifests", manifests.len()),
        ("layers", parts("layers")),
        ("manifest_annotations", parts("annotations")),
        ("tags", tags),
        ("captains", captains),
        ("repository_stats", 0),
    ];
    rows.into_iter().map(|(table, count)| (table.to_owned(), count)).collect()
}
