//! Networks of the kernel's own for the processes of a test, with faults: cut off, slow, lossy. Root only.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Networks that a bridge connects, one for each host. Nothing of it is in the network of the machine; all of it goes with this.
pub(crate) struct Networks {
    ip: PathBuf,
    prefix: String,
    hosts: usize,
}

impl Networks {
    pub(crate) fn new(hosts: usize) -> Result<Networks, String> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let ip = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"].iter().map(PathBuf::from).find(|p| p.exists());
        let ip = ip.ok_or("there is no `ip` command (Debian package iproute2)")?;
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let networks = Networks { ip, prefix: format!("tpub{}-{made}-", std::process::id()), hosts };
        let bridge = networks.bridge();
        networks.run(&["netns", "add", &bridge])?;
        networks.run(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])?;
        networks.run(&["-n", &bridge, "link", "set", "br0", "up"])?;
        for n in 0..hosts {
            let (name, port) = (networks.name(n), format!("port{n}"));
            networks.run(&["netns", "add", &name])?;
            let link = ["link", "add", "eth0", "netns", &name, "type", "veth", "peer", "name", &port, "netns", &bridge];
            networks.run(&link)?;
            networks.run(&["-n", &bridge, "link", "set", &port, "master", "br0"])?;
            networks.run(&["-n", &bridge, "link", "set", &port, "up"])?;
            let address = format!("{}/24", networks.address(n));
            networks.run(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            networks.run(&["-n", &name, "link", "set", "eth0", "up"])?;
            networks.run(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(networks)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.prefix)
    }

    fn name(&self, host: usize) -> String {
        format!("{}{host}", self.prefix)
    }

    pub(crate) fn address(&self, host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// A command as it is, in the network of a host.
    pub(crate) fn inside(&self, host: usize, plain: &Command) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.name(host)]).arg(plain.get_program()).args(plain.get_args());
        if let Some(folder) = plain.get_current_dir() {
            command.current_dir(folder);
        }
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Cuts a host off, or connects it again.
    pub(crate) fn set_connected(&self, host: usize, is_connected: bool) {
        let to = if is_connected { "up" } else { "down" };
        self.run(&["-n", &self.bridge(), "link", "set", &format!("port{host}"), to]).unwrap();
    }

    /// What `tc` does to what a host sends: the first of these disciplines that the kernel has; nothing, if there are none.
    pub(crate) fn set_disturbance(&self, host: usize, disciplines: &[&str]) -> Result<(), String> {
        let tc = ["/usr/sbin/tc", "/sbin/tc"].iter().map(PathBuf::from).find(|path| path.exists());
        let tc = tc.ok_or("there is no `tc` command (Debian package iproute2)")?;
        let name = self.name(host);
        let run = |verb: &str, discipline: &str| {
            let mut command = Command::new(&tc);
            command.args(["-n", &name, "qdisc", verb, "dev", "eth0", "root"]).args(discipline.split_whitespace());
            succeeded(&mut command)
        };
        if disciplines.is_empty() {
            return run("del", "");
        }
        let mut tried = disciplines.iter().map(|discipline| run("replace", discipline));
        tried.find(Result::is_ok).unwrap_or_else(|| Err(format!("the kernel has none of {disciplines:?}")))
    }

    fn run(&self, args: &[&str]) -> Result<(), String> {
        succeeded(Command::new(&self.ip).args(args))
    }
}

fn succeeded(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in (0..self.hosts).map(|host| self.name(host)).chain([self.bridge()]) {
            let _ = self.run(&["netns", "del", &name]);
        }
    }
}
