//! The background process of an AT Protocol container registry. ARCHITECTURE.md is the map.
//!
//! From the ground up: `settings` and `atproto` know nothing of the rest; `store` is the only door to the database;
//! each worker has its own module; `workers` is the table of them; `app` puts everything together.

pub mod app;
pub mod atproto;
pub mod backfill;
pub mod billing;
pub mod cleanup;
pub mod cli;
pub mod health;
pub mod ingest;
pub mod labels;
pub mod machine;
pub mod metrics;
pub mod outbox;
pub mod parent;
pub mod service;
pub mod settings;
pub mod signals;
pub mod status;
pub mod store;
pub mod telemetry;
pub mod webhooks;
pub mod wishes;
pub mod workers;
