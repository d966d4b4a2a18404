//! How arguments are split over a mesh, by rule, and the program with these shardings written into it.
//!
//! The batch is split over `data` and `fsdp`. Large weights and their optimizer state are split over `fsdp` along the
//! size that most weights share (the width of the model) and over `model` along the other one; small ones are whole
//! everywhere. Where a matmul reads a weight, the weight is gathered over `fsdp` first: this is said in the program,
//! since left to itself the partitioner may move the batch instead, which is far larger. All else is propagation's.

use std::collections::HashMap;
use std::sync::Arc;

use hlo::dims::AxisRef;
use hlo::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};
use hlo::{Attr, Attrs, Func, MeshOp, Module, NewOp, OpKind, OpName, Verified};
use serde::Serialize;

use super::flow::{Flow, Use, UseKind};
use super::gather::{gather_where_read, sum_rows_in_place};
use super::roles::{ArgumentRole, Roles, argument_bytes, dims};

/// Devices along each axis. Devices are in their natural order, so `model` lies on neighbours, then `context`, `fsdp`, `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct MeshShape {
    /// Copies of the parameters, each with its part of the batch.
    pub data: u64,
    /// Parts of parameters and of the batch.
    pub fsdp: u64,
    /// Parts of each sequence.
    pub context: u64,
    /// Parts of each layer's computation.
    pub model: u64,
}

impl MeshShape {
    /// One device.
    pub const ONE: MeshShape = MeshShape { data: 1, fsdp: 1, context: 1, model: 1 };

    /// Devices of the mesh.
    pub fn devices(&self) -> u64 {
        self.data * self.fsdp * self.context * self.model
    }

    /// Parts of the batch.
    pub fn batch_parts(&self) -> u64 {
        self.data * self.fsdp
    }

    /// Every mesh of so many devices with at most so many along each axis: powers of two, and for `data` what is left.
    pub(crate) fn all(devices: u64, most: MeshShape) -> Vec<MeshShape> {
        let powers = |limit: u64| (0..32).map(|n| 1u64 << n).take_while(move |n| *n <= limit);
        let mut all = Vec::new();
        let pairs = powers(most.model).flat_map(|model| powers(most.context).map(move |context| (context, model)));
        for (context, model) in pairs.filter(|(context, model)| devices.is_multiple_of(context * model)) {
            let rest = devices / (context * model);
            // The whole rest comes first: it may not be a power of two.
            let mut sizes = vec![rest];
            sizes.extend(powers(rest).filter(|fsdp| *fsdp != rest && rest.is_multiple_of(*fsdp)));
            for fsdp in sizes.into_iter().filter(|fsdp| *fsdp <= most.fsdp) {
                all.push(MeshShape { data: rest / fsdp, fsdp, context, model });
            }
        }
        all
    }
}

impl std::fmt::Display for MeshShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let axes = [("data", self.data), ("fsdp", self.fsdp), ("context", self.context), ("model", self.model)];
        let used: Vec<String> = axes.iter().filter(|a| a.1 > 1).map(|(name, size)| format!("{name}={size}")).collect();
        if used.is_empty() { f.write_str("one device") } else { f.write_str(&used.join(" ")) }
    }
}

/// Axes along each dimension of a value.
pub(crate) type Axes = Vec<Vec<&'static str>>;

/// Weights smaller than this are whole everywhere: gathering them costs more in latency than they take in memory.
const SMALL_BYTES: u64 = 1 << 20;

