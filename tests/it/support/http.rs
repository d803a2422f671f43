//! The smallest HTTP client that the tests need: one request, one answer, over plain TCP to loopback.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// No answer within this is a failure. Loopback answers in milliseconds; a loaded machine may take seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// GETs an `http://` address.
pub(crate) fn get(url: &str) -> std::io::Result<Response> {
    request("GET", url, &[], "")
}

/// Makes one request. It speaks HTTP/1.0, so an answer is never chunked and ends where the connection ends.
pub(crate) fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Response> {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("not an http:// address: {url}"));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let path = if path.is_empty() { "/" } else { path };
    let mut head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += &format!("Host: {host}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Response { status: status.ok_or(std::io::ErrorKind::InvalidData)?, body: body.to_owned() })
}
