//! What is answered, and how badly.

use serde_json::{Value, json};

/// How an answer is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    /// Not a byte, the connection stays open.
    Never,
    /// Not a byte, and the connection ends.
    HangUp,
    /// One byte of the body each 100 ms.
    Slow,
    /// All of it, so much later.
    Late {
        millis: u32,
    },
    /// Ends in the middle of the body.
    CutInBody,
    /// A body of so many bytes, without a length in the head.
    Overlong {
        bytes: usize,
    },
}

/// An answer ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) manner: Manner,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string().into_bytes())
    }

    /// The error envelope of XRPC.
    pub(crate) fn error(status: u16, error: &str, message: &str) -> Self {
        Self::json(status, &json!({ "error": error, "message": message }))
    }

    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body.into().into_bytes())
    }

    pub(crate) fn bytes(status: u16, body: Vec<u8>) -> Self {
        Self::new(status, "application/octet-stream", body)
    }

    pub(crate) fn html(status: u16) -> Self {
        let body = format!("<!doctype html><title>{status}</title><h1>{status}</h1><p>from a proxy</p>");
        Self::new(status, "text/html; charset=utf-8", body.into_bytes())
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn in_manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status, content_type, headers: Vec::new(), body, manner: Manner::Plain }
    }

    /// Status line and headers, the empty line included.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        head += &format!("content-type: {}\r\n", self.content_type);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.manner {
            Manner::Overlong { .. } => head += "connection: close\r\n\r\n",
            _ => head += &format!("content-length: {}\r\n\r\n", self.body.len()),
        }
        head.into_bytes()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        410 => "Gone",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
