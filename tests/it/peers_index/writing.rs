//! Accounts that never rest: a task of its own that puts, replaces and deletes records, and has accounts fall asleep,
//! wake up, change their names, come and go, until it is told to stop.

use std::{collections::BTreeSet, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IteratorRandom};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{MANIFEST, STAR, TAG, at, digest, kills::Written, manifest, world::World};

/// The PDS, the stream and two instances share the machine with the writers of another test.
const PAUSE: Duration = Duration::from_millis(15);
/// Keys of each kind, so few that most are replaced, deleted and written again.
const KEYS: u8 = 16;
/// Accounts that come later.
const NEW_MAX: usize = 4;
/// A slow machine writes so much, too, before it may stop.
const STEPS_MIN: usize = 120;
/// In steps: who goes for good does so in the middle of them.
const DELETE_AT: usize = 50;

/// A writer at work.
pub(super) struct Writing {
    stop: CancellationToken,
    task: JoinHandle<Writer>,
}

struct Writer {
    world: World,
    random: StdRng,
    /// Who writes, by the name that each began with.
    awake: BTreeSet<String>,
    asleep: BTreeSet<String>,
    /// What they wrote, and did not delete: name, collection, key.
    present: BTreeSet<(String, &'static str, String)>,
    written: Written,
}

impl Writing {
    pub(super) fn start(world: World, seed: u64) -> Writing {
        let stop = CancellationToken::new();
        let mut writer = Writer {
            world,
            random: StdRng::seed_from_u64(seed.wrapping_add(1)),
            awake: ["alice", "bob", "carol", "dave"].map(str::to_owned).into(),
            asleep: BTreeSet::new(),
            present: BTreeSet::new(),
            written: Written::new(),
        };
        let told = stop.clone();
        let task = tokio::spawn(async move {
            for step in 0.. {
                if told.is_cancelled() && step > STEPS_MIN {
                    break;
                }
                writer.step(step);
                tokio::time::sleep(PAUSE).await;
            }
            writer
        });
        Writing { stop, task }
    }

    /// The world as it was left, and what was done to it.
    pub(super) async fn stop(self) -> (World, Written) {
        self.stop.cancel();
        let writer = self.task.await.unwrap();
        (writer.world, writer.written)
    }
}

impl Writer {
    fn step(&mut self, step: usize) {
        let what = if step == DELETE_AT { "delete account" } else { self.choose(step) };
        let is_done = match what {
            "delete" => self.delete(),
            "deactivate" => self.deactivate(),
            "activate" => self.activate(),
            "rename" => self.rename(step),
            "new account" => self.create(),
            "delete account" => {
                self.gone("dave");
                self.world.delete_account("dave");
                true
            }
            _ => self.put(),
        };
        if is_done {
            *self.written.entry(what).or_default() += 1;
        }
    }

    /// What changes an account has its turn; between them are records.
    fn choose(&mut self, step: usize) -> &'static str {
        match step % 40 {
            5 | 25 => "deactivate",
            15 | 35 => "activate",
            20 => "rename",
            30 => "new account",
            _ if self.random.random_bool(0.35) => "delete",
            _ => "put",
        }
    }

    fn put(&mut self) -> bool {
        let (number, other) = (self.random.random_range(0..KEYS), self.random.random_range(0..KEYS));
        let name = self.awake.iter().choose(&mut self.random).unwrap().clone();
        let repository = format!("r{}", number % 3);
        let when = at(self.random.random_range(0..60));
        let (name, collection, rkey, record) = match self.random.random_range(0..8) {
            0 | 1 => {
                let hold = ["", &self.world.did("hold01")][usize::from(other % 2)].to_owned();
                let hold = if hold.is_empty() { json!({}) } else { json!({ "holdDid": hold }) };
                (name, MANIFEST, super::key(number), manifest(number, &repository, hold))
            }
            2 => {
                let subject = json!({ "did": self.world.did("alice"), "repository": format!("r{number}") });
                let rkey = format!("3mstarkill22{}", char::from(b'a' + number));
                (name, STAR, rkey, json!({ "subject": subject, "createdAt": when }))
            }
            3 => {
                let counts = json!({ "ownerDid": self.world.did("alice"), "repository": repository,
                    "pullCount": other, "pushCount": 1, "updatedAt": when });
                ("hold01".to_owned(), "io.atcr.hold.stats", repository, counts)
            }
            _ => {
                let tag = format!("v{number}");
                let rkey = format!("{repository}_{tag}");
                let record = json!({ "repository": repository, "tag": tag, "manifestDigest": digest(other),
                    "updatedAt": when });
                (name, TAG, rkey, record)
            }
        };
        self.world.put(&name, collection, &rkey, record);
        self.present.insert((name, collection, rkey));
        true
    }

    fn delete(&mut self) -> bool {
        let writes = |(owner, ..): &&(String, &str, String)| self.awake.contains(owner) || owner == "hold01";
        let Some(record) = self.present.iter().filter(writes).choose(&mut self.random).cloned() else {
            return false;
        };
        self.present.remove(&record);
        let (name, collection, rkey) = record;
        self.world.delete(&name, collection, &rkey);
        true
    }

    fn deactivate(&mut self) -> bool {
        let sleepy = self.awake.iter().filter(|name| *name != "alice" && *name != "dave");
        let Some(name) = sleepy.choose(&mut self.random).cloned() else { return false };
        self.awake.remove(&name);
        self.world.deactivate(&name);
        self.asleep.insert(name);
        true
    }

    fn activate(&mut self) -> bool {
        let Some(name) = self.asleep.iter().choose(&mut self.random).cloned() else { return false };
        self.asleep.remove(&name);
        self.world.activate(&name);
        self.awake.insert(name);
        true
    }

    fn rename(&mut self, step: usize) -> bool {
        // Who is to be deleted keeps the name that is known.
        let name = self.awake.iter().filter(|name| *name != "dave").choose(&mut self.random).unwrap().clone();
        self.world.rename(&name, &format!("{name}{step}"));
        true
    }

    fn create(&mut self) -> bool {
        let number = self.written.get("new account").copied().unwrap_or_default();
        let name = format!("new{number}");
        if number < NEW_MAX {
            self.world.create_account(&name);
            self.awake.insert(name);
        }
        number < NEW_MAX
    }

    fn gone(&mut self, name: &str) {
        self.awake.remove(name);
        self.present.retain(|(owner, ..)| owner != name);
    }
}
