//! Finds mixtures of experts that run every expert on every token and weigh what comes out, and runs the chosen experts only.
//!
//! The weights must be one-hot vectors of a `top_k` times probabilities, summed over the choices: all others are zero. From the matmul
//! that weighs, every op is followed back to the matmuls with the matrices of experts; these become grouped matmuls over sorted rows.

use std::collections::HashMap;

use chips::Generation;
use hlo::dims::DotDims;
use hlo::passes::{DCE, Options, Partitioned};
use hlo::{Attr, Attrs, Definition, Func, Keyword, Op, OpId, OpKind, Region, Value, Verified};
use tensor::{DType, Spec};

use super::mask::Evaluator;
use super::ops::{Numbers, Ops, free, is_default_precision, reducer};
use super::write::{Decompositions, Writer};
use crate::call::{static_spec, tensor_type};
use crate::composites::{GROUPED_MATMUL, GroupedAttributes};
use crate::error::Error;
use crate::kernels::grouped::{self, Grouped, Matrices, Tiles};
use crate::kernels::{function, tensor};

/// A program in which chosen experts are grouped matmuls.
#[derive(Clone, Debug)]
pub struct RecognisedExperts {
    /// The program.
    pub module: Verified,
    /// Mixtures that were found, in words.
    pub found: Vec<String>,
}

/// Finds mixtures of experts whose weights are those of a `top_k`, where the kernels of a generation take their sizes.
pub fn recognise_experts(module: Verified, generation: Generation) -> Result<RecognisedExperts, Error> {
    let names: Vec<&str> = crate::kernels::names().collect();
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &names, ..Options::default() };
    let mut module = hlo::passes::canonicalize(module, &options).map_err(Error::Rewrite)?.into_inner();
    let (mut found, mut functions) = (Vec::new(), Vec::new());
    let mut decompositions = Decompositions::new("chosen");
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            let data = func.regions[n].ops.clone();
            let ops = Ops::of(func, &data);
            let mixtures: Vec<Mixture> =
                ops.matmuls().iter().filter_map(|&at| Mixture::of(&ops, at, generation)).collect();
            for mixture in mixtures {
                found.push(mixture.describe());
                mixture.write(func, Region(n as u32), &mut decompositions, &mut functions)?;
            }
        }
    }
    module.funcs.extend(decompositions.functions);
    module.funcs.extend(functions);
    module.funcs.iter_mut().for_each(Func::renumber);
    let module = hlo::verify(module).map_err(Error::Rewrite)?;
    let (module, _) = hlo::passes::apply(module, &[DCE], &options).map_err(Error::Rewrite)?;
    Ok(RecognisedExperts { module, found })
}

/// Which experts tokens chose, and what each weighs.
struct Choice {
    /// `[…tokens, choices]`.
    chosen: Value,
    probabilities: Value,
    choices: usize,
    experts: usize,
}

/// Where the axes of a value of every expert are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Axes {
    tokens: Vec<usize>,
    expert: usize,
    feature: usize,
}

/// A value of the chosen experts, `[rows, feature]`.
enum Node {
    /// What all experts read, times their matrices.
    First { x: Value, order: Vec<usize>, matrix: Matrix },
    /// A value of experts times their matrices.
    Next { node: usize, matrix: Matrix },
    /// Another op, element by element.
    Elementwise { op: OpId, operands: Vec<Operand> },
}

enum Operand {
    Node(usize),
    /// One number, in an array that repeats it.
    Number(Value),
}

struct Matrix {
    value: Value,
    /// Its axes: experts, inner, columns.
    order: [usize; 3],
    inner: usize,
    columns: usize,
}

struct Mixture {
    choice: Choice,
    tokens: usize,
    nodes: Vec<Node>,
    specs: Vec<Spec>,
    /// The matmul that weighs.
    combine: OpId,
}

struct Walk<'a> {
    ops: &'a Ops<'a>,
    choice: &'a Choice,
    tokens: usize,
    generation: Generation,
    nodes: Vec<Node>,
    specs: Vec<Spec>,
    known: HashMap<Value, (Axes, usize)>,
}

/// Ops that one mixture may have.
const MAX_NODES: usize = 256;

