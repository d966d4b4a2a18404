//! Gather and scatter.
#![allow(unsafe_code)]

use hlo::{Func, Op, Region};
use tensor::DType;

use super::dense_operands;
use super::movement::updated;
use crate::attributes;
use crate::error::Error;
use crate::footprint::Footprint;
use crate::kernels::copy::{self, Side};
use crate::kernels::gather;
use crate::kernels::loops::ir::Fold;
use crate::kernels::scalar::{self, Program};
use crate::kernels::scatter::{self, Combine, Uniqueness};
use crate::lower::block::Lowering;
use crate::lower::region;
use crate::program::{Kernel, Run};

struct Gather(gather::Plan);

pub(crate) fn gather(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let Ok(numbers) = attributes::gather_dims(op) else { return Ok(None) };
    let slice_sizes: Vec<usize> = attributes::ints(op, "slice_sizes")?.iter().map(|&d| d as usize).collect();
    let (dtype, operand) = lowering.array_type(op.operands[0])?;
    let (index, indices) = lowering.array_type(op.operands[1])?;
    let dims = gather::Dims {
        offset_dims: &numbers.offset_dims,
        collapsed_slice_dims: &numbers.collapsed_slice_dims,
        operand_batching_dims: &numbers.operand_batching_dims,
        start_indices_batching_dims: &numbers.start_indices_batching_dims,
        start_index_map: &numbers.start_index_map,
        index_vector_dim: numbers.index_vector_dim,
    };
    let plan = gather::Plan::new(&dims, &operand, &indices, index, &slice_sizes, dtype.size_bytes());
    let Some(plan) = plan else { return Ok(None) };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    lowering.step(slots, vec![result], Gather(plan));
    Ok(Some(()))
}

impl Kernel for Gather {
    fn name(&self) -> String {
        "gather".into()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.0.footprint()
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: operand, indices and result have the shapes of the plan.
        unsafe { self.0.run(inputs[0], inputs[1], outputs[0], run.cores) };
        Ok(())
    }
}

struct Scatter {
    work: Updates,
    whole: copy::Plan,
}

/// How updates meet what is there.
enum Updates {
    Plan(scatter::Plan),
    /// Element by element.
    Program {
        places: scatter::Places,
        program: Program,
        dtype: DType,
    },
}

pub(crate) fn scatter(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let func = lowering.func;
    let Ok(numbers) = attributes::scatter_dims(op) else { return Ok(None) };
    if op.operands.len() != 3 {
        return Ok(None);
    }
    let plain = |value: hlo::Value| func.ty(value).as_tensor().and_then(|ty| ty.element.plain());
    let Some(dtype) = plain(op.operands[0]) else { return Ok(None) };
    // Where the body works in a wider type, operand and updates are converted first: the interpreter does that.
    let others = [op.operands[2], op.first_result];
    if !others.into_iter().chain(func.region(op.regions[0]).args.iter().copied()).all(|v| plain(v) == Some(dtype)) {
        return Ok(None);
    }
    let (_, operand) = lowering.array_type(op.operands[0])?;
    let (index, indices) = lowering.array_type(op.operands[1])?;
    let (update, updates) = lowering.array_type(op.operands[2])?;
    // Elements are combined in the type of the operand: where an op promotes them, the interpreter does that.
    let (result, result_dims) = lowering.array_type(op.first_result)?;
    let body = func.region(op.regions[0]).args.iter().map(|&value| lowering.array_type(value).map(|(dtype, _)| dtype));
    let is_one_type = body.collect::<Result<Vec<_>, Error>>()?.iter().all(|&argument| argument == dtype);
    if !is_one_type || update != dtype || (result, &result_dims) != (dtype, &operand) {
        return Ok(None);
    }
    let dims = scatter::Dims {
        update_window_dims: &numbers.update_window_dims,
        inserted_window_dims: &numbers.inserted_window_dims,
        input_batching_dims: &numbers.input_batching_dims,
        scatter_indices_batching_dims: &numbers.scatter_indices_batching_dims,
        scatter_dims_to_operand_dims: &numbers.scatter_dims_to_operand_dims,
        index_vector_dim: numbers.index_vector_dim,
    };
    let uniqueness = if attributes::flag(op, "unique_indices") { Uniqueness::Unique } else { Uniqueness::Unknown };
    let plan = combine(func, op.regions[0])
        .and_then(|combine| scatter::Plan::new(&dims, &operand, &indices, index, &updates, dtype, combine, uniqueness));
    let work = match plan {
        Some(plan) => Updates::Plan(plan),
        None => {
            let places = scatter::Places::new(&dims, &operand, &indices, index, &updates);
            let fits = |program: &Program| {
                program.arguments == [dtype; 2] && matches!(program.results[..], [(result, _)] if result == dtype)
            };
            let program = region::program(func, op.regions[0]).filter(fits);
            let (Some(places), Some(program)) = (places, program) else { return Ok(None) };
            Updates::Program { places, program, dtype }
        }
    };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    let (width, side) = (dtype.size_bytes(), Side::dense(&operand));
    let whole = copy::Plan::new(&operand, &side, &side, width);
    lowering.step(slots, vec![result], Scatter { work, whole });
    Ok(Some(()))
}

/// What a region of a scatter does, if it is one simple thing.
fn combine(func: &Func, body: Region) -> Option<Combine> {
    let data = func.region(body);
    if let ([end], [_, update]) = (&data.ops[..], &data.args[..])
        && func.op(*end).operands == [*update]
    {
        return Some(Combine::Replace);
    }
    Some(match region::simple_fold(func, body)? {
        Fold::Sum => Combine::Add,
        Fold::Product => Combine::Multiply,
        Fold::Min | Fold::MinU => Combine::Minimum,
        Fold::Max | Fold::MaxU => Combine::Maximum,
        Fold::And => Combine::And,
        Fold::Or => Combine::Or,
        Fold::Xor => Combine::Xor,
    })
}

impl Kernel for Scatter {
    fn name(&self) -> String {
        "scatter".into()
    }

    fn may_share(&self, input: usize, _output: usize) -> bool {
        input == 0
    }

    fn footprint(&self) -> Option<Footprint> {
        let update = match &self.work {
            Updates::Plan(plan) => plan.footprint()?,
            Updates::Program { places, dtype, .. } => places.footprint(dtype.size_bytes())?,
        };
        updated(&self.whole, update)
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let (indices, updates, to) = (inputs[1], inputs[2], outputs[0]);
        if self.whole.bytes() > 0 && inputs[0] != to.cast_const() {
            // SAFETY: operand and result have the same shape and do not overlap.
            unsafe { self.whole.run(inputs[0], to, run.cores) };
        }
        match &self.work {
            // SAFETY: the arrays have the shapes of the plan.
            Updates::Plan(plan) => unsafe { plan.run(to, indices, updates, run.cores) },
            Updates::Program { places, program, dtype } => {
                let mut registers = program.registers();
                // SAFETY: the places lie within the result and the updates, by the same shapes.
                unsafe {
                    places.each(indices, &mut |place, update| {
                        let arguments = [scalar::load(*dtype, to, place), scalar::load(*dtype, updates, update)];
                        let mut result = [0];
                        program.eval(&mut registers, &arguments, &mut result);
                        scalar::store(*dtype, to, place, result[0]);
                    });
                }
            }
        }
        Ok(())
    }
}
