//! Many processes: what each is told, one exit code, nobody left when one dies or the launcher is killed.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet::launch::{LaunchEnd, LaunchOutput, LaunchPlace, LaunchPlan, Launcher, StopOrder, launch, work};

/// What hangs longer is a failure; what works is much quicker.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test: the worker of the tests below, a process of its own.
#[test]
fn worker_of_the_tests() {
    if std::env::args().any(|word| word == "--quiet") {
        std::process::exit(work())
    }
}

/// Not a test: the launcher that a test below kills.
#[test]
fn launcher_of_the_tests() {
    let Some(script) = std::env::var_os("LAUNCHED_SCRIPT") else { return };
    let plan = LaunchPlan { command: vec!["sh".into(), "-c".into(), script], ..plan("", 3) };
    let (_requests, asked) = mpsc::channel();
    launch(&plan, &LaunchOutput::standard(), asked, &mut |_| {}).unwrap();
}

/// Three or so processes of a shell script.
fn plan(script: &str, processes: usize) -> LaunchPlan {
    let own = std::env::current_exe().unwrap().into_os_string();
    let words = ["launch::worker_of_the_tests", "--exact", "--nocapture", "--quiet"];
    LaunchPlan {
        command: ["sh", "-c", script].map(OsString::from).to_vec(),
        places: vec![LaunchPlace::Here; processes],
        coordinator: "127.0.0.1:4711".into(),
        environment: Vec::new(),
        logs: None,
        kill_after: Duration::from_millis(300),
        grace: None,
        launcher: Launcher {
            here: [own].into_iter().chain(words.map(OsString::from)).collect(),
            remote: String::new(),
            ssh: Vec::new(),
            folder: None,
            remote_folder: None,
        },
    }
}

struct Launched {
    end: LaunchEnd,
    output: String,
    error: String,
    told: String,
}

fn launched(plan: &LaunchPlan, asked: Receiver<StopOrder>) -> Launched {
    let (output, error) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let both = LaunchOutput { output: output.clone(), error: error.clone() };
    let mut told = String::new();
    let end = launch(plan, &both, asked, &mut |line| told += &format!("{line}\n")).unwrap();
    let text = |bytes: &Arc<Mutex<Vec<u8>>>| String::from_utf8(bytes.lock().unwrap().clone()).unwrap();
    Launched { end, output: text(&output), error: text(&error), told }
}

/// Launches with nobody who asks it to stop.
fn run(plan: &LaunchPlan) -> Launched {
    let (_requests, asked) = mpsc::channel();
    launched(plan, asked)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the processes whose ids a script wrote to files are there, dead ones that nobody waited for apart.
fn alive(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let ids = files.filter(|path| path.extension().is_some_and(|e| e == "pid"));
    let ids = ids.map(|path| std::fs::read_to_string(path).unwrap().trim().to_string());
    let is_alive =
        |id: &String| std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    ids.filter(|id| !id.is_empty()).filter(is_alive).collect()
}

fn count(folder: &Path, extension: &str) -> usize {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == extension)).count()
}

#[test]
fn each_process_is_told_its_number_and_all_the_same_secret() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $TPUBRIDGE_PROCESS_ID of $TPUBRIDGE_PROCESSES at $TPUBRIDGE_COORDINATOR, \
                  $JAX_PROCESS_ID of $JAX_NUM_PROCESSES at $JAX_COORDINATOR_ADDRESS, $MORE; \
                  echo $TPUBRIDGE_SECRET $TPUBRIDGE_RUN_ID >&2";
    let plan = LaunchPlan {
        logs: Some(folder.path().join("logs")),
        environment: vec![("MORE".into(), "and more".into())],
        ..plan(script, 3)
    };
    let ran = run(&plan);
    assert_eq!((ran.end.exit_code(), ran.end.culprit()), (0, None), "{}{}", ran.output, ran.error);
    for process in 0..3 {
        let line = format!("{process} of 3 at 127.0.0.1:4711, {process} of 3 at 127.0.0.1:4711, and more\n");
        assert!(ran.output.contains(&format!("[{process}] {line}")), "{}", ran.output);
        let log = std::fs::read_to_string(folder.path().join(format!("logs/process-{process}.log"))).unwrap();
        assert!(log.contains(&line), "{log}");
    }
    let secrets: Vec<&str> = ran.error.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    assert!(secrets.len() == 3 && secrets.iter().all(|secret| *secret == secrets[0]), "{secrets:?}");
    assert!(secrets[0].split_once(' ').is_some_and(|(secret, run)| secret.len() == 64 && run.len() == 32));
    // Another launch has another, and its lines follow those of the first in the files.
    let again = run(&plan);
    assert!(!again.error.contains(secrets[0]), "{}", again.error);
    let log = std::fs::read_to_string(folder.path().join("logs/process-1.log")).unwrap();
    assert_eq!(log.matches(", and more").count(), 2, "{log}");
}

#[test]
fn one_that_fails_takes_all_with_it_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    // The others do not listen, and have children in the background.
    let script = format!(
        "cd {place}; trap '' TERM; sleep 1000 & echo $! >$TPUBRIDGE_PROCESS_ID.pid; echo $$ >own$TPUBRIDGE_PROCESS_ID.pid
         if [ $TPUBRIDGE_PROCESS_ID = 1 ]; then
           while [ $(ls own*.pid | wc -l) != 3 ]; do sleep 0.01; done; echo no more steps >&2; exit 3
         fi; while true; do sleep 1; done"
    );
    let ran = run(&plan(&script, 3));
    assert_eq!((ran.end.exit_code(), ran.end.culprit), (3, Some(1)), "{:?}", ran.end);
    assert!(ran.end.last_words.iter().any(|line| line == "no more steps"), "{:?}", ran.end);
    assert!(ran.told.contains("process 1 ended with code 3; all others are stopped"), "{}", ran.told);
    assert!(ran.told.contains("processes 0, 2 do not stop and are killed"), "{}", ran.told);
    for process in [0, 2] {
        let end = &ran.end.processes[process];
        assert!(end.killed_by_launcher && end.signal == Some(9), "{end:?}");
    }
    assert_eq!(count(folder.path(), "pid"), 6);
    assert_eq!(alive(folder.path()), Vec::<String>::new());
}

