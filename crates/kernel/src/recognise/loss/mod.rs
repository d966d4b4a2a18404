//! Finds cross-entropy with the matmul of its logits, forward and backward, and writes it as our composites: logits exist block by block.
//!
//! Everything that reads logits must be understood (`walk.rs`): their largest, exponentials, sums, the logit of a label, and the
//! gradients of hidden states and weight. What is left over are numbers of rows, whose arithmetic stays as the program has it: mean, mask,
//! z-loss. Kernels give the logsumexp and the loss of a row. The largest logit becomes the logsumexp, so that the sum of exponentials is 1.

mod chunks;
mod terms;
mod walk;
mod write;

use std::collections::{HashMap, HashSet};

use chips::Generation;
use hlo::passes::{Options, Partitioned};
use hlo::{Attrs, Func, Region, Value, Verified};

use super::devices::{DeviceMesh, Devices, Split, SplitBy};
use super::finished;
use super::layout::{Label, Labels};
use super::ops::{Ops, sorted};
use super::write::Decompositions;
use crate::composites::{CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD};
use crate::error::Error;
use crate::kernels::{self, Make, Request};
use chunks::rows_of_chunk;
use walk::{LossSite, What, follow};
use write::{Sizes, Written, write};

/// A program in which losses are composites.
#[derive(Clone, Debug)]
pub struct RecognisedLosses {
    /// The program.
    pub module: Verified,
    /// Losses that are composites now, in words.
    pub found: Vec<String>,
    /// Why others stay as they are, and how many for each reason.
    pub left: Vec<(String, usize)>,
}

/// How a loss is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossForm {
    /// As composites of kernels: no logits in HBM, which the backward pass computes again.
    Kernels,
    /// As a loop over chunks of rows in plain ops, with gradients in the same pass. They must not depend on the loss itself.
    Chunks,
}

/// Finds cross-entropy of logits that are a matmul, where the kernels of a generation take its sizes. Labels must be one-hot comparisons:
/// gathers and scatters are to be rewritten before.
pub fn recognise_losses(module: Verified, generation: Generation, form: LossForm) -> Result<RecognisedLosses, Error> {
    let names: Vec<&str> = kernels::names().collect();
    let options = Options { partitioned: Partitioned::Yes, keep_composites: &names, ..Options::default() };
    let mut module = hlo::passes::canonicalize(module, &options).map_err(Error::Rewrite)?.into_inner();
    let mut decompositions = Decompositions::new("loss");
    let (mut found, mut left) = (Vec::new(), HashMap::<String, usize>::new());
    let devices = Devices::of(&module);
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            let setting = Setting { generation, form, devices: &devices, region: Region(n as u32) };
            losses_of(func, &setting, &mut decompositions, (&mut found, &mut left))?;
        }
    }
    let (module, left) = finished(module, decompositions, left, &options)?;
    Ok(RecognisedLosses { module, found, left })
}

/// Where losses are looked for, and how they are written.
struct Setting<'a> {
    generation: Generation,
    form: LossForm,
    devices: &'a Devices,
    region: Region,
}

/// A loss with its sizes, whole and as kernels take it, and how it is split over devices.
struct Found {
    site: LossSite,
    whole: Sizes,
    sizes: Sizes,
    split: Option<Split>,
}

/// The losses of a region, one after the other: each changes what the next one sees.
fn losses_of(
    func: &mut Func,
    setting: &Setting<'_>,
    decompositions: &mut Decompositions,
    (found, left): (&mut Vec<String>, &mut HashMap<String, usize>),
) -> Result<(), Error> {
    let (mut seen, region) = (HashSet::<Value>::new(), setting.region);
    loop {
        let order = func.region(region).ops.clone();
        let ops = Ops::of(func, &order);
        let mut next = None;
        for &position in ops.matmuls() {
            let logits = ops.op(position).first_result;
            if !seen.insert(logits) {
                continue;
            }
            match site(&ops, position, setting) {
                Ok(found) => {
                    next = Some(found);
                    break;
                }
                Err(Some(reason)) => *left.entry(reason).or_default() += 1,
                Err(None) => {}
            }
        }
        let Some(Found { site, whole, sizes, split }) = next else { return Ok(()) };
        let before = func.clone();
        let Written { replaced, new } =
            write(func, region, (&site, sizes), split.as_ref(), setting.form, decompositions)?;
        for op in &mut func.ops {
            for operand in &mut op.operands {
                *operand = replaced.get(operand).copied().unwrap_or(*operand);
            }
        }
        match sorted(func, region, &new) {
            Some(order) => {
                if let Some(data) = func.regions.get_mut(region.0 as usize) {
                    data.ops = order;
                }
                found.push(describe(&site, &whole, split.as_ref()));
            }
            None => {
                *func = before;
                *left.entry("its labels or gradients depend on its logits".into()).or_default() += 1;
            }
        }
    }
}

