//! The same labels as `com.atproto.label.queryLabels` gives them: JSON, bytes in base64.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode::Indifferent;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
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
        sig => Some(BASE64.decode(sig["$bytes"].as_str().ok_or("shape")?).map_err(|_| "shape")?),
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

/// Padded or not: labelers differ.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(Indifferent));

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
            assert_eq!(BASE64.decode(text).unwrap(), bytes, "{text}");
        }
        assert!(BASE64.decode("Z_").is_err());
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
