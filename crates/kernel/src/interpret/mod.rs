//! Runs a kernel on host arrays, step by step, with windows copied in and out as the hardware does.
//!
//! What the hardware leaves undefined is poison here: NaN, or a large negative integer. That is memory nothing wrote, parts of
//! blocks beyond their array, and scratch of another core, so scratch is poisoned whenever a parallel index changes.

mod array;
mod body;
mod copy;

use tensor::{DType, Literal, Spec};

use crate::error::Error;
use crate::ir::RefId;
use crate::kernel::{BlockSpec, Kernel, KernelMemory, Reference, ReferenceRole, Semantics};
use array::Array;
use body::Machine;

/// Runs a kernel on its operands, in the order of [`Kernel::operands`]; gives its results.
pub fn interpret(kernel: &Kernel, operands: &[Literal]) -> Result<Vec<Literal>, Error> {
    let specs = kernel.operands();
    if operands.len() != specs.len() {
        return Err(Error::Arguments(format!(
            "{} takes {} operands, {} given",
            kernel.name,
            specs.len(),
            operands.len()
        )));
    }
    for (n, (spec, operand)) in specs.iter().zip(operands).enumerate() {
        let given = Spec::new(operand.dtype(), operand.dims());
        if given != *spec {
            return Err(Error::Arguments(format!("operand {n} of {} is {given}, {spec} expected", kernel.name)));
        }
    }
    let mut runner = Runner::new(kernel, operands)?;
    runner.run()?;
    runner.results()
}

struct Runner<'a> {
    kernel: &'a Kernel,
    /// Whole arrays of windows, by reference.
    arrays: Vec<Option<Array>>,
    /// What bodies see, by reference.
    memory: Vec<Array>,
    /// The block each window has, by reference.
    held: Vec<Option<Vec<i64>>>,
}

