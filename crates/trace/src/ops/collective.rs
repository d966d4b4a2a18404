//! Collectives inside `shard_map`: all-reduce, all-gather, all-to-all and their like.

mod gradients;

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use hlo::dims::ChannelHandle;
use hlo::{Attr, Attrs, Dense, OpKind, TensorType};
use tensor::DType;

use crate::Spec;
use crate::error::misuse;
use crate::graph::{Combine, Prim};
use crate::line;
use crate::ops::lane::Lane;
use crate::ops::{attrs, only, write};
use crate::sharding::Mesh;
use crate::stack;
use crate::tensor::Tensor;

pub use gradients::{Exchange, sync_gradients};

/// How values of devices are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Mean.
    Mean,
    /// Largest.
    Max,
    /// Smallest.
    Min,
}

/// Mesh axes a collective goes over.
pub trait Over {
    /// Their names.
    fn names(&self) -> Vec<Arc<str>>;
}

impl Over for &str {
    fn names(&self) -> Vec<Arc<str>> {
        vec![(*self).into()]
    }
}

impl Over for &[&str] {
    fn names(&self) -> Vec<Arc<str>> {
        self.iter().map(|&name| name.into()).collect()
    }
}

impl<const N: usize> Over for [&str; N] {
    fn names(&self) -> Vec<Arc<str>> {
        self.iter().map(|&name| name.into()).collect()
    }
}

thread_local! {
    /// The mesh whose device the function being traced is written for.
    static DEVICE_OF: RefCell<Option<Rc<Mesh>>> = const { RefCell::new(None) };
}

/// Runs `f`, which writes what one device of a mesh does.
pub(crate) fn on_device_of<T>(mesh: Option<Rc<Mesh>>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Rc<Mesh>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEVICE_OF.set(self.0.take());
        }
    }
    let _restore = Restore(DEVICE_OF.replace(mesh));
    f()
}

/// The devices that take part with each other along these axes; `None` where a device is alone.
#[track_caller]
fn groups(names: &[Arc<str>]) -> Option<Vec<Vec<usize>>> {
    let mesh = DEVICE_OF.with_borrow(Option::clone)?;
    if let Some(name) = names.iter().find(|name| mesh.size_of(name).is_none()) {
        misuse(Location::caller(), format!("the mesh {mesh} has no axis `{name}`"));
    }
    let groups = mesh.groups(names);
    (groups.first().is_some_and(|group| group.len() > 1)).then_some(groups)
}

/// Whether an op is one of these: a `Tensor` never writes the other collectives, nor those of Shardy.
pub(crate) fn is_collective(kind: OpKind) -> bool {
    use OpKind::{CollectiveBroadcast, CollectiveReduce, CrossReplicaSum};
    let never_written = matches!(kind, CollectiveBroadcast | CollectiveReduce | CrossReplicaSum);
    kind.is_collective() && kind.is_stablehlo() && !never_written
}

/// Stands for a number of its own, which the written program gives each collective.
const CHANNEL: (&str, Attr) = ("channel_handle", Attr::Channel(ChannelHandle { handle: 1, kind: 1 }));

fn table(rows: &[Vec<usize>]) -> Attr {
    let columns = rows.first().map_or(0, Vec::len);
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|&device| (device as i64).to_le_bytes()).collect();
    let ty = TensorType::new(vec![rows.len() as i64, columns as i64], DType::I64);
    match Dense::from_elements(ty, bytes) {
        Some(dense) => Attr::Dense(Arc::new(dense)),
        None => unreachable!("as many bytes as the table has entries"),
    }
}

fn table_of(attrs: &Attrs, name: &str) -> Vec<Vec<usize>> {
    let Some(Attr::Dense(dense)) = attrs.get(name) else { return Vec::new() };
    let columns = dense.ty.dims.last().map_or(1, |&columns| usize::try_from(columns).unwrap_or(1)).max(1);
    let ints: Vec<usize> =
        dense.to_i64s(usize::MAX).unwrap_or_default().into_iter().map(|device| device as usize).collect();
    ints.chunks(columns).map(<[usize]>::to_vec).collect()
}

