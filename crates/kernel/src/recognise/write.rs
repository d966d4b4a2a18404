//! Writes an attention that was understood as composites, and puts their results in place of the matmuls'.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use chips::Generation;
use hlo::{
    Attr, Attrs, Definition, Dense, DenseData, Func, NewOp, OpId, OpKind, OpName, Region, Type, Value, Visibility,
};
use tensor::{DType, Spec};

use super::conditions::{Conditions, Unseen, conditions};
use super::layout::{Label, Labels, Layout};
use super::mask::Visible;
use super::operands::{flash_mask, gradient_of_mean, mean_of_values, operands};
use super::ops::{Ops, is_default_precision};
use super::site::{Part, Side, Site};
use crate::call::{static_spec, tensor_type};
use crate::composites::{FLASH, FLASH_BACKWARD, FlashAttributes};
use crate::error::Error;
use crate::kernels;
use crate::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, PassDirection, Segments};

/// The axis of positions in arrays of the kernel.
const POSITIONS: usize = 2;

/// The four axes of an array of the kernel, outermost labels first.
pub(super) type Order = [Vec<Label>; 4];

/// An attention as it is to be written.
pub(super) struct Plan {
    site: Site,
    attention: FlashAttention,
    conditions: Conditions,
    /// Of scores.
    mask_order: Order,
    q_order: Order,
    kv_order: Order,
    v_order: Order,
    out_order: Order,
    /// Queries and keys before they were padded.
    lengths: (usize, usize),
    /// The op before which the forward pass goes.
    forward: OpId,
    /// The op before which the backward pass goes, where there is one.
    backward: Option<OpId>,
}

impl Plan {
    /// How many matmuls of the backward pass it replaces.
    pub(super) fn has_backward(&self) -> bool {
        self.backward.is_some()
    }

    pub(super) fn describe(&self) -> String {
        let a = &self.attention;
        let mask = match (a.causality, a.window) {
            (Causality::Full, _) => "full".to_owned(),
            (Causality::Causal, None) => "causal".to_owned(),
            (Causality::Causal, Some(window)) => format!("window of {window}"),
        };
        let others = self.conditions.describe();
        format!(
            "{} × {} heads ({} KV), {} queries, {} keys, depth {}, {}, {mask}{others}",
            a.batch, a.q_heads, a.kv_heads, self.lengths.0, self.lengths.1, a.depth, a.dtype
        )
    }
}

