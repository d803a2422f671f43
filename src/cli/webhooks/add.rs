//! `webhooks add`: what a webhook may be, and where its secret comes from. Never from the command line, which others see.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use url::Url;

use crate::app::{Exit, Refusal};
use crate::outbox::{Rules, Trigger};
use crate::settings::{Secret, Settings};
use crate::store::SqlLeases;
use crate::store::webhooks::{Added, NewWebhook, User};

/// Bytes of an address at most. Browsers and proxies take as much.
const URL_LEN_MAX: usize = 2_048;

/// Bytes of a secret. Below it can be guessed; above it is something else's.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 8..=512;

/// What is to be added.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Whose it is: a user that the index knows.
    #[arg(long, value_name = "DID|HANDLE", value_parser = super::user)]
    user: User,
    /// Where deliveries go: https.
    #[arg(long)]
    url: String,
    /// When, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    triggers: Vec<Trigger>,
    /// Sign with the secret in FILE ("-": standard input).
    #[arg(long, value_name = "FILE", group = "secret")]
    secret_file: Option<PathBuf>,
    /// Sign with the secret in this environment variable.
    #[arg(long, value_name = "NAME", group = "secret")]
    secret_env: Option<String>,
    /// Sign with a new secret, which is printed once.
    #[arg(long, group = "secret")]
    generate_secret: bool,
}

pub(super) async fn run(settings: &Settings, leases: &SqlLeases, new: Arguments) -> Result<Exit, Refusal> {
    let url = checked(&new.url, settings.network.allow_loopback).map_err(Refusal::settings)?;
    let secret = secret(&new)?;
    let shown = if new.generate_secret { secret.clone() } else { None };
    let webhook = NewWebhook { user: new.user, url, secret, triggers: new.triggers };
    let added = leases.add_webhook(webhook, Rules::of(settings).tiers).await.map_err(Refusal::failed)?;
    match added {
        Added::As(id) => Ok(crate::cli::print(|out| {
            writeln!(out, "{id}")?;
            shown.iter().try_for_each(|secret| writeln!(out, "{}", secret.reveal()))
        })),
        Added::UnknownUser => Err(Refusal::failed(
            "the index does not know this user: it must have a record of ours; `atcr-workers backfill --did DID` reads it",
        )),
        Added::TooMany(gate) => {
            let max = gate.webhooks_max;
            Err(Refusal::failed(format!(
                "the user's tier has {max} webhooks at most (billing.tiers): remove one first"
            )))
        }
        Added::Paid(trigger) => Err(Refusal::failed(format!(
            "the user's tier does not have the trigger {trigger} (billing.tiers)"
        ))),
    }
}

/// The address, as it is stored. Where it leads is checked again at each delivery.
fn checked(text: &str, allow_plain: bool) -> Result<String, String> {
    let scheme = if allow_plain { "https or http" } else { "https" };
    let refused = || {
        format!(
            "--url: expected an address over {scheme} without a login, such as \"https://ci.example/hook\""
        )
    };
    let url = Url::parse(text).map_err(|_| refused())?;
    let scheme_ok = url.scheme() == "https" || (allow_plain && url.scheme() == "http");
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if !scheme_ok || !plain || url.host().is_none() || url.as_str().len() > URL_LEN_MAX {
        return Err(refused());
    }
    Ok(url.into())
}

fn secret(new: &Arguments) -> Result<Option<Secret>, Refusal> {
    let text = match (&new.secret_file, &new.secret_env) {
        _ if new.generate_secret => generated(),
        (Some(path), _) => {
            let read = if path.as_os_str() == "-" {
                let mut text = String::new();
                std::io::stdin().take(4_096).read_to_string(&mut text).map(|_| text)
            } else {
                std::fs::read_to_string(path)
            };
            read.map_err(|error| {
                Refusal::failed(format!("read the secret from {}: {error}", path.display()))
            })?
        }
        (None, Some(name)) => std::env::var(name)
            .map_err(|_| Refusal::failed(format!("read the secret: the variable {name} is not set")))?,
        (None, None) => return Ok(None),
    };
    let text = text.trim_end_matches(['\r', '\n']);
    let refused = || {
        let (min, max) = (SECRET_LEN.start(), SECRET_LEN.end());
        Refusal::settings(format!(
            "the secret: expected {min} to {max} visible ASCII characters without spaces"
        ))
    };
    if !SECRET_LEN.contains(&text.len()) {
        return Err(refused());
    }
    text.parse().map(Some).map_err(|_| refused())
}

/// `whsec_` and 24 random bytes in base64, as Standard Webhooks write it: 32 characters without padding.
fn generated() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: [u8; 32] = rand::random();
    let text = digits.iter().map(|digit| char::from(DIGITS[usize::from(digit & 63)]));
    "whsec_".chars().chain(text).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_over_https_and_has_no_login() {
        assert_eq!(checked("https://ci.example/hook?a=b", false).unwrap(), "https://ci.example/hook?a=b");
        assert_eq!(checked("http://127.0.0.1:9/hook", true).unwrap(), "http://127.0.0.1:9/hook");
        let long = format!("https://ci.example/{}", "a".repeat(URL_LEN_MAX));
        for bad in
            ["http://ci.example/", "ftp://ci.example/", "https://me:pw@ci.example/", "ci.example", &long]
        {
            assert!(checked(bad, false).is_err(), "{bad}");
        }
        assert!(checked("https://ci.example/#fragment", true).is_err());
    }

    #[test]
    fn no_two_generated_secrets_are_the_same() {
        let [one, other] = [generated(), generated()];
        assert_ne!(one, other);
        assert_eq!((one.len(), one.starts_with("whsec_")), (38, true));
        assert!(one.parse::<Secret>().is_ok());
    }
}
