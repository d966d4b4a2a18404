//! Weights of layers, dense or quantized, and a way to visit those of a model.

use std::rc::Rc;

use tensor::DType;
use trace::{Path, Tensor, Tree};

use crate::at_use::at_use;
use crate::quant::equation::Equation;
use crate::quant::{
    BlockTensor, InputAxis, JoinedTensor, QuantScheme, QuantizedTensor, TrainedWeight, TurnedTensor, record,
};

/// A weight of a layer. A dense one has the path of its field; a quantized one has the paths of its parts below it.
#[derive(Clone, Debug)]
pub enum Weight {
    /// Floats.
    Dense(Tensor),
    /// Floats that lie in memory as files have them.
    Turned(TurnedTensor),
    /// The first of several that lie in memory as one.
    Joined(JoinedTensor),
    /// One of these sizes without values of its own: it lies behind another, which has it ([`Weight::Joined`]), or another part of
    /// the model has it.
    Behind(Vec<usize>),
    /// Codes and scales.
    Quantized(QuantizedTensor),
    /// Blocks as a file has them.
    Blocks(BlockTensor),
    /// One whose inputs are recorded under a name, see [`record_inputs`](crate::quant::record_inputs).
    Recorded(Box<Weight>, Rc<str>),
    /// One of these as a step of training reads it.
    InTraining(Box<TrainedWeight>),
}

impl From<Tensor> for Weight {
    fn from(tensor: Tensor) -> Weight {
        Weight::Dense(tensor)
    }
}

impl Tree for Weight {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        match self {
            Weight::Dense(tensor) => tensor.visit(path, f),
            Weight::Turned(turned) => turned.visit(path, f),
            Weight::Joined(joined) => joined.visit(path, f),
            Weight::Behind(_) => {}
            Weight::Quantized(quantized) => quantized.visit(path, f),
            Weight::Blocks(blocks) => blocks.visit(path, f),
            Weight::Recorded(weight, _) => weight.visit(path, f),
            Weight::InTraining(trained) => trained.visit(path, f),
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        match self {
            Weight::Dense(tensor) => Weight::Dense(tensor.map(path, f)),
            Weight::Turned(turned) => Weight::Turned(turned.map(path, f)),
            Weight::Joined(joined) => Weight::Joined(joined.map(path, f)),
            Weight::Behind(dims) => Weight::Behind(dims.clone()),
            Weight::Quantized(quantized) => Weight::Quantized(quantized.map(path, f)),
            Weight::Blocks(blocks) => Weight::Blocks(blocks.map(path, f)),
            Weight::Recorded(weight, name) => Weight::Recorded(weight.map(path, f), name.clone()),
            Weight::InTraining(trained) => Weight::InTraining(trained.map(path, f)),
        }
    }
}

impl Weight {
    /// The same without its values, which another part of the model has.
    pub(crate) fn elsewhere(&self) -> Weight {
        Weight::Behind(self.dims().to_vec())
    }

    /// Its axes.
    pub fn dims(&self) -> &[usize] {
        match self {
            Weight::Dense(tensor) => tensor.dims(),
            Weight::Turned(turned) => turned.dims(),
            Weight::Joined(joined) => joined.dims(),
            Weight::Behind(dims) => dims,
            Weight::Quantized(quantized) => quantized.values.dims(),
            Weight::Blocks(blocks) => blocks.dims(),
            Weight::Recorded(weight, _) => weight.dims(),
            Weight::InTraining(trained) => trained.base.dims(),
        }
    }

    /// The size of an axis.
    #[track_caller]
    pub fn dim(&self, axis: isize) -> usize {
        match self {
            Weight::Dense(tensor) => tensor.dim(axis),
            Weight::Turned(turned) => turned.dim(axis),
            Weight::Joined(_) | Weight::Behind(_) => {
                let dims = self.dims();
                let at = if axis < 0 { axis + dims.len() as isize } else { axis };
                usize::try_from(at)
                    .ok()
                    .and_then(|at| dims.get(at))
                    .copied()
                    .unwrap_or_else(|| trace::refuse(format!("a weight of {dims:?} has no axis {axis}")))
            }
            Weight::Quantized(quantized) => quantized.values.dim(axis),
            Weight::Blocks(blocks) => blocks.dim(axis),
            Weight::Recorded(weight, _) => weight.dim(axis),
            Weight::InTraining(trained) => trained.base.dim(axis),
        }
    }

    /// The whole weight in a type: for layers that have no better way.
    #[track_caller]
    pub fn dense(&self, dtype: DType) -> Tensor {
        match self {
            Weight::Dense(tensor) => tensor.cast(dtype),
            Weight::Turned(turned) => turned.dense(dtype),
            Weight::Joined(joined) => joined.dense(dtype),
            Weight::Behind(dims) => refuse_behind(dims),
            Weight::Quantized(quantized) => quantized.dequantized(dtype),
            Weight::Blocks(blocks) => blocks.dense(dtype),
            Weight::Recorded(weight, _) => weight.dense(dtype),
            Weight::InTraining(trained) => trained.dense(dtype),
        }
    }

