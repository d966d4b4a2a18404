//! Weights as a step of training reads them: in few bits, fake-quantized, or frozen with an adapter beside them.

use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::at_use::at_use;
use crate::dropout::dropout;
use crate::quant::equation::Equation;
use crate::quant::qat::{fake_quantized, fake_quantized_rows};
use crate::quant::{
    ActivationQuant, Adapters, AmaxHistory, InputAxis, LoraConfig, MapWeights, QuantScheme, QuantizedTensor,
    ScaledMatmul, TrainingPrecision, Weight, is_kept,
};

/// A weight in training. It is made for one step and is never part of a model that is kept.
#[derive(Clone, Debug, Tree)]
pub struct TrainedWeight {
    /// The weight, dense or quantized.
    pub(crate) base: Weight,
    /// Largest magnitudes of earlier steps, for delayed scaling.
    history: Option<Tensor>,
    /// What is added to its result.
    adapter: Option<Adapter>,
    #[tree(skip)]
    product: Product,
}

/// How a weight is multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Product {
    /// In the type of activations.
    Unquantized,
    /// In few bits.
    Scaled(ScaledMatmul),
    /// In the type of activations, with the values that a scheme can represent.
    FakeQuantized(QuantScheme),
    /// The same; the weight has such values already.
    FakeQuantizedActivations(QuantScheme),
}

/// A low-rank adapter (LoRA): `dropout(x) · a · b · scale` is added to the result of a frozen weight.
#[derive(Clone, Debug, Tree)]
struct Adapter {
    /// `[in, rank]`.
    a: Tensor,
    /// `[rank, out]`.
    b: Tensor,
    /// Turns dropout on.
    key: Option<Key>,
    #[tree(skip)]
    scale: f64,
    #[tree(skip)]
    dropout: f64,
}

impl Adapter {
    #[track_caller]
    fn apply(&self, x: &Tensor, result: DType) -> Tensor {
        trace::scope("lora", || {
            let x = dropout(x, self.dropout, self.key.as_ref());
            let inner = x.matmul(&self.a.cast(x.dtype()));
            (&inner.matmul(&self.b.cast(x.dtype())) * self.scale).cast(result)
        })
    }
}

impl TrainedWeight {
    /// The weight as a matmul reads it on a mesh.
    #[track_caller]
    pub(crate) fn at_use(&self, compute: DType, logical_axes: &[&str]) -> TrainedWeight {
        match (&self.base, self.product) {
            // Rounded before it is gathered: the codes are those of the stored weight.
            (Weight::Dense(tensor), Product::FakeQuantized(scheme)) => {
                let fake = fake_quantized(tensor, &scheme, InputAxis::First).cast(compute);
                let base = Weight::Dense(at_use(&fake, logical_axes));
                TrainedWeight { base, product: Product::FakeQuantizedActivations(scheme), ..self.clone() }
            }
            _ => TrainedWeight { base: self.base.at_use(compute, logical_axes), ..self.clone() },
        }
    }

    /// The weight without its adapter, in a type.
    #[track_caller]
    pub(crate) fn dense(&self, dtype: DType) -> Tensor {
        match (&self.base, self.product) {
            (Weight::Dense(tensor), Product::FakeQuantized(scheme)) => {
                fake_quantized(tensor, &scheme, InputAxis::First).cast(dtype)
            }
            _ => self.base.dense(dtype),
        }
    }

