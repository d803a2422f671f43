//! A host of the stream: its name, its key, and the address that asks it for our events.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio_tungstenite::tungstenite::http::Uri;

/// One host, from the operator's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub(super) tls: bool,
    pub(super) name: String,
    pub(super) port: u16,
    path_and_query: String,
    key: Arc<str>,
}

/// An address that no stream can be followed at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stream address {url:?}: {reason}")]
pub struct BadAddress {
    url: String,
    reason: &'static str,
}

impl Host {
    /// Reads `wss://HOST[:PORT]/subscribe`, or `ws://`: where that may lead is decided where the settings are read.
    pub fn parse(url: &str) -> Result<Self, BadAddress> {
        let bad = |reason| BadAddress { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| bad("not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("wss") => true,
            Some("ws") => false,
            _ => return Err(bad("expected wss://")),
        };
        if uri.path().ends_with("subscribeEvents") {
            return Err(bad("the v2 wire is not spoken; expected a path like /subscribe"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("a user in the address is not supported"));
        }
        let name =
            uri.host().filter(|name| !name.is_empty()).ok_or_else(|| bad("no host"))?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let key = format!("{name}:{port}").into();
        Ok(Self { tls, name, port, path_and_query, key })
    }

    /// `host:port`, lower-case, the port always there: what positions are saved under.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The host as resolvers and certificates know it: an IPv6 address without its brackets.
    pub(super) fn bare_name(&self) -> &str {
        self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&self.name)
    }

    /// The address that asks for `collections` from `cursor` on.
    pub(super) fn request(&self, collections: &[String], cursor: Option<i64>) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        let mut url = format!("{scheme}://{}{}", self.key, self.path_and_query);
        let mut joint = if self.path_and_query.contains('?') { '&' } else { '?' };
        let mut add = |name: &str, value: &str| {
            let _ = write!(url, "{joint}{name}={}", escaped(value));
            joint = '&';
        };
        collections.iter().for_each(|nsid| add("wantedCollections", nsid));
        if let Some(time_us) = cursor {
            add("cursor", &time_us.to_string());
        }
        url
    }
}

/// Percent-encoded but for what RFC 3986 calls unreserved.
fn escaped(value: &str) -> String {
    value.bytes().fold(String::with_capacity(value.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_same_however_the_address_is_written() {
        for url in ["wss://Jet.Example", "wss://jet.example:443/subscribe", "wss://JET.example/subscribe?x=y"]
        {
            assert_eq!(&**Host::parse(url).unwrap().key(), "jet.example:443");
        }
        assert_eq!(&**Host::parse("ws://[::1]:99/").unwrap().key(), "[::1]:99");
        assert_eq!(Host::parse("ws://[::1]/").unwrap().bare_name(), "::1");
    }

    #[test]
    fn an_address_that_cannot_work_is_refused() {
        for url in ["https://h/subscribe", "h/subscribe", "", "wss://", "wss://u:p@h/"] {
            Host::parse(url).unwrap_err();
        }
        Host::parse("wss://h/xrpc/network.bsky.jetstream.subscribeEvents").unwrap_err();
    }

    #[test]
    fn the_request_names_each_collection_and_the_position() {
        let host = Host::parse("wss://h/subscribe").unwrap();
        let wanted = ["io.atcr.tag".to_owned(), "a&b*".to_owned()];
        let expected =
            "wss://h:443/subscribe?wantedCollections=io.atcr.tag&wantedCollections=a%26b%2A&cursor=17";
        assert_eq!(host.request(&wanted, Some(17)), expected);
        let with_query = Host::parse("ws://h/subscribe?a=b").unwrap();
        assert_eq!(
            with_query.request(&wanted[..1], None),
            "ws://h:80/subscribe?a=b&wantedCollections=io.atcr.tag"
        );
    }
}
