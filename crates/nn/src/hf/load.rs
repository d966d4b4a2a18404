//! Parameters from safetensors under Hugging Face names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tensor::{DType, Literal, transpose_rows_into};
use trace::{Spec, Tree};
use weights::{TensorRegion, zeroed_bytes};

use crate::error::Error;
use crate::hf::layout::{AxisPart, Layout, converted, part_of_axis, transposed, turned_kernel};
use crate::hf::names::{Naming, Origin, is_needless, other_names};
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
    let plans = plan_leaves(files, family, model, &DenseForms::default(), BTreeSet::new(), &|_| false)?;
    let read = |path: String| match plans.get(&path) {
        Some(plan) => plan.read(files, &path, &plan.whole()),
        None => Err(Error::config(format!("`{path}` was not planned"))),
    };
    model.paths().into_iter().map(read).collect()
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
    let naming = Naming::in_files(files, family, model);
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
            let literal = assembled(files, &path, &one, (&pieces, 1), &TensorRegion::whole(&one.dims))?;
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

/// The tensors that make up each leaf of a model, but for leaves that come from elsewhere, from tensors that are `used` by them.
/// `forms` says which lie as in the files, and which are several. Nothing is read: the error lists every tensor that is missing, unexpected or of another
/// shape.
pub(super) fn plan_leaves<P: Tree>(
    files: &dyn TensorSource,
    family: Family,
    model: &P,
    forms: &DenseForms,
    mut used: BTreeSet<String>,
    comes_from_elsewhere: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, LeafPlan>, Error> {
    let naming = Naming::in_files(files, family, model);
    let mut findings = Findings::default();
    let mut plans = BTreeMap::new();
    let leaves = model.paths().into_iter().zip(model.specs());
    for (path, spec) in leaves.filter(|(path, _)| !comes_from_elsewhere(path)) {
        let own = [(path.clone(), spec.dims.clone())];
        let members = forms.joined.get(&path).map_or(&own[..], Vec::as_slice);
        let mut of_members = Vec::new();
        for (path, dims) in members {
            let origin = naming
                .origin(path)
                .ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
            let origin = match forms.turned.contains(path) {
                true => Origin { layout: Layout::Same, ..origin },
                false => origin,
            };
            let spec = Spec::new(spec.dtype, dims.clone());
            of_members.push(planned(files, family, path, &spec, &origin, &mut findings, &mut used)?.into_iter());
        }
        // Of each layer one after the other.
        let mut pieces = Vec::new();
        while let Some(layer) = of_members.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
            pieces.extend(layer);
        }
        plans.insert(path, LeafPlan { spec, pieces, members: members.len() });
    }
    let unexpected: Vec<String> =
        files.names().into_iter().filter(|name| !used.contains(name) && !is_needless(family, name)).collect();
    let Findings { missing, mismatched } = findings;
    if !(missing.is_empty() && mismatched.is_empty() && unexpected.is_empty()) {
        return Err(Error::Tensors { missing, unexpected, mismatched });
    }
    Ok(plans)
}

/// How dense weights lie in memory, by their paths, where not as layers have them.
#[derive(Debug, Default)]
pub(super) struct DenseForms {
    /// As in the files.
    pub(super) turned: BTreeSet<String>,
    /// Several as one leaf, at the path of the first: their paths and sizes as in the files.
    pub(super) joined: BTreeMap<String, Vec<(String, Vec<usize>)>>,
}

/// Where a leaf comes from.
#[derive(Debug)]
pub(super) struct LeafPlan {
    spec: Spec,
    /// For each of the leading axes, layers first and experts inside, one of each member.
    pieces: Vec<Piece>,
    /// Parameters that are one leaf.
    members: usize,
}

impl LeafPlan {
    /// All of the leaf.
    pub(super) fn whole(&self) -> TensorRegion {
        TensorRegion::whole(&self.spec.dims)
    }

    /// A part of the leaf: of the files no more is read than it needs, where tensors are as in the model or turned.
    pub(super) fn read(&self, files: &dyn TensorSource, path: &str, part: &TensorRegion) -> Result<Literal, Error> {
        assembled(files, path, &self.spec, (&self.pieces, self.members), part)
    }
}

