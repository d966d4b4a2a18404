//! The shardings a program writes, as Shardy or GSPMD has them: axes of one mesh along each dimension of arguments and results.

use std::sync::Arc;

use compile::Program;
use hlo::dims::AxisRef;
use hlo::gspmd::{self, MAX_DEVICES, TileAssignment};
use hlo::sdy::{DimensionSharding, MeshRef, SdyAttr, TensorSharding};
use hlo::{Attr, Attrs, Func, Module, NewOp, OpKind, OpName, Type};

const SHARDY: &str = "sdy.sharding";

/// Names and sizes of a mesh's axes, major to minor.
pub(in crate::tune) type MeshAxes = Vec<(String, i64)>;

pub(super) use hlo::gspmd::AxisSpec;

/// Who reads the annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Partitioner {
    /// Shardy, with the name of the mesh.
    Shardy(String),
    Gspmd,
}

/// What a program says about its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Annotated {
    /// Names and sizes, major to minor. Axes of GSPMD have no names, and get some.
    pub(super) axes: MeshAxes,
    /// Of each argument; `None` where the program says nothing.
    pub(super) arguments: Vec<Option<AxisSpec>>,
    /// Of each result.
    pub(super) results: Vec<Option<AxisSpec>>,
    partitioner: Partitioner,
}

impl Annotated {
    /// Reads the shardings of a program; why not, where they are of another kind. GSPMD does not write the mesh, so one that is known is given.
    pub(super) fn read(program: &Program, mesh: Option<&MeshAxes>) -> Result<Annotated, String> {
        let module = program.module();
        let func = module.entry().ok_or("there is no entry function")?;
        if program.partitions().is_none_or(|count| count < 2) {
            return Err("the program is for one device".into());
        }
        let annotated = if program.uses_shardy() { shardy(module, func)? } else { gspmd(program, func, mesh)? };
        let is_split =
            |spec: &Option<AxisSpec>| spec.as_ref().is_some_and(|spec| spec.iter().any(|axes| !axes.is_empty()));
        if !annotated.arguments.iter().any(is_split) {
            return Err("no argument is split over a mesh".into());
        }
        Ok(annotated)
    }

    /// Devices along each axis.
    pub(super) fn sizes(&self) -> Vec<i64> {
        self.axes.iter().map(|(_, size)| *size).collect()
    }

    /// As `PartitionSpec` of JAX.
    pub(super) fn partition_spec(&self, spec: &AxisSpec) -> String {
        let name = |axis: &usize| format!("'{}'", self.axes.get(*axis).map_or("?", |(name, _)| name));
        let one = |axes: &Vec<usize>| match axes.as_slice() {
            [] => "None".to_string(),
            [axis] => name(axis),
            axes => format!("({})", axes.iter().map(name).collect::<Vec<_>>().join(", ")),
        };
        let used = spec.iter().rposition(|axes| !axes.is_empty()).map_or(0, |last| last + 1);
        format!("P({})", spec[..used].iter().map(one).collect::<Vec<_>>().join(", "))
    }

    /// As `data=2 model=4`.
    pub(super) fn mesh_name(&self) -> String {
        self.axes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
    }

    /// The attribute that says so.
    fn attribute(&self, spec: &AxisSpec) -> (&'static str, Attr) {
        match &self.partitioner {
            Partitioner::Gspmd => (gspmd::SHARDING, Attr::string(gspmd::text_of(spec, &self.sizes()))),
            Partitioner::Shardy(mesh) => {
                let axis = |axis: &usize| {
                    let name = self.axes.get(*axis).map_or_else(String::new, |(name, _)| name.clone());
                    AxisRef { name, sub_axis: None }
                };
                let dim = |axes: &Vec<usize>| DimensionSharding {
                    axes: axes.iter().map(axis).collect(),
                    is_closed: true,
                    priority: None,
                };
                let sharding = TensorSharding {
                    mesh: MeshRef::Symbol(mesh.clone()),
                    dims: spec.iter().map(dim).collect(),
                    replicated: Vec::new(),
                    unreduced: Vec::new(),
                };
                (SHARDY, Attr::Sdy(Arc::new(SdyAttr::Sharding(sharding))))
            }
        }
    }

    /// Writes a sharding into the attributes of an argument or result.
    pub(super) fn set(&self, attrs: &mut Attrs, spec: &AxisSpec) {
        let (name, attr) = self.attribute(spec);
        attrs.set(name, attr);
    }

