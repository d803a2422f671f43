//! One struct per section, but for `leases` and `billing`, which have files of their own. What a key is for, and why its default is what it is, stands in `settings/default.toml`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::address::{Did, DidOrUrl, Host, HostPort, HttpUrl, Listen, WsUrl};
use super::database::DatabaseUrl;
use super::secret::Secret;
use super::{duration, text};

/// `[instance]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Shown to people; never an identity, never empty.
    #[serde(deserialize_with = "text::label")]
    pub label: String,
}

impl Instance {
    /// The label in effect: an empty one is the host's name.
    pub(super) fn label_or_host_name(&mut self) {
        if self.label.is_empty() {
            self.label = rustix::system::uname().nodename().to_string_lossy().into_owned();
        }
    }
}

/// `[database]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// For reads and writes.
    #[serde(deserialize_with = "text::parsed")]
    pub url: DatabaseUrl,
    /// For sessions, where `url` leads to a pooler; PostgreSQL.
    #[serde(deserialize_with = "text::optional")]
    pub direct_url: Option<DatabaseUrl>,
    /// 1 to 1000.
    #[serde(deserialize_with = "text::between::<1, 1000, _>")]
    pub max_connections: u32,
}

/// `[admin]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Where the status page is served.
    #[serde(deserialize_with = "text::parsed")]
    pub listen: Listen,
    /// Without one, nothing that changes state is served.
    #[serde(deserialize_with = "text::optional")]
    pub token: Option<Secret>,
}

/// `[network]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The guarded client may reach this machine, and plain http: tests and localnet only.
    pub allow_loopback: bool,
    /// Where names under `.test` and `.localhost` lead; only with `allow_loopback`.
    #[serde(deserialize_with = "text::optional")]
    pub test_hosts: Option<HostPort>,
    /// A header value, with the program's version in it.
    #[serde(deserialize_with = "text::user_agent")]
    pub user_agent: String,
    /// One whole outgoing request.
    #[serde(deserialize_with = "duration::above_zero")]
    pub timeout: Duration,
}

/// `[identity]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Answers for did:plc.
    #[serde(deserialize_with = "text::parsed")]
    pub plc_url: HttpUrl,
}

/// `[jetstream]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jetstream {
    /// Whether the worker runs.
    pub enabled: bool,
    /// Tried in order; not empty while enabled.
    #[serde(deserialize_with = "text::list")]
    pub urls: Vec<WsUrl>,
    /// Read again after a reconnect.
    #[serde(deserialize_with = "duration::any")]
    pub rewind: Duration,
    /// A stream silent for so long is dead.
    #[serde(deserialize_with = "duration::above_zero")]
    pub idle_limit: Duration,
    /// The dictionary of the first wire. None: it is read uncompressed.
    #[serde(deserialize_with = "text::optional_path")]
    pub zstd_dictionary: Option<PathBuf>,
}

/// `[backfill]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backfill {
    /// Whether the worker runs.
    pub enabled: bool,
    /// From the end of a run to the next; zero = once, the lease is kept.
    #[serde(deserialize_with = "duration::any")]
    pub interval: Duration,
    /// Asked for repositories.
    #[serde(deserialize_with = "text::list")]
    pub relay_urls: Vec<HttpUrl>,
    /// Repositories at once, 1 to 256.
    #[serde(deserialize_with = "text::between::<1, 256, _>")]
    pub concurrency: u32,
    /// Of those on one host, 1 to 256.
    #[serde(deserialize_with = "text::between::<1, 256, _>")]
    pub per_host: u32,
}

/// `[labeler]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labeler {
    /// None: off.
    #[serde(deserialize_with = "text::optional")]
    pub did: Option<DidOrUrl>,
    /// Whether a label without a valid signature is without effect.
    pub verify_signatures: bool,
}

/// `[webhooks]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// Whether the worker runs.
    pub enabled: bool,
    /// One delivery.
    #[serde(deserialize_with = "duration::above_zero")]
    pub timeout: Duration,
    /// From the event to the last attempt.
    #[serde(deserialize_with = "duration::above_zero")]
    pub give_up_after: Duration,
    /// Get Discord's format.
    #[serde(deserialize_with = "text::list")]
    pub discord_hosts: Vec<Host>,
    /// Get Slack's format.
    #[serde(deserialize_with = "text::list")]
    pub slack_hosts: Vec<Host>,
}

/// `[cleanup]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleanup {
    /// Whether the worker runs.
    pub enabled: bool,
    /// From one sweep to the next.
    #[serde(deserialize_with = "duration::above_zero")]
    pub interval: Duration,
}

/// `[registry]`: the one that we work for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Where people reach it.
    #[serde(deserialize_with = "text::optional")]
    pub base_url: Option<HttpUrl>,
    /// Its DID.
    #[serde(deserialize_with = "text::optional")]
    pub did: Option<Did>,
    /// A file with a multibase private key.
    #[serde(deserialize_with = "text::optional_path")]
    pub signing_key: Option<PathBuf>,
    /// Its other names.
    #[serde(deserialize_with = "text::list")]
    pub domains: Vec<Host>,
    /// The hold of users who chose none.
    #[serde(deserialize_with = "text::optional")]
    pub default_hold_did: Option<Did>,
    /// The holds whose tiers billing sets.
    #[serde(deserialize_with = "text::list")]
    pub managed_holds: Vec<Did>,
}

/// `[hold_health]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldHealth {
    /// Whether the worker runs.
    pub enabled: bool,
    /// From one round to the next.
    #[serde(deserialize_with = "duration::above_zero")]
    pub interval: Duration,
    /// Holds at once, 1 to 256.
    #[serde(deserialize_with = "text::between::<1, 256, _>")]
    pub concurrency: u32,
}

/// `[telemetry]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// How a line of the log looks.
    #[serde(deserialize_with = "text::parsed")]
    pub format: LogFormat,
    /// Directives for `EnvFilter`, known to be good.
    #[serde(deserialize_with = "text::log_directives")]
    pub level: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty where the log goes to a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Pretty,
    /// For machines.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "auto" => Ok(Self::Auto),
            "pretty" => Ok(Self::Pretty),
            "json" => Ok(Self::Json),
            _ => Err("expected \"auto\", \"pretty\" or \"json\""),
        }
    }
}
