//! etcd as the store: plain, with TLS and passwords, while it restarts, and when it is away for longer than a lease.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use runtime::distributed::{Given, MultiHostConfig, Session};
use testkit::{Needed, make_certificates, require};

use crate::distributed::{a_store_serves, who_goes_is_named, who_is_killed_is_named};
use crate::processes::{PATIENCE, config, free_address, together_as};

/// An etcd server of the test's own.
struct EtcdServer {
    program: PathBuf,
    child: Child,
    address: String,
    peers: String,
    folder: tempfile::TempDir,
    is_secure: bool,
}

impl EtcdServer {
    fn start(program: &Path) -> EtcdServer {
        EtcdServer::start_in(tempfile::tempdir().unwrap(), program, false)
    }

    /// With certificates for both sides.
    fn start_secure(program: &Path) -> EtcdServer {
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path(), "127.0.0.1");
        EtcdServer::start_in(folder, program, true)
    }

    fn start_in(folder: tempfile::TempDir, program: &Path, is_secure: bool) -> EtcdServer {
        let (address, peers) = (free_address(), free_address());
        let child = run_etcd(program, &folder, &address, &peers, is_secure);
        EtcdServer { program: program.into(), child, address, peers, folder, is_secure }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, with what it had.
    fn again(&mut self) {
        self.child = run_etcd(&self.program, &self.folder, &self.address, &self.peers, self.is_secure);
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_string()
    }

    /// A process's configuration, by variables as a user sets them.
    fn config(&self, processes: usize, id: usize, variables: &[(&str, &str)]) -> Result<MultiHostConfig, String> {
        let scheme = if self.is_secure { "etcds" } else { "etcd" };
        let given = Given {
            processes: Some(processes),
            process_id: Some(id),
            // The first member is not there: the second is asked.
            coordinator: Some(format!("{scheme}://127.0.0.1:1,{}/job", self.address)),
        };
        let look = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, v)| v.to_string());
        let config = MultiHostConfig::resolve(&given, look).map_err(|error| error.to_string())?.unwrap();
        let (heartbeat_timeout, join_timeout) = (Duration::from_secs(10), PATIENCE);
        Ok(MultiHostConfig { heartbeat_timeout, join_timeout, ..config })
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run_etcd(program: &Path, folder: &tempfile::TempDir, address: &str, peers: &str, is_secure: bool) -> Child {
    let scheme = if is_secure { "https" } else { "http" };
    let (client_url, peer_url) = (format!("{scheme}://{address}"), format!("http://{peers}"));
    let mut command = Command::new(program);
    command
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}")]);
    if is_secure {
        let file = |name: &str| folder.path().join(name);
        command.arg("--cert-file").arg(file("server.pem")).arg("--key-file").arg(file("server.key"));
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(file("ca.pem"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Users, as an administrator makes them: `trainer` may use the keys of our jobs.
fn enable_passwords(server: &EtcdServer) {
    let read = |name: &str| std::fs::read(server.file(name)).unwrap();
    let identity = reqwest::Identity::from_pem(&[read("client.pem"), read("client.key")].concat()).unwrap();
    let authority = reqwest::Certificate::from_pem(&read("ca.pem")).unwrap();
    weights::choose_cryptography();
    let client = reqwest::Client::builder().no_proxy().identity(identity).tls_certs_only([authority]).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let call = |method: &str, body: &str| loop {
        let url = format!("https://{}/v3/{method}", server.address);
        let request = client.post(url).body(body.to_string()).send();
        match runtime.block_on(request) {
            Ok(answer) if answer.status().is_success() => break,
            // It is just starting.
            other => assert!(Instant::now() < deadline, "{method}: {other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    for user in ["root", "trainer"] {
        call("auth/user/add", &format!(r#"{{"name":"{user}","password":"{user}-password"}}"#));
        call("auth/role/add", &format!(r#"{{"name":"{user}"}}"#));
        call("auth/user/grant", &format!(r#"{{"user":"{user}","role":"{user}"}}"#));
    }
    // Keys that begin with "/tpubridge/".
    let keys = r#"{"permType":"READWRITE","key":"L3RwdWJyaWRnZS8=","range_end":"L3RwdWJyaWRnZTA="}"#;
    call("auth/role/grant", &format!(r#"{{"name":"trainer","perm":{keys}}}"#));
    call("auth/enable", "{}");
}

#[test]
fn etcd() {
    let Some(program) = require("etcd", Needed::Etcd) else { return };
    let server = EtcdServer::start(&program);
    let at = |job: &str| format!("etcd://{}/{job}", server.address);
    a_store_serves(|id| config(3, id, &at("stores")));
    who_goes_is_named(&at("gone"));
    who_is_killed_is_named(&at("killed"));
    // The same job again, while the lease of the process that was killed may still run.
    a_store_serves(|id| config(3, id, &at("killed")));
    // Without encryption it stays on the machine.
    let message = Session::join(&config(2, 1, "etcd://192.0.2.1:2379/job")).unwrap_err().to_string();
    assert!(message.contains("not encrypted: say etcds://"), "{message}");
}

#[test]
fn etcd_with_certificates_and_passwords() {
    let Some(program) = require("etcd_with_certificates_and_passwords", Needed::Etcd) else { return };
    let server = EtcdServer::start_secure(&program);
    let (ca, other) = (server.file("ca.pem"), server.file("other.pem"));
    let (certificate, key) = (server.file("client.pem"), server.file("client.key"));
    let authority = ("TPUBRIDGE_ETCD_CA_FILE", &*ca);
    let identity = [("TPUBRIDGE_ETCD_CERT_FILE", &*certificate), ("TPUBRIDGE_ETCD_KEY_FILE", &*key)];
    let refused = |variables: &[(&str, &str)], part: &str| {
        let config = server.config(2, 1, variables).unwrap();
        let message = Session::join(&config).unwrap_err().to_string();
        assert!(message.contains(part), "{variables:?}: {message}");
    };
    let user = |name, password| [("TPUBRIDGE_ETCD_USER", name), ("TPUBRIDGE_ETCD_PASSWORD", password)];
    let with = |parts: &[&[(&'static str, &'static str)]]| parts.concat();
    enable_passwords(&server);
    // Another authority, no certificate of ours, no password, another's password.
    refused(&[&[("TPUBRIDGE_ETCD_CA_FILE", &*other)][..], &identity].concat(), "certificate");
    refused(&[authority], "ertificate");
    refused(&[&[authority][..], &identity].concat(), "user name is empty");
    refused(&[&[authority][..], &identity, &with(&[&user("trainer", "wrong")])].concat(), "authentication failed");
    let good = [&[authority][..], &identity, &user("trainer", "trainer-password")].concat();
    a_store_serves(|id| server.config(3, id, &good).unwrap());
}

/// A run that lasts longer than any lease that nobody keeps alive still says its last word: while it works, it has no such lease.
#[test]
fn a_run_of_etcd_has_no_lease_that_runs_out() {
    let Some(program) = require("a_run_of_etcd_has_no_lease_that_runs_out", Needed::Etcd) else { return };
    let server = EtcdServer::start(&program);
    let sessions = together_as(2, |id| server.config(2, id, &[]).unwrap(), |_, session| session);
    let leases = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        weights::choose_cryptography();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("http://{}/v3/lease/leases", server.address)).body("{}").send();
        let text = runtime.block_on(async { request.await.unwrap().text().await.unwrap() });
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        answer["leases"].as_array().unwrap_or_else(|| panic!("{text}")).len()
    };
    assert_eq!(leases(), 2, "one that is kept alive for each process");
    std::thread::scope(|scope| {
        sessions.into_iter().for_each(|session| drop(scope.spawn(|| session.finish().unwrap())))
    });
    assert!(leases() >= 1, "that they are done outlives them");
}

#[test]
fn etcd_may_restart_within_a_lease_and_not_be_away_for_longer() {
    let Some(program) = require("etcd_may_restart_within_a_lease", Needed::Etcd) else { return };
    let mut server = EtcdServer::start(&program);
    let of = |server: &EtcdServer, id: usize, seconds: u64| {
        let heartbeat_timeout = Duration::from_secs(seconds);
        MultiHostConfig { heartbeat_timeout, ..server.config(2, id, &[]).unwrap() }
    };
    let sessions = together_as(2, |id| of(&server, id, 60), |_, session| session);
    server.kill();
    std::thread::scope(|scope| {
        // Asked while nobody is there, answered when somebody is.
        let waiting = scope.spawn(|| sessions[1].store().get("k", PATIENCE));
        let writing = scope.spawn(|| sessions[0].store().put("k", b"v"));
        server.again();
        writing.join().unwrap().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"v");
    });
    sessions[0].still_member().unwrap();
    std::thread::scope(|scope| {
        sessions.into_iter().for_each(|session| drop(scope.spawn(|| session.finish().unwrap())))
    });

    let sessions = together_as(2, |id| of(&server, id, 3), |_, session| session);
    server.signal("-STOP");
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        match sessions[0].still_member() {
            Ok(()) => assert!(Instant::now() < deadline, "a lease that nobody keeps alive goes on"),
            Err(error) => break error,
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(error.to_string().contains("process 0 is gone: etcd"), "{error}");
    assert!(sessions[0].store().put("k", b"v").unwrap_err().message.contains("is gone"));
    server.signal("-CONT");
}
