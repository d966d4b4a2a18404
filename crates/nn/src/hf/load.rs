//! Parameters from safetensors under Hugging Face names.

use std::collections::BTreeSet;

use tensor::Literal;
use trace::{Spec, Tree};

use crate::error::Error;
use crate::hf::layout::{columns_of, converted, transposed};
use crate::hf::names::{Layout, Naming, Origin, is_needless, other_names};
use crate::hf::{Family, TensorSource};
use crate::stacked::is_stacked;

/// What a loading has found wrong, all of it before it is reported.
#[derive(Default)]
struct Findings {
    missing: Vec<String>,
    mismatched: Vec<String>,
}

/// The parameters of a model, in the order of its leaves and in their types. `model` is known by types and shapes, with dense
/// weights: those that files have quantized are dequantized one by one. [`super::load_packed`] keeps them.
///
/// Layers are stacked, matrices turned, and fused projections split as the family needs it. Errors list every tensor that
/// is missing, unexpected or of another shape.
pub fn load<P: Tree>(files: &dyn TensorSource, family: Family, model: &P) -> Result<Vec<Literal>, Error> {
    load_with(files, family, &Naming::of(family, model), model, &[], &mut |_| None)
}

/// The parameters of one of the stacked layers below a path such as `layers` or `first.layers`, in the order of their leaves and
/// without the axis of layers.
pub fn load_layer<P: Tree>(
    files: &dyn TensorSource,
    family: Family,
    model: &P,
    stack: &str,
    layer: usize,
) -> Result<Vec<Literal>, Error> {
    let naming = Naming::of(family, model);
    let mut findings = Findings::default();
    let mut params = Vec::new();
    for (path, spec) in model.paths().into_iter().zip(model.specs()).filter(|(path, _)| is_below(path, stack)) {
        let origin = naming
            .origin(&path)
            .map(|origin| Origin { before: origin.before + layer, ..origin })
            .ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
        let one = Spec::new(spec.dtype, [&[1], spec.dims.get(1..).unwrap_or_default()].concat());
        let pieces = planned(files, family, &path, &one, &origin, &mut findings, &mut BTreeSet::new())?;
        if findings.missing.is_empty() && findings.mismatched.is_empty() {
            let literal = assembled(files, &path, &one, &pieces)?;
            let dims = one.dims.get(1..).unwrap_or_default().to_vec();
            params.extend(Literal::new(spec.dtype, dims, literal.into_bytes()));
        }
    }
    let Findings { missing, mismatched } = findings;
    if !(missing.is_empty() && mismatched.is_empty()) {
        return Err(Error::Tensors { missing, unexpected: Vec::new(), mismatched });
    }
    Ok(params)
}

/// Whether a path is below another.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

/// Names of the tensors that make up the parameter at a path: layers first and experts inside. A model without that parameter has
/// none.
pub fn tensor_names<P: Tree>(family: Family, model: &P, path: &str) -> Vec<String> {
    let naming = Naming::of(family, model);
    let found = model.paths().into_iter().zip(model.specs()).find(|(have, _)| have == path);
    let names = found.and_then(|(_, spec)| Some(naming.origin(path)?.names(path, &spec.dims)));
    names.unwrap_or_default()
}

/// [`load`] of a model some of whose leaves the caller has, from tensors that are `used` by them.
pub(super) fn load_with<P: Tree>(
    files: &dyn TensorSource,
    family: Family,
    naming: &Naming,
    model: &P,
    used: &[String],
    given: &mut dyn FnMut(&str) -> Option<Literal>,
) -> Result<Vec<Literal>, Error> {
    let mut findings = Findings::default();
    let mut used: BTreeSet<String> = used.iter().cloned().collect();
    let leaves: Vec<(String, Spec)> = model.paths().into_iter().zip(model.specs()).collect();
    let mut plans = Vec::new();
    for (path, spec) in &leaves {
        if let Some(literal) = given(path) {
            plans.push(Plan::Given(literal));
            continue;
        }
        let origin =
            naming.origin(path).ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
        plans.push(Plan::Read(planned(files, family, path, spec, &origin, &mut findings, &mut used)?));
    }
    let unexpected: Vec<String> =
        files.names().into_iter().filter(|name| !used.contains(name) && !is_needless(family, name)).collect();
    let Findings { missing, mismatched } = findings;
    if !(missing.is_empty() && mismatched.is_empty() && unexpected.is_empty()) {
        return Err(Error::Tensors { missing, unexpected, mismatched });
    }
    let read = leaves.iter().zip(plans).map(|((path, spec), plan)| match plan {
        Plan::Given(literal) => Ok(literal),
        Plan::Read(pieces) => assembled(files, path, spec, &pieces),
    });
    read.collect()
}

/// Where a leaf comes from.
enum Plan {
    Given(Literal),
    Read(Vec<Piece>),
}

/// One of their tensors on its way into ours.
struct Piece {
    name: String,
    layout: Layout,
    /// Shape of the part of ours.
    dims: Vec<usize>,
}

fn planned(
    files: &dyn TensorSource,
    family: Family,
    path: &str,
    spec: &Spec,
    origin: &Origin,
    findings: &mut Findings,
    used: &mut BTreeSet<String>,
) -> Result<Vec<Piece>, Error> {
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
            match found(files, family, &full) {
                None => {
                    if !findings.missing.contains(&full) {
                        findings.missing.push(full);
                    }
                }
                Some(name) => {
                    let dims_of_file = files.dims(&name)?;
                    if dims_of_file != expected {
                        findings.mismatched.push(format!("{name} is {dims_of_file:?}, not {expected:?}"));
                    }
                    used.insert(name.clone());
                    pieces.push(Piece { name, layout: origin.layout, dims: dims.clone() });
                }
            }
        }
    }
    Ok(pieces)
}

/// The name under which a tensor is in the files.
pub(super) fn found(files: &dyn TensorSource, family: Family, name: &str) -> Option<String> {
    std::iter::once(name.to_string()).chain(other_names(family, name)).find(|name| files.contains(name))
}

fn assembled(files: &dyn TensorSource, path: &str, spec: &Spec, pieces: &[Piece]) -> Result<Literal, Error> {
    let broken = |what: &str| Error::config(format!("`{path}` ({spec}): {what}"));
    let mut bytes = Vec::with_capacity(usize::try_from(spec.bytes()).unwrap_or(0));
    for piece in pieces {
        let own = files.read(&piece.name, spec.dtype)?;
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
