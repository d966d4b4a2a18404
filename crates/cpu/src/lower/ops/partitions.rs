//! `sdy.manual_computation` in a run that stands for all partitions: its body is a program of its own, which one process for
//! each partition runs on its tiles. What is around it is computed once.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use hlo::{Func, Module, Op, Type};
use tensor::{DType, Literal};

use crate::attributes::manual_shardings;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::interpret::manual::joined_or_summed;
use crate::interpret::{GridSize, run_each};
use crate::lower::block::{Lowering, captures};
use crate::lower::{Donation, compile};
use crate::memory::{Arena, Array, Packing, Storage, byte_count, device_packing};
use crate::program::{Kernel, Program, RecordedBy, Run};
use crate::recorder::Site;
use crate::sharding::{Sharding, from_sdy};

pub(crate) fn computation(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let unsupported = |what: &str| Error::Unsupported { what: what.to_string() };
    let func = lowering.func;
    let Some(made_of) = &lowering.partitions else { return Ok(None) };
    let (count, module, memory) = (made_of.count, made_of.module, made_of.memory.clone());
    let is_tensor = |value: hlo::Value| matches!(func.ty(value), Type::Tensor(_));
    if !op.operands.iter().copied().chain(op.results()).all(is_tensor) || !captures(func, op).is_empty() {
        return Err(unsupported("a manual computation of other values than tensors"));
    }
    let body = body_of(func, op).ok_or_else(|| unsupported("a manual computation without a body"))?;
    let name = body.name.clone();
    let donated = vec![Donation::Kept; op.operands.len()];
    let mut funcs: Vec<Func> = module.funcs.iter().filter(|other| other.name != func.name).cloned().collect();
    if funcs.iter().any(|other| other.name == name) {
        return Err(unsupported("a function with the name of a manual computation"));
    }
    funcs.push(body);
    let module_of_body = Module { meshes: module.meshes.clone(), funcs, ..Module::default() };
    let program = compile(Arc::new(module_of_body), &name, &donated, lowering.machine, &memory)?;
    let spread = |name: &str, values: Vec<hlo::Value>| {
        let written = manual_shardings(op, name)?;
        if written.len() != values.len() {
            return Err(unsupported("not one sharding for each value"));
        }
        let one = |(value, sharding): (hlo::Value, &hlo::sdy::TensorSharding)| {
            let (dtype, whole) = lowering.array_type(value)?;
            let sharding = from_sdy(sharding, module, whole.len(), count)?;
            let part = sharding.tile_dims(&whole).ok_or_else(|| unsupported("tiles of different sizes"))?;
            let too_large = || Error::Exhausted(format!("an array of {dtype} {whole:?} is too large"));
            let bytes = byte_count(dtype, &whole).ok_or_else(too_large)?;
            Ok(Spread { dtype, whole, part, bytes, sharding })
        };
        values.into_iter().zip(&written).map(one).collect::<Result<Vec<_>, Error>>()
    };
    let operands = spread("in_shardings", op.operands.clone())?;
    let results = spread("out_shardings", op.results().collect())?;
    let inputs = super::dense_operands(lowering, op)?;
    let outputs = op.results().map(|result| lowering.result_slot(result)).collect::<Result<Vec<_>, _>>()?;
    lowering.step(inputs, outputs, Partitions { program, memory, count, operands, results });
    Ok(Some(()))
}

/// The body of an op as a function.
fn body_of(func: &Func, op: &Op) -> Option<Func> {
    let region = *op.regions.first()?;
    let data = func.region(region);
    let last = func.op(*data.ops.last()?);
    let mut body = func.clone();
    body.name = "manual_computation".into();
    body.inputs = data.args.iter().map(|&value| func.ty(value).clone()).collect();
    body.outputs = last.operands.iter().map(|&value| func.ty(value).clone()).collect();
    body.input_attrs = Vec::new();
    body.output_attrs = Vec::new();
    body.body = Some(region);
    body.renumber();
    Some(body)
}

/// An array and what partitions hold of it.
struct Spread {
    dtype: DType,
    whole: Vec<usize>,
    part: Vec<usize>,
    bytes: usize,
    sharding: Sharding,
}

impl Spread {
    fn is_plain(&self) -> bool {
        device_packing(self.dtype) == Packing::Bytes && self.sharding.summands == 1
    }

