//! Collective ops: what processes of a grid compute together, and their places in it.

use std::sync::Arc;

use hlo::dims::ReplicaGroupMeshAxes;
use hlo::{Attr, OpKind, TensorType};
use tensor::DType;

use super::combine::Combine;
use super::context::{Context, Eval};
use super::contraction::ints;
use super::positions;
use super::process::{GridSize, Program, run_processes};
use super::quantization;
use super::reduction::promoted;
use super::scalar::{self, Scalar};
use super::value::{Elements, InterpreterValue, TensorValue};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::AllReduce => all_reduce,
        OpKind::AllGather => all_gather,
        OpKind::ReduceScatter => reduce_scatter,
        OpKind::AllToAll => all_to_all,
        OpKind::CollectivePermute => collective_permute,
        OpKind::CollectiveBroadcast => collective_broadcast,
        OpKind::CollectiveReduce => collective_reduce,
        OpKind::CrossReplicaSum => cross_replica_sum,
        OpKind::PartitionId => |context| Ok(vec![id(place(context).partition())]),
        OpKind::ReplicaId => |context| Ok(vec![id(place(context).replica())]),
        OpKind::Send => send,
        OpKind::Recv => receive,
        OpKind::Infeed => infeed,
        OpKind::Outfeed => |_| Ok(vec![InterpreterValue::Token]),
        OpKind::InterpreterRunParallel => run_parallel,
        _ => return None,
    })
}

/// Where this process is: a grid of one where it runs alone.
struct Place {
    id: usize,
    replicas: usize,
    partitions: usize,
}

impl Place {
    fn replica(&self) -> usize {
        self.id / self.partitions
    }

    fn partition(&self) -> usize {
        self.id % self.partitions
    }
}

fn place(context: &Context<'_, '_>) -> Place {
    match &context.run.process {
        Some(process) => {
            let id = process.replica() * process.grid.partitions + process.partition();
            Place { id, replicas: process.grid.replicas, partitions: process.grid.partitions }
        }
        None => Place { id: 0, replicas: 1, partitions: 1 },
    }
}

fn id(value: usize) -> InterpreterValue {
    TensorValue { ty: TensorType::new(Vec::new(), DType::U32), elements: Elements::Int(vec![value as i128]) }.into()
}

/// How ids in groups are read (spec: "Collective ops").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

fn channel(context: &Context<'_, '_>) -> i64 {
    match context.op.attr("channel_handle") {
        Some(Attr::Channel(channel)) => channel.handle,
        _ => 0,
    }
}

/// The strategy of ops that combine replicas and partitions.
fn combined(context: &Context<'_, '_>) -> Strategy {
    match (channel(context) > 0, attributes::flag(context.op, "use_global_device_ids")) {
        (true, true) => Strategy::FlattenedIds,
        (true, false) => Strategy::CrossReplicaAndPartition,
        (false, _) => Strategy::CrossReplica,
    }
}

/// The strategy of ops that cross either replicas or partitions.
fn either(context: &Context<'_, '_>) -> Strategy {
    if channel(context) > 0 { Strategy::CrossPartition } else { Strategy::CrossReplica }
}

/// Groups of ids as written; no groups stand for one of all ids.
fn written_groups(context: &Context<'_, '_>, strategy: Strategy) -> Result<Vec<Vec<i64>>, Error> {
    let place = place(context);
    let all = match strategy {
        Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => place.replicas,
        Strategy::CrossPartition => place.partitions,
        Strategy::FlattenedIds => place.replicas * place.partitions,
    };
    let groups = match context.op.attr("replica_groups") {
        Some(Attr::Dense(dense)) => {
            let width = dense.ty.dims.last().copied().unwrap_or(0).max(1) as usize;
            let ids = attributes::ints(context.op, "replica_groups")?;
            // Shorter groups are filled up with -1.
            ids.chunks(width).map(|g| g.iter().copied().filter(|&id| id >= 0).collect()).collect()
        }
        Some(Attr::MeshAxes(axes)) => mesh_groups(context, axes)?,
        _ => Vec::new(),
    };
    if groups.iter().all(Vec::is_empty) { Ok(vec![(0..all as i64).collect()]) } else { Ok(groups) }
}

