//! The compiler: a verified program becomes steps over planned memory.
//!
//! `view` makes reshapes free, `fuse` decides what shares a loop, `block` orders and emits, `ops/` has the ops that are
//! steps of their own, `buffers` places every value.

mod annotation;
mod block;
mod buffers;
mod constant;
mod dots;
mod fold;
mod fuse;
mod group;
mod lanes;
mod mask;
mod narrow;
mod ops;
mod packed;
mod region;
mod softmax;
mod view;

use std::collections::HashSet;
use std::sync::Arc;

use hlo::passes::NAME_COMPOSITES;
use hlo::{Module, Op, OpKind, Type, Verified};
use tensor::BlockFormat;

use crate::error::Error;
use crate::kernels::machine::Machine;
use crate::memory::{Arena, Packing, device_bytes, device_packing};
use crate::program::{Program, ResultPort};
use block::{Lowering, Origin, PartitionPrograms};
pub use fold::evaluate as evaluate_constant;

/// Bytes one value may have: far more than a machine has, few enough that sums of sizes do not overflow.
const MAX_VALUE_BYTES: u64 = 1 << 42;

/// Composites that are the ops they are named after, where types and attributes are the op's.
const NAMED_COMPOSITES: &[&str] = &["chlo.erf", "chlo.top_k"];

/// Composites that have kernels here; where these do not take their types, the interpreter runs what they stand for.
pub(crate) const KEPT_COMPOSITES: &[&str] = &[ops::PAGED_ATTENTION, BlockFormat::MATMUL, BlockFormat::DECODE];

/// What is made of a program before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folding {
    /// Arithmetic on constants is done once.
    #[default]
    Constants,
    /// Arithmetic is left to the kernels: programs that test them have constants only.
    Nothing,
}

/// Whether an argument's memory is given to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Donation {
    /// The caller keeps it.
    Kept,
    /// It may be used for any result.
    Given,
    /// It is to be used for this result.
    GivenFor(usize),
}

/// The program with ops for the composites that are named after them. Both engines run this one: a decomposition that
/// computes something else than the op is never looked at, on XLA neither.
pub(crate) fn name_composites(module: Verified) -> Result<Verified, Error> {
    if !module.funcs.iter().flat_map(|func| &func.ops).any(|op| op.kind() == Some(OpKind::Composite)) {
        return Ok(module);
    }
    let options = hlo::passes::Options { keep_composites: NAMED_COMPOSITES, ..hlo::passes::Options::default() };
    match hlo::passes::apply(module, &[NAME_COMPOSITES], &options) {
        Ok((module, _)) => Ok(module),
        Err(error) => Err(Error::Internal(format!("naming composites broke the program: {error}"))),
    }
}

/// The program with everything removed that need not be computed.
pub(crate) fn simplify(module: Verified, folding: Folding) -> Result<Verified, Error> {
    let options = hlo::passes::Options {
        evaluate: match folding {
            Folding::Constants => Some(&fold::evaluate),
            Folding::Nothing => None,
        },
        keep_composites: KEPT_COMPOSITES,
        ..hlo::passes::Options::default()
    };
    let simplified = hlo::passes::canonicalize(annotation::remove(module)?, &options)
        .map_err(|error| Error::Internal(format!("simplification broke the program: {error}")))?;
    narrow::unconvert(simplified)
}

/// Compiles the entry function. Programs with values that have no fixed size are refused: the interpreter runs those.
pub(crate) fn compile(
    module: Arc<Module>,
    entry: &str,
    donated: &[Donation],
    machine: &Machine,
    memory: &Arc<Arena>,
) -> Result<Program, Error> {
    compile_for(module, entry, donated, machine, memory, Manual::InEveryProcess)
}

/// Who runs manual computations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manual {
    /// Every partition runs the whole program; each takes its tiles where a manual computation begins.
    InEveryProcess,
    /// One run stands for all partitions; a manual computation starts one process for each, and waits for them.
    Started {
        /// Number of partitions.
        partitions: usize,
    },
}