/// The sum or extreme over devices.
#[track_caller]
pub(crate) fn all_reduced(tensor: &Tensor, names: &[Arc<str>], reduction: Reduction) -> Tensor {
    let Some(groups) = groups(names) else { return tensor.clone() };
    let combine = match reduction {
        Reduction::Sum | Reduction::Mean => Combine::Add,
        Reduction::Max => Combine::Maximum,
        Reduction::Min => Combine::Minimum,
    };
    let total = only(write(
        (
            OpKind::AllReduce,
            attrs([("replica_groups", table(&groups)), CHANNEL, ("use_global_device_ids", Attr::Unit)]),
            Some(combine),
        ),
        &[tensor],
        None,
    ));
    let count = groups.first().map_or(1, Vec::len);
    if reduction == Reduction::Mean { &total * (1.0 / count as f64) } else { total }
}

#[track_caller]
fn resized(tensor: &Tensor, axis: usize, size: usize) -> Spec {
    let mut dims = tensor.dims().to_vec();
    dims[axis] = size;
    Spec::new(tensor.dtype(), dims)
}

#[track_caller]
fn gathered(tensor: &Tensor, axis: usize, groups: &[Vec<usize>]) -> Tensor {
    let count = groups.first().map_or(1, Vec::len);
    let attrs = attrs([
        ("all_gather_dim", Attr::i64(axis as i64)),
        ("replica_groups", table(groups)),
        CHANNEL,
        ("use_global_device_ids", Attr::Unit),
    ]);
    let spec = resized(tensor, axis, tensor.dims()[axis] * count);
    only(write((OpKind::AllGather, attrs, None), &[tensor], Some(vec![spec])))
}

#[track_caller]
fn scattered(tensor: &Tensor, axis: usize, groups: &[Vec<usize>]) -> Tensor {
    let count = groups.first().map_or(1, Vec::len);
    let size = tensor.dims()[axis];
    if !size.is_multiple_of(count) {
        misuse(Location::caller(), format!("axis {axis} of {} cannot be scattered to {count} devices", tensor.spec()));
    }
    let attrs = attrs([
        ("scatter_dimension", Attr::i64(axis as i64)),
        ("replica_groups", table(groups)),
        CHANNEL,
        ("use_global_device_ids", Attr::Unit),
    ]);
    let spec = resized(tensor, axis, size / count);
    only(write((OpKind::ReduceScatter, attrs, Some(Combine::Add)), &[tensor], Some(vec![spec])))
}

#[track_caller]
fn exchanged(tensor: &Tensor, split: usize, concat: usize, groups: &[Vec<usize>]) -> Tensor {
    let count = groups.first().map_or(1, Vec::len);
    let attrs = attrs([
        ("split_dimension", Attr::i64(split as i64)),
        ("concat_dimension", Attr::i64(concat as i64)),
        ("split_count", Attr::i64(count as i64)),
        ("replica_groups", table(groups)),
        CHANNEL,
    ]);
    only(write((OpKind::AllToAll, attrs, None), &[tensor], None))
}

#[track_caller]
fn permuted(tensor: &Tensor, pairs: &[Vec<usize>]) -> Tensor {
    only(write(
        (OpKind::CollectivePermute, attrs([("source_target_pairs", table(pairs)), CHANNEL]), None),
        &[tensor],
        None,
    ))
}

impl Tensor {
    /// The sum, mean or extreme over the devices along mesh axes, the same on all of them.
    #[track_caller]
    #[must_use]
    pub fn all_reduce(&self, over: impl Over, reduction: Reduction) -> Tensor {
        all_reduced(self, &over.names(), reduction)
    }

    /// The parts of all devices along mesh axes, joined along an axis of the tensor.
    #[track_caller]
    #[must_use]
    pub fn all_gather(&self, axis: isize, over: impl Over) -> Tensor {
        let axis = self.axis(axis);
        let Some(groups) = groups(&over.names()) else { return self.clone() };
        gathered(self, axis, &groups)
    }

    /// The sum over devices along mesh axes, of which each device gets its part along an axis of the tensor.
    #[track_caller]
    #[must_use]
    pub fn reduce_scatter(&self, axis: isize, over: impl Over) -> Tensor {
        let axis = self.axis(axis);
        let Some(groups) = groups(&over.names()) else { return self.clone() };
        scattered(self, axis, &groups)
    }

