//! Communication between processes: replica groups, channels and source-target pairs.

use std::collections::HashSet;

use crate::ir::dims::{AxisRef, ReplicaGroupMeshAxes};
use crate::ir::{Attr, TensorType};
use crate::ops::def::{OpView, Violation};

use super::{Checked, reduction, require};

/// Whether groups may have different sizes, padded with -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupSizes {
    /// All the same.
    Equal,
    /// Shorter ones end in -1.
    Ragged,
}

/// What is known of replica groups without knowing the number of processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    /// Processes in each group, if groups are equal and their size is known.
    pub(crate) size: Option<i64>,
}

/// Clauses on replica groups.
pub(crate) struct GroupClauses {
    /// The input itself.
    pub(crate) input: &'static str,
    /// No id twice.
    pub(crate) unique: &'static str,
    /// Ids in `[0, size)`.
    pub(crate) range: &'static str,
    /// `use_global_device_ids` needs a channel.
    pub(crate) channel: &'static str,
}

/// Replica groups hold each id once, with no gaps.
pub(crate) fn replica_groups(op: &OpView<'_>, sizes: GroupSizes, c: &GroupClauses) -> Result<Groups, Violation> {
    let is_global = op.is_set("use_global_device_ids");
    if is_global {
        let channel = channel(op);
        require!(channel > 0, c.channel, "use_global_device_ids is set but the channel id is {channel}");
    }
    if let Attr::MeshAxes(axes) = op.attr("replica_groups")? {
        return Ok(Groups { size: mesh_group_size(op, axes, c.input)? });
    }
    let Some((shape, ids)) = op.dense_i64s("replica_groups")? else {
        return Ok(Groups { size: None });
    };
    require!(shape.len() == 2, c.input, "replica_groups has rank {}, 2 expected", shape.len());
    require!(!is_global || !ids.is_empty(), c.input, "use_global_device_ids is set but replica_groups is empty");
    let mut seen = HashSet::with_capacity(ids.len());
    for &id in &ids {
        if id == -1 && sizes == GroupSizes::Ragged {
            continue;
        }
        require!(id >= 0, c.range, "replica_groups holds {id}");
        require!(seen.insert(id), c.unique, "replica_groups holds {id} twice");
    }
    for id in 0..seen.len() as i64 {
        require!(seen.contains(&id), c.range, "replica_groups holds {} ids but not {id}", seen.len());
    }
    let is_ragged = sizes == GroupSizes::Ragged && ids.contains(&-1);
    Ok(Groups { size: (!is_ragged && !ids.is_empty()).then_some(shape[1]) })
}

impl Groups {
    /// Processes that exchange data in `all_gather` and `reduce_scatter`. With a channel but without global ids each
    /// replica of a group stands for all its partitions, whose number is not known here (`None`).
    pub(crate) fn processes(&self, op: &OpView<'_>) -> Option<i64> {
        let is_known = op.is_set("use_global_device_ids") || channel(op) <= 0;
        self.size.filter(|_| is_known)
    }
}

/// The channel id, 0 when there is none.
pub(crate) fn channel(op: &OpView<'_>) -> i64 {
    match op.attrs.get("channel_handle") {
        Some(Attr::Channel(channel)) => channel.handle,
        _ => 0,
    }
}

fn mesh_group_size(
    op: &OpView<'_>,
    groups: &ReplicaGroupMeshAxes,
    clause: &'static str,
) -> Result<Option<i64>, Violation> {
    let axes: &[(String, i64)] = match (&groups.mesh, op.symbols) {
        (Attr::Mesh(mesh), _) => &mesh.axes,
        (Attr::Symbol(name), Some(symbols)) => match symbols.mesh(name) {
            Some(mesh) => &mesh.axes,
            // Other dialects name meshes by symbols of their own.
            None if symbols.func(name).is_some() => return Ok(None),
            None => return Err(Violation::new(clause, format!("mesh @{name} is not in the module"))),
        },
        _ => return Ok(None),
    };
    let mut size = Some(1i64);
    for axis in &groups.axes {
        size = size.and_then(|n| n.checked_mul(axis_size(axes, axis, clause).ok()?));
        axis_size(axes, axis, clause)?;
    }
    Ok(size)
}

/// Number of devices along an axis or a part of one.
pub(crate) fn axis_size(axes: &[(String, i64)], axis: &AxisRef, clause: &'static str) -> Result<i64, Violation> {
    let Some(&(_, size)) = axes.iter().find(|(name, _)| *name == axis.name) else {
        return Err(Violation::new(clause, format!("the mesh has no axis \"{}\"", axis.name)));
    };
    match axis.sub_axis {
        None => Ok(size),
        Some((before, part)) => {
            let is_part = before > 0
                && part > 1
                && before.checked_mul(part).is_some_and(|covered| size % covered == 0 && part < size);
            require!(is_part, clause, "\"{}\":({before}){part} is not a part of an axis of size {size}", axis.name);
            Ok(part)
        }
    }
}

/// Clauses C1 to C4 of `collective_permute`.
pub(crate) struct PairClauses {
    pub(crate) shape: &'static str,
    pub(crate) sources: &'static str,
    pub(crate) targets: &'static str,
    pub(crate) range: &'static str,
}

/// Each process sends to at most one other and receives from at most one.
pub(crate) fn source_target_pairs(op: &OpView<'_>, c: &PairClauses) -> Checked {
    let Some((shape, ids)) = op.dense_i64s("source_target_pairs")? else { return Ok(()) };
    require!(
        ids.is_empty() || (shape.len() == 2 && shape[1] == 2),
        c.shape,
        "source_target_pairs has shape {shape:?}, [N, 2] expected"
    );
    let (mut sources, mut targets) = (HashSet::new(), HashSet::new());
    for &[source, target] in ids.as_chunks().0 {
        require!(source >= 0 && target >= 0, c.range, "source_target_pairs holds [{source}, {target}]");
        require!(sources.insert(source), c.sources, "{source} is a source twice");
        require!(targets.insert(target), c.targets, "{target} is a target twice");
    }
    Ok(())
}

/// Region 0 combines two scalars of a type that each operand promotes to.
pub(crate) fn computation(op: &OpView<'_>, operands: &[&TensorType], clause: &'static str) -> Checked {
    for operand in operands {
        let scalar = TensorType::new(Vec::new(), operand.element.clone());
        reduction::body(op, 0, &[operand], &[&scalar], clause)?;
    }
    Ok(())
}

/// The operands that carry data: all, or all but the last when that one is the root.
///
/// Clauses: what the last operand is when the root is dynamic, and how many operands there must be.
pub(crate) fn data_operands<'a>(op: &OpView<'a>, clause: &'static str) -> Result<Vec<&'a TensorType>, Violation> {
    let mut operands = op.tensors()?;
    if op.is_set("has_dynamic_root") {
        require!(operands.len() >= 2, clause, "{} operands, data and root expected", operands.len());
        let Some(root) = operands.pop() else { return Ok(operands) };
        require!(
            root.element.plain() == Some(tensor::DType::I32) && root.dims == [operands.len() as i64],
            clause,
            "the root must be tensor<{}xi32>, is {}",
            operands.len(),
            super::spelling::tensor(root)
        );
    }
    require!(!operands.is_empty(), clause, "there must be at least one data operand");
    Ok(operands)
}
