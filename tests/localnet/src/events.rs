//! Raw v1 event lines of the network's mix, for benches and soak runs: an iterator, equal for equal seeds.
//!
//! The mix and the sizes follow a recording of a production server (bluesky-social/jetstream, test data): of 152
//! events 105 likes, 17 posts, 15 reposts, 6 follows, 4 deletes, 3 updates, one identity and one account event;
//! 395 to 1,162 bytes for records, about 200 without.

use std::io::Write;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::ids;
use crate::records::{self, Push};

/// DIDs and CIDs that lines draw from. Making them anew would cost more than the consumer under test.
const POOL: usize = 4_096;
/// Mean distance of two events: 2,000 a second, a busy hour.
const GAP_US: i64 = 500;

/// How lines are made.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Equal seeds give equal lines.
    pub seed: u64,
    /// Share of the registry's records, 0.0 to 1.0.
    pub registry_share: f64,
    /// Authors of the registry's records.
    pub registry_authors: usize,
    /// `time_us` of the first line.
    pub start_us: i64,
}

impl Default for Mix {
    fn default() -> Self {
        Self { seed: 1, registry_share: 0.01, registry_authors: 100, start_us: 1_783_175_888_085_434 }
    }
}

/// The lines, without an end.
#[derive(Debug)]
pub struct Lines {
    mix: Mix,
    random: StdRng,
    dids: Vec<Arc<str>>,
    cids: Vec<Arc<str>>,
    time_us: i64,
    count: u64,
}

/// Starts a generator.
pub fn lines(mix: Mix) -> Lines {
    let dids = (0..POOL).map(|i| ids::did_plc(mix.seed, &format!("author{i}")).into()).collect();
    let cids = (0..POOL).map(|i| ids::cid(&Value::from(i)).into()).collect();
    let random = StdRng::seed_from_u64(mix.seed);
    Lines { mix, random, dids, cids, time_us: mix.start_us, count: 0 }
}

impl Iterator for Lines {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        self.time_us += self.random.random_range(1..2 * GAP_US);
        self.count += 1;
        let registry = self.random.random_bool(self.mix.registry_share.clamp(0.0, 1.0));
        Some(if registry { self.registry() } else { self.network() })
    }
}

impl Lines {
    fn network(&mut self) -> Vec<u8> {
        match self.random.random_range(0..152) {
            0..105 => self.subject_record("app.bsky.feed.like"),
            105..122 => self.post(),
            122..137 => self.subject_record("app.bsky.feed.repost"),
            137..144 => self.follow(),
            144..147 => self.delete("app.bsky.graph.follow"),
            147 => self.delete("app.bsky.feed.post"),
            148..150 => self.status(),
            150 => self.about_account("identity", ""),
            _ => self.about_account("account", "\"active\":true,"),
        }
    }

    fn subject_record(&mut self, collection: &str) -> Vec<u8> {
        let record = format!(
            r#"{{"$type":"{collection}","createdAt":"{}","subject":{{"cid":"{}","uri":"at://{}/app.bsky.feed.post/{}"}}}}"#,
            records::time(self.time_us),
            self.some_cid(),
            self.some_did(),
            ids::tid(self.time_us - 3_600_000_000, 7)
        );
        self.commit("create", collection, &record)
    }

