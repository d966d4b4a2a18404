//! Shardings in the words of programs: Shardy's attributes and ops, or GSPMD's.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use hlo::dims::{AxisRef, ChannelHandle};
use hlo::ops::Violation;
use hlo::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};
use hlo::{Attr, Attrs, FuncBuilder, ModuleBuilder, OpKind, Type, Value};

use crate::graph::Manual;
use crate::ops::attrs;
use crate::region::type_of;
use crate::sharding::{Dialect, LogicalAxisRules, Mesh, PartitionSpec};

/// The name of the mesh in programs.
const MESH: &str = "mesh";
/// Attribute of a module: the devices it is split over.
const PARTITIONS: &str = "mhlo.num_partitions";

/// Writes what belongs to rules into a program. Clones number their collectives together.
#[derive(Clone)]
pub(crate) struct ShardingAttributes {
    rules: Rc<LogicalAxisRules>,
    channels: Rc<Cell<i64>>,
}

impl ShardingAttributes {
    pub(crate) fn new(rules: &Rc<LogicalAxisRules>) -> ShardingAttributes {
        ShardingAttributes { rules: rules.clone(), channels: Rc::default() }
    }

    /// What the module says of the mesh.
    pub(crate) fn module(&self, module: &mut ModuleBuilder) {
        let mesh = &self.rules.mesh;
        module.attr(PARTITIONS, Attr::i32(mesh.num_devices() as i32));
        module.attr("mhlo.num_replicas", Attr::i32(1));
        if self.rules.dialect == Dialect::Shardy {
            let axes = mesh.axes().iter().map(|axis| (axis.name.to_string(), axis.size as i64)).collect();
            module.mesh(MESH, MeshAttr { axes, device_ids: Vec::new() });
        }
    }

    /// Adds the sharding of an argument or result to its attributes.
    pub(crate) fn annotate(&self, attrs: &mut Attrs, sharding: &PartitionSpec) {
        match self.rules.dialect {
            Dialect::Shardy => {
                attrs.set("sdy.sharding", Attr::Sdy(Arc::new(SdyAttr::Sharding(shardy(sharding)))));
            }
            Dialect::Gspmd => {
                attrs.set("mhlo.sharding", Attr::string(gspmd(&self.rules.mesh, sharding)));
            }
        }
    }

    /// A value laid out so.
    pub(crate) fn constraint(
        &self,
        f: &mut FuncBuilder,
        value: Value,
        sharding: &PartitionSpec,
    ) -> Result<Value, Violation> {
        match self.rules.dialect {
            Dialect::Shardy => {
                let attr = Attr::Sdy(Arc::new(SdyAttr::Sharding(shardy(sharding))));
                f.op(OpKind::SdyShardingConstraint, &[value], attrs([("sharding", attr)]))
            }
            Dialect::Gspmd => {
                let ty = f.ty(value).clone();
                marked(f, "Sharding", value, &gspmd(&self.rules.mesh, sharding), ty)
            }
        }
    }

    /// A number for a collective that no other one has.
    pub(crate) fn channel(&self) -> Attr {
        self.channels.set(self.channels.get() + 1);
        Attr::Channel(ChannelHandle { handle: self.channels.get(), kind: 1 })
    }

    /// A function of one device's parts; `body` writes it.
    pub(crate) fn manual(
        &self,
        f: &mut FuncBuilder,
        manual: &Manual,
        operands: &[Value],
        body: impl FnOnce(&mut FuncBuilder, &[Value]) -> Result<Vec<Value>, Violation>,
    ) -> Result<Vec<Value>, Violation> {
        let mesh = &self.rules.mesh;
        let parts: Vec<Type> = manual.body.inputs.iter().map(|&input| type_of(manual.body.spec(input))).collect();
        let wholes: Vec<Type> = manual.results().iter().map(type_of).collect();
        match self.rules.dialect {
            Dialect::Shardy => {
                let per_value = |list: &[PartitionSpec]| {
                    Attr::Sdy(Arc::new(SdyAttr::ShardingPerValue(list.iter().map(shardy).collect())))
                };
                let axes = mesh.axes().iter().map(|axis| axis.name.to_string()).collect();
                let attrs = attrs([
                    ("in_shardings", per_value(&manual.inputs)),
                    ("out_shardings", per_value(&manual.outputs)),
                    ("manual_axes", Attr::Sdy(Arc::new(SdyAttr::ManualAxes(axes)))),
                ]);
                let region = f.region_ended_by(OpKind::SdyReturn, &parts, body)?;
                f.op_with_types(OpKind::SdyManualComputation, operands, attrs, &[region], wholes)
            }
            Dialect::Gspmd => {
                let mut inputs = Vec::with_capacity(operands.len());
                for ((&operand, sharding), part) in operands.iter().zip(&manual.inputs).zip(parts) {
                    let ty = f.ty(operand).clone();
                    let laid = marked(f, "Sharding", operand, &gspmd(mesh, sharding), ty)?;
                    inputs.push(marked(f, "SPMDFullToShardShape", laid, "{manual}", part)?);
                }
                let results = body(f, &inputs)?;
                let mut outputs = Vec::with_capacity(results.len());
                for ((value, sharding), whole) in results.into_iter().zip(&manual.outputs).zip(wholes) {
                    let ty = f.ty(value).clone();
                    let part = marked(f, "Sharding", value, "{manual}", ty)?;
                    outputs.push(marked(f, "SPMDShardToFullShape", part, &gspmd(mesh, sharding), whole)?);
                }
                Ok(outputs)
            }
        }
    }
}

