//! Which addresses are on the public network. Pure; the source is IANA's special-purpose address registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a client may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Public,
    PublicAndLoopback,
    Anywhere,
}

impl Reach {
    pub(super) fn allows(self, address: IpAddr) -> bool {
        // An IPv4 address in IPv6 clothes is connected to as what it is.
        let address = address.to_canonical();
        match self {
            Self::Anywhere => true,
            Self::PublicAndLoopback if address.is_loopback() => true,
            Self::PublicAndLoopback | Self::Public => is_public(address),
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|(net, bits)| in_v4(address, *net, *bits)),
        IpAddr::V6(address) => {
            let (global, bits) = GLOBAL_V6;
            in_v6(address, global, bits)
                && !NOT_PUBLIC_V6.iter().any(|(net, bits)| in_v6(address, *net, *bits))
        }
    }
}

const fn v4(a: u8, b: u8, c: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, 0)
}

const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 15] = [
    (v4(0, 0, 0), 8),       // this network; Linux connects 0.0.0.0 to itself
    (v4(10, 0, 0), 8),      // private
    (v4(100, 64, 0), 10),   // carrier-grade NAT
    (v4(127, 0, 0), 8),     // loopback
    (v4(169, 254, 0), 16),  // link-local, with the clouds' metadata services
    (v4(172, 16, 0), 12),   // private
    (v4(192, 0, 0), 24),    // protocol assignments
    (v4(192, 0, 2), 24),    // documentation
    (v4(192, 88, 99), 24),  // 6to4 relays
    (v4(192, 168, 0), 16),  // private
    (v4(198, 18, 0), 15),   // benchmarks
    (v4(198, 51, 100), 24), // documentation
    (v4(203, 0, 113), 24),  // documentation
    (v4(224, 0, 0), 4),     // multicast
    (v4(240, 0, 0), 4),     // reserved, with the broadcast address
];

const fn v6(a: u16, b: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0)
}

/// All that has been given out as global unicast. Outside of it lie `::`, `::1`, NAT64 (64:ff9b::/96, 64:ff9b:1::/48),
/// 100::/64, fc00::/7, fe80::/10 and ff00::/8, among others.
const GLOBAL_V6: (Ipv6Addr, u32) = (v6(0x2000, 0), 3);

const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (v6(0x2001, 0), 23),     // protocol assignments, with Teredo (2001::/32)
    (v6(0x2001, 0xdb8), 32), // documentation
    (v6(0x2002, 0), 16),     // 6to4: wraps any IPv4 address
    (v6(0x3fff, 0), 20),     // documentation
];

fn in_v4(address: Ipv4Addr, net: Ipv4Addr, bits: u32) -> bool {
    (address.to_bits() ^ net.to_bits()) >> (32 - bits) == 0
}

fn in_v6(address: Ipv6Addr, net: Ipv6Addr, bits: u32) -> bool {
    (address.to_bits() ^ net.to_bits()) >> (128 - bits) == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The first and last address of each range, and of its neighbours where they are public.
    #[test]
    fn every_special_range_is_refused_to_its_edges() {
        for (refused, public) in [
            ("0.0.0.0 0.255.255.255", "1.0.0.0"),
            ("10.0.0.0 10.255.255.255", "9.255.255.255 11.0.0.0"),
            ("100.64.0.0 100.127.255.255", "100.63.255.255 100.128.0.0"),
            ("127.0.0.0 127.0.0.1 127.255.255.255", "126.255.255.255 128.0.0.0"),
            ("169.254.0.0 169.254.169.254 169.254.255.255", "169.253.255.255 169.255.0.0"),
            ("172.16.0.0 172.31.255.255", "172.15.255.255 172.32.0.0"),
            ("192.0.0.0 192.0.0.255 192.0.2.0 192.0.2.255", "191.255.255.255 192.0.1.0 192.0.3.0"),
            ("192.88.99.0 192.88.99.255", "192.88.98.255 192.88.100.0"),
            ("192.168.0.0 192.168.255.255", "192.167.255.255 192.169.0.0"),
            ("198.18.0.0 198.19.255.255", "198.17.255.255 198.20.0.0"),
            ("198.51.100.0 198.51.100.255", "198.51.99.255 198.51.101.0"),
            ("203.0.113.0 203.0.113.255", "203.0.112.255 203.0.114.0"),
            ("224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.255", "223.255.255.255"),
            (":: ::1 ::2 ::7f00:1", "2606:4700::1111"),
            ("::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254", "::ffff:1.1.1.1"),
            ("64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1", "2a00:1450::1"),
            ("100:: 100::ffff:ffff:ffff:ffff 1fff::1", "2000::1"),
            ("2001:: 2001:0:ffff::1 2001:1ff:ffff::1", "2001:200::1"),
            ("2001:db8:: 2001:db8:ffff::1", "2001:db7::1 2001:db9::1"),
            ("2002:: 2002:7f00:1:: 2002:ffff::1", "2001:ffff::1 2003::1"),
            ("3fff:: 3fff:fff::1", "3ffe::1 3fff:1000::1"),
            ("4000::1 5f00::1 fc00:: fdff::1 fe80:: febf::1 fec0::1 ff00:: ff02::1", "3f00::1"),
        ] {
            let parse = |text: &str| -> IpAddr { text.parse().unwrap() };
            for address in refused.split(' ').map(parse) {
                assert!(!Reach::Public.allows(address), "{address} was allowed");
                assert_eq!(
                    Reach::PublicAndLoopback.allows(address),
                    address.to_canonical().is_loopback(),
                    "{address}"
                );
                assert!(Reach::Anywhere.allows(address));
            }
            for address in public.split(' ').map(parse) {
                assert!(Reach::Public.allows(address), "{address} was refused");
            }
        }
    }
}
