//! The program as devices run it, for whoever asks what became of it: calls inlined, annotations of shardings dropped, and
//! where it is split over partitions, written for one of them.

use std::sync::Arc;

use hlo::dims::ChannelHandle;
use hlo::ops::Violation;
use hlo::passes::{self, Calls};
use hlo::{Attr, Attrs, Dense, Func, FuncBuilder, OpKind, TensorType, Type, Value, Verified, Visibility};
use tensor::DType;

use super::{Compiled, Partitioning, Spread, for_one_of};
use crate::error::Error;
use crate::sharding::Sharding;

impl Compiled {
    /// What one device computes, as a program. Results are those of the program as written. Devices that share a machine may
    /// compute it in one run for all of them.
    pub fn optimized(&self) -> Result<Verified, Error> {
        let module = match self.partitioning {
            Partitioning::PerDevice => self.module.clone(),
            Partitioning::WholeWithManualParts if self.spread.num_partitions == 1 => return Ok(self.module.clone()),
            _ if self.spread.num_partitions == 1 => self.module.clone(),
            _ => match self.one_partition() {
                Some(module) => hlo::combine_all_reduces(module.clone()),
                // Parts of it are written for one device and the rest for all.
                None if self.partitioning == Partitioning::WholeWithManualParts => return Ok(self.module.clone()),
                // A partial value is no tile.
                None if self.argument_shardings.iter().chain(&self.result_shardings).any(|s| s.summands > 1) => {
                    return Ok(self.module.clone());
                }
                None => self.for_one_partition()?,
            },
        };
        let options = passes::Options { calls: Calls::AsAsked, ..passes::Options::default() };
        let applied = passes::apply(module, &[passes::INLINE, passes::DCE], &options);
        applied.map(|(module, _)| module).map_err(|error| broken(&error.to_string()))
    }

    /// The program that one partition runs on its parts, where it can be written.
    fn one_partition(&self) -> Option<&Verified> {
        let write = || {
            let edges = self.edges.as_ref().filter(|_| self.spread.num_replicas == 1)?;
            for_one_of(&self.module, &self.entry, edges, self.spread.num_partitions)
        };
        self.one_partition.get_or_init(write).as_ref()
    }

    /// As a run goes: tiles of the arguments are gathered, the whole program runs, and each partition keeps its tiles of
    /// the results.
    fn for_one_partition(&self) -> Result<Verified, Error> {
        let mut module = self.module.clone().into_inner();
        let names: Vec<Arc<str>> = module.funcs.iter().map(|func| func.name.clone()).collect();
        let is_free = |name: &String| !names.iter().any(|taken| **taken == **name);
        let name = (0..).map(|n| format!("{}_whole_{n}", self.entry)).find(is_free);
        let (Some(name), Some(at)) = (name, names.iter().position(|name| **name == *self.entry)) else {
            return Err(broken("the entry is missing"));
        };
        let one = self.write_partition(&module.funcs[at], &name).map_err(|violation| broken(&violation.message))?;
        let whole = &mut module.funcs[at];
        whole.name = name.into();
        whole.visibility = Visibility::Private;
        module.funcs.insert(at, one);
        hlo::verify(module).map_err(|error| broken(&error.to_string()))
    }

    fn write_partition(&self, whole: &Func, name: &str) -> Result<Func, Violation> {
        let mut main = FuncBuilder::new(whole.name.clone());
        main.visibility(whole.visibility);
        let attrs = |attrs: &[Attrs], n: usize| {
            let mut attrs = attrs.get(n).cloned().unwrap_or_default();
            for sharding in ["sdy.sharding", "mhlo.sharding"] {
                attrs.remove(sharding);
            }
            attrs
        };
        let mut tiles = Vec::with_capacity(whole.inputs.len());
        for (n, (ty, sharding)) in whole.inputs.iter().zip(&self.argument_shardings).enumerate() {
            tiles.push(main.arg_with_attrs(tile_type(ty, sharding), attrs(&whole.input_attrs, n)));
        }
        let (mut arguments, mut channel) = (Vec::with_capacity(tiles.len()), 0);
        for (tile, sharding) in tiles.into_iter().zip(&self.argument_shardings) {
            arguments.push(gather(&mut main, tile, sharding, self.spread, &mut channel)?);
        }
        let mut call = Attrs::new();
        call.set("callee", Attr::Symbol(name.into()));
        let results = main.op_with_types(OpKind::FuncCall, &arguments, call, &[], whole.outputs.clone())?;
        let mut kept = Vec::with_capacity(results.len());
        for (result, sharding) in results.into_iter().zip(&self.result_shardings) {
            kept.push(own_tile(&mut main, result, sharding)?);
        }
        let attrs = (0..kept.len()).map(|n| attrs(&whole.output_attrs, n)).collect();
        Ok(main.finish_with_attrs(&kept, attrs))
    }
}

