//! One attempt to connect: name, TCP, TLS, handshake, all within one limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::http::Response;
use tokio_tungstenite::tungstenite::http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async_with_config};

use super::Config;
use super::address::Host;
use super::opening::{Refusal, Why};
use super::resume::Cursor;
use super::sieve::Sieve;

/// The longest wait that a host may demand. Half is soon enough to be refused again; double leaves a host alone for long
/// after one wrong header.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// A connection after its handshake.
pub(super) type Socket = WebSocketStream<Sieve<MaybeTlsStream<TcpStream>>>;

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
        // The other form, a date, is as good as none: our own waits are of the same length.
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs).map(|wait| wait.min(RETRY_AFTER_MAX));
        Self { status: response.status().as_u16(), refusal, retry_after }
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

/// TCP to the first address that answers; each gets its share of the time, so that a black-holed one does not take all.
async fn reach(host: &Host, within: Duration) -> Result<TcpStream, DialError> {
    let found = tokio::net::lookup_host((host.bare_name(), host.port)).await.map_err(DialError::Lookup)?;
    let addresses: Vec<_> = found.collect();
    let share = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => last = e,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(DialError::Tcp(last))
}

async fn encrypted(
    host: &Host,
    stream: TcpStream,
    tls: &Arc<ClientConfig>,
) -> Result<MaybeTlsStream<TcpStream>, DialError> {
    if !host.tls {
        return Ok(MaybeTlsStream::Plain(stream));
    }
    let name = ServerName::try_from(host.bare_name().to_owned())
        .map_err(|e| DialError::Tls(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
    let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(DialError::Tls)?;
    Ok(MaybeTlsStream::Rustls(stream))
}

async fn shake(
    host: &Host,
    cursor: Cursor,
    dictionary: Option<u32>,
    config: &Config,
    stream: MaybeTlsStream<TcpStream>,
) -> Result<Socket, DialError> {
    let url = host.request(&config.collections, cursor, dictionary);
    let mut request = url.into_client_request().map_err(DialError::Handshake)?;
    if let Ok(agent) = HeaderValue::from_str(&config.user_agent) {
        request.headers_mut().insert(USER_AGENT, agent);
    }
    // The sieve keeps messages under the limit; the library's own limits only stand behind it.
    let limits = WebSocketConfig::default()
        .write_buffer_size(0)
        .max_write_buffer_size(64 << 10)
        .max_frame_size(Some(config.message_bytes_max))
        .max_message_size(Some(config.message_bytes_max));
    let stream = Sieve::new(stream, config.message_bytes_max);
    match client_async_with_config(request, stream, Some(limits)).await {
        Ok((socket, _)) => Ok(socket),
        Err(WsError::Http(answer)) => Err(DialError::Refused(Box::new(Answer::of(&answer)))),
        Err(e) => Err(DialError::Handshake(e)),
    }
}
