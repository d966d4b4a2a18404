//! Where composites are written: on the one device, or on each of a mesh, in one manual computation for each pass over the program.
//!
//! Arrays enter with the axes that their labels are split along, and leave as parts of whole ones. What devices have summands of is
//! summed where it leaves, as the partitioner likes it, or at once between the devices.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hlo::dims::{AxisRef, ChannelHandle};
use hlo::gspmd::FULL_TO_SHARD;
use hlo::{Attr, Attrs, Definition, Dense, Func, OpId, OpKind, Region, TensorType, Value};
use tensor::{DType, Spec};

use super::devices::{Partitioner, Split};
use super::layout::{Label, Labels, Layout};
use super::manual::{Outside, Placed};
use super::ops::reads;
use super::write::Writer;
use crate::call::{static_spec, tensor_type};
use crate::error::Error;

fn internal() -> Error {
    Error::Internal("what each device has does not make up a whole array".into())
}

/// A pass over the program: what is in a later one may depend on what an earlier one gave.
pub(super) type Pass = usize;

/// The size of a label, and the axes along it.
type SizeAndAxes = (usize, Vec<AxisRef>);

/// Where composites are written.
pub(super) struct OnDevices<'s> {
    split: Option<&'s Split>,
    /// Sizes of what one device has.
    labels: Labels,
    passes: Vec<Computation>,
    current: Pass,
    /// By their sizes and the axes along them.
    entered: HashMap<(Pass, Value, Vec<SizeAndAxes>), Value>,
    brought: HashMap<(Pass, Value), Value>,
    replaced: HashMap<Value, Value>,
    channels: i64,
}

/// A manual computation that is being written.
struct Computation {
    /// Its region and ops; those outside of it while it is written.
    place: (Region, Vec<OpId>),
    operands: Vec<(Operand, Vec<Vec<AxisRef>>)>,
    results: Vec<Given>,
}

enum Operand {
    OfProgram(Value),
    /// A result of an earlier pass, by its number.
    OfPass(Pass, usize),
}

struct Given {
    value: Value,
    axes: Vec<Vec<AxisRef>>,
    stands: Option<Stands>,
}

/// What a result stands for.
#[derive(Clone)]
struct Stands {
    value: Value,
    /// Whether parts of it are summed along a first dimension.
    is_summed: bool,
    like: Spec,
}

