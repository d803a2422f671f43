//! Free TCP ports on loopback for programs that must be told their port.

use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that a server which
/// is stopped for a while finds its port free again.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const ATTEMPTS_MAX: usize = 200;

/// The first of `count` ports in a row that were free a moment ago. Nothing reserves them: a caller whose program
/// cannot bind asks again.
pub(crate) fn free_block(count: u16) -> u16 {
    (0..ATTEMPTS_MAX)
        .map(|_| rand::random_range(PORTS.start..PORTS.end - count))
        .find(|first| {
            (*first..first + count).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        })
        .unwrap_or_else(|| panic!("no {count} free ports in a row on 127.0.0.1 within {PORTS:?}"))
}
