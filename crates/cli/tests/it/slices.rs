//! `tpu up`, `ls`, `down`, `ssh`, `exec`, `cp` and `logs` on a stand-in of the Cloud TPU API, with real ssh servers as workers.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{CloudTpuServer, Needed, repository, require};

use crate::harness::{Bench, Ran, ran};

const ZONE: &str = "us-west4-a";
const LIMIT: Duration = Duration::from_secs(60);

/// A stand-in, and where commands run that know it as a person with gcloud would.
struct Cloud {
    bench: Bench,
    server: CloudTpuServer,
}

impl Cloud {
    fn start(test: &str, settings: Value) -> Option<Cloud> {
        Some(Cloud { bench: Bench::bare(), server: CloudTpuServer::start(test, &settings.to_string())? })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bench.command(words);
        command.env("GOOGLE_CLOUD_PROJECT", "test").env("PATH", "/usr/bin:/bin");
        command.env("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", self.server.endpoint());
        command.env("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true");
        command.env("TPUBRIDGE_HOME", self.bench.path("tpubridge"));
        command
    }

    #[track_caller]
    fn expect(&self, code: i32, words: &[&str]) -> Ran {
        let ran = ran(self.command(words).output().unwrap());
        assert_eq!(ran.code, Some(code), "tpu {}\n{}{}", words.join(" "), ran.stdout, ran.stderr);
        ran
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.expect(0, &[words, &["--json"]].concat()).stdout).unwrap()
    }

    fn lives(&self) -> Vec<Value> {
        let record: Value = serde_json::from_str(&self.server.record()).unwrap();
        record["lives"].as_array().unwrap().clone()
    }

    fn left(&self) -> usize {
        self.lives().iter().filter(|life| life["deleted"].is_null()).count()
    }
}

const UP: &[&str] = &["up", "job", "--type", "v5e-16", "--runtime-version", "v2-alpha-tpuv5-lite", "--spot"];

#[test]
fn a_dry_run_prints_requests_and_makes_none() {
    let bench = Bench::bare();
    let words =
        [UP, &["--project", "test", "--zone", "us-west4-a,us-central1-a", "--dry-run", "--slices", "2"]].concat();
    let text = bench.expect(0, &words).stdout;
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("GET ") || line.starts_with("POST ")).collect();
    assert_eq!(lines.len(), 8, "{text}");
    let start =
        "POST https://tpu.googleapis.com/v2/projects/test/locations/us-west4-a/queuedResources?queuedResourceId=job&";
    assert!(lines[2].starts_with(start), "{text}");
    let record = bench.json(&words);
    let spec = &record["requests"][2]["body"]["tpu"]["nodeSpec"][0];
    assert_eq!(spec["multisliceParams"], json!({"nodeCount": 2, "nodeIdPrefix": "job"}));
    assert_eq!(spec["node"]["acceleratorType"], "v5litepod-16");
    let down = bench.expect(0, &["down", "job", "--project", "test", "--zone", ZONE, "--dry-run"]).stdout;
    assert!(down.starts_with("DELETE ") && down.contains("queuedResources/job?requestId=&force=true"), "{down}");
}

#[test]
fn wrong_requests_are_told_what_is_right() {
    let bench = Bench::bare();
    let told = |words: &[&str], what: &str, hint: &str| {
        let ran = bench.expect(2, words);
        assert!(ran.stderr.contains(what) && ran.stderr.contains(&format!("hint: {hint}")), "{}", ran.stderr);
    };
    told(&[UP, &["--zone", ZONE]].concat(), "no Google Cloud project is given", "give --project");
    told(&[UP, &["--project", "test"]].concat(), "no zone is given", "give --zone");
    let seven = ["up", "job", "--type", "tpu7x-16", "--project", "test", "--zone", ZONE];
    told(&seven, "does not have tpu7x-16", "it is to be had on Google Kubernetes Engine");
    let mut named = UP.to_vec();
    named[1] = "My_Job";
    let ran = bench.expect(2, &[&named, &["--project", "test", "--zone", ZONE][..]].concat());
    assert!(ran.stderr.contains("such as \"my-job\""), "{}", ran.stderr);
}

