//! A group of fused ops as one loop.
#![allow(unsafe_code)]

use std::collections::HashMap;

use hlo::{Definition, OpId, OpKind, Value};
use tensor::DType;

use super::block::{Lowering, in_bytes};
use super::fuse::{Group, Map, is_row_reduction, operand_map, pull_back, reduced_dims, reduction_fold};
use super::lanes::Lanes;
use super::view::{View, array_type, is_transparent, row_major};
use crate::attributes;
use crate::error::Error;
use crate::footprint::Footprint;
use crate::kernels::loops::Ready;
use crate::kernels::loops::ir::{Access, Binary, Fold, Inst, Lane, Loop, Mode, Reg, Write};
use crate::program::{Kernel, Run, Slot};

/// Arrays of at least this many elements are brought into row order before a loop reads them against their order.
const REORDERED_FROM: usize = 1024;

/// A fused loop as a step.
pub(crate) struct LoopKernel {
    pub(crate) ready: Ready,
    pub(crate) label: String,
}

impl Kernel for LoopKernel {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn may_share(&self, input: usize, output: usize) -> bool {
        self.ready.in_place_ok(input, output)
    }

    fn footprint(&self) -> Option<Footprint> {
        self.ready.footprint()
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: the slots hold what the accesses name: the footprint says so.
        unsafe { self.ready.run(inputs, outputs, run.cores) };
        Ok(())
    }
}

/// A loop and the slots it works on.
pub(crate) struct Lowered {
    pub(crate) code: Loop,
    pub(crate) inputs: Vec<Slot>,
    pub(crate) outputs: Vec<Slot>,
    pub(crate) label: String,
}

struct Builder<'b, 'm> {
    lowering: &'b mut Lowering<'m>,
    group: &'b Group,
    /// Dimension of the loop for each dimension of the domain; `None` for sizes of 1.
    place: Vec<Option<usize>>,
    dims: Vec<usize>,
    lanes: Lanes,
    reads: Vec<Access>,
    inputs: Vec<Slot>,
    registers: HashMap<OpId, Reg>,
}

/// The loop of a group; its outputs become slots of the lowering.
pub(crate) fn lower(lowering: &mut Lowering<'_>, group: &Group) -> Result<Lowered, Error> {
    let outer = group.dims.len() - group.row_dims;
    let mut dims: Vec<usize> = Vec::new();
    let mut place = Vec::with_capacity(group.dims.len());
    for &size in &group.dims[..outer] {
        place.push((size != 1).then_some(dims.len()));
        if size != 1 {
            dims.push(size);
        }
    }
    if group.row_dims > 0 {
        place.extend(std::iter::repeat_n(Some(dims.len()), group.row_dims));
        dims.push(group.dims[outer..].iter().product());
    } else if dims.is_empty() {
        dims.push(1);
    }
    let builder = Builder {
        lowering,
        group,
        place,
        dims,
        lanes: Lanes::default(),
        reads: Vec::new(),
        inputs: Vec::new(),
        registers: HashMap::new(),
    };
    builder.build()
}

/// Whether a reduction whose result lies in the domain by `map` is along the loop's last dimension, though rows are none.
fn folds_last(group: &Group, map: &Map) -> bool {
    let last = (0..group.dims.len()).rev().find(|&d| group.dims[d] != 1);
    group.row_dims == 0 && last.is_some_and(|d| !map.contains(&Some(d as u8)))
}