/// One of their tensors on its way into ours.
#[derive(Debug)]
struct Piece {
    name: String,
    layout: Layout,
    /// Which elements of its axis are ours, if not all.
    part: Option<AxisPart>,
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
    let expected = origin.dims_in_files(&dims);
    let part = dims.last().and_then(|last| origin.part(*last));
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
                    pieces.push(Piece { name, layout: origin.layout, part, dims: dims.clone() });
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

/// The part of a leaf that lies in a region, from its pieces, of which so many make up an element of the leading axes. Where they are
/// several, parts have all of them.
fn assembled(
    files: &dyn TensorSource,
    path: &str,
    spec: &Spec,
    (pieces, members): (&[Piece], usize),
    part: &TensorRegion,
) -> Result<Literal, Error> {
    let broken = |what: &str| Error::config(format!("`{path}` ({spec}): {what}"));
    let size = part.size_bytes(spec.dtype.size_bytes()).ok_or_else(|| broken("its size overflows"))?;
    let leading = spec.dims.len().saturating_sub(pieces.first().map_or(0, |piece| piece.dims.len()));
    let (Some(start), Some(inner_size)) = (part.start.get(leading..), part.size.get(leading..)) else {
        return Err(broken("a part of it has other axes"));
    };
    let inner = TensorRegion { start: start.to_vec(), size: inner_size.to_vec() };
    let is_joined = members > 1;
    if is_joined && inner_size != &spec.dims[leading..] {
        return Err(broken("a part of several joined parameters"));
    }
    let region_of = |piece: &Piece| if is_joined { TensorRegion::whole(&piece.dims) } else { inner.clone() };
    let chosen: Option<Vec<&[Piece]>> = places(&spec.dims[..leading], part)
        .into_iter()
        .map(|at| pieces.get(at.checked_mul(members)?..at.checked_add(1)?.checked_mul(members)?))
        .collect();
    let chosen = chosen.ok_or_else(|| broken("a tensor of it is missing"))?;
    let chosen: Vec<&Piece> = chosen.into_iter().flatten().collect();
    let read = |piece: &Piece| {
        let (dtype, own) = piece.read(files, spec.dtype, &region_of(piece))?;
        let own = converted(own, dtype, spec.dtype);
        own.ok_or_else(|| broken(&format!("{dtype} in the file cannot become {}", spec.dtype)))
    };
    let wrong = || broken("its parts have another size in all");
    if let &[piece] = chosen.as_slice()
        && !piece.is_direct(files, spec.dtype)
    {
        return Literal::new(spec.dtype, part.size.clone(), read(piece)?).ok_or_else(wrong);
    }
    // Each piece goes to its place, by several threads: the memory of all is touched once.
    let mut out = zeroed_bytes(size);
    let into = |job: Job<'_>, scratch: &mut Vec<u8>| -> Result<(), Error> {
        if job.piece.is_direct(files, spec.dtype) {
            return job.piece.read_into(files, spec.dtype, &job.region, job.place, scratch);
        }
        let own = read(job.piece)?;
        if own.len() != job.place.len() {
            return Err(wrong());
        }
        job.place.copy_from_slice(&own);
        Ok(())
    };
    let threads =
        if size < LARGE { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(THREADS) };
    let mut jobs = Vec::new();
    let mut rest = out.as_mut_slice();
    for piece in chosen.iter().copied() {
        let parts = if piece.is_direct(files, spec.dtype) { threads.div_ceil(chosen.len()) } else { 1 };
        let region = region_of(piece);
        let bytes = region.size_bytes(spec.dtype.size_bytes()).ok_or_else(wrong)?;
        let (place, behind) = std::mem::take(&mut rest).split_at_mut_checked(bytes).ok_or_else(wrong)?;
        rest = behind;
        jobs.extend(Job { piece, region, place }.split(parts));
    }
    if !rest.is_empty() {
        return Err(wrong());
    }
    let queue = Mutex::new(jobs.into_iter());
    let run = || -> Result<(), Error> {
        let mut scratch = Vec::new();
        loop {
            let job = queue.lock().map_err(|_| broken("a thread that read it panicked"))?.next();
            match job {
                Some(job) => into(job, &mut scratch)?,
                None => return Ok(()),
            }
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        let ended: Vec<_> = all.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let failed = || Err(broken("a thread that read it panicked"));
        ended.into_iter().fold(own, |all, end| all.and(end.unwrap_or_else(|_| failed())))
    })?;
    drop(queue);
    Literal::new(spec.dtype, part.size.clone(), out).ok_or_else(wrong)
}

/// A piece, or a part of one, and where it goes.
struct Job<'a> {
    piece: &'a Piece,
    region: TensorRegion,
    place: &'a mut [u8],
}

impl<'a> Job<'a> {
    /// The same in so many parts along the first axis.
    fn split(self, parts: usize) -> Vec<Job<'a>> {
        let Job { piece, region, place } = self;
        let (Some(&rows), Some(&start)) = (region.size.first(), region.start.first()) else {
            return vec![Job { piece, region, place }];
        };
        let share = rows.div_ceil(parts.max(1)).max(1);
        let row_bytes = place.len().checked_div(rows).unwrap_or(0);
        let of = |(n, place): (usize, &'a mut [u8])| {
            let mut region = region.clone();
            (region.start[0], region.size[0]) = (start + n * share, share.min(rows - n * share));
            Job { piece, region, place }
        };
        place.chunks_mut((share * row_bytes).max(1)).enumerate().map(of).collect()
    }
}

