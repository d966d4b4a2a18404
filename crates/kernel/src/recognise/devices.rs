//! How an attention, or what else kernels compute, is split over the devices of a mesh: a kernel runs on one device, so each gets its own
//! part, as sequences and heads, tokens, experts or words of a vocabulary.
//!
//! Shardings are propagated to every value as the partitioner would ([`hlo::propagate_values`]), and read along the axes of what is split.
//! Axes that split positions or features are given to heads or sequences where these divide, as in Ulysses.

use std::collections::{BTreeMap, HashMap, HashSet};

use hlo::dims::AxisRef;
use hlo::sdy::{MeshAttr, MeshRef, TensorSharding};
use hlo::{Attr, Func, Module, OpKind, Region, Value, gspmd};

use super::layout::{Label, Labels, Layout};
use super::site::{Part, Side, Site};

/// Who reads the shardings that are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Partitioner {
    /// Shardy, with the name of the mesh.
    Shardy(String),
    Gspmd,
}

/// Devices that collectives name at most.
const MAX_DEVICES: i64 = 1 << 16;

/// The devices of a program.
pub(super) enum Devices {
    One,
    /// Several, and why nothing is known of how values are split.
    Unknown(String),
    Mesh(DeviceMesh),
}

/// A mesh, and how the values of the entry function are split over it.
pub(super) struct DeviceMesh {
    mesh: MeshAttr,
    partitioner: Partitioner,
    entry: String,
    shardings: HashMap<Value, TensorSharding>,
}

impl Devices {
    pub(super) fn of(module: &Module) -> Devices {
        match DeviceMesh::of(module) {
            Ok(None) => Devices::One,
            Ok(Some(mesh)) => Devices::Mesh(mesh),
            Err(reason) => Devices::Unknown(reason),
        }
    }

    /// The mesh over which a region computes; `None` where it computes for one device.
    pub(super) fn around(&self, func: &Func, region: Region) -> Result<Option<&DeviceMesh>, String> {
        match self {
            Devices::One => Ok(None),
            Devices::Unknown(reason) => Err(reason.clone()),
            Devices::Mesh(mesh) => mesh.around(func, region),
        }
    }
}

impl DeviceMesh {
    fn of(module: &Module) -> Result<Option<DeviceMesh>, String> {
        let said = module.attrs.get("mhlo.num_partitions").and_then(Attr::as_int).unwrap_or(1);
        let mut meshes = module.meshes.iter().filter(|mesh| mesh.mesh.device_count().is_none_or(|count| count > 1));
        let entry = module.entry().ok_or("there is no entry function")?;
        let too_large = || "the program is too large to propagate shardings through it".to_owned();
        match (meshes.next(), meshes.next()) {
            (None, _) if said < 2 => Ok(None),
            (None, _) => {
                let devices = u64::try_from(said).map_err(|_| "a negative number of partitions")?;
                let shardy = gspmd::as_shardy(module, devices)?;
                let mesh = shardy.meshes.last().ok_or("the program has no mesh")?.mesh.clone();
                let entry = shardy.func(&entry.name).ok_or("there is no entry function")?;
                let shardings = hlo::propagate_values(&shardy, entry).ok_or_else(too_large)?;
                let entry = entry.name.to_string();
                Ok(Some(DeviceMesh { mesh, partitioner: Partitioner::Gspmd, entry, shardings }))
            }
            (Some(mesh), None) => {
                match mesh.mesh.device_count() {
                    None => return Err("the mesh has too many devices".into()),
                    Some(count) if said > 1 && count != said => {
                        return Err("the mesh does not have one device for each partition".into());
                    }
                    Some(_) => {}
                }
                let shardings = hlo::propagate_values(module, entry).ok_or_else(too_large)?;
                let partitioner = Partitioner::Shardy(mesh.name.to_string());
                let entry = entry.name.to_string();
                Ok(Some(DeviceMesh { mesh: mesh.mesh.clone(), partitioner, entry, shardings }))
            }
            (Some(_), Some(_)) => Err("the program has several meshes".into()),
        }
    }