#[test]
fn a_slice_is_made_once_listed_and_deleted() {
    let test = "a_slice_is_made_once_listed_and_deleted";
    let Some(cloud) = Cloud::start(test, json!({"scale": 10, "quota": {ZONE: 32}})) else { return };
    let up = [UP, &["--zone", ZONE, "--label", "owner=me"]].concat();
    let first = cloud.json(&up);
    assert_eq!((&first["version"], &first["slice"]["state"]), (&json!(1), &json!("ready")));
    assert_eq!(first["slice"]["workers"].as_array().unwrap().len(), 4);
    let again = cloud.json(&up);
    assert_eq!(first["slice"]["created_unix"], again["slice"]["created_unix"]);
    assert_eq!(cloud.lives().len(), 2);

    let ran = cloud.expect(2, &[UP, &["--zone", ZONE, "--label", "owner=you"]].concat());
    assert!(ran.stderr.contains("name is taken") && ran.stderr.contains("hint: choose another name"), "{}", ran.stderr);
    let big = ["up", "big", "--type", "v5e-64", "--runtime-version", "v2-alpha-tpuv5-lite", "--zone", ZONE];
    let ran = cloud.expect(2, &big);
    assert!(
        ran.stderr.contains("quota exceeded") && ran.stderr.contains("hint: delete what is dead"),
        "{}",
        ran.stderr
    );
    let odd = ["up", "odd", "--type", "v5litepod-17", "--runtime-version", "v2-alpha-tpuv5-lite", "--zone", ZONE];
    let ran = cloud.expect(2, &odd);
    assert!(ran.stderr.contains("it has v5litepod-16"), "{}", ran.stderr);

    let table = cloud.expect(0, &["ls"]).stdout;
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..6], ["job", ZONE, "v5litepod-16", "spot", "ready", "4"], "{table}");
    assert_eq!(cloud.json(&["ls", "--label", "owner=you"])["slices"], json!([]));
    cloud.server.tell("preempt", r#"{"name": "job", "how": "STOPPED"}"#);
    let lost = cloud.expect(0, &["ls"]);
    assert!(lost.stdout.contains("lost") && lost.stderr.contains("hint: lost and failed"), "{}", lost.stdout);
    let ran = cloud.expect(2, &["exec", "job", "--", "true"]);
    assert!(ran.stderr.contains("job is lost") && ran.stderr.contains("hint: delete it"), "{}", ran.stderr);
    assert!(cloud.expect(0, &["ls", "types", "--zone", ZONE]).stdout.contains("v5litepod-256\n"));
    assert!(cloud.expect(0, &["ls", "quotas", "--zone", ZONE]).stdout.contains("32"));

    let down = cloud.json(&["down", "job"]);
    assert_eq!(down["deleted"], json!([{"zone": ZONE, "name": "job"}]));
    let ran = cloud.expect(0, &["down", "job"]);
    assert!(ran.stderr.contains("job is not there"), "{}", ran.stderr);
    assert_eq!(cloud.left(), 0);
}

