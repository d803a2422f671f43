//! Plausible events that keep flowing: pushes, moved tags, stars come and go, pulls are counted.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::MissedTickBehavior;

use crate::records::{self, Push};
use crate::seed::{Image, Seeded};
use crate::{Net, ids};

/// Images that traffic knows of; the oldest it made are deleted beyond that, so that a network in small stays small.
const IMAGES_MAX: usize = 1_000;
const STARS_MAX: usize = 1_000;

/// A generator of traffic. What it chooses follows from its seed; times and revisions are the clock's.
#[derive(Debug)]
pub struct Traffic {
    random: StdRng,
    users: Vec<String>,
    hold: String,
    images: VecDeque<Image>,
    stars: VecDeque<(String, String)>,
    counts: BTreeMap<(String, String), (u64, u64)>,
    noise: f64,
}

impl Traffic {
    /// Traffic over a seeded network. `noise` is the share of events about accounts that nobody knows (0.0 to 1.0).
    ///
    /// # Panics
    /// When nothing was seeded.
    pub fn new(seeded: &Seeded, seed: u64, noise: f64) -> Self {
        assert!(!seeded.images.is_empty(), "traffic needs seeded images");
        Self {
            random: StdRng::seed_from_u64(seed),
            users: seeded.users.clone(),
            hold: seeded.hold.clone(),
            images: seeded.images.clone().into(),
            stars: VecDeque::new(),
            counts: BTreeMap::new(),
            noise: noise.clamp(0.0, 1.0),
        }
    }

    /// Steps at a rate until the future is dropped; at 0 never. Cancel-safe: a step is whole.
    pub async fn run(&mut self, net: &Net, per_second: f64) {
        if per_second.is_nan() || per_second <= 0.0 {
            return std::future::pending().await;
        }
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / per_second.clamp(0.001, 1e5)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.step(net);
        }
    }

    /// Makes one change: one event, or two for a push (manifest and tag) and its sweep.
    pub fn step(&mut self, net: &Net) {
        if self.random.random_bool(self.noise) {
            return self.make_noise(net);
        }
        match self.random.random_range(0..100) {
            0..40 => self.pull(net),
            40..60 => self.push(net),
            60..70 => self.move_tag(net),
            70..85 => self.star(net),
            85..90 => self.unstar(net),
            90..95 => self.rescan(net),
            _ => self.edit_page(net),
        }
    }

    fn pull(&mut self, net: &Net) {
        let Image { owner, repository, .. } = self.some_image();
        self.count(net, &owner, &repository, 1, 0);
    }

    fn push(&mut self, net: &Net) {
        let Image { owner, repository, .. } = self.some_image();
        let now = ids::now_us();
        let push = Push { repository: &repository, hold: &self.hold, at_us: now };
        let manifest = match self.random.random_bool(0.2) {
            true => records::index(push, &mut self.random),
            false => records::image(push, &mut self.random),
        };
        let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
        net.put(&owner, records::MANIFEST, records::digest_rkey(&digest), manifest);
        let tag = records::tag(&owner, &repository, "latest", &digest, now);
        net.put(&owner, records::TAG, &records::tag_rkey(&repository, "latest"), tag);
        self.count(net, &owner, &repository, 0, 1);
        self.images.push_back(Image { owner, repository, digest });
        if self.images.len() > IMAGES_MAX
            && let Some(old) = self.images.pop_front()
        {
            net.delete(&old.owner, records::MANIFEST, records::digest_rkey(&old.digest));
        }
    }

    fn move_tag(&mut self, net: &Net) {
        let Image { owner, repository, digest } = self.some_image();
        let name = format!("v{}", self.random.random_range(1..20));
        let tag = records::tag(&owner, &repository, &name, &digest, ids::now_us());
        net.put(&owner, records::TAG, &records::tag_rkey(&repository, &name), tag);
    }

    fn star(&mut self, net: &Net) {
        let Image { owner, repository, .. } = self.some_image();
        let user = self.users[self.random.random_range(0..self.users.len())].clone();
        let now = ids::now_us();
        let record = match self.random.random_bool(0.5) {
            true => records::star(&owner, &repository, now),
            false => records::old_star(&owner, &repository, now),
        };
        let rkey = ids::tid(now, self.random.random_range(0..1024));
        net.put(&user, records::STAR, &rkey, record);
        self.stars.push_back((user, rkey));
        if self.stars.len() > STARS_MAX {
            self.unstar(net);
        }
    }

    fn unstar(&mut self, net: &Net) {
        if let Some((user, rkey)) = self.stars.pop_front() {
            net.delete(&user, records::STAR, &rkey);
        }
    }

    fn rescan(&mut self, net: &Net) {
        let Image { owner, repository, digest } = self.some_image();
        let found = [0, 1, 2, 3].map(|_| self.random.random_range(0..5));
        let scan = records::scan(&owner, &repository, &digest, found, ids::now_us());
        net.put(&self.hold, records::SCAN, records::digest_rkey(&digest), scan);
    }

    fn edit_page(&mut self, net: &Net) {
        let Image { owner, repository, .. } = self.some_image();
        let description = format!("# {repository}\nEdition {}.", self.random.random_range(1..1000));
        let page = records::page(&repository, &description, ids::now_us());
        net.put(&owner, records::PAGE, &records::page_rkey(&repository), page);
    }

    fn make_noise(&mut self, net: &Net) {
        let stranger = ids::did_plc(self.random.random(), "stranger");
        match self.random.random_range(0..3) {
            0 => net.identity_event(&stranger),
            1 => net.account_event(&stranger, true, None),
            _ => net.account_event(&stranger, false, Some("deactivated")),
        }
    }

    /// Raises the hold's counts for a repository, from those it has published.
    fn count(&mut self, net: &Net, owner: &str, repository: &str, pulls: u64, pushes: u64) {
        let rkey = ids::stats_rkey(owner, repository);
        let counts = self.counts.entry((owner.to_owned(), repository.to_owned())).or_insert_with(|| {
            let old = net.record(&self.hold, records::STATS, &rkey).map(|record| record.value);
            let field = |name: &str| old.as_ref().and_then(|value| value[name].as_u64()).unwrap_or(0);
            (field("pullCount"), field("pushCount"))
        });
        counts.0 += pulls;
        counts.1 += pushes;
        let stats = records::stats(owner, repository, counts.0, counts.1, ids::now_us());
        net.put(&self.hold, records::STATS, &rkey, stats);
    }

    fn some_image(&mut self) -> Image {
        self.images[self.random.random_range(0..self.images.len())].clone()
    }
}
