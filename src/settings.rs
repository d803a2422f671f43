//! What an operator decides, read once at the start: the embedded defaults, under a file, under the environment.
//!
//! Owns every key's name, type, limits and relations. Knows nothing of the database, the network or any worker.
//! In the order of reading: `layers` -> `sections` -> `relations` -> `listing`; all problems are collected
//! on the way and told together.

mod address;
mod billing;
mod database;
mod duration;
mod layers;
mod leases;
mod listing;
mod problem;
mod relations;
mod secret;
mod sections;
mod shape;
#[cfg(test)]
mod tests;
mod text;

use std::ffi::OsString;
use std::path::Path;

use config::Config;
use serde::Deserialize;

pub use address::{Did, DidOrUrl, Host, HostPort, HttpUrl, Listen, WsUrl};
pub use billing::{Billing, Tier};
pub use database::{Backend, DatabaseUrl};
pub use leases::Leases;
pub use listing::Listed;
pub use problem::{Problem, SettingsError};
pub use secret::Secret;
pub use sections::*;

use layers::Layer;

/// Every setting, checked. Exactly the keys of `settings/default.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // Each section says what it is.
pub struct Settings {
    pub instance: Instance,
    pub database: Database,
    pub leases: Leases,
    pub admin: Admin,
    pub network: Network,
    pub identity: Identity,
    pub jetstream: Jetstream,
    pub backfill: Backfill,
    pub labeler: Labeler,
    pub webhooks: Webhooks,
    pub cleanup: Cleanup,
    pub billing: Billing,
    pub registry: Registry,
    pub hold_health: HoldHealth,
    pub telemetry: Telemetry,
    #[serde(skip)]
    listing: Vec<Listed>,
}

impl Settings {
    /// The embedded `settings/default.toml`.
    pub fn default_toml() -> &'static str {
        include_str!("../settings/default.toml")
    }

    /// Reads the defaults, `file` over them and the variables of `env` that begin with `ATCR__` over both.
    ///
    /// # Errors
    /// Every problem found: unreadable file, unknown keys and variables, bad values, broken relations. A restart
    /// cannot help (exit code 78).
    pub fn load(
        file: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Settings, SettingsError> {
        let mut problems = Vec::new();
        let defaults = Layer::defaults();
        let mut layers = vec![defaults.clone()];
        layers.extend(file.map(|path| Layer::file(path, &defaults, &mut problems)));
        layers.push(Layer::environment(env, &defaults, &mut problems));

        let Some((mut settings, merged)) = read(layers, &defaults, &mut problems) else {
            return Err(SettingsError::new(problems));
        };
        // A value that was replaced by its default would break relations that the operator never wrote.
        if problems.iter().all(Problem::leaves_the_values) {
            let broken = relations::broken(&settings);
            problems
                .extend(broken.into_iter().map(|(key, expected)| Problem::value(&merged, key, &expected)));
        }
        if !problems.is_empty() {
            return Err(SettingsError::new(problems));
        }
        settings.instance.label_or_host_name();
        settings.listing = listing::list(&settings, &merged);
        Ok(settings)
    }

    /// Every key with its effective value and where that came from, by key; secrets masked.
    pub fn listing(&self) -> &[Listed] {
        &self.listing
    }

    /// The backend that `database.url` chooses.
    pub fn backend(&self) -> Backend {
        self.database.url.backend()
    }
}

/// This process's environment for [`Settings::load`]: never fails, unlike `std::env::vars`, on what is not UTF-8.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |raw: OsString| raw.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// Folds the layers into the structs. A value that cannot be read is told, and its default takes its place, so that
/// the next one is found too: at most one pass per key. None: a problem that no default mends.
fn read(mut layers: Vec<Layer>, defaults: &Layer, problems: &mut Vec<Problem>) -> Option<(Settings, Config)> {
    for _ in 0..=defaults.len() {
        let merged = layers::merge(&layers);
        match merged.clone().try_deserialize() {
            Ok(settings) => return Some((settings, merged)),
            Err(error) => {
                let (path, expected) = problem::place(&error);
                problems.push(Problem::value(&merged, &path, &expected));
                layers.push(defaults.only(layers::key_of(&path)));
            }
        }
    }
    None
}
