//! Which hosts are asked: those that are named, those of this slice, or this machine.

use std::fmt;
use std::net::IpAddr;

use telemetry::TrainingRecord;
use telemetry::runtime_metrics::DEFAULT_PORT;

use super::collect::MonitorError;

/// Hosts at most.
const MAX_HOSTS: usize = 4096;

/// A host that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorTarget {
    /// As it is shown.
    pub name: String,
    /// `HOST:PORT` of its service; `None` where it has no address yet, as a pod that has not started.
    pub address: Option<String>,
    /// Why it has no address.
    pub note: Option<String>,
}

impl MonitorTarget {
    /// A host by name or address, with a port or without.
    pub fn new(text: &str) -> Result<MonitorTarget, MonitorError> {
        let text = text.trim();
        let refuse = |why: &str| MonitorError::Host { host: text.chars().take(80).collect(), why: why.to_string() };
        let (host, port) = split(text).map_err(&refuse)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_address = host.parse::<IpAddr>().is_ok();
        if !is_address && (host.is_empty() || host.len() > 253 || host.starts_with('-') || !host.chars().all(is_plain))
        {
            return Err(refuse("it is no host name"));
        }
        let shown = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        let name = if port == DEFAULT_PORT { host.to_string() } else { format!("{shown}:{port}") };
        Ok(MonitorTarget { name, address: Some(format!("{shown}:{port}")), note: None })
    }

    /// Whether it is this machine.
    pub fn is_local(&self) -> bool {
        let host = self.address.as_deref().and_then(|address| address.rsplit_once(':')).map_or("", |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for MonitorTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`, or an address of IPv6 alone.
fn split(text: &str) -> Result<(&str, u16), &'static str> {
    let port = |text: &str| {
        text.parse::<u16>().ok().filter(|port| *port > 0).ok_or("its port is not a number from 1 to 65535")
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("`[` without `]`")?;
        return match rest.strip_prefix(':') {
            Some(number) => Ok((host, port(number)?)),
            None if rest.is_empty() => Ok((host, DEFAULT_PORT)),
            None => Err("after `]` comes a port, as in `[::1]:8431`"),
        };
    }
    match text.rsplit_once(':') {
        Some((host, number)) if !host.contains(':') => Ok((host, port(number)?)),
        _ => Ok((text, DEFAULT_PORT)),
    }
}

/// Hosts by a list with commas.
pub fn hosts(list: &str) -> Result<Vec<MonitorTarget>, MonitorError> {
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() > MAX_HOSTS {
        let why = format!("the list has {} hosts: give 1 to {MAX_HOSTS}", names.len());
        return Err(MonitorError::Host { host: list.chars().take(80).collect(), why });
    }
    let mut targets: Vec<MonitorTarget> = Vec::new();
    for name in names {
        let target = MonitorTarget::new(name)?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// The hosts of the slice that this machine belongs to; this machine alone where it belongs to none.
pub fn slice_or_local() -> Result<Vec<MonitorTarget>, MonitorError> {
    let slice = runtime::distributed::slice_hosts().map_err(MonitorError::Slice)?;
    match slice.is_empty() {
        true => Ok(vec![MonitorTarget::new("localhost")?]),
        false => hosts(&slice.join(",")),
    }
}

/// The hosts that a training on TPUs, started on this machine, runs on; none where its record names other devices.
pub fn hosts_of(training: &TrainingRecord) -> Result<Vec<MonitorTarget>, MonitorError> {
    if training.platform == "tpu" { slice_or_local() } else { Ok(Vec::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_every_form() {
        let check = |text: &str, name: &str, address: &str| {
            let target = MonitorTarget::new(text).unwrap();
            assert_eq!((target.name.as_str(), target.address.as_deref()), (name, Some(address)), "{text}");
        };
        check("t-0", "t-0", "t-0:8431");
        check(" t-0:9000 ", "t-0:9000", "t-0:9000");
        check("10.0.0.2", "10.0.0.2", "10.0.0.2:8431");
        check("::1", "::1", "[::1]:8431");
        check("[::1]", "::1", "[::1]:8431");
        check("[::1]:9", "[::1]:9", "[::1]:9");
        assert!(MonitorTarget::new("[::1]:9").unwrap().is_local());
        assert!(MonitorTarget::new("localhost").unwrap().is_local());
        assert!(!MonitorTarget::new("t-0").unwrap().is_local());
        for wrong in ["", "a b", "a:0", "a:b", "a:65536", "[::1", "[::1]x", "-a", "$(reboot)", "a/b", "\u{1b}[2J"] {
            assert!(MonitorTarget::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(hosts("a, b:1,a,").unwrap().len(), 2);
        assert!(hosts(" , ").unwrap_err().to_string().contains("0 hosts"));
        let many: Vec<String> = (0..=MAX_HOSTS).map(|n| format!("h{n}")).collect();
        assert!(hosts(&many.join(",")).is_err());
    }
}
