//! Matmuls of a training in few bits: operands with scales, forward and backward, and the history that delayed scaling keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{DTypePolicy, Tensor, Tree, custom_vjp};

use crate::quant::activations::codes;
use crate::quant::equation::Equation;
use crate::quant::{InputAxis, MapWeights, QuantScheme, Weight, is_scaled, largest_code};

/// Where the scale of an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// From the operand itself: it is read twice.
    Current,
    /// From the largest magnitudes of earlier steps: the operand is read once, and larger values are clipped.
    Delayed,
    /// Magnitudes up to this number are representable, whatever the operand has. Gradients are scaled by [`Scaling::Current`].
    Fixed(f64),
}

/// What shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// The whole operand: it is quantized once, for the forward and the backward pass.
    Tensor,
    /// Each row of activations and each channel of a weight: operands are quantized again for the backward pass, along
    /// the axis that is summed there.
    Channel,
}

/// How the matmuls of the backward pass are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackwardMatmuls {
    /// In few bits too: gradients are `f8E5M2`, or `i8`.
    Quantized,
    /// In the type of activations.
    Unquantized,
}

/// The table `[run.matmul]`: how matmuls of `precision = "fp8"` and `"int8"` are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MatmulOptions {
    /// Where scales come from; [`Scaling::Current`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// What shares a scale; tensors for fp8, channels for int8 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granularity: Option<Granularity>,
    /// The backward pass; quantized for fp8, unquantized for int8 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backward: Option<BackwardMatmuls>,
    /// Steps whose largest magnitudes delayed scaling remembers; 1024 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amax_history: Option<usize>,
}

/// Steps of a history where nobody says how many: Transformer Engine's number.
const AMAX_HISTORY: usize = 1024;

/// Longest history: more is a mistake, and every weight has one.
const LONGEST_HISTORY: usize = 1 << 16;

impl MatmulOptions {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == MatmulOptions::default()
    }

    /// Refuses what does not go together with a precision.
    pub(crate) fn check(&self, precision: DTypePolicy) -> Result<(), String> {
        if precision.matmul() == precision.compute() {
            return match self.is_default() {
                true => Ok(()),
                false => Err(format!(
                    "run.matmul is for run.precision = \"fp8\" or \"int8\"; it is \"{precision}\": remove the table, or change the \
                     precision"
                )),
            };
        }
        let scaling = self.scaling.unwrap_or(Scaling::Current);
        match (scaling, self.granularity, precision) {
            (Scaling::Delayed, _, DTypePolicy::Int8) => {
                Err("run.matmul.scaling = \"delayed\" is for run.precision = \"fp8\"; int8 needs \"current\"".into())
            }
            (Scaling::Delayed, Some(Granularity::Channel), _) => Err(
                "run.matmul.scaling = \"delayed\" keeps one history for each tensor: set run.matmul.granularity = \"tensor\""
                    .into(),
            ),
            (Scaling::Fixed(most), ..) if !(most.is_finite() && most > 0.0) => {
                Err(format!("run.matmul.scaling: the largest magnitude is {most}; it must be a positive number"))
            }
            _ => match self.amax_history {
                Some(_) if scaling != Scaling::Delayed => {
                    Err("run.matmul.amax_history is for run.matmul.scaling = \"delayed\"".into())
                }
                Some(steps) if !(1..=LONGEST_HISTORY).contains(&steps) => {
                    Err(format!("run.matmul.amax_history is {steps}; it must be 1 to {LONGEST_HISTORY} steps"))
                }
                _ => Ok(()),
            },
        }
    }
}

/// Matmuls with operands in few bits, sums in `f32` or `i32`, and results in the type of activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaledMatmul {
    /// Type of activations and weights.
    forward: DType,
    /// Type of gradients; `None` where the backward pass is in the type of activations.
    gradient: Option<DType>,
    scaling: Scaling,
    granularity: Granularity,
    history: usize,
}

/// What the options of a model say of its matmuls in training.
#[derive(Clone, Copy, Debug)]
pub struct TrainingPrecision<'a> {
    /// Types of parameters, activations and matmuls.
    pub precision: DTypePolicy,
    /// How operands of few bits are scaled.
    pub matmul: &'a MatmulOptions,
    /// The scheme of quantization-aware training.
    pub qat: Option<QuantScheme>,
}

