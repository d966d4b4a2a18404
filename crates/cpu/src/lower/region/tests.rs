//! Regions recognised and translated, against the interpreter.

use hlo::{Func, OpKind};

use super::*;
use crate::kernels::sort::{Direction, Nans, SortOrder, Ties, Transform};
use crate::kernels::variadic_reduce::Extreme;

/// A function with one op of the kind, whose region is `body`.
fn sort(types: &[&str], body: &str) -> (Func, Region) {
    let arguments: Vec<String> =
        types.iter().enumerate().map(|(n, t)| format!("%x{n}: tensor<{t}>, %y{n}: tensor<{t}>")).collect();
    let operands: Vec<String> = (0..types.len()).map(|n| format!("%o{n}")).collect();
    let parameters: Vec<String> = types.iter().enumerate().map(|(n, t)| format!("%o{n}: tensor<8x{t}>")).collect();
    let tensors: Vec<String> = types.iter().map(|t| format!("tensor<8x{t}>")).collect();
    let tensors = tensors.join(", ");
    let results = if types.len() == 1 { tensors.clone() } else { format!("({tensors})") };
    let text = format!(
        "func.func @main({}) {{
           %outer = stablehlo.constant dense<3.0> : tensor<f32>
           %r:{} = \"stablehlo.sort\"({}) <{{dimension = 0 : i64, is_stable = true}}> ({{
           ^bb0({}):
             {body}
             stablehlo.return %result : tensor<i1>
           }}) : ({tensors}) -> {results}
           return
         }}",
        parameters.join(", "),
        types.len(),
        operands.join(", "),
        arguments.join(", "),
    );
    region_of(&text, OpKind::Sort)
}

fn region_of(text: &str, kind: OpKind) -> (Func, Region) {
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    let func = module.entry().unwrap().clone();
    let op = func.walk().into_iter().find(|&op| func.op(op).kind() == Some(kind)).unwrap();
    let region = func.op(op).regions[0];
    (func, region)
}

fn key(operand: usize, transform: Transform, direction: Direction, nans: Nans) -> crate::kernels::sort::Key {
    crate::kernels::sort::Key { operand, transform, direction, nans }
}

/// The comparator JAX writes for a real key: -0 as 0, NaN as one NaN, then `totalOrder`.
fn canonical(side: &str, n: usize) -> String {
    format!(
        "%zero{side}{n} = stablehlo.constant dense<0.0> : tensor<f32>
         %is_zero{side}{n} = stablehlo.compare EQ, %{side}{n}, %zero{side}{n}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
         %plus{side}{n} = stablehlo.select %is_zero{side}{n}, %zero{side}{n}, %{side}{n} : tensor<i1>, tensor<f32>
         %is_nan{side}{n} = stablehlo.compare NE, %{side}{n}, %{side}{n}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
         %nan{side}{n} = stablehlo.constant dense<0x7FC00000> : tensor<f32>
         %c{side}{n} = stablehlo.select %is_nan{side}{n}, %nan{side}{n}, %plus{side}{n} : tensor<i1>, tensor<f32>\n"
    )
}

#[test]
fn plain_comparisons_are_orders() {
    for (types, body, expected) in [
        ("i32", "LT, %x0, %y0, SIGNED", (Direction::Ascending, Nans::Ordered, Ties::Kept)),
        ("ui8", "GT, %x0, %y0, UNSIGNED", (Direction::Descending, Nans::Ordered, Ties::Kept)),
        ("f32", "LT, %y0, %x0, FLOAT", (Direction::Descending, Nans::Unordered, Ties::Kept)),
        ("f32", "GE, %x0, %y0, TOTALORDER", (Direction::Descending, Nans::Ordered, Ties::Reversed)),
    ] {
        let signature = format!("(tensor<{types}>, tensor<{types}>) -> tensor<i1>");
        let (func, region) = sort(&[types], &format!("%result = stablehlo.compare {body} : {signature}"));
        let (direction, nans, ties) = expected;
        let keys = vec![key(0, Transform::None, direction, nans)];
        assert_eq!(comparator(&func, region), Some(SortOrder { keys, ties }), "{body}");
    }
}

