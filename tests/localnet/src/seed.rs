//! A registry-like network: users with images, tags, pages and stars, and a hold that keeps their blobs.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::records::{self, Push};
use crate::{Net, ids};

/// 2026-09-01T12:00:00Z: when the seeded world was made. Fixed, so that its records are the same in every run.
const SEEDED_AT_US: i64 = 1_788_264_000_000_000;
const MINUTE_US: i64 = 60_000_000;

const NAMES: [&str; 8] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];
const REPOSITORIES: [&str; 6] = ["hello", "tools/hello", "web", "api", "worker", "db-backup"];
const TAGS: [&str; 3] = ["latest", "v1", "v2"];

/// How much is seeded.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Accounts with images.
    pub users: usize,
    /// Repositories of each.
    pub repositories: usize,
    /// Manifests in each.
    pub manifests: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { users: 4, repositories: 2, manifests: 2 }
    }
}

/// One seeded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// DID.
    pub owner: String,
    /// Repository name.
    pub repository: String,
    /// `sha256:...`
    pub digest: String,
}

/// What was seeded, for traffic and for assertions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeded {
    /// DIDs of the users.
    pub users: Vec<String>,
    /// `did:web:hold01.test`
    pub hold: String,
    /// Every manifest.
    pub images: Vec<Image>,
}

/// Fills a network. The records follow from `seed` and the network's own seed alone (revisions do not).
pub fn seed(net: &Net, size: Size, seed: u64) -> Seeded {
    let mut random = StdRng::seed_from_u64(seed);
    let users: Vec<String> = (0..size.users.max(1)).map(|i| net.add_account(&user_name(i))).collect();
    let hold = net.add_web_account("hold01");
    net.put(&hold, records::CAPTAIN, "self", records::captain(&users[0], SEEDED_AT_US));
    for (i, member) in users.iter().enumerate().skip(1) {
        let rkey = ids::tid(SEEDED_AT_US + i as i64, 0);
        net.put(&hold, records::CREW, &rkey, records::crew(member, SEEDED_AT_US));
    }
    let mut images = Vec::new();
    for owner in &users {
        net.put(owner, records::PROFILE, "self", records::profile(&hold, SEEDED_AT_US));
        for i in 0..size.repositories {
            let at_us = SEEDED_AT_US + MINUTE_US * (images.len() as i64 + 1);
            let of = Of { net, hold: &hold, owner, repository: &repository_name(i), at_us };
            images.extend(of.seed_repository(size.manifests, &mut random));
        }
    }
    seed_stars(net, &users, &images);
    Seeded { users, hold, images }
}

/// The name of a repository by number.
pub(crate) fn repository_name(number: usize) -> String {
    numbered(&REPOSITORIES, number)
}

fn user_name(number: usize) -> String {
    numbered(&NAMES, number)
}

/// The names first, then the same with a number behind.
fn numbered(names: &[&str], number: usize) -> String {
    let (name, round) = (names[number % names.len()], number / names.len());
    if round == 0 { name.to_owned() } else { format!("{name}{round}") }
}

struct Of<'a> {
    net: &'a Net,
    hold: &'a str,
    owner: &'a str,
    repository: &'a str,
    at_us: i64,
}

impl Of<'_> {
    fn seed_repository(&self, manifests: usize, random: &mut StdRng) -> Vec<Image> {
        let &Of { net, hold, owner, repository, at_us } = self;
        let page = records::page(repository, &format!("# {repository}\nA test image."), at_us);
        net.put(owner, records::PAGE, &records::page_rkey(repository), page);
        let images: Vec<Image> = (0..manifests).map(|i| self.seed_image(i, random)).collect();
        let stats = records::stats(owner, repository, random.random_range(0..500), manifests as u64, at_us);
        net.put(hold, records::STATS, &ids::stats_rkey(owner, repository), stats);
        images
    }

    /// Each third manifest is an index; tags come in the newer and the old shape by turns.
    fn seed_image(&self, i: usize, random: &mut StdRng) -> Image {
        let &Of { net, hold, owner, repository, at_us } = self;
        let push = Push { repository, hold, at_us: at_us + i as i64 };
        let is_index = i % 3 == 1;
        let manifest = if is_index { records::index(push, random) } else { records::image(push, random) };
        let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
        net.put(owner, records::MANIFEST, records::digest_rkey(&digest), manifest);
        let tag = TAGS[i % TAGS.len()];
        let record = match i % 2 {
            0 => records::tag(owner, repository, tag, &digest, at_us),
            _ => records::old_tag(repository, tag, &digest, at_us),
        };
        net.put(owner, records::TAG, &records::tag_rkey(repository, tag), record);
        if !is_index {
            let found = [0, random.random_range(0..3), random.random_range(0..9), random.random_range(0..20)];
            let scan = records::scan(owner, repository, &digest, found, at_us);
            net.put(hold, records::SCAN, records::digest_rkey(&digest), scan);
        }
        Image { owner: owner.to_owned(), repository: repository.to_owned(), digest }
    }
}

/// Every user stars the next one's repositories, in both shapes by turns.
fn seed_stars(net: &Net, users: &[String], images: &[Image]) {
    for (i, user) in users.iter().enumerate() {
        let owner = &users[(i + 1) % users.len()];
        let mut repositories: Vec<_> =
            images.iter().filter(|of| of.owner == *owner).map(|of| &of.repository).collect();
        repositories.dedup();
        for (n, repository) in repositories.into_iter().enumerate() {
            let record = match n % 2 {
                0 => records::star(owner, repository, SEEDED_AT_US),
                _ => records::old_star(owner, repository, SEEDED_AT_US),
            };
            net.put(user, records::STAR, &ids::tid(SEEDED_AT_US + n as i64, i as u16), record);
        }
    }
}