impl ScaledMatmul {
    /// The matmuls of a precision; `None` where they are in the type of activations.
    pub fn of(options: &TrainingPrecision<'_>) -> Option<ScaledMatmul> {
        let matmul = options.matmul;
        let (forward, gradient, granularity, backward) = match options.precision {
            DTypePolicy::Fp8 => (DType::F8E4M3FN, DType::F8E5M2, Granularity::Tensor, BackwardMatmuls::Quantized),
            DTypePolicy::Int8 => (DType::I8, DType::I8, Granularity::Channel, BackwardMatmuls::Unquantized),
            DTypePolicy::F32 | DTypePolicy::Mixed | DTypePolicy::Bf16 => return None,
        };
        Some(ScaledMatmul {
            forward,
            gradient: (matmul.backward.unwrap_or(backward) == BackwardMatmuls::Quantized).then_some(gradient),
            scaling: matmul.scaling.unwrap_or(Scaling::Current),
            granularity: matmul.granularity.unwrap_or(granularity),
            history: matmul.amax_history.unwrap_or(AMAX_HISTORY),
        })
    }

    /// Whether scales come from a history.
    pub fn is_delayed(&self) -> bool {
        self.scaling == Scaling::Delayed
    }

    /// `einsum(equation, x, weight)` in the type of `x`. Delayed scaling reads `history`, `f32 [3, steps]` of activations,
    /// weight and gradient; the next history is what the backward pass gives as its gradient.
    #[track_caller]
    pub(crate) fn matmul(&self, equation: &str, x: &Tensor, weight: &Tensor, history: Option<&Tensor>) -> Tensor {
        if self.is_delayed() && history.is_none() {
            trace::refuse(
                "delayed scaling keeps a history beside the parameters: make one with AmaxHistory and give it to the model, or use \
                 run.matmul.scaling = \"current\"",
            );
        }
        let (how, equation) = (*self, Equation::parse(equation));
        let inputs = Inputs { x: x.clone(), weight: weight.clone(), history: history.cloned() };
        let forward = equation.clone();
        custom_vjp(
            &inputs,
            |inputs| how.forward(&forward, inputs),
            move |inputs, _, gradient| how.backward(&equation, inputs, gradient),
        )
    }

    fn forward(&self, equation: &Equation, inputs: &Inputs) -> Tensor {
        let x = self.operand(&inputs.x, self.forward, &equation.summed_left(), inputs.delayed(Row::Activations));
        let weight = self.operand(&inputs.weight, self.forward, &equation.summed_right(), inputs.delayed(Row::Weight));
        product(equation, &x, &weight, inputs.x.dtype())
    }

    fn backward(&self, equation: &Equation, inputs: &Inputs, gradient: &Tensor) -> Inputs {
        let (to_x, to_weight) = (equation.to_left(), equation.to_right());
        let Inputs { x, weight, history } = inputs;
        let (of_x, of_weight) = match self.gradient {
            None => (
                gradient.einsum(&to_x.to_string(), weight),
                x.einsum_as(&to_weight.to_string(), gradient, weight.dtype()),
            ),
            Some(dtype) => {
                let of = |tensor: &Tensor, dtype: DType, summed: Vec<usize>, row: Row| {
                    self.operand(tensor, dtype, &summed, inputs.delayed(row))
                };
                let x_gradient = product(
                    &to_x,
                    &of(gradient, dtype, to_x.summed_left(), Row::Gradient),
                    &of(weight, self.forward, to_x.summed_right(), Row::Weight),
                    x.dtype(),
                );
                let weight_gradient = product(
                    &to_weight,
                    &of(x, self.forward, to_weight.summed_left(), Row::Activations),
                    &of(gradient, dtype, to_weight.summed_right(), Row::Gradient),
                    weight.dtype(),
                );
                (x_gradient, weight_gradient)
            }
        };
        let history = history.as_ref().map(|history| {
            let newest: Vec<Tensor> = [x, weight, gradient].map(|tensor| largest(tensor).reshape(&[1])).to_vec();
            let newest = Tensor::stack(&newest, 0);
            Tensor::concat(&[newest, history.slice(1, 0..history.dim(1).saturating_sub(1))], 1)
        });
        Inputs { x: of_x, weight: of_weight, history }
    }

