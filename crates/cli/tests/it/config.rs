//! `tpu config`, the log, and what the configuration does to real compilations.

use runtime::config::OPTIONS;

use crate::harness::{Bench, Ran, arg, ran};

/// Four devices: an all-gather before the first matmul, a reduction after the second.
const FEED_FORWARD: &str = r#"module @feed_forward attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %x: tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %up: tensor<4096x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
      %down: tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %up, contracting_dims = [1] x [0]
        : (tensor<8192x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<8192x8192xbf16>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]> : tensor<8192x8192xbf16>
    %2 = stablehlo.tanh %1 : tensor<8192x8192xbf16>
    %3 = stablehlo.dot_general %2, %down, contracting_dims = [1] x [0]
        : (tensor<8192x8192xbf16>, tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
    return %3 : tensor<8192x4096xbf16>
  }
}"#;

/// Four devices: an all-to-all beside a matmul that does not need it.
const RESHARD: &str = r#"module @reshard attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %x: tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %y: tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %w: tensor<4096x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
          tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.tanh %x : tensor<8192x4096xbf16>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]> : tensor<8192x4096xbf16>
    %2 = stablehlo.add %1, %1 : tensor<8192x4096xbf16>
    %3 = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0]
        : (tensor<8192x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16>
    return %2, %3 : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>
  }
}"#;

const SINE: &str = "module @sine { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
} }";

/// A chain whose values are all used again in reverse order, as a gradient uses them: 1.7 GiB at once, unless some are
/// rematerialized.
fn chain() -> String {
    let (depth, t) = (24, "tensor<4096x4096xf32>");
    let mut text = format!("module @chain {{\n func.func @main(%x: {t}, %w: {t}) -> {t} {{\n");
    let mut last = "%x".to_string();
    for n in 0..depth {
        text +=
            &format!(" %m{n} = stablehlo.dot_general {last}, %w, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}\n");
        text += &format!(" %a{n} = stablehlo.tanh %m{n} : {t}\n %e{n} = stablehlo.exponential %a{n} : {t}\n");
        last = format!("%a{n}");
    }
    for n in (0..depth).rev() {
        text +=
            &format!(" %g{n} = stablehlo.dot_general {last}, %w, contracting_dims = [1] x [1] : ({t}, {t}) -> {t}\n");
        text += &format!(" %h{n} = stablehlo.multiply %g{n}, %e{n} : {t}\n");
        last = format!("%h{n}");
    }
    text + &format!(" return {last} : {t}\n }}\n}}\n")
}

/// The optimized program, with options set.
#[track_caller]
fn optimized(bench: &Bench, program: &str, slice: &str, set: &[&str]) -> String {
    let file = bench.write("program.mlir", program);
    let mut args = vec!["compile", arg(&file), "--slice", slice, "--quick", "--emit", "hlo"];
    set.iter().for_each(|setting| args.extend(["--set", setting]));
    bench.expect(0, &args).stdout
}

/// Bytes of HBM a program needs; `None` when it does not fit.
#[track_caller]
fn total_bytes(bench: &Bench, program: &str, slice: &str, set: &[&str]) -> Option<u64> {
    let file = bench.write("program.mlir", program);
    let mut args = vec!["compile", arg(&file), "--slice", slice, "--quick", "--json"];
    set.iter().for_each(|setting| args.extend(["--set", setting]));
    let Ran { code, stdout, stderr } = bench.run(&args);
    assert!(code == Some(0) || code == Some(1), "{stdout}{stderr}");
    let record: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    (code == Some(0)).then(|| record["report"]["memory"]["total"].as_u64().unwrap())
}

const SLICES: [&str; 2] = ["v5e-4", "v6e-4"];
const CHIPS: [&str; 2] = ["v5e-1", "v6e-1"];

