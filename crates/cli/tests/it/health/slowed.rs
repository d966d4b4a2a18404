//! The causes that `tpu diagnose` names: slow data, recompilation, a slow disk, a slow process, a tiny batch, f32; and none.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tensor::{DType, Literal, Spec};
use testkit::{StoreKind, StoreServer};
use trace::Tensor;
use train::data::{DataError, Dataset};
use train::telemetry::TrainTelemetry;
use train::trainer::{Measures, Task, TrainOptions, Trainer};

use super::{HEALTHY, bench, diagnosed, finds, start, train};
use crate::harness::{Bench, arg};
use crate::metrics::{answering, wait_for};
use crate::train_data::{IMAGES, classes};

/// Steps after which a training is looked at.
const SOME: f64 = 5.0;

#[test]
fn nothing_in_a_healthy_run() {
    let bench = bench();
    // With a profile, in which nothing is wrong either.
    let profiled = ["--folder", "run", "--with", "profile.steps=\"2..4\""];
    let (_running, _) = start(&bench, "healthy.toml", SOME, &profiled);
    let profile = bench.path("run/metrics/plugins/profile/steps-2-3");
    let has_file =
        || std::fs::read_dir(&profile).ok()?.flatten().find(|f| f.path().extension().is_some_and(|e| e == "pb"));
    wait_for("the profile", || has_file().map(|_| ()));
    let ran = bench.expect(0, &["diagnose", "run"]);
    assert!(ran.stdout.contains("nothing found") && !ran.stdout.contains("note: "), "{}", ran.stdout);
}

#[test]
fn a_tiny_batch() {
    let bench = bench();
    let tiny = ["--folder", "tiny", "--with", "train.batch_size=1", "--with", "data.sequence_length=8"];
    let (_running, _) = start(&bench, "healthy.toml", SOME, &tiny);
    let issue = finds(&bench, "tiny", "small_batch");
    assert!(issue["what"].as_str().unwrap().contains("8 tokens on each device"), "{issue:#}");
    assert!(issue["share"].as_f64().unwrap() > 0.0, "{issue:#}");
}

#[test]
fn f32_by_mistake() {
    let bench = bench();
    let (_running, address) = start(&bench, "healthy.toml", SOME, &["--with", "run.precision=f32"]);
    let has_units = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("amx_bf16"));
    if has_units {
        // Without a folder, the endpoint says it.
        finds(&bench, &address, "precision");
    } else {
        // This CPU multiplies bf16 no faster than f32.
        let (_, kinds, record) = diagnosed(&bench, &address);
        assert!(!kinds.iter().any(|kind| kind == "precision"), "{record:#}");
    }
}

/// Gives an image through a pipe, later than anybody would like.
fn slow_pipe(path: std::path::PathBuf, image: Vec<u8>) {
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    std::thread::spawn(move || {
        // Opening waits for a reader; the pipe is gone with the test's folder.
        while let Ok(mut pipe) = std::fs::OpenOptions::new().write(true).open(&path) {
            std::thread::sleep(Duration::from_millis(30));
            let _ = pipe.write_all(&image);
            drop(pipe);
            // The reader sees the end before the next one begins.
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn slow_data() {
    let bench = Bench::bare();
    for (class, image) in classes() {
        std::fs::create_dir_all(bench.path("images").join(class)).unwrap();
        (0..4).for_each(|n| slow_pipe(bench.path(&format!("images/{class}/{n}.png")), image.clone()));
    }
    bench.write("images.toml", IMAGES);
    let with = ["--with", "train.steps=1000000", "--with", "data.workers=1", "--with", "data.decode_threads=1"];
    let (_running, address) = start(&bench, "images.toml", 4.0, &with);
    let issue = finds(&bench, &address, "data_bound");
    assert!(issue["share"].as_f64().unwrap() > 0.3, "{issue:#}");
    assert!(issue["remedy"].as_str().unwrap().contains("data.workers = 4 (now 1)"), "{issue:#}");
}

/// A vector that follows the mean of its batch.
struct Mean;

impl Task for Mean {
    type State = Tensor;

    fn init(&self) -> Tensor {
        Tensor::zeros(DType::F32, &[8])
    }

    fn step(&self, state: &Tensor, batch: &[Tensor]) -> (Tensor, Measures) {
        let next = state + &batch[0].mean(&[0]);
        (next.clone(), BTreeMap::from([("loss".to_string(), next.mean_all())]))
    }

    fn evaluate(&self, _: &Tensor, _: &[Tensor]) -> Measures {
        Measures::new()
    }
}

/// Batches of which each is longer than the one before: what a dataset without padding gives.
struct Growing;

impl Dataset for Growing {
    fn specs(&self) -> Vec<Spec> {
        vec![Spec::new(DType::F32, [1, 8])]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        let rows = 1 + usize::try_from(step).unwrap();
        // Slowly, so that the test ends before the batches are large.
        std::thread::sleep(Duration::from_millis(20));
        Ok(vec![Literal::new(DType::F32, [rows, 8], vec![0; rows * 32]).unwrap()])
    }

    fn describe(&self) -> String {
        "growing".into()
    }
}

#[test]
fn recompilation() {
    let bench = Bench::bare();
    let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu)).unwrap();
    let telemetry = TrainTelemetry::new();
    let server = telemetry.serve("127.0.0.1:0").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (training, stopping) = (telemetry.clone(), stop.clone());
        let training = scope.spawn(move || {
            let options = TrainOptions { telemetry: training, ..TrainOptions::new(1_000_000) };
            let trainer = Trainer::new(&backend, Mean, options);
            trainer.train(Arc::new(Growing), None, &stopping, &mut |_| {}).map(|trained| trained.step)
        });
        wait_for("recompilations", || (telemetry.status().recompilations >= 8).then_some(()));
        let issue = finds(&bench, &server.address().to_string(), "recompiling");
        stop.store(true, Ordering::Relaxed);
        let what = issue["what"].as_str().unwrap();
        assert!(what.contains("train_step: argument 1 was tensor<") && what.contains("x8xf32>"), "{what}");
        training.join().unwrap().unwrap();
    });
}

