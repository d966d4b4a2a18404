//! Writes experts with a capacity over rows sorted by the expert they chose. Rows of choices without a slot come last, in no group.

use std::collections::HashMap;

use hlo::{Attrs, Func, OpId, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::super::matrix::Matrix;
use super::super::text::{combine, dispatch, gathered, take, weigh};
use super::super::walk::Operand;
use super::proof::Chosen;
use super::rows::Row;
use super::walk::{Capacity, Node, OfTokens, Reader, Replaced};
use crate::call::{static_spec, tensor_type};
use crate::composites::{GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT, GroupedAttributes};
use crate::error::Error;
use crate::kernels::grouped::Matrices;
use crate::kernels::tensor;
use crate::recognise::layout::Label;
use crate::recognise::ops::sorted;
use crate::recognise::write::{Decompositions, Writer};

/// Rows sorted by expert: the token of each, its index before, where each went, and how many each expert has.
struct Sorted {
    tokens: Value,
    order: Value,
    inverse: Value,
    sizes: Value,
}

struct CapacityWriter<'a, 'b> {
    writer: Writer<'a>,
    decompositions: &'b mut Decompositions,
    found: &'b Capacity,
    /// The experts of all rows, in the order of tokens.
    chosen: Value,
    sorted: Option<Sorted>,
    rows: Vec<Option<Value>>,
    nodes: Vec<Option<Value>>,
    taken: HashMap<(Value, usize), Value>,
}

fn internal() -> Error {
    Error::Internal("axes of experts with a capacity do not agree".into())
}

fn spec(func: &Func, value: Value) -> Result<Spec, Error> {
    static_spec(func.ty(value)).ok_or_else(internal)
}

impl Capacity {
    pub(in super::super) fn describe(&self) -> String {
        let Chosen { choices, experts, .. } = self.chosen;
        let of_nodes = self.nodes.iter().filter(|node| matches!(node, Node::Next { .. })).count();
        let of_matrices = |one: &&Replaced| matches!(one.reader, Reader::OfMatrices { .. });
        let matmuls = of_nodes + self.replaced.iter().filter(of_matrices).count();
        let gradients = if self.replaced.iter().any(|one| of_matrices(&one)) { " with gradients" } else { "" };
        let (tokens, slots) = (self.tokens(), self.slots);
        format!(
            "{choices} of {experts} experts with a capacity of {slots}, {tokens} tokens, {matmuls} grouped matmuls{gradients}"
        )
    }

    pub(in super::super) fn count(&self) -> usize {
        self.replaced.len()
    }

    fn size(&self, labels: &[Label]) -> usize {
        let all = &self.axes.labels;
        all.leaves(labels).iter().map(|&label| all.size(label)).product()
    }

    fn tokens(&self) -> usize {
        self.size(&self.axes.tokens)
    }

    fn rows(&self) -> usize {
        self.tokens() * self.chosen.choices
    }

    pub(in super::super) fn write(
        &self,
        func: &mut Func,
        region: Region,
        decompositions: &mut Decompositions,
    ) -> Result<(), Error> {
        let writer = Writer::new(&mut *func, region);
        let mut all = CapacityWriter {
            writer,
            decompositions,
            found: self,
            chosen: self.chosen.value,
            sorted: None,
            rows: vec![None; self.rows.all.len()],
            nodes: vec![None; self.nodes.len()],
            taken: HashMap::new(),
        };
        all.sort()?;
        let mut replaced = HashMap::new();
        for one in &self.replaced {
            replaced.insert(one.result, all.replaced(one)?);
        }
        let new: Vec<OpId> = all.writer.finish();
        for op in &mut func.ops {
            for operand in &mut op.operands {
                *operand = replaced.get(operand).copied().unwrap_or(*operand);
            }
        }
        let order =
            sorted(func, region, &new).ok_or_else(|| Error::Internal("experts read what comes later".into()))?;
        func.regions.get_mut(region.0 as usize).ok_or_else(internal)?.ops = order;
        Ok(())
    }
}

impl CapacityWriter<'_, '_> {
    fn call(&mut self, text: &dyn Fn(&str) -> String, operands: Vec<Value>) -> Result<Value, Error> {
        self.writer.call(self.decompositions, text, operands)?.first().copied().ok_or_else(internal)
    }

    fn dtype(&self, value: Value) -> Result<DType, Error> {
        Ok(spec(self.writer.func, value)?.dtype)
    }

    fn sorted(&self) -> Result<&Sorted, Error> {
        self.sorted.as_ref().ok_or_else(internal)
    }

    /// Sorts rows by expert; rows that all masks have zeros for are behind those of the last expert.
    fn sort(&mut self) -> Result<(), Error> {
        let found = self.found;
        let (rows, Chosen { value, choices, experts }) = (found.rows(), found.chosen);
        let dtype = self.dtype(value)?;
        // Tokens, then choices, as the array has them.
        let flat = self.writer.reshaped(value, vec![rows]);
        self.chosen = self.call(&|name| within(name, rows, experts, dtype), vec![flat])?;
        let mut masks = found.masks.clone();
        masks.sort_unstable();
        masks.dedup();
        let mut values = Vec::with_capacity(masks.len());
        for mask in masks {
            values.push(self.row(mask)?);
        }
        let types = values.iter().map(|&value| self.dtype(value)).collect::<Result<Vec<_>, _>>()?;
        let operands = [vec![self.chosen], values].concat();
        let keys = self.call(&|name| kept(name, rows, experts, &types), operands)?;
        let results =
            self.writer.call(self.decompositions, &|name| dispatch(name, rows, choices, experts), vec![keys])?;
        let [tokens, order, inverse, sizes] = results[..] else { return Err(internal()) };
        self.sorted = Some(Sorted { tokens, order, inverse, sizes });
        Ok(())
    }

    /// One number for each choice, in the order of tokens.
    fn row(&mut self, n: usize) -> Result<Value, Error> {
        if let Some(value) = self.rows.get(n).copied().flatten() {
            return Ok(value);
        }
        let (found, rows) = (self.found, self.found.rows());
        let like = |dtype: DType| Spec::new(dtype, [rows]);
        let value = match found.rows.all.get(n).ok_or_else(internal)? {
            Row::Picked { value, layout } => self.picked(*value, layout)?,
            Row::Number(value) => {
                let dtype = self.dtype(*value)?;
                self.writer.repeated(*value, &like(dtype)).ok_or_else(internal)?
            }
            Row::IsSlot { place, first } => {
                let place = self.row(*place)?;
                let (dtype, slots) = (self.dtype(place)?, found.slots);
                self.call(&|name| is_slot(name, rows, dtype, *first, slots), vec![place])?
            }
            Row::Gradient(n) => {
                let one = found.gradients.get(*n).ok_or_else(internal)?;
                let (of_tokens, of_slots) = (self.taken(&one.y)?, self.node(one.node)?);
                let types = [self.dtype(of_tokens)?, self.dtype(of_slots)?, one.dtype];
                let sizes = [rows, found.size(&one.y.features)];
                let operands = vec![of_tokens, of_slots, self.sorted()?.inverse];
                self.call(&|name| sums(name, sizes, types), operands)?
            }
            Row::Op { op, operands, dtype } => {
                let operands = operands.iter().map(|&n| self.row(n)).collect::<Result<Vec<_>, _>>()?;
                let (kind, attrs) = {
                    let op = self.writer.func.op(*op);
                    (op.kind().ok_or_else(internal)?, op.attrs.clone())
                };
                let results = self.writer.op(kind, operands, attrs, vec![tensor_type(&like(*dtype))]);
                results.first().copied().ok_or_else(internal)?
            }
            Row::Product { factors, dtype } => {
                let [a, b] = [self.row(factors[0])?, self.row(factors[1])?];
                let factors = [self.writer.converted(a, *dtype), self.writer.converted(b, *dtype)];
                let ty = vec![tensor_type(&like(*dtype))];
                let results = self.writer.op(OpKind::Multiply, factors.to_vec(), Attrs::new(), ty);
                results.first().copied().ok_or_else(internal)?
            }
        };
        if let Some(known) = self.rows.get_mut(n) {
            *known = Some(value);
        }
        Ok(value)
    }

    /// What an array without slots has for each choice.
    fn picked(&mut self, value: Value, layout: &[Vec<Label>]) -> Result<Value, Error> {
        let found = self.found;
        let (axes, rows, experts) = (&found.axes, found.rows(), found.chosen.experts);
        let layout = layout.to_vec();
        let have = axes.labels.flat(&layout);
        let expert = axes.labels.leaves(&axes.expert);
        let has_expert = expert.iter().any(|label| have.contains(label));
        let mut all = axes.labels.leaves(&[&axes.tokens[..], &axes.choice].concat());
        if has_expert {
            all.extend(&expert);
        }
        let present: Vec<Vec<Label>> =
            all.iter().filter(|label| have.contains(label)).map(|&label| vec![label]).collect();
        let cut = self.writer.entering(&axes.labels, &(value, layout), &present).ok_or_else(internal)?;
        let places: Vec<usize> = (0..all.len()).filter(|&n| have.contains(&all[n])).collect();
        let dims: Vec<usize> = all.iter().map(|&label| axes.labels.size(label)).collect();
        let repeated = self.writer.broadcast(cut, &places, dims);
        if !has_expert {
            return Ok(self.writer.reshaped(repeated, vec![rows]));
        }
        let wide = self.writer.reshaped(repeated, vec![rows, experts]);
        let (dtype, chosen) = (self.dtype(value)?, self.chosen);
        self.call(&|name| pick(name, rows, experts, dtype), vec![wide, chosen])
    }

    /// The rows of tokens that were chosen for, sorted.
    fn taken(&mut self, of: &OfTokens) -> Result<Value, Error> {
        let (found, axes) = (self.found, &self.found.axes);
        let (tokens, width) = (found.tokens(), found.size(&of.features));
        if let Some(&taken) = self.taken.get(&(of.value, width)) {
            return Ok(taken);
        }
        let order = [axes.tokens.clone(), of.features.clone()].map(|labels| axes.labels.leaves(&labels));
        let flat = self.writer.entering(&axes.labels, &(of.value, of.layout.clone()), &order).ok_or_else(internal)?;
        let (dtype, indices) = (self.dtype(flat)?, self.sorted()?.tokens);
        let rows = self.call(&|name| take(name, [tokens, found.rows(), width], dtype), vec![flat, indices])?;
        self.taken.insert((of.value, width), rows);
        Ok(rows)
    }

    fn matmul(&mut self, rows: Value, matrix: &Matrix) -> Result<Value, Error> {
        let (matrices, lies) = match matrix.lies() {
            Some(lies) => (matrix.value, lies),
            None => (self.writer.transposed(matrix.value, &matrix.order), Matrices::AsIs),
        };
        let attributes = GroupedAttributes { transposed: lies == Matrices::Transposed, ..GroupedAttributes::default() };
        let operands = vec![rows, matrices, self.sorted()?.sizes];
        let results = self.writer.composite(self.decompositions, GROUPED_MATMUL, operands, &attributes.to_attrs())?;
        results.first().copied().ok_or_else(internal)
    }

    /// What experts have in their slots, as sorted rows.
    fn node(&mut self, n: usize) -> Result<Value, Error> {
        if let Some(value) = self.nodes.get(n).copied().flatten() {
            return Ok(value);
        }
        let found = self.found;
        let (node, like) = found.nodes.get(n).zip(found.specs.get(n)).ok_or_else(internal)?;
        let value = match node {
            Node::Dispatched { x, mask, is_bit } => {
                let rows = self.taken(x)?;
                match is_bit {
                    // Rows without a slot are in no group.
                    true => self.writer.converted(rows, like.dtype),
                    false => {
                        let (weights, dtype) = (self.row(*mask)?, self.dtype(rows)?);
                        let (types, order) = ([dtype, self.dtype(weights)?, like.dtype], self.sorted()?.order);
                        let sizes = [found.rows(), found.size(&x.features)];
                        self.call(&|name| weigh(name, sizes, types), vec![rows, weights, order])?
                    }
                }
            }
            Node::Next { node, matrix } => {
                let rows = self.node(*node)?;
                self.matmul(rows, matrix)?
            }
            Node::Elementwise { op, operands } => {
                let mut all = Vec::with_capacity(operands.len());
                for operand in operands {
                    all.push(match operand {
                        Operand::Node(node) => self.node(*node)?,
                        Operand::Number(value) => {
                            let like = Spec::new(self.dtype(*value)?, like.dims.clone());
                            self.writer.repeated(*value, &like).ok_or_else(internal)?
                        }
                    });
                }
                let (kind, attrs) = {
                    let op = self.writer.func.op(*op);
                    (op.kind().ok_or_else(internal)?, op.attrs.clone())
                };
                let results = self.writer.op(kind, all, attrs, vec![tensor_type(like)]);
                results.first().copied().ok_or_else(internal)?
            }
        };
        if let Some(known) = self.nodes.get_mut(n) {
            *known = Some(value);
        }
        Ok(value)
    }

    /// What stands for a result.
    fn replaced(&mut self, one: &Replaced) -> Result<Value, Error> {
        let (found, axes) = (self.found, &self.found.axes);
        let Chosen { choices, experts, .. } = found.chosen;
        let (tokens, rows) = (found.tokens(), found.rows());
        let wanted = spec(self.writer.func, one.result)?;
        let leaves = |labels: &[Label]| axes.labels.leaves(labels);
        let (value, order) = match &one.reader {
            Reader::Combine { node, mask, features } => {
                let (value, weights) = (self.node(*node)?, self.row(*mask)?);
                let width = found.size(features);
                let types = [self.dtype(value)?, self.dtype(weights)?, wanted.dtype];
                let weights = self.writer.reshaped(weights, vec![tokens, choices]);
                let operands = vec![value, self.sorted()?.inverse, weights];
                let value = self.call(&|name| combine(name, [tokens, choices, width], types), operands)?;
                (value, vec![leaves(&axes.tokens), leaves(features)])
            }
            Reader::OfMatrices { nodes, features } => {
                let operands = vec![self.node(nodes[0])?, self.node(nodes[1])?, self.sorted()?.sizes];
                let attributes = GroupedAttributes::default().to_attrs();
                let decompositions = &mut *self.decompositions;
                let results = self.writer.composite(decompositions, GROUPED_MATMUL_GRADIENT, operands, &attributes)?;
                let value = *results.first().ok_or_else(internal)?;
                (value, vec![leaves(&axes.expert), leaves(&features[0]), leaves(&features[1])])
            }
            Reader::OfMask { row } => {
                let (value, dtype) = (self.row(*row)?, wanted.dtype);
                let have = axes.labels.flat(&one.layout);
                let has = |labels: &[Label]| leaves(labels).iter().any(|label| have.contains(label));
                if has(&axes.expert) {
                    let has_choice = has(&axes.choice);
                    let sizes = [tokens, choices, experts];
                    let operands = vec![value, self.chosen];
                    let value = self.call(&|name| placed(name, sizes, dtype, has_choice), operands)?;
                    let choice = if has_choice { leaves(&axes.choice) } else { Vec::new() };
                    (value, vec![leaves(&axes.tokens), choice, leaves(&axes.expert)])
                } else {
                    (value, vec![leaves(&axes.tokens), leaves(&axes.choice)])
                }
            }
        };
        debug_assert_eq!(rows, tokens * choices);
        self.writer.leaving(&axes.labels, value, &order, &one.layout, &wanted).ok_or_else(internal)
    }
}

/// Indices that are those of experts; others become the nearest one.
fn within(name: &str, rows: usize, experts: usize, dtype: DType) -> String {
    let (given, of) = (tensor(dtype, [rows]), tensor(DType::I32, [rows]));
    let (least, most) = match dtype.is_float() {
        true => ("0.0".to_string(), format!("{}.0", experts - 1)),
        false => ("0".to_string(), (experts - 1).to_string()),
    };
    format!(
        "func.func private @{name}(%given: {given}) -> {of} {{
  %least = stablehlo.constant dense<{least}> : {given}
  %most = stablehlo.constant dense<{most}> : {given}
  %low = stablehlo.maximum %given, %least : {given}
  %both = stablehlo.minimum %low, %most : {given}
  %out = stablehlo.convert %both : ({given}) -> {of}
  return %out : {of}
}}"
    )
}

