//! Where the profiler of a training is asked: its address in the settings.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Where a training listens: `PORT` on the loopback interface, or `IP:PORT`. Port 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilerAddress(SocketAddr);

impl ProfilerAddress {
    /// The address for one of several processes: ports count up, so that processes of one machine do not collide.
    pub(crate) fn of_process(self, rank: usize) -> SocketAddr {
        let mut address = self.0;
        if address.port() != 0 {
            let port = usize::from(address.port()).saturating_add(rank);
            address.set_port(u16::try_from(port).unwrap_or(0));
        }
        address
    }
}

impl FromStr for ProfilerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ProfilerAddress, String> {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let port = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>();
        let address = port.map(loopback).or_else(|_| text.parse());
        address
            .map(ProfilerAddress)
            .map_err(|_| format!("`{text}` is no port and no IP:PORT, as in 9012 or 10.0.0.7:9012"))
    }
}

impl fmt::Display for ProfilerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_on_the_loopback_interface() {
        let check = |text: &str, expected: &str| {
            let address: ProfilerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), expected);
        };
        check("9012", "127.0.0.1:9012");
        check("0", "127.0.0.1:0");
        check("localhost:9012", "127.0.0.1:9012");
        check("0.0.0.0:9012", "0.0.0.0:9012");
        check("[::1]:9012", "[::1]:9012");
        for wrong in ["", "x", "70000", "host:9012", "1.2.3.4"] {
            assert!(wrong.parse::<ProfilerAddress>().is_err(), "{wrong}");
        }
        let address: ProfilerAddress = "9012".parse().unwrap();
        assert_eq!(address.of_process(3).port(), 9015);
    }
}
