//! Valid programs whose results are known to a bound: a pool of values, and ops that add to it.

mod arrays;
mod control;
mod elementwise;
mod indexing;
mod patterns;
mod quantized;
mod value;

use std::fmt::Write;

use tensor::{DType, Literal};

use crate::numbers::{Look, Numbers};
use crate::{Allowed, Subject};
use value::{V, epsilon, ty};

const FLOATS: &[DType] = &[DType::F32, DType::F64, DType::BF16, DType::F16];
const RARE_FLOATS: &[DType] = &[DType::F8E4M3FN, DType::F8E5M2];
const INTEGERS: &[DType] =
    &[DType::I32, DType::I64, DType::I8, DType::I16, DType::U8, DType::U16, DType::U32, DType::U64];
const RARE_INTEGERS: &[DType] = &[DType::I4, DType::U4];

/// A program while it is written.
struct Writer {
    pub(super) numbers: Numbers,
    arguments: Vec<(V, Literal)>,
    /// Values that are in scope.
    pub(super) pool: Vec<V>,
    /// Lines of the region being written.
    pub(super) lines: Vec<String>,
    next: usize,
    pub(super) depth: usize,
    max_elements: usize,
}

/// The program of these choices.
pub fn generate(mut numbers: Numbers) -> Subject {
    // Large ones reach the threads, middling ones the vector bodies with their tails.
    let max_elements = match numbers.below(150) {
        0 => 40_000,
        1..=12 => 6000,
        _ => 300,
    };
    let mut writer =
        Writer { numbers, arguments: Vec::new(), pool: Vec::new(), lines: Vec::new(), next: 0, depth: 0, max_elements };
    for _ in 0..writer.numbers.between(1, 3) {
        let dims = writer.shape();
        let dtype = writer.dtype();
        writer.argument(dtype, &dims);
    }
    let most = if writer.numbers.one_in(6) { 40 } else { 14 };
    for _ in 0..writer.numbers.between(2, most) {
        writer.any_op();
    }
    writer.finish()
}

