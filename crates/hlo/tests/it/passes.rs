//! Passes: what each rule makes of a program, that it has no more to do afterwards, and that corpora stay valid.

use std::fs;
use std::path::{Path, PathBuf};

use hlo::passes::{Exactness, Options, Partitioned, canonicalize, canonicalize_counted};
use hlo::{Dense, DenseData, Op, OpKind, TensorType, Verified};
use testkit::{Golden, Needed, golden_files, require};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/passes")
}

fn parse(path: &Path) -> Verified {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut module = hlo::text::parse_bytes(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    module.strip_locations();
    hlo::verify(module).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Sums and products of 32-bit integers, and counting: enough to see which ops are folded.
fn integers(op: &Op, operands: &[&Dense], result: &TensorType) -> Option<Dense> {
    let count = usize::try_from(result.num_elements()?).ok()?;
    let values: Vec<Vec<i64>> = operands.iter().map(|dense| dense.to_i64s(count)).collect::<Option<_>>()?;
    let combine: fn(i64, i64) -> i64 = match op.kind()? {
        OpKind::Iota => {
            return Dense::from_elements(result.clone(), (0..count as i32).flat_map(i32::to_le_bytes).collect());
        }
        OpKind::Add => |a, b| a + b,
        OpKind::Multiply => |a, b| a * b,
        _ => return None,
    };
    let bytes = values[0].iter().zip(&values[1]).flat_map(|(&a, &b)| (combine(a, b) as i32).to_le_bytes()).collect();
    Dense::from_elements(result.clone(), bytes)
}

#[test]
fn each_rule_does_what_its_file_says() {
    for path in golden_files(&data(), ".mlir") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let first = fs::read_to_string(&path).unwrap().lines().next().unwrap_or_default().to_string();
        let options = Options {
            exactness: if first.contains("approximate") { Exactness::Approximate } else { Exactness::Bitwise },
            partitioned: if first.contains("partitioned") { Partitioned::Yes } else { Partitioned::No },
            keep_composites: &["chlo.top_k"],
            evaluate: Some(&integers),
            ..Options::default()
        };
        let (module, statistics) =
            canonicalize_counted(parse(&path), &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(statistics.total() > 0, "{name}: nothing was done");
        if statistics.iter().all(|(rule, _)| !name.starts_with(rule)) {
            panic!("{name}: its rule was not applied, but {statistics:?}");
        }
        Golden::new(path.with_extension("after")).check(&hlo::text::print(&module));
        let again = canonicalize(module.clone(), &options).unwrap();
        assert_eq!(hlo::text::print(&again), hlo::text::print(&module), "{name}: a second run finds more to do");
    }
}

#[test]
fn corpora_stay_valid() {
    let Some(corpus) = require("corpora_stay_valid", Needed::Corpus) else { return };
    for path in golden_files(&corpus, ".mlir") {
        let module = parse(&path);
        for options in [
            Options::default(),
            Options { exactness: Exactness::Approximate, evaluate: Some(&integers), ..Options::default() },
            Options {
                partitioned: Partitioned::Yes,
                keep_composites: &["chlo.top_k", "chlo.erf"],
                ..Options::default()
            },
        ] {
            let after = canonicalize(module.clone(), &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let after = hlo::verify(after.into_inner()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let again = canonicalize(after.clone(), &options).unwrap();
            assert_eq!(hlo::text::print(&again), hlo::text::print(&after), "{}", path.display());
            assert!(
                ops(&after) <= 4 * ops(&module) + 64,
                "{}: {} ops became {}",
                path.display(),
                ops(&module),
                ops(&after)
            );
        }
    }
}

fn ops(module: &Verified) -> usize {
    module.funcs.iter().map(|func| func.ops.len()).sum()
}

/// A repeated element is never written out, whatever is done to it.
#[test]
fn repeated_elements_stay_one() {
    let text = "func.func @main() -> tensor<1000x1000xi32> {
        %0 = stablehlo.constant dense<2> : tensor<1000000xi32>
        %1 = stablehlo.reshape %0 : (tensor<1000000xi32>) -> tensor<1000x1000xi32>
        %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<1000x1000xi32>) -> tensor<1000x1000xi32>
        %3 = stablehlo.add %2, %1 : tensor<1000x1000xi32>
        return %3 : tensor<1000x1000xi32>
    }";
    let scalar = |op: &Op, operands: &[&Dense], result: &TensorType| {
        assert!(operands.iter().all(|dense| dense.ty.dims.is_empty()));
        integers(op, operands, result)
    };
    let options = Options { evaluate: Some(&scalar), ..Options::default() };
    let module = canonicalize(hlo::verify(hlo::text::parse(text).unwrap()).unwrap(), &options).unwrap();
    let [constant, _] = &module.funcs[0].ops[..] else { panic!("{}", hlo::text::print(&module)) };
    let Some(hlo::Attr::Dense(dense)) = constant.attr("value") else { panic!("no constant") };
    assert_eq!(dense.data, DenseData::Splat(4i32.to_le_bytes().into()));
}

/// Functions that call the next one twice would be copied 2^30 times.
#[test]
fn inlining_is_bounded() {
    let mut text = String::from("func.func private @f30(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }\n");
    for n in 0..30 {
        let (visibility, next) = (if n == 0 { "public" } else { "private" }, n + 1);
        text += &format!(
            "func.func {visibility} @f{n}(%a: tensor<f32>) -> tensor<f32> {{
                %0 = call @f{next}(%a) : (tensor<f32>) -> tensor<f32>
                %1 = call @f{next}(%0) : (tensor<f32>) -> tensor<f32>
                %2 = stablehlo.tanh %1 : tensor<f32>
                return %2 : tensor<f32>
            }}\n"
        );
    }
    let options = Options { max_ops: 5_000, ..Options::default() };
    let module = canonicalize(hlo::verify(hlo::text::parse(&text).unwrap()).unwrap(), &options).unwrap();
    assert!(ops(&module) <= 5_000, "{} ops", ops(&module));
    assert!(module.func("f0").unwrap().ops.iter().any(|op| op.kind() == Some(OpKind::FuncCall)));
}

/// Regions nested deeper than a text may be are walked without running out of stack, and no deeper than the verifier
/// allows.
#[test]
fn deep_regions_are_walked() {
    let func = |name: &str, innermost: &str| {
        let mut body = format!("%r = {innermost} stablehlo.return %r : tensor<f32>");
        for n in 0..150 {
            body = format!(
                "%r{n} = \"stablehlo.if\"(%p) ({{ {body} }}, {{ stablehlo.return %a : tensor<f32> }}) : (tensor<i1>) -> tensor<f32>
                stablehlo.return %r{n} : tensor<f32>"
            );
        }
        format!("func.func private @{name}(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {{ {body} }}\n")
    };
    let call = |name: &str| format!("func.call @{name}(%p, %a) : (tensor<i1>, tensor<f32>) -> tensor<f32>");
    let text = format!(
        "func.func public @main(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {{ %0 = {} return %0 : tensor<f32> }}\n",
        call("first")
    ) + &func("first", &call("second"))
        + &func("second", &call("third"))
        + &func("third", &call("fourth"))
        + &func("fourth", "stablehlo.tanh %a : tensor<f32>");
    let module = canonicalize(hlo::verify(hlo::text::parse(&text).unwrap()).unwrap(), &Options::default()).unwrap();
    let names: Vec<&str> = module.funcs.iter().map(|func| &*func.name).collect();
    assert_eq!(names, ["main", "third"]);
}