    /// What each partition holds of an array. Tiles that lie together in the array are not copied.
    ///
    /// # Safety
    /// `pointer` is valid for reads of the array's bytes, and nobody writes there, as long as what is returned lives.
    unsafe fn take(&self, pointer: *const u8, memory: &Arc<Arena>) -> Result<Vec<Array>, Error> {
        // SAFETY: the slot holds the array.
        let whole = unsafe { std::slice::from_raw_parts(pointer, self.bytes) };
        if !self.is_plain() {
            let literal = Literal::new(self.dtype, self.whole.as_slice(), whole.to_vec());
            let literal = literal.ok_or_else(|| Error::Internal("an operand of a wrong size".into()))?;
            return self.sharding.split(&literal)?.iter().map(|part| Array::from_literal(memory, part)).collect();
        }
        let none = || Error::Internal("a partition without a tile".into());
        let size = byte_count(self.dtype, &self.part).ok_or_else(none)?;
        let mut held: Vec<Option<Array>> = vec![None; self.sharding.partitions.len()];
        for (tile, holders) in self.sharding.partitions.chunks(self.sharding.copies().max(1)).enumerate() {
            let rows = self.sharding.rows(&self.whole, &self.part, tile, self.dtype.size_bytes());
            let storage = match rows.starts[..] {
                [start] if rows.bytes == size => {
                    let start = NonNull::from(&whole[start..start + size]).cast::<u8>();
                    // SAFETY: bytes of the slot, as the contract above says.
                    unsafe { Storage::foreign(start, size, Box::new(())) }
                }
                _ => {
                    let mut storage = memory.allocate(size)?;
                    for (to, &from) in storage.own_bytes().chunks_exact_mut(rows.bytes.max(1)).zip(&rows.starts) {
                        to.copy_from_slice(&whole[from..from + rows.bytes]);
                    }
                    storage
                }
            };
            let part = Array::new(self.dtype, self.part.clone(), Arc::new(storage));
            for &holder in holders {
                *held.get_mut(holder).ok_or_else(none)? = Some(part.clone());
            }
        }
        held.into_iter().map(|part| part.ok_or_else(none)).collect()
    }

    /// Writes the whole array from what partitions hold.
    fn write(&self, held: &[&Array], whole: &mut [u8]) -> Result<(), Error> {
        let wrong = || Error::Internal("a tile of a wrong size".into());
        if !self.is_plain() {
            let parts: Vec<Literal> = held.iter().map(|part| part.to_literal()).collect();
            let joined = joined_or_summed(&self.sharding, &parts, 0)?;
            if joined.bytes().len() != whole.len() {
                return Err(wrong());
            }
            whole.copy_from_slice(joined.bytes());
            return Ok(());
        }
        for tile in 0..self.sharding.num_tiles() {
            let part = held.get(self.sharding.holder(tile, 0, 0)).ok_or_else(wrong)?;
            if part.dims() != self.part || part.dtype() != self.dtype {
                return Err(wrong());
            }
            let rows = self.sharding.rows(&self.whole, &self.part, tile, self.dtype.size_bytes());
            for (from, &to) in part.storage().bytes().chunks_exact(rows.bytes.max(1)).zip(&rows.starts) {
                whole[to..to + rows.bytes].copy_from_slice(from);
            }
        }
        Ok(())
    }
}

/// The body of a manual computation, run by one process for each partition.
struct Partitions {
    program: Program,
    memory: Arc<Arena>,
    count: usize,
    operands: Vec<Spread>,
    results: Vec<Spread>,
}

impl Kernel for Partitions {
    fn name(&self) -> String {
        let steps = self.program.dump();
        let interpreted = steps.lines().filter(|line| line.contains("= interpret ")).count();
        format!("{} partitions of {} steps, {interpreted} interpreted", self.count, steps.lines().count())
    }

    fn footprint(&self) -> Option<Footprint> {
        let writes = self.results.iter().map(|result| Written::Whole(result.bytes)).collect();
        Some(Footprint { reads: self.operands.iter().map(|operand| operand.bytes).collect(), writes })
    }

    fn is_deep(&self) -> bool {
        // It waits for the processes.
        true
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let mut work: Vec<Vec<Array>> = vec![Vec::with_capacity(inputs.len()); self.count];
        for (operand, &pointer) in self.operands.iter().zip(inputs) {
            // SAFETY: the slot holds the operand, and nothing writes there before all processes have ended.
            let held = unsafe { operand.take(pointer, &self.memory) }?;
            work.iter_mut().zip(held).for_each(|(list, part)| list.push(part));
        }
        let size = GridSize { replicas: 1, partitions: self.count };
        let (cores, options) = (run.cores, run.options);
        let results = run_each(size, work, Vec::new(), |process, arguments| {
            let recorded_by = RecordedBy::Session(Site::default());
            self.program.run(arguments, cores, &self.memory, options, Some(process), recorded_by)
        })?;
        for (n, (result, &pointer)) in self.results.iter().zip(outputs).enumerate() {
            let held: Option<Vec<&Array>> = results.iter().map(|list| list.get(n)).collect();
            let held = held.ok_or_else(|| Error::Internal("a partition without a result".into()))?;
            // SAFETY: the slot has room for the result, and tiles are in memory of their own.
            result.write(&held, unsafe { std::slice::from_raw_parts_mut(pointer, result.bytes) })?;
        }
        Ok(())
    }
}