/// Bytes from which on several threads read a leaf.
const LARGE: usize = 1 << 22;
/// The most of them: memory is what limits them.
const THREADS: usize = 16;
/// Bytes of a matrix that are read and turned at a time, so that they stay in a core's cache.
const TURNED_BYTES: usize = 1 << 19;

/// Numbers, in row-major order, of the elements of these axes that a region reaches.
fn places(dims: &[usize], part: &TensorRegion) -> Vec<usize> {
    let mut all = vec![0];
    for ((dim, start), size) in dims.iter().zip(&part.start).zip(&part.size) {
        all = all.into_iter().flat_map(|at| (*start..start + size).map(move |next| at * dim + next)).collect();
    }
    all
}

impl Piece {
    /// Whether parts are read right into their place: of this type, as they are or turned.
    fn is_direct(&self, files: &dyn TensorSource, dtype: DType) -> bool {
        let is_plain = self.layout == Layout::Same || self.layout == Layout::Transposed && self.dims.len() <= 2;
        is_plain && files.dtype_of_parts(&self.name) == Some(dtype)
    }

    /// The part that lies in a region of ours, into its place; of matrices that are turned some rows at a time.
    fn read_into(
        &self,
        files: &dyn TensorSource,
        dtype: DType,
        inner: &TensorRegion,
        place: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (&[columns, rows], &[first_column, first_row], Layout::Transposed) =
            (inner.size.as_slice(), inner.start.as_slice(), self.layout)
        else {
            return files.read_region_into(&self.name, inner, dtype, place);
        };
        let width = dtype.size_bytes();
        let at_once = (TURNED_BYTES / (columns * width).max(1)).max(1).next_multiple_of(32).min(rows.max(1));
        for first in (0..rows).step_by(at_once) {
            let count = at_once.min(rows - first);
            let region = TensorRegion { start: vec![first_row + first, first_column], size: vec![count, columns] };
            scratch.resize(count * columns * width, 0);
            files.read_region_into(&self.name, &region, dtype, scratch)?;
            transpose_rows_into(scratch, columns, width, place, first, rows);
        }
        Ok(())
    }

    /// The part of the tensor that lies in a region of ours, in our order and the type of the file.
    fn read(&self, files: &dyn TensorSource, dtype: DType, inner: &TensorRegion) -> Result<(DType, Vec<u8>), Error> {
        let turned = |region: &TensorRegion| TensorRegion {
            start: region.start.iter().rev().copied().collect(),
            size: region.size.iter().rev().copied().collect(),
        };
        match (self.layout, inner.size.as_slice(), self.dims.as_slice()) {
            (Layout::Transposed, [rows, columns], [_, _]) => {
                let own = files.read_region(&self.name, &turned(inner), dtype)?;
                let dtype = own.dtype();
                Ok((dtype, transposed(own.bytes(), *columns, *rows, dtype.size_bytes())))
            }
            (Layout::Same, ..) | (Layout::Transposed, [] | [_], _) => {
                let own = files.read_region(&self.name, inner, dtype)?;
                Ok((own.dtype(), own.into_bytes()))
            }
            _ => {
                let own = files.read(&self.name, dtype)?;
                let dtype = own.dtype();
                let ours = self.in_our_order(own.into_bytes(), dtype.size_bytes());
                let part = Literal::new(dtype, self.dims.clone(), ours).and_then(|ours| inner.cut(&ours));
                let part = part.ok_or_else(|| Error::config(format!("`{}` has other parts", self.name)))?;
                Ok((dtype, part.into_bytes()))
            }
        }
    }

    /// What is ours of a whole tensor, in our order.
    fn in_our_order(&self, own: Vec<u8>, width: usize) -> Vec<u8> {
        match (self.layout, self.part, self.dims.as_slice()) {
            (Layout::Kernel, _, [spatial @ .., input, output]) => {
                turned_kernel(&own, [*output, *input, spatial.iter().product()], width)
            }
            (Layout::Rows(_), Some(part), [.., rows, columns]) => {
                let own = part_of_axis(&own, part.whole(*columns), rows * width, part);
                transposed(&own, *columns, *rows, width)
            }
            (Layout::Transposed, _, [.., rows, columns]) => transposed(&own, *columns, *rows, width),
            (_, Some(part), [.., last]) => part_of_axis(&own, part.whole(*last), width, part),
            _ => own,
        }
    }
}