#[test]
fn a_killed_process_is_named_even_where_others_end_first() {
    let script = "if [ $TPUBRIDGE_PROCESS_ID = 2 ]; then sleep 0.2; kill -9 $$; fi; exit 2";
    let ran = run(&plan(script, 3));
    assert_eq!((ran.end.exit_code(), ran.end.culprit), (137, Some(2)), "{:?}", ran.end);
    assert!(ran.end.culprit().unwrap().how().contains("SIGKILL"));
}

#[test]
fn a_request_to_stop_reaches_all_and_75_means_saved() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let waits = |end: &str| {
        format!("trap '{end}' TERM; echo >{place}/$TPUBRIDGE_PROCESS_ID.on; while true; do sleep 0.01; done")
    };
    for (script, code) in [
        (waits("exit 75"), 75),
        (waits("exit 4"), 4),
        (format!("echo >{place}/$TPUBRIDGE_PROCESS_ID.on; exec sleep 1000"), 143),
    ] {
        std::fs::read_dir(folder.path()).unwrap().for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
        let (requests, asked) = mpsc::channel();
        let place = folder.path().to_path_buf();
        std::thread::spawn(move || {
            until("all start", || count(&place, "on") == 3);
            requests.send(StopOrder::Terminate).unwrap();
            std::thread::park();
        });
        let ran = launched(&plan(&script, 3), asked);
        assert_eq!(ran.end.exit_code(), code, "{:?}", ran.end);
        assert_eq!(ran.end.culprit.is_some(), code == 4, "{:?}", ran.end);
        assert!(ran.told.contains("asked to stop"), "{}", ran.told);
    }
    // One that saved by itself, as on a preemption notice of its own machine, stops the others too.
    std::fs::read_dir(folder.path()).unwrap().for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    let first = format!("while [ ! -e {place}/1.on ] || [ ! -e {place}/2.on ]; do sleep 0.01; done; exit 75");
    let script = format!("if [ $TPUBRIDGE_PROCESS_ID = 0 ]; then {first}; fi; {}", waits("exit 75"));
    let ran = run(&plan(&script, 3));
    assert_eq!((ran.end.exit_code(), ran.end.culprit), (75, None), "{:?}", ran.end);
    // A second Ctrl-C does not wait.
    std::fs::read_dir(folder.path()).unwrap().for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    let (requests, asked) = mpsc::channel();
    let place = folder.path().to_path_buf();
    std::thread::spawn(move || {
        until("all ignore signals", || count(&place, "on") == 2);
        let _ = [StopOrder::Interrupt, StopOrder::Interrupt].map(|order| requests.send(order).unwrap());
        std::thread::park();
    });
    let place = folder.path().display();
    let script = format!("trap '' INT TERM; echo >{place}/$TPUBRIDGE_PROCESS_ID.on; while true; do sleep 0.01; done");
    let ran = launched(&plan(&script, 2), asked);
    assert!(ran.end.processes.iter().all(|end| end.signal == Some(9)), "{:?}", ran.end);
}

#[test]
fn a_program_that_is_not_there_is_an_end_like_others() {
    let plan = LaunchPlan { command: vec!["/nowhere/tpu".into()], ..plan("", 2) };
    let ran = run(&plan);
    assert_eq!(ran.end.exit_code(), 127, "{:?}", ran.end);
    assert!(ran.error.contains("cannot start `/nowhere/tpu`"), "{}", ran.error);
    let launcher = Launcher { here: vec!["/nowhere/worker".into()], ..plan.launcher.clone() };
    let ran = run(&LaunchPlan { launcher, ..plan });
    assert_eq!(ran.end.exit_code(), 127, "{:?}", ran.end);
    assert!(ran.error.contains("cannot start `/nowhere/worker`"), "{}", ran.error);
}

#[test]
fn nobody_is_left_when_the_launcher_or_a_worker_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let script = format!(
        "cd {place}; trap '' TERM; sleep 1000 & echo $! >$TPUBRIDGE_PROCESS_ID.pid; echo $$ >own$TPUBRIDGE_PROCESS_ID.pid
         echo $PPID >$TPUBRIDGE_PROCESS_ID.worker; while true; do sleep 1; done"
    );
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["launch::launcher_of_the_tests", "--exact", "--nocapture"]);
        command.env("LAUNCHED_SCRIPT", &script).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        until("all start", || count(folder.path(), "worker") == 3 && alive(folder.path()).len() == 6);
        child
    };
    let mut launcher = start();
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    until("all end with the launcher", || alive(folder.path()).is_empty());
    std::fs::read_dir(folder.path()).unwrap().for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    let mut launcher = start();
    let worker = std::fs::read_to_string(folder.path().join("1.worker")).unwrap();
    let worker = rustix::process::Pid::from_raw(worker.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(worker, rustix::process::Signal::KILL).unwrap();
    launcher.wait().unwrap();
    assert_eq!(alive(folder.path()), Vec::<String>::new());
    let _ = std::io::stderr().flush();
}
