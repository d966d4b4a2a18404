//! Writes ops and composites, with the functions that composites are decomposed into.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use hlo::{
    Attr, Attrs, Definition, Dense, DenseData, Func, NewOp, OpId, OpKind, OpName, Region, Type, Value, Visibility,
};
use tensor::{DType, Spec};

use super::layout::{Label, Labels, Layout};
use crate::call::{static_spec, tensor_type};
use crate::error::Error;
use crate::kernels;

/// The axes of positions and of features in arrays of the kernel.
const POSITIONS: usize = 2;
const FEATURES: usize = 3;

/// The four axes of an array of the kernel, outermost labels first.
pub(super) type Order = [Vec<Label>; 4];

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
        self.add(NewOp { operands, results, attrs, ..NewOp::new(OpName::Known(kind)) })
    }

    pub(super) fn op_with_region(
        &mut self,
        kind: OpKind,
        operands: Vec<Value>,
        attrs: Attrs,
        region: Region,
        results: Vec<Type>,
    ) -> Vec<Value> {
        self.add(NewOp { operands, results, attrs, regions: vec![region], ..NewOp::new(OpName::Known(kind)) })
    }

    fn add(&mut self, op: NewOp) -> Vec<Value> {
        let id = self.func.add_op(self.region, op);
        if let Some(region) = self.func.regions.get_mut(self.region.0 as usize) {
            region.ops.pop();
        }
        self.new.push(id);
        self.func.op(id).results().collect()
    }

    /// Goes on in a region of its own; the one before, with its ops.
    pub(super) fn enter(&mut self, region: Region) -> (Region, Vec<OpId>) {
        (std::mem::replace(&mut self.region, region), std::mem::take(&mut self.new))
    }

    /// Ends that region, and goes on in the one before.
    pub(super) fn leave(&mut self, (before, ops): (Region, Vec<OpId>)) -> Region {
        let inner = std::mem::replace(&mut self.region, before);
        let new = std::mem::replace(&mut self.new, ops);
        if let Some(region) = self.func.regions.get_mut(inner.0 as usize) {
            region.ops = new;
        }
        inner
    }

    /// The region that is written.
    pub(super) fn region(&self) -> Region {
        self.region
    }

    /// Goes on in another place, which keeps the one before.
    pub(super) fn swap(&mut self, place: &mut (Region, Vec<OpId>)) {
        std::mem::swap(&mut self.region, &mut place.0);
        std::mem::swap(&mut self.new, &mut place.1);
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

    /// An array of the kernel with zeros behind the positions and features it has.
    pub(super) fn enlarged(&mut self, value: Value, [length, depth]: [usize; 2]) -> Value {
        let dims = static_spec(self.func.ty(value)).map_or_else(Vec::new, |spec| spec.dims);
        [(POSITIONS, length), (FEATURES, depth)].into_iter().fold(value, |value, (axis, size)| {
            let more = dims.get(axis).map_or(0, |&have| size.saturating_sub(have));
            self.padded(value, axis, (0, more), 0)
        })
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

    /// The first positions and features of an array of the kernel.
    pub(super) fn reduced(&mut self, value: Value, [length, depth]: [usize; 2]) -> Value {
        let value = self.cut(value, POSITIONS, 0..length);
        self.cut(value, FEATURES, 0..depth)
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
    pub(super) fn segments(&mut self, batch: usize, length: usize, real: usize) -> Value {
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

    /// The element of a constant that repeats it.
    fn splat_of(&self, value: Value) -> Option<&[u8]> {
        let Definition::Result(id, _) = self.func.value(value).definition else { return None };
        let Some(Attr::Dense(dense)) = self.func.op(id).attr("value") else { return None };
        match &dense.data {
            DenseData::Splat(element) => Some(element),
            _ => None,
        }
    }

    /// Whether a value is a constant of one number.
    pub(super) fn is_splat(&self, value: Value) -> bool {
        self.splat_of(value).is_some()
    }

    /// An array of the one number that another one repeats.
    pub(super) fn repeated(&mut self, value: Value, like: &Spec) -> Option<Value> {
        if let Some(element) = self.splat_of(value) {
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
