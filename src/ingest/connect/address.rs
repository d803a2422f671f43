//! A host of the stream: its name, its wire, its key, and the addresses that ask it for our events and its dictionary.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio_tungstenite::tungstenite::http::Uri;

use super::resume::Cursor;
use crate::ingest::wire::Wire;

/// The last part of the second wire's path, and of the path of its dictionary.
const SUBSCRIBE: &str = "subscribeEvents";
const DICTIONARY: &str = "getZstdDictionary";

/// One host, from the operator's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub(super) tls: bool,
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) wire: Wire,
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
    /// Reads `wss://HOST[:PORT]/PATH`, or `ws://`: where that may lead is decided where the settings are read. The path
    /// tells the wire.
    pub fn parse(url: &str) -> Result<Self, BadAddress> {
        let bad = |reason| BadAddress { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| bad("not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("wss") => true,
            Some("ws") => false,
            _ => return Err(bad("expected wss://")),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("a user in the address is not supported"));
        }
        let name =
            uri.host().filter(|name| !name.is_empty()).ok_or_else(|| bad("no host"))?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let wire = Wire::of_path(uri.path());
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let key = format!("{name}:{port}").into();
        Ok(Self { tls, name, port, wire, path_and_query, key })
    }

    /// By which wire it is asked.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// `host:port`, lower-case, the port always there: what positions are saved under.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The host as resolvers and certificates know it: an IPv6 address without its brackets.
    pub(super) fn bare_name(&self) -> &str {
        self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&self.name)
    }

    /// The address that asks for `collections` from `cursor` on; with the number of a dictionary, compressed by it.
    ///
    /// Of the second wire every kind is asked for: those that are not commits tell of accounts that go and repositories
    /// that have to be read again.
    pub(super) fn request(&self, collections: &[String], cursor: Cursor, dictionary: Option<u32>) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        let mut url = format!("{scheme}://{}{}", self.key, self.path_and_query);
        let mut joint = if self.path_and_query.contains('?') { '&' } else { '?' };
        let mut add = |name: &str, value: &str| {
            let _ = write!(url, "{joint}{name}={}", escaped(value));
            joint = '&';
        };
        let wanted = match self.wire {
            Wire::V1 => "wantedCollections",
            Wire::V2 => "collections",
        };
        collections.iter().for_each(|nsid| add(wanted, nsid));
        if let Some(position) = cursor.parameter() {
            add("cursor", &position.to_string());
        }
        match (self.wire, dictionary) {
            (_, None) => {}
            (Wire::V1, Some(_)) => add("compress", "true"),
            (Wire::V2, Some(id)) => add("zstdDictionary", &id.to_string()),
        }
        url
    }

    /// The address of the dictionary of this number, or of the present one. Second wire only.
    pub(super) fn dictionary(&self, id: Option<u32>) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let path = self.path_and_query.split('?').next().unwrap_or_default().trim_end_matches('/');
        let prefix = path.strip_suffix(SUBSCRIBE).unwrap_or("/");
        let mut url = format!("{scheme}://{}{prefix}{DICTIONARY}", self.key);
        if let Some(id) = id {
            let _ = write!(url, "?id={id}");
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
    }

    #[test]
    fn the_path_tells_the_wire() {
        for (path, wire) in [
            ("/subscribe", Wire::V1),
            ("/", Wire::V1),
            ("/xrpc/network.bsky.jetstream.subscribeEvents", Wire::V2),
            ("/a/network.bsky.jetstream.subscribeEvents/?b=c", Wire::V2),
        ] {
            assert_eq!(Host::parse(&format!("wss://h{path}")).unwrap().wire(), wire, "{path}");
        }
    }

    #[test]
    fn the_request_names_each_collection_and_the_position() {
        let host = Host::parse("wss://h/subscribe").unwrap();
        let wanted = ["io.atcr.tag".to_owned(), "a&b*".to_owned()];
        let expected =
            "wss://h:443/subscribe?wantedCollections=io.atcr.tag&wantedCollections=a%26b%2A&cursor=17";
        assert_eq!(host.request(&wanted, Cursor::Time(17), None), expected);
        assert_eq!(host.request(&wanted, Cursor::Time(17), Some(5)), format!("{expected}&compress=true"));
        let with_query = Host::parse("ws://h/subscribe?a=b").unwrap();
        assert_eq!(
            with_query.request(&wanted[..1], Cursor::Live, None),
            "ws://h:80/subscribe?a=b&wantedCollections=io.atcr.tag"
        );
    }

    #[test]
    fn the_second_wire_has_names_of_its_own_and_brings_its_dictionary() {
        let host = Host::parse("wss://h/xrpc/network.bsky.jetstream.subscribeEvents").unwrap();
        let wanted = ["io.atcr.tag".to_owned()];
        assert_eq!(
            host.request(&wanted, Cursor::Seq(17), Some(20_260_811)),
            "wss://h:443/xrpc/network.bsky.jetstream.subscribeEvents?collections=io.atcr.tag&cursor=17\
             &zstdDictionary=20260811"
        );
        assert_eq!(host.dictionary(None), "https://h:443/xrpc/network.bsky.jetstream.getZstdDictionary");
        let beside = Host::parse("ws://h/a/network.bsky.jetstream.subscribeEvents/?x=y").unwrap();
        assert_eq!(beside.dictionary(Some(3)), "http://h:80/a/network.bsky.jetstream.getZstdDictionary?id=3");
    }
}
