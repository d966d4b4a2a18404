//! Programs with symbolic sizes: what they become for given sizes, and what is refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use hlo::passes::specialize;
use hlo::{Error, Type, Verified};
use tensor::DType;
use testkit::{Golden, golden_files};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/specialize")
}

fn parse(text: &str) -> Verified {
    hlo::verify(hlo::text::parse(text).unwrap()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The argument types that the first line of a file asks for, as in `// b=3: f32[2*b,4] i32[]`.
fn arguments(first: &str) -> Vec<Type> {
    let (sizes, specs) = first.trim_start_matches("// ").split_once(": ").unwrap();
    let sizes: HashMap<&str, i64> =
        sizes.split(' ').map(|pair| pair.split_once('=').unwrap()).map(|(n, v)| (n, v.parse().unwrap())).collect();
    let factor = |text: &str| text.parse().unwrap_or_else(|_| sizes[text]);
    let argument = |spec: &str| {
        let (dtype, dims) = spec.trim_end_matches(']').split_once('[').unwrap();
        let dims = dims.split(',').filter(|dim| !dim.is_empty());
        let dims: Vec<i64> = dims.map(|dim| dim.split('*').map(factor).product()).collect();
        Type::tensor(dims, if dtype == "f32" { DType::F32 } else { DType::I32 })
    };
    specs.split(' ').map(argument).collect()
}

#[test]
fn exported_programs_become_static() {
    let files = golden_files(&data(), ".mlir");
    assert!(files.len() > 15);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let types = arguments(text.lines().next().unwrap());
        let module = specialize(&parse(&text), &types, None).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let printed = hlo::text::print(&module);
        assert!(!printed.contains('?') && !printed.contains("dynamic_reshape"), "{}: {printed}", path.display());
        Golden::new(path.with_extension("after")).check(&printed);
        // What is static already stays as it is.
        let again = specialize(&module, &types, None).unwrap();
        assert_eq!(hlo::text::print(&again), printed, "{}", path.display());
    }
}

fn refusal(text: &str, types: &[Type]) -> String {
    match specialize(&parse(text), types, None) {
        Err(Error::Specialize(findings)) => findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        other => panic!("{other:?}"),
    }
}

const ROWS: &str = "func.func @main(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = stablehlo.add %a, %b : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
}";

#[test]
fn arguments_must_fit() {
    let rows = |n: i64| Type::tensor([n, 4], DType::F32);
    assert!(refusal(ROWS, &[rows(2)]).contains("it takes 2 arguments, 1 types were given"));
    for (wrong, message) in [
        (Type::tensor([2, 5], DType::F32), "argument 1 is tensor<?x4xf32>, which cannot be tensor<2x5xf32>"),
        (Type::tensor([2, 4], DType::I32), "cannot be tensor<2x4xi32>"),
        (Type::tensor([2], DType::F32), "cannot be tensor<2xf32>"),
        (rows(hlo::DYNAMIC), "cannot be tensor<?x4xf32>"),
    ] {
        let refused = refusal(ROWS, &[rows(2), wrong]);
        assert!(refused.contains(message), "{refused}");
    }
    // Sizes that contradict each other are found by the op that reads both.
    let refused = refusal(ROWS, &[rows(2), rows(3)]);
    assert!(refused.contains("stablehlo.add"), "{refused}");
}

#[test]
fn assertions_are_held() {
    let text = fs::read_to_string(data().join("differences.mlir")).unwrap();
    let rows = |n: i64| [Type::tensor([n, 3], DType::F32)];
    assert!(specialize(&parse(&text), &rows(8), None).is_ok());
    let odd = refusal(&text, &rows(7));
    assert!(odd.contains("Expected 'mod(b, 2)' to be equal to 0, but found 1"), "{odd}");
    let few = refusal(&text, &rows(2));
    assert!(few.contains("Expected 'b - 4' to be greater or equal to 0, but found -2"), "{few}");
}

#[test]
fn sizes_that_depend_on_values_are_named() {
    let text = "func.func @main(%a: tensor<?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
        %0 = stablehlo.dynamic_reshape %a, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
        return %0 : tensor<?xf32>
    }";
    let refused = refusal(text, &[Type::tensor([4], DType::F32), Type::tensor([1], DType::I32)]);
    assert!(refused.contains("stablehlo.dynamic_reshape: its sizes depend on values"), "{refused}");
}

/// Every way to ask for sizes that no array has, or that do not go with the operand.
#[test]
fn impossible_sizes_are_refused() {
    let with = |op: &str| {
        format!(
            "func.func @main(%a: tensor<?x4xf32>) -> tensor<?x?xf32> {{
                %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
                %v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
                %m = stablehlo.negate %v : tensor<1xi32>
                %c = stablehlo.constant dense<4> : tensor<1xi32>
                %z = stablehlo.constant dense<0> : tensor<2xi32>
                %i = stablehlo.constant dense<1> : tensor<2xi32>
                %p = stablehlo.constant dense<0.0> : tensor<f32>
                %s = stablehlo.concatenate %m, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
                %t = stablehlo.concatenate %v, %v, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
                %r = {op}
                return %r : tensor<?x?xf32>
            }}"
        )
    };
    for op in [
        "stablehlo.dynamic_reshape %a, %s : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "stablehlo.dynamic_reshape %a, %t : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>",
        "stablehlo.dynamic_broadcast_in_dim %a, %t, dims = [0, 1] : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "stablehlo.real_dynamic_slice %a, %z, %t, %i : (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>",
        "stablehlo.dynamic_pad %a, %p, %z, %z, %s : (tensor<?x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>",
    ] {
        let refused = specialize(&parse(&with(op)), &[Type::tensor([7, 4], DType::F32)], None);
        assert!(refused.is_err(), "{op}: {}", hlo::text::print(&refused.unwrap()));
    }
}

/// A loop that hands a size on, and one whose array grows.
#[test]
fn loops_keep_their_sizes() {
    let text = |body: &str| {
        format!(
            "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {{
                %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
                %t = stablehlo.constant dense<true> : tensor<i1>
                %r:2 = stablehlo.while(%x = %a, %k = %n) : tensor<?xf32>, tensor<i32>
                cond {{
                    stablehlo.return %t : tensor<i1>
                }} do {{
                    %s = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
                    {body}
                    stablehlo.return %y, %k : tensor<?xf32>, tensor<i32>
                }}
                return %r#0 : tensor<?xf32>
            }}"
        )
    };
    let same = text("%y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>");
    let module = specialize(&parse(&same), &[Type::tensor([5], DType::F32)], None).unwrap();
    assert!(hlo::text::print(&module).contains("stablehlo.iota dim = 0 : tensor<5xf32>"));
    let grows = text("%y = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>");
    let refused = specialize(&parse(&grows), &[Type::tensor([5], DType::F32)], None).unwrap_err().to_string();
    assert!(refused.contains("stablehlo.while"), "{refused}");
}