#[test]
fn an_interrupted_command_is_gone_on_with_by_the_same() {
    let test = "an_interrupted_command_is_gone_on_with_by_the_same";
    let Some(cloud) = Cloud::start(test, json!({"scale": 10, "stock": {ZONE: 0}})) else { return };
    let up = [UP, &["--zone", ZONE]].concat();
    let mut command = cloud.command(&up);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !cloud.server.record().contains("WAITING_FOR_RESOURCES") {
        assert!(started.elapsed() < LIMIT, "{}", cloud.server.record());
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("/bin/sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(kill.success());
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(75), "{}", ran.stderr);
    assert!(ran.stderr.contains("the same command waits on"), "{}", ran.stderr);
    cloud.server.tell("settings", &json!({"stock": {ZONE: 100}}).to_string());
    cloud.expect(0, &up);
    assert_eq!(cloud.lives().iter().filter(|life| life["kind"] == "queued_resource").count(), 1);
    cloud.expect(0, &["down", "--all"]);
    assert_eq!(cloud.left(), 0);
}

#[test]
fn a_full_zone_is_left_for_the_next() {
    let test = "a_full_zone_is_left_for_the_next";
    let Some(cloud) = Cloud::start(test, json!({"scale": 10, "stock": {ZONE: 0}})) else { return };
    let up = [UP, &["--zone", "us-west4-a,us-central1-a", "--node"]].concat();
    let made = cloud.json(&up);
    assert_eq!((&made["slice"]["zone"], &made["slice"]["kind"]), (&json!("us-central1-a"), &json!("node")));
    // Again, though the first zone has room by now.
    cloud.server.tell("settings", &json!({"stock": {ZONE: 100}}).to_string());
    assert_eq!(cloud.json(&up)["slice"]["zone"], "us-central1-a");
    cloud.expect(0, &["down", "job"]);
    assert_eq!((cloud.left(), cloud.lives().len()), (0, 1));
}

/// An ssh server on four addresses of this machine: workers 0 to 3.
struct Workers {
    child: Child,
    port: u16,
    key: PathBuf,
    host_key: String,
}

impl Workers {
    fn start(folder: &Path, sshd: &Path) -> Workers {
        let make_key = |name: &str| {
            let path = folder.join(name);
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
            assert!(made.expect("ssh-keygen runs").success());
            let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
            (path, public.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        };
        let (host, host_key) = make_key("host");
        let (key, public) = make_key("user");
        std::fs::write(folder.join("authorized"), format!("{public}\n")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
        let mut config = format!("Port {port}\nHostKey {}\n", host.display());
        for last in 2..6 {
            config.push_str(&format!("ListenAddress 127.0.0.{last}\n"));
        }
        config.push_str(&format!("AuthorizedKeysFile {}\n", folder.join("authorized").display()));
        config.push_str("PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n");
        config.push_str("Subsystem sftp internal-sftp\nPermitRootLogin prohibit-password\n");
        std::fs::write(folder.join("sshd_config"), config).unwrap();
        // Where root runs it, the server wants a folder that a service manager would have made.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut command = Command::new(sshd);
        command.arg("-D").arg("-E").arg(folder.join("sshd.log")).arg("-f").arg(folder.join("sshd_config"));
        let child = command.stdin(Stdio::null()).spawn().expect("sshd starts");
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.5", port)).is_err() {
            let log = std::fs::read_to_string(folder.join("sshd.log")).unwrap_or_default();
            assert!(started.elapsed() < LIMIT, "sshd does not listen: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Workers { child, port, key, host_key }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_proof_for_a_real_project_holds_on_the_stand_in() {
    let test = "the_proof_for_a_real_project_holds_on_the_stand_in";
    let Some(sshd) = require(test, Needed::Sshd) else { return };
    let Some(cloud) = Cloud::start(test, json!({"scale": 10, "workers": ["127.0.0.2"]})) else { return };
    let folder = cloud.bench.path("ssh");
    std::fs::create_dir_all(&folder).unwrap();
    let workers = Workers::start(&folder, &sshd);
    cloud.server.tell("settings", &json!({"host_keys": [workers.host_key]}).to_string());
    let prove = || {
        let mut command = cloud.command(&[]);
        let variables: Vec<_> =
            command.get_envs().map(|(k, v)| (k.to_owned(), v.unwrap_or_default().to_owned())).collect();
        command = Command::new(repository().join("scripts/prove-cloud-tpu"));
        command.env_clear().envs(variables).env("TPU", env!("CARGO_BIN_EXE_tpu")).env("USER", "me");
        // The stand-in's machines let only the test's own key in.
        let words = format!("-o Port={} -o IdentityFile={}", workers.port, workers.key.display());
        ran(command.env("PROVE_SSH", words).args(["test", ZONE]).output().unwrap())
    };
    let proof = prove();
    assert_eq!(
        (proof.code, proof.stdout.matches("holds   ").count()),
        (Some(0), 15),
        "{}{}",
        proof.stdout,
        proof.stderr
    );
    assert_eq!(cloud.left(), 0);
    // It can fail, and leaves nothing behind then either.
    cloud.server.tell("settings", r#"{"host_keys": []}"#);
    let proof = prove();
    assert_eq!(proof.code, Some(1), "{}", proof.stdout);
    assert!(proof.stdout.contains("FAILED  the keys of workers are published"), "{}", proof.stdout);
    assert_eq!(cloud.left(), 0);
}

#[test]
fn workers_are_reached_by_ssh() {
    let test = "workers_are_reached_by_ssh";
    let Some(sshd) = require(test, Needed::Sshd) else { return };
    let addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];
    let Some(cloud) = Cloud::start(test, json!({"scale": 10, "workers": addresses})) else { return };
    let folder = cloud.bench.path("ssh");
    std::fs::create_dir_all(&folder).unwrap();
    let workers = Workers::start(&folder, &sshd);
    cloud.server.tell("settings", &json!({"host_keys": [workers.host_key]}).to_string());
    cloud.expect(0, &[UP, &["--zone", ZONE]].concat());
    let port = format!("Port={}", workers.port);
    let key = workers.key.to_str().unwrap().to_owned();
    let with = |command: &str, name: &'static str, rest: &[&str], words: &[&str]| -> Vec<String> {
        let mut all = vec![command.to_owned()];
        all.extend([name, "-o", &port, "-i", &key].into_iter().filter(|w| !w.is_empty()).map(String::from));
        all.extend(rest.iter().map(|w| w.to_string()));
        if !words.is_empty() {
            all.push("--".into());
            all.extend(words.iter().map(|w| w.to_string()));
        }
        all
    };
    let expect =
        |code: i32, words: Vec<String>| cloud.expect(code, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };

    // Every worker at its own address, with the words as they were written.
    let ran = expect(0, with("exec", "job", &["--all"], &["echo $SSH_CONNECTION | cut -d ' ' -f 3"]));
    let expected: Vec<String> = (0..4).map(|n| format!("[{n}] {}", addresses[n])).collect();
    assert_eq!(sorted(&ran.stdout), expected, "{}", ran.stderr);
    let ran = expect(0, with("exec", "job", &["--worker", "2"], &["echo", "a  b", "$HOME", "it's"]));
    assert_eq!(ran.stdout, "a  b $HOME it's\n");
    let ran = expect(0, with("ssh", "job", &["--worker", "3"], &["echo $SSH_CONNECTION | cut -d ' ' -f 3"]));
    assert_eq!(ran.stdout, "127.0.0.5\n");

    // One exit code, and the culprit by name.
    let fails = "echo said; case $SSH_CONNECTION in *127.0.0.4*) exit 3;; esac";
    let ran = expect(1, with("exec", "job", &["--all"], &[fails]));
    assert_eq!(ran.stdout.lines().count(), 4);
    assert!(ran.stderr.contains("worker 2 (127.0.0.4) ended with 3\n1 of 4 workers failed"), "{}", ran.stderr);
    let words = with("exec", "job", &["--all", "--json"], &[fails]);
    let record: Value = serde_json::from_str(&expect(1, words).stdout).unwrap();
    assert_eq!(record["workers"][2], json!({"slice": 0, "worker": 2, "address": "127.0.0.4", "code": 3}));

    // There and back.
    std::fs::create_dir(cloud.bench.path("data")).unwrap();
    cloud.bench.write("data/one", "1\n2\n3\n");
    let there = folder.join("there");
    let there = there.to_str().unwrap();
    let on_slice = format!("job:{there}");
    expect(0, with("cp", "", &["data", &on_slice, "--worker", "1"], &[]));
    assert_eq!(std::fs::read_to_string(Path::new(there).join("one")).unwrap(), "1\n2\n3\n");
    let file = format!("{on_slice}/one");
    expect(0, with("cp", "", &[&file, "back", "--all"], &[]));
    for worker in 0..4 {
        assert_eq!(std::fs::read_to_string(cloud.bench.path(&format!("back/{worker}/one"))).unwrap(), "1\n2\n3\n");
    }
    let log = format!("{there}/one");
    let ran = expect(0, with("logs", "job", &["--all", "-n", "1", "--file", &log], &[]));
    assert_eq!(sorted(&ran.stdout), ["[0] 3", "[1] 3", "[2] 3", "[3] 3"]);
    let ran = expect(1, with("logs", "job", &["--file", "/nowhere"], &[]));
    assert!(ran.stderr.contains("/nowhere"), "{}", ran.stderr);

    // Somebody else at the same address.
    let other = workers.host_key[..workers.host_key.len() - 4].to_owned() + "AAAA";
    cloud.server.tell("settings", &json!({"host_keys": [other]}).to_string());
    let ran = expect(1, with("exec", "job", &["--all"], &["echo", "believed"]));
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("Host key verification failed") && ran.stderr.contains("4 of 4"), "{}", ran.stderr);
    // Keys that nobody publishes are believed once, with a warning, and then held to.
    cloud.server.tell("settings", r#"{"host_keys": []}"#);
    let ran = expect(0, with("exec", "job", &[], &["true"]));
    assert!(ran.stderr.contains("warning: job does not publish its keys"), "{}", ran.stderr);
    cloud.expect(0, &["down", "--all"]);
    assert_eq!(cloud.left(), 0);
}
