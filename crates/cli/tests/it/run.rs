//! `tpu run`, `tpu quickstart` and `tpu config show` on the built-in CPU device.

use crate::harness::{Bench, arg};

const SQUARE: &str = r#"module @square {
  func.func @main(%x: tensor<4xf32> {tpubridge.name = "x"}) -> (tensor<4xf32> {tpubridge.name = "y"}) {
    %0 = stablehlo.multiply %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"#;

/// 0 / 0 in the second op.
const NOT_A_NUMBER: &str = r#"module @nan {
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.subtract %x, %x : tensor<2xf32>
    %1 = stablehlo.divide %0, %0 : tensor<2xf32>
    %2 = stablehlo.sine %1 : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}"#;

fn bench() -> (Bench, String) {
    let bench = Bench::bare();
    let program = bench.write("square.mlir", SQUARE);
    (bench, arg(&program).to_string())
}

#[test]
fn results_are_saved_and_compared() {
    let (bench, program) = bench();
    let run = ["run", program.as_str(), "--device", "cpu"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    let ran = bench.expect(0, &with(&["--out", "y.npz"]));
    assert!(ran.stdout.contains("f32[4]"), "{}", ran.stdout);
    assert!(ran.stdout.contains("as `cpu` was asked for"), "{}", ran.stdout);
    bench.expect(0, &with(&["--expect", "y.npz"]));
    bench.expect(0, &with(&["--out", "y.safetensors"]));
    bench.expect(0, &with(&["--expect", "y.safetensors"]));
    // Other inputs give other results.
    let differs = bench.expect(1, &with(&["--expect", "y.npz", "--seed", "1"]));
    assert!(differs.stdout.contains("DIFFERS"), "{}", differs.stdout);
    // Results are inputs too: by position, since the names differ.
    bench.expect(0, &with(&["--inputs", "y.npz"]));
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().filter(|e| e.as_ref().unwrap().path().is_file()).count(), 3);
}

#[test]
fn a_program_is_timed() {
    let (bench, program) = bench();
    let record = bench.json(&["run", &program, "--device", "cpu", "--bench", "--seconds", "0.01"]);
    assert!(record["bench"]["runs"].as_u64().unwrap() >= 5, "{record}");
    assert!(record["bench"]["median_seconds"].as_f64().unwrap() > 0.0, "{record}");
    assert_eq!(record["platform"], "cpu");
}

#[test]
fn without_accelerators_auto_says_why_the_cpu_was_taken() {
    let (bench, program) = bench();
    let record = bench.json(&["run", &program]);
    assert!(record["chosen"].as_str().unwrap().contains("no TPU"), "{record}");
}

#[test]
fn every_value_can_be_seen() {
    let (bench, program) = bench();
    let ran = bench.expect(0, &["run", &program, "--device", "cpu", "--steps"]);
    assert!(ran.stdout.starts_with("stablehlo.multiply"), "{}", ran.stdout);
}

#[test]
fn the_op_that_made_a_nan_is_named() {
    let bench = Bench::bare();
    let program = bench.write("nan.mlir", NOT_A_NUMBER);
    let run = ["run", arg(&program), "--device", "cpu"];
    bench.expect(0, &run);
    let ran = bench.expect(2, &[&run[..], &["--set", "debug_nans=true"]].concat());
    assert!(ran.stderr.contains("stablehlo.divide"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("sine"), "{}", ran.stderr);
}

#[test]
fn mistakes_name_the_remedy() {
    let (bench, program) = bench();
    let check = |args: &[&str], expected: &str| {
        let ran = bench.expect(2, &[&["run", program.as_str()], args].concat());
        assert_eq!(ran.stdout, "");
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{args:?}: {}", ran.stderr);
    };
    check(&["--device", "none.so"], "no device for");
    check(&["--device", "tpu"], "there is no TPU in this machine");
    check(&["--device", "toaster"], "does not take `toaster`");
    check(&["--device", "cpu", "--inputs", "none.npz"], "opening none.npz failed");
    check(&["--device", "cpu", "--inputs", "square.mlir"], "no known format");
    check(&["--device", "cpu", "--set", "memory_fraction=2"], "a number above 0");
    check(&["--device", "cpu", "--set", "colour=red"], "there is no option");
    check(&["--device", "cpu", "--set", "num_chips=4"], "slice");
}

#[test]
fn quickstart_needs_nothing() {
    let bench = Bench::bare();
    let record = bench.json(&["quickstart", "--device", "cpu"]);
    let (first, last) = (record["first_loss"].as_f64().unwrap(), record["last_loss"].as_f64().unwrap());
    assert!(last < first / 20.0, "{record}");
    assert!(record["no_slice"].as_str().unwrap().contains("tpu setup"), "{record}");
}

#[test]
fn quickstart_asks_the_tpu_compiler_where_it_is() {
    let Some(bench) = Bench::with_libtpu("quickstart_asks_the_tpu_compiler_where_it_is") else { return };
    let record = bench.json(&["quickstart", "--device", "cpu", "--slice", "v5e-1"]);
    assert_eq!(record["slice"]["fits"], true, "{record}");
}

#[test]
fn the_configuration_says_where_values_come_from() {
    let bench = Bench::bare();
    bench.write("c.toml", "memory_fraction = 0.5\n");
    let record = bench.json(&["config", "show", "--config", "c.toml", "--set", "precision=f32"]);
    let option = |name: &str| {
        let options = record["options"].as_array().unwrap();
        options.iter().find(|option| option["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(
        (option("memory_fraction")["value"].as_str(), option("memory_fraction")["source"].as_str()),
        (Some("0.5"), Some("c.toml"))
    );
    assert_eq!(option("precision")["source"], "command line");
    assert_eq!(option("enable_cache")["source"], "default");
}
