//! Rows sorted by the expert they chose, and what mixtures of all kinds do with them, on one device or on each of a mesh.
//!
//! Where tokens are split, a device sorts its own. Where experts are, rows of others are in no group, and devices have summands of what
//! tokens get. Where the features between two matmuls are, the second one gives summands too.

use std::collections::HashMap;

use chips::Generation;
use hlo::dims::AxisRef;
use hlo::{Func, OpId, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::matrix::{Matrix, SortedRows, lies};
use super::text::{dispatch, of_groups, on_device, take};
use super::walk::Operand;
use crate::call::{static_spec, tensor_type};
use crate::composites::{GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT, GroupedAttributes};
use crate::error::Error;
use crate::kernels::grouped::Matrices;
use crate::recognise::devices::{DeviceMesh, Split, SplitBy};
use crate::recognise::layout::{Label, Labels, Layout};
use crate::recognise::on_devices::{OnDevices, Pass};
use crate::recognise::ops::sorted;
use crate::recognise::write::{Decompositions, Writer};

/// Why experts stay as they are in a program over several devices.
const NOT_SPLIT: &str = "no axis of the mesh splits tokens, experts or hidden features of a mixture";
const TOO_SMALL: &str = "grouped matmuls do not take what one device has of a mixture of experts";
pub(super) const IN_TURNS: &str = "two mixtures of experts depend on one another";

/// What tokens have: its axes are those of tokens, and features.
#[derive(Clone)]
pub(super) struct OfTokens {
    pub(super) value: Value,
    pub(super) layout: Layout,
    pub(super) features: Vec<Label>,
}

/// The axes of a mixture.
#[derive(Clone, Default)]
pub(super) struct RowAxes {
    pub(super) labels: Labels,
    /// One after the other.
    pub(super) tokens: Vec<Vec<Label>>,
    pub(super) choice: Vec<Label>,
    pub(super) expert: Vec<Label>,
    /// Experts of an array that all devices have whole.
    pub(super) all_experts: Vec<Label>,
    /// Of each node.
    pub(super) features: Vec<Vec<Label>>,
}

impl RowAxes {
    pub(super) fn of(tokens: &[usize], choices: usize, experts: usize) -> RowAxes {
        let mut labels = Labels::default();
        let tokens = tokens.iter().map(|&size| labels.fresh(size)).collect();
        let (choice, expert, all_experts) = (labels.fresh(choices), labels.fresh(experts), labels.fresh(experts));
        RowAxes { labels, tokens, choice, expert, all_experts, features: Vec::new() }
    }

    pub(super) fn size(&self, labels: &[Label]) -> usize {
        size(&self.labels, labels)
    }

    /// Of an array of tokens and their choices, where sizes of 1 are left out or not.
    pub(super) fn of_choices(&self, dims: &[usize]) -> Layout {
        let labels = self.tokens.iter().chain([&self.choice]).flatten();
        let mut labels = self.labels.leaves(&labels.copied().collect::<Vec<_>>()).into_iter();
        dims.iter().map(|&size| if size == 1 { Vec::new() } else { labels.next().into_iter().collect() }).collect()
    }
}

pub(super) fn size(labels: &Labels, of: &[Label]) -> usize {
    labels.leaves(of).iter().map(|&label| labels.size(label)).product()
}

/// What a mixture reads and gives, as far as it says how it may be split.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// Arrays of tokens.
    pub(super) of_tokens: Vec<(Value, Layout)>,
    pub(super) matrices: Vec<&'a Matrix>,
    pub(super) gradients: Vec<OfMatrices>,
    /// Features of what tokens have.
    pub(super) outer: Vec<Label>,
    pub(super) choices: usize,
}

/// A gradient of matrices: features of both factors, and the labels of its columns.
pub(super) struct OfMatrices {
    pub(super) features: [Vec<Label>; 2],
    pub(super) columns: [Vec<Label>; 2],
    pub(super) dtype: DType,
}

