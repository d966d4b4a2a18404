//! Writes experts with a capacity over rows sorted by the expert they chose. Rows of choices without a slot come last, in no group.

use std::collections::HashSet;

use hlo::{Attrs, Func, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::super::sorted::{OfMatrices, OfTokens, Parts, Rows, SortedWriter, internal, place, spec};
use super::super::text::{combine, gathered, weigh};
use super::super::walk::Operand;
use super::proof::Chosen;
use super::rows::Row;
use super::walk::{Capacity, Node, Reader, Replaced};
use crate::call::tensor_type;
use crate::error::Error;
use crate::kernels::tensor;
use crate::recognise::devices::Split;
use crate::recognise::layout::{Label, Layout};
use crate::recognise::on_devices::{Pass, passes};
use crate::recognise::write::{Decompositions, Writer};

struct CapacityWriter<'b> {
    found: &'b Capacity,
    /// The experts of all rows, in the order of tokens.
    chosen: Option<(Pass, Value)>,
    rows: Vec<Option<(Pass, Value)>>,
    nodes: Vec<Option<Rows>>,
}

impl Capacity {
    pub(in super::super) fn describe(&self) -> String {
        let Chosen { choices, experts, .. } = self.chosen;
        let of_nodes = self.nodes.iter().filter(|node| matches!(node, Node::Next { .. })).count();
        let of_matrices = |one: &&Replaced| matches!(one.reader, Reader::OfMatrices { .. });
        let matmuls = of_nodes + self.replaced.iter().filter(of_matrices).count();
        let gradients = if self.replaced.iter().any(|one| of_matrices(&one)) { " with gradients" } else { "" };
        let (tokens, slots) = (self.axes.size(&self.axes.tokens.concat()), self.slots);
        let devices = self.split.as_ref().map_or_else(String::new, Split::on_each_device);
        format!(
            "{choices} of {experts} experts with a capacity of {slots}, {tokens} tokens, {matmuls} grouped matmuls{gradients}{devices}"
        )
    }

    pub(in super::super) fn count(&self) -> usize {
        self.replaced.len()
    }

    /// A layout whose experts are whole on every device.
    fn unsplit(&self, layout: &Layout) -> Layout {
        let labels = &self.axes.labels;
        let (expert, whole) = (labels.leaves(&self.axes.expert), labels.leaves(&self.axes.all_experts));
        let of = |label: Label| if expert == [label] { whole.clone() } else { vec![label] };
        layout.iter().map(|all| labels.leaves(all).into_iter().flat_map(of).collect()).collect()
    }