    /// As a matmul reads it on a mesh, see [`at_use`].
    #[track_caller]
    pub(crate) fn at_use(&self, compute: DType, logical_axes: &[&str]) -> Weight {
        match self {
            Weight::Dense(tensor) => Weight::Dense(at_use(&tensor.cast(compute), logical_axes)),
            Weight::Turned(turned) => Weight::Turned(turned.at_use(compute, logical_axes)),
            // Those of one device only are joined.
            Weight::Joined(_) | Weight::Behind(_) => self.clone(),
            Weight::Quantized(quantized) => {
                let gathered = |part: &Tensor| at_use(part, &axes_of_part(logical_axes, part.dims()));
                Weight::Quantized(QuantizedTensor {
                    values: gathered(&quantized.values),
                    scales: gathered(&quantized.scales),
                    zero_points: quantized.zero_points.as_ref().map(gathered),
                    sharding: trace::current_rules()
                        .filter(|_| quantized.values.rank() == 2)
                        .map(|rules| rules.sharding(logical_axes, quantized.values.dims())),
                    ..quantized.clone()
                })
            }
            // Loaded for one device.
            Weight::Blocks(_) => self.clone(),
            Weight::Recorded(weight, name) => {
                Weight::Recorded(Box::new(weight.at_use(compute, logical_axes)), name.clone())
            }
            Weight::InTraining(trained) => Weight::InTraining(Box::new(trained.at_use(compute, logical_axes))),
        }
    }

    /// `einsum(equation, x, weight)` of a weight `[in, out]` in the shape `dims`; the equation sums over the input features, which
    /// are the last axes of `x` and the first of `dims`.
    #[track_caller]
    pub(crate) fn contract(&self, x: &Tensor, equation: &str, dims: &[usize]) -> Tensor {
        match self {
            Weight::Dense(weight) => x.einsum(equation, &weight.cast(x.dtype()).reshape(dims)),
            Weight::InTraining(trained) => trained.contract(x, &Equation::parse(equation), dims, x.dtype()),
            quantized => {
                let summed = Equation::parse(equation).summed_left().len();
                let rows = &x.dims()[..x.rank() - summed];
                let flat = x.reshape(&[rows, &[dims[..summed].iter().product()]].concat());
                quantized.matmul_as(&flat, x.dtype()).reshape(&[rows, &dims[summed..]].concat())
            }
        }
    }

    /// The matmul of `x [..., in]` with a weight `[in, out]`, in a type.
    #[track_caller]
    pub fn matmul_as(&self, x: &Tensor, result: DType) -> Tensor {
        match self {
            // A matmul of bf16 is accumulated in f32 by every device and rounded once, so its result need not be wider.
            Weight::Dense(tensor) => {
                let contraction = trace::Contraction {
                    lhs_sum: vec![x.rank().saturating_sub(1)],
                    rhs_sum: vec![0],
                    ..trace::Contraction::default()
                };
                x.dot_general(&tensor.cast(x.dtype()), &contraction, result, trace::Precision::Default)
            }
            Weight::Turned(turned) => turned.matmul(x, result),
            Weight::Joined(joined) => {
                joined.matmuls(x, result).into_iter().next().unwrap_or_else(|| refuse_behind(self.dims()))
            }
            Weight::Behind(dims) => refuse_behind(dims),
            Weight::Quantized(quantized) => quantized.matmul(x, result),
            Weight::Blocks(blocks) => blocks.matmul(x, result),
            Weight::Recorded(weight, name) => {
                record::push(name, x);
                weight.matmul_as(x, result)
            }
            Weight::InTraining(trained) => trained.contract(x, &Equation::of_rank(x.rank()), self.dims(), result),
        }
    }

    /// The matmul of `x [experts, rows, in]` with a weight `[experts, in, out]`.
    #[track_caller]
    pub(crate) fn batched_matmul(&self, x: &Tensor) -> Tensor {
        match self {
            Weight::Dense(tensor) => x.matmul(&tensor.cast(x.dtype())),
            Weight::Turned(_) | Weight::Joined(_) | Weight::Behind(_) => x.matmul(&self.dense(x.dtype())),
            Weight::Quantized(quantized) => quantized.batched_matmul(x),
            Weight::Blocks(blocks) => x.matmul(&blocks.dense(x.dtype())),
            Weight::Recorded(weight, _) => weight.batched_matmul(x),
            Weight::InTraining(trained) => x.matmul(&trained.dense(x.dtype())),
        }
    }

    /// Known by the shape of this one, quantized by a scheme.
    #[track_caller]
    pub fn quantized(&self, scheme: &QuantScheme, input_axis: InputAxis) -> Weight {
        match self {
            Weight::Dense(tensor) if tensor.rank() >= 2 => {
                Weight::Quantized(QuantizedTensor::of_shape(tensor.dims(), scheme, input_axis))
            }
            _ => self.clone(),
        }
    }
}

