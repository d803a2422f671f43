//! One attempt to connect: name, TCP, TLS, handshake, all within one limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::MaybeTlsStream;
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::http::Response;

use super::Config;
use super::address::Host;
use super::opening::{Refusal, Why};
use super::resume::Cursor;
use crate::atproto::socket::{self, Socket, Stream};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    #[error("look up the host: {0}")]
    Lookup(#[source] io::Error),
    #[error("connect: {0}")]
    Tcp(#[source] io::Error),
    #[error("set up TLS: {0}")]
    Tls(#[source] io::Error),
    #[error("the host answered {} instead of switching protocols{}", .0.status, .0.said())]
    Refused(Box<Answer>),
    #[error("shake hands: {0}")]
    Handshake(#[source] WsError),
}

impl DialError {
    /// A word for a metric's label.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::Lookup(_) => "lookup",
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
            Self::Refused(answer) => match answer.status {
                400..500 => "status_4xx",
                500..600 => "status_5xx",
                _ => "status_other",
            },
            Self::Handshake(_) => "handshake",
        }
    }
}

/// What a host answers that does not switch protocols.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Its XRPC error, if it is one and came with the head of the answer.
    pub(super) refusal: Option<Refusal>,
    /// Not to be asked again for so long.
    pub(super) retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct XrpcError {
    error: String,
    message: Option<String>,
}

impl Answer {
    fn of(response: &Response<Option<Vec<u8>>>) -> Self {
        let body = response.body().as_deref().unwrap_or_default();
        let error = serde_json::from_slice(body).ok();
        let refusal = error.map(|of: XrpcError| Refusal::new(&of.error, of.message.as_deref()));
        Self { status: response.status().as_u16(), refusal, retry_after: socket::retry_after(response) }
    }

    /// Why, as far as it can be told.
    pub(super) fn why(&self) -> Option<Why> {
        self.refusal.as_ref().map(|refusal| refusal.why)
    }

    fn said(&self) -> String {
        self.refusal.as_ref().map(|refusal| format!(": {}", refusal.said)).unwrap_or_default()
    }
}

/// TLS as everywhere here: ring, and the machine's certificates. Not the process-wide default provider, which another
/// library may set first or not at all.
pub(super) fn tls_config() -> Arc<ClientConfig> {
    let native = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(native.certs);
    if added == 0 {
        tracing::warn!(errors = ?native.errors, "no certificate authorities found on this machine; wss:// will fail");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Connects to `host` and asks for events from `cursor` on, compressed with this dictionary, if any. Cancel-safe: a
/// dropped attempt leaves nothing behind.
pub(super) async fn dial(
    host: &Host,
    cursor: Cursor,
    dictionary: Option<u32>,
    config: &Config,
    tls: &Arc<ClientConfig>,
) -> Result<Socket, DialError> {
    let attempt = async {
        let stream = encrypted(host, reach(host, config.connect_timeout).await?, tls).await?;
        shake(host, cursor, dictionary, config, stream).await
    };
    timeout(config.connect_timeout, attempt).await.unwrap_or(Err(DialError::Timeout(config.connect_timeout)))
}

async fn reach(host: &Host, within: Duration) -> Result<TcpStream, DialError> {
    let found = tokio::net::lookup_host((host.bare_name(), host.port)).await.map_err(DialError::Lookup)?;
    socket::tcp(&Vec::from_iter(found), within).await.map_err(DialError::Tcp)
}

async fn encrypted(host: &Host, stream: TcpStream, tls: &Arc<ClientConfig>) -> Result<Stream, DialError> {
    if !host.tls {
        return Ok(MaybeTlsStream::Plain(stream));
    }
    socket::tls(host.bare_name(), stream, tls).await.map_err(DialError::Tls)
}

async fn shake(
    host: &Host,
    cursor: Cursor,
    dictionary: Option<u32>,
    config: &Config,
    stream: Stream,
) -> Result<Socket, DialError> {
    let url = host.request(&config.collections, cursor, dictionary);
    match socket::shake(&url, &config.user_agent, config.message_bytes_max, stream).await {
        Ok(socket) => Ok(socket),
        Err(WsError::Http(answer)) => Err(DialError::Refused(Box::new(Answer::of(&answer)))),
        Err(e) => Err(DialError::Handshake(e)),
    }
}
