//! An etcd of three members with certificates, in the network outside of a run.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use testkit::{Needed, make_certificates, require};

use crate::harness::Bench;
use crate::networks::Networks;

pub(super) const MEMBERS: usize = 3;
const PORT: u16 = 2379;

pub(super) struct Cluster {
    members: Vec<Child>,
    commands: Vec<Command>,
    address: String,
    folder: PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

impl Cluster {
    pub(super) fn start(bench: &Bench, networks: &Networks, host: usize) -> Cluster {
        let program = require("faults of etcd", Needed::Etcd).expect("a campaign needs etcd");
        let (address, folder) = (networks.address(host), bench.path("etcd"));
        std::fs::create_dir(&folder).unwrap();
        make_certificates(&folder, &address);
        let url = |scheme: &str, member: usize, second: u16| {
            format!("{scheme}://{address}:{}", PORT + 2 * member as u16 + second)
        };
        let all: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}={}", url("http", n, 1))).collect();
        let command = |n: usize| {
            let (client, peer) = (url("https", n, 0), url("http", n, 1));
            let mut plain = Command::new(&program);
            plain.current_dir(&folder).args(["--name", &format!("m{n}"), "--data-dir", &format!("data{n}")]);
            plain.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            plain.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            plain.args(["--initial-cluster", &all.join(","), "--cert-file", "server.pem", "--key-file", "server.key"]);
            plain.args(["--client-cert-auth", "--trusted-ca-file", "ca.pem"]);
            let mut command = networks.inside(host, &plain);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let mut commands: Vec<Command> = (0..MEMBERS).map(command).collect();
        let members = commands.iter_mut().map(|command| command.spawn().unwrap()).collect();
        Cluster { members, commands, address, folder }
    }

    pub(super) fn coordinator(&self) -> String {
        let member = |n: usize| format!("{}:{}", self.address, PORT + 2 * n as u16);
        format!("etcds://{}/campaign", (0..MEMBERS).map(member).collect::<Vec<_>>().join(","))
    }

    /// What a process needs to know to be let in.
    pub(super) fn variables(&self) -> [(&'static str, PathBuf); 3] {
        let file = |name: &str| self.folder.join(name);
        [
            ("TPUBRIDGE_ETCD_CA_FILE", file("ca.pem")),
            ("TPUBRIDGE_ETCD_CERT_FILE", file("client.pem")),
            ("TPUBRIDGE_ETCD_KEY_FILE", file("client.key")),
        ]
    }

    pub(super) fn restart(&mut self, member: usize) {
        self.members[member].kill().unwrap();
        self.members[member].wait().unwrap();
        self.members[member] = self.commands[member].spawn().unwrap();
    }

    pub(super) fn signal(&self, signal: &str) {
        for member in &self.members {
            let sent = Command::new("kill").args([signal, &member.id().to_string()]).status().unwrap();
            assert!(sent.success());
        }
    }
}