#[test]
fn frameworks_comparators_are_orders() {
    let compare = "(tensor<f32>, tensor<f32>) -> tensor<i1>";
    let body = format!(
        "{}{}%result = stablehlo.compare LT, %cx0, %cy0, TOTALORDER : {compare}",
        canonical("x", 0),
        canonical("y", 0)
    );
    let canonical_key = |operand| key(operand, Transform::Canonical, Direction::Ascending, Nans::Ordered);
    let (func, region) = sort(&["f32", "i32"], &body);
    assert_eq!(comparator(&func, region), Some(SortOrder { keys: vec![canonical_key(0)], ties: Ties::Kept }));
    // Two keys, the second one first in the comparator.
    let chain = format!(
        "{}{}%lt = stablehlo.compare LT, %cx1, %cy1, TOTALORDER : {compare}
         %first = stablehlo.compare LT, %x0, %y0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
         %same = stablehlo.compare EQ, %x0, %y0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
         %rest = stablehlo.and %same, %lt : tensor<i1>
         %result = stablehlo.or %first, %rest : tensor<i1>",
        canonical("x", 1),
        canonical("y", 1)
    );
    let (func, region) = sort(&["i32", "f32", "i32"], &chain);
    let keys = vec![key(0, Transform::None, Direction::Ascending, Nans::Ordered), canonical_key(1)];
    assert_eq!(comparator(&func, region), Some(SortOrder { keys: keys.clone(), ties: Ties::Kept }));
    let select = chain.replace("%rest = stablehlo.and %same, %lt : tensor<i1>", "").replace(
        "stablehlo.or %first, %rest : tensor<i1>",
        "stablehlo.select %same, %lt, %first : tensor<i1>, tensor<i1>",
    );
    let (func, region) = sort(&["i32", "f32", "i32"], &select);
    assert_eq!(comparator(&func, region), Some(SortOrder { keys, ties: Ties::Kept }));
}

#[test]
fn any_function_of_either_side_is_a_key() {
    let bits = |side: &str| {
        format!(
            "%b{side} = stablehlo.bitcast_convert %{side}0 : (tensor<f32>) -> tensor<i32>
             %max{side} = stablehlo.constant dense<2147483647> : tensor<i32>
             %zero{side} = stablehlo.constant dense<0> : tensor<i32>
             %flipped{side} = stablehlo.subtract %max{side}, %b{side} : tensor<i32>
             %low{side} = stablehlo.compare LT, %b{side}, %zero{side}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
             %k{side} = stablehlo.select %low{side}, %flipped{side}, %b{side} : tensor<i1>, tensor<i32>\n"
        )
    };
    let end = "%result = stablehlo.compare LT, %kx, %ky, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>";
    let (func, region) = sort(&["f32"], &format!("{}{}{end}", bits("x"), bits("y")));
    let order = comparator(&func, region).unwrap();
    assert!(matches!(order.keys[..], [crate::kernels::sort::Key { transform: Transform::Program(_), .. }]));
    // Different functions of the two sides are no order.
    let (func, region) = sort(&["f32"], &format!("{}{}{end}", bits("x"), bits("y").replace("2147483647", "7")));
    assert_eq!(comparator(&func, region), None);
    assert!(program(&func, region).is_some());
}

#[test]
fn constants_from_outside_are_folded_in() {
    let body = "%s = stablehlo.subtract %x0, %outer : tensor<f32>
                %result = stablehlo.compare LT, %s, %y0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>";
    let (func, region) = sort(&["f32"], body);
    assert_eq!(comparator(&func, region), None);
    let program = program(&func, region).unwrap();
    let of = |x: f32| u64::from(x.to_bits());
    assert!(program.ask(&mut program.registers(), &[of(4.0), of(1.5)]));
    assert!(!program.ask(&mut program.registers(), &[of(5.0), of(1.5)]));
}

fn reduce(body: &str) -> (Func, Region) {
    let text = format!(
        "func.func @main(%a: tensor<8xf32>, %i: tensor<8xi32>, %x: tensor<f32>, %y: tensor<i32>) {{
           %r:2 = stablehlo.reduce(%a init: %x), (%i init: %y) across dimensions = [0] : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
            reducer(%a0: tensor<f32>, %b0: tensor<f32>) (%a1: tensor<i32>, %b1: tensor<i32>) {{
             {body}
             stablehlo.return %v, %n : tensor<f32>, tensor<i32>
           }}
           return
         }}"
    );
    region_of(&text, OpKind::Reduce)
}

const JAX_ARGMAX: &str = "
    %2 = stablehlo.compare GT, %a0, %b0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.compare NE, %a0, %a0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.or %2, %3 : tensor<i1>
    %5 = stablehlo.compare EQ, %a0, %b0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.compare LT, %a1, %b1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.and %5, %6 : tensor<i1>
    %8 = stablehlo.or %4, %7 : tensor<i1>
    %v = stablehlo.select %4, %a0, %b0 : tensor<i1>, tensor<f32>
    %n = stablehlo.select %8, %a1, %b1 : tensor<i1>, tensor<i32>";

