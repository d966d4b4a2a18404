//! Finds mixtures of experts that run every expert on every token and weigh what comes out, and runs the chosen experts only, forward
//! and backward; and those that give every expert a number of slots (`capacity`).
//!
//! The weights must be one-hot vectors of a `top_k` times probabilities, summed over the choices: all others are zero. From the matmuls
//! that read them every op is followed back to the matmuls with the matrices of experts; these become grouped matmuls over sorted rows.

mod capacity;
mod choice;
mod matrix;
mod text;
mod walk;
mod write;

use std::collections::HashMap;

use chips::Generation;
use hlo::passes::{Options, Partitioned};
use hlo::{Region, Verified};

use capacity::capacities;

use super::finished;
use super::ops::Ops;
use super::write::Decompositions;
use crate::error::Error;
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
    let (mut found, mut replaced, mut left) = (Vec::new(), 0, HashMap::new());
    let mut decompositions = Decompositions::new("chosen");
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            let data = func.regions[n].ops.clone();
            let ops = Ops::of(func, &data);
            for mixture in mixtures(&ops, generation) {
                found.push(mixture.describe());
                replaced += mixture.replaced.len();
                mixture.write(func, Region(n as u32), &mut decompositions)?;
            }
            let data = func.regions[n].ops.clone();
            let ops = Ops::of(func, &data);
            for capacity in capacities(&ops, generation, &mut left) {
                found.push(capacity.describe());
                replaced += capacity.count();
                capacity.write(func, Region(n as u32), &mut decompositions)?;
            }
        }
    }
    let (module, left) = finished(module, decompositions, left, &options)?;
    Ok(RecognisedExperts { module, found, replaced, left })
}

/// The mixtures of a region, one for each choice.
fn mixtures(ops: &Ops<'_>, generation: Generation) -> Vec<Mixture> {
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
        let mut walk = Walk::new(ops, choice, tokens.clone(), generation);
        let replaced: Vec<_> = ops.matmuls().iter().filter_map(|&position| walk.reader(position)).collect();
        let (nodes, specs) = (walk.nodes, walk.specs);
        if !replaced.is_empty() {
            all.push(Mixture { choice, tokens, nodes, specs, replaced });
        }
    }
    all
}
