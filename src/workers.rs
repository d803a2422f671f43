//! THE TABLE: each worker with its lease, or the sentence why it has none.
//!
//! | worker | lease | effects | runs if |
//! |---|---|---|---|
//! | `jetstream` | yes | fenced | `jetstream.enabled` |
//! | `backfill` | yes | fenced | `backfill.enabled` |
//! | `labeler` | yes | fenced | `labeler.did` is not empty |
//! | `cleanup` | yes | fenced | `cleanup.enabled` |
//! | `billing` | yes | external | `billing.stripe_secret_key` is set |
//! | `webhooks` | yes | external | `webhooks.enabled` |
//! | `hold-health` | no: each instance tells the registry beside it what is reachable from there | local, in memory | `hold_health.enabled` |

use std::fs::File;
use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leased_actors::worker::Worker;

use crate::atproto::guard::{GuardError, GuardSettings, Guarded};
use crate::atproto::identity::{Dns, IdentityCache, Resolver};
use crate::atproto::key::signing::PrivateKey;
use crate::atproto::{Collection, Did, SyntaxError};
use crate::backfill::ask::Asker;
use crate::backfill::enumerate::Relays;
use crate::backfill::fetch::Fetcher;
use crate::backfill::pace::{Limits, Pace};
use crate::backfill::{Backfill, MISSED_AFTER};
use crate::billing::desired::Ranks;
use crate::billing::holds::Holds;
use crate::billing::stripe::Stripe;
use crate::billing::token::Signer;
use crate::billing::{Billing, LOOK_EVERY};
use crate::cleanup::Cleanup;
use crate::health::{self, HoldHealth};
use crate::ingest::{self, connect};
use crate::labels::{self, Labels, Named};
use crate::outbox::Rules;
use crate::settings::{DidOrUrl, Secret, Settings};
use crate::store::Database;
use crate::webhooks::{ChatHosts, LANES_PER_HOST, Webhooks};

/// Requests at one stranger's host at once.
const PER_HOST: usize = 2;

/// The longest text of a private key; real ones have 50 letters, and a line end.
const KEY_BYTES_MAX: u64 = 1_024;

/// Why the workers could not be put together. A restart cannot help, except with [`SetUpError::Dns`].
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// An address of the stream.
    #[error("jetstream.urls: {0}")]
    Stream(#[from] connect::BadAddress),
    /// The dictionary of the first wire.
    #[error(
        "jetstream.zstd_dictionary = {path:?}: expected a file with the stream's zstd dictionary: {reason}"
    )]
    Dictionary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The client for strangers' addresses.
    #[error("set up the client for outgoing requests: {0}")]
    Client(#[from] GuardError),
    /// The system's resolver.
    #[error("read the name servers of /etc/resolv.conf: {0}; give it a line `nameserver ADDRESS`")]
    Dns(String),
    /// The registry's private key.
    #[error("registry.signing_key = {path:?}: {reason}")]
    SigningKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it. Never a part of it.
        reason: String,
    },
    /// A setting that the others ask for. The settings refuse this before it comes here.
    #[error("{key} = \"\": expected a value while billing.stripe_secret_key is set")]
    Missing {
        /// Which one.
        key: &'static str,
    },
    /// Whom to follow.
    #[error("labeler.did: {0}")]
    Labeler(SyntaxError),
    /// A name that leads nowhere.
    #[error("network.test_hosts = {0:?}: expected an address with a port that this machine can resolve")]
    TestHosts(String),
}

/// Every worker that the settings enable, to be run under the lease of its name.
///
/// # Errors
/// If one of them cannot be put together.
pub fn leased(settings: &Settings, database: &Database) -> Result<Vec<Arc<dyn Worker>>, SetUpError> {
    let mut workers: Vec<Arc<dyn Worker>> = Vec::new();
    if settings.jetstream.enabled {
        workers.push(Arc::new(jetstream(settings, database)?));
    }
    if settings.backfill.enabled {
        workers.push(Arc::new(backfill(settings, database)?));
    }
    if let Some(named) = &settings.labeler.did {
        workers.push(Arc::new(labeler(settings, named, database)?));
    }
    if settings.cleanup.enabled {
        workers.push(Arc::new(cleanup(settings, database)));
    }
    if settings.webhooks.enabled {
        workers.push(Arc::new(webhooks(settings, database)?));
    }
    if let Some(key) = &settings.billing.stripe_secret_key {
        workers.push(Arc::new(billing(settings, database, key)?));
    }
    Ok(workers)
}

