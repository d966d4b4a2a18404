//! `tpu check`: what passes, fails and is skipped, for which reason, and with which exit code.

use std::path::{Path, PathBuf};

use testkit::{Needed, repository, require};

use crate::harness::{Bench, arg};

/// A program whose one case, `name`, checks that the constant 1 equals `expected`.
fn program(name: &str, expected: i32) -> String {
    format!(
        "func.func @{name}() {{
  %0 = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %0, dense<{expected}> : tensor<i32>
  return
}}
"
    )
}

const ENDLESS: &str = "func.func @endless() {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.while(%x = %0) : tensor<i32>
  cond {
    %true = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %true : tensor<i1>
  } do {
    %2 = stablehlo.add %x, %x : tensor<i32>
    stablehlo.return %2 : tensor<i32>
  }
  check.expect_eq_const %1, dense<1> : tensor<i32>
  return
}
";

const SPLIT: &str = "// -----\n";

const MODES: [&str; 2] = ["compiled", "interpreter"];

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[test]
fn programs_that_pass_are_counted() {
    let bench = Bench::bare();
    let file = bench.write("two.mlir", [program("a", 1), SPLIT.into(), program("b", 1)].concat());
    let ran = bench.expect(0, &["check", arg(&file)]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("2 passed, 0 failed, 0 skipped\n", ""));
    assert_eq!(bench.json(&["check", arg(&file)])["mode"], "compiled");
    let record = bench.json(&["check", arg(&file), "--mode", "interpreter"]);
    assert_eq!((&record["mode"], &record["device"]), (&"interpreter".into(), &"cpu".into()));
    let custom_call = "func.func public @main() -> tensor<f32> {
  %0 = call @expected() : () -> tensor<f32>
  stablehlo.custom_call @check.expect_close(%0, %0) {has_side_effect = true} : (tensor<f32>, tensor<f32>) -> ()
  return %0 : tensor<f32>
}
func.func private @expected() -> tensor<f32> {
  %0 = stablehlo.constant dense<2.5> : tensor<f32>
  return %0 : tensor<f32>
}
";
    let text = bench.write("main.mlir", custom_call);
    let bytecode = bench.path("main.mlir.bc");
    bench.expect(0, &["hlo", arg(&text), "--out", arg(&bytecode)]);
    assert_eq!(bench.expect(0, &["check", arg(&bytecode)]).stdout, "1 passed, 0 failed, 0 skipped\n");
    let folder = bench.path("");
    assert_eq!(bench.expect(0, &["check", arg(&folder)]).stdout, "4 passed, 0 failed, 0 skipped\n");
}

#[test]
fn processes_run_beside_each_other() {
    let bench = Bench::bare();
    let file = bench.write(
        "parallel.mlir",
        r#"func.func @sum(%x: tensor<2xi64>) -> tensor<2xi64> {
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %1 = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %1 : tensor<i64>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}
func.func @main() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %1 = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
  %2:2 = "interpreter.run_parallel"(%0, %1) {programs = [[@sum], [@sum]]}
      : (tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)
  check.expect_eq_const %2#0, dense<[4, 6]> : tensor<2xi64>
  check.expect_eq_const %2#1, dense<[4, 6]> : tensor<2xi64>
  return
}
"#,
    );
    assert_eq!(bench.expect(0, &["check", arg(&file)]).stdout, "1 passed, 0 failed, 0 skipped\n");
}

#[test]
fn each_failure_has_its_place_and_reason() {
    let bench = Bench::bare();
    let parts = [&program("right", 1), &program("wrong", 2), "func.func @unread( {\n", &program("after", 1)];
    let file = bench.write("mixed.mlir", parts.join(SPLIT));
    let ran = bench.expect(1, &["check", arg(&file)]);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.contains(&format!("FAILED {}::wrong\n  check failed: ", file.display())), "{}", ran.stdout);
    assert!(ran.stdout.contains("::program-3\n  line 13, column "), "{}", ran.stdout);
    assert_eq!(last_line(&ran.stdout), "2 passed, 2 failed, 0 skipped");
    let invalid =
        program("invalid", 1).replace("return\n", "%1 = stablehlo.not %0 : (tensor<i32>) -> tensor<i64>\n  return\n");
    let file = bench.write("invalid.mlir", invalid);
    let ran = bench.expect(1, &["check", arg(&file)]);
    assert!(ran.stdout.contains("::invalid\n  the program breaks"), "{}", ran.stdout);
    let ran = bench.expect(1, &["check", arg(&bench.path("")), "--fail-fast", "--jobs", "1"]);
    assert_eq!(last_line(&ran.stdout), "0 passed, 1 failed, 0 skipped");
}

