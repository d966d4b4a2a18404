//! Finds attention in programs that others wrote, forward and backward, and writes it as our composites.
//!
//! [`recognise`] reads what an attention computes, not how it is written: `layout.rs` follows axes through transposes and reshapes,
//! `polynomial.rs` compares gradients as sums of products, `mask.rs` computes masks and looks at them. What is not understood to the
//! last op stays as it is, with a reason.

mod conditions;
mod devices;
mod experts;
mod facts;
mod layout;
mod lookups;
mod loss;
mod manual;
mod mask;
mod norms;
mod on_devices;
mod operands;
mod ops;
mod passes;
mod plan;
mod polynomial;
mod site;
mod write;

use std::collections::{HashMap, HashSet};

use chips::Generation;
use hlo::passes::{DCE, Options, Partitioned};
use hlo::{Func, Module, OpKind, Region, Value, Verified};

use crate::error::Error;
use devices::Devices;
pub use experts::{RecognisedExperts, recognise_experts};
pub use lookups::{RecognisedLookups, recognise_lookups};
pub use loss::{LossForm, RecognisedLosses, recognise_losses};
pub use norms::{FoundNorm, RecognisedNorms, recognise_norms};
use ops::Ops;
use passes::write;
use plan::{Plan, plan};
use site::follow;
use write::Decompositions;

/// A program in which attention is written as composites.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// The program.
    pub module: Verified,
    /// Attentions that are composites now.
    pub found: Vec<FoundAttention>,
    /// Why others stay as they are, and how many for each reason.
    pub left: Vec<(String, usize)>,
}

/// An attention that became composites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAttention {
    /// Its sizes and mask, in words.
    pub description: String,
    /// Whether its gradients are computed in the program too.
    pub has_backward: bool,
}

/// Finds attention and writes it as composites of flash attention, where the kernels of a generation take its sizes. Functions are
/// inlined and the program simplified first.
pub fn recognise(module: Verified, generation: Generation) -> Result<Recognised, Error> {
    let names: Vec<&str> = crate::kernels::names().collect();
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &names, ..Options::default() };
    let module = hlo::passes::canonicalize(module, &options).map_err(Error::Rewrite)?;
    let mut module = module.into_inner();
    let mut decompositions = Decompositions::new("found");
    let (mut found, mut left) = (Vec::new(), HashMap::<String, usize>::new());
    let devices = Devices::of(&module);
    for func in &mut module.funcs {
        for (region, plans) in plans(func, (generation, &devices), &mut left) {
            let mut replaced: Vec<(Value, Value)> = Vec::new();
            for plan in &plans {
                replaced.extend(write(func, region, plan, &mut decompositions)?);
                found.push(FoundAttention { description: plan.describe(), has_backward: plan.has_backward() });
            }
            let replaced: HashMap<Value, Value> = replaced.into_iter().collect();
            for op in &mut func.ops {
                for operand in &mut op.operands {
                    *operand = replaced.get(operand).copied().unwrap_or(*operand);
                }
            }
        }
    }
    let (module, left) = finished(module, decompositions, left, &options)?;
    Ok(Recognised { module, found, left })
}

/// A rewritten program with the decompositions of its composites, and the reasons why others stay, in order.
fn finished(
    mut module: Module,
    decompositions: Decompositions,
    left: HashMap<String, usize>,
    options: &Options<'_>,
) -> Result<(Verified, Vec<(String, usize)>), Error> {
    let taken: HashSet<_> = module.funcs.iter().map(|func| func.name.clone()).collect();
    if decompositions.functions.iter().any(|function| taken.contains(&function.name)) {
        return Err(Error::Internal("the program has functions of our names".into()));
    }
    module.funcs.extend(decompositions.functions);
    module.funcs.iter_mut().for_each(Func::renumber);
    let module = hlo::verify(module).map_err(Error::Rewrite)?;
    let (module, _) = hlo::passes::apply(module, &[DCE], options).map_err(Error::Rewrite)?;
    let mut left: Vec<(String, usize)> = left.into_iter().collect();
    left.sort();
    Ok((module, left))
}

/// The attentions of a function, by region.
fn plans(
    func: &Func,
    (generation, devices): (Generation, &Devices),
    left: &mut HashMap<String, usize>,
) -> Vec<(Region, Vec<Plan>)> {
    let mut all = Vec::new();
    for (n, data) in func.regions.iter().enumerate() {
        if !data.ops.iter().any(|&id| func.op(id).kind() == Some(OpKind::DotGeneral)) {
            continue;
        }
        let ops = Ops::of(func, &data.ops);
        let mut plans = Vec::new();
        for &position in ops.matmuls() {
            let planned = match follow(&ops, position) {
                Ok(site) => devices
                    .around(func, Region(n as u32))
                    .and_then(|mesh| plan(&ops, site, position, (generation, mesh))),
                Err(Some(reason)) => Err(reason),
                Err(None) => continue,
            };
            match planned {
                Ok(plan) => plans.push(plan),
                Err(reason) => *left.entry(reason).or_default() += 1,
            }
        }
        if !plans.is_empty() {
            all.push((Region(n as u32), plans));
        }
    }
    all
}