impl<'a> Runner<'a> {
    fn new(kernel: &'a Kernel, operands: &[Literal]) -> Result<Runner<'a>, Error> {
        let count = kernel.references.len();
        let mut runner =
            Runner { kernel, arrays: vec![None; count], memory: Vec::with_capacity(count), held: vec![None; count] };
        for reference in &kernel.references {
            runner.memory.push(Array::poison(&reference.block));
        }
        let mut operands = operands.iter();
        for id in kernel.arguments() {
            let (Some(reference), at) = (kernel.reference(id), id.0 as usize) else { continue };
            match &reference.role {
                ReferenceRole::Prefetch => runner.memory[at] = Array::read(next(&mut operands)?)?,
                ReferenceRole::Input(BlockSpec { part_of: Some(of), .. }) => {
                    runner.arrays[at] = runner.arrays.get(of.0 as usize).cloned().flatten();
                }
                ReferenceRole::Input(_) if reference.memory == KernelMemory::Hbm => {
                    runner.memory[at] = Array::read(next(&mut operands)?)?;
                }
                ReferenceRole::Input(_) => runner.arrays[at] = Some(Array::read(next(&mut operands)?)?),
                ReferenceRole::Output(window) => runner.arrays[at] = Some(Array::poison(&window.array)),
                ReferenceRole::Scratch => {}
            }
        }
        Ok(runner)
    }

    fn run(&mut self) -> Result<(), Error> {
        let sizes: Vec<usize> = self.kernel.grid.iter().map(|axis| axis.size).collect();
        let mut step = vec![0usize; sizes.len()];
        let mut parallel: Option<Vec<usize>> = None;
        loop {
            let now = self.parallel_indices(&step);
            if parallel.as_ref() != Some(&now) {
                self.poison_scratch();
                parallel = Some(now);
            }
            self.move_windows(&step)?;
            Machine::new(self.kernel, &self.kernel.body, &step, &mut self.memory).run()?;
            // The next step, the last axis fastest.
            let Some(axis) = (0..step.len()).rev().find(|&n| step[n] + 1 < sizes[n]) else { break };
            step[axis] += 1;
            step[axis + 1..].fill(0);
        }
        for at in 0..self.kernel.references.len() {
            self.write_back(at);
        }
        Ok(())
    }

    fn parallel_indices(&self, step: &[usize]) -> Vec<usize> {
        let axes = self.kernel.grid.iter().zip(step);
        axes.filter(|(axis, _)| axis.semantics != Semantics::Arbitrary).map(|(_, &n)| n).collect()
    }

    fn poison_scratch(&mut self) {
        for (reference, memory) in self.kernel.references.iter().zip(&mut self.memory) {
            if matches!(reference.role, ReferenceRole::Scratch) {
                *memory = Array::poison(&reference.block);
            }
        }
    }

    fn move_windows(&mut self, step: &[usize]) -> Result<(), Error> {
        for (at, reference) in self.kernel.references.iter().enumerate() {
            let Some(window) = window(reference).filter(|_| reference.memory != KernelMemory::Hbm) else { continue };
            let blocks = Machine::new(self.kernel, &window.map, step, &mut self.memory).run()?;
            let blocks: Vec<i64> = blocks.iter().map(|array| array.as_index()).collect();
            if self.held[at].as_ref() == Some(&blocks) {
                continue;
            }
            let begins = begins(self.kernel, reference, window, &blocks, step)?;
            self.write_back(at);
            let fresh = Array::poison(&reference.block);
            self.memory[at] = match (&reference.role, &self.arrays[at]) {
                (ReferenceRole::Input(_), Some(array)) => array.block(&begins, fresh),
                _ => fresh,
            };
            self.held[at] = Some(blocks);
        }
        Ok(())
    }

    /// Writes an output's block into its array.
    fn write_back(&mut self, at: usize) {
        let reference = &self.kernel.references[at];
        if let (ReferenceRole::Output(_), Some(blocks), Some(array)) =
            (&reference.role, &self.held[at], &mut self.arrays[at])
        {
            let begins: Vec<usize> =
                blocks.iter().zip(&reference.block.dims).map(|(&block, &size)| block as usize * size).collect();
            array.set_block(&begins, &self.memory[at]);
        }
    }

    fn results(self) -> Result<Vec<Literal>, Error> {
        let outputs = self.kernel.arguments().into_iter().filter(|&id| is_output(self.kernel, id));
        outputs
            .map(|id| match self.arrays.get(id.0 as usize) {
                _ if self.kernel.reference(id).is_some_and(|r| r.memory == KernelMemory::Hbm) => {
                    self.memory[id.0 as usize].write()
                }
                Some(Some(array)) => array.write(),
                _ => Err(Error::Internal("an output without an array".into())),
            })
            .collect()
    }
}

fn next<'l>(operands: &mut impl Iterator<Item = &'l Literal>) -> Result<&'l Literal, Error> {
    operands.next().ok_or_else(|| Error::Internal("operands were counted wrong".into()))
}

fn window(reference: &Reference) -> Option<&BlockSpec> {
    match &reference.role {
        ReferenceRole::Input(window) | ReferenceRole::Output(window) => Some(window),
        _ => None,
    }
}

fn is_output(kernel: &Kernel, id: RefId) -> bool {
    kernel.reference(id).is_some_and(|reference| matches!(reference.role, ReferenceRole::Output(_)))
}

/// First elements of a block; an error where all of it lies outside.
fn begins(
    kernel: &Kernel,
    reference: &Reference,
    window: &BlockSpec,
    blocks: &[i64],
    step: &[usize],
) -> Result<Vec<usize>, Error> {
    let mut begins = Vec::with_capacity(blocks.len());
    for (axis, (&block, (&size, &whole))) in
        blocks.iter().zip(reference.block.dims.iter().zip(&window.array.dims)).enumerate()
    {
        let begin = usize::try_from(block).ok().and_then(|block| block.checked_mul(size)).filter(|&b| b < whole);
        let Some(begin) = begin else {
            let message =
                format!("block {block} of {size} along dimension {axis} of {} lies outside {whole}", reference.name);
            return Err(Error::OutOfRange { kernel: kernel.name.clone(), step: step.to_vec(), message });
        };
        begins.push(begin);
    }
    Ok(begins)
}

/// Whether values of a type are kept as floats.
pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F8E4M3FN | DType::F8E5M2)
}