#[test]
fn an_endless_program_ends_at_its_limit_and_the_others_go_on() {
    let bench = Bench::bare();
    let file = bench.write("endless.mlir", [ENDLESS, SPLIT, &program("after", 1)].concat());
    for mode in MODES {
        let ran = bench.expect(1, &["check", arg(&file), "--mode", mode, "--timeout", "0.5", "--jobs", "1"]);
        assert!(ran.stdout.contains("::endless\n  took longer than 0.5 s\n"), "{mode}: {}", ran.stdout);
        assert_eq!(last_line(&ran.stdout), "1 passed, 1 failed, 0 skipped");
    }
}

#[test]
fn what_is_not_run_says_why() {
    let bench = Bench::bare();
    let parts = [
        &program("runs", 1),
        "func.func @silent() { return }\n",
        "func.func @needs(%x: tensor<i32>) { return }\n",
        "// nothing but a comment\n",
    ];
    bench.write("a.mlir", parts.join(SPLIT));
    bench.write("b.mlir", format!("// RUN-DISABLED(inaccurate) translate --interpret %s\n{}", program("off", 1)));
    let folder = bench.path("");
    let ran = bench.expect(0, &["check", arg(&folder)]);
    let expected = "skipped:
  1  RUN-DISABLED: inaccurate
  1  checks nothing
  1  no function without arguments, so nothing checks itself
1 passed, 0 failed, 3 skipped
";
    assert_eq!(ran.stdout, expected);
    let ran = bench.expect(0, &["check", arg(&folder), "--include-disabled"]);
    assert_eq!(last_line(&ran.stdout), "2 passed, 0 failed, 2 skipped");
}

#[test]
fn expected_failures_are_skipped_until_they_pass() {
    let bench = Bench::bare();
    let file = bench.write("p.mlir", [program("right", 1), SPLIT.into(), program("wrong", 2)].concat());
    let run = |list: &str, code| {
        let list = bench.write("list.txt", list);
        bench.expect(code, &["check", arg(&file), "--expected-failures", arg(&list)])
    };
    let ran = run("# a list\np.mlir::wrong  one is not two\n", 0);
    assert_eq!(ran.stdout, "skipped:\n  1  expected failure: one is not two\n1 passed, 0 failed, 1 skipped\n");
    let ran = run("p.mlir  all of it\n", 1);
    assert!(ran.stdout.contains("::right\n  passes, so it must leave the list"), "{}", ran.stdout);
    assert_eq!(last_line(&ran.stdout), "0 passed, 1 failed, 1 skipped");
    let ran = run("p.mlir::wrong  x\nother.mlir::gone  y\n", 0);
    assert!(ran.stderr.starts_with("note: ") && ran.stderr.contains("other.mlir::gone"), "{}", ran.stderr);
    assert!(run("p.mlir::wrong\n", 2).stderr.contains("line 1: `p.mlir::wrong` has no reason"));
    let ran = run("[interpreter] p.mlir::wrong  x\n", 1);
    assert_eq!((last_line(&ran.stdout), ran.stderr.as_str()), ("1 passed, 1 failed, 0 skipped", ""));
    assert_eq!(last_line(&run("[compiled] p.mlir::wrong  x\n", 0).stdout), "1 passed, 0 failed, 1 skipped");
}

