//! Addresses and names in the settings: checked for form alone. Nothing here is looked up.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use url::Url;

/// A text newtype that `check` admits; `None` from it refuses with the sentence.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $check:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, &'static str> {
                let check: fn(&str) -> Option<String> = $check;
                check(text).map(Self).ok_or($expected)
            }
        }
    };
}

checked_text! {
    /// The base of requests over http or https, without a slash at its end: paths are appended to it.
    HttpUrl,
    |text| {
        let url = without_login(text, &["http", "https"])?;
        let plain = url.query().is_none() && url.fragment().is_none();
        plain.then(|| url.as_str().trim_end_matches('/').to_owned())
    },
    "expected an address such as \"https://example.com\", without a login, a query or a fragment"
}

checked_text! {
    /// The address of an event stream. Its path tells the wire.
    WsUrl,
    |text| {
        let url = without_login(text, &["ws", "wss"])?;
        let path = url.path().trim_end_matches('/');
        let known = ["/subscribe", "/network.bsky.jetstream.subscribeEvents"];
        known.iter().any(|wire| path.ends_with(wire)).then(|| url.as_str().to_owned())
    },
    "expected an address such as \"wss://example.com/subscribe\", without a login, its path ending in /subscribe or \
     /network.bsky.jetstream.subscribeEvents"
}

checked_text! {
    /// A DID of the two methods that the network uses (atproto.com/specs/did).
    Did,
    |text| {
        let good = match text.strip_prefix("did:")?.split_once(':')? {
            ("plc", id) => id.len() == 24 && id.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')),
            // A port is written %3A; paths are not allowed.
            ("web", id) => is_host(&id.replacen("%3A", ":", 1)),
            _ => false,
        };
        (good && text.len() <= 2048).then(|| text.to_owned())
    },
    "expected a DID such as \"did:plc:ewvi7nxzyoun6zhxrhs64oiz\" or \"did:web:example.com\""
}

checked_text! {
    /// A host name, with a port where it is not the usual one; lower case.
    Host,
    |text| is_host(text).then(|| text.to_ascii_lowercase()),
    "expected a host such as \"example.com\""
}

impl HttpUrl {
    /// Whether it is http to another machine.
    pub fn is_plain_to_elsewhere(&self) -> bool {
        is_plain_to_elsewhere(&self.0)
    }
}

impl WsUrl {
    /// Whether it is ws to another machine.
    pub fn is_plain_to_elsewhere(&self) -> bool {
        is_plain_to_elsewhere(&self.0)
    }
}

/// How a labeler is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DidOrUrl {
    /// By its DID.
    Did(Did),
    /// By where it answers.
    Url(HttpUrl),
}

impl DidOrUrl {
    /// Whether it is http to another machine.
    pub fn is_plain_to_elsewhere(&self) -> bool {
        matches!(self, Self::Url(url) if url.is_plain_to_elsewhere())
    }
}

impl FromStr for DidOrUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let named = text.parse().map(Self::Did).or_else(|_| text.parse().map(Self::Url));
        named.map_err(|_: &str| "expected a DID such as \"did:web:example.com\" or an address such as \"https://example.com\"")
    }
}

/// An address with a port, by name or by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name, an IPv4 address or an IPv6 address without its brackets.
    pub host: String,
    /// Its port, not 0.
    pub port: u16,
}

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parts = text.rsplit_once(':').filter(|_| is_host(text));
        let port = parts.and_then(|(_, port)| port.parse().ok()).filter(|port| *port != 0);
        let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let both = parts.zip(port).map(|((host, _), port)| HostPort { host: bare(host), port });
        both.ok_or("expected HOST:PORT, such as \"127.0.0.1:8080\"")
    }
}

/// Where the status page listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On 127.0.0.1, at the first free port from 9464 to 9479.
    Auto,
    /// Nowhere.
    Off,
    /// Here; taken is a failure.
    At(SocketAddr),
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "auto" => Ok(Self::Auto),
            "" => Ok(Self::Off),
            address => address.parse().map(Self::At).map_err(|_| {
                "expected \"auto\", an IP address with a port such as \"127.0.0.1:9464\" or \"[::1]:9464\", or nothing"
            }),
        }
    }
}

fn without_login(text: &str, schemes: &[&str]) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let good = schemes.contains(&url.scheme()) && url.username().is_empty() && url.password().is_none();
    (good && url.host().is_some()).then_some(url)
}

/// Whether `text` is a whole authority without a login: nothing of it may end up in a path or a query.
fn is_host(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    let url = || Url::parse(&format!("http://{text}/")).ok();
    !text.is_empty() && text.bytes().all(plain) && url().is_some_and(|url| url.path() == "/")
}

fn is_plain_to_elsewhere(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return true };
    let here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    matches!(url.scheme(), "http" | "ws") && !here
}
