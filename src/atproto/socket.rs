//! What every connection to a stream stands on: TCP within its share of the time, TLS as everywhere here, the handshake with
//! its limits, and (in [`sieve`], [`liveness`]) messages that cannot end it and the signs that it is alive. Whom to connect
//! to, and what the messages say, is the worker's business that follows the stream.

pub(crate) mod liveness;
pub(crate) mod sieve;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::http::Response;
use tokio_tungstenite::tungstenite::http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async_with_config};

use sieve::Sieve;

/// The longest wait that a host may demand. Half is soon enough to be refused again; double leaves a host alone for long
/// after one wrong header.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// A connection before its handshake.
pub(crate) type Stream = MaybeTlsStream<TcpStream>;

/// A connection after its handshake. A message over its limit arrives empty, a text as bytes.
pub(crate) type Socket = WebSocketStream<Sieve<Stream>>;

/// TCP to the first address that answers; each gets its share of the time, so that a black-holed one does not take all.
pub(crate) async fn tcp(addresses: &[SocketAddr], within: Duration) -> io::Result<TcpStream> {
    let share = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => last = e,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// TLS with the host of this name.
pub(crate) async fn tls(name: &str, stream: TcpStream, config: &Arc<ClientConfig>) -> io::Result<Stream> {
    let name =
        ServerName::try_from(name.to_owned()).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
    Ok(MaybeTlsStream::Rustls(stream))
}

/// The handshake, for this address, which is shown to the host as it is. No message is longer than `bytes_max`.
pub(crate) async fn shake(
    url: &str,
    user_agent: &str,
    bytes_max: usize,
    stream: Stream,
) -> Result<Socket, WsError> {
    let mut request = url.into_client_request()?;
    if let Ok(agent) = HeaderValue::from_str(user_agent) {
        request.headers_mut().insert(USER_AGENT, agent);
    }
    // The sieve keeps messages under the limit; the library's own limits only stand behind it.
    let limits = WebSocketConfig::default()
        .write_buffer_size(0)
        .max_write_buffer_size(64 << 10)
        .max_frame_size(Some(bytes_max))
        .max_message_size(Some(bytes_max));
    let stream = Sieve::new(stream, bytes_max);
    client_async_with_config(request, stream, Some(limits)).await.map(|(socket, _)| socket)
}

/// How long a host that does not switch protocols wants not to be asked.
pub(crate) fn retry_after(answer: &Response<Option<Vec<u8>>>) -> Option<Duration> {
    // The other form, a date, is as good as none: our own waits are of the same length.
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