impl Builder<'_, '_> {
    fn build(mut self) -> Result<Lowered, Error> {
        let func = self.lowering.func;
        let mut writes = Vec::new();
        let mut outputs = Vec::new();
        let mut kinds: Vec<&str> = Vec::new();
        // Results whose type is narrower than what they are combined in.
        let mut narrowed = Vec::new();
        let members: Vec<(OpId, Map)> = self.group.members.iter().map(|(id, map)| (*id, map.clone())).collect();
        for (id, map) in &members {
            let op = func.op(*id);
            kinds.push(op.name.as_str().rsplit('.').next().unwrap_or_default());
            let (dtype, dims) =
                array_type(func.ty(op.first_result)).ok_or_else(|| Error::Internal("a loop without a shape".into()))?;
            let is_output = self.group.outputs.contains(&op.first_result);
            if let Some(fold) = reduction_fold(func, op) {
                let operand = self.operand(op.operands[0], operand_map(func, op, 0, self.group, map))?;
                let rank = func.ty(op.operands[0]).as_tensor().map_or(0, |ty| ty.rank());
                let reduced = reduced_dims(op);
                if is_row_reduction(func, op) {
                    let mut value =
                        if reduced.is_empty() { operand } else { self.lanes.push(Inst::Reduce(fold, operand)) };
                    if !self.is_identity(op.operands[1], fold) {
                        let first = self.operand(op.operands[1], Vec::new())?;
                        value = self.lanes.binary(fold.binary(), value, first);
                    }
                    let value = self.lanes.rounded(dtype, value);
                    self.registers.insert(*id, value);
                } else {
                    let is_in_row = self.group.row_dims > 0 && reduced.contains(&(rank - 1));
                    let value = if is_in_row || folds_last(self.group, map) {
                        self.lanes.push(Inst::Reduce(fold, operand))
                    } else {
                        operand
                    };
                    let wide = widened(dtype);
                    let slot = self.lowering.fill(op.operands[1], wide, &dims)?;
                    writes.push(Write {
                        access: self.output_access(wide, &dims, map)?,
                        value,
                        mode: Mode::Combine(fold),
                    });
                    outputs.push(slot);
                    if wide == dtype {
                        self.lowering.define(op.first_result, slot);
                    } else {
                        narrowed.push((op.first_result, slot, wide));
                    }
                    continue;
                }
            } else if op.kind() == Some(OpKind::Iota) {
                let along = attributes::int(op, "iota_dimension")? as usize;
                let value = self.position(map[along].map(usize::from), dtype);
                self.registers.insert(*id, value);
            } else {
                let mut operands = Vec::with_capacity(op.operands.len());
                for (n, &value) in op.operands.iter().enumerate() {
                    operands.push(self.operand(value, operand_map(func, op, n, self.group, map))?);
                }
                let value = self.lanes.op(func, op, &operands);
                let value = value.ok_or_else(|| Error::Internal(format!("{} in a loop", op.name.as_str())))?;
                self.registers.insert(*id, value);
            }
            if is_output {
                let access = self.output_access(dtype, &dims, map)?;
                writes.push(Write { access, value: self.registers[id], mode: Mode::Store });
                outputs.push(self.lowering.result_slot(op.first_result)?);
            }
        }
        kinds.dedup();
        let label = format!("loop<{}>", kinds.join(" "));
        let code = Loop { dims: self.dims, reads: self.reads, insts: self.lanes.insts, writes };
        self.lowering.narrow_after(narrowed);
        Ok(Lowered { code, inputs: self.inputs, outputs, label })
    }

    /// The register of a value that lies in the domain by `map`.
    fn operand(&mut self, value: Value, map: Map) -> Result<Reg, Error> {
        let func = self.lowering.func;
        let (mut at, mut at_map) = (value, map.clone());
        while let Definition::Result(id, _) = func.value(at).definition {
            if let Some(&reg) = self.registers.get(&id)
                && self.group.members[&id] == at_map
            {
                return Ok(reg);
            }
            let op = func.op(id);
            if op.kind() == Some(OpKind::Constant) {
                let dtype = array_type(func.ty(at)).map(|(dtype, _)| dtype);
                if let (Some(element), Some(dtype)) = (super::constant::splat(op), dtype)
                    && let Some(reg) = self.lanes.constant(dtype, element)
                {
                    return Ok(reg);
                }
                break;
            }
            if !is_transparent(func, op) || func.ty(at).as_tensor().is_none() {
                break;
            }
            let n = if op.num_results > 1 { (at.0 - op.first_result.0) as usize } else { 0 };
            let before = op.operands[n];
            let Some(pulled) = pull_back(func, op, before, at, &at_map) else { break };
            (at, at_map) = (before, pulled);
        }
        let view = self.lowering.view(value)?;
        let access = self.access(&view, &map)?;
        let known = self.reads.iter().zip(&self.inputs).position(|(read, slot)| (read, *slot) == (&access.1, access.0));
        let n = known.unwrap_or_else(|| {
            self.reads.push(access.1);
            self.inputs.push(access.0);
            self.reads.len() - 1
        });
        Ok(self.lanes.push(Inst::Load(n as u32)))
    }

    fn is_identity(&self, value: Value, fold: Fold) -> bool {
        let func = self.lowering.func;
        let Definition::Result(id, _) = func.value(value).definition else { return false };
        let (Some(element), Some((dtype, _))) = (super::constant::splat(func.op(id)), array_type(func.ty(value)))
        else {
            return false;
        };
        super::constant::is_identity(fold, dtype, element)
    }

