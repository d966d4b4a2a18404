//! Scratch: estimates exported rows.
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use hlo::xla::Module;
use plan::{Bound, Machine, simulate};
use runtime::cache::{Cache, CacheConfig};
use runtime::worker::{Launch, Limits};
use runtime::{CompileRequest, Mode, PluginFile, SliceCompiler, blob};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "compile-worker") {
        let ok = runtime::worker::serve() == std::process::ExitCode::SUCCESS;
        std::process::exit(if ok { 0 } else { 2 });
    }
    let full = args.iter().any(|a| a == "--full");
    let top: usize = args.iter().find_map(|a| a.strip_prefix("--top=")).map_or(0, |n| n.parse().unwrap());
    let plugin = std::env::var("TPUBRIDGE_LIBTPU").unwrap();
    let compiler = SliceCompiler {
        plugin: PluginFile::open(plugin.as_ref()).unwrap(),
        cache: Cache::open(&CacheConfig {
            folder: Some("/tmp/i5/cache".into()),
            max_bytes: 40 << 30,
            ..CacheConfig::default()
        }),
        launch: Launch::this_program(["compile-worker"]).unwrap(),
        limits: Limits { time: std::time::Duration::from_secs(3600), memory_bytes: None },
    };
    for path in args.iter().filter(|a| !a.starts_with("--")) {
        let side: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let program =
            std::fs::read(std::path::Path::new(path).with_file_name(side["program"].as_str().unwrap())).unwrap();
        let slice: chips::Slice = side["slice"].as_str().unwrap().parse().unwrap();
        let ids: Vec<i64> = side["device_ids"].as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect();
        let flags: BTreeMap<String, String> = side["flags"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_string)))
            .collect();
        let mut request = CompileRequest::new(slice);
        request.device_ids = Some(ids.clone());
        request.flags = flags;
        request.mode = if full { Mode::Full } else { Mode::Quick };
        let compiled = match compiler.compile(&program, &request, &AtomicBool::new(false), &mut |_| {}) {
            Ok(c) => c,
            Err(e) => {
                println!("{}: {e}", side["id"]);
                continue;
            }
        };
        let entry = &compiled.entry;
        let module = match (entry.blob(blob::HLO), entry.blob(blob::HLO_ZSTD)) {
            (Some(b), _) => Module::from_hlo_with_config(b).unwrap(),
            (_, Some(b)) => Module::from_zstd(b).unwrap(),
            _ => panic!(),
        };
        if let Some(out) = args.iter().find_map(|a| a.strip_prefix("--text=")) {
            std::fs::write(out, module.to_string()).unwrap();
        }
        let machine = Machine::of(&slice);
        let per = u64::from(slice.devices_per_slice());
        let devices: Vec<u64> = ids
            .iter()
            .map(|&id| {
                let id = id as u64;
                if id >= 100_000 { (id / 100_000 - 1) * per + id % 100_000 } else { id }
            })
            .collect();
        let executions = module.executions();
        let sim = simulate(&module, &executions, &machine, &devices);
        let measured = side["measured_step_s"].as_f64().unwrap_or(f64::NAN);
        let mut by: BTreeMap<Bound, f64> = BTreeMap::new();
        for op in &sim.ops {
            *by.entry(op.bound).or_default() += op.total_s();
        }
        let shares: Vec<String> = by.iter().map(|(b, s)| format!("{b:?} {s:.3}")).collect();
        let flops: f64 = sim.ops.iter().map(|o| o.flops * o.executions).sum();
        println!(
            "{:60} {:8.3} vs {:8.3}  {:+6.1} %  | {} | transfers {:?} | {:.1} TF/device, compile {:.0}s, {:.1} GiB",
            side["id"].as_str().unwrap(),
            sim.seconds,
            measured,
            100.0 * (sim.seconds / measured - 1.0),
            shares.join(", "),
            sim.transfers.iter().map(|(b, s)| format!("{b:?} {s:.3}")).collect::<Vec<_>>(),
            flops / 1e12,
            entry.report.compile_seconds,
            entry.report.memory.total as f64 / (1u64 << 30) as f64
        );
        let mut notes = sim.notes.clone();
        notes.dedup();
        for n in notes.iter().take(6) {
            println!("    {n}");
        }
        let mut ops = sim.ops;
        ops.sort_by(|a, b| b.total_s().total_cmp(&a.total_s()));
        for op in ops.iter().take(top) {
            let i = module.instruction(op.instruction);
            println!(
                "    {:7.4}s x{:6} {:8.3}ms {:?} {:.2}TF {:.0}MB {} {} {} | {}",
                op.total_s(),
                op.executions,
                op.seconds * 1e3,
                op.bound,
                op.flops / 1e12,
                op.hbm_bytes / 1e6,
                i.name(),
                i.opcode().name(),
                i.shape().to_string().chars().take(60).collect::<String>(),
                i.metadata()
                    .map_or("", |m| m.op_name.as_str())
                    .chars()
                    .rev()
                    .take(90)
                    .collect::<String>()
                    .chars()
                    .rev()
                    .collect::<String>()
            );
        }
    }
}
