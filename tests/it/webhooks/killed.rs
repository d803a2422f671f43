//! Processes that follow the stream and deliver, killed and stopped while pushes come: what was pushed is delivered.
//!
//! `ATCR_TEST_WEBHOOKS=long` makes of it 10,000 pushes and 50 kills, which takes some ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use localnet::webhooks::Behaviour;
use localnet::{ids, records, records::Push};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::stream::processes::resident_bytes;
use crate::support::eventually::eventually;
use crate::support::place::{Kind, on_both_databases};
use crate::support::process::{Exit, Instance};
use crate::support::stage::{PATIENCE, SETTINGS, Stage};

on_both_databases!(each_push_is_delivered_whoever_is_killed, two_instances_make_one_delivery_of_each_event,);

/// More than any instance of a debug build takes with a queue that is bounded; ten thousand payloads with their requests
/// would be more.
const RESIDENT_MAX: u64 = 400 << 20;

/// Answers that may wait to be written, and the one under way.
const REPEATED_PER_KILL_MAX: usize = 9;

const SECRET: &str = "whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQ=";
const TOKEN: &str = "0token0in0the0path0";

struct World {
    stage: Stage,
    user: String,
    random: StdRng,
    pushed: BTreeSet<String>,
    _settings: TempDir,
}

impl World {
    /// A user with webhooks to these paths of the receiver.
    async fn new(kind: Kind, paths: &[&str]) -> Self {
        let settings = tempfile::tempdir().unwrap();
        let file = settings.path().join("settings.toml");
        let tier =
            "[[billing.tiers]]\nname = \"all\"\nprice_ids = []\nmax_webhooks = 10\nall_triggers = true\n";
        std::fs::write(&file, std::fs::read_to_string(SETTINGS).unwrap() + "\n" + tier).unwrap();
        let stage = Stage::new(kind).await.quick().with_file(&file).with("ATCR__WEBHOOKS__ENABLED", "true");
        let user = stage.net.add_account("pusher");
        stage.place.execute(&format!("INSERT INTO users (did, first_seen) VALUES ('{user}', 1)")).await;
        for (at, path) in paths.iter().enumerate() {
            let url = format!("{}{path}", stage.net.webhooks().url());
            stage
                .place
                .execute(&format!(
                    "INSERT INTO webhooks (id, user_did, url, secret, triggers, created_at, updated_at)
                     VALUES ({}, '{user}', '{url}', '{SECRET}', 8, {at}, 1)",
                    at + 1
                ))
                .await;
        }
        Self { stage, user, random: StdRng::seed_from_u64(1), pushed: BTreeSet::new(), _settings: settings }
    }

    fn push(&mut self) {
        let push = Push { repository: "hello", hold: &self.stage.seeded.hold, at_us: ids::now_us() };
        let manifest = records::image(push, &mut self.random);
        let digest = manifest["digest"].as_str().unwrap().to_owned();
        self.stage.net.put(&self.user, records::MANIFEST, records::digest_rkey(&digest), manifest);
        self.pushed.insert(digest);
    }

    /// How often each digest came to a path, and under which ids.
    fn delivered(&self, path: &str) -> BTreeMap<String, Vec<String>> {
        let mut delivered: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in self.stage.net.webhooks().received_at(path) {
            let digest = one.json()["push_data"]["digest"].as_str().unwrap().to_owned();
            delivered.entry(digest).or_default().push(one.id().to_owned());
        }
        delivered
    }

    /// Waits until every push has come to the path, and its delivery is written down.
    async fn until_all_delivered(&self, path: &str, webhook: usize, within: Duration) {
        let written = format!(
            "SELECT CAST(COUNT(*) AS TEXT) AS line FROM webhook_deliveries
             WHERE webhook_id = {webhook} AND status = 'delivered'"
        );
        eventually("every push is delivered", within, async || {
            let (came, written) = (self.delivered(path).len(), self.stage.place.lines(&written).await);
            if came >= self.pushed.len() && written == [self.pushed.len().to_string()] {
                return Ok(());
            }
            // Asked less often than the rest, as it reads everything that came.
            tokio::time::sleep(Duration::from_millis(500)).await;
            Err((came, written))
        })
        .await;
        assert_eq!(self.delivered(path).keys().cloned().collect::<BTreeSet<_>>(), self.pushed);
    }

    /// Deliveries beyond the first of each event; all of an event have one id.
    fn repeated(&self, path: &str) -> usize {
        let delivered = self.delivered(path);
        for (digest, ids) in &delivered {
            assert!(ids.iter().all(|id| *id == ids[0]), "{digest}: {ids:?}");
        }
        let ids: BTreeSet<_> = delivered.values().map(|ids| &ids[0]).collect();
        assert_eq!(ids.len(), delivered.len(), "one id for two events");
        delivered.values().map(|ids| ids.len() - 1).sum()
    }
}

/// Which of them runs the worker, by the database.
async fn holder(stage: &Stage, instances: &[Instance], worker: &str) -> Option<usize> {
    let query = format!(
        "SELECT CAST(pid AS TEXT) AS line FROM lease JOIN lease_instance ON incarnation = holder WHERE name = '{worker}'"
    );
    let pid: u32 = stage.place.lines(&query).await.first()?.parse().ok()?;
    instances.iter().position(|instance| instance.pid() == pid)
}