/// The worker without a lease, if the settings enable it.
///
/// # Errors
/// If it cannot be put together.
pub fn hold_health(settings: &Settings, database: &Database) -> Result<Option<HoldHealth>, SetUpError> {
    let of_settings = &settings.hold_health;
    if !of_settings.enabled {
        return Ok(None);
    }
    let resolver = resolver(settings)?;
    let asker = health::Asker {
        guarded: Guarded::new(guard(settings)?)?,
        identities: IdentityCache::new(resolver.clone()),
        resolver,
    };
    let options = health::Options {
        interval: of_settings.interval,
        concurrency: of_settings.concurrency as usize,
        of_registry: holds_of_registry(settings),
    };
    Ok(Some(HoldHealth::new(database.clone(), asker, options)))
}

fn jetstream(settings: &Settings, database: &Database) -> Result<ingest::Jetstream, SetUpError> {
    let (stream, network) = (&settings.jetstream, &settings.network);
    let host = |url: &crate::settings::WsUrl| connect::Host::parse(url.as_str());
    let follow = connect::Config {
        hosts: stream.urls.iter().map(host).collect::<Result<_, _>>()?,
        collections: Collection::ALL.iter().map(|collection| collection.nsid().to_owned()).collect(),
        rewind: stream.rewind,
        idle_limit: stream.idle_limit,
        connect_timeout: connect::CONNECT_TIMEOUT,
        message_bytes_max: connect::MESSAGE_BYTES_MAX,
        backoff: connect::Backoff::default(),
        user_agent: network.user_agent.clone(),
        compression: compression(settings)?,
    };
    Ok(ingest::Jetstream { database: database.clone(), follow, resolver: Arc::new(resolver(settings)?) })
}