    fn post(&mut self) -> Vec<u8> {
        let text = "xxxxx xx xxxx ".repeat(self.random.random_range(1..20));
        let reply = self.random.random_bool(0.6).then(|| {
            let uri = format!("at://{}/app.bsky.feed.post/{}", self.some_did(), ids::tid(self.time_us, 9));
            let of = format!(r#"{{"cid":"{}","uri":"{uri}"}}"#, self.some_cid());
            format!(r#""reply":{{"parent":{of},"root":{of}}},"#)
        });
        let record = format!(
            r#"{{"$type":"app.bsky.feed.post","createdAt":"{}","langs":["en"],{}"text":"{text}"}}"#,
            records::time(self.time_us),
            reply.unwrap_or_default()
        );
        self.commit("create", "app.bsky.feed.post", &record)
    }

    fn follow(&mut self) -> Vec<u8> {
        let record = format!(
            r#"{{"$type":"app.bsky.graph.follow","createdAt":"{}","subject":"{}"}}"#,
            records::time(self.time_us),
            self.some_did()
        );
        self.commit("create", "app.bsky.graph.follow", &record)
    }

    fn status(&mut self) -> Vec<u8> {
        let record = format!(
            r#"{{"$type":"app.bsky.actor.status","createdAt":"{}","status":"{}"}}"#,
            records::time(self.time_us),
            "x".repeat(300)
        );
        self.commit("update", "app.bsky.actor.status", &record)
    }

    fn registry(&mut self) -> Vec<u8> {
        let (owner, hold) = (self.registry_author(), "did:web:hold01.test");
        let at_us = self.time_us;
        let repository = crate::seed::repository_name(self.random.random_range(0..12));
        let push = Push { repository: &repository, hold, at_us };
        let digest = ids::digest(repository.as_bytes());
        let count = self.count;
        let (collection, author, rkey, record) = match self.random.random_range(0..100) {
            0..25 => {
                let record = records::image(push, &mut self.random);
                let rkey = records::digest_rkey(record["digest"].as_str().unwrap_or_default()).to_owned();
                (records::MANIFEST, &*owner, rkey, record)
            }
            25..50 => {
                let record = records::tag(&owner, &repository, "latest", &digest, at_us);
                (records::TAG, &*owner, records::tag_rkey(&repository, "latest"), record)
            }
            50..65 => {
                let starred = self.registry_author();
                let record = records::star(&starred, &repository, at_us);
                (records::STAR, &*owner, ids::tid(at_us, 3), record)
            }
            65..70 => return self.registry_delete(&owner, &records::tag_rkey(&repository, "latest")),
            70..75 => {
                let rkey = records::page_rkey(&repository);
                (records::PAGE, &*owner, rkey, records::page(&repository, "A test image.", at_us))
            }
            75..80 => {
                let record = records::scan(&owner, &repository, &digest, [0, 1, 2, 3], at_us);
                (records::SCAN, hold, ids::tid(at_us, 4), record)
            }
            _ => {
                let record = records::stats(&owner, &repository, count, 1, at_us);
                (records::STATS, hold, ids::stats_rkey(&owner, &repository), record)
            }
        };
        let cid = self.some_cid();
        self.commit_by(author, "create", collection, &rkey, Some((&record.to_string(), &cid)))
    }

    fn registry_delete(&self, owner: &str, rkey: &str) -> Vec<u8> {
        self.commit_by(owner, "delete", records::TAG, rkey, None)
    }

    fn registry_author(&mut self) -> Arc<str> {
        let authors = self.mix.registry_authors.clamp(1, POOL);
        Arc::clone(&self.dids[self.random.random_range(0..authors)])
    }

    fn delete(&mut self, collection: &str) -> Vec<u8> {
        let did = self.some_did();
        self.commit_by(&did, "delete", collection, &ids::tid(self.time_us - 86_400_000_000, 1), None)
    }

    fn commit(&mut self, operation: &str, collection: &str, record: &str) -> Vec<u8> {
        let (did, cid) = (self.some_did(), self.some_cid());
        self.commit_by(&did, operation, collection, &ids::tid(self.time_us - 1_000, 2), Some((record, &cid)))
    }

    fn commit_by(
        &self,
        did: &str,
        operation: &str,
        collection: &str,
        rkey: &str,
        record: Option<(&str, &str)>,
    ) -> Vec<u8> {
        let mut line = Vec::with_capacity(1024);
        let rev = ids::tid(self.time_us, 5);
        write!(
            line,
            r#"{{"did":"{did}","time_us":{},"kind":"commit","commit":{{"rev":"{rev}","operation":"{operation}","collection":"{collection}","rkey":"{rkey}""#,
            self.time_us
        )
        .expect("a Vec takes every write");
        if let Some((record, cid)) = record {
            write!(line, r#","record":{record},"cid":"{cid}""#).expect("a Vec takes every write");
        }
        line.extend_from_slice(b"}}");
        line
    }

    fn about_account(&mut self, kind: &str, active: &str) -> Vec<u8> {
        let (seq, time_us) = (31_527_000_000 + self.count, self.time_us);
        let (did, time) = (self.some_did(), records::time(time_us));
        let body = format!(r#"{{{active}"did":"{did}","seq":{seq},"time":"{time}"}}"#);
        format!(r#"{{"did":"{did}","time_us":{time_us},"kind":"{kind}","{kind}":{body}}}"#).into_bytes()
    }

    fn some_did(&mut self) -> Arc<str> {
        Arc::clone(&self.dids[self.random.random_range(0..POOL)])
    }

    fn some_cid(&mut self) -> Arc<str> {
        Arc::clone(&self.cids[self.random.random_range(0..POOL)])
    }
}