    /// What says how it may be split.
    pub(super) fn parts(&self, func: &Func) -> Parts<'_> {
        let mut parts = Parts { choices: self.chosen.choices, ..Parts::default() };
        let of_tokens = |parts: &mut Parts<'_>, of: &OfTokens| {
            parts.of_tokens.push((of.value, of.layout.clone()));
            parts.outer.extend(&of.features);
        };
        for node in &self.nodes {
            match node {
                Node::Dispatched { x, .. } => of_tokens(&mut parts, x),
                Node::Next { matrix, .. } => parts.matrices.push(matrix),
                Node::Elementwise { .. } => {}
            }
        }
        for one in &self.gradients {
            of_tokens(&mut parts, &one.y);
        }
        for one in &self.replaced {
            match &one.reader {
                Reader::Combine { features, .. } => {
                    parts.outer.extend(features);
                    parts.of_tokens.push((one.result, one.layout.clone()));
                }
                Reader::OfMatrices { nodes, features } => {
                    let of = nodes.map(|n| self.axes.features.get(n).cloned().unwrap_or_default());
                    let dtype = spec(func, one.result).map_or(DType::F32, |spec| spec.dtype);
                    parts.gradients.push(OfMatrices { features: of, columns: features.clone(), dtype });
                }
                Reader::OfMask { .. } => parts.of_tokens.push((one.result, self.unsplit(&one.layout))),
            }
        }
        parts
    }

    /// Arrays that a result is computed from.
    fn needs(&self, reader: &Reader) -> Vec<Value> {
        let mut needs = vec![self.chosen.value];
        let (mut nodes, mut rows) = (Vec::new(), self.masks.clone());
        match reader {
            Reader::Combine { node, mask, .. } => {
                nodes.push(*node);
                rows.push(*mask);
            }
            Reader::OfMatrices { nodes: both, .. } => nodes.extend(both),
            Reader::OfMask { row } => rows.push(*row),
        }
        let (mut seen, mut seen_rows) = (HashSet::new(), HashSet::new());
        loop {
            if let Some(n) = nodes.pop() {
                let Some(node) = self.nodes.get(n).filter(|_| seen.insert(n)) else { continue };
                match node {
                    Node::Dispatched { x, mask, .. } => {
                        needs.push(x.value);
                        rows.push(*mask);
                    }
                    Node::Next { node, matrix } => {
                        needs.push(matrix.value);
                        nodes.push(*node);
                    }
                    Node::Elementwise { operands, .. } => {
                        for operand in operands {
                            match operand {
                                Operand::Node(node) => nodes.push(*node),
                                Operand::Number(value) => needs.push(*value),
                            }
                        }
                    }
                }
            } else if let Some(n) = rows.pop() {
                let Some(row) = self.rows.all.get(n).filter(|_| seen_rows.insert(n)) else { continue };
                match row {
                    Row::Picked { value, .. } | Row::Number(value) => needs.push(*value),
                    Row::IsSlot { place, .. } => rows.push(*place),
                    Row::Gradient(n) => {
                        if let Some(one) = self.gradients.get(*n) {
                            needs.push(one.y.value);
                            nodes.push(one.node);
                        }
                    }
                    Row::Op { operands, .. } => rows.extend(operands),
                    Row::Product { factors, .. } => rows.extend(factors),
                }
            } else {
                return needs;
            }
        }
    }

    /// Whether it could be written: there is an order for all that depends on it.
    pub(in super::super) fn write(
        &self,
        func: &mut Func,
        region: Region,
        decompositions: &mut Decompositions,
    ) -> Result<bool, Error> {
        let items: Vec<_> = self.replaced.iter().map(|one| (vec![one.result], self.needs(&one.reader))).collect();
        let passes = passes(func, &items);
        let mut order: Vec<usize> = (0..self.replaced.len()).collect();
        order.sort_by_key(|&n| passes[n]);
        let writer = Writer::new(&mut *func, region);
        let axes = (&self.axes, self.chosen.choices);
        let mut rows = SortedWriter::new(writer, decompositions, axes, self.split.as_ref());
        let mut all = CapacityWriter {
            found: self,
            chosen: None,
            rows: vec![None; self.rows.all.len()],
            nodes: vec![None; self.nodes.len()],
        };
        rows.turn_to(0);
        all.sort(&mut rows)?;
        for n in order {
            rows.turn_to(passes[n]);
            all.replaced(&mut rows, &self.replaced[n])?;
        }
        let written = rows.finish()?;
        Ok(place(func, region, written).is_some())
    }
}