    /// Each device gives the n-th part along `split` to the n-th device, and joins what it gets along `concat`.
    #[track_caller]
    #[must_use]
    pub fn all_to_all(&self, split: isize, concat: isize, over: impl Over) -> Tensor {
        let (split, concat) = (self.axis(split), self.axis(concat));
        let Some(groups) = groups(&over.names()) else { return self.clone() };
        exchanged(self, split, concat, &groups)
    }

    /// The value of the device `by` places before along a mesh axis, around its end.
    #[track_caller]
    #[must_use]
    pub fn permute(&self, over: &str, by: isize) -> Tensor {
        let Some(groups) = groups(&over.names()) else { return self.clone() };
        let pairs: Vec<Vec<usize>> = groups
            .iter()
            .flat_map(|group| {
                let count = group.len() as isize;
                (0..count).map(move |n| vec![group[n as usize], group[(n + by).rem_euclid(count) as usize]])
            })
            .collect();
        permuted(self, &pairs)
    }
}

/// The place of the device along a mesh axis, an `i32` scalar; 0 without a mesh.
#[track_caller]
pub fn axis_index(axis: &str) -> Tensor {
    let Some(mesh) = DEVICE_OF.with_borrow(Option::clone) else { return Tensor::zeros(DType::I32, &[]) };
    let Some(at) = mesh.axes().iter().position(|have| &*have.name == axis) else {
        misuse(Location::caller(), format!("the mesh {mesh} has no axis `{axis}`"));
    };
    let _line = line::of(Location::caller());
    let inner: usize = mesh.axes()[at + 1..].iter().map(|axis| axis.size).product();
    let device = only(stack::push(
        Prim::Op { kind: OpKind::PartitionId, attrs: Attrs::new(), combine: None },
        &[],
        vec![Spec::new(DType::U32, [])],
        Location::caller(),
    ));
    let scalar = |value: usize| Tensor::scalar(DType::U32, value as f64);
    (&device / &scalar(inner)).remainder(&scalar(mesh.axes()[at].size)).cast(DType::I32)
}

/// The cotangent of a collective's input.
pub(crate) fn transposed((kind, attrs, combine): (OpKind, &Attrs, Option<Combine>), ct: &Tensor) -> Option<Tensor> {
    let groups = table_of(attrs, "replica_groups");
    let at = |name: &str| attrs.get(name).and_then(Attr::as_int).map_or(0, |axis| axis as usize);
    match (kind, combine) {
        (OpKind::AllReduce, Some(Combine::Add)) => {
            let attrs = attrs.clone();
            Some(only(write((kind, attrs, combine), &[ct], None)))
        }
        (OpKind::AllGather, _) => Some(scattered(ct, at("all_gather_dim"), &groups)),
        (OpKind::ReduceScatter, Some(Combine::Add)) => Some(gathered(ct, at("scatter_dimension"), &groups)),
        (OpKind::AllToAll, _) => Some(exchanged(ct, at("concat_dimension"), at("split_dimension"), &groups)),
        (OpKind::CollectivePermute, _) => {
            let pairs = table_of(attrs, "source_target_pairs").into_iter().map(|pair| pair.into_iter().rev().collect());
            Some(permuted(ct, &pairs.collect::<Vec<_>>()))
        }
        _ => None,
    }
}

/// A collective for a batch: axes are one further.
pub(crate) fn batched(
    (kind, attrs, combine): (OpKind, &Attrs, Option<Combine>),
    ins: &[Lane],
    results: Vec<Spec>,
) -> Vec<Tensor> {
    let mut attrs = attrs.clone();
    for name in ["all_gather_dim", "scatter_dimension", "split_dimension", "concat_dimension"] {
        if let Some(axis) = attrs.get(name).and_then(Attr::as_int) {
            attrs.set(name, Attr::i64(axis + 1));
        }
    }
    let inputs: Vec<&Tensor> = ins.iter().map(|lane| &lane.tensor).collect();
    write((kind, attrs, combine), &inputs, Some(results))
}