fn nothing_secret_is_told(instance: &Instance) {
    for line in instance.lines() {
        assert!(!line.contains(TOKEN) && !line.contains(SECRET), "{line}");
    }
}

struct Size {
    pushes: usize,
    kills: usize,
    within: Duration,
}

/// On PostgreSQL each kill of the sender costs the grace.
fn size(kind: Kind) -> Size {
    let is_long = std::env::var("ATCR_TEST_WEBHOOKS").is_ok_and(|value| value == "long");
    match (kind, is_long) {
        (_, true) => Size { pushes: 10_000, kills: 50, within: Duration::from_secs(1_800) },
        (Kind::Sqlite, false) => Size { pushes: 2_000, kills: 10, within: Duration::from_secs(240) },
        (Kind::Postgres, false) => Size { pushes: 600, kills: 4, within: Duration::from_secs(240) },
    }
}

// S38: distribution/distribution#2422, #324
// S41: Vexa-ai/vexa#520, RamaAditya49/titen#32
async fn each_push_is_delivered_whoever_is_killed(kind: Kind) {
    let (fine, size, began) = (format!("/fine/{TOKEN}"), size(kind), Instant::now());
    let mut world = World::new(kind, &[&fine, "/slow", "/down"]).await;
    world.stage.net.webhooks().behave("/slow", Behaviour::Slow(300));
    world.stage.net.webhooks().behave("/down", Behaviour::Down);
    let mut instances: Vec<Instance> = ["a", "b"].map(|label| world.stage.start(label)).into();
    let mut random = StdRng::seed_from_u64(2);
    let (mut kills, mut resident) = (BTreeMap::<&str, usize>::new(), 0);
    for round in 0..size.kills {
        // The moment, which is what is random here; nothing is waited for.
        let until = Instant::now() + Duration::from_millis(random.random_range(300..2_000));
        let burst = size.pushes * (round + 1) / size.kills;
        while world.pushed.len() < burst || Instant::now() < until {
            if world.pushed.len() < burst {
                world.push();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let worker = if random.random_bool(0.7) { "webhooks" } else { "jetstream" };
        let Some(victim) = holder(&world.stage, &instances, worker).await else { continue };
        resident = instances.iter().map(|one| resident_bytes(one.pid())).max().unwrap().max(resident);
        instances[victim].signal(Signal::KILL);
        assert_eq!(instances[victim].wait_exit(PATIENCE), Exit::Signal(9));
        nothing_secret_is_told(&instances[victim]);
        instances[victim] = world.stage.start("again");
        *kills.entry(worker).or_default() += 1;
    }
    world.until_all_delivered(&fine, 1, size.within).await;
    let took = began.elapsed();
    resident = instances.iter().map(|one| resident_bytes(one.pid())).max().unwrap().max(resident);
    instances.iter().for_each(nothing_secret_is_told);
    let killed: usize = kills.values().sum();
    let (repeated, requests) =
        (world.repeated(&fine), |path: &str| world.stage.net.webhooks().requests(path));
    println!(
        "{kind:?}: {} pushes, kills {kills:?}, all delivered in {took:?}; {repeated} repeated; {} MiB at most; \
         requests: fine {}, slow {} ({} repeated), down {}",
        world.pushed.len(),
        resident >> 20,
        requests(&fine),
        requests("/slow"),
        world.repeated("/slow"),
        requests("/down"),
    );
    assert!(killed * 2 > size.kills, "too few kills to show anything: {kills:?}");
    assert!(repeated <= killed * REPEATED_PER_KILL_MAX, "{repeated}");
    assert!(resident < RESIDENT_MAX, "{resident}");
    // Each new process knows nothing of the endpoint that is down; then it rests up to 30 s.
    let rests = took.as_secs() / 30 + 1;
    assert!(requests("/down") <= (killed as u64 + 1) * 6 + rests, "{}", requests("/down"));
}

// S42: the original ATCR
async fn two_instances_make_one_delivery_of_each_event(kind: Kind) {
    let mut world = World::new(kind, &["/fine"]).await;
    let mut instances: Vec<Instance> = ["a", "b"].map(|label| world.stage.start(label)).into();
    for _ in 0..3 {
        for _ in 0..40 {
            world.push();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let at = eventually("somebody delivers", PATIENCE, async || {
            holder(&world.stage, &instances, "webhooks").await.ok_or("nobody")
        })
        .await;
        // A stop in good order repeats nothing: what was answered is written down.
        instances[at].signal(Signal::TERM);
        assert_eq!(instances[at].wait_exit(PATIENCE), Exit::Code(0));
        instances[at] = world.stage.start("again");
    }
    world.until_all_delivered("/fine", 1, PATIENCE * 2).await;
    assert_eq!(world.repeated("/fine"), 0);
    let rows = world.stage.place.lines("SELECT CAST(COUNT(*) AS TEXT) AS line FROM webhook_deliveries").await;
    assert_eq!(rows, [world.pushed.len().to_string()], "each event has one row");
}