    /// What a manual computation around a region leaves of the mesh.
    fn around(&self, func: &Func, region: Region) -> Result<Option<&DeviceMesh>, String> {
        if *func.name != *self.entry {
            return Err("it is in a function with shardings of its own".into());
        }
        let mut manual: HashSet<&str> = HashSet::new();
        let mut inner = region;
        while let Some(op) = func.ops.iter().find(|op| op.regions.contains(&inner)) {
            if let (Some(OpKind::SdyManualComputation), Some(Attr::Sdy(attr))) = (op.kind(), op.attr("manual_axes"))
                && let hlo::sdy::SdyAttr::ManualAxes(names) = &**attr
            {
                manual.extend(names.iter().map(String::as_str));
            }
            let found = func.regions.iter().position(|data| data.ops.iter().any(|&id| std::ptr::eq(func.op(id), op)));
            match found {
                Some(outer) => inner = Region(outer as u32),
                None => break,
            }
        }
        let mut real = self.mesh.axes.iter().filter(|(_, size)| *size > 1);
        if manual.is_empty() {
            return Ok(Some(self));
        }
        match real.all(|(name, _)| manual.contains(name.as_str())) {
            true => Ok(None),
            false => Err("it is in a part that is written for one device along some axes of the mesh only".into()),
        }
    }

    fn size(&self, axis: &AxisRef) -> i64 {
        match axis.sub_axis {
            Some((_, size)) => size,
            None => self.mesh.axes.iter().find(|(name, _)| *name == axis.name).map_or(1, |(_, size)| *size),
        }
    }

    /// The axes along each dimension of a value, major to minor.
    fn axes(&self, value: Value) -> Vec<Vec<AxisRef>> {
        let sharding = self.shardings.get(&value).filter(|sharding| match &sharding.mesh {
            MeshRef::Inline(mesh) => *mesh == self.mesh,
            MeshRef::Symbol(_) => false,
        });
        sharding.map_or_else(Vec::new, |sharding| sharding.dims.iter().map(|dim| dim.axes.clone()).collect())
    }

    /// How an attention is split: `free` are the labels that may be, in the order in which they are given axes that have no place of their own.
    pub(super) fn split(&self, site: &Site, free: &[Label]) -> Result<Split, String> {
        let labels = &site.labels;
        let mut chosen = Choice { mesh: self, labels, free: free.to_vec(), axes: HashMap::new(), left: Vec::new() };
        let side = |side: Side| site.sides.get(&side).map(|(value, layout)| (*value, layout));
        let given = |part: Part| {
            site.given.iter().filter(move |given| given.part == part).map(|given| (given.value, &given.layout))
        };
        // Queries have all axes that a split may be along; what keys and values have beside is of features.
        let arrays = (side(Side::Queries).into_iter())
            .chain(given(Part::Output))
            .chain(side(Side::Gradient))
            .chain(side(Side::Keys))
            .chain(side(Side::Values))
            .chain([Part::OfQueries, Part::OfKeys, Part::OfValues].into_iter().flat_map(given));
        for (value, layout) in arrays {
            chosen.read(self.axes(value), layout);
        }
        for axis in std::mem::take(&mut chosen.left) {
            free.iter().any(|&label| chosen.give(label, &axis));
        }
        chosen.split().ok_or_else(|| "no axis of the mesh splits its sequences or heads".into())
    }

    /// How something else is split: arrays are read in turn, each for the labels that it may split. `None` where no axis does.
    pub(super) fn split_by(&self, labels: &Labels, arrays: &[SplitBy<'_>]) -> Option<Split> {
        self.mesh.device_count().filter(|&count| count <= MAX_DEVICES)?;
        let mut chosen = Choice { mesh: self, labels, free: Vec::new(), axes: HashMap::new(), left: Vec::new() };
        for array in arrays {
            chosen.free = labels.leaves(array.free);
            chosen.read(self.axes(array.value), array.layout);
        }
        chosen.split()
    }
}

/// An array whose sharding says how labels are split.
pub(super) struct SplitBy<'a> {
    pub(super) value: Value,
    pub(super) layout: &'a Layout,
    pub(super) free: &'a [Label],
}

/// Axes that are given to labels one after the other.
struct Choice<'a> {
    mesh: &'a DeviceMesh,
    labels: &'a Labels,
    free: Vec<Label>,
    axes: HashMap<Label, Vec<AxisRef>>,
    /// Axes of what may not be split.
    left: Vec<AxisRef>,
}

