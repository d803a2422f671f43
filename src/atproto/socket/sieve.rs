//! Sits between socket and WebSocket library, so that one bad message costs one message and not the connection.
//!
//! The library ends a connection for good on a text that is not UTF-8 and on a message over its limit. The host would
//! replay that message after every reconnect, and skipping "a little further" would guess how far. So the sieve
//! rewrites frames on their way in: text becomes binary, whose UTF-8 the decode checks anyway, and a data frame that
//! takes its message over the limit is emptied, its payload read and thrown away. Everything else passes unchanged,
//! violations of the protocol included: those are the library's to refuse.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Read from the socket at once. Half costs more system calls in a catch-up; double saves nothing measurable.
const READ_BYTES: usize = 32 << 10;

/// A socket, seen through the sieve.
#[derive(Debug)]
pub(crate) struct Sieve<S> {
    inner: S,
    rewrite: Rewrite,
    read: Box<[u8]>,
    /// Rewritten and not yet taken, from `taken` on. At most `READ_BYTES` and one frame head.
    ready: Vec<u8>,
    taken: usize,
}

impl<S> Sieve<S> {
    /// Before the handshake's answer was read. Messages over `limit` bytes arrive empty.
    pub(crate) fn new(inner: S, limit: usize) -> Self {
        let read = vec![0; READ_BYTES].into_boxed_slice();
        Self { inner, rewrite: Rewrite::new(limit as u64), read, ready: Vec::new(), taken: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sieve<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.taken == this.ready.len() {
            let mut read = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.ready.clear();
            this.taken = 0;
            this.rewrite.pass(read.filled(), &mut this.ready);
        }
        let rest = &this.ready[this.taken..];
        let now = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..now]);
        this.taken += now;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sieve<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The rewriting, without the socket.
#[derive(Debug)]
struct Rewrite {
    limit: u64,
    /// Payload of the message under way that was let through.
    message: u64,
    at: At,
}

/// Where in the stream of bytes we are.
#[derive(Debug)]
enum At {
    /// In the handshake's answer: its first twelve bytes, of which `have` are here, and its last four.
    Answer { first: [u8; SWITCHED.len()], have: usize, last: u32 },
    /// In a frame's head, of which `have` bytes are here.
    Head { head: [u8; 10], have: usize },
    /// In a payload, with so many bytes to come.
    Payload { left: u64, keep: bool },
    /// After a masked frame, which no server may send: the library ends the connection. Or in the body of an answer that
    /// does not switch protocols.
    Blind,
}

/// How an answer begins after which frames follow.
const SWITCHED: [u8; 12] = *b"HTTP/1.1 101";

const NEXT_HEAD: At = At::Head { head: [0; 10], have: 0 };

impl Rewrite {
    fn new(limit: u64) -> Self {
        Self { limit, message: 0, at: At::Answer { first: [0; SWITCHED.len()], have: 0, last: 0 } }
    }

    /// Takes all of `input`, and appends what is to be seen of it.
    fn pass(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while let Some((&byte, rest)) = input.split_first() {
            match &mut self.at {
                At::Answer { first, have, last } => {
                    if let Some(place) = first.get_mut(*have) {
                        *place = byte;
                        *have += 1;
                    }
                    *last = *last << 8 | u32::from(byte);
                    out.push(byte);
                    input = rest;
                    if last.to_be_bytes() == *b"\r\n\r\n" {
                        self.at = if *first == SWITCHED { NEXT_HEAD } else { At::Blind };
                    }
                }
                At::Head { head, have } => {
                    head[*have] = byte;
                    *have += 1;
                    input = rest;
                    let (head, have) = (*head, *have);
                    if have == head_size(head[1]) {
                        self.begin(&head[..have], out);
                    }
                }
                At::Payload { left, keep } => {
                    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                    if *keep {
                        out.extend_from_slice(&input[..now]);
                    }
                    input = &input[now..];
                    *left -= now as u64;
                    if *left == 0 {
                        self.at = NEXT_HEAD;
                    }
                }
                At::Blind => {
                    out.extend_from_slice(input);
                    return;
                }
            }
        }
    }

    /// A frame's head is complete: decides over its payload. RFC 6455, section 5.2.
    fn begin(&mut self, head: &[u8], out: &mut Vec<u8>) {
        let (first, second) = (head[0], head[1]);
        let opcode = first & 0x0f;
        let size = match head.len() {
            2 => u64::from(second & 0x7f),
            _ => head[2..].iter().fold(0, |n, &byte| n << 8 | u64::from(byte)),
        };
        if second & 0x80 != 0 {
            out.extend_from_slice(head);
            self.at = At::Blind;
            return;
        }
        let is_data = opcode < 8;
        if is_data && opcode != 0 {
            self.message = 0;
        }
        let keep = !is_data || self.message.saturating_add(size) <= self.limit;
        if is_data && keep {
            self.message += size;
        }
        out.push(if opcode == 1 { first & 0xf0 | 2 } else { first });
        if keep {
            out.extend_from_slice(&head[1..])
        } else {
            out.push(0)
        }
        self.at = if size == 0 { NEXT_HEAD } else { At::Payload { left: size, keep } };
    }
}

/// Bytes of a frame's head, masking key apart, by its second byte.
fn head_size(second: u8) -> usize {
    match second & 0x7f {
        126 => 4,
        127 => 10,
        _ => 2,
    }
}