impl Writer {
    pub(super) fn name(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next)
    }

    pub(super) fn dtype(&mut self) -> DType {
        match self.numbers.below(20) {
            0 => self.numbers.pick(RARE_FLOATS),
            1 => self.numbers.pick(RARE_INTEGERS),
            2..=3 => DType::Bool,
            4..=7 => self.numbers.pick(INTEGERS),
            8..=13 => DType::F32,
            14..=15 => DType::I32,
            _ => self.numbers.pick(FLOATS),
        }
    }

    /// Sizes of at most the allowed number of elements.
    pub(super) fn shape(&mut self) -> Vec<usize> {
        let mut dims = Vec::new();
        let mut count = 1;
        for _ in 0..self.numbers.below(5) {
            let mut size = self.numbers.pick(&[1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33]);
            if self.max_elements > 1000 && self.numbers.one_in(2) {
                size = self.numbers.between(30, 1500) as usize;
            }
            if self.numbers.one_in(40) {
                size = 0;
            }
            if count * size > self.max_elements {
                size = (self.max_elements / count).max(1);
            }
            count *= size.max(1);
            dims.push(size);
        }
        dims
    }

    pub(super) fn may_have(&self, dims: &[usize]) -> bool {
        dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_some_and(|n| n <= 3 * self.max_elements)
    }

    /// A new argument of the program.
    pub(super) fn argument(&mut self, dtype: DType, dims: &[usize]) -> V {
        let look = self.numbers.pick(&[Look::Quarters, Look::Quarters, Look::Special, Look::Positive, Look::Any]);
        self.argument_like(dtype, dims, look)
    }

    pub(super) fn argument_like(&mut self, dtype: DType, dims: &[usize], look: Look) -> V {
        // The narrowest formats have too few digits for anything but quarters, and one has no infinities.
        let look = if dtype.bits() == 8 && dtype.is_float() { Look::Quarters } else { look };
        let literal = self.numbers.literal(dtype, dims, look);
        let value = V {
            name: format!("%arg{}", self.arguments.len()),
            dtype,
            dims: dims.to_vec(),
            size: 2.0,
            error: 0.0,
            grid: matches!(look, Look::Quarters | Look::Special).then_some(2),
            is_positive: look == Look::Positive,
            has_special: look == Look::Special,
            is_untouched: true,
        };
        self.arguments.push((value.clone(), literal));
        self.pool.push(value.clone());
        value
    }

    /// A constant of the program.
    pub(super) fn constant(&mut self, dtype: DType, dims: &[usize]) -> V {
        let count: usize = dims.iter().product();
        let number = |numbers: &mut Numbers| match dtype {
            DType::Bool => ["false", "true"][numbers.below(2)].to_string(),
            _ if dtype.is_float() => format!("{:?}", numbers.between(-8, 8) as f64 / 4.0),
            _ if dtype.is_unsigned_integer() => numbers.between(0, 7).to_string(),
            _ => numbers.between(-7, 7).to_string(),
        };
        let text = if count == 0 {
            String::new()
        } else if self.numbers.one_in(2) || count > 64 {
            number(&mut self.numbers)
        } else {
            fn nested(dims: &[usize], one: &mut impl FnMut() -> String) -> String {
                match dims {
                    [] => one(),
                    [size, rest @ ..] => {
                        let parts: Vec<String> = (0..*size).map(|_| nested(rest, one)).collect();
                        format!("[{}]", parts.join(", "))
                    }
                }
            }
            let numbers = &mut self.numbers;
            nested(dims, &mut || number(numbers))
        };
        let name = self.name();
        self.lines.push(format!("{name} = stablehlo.constant dense<{text}> : {}", ty(dtype, dims)));
        self.add(V::argument(name, dtype, dims.to_vec()))
    }

    /// A scalar constant of this text.
    pub(super) fn scalar(&mut self, dtype: DType, text: &str) -> String {
        let name = self.name();
        self.lines.push(format!("{name} = stablehlo.constant dense<{text}> : {}", ty(dtype, &[])));
        name
    }

    pub(super) fn add(&mut self, value: V) -> V {
        self.pool.push(value.clone());
        value
    }

    /// A value of the pool, or a new one.
    pub(super) fn any(&mut self) -> V {
        self.that(|_| true).unwrap_or_else(|| {
            let (dtype, dims) = (self.dtype(), self.shape());
            self.argument(dtype, &dims)
        })
    }

    /// A value of the pool that is fit; later ones are preferred.
    pub(super) fn that(&mut self, fits: impl Fn(&V) -> bool) -> Option<V> {
        let found: Vec<usize> = (0..self.pool.len()).filter(|&n| fits(&self.pool[n])).collect();
        if found.is_empty() {
            return None;
        }
        let a = self.numbers.below(found.len());
        let b = if self.numbers.one_in(2) { a } else { self.numbers.below(found.len()) };
        Some(self.pool[found[a.max(b)]].clone())
    }

    /// A value of the type of another that is fit, made if there is none.
    pub(super) fn like(&mut self, value: &V, fits: impl Fn(&V) -> bool) -> V {
        let (dtype, dims) = (value.dtype, value.dims.clone());
        if !self.numbers.one_in(4)
            && let Some(found) = self.that(|v| v.dtype == dtype && v.dims == dims && fits(v))
        {
            return found;
        }
        let made = match self.numbers.below(4) {
            0 => self.constant(dtype, &dims),
            1 if !dims.is_empty() => self.spread(dtype, &dims),
            _ => self.argument(dtype, &dims),
        };
        if fits(&made) {
            return made;
        }
        let quarters = self.argument_like(dtype, &dims, Look::Quarters);
        if fits(&quarters) { quarters } else { self.argument_like(dtype, &dims, Look::Positive) }
    }

    /// An array broadcast from fewer dimensions.
    pub(super) fn spread(&mut self, dtype: DType, dims: &[usize]) -> V {
        let kept: Vec<usize> = (0..dims.len()).filter(|_| self.numbers.one_in(2)).collect();
        let sizes: Vec<usize> = kept.iter().map(|&d| if self.numbers.one_in(4) { 1 } else { dims[d] }).collect();
        let source = match self.that(|v| v.dtype == dtype && v.dims == sizes) {
            Some(found) => found,
            None => self.argument(dtype, &sizes),
        };
        self.op(
            &format!("stablehlo.broadcast_in_dim {}, dims = {kept:?}", source.name),
            &[&source],
            V { dims: dims.to_vec(), ..source.clone() },
        )
    }

    /// Writes an op in the form `text : (types) -> type`.
    pub(super) fn op(&mut self, text: &str, operands: &[&V], result: V) -> V {
        let name = self.name();
        let types: Vec<String> = operands.iter().map(|v| v.ty()).collect();
        self.lines.push(format!("{name} = {text} : ({}) -> {}", types.join(", "), result.ty()));
        self.add(V { name, ..result })
    }

    /// Writes a region's lines one level deeper.
    pub(super) fn push_indented(&mut self, lines: &[String]) {
        self.lines.extend(lines.iter().map(|line| format!("  {line}")));
    }

    fn finish(mut self) -> Subject {
        let mut results: Vec<V> = Vec::new();
        for _ in 0..self.numbers.between(1, 4) {
            let value = self.any();
            results.push(value);
        }
        // Something computed is always looked at.
        if let Some(last) = self.pool.last().cloned() {
            results.push(last);
        }
        if self.numbers.one_in(8) {
            results.push(results[0].clone());
        }
        let mut attributes = vec![String::new(); self.arguments.len()];
        if self.numbers.one_in(3) {
            let mut used = vec![false; results.len()];
            for (n, (argument, _)) in self.arguments.iter().enumerate() {
                let fit = results.iter().position(|r| r.dtype == argument.dtype && r.dims == argument.dims);
                match fit.filter(|&r| !used[r]) {
                    Some(r) => {
                        used[r] = true;
                        attributes[n] = format!(" {{tf.aliasing_output = {r} : i32}}");
                    }
                    None if self.numbers.one_in(3) => {
                        attributes[n] = " {jax.buffer_donor = true}".into();
                    }
                    None => {}
                }
            }
        }
        let list = |parts: Vec<String>| parts.join(", ");
        let arguments: Vec<String> =
            self.arguments.iter().zip(&attributes).map(|((v, _), a)| format!("{}: {}{a}", v.name, v.ty())).collect();
        let types = list(results.iter().map(V::ty).collect());
        let mut text = format!("func.func @main({}) -> ({types}) {{\n", list(arguments));
        for line in &self.lines {
            let _ = writeln!(text, "  {line}");
        }
        let _ =
            writeln!(text, "  func.return {} : {types}\n}}", list(results.iter().map(|v| v.name.clone()).collect()));
        Subject {
            text,
            arguments: Some(self.arguments.into_iter().map(|(_, literal)| literal).collect()),
            allowed: Allowed::Within(results.iter().map(|value| value.error).collect()),
        }
    }

    /// One op of any kind.
    pub(super) fn any_op(&mut self) {
        match self.numbers.below(42) {
            0..=8 => self.binary(),
            9..=13 => self.unary(),
            14 => self.compare(),
            15 => self.select(),
            16 => self.clamp(),
            17..=18 => self.convert(),
            19..=21 => self.view_op(),
            22 => self.pad(),
            23 => self.concatenate(),
            24..=26 => self.reduce(),
            27 => self.argmax(),
            28..=29 => self.dot(),
            30 => self.iota(),
            31 => self.gather(),
            32 => self.scatter(),
            33 => self.dynamic_slice(),
            34 => self.sort(),
            35 => self.reduce_window(),
            36 => self.window_gradient(),
            37 => self.repeat(),
            38 => self.choose(),
            39..=40 => self.pattern(),
            _ => match self.numbers.below(4) {
                0 => self.convolution(),
                1 => self.random_bits(),
                2 => self.bitcast(),
                _ => self.barrier(),
            },
        }
    }

    /// The error of a sum of `count` terms of `size` each in a type, beyond that of the terms.
    pub(super) fn sum(value: &V, count: usize, size: f64, error: f64, grid: Option<i32>) -> V {
        let n = count as f64;
        // Every partial sum is rounded in one of the orders.
        let computed = value.clone().computed(n * size, n * error, grid);
        let error = if computed.is_exact() { 0.0 } else { computed.error + n * n * epsilon(value.dtype) * size };
        V { error, ..computed }
    }
}
