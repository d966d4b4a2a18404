//! Death and interruption: of the child, of the command, in the middle.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use compile::cache::{Cache, CacheConfig};
use compile::worker::{WorkerCommand, WorkerLimits};
use compile::{CompileMode, CompileRequest, PluginFile, Program, SliceCompiler};
use testkit::{Mutator, Needed, repository, require};

use crate::harness::{Bench, MATMUL, arg};

/// Mutated programs that are read and verified.
const MUTATED: usize = 10_000;
/// Of those that are still valid programs, how many the real compiler is given.
const COMPILED: usize = 25;

/// The compile worker a command has started.
fn worker_of(child: &Child) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Waits until the command has a worker that has loaded the compiler, so that what follows hits it in the middle.
fn wait_for_worker(child: &Child) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(pid) = worker_of(child) {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            if maps.contains("libtpu.so") {
                return pid;
            }
        }
        assert!(Instant::now() < deadline, "the worker did not start");
        std::thread::yield_now();
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn start(bench: &Bench) -> Child {
    let program = repository().join("examples/ffn.mlir");
    bench
        .command(&["compile", arg(&program), "--slice", "v5e-4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Nothing half-written and nothing kept.
fn assert_clean(bench: &Bench) {
    assert_eq!(bench.json(&["cache", "stats"])["entries"], 0);
    let temporaries = std::fs::read_dir(bench.path("cache/v1/tmp")).map_or(0, |files| files.count());
    assert_eq!(temporaries, 0);
}

#[test]
fn a_killed_compiler_is_an_error_and_the_next_compile_works() {
    let Some(bench) = Bench::with_libtpu("a_killed_compiler_is_an_error") else { return };
    let child = start(&bench);
    kill(wait_for_worker(&child), "-KILL");
    let (code, stderr) = end(child);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("the compiler's process died (SIGKILL") && stderr.contains("hint: "), "{stderr}");
    assert_clean(&bench);
    let program = repository().join("examples/ffn.mlir");
    bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4"]);
}

#[test]
fn an_interrupt_ends_the_command_and_its_compiler() {
    let Some(bench) = Bench::with_libtpu("an_interrupt_ends_the_command") else { return };
    let child = start(&bench);
    let worker = wait_for_worker(&child);
    kill(child.id(), "-INT");
    let (code, stderr) = end(child);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("interrupted"), "{stderr}");
    assert!(!is_alive(worker));
    assert_clean(&bench);
}

#[test]
fn a_killed_command_takes_its_compiler_along() {
    let Some(bench) = Bench::with_libtpu("a_killed_command_takes_its_compiler_along") else { return };
    let mut child = start(&bench);
    let worker = wait_for_worker(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while is_alive(worker) {
        assert!(Instant::now() < deadline, "the worker outlived its parent");
        std::thread::yield_now();
    }
    let program = repository().join("examples/ffn.mlir");
    bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4", "--quick"]);
}

/// Seeds: our own programs, and a spread over the exported ones, as text and as bytecode.
fn seeds(corpus: &std::path::Path) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|f| [".mlir", ".mlir.bc"].iter().any(|ending| f.to_string_lossy().ends_with(ending)));
    files.retain(|f| f.metadata().unwrap().len() < 8_000);
    files.sort();
    let spread = files.iter().step_by(files.len() / 60).map(|f| std::fs::read(f).unwrap());
    let ours = [std::fs::read(repository().join("examples/ffn.mlir")).unwrap(), MATMUL.as_bytes().to_vec()];
    ours.into_iter().chain(spread).collect()
}

#[test]
fn ten_thousand_mutated_programs_crash_nothing() {
    let Some(bench) = Bench::with_libtpu("ten_thousand_mutated_programs") else { return };
    let Some(corpus) = require("ten_thousand_mutated_programs", Needed::Corpus) else { return };
    let Some(libtpu) = require("ten_thousand_mutated_programs", Needed::Libtpu) else { return };
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&libtpu).unwrap(),
        cache: Cache::open(&CacheConfig { folder: Some(bench.path("cache")), ..CacheConfig::default() }).unwrap(),
        launch: WorkerCommand {
            program: env!("CARGO_BIN_EXE_tpu").into(),
            ..WorkerCommand::this_program(["compile-worker"]).unwrap()
        },
        limits: WorkerLimits { time: Duration::from_secs(20), memory_bytes: Some(8 << 30) },
    };
    let request = CompileRequest { mode: CompileMode::Quick, ..CompileRequest::new("v5e-4".parse().unwrap()) };
    let stop = AtomicBool::new(false);
    let mut mutator = Mutator::new(2, seeds(&corpus));
    let (mut valid, mut compiled) = (0, 0);
    for _ in 0..MUTATED {
        let input = mutator.next_input();
        if Program::read(input.clone()).is_err() {
            continue;
        }
        valid += 1;
        // Spread over the run; whatever the compiler does with it, we get an answer.
        if valid % 8 == 0 && compiled < COMPILED {
            compiled += 1;
            let _ = compiler.compile(&input, &request, &stop, &mut |_| {});
        }
    }
    assert!(compiled == COMPILED, "the mutations are too wild to test anything: {valid} valid");
    let again = compiler.compile(MATMUL.as_bytes(), &request, &stop, &mut |_| {}).unwrap();
    assert!(again.entry.report.headroom() > 0);
}
