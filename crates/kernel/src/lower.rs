//! Puts kernels into a program for a device: composites that name one of ours become calls of it.

use std::sync::Arc;

use chips::Generation;
use hlo::passes::{DCE, Options, Partitioned};
use hlo::{Attr, Attrs, Func, Location, NewOp, OpId, OpKind, OpName, Region, Type, Value, Verified};
use tensor::Spec;

use crate::call::{call, static_spec, tensor_type};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernels::{self, Make, Program};

/// The device kernels are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTarget {
    /// Mosaic kernels of this crate.
    Tpu(Generation),
    /// Calls of cuDNN, kernels for Triton, and forms of plain ops that XLA's GPU compiler runs fast.
    Cuda,
    /// Forms of plain ops that the CPU device runs as one step.
    Cpu,
}

impl From<Generation> for KernelTarget {
    fn from(generation: Generation) -> Self {
        KernelTarget::Tpu(generation)
    }
}

/// A program with kernels in it.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program.
    pub module: Verified,
    /// Kernels of this crate that were put in, with their composites' names, in program order.
    pub called: Vec<(String, Kernel)>,
    /// Names of the composites that are something else now.
    pub replaced: Vec<String>,
    /// Composites of our names that stay as they are, and why.
    pub kept: Vec<(String, Error)>,
}