/// What hosts may be asked to compress with. The file is read here, so that a wrong one is told at the start.
fn compression(settings: &Settings) -> Result<connect::Compression, SetUpError> {
    let client = Some(Guarded::trusting(guard(settings)?)?);
    let Some(path) = &settings.jetstream.zstd_dictionary else {
        return Ok(connect::Compression { dictionary: None, client });
    };
    let wrong = |reason| SetUpError::Dictionary { path: path.clone(), reason };
    let mut bytes = Vec::new();
    // One more than is taken, so that a longer file is seen to be one.
    let read = File::open(path)
        .and_then(|file| file.take(connect::DICTIONARY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error: io::Error| wrong(error.to_string()))?;
    let dictionary = connect::Dictionary::read(&bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(connect::Compression { dictionary: Some(Arc::new(dictionary)), client })
}

/// Relays are the operator's choice; PDSes and did:web hosts are strangers'.
fn backfill(settings: &Settings, database: &Database) -> Result<Backfill, SetUpError> {
    let per_host = settings.backfill.per_host as usize;
    let guard = GuardSettings { per_host, ..guard(settings)? };
    let (guarded, operator) = (Guarded::new(guard.clone())?, Guarded::trusting(guard)?);
    let (pace, of_relays) = (Pace::new(Limits::of(per_host)), Pace::new(Limits::of(per_host)));
    let urls = settings.backfill.relay_urls.iter().map(|url| url.as_str().to_owned());
    Ok(Backfill {
        database: database.clone(),
        relays: Relays::new(urls, Asker::new(operator, of_relays)),
        fetcher: Fetcher::new(resolver(settings)?, guarded, pace),
        seeds: holds_of_registry(settings),
        interval: settings.backfill.interval,
        concurrency: settings.backfill.concurrency as usize,
        missed_after: MISSED_AFTER,
    })
}

/// Whom to follow is the operator's choice; where that one is comes from its document, so a stranger's rules hold.
fn labeler(settings: &Settings, named: &DidOrUrl, database: &Database) -> Result<Labels, SetUpError> {
    let named = match named {
        DidOrUrl::Did(did) => Named::Did(Did::parse(did.as_str()).map_err(SetUpError::Labeler)?),
        DidOrUrl::Url(url) => Named::Url(url.as_str().to_owned()),
    };
    let agent = settings.network.user_agent.clone();
    Ok(Labels {
        database: database.clone(),
        config: labels::Config::new(named, settings.labeler.verify_signatures, agent),
        resolver: Arc::new(resolver(settings)?),
        client: Guarded::new(guard(settings)?)?,
    })
}

fn cleanup(settings: &Settings, database: &Database) -> Cleanup {
    let (interval, history_for) = (settings.cleanup.interval, settings.leases.history_for);
    Cleanup { database: database.clone(), interval, history_for }
}

/// Each endpoint has one lane, so that a turn at its host is always free.
fn webhooks(settings: &Settings, database: &Database) -> Result<Webhooks, SetUpError> {
    let ours = &settings.webhooks;
    let guard = GuardSettings { per_host: LANES_PER_HOST, ..guard(settings)? };
    Ok(Webhooks {
        database: database.clone(),
        rules: Arc::new(Rules::of(settings)),
        guarded: Guarded::new(guard)?,
        chat_hosts: ChatHosts { discord: ours.discord_hosts.clone(), slack: ours.slack_hosts.clone() },
        timeout: ours.timeout,
    })
}

fn holds_of_registry(settings: &Settings) -> Vec<Did> {
    let of_registry = settings.registry.default_hold_did.iter().chain(&settings.registry.managed_holds);
    of_registry.filter_map(|did| Did::parse(did.as_str()).ok()).collect()
}

/// Stripe is the operator's choice of address; where a hold is, its own document says.
fn billing(settings: &Settings, database: &Database, key: &Secret) -> Result<Billing, SetUpError> {
    let (billing, registry, guard) = (&settings.billing, &settings.registry, guard(settings)?);
    if registry.managed_holds.is_empty() {
        tracing::warn!("registry.managed_holds is empty: billing sets no tier at any hold");
    }
    let missing = |key| SetUpError::Missing { key };
    let issuer = registry.did.as_ref().and_then(|did| Did::parse(did.as_str()).ok());
    let signer = Signer {
        issuer: issuer.ok_or_else(|| missing("registry.did"))?,
        key: signing_key(registry.signing_key.as_ref().ok_or_else(|| missing("registry.signing_key"))?)?,
    };
    let (guarded, operator) = (Guarded::new(guard.clone())?, Guarded::trusting(guard)?);
    Ok(Billing {
        database: database.clone(),
        stripe: Stripe::new(operator, billing.stripe_url.as_str(), key),
        ranks: Ranks::new(&billing.tiers, billing.past_due_grace),
        holds: Holds::new(resolver(settings)?, guarded, signer),
        managed: registry.managed_holds.iter().filter_map(|did| Did::parse(did.as_str()).ok()).collect(),
        interval: billing.interval,
        look_every: LOOK_EVERY.min(billing.interval),
        timeout: settings.network.timeout,
    })
}

/// The registry's private key, read here so that a wrong one is told at the start.
fn signing_key(path: &Path) -> Result<PrivateKey, SetUpError> {
    let wrong = |reason: String| SetUpError::SigningKey { path: path.to_owned(), reason };
    let unreadable = |error: io::Error| wrong(format!("expected a file with a private key: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o007 != 0 {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{:03o}", mode & 0o777),
            "registry.signing_key: every user of this machine can reach the private key; chmod 600 it"
        );
    }
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    PrivateKey::read(&text).map_err(|error| wrong(error.to_string()))
}

fn resolver(settings: &Settings) -> Result<Resolver, SetUpError> {
    let guard = guard(settings)?;
    let dns = Dns::new().map_err(SetUpError::Dns)?;
    let (guarded, operator) = (Guarded::new(guard.clone())?, Guarded::trusting(guard)?);
    Ok(Resolver::new(guarded, operator, settings.identity.plc_url.as_str(), Arc::new(dns)))
}

fn guard(settings: &Settings) -> Result<GuardSettings, SetUpError> {
    let network = &settings.network;
    let test_hosts = match &network.test_hosts {
        None => None,
        Some(named) => {
            let mut found = (named.host.as_str(), named.port).to_socket_addrs().ok();
            let first = found.as_mut().and_then(Iterator::next);
            Some(first.ok_or_else(|| SetUpError::TestHosts(format!("{}:{}", named.host, named.port)))?)
        }
    };
    Ok(GuardSettings {
        allow_loopback: network.allow_loopback,
        test_hosts,
        user_agent: network.user_agent.clone(),
        timeout: network.timeout,
        per_host: PER_HOST,
    })
}
