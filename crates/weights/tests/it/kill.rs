//! A process that saves is killed at random moments: every restart finds a complete checkpoint with the right contents.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Random, StoreKind, StoreServer};
use weights::{Access, AsyncSaver, CheckpointManager, Error, IntegrityCheck, Keep, Saver, WhenBusy};

use crate::state::{assert_exact, snapshot};

/// Where the child saves; the test of that name does nothing without it.
const PLACE: &str = "TPUBRIDGE_TEST_KILL_PLACE";

#[test]
fn child_that_saves_until_it_is_killed() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let manager = CheckpointManager::open(&place).unwrap();
    let resumed = match manager.latest_good(IntegrityCheck::Contents) {
        Ok(found) => {
            assert_exact(&found.saved);
            assert!(found.damaged.is_empty(), "{:?}", found.damaged);
            found.saved.step()
        }
        Err(Error::NoCheckpoint { .. }) => 0,
        Err(error) => panic!("{error}"),
    };
    let saver = Saver::new(manager, Keep::newest(2)).unwrap().with_file_bytes(8_000);
    let saver = AsyncSaver::new(saver, WhenBusy::Wait).unwrap();
    println!("resumed {resumed}");
    for step in resumed + 1.. {
        // Now and then the same step again, which replaces a complete checkpoint.
        for _ in 0..1 + step % 3 / 2 {
            saver.save(snapshot(step)).unwrap();
            saver.wait().unwrap();
            println!("saved {step}");
            std::io::stdout().flush().unwrap();
        }
    }
}

fn start_child(place: &str, environment: &[(&str, String)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::child_that_saves_until_it_is_killed", "--nocapture"]);
    command.env(PLACE, place).envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
    command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap()
}

/// Kills children at random moments, and looks at what they leave.
fn kill_and_look(manager: &CheckpointManager, rounds: u64, start: impl Fn() -> Child) {
    let mut random = Random::new(42);
    let mut saved = 0;
    for round in 0..rounds {
        let mut child = start();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let saves_before_the_kill = random.below(4);
        let mut seen = 0;
        for line in lines.by_ref().map(Result::unwrap) {
            if let Some((_, step)) = line.split_once("saved ") {
                saved = step.parse().unwrap();
                seen += 1;
            }
            let has_begun = seen > 0 || line.contains("resumed ");
            if has_begun && seen >= saves_before_the_kill {
                break;
            }
        }
        // Some time into the next save.
        let moment = Instant::now() + Duration::from_micros(random.below(30_000) as u64);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some((_, step)) = line.split_once("saved ") {
                saved = step.parse().unwrap();
            }
        }
        if saved == 0 {
            continue;
        }
        let found = manager.latest_good(IntegrityCheck::Contents).unwrap();
        assert!(found.damaged.is_empty(), "round {round}: {:?}", found.damaged);
        assert!(found.saved.step() >= saved, "round {round}: {saved} was saved, {} is there", found.saved.step());
        assert_exact(&found.saved);
        for step in manager.steps().unwrap() {
            assert_exact(&manager.load(step).unwrap());
        }
    }
    assert!(saved > rounds / 4, "children did save: {saved}");
}

#[test]
fn a_kill_at_any_moment_leaves_a_complete_checkpoint_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("runs/a");
    let manager = CheckpointManager::open(place.to_str().unwrap()).unwrap();
    kill_and_look(&manager, 30, || start_child(place.to_str().unwrap(), &[]));
    // The next save cleans up: only complete checkpoints and the lock are left.
    let mut saver = Saver::new(manager.clone(), Keep::newest(2)).unwrap();
    let next = manager.latest().unwrap().unwrap() + 1;
    saver.save(snapshot(next)).unwrap();
    let names: Vec<_> = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 5, "two checkpoints, the lock, the record, what keeps earlier releases out: {names:?}");
    for step in manager.steps().unwrap() {
        assert_only_named_files(&place.join(format!("step-{step:08}")));
    }
}

fn assert_only_named_files(folder: &Path) {
    let names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let [manifest] = &names.iter().filter(|name| name.starts_with("manifest-")).collect::<Vec<_>>()[..] else {
        panic!("{names:?}");
    };
    let text = std::fs::read_to_string(folder.join(manifest)).unwrap();
    assert!(names.iter().all(|name| name == *manifest || text.contains(name)), "left over: {names:?}");
}

#[test]
fn a_kill_at_any_moment_leaves_a_complete_checkpoint_in_a_bucket() {
    for kind in [StoreKind::S3, StoreKind::Google] {
        let Some(server) = StoreServer::start("a_kill_leaves_a_complete_checkpoint_in_a_bucket", kind) else { return };
        let environment = server.environment().into_iter();
        let access = environment.fold(Access::default(), |access, (name, value)| access.with(name, &value));
        let place = server.location("killed");
        let manager = CheckpointManager::open_with(&place, &access).unwrap();
        // The child reads the environment, as `tpu train` does.
        kill_and_look(&manager, 4, || start_child(&place, &server.environment()));
    }
}