/// The expert of each row, one more than the last where all masks are zero.
fn kept(name: &str, rows: usize, experts: usize, types: &[DType]) -> String {
    let (of, truth) = (tensor(DType::I32, [rows]), tensor(DType::Bool, [rows]));
    let mut text = String::new();
    let mut arguments = format!("%chosen: {of}");
    let mut all = String::new();
    for (n, &dtype) in types.iter().enumerate() {
        let ty = tensor(dtype, [rows]);
        arguments.push_str(&format!(", %m{n}: {ty}"));
        if dtype.is_bool() {
            text.push_str(&format!("  %k{n} = stablehlo.convert %m{n} : ({ty}) -> {truth}\n"));
        } else {
            let (zero, kind) = if dtype.is_float() {
                ("0.0", "FLOAT")
            } else if dtype.is_signed_integer() {
                ("0", "SIGNED")
            } else {
                ("0", "UNSIGNED")
            };
            text.push_str(&format!(
                "  %z{n} = stablehlo.constant dense<{zero}> : {ty}
  %k{n} = stablehlo.compare NE, %m{n}, %z{n}, {kind} : ({ty}, {ty}) -> {truth}\n"
            ));
        }
        if n == 0 {
            all = "%k0".into();
        } else {
            text.push_str(&format!("  %a{n} = stablehlo.or {all}, %k{n} : {truth}\n"));
            all = format!("%a{n}");
        }
    }
    format!(
        "func.func private @{name}({arguments}) -> {of} {{
{text}  %none = stablehlo.constant dense<{experts}> : {of}
  %out = stablehlo.select {all}, %chosen, %none : {truth}, {of}
  return %out : {of}
}}"
    )
}

