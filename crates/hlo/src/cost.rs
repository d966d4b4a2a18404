//! What one run of a program costs: floating-point operations and bytes moved, with loops counted as often as they run
//! where that is known.

use std::collections::{HashMap, HashSet};

use crate::ir::{Attr, Definition, DenseData, Func, Keyword, Module, Op, OpKind, Region, Type, Value};

/// Calls nest at most this deep; what is deeper counts nothing.
const MAX_DEPTH: usize = 200;

/// What one run costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramCost {
    /// Operations: contractions and convolutions count two for each product, reductions one for each element they read,
    /// other arithmetic one for each element of its results.
    pub flops: f64,
    /// Bytes read and written. An op that works element by element, or moves elements, and has one reader is taken to be
    /// fused into it, so what it computes is never written; splats and counters are never read. A composite that is still
    /// one is taken to be a kernel: only its operands and results are in memory.
    pub bytes: f64,
}

impl ProgramCost {
    fn plus(self, other: ProgramCost) -> ProgramCost {
        ProgramCost { flops: self.flops + other.flops, bytes: self.bytes + other.bytes }
    }

    fn times(self, count: f64) -> ProgramCost {
        ProgramCost { flops: self.flops * count, bytes: self.bytes * count }
    }
}

/// Cost of one run of the entry. A loop whose count is not written in the program counts once, of several branches the
/// costliest counts.
pub fn cost(module: &Module) -> ProgramCost {
    let mut counter = Counter { module, known: HashMap::new() };
    module.entry().map_or_else(ProgramCost::default, |func| counter.func(func, 0))
}

struct Counter<'m> {
    module: &'m Module,
    /// By the function's name.
    known: HashMap<&'m str, ProgramCost>,
}

impl<'m> Counter<'m> {
    fn func(&mut self, func: &'m Func, depth: usize) -> ProgramCost {
        if let Some(&cost) = self.known.get(&*func.name) {
            return cost;
        }
        // A function that calls itself counts its inner calls as nothing.
        self.known.insert(&func.name, ProgramCost::default());
        let fused = Fused::of(func);
        let cost = func.body.map_or_else(ProgramCost::default, |body| self.region(func, &fused, body, depth));
        self.known.insert(&func.name, cost);
        cost
    }

    fn region(&mut self, func: &'m Func, fused: &Fused, region: Region, depth: usize) -> ProgramCost {
        if depth > MAX_DEPTH {
            return ProgramCost::default();
        }
        let ops = func.region(region).ops.iter().map(|&id| self.op(func, fused, func.op(id), depth));
        ops.fold(ProgramCost::default(), ProgramCost::plus)
    }

    fn op(&mut self, func: &'m Func, fused: &Fused, op: &'m Op, depth: usize) -> ProgramCost {
        let module = self.module;
        let mut called = |name: &str| {
            let callee = op.attr(name).and_then(|attr| match attr {
                Attr::Symbol(name) => module.func(name),
                _ => None,
            });
            callee.map_or_else(ProgramCost::default, |callee| self.func(callee, depth + 1))
        };
        match op.kind() {
            Some(OpKind::FuncCall) => called("callee"),
            Some(kind @ OpKind::Composite) => {
                let inside = called("decomposition");
                ProgramCost { bytes: inside.bytes.min(fused.bytes(func, op, kind)), ..inside }
            }
            Some(OpKind::While) => {
                let regions = op.regions.iter().map(|&region| self.region(func, fused, region, depth + 1));
                regions.fold(ProgramCost::default(), ProgramCost::plus).times(trip_count(func, op).unwrap_or(1.0))
            }
            Some(OpKind::If | OpKind::Case) => {
                let branches = op.regions.iter().map(|&region| self.region(func, fused, region, depth + 1));
                let costlier = |a: ProgramCost, b: ProgramCost| ProgramCost {
                    flops: a.flops.max(b.flops),
                    bytes: a.bytes.max(b.bytes),
                };
                branches.fold(ProgramCost::default(), costlier)
            }
            Some(kind) => ProgramCost { flops: own_flops(func, op, kind), bytes: fused.bytes(func, op, kind) },
            None => ProgramCost::default(),
        }
    }
}

/// Which values of a function are never written to memory.
struct Fused(Vec<bool>);

impl Fused {
    fn of(func: &Func) -> Fused {
        // The op that reads a value, unless several do or it is read in another region than it is computed in.
        let mut readers = vec![0u32; func.values.len()];
        let mut region_of = vec![u32::MAX; func.ops.len()];
        for (region, data) in func.regions.iter().enumerate() {
            data.ops.iter().for_each(|id| region_of[id.0 as usize] = region as u32);
        }
        for (at, op) in func.ops.iter().enumerate() {
            // A loop, a branch or the end of the program takes arrays from memory.
            let takes_arrays = match op.kind() {
                Some(OpKind::Reduce) => false,
                Some(kind) => !op.regions.is_empty() || ends(kind),
                None => true,
            };
            let distinct: HashSet<Value> = op.operands.iter().copied().collect();
            for value in distinct {
                let is_near = match func.value(value).definition {
                    Definition::Result(id, _) => region_of[id.0 as usize] == region_of[at],
                    Definition::Argument(..) => false,
                };
                readers[value.0 as usize] += if is_near && !takes_arrays { 1 } else { 2 };
            }
        }
        let is_fused = |(value, &readers): (usize, &u32)| {
            let op = defining(func, Value(value as u32));
            op.is_some_and(|op| is_free(op) || readers == 1 && op.kind().is_some_and(fuses))
        };
        Fused(readers.iter().enumerate().map(is_fused).collect())
    }

