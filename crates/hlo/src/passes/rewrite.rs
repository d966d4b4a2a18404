//! Changing a function: one walk forward that replaces ops, and what a rule may ask about an op and the ops it reads.

use std::sync::Arc;

use tensor::{DType, decode_float, encode_float};

use crate::ir::{
    Attr, Attrs, Definition, Dense, DenseData, Func, Op, OpId, OpKind, OpName, Region, TensorType, Type, Value,
    ValueData,
};
use crate::ops::OpView;
use crate::verify::{attributes, constraints};

/// What stands for an op's results; `None` leaves the op.
pub(super) type Replacement = Option<Vec<Value>>;

/// Walks the ops of a function in program order, outer before inner, and replaces those `visit` has a replacement for.
///
/// Operands are up to date when an op is visited, and so is everything its operands are computed from. Ops that a
/// replacement emitted are visited in turn, so one walk does what each rule makes possible for the next. Returns the
/// number of replacements; at most `fuel`, so that rules that undo each other end.
pub(super) fn walk(func: &mut Func, fuel: u64, mut visit: impl FnMut(&mut Site<'_>) -> Replacement) -> u64 {
    struct Frame {
        region: Region,
        depth: usize,
        input: std::vec::IntoIter<OpId>,
        /// Emitted ops not visited yet, next one last.
        pending: Vec<OpId>,
        output: Vec<OpId>,
    }
    let enter = |func: &mut Func, region: Region, depth: usize| {
        let input = std::mem::take(&mut func.regions[region.0 as usize].ops);
        let output = Vec::with_capacity(input.len());
        Frame { region, depth, input: input.into_iter(), pending: Vec::new(), output }
    };
    let Some(body) = func.body else { return 0 };
    let mut forwards = Forwards::default();
    let mut done = 0;
    let mut frames = vec![enter(func, body, 1)];
    while let Some(frame) = frames.last_mut() {
        let depth = frame.depth;
        let Some(id) = frame.pending.pop().or_else(|| frame.input.next()) else {
            func.regions[frame.region.0 as usize].ops = std::mem::take(&mut frame.output);
            frames.pop();
            continue;
        };
        for operand in &mut func.ops[id.0 as usize].operands {
            *operand = forwards.resolve(*operand);
        }
        if done < fuel {
            let mut site = Site { func, forwards: &mut forwards, emitted: Vec::new(), written: Vec::new(), id, depth };
            let replacement = visit(&mut site);
            let (emitted, written) = (site.emitted, site.written);
            if let Some(values) = replacement
                && fits(func, id, &values)
                && written.iter().all(|&id| keeps_rules(func, id))
            {
                for (result, value) in func.op(id).results().zip(values) {
                    forwards.replace(func, result, value);
                }
                frame.pending.extend(emitted.into_iter().rev());
                done += 1;
                continue;
            }
        }
        frame.output.push(id);
        for n in (0..func.op(id).regions.len()).rev() {
            let region = func.op(id).regions[n];
            frames.push(enter(func, region, depth + 1));
        }
    }
    done
}

/// Whether the values have exactly the types of the op's results: users of a value depend on its type.
fn fits(func: &Func, id: OpId, values: &[Value]) -> bool {
    let op = func.op(id);
    values.len() == op.num_results as usize && op.results().zip(values).all(|(r, &v)| func.ty(r) == func.ty(v))
}

/// Whether an op that a rule wrote keeps every rule of the specification, as the ops of the verified program do. A
/// rewrite that would break one is not made, in builds for use too: kernels trust types.
fn keeps_rules(func: &Func, id: OpId) -> bool {
    let op = func.op(id);
    let Some(kind) = op.kind() else { return true };
    let def = kind.def();
    let operands: Vec<Type> = op.operands.iter().map(|&value| func.ty(value).clone()).collect();
    let results: Vec<Type> = op.results().map(|value| func.ty(value).clone()).collect();
    let view = OpView::of(func, op, &operands, &results);
    def.operands.allows(operands.len())
        && def.results.allows(results.len())
        && def.regions.allows(op.regions.len())
        && attributes(def, &op.attrs).is_ok()
        && constraints(kind, &view).is_ok()
}

/// Which value now stands for which.
#[derive(Default)]
pub(super) struct Forwards(Vec<Option<Value>>);

impl Forwards {
    /// The value that stands for another in the end.
    pub(super) fn resolve(&mut self, value: Value) -> Value {
        let mut last = value;
        while let Some(Some(next)) = self.0.get(last.0 as usize) {
            last = *next;
        }
        let mut at = value;
        while at != last {
            match self.0[at.0 as usize].replace(last) {
                Some(next) => at = next,
                None => break,
            }
        }
        last
    }

    /// Lets a value stand for another from now on, if both have one type: what reads a value depends on its type. Every
    /// pass replaces values by this function.
    pub(super) fn replace(&mut self, func: &Func, from: Value, to: Value) {
        let to = self.resolve(to);
        if from == to || func.ty(from) != func.ty(to) {
            return;
        }
        if self.0.len() <= from.0 as usize {
            self.0.resize(from.0 as usize + 1, None);
        }
        self.0[from.0 as usize] = Some(to);
    }
}

/// The op a rule looks at, in its function.
pub(super) struct Site<'f> {
    pub(super) func: &'f mut Func,
    forwards: &'f mut Forwards,
    emitted: Vec<OpId>,
    /// Those of the emitted ops that are new, not moved or copied from a verified program.
    written: Vec<OpId>,
    id: OpId,
    depth: usize,
}

