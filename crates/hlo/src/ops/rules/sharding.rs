//! Shardy annotations: meshes, shardings of values, and bodies that run on shards.

use crate::ir::dims::AxisRef;
use crate::ir::sdy::{MeshAttr, MeshRef, SdyAttr, TensorSharding};
use crate::ir::{Attr, DYNAMIC, TensorType, Type};
use crate::ops::def::{OpView, Symbols, Violation};

use super::{Checked, collectives, require, spelling};

/// Axes of one mesh or sharding. Real meshes have a handful; the limit keeps pairwise comparison cheap.
const MAX_AXES: usize = 256;

const MESH: &str = "sdy mesh";
const SHARDING: &str = "sdy sharding";
const MANUAL: &str = "sdy manual_computation";

/// A mesh has positive sizes, distinct axis names and a device order that names each device once.
pub(crate) fn mesh(mesh: &MeshAttr) -> Checked {
    require!(mesh.axes.len() <= MAX_AXES, MESH, "{} axes, at most {MAX_AXES} expected", mesh.axes.len());
    for (n, (name, size)) in mesh.axes.iter().enumerate() {
        require!(*size > 0, MESH, "axis \"{name}\" has size {size}");
        require!(!mesh.axes[..n].iter().any(|(other, _)| other == name), MESH, "axis \"{name}\" appears twice");
    }
    let Some(count) = mesh.device_count() else {
        return Err(Violation::new(MESH, "the number of devices overflows 64 bits"));
    };
    if let Some(&id) = mesh.device_ids.iter().find(|&&id| id < 0) {
        return Err(Violation::new(MESH, format!("device id {id} is negative")));
    }
    if mesh.axes.is_empty() {
        require!(mesh.device_ids.len() <= 1, MESH, "a mesh without axes names {} devices", mesh.device_ids.len());
        return Ok(());
    }
    if mesh.device_ids.is_empty() {
        return Ok(());
    }
    require!(mesh.device_ids.len() as i64 == count, MESH, "{} device ids for {count} devices", mesh.device_ids.len());
    let mut seen = vec![false; mesh.device_ids.len()];
    for &id in &mesh.device_ids {
        match seen.get_mut(id as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(Violation::new(MESH, format!("device id {id} is out of range or appears twice"))),
        }
    }
    require!(!mesh.device_ids.is_sorted(), MESH, "the device order is the natural one, which is left out");
    Ok(())
}

fn resolve<'a>(symbols: Option<&'a Symbols<'a>>, mesh: &'a MeshRef) -> Result<Option<&'a MeshAttr>, Violation> {
    match (mesh, symbols) {
        (MeshRef::Inline(inline), _) => {
            self::mesh(inline)?;
            Ok(Some(inline))
        }
        (MeshRef::Symbol(_), None) => Ok(None),
        (MeshRef::Symbol(name), Some(symbols)) => match symbols.mesh(name) {
            Some(mesh) => Ok(Some(mesh)),
            None => Err(Violation::new(SHARDING, format!("mesh @{name} is not in the module"))),
        },
    }
}

/// A value's sharding: one entry for each dimension, axes of the mesh, none used twice. Divisibility is not required.
pub(crate) fn value(symbols: Option<&Symbols<'_>>, sharding: &TensorSharding, ty: &Type) -> Checked {
    let rank = ty.as_tensor().map_or(0, TensorType::rank);
    let mesh = resolve(symbols, &sharding.mesh)?;
    if mesh.is_some_and(|mesh| mesh.axes.is_empty() && !mesh.device_ids.is_empty()) {
        require!(
            sharding.dims.is_empty() && sharding.replicated.is_empty(),
            SHARDING,
            "a sharding on one device has axes or dimensions"
        );
        return Ok(());
    }
    require!(
        sharding.dims.len() == rank,
        SHARDING,
        "{} dimension shardings for {}",
        sharding.dims.len(),
        spelling::ty(ty)
    );
    for (dim, entry) in sharding.dims.iter().enumerate() {
        require!(
            entry.priority.is_none_or(|p| p >= 0)
                && (entry.priority.is_none() || !entry.axes.is_empty() || !entry.is_closed),
            SHARDING,
            "dim {dim} is closed and has a priority but no axes, or its priority is negative"
        );
    }
    let all = sharding.dims.iter().flat_map(|d| &d.axes).chain(&sharding.replicated).chain(&sharding.unreduced);
    let mut used: Vec<&AxisRef> = Vec::new();
    for axis in all {
        if let Some(mesh) = mesh {
            collectives::axis_size(&mesh.axes, axis, SHARDING)?;
        }
        require!(!used.iter().any(|other| overlap(other, axis)), SHARDING, "axis \"{}\" is used twice", axis.name);
        used.push(axis);
        require!(used.len() <= MAX_AXES, SHARDING, "more than {MAX_AXES} axes");
    }
    Ok(())
}