/// How each argument is split.
pub(crate) fn shardings(func: &Func, roles: &Roles, flow: &Flow, mesh: MeshShape) -> Vec<Axes> {
    let width = shared_width(func, roles, flow);
    // Optimizer state is split as the parameter of its shape.
    let mut by_shape: HashMap<&[i64], Axes> = HashMap::new();
    for (n, ty) in func.inputs.iter().enumerate() {
        if roles.arguments[n] == ArgumentRole::Parameter && argument_bytes(ty) >= SMALL_BYTES {
            let stepped = flow.stepped.get(n).map_or(&[][..], Vec::as_slice);
            by_shape.entry(dims(ty)).or_insert_with(|| weight(dims(ty), stepped, width, mesh));
        }
    }
    let of = |(n, ty): (usize, &hlo::Type)| {
        let sizes = dims(ty);
        let whole: Axes = vec![Vec::new(); sizes.len()];
        match roles.arguments[n] {
            ArgumentRole::Batch { dim } | ArgumentRole::Cache { dim } => {
                let mut axes = whole;
                if sizes.get(dim).is_some_and(|size| divides(*size, mesh.batch_parts())) {
                    axes[dim] = used(&[("data", mesh.data), ("fsdp", mesh.fsdp)]);
                }
                // Heads stand before the size of a head.
                let heads = sizes.len().checked_sub(2).filter(|heads| *heads > dim);
                if let (ArgumentRole::Cache { .. }, Some(heads)) = (roles.arguments[n], heads)
                    && divides(sizes[heads], mesh.model)
                {
                    axes[heads] = used(&[("model", mesh.model)]);
                }
                axes
            }
            ArgumentRole::Parameter | ArgumentRole::State => by_shape.get(sizes).cloned().unwrap_or(whole),
            ArgumentRole::Other => whole,
        }
    };
    func.inputs.iter().enumerate().map(of).collect()
}

fn divides(size: i64, parts: u64) -> bool {
    u64::try_from(size).is_ok_and(|size| parts > 0 && size.is_multiple_of(parts))
}