#[test]
fn cases_can_be_chosen_and_told_to_programs() {
    let bench = Bench::bare();
    let file = bench.write("p.mlir", [program("first", 1), SPLIT.into(), program("second", 2)].concat());
    let record = bench.json(&["check", arg(&file), "--filter", "p.mlir::first"]);
    assert_eq!((&record["version"], &record["passed"], &record["failed"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(record["cases"][0]["function"], "first");
    let ran = bench.expect(1, &["check", arg(&file), "--json"]);
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(record["cases"][1]["outcome"], "failed");
    assert!(
        bench.expect(2, &["check", arg(&file), "--filter", "third"]).stderr.contains("no case of 2 contains `third`")
    );
}

#[test]
fn nothing_to_run_is_an_error() {
    let bench = Bench::bare();
    assert!(bench.expect(2, &["check", "nowhere"]).stderr.contains("hint: check the path"));
    let empty = bench.path("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(bench.expect(2, &["check", arg(&empty)]).stderr.contains("no programs found"));
    let file = bench.write("p.mlir", program("a", 1));
    for timeout in ["0", "-1", "nan", "1e30"] {
        assert!(bench.expect(2, &["check", arg(&file), "--timeout", timeout]).stderr.contains("timeout"), "{timeout}");
    }
    bench.expect(2, &["check"]);
}

/// The CPU device as a plugin: the library that cargo makes of it beside this test's command.
fn cpu_plugin() -> PathBuf {
    let plugin = Path::new(env!("CARGO_BIN_EXE_tpu")).with_file_name("deps").join("libcpu_plugin.so");
    assert!(plugin.exists(), "{} is missing", plugin.display());
    plugin
}

/// Cases for a plugin: one right, one wrong, one that only the interpreter can run, one without checks.
fn for_plugins(bench: &Bench) -> PathBuf {
    let calls = "func.func @called() -> tensor<2xf32> {
  %0 = call @two() : () -> tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  interpreter.print %1 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[4.0, 5.0]> : tensor<2xf32>
  stablehlo.custom_call @check.expect_close(%1, %1) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return %1 : tensor<2xf32>
}
func.func private @two() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[2.0, 2.5]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
";
    let probe = "func.func @probed() {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  %1 = interpreter.probe %0, probe_id = \"p\" : tensor<i32>
  check.expect_eq_const %1, dense<1> : tensor<i32>
  return
}
";
    let parts = [calls, &program("wrong", 2), probe, "func.func @silent() { return }\n"];
    bench.write("plugin.mlir", parts.join(SPLIT))
}

#[track_caller]
fn check_plugin(bench: &Bench, plugin: &Path) {
    let file = for_plugins(bench);
    let ran = bench.expect(1, &["check", arg(&file), "--plugin", arg(plugin), "--json"]);
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(record["mode"], "plugin");
    assert!(record["device"].as_str().is_some_and(|device| device.contains(": cpu")), "{}", record["device"]);
    let cases = record["cases"].as_array().unwrap();
    let outcomes: Vec<_> = cases.iter().map(|case| case["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["passed", "failed", "skipped", "skipped"], "{record}");
    let reason = |n: usize| cases[n]["reason"].as_str().unwrap_or_default();
    assert_eq!(reason(1), "check failed: at [] expected 2, got 1");
    assert_eq!(reason(2), "not for plugins: it records values while it runs");
}

#[test]
fn plugins_compute_what_is_checked_here() {
    let bench = Bench::bare();
    check_plugin(&bench, &cpu_plugin());
    let file = bench.write("endless.mlir", [ENDLESS, SPLIT, &program("after", 1)].concat());
    let ran = bench.expect(1, &["check", arg(&file), "--plugin", arg(&cpu_plugin()), "--timeout", "3"]);
    assert!(ran.stdout.contains("::endless\n  took longer than 3 s\n"), "{}", ran.stdout);
    assert_eq!(last_line(&ran.stdout), "1 passed, 1 failed, 0 skipped");
}

#[test]
fn a_plugin_of_others_computes_what_is_checked_here() {
    let test = "a_plugin_of_others_computes_what_is_checked_here";
    if let Some(plugin) = require(test, Needed::XlaCpu) {
        check_plugin(&Bench::bare(), &plugin);
    }
}

#[test]
fn what_is_no_plugin_is_an_error() {
    let bench = Bench::bare();
    let file = bench.write("p.mlir", program("a", 1));
    for (plugin, expected) in [("nothing", "nothing is not a plugin"), (arg(&file), "p.mlir is not a plugin")] {
        let ran = bench.expect(2, &["check", arg(&file), "--plugin", plugin]);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: --plugin takes"), "{}", ran.stderr);
    }
    // A library, but not of a plugin.
    let library = bench.path("library.so");
    std::fs::copy(env!("CARGO_BIN_EXE_tpu"), &library).unwrap();
    let ran = bench.expect(2, &["check", arg(&file), "--plugin", arg(&library)]);
    assert!(ran.stderr.contains("library.so cannot be used: "), "{}", ran.stderr);
    bench.expect(2, &["check", arg(&file), "--plugin", arg(&library), "--mode", "compiled"]);
}

/// StableHLO's own suites: everything gives the expected result, or is listed with the reason.
#[test]
fn conformance_programs_give_the_expected_results() {
    let Some(suite) = require("conformance_programs_give_the_expected_results", Needed::Conformance) else { return };
    let list = repository().join("crates/cpu/conformance/expected-failures.txt");
    let bench = Bench::bare();
    let (interpret, testdata) = (suite.join("interpret"), suite.join("testdata"));
    for mode in MODES {
        let options = ["--mode", mode, "--include-disabled", "--expected-failures", arg(&list)];
        let record = bench.json(&[&["check", arg(&interpret), arg(&testdata)][..], &options].concat());
        assert_eq!(record["mode"], mode);
        assert_eq!(record["unmatched_expected_failures"], serde_json::json!([]), "{mode}: these cases are gone");
        let cases = record["cases"].as_array().unwrap();
        let expected =
            |case: &&serde_json::Value| case["reason"].as_str().is_some_and(|r| r.starts_with("expected failure"));
        let listed = cases.iter().filter(expected).count();
        assert!(cases.len() > 2000, "only {} cases", cases.len());
        assert!(
            listed * 50 < cases.len(),
            "{mode}: {listed} of {} cases are expected to fail: 2 % or more",
            cases.len()
        );
    }
}

/// A suite that passes whatever the results are would prove nothing: with recorded results altered, every program fails.
#[test]
fn conformance_programs_notice_altered_expectations() {
    let Some(suite) = require("conformance_programs_notice_altered_expectations", Needed::Conformance) else { return };
    let bench = Bench::bare();
    let altered = bench.path("altered");
    std::fs::create_dir(&altered).unwrap();
    let mut written = 0;
    for path in testkit::golden_files(&suite.join("testdata"), ".mlir") {
        let text = std::fs::read_to_string(&path).unwrap();
        if let Some(text) = with_altered_expectation(&text) {
            std::fs::write(altered.join(path.file_name().unwrap()), text).unwrap();
            written += 1;
        }
    }
    assert!(written > 600, "only {written} programs");
    for mode in MODES {
        let ran = bench.expect(1, &["check", arg(&altered), "--mode", mode, "--include-disabled", "--json"]);
        let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        for case in record["cases"].as_array().unwrap() {
            let reason = case["reason"].as_str().unwrap_or_default();
            assert!(case["outcome"] == "failed" && reason.starts_with("check failed"), "{mode}: {case}");
        }
    }
}

/// The program with every byte of the constants in `@expected` changed; `None` if they are not written in hexadecimal.
fn with_altered_expectation(text: &str) -> Option<String> {
    let start = text.find("func.func private @expected()")?;
    let end = start + text[start..].find("\n  }\n")?;
    let mut pieces = text[start..end].split("\"0x");
    let mut changed = pieces.next()?.to_string();
    let mut constants = 0;
    for piece in pieces {
        let (digits, rest) = piece.split_once('"')?;
        let flip = |c: char| c.to_digit(16).and_then(|d| char::from_digit(d ^ 5, 16)).unwrap_or(c);
        changed.push_str(&format!("\"0x{}\"{rest}", digits.chars().map(flip).collect::<String>()));
        constants += 1;
    }
    (constants > 0).then(|| format!("{}{changed}{}", &text[..start], &text[end..]))
}
