//! Events in the proportions of the real network, the same at every run.

use serde_json::{Value, json};

/// The accounts that we know.
pub const KNOWN: [&str; 2] = ["did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"];

const CID: &str = "bafyreiguce4jh7kcbmof3pmcvasifqtw24b6isakj5ve5ga2b4z4alpc4i";

/// `count` events: of 1,000, 675 likes, 115 posts, 95 reposts, 65 follows, 15 accounts, 15 identities, 20 of ours.
pub fn events(count: usize) -> Vec<String> {
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    (0..count).map(|n| event(&mut draw, 1_783_175_888_000_000 + 400 * n as i64)).collect()
}

fn event(draw: &mut Draw, time_us: i64) -> String {
    let did = draw.did();
    let (collection, record) = match draw.below(1_000) {
        0..675 => ("app.bsky.feed.like", subject(draw)),
        675..790 => ("app.bsky.feed.post", post(draw)),
        790..885 => ("app.bsky.feed.repost", subject(draw)),
        885..950 => {
            ("app.bsky.graph.follow", json!({"subject": draw.did(), "createdAt": "2026-07-04T14:38:08.999Z"}))
        }
        950..965 => return account(&did, time_us),
        965..980 => return identity(&did, time_us),
        980..990 => ("io.atcr.manifest", manifest(draw)),
        _ => ("io.atcr.tag", tag(draw)),
    };
    let rev = format!("3mpt{}", draw.word(9));
    let digest = record["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let rkey = match collection {
        "io.atcr.manifest" => digest.unwrap_or_default().to_owned(),
        "io.atcr.tag" => format!("{}_latest", draw.word(8)),
        _ => rev.clone(),
    };
    // Written by hand, because hosts send the head before the body and serde_json sorts keys.
    format!(
        r#"{{"did":"{did}","time_us":{time_us},"kind":"commit","commit":{{"rev":"{rev}","operation":"create","collection":"{collection}","rkey":"{rkey}","record":{record},"cid":"{CID}"}}}}"#
    )
}

fn account(did: &str, time_us: i64) -> String {
    let body =
        format!(r#"{{"active":true,"did":"{did}","seq":31158462713,"time":"2026-07-04T14:38:08.095Z"}}"#);
    format!(r#"{{"did":"{did}","time_us":{time_us},"kind":"account","account":{body}}}"#)
}

fn identity(did: &str, time_us: i64) -> String {
    let body = format!(r#"{{"did":"{did}","seq":31158462714,"time":"2026-07-04T14:38:08.095Z"}}"#);
    format!(r#"{{"did":"{did}","time_us":{time_us},"kind":"identity","identity":{body}}}"#)
}

fn subject(draw: &mut Draw) -> Value {
    let uri = format!("at://{}/app.bsky.feed.post/{}", draw.did(), draw.word(13));
    json!({"$type": "app.bsky.feed.like", "createdAt": "2026-07-04T14:38:08.999Z", "subject": {"cid": CID, "uri": uri}})
}

fn post(draw: &mut Draw) -> Value {
    let size = 20 + draw.below(200) as usize;
    json!({
        "$type": "app.bsky.feed.post", "createdAt": "2026-07-04T14:38:06.240Z", "langs": ["en"],
        "text": draw.word(size),
        "embed": {"$type": "app.bsky.embed.external", "external": {
            "title": draw.word(40), "description": draw.word(size), "uri": "https://example.org/3d7edc12ff4a",
            "thumb": {"$type": "blob", "ref": {"$link": CID}, "mimeType": "image/jpeg", "size": 119_635},
        }},
        "facets": [{"index": {"byteStart": 0, "byteEnd": 31},
            "features": [{"$type": "app.bsky.richtext.facet#link", "uri": "https://example.org/3d7edc12ff4a"}]}],
    })
}

fn manifest(draw: &mut Draw) -> Value {
    let blob = |draw: &mut Draw| {
        json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": draw.below(90_000_000),
            "digest": draw.digest()})
    };
    let layers: Vec<_> = (0..6).map(|_| blob(draw)).collect();
    json!({
        "$type": "io.atcr.manifest", "repository": draw.word(8), "digest": draw.digest(),
        "holdDid": "did:web:hold.example.org", "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "schemaVersion": 2, "config": blob(draw), "layers": layers, "createdAt": "2026-07-04T14:38:08.420Z",
    })
}

fn tag(draw: &mut Draw) -> Value {
    json!({"$type": "io.atcr.tag", "repository": draw.word(8), "tag": "latest", "createdAt": "2026-07-04T14:38:08.420Z",
        "manifestDigest": draw.digest()})
}

/// A xorshift generator: enough for variety, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn word(&mut self, size: usize) -> String {
        (0..size).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz234567"[self.below(32) as usize])).collect()
    }

    fn digest(&mut self) -> String {
        let hex: String = (0..8).map(|_| format!("{:08x}", self.below(1 << 32))).collect();
        format!("sha256:{hex}")
    }

    /// One in a hundred is known to us.
    fn did(&mut self) -> String {
        match self.below(100) {
            0 => KNOWN[self.below(2) as usize].to_owned(),
            _ => format!("did:plc:{}", self.word(24)),
        }
    }
}
