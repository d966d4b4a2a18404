//! Legal programs that the TPU compiler refuses or dies on.

use crate::error::Finding;
use crate::ir::{Attr, Attrs, DYNAMIC, Func, Op, OpKind, TensorType, Type};
use crate::ops::Violation;

use super::{Report, Verified, types};

/// How many copies of a program run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processes {
    /// Replicas: copies on different data.
    pub replicas: u32,
    /// Partitions: parts of one copy.
    pub partitions: u32,
}

/// What in a verified program would make the TPU compiler abort or fail, when compiled for that many processes.
pub fn unsupported_by_tpu(module: &Verified, processes: Processes) -> Vec<Finding> {
    let mut report = Report::default();
    let all = i64::from(processes.replicas).saturating_mul(i64::from(processes.partitions));
    for mesh in &module.meshes {
        if let Some(id) = mesh.mesh.device_ids.iter().find(|&&id| id < 0 || id >= all) {
            let message = format!("device id {id} of @{} is not one of {all} devices", mesh.name);
            report.add("", "sdy.mesh", &mesh.loc, Violation::new("", message));
        }
    }
    for func in &module.funcs {
        signature(func, &mut report);
        for id in func.walk() {
            let op = func.op(id);
            for value in op.results() {
                report.check(&func.name, op.name.as_str(), &op.loc, compilable(func.ty(value)));
            }
            report.check(&func.name, op.name.as_str(), &op.loc, partners(op, processes));
        }
    }
    report.findings
}

fn signature(func: &Func, report: &mut Report) {
    let sides = [("argument", &func.inputs, &func.input_attrs), ("result", &func.outputs, &func.output_attrs)];
    for (name, all, attrs) in sides {
        for (n, ty) in all.iter().enumerate() {
            let layout = attrs.get(n).map_or(Ok(()), |attrs| layout_mode(attrs, ty));
            for checked in [compilable(ty), layout] {
                if let Err(violation) = checked {
                    let message = format!("{name} {n}: {}", violation.message);
                    report.func(func, Violation { message, ..violation });
                }
            }
        }
    }
}

/// Every dimension is known or bounded, and the product of dimensions fits even where one is zero.
fn compilable(ty: &Type) -> Result<(), Violation> {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match ty {
            Type::Tensor(ty) => {
                for (dim, &size) in ty.dims.iter().enumerate() {
                    let bound = ty.bounds().and_then(|bounds| bounds.get(dim).copied()).unwrap_or(DYNAMIC);
                    if size == DYNAMIC && bound == DYNAMIC {
                        return Err(Violation::new("", format!("dim {dim} is dynamic and has no bound")));
                    }
                }
                if types::largest_bytes(ty, 1).is_none() {
                    return Err(Violation::new("", "the product of the dimensions overflows 64 bits"));
                }
            }
            Type::Tuple(types) | Type::Future(types) => pending.extend(types.iter()),
            _ => {}
        }
    }
    Ok(())
}

/// Whether every process must be in some group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cover {
    All,
    Some,
}

/// Process ids of collectives exist, and groups name all of them where they must.
fn partners(op: &Op, processes: Processes) -> Result<(), Violation> {
    let (replicas, partitions) = (i64::from(processes.replicas), i64::from(processes.partitions));
    let has_channel = matches!(op.attr("channel_handle"), Some(Attr::Channel(channel)) if channel.handle > 0);
    let is_global = matches!(op.attr("use_global_device_ids"), Some(Attr::Unit | Attr::Bool(true)));
    let either = if has_channel { partitions } else { replicas };
    let all = if is_global { replicas.saturating_mul(partitions) } else { replicas };
    let groups = "replica_groups";
    let (clause, name, count, cover) = match op.kind() {
        Some(OpKind::CollectivePermute) => ("collective_permute C4", "source_target_pairs", either, Cover::Some),
        Some(OpKind::Send) => ("send C4", "source_target_pairs", either, Cover::Some),
        Some(OpKind::Recv) => ("recv C4", "source_target_pairs", either, Cover::Some),
        Some(OpKind::CollectiveBroadcast) => ("collective_broadcast C2", groups, either, Cover::Some),
        Some(OpKind::CollectiveReduce) => ("collective_reduce C2", groups, all, Cover::Some),
        Some(OpKind::AllToAll) => ("all_to_all C6", groups, either, Cover::All),
        Some(OpKind::AllGather) => ("all_gather C3", groups, all, Cover::All),
        Some(OpKind::AllReduce) => ("all_reduce C2", groups, all, Cover::All),
        Some(OpKind::ReduceScatter) => ("reduce_scatter C4", groups, all, Cover::All),
        _ => return Ok(()),
    };
    let Some(Attr::Dense(dense)) = op.attr(name) else { return Ok(()) };
    let ids = dense.to_i64s(1 << 22).unwrap_or_default();
    if let Some(id) = ids.iter().find(|&&id| id >= count || id < -1) {
        return Err(Violation::new(clause, format!("{name} holds {id}, there are {count} processes")));
    }
    // Empty groups stand for one group of all.
    let named = ids.iter().filter(|&&id| id >= 0).count() as i64;
    if cover == Cover::All && named != 0 && named != count {
        return Err(Violation::new(clause, format!("{name} holds {named} of {count} processes")));
    }
    Ok(())
}

/// A layout that is neither a word nor a permutation of the dimensions crashes the compiler.
fn layout_mode(attrs: &Attrs, ty: &Type) -> Result<(), Violation> {
    let Some(mode) = attrs.get("mhlo.layout_mode").and_then(Attr::as_str) else { return Ok(()) };
    if matches!(mode, "default" | "auto") {
        return Ok(());
    }
    let rank = ty.as_tensor().map_or(0, TensorType::rank);
    let inner = mode.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let order = inner.map(|inner| inner.split(':').next().unwrap_or_default());
    let dims: Option<Vec<usize>> = order.and_then(|order| match order.trim() {
        "" => Some(Vec::new()),
        order => order.split(',').map(|dim| dim.trim().parse().ok()).collect(),
    });
    let is_permutation = dims.is_some_and(|mut dims| {
        dims.sort_unstable();
        dims.into_iter().eq(0..rank)
    });
    if is_permutation {
        return Ok(());
    }
    Err(Violation::new("", format!("mhlo.layout_mode \"{mode}\" is no permutation of {rank} dimensions")))
}