impl Mixture {
    fn of(ops: &Ops<'_>, position: usize, generation: Generation) -> Option<Mixture> {
        let op = ops.op(position);
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        let (side, choice) = (0..2).find_map(|n| Some((n, Choice::of(ops.func, op.operands[n])?)))?;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, 1 - side));
        let rank = static_spec(ops.func.ty(op.operands[side]))?.dims.len();
        let tokens = rank.checked_sub(1)?;
        // All tokens by themselves, a sum over experts.
        let is_weighing = ours.batching.iter().copied().eq(0..tokens as i64) && *ours.contracting == [tokens as i64];
        is_weighing.then_some(())?;
        let of = static_spec(ops.func.ty(op.operands[1 - side]))?.dims;
        let [feature] = free(dot, 1 - side, of.len())[..] else { return None };
        let axes = Axes { tokens: indices(theirs.batching)?, expert: *indices(theirs.contracting)?.first()?, feature };
        let count = axes.tokens.iter().try_fold(1usize, |count, &n| count.checked_mul(*of.get(n)?))?;
        count.checked_mul(choice.choices).filter(|&rows| i32::try_from(rows).is_ok())?;
        let mut walk = Walk {
            ops,
            choice: &choice,
            tokens: count,
            generation,
            nodes: Vec::new(),
            specs: Vec::new(),
            known: HashMap::new(),
        };
        walk.node(op.operands[1 - side], &axes)?;
        let (nodes, specs) = (walk.nodes, walk.specs);
        Some(Mixture { choice, tokens: count, nodes, specs, combine: ops.order[position] })
    }

    fn describe(&self) -> String {
        let Choice { choices, experts, .. } = self.choice;
        let matmuls = self.nodes.iter().filter(|node| !matches!(node, Node::Elementwise { .. })).count();
        format!("{choices} of {experts} experts, {} tokens, {matmuls} grouped matmuls", self.tokens)
    }
}

fn indices(dims: &[i64]) -> Option<Vec<usize>> {
    dims.iter().map(|&n| usize::try_from(n).ok()).collect()
}

fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

/// The value before conversions between floats.
fn unconverted(func: &Func, mut value: Value) -> Value {
    while let Some(op) = defining(func, value).filter(|op| op.kind() == Some(OpKind::Convert)) {
        let is_float = |value: Value| static_spec(func.ty(value)).is_some_and(|spec| spec.dtype.is_float());
        if !is_float(op.operands[0]) || !is_float(value) {
            break;
        }
        value = op.operands[0];
    }
    value
}

/// What a value repeats: a source whose large dimensions are the value's in order, but for the last, along which it is repeated.
fn repeated(func: &Func, value: Value) -> Option<Value> {
    let dims = static_spec(func.ty(value))?.dims;
    let (mut source, mut places) = (value, (0..dims.len()).map(Some).collect::<Vec<_>>());
    while let Some(op) = defining(func, source) {
        let (&operand, to) = (op.operands.first()?, static_spec(func.ty(source))?.dims);
        let from = static_spec(func.ty(operand))?.dims;
        let pairs: Vec<(usize, usize)> = match op.kind() {
            Some(OpKind::BroadcastInDim) => {
                let dims = indices(op.attr("broadcast_dimensions")?.as_i64s()?)?;
                dims.into_iter().enumerate().filter(|&(n, to_dim)| from.get(n) == to.get(to_dim)).collect()
            }
            Some(OpKind::Reshape) => {
                let large = |dims: &[usize]| (0..dims.len()).filter(|&n| dims[n] != 1).collect::<Vec<_>>();
                let (a, b) = (large(&from), large(&to));
                if a.iter().map(|&n| from[n]).ne(b.iter().map(|&n| to[n])) {
                    break;
                }
                a.into_iter().zip(b).collect()
            }
            _ => break,
        };
        let before = |place: Option<usize>| pairs.iter().find(|(_, to)| Some(*to) == place).map(|(from, _)| *from);
        places = places.into_iter().map(|place| before(Some(place?))).collect();
        source = operand;
    }
    let of = static_spec(func.ty(source))?.dims;
    let (&last, front) = dims.split_last()?;
    let large: Vec<usize> = (0..of.len()).filter(|&n| of[n] != 1).collect();
    let read: Option<Vec<usize>> = (0..front.len()).filter(|&n| dims[n] != 1).map(|n| places[n]).collect();
    (last > 1 && places.last() == Some(&None) && read? == large).then_some(source)
}

