//! Values that must not be seen: in logs, in the settings' listing, in error messages.

use std::fmt;
use std::str::FromStr;

/// What is shown instead.
pub(super) const MASK: &str = "***";

/// A secret: its `Debug` and `Display` print `***`, and it has no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// One that is stored, and was checked before it was.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The secret itself: for the one place that sends or compares it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl FromStr for Secret {
    type Err = String;

    /// Both secrets travel in an HTTP header; a line end copied along with one would only fail there, and silently.
    fn from_str(text: &str) -> Result<Self, String> {
        let good = text.bytes().all(|b| b.is_ascii_graphic());
        good.then(|| Self(text.to_owned()))
            .ok_or_else(|| "expected visible ASCII characters without spaces".into())
    }
}

/// Whether the value of `key` is a secret as a whole.
pub(super) fn is_secret(key: &str) -> bool {
    matches!(key, "admin.token" | "billing.stripe_secret_key")
}

/// `text` with the passwords of an address masked. Where the address is malformed it masks too much, never too little.
pub(super) fn masked(key: &str, text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None if !key.contains("url") => return text.to_owned(),
        None => match text.split_once(':') {
            Some((scheme, rest)) => (format!("{scheme}:"), rest),
            None => (String::new(), text),
        },
    };
    let rest = without_login(rest);
    let parameters: Vec<_> = rest.split('&').map(without_password).collect();
    scheme + &parameters.join("&")
}

fn without_login(rest: &str) -> String {
    // The last '@', for a password may hold one.
    if let Some((login, host)) = rest.rsplit_once('@') {
        return match login.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{host}"),
            None => rest.to_owned(),
        };
    }
    // No host: what looks like a port, and is no number, may be a password.
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    match authority.split_once(':') {
        Some((user, port)) if !authority.starts_with('[') && !port.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{user}:{MASK}{path}")
        }
        _ => rest.to_owned(),
    }
}

/// `sslpassword=` and `password=`, of a URL's query or of a key-value string.
fn without_password(parameter: &str) -> String {
    const NAME: &str = "password=";
    match parameter.to_ascii_lowercase().find(NAME) {
        Some(at) => format!("{}{MASK}", &parameter[..at + NAME.len()]),
        None => parameter.to_owned(),
    }
}
