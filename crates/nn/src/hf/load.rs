//! Parameters from safetensors under Hugging Face names.

use std::collections::BTreeSet;

use tensor::Literal;
use trace::{Spec, Tree};
use weights::SafeTensorsFolder;

use crate::error::Error;
use crate::hf::Family;
use crate::hf::layout::{columns_of, converted, transposed};
use crate::hf::names::{Layout, Naming, Origin, is_needless, other_names};
use crate::stacked::is_stacked;

/// What a loading has found wrong, all of it before it is reported.
#[derive(Default)]
struct Findings {
    missing: Vec<String>,
    mismatched: Vec<String>,
}

/// The parameters of a model, in the order of its leaves and in their types. `model` is known by types and shapes.
///
/// Layers are stacked, matrices turned, and fused projections split as the family needs it. Errors list every tensor that
/// is missing, unexpected or of another shape.
pub fn load<P: Tree>(files: &SafeTensorsFolder, family: Family, model: &P) -> Result<Vec<Literal>, Error> {
    let mut findings = Findings::default();
    let mut used = BTreeSet::new();
    let leaves: Vec<(String, Spec)> = model.paths().into_iter().zip(model.specs()).collect();
    let naming = Naming::of(family, model);
    let mut plans = Vec::new();
    for (path, spec) in &leaves {
        let origin =
            naming.origin(path).ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
        plans.push(planned(files, family, path, spec, &origin, &mut findings, &mut used));
    }
    let unexpected: Vec<String> = files
        .entries()
        .map(|(name, _)| name)
        .filter(|name| !used.contains(*name) && !is_needless(family, name))
        .map(str::to_owned)
        .collect();
    let Findings { missing, mismatched } = findings;
    if !(missing.is_empty() && mismatched.is_empty() && unexpected.is_empty()) {
        return Err(Error::Tensors { missing, unexpected, mismatched });
    }
    leaves.iter().zip(plans).map(|((path, spec), pieces)| assembled(files, path, spec, &pieces)).collect()
}

/// One of their tensors on its way into ours.
struct Piece {
    name: String,
    layout: Layout,
    /// Shape of the part of ours.
    dims: Vec<usize>,
}

fn planned(
    files: &SafeTensorsFolder,
    family: Family,
    path: &str,
    spec: &Spec,
    origin: &Origin,
    findings: &mut Findings,
    used: &mut BTreeSet<String>,
) -> Vec<Piece> {
    let mut dims = spec.dims.as_slice();
    let mut take = |is_there: bool| match dims.split_first() {
        Some((&first, rest)) if is_there => {
            dims = rest;
            first
        }
        _ => 1,
    };
    let layers = take(is_stacked(path) && origin.is_layered());
    let experts = take(origin.has_experts());
    let dims = dims.to_vec();
    let expected = match (origin.layout, dims.as_slice()) {
        (Layout::Transposed, [rows, columns]) => vec![*columns, *rows],
        (Layout::Third(_), [rest @ .., last]) => rest.iter().copied().chain([3 * last]).collect(),
        _ => dims.clone(),
    };
    let mut pieces = Vec::new();
    for layer in 0..layers {
        for expert in 0..experts {
            let full = origin.name(layer, expert);
            let found = std::iter::once(full.clone())
                .chain(other_names(family, &full))
                .find_map(|name| files.entry(&name).map(|entry| (name, entry)));
            match found {
                None => {
                    if !findings.missing.contains(&full) {
                        findings.missing.push(full);
                    }
                }
                Some((name, entry)) => {
                    if entry.dims != expected {
                        findings.mismatched.push(format!("{name} is {:?}, not {expected:?}", entry.dims));
                    }
                    used.insert(name.clone());
                    pieces.push(Piece { name, layout: origin.layout, dims: dims.clone() });
                }
            }
        }
    }
    pieces
}

fn assembled(files: &SafeTensorsFolder, path: &str, spec: &Spec, pieces: &[Piece]) -> Result<Literal, Error> {
    let broken = |what: &str| Error::config(format!("`{path}` ({spec}): {what}"));
    let mut bytes = Vec::with_capacity(usize::try_from(spec.bytes()).unwrap_or(0));
    for piece in pieces {
        let own = files.read(&piece.name)?;
        let dtype = own.dtype();
        let own = own.into_bytes();
        let own = match (piece.layout, piece.dims.as_slice()) {
            (Layout::Transposed, [rows, columns]) => transposed(&own, *columns, *rows, dtype.size_bytes()),
            (Layout::Third(n), [.., last]) => columns_of(&own, 3 * last, n * last, *last, dtype.size_bytes()),
            _ => own,
        };
        let own = converted(own, dtype, spec.dtype);
        bytes.extend(own.ok_or_else(|| broken(&format!("{dtype} in the file cannot become {}", spec.dtype)))?);
    }
    Literal::new(spec.dtype, spec.dims.clone(), bytes).ok_or_else(|| broken("its parts have another size in all"))
}