impl CapacityWriter<'_> {
    fn chosen(&self, rows: &mut SortedWriter<'_, '_>) -> Result<Value, Error> {
        rows.bring(self.chosen.ok_or_else(internal)?)
    }

    /// Sorts rows by expert; rows that all masks have zeros for are behind those of the last expert.
    fn sort(&mut self, rows: &mut SortedWriter<'_, '_>) -> Result<(), Error> {
        let found = self.found;
        let (count, Chosen { value, experts, .. }) = (rows.rows(), found.chosen);
        let dtype = rows.dtype(value)?;
        // Tokens, then choices, as the array has them.
        let labels = &found.axes.labels;
        let leaves = labels.leaves(&[&found.axes.tokens.concat()[..], &found.axes.choice].concat());
        let own = rows.devices.enter_leaves(&mut rows.writer, value, leaves)?;
        let own = rows.writer.reshaped(own, vec![count]);
        let chosen = rows.call(&|name| within(name, count, experts, dtype), vec![own])?;
        self.chosen = Some((rows.devices.pass(), chosen));
        let mut masks = found.masks.clone();
        masks.sort_unstable();
        masks.dedup();
        let mut values = Vec::with_capacity(masks.len());
        for mask in masks {
            values.push(self.row(rows, mask)?);
        }
        let types = values.iter().map(|&value| rows.dtype(value)).collect::<Result<Vec<_>, _>>()?;
        let operands = [vec![chosen], values].concat();
        let keys = rows.call(&|name| kept(name, count, experts, &types), operands)?;
        rows.sort(keys)
    }

    /// One number for each choice, in the order of tokens.
    fn row(&mut self, rows: &mut SortedWriter<'_, '_>, n: usize) -> Result<Value, Error> {
        if let Some(value) = self.rows.get(n).copied().flatten() {
            return rows.bring(value);
        }
        let (found, count) = (self.found, rows.rows());
        let like = |dtype: DType| Spec::new(dtype, [count]);
        let value = match found.rows.all.get(n).ok_or_else(internal)? {
            Row::Picked { value, layout } => self.picked(rows, *value, layout)?,
            Row::Number(value) => {
                let dtype = rows.dtype(*value)?;
                rows.devices.repeated(&mut rows.writer, *value, &like(dtype))?
            }
            Row::IsSlot { place, first } => {
                let place = self.row(rows, *place)?;
                let (dtype, slots) = (rows.dtype(place)?, found.slots);
                rows.call(&|name| is_slot(name, count, dtype, *first, slots), vec![place])?
            }
            Row::Gradient(n) => {
                let one = found.gradients.get(*n).ok_or_else(internal)?;
                let (of_tokens, of_slots) = (rows.taken(&one.y)?, self.node(rows, one.node)?);
                let (of_slots, summed) = rows.of_device(of_slots)?;
                let types = [rows.dtype(of_tokens)?, rows.dtype(of_slots)?, one.dtype];
                let sizes = [count, rows.size(&one.y.features)];
                let operands = vec![of_tokens, of_slots, rows.inverse()?];
                let value = rows.call(&|name| sums(name, sizes, types), operands)?;
                rows.devices.all_reduced(&mut rows.writer, value, &summed, OpKind::Add)?
            }
            Row::Op { op, operands, dtype } => {
                let operands = operands.iter().map(|&n| self.row(rows, n)).collect::<Result<Vec<_>, _>>()?;
                let (kind, attrs) = {
                    let op = rows.writer.func.op(*op);
                    (op.kind().ok_or_else(internal)?, op.attrs.clone())
                };
                let results = rows.writer.op(kind, operands, attrs, vec![tensor_type(&like(*dtype))]);
                results.first().copied().ok_or_else(internal)?
            }
            Row::Product { factors, dtype } => {
                let [a, b] = [self.row(rows, factors[0])?, self.row(rows, factors[1])?];
                let factors = [rows.writer.converted(a, *dtype), rows.writer.converted(b, *dtype)];
                let ty = vec![tensor_type(&like(*dtype))];
                let results = rows.writer.op(OpKind::Multiply, factors.to_vec(), Attrs::new(), ty);
                results.first().copied().ok_or_else(internal)?
            }
        };
        if let Some(known) = self.rows.get_mut(n) {
            *known = Some((rows.devices.pass(), value));
        }
        Ok(value)
    }

    /// What an array without slots has for each choice.
    fn picked(&mut self, rows: &mut SortedWriter<'_, '_>, value: Value, layout: &Layout) -> Result<Value, Error> {
        let found = self.found;
        let (axes, count, experts) = (&found.axes, rows.rows(), found.chosen.experts);
        let layout = found.unsplit(layout);
        let have = axes.labels.flat(&layout);
        let expert = axes.labels.leaves(&found.unsplit(&vec![axes.expert.clone()]).concat());
        let has_expert = expert.iter().any(|label| have.contains(label));
        let mut all = axes.labels.leaves(&[&axes.tokens.concat()[..], &axes.choice].concat());
        if has_expert {
            all.extend(&expert);
        }
        let present: Vec<Vec<Label>> =
            all.iter().filter(|label| have.contains(label)).map(|&label| vec![label]).collect();
        let cut = rows.entering((value, &layout), &present)?;
        let places: Vec<usize> = (0..all.len()).filter(|&n| have.contains(&all[n])).collect();
        let dims: Vec<usize> = all.iter().map(|&label| rows.size(&[label])).collect();
        let repeated = rows.writer.broadcast(cut, &places, dims);
        if !has_expert {
            return Ok(rows.writer.reshaped(repeated, vec![count]));
        }
        let wide = rows.writer.reshaped(repeated, vec![count, experts]);
        let (dtype, chosen) = (rows.dtype(value)?, self.chosen(rows)?);
        rows.call(&|name| pick(name, count, experts, dtype), vec![wide, chosen])
    }

    /// What experts have in their slots, as sorted rows.
    fn node(&mut self, rows: &mut SortedWriter<'_, '_>, n: usize) -> Result<Rows, Error> {
        if let Some(value) = self.nodes.get(n).cloned().flatten() {
            return rows.brought(&value);
        }
        let found = self.found;
        let (node, spec) = found.nodes.get(n).zip(found.specs.get(n)).ok_or_else(internal)?;
        let features = found.axes.features.get(n).ok_or_else(internal)?;
        let like = Spec::new(spec.dtype, [rows.rows(), rows.size(features)]);
        let value = match node {
            Node::Dispatched { x, mask, is_bit } => {
                let taken = rows.taken(x)?;
                let value = match is_bit {
                    // Rows without a slot are in no group.
                    true => rows.writer.converted(taken, like.dtype),
                    false => {
                        let (weights, dtype) = (self.row(rows, *mask)?, rows.dtype(taken)?);
                        let (types, order) = ([dtype, rows.dtype(weights)?, like.dtype], rows.order()?);
                        let sizes = [like.dims[0], like.dims[1]];
                        rows.call(&|name| weigh(name, sizes, types), vec![taken, weights, order])?
                    }
                };
                rows.whole(value)
            }
            Node::Next { node, matrix } => {
                let of = self.node(rows, *node)?;
                rows.matmul(of, matrix)?
            }
            Node::Elementwise { op, operands } => {
                rows.elementwise(*op, operands, &like, &mut |rows, n| self.node(rows, n))?
            }
        };
        if let Some(known) = self.nodes.get_mut(n) {
            *known = Some(value.clone());
        }
        Ok(value)
    }

    /// Has something stand for a result.
    fn replaced(&mut self, rows: &mut SortedWriter<'_, '_>, one: &Replaced) -> Result<(), Error> {
        let (found, axes) = (self.found, &self.found.axes);
        let Chosen { choices, experts, .. } = found.chosen;
        let (tokens, dtype) = (rows.tokens(), rows.dtype(one.result)?);
        let (leaves, all_tokens) = (|labels: &[Label]| axes.labels.leaves(labels), rows.all_tokens());
        let (value, order, layout, summed) = match &one.reader {
            Reader::Combine { node, mask, features } => {
                let of = self.node(rows, *node)?;
                let ((value, summed), weights) = (rows.of_device(of)?, self.row(rows, *mask)?);
                let types = [rows.dtype(value)?, rows.dtype(weights)?, dtype];
                let weights = rows.writer.reshaped(weights, vec![tokens, choices]);
                let (sizes, inverse) = ([tokens, choices, rows.size(features)], rows.inverse()?);
                let value = rows.call(&|name| combine(name, sizes, types), vec![value, inverse, weights])?;
                (value, vec![all_tokens, leaves(features)], one.layout.clone(), summed)
            }
            Reader::OfMatrices { nodes, features } => {
                let both = [self.node(rows, nodes[0])?, self.node(rows, nodes[1])?];
                let (value, summed) = rows.gradient(both)?;
                let order = vec![leaves(&axes.expert), leaves(&features[0]), leaves(&features[1])];
                (value, order, one.layout.clone(), summed)
            }
            Reader::OfMask { row } => {
                let value = self.row(rows, *row)?;
                let have = axes.labels.flat(&one.layout);
                let has = |labels: &[Label]| leaves(labels).iter().any(|label| have.contains(label));
                let (layout, choice) = (found.unsplit(&one.layout), leaves(&axes.choice));
                if has(&axes.expert) {
                    let has_choice = has(&axes.choice);
                    let sizes = [tokens, choices, experts];
                    let operands = vec![value, self.chosen(rows)?];
                    let value = rows.call(&|name| placed(name, sizes, dtype, has_choice), operands)?;
                    let choice = if has_choice { choice } else { Vec::new() };
                    let expert = found.unsplit(&vec![axes.expert.clone()]).concat();
                    (value, vec![all_tokens, choice, expert], layout, Vec::new())
                } else {
                    (value, vec![all_tokens, choice], layout, Vec::new())
                }
            }
        };
        rows.give((one.result, &layout), (value, &order), &summed)
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