const TORCH_ARGMIN: &str = "
    %2 = stablehlo.compare LE, %a0, %b0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %2, %a0, %b0 : tensor<i1>, tensor<f32>
    %4 = stablehlo.compare EQ, %a0, %b0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.minimum %a1, %b1 : tensor<i32>
    %6 = stablehlo.select %2, %a1, %b1 : tensor<i1>, tensor<i32>
    %n = stablehlo.select %4, %5, %6 : tensor<i1>, tensor<i32>";

#[test]
fn searches_are_recognised() {
    let found = |body: &str| {
        let (func, region) = reduce(body);
        arg_extreme(&func, region).map(|(extreme, _)| extreme)
    };
    assert_eq!(found(JAX_ARGMAX), Some(Extreme::Max));
    assert_eq!(found(TORCH_ARGMIN), Some(Extreme::Min));
    assert_eq!(found(&JAX_ARGMAX.replace("GT, %a0", "LT, %a0")), Some(Extreme::Min));
    // The larger index of equals.
    assert_eq!(found(&JAX_ARGMAX.replace("LT, %a1", "GT, %a1")), None);
    assert_eq!(found(&TORCH_ARGMIN.replace("stablehlo.minimum", "stablehlo.maximum")), None);
}

#[test]
fn folds_are_recognised() {
    let found = |ty: &str, op: &str| {
        let text = format!(
            "func.func @main(%a: tensor<8x{ty}>, %x: tensor<{ty}>) {{
               %r = stablehlo.reduce(%a init: %x) applies stablehlo.{op} across dimensions = [0] : (tensor<8x{ty}>, tensor<{ty}>) -> tensor<{ty}>
               return
             }}"
        );
        let (func, region) = region_of(&text, OpKind::Reduce);
        simple_fold(&func, region)
    };
    assert_eq!(found("f32", "add"), Some(Fold::Sum));
    assert_eq!(found("ui8", "maximum"), Some(Fold::MaxU));
    assert_eq!(found("i1", "add"), Some(Fold::Or));
    assert_eq!(found("i16", "minimum"), Some(Fold::Min));
}

