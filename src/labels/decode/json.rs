//! The same labels as `com.atproto.label.queryLabels` gives them: JSON, bytes in base64.

use serde::Deserialize;
use serde_json::Value;

use super::LABELS_MAX;
use super::label::{Fault, Label, Raw};

/// A page of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) cursor: Option<String>,
    pub(crate) labels: Vec<Result<Label, Fault>>,
}

#[derive(Deserialize)]
struct Answer {
    cursor: Option<String>,
    labels: Vec<Value>,
}

/// Reads a page. `None`: it is none.
pub(crate) fn page(body: &[u8]) -> Option<Page> {
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let labels = answer.labels.iter().take(LABELS_MAX).map(label).collect();
    Some(Page { cursor: answer.cursor, labels })
}

fn label(value: &Value) -> Result<Label, Fault> {
    if !value.is_object() {
        return Err("shape");
    }
    let optional = |key: &str| match &value[key] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err("shape"),
    };
    let neg = match &value["neg"] {
        Value::Null => None,
        Value::Bool(neg) => Some(*neg),
        _ => return Err("shape"),
    };
    let sig = match &value["sig"] {
        Value::Null => None,
        sig => Some(sig["$bytes"].as_str().and_then(base64).ok_or("shape")?),
    };
    let raw = Raw {
        ver: value["ver"].as_i64(),
        src: optional("src")?,
        uri: optional("uri")?,
        cid: optional("cid")?,
        val: optional("val")?,
        neg,
        cts: optional("cts")?,
        exp: optional("exp")?,
        sig,
    };
    raw.checked()
}

/// Base64 (RFC 4648, section 4), padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut have) = (0u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        have += 6;
        if have >= 8 {
            have -= 8;
            bytes.push((bits >> have) as u8);
            bits &= (1 << have) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_padding_and_without() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zg", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(base64(text).unwrap(), bytes, "{text}");
        }
        assert_eq!(base64("Z_"), None);
    }

    #[test]
    fn a_page_keeps_its_good_labels_beside_broken_ones() {
        let body = br#"{"cursor":"7","labels":[
            {"ver":1,"src":"did:plc:labeler","uri":"did:plc:alice","val":"!takedown","neg":false,
             "cts":"2026-01-01T00:00:00.000Z","sig":{"$bytes":"AAEC"}},
            {"src":5}, 7, {"src":"did:plc:labeler","uri":"did:plc:alice","val":"x","cts":"yesterday"}]}"#;
        let page = page(body).unwrap();
        assert_eq!((page.cursor.as_deref(), page.labels.len()), (Some("7"), 4));
        let label = page.labels[0].as_ref().unwrap();
        assert_eq!((label.sig.as_deref(), label.neg), (Some(&[0, 1, 2][..]), Some(false)));
        assert_eq!(page.labels[1..], [Err("shape"), Err("shape"), Err("time")]);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        for body in ["", "<html>", "{}", r#"{"labels":5}"#, r#"{"labels":[],"cursor":5}"#] {
            assert_eq!(page(body.as_bytes()), None, "{body}");
        }
    }
}
