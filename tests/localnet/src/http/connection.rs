//! Reading requests from, and writing answers to, one TCP connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, Manner};

/// 10,000 wanted DIDs in a query are about 0.5 MB.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// A record is at most 1 MiB; a raw frame sent by a control request may be 9 MiB.
const BODY_BYTES_MAX: usize = 16 << 20;
const SLOW_BYTE_EVERY: Duration = Duration::from_millis(100);

/// A request, its body read whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// As sent, without the question mark.
    pub(crate) query: String,
    /// The `Host` header without its port, lower case; empty if absent.
    pub(crate) host: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Where it came from.
    pub(crate) client: IpAddr,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Names in lower case.
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// All decoded values of a query parameter.
    pub(crate) fn parameters(&self, name: &str) -> Vec<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(n, _)| *n == name).map(|(_, v)| percent_decode(v)).collect()
    }

    /// The first decoded value of a query parameter, if it is not empty.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        self.parameters(name).into_iter().next().filter(|v| !v.is_empty())
    }

    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?, first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let host = headers.iter().find(|(n, _)| n == "host").map_or("", |(_, v)| v.as_str());
        let host = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        let (method, path, query) = (method.to_owned(), percent_decode(path), query.to_owned());
        Some(Self {
            method,
            path,
            query,
            host,
            headers,
            body: Vec::new(),
            client: Ipv4Addr::LOCALHOST.into(),
        })
    }
}

/// One accepted connection and the bytes read ahead on it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::with_capacity(4096) }
    }

    /// The next request; None at a clean end.
    pub(crate) async fn read_request(&mut self) -> io::Result<Option<Request>> {
        let Some(end) = self.read_head().await? else { return Ok(None) };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head[..end]);
        let mut request = Request::parse(&head).ok_or_else(|| bad("not an HTTP request"))?;
        let length = request.header("content-length").map_or(Ok(0), str::parse);
        let length: usize = length.map_err(|_| bad("content-length is no number"))?;
        if length > BODY_BYTES_MAX {
            return Err(bad("request body too long"));
        }
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(bad("request ended in its body"));
            }
        }
        request.body = self.buffer.drain(..length).collect();
        request.client = self.stream.peer_addr()?.ip();
        Ok(Some(request))
    }

    /// Reads and forgets until the client ends the connection.
    pub(crate) async fn until_closed(&mut self) -> io::Result<()> {
        let mut forgotten = [0; 4096];
        while self.stream.read(&mut forgotten).await? > 0 {}
        Ok(())
    }

    async fn read_head(&mut self) -> io::Result<Option<usize>> {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..].windows(4).position(|w| w == b"\r\n\r\n");
            if let Some(at) = found {
                return Ok(Some(searched + at));
            }
            searched = self.buffer.len().saturating_sub(3);
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(bad("request head too long"));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Writes the answer in its manner. After any manner but `Plain` and `Late` the connection is of no further use.
    ///
    /// `held` is dropped with the connection's last word, but before a whole answer is written: the client may have read that,
    /// and ask again, before this task runs on, and would then seem to have been here twice.
    pub(crate) async fn write_answer<T>(&mut self, answer: &Answer, held: T) -> io::Result<()> {
        let half = answer.body.len() / 2;
        match answer.manner {
            Manner::Plain => self.write_whole(answer, held).await,
            Manner::Never => self.until_closed().await,
            Manner::HangUp => Ok(()),
            Manner::Late { millis } => {
                tokio::time::sleep(Duration::from_millis(millis.into())).await;
                self.write_whole(answer, held).await
            }
            Manner::CutInBody => {
                self.stream.write_all(&[&answer.head(), &answer.body[..half]].concat()).await
            }
            Manner::Slow => {
                self.stream.write_all(&answer.head()).await?;
                for byte in &answer.body {
                    tokio::time::sleep(SLOW_BYTE_EVERY).await;
                    self.stream.write_all(&[*byte]).await?;
                }
                Ok(())
            }
            Manner::Overlong { bytes } => {
                self.stream.write_all(&answer.head()).await?;
                let filler = [b' '; 16 * 1024];
                let mut left = bytes;
                while left > 0 {
                    let now = left.min(filler.len());
                    self.stream.write_all(&filler[..now]).await?;
                    left -= now;
                }
                Ok(())
            }
        }
    }

    async fn write_whole<T>(&mut self, answer: &Answer, held: T) -> io::Result<()> {
        let whole = [answer.head(), answer.body.clone()].concat();
        drop(held);
        self.stream.write_all(&whole).await
    }
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        match (byte, hex.and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = &tail[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_line_is_taken_apart_and_decoded() {
        let head = "GET /did%3Aplc%3Aa?x=1&x=a%2Bb&y= HTTP/1.1\r\nHost: Alice.TEST:80\r\nX-A: b";
        let request = Request::parse(head).unwrap();
        assert_eq!(request.path, "/did:plc:a");
        assert_eq!(request.host, "alice.test");
        assert_eq!(request.parameters("x"), ["1", "a+b"]);
        assert_eq!(request.parameter("y"), None);
        assert_eq!(request.header("x-a"), Some("b"));
    }

    #[test]
    fn broken_percent_signs_are_kept() {
        assert_eq!(percent_decode("a%zz%4"), "a%zz%4");
    }
}