impl<'s> OnDevices<'s> {
    /// Begins with the labels of whole arrays.
    pub(super) fn new(writer: &Writer<'_>, split: Option<&'s Split>, labels: &Labels) -> OnDevices<'s> {
        OnDevices {
            split,
            labels: split.map_or_else(|| labels.clone(), Split::local),
            passes: Vec::new(),
            current: 0,
            entered: HashMap::new(),
            brought: HashMap::new(),
            replaced: HashMap::new(),
            channels: last_channel(writer.func),
        }
    }

    /// Labels with the sizes that one device has.
    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(super) fn axes_of(&self, labels: &[Label]) -> Vec<AxisRef> {
        self.split.map_or_else(Vec::new, |split| split.axes_of(labels))
    }

    pub(super) fn pass(&self) -> Pass {
        self.current
    }

    /// Whether passes are regions of their own.
    fn has_regions(&self) -> bool {
        self.split.is_some_and(|split| matches!(split.partitioner, Partitioner::Shardy(_)))
    }

    /// Goes on in a pass.
    pub(super) fn turn_to(&mut self, writer: &mut Writer<'_>, pass: Pass) {
        if !self.has_regions() || (pass == self.current && pass < self.passes.len()) {
            return;
        }
        if let Some(computation) = self.passes.get_mut(self.current) {
            writer.swap(&mut computation.place);
        }
        while self.passes.len() <= pass {
            let place = (writer.func.add_region(), Vec::new());
            self.passes.push(Computation { place, operands: Vec::new(), results: Vec::new() });
        }
        if let Some(computation) = self.passes.get_mut(pass) {
            writer.swap(&mut computation.place);
        }
        self.current = pass;
    }

    /// Writes something outside of the manual computation.
    fn outside<T>(&mut self, writer: &mut Writer<'_>, write: impl FnOnce(&mut Writer<'_>) -> T) -> T {
        if let Some(computation) = self.passes.get_mut(self.current) {
            writer.swap(&mut computation.place);
        }
        let made = write(writer);
        if let Some(computation) = self.passes.get_mut(self.current) {
            writer.swap(&mut computation.place);
        }
        made
    }

    /// What this device has of an array of the program, in a layout.
    pub(super) fn enter(&mut self, writer: &mut Writer<'_>, value: Value, layout: &Layout) -> Result<Value, Error> {
        let Some(split) = self.split else { return Ok(value) };
        let own = self.enter_leaves(writer, value, split.whole.flat(layout))?;
        let dims: Vec<usize> =
            layout.iter().map(|labels| sizes(&self.labels, &self.labels.leaves(labels)).iter().product()).collect();
        Ok(writer.reshaped(own, dims))
    }

    /// What this device has of an array whose elements are those of labels, outermost first.
    pub(super) fn enter_leaves(
        &mut self,
        writer: &mut Writer<'_>,
        value: Value,
        leaves: Vec<Label>,
    ) -> Result<Value, Error> {
        let Some(split) = self.split else { return Ok(value) };
        let whole: Vec<usize> = leaves.iter().map(|&label| split.whole.size(label)).collect();
        let axes: Vec<Vec<AxisRef>> = leaves.iter().map(|&label| split.axes(label)).collect();
        let key = (self.current, value, whole.iter().copied().zip(axes.iter().cloned()).collect());
        if let Some(&entered) = self.entered.get(&key) {
            return Ok(entered);
        }
        let spec = static_spec(writer.func.ty(value)).ok_or_else(internal)?;
        if spec.num_elements() != whole.iter().product::<usize>() {
            return Err(internal());
        }
        let part = Spec::new(spec.dtype, sizes(&self.labels, &leaves));
        let flat = self.outside(writer, |writer| writer.reshaped(value, whole));
        let entered = self.argument(writer, (Operand::OfProgram(flat), axes), &part)?;
        self.entered.insert(key, entered);
        Ok(entered)
    }

    fn argument(
        &mut self,
        writer: &mut Writer<'_>,
        (operand, axes): (Operand, Vec<Vec<AxisRef>>),
        part: &Spec,
    ) -> Result<Value, Error> {
        let split = self.split.ok_or_else(internal)?;
        match (&split.partitioner, operand) {
            (Partitioner::Shardy(_), operand) => {
                let computation = self.passes.get_mut(self.current).ok_or_else(internal)?;
                let region = writer.region();
                computation.operands.push((operand, axes));
                Ok(writer.func.add_argument(region, tensor_type(part), None))
            }
            (Partitioner::Gspmd, Operand::OfProgram(value)) => {
                let ty = writer.func.ty(value).clone();
                let laid = writer.marked("Sharding", value, &split.gspmd(&axes), ty);
                Ok(writer.marked(FULL_TO_SHARD, laid, "{manual}", tensor_type(part)))
            }
            (Partitioner::Gspmd, Operand::OfPass(..)) => Err(internal()),
        }
    }

    /// What an earlier pass computed, in this one. Each device keeps its own.
    pub(super) fn bring(&mut self, writer: &mut Writer<'_>, (from, value): (Pass, Value)) -> Result<Value, Error> {
        let (true, Some(split)) = (self.has_regions() && from != self.current, self.split) else { return Ok(value) };
        if let Some(&brought) = self.brought.get(&(self.current, value)) {
            return Ok(brought);
        }
        let to = self.current;
        let spec = static_spec(writer.func.ty(value)).ok_or_else(internal)?;
        let part = Spec::new(spec.dtype, [&[1], &spec.dims[..]].concat());
        let axes: Vec<Vec<AxisRef>> =
            std::iter::once(split.all_axes()).chain(spec.dims.iter().map(|_| Vec::new())).collect();
        self.turn_to(writer, from);
        let kept = writer.reshaped(value, part.dims.clone());
        let results = &mut self.passes.get_mut(from).ok_or_else(internal)?.results;
        results.push(Given { value: kept, axes: axes.clone(), stands: None });
        let operand = Operand::OfPass(from, results.len() - 1);
        self.turn_to(writer, to);
        let argument = self.argument(writer, (operand, axes), &part)?;
        let brought = writer.reshaped(argument, spec.dims);
        self.brought.insert((to, value), brought);
        Ok(brought)
    }

    /// An array that repeats the one number of an array of the program.
    pub(super) fn repeated(&mut self, writer: &mut Writer<'_>, value: Value, like: &Spec) -> Result<Value, Error> {
        if self.split.is_none() || writer.is_splat(value) {
            return writer.repeated(value, like).ok_or_else(internal);
        }
        let scalar = Spec::new(like.dtype, Vec::new());
        let one = self.outside(writer, |writer| writer.repeated(value, &scalar)).ok_or_else(internal)?;
        let entered = self.enter(writer, one, &Vec::new())?;
        Ok(writer.broadcast(entered, &[], like.dims.clone()))
    }

    /// The number of the first of what this device has along a label.
    pub(super) fn first_of(&mut self, writer: &mut Writer<'_>, label: Label) -> Result<Value, Error> {
        let size = self.split.ok_or_else(internal)?.whole.size(label);
        let counted = self.outside(writer, |writer| {
            let mut attrs = Attrs::new();
            attrs.set("iota_dimension", Attr::i64(0));
            let results = vec![tensor_type(&Spec::new(DType::I32, [size]))];
            writer.op(OpKind::Iota, Vec::new(), attrs, results).first().copied()
        });
        let own = self.enter(writer, counted.ok_or_else(internal)?, &vec![vec![label]])?;
        writer.repeated(own, &Spec::new(DType::I32, Vec::new())).ok_or_else(internal)
    }

    /// A number for collectives, and the devices that take part in one along some axes.
    pub(super) fn collective(&mut self, axes: &[AxisRef]) -> Option<Collective> {
        let split = self.split.filter(|_| !axes.is_empty())?;
        self.channels += 1;
        Some(Collective { groups: split.groups(axes), channel: self.channels })
    }

    /// An array summed, or the largest of one, over devices along some axes.
    pub(super) fn all_reduced(
        &mut self,
        writer: &mut Writer<'_>,
        value: Value,
        axes: &[AxisRef],
        kind: OpKind,
    ) -> Result<Value, Error> {
        let Some(collective) = self.collective(axes) else { return Ok(value) };
        let spec = static_spec(writer.func.ty(value)).ok_or_else(internal)?;
        let mut attrs = Attrs::new();
        attrs.set("replica_groups", collective.table().ok_or_else(internal)?);
        attrs.set("channel_handle", Attr::Channel(ChannelHandle { handle: collective.channel, kind: 1 }));
        attrs.set("use_global_device_ids", Attr::Unit);
        let body = writer.folding(kind, spec.dtype);
        let results = writer.op_with_region(OpKind::AllReduce, vec![value], attrs, body, vec![tensor_type(&spec)]);
        results.first().copied().ok_or_else(internal)
    }

    /// Has a value, in a layout, stand for one of the program; devices along some axes have summands of it.
    pub(super) fn give(
        &mut self,
        writer: &mut Writer<'_>,
        stands: Value,
        (value, layout): (Value, &Layout),
        summed: &[AxisRef],
    ) -> Result<(), Error> {
        let Some(split) = self.split else {
            self.replaced.insert(stands, value);
            return Ok(());
        };
        let like = static_spec(writer.func.ty(stands)).ok_or_else(internal)?;
        let leaves = split.whole.flat(layout);
        let mut axes: Vec<Vec<AxisRef>> = leaves.iter().map(|&label| split.axes(label)).collect();
        let mut dims = sizes(&self.labels, &leaves);
        if !summed.is_empty() {
            dims.insert(0, 1);
            axes.insert(0, summed.to_vec());
        }
        let value = writer.reshaped(value, dims);
        let stands = Stands { value: stands, is_summed: !summed.is_empty(), like };
        let given = Given { value, axes, stands: Some(stands.clone()) };
        match self.has_regions() {
            true => self.passes.get_mut(self.current).ok_or_else(internal)?.results.push(given),
            false => {
                let whole = writer.end_on_device(split, Outside::nothing(), vec![(value, given.axes)])?;
                self.stand(writer, &stands, *whole.first().ok_or_else(internal)?)?;
            }
        }
        Ok(())
    }

    fn stand(&mut self, writer: &mut Writer<'_>, stands: &Stands, whole: Value) -> Result<(), Error> {
        let dtype = static_spec(writer.func.ty(whole)).ok_or_else(internal)?.dtype;
        let value = match stands.is_summed {
            true => writer.sum_of_first(whole, dtype).ok_or_else(internal)?,
            false => whole,
        };
        let shaped = writer.reshaped(value, stands.like.dims.clone());
        let value = writer.converted(shaped, stands.like.dtype);
        self.replaced.insert(stands.value, value);
        Ok(())
    }

    /// Ends all passes; what stands for which value of the program.
    pub(super) fn end(mut self, writer: &mut Writer<'_>) -> Result<HashMap<Value, Value>, Error> {
        let Some(split) = self.split.filter(|_| self.has_regions()) else { return Ok(self.replaced) };
        if let Some(computation) = self.passes.get_mut(self.current) {
            writer.swap(&mut computation.place);
        }
        let mut wholes: Vec<Vec<Value>> = Vec::with_capacity(self.passes.len());
        for computation in std::mem::take(&mut self.passes) {
            let mut operands: Vec<Placed> = Vec::with_capacity(computation.operands.len());
            for (operand, axes) in computation.operands {
                let value = match operand {
                    Operand::OfProgram(value) => value,
                    Operand::OfPass(pass, n) => {
                        wholes.get(pass).and_then(|all| all.get(n)).copied().ok_or_else(internal)?
                    }
                };
                operands.push((value, axes));
            }
            if computation.results.is_empty() {
                wholes.push(Vec::new());
                continue;
            }
            let mut place = computation.place;
            writer.swap(&mut place);
            let results = computation.results.iter().map(|given| (given.value, given.axes.clone())).collect();
            let given = writer.end_on_device(split, Outside::of(operands, place), results)?;
            for (of, &whole) in computation.results.iter().zip(&given) {
                if let Some(stands) = &of.stands {
                    self.stand(writer, stands, whole)?;
                }
            }
            wholes.push(given);
        }
        Ok(self.replaced)
    }
}