/// Decides how an attention is written; the reason where no kernel takes it.
pub(super) fn plan(ops: &Ops<'_>, mut site: Site, position: usize, generation: Generation) -> Result<Plan, String> {
    let func = ops.func;
    let found = conditions(func, &mut site)?;
    let side = |side: Side| site.sides.get(&side).ok_or_else(|| "an array of the attention is not known".to_owned());
    let (q, k, v) = (side(Side::Queries)?, side(Side::Keys)?, side(Side::Values)?);
    let spec = |value: Value| static_spec(func.ty(value)).ok_or_else(|| "sizes change".to_owned());
    let dtype = spec(q.0)?.dtype;
    if spec(k.0)?.dtype != dtype || spec(v.0)?.dtype != dtype {
        return Err("queries, keys and values differ in their types".into());
    }
    let matmuls = site.given.iter().map(|given| given.position).chain([position]);
    if dtype == DType::F32 && !matmuls.into_iter().all(|n| is_default_precision(func.op(ops.order[n]))) {
        return Err("its matmuls ask for more than the default precision".into());
    }
    let labels = &site.labels;
    let queries = labels.leaves(&site.queries);
    let (keys, depth, columns) = (labels.leaves(&site.keys), labels.leaves(&site.depth), labels.leaves(&site.columns));
    let size = |of: &[Label]| of.iter().map(|&label| labels.size(label)).product::<usize>();
    if size(&depth) != size(&columns) {
        return Err("heads of keys and values differ in size".into());
    }
    // Queries that masks do not tell apart are heads that share keys.
    let group: Vec<Label> = queries.iter().copied().filter(|label| !found.rows.contains(label)).collect();
    let (rows, rest, heads) = (found.rows.clone(), found.sequences.clone(), found.heads.clone());
    let (causality, window) = match found.seen {
        Visible::All => (Causality::Full, None),
        Visible::Causal { window } => (Causality::Causal, window),
    };
    let lengths = (size(&rows), size(&keys));
    let (q_len, kv_len, segments) = padded(lengths, causality, &found)?;
    let q_heads = [heads.clone(), group.clone()].concat();
    let mask_order = [rest.clone(), q_heads.clone(), rows.clone(), keys.clone()];
    let types: Vec<DType> =
        found.added.iter().filter_map(|part| spec(part.value).ok()).map(|spec| spec.dtype).collect();
    let mask = flash_mask(labels, &found, &mask_order, &types, q_len);
    let attention = FlashAttention {
        batch: size(&rest),
        q_heads: size(&heads) * size(&group),
        kv_heads: size(&heads),
        q_len,
        kv_len,
        depth: size(&depth),
        dtype,
        scale: site.scale as f32,
        causality,
        window,
        segments,
        mask,
    };
    let has_backward = !site.gradient_matmuls.is_empty();
    let forward = place(ops, &site, &found, Pass::Forward)?;
    let backward = if has_backward { Some(place(ops, &site, &found, Pass::Backward)?) } else { None };
    if backward.is_some_and(|backward| backward < forward) {
        return Err("its gradients are computed before its output".into());
    }
    takes(&attention, PassDirection::Forward, generation)?;
    if has_backward {
        takes(&attention, PassDirection::Backward, generation)?;
    }
    Ok(Plan {
        attention,
        conditions: found,
        mask_order,
        q_order: [rest.clone(), q_heads.clone(), rows.clone(), depth.clone()],
        kv_order: [rest.clone(), heads.clone(), keys.clone(), depth],
        v_order: [rest.clone(), heads, keys, columns.clone()],
        out_order: [rest, q_heads, rows, columns],
        lengths,
        forward: ops.order[forward],
        backward: backward.map(|backward| ops.order[backward]),
        site,
    })
}

/// Lengths that are padded at least.
const SHORTEST: usize = 64;