fn broken(why: &str) -> Error {
    Error::Internal(format!("the program for one device is broken: {why}"))
}

/// The type of one tile; what is not split, has no sizes or no data keeps its type.
fn tile_type(ty: &Type, sharding: &Sharding) -> Type {
    let Some(tensor) = ty.as_tensor().filter(|_| !sharding.is_replicated()) else { return ty.clone() };
    let dims = tensor.dims.iter().zip(&sharding.tiles).map(|(&size, &tiles)| size / tiles.max(1) as i64);
    TensorType::new(dims.collect::<Vec<_>>(), tensor.element.clone()).into()
}

/// The whole array from its tiles, one dimension after another.
fn gather(
    main: &mut FuncBuilder,
    mut value: Value,
    sharding: &Sharding,
    spread: Spread,
    channel: &mut i64,
) -> Result<Value, Violation> {
    for (dim, &tiles) in sharding.tiles.iter().enumerate() {
        let Some(ty) = main.ty(value).as_tensor().filter(|ty| tiles > 1 && ty.dims[dim] > 0) else { continue };
        let mut ty = ty.clone();
        ty.dims[dim] *= tiles as i64;
        let groups = sharding.groups_along(dim);
        let devices = (0..spread.num_replicas)
            .flat_map(|replica| groups.iter().flatten().map(move |&partition| (replica, partition)))
            .map(|(replica, partition)| (replica * spread.num_partitions + partition) as i64);
        let groups = integers([spread.num_replicas * groups.len(), tiles], devices)?;
        *channel += 1;
        let mut attrs = Attrs::new();
        attrs.set("all_gather_dim", Attr::Int(dim as i64, DType::I64.into()));
        attrs.set("replica_groups", Attr::Dense(Arc::new(groups)));
        attrs.set("channel_handle", Attr::Channel(ChannelHandle { handle: *channel, kind: 1 }));
        attrs.set("use_global_device_ids", Attr::Unit);
        value = main.op_with_types(OpKind::AllGather, &[value], attrs, &[], vec![ty.into()])?[0];
    }
    Ok(value)
}

/// The tile that this partition keeps of a result.
fn own_tile(main: &mut FuncBuilder, value: Value, sharding: &Sharding) -> Result<Value, Violation> {
    let Some(tile) = tile_type(main.ty(value), sharding).as_tensor().filter(|_| !sharding.is_replicated()).cloned()
    else {
        return Ok(value);
    };
    let partition = main.op(OpKind::PartitionId, &[], Attrs::new())?;
    let sizes = |dims: &[i64]| {
        let mut attrs = Attrs::new();
        attrs.set("slice_sizes", Attr::DenseArray(DType::I64, dims.into()));
        attrs
    };
    let mut operands = vec![value];
    for (dim, &size) in tile.dims.iter().enumerate() {
        let count = sharding.partitions.len();
        let starts = (0..count).map(|partition| sharding.tile_index(partition, dim) as i64 * size);
        let table = main.constant(integers([count], starts)?);
        let start = main.op(OpKind::DynamicSlice, &[table, partition], sizes(&[1]))?;
        let scalar = Type::tensor([], DType::I64);
        operands.push(main.op_with_types(OpKind::Reshape, &[start], Attrs::new(), &[], vec![scalar])?[0]);
    }
    main.op(OpKind::DynamicSlice, &operands, sizes(&tile.dims))
}

fn integers<const RANK: usize>(dims: [usize; RANK], values: impl Iterator<Item = i64>) -> Result<Dense, Violation> {
    let ty = TensorType::new(dims.map(|size| size as i64), DType::I64);
    Dense::from_elements(ty, values.flat_map(i64::to_le_bytes).collect())
        .ok_or_else(|| Violation::new("", "a list of another length than its type"))
}