/// Devices that take part in a collective.
pub(super) struct Collective {
    groups: Vec<Vec<i64>>,
    pub(super) channel: i64,
}

impl Collective {
    fn table(&self) -> Option<Attr> {
        let columns = self.groups.first()?.len();
        let bytes = self.groups.iter().flatten().flat_map(|device| device.to_le_bytes()).collect();
        let ty = TensorType::new(vec![self.groups.len() as i64, columns as i64], DType::I64);
        Some(Attr::Dense(Arc::new(Dense::from_elements(ty, bytes)?)))
    }

    /// The groups as text.
    pub(super) fn text(&self) -> String {
        let columns = self.groups.first().map_or(0, Vec::len);
        let groups: Vec<String> = self.groups.iter().map(|group| format!("{group:?}")).collect();
        format!("dense<[{}]> : tensor<{}x{columns}xi64>", groups.join(", "), self.groups.len())
    }
}

fn sizes(labels: &Labels, of: &[Label]) -> Vec<usize> {
    of.iter().map(|&label| labels.size(label)).collect()
}

/// The largest number of a collective.
fn last_channel(func: &Func) -> i64 {
    let number = |attr: Option<&Attr>| match attr {
        Some(Attr::Channel(channel)) => channel.handle,
        _ => 0,
    };
    func.ops.iter().map(|op| number(op.attr("channel_handle"))).max().unwrap_or(0)
}

