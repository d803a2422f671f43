//! The programs of others in `tests/peers`, for one test: a PLC directory and a PDS, and a Jetstream that follows it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{http, pds::Pds, ports, supervisor::Supervisor};

/// `$1` is the directory, `$2` is peers.sh, `$3` the options of the PDS, `$4` the database of Ozone.
const SCRIPT: &str = r#"
directory=$1 peers=$2
export TMPDIR=$1 PEERS_PDS_ARGS=$3
export PEERS_LABELER_ARGS="--data $1/labeler" PEERS_OZONE_ARGS="--data $1/ozone --db $4"
up() { bash "$peers" up "$directory" "$1" >>"$directory/peers.log" 2>&1; }
down() { bash "$peers" down "$directory" $1 >>"$directory/peers.log" 2>&1; }
seed() { bash "$peers" seed "$1" >"$directory/seeded.json" 2>>"$directory/peers.log"; }
check() { bash "$peers" check "$directory" >>"$directory/check.log" 2>&1; }
clean_up() {
    down
    rm -rf "$directory"
}
"#;

/// PLC, PDS, Jetstream and the others that peers.sh may start.
const PORTS: u16 = 11;
const STARTS_MAX: usize = 3;

/// Whether the PDS starts with the accounts and records of `seed.mjs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seed {
    /// `alice.test`, `bob.test` and the hold `hold01.test`.
    Accounts,
    Nothing,
}

/// Whether `ATCR_TEST_PEERS=skip` leaves other people's programs out; if so, a line says what is not run.
pub(crate) fn are_left_out(what: &str) -> bool {
    let is_so = std::env::var("ATCR_TEST_PEERS").is_ok_and(|value| value == "skip");
    if is_so {
        // Not eprintln: what a passing test prints is not shown.
        let told = format!("left out (ATCR_TEST_PEERS=skip): {what}\n");
        std::io::stderr().write_all(told.as_bytes()).unwrap();
    }
    is_so
}

/// Running peers, stopped with the test process at the latest.
pub(crate) struct Peers {
    directory: PathBuf,
    supervisor: Supervisor,
}

impl Peers {
    /// Starts them. None, and a line that says so, where `ATCR_TEST_PEERS=skip` leaves the peers out.
    pub(crate) fn start(seed: Seed) -> Option<Peers> {
        Peers::start_with(seed, "")
    }

    /// The same, with a database for an Ozone that may be started later.
    pub(crate) fn start_with(seed: Seed, ozone_database: &str) -> Option<Peers> {
        if are_left_out("a test against real peers") {
            return None;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
        let installed = folder.join("node_modules/@atproto/pds").exists();
        assert!(
            installed,
            "the peers are not installed; install them with:\n    bash tests/peers/install.sh"
        );
        let mut log = String::new();
        for _ in 0..STARTS_MAX {
            match Peers::attempt(&folder, seed, ozone_database) {
                Ok(peers) => return Some(peers),
                Err(what) => log = what,
            }
        }
        panic!("the peers did not start, {STARTS_MAX} times; the last time:\n{log}")
    }

    /// One attempt on one block of ports; another program may take one of them first.
    fn attempt(folder: &Path, seed: Seed, ozone_database: &str) -> Result<Peers, String> {
        let directory = tempfile::Builder::new().prefix("atcr-peers-").tempdir().map(TempDir::keep).unwrap();
        let supervisor = Supervisor::spawn(SCRIPT, |command| {
            command.arg(&directory).arg(folder.join("peers.sh"));
            command.arg(if seed == Seed::Nothing { "--no-seed" } else { "" });
            command.arg(ozone_database);
            command.env("PEERS_PORT_BASE", ports::free_block(PORTS).to_string());
        });
        let peers = Peers { directory, supervisor };
        // The Jetstream follows the PDS, so it comes second.
        if ["up pds", "up jetstream"].iter().all(|request| peers.supervisor.request(request)) {
            return Ok(peers);
        }
        Err(fs::read_to_string(peers.directory.join("peers.log")).unwrap_or_default())
    }

    /// The PDS, to write records to and to read them back.
    pub(crate) fn pds(&self) -> Pds {
        Pds::new(&self.text("pds", "pds"))
    }

    /// The PLC directory, for `identity.plc_url`.
    pub(crate) fn plc_url(&self) -> String {
        self.text("pds", "plc")
    }

    /// The Jetstream, for `jetstream.urls`.
    pub(crate) fn jetstream_url(&self) -> String {
        self.text("jetstream", "url")
    }

    /// Starts the server that lists the PDS's repositories by collection, and gives its address for
    /// `backfill.relay_urls`.
    pub(crate) fn start_relay(&self) -> String {
        self.start_again("collectiondir");
        self.text("collectiondir", "url")
    }

    /// Tells the Jetstream bridge what to do to its subscribers: `drop`, `pause`, `stats` and what else it offers.
    pub(crate) fn tell_jetstream(&self, method: &str, what: &str, body: &str) -> Value {
        let control = self.text("jetstream", "control");
        let answer = http::request(method, &format!("{control}/{what}"), &[], body).unwrap();
        assert_eq!(answer.status, 200, "{method} {what}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Writes the accounts and records of [`Seed::Accounts`] to a PDS that was started with [`Seed::Nothing`].
    pub(crate) fn seed(&self) {
        let done = self.supervisor.request(&format!("seed {}", self.pds().url()));
        assert!(done, "{}", fs::read_to_string(self.directory.join("peers.log")).unwrap_or_default());
    }

    /// Has the checks of `tests/peers` look at those that run: Err with what they said.
    pub(crate) fn check(&self) -> Result<(), String> {
        let passed = self.supervisor.request("check");
        let said = fs::read_to_string(self.directory.join("check.log")).unwrap_or_default();
        if passed { Ok(()) } else { Err(said) }
    }

    /// The DID of a seeded account.
    pub(crate) fn did(&self, handle: &str) -> String {
        let state = self.state("pds");
        let accounts = state["accounts"].as_array().unwrap();
        let account = accounts.iter().find(|account| account["handle"] == handle);
        account.and_then(|account| account["did"].as_str()).expect("a seeded account").to_owned()
    }

    /// The DID of a labeler, `labeler` or `ozone`.
    pub(crate) fn labeler_did(&self, name: &str) -> String {
        self.text(name, "did")
    }

    /// Where a labeler's streams and lists are.
    pub(crate) fn labeler_url(&self, name: &str) -> String {
        self.text(name, "url")
    }

    /// Gives a labeler one of the commands that its script has.
    pub(crate) fn tell_labeler(&self, name: &str, what: &str, body: &Value) -> Value {
        let url = format!("{}/{what}", self.text(name, "control"));
        let answer = http::request("POST", &url, &[], &body.to_string()).unwrap();
        assert_eq!(answer.status, 200, "{what} {body}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Stops one of them, `pds` or `jetstream`. Without its PDS, the PLC directory is gone too, with what it knew.
    pub(crate) fn stop(&self, name: &str) {
        assert!(self.supervisor.request(&format!("down {name}")), "peers.sh down {name}");
    }

    /// Starts one of them, again or for the first time, on its own port.
    pub(crate) fn start_again(&self, name: &str) {
        assert!(self.supervisor.request(&format!("up {name}")), "peers.sh up {name}");
    }

    fn text(&self, peer: &str, key: &str) -> String {
        self.state(peer)[key].as_str().unwrap().to_owned()
    }

    fn state(&self, peer: &str) -> Value {
        let file = fs::read(self.directory.join(peer).with_extension("json")).unwrap();
        serde_json::from_slice(&file).unwrap()
    }
}