/// How a mixture is split over a mesh; the reason where it is not.
pub(super) fn split(
    func: &Func,
    mesh: &DeviceMesh,
    generation: Generation,
    (axes, parts): (&RowAxes, &Parts<'_>),
) -> Result<Split, String> {
    let labels = &axes.labels;
    let bytes = |value: Value| {
        static_spec(func.ty(value)).map_or(0, |spec| spec.num_elements().saturating_mul(spec.dtype.size_bytes()))
    };
    let outer = labels.leaves(&parts.outer);
    let single = |of: &Vec<Label>| match labels.leaves(of)[..] {
        [label] if !outer.contains(&label) => Some(label),
        _ => None,
    };
    let mut hidden: Vec<Label> = axes.features.iter().filter_map(single).collect();
    // A matrix may be split along one of its dimensions of features.
    for matrix in &parts.matrices {
        let [inner, columns] = [1, 2].map(|n| labels.leaves(&matrix.labels[n]));
        if inner.iter().all(|label| hidden.contains(label)) {
            hidden.retain(|label| !columns.contains(label));
        }
    }
    let tokens: Vec<Label> = axes.tokens.iter().flat_map(|of| labels.leaves(of)).collect();
    let experts = match labels.leaves(&axes.expert)[..] {
        [label] => vec![label],
        _ => Vec::new(),
    };
    let layouts: Vec<(Value, Layout)> = parts.matrices.iter().map(|matrix| (matrix.value, matrix.layout())).collect();
    let of_tokens = |free| parts.of_tokens.iter().map(move |(value, layout)| SplitBy { value: *value, layout, free });
    let of_matrices = |free| layouts.iter().map(move |(value, layout)| SplitBy { value: *value, layout, free });
    // An axis that splits both tokens and experts: what is smaller is gathered.
    let total = |all: &[(Value, Layout)]| all.iter().map(|(value, _)| bytes(*value)).fold(0, usize::saturating_add);
    let are_large = total(&layouts) > total(&parts.of_tokens);
    let mut reason = NOT_SPLIT;
    for hidden in [hidden.as_slice(), &[]] {
        let mut arrays: Vec<SplitBy<'_>> = Vec::new();
        if are_large {
            arrays.extend(of_matrices(&experts));
        }
        arrays.extend(of_tokens(&tokens));
        arrays.extend(of_matrices(&experts));
        arrays.extend(of_matrices(hidden));
        let Some(split) = mesh.split_by(labels, &arrays) else { continue };
        reason = TOO_SMALL;
        let local = split.local();
        let rows = axes.tokens.iter().map(|of| size(&local, of)).product::<usize>() * parts.choices;
        let sorted = SortedRows { rows, experts: size(&local, &axes.expert), generation };
        let takes = |matrix: &&Matrix| {
            let sizes = [1, 2].map(|n| size(&local, &matrix.labels[n]));
            let dtype = static_spec(func.ty(matrix.value)).map(|spec| spec.dtype);
            dtype.and_then(|dtype| sorted.takes(sizes, lies(&matrix.order), dtype)).is_some()
        };
        let takes_gradient = |one: &OfMatrices| {
            let sizes = [0, 1].map(|n| size(&local, &one.features[n]));
            sorted.takes_gradient(sizes, one.dtype).is_some()
        };
        if parts.matrices.iter().all(takes) && parts.gradients.iter().all(takes_gradient) {
            let mut split = split;
            for one in &parts.gradients {
                for (columns, features) in one.columns.iter().zip(&one.features) {
                    split.split_as(columns, features);
                }
            }
            return Ok(split);
        }
    }
    Err(reason.into())
}

/// Rows sorted by expert: the token of each, its index before, where each went, and how many each expert has.
#[derive(Clone, Copy)]
struct Sorted {
    tokens: Value,
    order: Value,
    inverse: Value,
    sizes: Value,
    pass: Pass,
}

/// What experts have, `[rows, features]`.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) value: Value,
    /// Axes along which devices have summands of it.
    pub(super) summed: Vec<AxisRef>,
    /// Whether rows of no group are zero.
    is_zero: bool,
    pass: Pass,
}