impl Choice<'_> {
    fn split(self) -> Option<Split> {
        (!self.axes.is_empty()).then(|| Split {
            mesh: self.mesh.mesh.clone(),
            partitioner: self.mesh.partitioner.clone(),
            axes: self.axes,
            whole: self.labels.clone(),
        })
    }

    /// Reads how an array is split, along the labels of each dimension.
    fn read(&mut self, axes: Vec<Vec<AxisRef>>, layout: &Layout) {
        for (axes, labels) in axes.into_iter().zip(layout) {
            let leaves = self.labels.leaves(labels);
            let mut rooms = leaves.into_iter().map(|label| (label, self.labels.size(label) as i64)).peekable();
            for axis in axes {
                let mut rest = Some(axis);
                while let Some(axis) = rest.take() {
                    let size = self.mesh.size(&axis);
                    while rooms.next_if(|(_, room)| *room == 1).is_some() {}
                    let Some((label, room)) = rooms.peek_mut() else {
                        self.leave(axis);
                        break;
                    };
                    let (label, part) = (*label, greatest(*room, size));
                    if part < 2 {
                        self.leave(axis);
                        break;
                    }
                    *room /= part;
                    let pre = axis.sub_axis.map_or(1, |(pre, _)| pre);
                    let piece = |pre: i64, size: i64| AxisRef { name: axis.name.clone(), sub_axis: Some((pre, size)) };
                    if part < size {
                        rest = Some(piece(pre.saturating_mul(part), size / part));
                    }
                    let taken = if part < size { piece(pre, part) } else { axis };
                    if !self.free.contains(&label) || !self.give(label, &taken) {
                        self.leave(taken);
                    }
                }
            }
        }
    }

    fn leave(&mut self, axis: AxisRef) {
        if !self.left.contains(&axis) {
            self.left.push(axis);
        }
    }

    /// Splits a label along an axis; whether it is now, or was before.
    fn give(&mut self, label: Label, axis: &AxisRef) -> bool {
        if self.axes.get(&label).is_some_and(|axes| axes.contains(axis)) {
            return true;
        }
        let is_used = self.axes.values().flatten().any(|used| overlap(used, axis));
        let parts = parts(self.mesh, self.axes.get(&label));
        let size = self.labels.size(label) as i64;
        let more = self.mesh.size(axis);
        if is_used || more < 2 || size % parts.saturating_mul(more) != 0 {
            return false;
        }
        self.axes.entry(label).or_default().push(axis.clone());
        true
    }
}

fn parts(mesh: &DeviceMesh, axes: Option<&Vec<AxisRef>>) -> i64 {
    axes.into_iter().flatten().map(|axis| mesh.size(axis)).fold(1, i64::saturating_mul).max(1)
}

fn greatest(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Whether two axes are parts of one, and have devices in common.
fn overlap(a: &AxisRef, b: &AxisRef) -> bool {
    let range = |axis: &AxisRef| axis.sub_axis.map_or((1, i64::MAX), |(pre, size)| (pre, pre.saturating_mul(size)));
    let ((a_from, a_to), (b_from, b_to)) = (range(a), range(b));
    a.name == b.name && a_from < b_to && b_from < a_to
}

/// How an attention, or something else, is split over a mesh.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) mesh: MeshAttr,
    pub(super) partitioner: Partitioner,
    axes: HashMap<Label, Vec<AxisRef>>,
    /// Labels with their sizes over all devices.
    pub(super) whole: Labels,
}

impl Split {
    /// The axes along a label, major to minor.
    pub(super) fn axes(&self, label: Label) -> Vec<AxisRef> {
        self.axes.get(&label).cloned().unwrap_or_default()
    }

    /// Parts along axes.
    pub(super) fn parts(&self, axes: &[AxisRef]) -> usize {
        let size = |axis: &AxisRef| match axis.sub_axis {
            Some((_, size)) => size,
            None => self.mesh.axes.iter().find(|(name, _)| *name == axis.name).map_or(1, |(_, size)| *size),
        };
        axes.iter().map(|axis| usize::try_from(size(axis)).unwrap_or(1)).fold(1, usize::saturating_mul)
    }

    /// Splits a label that is not split as another one of its size is.
    pub(super) fn split_as(&mut self, labels: &[Label], like: &[Label]) {
        if let ([label], [like]) = (&self.whole.leaves(labels)[..], &self.whole.leaves(like)[..])
            && let Some(axes) = self.axes.get(like).cloned()
            && self.whole.size(*label) == self.whole.size(*like)
        {
            self.axes.entry(*label).or_insert(axes);
        }
    }

    /// The axes along some labels, in an order of their own.
    pub(super) fn axes_of(&self, labels: &[Label]) -> Vec<AxisRef> {
        let mut all: Vec<AxisRef> = self.whole.leaves(labels).into_iter().flat_map(|label| self.axes(label)).collect();
        all.sort_by(|a, b| (&a.name, a.sub_axis).cmp(&(&b.name, b.sub_axis)));
        all.dedup();
        all
    }