/// Groups along axes of a mesh: one for each place along the other axes.
fn mesh_groups(context: &Context<'_, '_>, groups: &ReplicaGroupMeshAxes) -> Result<Vec<Vec<i64>>, Error> {
    let (axes, device_ids): (&[(String, i64)], Option<Vec<i64>>) = match &groups.mesh {
        Attr::Mesh(mesh) => match &mesh.device_ids {
            Some(Attr::Dense(ids)) => (&mesh.axes, ids.to_i64s(1 << 20)),
            _ => (&mesh.axes, None),
        },
        Attr::Symbol(name) => match context.run.module.mesh(name) {
            Some(mesh) => (&mesh.axes, Some(mesh.device_ids.clone()).filter(|ids| !ids.is_empty())),
            None => return context.fail(format!("there is no mesh @{name}")),
        },
        _ => return context.fail("replica_groups names no mesh"),
    };
    // Every axis as up to three parts, major to minor; the named ones are what a group runs along.
    let mut parts: Vec<i64> = Vec::new();
    let mut named: Vec<Option<usize>> = vec![None; groups.axes.len()];
    for (name, size) in axes {
        if *size < 1 {
            return context.fail(format!("axis \"{name}\" has size {size}"));
        }
        let mut cuts: Vec<(i64, i64, usize)> = groups
            .axes
            .iter()
            .enumerate()
            .filter(|(_, axis)| axis.name == *name)
            .map(|(n, axis)| axis.sub_axis.map_or((1, *size, n), |(before, part)| (before, part, n)))
            .collect();
        cuts.sort_unstable();
        let mut done = 1;
        for (before, part, n) in cuts {
            if before < done || part < 1 || before % done != 0 || size % (before.saturating_mul(part)).max(1) != 0 {
                return context.fail(format!("parts of axis \"{name}\" do not fit it"));
            }
            parts.push(before / done);
            named[n] = Some(parts.len());
            parts.push(part);
            done = before * part;
        }
        parts.push(size / done);
    }
    let Some(named) = named.into_iter().collect::<Option<Vec<usize>>>() else {
        return context.fail("replica_groups names an axis that the mesh does not have");
    };
    positions::count(context, &parts)?;
    let strides = positions::strides(&parts);
    let others: Vec<usize> = (0..parts.len()).filter(|d| !named.contains(d)).collect();
    let inner = positions::offsets(&parts, &strides, &named);
    let device = |at: usize| device_ids.as_ref().map_or(Some(at as i64), |ids| ids.get(at).copied());
    positions::offsets(&parts, &strides, &others)
        .into_iter()
        .map(|base| inner.iter().map(|offset| device(base + offset)).collect::<Option<Vec<i64>>>())
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::Internal("a mesh lists too few devices".into()))
}

/// Ids of one written group as groups of processes.
fn process_groups(place: &Place, strategy: Strategy, ids: &[i64]) -> Vec<Vec<usize>> {
    // Ids beyond the grid stay beyond it, and are refused where the group is used.
    let process = |replica: usize, partition: usize| replica.saturating_mul(place.partitions).saturating_add(partition);
    let ids = || ids.iter().map(|&id| id as usize);
    match strategy {
        Strategy::CrossReplica => {
            (0..place.partitions).map(|p| ids().map(|replica| process(replica, p)).collect()).collect()
        }
        Strategy::CrossPartition => {
            (0..place.replicas).map(|r| ids().map(|partition| process(r, partition)).collect()).collect()
        }
        Strategy::CrossReplicaAndPartition => {
            vec![
                (0..place.partitions)
                    .flat_map(|p| ids().map(move |replica| (replica, p)))
                    .map(|(r, p)| process(r, p))
                    .collect(),
            ]
        }
        Strategy::FlattenedIds => vec![ids().collect()],
    }
}

/// The group this process belongs to, if any.
fn group(context: &Context<'_, '_>, strategy: Strategy) -> Result<Option<Vec<usize>>, Error> {
    let place = place(context);
    let total = place.replicas * place.partitions;
    for ids in written_groups(context, strategy)? {
        for group in process_groups(&place, strategy, &ids) {
            if group.contains(&place.id) {
                if let Some(outside) = group.iter().find(|&&member| member >= total) {
                    return context.fail(format!("process {outside} is not in a grid of {total}"));
                }
                return Ok(Some(group));
            }
        }
    }
    Ok(None)
}