/// Whether places are slots.
fn is_slot(name: &str, rows: usize, dtype: DType, first: i64, slots: usize) -> String {
    let (of, truth) = (tensor(dtype, [rows]), tensor(DType::Bool, [rows]));
    let (point, kind) = if dtype.is_float() {
        (".0", "FLOAT")
    } else if dtype.is_signed_integer() {
        ("", "SIGNED")
    } else {
        ("", "UNSIGNED")
    };
    let past = first.saturating_add(i64::try_from(slots).unwrap_or(i64::MAX));
    format!(
        "func.func private @{name}(%place: {of}) -> {truth} {{
  %first = stablehlo.constant dense<{first}{point}> : {of}
  %past = stablehlo.constant dense<{past}{point}> : {of}
  %is_behind = stablehlo.compare GE, %place, %first, {kind} : ({of}, {of}) -> {truth}
  %is_before = stablehlo.compare LT, %place, %past, {kind} : ({of}, {of}) -> {truth}
  %out = stablehlo.and %is_behind, %is_before : {truth}
  return %out : {truth}
}}"
    )
}

/// The zero of a type, and the op that sums numbers of which one is not zero.
fn nothing(dtype: DType) -> (&'static str, &'static str) {
    match dtype {
        _ if dtype.is_bool() => ("false", "or"),
        _ if dtype.is_float() => ("0.0", "add"),
        _ => ("0", "add"),
    }
}