    /// The op that gives a value this sharding, without its operand and result.
    pub(super) fn constraint(&self, spec: &AxisSpec) -> NewOp {
        let (name, attr) = self.attribute(spec);
        match self.partitioner {
            Partitioner::Shardy(_) => {
                let mut op = NewOp::new(OpName::Known(OpKind::SdyShardingConstraint));
                op.attrs.set("sharding", attr);
                op
            }
            Partitioner::Gspmd => {
                let mut op = NewOp::new(OpName::Known(OpKind::CustomCall));
                op.attrs.set("call_target_name", Attr::string("Sharding"));
                op.attrs.set(name, attr);
                op
            }
        }
    }

    /// Gives the mesh of a program other sizes; axes stay where they are. Why not, where it cannot be.
    pub(super) fn resize(&mut self, module: &mut Module, sizes: &[i64]) -> Result<(), String> {
        let before = self.sizes();
        for (axis, size) in self.axes.iter_mut().zip(sizes) {
            axis.1 = *size;
        }
        let is_local = |op: &hlo::Op| {
            let target = op.attr("call_target_name").and_then(Attr::as_str);
            op.kind() == Some(OpKind::SdyManualComputation) || target.is_some_and(|target| target.starts_with("SPMD"))
        };
        if module.funcs.iter().flat_map(|func| &func.ops).any(is_local) {
            return Err("a part is written for one device (shard_map), with sizes of this mesh".into());
        }
        match &self.partitioner {
            Partitioner::Shardy(name) => {
                for func in &module.funcs {
                    for op in func.ops.iter().filter(|op| op.kind() == Some(OpKind::SdyShardingConstraint)) {
                        if let Some(Attr::Sdy(attr)) = op.attr("sharding")
                            && let SdyAttr::Sharding(sharding) = &**attr
                            && let Some(spec) = self.spec(sharding, name)
                        {
                            self.check(func.ty(op.first_result), &spec)?;
                        }
                    }
                }
                let mesh = module.meshes.iter_mut().find(|mesh| *mesh.name == **name).ok_or("the mesh is gone")?;
                mesh.mesh.axes = self.axes.clone();
                // JAX repeats the mesh here in another form, which no longer holds.
                mesh.attrs.remove("stablehlo.mesh");
            }
            Partitioner::Gspmd => {
                for func in &mut module.funcs {
                    self.resize_texts(func, &before)?;
                }
            }
        }
        Ok(())
    }

    fn resize_texts(&self, func: &mut Func, before: &[i64]) -> Result<(), String> {
        let sizes = self.sizes();
        let devices = before.iter().product::<i64>().unsigned_abs();
        let rewrite = |attrs: &mut Attrs, ty: &Type| -> Result<(), String> {
            let Some(text) = attrs.get(gspmd::SHARDING).and_then(Attr::as_str) else { return Ok(()) };
            let spec = ty.as_tensor().and_then(|ty| TileAssignment::read(text, ty.rank(), devices));
            let spec = spec.and_then(|tiles| gspmd::spec_of(&tiles, before));
            let spec = spec.ok_or_else(|| format!("the sharding {text} is of another kind"))?;
            self.check(ty, &spec)?;
            attrs.set(gspmd::SHARDING, Attr::string(gspmd::text_of(&spec, &sizes)));
            Ok(())
        };
        for (attrs, ty) in func.input_attrs.iter_mut().zip(&func.inputs) {
            rewrite(attrs, ty)?;
        }
        for (attrs, ty) in func.output_attrs.iter_mut().zip(&func.outputs) {
            rewrite(attrs, ty)?;
        }
        let values = &func.values;
        for op in func.ops.iter_mut().filter(|op| op.num_results == 1) {
            let ty = values.get(op.first_result.0 as usize).map(|value| value.ty.clone());
            if let Some(ty) = ty {
                rewrite(&mut op.attrs, &ty)?;
            }
        }
        Ok(())
    }

    /// Refuses a sharding that does not split a value evenly: JAX takes no such arguments.
    pub(super) fn check(&self, ty: &Type, spec: &AxisSpec) -> Result<(), String> {
        let tensor = ty.as_tensor().filter(|tensor| tensor.rank() == spec.len());
        let tensor = tensor.ok_or_else(|| format!("{ty} has other dimensions"))?;
        for (size, axes) in tensor.dims.iter().zip(spec) {
            let parts = self.parts(axes);
            if parts < 1 || size % parts != 0 {
                return Err(format!("{size} of {ty} is no multiple of {parts}"));
            }
        }
        Ok(())
    }

