//! `tpu launch`: four processes learn what one learns, one that is killed is named and nobody is left, also over a real sshd.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use telemetry::ProcessPresence;
use testkit::skip;

use crate::harness::{Bench, Ran, arg, ran};
use crate::mesh_training::{assert_alike, losses};
use crate::processes::{MESH, PATIENCE, PROCESSES, llama, manager};

const TPU: &str = env!("CARGO_BIN_EXE_tpu");

/// A launch of the small Llama, not yet started.
fn launch(bench: &Bench, options: &[&str], folder: &str, with: &[&str]) -> Command {
    let train = [TPU, "train", arg(&bench.path("llama.toml")), "-d", "cpu"].map(String::from);
    let folder = ["--folder".to_string(), arg(&bench.path(folder)).to_string()];
    let words = [&["launch"], options, &["--"]].concat();
    let mut command = bench.command(&words);
    command.args(train).args(folder).args(MESH);
    with.iter().for_each(|change| {
        command.args(["--with", change]);
    });
    command.env("TPUBRIDGE_CPU_THREADS", "1");
    command
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The processes of a training that has saved its first checkpoint.
fn until_saved(bench: &Bench, folder: &str, launcher: &mut Child) -> Vec<ProcessPresence> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let processes = ProcessPresence::all(&bench.path(folder)).unwrap_or_default();
        if processes.len() == PROCESSES && manager(bench, folder).latest().is_ok_and(|latest| latest.is_some()) {
            return processes;
        }
        assert!(Instant::now() < deadline, "no checkpoint appears");
        assert!(launcher.try_wait().unwrap().is_none(), "the launcher ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until processes that are not children of this one are gone.
fn until_gone(processes: &[ProcessPresence]) {
    let deadline = Instant::now() + PATIENCE;
    let is_there = |process: &ProcessPresence| {
        let pid = Pid::from_raw(process.pid as i32).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        test_kill_process(pid).is_ok() && !stat.contains(") Z ")
    };
    while processes.iter().any(is_there) {
        assert!(Instant::now() < deadline, "a process is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn four_launched_processes_learn_what_one_learns() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    bench.expect(0, &["train", "llama.toml", "--folder", "one", "-d", "cpu"]);
    let ran = ran(launch(&bench, &["-n", "4", "--logs", "logs"], "four", &[]).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_alike("launched processes", &losses(&bench, "four"), &losses(&bench, "one"));
    for process in 0..PROCESSES {
        assert!(ran.stderr.contains(&format!("[{process}] ")), "{}", ran.stderr);
        let log = std::fs::read_to_string(bench.path(&format!("logs/process-{process}.log"))).unwrap();
        assert!(!log.is_empty() && !log.contains(&format!("[{process}] ")), "{log}");
    }
}

#[test]
fn a_killed_process_ends_all_and_a_signal_saves_all() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let endless = ["train.steps=1000000", "train.save_every=1"];
    let mut launcher = start(launch(&bench, &["-n", "4", "--json"], "four", &endless));
    let processes = until_saved(&bench, "four", &mut launcher);
    kill_process(Pid::from_raw(processes[2].pid as i32).unwrap(), Signal::KILL).unwrap();
    let killed = ran(launcher.wait_with_output().unwrap());
    assert_eq!(killed.code, Some(137), "{}{}", killed.stdout, killed.stderr);
    assert!(killed.stderr.contains("error: process 2 was killed (SIGKILL)"), "{}", killed.stderr);
    let record: Value = serde_json::from_str(&killed.stdout).unwrap();
    assert_eq!((record["culprit"].as_u64(), record["exit_code"].as_i64()), (Some(2), Some(137)), "{record}");
    assert_eq!(record["processes"].as_array().unwrap().len(), PROCESSES);
    until_gone(&processes);
    // They go on from the checkpoint, and a signal to the launcher saves all.
    std::fs::remove_dir_all(bench.path("four/processes")).unwrap();
    let mut launcher = start(launch(&bench, &["-n", "4"], "four", &["train.steps=1000000", "train.save_every=50"]));
    let processes = until_saved(&bench, "four", &mut launcher);
    kill_process(Pid::from_child(&launcher), Signal::TERM).unwrap();
    let stopped = ran(launcher.wait_with_output().unwrap());
    assert_eq!(stopped.code, Some(75), "{}{}", stopped.stdout, stopped.stderr);
    assert!(stopped.stderr.contains("resuming from step"), "{}", stopped.stderr);
    until_gone(&processes);
    // A launcher that is killed leaves nobody.
    let _ = std::fs::remove_dir_all(bench.path("four/processes"));
    let mut launcher = start(launch(&bench, &["-n", "4"], "four", &endless));
    let processes = until_saved(&bench, "four", &mut launcher);
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    until_gone(&processes);
}

/// A server of this test's own on a port of this machine, which lets this user in.
struct Sshd {
    server: Child,
    client: String,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Sshd {
    fn start(bench: &Bench) -> Result<Sshd, String> {
        let program = "/usr/sbin/sshd";
        if !Path::new(program).exists() {
            return Err("there is no /usr/sbin/sshd".into());
        }
        let folder = bench.path("ssh");
        std::fs::create_dir_all(&folder).unwrap();
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            let made = command.status().map_err(|error| format!("ssh-keygen: {error}"))?;
            assert!(made.success());
        }
        std::fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = arg(&folder);
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        );
        std::fs::write(folder.join("sshd_config"), config).unwrap();
        // What Debian's package expects for its own user.
        let _ = std::fs::create_dir_all("/run/sshd");
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config")).stdin(Stdio::null()).stderr(log);
        let server = command.spawn().map_err(|error| error.to_string())?;
        let client = format!(
            "/usr/bin/ssh -F none -p {port} -i {place}/user -oStrictHostKeyChecking=no -oUserKnownHostsFile={place}/known \
             -oLogLevel=ERROR"
        );
        let sshd = Sshd { server, client };
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mut words = sshd.client.split_whitespace();
            let mut command = Command::new(words.next().unwrap());
            let tried = command.args(words).args(["127.0.0.1", "true"]).output().map_err(|error| error.to_string())?;
            if tried.status.success() {
                return Ok(sshd);
            }
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(format!("sshd lets nobody in: {}{log}", String::from_utf8_lossy(&tried.stderr)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn hosts_are_reached_by_ssh() {
    let bench = Bench::bare();
    let sshd = match Sshd::start(&bench) {
        Ok(sshd) => sshd,
        Err(why) => return skip("hosts_are_reached_by_ssh", &why),
    };
    let hosts = |hosts: &str, script: &str| -> Ran {
        let words = ["launch", "--hosts", hosts, "--ssh", &sshd.client, "--remote-tpu", TPU, "--env", "A=b c"];
        ran(bench.command(&[&words[..], &["--", "/bin/sh", "-c", script]].concat()).output().unwrap())
    };
    let two = "127.0.0.1,localhost";
    let said = hosts(two, "echo $TPUBRIDGE_PROCESS_ID of $TPUBRIDGE_PROCESSES at $TPUBRIDGE_COORDINATOR $A");
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("[0 127.0.0.1] 0 of 2 at 127.0.0.1:8476 b c\n"), "{}", said.stdout);
    assert!(said.stdout.contains("[1 localhost] 1 of 2 at 127.0.0.1:8476 b c\n"), "{}", said.stdout);
    // One dies: the other, which does not listen, is gone on its host too.
    let file = bench.path("id");
    let place = arg(&file);
    let script = format!(
        "if [ $TPUBRIDGE_PROCESS_ID = 1 ]; then while [ ! -s {place} ]; do sleep 0.05; done; exit 5; fi
         trap '' TERM HUP; echo $$ >{place}; while true; do sleep 0.1; done"
    );
    let died = hosts(two, &script);
    assert_eq!(died.code, Some(5), "{}{}", died.stdout, died.stderr);
    assert!(died.stderr.contains("error: process 1 on localhost ended with code 5"), "{}", died.stderr);
    let left = std::fs::read_to_string(&file).unwrap();
    assert!(!Path::new("/proc").join(left.trim()).exists());
    // A secret is not in the words of a command, which everybody sees.
    let words = hosts("127.0.0.1", "tr '\\0' ' ' </proc/$PPID/cmdline; echo; echo $TPUBRIDGE_SECRET");
    let lines: Vec<&str> = words.stdout.lines().collect();
    assert!(
        lines[0].contains("launch-worker") && !lines[0].contains(lines[1].rsplit(' ').next().unwrap()),
        "{lines:?}"
    );
    // A launcher that is killed leaves nobody on the hosts.
    std::fs::remove_file(&file).unwrap();
    let forever = format!("trap '' TERM HUP; echo $$ >{place}; while true; do sleep 0.1; done");
    let words = ["launch", "--hosts", "127.0.0.1", "--ssh", &sshd.client, "--remote-tpu", TPU, "--", "/bin/sh", "-c"];
    let mut launcher = start(bench.command(&[&words[..], &[&forever]].concat()));
    let deadline = Instant::now() + PATIENCE;
    let id = loop {
        assert!(Instant::now() < deadline, "it does not start");
        match std::fs::read_to_string(&file).unwrap_or_default().trim() {
            "" => std::thread::sleep(Duration::from_millis(20)),
            id => break id.to_string(),
        }
    };
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    while Path::new("/proc").join(&id).exists() {
        assert!(Instant::now() < deadline, "a process is left on the host");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A host that is not there is named.
    let absent = hosts("127.0.0.1,no.such.host.invalid", "sleep 100");
    drop(sshd);
    assert_eq!(absent.code, Some(255), "{}{}", absent.stdout, absent.stderr);
    assert!(absent.stderr.contains("process 1 on no.such.host.invalid was not reached by ssh"), "{}", absent.stderr);
}
