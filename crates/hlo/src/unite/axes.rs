//! Manual axes of a mesh, sets of them, and the partitions that a collective names as such a set.

use std::collections::HashMap;

use crate::ir::dims::{AxisRef, ReplicaGroupMeshAxes};
use crate::ir::sdy::{MeshAttr, MeshRef, TensorSharding};
use crate::ir::{Attr, Module, Op};
use crate::ops::Violation;
use crate::partition::give_up;

/// Manual axes a computation may have; those of one device do not count.
const MAX_AXES: usize = 8;
/// Partitions along all manual axes.
const MAX_PARTITIONS: i64 = 256;

/// A set of manual axes: bit `n` is the axis of that number.
pub(super) type AxisSet = u32;

/// The mesh of a manual computation and its manual axes of more than one partition, major to minor.
pub(super) struct Axes {
    mesh: MeshAttr,
    /// Positions in the mesh.
    manual: Vec<usize>,
}

impl Axes {
    /// The axes that an op names; all its shardings must be of one mesh.
    pub(super) fn of<'s>(
        module: &Module,
        shardings: impl Iterator<Item = &'s TensorSharding>,
        names: &[String],
        num_partitions: usize,
    ) -> Result<Axes, Violation> {
        let mut found: Option<&MeshAttr> = None;
        for sharding in shardings {
            let mesh = match &sharding.mesh {
                MeshRef::Symbol(name) => module.mesh(name),
                MeshRef::Inline(mesh) => Some(mesh),
            };
            let mesh = mesh.ok_or_else(|| give_up("a mesh that the program does not have"))?;
            if found.is_some_and(|other| other != mesh) {
                return Err(give_up("a computation over two meshes"));
            }
            found = Some(mesh);
        }
        let mesh = found.ok_or_else(|| give_up("a computation without a sharding"))?.clone();
        if mesh.device_count() != i64::try_from(num_partitions).ok() || mesh.axes.iter().any(|(_, size)| *size < 1) {
            return Err(give_up("a mesh of other devices than the partitions"));
        }
        if !mesh.device_ids.is_empty() && mesh.device_ids.len() != num_partitions {
            return Err(give_up("a mesh that does not name each device once"));
        }
        let is_manual = |at: &usize| names.contains(&mesh.axes[*at].0) && mesh.axes[*at].1 > 1;
        let manual: Vec<usize> = (0..mesh.axes.len()).filter(is_manual).collect();
        let axes = Axes { mesh, manual };
        if axes.manual.len() > MAX_AXES || axes.count(axes.all()) > MAX_PARTITIONS {
            return Err(give_up("more partitions than are computed together"));
        }
        Ok(axes)
    }

    /// All of them.
    pub(super) fn all(&self) -> AxisSet {
        (1 << self.manual.len()) - 1
    }

    /// Numbers of the axes of a set, major to minor.
    pub(super) fn list(&self, set: AxisSet) -> Vec<usize> {
        (0..self.manual.len()).filter(|&n| set >> n & 1 == 1).collect()
    }

    pub(super) fn size(&self, axis: usize) -> i64 {
        self.mesh.axes[self.manual[axis]].1
    }

    /// Sizes of the axes of a set, major to minor.
    pub(super) fn sizes(&self, set: AxisSet) -> Vec<i64> {
        self.list(set).into_iter().map(|axis| self.size(axis)).collect()
    }

    /// Partitions along a set of axes.
    pub(super) fn count(&self, set: AxisSet) -> i64 {
        self.sizes(set).into_iter().fold(1, i64::saturating_mul)
    }

    /// Whether the mesh has axes beside the manual ones, along which there are several partitions.
    pub(super) fn has_others(&self) -> bool {
        self.mesh.axes.iter().enumerate().any(|(at, (_, size))| *size > 1 && !self.manual.contains(&at))
    }

    /// The manual axes that split each dimension, major to minor.
    pub(super) fn splits(&self, sharding: &TensorSharding, rank: usize) -> Result<Vec<Vec<usize>>, Violation> {
        if sharding.dims.len() != rank || !sharding.unreduced.is_empty() {
            return Err(give_up("a sharding of summands"));
        }
        let one = |axis: &AxisRef| match (self.mesh.axes.iter().position(|(name, _)| *name == axis.name), axis.sub_axis)
        {
            (Some(at), None) => Ok(self.manual.iter().position(|&manual| manual == at)),
            _ => Err(give_up("a sharding by a part of an axis")),
        };
        let dim = |axes: &[AxisRef]| {
            let found = axes.iter().map(one).collect::<Result<Vec<_>, Violation>>()?;
            Ok(found.into_iter().flatten().collect::<Vec<usize>>())
        };
        let splits = sharding.dims.iter().map(|split| dim(&split.axes)).collect::<Result<Vec<_>, Violation>>()?;
        let mut seen = 0;
        for &axis in splits.iter().flatten() {
            if seen >> axis & 1 == 1 {
                return Err(give_up("an axis that splits two dimensions"));
            }
            seen |= 1 << axis;
        }
        Ok(splits)
    }

    /// The number of the partition at a place of the mesh.
    fn partition(&self, at: i64) -> i64 {
        self.mesh.device_ids.get(at as usize).copied().unwrap_or(at)
    }

    /// Numbers of the partitions along all manual axes, in their order.
    pub(super) fn partitions(&self) -> Vec<i64> {
        (0..self.count(self.all())).map(|at| self.partition(at)).collect()
    }

    /// The axes along which the groups of a collective run. With `in_order` the partitions of a group must be in the order
    /// of the mesh.
    pub(super) fn groups(&self, op: &Op, in_order: bool) -> Result<AxisSet, Violation> {
        if !matches!(op.attr("channel_handle"), Some(Attr::Channel(channel)) if channel.handle > 0) {
            return Err(give_up("a collective of replicas"));
        }
        let dense = match op.attr("replica_groups") {
            Some(Attr::Dense(dense)) => dense,
            Some(Attr::MeshAxes(axes)) => return self.named(axes),
            _ => return Err(give_up("a collective without groups")),
        };
        let unknown = || give_up("groups of other partitions than those along manual axes");
        let &[rows, columns] = &dense.ty.dims[..] else { return Err(unknown()) };
        let total = self.mesh.device_count().ok_or_else(unknown)?;
        if columns < 1 || rows.checked_mul(columns) != Some(total) {
            return Err(unknown());
        }
        let numbers = dense.to_i64s(1 << 20).ok_or_else(unknown)?;
        let mut given: Vec<Vec<i64>> = numbers.chunks(columns as usize).map(<[i64]>::to_vec).collect();
        if !in_order {
            given.iter_mut().for_each(|group| group.sort_unstable());
        }
        given.sort_unstable();
        let is_it = |set: &AxisSet| self.count(*set) == columns && self.groups_of(*set, in_order) == given;
        (0..=self.all()).find(is_it).ok_or_else(unknown)
    }

    fn named(&self, axes: &ReplicaGroupMeshAxes) -> Result<AxisSet, Violation> {
        let unknown = || give_up("groups along other axes than manual ones");
        let mut last = None;
        let mut set = 0;
        for axis in &axes.axes {
            let at = self.mesh.axes.iter().position(|(name, _)| *name == axis.name).ok_or_else(unknown)?;
            if axis.sub_axis.is_some() || last.is_some_and(|last| last >= at) {
                return Err(unknown());
            }
            last = Some(at);
            match self.manual.iter().position(|&manual| manual == at) {
                Some(n) => set |= 1 << n,
                None if self.mesh.axes[at].1 == 1 => {}
                None => return Err(unknown()),
            }
        }
        Ok(set)
    }

    /// Partitions that differ along the axes of a set only, sorted by groups.
    fn groups_of(&self, set: AxisSet, in_order: bool) -> Vec<Vec<i64>> {
        let inside: Vec<usize> = self.list(set).into_iter().map(|axis| self.manual[axis]).collect();
        let mut groups: HashMap<Vec<i64>, Vec<i64>> = HashMap::new();
        for at in 0..self.mesh.device_count().unwrap_or(0) {
            let mut rest = at;
            let mut place: Vec<i64> = Vec::with_capacity(self.mesh.axes.len());
            for (_, size) in self.mesh.axes.iter().rev() {
                place.push(rest % size);
                rest /= size;
            }
            place.reverse();
            inside.iter().for_each(|&axis| place[axis] = 0);
            // Places are counted in the order of the mesh, so a group is in that order too.
            groups.entry(place).or_default().push(self.partition(at));
        }
        let mut groups: Vec<Vec<i64>> = groups.into_values().collect();
        if !in_order {
            groups.iter_mut().for_each(|group| group.sort_unstable());
        }
        groups.sort_unstable();
        groups
    }
}
