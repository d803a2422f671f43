//! Against programs by others: two imitations of Stripe, and the reference implementation as the verifier of our tokens.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use atcr_workers::atproto::Did;
use atcr_workers::atproto::key::signing::PrivateKey;
use atcr_workers::billing::token::{Signer, UPDATE_CREW_TIER};
use localnet::network::Curve;
use localnet::{Net, NetOptions};
use serde_json::Value;

use super::processes::{Office, TIERS};
use crate::support::eventually::eventually;
use crate::support::place::Kind;
use crate::support::stage::PATIENCE;
use crate::support::supervisor::Supervisor;
use crate::support::{http, ports};

/// `$1` is the directory, `$2` is peers.sh.
const SCRIPT: &str = r#"
directory=$1 peers=$2
export TMPDIR=$1
up() { bash "$peers" up "$directory" "$1" >>"$directory/peers.log" 2>&1; }
clean_up() {
    bash "$peers" down "$directory" >>"$directory/peers.log" 2>&1
    rm -rf "$directory"
}
"#;

/// What both imitations take.
const KEY: &str = "sk_test_12345";

/// An imitation of Stripe, stopped with the test process at the latest.
struct Shop {
    directory: PathBuf,
    name: &'static str,
    _supervisor: Supervisor,
}

impl Shop {
    /// None, and a line that says so, where `ATCR_TEST_PEERS=skip` leaves the peers out.
    fn open(name: &'static str, installed: &str) -> Option<Shop> {
        if is_left_out() {
            return None;
        }
        let folder = folder();
        assert!(
            folder.join(installed).exists(),
            "{name} is not installed: bash tests/peers/install.sh node python"
        );
        for _ in 0..3 {
            let directory = tempfile::Builder::new().prefix("atcr-shop-").tempdir().unwrap().keep();
            let supervisor = Supervisor::spawn(SCRIPT, |command| {
                command.arg(&directory).arg(folder.join("peers.sh"));
                command.env("PEERS_PORT_BASE", ports::free_block(9).to_string());
            });
            if supervisor.request(&format!("up {name}")) {
                return Some(Shop { directory, name, _supervisor: supervisor });
            }
            println!("{}", fs::read_to_string(directory.join("peers.log")).unwrap_or_default());
        }
        panic!("{name} did not start")
    }

    fn state(&self) -> Value {
        let file = fs::read(self.directory.join(self.name).with_extension("json")).unwrap();
        serde_json::from_slice(&file).unwrap()
    }

    fn url(&self) -> String {
        self.state()["url"].as_str().unwrap().to_owned()
    }

    /// The id of the subscription that the seeded user has, and their DID.
    fn seeded(&self, letter: &str) -> (String, String) {
        let state = self.state();
        let did = format!("did:plc:{}", letter.repeat(24));
        let customer =
            state["customers"].as_array().unwrap().iter().find(|customer| customer["did"] == did.as_str());
        (did.clone(), customer.unwrap()["subscription"].as_str().unwrap_or_default().to_owned())
    }