/// Of numbers for each expert that of the chosen one.
fn pick(name: &str, rows: usize, experts: usize, dtype: DType) -> String {
    let (wide, of, indices) = (tensor(dtype, [rows, experts]), tensor(dtype, [rows]), tensor(DType::I32, [rows]));
    let (wide32, wide1) = (tensor(DType::I32, [rows, experts]), tensor(DType::Bool, [rows, experts]));
    let (zero, sum) = nothing(dtype);
    let element = tensor(dtype, []);
    format!(
        "func.func private @{name}(%x: {wide}, %chosen: {indices}) -> {of} {{
  %experts = stablehlo.iota dim = 1 : {wide32}
  %told = stablehlo.broadcast_in_dim %chosen, dims = [0] : ({indices}) -> {wide32}
  %is_own = stablehlo.compare EQ, %experts, %told, SIGNED : ({wide32}, {wide32}) -> {wide1}
  %none = stablehlo.constant dense<{zero}> : {wide}
  %own = stablehlo.select %is_own, %x, %none : {wide1}, {wide}
  %zero = stablehlo.constant dense<{zero}> : {element}
  %out = stablehlo.reduce(%own init: %zero) applies stablehlo.{sum} across dimensions = [1] : ({wide}, {element}) -> {of}
  return %out : {of}
}}"
    )
}

