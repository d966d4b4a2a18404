//! What one run of a program costs: floating-point operations, with loops counted as often as they run where that is known.

use std::collections::HashMap;

use hlo::{Attr, Definition, Func, Keyword, Module, Op, OpKind, Region, Type, Value};

/// Calls nest at most this deep; what is deeper counts nothing.
const MAX_DEPTH: usize = 200;

/// Operations of one run of the entry: contractions and convolutions count two for each product, reductions one for each
/// element they read, other arithmetic one for each element of its results. A loop whose count is not written in the
/// program counts once, of several branches the costliest counts.
pub(super) fn flops(module: &Module) -> f64 {
    let mut counter = Counter { module, known: HashMap::new() };
    module.entry().map_or(0.0, |func| counter.func(func, 0))
}

struct Counter<'m> {
    module: &'m Module,
    /// By the function's name.
    known: HashMap<&'m str, f64>,
}

impl<'m> Counter<'m> {
    fn func(&mut self, func: &'m Func, depth: usize) -> f64 {
        if let Some(&flops) = self.known.get(&*func.name) {
            return flops;
        }
        // A function that calls itself counts its inner calls as nothing.
        self.known.insert(&func.name, 0.0);
        let flops = func.body.map_or(0.0, |body| self.region(func, body, depth));
        self.known.insert(&func.name, flops);
        flops
    }

    fn region(&mut self, func: &'m Func, region: Region, depth: usize) -> f64 {
        if depth > MAX_DEPTH {
            return 0.0;
        }
        func.region(region).ops.iter().map(|&id| self.op(func, func.op(id), depth)).sum()
    }

    fn op(&mut self, func: &'m Func, op: &'m Op, depth: usize) -> f64 {
        let module = self.module;
        let mut called = |name: &str| {
            let callee = op.attr(name).and_then(|attr| match attr {
                Attr::Symbol(name) => module.func(name),
                _ => None,
            });
            callee.map_or(0.0, |callee| self.func(callee, depth + 1))
        };
        match op.kind() {
            Some(OpKind::FuncCall) => called("callee"),
            Some(OpKind::Composite) => called("decomposition"),
            Some(OpKind::While) => {
                let once: f64 = op.regions.iter().map(|&region| self.region(func, region, depth + 1)).sum();
                once * trip_count(func, op).unwrap_or(1.0)
            }
            Some(OpKind::If | OpKind::Case) => {
                op.regions.iter().map(|&region| self.region(func, region, depth + 1)).fold(0.0, f64::max)
            }
            Some(kind) => own_flops(func, op, kind),
            None => 0.0,
        }
    }
}

fn elements(func: &Func, value: Value) -> f64 {
    func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).map_or(0.0, |n| n as f64)
}

/// Operations of an op that runs no other function, its regions being parts of it.
fn own_flops(func: &Func, op: &Op, kind: OpKind) -> f64 {
    use OpKind as K;
    let results: f64 = op.results().map(|result| elements(func, result)).sum();
    let size = |value: Value, dim: i64| match func.ty(value) {
        Type::Tensor(ty) => usize::try_from(dim).ok().and_then(|dim| ty.dims.get(dim)).map_or(1.0, |&n| n as f64),
        _ => 1.0,
    };
    match (kind, &op.operands[..]) {
        (K::DotGeneral, [lhs, ..]) => {
            let Some(Attr::Dot(dims)) = op.attr("dot_dimension_numbers") else { return 0.0 };
            2.0 * results * dims.lhs_contracting.iter().map(|&dim| size(*lhs, dim)).product::<f64>()
        }
        (K::Dot, [lhs, ..]) => {
            let rank = func.ty(*lhs).as_tensor().map_or(0, |ty| ty.rank());
            2.0 * results * size(*lhs, rank as i64 - 1)
        }
        (K::Convolution, [_, kernel, ..]) => {
            let Some(Attr::Conv(dims)) = op.attr("dimension_numbers") else { return 0.0 };
            2.0 * results * elements(func, *kernel) / size(*kernel, dims.kernel_output_feature).max(1.0)
        }
        (K::Reduce, operands) => operands[..operands.len() / 2].iter().map(|&value| elements(func, value)).sum(),
        // They move elements, or hold no arithmetic.
        (
            K::Constant
            | K::Iota
            | K::Reshape
            | K::BroadcastInDim
            | K::Broadcast
            | K::Transpose
            | K::Slice
            | K::DynamicSlice
            | K::DynamicUpdateSlice
            | K::Concatenate
            | K::Pad
            | K::Gather
            | K::Reverse
            | K::Convert
            | K::BitcastConvert
            | K::GetTupleElement
            | K::Tuple
            | K::OptimizationBarrier
            | K::Return
            | K::FuncReturn,
            _,
        ) => 0.0,
        _ => results,
    }
}