/// Writes what mixtures of all kinds do with rows.
pub(super) struct SortedWriter<'a, 'b> {
    pub(super) writer: Writer<'a>,
    pub(super) decompositions: &'b mut Decompositions,
    pub(super) devices: OnDevices<'b>,
    axes: &'b RowAxes,
    choices: usize,
    sorted: Option<Sorted>,
    taken: HashMap<(Value, Layout), (Pass, Value)>,
}

pub(super) fn internal() -> Error {
    Error::Internal("axes of experts do not agree".into())
}

pub(super) fn spec(func: &Func, value: Value) -> Result<Spec, Error> {
    static_spec(func.ty(value)).ok_or_else(internal)
}

impl<'a, 'b> SortedWriter<'a, 'b> {
    pub(super) fn new(
        writer: Writer<'a>,
        decompositions: &'b mut Decompositions,
        (axes, choices): (&'b RowAxes, usize),
        split: Option<&'b Split>,
    ) -> SortedWriter<'a, 'b> {
        let devices = OnDevices::new(&writer, split, &axes.labels);
        SortedWriter { writer, decompositions, devices, axes, choices, sorted: None, taken: HashMap::new() }
    }

    /// What one device has along labels.
    pub(super) fn size(&self, labels: &[Label]) -> usize {
        size(self.devices.labels(), labels)
    }

    pub(super) fn all_tokens(&self) -> Vec<Label> {
        self.axes.tokens.iter().flat_map(|of| self.axes.labels.leaves(of)).collect()
    }

    pub(super) fn tokens(&self) -> usize {
        self.size(&self.all_tokens())
    }

    pub(super) fn rows(&self) -> usize {
        self.tokens() * self.choices
    }

    /// Axes that experts are split along.
    fn expert_axes(&self) -> Vec<AxisRef> {
        self.devices.axes_of(&self.axes.expert)
    }

    /// Axes that tokens are split along.
    pub(super) fn token_axes(&self) -> Vec<AxisRef> {
        self.devices.axes_of(&self.all_tokens())
    }

    pub(super) fn call(&mut self, text: &dyn Fn(&str) -> String, operands: Vec<Value>) -> Result<Value, Error> {
        self.writer.call(self.decompositions, text, operands)?.first().copied().ok_or_else(internal)
    }

    pub(super) fn dtype(&self, value: Value) -> Result<DType, Error> {
        Ok(spec(self.writer.func, value)?.dtype)
    }

    pub(super) fn turn_to(&mut self, pass: Pass) {
        self.devices.turn_to(&mut self.writer, pass);
    }

    pub(super) fn bring(&mut self, value: (Pass, Value)) -> Result<Value, Error> {
        self.devices.bring(&mut self.writer, value)
    }

    /// What this device has of an array, in an order of its labels.
    pub(super) fn entering(&mut self, (value, layout): (Value, &Layout), order: &[Vec<Label>]) -> Result<Value, Error> {
        let own = self.devices.enter(&mut self.writer, value, layout)?;
        self.writer.entering(self.devices.labels(), &(own, layout.clone()), order).ok_or_else(internal)
    }

    /// Sorts rows by their keys: experts, or one more than the last.
    pub(super) fn sort(&mut self, keys: Value) -> Result<(), Error> {
        let (rows, choices, experts) = (self.rows(), self.choices, self.size(&self.axes.expert));
        let mut keys = keys;
        if !self.expert_axes().is_empty() {
            let [label] = self.axes.labels.leaves(&self.axes.expert)[..] else { return Err(internal()) };
            let first = self.devices.first_of(&mut self.writer, label)?;
            keys = self.call(&|name| on_device(name, rows, experts), vec![keys, first])?;
        }
        let results =
            self.writer.call(self.decompositions, &|name| dispatch(name, rows, choices, experts), vec![keys])?;
        let [tokens, order, inverse, sizes] = results[..] else { return Err(internal()) };
        self.sorted = Some(Sorted { tokens, order, inverse, sizes, pass: self.devices.pass() });
        Ok(())
    }

    fn sorted(&mut self, of: fn(&Sorted) -> Value) -> Result<Value, Error> {
        let sorted = self.sorted.ok_or_else(internal)?;
        self.bring((sorted.pass, of(&sorted)))
    }

    pub(super) fn order(&mut self) -> Result<Value, Error> {
        self.sorted(|sorted| sorted.order)
    }

    pub(super) fn inverse(&mut self) -> Result<Value, Error> {
        self.sorted(|sorted| sorted.inverse)
    }

    /// The rows of tokens that were chosen for, sorted.
    pub(super) fn taken(&mut self, of: &OfTokens) -> Result<Value, Error> {
        let labels = &self.axes.labels;
        // Features of one array may have several labels.
        let features = labels.leaves(&of.features);
        let unnamed = |all: &Vec<Label>| {
            let of = |label: Label| if features.contains(&label) { Label::MAX } else { label };
            labels.leaves(all).into_iter().map(of).collect()
        };
        let key = (of.value, of.layout.iter().map(unnamed).collect::<Layout>());
        if let Some(&taken) = self.taken.get(&key) {
            return self.bring(taken);
        }
        let order = [self.all_tokens(), labels.leaves(&of.features)];
        let flat = self.entering((of.value, &of.layout), &order)?;
        let (dtype, indices) = (self.dtype(flat)?, self.sorted(|sorted| sorted.tokens)?);
        let sizes = [self.tokens(), self.rows(), self.size(&of.features)];
        let rows = self.call(&|name| take(name, sizes, dtype), vec![flat, indices])?;
        self.taken.insert(key, (self.devices.pass(), rows));
        Ok(rows)
    }

    /// Rows that are all of a node, or of tokens.
    pub(super) fn whole(&self, value: Value) -> Rows {
        Rows { value, summed: Vec::new(), is_zero: false, pass: self.devices.pass() }
    }

    /// Rows of an earlier pass in this one.
    pub(super) fn brought(&mut self, rows: &Rows) -> Result<Rows, Error> {
        let value = self.bring((rows.pass, rows.value))?;
        Ok(Rows { value, pass: self.devices.pass(), ..rows.clone() })
    }

    /// Rows without summands of other devices.
    pub(super) fn complete(&mut self, rows: Rows) -> Result<Value, Error> {
        self.devices.all_reduced(&mut self.writer, rows.value, &rows.summed, OpKind::Add)
    }

    /// Rows that are zero where the expert is another device's, and the axes along which devices have summands of what tokens get.
    pub(super) fn of_device(&mut self, rows: Rows) -> Result<(Value, Vec<AxisRef>), Error> {
        let axes = self.expert_axes();
        if axes.is_empty() {
            return Ok((rows.value, rows.summed));
        }
        let mut value = rows.value;
        if !rows.is_zero {
            let of = spec(self.writer.func, value)?;
            let [count, width] = of.dims[..] else { return Err(internal()) };
            let (experts, sizes) = (self.size(&self.axes.expert), self.sorted(|sorted| sorted.sizes)?);
            value = self.call(&|name| of_groups(name, [count, width, experts], of.dtype), vec![value, sizes])?;
        }
        let mut all = rows.summed;
        all.extend(axes);
        Ok((value, all))
    }

    pub(super) fn matmul(&mut self, rows: Rows, matrix: &Matrix) -> Result<Rows, Error> {
        let rows = self.complete(rows)?;
        let own = self.devices.enter(&mut self.writer, matrix.value, &matrix.layout())?;
        let (matrices, lies) = match lies(&matrix.order) {
            Some(lies) => (own, lies),
            None => (self.writer.transposed(own, &matrix.order), Matrices::AsIs),
        };
        let attributes = GroupedAttributes { transposed: lies == Matrices::Transposed, ..GroupedAttributes::default() };
        let operands = vec![rows, matrices, self.sorted(|sorted| sorted.sizes)?];
        let results = self.writer.composite(self.decompositions, GROUPED_MATMUL, operands, &attributes.to_attrs())?;
        let value = results.first().copied().ok_or_else(internal)?;
        let summed = self.devices.axes_of(&matrix.labels[1]);
        Ok(Rows { value, summed, is_zero: true, pass: self.devices.pass() })
    }

    /// The gradient of matrices; devices with other tokens have summands of it.
    pub(super) fn gradient(&mut self, factors: [Rows; 2]) -> Result<(Value, Vec<AxisRef>), Error> {
        let [a, b] = factors;
        let operands = vec![self.complete(a)?, self.complete(b)?, self.sorted(|sorted| sorted.sizes)?];
        let attributes = GroupedAttributes::default().to_attrs();
        let results = self.writer.composite(self.decompositions, GROUPED_MATMUL_GRADIENT, operands, &attributes)?;
        Ok((*results.first().ok_or_else(internal)?, self.token_axes()))
    }

    /// Another op on rows, element by element.
    pub(super) fn elementwise(
        &mut self,
        op: OpId,
        operands: &[Operand],
        like: &Spec,
        node: &mut dyn FnMut(&mut Self, usize) -> Result<Rows, Error>,
    ) -> Result<Rows, Error> {
        let (kind, attrs) = {
            let op = self.writer.func.op(op);
            (op.kind().ok_or_else(internal)?, op.attrs.clone())
        };
        // What is linear keeps summands.
        let is_linear = match operands {
            [Operand::Node(_)] => matches!(kind, OpKind::Convert | OpKind::Negate) && like.dtype.is_float(),
            [Operand::Node(_), Operand::Number(_)] => matches!(kind, OpKind::Multiply | OpKind::Divide),
            [Operand::Number(_), Operand::Node(_)] => kind == OpKind::Multiply,
            _ => false,
        };
        let (mut all, mut summed) = (Vec::with_capacity(operands.len()), Vec::new());
        for operand in operands {
            all.push(match operand {
                Operand::Node(n) => {
                    let rows = node(self, *n)?;
                    if is_linear {
                        summed.clone_from(&rows.summed);
                        rows.value
                    } else {
                        self.complete(rows)?
                    }
                }
                Operand::Number(value) => {
                    let like = Spec::new(self.dtype(*value)?, like.dims.clone());
                    self.devices.repeated(&mut self.writer, *value, &like)?
                }
            });
        }
        let results = self.writer.op(kind, all, attrs, vec![tensor_type(like)]);
        let value = results.first().copied().ok_or_else(internal)?;
        Ok(Rows { value, summed, is_zero: false, pass: self.devices.pass() })
    }

    /// Has a value, which has labels in an order, stand for one of the program.
    pub(super) fn give(
        &mut self,
        (result, layout): (Value, &Layout),
        (value, order): (Value, &[Vec<Label>]),
        summed: &[AxisRef],
    ) -> Result<(), Error> {
        let dtype = self.dtype(result)?;
        let labels = self.devices.labels();
        let dims: Vec<usize> = layout.iter().map(|of| size(labels, of)).collect();
        let value = self.writer.leaving(labels, value, order, layout, &Spec::new(dtype, dims)).ok_or_else(internal)?;
        self.devices.give(&mut self.writer, result, (value, layout), summed)
    }

    /// Ends what devices compute; new ops, and what stands for which value.
    pub(super) fn finish(mut self) -> Result<(HashMap<Value, Value>, Vec<OpId>), Error> {
        let replaced = self.devices.end(&mut self.writer)?;
        Ok((replaced, self.writer.finish()))
    }
}

/// Puts values in place of others, and new ops where they are needed. `None` where there is no order for them: all stays as it was.
pub(super) fn place(
    func: &mut Func,
    region: Region,
    (replaced, new): (HashMap<Value, Value>, Vec<OpId>),
) -> Option<()> {
    let mut before: Vec<(usize, usize, Value)> = Vec::new();
    for (n, op) in func.ops.iter_mut().enumerate() {
        for (at, operand) in op.operands.iter_mut().enumerate() {
            if let Some(&other) = replaced.get(operand) {
                before.push((n, at, std::mem::replace(operand, other)));
            }
        }
    }
    match sorted(func, region, &new) {
        Some(order) => {
            func.regions.get_mut(region.0 as usize)?.ops = order;
            Some(())
        }
        None => {
            for (n, at, operand) in before {
                *func.ops.get_mut(n)?.operands.get_mut(at)? = operand;
            }
            None
        }
    }
}