    /// Position along a dimension of the domain, as a value of a type.
    fn position(&mut self, dim: Option<usize>, dtype: DType) -> Reg {
        let lane = if self.dims.iter().all(|&d| d < 1 << 31) { Lane::I32 } else { Lane::I64 };
        let source = if lane == Lane::I32 { DType::I32 } else { DType::I64 };
        let constant = |lanes: &mut Lanes, value: usize| lanes.push(Inst::Const { lane, bits: value as u64 });
        let mut value = match dim.and_then(|d| self.place[d].map(|place| (d, place))) {
            None => constant(&mut self.lanes, 0),
            Some((d, place)) => {
                let mut value = self.lanes.push(Inst::Index { lane, dim: place as u32 });
                // One of several dimensions that form the row.
                let outer = self.group.dims.len() - self.group.row_dims;
                if d >= outer && self.group.row_dims > 1 {
                    let inner: usize = self.group.dims[d + 1..].iter().product();
                    let (inner, size) =
                        (constant(&mut self.lanes, inner), constant(&mut self.lanes, self.group.dims[d]));
                    value = self.lanes.binary(Binary::DivU, value, inner);
                    value = self.lanes.binary(Binary::RemU, value, size);
                }
                value
            }
        };
        if dtype != source {
            value = self.lanes.push(Inst::Convert { value, source, target: dtype });
        }
        value
    }

    fn output_access(&self, dtype: DType, dims: &[usize], map: &Map) -> Result<Access, Error> {
        let strides = self.loop_strides(&row_major(dims), map);
        let strides = strides.ok_or_else(|| Error::Internal("a loop's output does not lie in rows".into()))?;
        Ok(Access { dtype, offset: 0, strides })
    }

    /// Strides by dimensions of the loop, from those by dimensions of a value; `None` where a row is no run of equal steps.
    fn loop_strides(&self, value_strides: &[isize], map: &Map) -> Option<Vec<isize>> {
        let mut by_domain = vec![0; self.group.dims.len()];
        for (d, to) in map.iter().enumerate() {
            if let Some(to) = to {
                by_domain[usize::from(*to)] += value_strides[d];
            }
        }
        let outer = self.group.dims.len() - self.group.row_dims;
        let mut strides = vec![0; self.dims.len()];
        for (&stride, place) in by_domain[..outer].iter().zip(&self.place) {
            if let Some(place) = *place {
                strides[place] = stride;
            }
        }
        let row: Vec<usize> = (outer..self.group.dims.len()).filter(|&d| self.group.dims[d] != 1).collect();
        for pair in row.windows(2) {
            if by_domain[pair[0]] != by_domain[pair[1]] * self.group.dims[pair[1]] as isize {
                return None;
            }
        }
        if let Some(&last) = row.last() {
            strides[self.dims.len() - 1] = by_domain[last];
        }
        Some(strides)
    }

    /// How the loop reads a view.
    fn access(&mut self, view: &View, map: &Map) -> Result<(Slot, Access), Error> {
        in_bytes(view)?;
        let last = self.dims.len() - 1;
        let is_orderly = |strides: &[isize]| {
            matches!(strides[last], 0 | 1) || view.num_elements() < REORDERED_FROM || self.dims[last] == 1
        };
        if let Some(strides) = self.loop_strides(&view.strides, map).filter(|strides| is_orderly(strides)) {
            return Ok((view.slot, Access { dtype: view.dtype, offset: view.offset, strides }));
        }
        let slot = self.lowering.dense(view)?;
        if let Some(strides) = self.loop_strides(&row_major(&view.dims), map) {
            return Ok((slot, Access { dtype: view.dtype, offset: 0, strides }));
        }
        // It repeats within a row: written out over the whole domain.
        let mut strides = vec![0; self.group.dims.len()];
        for (d, to) in map.iter().enumerate() {
            if let Some(to) = to {
                strides[usize::from(*to)] = view.strides[d];
            }
        }
        let spread = View { dims: self.group.dims.clone(), strides, ..view.clone() };
        let slot = self.lowering.dense(&spread)?;
        let whole: Map = (0..self.group.dims.len()).map(|d| (self.group.dims[d] != 1).then_some(d as u8)).collect();
        let strides = self.loop_strides(&row_major(&self.group.dims), &whole);
        let strides = strides.ok_or_else(|| Error::Internal("a dense array is no run".into()))?;
        Ok((slot, Access { dtype: view.dtype, offset: 0, strides }))
    }
}

/// The type that a reduction into memory is done in.
fn widened(dtype: DType) -> DType {
    match Lane::of(dtype) {
        Some(Lane::F32) => DType::F32,
        Some(Lane::I32) if dtype == DType::U32 => DType::U32,
        Some(Lane::I32) => DType::I32,
        _ => dtype,
    }
}
