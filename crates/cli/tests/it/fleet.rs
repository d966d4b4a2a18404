//! From `tpu plan --job` to a finished training on four workers, through everything that a cloud does to it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{CloudTpuServer, SshMachines};
use toml::{Table, Value as Toml};

use crate::harness::{Bench, arg, ran};
use crate::mesh_training::losses;
use crate::processes::manager;

const WORKERS: usize = 4;
/// Slices that the job may need: none is used twice, so that nothing of one attempt is on the machines of another.
const SLICES: usize = 6;
const STEPS: u64 = 32;
/// What no machine takes: it ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(400);

const MODEL: &str = r#"{"model_type":"llama","vocab_size":64,"hidden_size":64,"intermediate_size":128,"num_hidden_layers":1,
    "num_attention_heads":4,"num_key_value_heads":4,"max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":1e4,
    "hidden_act":"silu","tie_word_embeddings":false}"#;

/// A supervisor, which ends with the test.
struct Supervising(Child);

impl Drop for Supervising {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cloud with machines, and a job on it.
struct Stage {
    bench: Bench,
    server: CloudTpuServer,
    machines: SshMachines,
    started: Instant,
}

impl Stage {
    fn start(test: &str) -> Option<Stage> {
        let bench = Bench::with_libtpu(test)?;
        let machines = SshMachines::start(test, &bench.path("machines"), SLICES * WORKERS)?;
        let addresses: Vec<String> = (0..SLICES * WORKERS).map(|at| machines.address(at)).collect();
        let keys: serde_json::Map<String, Value> =
            (0..SLICES * WORKERS).map(|at| (machines.address(at), json!([machines.host_key(at)]))).collect();
        // The second zone has nothing to give.
        let settings = json!({"workers": addresses, "worker_keys": keys, "stock": {"us-west4-b": 0}});
        let server = CloudTpuServer::start(test, &settings.to_string())?;
        Some(Stage { bench, server, machines, started: Instant::now() })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bench.command(words);
        command.env("GOOGLE_CLOUD_PROJECT", "test").env("PATH", "/usr/bin:/bin");
        command.env("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", self.server.endpoint());
        command.env("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true");
        command
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        let ran = ran(self.command(&[words, &["--json"]].concat()).output().unwrap());
        assert_eq!(ran.code, Some(0), "tpu {}\n{}{}", words.join(" "), ran.stdout, ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn supervisor(&self, log: &str) -> Supervising {
        let log = std::fs::File::create(self.bench.path(log)).unwrap();
        let mut command = self.command(&["job", "run", "job.toml"]);
        Supervising(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    fn step(&self) -> u64 {
        manager(&self.bench, "run").latest().unwrap().unwrap_or(0)
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Stage) -> bool) {
        while !is_so(self) {
            let logs = ["first.log", "second.log"]
                .map(|name| std::fs::read_to_string(self.bench.path(name)).unwrap_or_default());
            assert!(self.started.elapsed() < PATIENCE, "{what} does not come:\n{}", logs.join("\n--\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn go_on(&mut self, steps: u64) {
        let to = self.step() + steps;
        assert!(to < STEPS, "the training is over before everything has happened to it");
        self.until(&format!("step {to}"), |stage| stage.step() >= to);
    }

    fn lives(&self, kind: &str) -> Vec<Value> {
        let record: Value = serde_json::from_str(&self.server.record()).unwrap();
        let lives = record["lives"].as_array().unwrap();
        lives.iter().filter(|life| life["kind"] == kind).cloned().collect()
    }

    /// Waits for steps of a training that its supervisor must not leave.
    #[track_caller]
    fn go_on_with(&mut self, supervisor: &mut Supervising, steps: u64) {
        let to = self.step() + steps;
        assert!(to < STEPS, "the training is over before everything has happened to it");
        self.until(&format!("step {to}"), |stage| {
            let log = || {
                ["first.log", "second.log"]
                    .map(|name| std::fs::read_to_string(stage.bench.path(name)).unwrap_or_default())
                    .join("\n--\n")
            };
            assert!(supervisor.0.try_wait().unwrap().is_none(), "the supervisor ended: {}", log());
            stage.step() >= to
        });
    }

    /// The node that trains, and its machines.
    fn live(&self) -> (String, Vec<usize>) {
        let is_live = |life: &&Value| {
            !life["ready"].is_null() && ["lost", "deleting", "deleted"].iter().all(|end| life[end].is_null())
        };
        let lives = self.lives("node");
        let life = lives.iter().rfind(is_live).expect("a node runs");
        let name = life["name"].as_str().unwrap().rsplit('/').next().unwrap().to_string();
        let addresses = life["addresses"].as_array().unwrap().iter().map(|address| address.as_str().unwrap());
        (name, addresses.map(|address| SshMachines::number(address).unwrap()).collect())
    }

    /// All machines of the slice are gone; what the API says of them is another thing.
    fn preempt(&mut self, how: &str) {
        let (name, machines) = self.live();
        self.server.tell("preempt", &json!({"name": name, "how": how}).to_string());
        machines.iter().for_each(|at| self.machines.crash(*at));
    }
}

/// The plan's job, with a folder that all workers see, CPU devices in the place of chips, and the key of the machines.
fn adapt(bench: &Bench) {
    let text = std::fs::read_to_string(bench.path("job.toml")).unwrap();
    let mut job: Table = toml::from_str(&text).unwrap();
    job.insert("folder".into(), Toml::String("run".into()));
    let run = job["run"].as_table_mut().unwrap();
    run.insert("plugin".into(), Toml::String("cpu".into()));
    let arguments = [&format!("train.steps={STEPS}"), "train.save_every=2", "train.log_every=1"];
    let arguments = arguments.iter().flat_map(|change| ["--with".to_string(), change.to_string()]);
    run.insert("arguments".into(), Toml::Array(arguments.map(Toml::String).collect()));
    run.insert("environment".into(), Toml::Table(toml::from_str("TPUBRIDGE_CPU_THREADS = '1'").unwrap()));
    job.insert("limits".into(), Toml::Table(toml::from_str("grace = '10s'").unwrap()));
    let cloud = "ssh_user = 'root'\nssh_key = 'machines/key'\nhost_keys = 'published'";
    job.insert("cloud".into(), Toml::Table(toml::from_str(cloud).unwrap()));
    bench.write("job.toml", toml::to_string(&job).unwrap());
}

#[test]
fn a_plan_becomes_a_finished_training_whatever_happens() {
    let Some(mut stage) = Stage::start("a_plan_becomes_a_finished_training_whatever_happens") else { return };
    stage.bench.write("config.json", MODEL);
    let plan = ["plan", "config.json", "--slices", "v5e-16", "--batch-size", "16", "--sequence-length", "32"];
    let more = ["--compiles", "1", "--price", "spot", "--region", "us-west4", "--job", "job.toml"];
    assert_eq!(stage.json(&[&plan[..], &more].concat())["next"], "tpu job run job.toml");
    adapt(&stage.bench);

    // The answer to the first request is lost.
    stage.server.tell("faults", r#"{"method": "POST", "path": "us-west4-a/queuedResources$", "lose": true}"#);
    let mut first = stage.supervisor("first.log");
    stage.go_on_with(&mut first, 2);
    stage.preempt("PREEMPTED");
    stage.go_on_with(&mut first, 2);
    // The supervisor dies, and the training goes on without it.
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    stage.go_on(2);
    let mut second = stage.supervisor("second.log");
    stage.go_on_with(&mut second, 2);
    stage.preempt("TERMINATED");
    stage.go_on_with(&mut second, 2);
    // One worker is gone, and nobody says so.
    let dead = stage.live().1[2];
    stage.machines.crash(dead);
    stage.go_on_with(&mut second, 2);
    stage.preempt("suspend");
    stage.until("the end", |_| second.0.try_wait().unwrap().is_some());
    let log = std::fs::read_to_string(stage.bench.path("second.log")).unwrap();
    assert!(second.0.wait().unwrap().success(), "{log}");

    // The same losses as without any of this, in one process.
    let with = format!("train.steps={STEPS}");
    let folder: PathBuf = stage.bench.path("alone");
    let alone =
        ["train", "TRAIN.toml", "-d", "cpu", "--folder", arg(&folder), "--with", &with, "--with", "train.log_every=1"];
    let alone = ran(stage.command(&alone).env("TPUBRIDGE_CPU_THREADS", "1").output().unwrap());
    assert_eq!(alone.code, Some(0), "{}{}", alone.stdout, alone.stderr);
    assert_eq!(losses(&stage.bench, "run"), losses(&stage.bench, "alone"));

    // Nothing is left, and nothing was made twice.
    assert_eq!(stage.json(&["ls", "--all"])["slices"], json!([]));
    let nodes = stage.lives("node");
    let all = stage.lives("queued_resource").into_iter().chain(nodes.clone());
    assert!(all.clone().all(|life| !life["deleted"].is_null()), "{:?}", all.collect::<Vec<_>>());
    assert_eq!(nodes.len(), 5, "{nodes:?}");

    // The bill is right to the second, and to the time that a question takes on a busy machine: a machine is paid for from ready
    // until it is taken or its deletion is asked for.
    let status = stage.json(&["job", "status", "job.toml"]);
    assert_eq!((&status["ending"]["how"], &status["attempts"]), (&"finished".into(), &5.into()), "{log}");
    let billed = status["bill"]["slices"].as_array().unwrap();
    assert_eq!(billed.len(), nodes.len(), "{billed:?}");
    for life in &nodes {
        let name = life["name"].as_str().unwrap().rsplit('/').next().unwrap();
        let ends = ["lost", "deleting", "deleted"].iter().filter_map(|end| life[end].as_f64());
        let paid = ends.fold(f64::INFINITY, f64::min) - life["ready"].as_f64().unwrap();
        let seconds = billed.iter().find(|slice| slice["name"] == name).unwrap()["seconds"].as_f64().unwrap();
        assert!((seconds - paid.round()).abs() <= 3.0, "{name}: {seconds} s are billed, {paid} s are paid");
    }
}

const JOB: &str = "name = 'small'\nfolder = 'run'\n[run]\ncommand = ['sh', '-c', 'SCRIPT']\n[slices]\ntype = 'v5e-8'\ncapacity = 'spot'\n\
                   zones = ['us-west4-a', 'us-west4-b']\n[limits]\ngrace = '5s'\n[cloud]\nssh_user = 'root'\nssh_key = 'machines/key'\n";

#[test]
fn jobs_are_run_watched_stopped_and_answered() {
    let test = "jobs_are_run_watched_stopped_and_answered";
    let bench = Bench::bare();
    let Some(machines) = SshMachines::start(test, &bench.path("machines"), 2) else { return };
    // None of them publishes a key.
    let settings = json!({"workers": [machines.address(0), machines.address(1)], "stock": {"us-west4-b": 0}});
    let Some(server) = CloudTpuServer::start(test, &settings.to_string()) else { return };
    let stage = Stage { bench, server, machines, started: Instant::now() };
    let expect = |code: i32, words: &[&str]| {
        let ran = ran(stage.command(words).output().unwrap());
        assert_eq!(ran.code, Some(code), "tpu {}\n{}{}", words.join(" "), ran.stdout, ran.stderr);
        ran
    };
    // It says hello and goes on; another process asks it to stop.
    stage.bench.write("job.toml", JOB.replace("SCRIPT", "echo hello; sleep 600"));
    let never = expect(2, &["job", "status", "job.toml"]);
    assert!(never.stderr.contains("the job was never run") && never.stderr.contains("tpu job run"), "{}", never.stderr);
    let mut supervisor = stage.supervisor("job.log");
    let log = || std::fs::read_to_string(stage.bench.path("job.log")).unwrap();
    while !log().contains("[0] hello") {
        assert!(stage.started.elapsed() < PATIENCE && supervisor.0.try_wait().unwrap().is_none(), "{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(log().contains("the first that it showed is believed"), "{}", log());
    let status = expect(0, &["job", "status", "job.toml"]).stdout;
    assert!(status.contains("attempt 1 is under way") && status.contains("supervised by process"), "{status}");
    // It has a job, and that job has kept nothing yet.
    assert_eq!(stage.json(&["cost", "job.toml", "--idle"]).get("idle"), None);
    let idle = stage.json(&["cost", "job.toml", "--idle", "--idle-after", "0.001s"])["idle"].clone();
    assert_eq!(
        (&idle[0]["zone"], &idle[0]["why"]["no_steps"]["job"]),
        (&"us-west4-a".into(), &"small".into()),
        "{idle}"
    );
    let others = ran(stage.command(&["cost", "--idle"]).output().unwrap());
    assert!(
        others.code == Some(0) && others.stderr.contains("not judged: small"),
        "{}{}",
        others.stdout,
        others.stderr
    );
    let asked = expect(0, &["job", "stop", "job.toml"]);
    assert!(asked.stderr.contains("saves, stops and deletes"), "{}", asked.stderr);
    assert_eq!(supervisor.0.wait().unwrap().code(), Some(75), "{}", log());
    let watched = expect(0, &["job", "watch", "job.toml"]).stdout;
    assert!(watched.contains("over, stopped") && watched.contains("so far"), "{watched}");
    assert!(expect(0, &["job", "stop", "job.toml"]).stderr.contains("over already"));

    // Exit codes of programs are those of the job.
    stage.bench.write("job.toml", JOB.replace("SCRIPT", "exit 1").replace("'run'", "'no'"));
    let no = expect(1, &["job", "run", "job.toml", "--json"]);
    let records = serde_json::Deserializer::from_str(&no.stdout).into_iter::<Value>();
    let records: Vec<Value> = records.map(|record| record.unwrap()).collect();
    let last = records.last().unwrap();
    assert_eq!((&last["ending"]["how"], &last["is_over"]), (&"answered".into(), &true.into()), "{last}");
    assert!(records.iter().any(|record| record["event"] == "job"), "{}", no.stdout);
    assert!(stage.lives("node").iter().all(|life| !life["deleted"].is_null()));
}

#[test]
fn a_job_is_checked_and_shown_before_anything_is_asked() {
    let bench = Bench::bare();
    bench.write("job.toml", JOB.replace("SCRIPT", "true"));
    let dry = ["job", "run", "job.toml", "--dry-run"];
    let no_project = bench.expect(2, &dry);
    assert!(no_project.stderr.contains("project") && no_project.stderr.contains("hint:"), "{}", no_project.stderr);
    let run = |words: &[&str]| ran(bench.command(words).env("GOOGLE_CLOUD_PROJECT", "test").output().unwrap());
    let text = run(&dry).stdout;
    assert_eq!(
        text.matches("\nPOST https://tpu.googleapis.com/v2/projects/test/locations/us-west4-").count(),
        2,
        "{text}"
    );
    assert!(text.starts_with("small: 1 workers of v5litepod-8, 2 zones at once, the first to give wins\n"), "{text}");
    assert!(text.contains("\"enable-guest-attributes\": \"TRUE\"") && text.contains("/h\n"), "{text}");
    let wrong = JOB.replace("us-west4-a", "us-west4").replace("v5e-8", "v5e-9").replace("SCRIPT", "true");
    bench.write("job.toml", format!("{wrong}host_keys = 'publisht'\n"));
    let wrong = run(&dry);
    assert_eq!(wrong.code, Some(2));
    for told in ["write type = \"v5litepod-8\"", "write host_keys = \"published\"", "docs/reference/job.md"] {
        assert!(wrong.stderr.contains(told), "{told}: {}", wrong.stderr);
    }

    // The same for Kubernetes: printed, or refused with every reason at once.
    let gke = JOB.replace("'run'", "'gs://b/run'").replace("SCRIPT", "true").replace("v5e-8", "v5e-16");
    let gke = gke.replace("name = 'small'\n", "name = 'small'\nplatform = 'gke'\n");
    bench.write("gke.toml", format!("{gke}[kubernetes]\nimage = 'r/i:1'\nservice_account = 'trainer'\nqueue = 'q'\n"));
    let printed = run(&["k8s", "gke.toml"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    for part in ["kind: JobSet", "serviceAccountName: trainer", "parallelism: 4", "kueue.x-k8s.io/queue-name: q"] {
        assert!(printed.stdout.contains(part), "{part}: {}", printed.stdout);
    }
    assert!(printed.stderr.contains("slices.zones is ignored"), "{}", printed.stderr);
    let refused = run(&["job", "run", "gke.toml"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("use `tpu k8s apply FILE`"), "{}", refused.stderr);
    bench.write(
        "gke.toml",
        format!("{gke}[kubernetes]\nimage = 'r/i:1'\nservice_account = 'a@b'\n").replace("v5e-16", "2xv5e-8"),
    );
    let refused = run(&["k8s", "gke.toml"]);
    assert_eq!(refused.code, Some(2));
    for told in ["a@b", "cannot be joined"] {
        assert!(refused.stderr.contains(told), "{told}: {}", refused.stderr);
    }
}