/// A custom call that marks a value with a sharding of GSPMD.
fn marked(f: &mut FuncBuilder, target: &str, value: Value, sharding: &str, ty: Type) -> Result<Value, Violation> {
    let attrs = attrs([
        ("call_target_name", Attr::string(target)),
        ("backend_config", Attr::string("")),
        ("mhlo.sharding", Attr::string(sharding)),
    ]);
    match f.op_with_types(OpKind::CustomCall, &[value], attrs, &[], vec![ty])?[..] {
        [only] => Ok(only),
        _ => Err(Violation::new("", "a marked value was expected")),
    }
}

fn shardy(sharding: &PartitionSpec) -> TensorSharding {
    let dim = |axes: &Option<Vec<Arc<str>>>| DimensionSharding {
        axes: axes.iter().flatten().map(|name| AxisRef { name: name.to_string(), sub_axis: None }).collect(),
        is_closed: axes.is_some(),
        priority: None,
    };
    TensorSharding {
        mesh: MeshRef::Symbol(MESH.into()),
        dims: sharding.dims.iter().map(dim).collect(),
        replicated: Vec::new(),
        unreduced: Vec::new(),
    }
}

/// As in `{devices=[4,1,2]<=[4,2] last_tile_dim_replicate}`: tiles along each axis, and which device has which.
fn gspmd(mesh: &Mesh, sharding: &PartitionSpec) -> String {
    if sharding.axes().next().is_none() {
        return "{replicated}".into();
    }
    let list = |sizes: &[usize]| sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let along = |axes: &Option<Vec<Arc<str>>>| mesh.size_along(axes.iter().flatten().map(|name| &**name)).unwrap_or(1);
    let mut tiles: Vec<usize> = sharding.dims.iter().map(along).collect();
    let place = |name: &Arc<str>| mesh.axes().iter().position(|axis| axis.name == *name);
    let mut order: Vec<usize> = sharding.axes().filter_map(place).collect();
    let rest: Vec<usize> = (0..mesh.axes().len()).filter(|n| !order.contains(n)).collect();
    let copies: usize = rest.iter().map(|&n| mesh.axes()[n].size).product();
    order.extend(rest);
    let suffix = if copies > 1 { " last_tile_dim_replicate" } else { "" };
    if copies > 1 {
        tiles.push(copies);
    }
    let sizes: Vec<usize> = mesh.axes().iter().map(|axis| axis.size).collect();
    let devices = if order.is_sorted() {
        format!("<=[{}]", mesh.num_devices())
    } else {
        format!("<=[{}]T({})", list(&sizes), list(&order))
    };
    format!("{{devices=[{}]{devices}{suffix}}}", list(&tiles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shardings_as_gspmd_writes_them() {
        let mesh = Mesh::new([("a", 2), ("b", 4)]).unwrap();
        let check = |dims: &[&[&str]], expected: &str| {
            assert_eq!(gspmd(&mesh, &PartitionSpec::new(dims.iter().copied())), expected);
        };
        check(&[&[], &[]], "{replicated}");
        check(&[&["a"], &[]], "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
        check(&[&["a"], &["b"]], "{devices=[2,4]<=[8]}");
        check(&[&["b"], &["a"]], "{devices=[4,2]<=[2,4]T(1,0)}");
        check(&[&[], &["b"]], "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
        check(&[&["b", "a"]], "{devices=[8]<=[2,4]T(1,0)}");
    }
}
