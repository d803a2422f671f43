//! Which format an endpoint gets, by its address. Pure.

use url::Url;

use super::notice::Notice;
use super::{discord, slack};
use crate::outbox::DueDelivery;
use crate::settings::Host;

/// The hosts that have a format of their own.
#[derive(Clone, Debug, Default)]
pub struct ChatHosts {
    /// Discord's.
    pub discord: Vec<Host>,
    /// Slack's.
    pub slack: Vec<Host>,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The payload as it is, signed.
    Json,
    Discord,
    Slack,
}

impl Format {
    /// The one that this address takes.
    pub(super) fn of(url: &str, hosts: &ChatHosts) -> Self {
        let Ok(url) = Url::parse(url) else { return Self::Json };
        let name = url.host_str().unwrap_or_default();
        let with_port = url.port().map(|port| format!("{name}:{port}"));
        let is_among = |hosts: &[Host]| {
            hosts.iter().any(|host| host.as_str() == name || Some(host.as_str()) == with_port.as_deref())
        };
        let path: Vec<&str> = url.path().split('/').skip(1).collect();
        if is_among(&hosts.discord) {
            match path.as_slice() {
                // Discord's own door for what is made for Slack.
                ["api", .., "slack"] => return Self::Slack,
                ["api", "webhooks", ..] | ["api", _, "webhooks", ..] => return Self::Discord,
                _ => {}
            }
        }
        if is_among(&hosts.slack) { Self::Slack } else { Self::Json }
    }

    /// For metrics and logs.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Discord => "discord",
            Self::Slack => "slack",
        }
    }

    /// The very bytes that are sent: the same at each attempt.
    pub(super) fn body(self, delivery: &DueDelivery) -> Vec<u8> {
        let notice = || Notice::read(delivery.trigger, &delivery.payload);
        match self {
            Self::Json => delivery.payload.clone().into_bytes(),
            Self::Discord => discord::message(&notice()).to_string().into_bytes(),
            Self::Slack => slack::message(&notice()).to_string().into_bytes(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_address_tells_the_format() {
        let host = |text: &str| text.parse::<Host>().unwrap();
        let hosts = ChatHosts {
            discord: vec![host("discord.com"), host("localhost:8480")],
            slack: vec![host("hooks.slack.com"), host("127.0.0.1:9000")],
        };
        for (url, expected) in [
            ("https://discord.com/api/webhooks/1/t", Format::Discord),
            ("https://DISCORD.com/api/v10/webhooks/1/t?wait=true", Format::Discord),
            ("https://discord.com/api/webhooks/1/t/slack", Format::Slack),
            ("https://discord.com/invite", Format::Json),
            ("http://localhost:8480/api/webhooks/1/t", Format::Discord),
            ("http://localhost:8481/api/webhooks/1/t", Format::Json),
            ("https://discord.com.evil.example/api/webhooks/1/t", Format::Json),
            ("https://hooks.slack.com/services/T/B/x", Format::Slack),
            ("http://127.0.0.1:9000/services/T/B/x", Format::Slack),
            ("https://example.com/api/webhooks/1/t", Format::Json),
            ("nonsense", Format::Json),
        ] {
            assert_eq!(Format::of(url, &hosts), expected, "{url}");
        }
    }
}