    fn tell(&self, method: &str, path: &str, form: &str) -> Value {
        let authorization = format!("Bearer {KEY}");
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let answer = http::request(method, &format!("{}{path}", self.url()), &headers, form).unwrap();
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers")
}

fn is_left_out() -> bool {
    let left_out = std::env::var("ATCR_TEST_PEERS").is_ok_and(|value| value == "skip");
    if left_out {
        // Not eprintln: what a passing test prints is not shown.
        io::Write::write_all(
            &mut io::stderr(),
            b"left out (ATCR_TEST_PEERS=skip): billing against real peers\n",
        )
        .unwrap();
    }
    left_out
}

async fn until_rows(office: &Office, expected: &[String]) {
    let query = "SELECT user_did || ' ' || status || ' ' || CAST(tier_rank AS TEXT) AS line FROM billing_subscriptions";
    eventually("the rows are so", PATIENCE, async || {
        let mut lines = office.stage.place.lines(query).await;
        lines.sort();
        if lines == expected { Ok(()) } else { Err(lines) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn localstripe_from_subscribing_to_canceling() {
    let Some(shop) = Shop::open("stripe", ".peers/venv/bin/python") else { return };
    let office = Office::open(Kind::Sqlite).await;
    let office =
        office.with("ATCR__BILLING__STRIPE_URL", &shop.url()).with("ATCR__BILLING__STRIPE_SECRET_KEY", KEY);
    let ((alice, sub), (carol, _), (dave, _)) = (shop.seeded("a"), shop.seeded("c"), shop.seeded("d"));
    for did in [&alice, &carol, &dave] {
        office.member(did);
    }
    let _instance = office.start("one");
    let rows = |alices: &str| {
        vec![format!("{alice} {alices}"), format!("{carol} past_due 2"), format!("{dave} incomplete 0")]
    };
    until_rows(&office, &rows("active 1")).await;
    office.until_tiers(&alice, ["deckhand", "deckhand"]).await;
    office.until_tiers(&carol, ["bosun", "bosun"]).await;
    let item = shop.tell("GET", &format!("/v1/subscriptions/{sub}"), "");
    let item = item["items"]["data"][0]["id"].as_str().unwrap();
    shop.tell(
        "POST",
        &format!("/v1/subscriptions/{sub}"),
        &format!("items[0][id]={item}&items[0][plan]=price_team"),
    );
    until_rows(&office, &rows("active 2")).await;
    office.until_tiers(&alice, ["bosun", "bosun"]).await;
    shop.tell("DELETE", &format!("/v1/subscriptions/{sub}"), "");
    until_rows(&office, &rows("canceled 0")).await;
    office.until_tiers(&alice, ["swabbie", "swabbie"]).await;
    // Never paid, never told of.
    office.until_tiers(&dave, ["free", "free"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripe_stateful_mock_in_pages_by_price_and_by_plan() {
    let Some(shop) = Shop::open("stripe-mock", "node_modules/stripe-stateful-mock") else { return };
    // It makes up the ids of its prices; of its plans the seed says them.
    let price = shop.state()["prices"]["pro"].as_str().unwrap().to_owned();
    let tiers = TIERS.replace("price_pro_year", &price).replace("price_team_year", "plan_team");
    let office = Office::open_with(Kind::Sqlite, &tiers).await;
    let office =
        office.with("ATCR__BILLING__STRIPE_URL", &shop.url()).with("ATCR__BILLING__STRIPE_SECRET_KEY", KEY);
    let customer = shop.tell(
        "POST",
        "/v1/customers",
        "email=x@example.com&metadata[userDid]=did:plc:many&source=tok_visa",
    );
    let customer = customer["id"].as_str().unwrap().to_owned();
    // More than a page: it knows nobody's account from the list, and one customer is asked for once.
    for _ in 0..110 {
        let form = format!("customer={customer}&items[0][price]={price}&items[0][plan]=plan_pro");
        shop.tell("POST", "/v1/subscriptions", &form);
    }
    let _instance = office.start("one");
    let ranks = [("a", 1), ("c", 2), ("d", 2), ("e", 2)];
    let mut expected: Vec<_> =
        ranks.iter().map(|(letter, rank)| format!("{} active {rank}", shop.seeded(letter).0)).collect();
    expected.push("did:plc:many active 1".to_owned());
    expected.sort();
    until_rows(&office, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_implementation_takes_our_tokens() {
    if is_left_out() {
        return;
    }
    let net = Net::start(NetOptions::default()).await.unwrap();
    let hold = Did::parse("did:web:hold1.test").unwrap();
    for curve in [Curve::K256, Curve::P256] {
        let registry = net.trust_registry(curve, 9);
        let key = PrivateKey::read(&registry.signing_key).unwrap();
        let public = format!("did:key:{}", key.public());
        let signer = Signer { issuer: Did::parse(&registry.did).unwrap(), key };
        let verify = |audience: &str, method: &str, key: &str| {
            let token = signer.token(&hold).unwrap();
            let mut command = Command::new("bash");
            command.arg(folder().join("peers.sh")).args(["verify-token", &token, audience, method, key]);
            let output = command.output().unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (taken, said) = verify(hold.as_str(), UPDATE_CREW_TIER, &public);
        assert!(taken, "{said}");
        let claims: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(claims["iss"], "did:web:registry.test");
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 60);
        let of_another = net.trust_registry(curve, 10);
        let of_another = PrivateKey::read(&of_another.signing_key).unwrap().public();
        for (audience, method, key, why) in [
            ("did:web:hold2.test", UPDATE_CREW_TIER, public.clone(), "BadJwtAudience"),
            (hold.as_str(), "io.atcr.hold.deleteUserData", public.clone(), "BadJwtLexiconMethod"),
            (hold.as_str(), UPDATE_CREW_TIER, format!("did:key:{of_another}"), "BadJwtSignature"),
        ] {
            assert_eq!(verify(audience, method, &key), (false, format!("{why}\n")));
        }
    }
}