impl Choice {
    /// Weights `[…tokens, experts]`: a sum over choices of one-hot vectors times probabilities.
    fn of(func: &Func, value: Value) -> Option<Choice> {
        let value = unconverted(func, value);
        let sum = defining(func, value).filter(|op| op.kind() == Some(OpKind::Reduce))?;
        let [input, init] = sum.operands[..] else { return None };
        let is_sum = reducer(func, sum) == Some(OpKind::Add) && Evaluator::new(func).scalar(init) == Some(0.0);
        let product = unconverted(func, input);
        let dims = static_spec(func.ty(product))?.dims;
        let &[choices, experts] = dims.last_chunk::<2>()?;
        let along = i64::try_from(dims.len() - 2).ok()?;
        let is_over_choices = sum.attr("dimensions")?.as_i64s()? == [along];
        let factors = defining(func, product).filter(|op| op.kind() == Some(OpKind::Multiply))?;
        (is_sum && is_over_choices && choices > 1 && experts > choices).then_some(())?;
        let (chosen, weight) = match factors.operands[..] {
            [a, b] => one_hot(func, a).map(|chosen| (chosen, b)).or_else(|| Some((one_hot(func, b)?, a)))?,
            _ => return None,
        };
        let probabilities = repeated(func, unconverted(func, weight))?;
        static_spec(func.ty(probabilities))?.dtype.is_float().then_some(())?;
        Some(Choice { chosen, probabilities, choices, experts })
    }
}

/// The indices of one-hot vectors along the last dimension, where they are those of a `top_k` over as many as the vectors have places.
fn one_hot(func: &Func, value: Value) -> Option<Value> {
    let mut value = unconverted(func, value);
    let places = *static_spec(func.ty(value))?.dims.last()?;
    let convert = defining(func, value).filter(|op| op.kind() == Some(OpKind::Convert))?;
    value = convert.operands[0];
    let compare = defining(func, value).filter(|op| op.kind() == Some(OpKind::Compare))?;
    let is_equal = compare.attr("comparison_direction").and_then(Attr::as_keyword) == Some(Keyword::Eq);
    let [a, b] = compare.operands[..] else { return None };
    let (indices, counted) = match (repeated(func, a), repeated(func, b)) {
        (Some(indices), _) if is_counter(func, b) => (indices, b),
        (_, Some(indices)) if is_counter(func, a) => (indices, a),
        _ => return None,
    };
    let Definition::Result(id, 1) = func.value(indices).definition else { return None };
    let top = func.op(id);
    let of = static_spec(func.ty(*top.operands.first()?))?.dims;
    let is_top = top.kind() == Some(OpKind::ChloTopK) && of.last() == Some(&places);
    (is_equal && is_top && counted != indices).then_some(indices)
}

/// Whether an array counts along its last dimension.
fn is_counter(func: &Func, value: Value) -> bool {
    let mut last = match static_spec(func.ty(value)) {
        Some(spec) => spec.dims.len().wrapping_sub(1),
        None => return false,
    };
    let mut value = value;
    while let Some(op) = defining(func, value) {
        match op.kind() {
            Some(OpKind::Iota) => {
                let along = op.attr("iota_dimension").and_then(Attr::as_int);
                return along.and_then(|n| usize::try_from(n).ok()) == Some(last);
            }
            Some(OpKind::BroadcastInDim) => {
                let dims = op.attr("broadcast_dimensions").and_then(Attr::as_i64s).and_then(indices);
                let Some(at) = dims.and_then(|dims| dims.iter().position(|&to| to == last)) else { return false };
                let sizes = [op.operands[0], value].map(|value| static_spec(func.ty(value)));
                let [Some(from), Some(to)] = sizes else { return false };
                if from.dims.get(at) != to.dims.get(last) {
                    return false;
                }
                (value, last) = (op.operands[0], at);
            }
            _ => return false,
        }
    }
    false
}

