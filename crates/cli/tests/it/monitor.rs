//! `tpu monitor` and `--runtime-metrics`: a real training, read by our command, by Google's tpu-info and by libtpu's SDK.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::{LibtpuServers, Needed, repository, require, skip};

use crate::harness::{Bench, ran};
use crate::train::bench;

/// A training that goes on until it is told to stop.
struct Endless {
    child: Child,
    stderr: Option<BufReader<std::process::ChildStderr>>,
    address: String,
}

impl Endless {
    /// Starts it, and waits until it has done some steps.
    fn start(bench: &Bench, args: &[&str]) -> Endless {
        let base = ["train", "tiny.toml", "-d", "cpu", "--folder", "out", "--with", "train.steps=100000000"];
        let more = ["--with", "train.save_every=1000000", "--runtime-metrics", "0"];
        let mut command = bench.command(&[&base[..], &more, args].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut endless = Endless { child, stderr: None, address: String::new() };
        let mut said = String::new();
        while !said.lines().last().unwrap_or_default().starts_with("step 5/") {
            let before = said.len();
            assert!(stderr.read_line(&mut said).unwrap() > 0, "the training ended:\n{said}");
            if let Some(rest) = said[before..].strip_prefix("runtime metrics at ") {
                endless.address = rest.trim().to_string();
            }
        }
        endless.stderr = Some(stderr);
        endless
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        // Its messages must be read while it stops.
        let stderr = self.stderr.take();
        let drain = std::thread::spawn(move || stderr.map(|mut stderr| stderr.read_to_end(&mut Vec::new())));
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.child.wait();
        let _ = drain.join();
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn a_training_is_watched_while_it_runs() {
    let bench = bench();
    let training = Endless::start(&bench, &["--mesh", "data=2"]);
    let record = bench.json(&["monitor", "--hosts", &training.address, "out"]);
    assert_eq!(record["version"], 1);
    let host = &record["hosts"][0];
    assert_eq!((&host["state"], host["failed"].is_null()), (&Value::from("up"), true), "{host}");
    let devices = host["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2, "{devices:?}");
    for device in devices {
        assert!(number(&device["hbm_used_bytes"]) > 0.0 && number(&device["hbm_total_bytes"]) > 1e8, "{device}");
        let duty = number(&device["duty_cycle"]);
        assert!(duty > 0.0 && duty <= 1.0, "{device}");
        assert!(number(&device["execution_p50_seconds"]) > 0.0, "{device}");
    }
    assert!(number(&record["runs"][0]["step"]) >= 5.0, "{record}");
    assert!(number(&record["runs"][0]["loss"]) > 0.0, "{record}");
    let table = bench.expect(0, &["monitor", "--hosts", &training.address, "out"]).stdout;
    assert!(table.starts_with("HOST") && table.contains(" GiB") && table.contains("run out: step"), "{table}");

    // A host that is not there is told, and the answer is no.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let both = bench.expect(1, &["monitor", "--hosts", &format!("{},{nobody}", training.address)]);
    assert!(both.stdout.contains("nothing serves metrics"), "{}", both.stdout);

    // Lines of JSON, one each time, until the command is told to stop.
    let mut watch = bench.command(&["monitor", "--hosts", &training.address, "--watch", "0.1", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(watch.stdout.take().unwrap()).lines().take(3).map(Result::unwrap).collect();
    let _ = Command::new("kill").args(["-INT", &watch.id().to_string()]).status();
    let _ = watch.wait();
    for line in lines {
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["version"], 1);
    }
}

#[test]
fn what_is_collected_is_served_to_prometheus() {
    let modes = ["new", "old"];
    let Some(servers) = LibtpuServers::start("what_is_collected_is_served_to_prometheus", &modes) else { return };
    let bench = Bench::bare();
    let hosts = format!("{},{}", servers.address(0), servers.address(1));
    let mut command = bench.command(&["monitor", "--hosts", &hosts, "--serve", "0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("metrics at http://").unwrap_or_else(|| panic!("{line}")).to_string();
    let (authority, _) = url.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(child.wait().unwrap().success());
    assert_eq!(text.matches("tpubridge_device_hbm_used_bytes{").count(), 16, "{text}");
    assert_eq!(text.matches("tpubridge_monitor_host_up{").count(), 2, "{text}");
    assert!(text.contains("# TYPE libtpu_hlo_execution_timing_distribution_microseconds histogram"), "{text}");
}

#[test]
fn what_cannot_be_asked_is_told_with_what_to_do() {
    let bench = Bench::bare();
    let refused = |args: &[&str], parts: &[&str]| {
        let ran = bench.expect(2, &[&["monitor"], args].concat());
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    };
    refused(&["--hosts", "a b"], &["`a b` cannot be asked", "hint: name hosts"]);
    refused(&["--hosts", ","], &["0 hosts"]);
    refused(&["--selector", "a=b"], &["kubectl", "cannot be started"]);
    refused(&["--watch", "0"], &["0.1 to 86400"]);
    refused(&["nowhere"], &["`nowhere` is no run", "hint: give the folder"]);
    refused(&["--hosts", "localhost", "--serve", "nowhere"], &["`nowhere` is no address", "HOST:PORT"]);
    refused(&["--namespace", "n"], &["--selector"]);
    // A pod that has not started has no address.
    let kubectl =
        "#!/bin/sh\necho '{\"items\": [{\"metadata\": {\"name\": \"p-0\"}, \"status\": {\"phase\": \"Pending\"}}]}'\n";
    std::fs::create_dir(bench.path("bin")).unwrap();
    let path = bench.write("bin/kubectl", kubectl);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = bench.command(&["monitor", "--selector", "job=train"]);
    let pods = ran(command.env("PATH", format!("{}:/bin:/usr/bin", bench.path("bin").display())).output().unwrap());
    assert_eq!(pods.code, Some(1), "{}", pods.stderr);
    assert!(pods.stdout.contains("p-0: no answer: the pod has no address: its phase is Pending"), "{}", pods.stdout);
}

/// Started inside the namespaces: a training on two devices, and everybody who asks what they do.
const SESSION: &str = r#"
"$TPU" train tiny.toml -d cpu --mesh data=2 --folder out --with train.steps=100000000 --with train.save_every=1000000 \
  --runtime-metrics 8431 2>train.log &
training=$!
tries=0
until grep -q '^step 5/' train.log; do
  tries=$((tries + 1))
  [ $tries -lt 1200 ] || exit 1
  sleep 0.1
done
COLUMNS=140 "$OPERATE/tpu-info" >tpu-info.txt 2>&1
for metric in hbm_usage duty_cycle_percent hlo_queue_size hlo_exec_timing tensorcore_idle_duration core_state sequencer_state_detailed; do
  COLUMNS=140 "$OPERATE/tpu-info" --metric $metric >$metric.txt 2>&1
done
# Between two steps no program runs: the table is empty then.
tries=0
until [ "$(grep -c train_step sequencer_state_detailed.txt)" -ge 2 ] || [ $tries -ge 20 ]; do
  tries=$((tries + 1))
  COLUMNS=140 "$OPERATE/tpu-info" --metric sequencer_state_detailed >sequencer_state_detailed.txt 2>&1
done
if [ -n "$PYTHON" ]; then "$PYTHON" "$SDK" >sdk.json 2>sdk.log; fi
"$TPU" monitor --json >monitor.json
kill -INT $training
wait $training
[ $? = 75 ]
"#;

/// Numbers in the rows of a table, after the first column.
fn rows(table: &str) -> Vec<Vec<f64>> {
    let cells = |line: &str| -> Vec<f64> {
        let words = line.split(['|', ' ', '%', '/']).filter(|word| !word.is_empty());
        words.filter_map(|word| word.trim_end_matches('s').parse().ok()).collect()
    };
    let is_row = |line: &&str| line.starts_with("| ") && line.chars().any(|c| c.is_ascii_digit());
    table.lines().filter(is_row).map(cells).filter(|cells| !cells.is_empty()).collect()
}

#[test]
fn tools_made_for_libtpu_read_our_service() {
    const NAME: &str = "tools_made_for_libtpu_read_our_service";
    let Some(python) = require(NAME, Needed::OperatePython) else { return };
    let Some(sdk) = require(NAME, Needed::Python) else { return };
    let folder = repository().join("crates/testkit/python");
    let namespaces = Command::new(folder.join("with_tpus.sh")).args(["2", "true"]).output().unwrap();
    if !namespaces.status.success() {
        return skip(NAME, &format!("no namespaces: {}", String::from_utf8_lossy(&namespaces.stderr)));
    }
    let bench = bench();
    bench.write("session.sh", SESSION);
    let mut command = Command::new(folder.join("with_tpus.sh"));
    command.args(["2", "sh", "session.sh"]).current_dir(bench.path(""));
    let plain = bench.command(&[]);
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TPU", plain.get_program()).env("PYTHON", sdk);
    command.env("OPERATE", python.parent().unwrap()).env("SDK", folder.join("sdk_metrics.py")).env("LANG", "C.UTF-8");
    let output = ran(command.stdin(Stdio::null()).output().unwrap());
    let read = |name: &str| std::fs::read_to_string(bench.path(name)).unwrap_or_default();
    assert_eq!(output.code, Some(0), "{}{}{}", output.stdout, output.stderr, read("train.log"));

    // tpu-info: two chips, both busy.
    let all = read("tpu-info.txt");
    assert!(all.contains("TPU v5e chip") && all.contains("TPU Runtime Utilization"), "{all}");
    // It looks for the version of libtpu in its own environment, and says that there is none.
    let errors = all.matches("ERROR").count() - all.matches("ERROR: libtpu not found").count();
    assert!(!all.contains("unavailable. Is there") && errors == 0, "{all}");
    let hbm = rows(&read("hbm_usage.txt"));
    assert_eq!(hbm.len(), 2, "{}", read("hbm_usage.txt"));
    assert!(hbm.iter().all(|row| row.last().is_some_and(|total| *total > 0.1)), "{hbm:?}");
    let duty = rows(&read("duty_cycle_percent.txt"));
    assert_eq!(duty.len(), 2, "{}", read("duty_cycle_percent.txt"));
    assert!(duty.iter().all(|row| row.len() == 2 && row[1] > 0.0 && row[1] <= 100.0), "{duty:?}");
    assert_eq!(rows(&read("hlo_queue_size.txt")).len(), 2, "{}", read("hlo_queue_size.txt"));
    let timing = rows(&read("hlo_exec_timing.txt"));
    assert!(timing.len() == 2 && timing.iter().all(|row| row.len() == 6 && row[1] > 0.0 && row[2] > 1.0), "{timing:?}");
    assert_eq!(rows(&read("tensorcore_idle_duration.txt")).len(), 2, "{}", read("tensorcore_idle_duration.txt"));
    let cores = read("core_state.txt");
    assert_eq!(cores.matches("TPU_CORE_TYPE_TENSOR_CORE").count(), 2, "{cores}");
    let sequencers = read("sequencer_state_detailed.txt");
    assert_eq!(sequencers.matches("train_step").count(), 2, "{sequencers}");

    // libtpu's SDK, and our own command, which takes the usual port.
    let told: Value = serde_json::from_str(&read("sdk.json")).unwrap_or_else(|e| panic!("{e}: {}", read("sdk.log")));
    for name in ["duty_cycle_pct", "hbm_capacity_total", "hbm_capacity_usage", "hlo_execution_timing", "hlo_queue_size"]
    {
        assert_eq!(told[name].as_array().map(Vec::len), Some(2), "{name}: {}", told[name]);
    }
    let record: Value = serde_json::from_str(&read("monitor.json")).unwrap();
    assert_eq!(record["hosts"][0]["devices"].as_array().map(Vec::len), Some(2), "{record}");
}

/// The live view in a terminal that a program made: it draws, and `q` ends it with everything put back.
#[test]
fn the_live_view_runs_in_a_terminal() {
    const NAME: &str = "the_live_view_runs_in_a_terminal";
    let Some(python) = require(NAME, Needed::OperatePython) else { return };
    let Some(servers) = LibtpuServers::start(NAME, &["new"]) else { return };
    let script = repository().join("crates/testkit/python/in_terminal.py");
    let bench = Bench::bare();
    let plain = bench.command(&["monitor", "--hosts", &servers.address(0)]);
    let mut command = Command::new(python);
    command
        .arg(script)
        // What is drawn over the frame before leaves equal cells out, so that only words are whole.
        .args(["devices,GiB", "q"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .stdin(Stdio::null());
    command.env_clear().env("TERM", "xterm").env("NO_COLOR", "1").env("HOME", bench.path("home"));
    let shown = ran(command.output().unwrap());
    assert_eq!(shown.code, Some(0), "{}{}", shown.stdout, shown.stderr);
    // The other screen, one frame at least, and back.
    let screen = &shown.stdout;
    assert!(screen.starts_with("\x1b[?1049h") && screen.trim_end().ends_with("\x1b[?1049l"), "{screen:?}");
    assert!(screen.contains("GiB") && screen.contains('█') && screen.contains("\x1b[?25h"), "{screen:?}");
    assert!(!screen.contains(";31m") && !screen.contains(";36m"), "colours although NO_COLOR is set");
}
