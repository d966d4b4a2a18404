//! Machines to reach by ssh: Debian's server in mount and process namespaces, each with a home and a loopback address of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::present::skip;

/// Machines, each an ssh server for root with nothing on it. All of them end with this. Root only.
pub struct SshMachines {
    folder: PathBuf,
    key: PathBuf,
    /// The third byte of their addresses: those of two tests differ.
    net: u8,
    running: Vec<Option<Child>>,
}

/// Machines of this process so far.
static NETS: AtomicU8 = AtomicU8::new(0);

const PROGRAMS: [&str; 4] = ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen", "/usr/bin/unshare"];

impl SshMachines {
    /// Boots machines whose files are in a folder, or reports the skip of a test.
    pub fn start(test: &str, folder: &Path, count: usize) -> Option<SshMachines> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let is_root =
            status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
        let missing = PROGRAMS.iter().find(|program| !Path::new(program).exists());
        if !is_root {
            skip(test, "namespaces need root");
            return None;
        }
        if let Some(program) = missing {
            skip(test, &format!("{program} is not there (Debian packages openssh-server, openssh-client, util-linux)"));
            return None;
        }
        std::fs::create_dir_all(folder).expect("a folder for machines");
        std::fs::create_dir_all("/run/sshd").expect("the folder that sshd wants");
        let key = folder.join("key");
        make_key(&key);
        let net = (std::process::id() as u8).wrapping_add(NETS.fetch_add(1, Ordering::Relaxed).wrapping_mul(97));
        let mut machines = SshMachines { folder: folder.to_path_buf(), key, net, running: Vec::new() };
        for at in 0..count {
            machines.running.push(None);
            machines.boot(at);
        }
        Some(machines)
    }

    /// The private key that root logs in with.
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// Where a machine is.
    pub fn address(&self, at: usize) -> String {
        format!("127.77.{}.{}", self.net, at + 1)
    }

    /// The key by which a machine's server proves who it is, as `known_hosts` has it.
    pub fn host_key(&self, at: usize) -> String {
        let text = std::fs::read_to_string(self.folder.join(format!("home{at}/host_key.pub"))).expect("it has booted");
        text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// The machine at an address.
    pub fn number(address: &str) -> Option<usize> {
        address.strip_prefix("127.77.")?.split_once('.')?.1.parse::<usize>().ok()?.checked_sub(1)
    }

    /// A new machine in the place of the one before: nothing is on it, and its key is new.
    pub fn boot(&mut self, at: usize) {
        self.crash(at);
        let home = self.folder.join(format!("home{at}"));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(home.join(".ssh")).expect("a home");
        std::fs::copy(self.key.with_extension("pub"), home.join(".ssh/authorized_keys")).expect("the key");
        make_key(&home.join("host_key"));
        let address = self.address(at);
        let config = format!(
            "ListenAddress {address}\nPort 22\nHostKey /root/host_key\nPermitRootLogin prohibit-password\nPidFile none\n\
             AuthorizedKeysFile /root/.ssh/authorized_keys\nUsePAM no\nStrictModes no\nMaxStartups 100\nPrintMotd no\n"
        );
        std::fs::write(home.join("sshd_config"), config).expect("its settings");
        let home = home.display();
        let script = format!("mount --bind {home} /root && cd /root && exec /usr/sbin/sshd -D -e -f /root/sshd_config");
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running[at] = Some(command.spawn().expect("unshare starts"));
    }

    /// Everything on a machine ends at once, and it does not answer any more.
    pub fn crash(&mut self, at: usize) {
        if let Some(mut child) = self.running[at].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for SshMachines {
    fn drop(&mut self) {
        (0..self.running.len()).for_each(|at| self.crash(at));
    }
}

fn make_key(path: &Path) {
    let _ = std::fs::remove_file(path);
    let made = Command::new("/usr/bin/ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).output();
    let made = made.expect("ssh-keygen starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