#[test]
fn show_lists_every_option_with_its_source() {
    let bench = Bench::bare();
    let file =
        bench.write("tpubridge.toml", "precision = \"f32\"\n[xla_flags]\nxla_tpu_scoped_vmem_limit_kib = 65536\n");
    let mut command = bench.command(&["config", "show", "--json", "--config", arg(&file), "--set", "interpret=true"]);
    let shown = ran(command.env("TPUBRIDGE_SLICE", "v6e-8").output().unwrap());
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let record: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let options = record["options"].as_array().unwrap();
    let names: Vec<&str> = options.iter().map(|option| option["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "mode");
    assert_eq!(names[1..], OPTIONS.iter().map(|option| option.name).collect::<Vec<_>>());
    let check = |name: &str, value: &str, source: &str| {
        let option = options.iter().find(|option| option["name"] == name).unwrap();
        assert_eq!((option["value"].as_str(), option["source"].as_str()), (Some(value), Some(source)), "{name}");
    };
    check("precision", "f32", arg(&file));
    check("xla_flags", "xla_tpu_scoped_vmem_limit_kib=65536", arg(&file));
    check("slice", "v6e-8", "$TPUBRIDGE_SLICE");
    check("interpret", "true", "command line");
    check("enable_cache", "true", "default");
    let table = bench.expect(0, &["config", "show"]).stdout;
    assert!(OPTIONS.iter().all(|option| table.contains(option.name) && table.contains(option.doc.trim())), "{table}");
}

#[test]
fn mistakes_are_told_with_the_remedy() {
    let bench = Bench::bare();
    let check = |setting: &str, expected: &str| {
        let ran = bench.expect(2, &["config", "show", "--set", setting]);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{setting}\n{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    };
    check("precison=f32", "did you mean precision?");
    check("xla_flags=xla_tpu_scoped_vmem_limit_kb=1", "did you mean xla_tpu_scoped_vmem_limit_kib?");
    check("xla_flags=xla_tpu_scoped_vmem_limit_kib", "(from command line)");
    check("xla_optimization_level=4", "0, 1, 2 or 3, or none");
    check("enable_xla_fusion=true", "is refused");
    check("precision", "has no value");
}

#[test]
fn the_environment_is_printed_and_a_shell_can_read_it() {
    let bench = Bench::bare();
    let text = bench.expect(0, &["config", "environment"]).stdout;
    assert!(text.contains("export TPU_LOG_DIR=disabled\n"), "{text}");
    assert!(
        text.lines()
            .all(|line| line.starts_with("# ") || line.starts_with("export TPU_") || line.starts_with("export "))
    );
    let mut shell = std::process::Command::new("/bin/sh");
    let read = shell.args(["-c", &format!("{text}\nprintf %s \"$TPU_LOG_DIR\"")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "disabled");
    let record = bench.json(&["config", "environment"]);
    let variables = record["variables"].as_array().unwrap();
    assert!(variables.iter().all(|variable| !variable["why"].as_str().unwrap().is_empty()));
    // What is set already stays.
    let mut command = bench.command(&["config", "environment"]);
    let text = ran(command.env("TPU_LOG_DIR", "/logs").output().unwrap()).stdout;
    assert!(!text.contains("TPU_LOG_DIR"), "{text}");
    assert_eq!(bench.expect(0, &["config", "environment", "--set", "device=cpu"]).stdout, "");
}

#[test]
fn flags_are_listed() {
    let bench = Bench::bare();
    let text = bench.expect(0, &["config", "flags", "latency_hiding"]).stdout;
    assert!(text.lines().any(|line| line == "xla_tpu_enable_latency_hiding_scheduler"), "{text}");
    assert!(bench.expect(0, &["config", "flags"]).stdout.lines().count() > 1000);
    bench.expect(1, &["config", "flags", "no_such_flag"]);
}

#[test]
fn the_log_is_quiet_unless_asked() {
    let bench = Bench::bare();
    let program = bench.write("sine.mlir", SINE);
    let run =
        |options: &[&str]| bench.expect(0, &[&["run", arg(&program), "--device", "cpu"][..], options].concat()).stderr;
    assert_eq!(run(&[]), "");
    let text = run(&["--log", "debug"]);
    for span in ["trace{", "lower{", "compile{", "transfer{", "execute{"] {
        assert!(text.contains(span), "{span}\n{text}");
    }
    let text = run(&["--set", "log_compiles=true"]);
    assert!(text.contains("tpubridge::compiles") && text.contains("sine") && text.lines().count() == 1, "{text}");
    let text = run(&["--set", "log_device_placement=true"]);
    assert!(text.lines().count() == 2 && text.contains("f32[4]"), "{text}");
    let text = run(&["--log", "debug", "--log-format", "json"]);
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    let mut command = bench.command(&["run", arg(&program), "--device", "cpu"]);
    assert!(ran(command.env("TPUBRIDGE_LOG", "debug").output().unwrap()).stderr.contains("execute{"));
    let refused = bench.expect(2, &["run", arg(&program), "--device", "cpu", "--log", "=="]);
    assert!(refused.stderr.contains("hint: "), "{}", refused.stderr);
}

#[test]
fn what_the_device_cannot_follow_is_told() {
    let bench = Bench::bare();
    let program = bench.write("sine.mlir", SINE);
    let run = |code: i32, options: &[&str]| {
        bench.expect(code, &[&["run", arg(&program), "--device", "cpu"][..], options].concat()).stderr
    };
    let text = run(0, &["--set", "async_collectives=on"]);
    assert!(text.contains("WARN") && text.contains("async_collectives"), "{text}");
    let text = run(2, &["--set", "async_collectives=on", "--set", "strict_validation=true"]);
    assert!(text.contains("async_collectives") && text.contains("hint: "), "{text}");
}

#[test]
fn a_run_is_profiled() {
    let bench = Bench::bare();
    let program = bench.write("sine.mlir", SINE);
    let told = bench.expect(0, &["run", arg(&program), "--device", "cpu", "--set", "profiling=true"]).stderr;
    let path = told.lines().find_map(|line| line.strip_prefix("profile: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(std::fs::metadata(bench.path(path)).unwrap().len() > 0);
    assert!(bench.path(path).starts_with(bench.path("profiles/plugins/profile")), "{path}");
    bench.write("taken", "");
    let told = bench
        .expect(2, &["run", arg(&program), "-d", "cpu", "--set", "profiling=true", "--set", "profile_dir=taken"])
        .stderr;
    assert!(told.contains("taken") && told.contains("hint: "), "{told}");
}

#[test]
fn rematerialization_makes_a_program_fit() {
    let Some(bench) = Bench::with_libtpu("rematerialization_makes_a_program_fit") else { return };
    let budget = "xla_flags=xla_tpu_max_hbm_size_mib=1200";
    for slice in CHIPS {
        let on = total_bytes(&bench, &chain(), slice, &[budget, "rematerialization=on"]);
        assert!(on.is_some_and(|bytes| bytes < 1200 << 20), "{slice}: {on:?}");
        assert_eq!(total_bytes(&bench, &chain(), slice, &[budget, "rematerialization=off"]), None, "{slice}");
    }
    // Where the compiler rematerializes by itself, `off` keeps it from that.
    let near = "xla_flags=xla_tpu_max_hbm_size_mib=1700";
    let by_itself = optimized(&bench, &chain(), "v5e-1", &[near]);
    assert!(by_itself.contains("remat"), "{by_itself}");
    assert!(!optimized(&bench, &chain(), "v5e-1", &[near, "rematerialization=off"]).contains("remat"));
}

#[test]
fn memory_optimization_trades_memory_for_time() {
    let Some(bench) = Bench::with_libtpu("memory_optimization_trades_memory_for_time") else { return };
    let budget = "xla_flags=xla_tpu_max_hbm_size_mib=2400";
    for slice in CHIPS {
        let total = |level: &str| {
            total_bytes(&bench, &chain(), slice, &[budget, &format!("memory_optimization={level}")]).unwrap()
        };
        assert!(total("aggressive") * 4 < total("normal") * 3, "{slice}");
    }
    // Without effort on memory nothing is rematerialized.
    let near = "xla_flags=xla_tpu_max_hbm_size_mib=1700";
    assert!(!optimized(&bench, &chain(), "v5e-1", &[near, "memory_optimization=none"]).contains("remat"));
}

#[test]
fn async_collectives_start_and_end() {
    let Some(bench) = Bench::with_libtpu("async_collectives_start_and_end") else { return };
    for slice in SLICES {
        let reshard = |wish: &str| optimized(&bench, RESHARD, slice, &[&format!("async_collectives={wish}")]);
        assert!(reshard("on").contains("all-to-all-start("), "{slice}");
        assert!(reshard("off").contains("all-to-all("), "{slice}");
        let feed = |wish: &str| optimized(&bench, FEED_FORWARD, slice, &[&format!("async_collectives={wish}")]);
        assert!(feed("on").contains("collective-permute-start("), "{slice}");
        let off = feed("off");
        assert!(off.contains("collective-permute(") && !off.contains("collective-permute-start("), "{slice}");
    }
}

#[test]
fn latency_hiding_changes_the_schedule() {
    let Some(bench) = Bench::with_libtpu("latency_hiding_changes_the_schedule") else { return };
    for slice in SLICES {
        let schedule = |wish: &str| optimized(&bench, FEED_FORWARD, slice, &[&format!("latency_hiding={wish}")]);
        assert_eq!(schedule("on"), schedule("auto"), "{slice}");
        assert_ne!(schedule("on"), schedule("off"), "{slice}");
    }
}

#[test]
fn collective_matmul_passes_pieces_around() {
    let Some(bench) = Bench::with_libtpu("collective_matmul_passes_pieces_around") else { return };
    for slice in SLICES {
        let permutes = |wish: &str| {
            let text = optimized(&bench, FEED_FORWARD, slice, &[&format!("collective_matmul={wish}")]);
            (text.matches(" all-gather(").count(), text.matches("collective-permute-start(").count())
        };
        let (on, off) = (permutes("on"), permutes("off"));
        assert!(on.0 == 0 && on.1 > 5, "{slice}: {on:?}");
        assert!(off.0 > 0 && off.1 <= 1, "{slice}: {off:?}");
    }
}

#[test]
fn every_generation_takes_every_switch() {
    let Some(bench) = Bench::with_libtpu("every_generation_takes_every_switch") else { return };
    for slice in ["v2-8", "v3-8", "v4-8", "v5e-4", "v5p-8", "v6e-4", "tpu7x-4"] {
        let with = |wish: &str, memory: &str| {
            let switches = ["rematerialization", "async_collectives", "latency_hiding", "collective_matmul"];
            let set: Vec<String> = switches.iter().map(|switch| format!("{switch}={wish}")).collect();
            let memory = format!("memory_optimization={memory}");
            let set: Vec<&str> = set.iter().map(String::as_str).chain([memory.as_str()]).collect();
            optimized(&bench, RESHARD, slice, &set)
        };
        assert_ne!(with("on", "aggressive"), with("off", "none"), "{slice}");
    }
}

#[test]
fn megacore_is_refused_where_there_is_no_choice() {
    let Some(bench) = Bench::with_libtpu("megacore_is_refused_where_there_is_no_choice") else { return };
    let program = bench.write("sine.mlir", SINE);
    let compile = |code: i32, slice: &str, wish: &str| {
        let wish = format!("megacore={wish}");
        bench.expect(code, &["compile", arg(&program), "--slice", slice, "--quick", "--set", &wish]).stderr
    };
    assert!(compile(2, "v5e-1", "on").contains("has one core"));
    assert!(compile(2, "v6e-1", "on").contains("has one core"));
    assert!(compile(2, "v4-8", "off").contains("built with the two cores"));
    compile(0, "v4-8", "on");
    compile(0, "v5p-8", "on");
    compile(0, "v6e-1", "off");
}

#[test]
fn effort_flags_and_slice_come_from_the_configuration() {
    let Some(bench) = Bench::with_libtpu("effort_flags_and_slice_come_from_the_configuration") else { return };
    let program = bench.write("matmul.mlir", crate::harness::MATMUL);
    let default = optimized(&bench, FEED_FORWARD, "v5e-4", &[]);
    for setting in ["xla_optimization_level=0", "xla_flags=xla_tpu_scoped_vmem_limit_kib=65536"] {
        assert_ne!(default, optimized(&bench, FEED_FORWARD, "v5e-4", &[setting]), "{setting}");
    }
    let report = |set: &[&str]| {
        let mut args = vec!["compile", arg(&program), "--slice", "v5e-1", "--quick"];
        set.iter().for_each(|setting| args.extend(["--set", setting]));
        bench.json(&args)
    };
    assert_eq!(report(&[])["cached"], false);
    assert_eq!(report(&[])["cached"], true);
    assert_eq!(report(&["enable_cache=false"])["cached"], false);
    // No slice on the command line.
    let mut command = bench.command(&["compile", arg(&program), "--quick", "--json"]);
    let found = ran(command.env("TPUBRIDGE_SLICE", "v6e-4").output().unwrap());
    assert!(found.stdout.contains("\"slice\": \"v6e-4\""), "{}{}", found.stdout, found.stderr);
    let none = bench.expect(2, &["compile", arg(&program), "--quick"]).stderr;
    assert!(none.contains("`slice` is not set") && none.contains("TPUBRIDGE_SLICE"), "{none}");
    let args =
        ["compile", arg(&program), "--slice", "v5e-1", "--no-cache", "--set", "compilation_timeout_seconds=0.01"];
    assert!(bench.expect(2, &args).stderr.contains("did not finish within 0.01 s"));
}

#[test]
fn memory_of_chips_bounds_what_fits() {
    let Some(bench) = Bench::with_libtpu("memory_of_chips_bounds_what_fits") else { return };
    for (slice, name, small, large) in [("v6e-1", "v6e_memory_gb", "2", "16"), ("tpu7x-2", "v7_memory_gb", "4", "64")] {
        let total =
            |gib: &str| total_bytes(&bench, &chain(), slice, &[&format!("{name}={gib}"), "rematerialization=off"]);
        assert_eq!(total(small), None, "{slice}");
        assert!(total(large).is_some(), "{slice}");
    }
}

#[test]
fn quickstart_takes_the_slice_of_the_configuration() {
    let Some(bench) = Bench::with_libtpu("quickstart_takes_the_slice_of_the_configuration") else { return };
    let mut command = bench.command(&["quickstart", "--device", "cpu", "--json"]);
    let found = ran(command.env("TPUBRIDGE_SLICE", "v6e-4").output().unwrap());
    assert!(found.stdout.contains("\"name\": \"v6e-4\""), "{}{}", found.stdout, found.stderr);
}