fn own_group(context: &Context<'_, '_>, strategy: Strategy) -> Result<Vec<usize>, Error> {
    match group(context, strategy)? {
        Some(group) => Ok(group),
        None => context.fail("this process is in no group"),
    }
}

/// This process's group in an op that combines replicas and partitions.
pub(super) fn combined_group(context: &Context<'_, '_>) -> Result<Vec<usize>, Error> {
    own_group(context, combined(context))
}

/// The values of every member of a group, in its order.
fn exchange(
    context: &Context<'_, '_>,
    group: &[usize],
    values: Vec<InterpreterValue>,
) -> Result<Vec<Arc<Vec<InterpreterValue>>>, Error> {
    match &context.run.process {
        Some(process) if group.len() > 1 => {
            process.meet(context.run.options, context.op.name.as_str(), channel(context), group, values)
        }
        _ => Ok(vec![Arc::new(values)]),
    }
}

/// Folds the tensors of all members, element by element, in the order of the group.
fn folded(context: &mut Context<'_, '_>, tensors: &[&TensorValue]) -> Result<TensorValue, Error> {
    let combine = Combine::new(context, 0)?;
    let tensors = tensors.iter().map(|t| promoted(t, combine.argument(0)?)).collect::<Result<Vec<_>, _>>()?;
    let Some((first, rest)) = tensors.split_first() else { return context.fail("there is nothing to reduce") };
    let mut result = first.clone();
    for tensor in rest {
        if tensor.dims() != result.dims() {
            return context.fail("processes bring tensors of different sizes");
        }
        for at in 0..result.elements.len() {
            let (a, b) = (Scalar::get(&result.elements, at), Scalar::get(&tensor.elements, at));
            combine.fold(context, a, b)?.set(&mut result.elements, at)?;
        }
    }
    Ok(result)
}

/// Operand `n` of every member.
fn of_all(gathered: &[Arc<Vec<InterpreterValue>>], n: usize) -> Result<Vec<&TensorValue>, Error> {
    gathered
        .iter()
        .map(|values| values.get(n).ok_or_else(|| Error::Internal(format!("a process brings no value {n}")))?.tensor())
        .collect()
}

fn all_reduce(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let group = own_group(context, combined(context))?;
    let gathered = exchange(context, &group, context.values()?)?;
    (0..context.op.operands.len()).map(|n| Ok(folded(context, &of_all(&gathered, n)?)?.into())).collect()
}

fn cross_replica_sum(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let group = own_group(context, Strategy::CrossReplica)?;
    let gathered = exchange(context, &group, context.values()?)?;
    let tensors = of_all(&gathered, 0)?;
    let mut result = tensors[0].clone();
    for tensor in &tensors[1..] {
        for at in 0..result.elements.len().min(tensor.elements.len()) {
            let (a, b) = (Scalar::get(&result.elements, at), Scalar::get(&tensor.elements, at));
            match scalar::binary(OpKind::Add, result.dtype(), a, b) {
                Some(sum) => sum.set(&mut result.elements, at)?,
                None => return context.fail("elements that cannot be added"),
            }
        }
    }
    Ok(vec![result.into()])
}

/// Tensors one after another along a dimension.
fn concatenated(context: &Context<'_, '_>, parts: &[TensorValue], along: usize) -> Result<TensorValue, Error> {
    let Some(first) = parts.first() else { return context.fail("there is nothing to concatenate") };
    let same = |t: &TensorValue| {
        t.dims().len() == first.dims().len()
            && t.dims().iter().zip(first.dims()).enumerate().all(|(d, (a, b))| d == along || a == b)
    };
    if along >= first.dims().len() || !parts.iter().all(same) {
        return context.fail("processes bring tensors of different sizes");
    }
    let mut dims = first.dims().to_vec();
    dims[along] = parts.iter().map(|t| t.dims()[along]).sum();
    let count = positions::count(context, &dims)?;
    let outer: usize = dims[..along].iter().product::<i64>() as usize;
    let joined = super::contraction::join(parts.iter().map(|t| &t.elements))?;
    let mut order = Vec::with_capacity(count);
    for row in 0..outer {
        let mut base = 0;
        for part in parts {
            let length = part.elements.len() / outer.max(1);
            order.extend((0..length).map(|i| base + row * length + i));
            base += part.elements.len();
        }
    }
    let ty = TensorType::new(dims, first.ty.element.clone());
    Ok(TensorValue { ty, elements: joined.pick(order.into_iter()) })
}