fn used(axes: &[(&'static str, u64)]) -> Vec<&'static str> {
    axes.iter().filter(|(_, size)| *size > 1).map(|(name, _)| *name).collect()
}

/// The size that most weights share, by their bytes: what flows from layer to layer.
fn shared_width(func: &Func, roles: &Roles, flow: &Flow) -> i64 {
    let mut bytes: HashMap<i64, u64> = HashMap::new();
    for (n, ty) in func.inputs.iter().enumerate().filter(|(n, _)| roles.arguments[*n] == ArgumentRole::Parameter) {
        let mut sizes: Vec<i64> = dims(ty).to_vec();
        let stepped = flow.stepped.get(n).map_or(&[][..], Vec::as_slice);
        stepped.iter().filter_map(|dim| sizes.get_mut(*dim).map(|size| *size = 0)).for_each(drop);
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes.into_iter().filter(|size| *size > 1) {
            let total = bytes.entry(size).or_default();
            *total = total.saturating_add(argument_bytes(ty));
        }
    }
    bytes.into_iter().max_by_key(|(size, bytes)| (*bytes, *size)).map_or(0, |(size, _)| size)
}

/// How a weight is split. `stepped` are dimensions that a loop walks: layers, never split.
fn weight(sizes: &[i64], stepped: &[usize], width: i64, mesh: MeshShape) -> Axes {
    let mut axes: Axes = vec![Vec::new(); sizes.len()];
    let free: Vec<usize> = (0..sizes.len()).filter(|dim| !stepped.contains(dim) && sizes[*dim] > 1).collect();
    let wide = free.iter().copied().find(|dim| sizes[*dim] == width);
    if mesh.model > 1 {
        // Heads and the size of a head are one dimension of a matmul; its major part is what can be split.
        let runs = free.iter().filter(|dim| Some(**dim) != wide);
        let mut best: Option<(i64, usize)> = None;
        let mut run: Option<(i64, usize, usize)> = None;
        for &dim in runs {
            let (product, first) = match run {
                Some((product, first, last)) if last + 1 == dim => (product.saturating_mul(sizes[dim]), first),
                _ => (sizes[dim], dim),
            };
            run = Some((product, first, dim));
            if best.is_none_or(|(largest, _)| product > largest) {
                best = Some((product, first));
            }
        }
        if let Some((_, dim)) = best.filter(|(_, dim)| divides(sizes[*dim], mesh.model)) {
            axes[dim].push("model");
        }
    }
    if mesh.fsdp > 1 {
        let mut order: Vec<usize> = free.iter().copied().filter(|dim| axes[*dim].is_empty()).collect();
        order.sort_by_key(|dim| (Some(*dim) != wide, std::cmp::Reverse(sizes[*dim])));
        if let Some(dim) = order.into_iter().find(|dim| divides(sizes[*dim], mesh.fsdp)) {
            axes[dim].push("fsdp");
        }
    }
    axes
}

/// The name of the mesh in programs.
const MESH: &str = "mesh";

/// The program with a mesh, the shardings of its arguments and of the results that take their place, and the weights
/// gathered where matmuls read them.
pub(crate) fn annotate(module: &Verified, roles: &Roles, flow: &Flow, mesh: MeshShape) -> Result<Verified, hlo::Error> {
    let mut module: Module = (**module).clone();
    let Some(entry) = module.entry().map(|func| func.name.clone()) else { return hlo::verify(module) };
    let axes = [("data", mesh.data), ("fsdp", mesh.fsdp), ("model", mesh.model)];
    let axes = axes.map(|(name, size)| (name.to_string(), size as i64)).to_vec();
    let attr = MeshAttr { axes, device_ids: Vec::new() };
    module.meshes = vec![MeshOp { name: MESH.into(), mesh: attr, attrs: Attrs::new(), loc: None }];
    module.attrs.set("mhlo.num_partitions", Attr::i32(i32::try_from(mesh.devices()).unwrap_or(i32::MAX)));
    if let Some(func) = module.funcs.iter_mut().find(|func| func.name == entry) {
        let shardings = shardings(func, roles, flow, mesh);
        func.input_attrs.resize(func.inputs.len(), Attrs::new());
        func.output_attrs.resize(func.outputs.len(), Attrs::new());
        for (n, axes) in shardings.iter().enumerate() {
            let sharding = Attr::Sdy(Arc::new(SdyAttr::Sharding(sharding(axes))));
            if let Some(result) = roles.results[n] {
                func.output_attrs[result].set("sdy.sharding", sharding.clone());
            }
            func.input_attrs[n].set("sdy.sharding", sharding);
        }
        if mesh.fsdp > 1 {
            let constraint = |argument: usize, dims: &[Option<usize>]| gathered(roles, &shardings, argument, dims);
            gather_where_read(func, flow, constraint);
            let looked_up: Vec<&Use> = flow.uses.iter().filter(|site| site.kind == UseKind::LookUp).collect();
            sum_rows_in_place(func, &looked_up, constraint);
        }
        func.renumber();
    }
    hlo::verify(module)
}

fn sharding(axes: &Axes) -> TensorSharding {
    let axis = |name: &&'static str| AxisRef { name: (*name).to_string(), sub_axis: None };
    let dimension = |names: &Vec<&'static str>| DimensionSharding {
        axes: names.iter().map(axis).collect(),
        is_closed: true,
        priority: None,
    };
    TensorSharding {
        mesh: MeshRef::Symbol(MESH.to_string()),
        dims: axes.iter().map(dimension).collect(),
        replicated: Vec::new(),
        unreduced: Vec::new(),
    }
}

/// A sharding without `fsdp` for what reads a weight that is split over it.
fn gathered(roles: &Roles, shardings: &[Axes], argument: usize, dims: &[Option<usize>]) -> Option<NewOp> {
    let split = shardings.get(argument)?;
    let is_split = split.iter().any(|axes| axes.contains(&"fsdp"));
    if !is_split || roles.arguments.get(argument) != Some(&ArgumentRole::Parameter) {
        return None;
    }
    let of = |dim: &Option<usize>| match dim.and_then(|dim| split.get(dim)) {
        Some(axes) => axes.iter().copied().filter(|axis| *axis == "model").collect(),
        None => Vec::new(),
    };
    let axes: Axes = dims.iter().map(of).collect();
    let mut op = NewOp::new(OpName::Known(OpKind::SdyShardingConstraint));
    op.attrs.set("sharding", Attr::Sdy(Arc::new(SdyAttr::Sharding(sharding(&axes)))));
    Some(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(data: u64, fsdp: u64, model: u64) -> MeshShape {
        MeshShape { data, fsdp, model, ..MeshShape::ONE }
    }

    #[test]
    fn weights_are_split_where_sizes_divide() {
        let check = |sizes: &[i64], stepped: &[usize], mesh: MeshShape, expected: &[&[&str]]| {
            assert_eq!(weight(sizes, stepped, 4096, mesh), expected, "{sizes:?} {mesh}");
        };
        // Width over fsdp, the other size over model, layers never.
        check(&[32, 4096, 14336], &[0], mesh(1, 16, 4), &[&[], &["fsdp"], &["model"]]);
        check(&[32, 14336, 4096], &[0], mesh(1, 16, 4), &[&[], &["model"], &["fsdp"]]);
        check(&[32, 4096, 32, 128], &[0], mesh(1, 16, 4), &[&[], &["fsdp"], &["model"], &[]]);
        check(&[32, 32, 128, 4096], &[0], mesh(1, 16, 4), &[&[], &["model"], &[], &["fsdp"]]);
        // Eight heads are not split sixteen times.
        check(&[32, 4096, 8, 128], &[0], mesh(1, 16, 16), &[&[], &["fsdp"], &[], &[]]);
        check(&[128256, 4096], &[], mesh(4, 16, 1), &[&[], &["fsdp"]]);
        // What does not divide is left whole, or another size takes it.
        check(&[4096, 100], &[], mesh(1, 3, 1), &[&[], &[]]);
        check(&[1000, 99], &[], mesh(1, 3, 1), &[&[], &["fsdp"]]);
        check(&[], &[], mesh(1, 8, 1), &[]);
    }

    #[test]
    fn meshes_cover_all_devices() {
        let all = MeshShape::all(16, mesh(16, 16, 8));
        assert!(all.iter().all(|mesh| mesh.devices() == 16));
        assert!(all.contains(&mesh(1, 16, 1)) && all.contains(&mesh(2, 2, 4)) && all.contains(&mesh(16, 1, 1)));
        assert_eq!(all.iter().filter(|mesh| mesh.model > 8).count(), 0);
        assert_eq!(MeshShape::all(1, mesh(1, 1, 8)), [mesh(1, 1, 1)]);
        assert!(MeshShape::all(12, mesh(12, 12, 4)).contains(&mesh(1, 12, 1)));
        let long = MeshShape::all(16, MeshShape { context: 4, ..mesh(16, 16, 2) });
        assert!(long.iter().all(|mesh| mesh.devices() == 16 && mesh.context <= 4));
        assert!(long.contains(&MeshShape { context: 4, ..mesh(1, 2, 2) }), "{long:?}");
        assert_eq!(mesh(1, 16, 4).to_string(), "fsdp=16 model=4");
    }

    #[test]
    fn programs_say_their_shardings() {
        let text = "func.func @main(%w: tensor<2048x512xf32> {tf.aliasing_output = 0 : i32},
              %b: tensor<512xf32>, %x: tensor<64x2048xf32>) -> (tensor<2048x512xf32>, tensor<64x512xf32>) {
            %c = stablehlo.convert %w : (tensor<2048x512xf32>) -> tensor<2048x512xbf16>
            %h = stablehlo.convert %x : (tensor<64x2048xf32>) -> tensor<64x2048xbf16>
            %y = stablehlo.dot_general %h, %c, contracting_dims = [1] x [0]
              : (tensor<64x2048xbf16>, tensor<2048x512xbf16>) -> tensor<64x512xf32>
            return %w, %y : tensor<2048x512xf32>, tensor<64x512xf32>
          }";
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let func = module.entry().unwrap();
        let flow = Flow::of(func);
        let name = "2:0".parse().unwrap();
        let batch = super::super::roles::find_batch(&module, func, Some(&name)).unwrap();
        let roles = super::super::roles::find_roles(func, &flow, batch);
        let sharded = annotate(&module, &roles, &flow, mesh(2, 4, 1)).unwrap();
        let printed = hlo::text::print(&sharded);
        assert!(printed.contains("sdy.mesh @mesh = <[\"data\"=2, \"fsdp\"=4, \"model\"=1]>"), "{printed}");
        assert_eq!(printed.matches("<@mesh, [{\"fsdp\"}, {}]>").count(), 2, "{printed}");
        assert!(printed.contains("<@mesh, [{\"data\", \"fsdp\"}, {}]>"), "{printed}");
        // The weight is whole where the matmul reads it, after it was made narrow.
        let constraint = printed.find("sdy.sharding_constraint").unwrap();
        assert!(printed.find("tensor<2048x512xbf16>").unwrap() < constraint, "{printed}");
        assert!(constraint < printed.find("dot_general").unwrap(), "{printed}");
    }
}