fn overlap(a: &AxisRef, b: &AxisRef) -> bool {
    if a.name != b.name {
        return false;
    }
    match (a.sub_axis, b.sub_axis) {
        (Some((a_before, a_size)), Some((b_before, b_size))) => {
            a_before < b_before.saturating_mul(b_size) && b_before < a_before.saturating_mul(a_size)
        }
        _ => true,
    }
}

/// The sharding attribute of an op's results, a function's argument or result.
pub(crate) fn annotation(symbols: Option<&Symbols<'_>>, attr: &Attr, types: &[Type]) -> Checked {
    match attr {
        Attr::Sdy(sdy) => match &**sdy {
            SdyAttr::Sharding(sharding) => types.first().map_or(Ok(()), |ty| value(symbols, sharding, ty)),
            // An op without results says with one sharding which device runs it.
            SdyAttr::ShardingPerValue(shardings) if types.is_empty() && shardings.len() == 1 => Ok(()),
            SdyAttr::ShardingPerValue(shardings) => per_value(symbols, "results", shardings, types),
            _ => Err(Violation::new(SHARDING, "attribute `sdy.sharding` must be a sharding")),
        },
        _ => Ok(()),
    }
}

fn per_value(symbols: Option<&Symbols<'_>>, name: &str, shardings: &[TensorSharding], types: &[Type]) -> Checked {
    require!(shardings.len() == types.len(), SHARDING, "{} shardings for {} {name}", shardings.len(), types.len());
    shardings.iter().zip(types).try_for_each(|(sharding, ty)| value(symbols, sharding, ty))
}

/// The sharding that a one-operand op gives its result.
pub(crate) fn constraint(op: &OpView<'_>, name: &'static str) -> Checked {
    match (op.attr(name)?, op.operands) {
        (Attr::Sdy(sdy), [ty]) => match &**sdy {
            SdyAttr::Sharding(sharding) => value(op.symbols, sharding, ty),
            _ => Err(Violation::new(SHARDING, format!("attribute `{name}` must be #sdy.sharding"))),
        },
        _ => Err(Violation::new(SHARDING, format!("attribute `{name}` must be #sdy.sharding"))),
    }
}

fn shardings<'a>(op: &OpView<'a>, name: &'static str) -> Result<&'a [TensorSharding], Violation> {
    match op.attr(name)? {
        Attr::Sdy(sdy) => match &**sdy {
            SdyAttr::ShardingPerValue(shardings) => Ok(shardings),
            _ => Err(Violation::new(MANUAL, format!("attribute `{name}` must be #sdy.sharding_per_value"))),
        },
        _ => Err(Violation::new(MANUAL, format!("attribute `{name}` must be #sdy.sharding_per_value"))),
    }
}

/// The body of `sdy.manual_computation` sees shards along the manual axes.
pub(crate) fn manual_computation(op: &OpView<'_>) -> Checked {
    let manual = match op.attr("manual_axes")? {
        Attr::Sdy(sdy) => match &**sdy {
            SdyAttr::ManualAxes(axes) => axes,
            _ => return Err(Violation::new(MANUAL, "attribute `manual_axes` must be manual axes")),
        },
        _ => return Err(Violation::new(MANUAL, "attribute `manual_axes` must be manual axes")),
    };
    let inputs = op.region_inputs(0)?;
    let outputs = op.region_outputs(0)?;
    for (name, attr, whole, local) in
        [("operands", "in_shardings", op.operands, inputs), ("results", "out_shardings", op.results, outputs)]
    {
        let shardings = shardings(op, attr)?;
        per_value(op.symbols, name, shardings, whole)?;
        require!(whole.len() == local.len(), MANUAL, "{} {name}, {} in the body", whole.len(), local.len());
        for (n, ((whole, local), sharding)) in whole.iter().zip(local).zip(shardings).enumerate() {
            let Some(mesh) = resolve(op.symbols, &sharding.mesh)? else { continue };
            let (Some(whole), Some(local)) = (whole.as_tensor(), local.as_tensor()) else { continue };
            let want = shard(mesh, sharding, manual, whole)?;
            require!(
                super::shapes::tensors_agree(&want, local),
                MANUAL,
                "{name} {n} is {} on each shard, but {} in the body",
                spelling::tensor(&want),
                spelling::tensor(local)
            );
        }
    }
    Ok(())
}

fn shard(
    mesh: &MeshAttr,
    sharding: &TensorSharding,
    manual: &[String],
    ty: &TensorType,
) -> Result<TensorType, Violation> {
    let mut local = ty.clone();
    for (dim, entry) in sharding.dims.iter().enumerate() {
        let mut is_free = false;
        for axis in &entry.axes {
            if !manual.contains(&axis.name) {
                is_free = true;
                continue;
            }
            require!(!is_free, MANUAL, "dim {dim} has manual axis \"{}\" after a free axis", axis.name);
            let parts = collectives::axis_size(&mesh.axes, axis, MANUAL)?;
            let Some(size) = local.dims.get_mut(dim).filter(|size| **size != DYNAMIC) else { continue };
            require!(parts > 0 && *size % parts == 0, MANUAL, "dim {dim} is {size}, not a multiple of {parts} shards");
            *size /= parts;
        }
    }
    Ok(local)
}