/// How often a loop runs that counts from one constant in constant steps up to another.
fn trip_count(func: &Func, op: &Op) -> Option<f64> {
    let &[condition, body] = &op.regions[..] else { return None };
    let test = defining(func, returned(func, condition)?.first().copied()?)?;
    if test.kind() != Some(OpKind::Compare) {
        return None;
    }
    let &[left, right] = &test.operands[..] else { return None };
    let Definition::Argument(region, index) = func.value(left).definition else { return None };
    let limit = constant(func, outer(func, op, condition, right))?;
    let start = constant(func, *op.operands.get(index as usize)?)?;
    let next = defining(func, *returned(func, body)?.get(index as usize)?)?;
    let &[counter, step] = &next.operands[..] else { return None };
    let counts_up = next.kind() == Some(OpKind::Add)
        && func.value(counter).definition == Definition::Argument(body, index)
        && region == condition;
    let step = constant(func, outer(func, op, body, step)).filter(|&step| step > 0 && counts_up)?;
    let distance = limit.checked_sub(start)?;
    let distance = match test.attr("comparison_direction").and_then(Attr::as_keyword)? {
        Keyword::Lt => distance,
        Keyword::Le => distance.checked_add(1)?,
        _ => return None,
    };
    Some((distance.max(0) as f64 / step as f64).ceil())
}

/// A value of a loop's region as the loop gets it, where it is one that the loop passes on unchanged.
fn outer(func: &Func, op: &Op, region: Region, value: Value) -> Value {
    let Definition::Argument(of, index) = func.value(value).definition else { return value };
    let Some(&body) = op.regions.get(1).filter(|_| of == region) else { return value };
    let passed_on = returned(func, body).and_then(|values| values.get(index as usize));
    match passed_on.map(|&value| func.value(value).definition) {
        Some(Definition::Argument(of, same)) if of == body && same == index => {
            op.operands.get(index as usize).copied().unwrap_or(value)
        }
        _ => value,
    }
}

fn returned(func: &Func, region: Region) -> Option<&[Value]> {
    func.region(region).ops.last().map(|&id| &func.op(id).operands[..])
}

fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

fn constant(func: &Func, value: Value) -> Option<i64> {
    match defining(func, value)?.attr("value")? {
        Attr::Dense(dense) => dense.to_i64s(1)?.first().copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: f64) {
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(flops(&module), expected, "{text}");
    }

    #[test]
    fn products_count_twice_and_loops_as_often_as_they_run() {
        check(
            "func.func @main(%a: tensor<3x4x5xf32>, %b: tensor<3x5x6xf32>) -> tensor<3x4x6xf32> {
               %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
                 : (tensor<3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<3x4x6xf32>
               return %0 : tensor<3x4x6xf32>
             }",
            2.0 * 3.0 * 4.0 * 5.0 * 6.0,
        );
        // Each round: one comparison, one addition of the counter, eight products.
        let counted = |limit: &str| {
            format!(
                "func.func @main(%n: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {{
                   %zero = stablehlo.constant dense<0> : tensor<i32>
                   %ten = stablehlo.constant dense<10> : tensor<i32>
                   %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32>
                   cond {{
                     %c = stablehlo.compare LT, %i, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>
                     stablehlo.return %c : tensor<i1>
                   }} do {{
                     %one = stablehlo.constant dense<1> : tensor<i32>
                     %j = stablehlo.add %i, %one : tensor<i32>
                     %z = func.call @twice(%y) : (tensor<8xf32>) -> tensor<8xf32>
                     stablehlo.return %j, %z : tensor<i32>, tensor<8xf32>
                   }}
                   return %0#1 : tensor<8xf32>
                 }}
                 func.func private @twice(%x: tensor<8xf32>) -> tensor<8xf32> {{
                   %0 = stablehlo.multiply %x, %x : tensor<8xf32>
                   return %0 : tensor<8xf32>
                 }}"
            )
        };
        check(&counted("%ten"), 100.0);
        check(&counted("%n"), 10.0);
    }
}
