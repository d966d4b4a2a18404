//! A reduction over dimensions of size 1 from its neutral element keeps every element.

use crate::ir::{OpKind, Value};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "reduce_nothing", kinds: &[OpKind::Reduce], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let op = site.op();
    let ([input, init], [body]) = (&op.operands[..], &op.regions[..]) else { return None };
    let (input, init, body) = (*input, *init, *body);
    let dims = site.dims(input)?;
    if !site.i64s("dimensions")?.iter().all(|&d| dims[d as usize] == 1) {
        return None;
    }
    let body = site.func.region(body);
    let [combine, returned] = body.ops[..] else { return None };
    let (combine, returned) = (site.func.op(combine), site.func.op(returned));
    let takes_both = combine.operands == body.args || combine.operands.iter().rev().eq(&body.args);
    if !takes_both
        || returned.operands[..] != [combine.first_result]
        || site.dtype(combine.first_result) != site.dtype(input)
    {
        return None;
    }
    if !is_neutral(site, combine.kind()?, init) {
        return None;
    }
    let to = site.dims(site.result())?.to_vec();
    Some(vec![site.emit_reshape(input, &to)?])
}

/// Whether combining any element with the value gives the element.
fn is_neutral(site: &Site<'_>, kind: OpKind, value: Value) -> bool {
    let is = |number: f64| site.is_filled_with(value, number);
    let is_bool =
        |wanted: i64| site.dtype(value).is_some_and(|dtype| dtype.is_bool()) && site.int_splat(value) == Some(wanted);
    match kind {
        // How often the initial value enters is left open (reduce, "Semantics"), so the sign of a zero is as well.
        OpKind::Add => is(0.0) || is(-0.0),
        OpKind::Multiply => is(1.0),
        OpKind::Maximum => is(f64::NEG_INFINITY),
        OpKind::Minimum => is(f64::INFINITY),
        OpKind::And => is_bool(1),
        OpKind::Or => is_bool(0),
        _ => false,
    }
}
