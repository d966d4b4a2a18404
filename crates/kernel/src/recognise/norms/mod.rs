//! Finds RMS and layer norms, forward and backward, and writes them as our composites: one pass over HBM each.
//!
//! Every sum along some axes may begin a norm. `walk.rs` computes what follows from the rows that it is of, as sums of products;
//! `forms.rs` says which of the values that leave are results and gradients. All of them must be, or no norm is gained: means and
//! deviations would be computed twice.

mod algebra;
mod forms;
mod walk;
mod write;

use std::collections::{BTreeSet, HashMap, HashSet};

use chips::Generation;
use hlo::passes::{Options, Partitioned};
use hlo::{Func, OpKind, Region, Value, Verified};

use super::devices::Devices;
use super::finished;
use super::ops::{Ops, sorted};
use super::write::Decompositions;
use crate::error::Error;
use crate::kernels;
use walk::{Walk, constants};
use write::{Plan, plan, write};

/// A program in which norms are composites.
#[derive(Clone, Debug)]
pub struct RecognisedNorms {
    /// The program.
    pub module: Verified,
    /// Norms that are composites now.
    pub found: Vec<FoundNorm>,
    /// Why others stay as they are, and how many for each reason.
    pub left: Vec<(String, usize)>,
}

/// A norm that became composites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNorm {
    /// What it computes and its sizes, in words.
    pub description: String,
    /// Whether its result is computed.
    pub has_forward: bool,
    /// Whether its gradients are computed.
    pub has_backward: bool,
}

/// Finds RMS and layer norms and writes them as composites, where the kernels of a generation take their sizes. Functions are inlined and
/// the program simplified first.
pub fn recognise_norms(module: Verified, generation: Generation) -> Result<RecognisedNorms, Error> {
    let names: Vec<&str> = kernels::names().collect();
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &names, ..Options::default() };
    let mut module = hlo::passes::canonicalize(module, &options).map_err(Error::Rewrite)?.into_inner();
    let mut decompositions = Decompositions::new("norm");
    let (mut found, mut left) = (Vec::new(), HashMap::<String, usize>::new());
    let devices = Devices::of(&module);
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            let region = Region(n as u32);
            let plans = plans(func, region, (generation, &devices), &mut left);
            if plans.is_empty() {
                continue;
            }
            if replaced(func, region, &plans, &mut decompositions)? {
                found.extend(plans.iter().map(Plan::found));
            } else {
                *left.entry("their gradients depend on one another".into()).or_default() += plans.len();
            }
        }
    }
    let (module, left) = finished(module, decompositions, left, &options)?;
    Ok(RecognisedNorms { module, found, left })
}

/// The norms of a region.
fn plans(
    func: &Func,
    region: Region,
    (generation, devices): (Generation, &Devices),
    left: &mut HashMap<String, usize>,
) -> Vec<Plan> {
    let order = &func.region(region).ops;
    let (ops, constants) = (Ops::of(func, order), constants(func));
    let (mut plans, mut taken, mut used) = (Vec::new(), HashSet::<Value>::new(), BTreeSet::<usize>::new());
    for position in 0..order.len() {
        if ops.op(position).kind() != Some(OpKind::Reduce) || used.contains(&position) {
            continue;
        }
        let Some(mut walk) = Walk::follow(&ops, &constants, position) else { continue };
        match walk.leaving() {
            Err(None) => continue,
            Err(Some(reason)) => *left.entry(reason).or_default() += 1,
            Ok(leaving) if leaving.keys().any(|value| taken.contains(value)) => continue,
            Ok(leaving) => {
                match devices.around(func, region).and_then(|mesh| plan(&mut walk, &leaving, (generation, mesh))) {
                    Ok(plan) => {
                        taken.extend(leaving.keys());
                        plans.push(plan);
                    }
                    Err(reason) => *left.entry(reason).or_default() += 1,
                }
            }
        }
        // What is left of the rows when their mean is taken away has the same norm.
        used.extend(&walk.sums);
    }
    plans
}

/// Puts composites in place of norms; whether there is an order for all of them.
fn replaced(
    func: &mut Func,
    region: Region,
    plans: &[Plan],
    decompositions: &mut Decompositions,
) -> Result<bool, Error> {
    let before = func.clone();
    let (mut replaced, mut new) = (HashMap::<Value, Value>::new(), Vec::new());
    for plan in plans {
        let written = write(func, region, plan, decompositions)?;
        replaced.extend(written.replaced);
        new.extend(written.new);
    }
    for op in &mut func.ops {
        for operand in &mut op.operands {
            *operand = replaced.get(operand).copied().unwrap_or(*operand);
        }
    }
    let order = sorted(func, region, &new);
    let is_ordered = order.is_some();
    match (order, func.regions.get_mut(region.0 as usize)) {
        (Some(order), Some(data)) => data.ops = order,
        _ => *func = before,
    }
    Ok(is_ordered)
}