/// Lengths as kernels take them, and whether padding needs segments: keys that were added must not be seen.
fn padded(
    (queries, keys): (usize, usize),
    causality: Causality,
    found: &Conditions,
) -> Result<(usize, usize, Segments), String> {
    let up = |length: usize| length.div_ceil(128).saturating_mul(128);
    let given = if found.has_segments() { Segments::Packed } else { Segments::One };
    if queries.is_multiple_of(128) && keys.is_multiple_of(128) {
        return Ok((queries, keys, given));
    }
    if queries < SHORTEST || keys < SHORTEST {
        return Err(format!("{queries} queries and {keys} keys are too few for a kernel"));
    }
    match causality {
        // Later keys are masked anyway.
        Causality::Causal if queries == keys => Ok((up(queries), up(keys), given)),
        Causality::Causal => Err(format!("{queries} queries and {keys} keys are no multiples of 128")),
        Causality::Full if keys.is_multiple_of(128) => Ok((up(queries), keys, given)),
        // Their own masks hide keys that were added.
        Causality::Full if found.has_mask() => Ok((up(queries), up(keys), given)),
        Causality::Full => Ok((up(queries), up(keys), Segments::Packed)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Forward,
    Backward,
}

/// The position before which a pass goes: behind all that it reads, and before the first op that reads its results.
fn place(ops: &Ops<'_>, site: &Site, found: &Conditions, pass: Pass) -> Result<usize, String> {
    let sides = [Side::Queries, Side::Keys, Side::Values];
    let gradient = (pass == Pass::Backward).then_some(Side::Gradient);
    let entering = sides.into_iter().chain(gradient).filter_map(|side| site.sides.get(&side));
    let entering = entering.map(|(value, _)| *value).chain(found.values());
    let behind = entering.filter_map(|value| ops.defined(value)).map(|at| at + 1).max().unwrap_or(0);
    let is_of = |part: Part| (part == Part::Output) == (pass == Pass::Forward);
    let given = site.given.iter().filter(|given| is_of(given.part));
    // The backward pass reads what the forward one gives.
    let all = site.given.iter().filter(|given| pass == Pass::Forward || is_of(given.part));
    let first = all.map(|given| ops.first_reader(given.value)).min().unwrap_or(0);
    let wanted = given.map(|given| given.position).min().unwrap_or(behind).max(behind);
    if wanted > first || wanted >= ops.order.len() {
        return Err("its results are read before all that it reads is computed".into());
    }
    Ok(wanted)
}

/// Whether the kernel can be made.
fn takes(attention: &FlashAttention, pass: PassDirection, generation: Generation) -> Result<(), String> {
    let blocks = FlashBlockSizes::preferred(attention, generation, pass)
        .ok_or_else(|| format!("{} queries and {} keys are no multiples of 128", attention.q_len, attention.kv_len))?;
    let made = match pass {
        PassDirection::Forward => flash::forward(attention, blocks, generation),
        PassDirection::Backward => flash::backward(attention, blocks, generation),
    };
    made.map(drop).map_err(|error| error.to_string())
}

/// Functions that composites of this program are decomposed into.
pub(super) struct Decompositions {
    pub(super) functions: Vec<Func>,
    /// Part of the functions' names.
    kind: &'static str,
    names: HashMap<(String, Vec<Spec>), Arc<str>>,
}

impl Decompositions {
    pub(super) fn new(kind: &'static str) -> Decompositions {
        Decompositions { functions: Vec::new(), kind, names: HashMap::new() }
    }

    /// A function of its own, by its text.
    fn function(&mut self, text: &dyn Fn(&str) -> String) -> Result<(Arc<str>, Vec<Type>), Error> {
        let name = format!("tpubridge.{}.{}", self.kind, self.functions.len());
        let mut function = kernels::function(text(&name))?;
        function.visibility = Visibility::Private;
        let outputs = function.outputs.clone();
        self.functions.push(function);
        Ok((name.into(), outputs))
    }

    /// The function of a composite, made once for equal ones.
    fn of(&mut self, composite: &str, operands: &[Spec], attributes: &Attrs) -> Result<(Arc<str>, Vec<Type>), Error> {
        let key = (format!("{composite} {attributes:?}"), operands.to_vec());
        if let Some(name) = self.names.get(&key)
            && let Some(found) = self.functions.iter().find(|function| function.name == *name)
        {
            return Ok((Arc::clone(name), found.outputs.clone()));
        }
        let name = format!("{composite}.{}.{}", self.kind, self.functions.len());
        let made = kernels::decomposition(composite, operands, attributes, &name);
        let mut function = made.ok_or_else(|| Error::Internal(format!("no composite is called {composite}")))??;
        function.visibility = Visibility::Private;
        let name: Arc<str> = name.into();
        let outputs = function.outputs.clone();
        self.names.insert(key, Arc::clone(&name));
        self.functions.push(function);
        Ok((name, outputs))
    }
}

/// Ops being written before another one.
pub(super) struct Writer<'a> {
    pub(super) func: &'a mut Func,
    region: Region,
    new: Vec<OpId>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(func: &'a mut Func, region: Region) -> Writer<'a> {
        Writer { func, region, new: Vec::new() }
    }

    pub(super) fn op(&mut self, kind: OpKind, operands: Vec<Value>, attrs: Attrs, results: Vec<Type>) -> Vec<Value> {
        let op = NewOp { operands, results, attrs, ..NewOp::new(OpName::Known(kind)) };
        let id = self.func.add_op(self.region, op);
        if let Some(region) = self.func.regions.get_mut(self.region.0 as usize) {
            region.ops.pop();
        }
        self.new.push(id);
        self.func.op(id).results().collect()
    }

    pub(super) fn one(&mut self, kind: OpKind, operand: Value, attrs: Attrs, result: &Spec) -> Value {
        let results = self.op(kind, vec![operand], attrs, vec![tensor_type(result)]);
        results.first().copied().unwrap_or(operand)
    }

    pub(super) fn reshaped(&mut self, value: Value, dims: Vec<usize>) -> Value {
        match static_spec(self.func.ty(value)) {
            Some(spec) if spec.dims != dims => {
                self.one(OpKind::Reshape, value, Attrs::new(), &Spec::new(spec.dtype, dims))
            }
            _ => value,
        }
    }

    pub(super) fn transposed(&mut self, value: Value, order: &[usize]) -> Value {
        match static_spec(self.func.ty(value)) {
            Some(spec) if !order.is_sorted() => {
                let mut attrs = Attrs::new();
                attrs.set("permutation", Attr::i64s(order.iter().map(|&n| n as i64).collect::<Vec<_>>()));
                let dims: Vec<usize> = order.iter().map(|&n| spec.dims[n]).collect();
                self.one(OpKind::Transpose, value, attrs, &Spec::new(spec.dtype, dims))
            }
            _ => value,
        }
    }

    pub(super) fn converted(&mut self, value: Value, dtype: DType) -> Value {
        match static_spec(self.func.ty(value)) {
            Some(spec) if spec.dtype != dtype => {
                self.one(OpKind::Convert, value, Attrs::new(), &Spec::new(dtype, spec.dims))
            }
            _ => value,
        }
    }

    /// An array with zeros behind the positions it has.
    fn lengthened(&mut self, value: Value, length: usize) -> Value {
        let have = static_spec(self.func.ty(value)).and_then(|spec| spec.dims.get(POSITIONS).copied());
        self.padded(value, POSITIONS, (0, length.saturating_sub(have.unwrap_or(length))), 0)
    }

    /// An array with a small number before and behind what it has along an axis.
    pub(super) fn padded(&mut self, value: Value, axis: usize, (low, high): (usize, usize), number: i32) -> Value {
        let Some(spec) = static_spec(self.func.ty(value)) else { return value };
        if low + high == 0 || axis >= spec.dims.len() {
            return value;
        }
        let bytes = match (number, spec.dtype.is_float()) {
            (0, _) => vec![0; spec.dtype.size_bytes()],
            (_, true) => tensor::encode_float(spec.dtype, f64::from(number))
                .map_or(Vec::new(), |bits| bits.to_le_bytes().into_iter().take(spec.dtype.size_bytes()).collect()),
            (_, false) => i64::from(number).to_le_bytes().into_iter().take(spec.dtype.size_bytes()).collect(),
        };
        let number = self.constant(&Spec::new(spec.dtype, Vec::new()), bytes);
        let along = |size: usize| {
            let sizes = (0..spec.dims.len()).map(|n| if n == axis { size as i64 } else { 0 });
            Attr::i64s(sizes.collect::<Vec<_>>())
        };
        let mut attrs = Attrs::new();
        attrs.set("edge_padding_low", along(low));
        attrs.set("edge_padding_high", along(high));
        attrs.set("interior_padding", along(0));
        let mut dims = spec.dims.clone();
        dims[axis] += low + high;
        let results = self.op(OpKind::Pad, vec![value, number], attrs, vec![tensor_type(&Spec::new(spec.dtype, dims))]);
        results.first().copied().unwrap_or(value)
    }

    /// The first positions of an array.
    fn shortened(&mut self, value: Value, length: usize) -> Value {
        self.cut(value, POSITIONS, 0..length)
    }

    /// A range of an axis.
    pub(super) fn cut(&mut self, value: Value, axis: usize, range: Range<usize>) -> Value {
        let Some(spec) = static_spec(self.func.ty(value)) else { return value };
        let mut dims = spec.dims.clone();
        if dims.get(axis).is_none_or(|&have| range.start == 0 && have <= range.end) {
            return value;
        }
        let rank = dims.len();
        dims[axis] = range.len();
        let of = |number: usize, others: &[usize]| {
            let sizes = (0..rank).map(|n| if n == axis { number as i64 } else { others[n] as i64 });
            Attr::i64s(sizes.collect::<Vec<_>>())
        };
        let mut attrs = Attrs::new();
        attrs.set("start_indices", of(range.start, &vec![0; rank]));
        attrs.set("limit_indices", of(range.end, &spec.dims));
        attrs.set("strides", of(1, &vec![1; rank]));
        self.one(OpKind::Slice, value, attrs, &Spec::new(spec.dtype, dims))
    }

    /// An array of one number, given by its bytes.
    pub(super) fn splat(&mut self, spec: &Spec, element: &[u8]) -> Option<Value> {
        let ty = tensor_type(spec);
        let mut attrs = Attrs::new();
        attrs.set("value", Attr::Dense(Arc::new(Dense::splat(ty.as_tensor()?.clone(), element)?)));
        self.op(OpKind::Constant, Vec::new(), attrs, vec![ty]).first().copied()
    }

    /// Segment ids: 0 for the first positions, 1 for those that were added.
    fn segments(&mut self, batch: usize, length: usize, real: usize) -> Value {
        let ids = (0..batch).flat_map(|_| (0..length).map(|n| i32::from(n >= real)));
        let bytes = ids.flat_map(i32::to_le_bytes).collect();
        self.constant(&Spec::new(DType::I32, [batch, 1, length]), bytes)
    }

    pub(super) fn constant(&mut self, spec: &Spec, bytes: Vec<u8>) -> Value {
        let ty = tensor_type(spec);
        let mut attrs = Attrs::new();
        let dense = ty.as_tensor().and_then(|ty| Dense::from_elements(ty.clone(), bytes));
        if let Some(dense) = dense {
            attrs.set("value", Attr::Dense(Arc::new(dense)));
        }
        self.op(OpKind::Constant, Vec::new(), attrs, vec![ty]).first().copied().unwrap_or(Value(0))
    }

    /// An array as the kernel takes it.
    pub(super) fn entering(
        &mut self,
        labels: &Labels,
        (value, layout): &(Value, Layout),
        order: &[Vec<Label>],
    ) -> Option<Value> {
        let have = labels.flat(layout);
        let want: Vec<Label> = order.concat();
        let size = |label: &Label| labels.size(*label);
        let cut = self.reshaped(*value, have.iter().map(size).collect());
        let permutation = positions(&have, &want)?;
        let turned = self.transposed(cut, &permutation);
        let dims = order.iter().map(|of| of.iter().map(size).product()).collect();
        Some(self.reshaped(turned, dims))
    }

    /// An array of the kernel as the program had it.
    pub(super) fn leaving(
        &mut self,
        labels: &Labels,
        value: Value,
        order: &[Vec<Label>],
        layout: &Layout,
        like: &Spec,
    ) -> Option<Value> {
        let have: Vec<Label> = order.concat();
        let want = labels.flat(layout);
        let cut = self.reshaped(value, have.iter().map(|&label| labels.size(label)).collect());
        let permutation = positions(&have, &want)?;
        let turned = self.transposed(cut, &permutation);
        let shaped = self.reshaped(turned, like.dims.clone());
        Some(self.converted(shaped, like.dtype))
    }

    /// Repeated along new axes: where its own go, and the sizes of all.
    pub(super) fn broadcast(&mut self, value: Value, places: &[usize], dims: Vec<usize>) -> Value {
        match static_spec(self.func.ty(value)) {
            Some(spec) if spec.dims != dims || !places.is_sorted() => {
                let mut attrs = Attrs::new();
                let places = places.iter().map(|&n| n as i64).collect::<Vec<_>>();
                attrs.set("broadcast_dimensions", Attr::i64s(places));
                self.one(OpKind::BroadcastInDim, value, attrs, &Spec::new(spec.dtype, dims))
            }
            _ => value,
        }
    }

    /// A call of a function that is given by its text.
    pub(super) fn call(
        &mut self,
        decompositions: &mut Decompositions,
        text: &dyn Fn(&str) -> String,
        operands: Vec<Value>,
    ) -> Result<Vec<Value>, Error> {
        let (name, results) = decompositions.function(text)?;
        let mut attrs = Attrs::new();
        attrs.set("callee", Attr::Symbol(name));
        Ok(self.op(OpKind::FuncCall, operands, attrs, results))
    }

    /// A composite and its decomposition.
    pub(super) fn composite(
        &mut self,
        decompositions: &mut Decompositions,
        name: &str,
        operands: Vec<Value>,
        attributes: &Attrs,
    ) -> Result<Vec<Value>, Error> {
        let specs: Option<Vec<Spec>> = operands.iter().map(|&value| static_spec(self.func.ty(value))).collect();
        let specs = specs.ok_or_else(|| Error::Internal("sizes of a composite change".into()))?;
        let (function, results) = decompositions.of(name, &specs, attributes)?;
        let mut attrs = Attrs::new();
        attrs.set("name", Attr::string(name));
        attrs.set("composite_attributes", Attr::Dict(Arc::new(attributes.clone())));
        attrs.set("decomposition", Attr::Symbol(function));
        Ok(self.op(OpKind::Composite, operands, attrs, results))
    }

    /// An array of the one number that another one repeats.
    pub(super) fn repeated(&mut self, value: Value, like: &Spec) -> Option<Value> {
        if let Definition::Result(id, _) = self.func.value(value).definition
            && let Some(Attr::Dense(dense)) = self.func.op(id).attr("value")
            && let DenseData::Splat(element) = &dense.data
        {
            let dense = Dense::splat(tensor_type(like).as_tensor()?.clone(), element)?;
            let mut attrs = Attrs::new();
            attrs.set("value", Attr::Dense(Arc::new(dense)));
            return self.op(OpKind::Constant, Vec::new(), attrs, vec![tensor_type(like)]).first().copied();
        }
        let dims = static_spec(self.func.ty(value))?.dims;
        let first = self.sliced_first(value, &dims)?;
        let scalar = self.reshaped(first, Vec::new());
        let mut attrs = Attrs::new();
        attrs.set("broadcast_dimensions", Attr::i64s(Vec::new()));
        Some(self.one(OpKind::BroadcastInDim, scalar, attrs, like))
    }

    /// The first element of an array, in an array of size 1.
    fn sliced_first(&mut self, value: Value, dims: &[usize]) -> Option<Value> {
        if dims.iter().all(|&size| size == 1) {
            return Some(value);
        }
        let spec = static_spec(self.func.ty(value))?;
        let mut attrs = Attrs::new();
        attrs.set("start_indices", Attr::i64s(vec![0; dims.len()]));
        attrs.set("limit_indices", Attr::i64s(vec![1; dims.len()]));
        attrs.set("strides", Attr::i64s(vec![1; dims.len()]));
        Some(self.one(OpKind::Slice, value, attrs, &Spec::new(spec.dtype, vec![1; dims.len()])))
    }

    /// What was written, in order, in no region yet.
    pub(super) fn finish(self) -> Vec<OpId> {
        self.new
    }

    /// Puts what was written before an op.
    pub(super) fn place(self, before: OpId) {
        if let Some(region) = self.func.regions.get_mut(self.region.0 as usize) {
            let at = region.ops.iter().position(|&id| id == before).unwrap_or(0);
            region.ops.splice(at..at, self.new);
        }
    }
}

/// Where each of the wanted labels is; `None` where the lists differ.
fn positions(have: &[Label], want: &[Label]) -> Option<Vec<usize>> {
    let found: Option<Vec<usize>> = want.iter().map(|label| have.iter().position(|other| other == label)).collect();
    found.filter(|found| found.len() == have.len())
}

/// Writes the composites; what stands for which value now.
pub(super) fn write(
    func: &mut Func,
    region: Region,
    plan: &Plan,
    decompositions: &mut Decompositions,
) -> Result<Vec<(Value, Value)>, Error> {
    let internal = || Error::Internal("axes of an attention do not agree".into());
    let Plan { site, attention, .. } = plan;
    let attributes = FlashAttributes {
        causal: attention.causality == Causality::Causal,
        window: attention.window,
        scale: attention.scale,
        density: attention.mask.and_then(|mask| mask.density),
    };
    let attributes = attributes.to_attrs();
    let has_mean = plan.conditions.unseen == Unseen::Mean;
    let like = |func: &Func, value: Value| static_spec(func.ty(value)).ok_or_else(internal);
    let mut replaced = Vec::new();
    let side = |side: Side| site.sides.get(&side).ok_or_else(internal);
    let mut writer = Writer::new(&mut *func, region);
    let q = writer.entering(&site.labels, side(Side::Queries)?, &plan.q_order).ok_or_else(internal)?;
    let k = writer.entering(&site.labels, side(Side::Keys)?, &plan.kv_order).ok_or_else(internal)?;
    let v = writer.entering(&site.labels, side(Side::Values)?, &plan.v_order).ok_or_else(internal)?;
    let q = writer.lengthened(q, attention.q_len);
    let (k, v) = (writer.lengthened(k, attention.kv_len), writer.lengthened(v, attention.kv_len));
    let mut others = operands(
        &mut writer,
        decompositions,
        (&site.labels, &plan.conditions),
        (attention, &plan.mask_order),
        plan.lengths,
    )?;
    if attention.segments == Segments::Packed && !plan.conditions.has_segments() {
        others.push(writer.segments(attention.batch, attention.q_len, attention.q_len));
        others.push(writer.segments(attention.batch, attention.kv_len, plan.lengths.1));
    }
    let all = [vec![q, k, v], others.clone()].concat();
    let results = writer.composite(decompositions, FLASH, all, &attributes)?;
    let [out, logsumexp] = results[..] else { return Err(internal()) };
    let mut given_out = out;
    if has_mean {
        let text = |name: &str| mean_of_values(name, attention, plan.lengths.1);
        let mean = writer.call(decompositions, &text, vec![out, logsumexp, v])?;
        given_out = *mean.first().ok_or_else(internal)?;
    }
    let real = writer.shortened(given_out, plan.lengths.0);
    for given in site.given.iter().filter(|given| given.part == Part::Output) {
        let like = like(&*writer.func, given.value)?;
        let value = writer.leaving(&site.labels, real, &plan.out_order, &given.layout, &like).ok_or_else(internal)?;
        replaced.push((given.value, value));
    }
    writer.place(plan.forward);
    let Some(backward) = plan.backward else { return Ok(replaced) };
    let mut writer = Writer::new(&mut *func, region);
    let gradient = writer.entering(&site.labels, side(Side::Gradient)?, &plan.out_order).ok_or_else(internal)?;
    let gradient = writer.converted(gradient, attention.dtype);
    let gradient = writer.lengthened(gradient, attention.q_len);
    let all = [vec![q, k, v, out, logsumexp, gradient], others].concat();
    let results = writer.composite(decompositions, FLASH_BACKWARD, all, &attributes)?;
    let [dq, dk, mut dv] = results[..] else { return Err(internal()) };
    if has_mean {
        let text = |name: &str| gradient_of_mean(name, attention, plan.lengths.1);
        let mean = writer.call(decompositions, &text, vec![dv, logsumexp, gradient])?;
        dv = *mean.first().ok_or_else(internal)?;
    }
    for given in &site.given {
        let (value, order, length) = match given.part {
            Part::Output => continue,
            Part::OfQueries => (dq, &plan.q_order, plan.lengths.0),
            Part::OfKeys => (dk, &plan.kv_order, plan.lengths.1),
            Part::OfValues => (dv, &plan.v_order, plan.lengths.1),
        };
        let value = writer.shortened(value, length);
        let like = like(&*writer.func, given.value)?;
        let value = writer.leaving(&site.labels, value, order, &given.layout, &like).ok_or_else(internal)?;
        replaced.push((given.value, value));
    }
    writer.place(backward);
    Ok(replaced)
}