/// Replaces composites that name a kernel of [`kernels`] by calls of it, for a device. Composites of other names stay, and so
/// do those whose sizes the kernel does not take: their decomposition is compiled.
pub fn lower(module: Verified, target: impl Into<KernelTarget>) -> Result<Lowered, Error> {
    let target = target.into();
    let mut module = module.into_inner();
    let (mut called, mut replaced, mut kept, mut functions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for func in &mut module.funcs {
        for id in func.walk() {
            let Some(name) = composite_name(func, id) else { continue };
            // The index keeps names of functions apart.
            let function = format!("{}.{}", name.replace('.', "_"), functions.len());
            let wanted = wanted(func, id, &name, &function, target);
            if let Some(Ok(_)) = &wanted {
                replaced.push(name.clone());
            }
            match wanted {
                Some(Ok(Wanted::Kernel { kernel, tables })) => {
                    replace(func, id, &kernel, &tables);
                    called.push((name, kernel));
                    functions.extend(tables.map(|(_, table)| table));
                }
                Some(Ok(Wanted::Program(program))) => {
                    call_instead(func, id, &program.function);
                    called.extend(program.kernels.into_iter().map(|kernel| (name.clone(), kernel)));
                    functions.push(program.function);
                }
                Some(Err(error)) => kept.push((name, error)),
                None => {}
            }
        }
    }
    module.funcs.extend(functions);
    // Calls that were put in have the last numbers.
    module.funcs.iter_mut().for_each(Func::renumber);
    let module = hlo::verify(module).map_err(Error::Rewrite)?;
    // Decompositions that nothing calls any more.
    let options = Options { partitioned: Partitioned::Yes, ..Options::default() };
    let (module, _) = hlo::passes::apply(module, &[DCE], &options).map_err(Error::Rewrite)?;
    Ok(Lowered { module, called, replaced, kept })
}

fn composite_name(func: &Func, id: OpId) -> Option<String> {
    let op = func.op(id);
    if op.kind() != Some(OpKind::Composite) {
        return None;
    }
    let name = op.attr("name").and_then(Attr::as_str)?;
    name.strip_prefix(crate::composites::NAMESPACE).map(|_| name.to_owned())
}

fn is_used(func: &Func, value: Value) -> bool {
    func.ops.iter().any(|op| op.operands.contains(&value))
}

/// What takes the place of a composite.
enum Wanted {
    Kernel {
        kernel: Kernel,
        /// The operand that tables are computed from, and the function that does so.
        tables: Option<(usize, Func)>,
    },
    Program(Program),
}

/// What a composite asks for; `None` where the name is not known.
fn wanted(func: &Func, id: OpId, name: &str, function: &str, target: KernelTarget) -> Option<Result<Wanted, Error>> {
    let op = func.op(id);
    let (make, tables, generation) = match target {
        KernelTarget::Tpu(generation) => {
            let entry = kernels::by_name(name)?;
            (entry.make, entry.tables, generation)
        }
        // The generation decides blocks of our kernels only.
        KernelTarget::Cuda => (Make::Function(kernels::cuda::by_name(name)?), None, Generation::V6e),
        KernelTarget::Cpu if op.results().skip(1).any(|result| is_used(func, result)) => return None,
        KernelTarget::Cpu => (Make::Function(kernels::cpu::by_name(name)?), None, Generation::V6e),
    };
    let none = Attrs::new();
    let attributes = match op.attr("composite_attributes") {
        Some(Attr::Dict(dict)) => dict,
        _ => &none,
    };
    let operands: Option<Vec<Spec>> = op.operands.iter().map(|&value| static_spec(func.ty(value))).collect();
    let Some(operands) = operands else {
        let message = "operands of changing sizes".to_owned();
        return Some(Err(Error::Shape { kernel: "composite", message }));
    };
    let request = kernels::Request { operands: &operands, attributes, generation };
    let results: Vec<Type> = op.results().map(|value| func.ty(value).clone()).collect();
    let checked = |fits: bool, wanted: Wanted| {
        let message = format!("operands or results are not those of {name}");
        if fits { Ok(wanted) } else { Err(Error::Shape { kernel: "composite", message }) }
    };
    let checked_program = |program: Program| {
        let types = operands.iter().map(tensor_type);
        let fits = program.function.inputs.iter().cloned().eq(types) && program.function.outputs == results;
        checked(fits, Wanted::Program(program))
    };
    let made = match make {
        Make::Program(make) => make(&request, function).and_then(checked_program),
        Make::Function(make) => {
            make(&request, function).and_then(|function| checked_program(Program { function, kernels: Vec::new() }))
        }
        Make::Kernel(make) => (|| {
            let kernel = make(&request)?;
            let mut given = operands.clone();
            let tables = match tables.filter(|tables| (tables.is_given)(&request)) {
                None => None,
                Some(tables) => {
                    let function = (tables.function)(&request, function)?;
                    given.remove(tables.operand.min(given.len().saturating_sub(1)));
                    let computed: Option<Vec<Spec>> = function.outputs.iter().map(static_spec).collect();
                    given.splice(0..0, computed.unwrap_or_default());
                    Some((tables.operand, function))
                }
            };
            let fits = kernel.operands() == given && kernel.results().iter().map(tensor_type).eq(results);
            checked(fits, Wanted::Kernel { kernel, tables })
        })(),
    };
    Some(made)
}

/// The same results of another op. Its name is where the compiler and the planner look for what it is.
fn replace(func: &mut Func, id: OpId, kernel: &Kernel, tables: &Option<(usize, Func)>) {
    let mut operands = func.op(id).operands.clone();
    if let Some((operand, function)) = tables {
        let given = operands.remove((*operand).min(operands.len().saturating_sub(1)));
        let computed = call_before(func, id, function, given);
        operands.splice(0..0, computed);
    }
    let new = call(kernel, &operands);
    let op = func.op_mut(id);
    op.name = new.name;
    op.attrs = new.attrs;
    op.operands = new.operands;
    op.regions.clear();
    op.loc = Some(Arc::new(Location::Name(kernel.name.as_str().into(), op.loc.take())));
}

/// The same results of a function of the same operands.
fn call_instead(func: &mut Func, id: OpId, function: &Func) {
    let op = func.op_mut(id);
    op.name = OpName::Known(OpKind::FuncCall);
    op.attrs = calling(function);
    op.regions.clear();
}

fn calling(function: &Func) -> Attrs {
    let mut attrs = Attrs::new();
    attrs.set("callee", Attr::Symbol(function.name.clone()));
    attrs
}

/// Puts a call of a function of one argument before an op; its results.
fn call_before(func: &mut Func, id: OpId, function: &Func, argument: Value) -> Vec<Value> {
    let place = func
        .regions
        .iter()
        .enumerate()
        .find_map(|(n, region)| region.ops.iter().position(|&op| op == id).map(|at| (n, at)));
    let Some((region, at)) = place else { return Vec::new() };
    let attrs = calling(function);
    let loc = func.op(id).loc.clone();
    let op = NewOp {
        operands: vec![argument],
        results: function.outputs.clone(),
        attrs,
        loc,
        ..NewOp::new(OpName::Known(OpKind::FuncCall))
    };
    let call = func.add_op(Region(region as u32), op);
    if let Some(data) = func.regions.get_mut(region) {
        data.ops.pop();
        data.ops.insert(at, call);
    }
    func.op(call).results().collect()
}
