//! TXT records of DNS.

use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::time::timeout;

/// Over all attempts. A name server that takes longer is as good as silent; half would give up on slow but honest ones.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Looks up TXT records.
#[async_trait]
pub trait TxtLookup: Send + Sync {
    /// The texts at `name` (absolute, with its final dot); none if there are none. An error says why it is not known.
    async fn txt(&self, name: &str) -> Result<Vec<String>, String>;
}

/// DNS as this machine is set up for it.
pub struct Dns(TokioResolver);

impl Dns {
    /// Reads the machine's settings. An error names what is wrong with them.
    pub fn new() -> Result<Self, String> {
        Self::of(TokioResolver::builder_tokio().map_err(|error| error.to_string())?)
    }

    fn of(mut builder: ResolverBuilder<TokioRuntimeProvider>) -> Result<Self, String> {
        // An answer from before an identity event would undo it.
        builder.options_mut().cache_size = 0;
        builder.build().map(Self).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl TxtLookup for Dns {
    async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        let looked_up = timeout(TIMEOUT, self.0.txt_lookup(name)).await;
        match looked_up.map_err(|_| "dns did not answer in time".to_owned())? {
            Ok(lookup) => Ok(lookup.answers().iter().filter_map(|record| text(&record.data)).collect()),
            // Said by the name's own server: no such name, or nothing of the kind there.
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(format!("dns: {error}")),
        }
    }
}

/// A text is sent in pieces of at most 255 bytes, and means their concatenation.
fn text(data: &RData) -> Option<String> {
    let RData::TXT(txt) = data else { return None };
    String::from_utf8(txt.txt_data.concat()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
    use tokio::net::UdpSocket;

    use super::*;

    /// A name server that answers by the first letter of the name, in the bytes of RFC 1035.
    async fn name_server() -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut query = [0; 512];
            while let Ok((_, from)) = socket.recv_from(&mut query).await {
                socket.send_to(&answer(&query), from).await.unwrap();
            }
        });
        let mut connection = ConnectionConfig::udp();
        connection.port = at.port();
        let server = NameServerConfig::new(at.ip(), true, vec![connection]);
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        Dns::of(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())).unwrap()
    }

    fn answer(query: &[u8]) -> Vec<u8> {
        let name_len = query[12..].iter().position(|b| *b == 0).unwrap() + 1;
        let (code, count) = match query[13] {
            b't' => (0, 2),
            b'e' => (0, 0),
            b'n' => (3, 0),
            b's' => (2, 0),
            _ => (5, 0),
        };
        let mut answer =
            [&query[..2], &[0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0], &query[12..12 + name_len + 4]]
                .concat();
        for text in ["\x03did\x07=did:m:", "\x06v=spf1"].into_iter().take(count.into()) {
            answer.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, u8::try_from(text.len()).unwrap()]);
            answer.extend(text.as_bytes());
        }
        answer
    }

    #[tokio::test]
    async fn a_text_in_pieces_is_one_text() {
        let texts = name_server().await.txt("t.example.").await.unwrap();
        assert_eq!(texts, ["did=did:m:", "v=spf1"]);
    }

    #[tokio::test]
    async fn no_such_name_and_nothing_there_are_answers() {
        let dns = name_server().await;
        assert_eq!(dns.txt("n.example.").await, Ok(Vec::new()));
        assert_eq!(dns.txt("e.example.").await, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn a_server_in_trouble_is_no_answer() {
        let dns = name_server().await;
        assert!(dns.txt("s.example.").await.is_err());
        assert!(dns.txt("refused.example.").await.is_err());
    }
}
