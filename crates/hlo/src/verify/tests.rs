//! What only a hand-made module can get wrong, and limits that protect compilers.

use super::*;
use crate::build::FuncBuilder;
use crate::ir::{Attr, Attrs, NewOp, OpKind, OpName, Type, Value, Visibility};
use tensor::DType;

fn vector() -> Type {
    Type::tensor([4], DType::F32)
}

fn identity(name: &str) -> Func {
    let mut f = FuncBuilder::new(name);
    let x = f.arg(vector());
    f.finish(&[x])
}

fn messages(funcs: Vec<Func>) -> Vec<String> {
    findings(&Module { funcs, ..Module::default() }).iter().map(ToString::to_string).collect()
}

#[test]
fn a_name_is_taken_once() {
    assert_eq!(messages(vec![identity("f"), identity("f")]), ["@f: func.func: @f is defined twice"]);
}

#[test]
fn ids_out_of_range_are_found_not_followed() {
    let mut func = identity("f");
    func.ops[0].operands = vec![Value(99)];
    assert_eq!(messages(vec![func]), ["@f: func.func: func.return reads value 99, which does not exist"]);
    let mut func = identity("f");
    func.regions[0].ops.push(crate::ir::OpId(0));
    assert_eq!(messages(vec![func]), ["@f: func.func: op 0 does not exist or is in two places"]);
    let mut func = identity("f");
    func.ops[0].num_results = u32::MAX;
    assert_eq!(messages(vec![func]), ["@f: func.func: func.return has results that do not exist"]);
}

#[test]
fn a_value_is_defined_before_it_is_read() {
    let mut f = FuncBuilder::new("f");
    let x = f.arg(vector());
    let y = f.op(OpKind::Tanh, &[x], Attrs::new()).unwrap();
    let z = f.op(OpKind::Sine, &[y], Attrs::new()).unwrap();
    let mut func = f.finish(&[z]);
    func.regions[0].ops.swap(0, 1);
    let found = messages(vec![func]);
    assert_eq!(found, ["@f: stablehlo.sine: operand 0 is read before it is defined or outside its region"]);
}

#[test]
fn a_value_stays_in_its_region() {
    let mut f = FuncBuilder::new("f");
    let pred = f.arg(Type::scalar(DType::Bool));
    let x = f.arg(vector());
    let mut inner = x;
    let branch = f
        .region(&[], |f, _| {
            inner = f.op(OpKind::Tanh, &[x], Attrs::new())?;
            Ok(vec![inner])
        })
        .unwrap();
    let other = f.region(&[], |_, _| Ok(vec![x])).unwrap();
    f.op_with_regions(OpKind::If, &[pred], Attrs::new(), &[branch, other]).unwrap();
    let escaped = f.op(OpKind::Sine, &[inner], Attrs::new()).unwrap();
    let func = f.finish(&[escaped]);
    let found = messages(vec![func]);
    assert_eq!(found, ["@f: stablehlo.sine: operand 0 is read before it is defined or outside its region"]);
}

#[test]
fn regions_nest_to_a_limit_without_using_the_stack() {
    let depth = 20_000;
    let mut func = Func::new("f");
    let body = func.add_region();
    func.body = Some(body);
    let pred = func.add_argument(body, Type::scalar(DType::Bool), None);
    func.inputs = vec![Type::scalar(DType::Bool)];
    let mut region = body;
    for _ in 0..depth {
        let branches = vec![func.add_region(), func.add_region()];
        let last = branches[0];
        let end = OpName::Known(OpKind::Return);
        func.add_op(branches[1], NewOp::new(end));
        let name = OpName::Known(OpKind::If);
        func.add_op(region, NewOp { operands: vec![pred], regions: branches, ..NewOp::new(name) });
        let end = OpName::Known(if region == body { OpKind::FuncReturn } else { OpKind::Return });
        func.add_op(region, NewOp::new(end));
        region = last;
    }
    func.add_op(region, NewOp::new(OpName::Known(OpKind::Return)));
    assert_eq!(messages(vec![func]), ["@f: stablehlo.if: regions nest deeper than 512"]);
}

#[test]
fn a_type_that_doubles_at_every_level_is_refused() {
    let mut ty = vector();
    for _ in 0..64 {
        ty = Type::Tuple([ty.clone(), ty].into());
    }
    let mut func = Func::new("f");
    func.visibility = Visibility::Private;
    func.inputs = vec![ty];
    assert_eq!(messages(vec![func]), ["@f: func.func: a type holds more parts than any program needs"]);
}

#[test]
fn findings_have_an_end() {
    let funcs = vec![Func::new("f"); 1000];
    assert_eq!(messages(funcs).len(), MAX_FINDINGS);
}

#[test]
fn a_long_chain_of_calls_is_walked_without_using_the_stack() {
    let count = 50_000;
    let funcs = (0..count)
        .map(|n| {
            let mut f = FuncBuilder::new(format!("f{n}"));
            f.visibility(Visibility::Private);
            let x = f.arg(vector());
            let mut attrs = Attrs::new();
            attrs.set("callee", Attr::Symbol(format!("f{}", (n + 1) % count).into()));
            let y = f.op_with_types(OpKind::FuncCall, &[x], attrs, &[], vec![vector()]).unwrap();
            f.finish(&y)
        })
        .collect();
    assert_eq!(messages(funcs), ["@f49999: func.func: calls @f0, which calls it in turn"]);
}

#[test]
fn a_finding_says_where_the_op_came_from() {
    let mut f = FuncBuilder::new("f");
    f.at(Some(crate::ir::Location::File { file: "model.py".into(), line: 7, column: 3, end: None }.into()));
    let x = f.arg(vector());
    let y = f.op(OpKind::Tanh, &[x], Attrs::new()).unwrap();
    let mut func = f.finish(&[y]);
    func.ops[0].name = OpName::Known(OpKind::Not);
    let found = messages(vec![func]);
    assert_eq!(
        found,
        ["@f: stablehlo.not: operand 0 must be a tensor of boolean or signed integer or unsigned integer type, is \
          tensor<4xf32> [not I1] at model.py:7:3"]
    );
}
