//! `sdy.manual_computation`: a step takes each operand's tile, the body is steps like any others, and a last one joins tiles.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use hlo::sdy::TensorSharding;
use hlo::{Op, Type};
use tensor::{DType, Literal};

use crate::attributes::manual_shardings;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::interpret::manual::joined;
use crate::lower::block::Lowering;
use crate::memory::byte_count;
use crate::program::{Kernel, Run};
use crate::sharding::{Sharding, from_sdy};

pub(crate) fn computation(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let func = lowering.func;
    let region = func.region(op.regions[0]);
    let (before, after) = (manual_shardings(op, "in_shardings")?, manual_shardings(op, "out_shardings")?);
    let is_tensor = |value: hlo::Value| matches!(func.ty(value), Type::Tensor(_));
    let all_are = op.operands.iter().copied().chain(op.results()).all(is_tensor);
    if !all_are || before.len() != op.operands.len() || after.len() != op.num_results as usize {
        return Ok(None);
    }
    for ((&operand, &argument), sharding) in op.operands.iter().zip(&region.args).zip(before) {
        let from = lowering.dense_value(operand)?;
        let (dtype, dims) = lowering.array_type(operand)?;
        let (whole_bytes, part_bytes) = (bytes_of(lowering, operand)?, bytes_of(lowering, argument)?);
        let to = lowering.result_slot(argument)?;
        let take = Take { dtype, dims, whole_bytes, part_bytes, sharding: Spread::new(sharding) };
        lowering.step(vec![from], vec![to], take);
    }
    let returned = lowering.ops(op.regions[0])?;
    let (mut inputs, mut outputs, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for ((value, result), sharding) in returned.into_iter().zip(op.results()).zip(after) {
        inputs.push(lowering.dense_value(value)?);
        outputs.push(lowering.result_slot(result)?);
        let (dtype, dims) = lowering.array_type(value)?;
        let (part_bytes, whole_bytes) = (bytes_of(lowering, value)?, bytes_of(lowering, result)?);
        results.push(Part { dtype, dims, part_bytes, whole_bytes, sharding: Spread::new(sharding) });
    }
    lowering.step(inputs, outputs, Join { results });
    Ok(Some(()))
}

fn bytes_of(lowering: &Lowering<'_>, value: hlo::Value) -> Result<usize, Error> {
    let (dtype, dims) = lowering.array_type(value)?;
    byte_count(dtype, &dims).ok_or_else(|| Error::Exhausted(format!("an array of {dtype} {dims:?} is too large")))
}

/// One device has whole arrays: a program whose tiles are smaller is for several.
fn alone(part_bytes: usize, whole_bytes: usize) -> Result<(), Error> {
    if part_bytes == whole_bytes {
        return Ok(());
    }
    Err(Error::Arguments("a program with parts for several devices runs on one".into()))
}

/// A sharding as it is written, and over the devices there are.
struct Spread {
    written: TensorSharding,
    spread: OnceLock<Sharding>,
}

impl Spread {
    fn new(written: TensorSharding) -> Spread {
        Spread { written, spread: OnceLock::new() }
    }

    fn over(&self, run: &Run<'_>, rank: usize, partitions: usize) -> Result<&Sharding, Error> {
        if let Some(spread) = self.spread.get() {
            return Ok(spread);
        }
        let spread = from_sdy(&self.written, run.module, rank, partitions)?;
        Ok(self.spread.get_or_init(|| spread))
    }
}

/// This process's tile of an operand.
struct Take {
    dtype: DType,
    dims: Vec<usize>,
    whole_bytes: usize,
    part_bytes: usize,
    sharding: Spread,
}

impl Kernel for Take {
    fn name(&self) -> String {
        "tile".into()
    }

    fn footprint(&self) -> Option<Footprint> {
        // The tile's size is known when it is made, and compared then.
        Some(Footprint { reads: vec![self.whole_bytes], writes: vec![Written::Whole(self.part_bytes)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let count = self.whole_bytes;
        let Some(process) = run.process.clone() else {
            alone(self.part_bytes, count)?;
            // SAFETY: without other processes the tile is the operand, and as large.
            unsafe { std::ptr::copy_nonoverlapping(inputs[0], outputs[0], count) };
            return Ok(());
        };
        let sharding = self.sharding.over(run, self.dims.len(), process.grid.partitions)?;
        // SAFETY: the slot holds the operand.
        let bytes = unsafe { std::slice::from_raw_parts(inputs[0], count) }.to_vec();
        let whole = Literal::new(self.dtype, self.dims.as_slice(), bytes);
        let whole = whole.ok_or_else(|| Error::Internal("an operand of a wrong size".into()))?;
        let part = sharding.part_of(&whole, process.partition())?;
        if part.bytes().len() != self.part_bytes {
            return Err(Error::Internal(format!("a tile of {} bytes, not {}", part.bytes().len(), self.part_bytes)));
        }
        // SAFETY: the slot has room for the tile, whose bytes are its own.
        unsafe { std::ptr::copy_nonoverlapping(part.bytes().as_ptr(), outputs[0], self.part_bytes) };
        Ok(())
    }
}

/// Tiles of all processes, joined.
struct Join {
    results: Vec<Part>,
}

struct Part {
    dtype: DType,
    dims: Vec<usize>,
    part_bytes: usize,
    whole_bytes: usize,
    sharding: Spread,
}

impl Kernel for Join {
    fn name(&self) -> String {
        "join tiles".into()
    }

    fn footprint(&self) -> Option<Footprint> {
        // The sizes of what comes from others are compared when it is there.
        let writes = self.results.iter().map(|result| Written::Whole(result.whole_bytes)).collect();
        Some(Footprint { reads: self.results.iter().map(|result| result.part_bytes).collect(), writes })
    }

    fn is_deep(&self) -> bool {
        // It waits for the other processes.
        true
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let Some(process) = run.process.clone() else {
            for ((result, &from), &to) in self.results.iter().zip(inputs).zip(outputs) {
                alone(result.part_bytes, result.whole_bytes)?;
                // SAFETY: without other processes the result is the tile, and as large.
                unsafe { std::ptr::copy_nonoverlapping(from, to, result.whole_bytes) };
            }
            return Ok(());
        };
        let tile = |(result, &pointer): (&Part, &*const u8)| {
            // SAFETY: the slot holds the tile.
            let bytes = unsafe { std::slice::from_raw_parts(pointer, result.part_bytes) }.to_vec();
            let tile = Literal::new(result.dtype, result.dims.as_slice(), bytes);
            tile.ok_or_else(|| Error::Internal("a tile of a wrong size".into()))
        };
        let tiles = self.results.iter().zip(inputs).map(tile).collect::<Result<Vec<_>, Error>>()?;
        let shardings: Vec<&Sharding> = self
            .results
            .iter()
            .map(|result| result.sharding.over(run, result.dims.len(), process.grid.partitions))
            .collect::<Result<_, Error>>()?;
        let whole = joined(&process, run.options, tiles, &shardings)?;
        for ((result, literal), &pointer) in self.results.iter().zip(&whole).zip(outputs) {
            if literal.bytes().len() != result.whole_bytes {
                let (got, want) = (literal.bytes().len(), result.whole_bytes);
                return Err(Error::Internal(format!("joined tiles of {got} bytes, not {want}")));
            }
            // SAFETY: the slot has room for the result, whose bytes are their own.
            unsafe { std::ptr::copy_nonoverlapping(literal.bytes().as_ptr(), pointer, result.whole_bytes) };
        }
        Ok(())
    }
}