/// For results with the arrays of the program that each needs, the pass that computes it: behind those that it depends on.
pub(super) fn passes(func: &Func, items: &[(Vec<Value>, Vec<Value>)]) -> Vec<Pass> {
    let mut all: Vec<Pass> = vec![0; items.len()];
    let of: HashMap<Value, usize> =
        items.iter().enumerate().flat_map(|(n, (results, _))| results.iter().map(move |&value| (value, n))).collect();
    let before: Vec<Vec<usize>> = items.iter().map(|(_, needs)| behind(func, needs, &of)).collect();
    // A chain has no more members than there are items.
    for _ in 0..items.len() {
        let mut is_done = true;
        for n in 0..items.len() {
            let least = before[n].iter().filter(|&&other| other != n).map(|&other| all[other] + 1).max().unwrap_or(0);
            if all[n] < least && least < items.len() {
                (all[n], is_done) = (least, false);
            }
        }
        if is_done {
            break;
        }
    }
    all
}

/// Items that values are computed from.
fn behind(func: &Func, values: &[Value], of: &HashMap<Value, usize>) -> Vec<usize> {
    let (mut pending, mut seen) = (values.to_vec(), HashSet::new());
    let mut found = Vec::new();
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        if let Some(&item) = of.get(&value) {
            found.push(item);
        }
        if let Definition::Result(id, _) = func.value(value).definition {
            pending.extend(reads(func, id));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