    /// `einsum(equation, x, weight)` of the weight `[in, out]` in the shape `dims`; the equation sums over the input features,
    /// which are the last axes of `x` and the first of `dims`.
    #[track_caller]
    pub(crate) fn contract(&self, x: &Tensor, equation: &Equation, dims: &[usize], result: DType) -> Tensor {
        let summed = equation.summed_left().len();
        let features: usize = dims[..summed].iter().product();
        let rows = &x.dims()[..x.rank() - summed];
        let flat = || x.reshape(&[rows, &[features]].concat());
        let out = [rows, &dims[summed..]].concat();
        let y = match (&self.base, self.product) {
            (Weight::Dense(weight), Product::Scaled(how)) => {
                let weight = weight.cast(x.dtype()).reshape(dims);
                how.matmul(&equation.to_string(), x, &weight, self.history.as_ref()).cast(result)
            }
            (Weight::Dense(_), Product::FakeQuantized(scheme) | Product::FakeQuantizedActivations(scheme)) => {
                let weight = self.dense(x.dtype()).reshape(dims);
                let x = match scheme.activations {
                    ActivationQuant::None => x.clone(),
                    _ => fake_quantized_rows(&flat(), &scheme).reshape(x.dims()),
                };
                x.einsum_as(&equation.to_string(), &weight, result)
            }
            (Weight::Dense(weight), Product::Unquantized) => {
                x.einsum_as(&equation.to_string(), &weight.cast(x.dtype()).reshape(dims), result)
            }
            (base, _) => base.matmul_as(&flat(), result).reshape(&out),
        };
        match &self.adapter {
            Some(adapter) => y + adapter.apply(&flat(), result).reshape(&out),
            None => y,
        }
    }
}

/// What a step of training gives to the weights of a model beside its options.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrainingParts<'a> {
    /// Histories of delayed scaling.
    pub history: Option<&'a AmaxHistory>,
    /// Adapters of a frozen model.
    pub adapters: Option<AdapterParts<'a>>,
}

/// Adapters, and how they are added.
#[derive(Clone, Copy, Debug)]
pub struct AdapterParts<'a> {
    /// The adapters.
    pub adapters: &'a Adapters,
    /// Their scale and dropout.
    pub config: &'a LoraConfig,
    /// Turns dropout on.
    pub key: Option<&'a Key>,
}

/// The weights of a model as a step of training with these options reads them. What is in training already stays as it is.
///
/// Embeddings, routers and the LM head are left alone, and so are the experts of a mixture, which quantization-aware
/// training only changes.
#[track_caller]
pub fn in_training<M: MapWeights>(model: &M, options: &TrainingPrecision<'_>, parts: TrainingParts<'_>) -> M {
    let scaled = ScaledMatmul::of(options);
    if scaled.is_none() && options.qat.is_none() && parts.adapters.is_none() {
        return model.map_weights(|_, weight, _| weight.clone());
    }
    let mut keys = 0u64;
    model.map_weights(|path, weight, axis| {
        let product = match (weight, scaled, options.qat) {
            (Weight::InTraining(_), ..) => return weight.clone(),
            (Weight::Dense(tensor), Some(how), _) if is_scaled(path, tensor.rank(), axis) => Product::Scaled(how),
            (Weight::Dense(tensor), _, Some(scheme)) if !is_kept(path) => {
                if !is_scaled(path, tensor.rank(), axis) {
                    return Weight::Dense(fake_quantized(tensor, &scheme, axis));
                }
                Product::FakeQuantized(scheme)
            }
            _ => Product::Unquantized,
        };
        let adapter = parts.adapters.and_then(|AdapterParts { adapters, config, key }| {
            let pair = adapters.get(path)?;
            keys += 1;
            // A layer's own key goes to it with its slice of the stacked weights.
            let key = key.filter(|_| config.dropout > 0.0).map(|key| match weight.dims() {
                [layers, _, _] => key.fold_in(keys).stacked(*layers),
                _ => key.fold_in(keys),
            });
            let (a, b) = (pair.a.clone(), pair.b.clone());
            Some(Adapter { scale: config.scale(), dropout: config.dropout, a, b, key })
        });
        if product == Product::Unquantized && adapter.is_none() {
            return weight.clone();
        }
        let base = match weight {
            // Codes of activations have no gradient.
            Weight::Quantized(quantized) if adapter.is_some() => Weight::Quantized(QuantizedTensor {
                scheme: QuantScheme { activations: ActivationQuant::None, ..quantized.scheme },
                ..quantized.clone()
            }),
            other => other.clone(),
        };
        let history = parts.history.and_then(|history| history.get(path)).cloned();
        Weight::InTraining(Box::new(TrainedWeight { base, history, adapter, product }))
    })
}

/// Whether the matmuls of a weight are in few bits: those of linear layers, but not of embeddings, routers, the LM head and
/// experts.
pub(crate) fn is_scaled(path: &str, rank: usize, axis: InputAxis) -> bool {
    axis == InputAxis::First && rank >= 2 && !is_kept(path) && !path.split('.').any(|word| word == "experts")
}
