//! Cross-entropy as composites: the calls of kernels that take their place.

use hlo::{Attr, Attrs, Func, FuncBuilder, OpKind, TensorType, Value, Visibility};
use tensor::{DType, Spec};

use super::{
    CrossEntropyBlockSizes, FusedCrossEntropy, KERNEL, Sum, backward, backward_weight, backward_x, decomposition,
    decomposition_of_gradients, divisor, forward,
};
use crate::call::{call, static_spec, tensor_type};
use crate::composites::{CrossEntropyAttributes, UseKernel};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernels::{PassDirection, Program, Request};

/// Calls that rows are taken in at most: each is compiled by itself.
const MOST_CALLS: usize = 16;
/// With so many rows a call, matmuls take longer than reading the weight and adding to its gradient, on every generation.
const ENOUGH_ROWS: usize = 1024;

fn read(request: &Request<'_>) -> Result<FusedCrossEntropy, Error> {
    let [rows, depth] = request.dims(KERNEL, 0)?;
    let [vocab_size, _] = request.dims(KERNEL, 1)?;
    let dtype = request.operands.first().map_or(DType::F32, |spec| spec.dtype);
    let generation = request.generation;
    let CrossEntropyAttributes { use_kernel } = CrossEntropyAttributes::of(request.attributes);
    // Two cores cannot add up both gradients together, and five matmuls take longer than the compiler's four.
    if use_kernel == UseKernel::WhereFaster && generation.spec().is_megacore() {
        return Err(Error::Slower { kernel: KERNEL, generation });
    }
    Ok(FusedCrossEntropy { rows, depth, vocab_size, dtype })
}

/// Blocks as asked for, else those to try.
fn blocks(request: &Request<'_>, loss: &FusedCrossEntropy, pass: PassDirection) -> Vec<CrossEntropyBlockSizes> {
    match (request.size("block_rows"), request.size("block_vocab")) {
        (Some(rows), Some(vocab)) => vec![CrossEntropyBlockSizes { rows, vocab }],
        _ => CrossEntropyBlockSizes::preferred(loss, pass).collect(),
    }
}

/// What is made of the first blocks that fit into VMEM, and the blocks.
fn fitting<T>(
    blocks: Vec<CrossEntropyBlockSizes>,
    loss: &FusedCrossEntropy,
    make: impl Fn(CrossEntropyBlockSizes) -> Result<T, Error>,
) -> Result<(CrossEntropyBlockSizes, T), Error> {
    let message = format!("{} rows are not whole blocks of 128", loss.rows);
    let mut refused = Error::Shape { kernel: KERNEL, message };
    for blocks in blocks {
        match make(blocks) {
            Ok(made) => return Ok((blocks, made)),
            Err(error @ Error::Vmem { .. }) => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

pub(crate) fn forward_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request)?, name)
}

pub(crate) fn backward_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition_of_gradients(&read(request)?, name)
}

pub(crate) fn forward_for(request: &Request<'_>, name: &str) -> Result<Program, Error> {
    let loss = read(request)?;
    let mut program = Written::new(request, name);
    let (blocks, kernel) = fitting(blocks(request, &loss, PassDirection::Forward), &loss, |blocks| {
        forward(&loss, blocks, request.generation)
    })?;
    let weight = program.in_blocks(&loss, &blocks)?;
    let operands = program.operands_with(weight);
    let results = program.call(&kernel, operands)?;
    Ok(program.finish(&results))
}

pub(crate) fn backward_for(request: &Request<'_>, name: &str) -> Result<Program, Error> {
    let loss = read(request)?;
    let mut program = Written::new(request, name);
    let (dx, dweight) = if request.generation.spec().is_megacore() {
        one_by_one(request, &loss, &mut program)?
    } else {
        both_gradients(request, &loss, &mut program)?
    };
    let dx = program.converted(dx, loss.dtype)?;
    let dweight = program.sliced(dweight, 0, 0..loss.vocab_size)?;
    let dweight = program.converted(dweight, loss.dtype)?;
    Ok(program.finish(&[dx, dweight]))
}

