//! Arguments and results of 2- and 4-bit integers, which the device keeps packed: who reads them so, and who needs bytes.

use std::collections::{HashMap, HashSet};

use hlo::{Func, OpId, OpKind, Value};
use tensor::DType;

use super::block::{Lowering, Origin};
use super::ops::contraction;
use super::ops::movement::run_of_bytes;
use super::ops::packing::{Pack, Unpack};
use super::view::{View, array_type, is_transparent, through};
use crate::attributes;
use crate::error::Error;
use crate::memory::{Packing, device_bytes, device_packing};
use crate::program::Slot;

/// Views between an argument and its readers that are followed.
const MAX_FOLLOWED: usize = 64;

/// Packed arguments that every op reading them reads as they are.
pub(crate) fn readable(func: &Func, kept: &[bool]) -> HashSet<Value> {
    let is_packed =
        |value: Value| array_type(func.ty(value)).is_some_and(|(dtype, _)| device_packing(dtype) == Packing::Bits);
    let arguments: Vec<(usize, Value)> =
        func.args().iter().copied().enumerate().filter(|(_, value)| is_packed(*value)).collect();
    if arguments.is_empty() {
        return HashSet::new();
    }
    let mut uses: HashMap<Value, Vec<(OpId, usize)>> = HashMap::new();
    for id in func.walk() {
        for (n, &value) in func.op(id).operands.iter().enumerate() {
            uses.entry(value).or_default().push((id, n));
        }
    }
    let is_readable = |&(n, value): &(usize, Value)| {
        let Some((dtype, dims)) = array_type(func.ty(value)) else { return false };
        let view = View { packing: Packing::Bits, ..View::dense(Slot(0), dtype, dims) };
        kept.get(n) == Some(&true) && is_read_packed(func, &uses, value, &view)
    };
    arguments.iter().filter(|argument| is_readable(argument)).map(|&(_, value)| value).collect()
}

/// Whether whatever uses a value can read it packed, given how it lies.
fn is_read_packed(func: &Func, uses: &HashMap<Value, Vec<(OpId, usize)>>, value: Value, view: &View) -> bool {
    let mut pending = vec![(value, view.clone())];
    let mut followed = 0;
    while let Some((value, view)) = pending.pop() {
        for &(id, n) in uses.get(&value).map_or(&[][..], |uses| uses) {
            let op = func.op(id);
            followed += 1;
            if followed > MAX_FOLLOWED {
                return false;
            }
            let found = match op.kind() {
                Some(OpKind::DotGeneral) if n == 1 => {
                    if !contraction::reads_packed(func, op, &view) {
                        return false;
                    }
                    continue;
                }
                Some(OpKind::DynamicSlice) if n == 0 && view.is_dense() => sliced(func, op, &view),
                _ if is_transparent(func, op) && op.num_results == 1 && op.kind() != Some(OpKind::BitcastConvert) => {
                    through(func, op, op.first_result, &view)
                }
                _ => None,
            };
            let Some(found) = found.filter(|found| found.dtype == view.dtype) else { return false };
            pending.push((op.first_result, found));
        }
    }
    true
}

/// How a slice of a packed argument lies, if it is a run of bytes.
fn sliced(func: &Func, op: &hlo::Op, view: &View) -> Option<View> {
    let sizes: Vec<usize> = attributes::ints(op, "slice_sizes").ok()?.iter().map(|&d| d as usize).collect();
    let (dtype, dims) = array_type(func.ty(op.first_result))?;
    run_of_bytes(view, &view.dims, &sizes).filter(|_| dims == sizes)?;
    Some(View { packing: view.packing, ..View::dense(view.slot, dtype, dims) })
}

impl Lowering<'_> {
    /// Gives a packed argument its place: where it lies, or bytes that a step unpacks it to.
    pub(super) fn packed_argument(&mut self, argument: Value, slot: Slot, is_readable: bool) -> Result<(), Error> {
        let (dtype, dims) = self.array_type(argument)?;
        if is_readable {
            self.define(argument, slot);
            self.pack_view(argument, Packing::Bits);
            return Ok(());
        }
        let unpacked = self.temporary(dtype, &dims)?;
        self.step(vec![slot], vec![unpacked], Unpack { dtype, count: dims.iter().product() });
        self.define(argument, unpacked);
        Ok(())
    }

    /// Says how the elements of a value lie.
    pub(crate) fn pack_view(&mut self, value: Value, packing: Packing) {
        if let Some(view) = self.views.get_mut(&value) {
            view.packing = packing;
        }
    }

    /// A fresh slot with the elements of a result packed.
    pub(super) fn packed_result(&mut self, slot: Slot, dtype: DType, dims: &[usize]) -> Result<Slot, Error> {
        let bytes = device_bytes(dtype, dims)
            .ok_or_else(|| Error::Exhausted(format!("an array of {dtype} {dims:?} is too large")))?;
        let packed = self.slot(bytes, Origin::Step);
        self.step(vec![slot], vec![packed], Pack { dtype, count: dims.iter().product() });
        Ok(packed)
    }
}