    /// A tensor in few bits. `summed` are the axes that the matmul sums over.
    fn operand(&self, tensor: &Tensor, dtype: DType, summed: &[usize], delayed: Option<Tensor>) -> Operand {
        let wide = tensor.cast(DType::F32);
        let most = largest_code(dtype);
        let scale = match (delayed, self.scaling) {
            (Some(amax), _) => {
                // Nothing is known before the first step.
                let is_known = amax.greater(&amax.zeros_like());
                is_known.select(&(&amax * (1.0 / most)), &amax.full_like(1.0))
            }
            (None, Scaling::Fixed(amax)) if dtype == self.forward => Tensor::scalar(DType::F32, amax / most),
            _ => {
                let amax = match self.granularity {
                    Granularity::Tensor => largest(&wide),
                    Granularity::Channel => {
                        let mut dims = wide.dims().to_vec();
                        summed.iter().for_each(|&axis| dims[axis] = 1);
                        wide.abs().max(summed).reshape(&dims)
                    }
                };
                (&amax * (1.0 / most)).maximum(&Tensor::scalar(DType::F32, SMALLEST_SCALE))
            }
        };
        Operand { codes: codes(&wide, &scale, dtype), scale }
    }
}

/// A scale has an inverse: that of zeros, and of numbers below those that matter.
const SMALLEST_SCALE: f64 = 1e-30;

/// The largest magnitude of a tensor, an `f32` scalar.
fn largest(tensor: &Tensor) -> Tensor {
    let all: Vec<usize> = (0..tensor.rank()).collect();
    tensor.cast(DType::F32).abs().max(&all)
}

/// What a matmul reads, and what its backward pass gives for it.
#[derive(Clone, Debug, Tree)]
struct Inputs {
    x: Tensor,
    weight: Tensor,
    history: Option<Tensor>,
}

/// Rows of a history.
#[derive(Clone, Copy)]
enum Row {
    Activations = 0,
    Weight = 1,
    Gradient = 2,
}

impl Inputs {
    /// The largest magnitude of earlier steps, an `f32` scalar.
    fn delayed(&self, row: Row) -> Option<Tensor> {
        self.history.as_ref().map(|history| history.at(0, row as usize).max(&[0]))
    }
}

/// Codes, and what they are multiplied by: a scalar, or with an axis of 1 in place of each that is summed.
struct Operand {
    codes: Tensor,
    scale: Tensor,
}

fn product(equation: &Equation, left: &Operand, right: &Operand, result: DType) -> Tensor {
    let sum = if left.codes.dtype().is_float() { DType::F32 } else { DType::I32 };
    let dot = left.codes.einsum_as(&equation.to_string(), &right.codes, sum).cast(DType::F32);
    let left = equation.spread_left(&left.scale);
    let right = equation.spread_right(&right.scale);
    // Scales of tensors are multiplied before they meet the result.
    let scaled = if left.rank() == 0 && right.rank() == 0 { dot * (left * right) } else { dot * left * right };
    scaled.cast(result)
}

/// Largest magnitudes of earlier steps by the paths of weights, `f32 [3, steps]`, or `[layers, 3, steps]` of stacked ones: of
/// activations, weight and gradient. Delayed scaling reads them; the gradient of a history is the next one.
pub type AmaxHistory = BTreeMap<String, Tensor>;

/// The history before the first step, of a model whose options ask for delayed scaling; `None` of others.
#[track_caller]
pub fn amax_history<M: MapWeights>(model: &M, options: &TrainingPrecision<'_>) -> Option<AmaxHistory> {
    let how = ScaledMatmul::of(options).filter(ScaledMatmul::is_delayed)?;
    let mut history = AmaxHistory::new();
    model.map_weights(|path, weight, axis: InputAxis| {
        if let Weight::Dense(tensor) = weight
            && is_scaled(path, tensor.rank(), axis)
        {
            let layers = &tensor.dims()[..tensor.rank().saturating_sub(2)];
            let dims = [layers, &[3, how.history]].concat();
            history.insert(path.to_string(), Tensor::zeros(DType::F32, &dims));
        }
        weight.clone()
    });
    Some(history)
}