/// A call for each gradient, which two cores share.
fn one_by_one(request: &Request<'_>, loss: &FusedCrossEntropy, program: &mut Written) -> Result<(Value, Value), Error> {
    let (blocks, kernels) = fitting(blocks(request, loss, PassDirection::Backward), loss, |blocks| {
        Ok([backward_x(loss, blocks, request.generation)?, backward_weight(loss, blocks, request.generation)?])
    })?;
    let weight = program.in_blocks(loss, &blocks)?;
    let [dx, dweight] = kernels.map(|kernel| {
        let operands = program.operands_with(weight);
        program.call(&kernel, operands)
    });
    Ok((first(dx?)?, first(dweight?)?))
}

/// Calls one after the other, each for as many rows as fit into VMEM; the gradient of the weight goes through all.
fn both_gradients(
    request: &Request<'_>,
    loss: &FusedCrossEntropy,
    program: &mut Written,
) -> Result<(Value, Value), Error> {
    let (part, blocks, [begins, goes_on]) = largest(request, loss)?;
    let weight = program.in_blocks(loss, &blocks)?;
    let (mut dxs, mut so_far) = (Vec::new(), None);
    for begin in (0..loss.rows).step_by(part.rows) {
        let range = begin..begin + part.rows;
        let mut operands = program.operands_with(weight);
        for (n, axis) in [(0, 0), (2, 1), (3, 1), (4, 1), (5, 1)] {
            if let Some(operand) = operands.get_mut(n) {
                *operand = program.sliced(*operand, axis, range.clone())?;
            }
        }
        let kernel = if so_far.is_some() { &goes_on } else { &begins };
        operands.extend(so_far);
        let [dx, sum] = program.call(kernel, operands)?[..] else { return Err(missing()) };
        dxs.push(dx);
        so_far = Some(sum);
    }
    let dweight = so_far.ok_or_else(missing)?;
    Ok((program.joined(&dxs)?, dweight))
}

/// As many rows as fit into VMEM, their blocks, and the kernels of the first rows and of the others.
fn largest(
    request: &Request<'_>,
    loss: &FusedCrossEntropy,
) -> Result<(FusedCrossEntropy, CrossEntropyBlockSizes, [Kernel; 2]), Error> {
    let mut most = loss.rows;
    loop {
        let rows = divisor(loss.rows, 128, most).filter(|rows| loss.rows / rows <= MOST_CALLS).ok_or_else(|| {
            let message = format!("{} rows are not {MOST_CALLS} equal parts that fit into VMEM", loss.rows);
            Error::Shape { kernel: KERNEL, message }
        })?;
        let part = FusedCrossEntropy { rows, ..*loss };
        let mut blocks = blocks(request, &part, PassDirection::Backward);
        // Small blocks cost more than calls of fewer rows, as long as these are enough to hide what is read and written.
        if rows > ENOUGH_ROWS {
            blocks.truncate(2);
        }
        let make = |sum, blocks| backward(&part, blocks, sum, request.generation);
        match fitting(blocks, &part, |blocks| Ok([make(Sum::Begins, blocks)?, make(Sum::GoesOn, blocks)?])) {
            Ok((blocks, kernels)) => return Ok((part, blocks, kernels)),
            Err(Error::Vmem { .. }) => most = rows - 1,
            Err(error) => return Err(error),
        }
    }
}

/// A function being written, with the operands of a composite as its arguments.
struct Written {
    function: FuncBuilder,
    arguments: Vec<Value>,
    kernels: Vec<Kernel>,
}

impl Written {
    fn new(request: &Request<'_>, name: &str) -> Written {
        let mut function = FuncBuilder::new(name);
        function.visibility(Visibility::Private);
        let arguments = request.operands.iter().map(|spec| function.arg(tensor_type(spec))).collect();
        Written { function, arguments, kernels: Vec::new() }
    }

