//! The one client that asks addresses which strangers chose: of a PDS, a hold, a webhook, a did:web. It owns every limit on
//! such a request, and knows nothing of what is asked.
//!
//! What it keeps: only public addresses, judged after the name is resolved and on the very addresses that are connected to;
//! https; no user name in an address; no redirect; no proxy from the environment; a bounded answer, counted after
//! decompression; 100 headers (within the HTTP library's own bound of some 400 KiB); one deadline over the whole exchange;
//! few requests at once to one host.

mod address;
mod allowance;
mod connect;
mod dial;
mod error;
mod turns;

pub use allowance::Allowance;
pub use error::GuardError;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Method};
use rustls::ClientConfig;
use tokio::time::timeout;
use url::{Host, Url};

use address::Reach;
use connect::Names;
use turns::Turns;

/// Real servers send 10 to 40; fewer than 40 would refuse some, more only costs memory.
const HEADERS_MAX: usize = 100;
/// An idle connection helps the next page of the same listing. Longer or more would keep thousands of sockets open to hosts
/// that are asked once a day.
const IDLE_FOR: Duration = Duration::from_secs(15);
const IDLE_PER_HOST: usize = 1;

/// The host in an address, with its port if that is not the scheme's own: what limits per host are counted by.
pub fn host_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// What an operator decides about outgoing requests.
#[derive(Debug, Clone)]
pub struct GuardSettings {
    /// Reach loopback addresses, and permit plain http. For tests and localnet only.
    pub allow_loopback: bool,
    /// Where every `*.test` and `*.localhost` name leads, by plain http. Heeded only with `allow_loopback`.
    pub test_hosts: Option<SocketAddr>,
    /// How we present ourselves.
    pub user_agent: String,
    /// From the turn at the host to the last byte of the answer, unless a request says otherwise.
    pub timeout: Duration,
    /// How many requests may be at one host at once. Others wait for their turn.
    pub per_host: usize,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Usually GET.
    pub method: Method,
    /// The whole address, with its scheme.
    pub url: &'a str,
    /// Beyond our own `user-agent`, `accept` and `accept-encoding`.
    pub headers: HeaderMap,
    /// Empty for a GET.
    pub body: Vec<u8>,
    /// The most bytes of the answer's body that are read, after decompression.
    pub body_len_max: usize,
    /// In place of the client's own.
    pub timeout: Option<Duration>,
}

/// What a host answered, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status. A redirect is an answer like any other.
    pub status: u16,
    /// The headers, for `retry-after` and the like.
    pub headers: HeaderMap,
    /// The body, up to the limit.
    pub body: Vec<u8>,
    /// The body was longer than the limit.
    pub is_cut: bool,
}

impl Answer {
    /// How soon the host may be asked again, by its own word.
    pub fn allowance(&self) -> Allowance {
        Allowance::of(self.status, &self.headers, SystemTime::now())
    }
}

/// The guarded client. Clones share connections and turns.
#[derive(Clone)]
pub struct Guarded {
    http: Client,
    tls: Arc<ClientConfig>,
    turns: Arc<Turns>,
    reach: Reach,
    test_hosts: Option<SocketAddr>,
    has_roots: bool,
    timeout: Duration,
}

impl Guarded {
    /// A client for addresses that strangers chose.
    pub fn new(settings: GuardSettings) -> Result<Self, GuardError> {
        let reach = if settings.allow_loopback { Reach::PublicAndLoopback } else { Reach::Public };
        Self::with_reach(settings, reach)
    }

    /// A client for addresses that the operator chose (the PLC directory, a relay): it reaches the private network and
    /// speaks plain http as well. Every other limit holds.
    pub fn trusting(settings: GuardSettings) -> Result<Self, GuardError> {
        Self::with_reach(settings, Reach::Anywhere)
    }

    fn with_reach(settings: GuardSettings, reach: Reach) -> Result<Self, GuardError> {
        let test_hosts = settings.test_hosts.filter(|_| settings.allow_loopback);
        let (tls, has_roots) = connect::tls().map_err(GuardError::Setup)?;
        let http = Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .dns_resolver(Arc::new(Names { reach, test_hosts }))
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would connect in our place, to addresses that nobody judged.
            .no_proxy()
            .referer(false)
            .retry(reqwest::retry::never())
            .user_agent(settings.user_agent)
            .http1_max_headers(HEADERS_MAX)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .pool_idle_timeout(IDLE_FOR)
            .build()
            .map_err(|error| GuardError::Setup(error::causes(&error)))?;
        let turns = Arc::new(Turns::new(settings.per_host));
        Ok(Self { http, tls: Arc::new(tls), turns, reach, test_hosts, has_roots, timeout: settings.timeout })
    }