impl Walk<'_> {
    /// The node of a value whose axes are known.
    fn node(&mut self, value: Value, axes: &Axes) -> Option<usize> {
        if let Some((known, node)) = self.known.get(&value) {
            return (known == axes).then_some(*node);
        }
        let func = self.ops.func;
        let Definition::Result(id, 0) = func.value(value).definition else { return None };
        let op = func.op(id);
        let kind = op.kind()?;
        let spec = static_spec(func.ty(value))?;
        if self.nodes.len() >= MAX_NODES || spec.dims.get(axes.expert) != Some(&self.choice.experts) {
            return None;
        }
        let node = match kind {
            OpKind::DotGeneral => self.matmul(op, axes, &spec)?,
            OpKind::Transpose => {
                let order = indices(op.attr("permutation")?.as_i64s()?)?;
                let of = |n: usize| order.get(n).copied();
                let tokens = axes.tokens.iter().map(|&n| of(n)).collect::<Option<Vec<_>>>()?;
                let before = Axes { tokens, expert: of(axes.expert)?, feature: of(axes.feature)? };
                let node = self.node(op.operands[0], &before)?;
                self.known.insert(value, (axes.clone(), node));
                return Some(node);
            }
            kind if hlo::cost::fuses_elementwise(kind) => {
                let mut operands = Vec::with_capacity(op.operands.len());
                for &operand in &op.operands {
                    operands.push(match Evaluator::new(func).scalar(operand) {
                        Some(_) => Operand::Number(operand),
                        None if static_spec(func.ty(operand))?.dims == spec.dims => {
                            Operand::Node(self.node(operand, axes)?)
                        }
                        None => return None,
                    });
                }
                Node::Elementwise { op: id, operands }
            }
            _ => return None,
        };
        self.nodes.push(node);
        let feature = *spec.dims.get(axes.feature)?;
        self.specs.push(Spec::new(spec.dtype, [self.tokens * self.choice.choices, feature]));
        self.known.insert(value, (axes.clone(), self.nodes.len() - 1));
        Some(self.nodes.len() - 1)
    }

    fn matmul(&mut self, op: &Op, axes: &Axes, result: &Spec) -> Option<Node> {
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        let func = self.ops.func;
        let specs = [static_spec(func.ty(op.operands[0]))?, static_spec(func.ty(op.operands[1]))?];
        let is_same = specs.iter().all(|spec| spec.dtype == result.dtype);
        (is_same && is_default_precision(op)).then_some(())?;
        (0..2).find_map(|side| self.matmul_with(op, dot, axes, &specs, side))
    }

    /// A matmul whose operand `side` is the matrices of experts.
    fn matmul_with(&mut self, op: &Op, dot: &DotDims, axes: &Axes, specs: &[Spec; 2], side: usize) -> Option<Node> {
        let other = 1 - side;
        let (of_matrix, of_other) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let (of_free, other_free) =
            (free(dot, side, specs[side].dims.len()), free(dot, other, specs[other].dims.len()));
        let ([inner], [contracted]) = (&indices(of_matrix.contracting)?[..], &indices(of_other.contracting)?[..])
        else {
            return None;
        };
        // Where a free dimension of a factor is in the result.
        let batches = dot.lhs_batching.len();
        let (begin, other_begin) = match side {
            0 => (batches, batches + of_free.len()),
            _ => (batches + other_free.len(), batches),
        };
        let place = |n: usize| begin + n;
        let tokens: Option<Vec<usize>> =
            axes.tokens.iter().map(|&n| other_free.get(n.checked_sub(other_begin)?).copied()).collect();
        let tokens = tokens.filter(|tokens| tokens.len() == other_free.len())?;
        let value = op.operands[side];
        let size = |n: usize| specs[side].dims.get(n).copied();
        let (expert, columns) = match (indices(of_matrix.batching)?[..].to_vec(), &of_free[..]) {
            // Experts are free: what all of them read.
            (batching, &[a, b]) if batching.is_empty() => match (place(0), place(1)) {
                (x, y) if (x, y) == (axes.expert, axes.feature) => (a, b),
                (x, y) if (y, x) == (axes.expert, axes.feature) => (b, a),
                _ => return None,
            },
            // Each expert reads its own.
            (batching, &[columns]) if axes.expert == 0 && place(0) == axes.feature => match batching[..] {
                [expert] => (expert, columns),
                _ => return None,
            },
            _ => return None,
        };
        let matrix = Matrix { value, order: [expert, *inner, columns], inner: size(*inner)?, columns: size(columns)? };
        self.takes(&matrix, specs[side].dtype)?;
        match indices(of_other.batching)?[..] {
            [] => {
                let order = [tokens, vec![*contracted]].concat();
                Some(Node::First { x: op.operands[other], order, matrix })
            }
            [expert] => {
                let node = self.node(op.operands[other], &Axes { tokens, expert, feature: *contracted })?;
                Some(Node::Next { node, matrix })
            }
            _ => None,
        }
    }

    /// Whether the kernel can be made.
    fn takes(&self, matrix: &Matrix, dtype: DType) -> Option<()> {
        let grouped = Grouped {
            rows: self.tokens * self.choice.choices,
            inner: matrix.inner,
            columns: matrix.columns,
            groups: self.choice.experts,
            layers: None,
            dtype,
            codes: dtype,
            matrices: Matrices::AsIs,
            expected_rows: None,
        };
        let tiles = Tiles::preferred(&grouped, self.generation)?;
        grouped::matmul(&grouped, tiles, self.generation).ok().map(drop)
    }
}

