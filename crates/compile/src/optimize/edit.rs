//! Changing a function in place: new ops go before the op that needs them, and an op becomes another one of the same
//! result type, so nothing that reads it has to change.

use std::collections::HashMap;
use std::sync::Arc;

use hlo::{
    Attr, Attrs, Definition, Dense, DenseData, Func, NewOp, Op, OpId, OpKind, OpName, Region, TensorType, Value,
};
use tensor::{DType, decode_float, encode_float};

/// Visits every op of a function, region by region in the order of their ids; `visit` may write ops before the one it looks at, with [`emit`].
pub(super) fn visit_ops(func: &mut Func, mut visit: impl FnMut(&mut Func, Region, OpId)) {
    for region in (0..func.regions.len() as u32).map(Region) {
        let ops = std::mem::take(&mut func.regions[region.0 as usize].ops);
        for id in ops {
            visit(func, region, id);
            func.regions[region.0 as usize].ops.push(id);
        }
    }
}

/// Writes an op of one result at the end of what was visited.
pub(super) fn emit(
    func: &mut Func,
    region: Region,
    like: OpId,
    kind: OpKind,
    operands: &[Value],
    attrs: Attrs,
    ty: TensorType,
) -> Value {
    let new = NewOp {
        operands: operands.to_vec(),
        results: vec![ty.into()],
        attrs,
        loc: func.op(like).loc.clone(),
        ..NewOp::new(OpName::Known(kind))
    };
    let id = func.add_op(region, new);
    func.op(id).first_result
}

/// Makes an op another one; its result keeps its type.
pub(super) fn become_op(func: &mut Func, id: OpId, kind: OpKind, operands: Vec<Value>, attrs: Attrs) {
    let op = func.op_mut(id);
    (op.name, op.operands, op.attrs) = (OpName::Known(kind), operands, attrs);
}

/// The op that computes a value; `None` for an argument.
pub(super) fn definition(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

/// The type of an array of known shape without encoding whose elements are `dtype`.
pub(super) fn array_of(func: &Func, value: Value, dtype: DType) -> Option<&TensorType> {
    let ty = func.ty(value).as_tensor()?;
    let is_plain = ty.element.plain() == Some(dtype) && ty.encoding.is_none() && ty.num_elements().is_some();
    is_plain.then_some(ty)
}

/// Whether a value of f32 holds nothing but bf16: it was one before, or it is a constant that is converted for nothing.
pub(super) fn is_narrow_already(func: &Func, value: Value) -> bool {
    definition(func, value).is_some_and(|op| match op.kind() {
        Some(OpKind::Constant) => true,
        Some(OpKind::Convert) => op.operands.iter().all(|&source| array_of(func, source, DType::BF16).is_some()),
        _ => false,
    })
}

/// Converts values of one function to bf16.
pub(super) struct Narrower {
    /// The region of each op that was there from the start.
    regions: Vec<Region>,
    /// Values that were converted where they come from.
    hoisted: HashMap<Value, Value>,
}

impl Narrower {
    pub(super) fn of(func: &Func) -> Narrower {
        let mut regions = vec![Region(0); func.ops.len()];
        for (region, data) in func.regions.iter().enumerate() {
            data.ops.iter().for_each(|id| regions[id.0 as usize] = Region(region as u32));
        }
        Narrower { regions, hoisted: HashMap::new() }
    }

    /// The value in bf16, converted before the op `like`. A value from outside the loop or branch that `like` stands in is
    /// converted where it comes from, once.
    pub(super) fn narrow(&mut self, func: &mut Func, region: Region, like: OpId, value: Value) -> Value {
        let Some(ty) = array_of(func, value, DType::F32) else { return value };
        let ty = TensorType::new(ty.dims.clone(), DType::BF16);
        if let Some(op) = definition(func, value) {
            match op.kind() {
                Some(OpKind::Convert) if array_of(func, op.operands[0], DType::BF16).is_some() => {
                    return op.operands[0];
                }
                Some(OpKind::Constant) => {
                    if let Some(dense) = op.attr("value").and_then(|attr| narrow_constant(attr, &ty)) {
                        let mut attrs = Attrs::new();
                        attrs.set("value", Attr::Dense(Arc::new(dense)));
                        return emit(func, region, like, OpKind::Constant, &[], attrs, ty);
                    }
                }
                _ => {}
            }
        }
        let home = match func.value(value).definition {
            Definition::Argument(home, _) => home,
            Definition::Result(id, _) => self.regions.get(id.0 as usize).copied().unwrap_or(region),
        };
        if home == region {
            return emit(func, region, like, OpKind::Convert, &[value], Attrs::new(), ty);
        }
        if let Some(&converted) = self.hoisted.get(&value) {
            return converted;
        }
        // Regions around this one were visited before it, so all their ops are in place.
        let at = match func.value(value).definition {
            Definition::Argument(..) => 0,
            Definition::Result(id, _) => {
                func.region(home).ops.iter().position(|&op| op == id).map_or(0, |position| position + 1)
            }
        };
        let converted = emit(func, home, like, OpKind::Convert, &[value], Attrs::new(), ty);
        let ops = &mut func.regions[home.0 as usize].ops;
        ops[at..].rotate_right(1);
        self.hoisted.insert(value, converted);
        converted
    }
}

fn narrow_constant(attr: &Attr, ty: &TensorType) -> Option<Dense> {
    let Attr::Dense(dense) = attr else { return None };
    let element = |bytes: &[u8]| {
        let bits = u32::from_le_bytes(bytes.try_into().ok()?);
        let number = decode_float(DType::F32, u64::from(bits))?;
        Some((encode_float(DType::BF16, number)? as u16).to_le_bytes())
    };
    match &dense.data {
        DenseData::Splat(bytes) => Dense::splat(ty.clone(), &element(bytes)?),
        DenseData::Elements(bytes) => {
            let mut narrow = Vec::with_capacity(bytes.len() / 2);
            for bytes in bytes.chunks_exact(4) {
                narrow.extend(element(bytes)?);
            }
            Dense::from_elements(ty.clone(), narrow)
        }
        DenseData::Strings(_) => None,
    }
}