/// The same, for one of several partitions or for all of them.
pub(crate) fn compile_for(
    module: Arc<Module>,
    entry: &str,
    donated: &[Donation],
    machine: &Machine,
    memory: &Arc<Arena>,
    manual: Manual,
) -> Result<Program, Error> {
    let missing = || Error::Program { op: "program".into(), message: format!("there is no @{entry}") };
    let func = module.func(entry).ok_or_else(missing)?;
    let body = func.body.ok_or_else(missing)?;
    for value in &func.values {
        check_size(&value.ty)?;
    }
    if let Some(op) = func.ops.iter().find(|op| keeps_state(op)) {
        return Err(Error::Unsupported { what: format!("{} in a compiled program", op.name.as_str()) });
    }
    let kept = donated.iter().map(|donation| *donation == Donation::Kept).collect();
    let mut lowering = Lowering::new(func, machine, kept);
    if let Manual::Started { partitions: count } = manual {
        let is_manual = |op: &Op| op.kind() == Some(OpKind::SdyManualComputation);
        if module.funcs.iter().any(|other| other.name != func.name && other.ops.iter().any(is_manual)) {
            return Err(Error::Unsupported { what: "a manual computation in a function that is called".into() });
        }
        lowering.partitions = Some(PartitionPrograms { count, module: &module, memory });
    }
    let readable = packed::readable(func, &lowering.kept);
    let mut argument_bytes = Vec::with_capacity(func.inputs.len());
    for (n, &argument) in func.args().iter().enumerate() {
        let (dtype, dims) = lowering.array_type(argument)?;
        let too_large = || Error::Exhausted(format!("argument {n} of {dtype} {dims:?} is too large"));
        let bytes = device_bytes(dtype, &dims).ok_or_else(too_large)?;
        argument_bytes.push(bytes);
        let slot = lowering.slot(bytes, Origin::Argument(n));
        match device_packing(dtype) {
            Packing::Bytes => lowering.define(argument, slot),
            Packing::Bits => lowering.packed_argument(argument, slot, readable.contains(&argument))?,
        }
    }
    let returned = lowering.ops(body)?;
    let (mut results, mut ports) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for &value in &returned {
        let (dtype, dims) = lowering.array_type(value)?;
        let view = lowering.view(value)?;
        let slot = lowering.dense(&view)?;
        let data = &lowering.slots[slot.0 as usize];
        let is_own = data.origin == Origin::Step && Some(data.bytes) == device_bytes(dtype, &dims);
        // Arguments, constants and values returned twice are copied.
        let slot = match device_packing(dtype) {
            Packing::Bits => lowering.packed_result(slot, dtype, &dims)?,
            Packing::Bytes if is_own && !seen.contains(&slot) => slot,
            Packing::Bytes => lowering.write_out(&view)?,
        };
        seen.insert(slot);
        results.push(slot);
        ports.push(ResultPort { dtype, dims, argument: None });
    }
    let owned: Vec<bool> = donated.iter().map(|d| *d != Donation::Kept).collect();
    let mut steps = std::mem::take(&mut lowering.steps);
    let layout = buffers::plan(&mut steps, &lowering.slots, &results, &owned)?;
    crate::program::number(&mut steps, 0);
    for (port, argument) in ports.iter_mut().zip(&layout.reused) {
        port.argument = *argument;
    }
    let mut constants = Vec::with_capacity(lowering.constants.len());
    for bytes in &lowering.constants {
        let mut storage = memory.allocate(bytes.len())?;
        storage.fill(bytes);
        constants.push(storage);
    }
    let mut is_owned = vec![false; owned.len()];
    for place in &layout.places {
        if let crate::program::Place::OwnedArgument(n) = place {
            is_owned[*n] = true;
        }
    }
    let program = Program {
        slots: layout.places,
        slot_bytes: lowering.slots.iter().map(|slot| slot.bytes).collect(),
        constants,
        steps,
        results: ports,
        argument_bytes,
        owned: is_owned,
        arena_bytes: layout.arena_bytes,
        entry: entry.to_string(),
        description: std::sync::OnceLock::new(),
        module: module.clone(),
    };
    program.check()?;
    Ok(program)
}

/// Whether an op leaves something behind that another op of the run looks for.
fn keeps_state(op: &Op) -> bool {
    matches!(op.kind(), Some(OpKind::InterpreterProbe | OpKind::CheckExpectSerializedEq))
}

fn check_size(ty: &Type) -> Result<(), Error> {
    let unsupported = || Error::Unsupported { what: format!("a compiled value of type {ty}") };
    match ty {
        Type::Token => Ok(()),
        Type::Tensor(tensor) => {
            let mut bytes = 16u64;
            for &d in &tensor.dims {
                let size = u64::try_from(d).map_err(|_| unsupported())?;
                bytes = bytes.checked_mul(size.max(1)).filter(|&n| n <= MAX_VALUE_BYTES).ok_or_else(unsupported)?;
            }
            Ok(())
        }
        _ => Err(unsupported()),
    }
}
