//! Finds mixtures of experts that run every expert on every token and weigh what comes out, and runs the chosen experts only, forward
//! and backward; and those that give every expert a number of slots (`capacity`).
//!
//! The weights must be one-hot vectors of a `top_k` times probabilities, summed over the choices: all others are zero. From the matmuls
//! that read them every op is followed back to the matmuls with the matrices of experts; these become grouped matmuls over sorted rows.

mod capacity;
mod choice;
mod matrix;
mod sorted;
mod text;
mod walk;
mod write;

use std::collections::HashMap;

use chips::Generation;
use hlo::passes::{Options, Partitioned};
use hlo::{Func, Region, Verified};

use capacity::capacities;

use super::devices::{Devices, Split};
use super::finished;
use super::ops::Ops;
use super::write::Decompositions;
use crate::error::Error;
use sorted::{IN_TURNS, Parts, RowAxes, split};
use walk::{Walk, choice};
use write::Mixture;

/// A program in which chosen experts are grouped matmuls.
#[derive(Clone, Debug)]
pub struct RecognisedExperts {
    /// The program.
    pub module: Verified,
    /// Mixtures that were found, in words.
    pub found: Vec<String>,
    /// Results of matmuls that are those of grouped matmuls now, gradients included.
    pub replaced: usize,
    /// Why others stay as they are, and how many for each reason.
    pub left: Vec<(String, usize)>,
}

/// Finds mixtures of experts whose weights are those of a `top_k`, where the kernels of a generation take their sizes.
pub fn recognise_experts(module: Verified, generation: Generation) -> Result<RecognisedExperts, Error> {
    let names: Vec<&str> = crate::kernels::names().collect();
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &names, ..Options::default() };
    let mut module = hlo::passes::canonicalize(module, &options).map_err(Error::Rewrite)?.into_inner();
    let (mut found, mut replaced, mut left) = (Vec::new(), 0, HashMap::<String, usize>::new());
    let mut decompositions = Decompositions::new("chosen");
    let devices = Devices::of(&module);
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            let region = Region(n as u32);
            let data = func.regions[n].ops.clone();
            let ops = Ops::of(func, &data);
            let setting = Setting { generation, devices: &devices, region };
            for mixture in mixtures(&ops, &setting, &mut left) {
                if !mixture.write(func, region, &mut decompositions)? {
                    *left.entry(IN_TURNS.into()).or_default() += 1;
                    continue;
                }
                found.push(mixture.describe());
                replaced += mixture.replaced.len();
            }
            let data = func.regions[n].ops.clone();
            let ops = Ops::of(func, &data);
            for capacity in capacities(&ops, &setting, &mut left) {
                if !capacity.write(func, region, &mut decompositions)? {
                    *left.entry(IN_TURNS.into()).or_default() += 1;
                    continue;
                }
                found.push(capacity.describe());
                replaced += capacity.count();
            }
        }
    }
    let (module, left) = finished(module, decompositions, left, &options)?;
    Ok(RecognisedExperts { module, found, replaced, left })
}

/// Where mixtures are looked for.
struct Setting<'a> {
    generation: Generation,
    devices: &'a Devices,
    region: Region,
}

impl Setting<'_> {
    /// How a mixture is split over devices; `None` where it is on one.
    fn split(&self, func: &Func, (axes, parts): (&RowAxes, &Parts<'_>)) -> Result<Option<Split>, String> {
        match self.devices.around(func, self.region)? {
            Some(mesh) => split(func, mesh, self.generation, (axes, parts)).map(Some),
            None => Ok(None),
        }
    }
}

/// The mixtures of a region, one for each choice.
fn mixtures(ops: &Ops<'_>, setting: &Setting<'_>, left: &mut HashMap<String, usize>) -> Vec<Mixture> {
    let mut choices = Vec::new();
    for &position in ops.matmuls() {
        for found in ops.op(position).operands.iter().filter_map(|&operand| choice(ops, operand)) {
            if !choices.contains(&found) {
                choices.push(found);
            }
        }
    }
    let mut all = Vec::new();
    for (choice, tokens) in choices {
        let mut walk = Walk::new(ops, choice, tokens.clone(), setting.generation);
        let replaced: Vec<_> = ops.matmuls().iter().filter_map(|&position| walk.reader(position)).collect();
        let Walk { nodes, specs, axes, .. } = walk;
        if replaced.is_empty() {
            continue;
        }
        let mut mixture = Mixture { choice, tokens, nodes, specs, axes, replaced, split: None };
        match setting.split(ops.func, (&mixture.axes, &mixture.parts(ops.func))) {
            Ok(split) => {
                mixture.split = split;
                all.push(mixture);
            }
            Err(reason) => *left.entry(reason).or_default() += 1,
        }
    }
    all
}
