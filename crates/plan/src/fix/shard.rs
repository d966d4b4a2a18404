//! Sharding: an argument that devices along a mesh axis hold whole is split over them.

use std::collections::HashSet;
use std::sync::Arc;

use hlo::dims::AxisRef;
use hlo::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};
use hlo::{Attr, Func, Module, Type};

use super::{FixKind, Proposal, Situation, entry};
use crate::error::Error;
use crate::memory::BufferClass;

const SHARDING: &str = "sdy.sharding";
/// Splitting less than this saves nothing worth a collective.
pub(super) const WORTH_BYTES: u64 = 4 << 20;

pub(super) fn propose(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let module: &Module = situation.program.module();
    let [mesh] = module.meshes.as_slice() else { return Ok(None) };
    let (mesh, name) = (&mesh.mesh, mesh.name.to_string());
    let mut split: Vec<String> = Vec::new();
    let program = entry::edit(situation.program, |func| {
        for (index, argument) in situation.arguments.iter().enumerate() {
            if argument.class == BufferClass::Inputs {
                continue;
            }
            if let Some(axis) = shard(func, index, argument.replaced_by, mesh, &name) {
                split.push(axis);
            }
        }
        !split.is_empty()
    })?;
    let Some(program) = program else { return Ok(None) };
    let axes: HashSet<&str> = split.iter().map(String::as_str).collect();
    let mut axes: Vec<&str> = axes.into_iter().collect();
    axes.sort_unstable();
    let title = format!("split {} arguments that are held whole over mesh axis {}", split.len(), axes.join(", "));
    let detail = "adds collectives that gather them where they are used";
    Ok(Some(Proposal { program: Some(program), ..situation.proposal(FixKind::Sharding, title, detail) }))
}

/// Splits an argument and the result that replaces it over the largest mesh axis that it does not use yet.
fn shard(func: &mut Func, index: usize, result: Option<usize>, mesh: &MeshAttr, name: &str) -> Option<String> {
    let tensor = func.inputs.get(index)?.as_tensor()?.clone();
    let bytes = tensor.num_elements()?.checked_mul(tensor.element.plain()?.size_bytes() as u64)?;
    if bytes < WORTH_BYTES {
        return None;
    }
    let mut sharding = match func.input_attrs.get(index)?.get(SHARDING) {
        Some(Attr::Sdy(attr)) => match &**attr {
            SdyAttr::Sharding(sharding) => sharding.clone(),
            _ => return None,
        },
        Some(_) => return None,
        None => TensorSharding {
            mesh: MeshRef::Symbol(name.to_string()),
            dims: vec![DimensionSharding::default(); tensor.rank()],
            replicated: Vec::new(),
            unreduced: Vec::new(),
        },
    };
    if sharding.mesh != MeshRef::Symbol(name.to_string()) || sharding.dims.len() != tensor.rank() {
        return None;
    }
    let size_of = |axis: &AxisRef| match axis.sub_axis {
        Some((_, size)) => Some(size),
        None => mesh.axes.iter().find(|(name, _)| *name == axis.name).map(|(_, size)| *size),
    };
    let used: HashSet<String> = (sharding.dims.iter().flat_map(|dim| &dim.axes))
        .chain(&sharding.replicated)
        .chain(&sharding.unreduced)
        .map(|axis| axis.name.clone())
        .collect();
    let mut free: Vec<&(String, i64)> =
        mesh.axes.iter().filter(|(name, size)| *size > 1 && !used.contains(name)).collect();
    free.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    for (axis, size) in free {
        // The largest part on one device first.
        let mut dims: Vec<(i64, usize)> = Vec::new();
        for (dim, &extent) in tensor.dims.iter().enumerate() {
            let shards = sharding.dims[dim].axes.iter().try_fold(1i64, |n, axis| n.checked_mul(size_of(axis)?))?;
            if shards > 0 && extent % shards.checked_mul(*size)? == 0 {
                dims.push((extent / shards, dim));
            }
        }
        dims.sort_by_key(|&(extent, dim)| (std::cmp::Reverse(extent), dim));
        let Some(&(_, dim)) = dims.first() else { continue };
        sharding.dims[dim].axes.push(AxisRef { name: axis.clone(), sub_axis: None });
        sharding.dims.iter_mut().for_each(|dim| dim.is_closed = true);
        let attr = Attr::Sdy(Arc::new(SdyAttr::Sharding(sharding)));
        func.input_attrs.get_mut(index)?.set(SHARDING, attr.clone());
        if let Some(result) = result
            && func.outputs.get(result).and_then(Type::as_tensor) == Some(&tensor)
        {
            func.output_attrs.get_mut(result)?.set(SHARDING, attr);
        }
        return Some(axis.clone());
    }
    None
}