impl Mixture {
    fn write(
        &self,
        func: &mut Func,
        region: Region,
        decompositions: &mut Decompositions,
        functions: &mut Vec<Func>,
    ) -> Result<(), Error> {
        let internal = || Error::Internal("axes of experts do not agree".into());
        let Choice { chosen, probabilities, choices, experts } = self.choice;
        let rows = self.tokens * choices;
        let spec = |func: &Func, value: Value| static_spec(func.ty(value)).ok_or_else(internal);
        let mut writer = Writer::new(&mut *func, region);
        let mut call = |writer: &mut Writer<'_>, text: &dyn Fn(&str) -> String, operands: Vec<Value>| {
            let name = format!("tpubridge.experts.{}", functions.len());
            let made = function(text(&name))?;
            let results = made.outputs.clone();
            functions.push(made);
            let mut attrs = Attrs::new();
            attrs.set("callee", Attr::Symbol(name.into()));
            Ok::<_, Error>(writer.op(OpKind::FuncCall, operands, attrs, results))
        };
        let flat = writer.reshaped(chosen, vec![rows]);
        let results = call(&mut writer, &|name| dispatch(name, rows, choices, experts), vec![flat])?;
        let [tokens, inverse, sizes] = results[..] else { return Err(internal()) };
        let mut values: Vec<Value> = Vec::with_capacity(self.nodes.len());
        let mut taken: HashMap<Value, Value> = HashMap::new();
        for (node, like) in self.nodes.iter().zip(&self.specs) {
            let matmul = |writer: &mut Writer<'_>, decompositions: &mut Decompositions, x: Value, matrix: &Matrix| {
                let turned = writer.transposed(matrix.value, &matrix.order);
                let attributes = GroupedAttributes::default().to_attrs();
                let operands = vec![x, turned, sizes];
                Ok::<_, Error>(
                    writer.composite(decompositions, GROUPED_MATMUL, operands, &attributes)?.first().copied(),
                )
            };
            let value = match node {
                Node::First { x, order, matrix } => {
                    let sorted = match taken.get(x) {
                        Some(&sorted) => sorted,
                        None => {
                            let turned = writer.transposed(*x, order);
                            let all = writer.reshaped(turned, vec![self.tokens, matrix.inner]);
                            let dtype = spec(writer.func, *x)?.dtype;
                            let sizes = [self.tokens, rows, matrix.inner];
                            let results = call(&mut writer, &|name| take(name, sizes, dtype), vec![all, tokens])?;
                            let sorted = *results.first().ok_or_else(internal)?;
                            taken.insert(*x, sorted);
                            sorted
                        }
                    };
                    matmul(&mut writer, decompositions, sorted, matrix)?
                }
                Node::Next { node, matrix } => {
                    let x = *values.get(*node).ok_or_else(internal)?;
                    matmul(&mut writer, decompositions, x, matrix)?
                }
                Node::Elementwise { op, operands } => {
                    let mut all = Vec::with_capacity(operands.len());
                    for operand in operands {
                        all.push(match operand {
                            Operand::Node(node) => *values.get(*node).ok_or_else(internal)?,
                            Operand::Number(value) => {
                                let dtype = spec(writer.func, *value)?.dtype;
                                writer.repeated(*value, &Spec::new(dtype, like.dims.clone())).ok_or_else(internal)?
                            }
                        });
                    }
                    let (kind, attrs) = {
                        let op = writer.func.op(*op);
                        (op.kind().ok_or_else(internal)?, op.attrs.clone())
                    };
                    writer.op(kind, all, attrs, vec![tensor_type(like)]).first().copied()
                }
            };
            values.push(value.ok_or_else(internal)?);
        }
        let (last, like) = values.last().zip(self.specs.last()).ok_or_else(internal)?;
        let weights = writer.reshaped(probabilities, vec![self.tokens, choices]);
        let result = writer.func.op(self.combine).first_result;
        let wanted = spec(writer.func, result)?;
        let sizes = [self.tokens, choices, *like.dims.last().ok_or_else(internal)?];
        let dtypes = [like.dtype, spec(writer.func, weights)?.dtype, wanted.dtype];
        let results = call(&mut writer, &|name| combine(name, sizes, dtypes), vec![*last, inverse, weights])?;
        let combined = *results.first().ok_or_else(internal)?;
        let shaped = writer.reshaped(combined, wanted.dims.clone());
        writer.place(self.combine);
        for op in &mut func.ops {
            op.operands.iter_mut().filter(|operand| **operand == result).for_each(|operand| *operand = shaped);
        }
        Ok(())
    }
}