/// Part `index` of `count` equal parts along a dimension.
fn part(
    context: &Context<'_, '_>,
    tensor: &TensorValue,
    along: usize,
    count: usize,
    index: usize,
) -> Result<TensorValue, Error> {
    let mut dims = tensor.dims().to_vec();
    if along >= dims.len() || count == 0 || dims[along] % count as i64 != 0 {
        return context.fail(format!("dimension {along} does not split into {count} parts"));
    }
    let strides = positions::strides(&dims);
    dims[along] /= count as i64;
    let base = index * dims[along] as usize * strides[along];
    let all: Vec<usize> = (0..dims.len()).collect();
    let elements = tensor.elements.pick(positions::offsets(&dims, &strides, &all).into_iter().map(|at| base + at));
    Ok(TensorValue { ty: TensorType::new(dims, tensor.ty.element.clone()), elements })
}

fn all_gather(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let along = attributes::int(context.op, "all_gather_dim")? as usize;
    let group = own_group(context, combined(context))?;
    let gathered = exchange(context, &group, context.values()?)?;
    (0..context.op.operands.len())
        .map(|n| {
            let parts: Vec<TensorValue> = of_all(&gathered, n)?.into_iter().cloned().collect();
            Ok(concatenated(context, &parts, along)?.into())
        })
        .collect()
}

fn reduce_scatter(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let along = attributes::int(context.op, "scatter_dimension")? as usize;
    let group = own_group(context, combined(context))?;
    let gathered = exchange(context, &group, context.values()?)?;
    let reduced = folded(context, &of_all(&gathered, 0)?)?;
    let index = index_in(context, &group)?;
    Ok(vec![part(context, &reduced, along, group.len(), index)?.into()])
}

fn index_in(context: &Context<'_, '_>, group: &[usize]) -> Result<usize, Error> {
    let id = place(context).id;
    group.iter().position(|&member| member == id).ok_or_else(|| Error::Internal("a process left its group".into()))
}

fn all_to_all(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let split = attributes::int(context.op, "split_dimension")? as usize;
    let concat = attributes::int(context.op, "concat_dimension")? as usize;
    let count = attributes::int(context.op, "split_count")? as usize;
    let group = own_group(context, either(context))?;
    let index = index_in(context, &group)?;
    let gathered = exchange(context, &group, context.values()?)?;
    (0..context.op.operands.len())
        .map(|n| {
            let parts = of_all(&gathered, n)?
                .into_iter()
                .map(|tensor| part(context, tensor, split, count, index))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(concatenated(context, &parts, concat)?.into())
        })
        .collect()
}

/// A tensor of the operand's type filled with zero.
fn zeros(tensor: &TensorValue) -> TensorValue {
    let zero = match quantization::zero_point(&tensor.ty.element) {
        Some(point) => Scalar::Int(i128::from(point)),
        None => Scalar::zero(tensor.dtype()),
    };
    TensorValue { ty: tensor.ty.clone(), elements: zero.repeat(tensor.elements.len()) }
}

fn collective_permute(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (place, strategy) = (place(context), either(context));
    let pairs = attributes::ints(context.op, "source_target_pairs")?;
    let operand = context.tensor(0)?.clone();
    let mut result = zeros(&operand);
    let total = place.replicas * place.partitions;
    // Every process goes through the pairs in the same order, so that they cannot wait for each other in a circle.
    for pair in pairs.chunks_exact(2) {
        for group in process_groups(&place, strategy, pair) {
            if !group.contains(&place.id) {
                continue;
            }
            if group.iter().any(|&member| member >= total) {
                return context.fail(format!("pair {pair:?} leaves a grid of {total} processes"));
            }
            if group[0] == group[1] {
                result = operand.clone();
                continue;
            }
            let gathered = exchange(context, &group, vec![operand.clone().into()])?;
            if group[1] == place.id {
                result = of_all(&gathered, 0)?[0].clone();
            }
        }
    }
    Ok(vec![result.into()])
}