/// A server in front of another, whose uploads come through at 200 kB/s.
fn slow_link(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let pass = |mut from: TcpStream, mut to: TcpStream, pause: Duration| {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            std::thread::sleep(pause);
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    };
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else { return };
            let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || pass(client, server, Duration::from_millis(20)));
            std::thread::spawn(move || pass(back, forth, Duration::ZERO));
        }
    });
    port
}

#[test]
fn slow_disk() {
    let Some(server) = StoreServer::start("slow_disk", StoreKind::S3) else { return };
    let bench = bench();
    let environment = StoreServer::environment_of(StoreKind::S3, slow_link(server.port()));
    let folder = server.location("run");
    // A checkpoint of this model takes the link about a second.
    let small = ["--with", "model.n_embd=32", "--with", "model.n_layer=1", "--with", "train.save_every=2"];
    let mut command = train(&bench, "healthy.toml", &[&["--folder", folder.as_str()][..], &small].concat());
    command.envs(environment);
    let (_running, address) = answering(&mut command);
    wait_for("stalls", || {
        let text = crate::metrics::get(&address, "/metrics", "text/plain");
        let saved = text.lines().find_map(|line| {
            line.strip_prefix("tpubridge_training_phase_seconds_total{phase=\"save\"} ")?.parse::<f64>().ok()
        });
        saved.filter(|seconds| *seconds > 1.0)
    });
    let issue = finds(&bench, &address, "checkpoint_stalls");
    assert!(issue["remedy"].as_str().unwrap().contains("train.save_every (now 2)"), "{issue:#}");
}

#[test]
fn one_slow_process() {
    let bench = bench();
    let file = bench.write("slow.toml", HEALTHY);
    let coordinator = crate::processes::here();
    let mesh = ["--folder", "run", "--mesh", "data=4", "--processes", "4", "--coordinator", &coordinator];
    let all: Vec<_> = std::thread::scope(|scope| {
        let start = |id: &'static str| {
            let more = [&mesh[..], &["--process-id", id]].concat();
            let (bench, file) = (&bench, arg(&file).to_string());
            scope.spawn(move || answering(&mut train(bench, &file, &more)))
        };
        let threads = ["0", "1", "2", "3"].map(start);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let steps = |address: &str| {
        crate::metrics::value(&crate::metrics::get(address, "/metrics", "text/plain"), "tpubridge_training_steps_total")
    };
    wait_for("steps", || steps(&all[0].1).filter(|done| *done > SOME));
    let (_, kinds, record) = diagnosed(&bench, "run");
    assert!(!kinds.iter().any(|kind| kind == "straggler"), "{record:#}");

    // Another user of its processor: it runs one fifth of the time.
    let process = Pid::from_child(&all[2].0.0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                kill_process(process, Signal::STOP).unwrap();
                std::thread::sleep(Duration::from_millis(80));
                kill_process(process, Signal::CONT).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // How many slow steps it takes depends on what else this machine does.
            wait_for("the straggler", || {
                let (_, _, record) = diagnosed(&bench, "run");
                let named = |issue: &&Value| {
                    let what = issue["what"].as_str().unwrap_or_default();
                    issue["kind"] == "straggler" && what.starts_with("process 2 on ")
                };
                record["issues"].as_array().unwrap().iter().find(named).cloned()
            })
        }));
        is_over.store(true, Ordering::Relaxed);
        let issue = found.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(!issue["remedy"].as_str().unwrap().is_empty(), "{issue:#}");
    });
}
