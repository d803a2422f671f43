//! PostgreSQL: how a session is opened, and what it promises before the first statement.

mod pooler;
mod refusal;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use diesel::result::Error;
use diesel::{ConnectionError, ConnectionResult};
use diesel_async::pooled_connection::bb8::Pool;
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, PoolableConnection, RecyclingMethod,
};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use futures_util::FutureExt;
use tokio_postgres::Socket;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::OpenError;
use super::last_failure::LastFailure;
use super::statement::Dialect;

/// PostgreSQL's words. Bytes, because a locale may order texts otherwise than the revisions' specification does.
pub(super) const DIALECT: Dialect = Dialect {
    words: [
        ("{now_us}", "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT"),
        ("{greatest}", "GREATEST"),
        ("{bytes}", " COLLATE \"C\""),
        ("{for_share}", " FOR SHARE OF l"),
    ],
};

/// Keepalive probes: the first after this, then as often, so many. A silent peer is dropped after about 3 s, which is
/// D of the lease timing; at double of it a cut-off holder's locks would outlive the TTL's reckoning.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);
const KEEPALIVE_COUNT: u32 = 2;

/// The same for a peer that owes the acknowledgement of an answer, where keepalives are not sent.
const SERVER_ANSWER_MAX: &str = "tcp_user_timeout = 3000";

/// A statement is read once and planned for each list of rows: a plan that was made while a table was empty would read all of
/// it later.
const PLAN_FOR_EACH: &str = "plan_cache_mode = force_custom_plan";

/// What a read-only server is answered with.
pub(super) const READ_ONLY: &str =
    "the server is a hot standby, or read-only by default_transaction_read_only: expected the primary";

/// How sessions are opened.
#[derive(Clone)]
pub(super) struct Sessions {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    /// The limit on each statement, and on an idle transaction; zero = none.
    statement_max: Duration,
}

impl Sessions {
    /// Reads the address. `answer_max` bounds the connecting and each unacknowledged packet; `statement_max` each
    /// statement, and each pause inside a transaction.
    pub(super) fn new(url: &str, answer_max: Duration, statement_max: Duration) -> Result<Self, OpenError> {
        // Certificates and names are always verified, so these two ask for nothing more than `require`.
        let url = url.replace("sslmode=verify-full", "sslmode=require");
        let url = url.replace("sslmode=verify-ca", "sslmode=require");
        let mut config = tokio_postgres::Config::from_str(&url).map_err(|error| OpenError::Url {
            reason: format!("expected postgres://…: {}", chain(&error)),
        })?;
        config
            .connect_timeout(answer_max)
            .tcp_user_timeout(answer_max)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_EVERY)
            .keepalives_interval(KEEPALIVE_EVERY)
            .keepalives_retries(KEEPALIVE_COUNT)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("atcr-workers");
        }
        Ok(Self { config, tls: tls()?, statement_max })
    }

    /// The same without a limit on statements, for migrations.
    pub(super) fn unhurried(&self) -> Self {
        Self { statement_max: Duration::ZERO, ..self.clone() }
    }

    /// A pool of at most `size` of them, made when they are needed. Who waits for one longer than `wait` gets an error.
    pub(super) fn pool(&self, size: u32, wait: Duration, failure: &LastFailure) -> Pool<AsyncPgConnection> {
        let (sessions, failure) = (self.clone(), failure.clone());
        let mut config = ManagerConfig::default();
        // No statement is spent on it, but one that is known to be closed is not handed out: after a restart of the server
        // a pool full of them would fail a batch for each.
        config.recycling_method =
            RecyclingMethod::CustomFunction(Box::new(|session: &mut AsyncPgConnection| {
                let broken = session.is_broken();
                async move { if broken { Err(Error::BrokenTransactionManager) } else { Ok(()) } }.boxed()
            }));
        config.custom_setup = Box::new(move |_| {
            let (sessions, failure) = (sessions.clone(), failure.clone());
            async move { failure.note(sessions.connect().await) }.boxed()
        });
        let manager = AsyncDieselConnectionManager::new_with_config("", config);
        Pool::builder().max_size(size).connection_timeout(wait).build_unchecked(manager)
    }

    /// A connection, and what drives it.
    async fn dial(&self) -> ConnectionResult<Dialled> {
        let bad = |error: tokio_postgres::Error| {
            ConnectionError::BadConnection(if is_read_only(&error) {
                READ_ONLY.to_owned()
            } else {
                refusal::explain(&self.config, &error)
            })
        };
        let connected = match self.config.connect(self.tls.clone()).await {
            Err(error) if self.config.get_ssl_mode() == SslMode::Prefer && is_tls(&error) => {
                tracing::warn!("{}; connecting without TLS, as sslmode=prefer asks for", chain(&error));
                self.config.clone().ssl_mode(SslMode::Disable).connect(self.tls.clone()).await
            }
            connected => connected,
        };
        connected.map_err(bad)
    }

    /// One session, with its settings made and asserted.
    pub(super) async fn connect(&self) -> ConnectionResult<AsyncPgConnection> {
        let (client, connection) = self.dial().await?;
        let mut session = AsyncPgConnection::try_from_client_and_connection(client, connection).await?;
        let settings = format!(
            "SET default_transaction_isolation = 'read committed'; SET synchronous_commit = on;
             SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit};
             SET tcp_keepalives_idle = {every}; SET tcp_keepalives_interval = {every};
             SET tcp_keepalives_count = {KEEPALIVE_COUNT}",
            limit = self.statement_max.as_millis(),
            every = KEEPALIVE_EVERY.as_secs(),
        );
        session.batch_execute(&settings).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
        // Without these a killed client's statement, and its locks, live on until the statement ends, and those of a
        // client that is cut off before it has acknowledged an answer, for a quarter of an hour. Older servers (before
        // versions 14 and 12), and some platforms, do not have them.
        for setting in ["client_connection_check_interval = 100", SERVER_ANSWER_MAX, PLAN_FOR_EACH] {
            let _ = session.batch_execute(&format!("SET {setting}")).await;
        }
        Ok(session)
    }
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

type Dialled = (tokio_postgres::Client, tokio_postgres::Connection<Socket, Stream>);

fn tls() -> Result<MakeRustlsConnect, OpenError> {
    let mut roots = rustls::RootCertStore::empty();
    // A machine without certificates can still connect without TLS; with it, verification says what is missing.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Connect(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Whether the driver's own check found that the server takes no writes.
fn is_read_only(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    // The system's own refusals, of a socket's file say, have a number.
    cause.is_some_and(|c| c.kind() == std::io::ErrorKind::PermissionDenied && c.raw_os_error().is_none())
}

/// Whether TLS itself failed: the certificate of a server that made its own, as distributions set it up, for one.
fn is_tls(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.and_then(|cause| cause.get_ref()).is_some_and(|cause| cause.is::<rustls::Error>())
}

/// An error with its causes: tokio-postgres says only "db error" by itself.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