impl Weight {
    /// This one rounded to the nearest codes of a scheme, see [`QuantizedTensor::nearest`].
    #[track_caller]
    pub fn nearest(&self, scheme: &QuantScheme, input_axis: InputAxis) -> Weight {
        match self {
            Weight::Dense(tensor) if tensor.rank() >= 2 => {
                Weight::Quantized(QuantizedTensor::nearest(tensor, scheme, input_axis))
            }
            _ => self.clone(),
        }
    }
}

/// A layer has to read the weight that it lies behind.
#[track_caller]
fn refuse_behind(dims: &[usize]) -> ! {
    trace::refuse(format!("a weight of {dims:?} lies behind another and is not read alone"))
}

/// Logical axes of scales and zero points: an axis of one group is nobody's.
fn axes_of_part<'a>(logical_axes: &[&'a str], dims: &[usize]) -> Vec<&'a str> {
    logical_axes.iter().zip(dims).map(|(axis, size)| if *size == 1 { "" } else { *axis }).collect()
}

/// A model or layer whose weights can be replaced: quantized, adapted, or made dense again.
pub trait MapWeights: Sized + Clone {
    /// The same with every weight replaced by what `f` makes of it; it is told which axis a matmul sums over. Paths are those
    /// of [`Tree`].
    fn map_weights_at(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Weight, InputAxis) -> Weight) -> Self;

    /// The same with stacks of layers in segments: `starts` is told the path of a stack and says at which layers segments begin. Those
    /// that are in segments already, and what has no stack, stay as they are.
    fn in_segments_at(&self, _: &mut Path, _: &mut dyn FnMut(&Path) -> Vec<usize>) -> Self {
        self.clone()
    }

    /// [`MapWeights::in_segments_at`] of a whole model.
    fn in_segments(&self, mut starts: impl FnMut(&str) -> Vec<usize>) -> Self {
        self.in_segments_at(&mut Path::default(), &mut |path| starts(path.as_str()))
    }

    /// [`MapWeights::map_weights_at`] of a whole model.
    fn map_weights(&self, mut f: impl FnMut(&str, &Weight, InputAxis) -> Weight) -> Self {
        self.map_weights_at(&mut Path::default(), &mut |path, weight, axis| f(path.as_str(), weight, axis))
    }

    /// Known by shapes, with the weights of matmuls quantized; embeddings, routers and the LM head stay as they are.
    #[track_caller]
    fn quantized(&self, scheme: &QuantScheme) -> Self {
        self.map_weights(
            |path, weight, axis| if is_kept(path) { weight.clone() } else { weight.quantized(scheme, axis) },
        )
    }

    /// Known by shapes, with the LM head quantized; a head that is the embedding stays as it is.
    #[track_caller]
    fn quantized_lm_head(&self, scheme: &QuantScheme) -> Self {
        self.map_weights(|path, weight, axis| match path.starts_with("lm_head") {
            true => weight.quantized(scheme, axis),
            false => weight.clone(),
        })
    }

    /// The weights of matmuls rounded to the nearest codes, the others as they are.
    #[track_caller]
    fn nearest(&self, scheme: &QuantScheme) -> Self {
        self.map_weights(|path, weight, axis| if is_kept(path) { weight.clone() } else { weight.nearest(scheme, axis) })
    }
}

/// Weights that schemes leave alone unless they are named: they are small, or errors in them cost most.
pub(crate) fn is_kept(path: &str) -> bool {
    path.contains("embedding") || path.contains("router") || path.starts_with("lm_head")
}

impl<T: MapWeights> MapWeights for Option<T> {
    fn map_weights_at(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Weight, InputAxis) -> Weight) -> Self {
        self.as_ref().map(|inner| inner.map_weights_at(path, f))
    }

    fn in_segments_at(&self, path: &mut Path, starts: &mut dyn FnMut(&Path) -> Vec<usize>) -> Self {
        self.as_ref().map(|inner| inner.in_segments_at(path, starts))
    }
}

impl MapWeights for Weight {
    fn map_weights_at(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Weight, InputAxis) -> Weight) -> Self {
        f(path, self, InputAxis::First)
    }
}

/// Implements [`MapWeights`] for a structure by its fields that have weights.
macro_rules! map_weights {
    ($type:ty: $($field:ident),+) => {
        impl $crate::quant::MapWeights for $type {
            fn map_weights_at(
                &self,
                path: &mut trace::Path,
                f: &mut dyn FnMut(&trace::Path, &$crate::quant::Weight, $crate::quant::InputAxis) -> $crate::quant::Weight,
            ) -> Self {
                let mut mapped = self.clone();
                $(
                    mapped.$field = path.within(stringify!($field), |path| {
                        $crate::quant::MapWeights::map_weights_at(&self.$field, path, f)
                    });
                )+
                mapped
            }

            fn in_segments_at(
                &self,
                path: &mut trace::Path,
                starts: &mut dyn FnMut(&trace::Path) -> Vec<usize>,
            ) -> Self {
                let mut mapped = self.clone();
                $(
                    mapped.$field = path.within(stringify!($field), |path| {
                        $crate::quant::MapWeights::in_segments_at(&self.$field, path, starts)
                    });
                )+
                mapped
            }
        }
    };
}
pub(crate) use map_weights;