/// Every op the translation knows, on values of every type it knows, gives what the interpreter gives.
#[test]
fn programs_compute_what_the_interpreter_computes() {
    let (reals, integers) =
        ([0.0, -0.0, 1.5, -2.75, 3.0, 100.0, -7.5, 0.3], [0.0, 1.0, -1.0, 7.0, -8.0, 5.0, 3.0, -2.0]);
    let (naturals, booleans) = ([0.0, 1.0, 15.0, 7.0, 8.0, 5.0, 3.0, 14.0], [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    let real_types = ["f32", "f64", "bf16", "f16", "f8E5M2"].map(|ty| (ty, reals));
    let integer_types = ["i4", "i8", "i16", "i32", "i64"].map(|ty| (ty, integers));
    let natural_types = ["ui4", "ui8", "ui32", "ui64"].map(|ty| (ty, naturals));
    let types = [&real_types[..], &integer_types, &natural_types, &[("i1", booleans)]].concat();
    let real_unary = [
        "abs",
        "negate",
        "sign",
        "floor",
        "ceil",
        "round_nearest_even",
        "round_nearest_afz",
        "sqrt",
        "rsqrt",
        "cbrt",
        "exponential",
        "exponential_minus_one",
        "log",
        "log_plus_one",
        "tanh",
        "logistic",
        "sine",
        "cosine",
    ];
    let integer_unary = ["negate", "not", "popcnt", "count_leading_zeros"];
    let real_binary = ["add", "subtract", "multiply", "divide", "remainder", "minimum", "maximum", "power", "atan2"];
    let integer_binary = [
        "add",
        "subtract",
        "multiply",
        "divide",
        "remainder",
        "minimum",
        "maximum",
        "and",
        "or",
        "xor",
        "shift_left",
        "shift_right_logical",
        "shift_right_arithmetic",
    ];
    let mut text = String::new();
    let mut arguments = Vec::new();
    let mut put = |ty: &str, values: &[f64; 8], op: String, result: &str| {
        text += &format!(
            "func.func @f{}(%a: tensor<64x{ty}>, %b: tensor<64x{ty}>) -> tensor<64x{result}> {{
               %r = stablehlo.{op}
               return %r : tensor<64x{result}>
             }}\n",
            arguments.len()
        );
        arguments.push((DType::from_name(ty).unwrap(), *values));
    };
    for (ty, values) in &types {
        let ty = *ty;
        let is_real = ty.contains('f');
        let (unary, binary): (&[&str], &[&str]) = match ty {
            "i1" => (&["not"], &["and", "or", "xor", "add", "multiply", "minimum", "maximum"]),
            _ if is_real => (&real_unary, &real_binary),
            _ => (&integer_unary, &integer_binary),
        };
        let pair = format!("(tensor<64x{ty}>, tensor<64x{ty}>) -> tensor<64xi1>");
        for op in unary {
            put(ty, values, format!("{op} %a : tensor<64x{ty}>"), ty);
        }
        for op in binary {
            put(ty, values, format!("{op} %a, %b : tensor<64x{ty}>"), ty);
        }
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            let kind = match ty {
                _ if is_real => "FLOAT",
                "i1" => "UNSIGNED",
                _ if ty.starts_with('u') => "UNSIGNED",
                _ => "SIGNED",
            };
            put(ty, values, format!("compare {direction}, %a, %b, {kind} : {pair}"), "i1");
            if is_real {
                put(ty, values, format!("compare {direction}, %a, %b, TOTALORDER : {pair}"), "i1");
            }
        }
        for to in ["i1", "i8", "ui8", "i32", "ui32", "i64", "f32", "f64", "bf16", "f16"] {
            put(ty, values, format!("convert %a : (tensor<64x{ty}>) -> tensor<64x{to}>"), to);
        }
        for (from, to) in [("f32", "i32"), ("i64", "f64"), ("bf16", "i16"), ("i8", "ui8"), ("ui32", "f32")] {
            if ty == from {
                put(ty, values, format!("bitcast_convert %a : (tensor<64x{ty}>) -> tensor<64x{to}>"), to);
            }
        }
    }
    let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    let interpreter = crate::interpret::Interpreter::new(&module, Default::default());
    for (func, (source, values)) in module.funcs.iter().zip(arguments) {
        let op = func.op(func.region(func.body.unwrap()).ops[0]);
        let mut insts = Insts::default();
        let loads: Vec<Reg> = (0..op.operands.len() as u32).map(|n| insts.push(Inst::Load(n))).collect();
        let result = emit(func, op, &loads, &mut |inst| insts.push(inst));
        let result = result.unwrap_or_else(|| panic!("{} of {source} is not translated", op.name.as_str()));
        let target = dtype(func, op.first_result).unwrap();
        let types = vec![source; op.operands.len()];
        let program = Program::new(types, insts.list, vec![(target, result)]).unwrap();
        let pairs: Vec<(f64, f64)> = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
        let literal = |side: &dyn Fn(&(f64, f64)) -> f64| {
            let encode = |x: f64| match tensor::encode_float(source, x) {
                Some(bits) => bits,
                None => x as i64 as u64,
            };
            let bytes = pairs.iter().flat_map(|p| encode(side(p)).to_le_bytes()[..source.size_bytes()].to_vec());
            tensor::Literal::new(source, vec![64], bytes.collect()).unwrap()
        };
        let (a, b) = (literal(&|p| p.0), literal(&|p| p.1));
        let inputs = [&a, &b]
            .map(|l| crate::interpret::InterpreterValue::Tensor(crate::interpret::TensorValue::from_literal(l)));
        let expected = interpreter.run(&func.name, inputs.to_vec()).unwrap();
        let expected = expected[0].tensor().unwrap().to_literal().unwrap();
        let element = |literal: &tensor::Literal, n: usize| {
            let width = literal.dtype().size_bytes();
            scalar::decode(literal.dtype(), &literal.bytes()[n * width..][..width])
        };
        let is_nan = |bits: u64| match Lane::of(target) {
            Some(Lane::F32) => f32::from_bits(bits as u32).is_nan(),
            Some(Lane::F64) => f64::from_bits(bits).is_nan(),
            _ => false,
        };
        for (n, pair) in pairs.iter().enumerate() {
            let (mut found, expected) = ([0], element(&expected, n));
            program.eval(&mut program.registers(), &[element(&a, n), element(&b, n)], &mut found);
            let is_same = found[0] == expected || (is_nan(found[0]) && is_nan(expected));
            assert!(is_same, "{:x} is not {expected:x}: {:?} of {source}, {pair:?}", found[0], op.name);
        }
    }
}