    /// All axes that something is split along.
    pub(super) fn all_axes(&self) -> Vec<AxisRef> {
        let labels: Vec<Label> = self.axes.keys().copied().collect();
        self.axes_of(&labels)
    }

    /// Devices that differ along some axes only, by their numbers in the program.
    pub(super) fn groups(&self, axes: &[AxisRef]) -> Vec<Vec<i64>> {
        let count = self.mesh.device_count().unwrap_or(1).max(1);
        let mut groups: BTreeMap<Vec<i64>, Vec<i64>> = BTreeMap::new();
        for device in 0..count {
            let (mut rest, mut key) = (device, Vec::with_capacity(self.mesh.axes.len()));
            for (name, size) in self.mesh.axes.iter().rev() {
                let size = (*size).max(1);
                let mut index = rest % size;
                rest /= size;
                for axis in axes.iter().filter(|axis| axis.name == *name) {
                    let (pre, part) = axis.sub_axis.unwrap_or((1, size));
                    let step = (size / pre.saturating_mul(part).max(1)).max(1);
                    index -= index / step % part.max(1) * step;
                }
                key.push(index);
            }
            let number =
                usize::try_from(device).ok().and_then(|n| self.mesh.device_ids.get(n)).copied().unwrap_or(device);
            key.reverse();
            groups.entry(key).or_default().push(number);
        }
        groups.into_values().collect()
    }

    /// The labels as one device has them.
    pub(super) fn local(&self) -> Labels {
        let mut labels = self.whole.clone();
        for (&label, axes) in &self.axes {
            labels.divide(label, self.parts(axes));
        }
        labels
    }

    /// The sharding of an array, as Shardy writes it.
    pub(super) fn shardy(&self, mesh: &str, dims: &[Vec<AxisRef>]) -> TensorSharding {
        let dim =
            |axes: &Vec<AxisRef>| hlo::sdy::DimensionSharding { axes: axes.clone(), is_closed: true, priority: None };
        TensorSharding {
            mesh: MeshRef::Symbol(mesh.to_owned()),
            dims: dims.iter().map(dim).collect(),
            replicated: Vec::new(),
            unreduced: Vec::new(),
        }
    }

    /// The sharding of an array, as GSPMD writes it: parts of axes are axes of a finer mesh.
    pub(super) fn gspmd(&self, dims: &[Vec<AxisRef>]) -> String {
        // Where each axis is cut, and the pieces between the cuts.
        let mut pieces: Vec<(&str, i64, i64)> = Vec::new();
        for (name, size) in &self.mesh.axes {
            let mut cuts = vec![1, *size];
            let of_axis = self.axes.values().flatten().filter(|axis| axis.name == *name);
            cuts.extend(
                of_axis.filter_map(|axis| axis.sub_axis).flat_map(|(pre, size)| [pre, pre.saturating_mul(size)]),
            );
            cuts.sort_unstable();
            cuts.dedup();
            pieces.extend(cuts.windows(2).map(|pair| (name.as_str(), pair[0], pair[1] / pair[0].max(1))));
        }
        let of = |axis: &AxisRef| -> Vec<usize> {
            let (from, to) = axis.sub_axis.map_or((1, i64::MAX), |(pre, size)| (pre, pre.saturating_mul(size)));
            let is_of = |piece: &(&str, i64, i64)| piece.0 == axis.name && piece.1 >= from && piece.1 < to;
            (0..pieces.len()).filter(|&n| is_of(&pieces[n])).collect()
        };
        let spec: gspmd::AxisSpec = dims.iter().map(|axes| axes.iter().flat_map(of).collect()).collect();
        let sizes: Vec<i64> = pieces.iter().map(|(_, _, size)| *size).collect();
        gspmd::text_of(&spec, &sizes)
    }

    /// The end of a description: which axes something is split along.
    pub(super) fn on_each_device(&self) -> String {
        format!(", on each device of {}", self.describe())
    }

    /// In words: what is split over which axes.
    pub(super) fn describe(&self) -> String {
        let spelled = |axis: &AxisRef| match axis.sub_axis {
            Some((_, size)) => format!("{size} of {}", axis.name),
            None => axis.name.clone(),
        };
        let mut names: Vec<String> = self.all_axes().iter().map(spelled).collect();
        names.sort();
        names.join(", ")
    }
}
