//! Annotations of GSPMD as those of Shardy, over the mesh that is behind them.

use std::sync::Arc;

use super::{AxisSpec, SHARDING, TileAssignment, mesh_axes, read, spec_of};
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};
use crate::ir::{Attr, Attrs, MeshOp, Module, Op, OpKind, OpName, Type};

/// The call that gives the part that a device has of a value.
pub const FULL_TO_SHARD: &str = "SPMDFullToShardShape";
/// The call that joins the parts that devices have.
pub const SHARD_TO_FULL: &str = "SPMDShardToFullShape";
/// The call that says how a value is split.
const CONSTRAINT: &str = "Sharding";
/// The sharding of what one device has.
const LOCAL: &str = "{manual}";
/// Names of meshes to choose from.
const MAX_NAMES: usize = 64;

/// The target of a custom call.
pub(super) fn target(op: &Op) -> Option<&str> {
    op.attr("call_target_name").and_then(Attr::as_str).filter(|_| op.kind() == Some(OpKind::CustomCall))
}

/// Whether an op gives the part that a device has of a value.
pub(super) fn is_cut(op: &Op) -> bool {
    target(op) == Some(FULL_TO_SHARD)
}

/// Whether an op joins the parts that devices have.
pub(super) fn is_joined(op: &Op) -> bool {
    target(op) == Some(SHARD_TO_FULL)
}

/// The program with shardings of arguments, results and constraints in the words of Shardy. Ops and values keep their numbers, so that what
/// is found out here holds there.
///
/// # Errors
/// Shardings of another kind, or of several meshes, and parts that are written for one device.
pub fn as_shardy(module: &Module, devices: u64) -> Result<Module, String> {
    if module.funcs.iter().flat_map(|func| &func.ops).any(|op| is_cut(op) || is_joined(op)) {
        return Err("a part of the program is written for one device (shard_map)".into());
    }
    convert(module, devices).map(|(module, _)| module)
}

/// As [`as_shardy`], with the name of the mesh. Local parts stay, and so do the marks inside them.
pub(super) fn convert(module: &Module, devices: u64) -> Result<(Module, String), String> {
    let axes = mesh_axes(module, devices).ok_or("the shardings are not those of one mesh in its natural order")?;
    let names = (0..MAX_NAMES).map(|n| if n == 0 { "mesh".to_owned() } else { format!("mesh_{n}") });
    let is_free = |name: &String| !module.meshes.iter().any(|mesh| *mesh.name == **name);
    let name = names.into_iter().find(is_free).ok_or("the program has too many meshes")?;
    let sizes: Vec<i64> = axes.iter().map(|(_, size)| *size).collect();
    let sharding = |tiles: &TileAssignment, open: &[usize]| -> Result<Attr, String> {
        let spec = spec_of(tiles, &sizes).ok_or("the shardings are not those of one mesh")?;
        Ok(Attr::Sdy(Arc::new(SdyAttr::Sharding(tensor_sharding(&axes, &name, &spec, open)))))
    };
    let unknown = |text: &str| format!("the sharding {text} is of another kind");
    let port = |attrs: &mut Attrs, ty: &Type| -> Result<(), String> {
        if let Some(tiles) = read(attrs, ty, devices).map_err(unknown)? {
            attrs.set("sdy.sharding", sharding(&tiles, &[])?);
        }
        attrs.remove(SHARDING);
        Ok(())
    };
    let mut module = module.clone();
    for func in &mut module.funcs {
        for (attrs, ty) in func.input_attrs.iter_mut().zip(&func.inputs) {
            port(attrs, ty)?;
        }
        for (attrs, ty) in func.output_attrs.iter_mut().zip(&func.outputs) {
            port(attrs, ty)?;
        }
        let values = &func.values;
        for op in func.ops.iter_mut().filter(|op| target(op) == Some(CONSTRAINT) || is_joined(op)) {
            let ty = values.get(op.first_result.0 as usize).map(|value| &value.ty).ok_or("a call without a result")?;
            if op.attrs.get(SHARDING).and_then(Attr::as_str) == Some(LOCAL) {
                continue;
            }
            let Some(tiles) = read(&op.attrs, ty, devices).map_err(unknown)? else { continue };
            let attr = sharding(&tiles, &open_dims(op))?;
            if is_joined(op) {
                op.attrs.set("sdy.sharding", attr);
                continue;
            }
            op.name = OpName::Known(OpKind::SdyShardingConstraint);
            op.attrs = Attrs::new();
            op.attrs.set("sharding", attr);
        }
    }
    let mesh = MeshAttr { axes, device_ids: Vec::new() };
    module.meshes.push(MeshOp { name: name.as_str().into(), mesh, attrs: Attrs::new(), loc: None });
    Ok((module, name))
}

/// Dimensions of which a constraint says nothing: JAX lists them in the call's configuration.
fn open_dims(op: &Op) -> Vec<usize> {
    let config = op.attr("backend_config").and_then(Attr::as_str).unwrap_or_default();
    let list = config.split_once("unspecified_dims=[").and_then(|(_, rest)| rest.split_once(']'));
    list.map_or_else(Vec::new, |(list, _)| list.split(',').filter_map(|dim| dim.trim().parse().ok()).collect())
}

fn tensor_sharding(axes: &[(String, i64)], mesh: &str, spec: &AxisSpec, open: &[usize]) -> TensorSharding {
    let named = |axis: &usize| Some(AxisRef { name: axes.get(*axis)?.0.clone(), sub_axis: None });
    let dim = |(n, list): (usize, &Vec<usize>)| DimensionSharding {
        axes: list.iter().filter_map(named).collect(),
        is_closed: !open.contains(&n),
        priority: None,
    };
    TensorSharding {
        mesh: MeshRef::Symbol(mesh.to_owned()),
        dims: spec.iter().enumerate().map(dim).collect(),
        replicated: Vec::new(),
        unreduced: Vec::new(),
    }
}