/// Rows in the order of experts: the token of each, where each went, and how many each expert has.
fn dispatch(name: &str, rows: usize, choices: usize, experts: usize) -> String {
    let (of, wide) = (tensor(DType::I32, [rows]), tensor(DType::I32, [rows, experts]));
    let sorted = |result: &str, keys: &str| {
        format!(
            "  %{result}:2 = \"stablehlo.sort\"({keys}, %at) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }}) : ({of}, {of}) -> ({of}, {of})"
        )
    };
    format!(
        "func.func private @{name}(%chosen: {of}) -> ({of}, {of}, {count}) {{
  %at = stablehlo.iota dim = 0 : {of}
{by_expert}
  %choices = stablehlo.constant dense<{choices}> : {of}
  %tokens = stablehlo.divide %order#1, %choices : {of}
{back}
  %all = stablehlo.broadcast_in_dim %chosen, dims = [0] : ({of}) -> {wide}
  %counted = stablehlo.iota dim = 1 : {wide}
  %is_chosen = stablehlo.compare EQ, %all, %counted, SIGNED : ({wide}, {wide}) -> {truth}
  %ones = stablehlo.convert %is_chosen : ({truth}) -> {wide}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sizes = stablehlo.reduce(%ones init: %zero) applies stablehlo.add across dimensions = [0] : ({wide}, tensor<i32>) -> {count}
  return %tokens, %back#1, %sizes : {of}, {of}, {count}
}}",
        by_expert = sorted("order", "%chosen"),
        back = sorted("back", "%order#1"),
        count = tensor(DType::I32, [experts]),
        truth = tensor(DType::Bool, [rows, experts]),
    )
}

/// Rows by their indices.
fn take(name: &str, [from, to, size]: [usize; 3], dtype: DType) -> String {
    let (all, some) = (tensor(dtype, [from, size]), tensor(dtype, [to, size]));
    let indices = tensor(DType::I32, [to]);
    format!(
        "func.func private @{name}(%x: {all}, %i: {indices}) -> {some} {{
{}
  return %taken : {some}
}}",
        gathered("%x", "%i", [from, to, size], dtype)
    )
}

fn gathered(x: &str, indices: &str, [from, to, size]: [usize; 3], dtype: DType) -> String {
    let (flat, column) = (tensor(DType::I32, [to]), tensor(DType::I32, [to, 1]));
    let (all, some) = (tensor(dtype, [from, size]), tensor(dtype, [to, size]));
    format!(
        "  %column = stablehlo.reshape {indices} : ({flat}) -> {column}
  %taken = \"stablehlo.gather\"({x}, %column) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
         start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, {size}>}}> : ({all}, {column}) -> {some}"
    )
}

/// What chosen experts gave, back in the order of tokens and weighed.
fn combine(name: &str, [tokens, choices, size]: [usize; 3], [dtype, weight, result]: [DType; 3]) -> String {
    let rows = tokens * choices;
    let (x, indices, weights) =
        (tensor(dtype, [rows, size]), tensor(DType::I32, [rows]), tensor(weight, [tokens, choices]));
    let (cube, wide) = (tensor(DType::F32, [tokens, choices, size]), tensor(DType::F32, [tokens, choices]));
    let (sum, out) = (tensor(DType::F32, [tokens, size]), tensor(result, [tokens, size]));
    format!(
        "func.func private @{name}(%x: {x}, %i: {indices}, %w: {weights}) -> {out} {{
{gathered}
  %cube = stablehlo.reshape %taken : ({x}) -> {narrow}
  %rows = stablehlo.convert %cube : ({narrow}) -> {cube}
  %weights = stablehlo.convert %w : ({weights}) -> {wide}
  %all = stablehlo.broadcast_in_dim %weights, dims = [0, 1] : ({wide}) -> {cube}
  %products = stablehlo.multiply %rows, %all : {cube}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%products init: %zero) applies stablehlo.add across dimensions = [1] : ({cube}, tensor<f32>) -> {sum}
  %out = stablehlo.convert %sum : ({sum}) -> {out}
  return %out : {out}
}}",
        gathered = gathered("%x", "%i", [rows, rows, size], dtype),
        narrow = tensor(dtype, [tokens, choices, size]),
    )
}