/// For each data operand the place of its root in the group, and the number of data operands.
fn roots(context: &Context<'_, '_>, group: &[usize]) -> Result<Vec<usize>, Error> {
    let operands = context.op.operands.len();
    if !attributes::flag(context.op, "has_dynamic_root") {
        return Ok(vec![0; operands]);
    }
    let roots = ints(&context.tensor(operands - 1)?.elements)?;
    match roots.iter().map(|&r| usize::try_from(r).ok().filter(|&r| r < group.len())).collect::<Option<Vec<_>>>() {
        Some(roots) if roots.len() == operands - 1 => Ok(roots),
        _ => context.fail(format!("roots {roots:?} do not fit a group of {}", group.len())),
    }
}

fn collective_broadcast(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let results = context.op.num_results as usize;
    let Some(group) = group(context, either(context))? else {
        return (0..results).map(|n| Ok(zeros(context.tensor(n)?).into())).collect();
    };
    let roots = roots(context, &group)?;
    let gathered = exchange(context, &group, context.values()?)?;
    (0..results).map(|n| Ok(of_all(&gathered, n)?[roots[n]].clone().into())).collect()
}

fn collective_reduce(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let results = context.op.num_results as usize;
    let strategy = match attributes::flag(context.op, "use_global_device_ids") {
        true => combined(context),
        false => either(context),
    };
    let empty = |context: &Context<'_, '_>, n: usize| -> Result<TensorValue, Error> {
        let operand = zeros(context.tensor(n)?);
        promoted(&operand, Combine::new(context, 0)?.argument(0)?)
    };
    let Some(group) = group(context, strategy)? else {
        return (0..results).map(|n| Ok(empty(context, n)?.into())).collect();
    };
    let roots = roots(context, &group)?;
    let index = index_in(context, &group)?;
    let gathered = exchange(context, &group, context.values()?)?;
    (0..results)
        .map(|n| match roots[n] == index {
            true => Ok(folded(context, &of_all(&gathered, n)?)?.into()),
            false => Ok(empty(context, n)?.into()),
        })
        .collect()
}

fn send(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let Some(process) = &context.run.process else {
        return Err(Error::Unsupported { what: "stablehlo.send outside a grid of processes".into() });
    };
    let mut values = context.values()?;
    values.pop();
    process.send(channel(context), values);
    Ok(vec![InterpreterValue::Token])
}

fn receive(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let Some(process) = &context.run.process else {
        return Err(Error::Unsupported { what: "stablehlo.recv outside a grid of processes".into() });
    };
    let mut values = process.receive(context.run.options, channel(context))?;
    values.push(InterpreterValue::Token);
    Ok(values)
}

fn infeed(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let Some(func) = context.run.process.as_ref().and_then(|process| process.next_infeed()) else {
        return Err(Error::Unsupported { what: "stablehlo.infeed with nothing to read".into() });
    };
    let mut values = context.run.call(&func, Vec::new())?;
    values.push(InterpreterValue::Token);
    Ok(values)
}

fn run_parallel(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    if context.run.process.is_some() {
        return context.fail("a process of a grid cannot start another grid");
    }
    let Some(Attr::Array(rows)) = context.op.attr("programs") else { return context.fail("there are no programs") };
    let symbol = |attr: &Attr| match attr {
        Attr::Symbol(name) => Some(Arc::clone(name)),
        _ => None,
    };
    let mut arguments = context.values()?.into_iter();
    let mut programs = Vec::new();
    let mut partitions = 0;
    for row in rows.iter() {
        let Attr::Array(names) = row else { return context.fail("programs must be rows of functions") };
        partitions = names.len();
        for name in names.iter() {
            let func = symbol(name).and_then(|name| context.run.module.func(&name));
            let Some(func) = func else { return context.fail("programs must name functions") };
            let arguments = arguments.by_ref().take(func.inputs.len()).collect();
            programs.push(Program { func: func.name.to_string(), arguments });
        }
    }
    let infeed = match context.op.attr("infeed") {
        Some(Attr::Array(names)) => names.iter().filter_map(symbol).collect(),
        _ => Vec::new(),
    };
    let size = GridSize { replicas: rows.len(), partitions };
    let results = run_processes(context.run.module, context.run.options, size, programs, infeed)?;
    Ok(results.into_iter().flatten().collect())
}