    /// Devices along several axes.
    pub(super) fn parts(&self, axes: &[usize]) -> i64 {
        let size = |axis: &usize| self.axes.get(*axis).map_or(1, |(_, size)| *size);
        axes.iter().map(size).fold(1, i64::saturating_mul)
    }

    fn spec(&self, sharding: &TensorSharding, mesh: &str) -> Option<AxisSpec> {
        if sharding.mesh != MeshRef::Symbol(mesh.to_string()) || !sharding.unreduced.is_empty() {
            return None;
        }
        let axis = |axis: &AxisRef| match axis.sub_axis {
            None => self.axes.iter().position(|(name, _)| *name == axis.name),
            Some(_) => None,
        };
        sharding.dims.iter().map(|dim| dim.axes.iter().map(axis).collect()).collect()
    }
}

fn shardy(module: &Module, func: &Func) -> Result<Annotated, String> {
    let mut meshes = module.meshes.iter().filter(|mesh| !mesh.mesh.axes.is_empty());
    let (Some(mesh), None) = (meshes.next(), meshes.next()) else {
        return Err("the program has several meshes".into());
    };
    if !mesh.mesh.device_ids.is_empty() {
        return Err("the devices of the mesh are in an order of their own".into());
    }
    let name = mesh.name.to_string();
    let mut annotated = Annotated {
        axes: mesh.mesh.axes.clone(),
        arguments: Vec::new(),
        results: Vec::new(),
        partitioner: Partitioner::Shardy(name.clone()),
    };
    let read = |n: usize, attrs: &[Attrs]| match attrs.get(n).and_then(|attrs| attrs.get(SHARDY)) {
        None => Ok(None),
        Some(Attr::Sdy(attr)) => match &**attr {
            SdyAttr::Sharding(sharding) => match annotated.spec(sharding, &name) {
                Some(spec) => Ok(Some(spec)),
                None => Err("a sharding uses a part of an axis, or another mesh".to_string()),
            },
            _ => Err("a sharding is of another kind".into()),
        },
        Some(_) => Err("a sharding is of another kind".into()),
    };
    let arguments = (0..func.inputs.len()).map(|n| read(n, &func.input_attrs)).collect::<Result<_, _>>()?;
    let results = (0..func.outputs.len()).map(|n| read(n, &func.output_attrs)).collect::<Result<_, _>>()?;
    (annotated.arguments, annotated.results) = (arguments, results);
    Ok(annotated)
}

fn gspmd(program: &Program, func: &Func, mesh: Option<&MeshAxes>) -> Result<Annotated, String> {
    let devices = program.partitions().map_or(1, u64::from);
    if devices > MAX_DEVICES {
        return Err("there are too many devices".into());
    }
    let read = |attrs: Option<&Attrs>, ty: &Type| -> Result<Option<TileAssignment>, String> {
        let Some(attrs) = attrs else { return Ok(None) };
        gspmd::read(attrs, ty, devices).map_err(|text| format!("the sharding {text} is of another kind"))
    };
    let ports = |types: &[Type], attrs: &[Attrs]| {
        types.iter().enumerate().map(|(n, ty)| read(attrs.get(n), ty)).collect::<Result<Vec<_>, _>>()
    };
    let (arguments, results) = (ports(&func.inputs, &func.input_attrs)?, ports(&func.outputs, &func.output_attrs)?);
    let axes = mesh.cloned().or_else(|| gspmd::mesh_axes(program.module(), devices));
    let axes: MeshAxes = axes.ok_or("the shardings are not those of one mesh in its natural order")?;
    let sizes: Vec<i64> = axes.iter().map(|(_, size)| *size).collect();
    let specs = |ports: Vec<Option<TileAssignment>>| -> Result<Vec<Option<AxisSpec>>, String> {
        let spec =
            |tiles: TileAssignment| gspmd::spec_of(&tiles, &sizes).ok_or("the shardings are not those of one mesh");
        ports.into_iter().map(|port| port.map(spec).transpose().map_err(str::to_string)).collect()
    };
    Ok(Annotated { arguments: specs(arguments)?, results: specs(results)?, axes, partitioner: Partitioner::Gspmd })
}
