//! Labels as bytes: what is signed, what is streamed, what is listed. Written from the specification, by hand.

use k256::ecdsa::signature::hazmat::PrehashSigner;
use k256::ecdsa::{Signature, SigningKey};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Flaw;
use crate::records;

/// A label, said or to be said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Label {
    /// Who says so; put in when it is said.
    #[serde(skip)]
    pub src: String,
    /// Of whom or what.
    pub uri: String,
    /// What.
    pub val: String,
    /// Of which version.
    pub cid: Option<String>,
    /// `Some(false)` is sent and signed as such.
    pub neg: Option<bool>,
    /// Microseconds; 0: the present.
    pub cts_us: i64,
    /// Until when (microseconds).
    pub exp_us: Option<i64>,
    /// Put in when it is said.
    #[serde(skip)]
    pub sig: Option<Vec<u8>>,
    /// Whether nothing is wrong with it.
    #[serde(skip)]
    pub is_sound: bool,
}

impl Label {
    /// A value of a subject.
    pub fn of(uri: &str, val: &str) -> Self {
        Self { uri: uri.to_owned(), val: val.to_owned(), ..Self::default() }
    }

    /// The label with a time of its own (microseconds).
    pub fn at(self, cts_us: i64) -> Self {
        Self { cts_us, ..self }
    }

    /// The label with an end (microseconds).
    pub fn until(self, exp_us: i64) -> Self {
        Self { exp_us: Some(exp_us), ..self }
    }

    /// Its map, keys in their order, with the signature or without.
    fn bytes(&self, with_sig: bool) -> Vec<u8> {
        let exp = self.exp_us.map(records::time);
        let sig = self.sig.as_ref().filter(|_| with_sig);
        let optional = [self.cid.is_some(), exp.is_some(), self.neg.is_some(), sig.is_some()];
        let mut out = Vec::new();
        head(5, 5 + optional.into_iter().filter(|is_there| *is_there).count(), &mut out);
        if let Some(cid) = &self.cid {
            pair("cid", cid, &mut out);
        }
        pair("cts", &records::time(self.cts_us), &mut out);
        if let Some(exp) = &exp {
            pair("exp", exp, &mut out);
        }
        if let Some(neg) = self.neg {
            text("neg", &mut out);
            out.push(if neg { 0xf5 } else { 0xf4 });
        }
        if let Some(sig) = sig {
            text("sig", &mut out);
            head(2, sig.len(), &mut out);
            out.extend_from_slice(sig);
        }
        pair("src", &self.src, &mut out);
        pair("uri", &self.uri, &mut out);
        pair("val", &self.val, &mut out);
        text("ver", &mut out);
        out.push(1);
        out
    }

    /// The message that streams it.
    pub(super) fn message(&self, seq: u64) -> Vec<u8> {
        let mut out = header("#labels");
        head(5, 2, &mut out);
        text("seq", &mut out);
        head(0, seq as usize, &mut out);
        text("labels", &mut out);
        head(4, 1, &mut out);
        out.extend(self.bytes(true));
        out
    }

    /// As the list has it.
    pub(super) fn json(&self) -> Value {
        let mut label = json!({
            "ver": 1, "src": self.src, "uri": self.uri, "val": self.val, "cts": records::time(self.cts_us),
        });
        if let Some(cid) = &self.cid {
            label["cid"] = json!(cid);
        }
        if let Some(neg) = self.neg {
            label["neg"] = json!(neg);
        }
        if let Some(exp) = self.exp_us {
            label["exp"] = json!(records::time(exp));
        }
        if let Some(sig) = &self.sig {
            label["sig"] = json!({ "$bytes": base64(sig) });
        }
        label
    }
}

/// A key by number.
pub(super) fn key(number: u8) -> SigningKey {
    SigningKey::from_slice(&[number.max(1); 32]).expect("a small number is a key")
}

/// The key as documents have it.
pub(super) fn multikey(key: &SigningKey) -> String {
    let point = key.verifying_key().to_encoded_point(true);
    format!("z{}", base58(&[&[0xe7, 0x01], point.as_bytes()].concat()))
}

pub(super) fn signature(label: &Label, key: &SigningKey, flaw: Option<Flaw>) -> Option<Vec<u8>> {
    let mut bytes = label.bytes(false);
    match flaw {
        Some(Flaw::Unsigned) => return None,
        Some(Flaw::Signature) => bytes.push(0),
        _ => {}
    }
    let low: Signature = key.sign_prehash(&Sha256::digest(&bytes)).expect("a digest can be signed");
    match flaw {
        Some(Flaw::HighS) => {
            let high = Signature::from_scalars(low.r(), -*low.s()).expect("the other s is one, too");
            Some(high.to_bytes().to_vec())
        }
        _ => Some(low.to_bytes().to_vec()),
    }
}

/// A message of any kind, its body a map of one text.
pub(super) fn message(kind: &str, key: &str, value: &str) -> Vec<u8> {
    let mut out = header(kind);
    head(5, 1, &mut out);
    pair(key, value, &mut out);
    out
}

/// An error frame.
pub(super) fn error(name: &str) -> Vec<u8> {
    let mut out = vec![0xa1];
    text("op", &mut out);
    out.push(0x20);
    head(5, 1, &mut out);
    pair("error", name, &mut out);
    out
}

fn header(kind: &str) -> Vec<u8> {
    let mut out = vec![0xa2];
    pair("t", kind, &mut out);
    text("op", &mut out);
    out.push(1);
    out
}

fn pair(key: &str, value: &str, out: &mut Vec<u8>) {
    text(key, out);
    text(value, out);
}

fn text(text: &str, out: &mut Vec<u8>) {
    head(3, text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn head(major: u8, length: usize, out: &mut Vec<u8>) {
    let major = major << 5;
    match length {
        0..24 => out.push(major | length as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, length as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(major | 26);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        (0..=chunk.len()).for_each(|at| text.push(char::from(LETTERS[bits >> (18 - 6 * at) & 63])));
    }
    text
}

pub(crate) fn base58(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits = vec![0_u8];
    for byte in bytes {
        let mut carry = usize::from(*byte);
        for digit in &mut digits {
            carry += usize::from(*digit) * 256;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    digits.iter().rev().map(|digit| char::from(LETTERS[usize::from(*digit)])).collect()
}
