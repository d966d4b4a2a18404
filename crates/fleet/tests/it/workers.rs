//! Workers by ssh, on machines with Debian's server: prepared, started, looked at, stopped, fenced, lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet::job::JobFile;
use fleet::supervisor::{AttemptPhase, JobAttempt, JobWorkers, Place, StopHow, WorkerSeen};
use fleet::workers::{HostKeySource, Ssh, SshWorkers};
use testkit::SshMachines;

fn attempt(machines: &SshMachines, number: u32) -> JobAttempt {
    let place = |at: usize| Place {
        unit: "unit".into(),
        zone: "us-west4-a".into(),
        unit_slice: 0,
        slice: 0,
        worker: at as u32,
        internal: machines.address(at).parse().unwrap(),
        external: None,
    };
    JobAttempt {
        run: "r1".into(),
        number,
        epoch: 1,
        slices: 1,
        places: (0..2).map(place).collect(),
        phase: AttemptPhase::Starting,
        since_ms: 0,
        running_ms: None,
        from_step: None,
        kept_ms: None,
        unreachable: BTreeMap::new(),
    }
}

/// Looks until all workers are as they should be.
#[track_caller]
fn until(
    workers: &SshWorkers,
    epoch: u64,
    attempt: &JobAttempt,
    is_so: impl Fn(&[WorkerSeen]) -> bool,
) -> Vec<WorkerSeen> {
    let started = Instant::now();
    loop {
        let seen = workers.look(epoch, attempt);
        if is_so(&seen) {
            return seen;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{seen:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Processes that the programs of this test leave behind.
fn sleepers() -> usize {
    let name = format!("1000.{}", std::process::id());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands.filter(|command| *command == format!("sleep\0{name}\0").into_bytes()).count()
}

fn run_of(seen: &[WorkerSeen], number: u32) -> bool {
    seen.iter().all(|worker| matches!(worker, WorkerSeen::Running { attempt, .. } if *attempt == number))
}

#[test]
fn workers_are_prepared_started_stopped_fenced_and_lost() {
    let folder = tempfile::tempdir().unwrap();
    let name = "workers_are_prepared_started_stopped_fenced_and_lost";
    let Some(mut machines) = SshMachines::start(name, &folder.path().join("machines"), 2) else { return };
    // A program that finds its place and its files, and ends well when it is asked to.
    let script = "trap 'echo saved; exit 75' TERM\nsleep 1000.PID &\necho \"$TPUBRIDGE_PROCESS_ID of $JAX_NUM_PROCESSES: $GREETING\"\ncat data.txt\n\
                  test -s ../secret && echo secret\necho \"${TPU_LIBRARY_PATH#$HOME/}\"\nwhile :; do sleep 0.1; done\n";
    let script = script.replace("PID", &std::process::id().to_string());
    std::fs::write(folder.path().join("train.sh"), script).unwrap();
    std::fs::write(folder.path().join("data.txt"), "it's data\n").unwrap();
    // What `tpu setup libtpu --version 0.0.51 --json` does.
    let setup = r#"#!/bin/sh
mkdir -p "$TPUBRIDGE_HOME" && touch "$TPUBRIDGE_HOME/libtpu.so"
echo "{\"version\":1,\"call\":\"$*\",\"path\":\"$TPUBRIDGE_HOME/libtpu.so\"}"
"#;
    std::fs::write(folder.path().join("tpu"), setup).unwrap();
    std::fs::set_permissions(folder.path().join("tpu"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = "name = 'a'\nfolder = 'run'\n[run]\ncommand = ['sh', 'train.sh']\ncode = ['train.sh']\ndata = ['data.txt']\nsetup = 'touch is-set-up'\nplugin = 'libtpu==0.0.51'\n\
                [run.environment]\nGREETING = \"it's $HOME\"\n[slices]\ntype = 'v5litepod-16'\nzones = ['us-west4-a']\n";
    std::fs::write(folder.path().join("job.toml"), text).unwrap();
    let job = JobFile::read(&folder.path().join("job.toml")).unwrap();
    let ssh = Ssh {
        program: "/usr/bin/ssh".into(),
        user: Some("root".into()),
        key: Some(machines.key().to_path_buf()),
        folder: folder.path().to_path_buf(),
    };
    let homes = folder.path().join("machines");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let on_line = Box::new(move |process: usize, line: &str| heard.lock().unwrap().push(format!("{process} {line}")));
    let keys: HostKeySource = Box::new(move |place| {
        let key = std::fs::read_to_string(homes.join(format!("home{}/host_key.pub", place.worker))).unwrap();
        Ok(vec![key.split(' ').take(2).collect::<Vec<_>>().join(" ").trim().to_string()])
    });
    let workers = SshWorkers::new(&job, ssh, &folder.path().join("tpu"), Some(keys), on_line).unwrap();

    let first = attempt(&machines, 1);
    workers.start(1, &first);
    until(&workers, 1, &first, |seen| run_of(seen, 1));
    until(&workers, 1, &first, |_| lines.lock().unwrap().len() >= 8);
    let mut said = lines.lock().unwrap().clone();
    said.sort();
    assert_eq!(sleepers(), 2);
    let expected = ["0 .tpubridge/libtpu.so", "0 0 of 2: it's $HOME", "0 it's data", "0 secret"];
    assert_eq!(said[..4], expected);
    assert_eq!(said[4..], ["1 .tpubridge/libtpu.so", "1 1 of 2: it's $HOME", "1 it's data", "1 secret"]);
    let home = folder.path().join("machines/home1/.tpubridge/jobs/r1");
    assert!(home.join("work/is-set-up").exists() && home.join("work/bin/tpu").exists());

    // A worker with a process starts no second one.
    let second = attempt(&machines, 2);
    workers.start(1, &second);
    let seen =
        until(&workers, 1, &second, |seen| seen.iter().all(|worker| matches!(worker, WorkerSeen::Failed { .. })));
    assert!(format!("{seen:?}").contains("busy"), "{seen:?}");
    workers.stop(1, &first, StopHow::Ask);
    let saved = vec![WorkerSeen::Exited { attempt: 1, code: 75 }; 2];
    until(&workers, 1, &first, |seen| seen == saved);
    // What a program leaves behind would hold the chips: it is gone before its end is told.
    assert_eq!(sleepers(), 0);
    workers.keep_logs(1);

    // A supervisor of an earlier epoch starts nothing.
    let third = attempt(&machines, 3);
    assert_eq!(workers.look(5, &first), saved);
    workers.start(4, &third);
    let seen = until(&workers, 5, &third, |seen| seen.iter().all(|worker| matches!(worker, WorkerSeen::Failed { .. })));
    assert!(format!("{seen:?}").contains("fenced 5"), "{seen:?}");
    let fourth = attempt(&machines, 4);
    workers.start(5, &fourth);
    until(&workers, 5, &fourth, |seen| run_of(seen, 4));
    workers.stop(5, &fourth, StopHow::Kill);
    until(&workers, 5, &fourth, |seen| seen == vec![WorkerSeen::Exited { attempt: 4, code: 137 }; 2]);

    // A machine that is gone does not answer; a new one at its address has nothing.
    machines.crash(1);
    let seen = until(&workers, 5, &fourth, |seen| seen[1] == WorkerSeen::Refusing);
    assert_eq!(seen[0], WorkerSeen::Exited { attempt: 4, code: 137 });
    machines.boot(1);
    // It is not the one whose key is known under its name.
    let until_up = Instant::now();
    while workers.look(5, &fourth)[1] == WorkerSeen::Refusing {
        assert!(until_up.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(workers.look(5, &fourth)[1], WorkerSeen::Unreachable);
    let mut fifth = attempt(&machines, 5);
    fifth.places.iter_mut().for_each(|place| place.unit = "another".into());
    workers.start(5, &fifth);
    until(&workers, 5, &fifth, |seen| run_of(seen, 5));
    workers.stop(5, &fifth, StopHow::Kill);
}