impl Site<'_> {
    /// The op.
    pub(super) fn op(&self) -> &Op {
        self.func.op(self.id)
    }

    /// Its id.
    pub(super) fn id(&self) -> OpId {
        self.id
    }

    /// Levels of regions it stands in, the function's own included.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Its operand `n`.
    pub(super) fn operand(&self, n: usize) -> Value {
        self.op().operands[n]
    }

    /// Its first result.
    pub(super) fn result(&self) -> Value {
        self.op().first_result
    }

    /// Type of its first result.
    pub(super) fn result_type(&self) -> &Type {
        self.func.ty(self.op().first_result)
    }

    /// The op that computes a value; `None` for an argument.
    pub(super) fn definition(&self, value: Value) -> Option<&Op> {
        match self.func.value(value).definition {
            Definition::Result(op, _) => Some(self.func.op(op)),
            Definition::Argument(..) => None,
        }
    }

    /// The op that computes a value, if it is of that kind.
    pub(super) fn computed_by(&self, value: Value, kind: OpKind) -> Option<&Op> {
        self.definition(value).filter(|op| op.kind() == Some(kind))
    }

    /// The elements of a constant.
    pub(super) fn constant(&self, value: Value) -> Option<&Arc<Dense>> {
        constant(self.func, value)
    }

    /// Type of a value that is an array of known shape and plain elements.
    pub(super) fn array(&self, value: Value) -> Option<&TensorType> {
        self.func.ty(value).as_tensor().filter(|ty| is_array(ty))
    }

    /// Element type of a value that is an array.
    pub(super) fn dtype(&self, value: Value) -> Option<DType> {
        self.array(value)?.element.plain()
    }

    /// Sizes of a value that is an array.
    pub(super) fn dims(&self, value: Value) -> Option<&[i64]> {
        self.array(value).map(|ty| &ty.dims[..])
    }

    /// The one element that fills a constant array.
    pub(super) fn splat(&self, value: Value) -> Option<&[u8]> {
        self.array(value)?;
        match &self.constant(value)?.data {
            DenseData::Splat(element) => Some(element),
            DenseData::Elements(_) | DenseData::Strings(_) => None,
        }
    }

    /// The integer or boolean that fills a constant array; the bit pattern for `ui64`.
    pub(super) fn int_splat(&self, value: Value) -> Option<i64> {
        let dtype = self.dtype(value)?;
        let element = self.splat(value)?;
        let ty = TensorType::new(Vec::new(), dtype);
        Dense { ty, data: DenseData::Splat(element.into()) }.to_i64s(1)?.first().copied()
    }

    /// The real number that fills a constant array.
    pub(super) fn float_splat(&self, value: Value) -> Option<f64> {
        let dtype = self.dtype(value).filter(|dtype| dtype.is_float())?;
        let mut word = [0; 8];
        let element = self.splat(value)?;
        word.get_mut(..element.len())?.copy_from_slice(element);
        decode_float(dtype, u64::from_le_bytes(word))
    }

    /// Whether a constant array is filled with this number, of whatever type; `-0.0` is not `0.0`.
    pub(super) fn is_filled_with(&self, value: Value, number: f64) -> bool {
        match self.dtype(value) {
            Some(dtype) if dtype.is_float() => self.float_splat(value).is_some_and(|x| x.to_bits() == number.to_bits()),
            Some(dtype) if dtype.is_integer() => self.int_splat(value).is_some_and(|x| x as f64 == number),
            _ => false,
        }
    }

    /// The integers of an attribute.
    pub(super) fn i64s(&self, name: &str) -> Option<Vec<i64>> {
        i64s(self.op(), name)
    }

    /// Writes an op of one result before this one.
    pub(super) fn emit(&mut self, kind: OpKind, operands: &[Value], attrs: Attrs, ty: impl Into<Type>) -> Value {
        let id = OpId(self.func.ops.len() as u32);
        let result = Value(self.func.values.len() as u32);
        self.func.values.push(ValueData { ty: ty.into(), definition: Definition::Result(id, 0), loc: None });
        let loc = self.op().loc.clone();
        self.func.ops.push(Op {
            name: OpName::Known(kind),
            operands: operands.to_vec(),
            first_result: result,
            num_results: 1,
            attrs,
            regions: Vec::new(),
            loc,
        });
        self.emitted.push(id);
        self.written.push(id);
        result
    }

    /// Writes a constant before this op.
    pub(super) fn emit_constant(&mut self, value: Dense) -> Value {
        let ty = Type::from(value.ty.clone());
        self.emit(OpKind::Constant, &[], attrs([("value", Attr::Dense(Arc::new(value)))]), ty)
    }

    /// Writes a constant filled with a number, as near as its element type has it.
    pub(super) fn emit_filled(&mut self, dims: &[i64], dtype: DType, number: f64) -> Option<Value> {
        let bytes = if dtype.is_float() {
            encode_float(dtype, number)?.to_le_bytes()
        } else if dtype.is_integer() || dtype.is_bool() {
            (number as i64).to_le_bytes()
        } else {
            return None;
        };
        let dense = Dense::splat(TensorType::new(dims, dtype), &bytes[..dtype.size_bytes()])?;
        Some(self.emit_constant(dense))
    }

    /// Writes a reshape before this op, unless the value has those sizes already.
    pub(super) fn emit_reshape(&mut self, value: Value, dims: &[i64]) -> Option<Value> {
        let ty = self.array(value)?;
        if ty.dims == dims {
            return Some(value);
        }
        let ty = TensorType::new(dims, ty.element.clone());
        Some(self.emit(OpKind::Reshape, &[value], Attrs::new(), ty))
    }

    /// Writes an op with regions before this one; regions that this op has go over to it.
    pub(super) fn emit_with_regions(
        &mut self,
        kind: OpKind,
        operands: Vec<Value>,
        results: &[Type],
        regions: Vec<Region>,
        attrs: Attrs,
    ) -> Vec<Value> {
        let id = OpId(self.func.ops.len() as u32);
        let first = self.func.values.len() as u32;
        for (n, ty) in results.iter().enumerate() {
            let definition = Definition::Result(id, n as u32);
            self.func.values.push(ValueData { ty: ty.clone(), definition, loc: None });
        }
        let loc = self.op().loc.clone();
        self.func.ops.push(Op {
            name: OpName::Known(kind),
            operands,
            first_result: Value(first),
            num_results: results.len() as u32,
            attrs,
            regions,
            loc,
        });
        self.emitted.push(id);
        self.written.push(id);
        (first..first + results.len() as u32).map(Value).collect()
    }

    /// Lets a value stand for an argument of a region of this op.
    pub(super) fn forward(&mut self, argument: Value, value: Value) {
        self.forwards.replace(self.func, argument, value);
    }

    /// Puts the ops of a region of this op in its place; returns what the region returns.
    pub(super) fn splice(&mut self, region: Region, arguments: &[Value]) -> Replacement {
        let data = self.func.region(region).clone();
        let (&last, ops) = data.ops.split_last()?;
        let types = |values: &[Value]| values.iter().map(|&value| self.func.ty(value).clone()).collect::<Vec<Type>>();
        let results: Vec<Value> = self.op().results().collect();
        if types(&data.args) != types(arguments) || types(&self.func.op(last).operands) != types(&results) {
            return None;
        }
        for (&argument, &value) in data.args.iter().zip(arguments) {
            self.forward(argument, value);
        }
        self.emitted.extend(ops);
        let returned = self.func.op(last).operands.clone();
        Some(returned.into_iter().map(|value| self.forwards.resolve(value)).collect())
    }

    /// Takes an op, with its regions, that was copied into the function but stands nowhere yet.
    pub(super) fn emit_copied(&mut self, id: OpId) {
        self.emitted.push(id);
    }
}

/// Attributes from names and values.
pub(super) fn attrs<const N: usize>(list: [(&'static str, Attr); N]) -> Attrs {
    list.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// The integers of an attribute of an op.
pub(super) fn i64s(op: &Op, name: &str) -> Option<Vec<i64>> {
    op.attr(name)?.as_i64s().map(<[i64]>::to_vec)
}

/// The elements of a constant.
pub(super) fn constant(func: &Func, value: Value) -> Option<&Arc<Dense>> {
    let Definition::Result(id, _) = func.value(value).definition else { return None };
    let op = func.op(id);
    match (op.kind()?, op.attr("value")?) {
        (OpKind::Constant, Attr::Dense(dense)) => Some(dense),
        _ => None,
    }
}

/// Whether a type is an array of known shape and plain elements, which all rules are about.
pub(super) fn is_array(ty: &TensorType) -> bool {
    ty.element.plain().is_some() && ty.encoding.is_none() && ty.num_elements().is_some()
}

/// How often each value is read.
pub(super) fn use_counts(func: &Func) -> Vec<u32> {
    let mut counts = vec![0; func.values.len()];
    for id in func.walk() {
        for operand in &func.op(id).operands {
            counts[operand.0 as usize] += 1;
        }
    }
    counts
}