    /// Bytes an op writes, and those that it and what is fused into it read.
    fn bytes(&self, func: &Func, op: &Op, kind: OpKind) -> f64 {
        let is_fused = |value: Value| self.0[value.0 as usize];
        if ends(kind) || is_free(op) || op.results().any(is_fused) {
            return 0.0;
        }
        let mut seen: HashSet<Value> = HashSet::new();
        let mut pending = op.operands.clone();
        let mut total: f64 = op.results().map(|result| bytes(func, result)).sum();
        while let Some(value) = pending.pop() {
            if !seen.insert(value) {
                continue;
            }
            match defining(func, value) {
                Some(op) if is_fused(value) => pending.extend(&op.operands),
                _ => total += bytes(func, value),
            }
        }
        // What is written or read is the part, not the whole.
        match (kind, &op.operands[..]) {
            (OpKind::DynamicUpdateSlice, [whole, part, ..]) if !is_fused(*whole) => {
                total - 2.0 * bytes(func, *whole) + bytes(func, *part)
            }
            (OpKind::DynamicSlice | OpKind::Gather | OpKind::Slice, [whole, ..]) if !is_fused(*whole) => {
                let result: f64 = op.results().map(|result| bytes(func, result)).sum();
                total - bytes(func, *whole) + result.min(bytes(func, *whole))
            }
            _ => total,
        }
    }
}

/// Whether an op ends a function or a region of it. The end of a computation by hand (`sdy.return`) does not: what it hands on
/// is written.
fn ends(kind: OpKind) -> bool {
    kind.is_terminator() && kind != OpKind::SdyReturn
}

/// Whether an op's result is made where it is read, from nothing.
fn is_free(op: &Op) -> bool {
    match op.kind() {
        Some(OpKind::Iota) => true,
        Some(OpKind::Constant) => {
            matches!(op.attr("value"), Some(Attr::Dense(dense)) if matches!(dense.data, DenseData::Splat(_)))
        }
        _ => false,
    }
}

/// Whether compilers fuse an op into the one that reads it.
fn fuses(kind: OpKind) -> bool {
    fuses_elementwise(kind) || kind.is_movement()
}

/// Elementwise ops that are counted as passes of their own.
const UNFUSED: [OpKind; 5] = [OpKind::Complex, OpKind::CountLeadingZeros, OpKind::Imag, OpKind::Popcnt, OpKind::Real];

/// Whether an op is elementwise work that compilers fuse: functions of CHLO are counted by themselves, since a compiler
/// sees what they expand to.
pub fn fuses_elementwise(kind: OpKind) -> bool {
    kind.is_elementwise() && kind.is_stablehlo() && !UNFUSED.contains(&kind)
}

fn bytes(func: &Func, value: Value) -> f64 {
    let bits = func.ty(value).as_tensor().and_then(|ty| ty.element.plain()).map_or(0, |dtype| dtype.bits());
    elements(func, value) * f64::from(bits) / 8.0
}

fn elements(func: &Func, value: Value) -> f64 {
    func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).map_or(0.0, |n| n as f64)
}

/// Operations of one op, without what it calls or repeats.
pub fn op_flops(func: &Func, op: &Op) -> f64 {
    op.kind().map_or(0.0, |kind| own_flops(func, op, kind))
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
        _ if kind.is_movement() || ends(kind) => 0.0,
        (
            K::Constant
            | K::Iota
            | K::DynamicSlice
            | K::DynamicUpdateSlice
            | K::Gather
            | K::Convert
            | K::BitcastConvert
            | K::GetTupleElement
            | K::Tuple
            | K::OptimizationBarrier,
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
        let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(cost(&module).flops, expected, "{text}");
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

    #[test]
    fn what_is_fused_is_not_written() {
        let check = |body: &str, expected: f64| {
            let text = format!(
                "func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {{
                   %c = stablehlo.constant dense<2.0> : tensor<100xf32>
                   {body}
                   return %r : tensor<100xf32>
                 }}"
            );
            let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(cost(&module).bytes, expected, "{text}");
        };
        // One array read, one written; the constant fills registers.
        check("%r = stablehlo.multiply %x, %c : tensor<100xf32>", 800.0);
        check("%0 = stablehlo.multiply %x, %c : tensor<100xf32>\n%r = stablehlo.add %0, %x : tensor<100xf32>", 800.0);
        // The half-size array has two readers: written once, read twice; the rest is read once and written once.
        check(
            "%0 = stablehlo.convert %x : (tensor<100xf32>) -> tensor<100xbf16>
             %1 = stablehlo.slice %0 [0:50] : (tensor<100xbf16>) -> tensor<50xbf16>
             %2 = stablehlo.concatenate %1, %1, dim = 0 : (tensor<50xbf16>, tensor<50xbf16>) -> tensor<100xbf16>
             %3 = stablehlo.add %0, %2 : tensor<100xbf16>
             %r = stablehlo.convert %3 : (tensor<100xbf16>) -> tensor<100xf32>",
            400.0 + 200.0 + 200.0 + 400.0,
        );
    }
}