    /// Asks by GET. An answer longer than `body_len_max` is an error. Cancel-safe.
    pub async fn get(&self, url: &str, body_len_max: usize) -> Result<Answer, GuardError> {
        self.get_with(url, HeaderMap::new(), body_len_max).await
    }

    /// The same of a host that has nothing else for us: no connection is kept. Each account's handle is such a host, and a
    /// backfill asks hundreds of them in the time that an idle connection lives.
    pub async fn get_once(&self, url: &str, body_len_max: usize) -> Result<Answer, GuardError> {
        let close = (header::CONNECTION, HeaderValue::from_static("close"));
        self.get_with(url, HeaderMap::from_iter([close]), body_len_max).await
    }

    async fn get_with(
        &self,
        url: &str,
        headers: HeaderMap,
        body_len_max: usize,
    ) -> Result<Answer, GuardError> {
        let method = Method::GET;
        let ask = Ask { method, url, headers, body: Vec::new(), body_len_max, timeout: None };
        let answer = self.send(ask).await?;
        if answer.is_cut {
            let host = self.target(url)?.host_str().unwrap_or_default().to_owned();
            return Err(GuardError::TooLarge { host, len_max: body_len_max });
        }
        Ok(answer)
    }

    /// Asks. Waits for a turn at the host first; the deadline counts from there. An answer longer than the limit is cut.
    /// Cancel-safe: the connection is dropped with the future.
    pub async fn send(&self, ask: Ask<'_>) -> Result<Answer, GuardError> {
        let url = self.target(ask.url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        if url.scheme() == "https" && !self.has_roots {
            return Err(GuardError::NoRoots(host));
        }
        let _turn = self.turns.take(&host).await;
        let after = ask.timeout.unwrap_or(self.timeout);
        match timeout(after, self.exchange(url, ask)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(GuardError::of(host, &error)),
            Err(_) => Err(GuardError::TimedOut { host, after }),
        }
    }

    /// Whether `name` is one of those that `test_hosts` stands for.
    pub(super) fn is_test_host(&self, name: &str) -> bool {
        self.test_hosts.is_some() && connect::is_test_name(name)
    }

    /// Whether plain http, and with it `did:web:localhost`, is permitted.
    pub(super) fn allows_loopback(&self) -> bool {
        self.reach != Reach::Public
    }

    /// The address that is really asked, if it is one that we ask.
    fn target(&self, text: &str) -> Result<Url, GuardError> {
        let mut url = Url::parse(text).map_err(|_| GuardError::BadAddress("it is no url"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(GuardError::BadAddress("it carries a user name or password"));
        }
        match url.scheme() {
            "https" => {}
            "http" if self.allows_loopback() => {}
            _ => return Err(GuardError::BadAddress("it is not https")),
        }
        let address = match url.host() {
            None => return Err(GuardError::BadAddress("it has no host")),
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        };
        // The resolver is not asked about these.
        if let Some(address) = address.filter(|address| !self.reach.allows(*address)) {
            return Err(GuardError::Forbidden { host: address.to_string(), address });
        }
        if let Some(at) = self.test_hosts.filter(|_| url.host_str().is_some_and(connect::is_test_name)) {
            let led = url.set_scheme("http").and_then(|()| url.set_port(Some(at.port())));
            led.map_err(|()| GuardError::BadAddress("it cannot be led to the test hosts"))?;
        }
        Ok(url)
    }

    async fn exchange(&self, url: Url, ask: Ask<'_>) -> Result<Answer, reqwest::Error> {
        let request = self.http.request(ask.method, url).headers(ask.headers).body(ask.body);
        let mut response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            let room = ask.body_len_max - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Ok(Answer { status, headers, body, is_cut: true });
            }
        }
        Ok(Answer { status, headers, body, is_cut: false })
    }
}

#[cfg(test)]
mod tests;