/// Numbers of choices at the places of the chosen experts, for each choice or summed over them.
fn placed(name: &str, [tokens, choices, experts]: [usize; 3], dtype: DType, has_choice: bool) -> String {
    let (rows, dims) = (tokens * choices, [tokens, choices, experts]);
    let (given, indices, square) = (tensor(dtype, [rows]), tensor(DType::I32, [rows]), [tokens, choices]);
    let (cube, cube32, cube1) = (tensor(dtype, dims), tensor(DType::I32, dims), tensor(DType::Bool, dims));
    let (square, square32) = (tensor(dtype, square), tensor(DType::I32, square));
    let (zero, sum) = nothing(dtype);
    let element = tensor(dtype, []);
    let (out, last) = match has_choice {
        true => (cube.clone(), format!("  return %placed : {cube}")),
        false => {
            let out = tensor(dtype, [tokens, experts]);
            let text = format!(
                "  %zero = stablehlo.constant dense<{zero}> : {element}
  %out = stablehlo.reduce(%placed init: %zero) applies stablehlo.{sum} across dimensions = [1] : ({cube}, {element}) -> {out}
  return %out : {out}"
            );
            (out, text)
        }
    };
    format!(
        "func.func private @{name}(%x: {given}, %chosen: {indices}) -> {out} {{
  %own = stablehlo.reshape %x : ({given}) -> {square}
  %all = stablehlo.broadcast_in_dim %own, dims = [0, 1] : ({square}) -> {cube}
  %of = stablehlo.reshape %chosen : ({indices}) -> {square32}
  %told = stablehlo.broadcast_in_dim %of, dims = [0, 1] : ({square32}) -> {cube32}
  %experts = stablehlo.iota dim = 2 : {cube32}
  %is_own = stablehlo.compare EQ, %experts, %told, SIGNED : ({cube32}, {cube32}) -> {cube1}
  %none = stablehlo.constant dense<{zero}> : {cube}
  %placed = stablehlo.select %is_own, %all, %none : {cube1}, {cube}
{last}
}}"
    )
}

/// Sums of products of rows, back in the order of tokens.
fn sums(name: &str, [rows, size]: [usize; 2], [a, b, result]: [DType; 3]) -> String {
    let (left, right, wide) = (tensor(a, [rows, size]), tensor(b, [rows, size]), tensor(DType::F32, [rows, size]));
    let (indices, flat, column) =
        (tensor(DType::I32, [rows]), tensor(DType::F32, [rows]), tensor(DType::F32, [rows, 1]));
    let out = tensor(result, [rows]);
    format!(
        "func.func private @{name}(%a: {left}, %b: {right}, %i: {indices}) -> {out} {{
  %a32 = stablehlo.convert %a : ({left}) -> {wide}
  %b32 = stablehlo.convert %b : ({right}) -> {wide}
  %products = stablehlo.multiply %a32, %b32 : {wide}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sums = stablehlo.reduce(%products init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {flat}
  %sums1 = stablehlo.reshape %sums : ({flat}) -> {column}
{gathered}
  %own = stablehlo.reshape %taken : ({column}) -> {flat}
  %out = stablehlo.convert %own : ({flat}) -> {out}
  return %out : {out}
}}",
        gathered = gathered("%sums1", "%i", [rows, rows, 1], DType::F32),
    )
}
