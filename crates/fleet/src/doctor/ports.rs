//! Check of the TCP ports the TPU runtime uses, from the kernel's list of listening sockets.

use super::{Check, Context, process};
use crate::System;

const METRICS_PORT: u16 = 8431;
/// Ports that must be free before a job starts, and who wants them.
const JOB_PORTS: [(u16, &str); 3] =
    [(8471, "libtpu between hosts"), (8476, "JAX's coordinator"), (8482, "libtpu's mesh controller")];

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    let listeners = listeners(context.system);
    if listeners.is_none() {
        return vec![Check::skipped("ports", "/proc/net/tcp cannot be read")];
    }
    let listeners = listeners.unwrap_or_default();
    vec![metrics(context, &listeners), job_ports(context, &listeners)]
}

/// A listening socket.
#[derive(Debug, PartialEq, Eq)]
struct Listener {
    port: u16,
    inode: u64,
}

fn listeners(system: &System) -> Option<Vec<Listener>> {
    let tables: Vec<String> =
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| system.read_text(path).ok()).collect();
    (!tables.is_empty()).then(|| tables.iter().flat_map(|table| table.lines().filter_map(listener)).collect())
}

/// `0: 0100007F:20EF 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 126 …`; state 0A is "listening".
fn listener(line: &str) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let listening = *fields.get(3)? == "0A";
    let inode = fields.get(9)?.parse().ok()?;
    listening.then_some(Listener { port: u16::from_str_radix(port, 16).ok()?, inode })
}

fn owner(system: &System, listener: &Listener) -> String {
    match process::owner_of_socket(system, listener.inode) {
        Some(pid) => process::describe(system, pid),
        None => "a process of another user".into(),
    }
}

fn metrics(context: &Context<'_>, listeners: &[Listener]) -> Check {
    let name = "runtime metrics";
    match listeners.iter().find(|l| l.port == METRICS_PORT) {
        Some(l) => Check::ok(name, format!("port {METRICS_PORT} is served by {}", owner(context.system, l))),
        None => Check::skipped(name, format!("nobody serves port {METRICS_PORT}: no program uses a TPU here now")),
    }
}

fn job_ports(context: &Context<'_>, listeners: &[Listener]) -> Check {
    let name = "ports";
    let busy: Vec<String> = JOB_PORTS
        .iter()
        .filter_map(|&(port, purpose)| {
            let listener = listeners.iter().find(|l| l.port == port)?;
            Some(format!("{port} ({purpose}) is held by {}", owner(context.system, listener)))
        })
        .collect();
    if busy.is_empty() {
        let free = JOB_PORTS.map(|(port, _)| port.to_string()).join(", ");
        return Check::ok(name, format!("{free} are free"));
    }
    Check::warn(name, busy.join("; "), "wait for that program, or end it, before starting a job on this machine's TPUs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_socket_table() {
        let check = |line: &str, expected| assert_eq!(listener(line), expected, "{line}");
        let rest = "00000000:00000000 00:00000000 00000000     0        0 126 1 0000 100 0 0 10 0";
        check(&format!("0: 0100007F:20EF 00000000:0000 0A {rest}"), Some(Listener { port: 8431, inode: 126 }));
        check(&format!("0: 0100007F:20EF 0100007F:1234 01 {rest}"), None);
        check("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", None);
        check("0: x:y", None);
        check("", None);
    }
}
