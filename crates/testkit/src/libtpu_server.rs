//! Hosts on this machine that serve libtpu's metrics as different versions of it do, or do not
//! (`crates/testkit/python/libtpu_server.py`).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::present::{Needed, repository, require};

/// Some hosts. They end with this value.
#[derive(Debug)]
pub struct LibtpuServers {
    child: Child,
    ports: Vec<u16>,
}

impl LibtpuServers {
    /// Starts a host for each mode, or reports the skip of a test.
    pub fn start(test: &str, modes: &[&str]) -> Option<LibtpuServers> {
        let python = require(test, Needed::OperatePython)?;
        let script = repository().join("crates/testkit/python/libtpu_server.py");
        let mut command = Command::new(python);
        command.arg(script).args(modes).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the servers start");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the servers speak");
        let ports: Vec<u16> = line.split_whitespace().filter_map(|port| port.parse().ok()).collect();
        assert_eq!(ports.len(), modes.len(), "the servers printed `{line}`");
        Some(LibtpuServers { child, ports })
    }

    /// Where the host of a mode listens, by its place.
    pub fn address(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.ports[place])
    }
}

impl Drop for LibtpuServers {
    fn drop(&mut self) {
        // They end when their standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
