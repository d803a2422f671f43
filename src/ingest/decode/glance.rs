//! The pre-filter. Every subscriber gets the account and identity events of the whole network (jetstream-legacy#38),
//! nearly all of DIDs that we do not know; with a broad filter foreign records come too. A glance reads who and what
//! from the front of the frame, so that those cost a fraction of a decode.

/// Who and what a frame is about, without the proof that the rest of it is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance<'a> {
    /// As in the event.
    pub did: &'a str,
    /// As in the event.
    pub time_us: i64,
    /// What it is about.
    pub about: About<'a>,
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// A record of this collection.
    Commit {
        /// NSID, as sent.
        collection: &'a str,
    },
    /// An identity.
    Identity,
    /// An account.
    Account,
}

/// Reads the front of a frame as hosts write it: compact JSON, head before body, plain ASCII, no escapes. `None` for
/// anything else: only a decode can tell. Where both speak, they agree.
pub fn glance(frame: &[u8]) -> Option<Glance<'_>> {
    let mut scan = Scan(frame);
    let (mut did, mut time_us, mut kind) = (None, None, None);
    scan.literal(b"{")?;
    loop {
        match scan.key()? {
            b"did" => did = Some(scan.string()?),
            b"time_us" => time_us = Some(scan.integer()?),
            b"kind" => kind = Some(scan.string()?),
            b"cursor" => drop(scan.integer()?),
            b"commit" | b"identity" | b"account" => break,
            _ => return None,
        }
        scan.literal(b",")?;
    }
    let about = match kind? {
        b"commit" => About::Commit { collection: text(scan.collection()?)? },
        b"identity" => About::Identity,
        b"account" => About::Account,
        _ => return None,
    };
    Some(Glance { did: text(did?)?, time_us: time_us?, about })
}

/// What is left of the frame.
struct Scan<'a>(&'a [u8]);

impl<'a> Scan<'a> {
    fn literal(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let key = self.string()?;
        self.literal(b":")?;
        Some(key)
    }

    /// Printable ASCII without escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.literal(b"\"")?;
        let special = |&b: &u8| b == b'"' || b == b'\\' || !(b' '..=b'~').contains(&b);
        let (string, rest) = self.0.split_at(self.0.iter().position(special)?);
        self.0 = rest.strip_prefix(b"\"")?;
        Some(string)
    }

    /// At most 18 digits, so that it fits, and no leading zero, which JSON forbids.
    fn integer(&mut self) -> Option<i64> {
        let end = self.0.iter().position(|b| !b.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at(end);
        let good = (1..=18).contains(&end) && (end == 1 || digits[0] != b'0') && rest[0] == b',';
        self.0 = rest;
        good.then(|| digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
    }

    fn collection(&mut self) -> Option<&'a [u8]> {
        self.literal(b"{")?;
        loop {
            match self.key()? {
                b"collection" => return self.string(),
                b"rev" | b"operation" | b"rkey" | b"cid" => self.string()?,
                _ => return None,
            };
            self.literal(b",")?;
        }
    }
}

fn text(ascii: &[u8]) -> Option<&str> {
    std::str::from_utf8(ascii).ok()
}
