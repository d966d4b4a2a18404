//! Puts kernels into a program for a TPU: composites that name one of ours become calls of it.

use std::sync::Arc;

use chips::Generation;
use hlo::passes::{DCE, Options, Partitioned};
use hlo::{Attr, Attrs, Func, Location, OpId, OpKind, Type, Verified};
use tensor::Spec;

use crate::call::{call, tensor_type};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernels;

/// A program with kernels in it.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program.
    pub module: Verified,
    /// Kernels that were put in, by composite's name and in program order.
    pub called: Vec<String>,
    /// Composites of our names that stay as they are, and why.
    pub kept: Vec<(String, Error)>,
}

/// Replaces composites that name a kernel of [`kernels`] by calls of it, for a generation. Composites of other names stay, and so
/// do those whose sizes the kernel does not take: their decomposition is compiled.
pub fn lower(module: Verified, generation: Generation) -> Result<Lowered, Error> {
    let mut module = module.into_inner();
    let (mut called, mut kept) = (Vec::new(), Vec::new());
    for func in &mut module.funcs {
        for id in func.walk() {
            let Some(name) = composite_name(func, id) else { continue };
            match kernel_for(func, id, &name, generation) {
                Some(Ok(kernel)) => {
                    replace(func, id, &kernel);
                    called.push(name);
                }
                Some(Err(error)) => kept.push((name, error)),
                None => {}
            }
        }
    }
    let module = hlo::verify(module).map_err(Error::Rewrite)?;
    // Decompositions that nothing calls any more.
    let options = Options { partitioned: Partitioned::Yes, ..Options::default() };
    let (module, _) = hlo::passes::apply(module, &[DCE], &options).map_err(Error::Rewrite)?;
    Ok(Lowered { module, called, kept })
}

fn composite_name(func: &Func, id: OpId) -> Option<String> {
    let op = func.op(id);
    if op.kind() != Some(OpKind::Composite) {
        return None;
    }
    let name = op.attr("name").and_then(Attr::as_str)?;
    name.strip_prefix(kernels::NAMESPACE).map(|_| name.to_owned())
}

/// The kernel a composite asks for; `None` where the name is not known.
fn kernel_for(func: &Func, id: OpId, name: &str, generation: Generation) -> Option<Result<Kernel, Error>> {
    let op = func.op(id);
    let make = kernels::by_name(name)?;
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
    let made = make(&kernels::Request { operands: &operands, attributes, generation });
    Some(made.and_then(|kernel| {
        let results: Vec<Type> = op.results().map(|value| func.ty(value).clone()).collect();
        let fits = kernel.operands() == operands && kernel.results().iter().map(tensor_type).eq(results);
        let message = format!("operands or results are not those of {name}");
        if fits { Ok(kernel) } else { Err(Error::Shape { kernel: "composite", message }) }
    }))
}

fn static_spec(ty: &Type) -> Option<Spec> {
    let tensor = ty.as_tensor()?;
    let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
    Some(Spec::new(tensor.element.plain()?, dims?))
}

/// The same operands and results; another op. Its name is where the compiler and the planner look for what it is.
fn replace(func: &mut Func, id: OpId, kernel: &Kernel) {
    let new = call(kernel, func.op(id).operands.clone());
    let op = func.op_mut(id);
    op.name = new.name;
    op.attrs = new.attrs;
    op.regions.clear();
    op.loc = Some(Arc::new(Location::Name(kernel.name.as_str().into(), op.loc.take())));
}