    fn finish(self, results: &[Value]) -> Program {
        Program { function: self.function.finish(results), kernels: self.kernels }
    }

    /// The arguments, with another weight.
    fn operands_with(&self, weight: Value) -> Vec<Value> {
        let mut operands = self.arguments.clone();
        if let Some(second) = operands.get_mut(1) {
            *second = weight;
        }
        operands
    }

    fn call(&mut self, kernel: &Kernel, operands: Vec<Value>) -> Result<Vec<Value>, Error> {
        let op = call(kernel, &operands);
        self.function.at(op.loc);
        let made = self.function.op_with_types(OpKind::CustomCall, &op.operands, op.attrs, &[], op.results);
        self.function.at(None);
        self.kernels.push(kernel.clone());
        made.map_err(broken)
    }

    /// The weight, with zeros up to whole blocks.
    fn in_blocks(&mut self, loss: &FusedCrossEntropy, blocks: &CrossEntropyBlockSizes) -> Result<Value, Error> {
        let weight = self.arguments.get(1).copied().ok_or_else(missing)?;
        let more = loss.padded(blocks) - loss.vocab_size;
        if more == 0 {
            return Ok(weight);
        }
        let zeros = vec![0; loss.dtype.size_bytes()];
        let zero = self.function.splat(TensorType::new(Vec::new(), loss.dtype), &zeros).map_err(broken)?;
        let attrs = attributes([
            ("edge_padding_low", Attr::i64s(vec![0, 0])),
            ("edge_padding_high", Attr::i64s(vec![more as i64, 0])),
            ("interior_padding", Attr::i64s(vec![0, 0])),
        ]);
        self.function.op(OpKind::Pad, &[weight, zero], attrs).map_err(broken)
    }

    fn spec(&self, value: Value) -> Result<Spec, Error> {
        static_spec(self.function.ty(value)).ok_or_else(missing)
    }

    fn sliced(&mut self, value: Value, axis: usize, range: std::ops::Range<usize>) -> Result<Value, Error> {
        let dims = self.spec(value)?.dims;
        if dims.get(axis) == Some(&range.len()) {
            return Ok(value);
        }
        let of = |n: usize, whole: usize, part: usize| if n == axis { part as i64 } else { whole as i64 };
        let starts: Vec<i64> = (0..dims.len()).map(|n| of(n, 0, range.start)).collect();
        let limits: Vec<i64> = dims.iter().enumerate().map(|(n, &size)| of(n, size, range.end)).collect();
        let attrs = attributes([
            ("start_indices", Attr::i64s(starts)),
            ("limit_indices", Attr::i64s(limits)),
            ("strides", Attr::i64s(vec![1; dims.len()])),
        ]);
        self.function.op(OpKind::Slice, &[value], attrs).map_err(broken)
    }

    fn joined(&mut self, parts: &[Value]) -> Result<Value, Error> {
        match parts {
            [only] => Ok(*only),
            _ => {
                let attrs = attributes([("dimension", Attr::i64(0))]);
                self.function.op(OpKind::Concatenate, parts, attrs).map_err(broken)
            }
        }
    }

    fn converted(&mut self, value: Value, dtype: DType) -> Result<Value, Error> {
        let spec = self.spec(value)?;
        if spec.dtype == dtype {
            return Ok(value);
        }
        let types = vec![tensor_type(&Spec::new(dtype, spec.dims))];
        first(self.function.op_with_types(OpKind::Convert, &[value], Attrs::new(), &[], types).map_err(broken)?)
    }
}

fn attributes<const N: usize>(list: [(&'static str, Attr); N]) -> Attrs {
    list.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn first(values: Vec<Value>) -> Result<Value, Error> {
    values.first().copied().ok_or_else(missing)
}

fn missing() -> Error {
    Error::Internal("a value of the loss is missing".into())
}

fn broken(violation: impl std::fmt::Debug) -> Error {
    Error::Internal(format!("calls of the loss: {violation:?}"))
}