/// The loss of logits.
fn site(ops: &Ops<'_>, position: usize, setting: &Setting<'_>) -> Result<Found, Option<String>> {
    let site = follow(ops, position, 1).or_else(|first| follow(ops, position, 0).map_err(|other| first.or(other)))?;
    let sizes_of = |labels: &Labels| {
        Sizes::of(ops.func, &site, labels).ok_or_else(|| Some("hidden states and weight differ in type".to_owned()))
    };
    let whole = sizes_of(&site.labels)?;
    let Some(mesh) = setting.devices.around(ops.func, setting.region)? else {
        takes(&whole, has_gradients(&site), setting)?;
        return Ok(Found { site, whole, sizes: whole, split: None });
    };
    let mut reason = "no axis of the mesh splits the rows or the vocabulary of a loss".to_owned();
    let vocabulary = site.labels.leaves(&site.vocabulary);
    // Where a part of the vocabulary is too small for kernels, devices have all of it.
    for vocabulary in [vocabulary.as_slice(), &[]] {
        let Some(split) = split(mesh, &site, vocabulary) else { continue };
        let sizes = sizes_of(&split.local())?;
        match takes(&sizes, has_gradients(&site), setting) {
            Ok(()) => return Ok(Found { site, whole, sizes, split: Some(split) }),
            Err(refused) => reason = refused,
        }
    }
    Err(Some(reason))
}

/// How rows and vocabulary are split over devices.
fn split(mesh: &DeviceMesh, site: &LossSite, vocabulary: &[Label]) -> Option<Split> {
    let mut rows = site.labels.leaves(&site.rows);
    // Devices have all rows of an axis of which some are left out.
    rows.retain(|&label| site.kept.is_none_or(|kept| kept.from != label));
    let vocabulary = if vocabulary.len() == 1 { vocabulary } else { &[] };
    let of_rows = |value: Value, layout| SplitBy { value, layout, free: &rows };
    let mut arrays = vec![of_rows(site.hidden.0, &site.hidden.1)];
    arrays.extend(site.tokens.iter().map(|source| of_rows(source.value, &source.layout)));
    arrays.extend(site.stands.iter().map(|stands| of_rows(stands.value, &stands.layout)));
    arrays.push(SplitBy { value: site.weight.0, layout: &site.weight.1, free: vocabulary });
    let of_weight = site.stands.iter().filter(|stands| matches!(stands.what, What::OfWeight(_)));
    arrays.extend(of_weight.map(|stands| SplitBy { value: stands.value, layout: &stands.layout, free: vocabulary }));
    mesh.split_by(&site.labels, &arrays)
}

/// Whether a loss can be written.
fn takes(sizes: &Sizes, has_gradients: bool, setting: &Setting<'_>) -> Result<(), String> {
    match setting.form {
        LossForm::Kernels => kernels_take(sizes, has_gradients, setting.generation),
        LossForm::Chunks if rows_of_chunk(sizes).is_none() => Err("it has too few rows for chunks".into()),
        LossForm::Chunks => Ok(()),
    }
}

fn has_gradients(site: &LossSite) -> bool {
    site.stands.iter().any(|stands| matches!(stands.what, What::OfHidden(_) | What::OfWeight(_)))
}

/// Whether the kernels can be made.
fn kernels_take(sizes: &Sizes, has_gradients: bool, generation: Generation) -> Result<(), String> {
    let attributes = Attrs::new();
    let passes = [(CROSS_ENTROPY, false), (CROSS_ENTROPY_BACKWARD, true)];
    for (name, is_backward) in passes.into_iter().filter(|(_, is_backward)| has_gradients || !is_backward) {
        let operands = sizes.operands(is_backward);
        let request = Request { operands: &operands, attributes: &attributes, generation };
        if let Some(Make::Program(make)) = kernels::by_name(name).map(|entry| entry.make) {
            make(&request, "loss").map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn describe(site: &LossSite, sizes: &Sizes, split: Option<&Split>) -> String {
    let gradients = if has_gradients(site) { " with gradients" } else { "" };
    let Sizes { rows, depth, vocab, dtype, .. } = sizes;
    let devices = split.map_or_else(String::new, Split::on_each_device);
    format!("{rows} rows of {depth}, vocabulary of {vocab}, {dtype}{gradients}{devices}")
}
