//! What a program says about its own work, before any compiler runs: operations, bytes, parameters.

use std::collections::HashSet;

use hlo::{Attr, Func, Module, Op, OpKind, OpName, Type, Value, Verified};
use serde::Serialize;

use super::flow::{Flow, UseKind};
use super::rematerialized::{is_rematerialized, names};
use super::roles::{ArgumentRole, Roles, StepKind, argument_bytes, dims};
use super::source::is_grouped_matmul;

/// What the innermost axis of a mesh splits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ModelAxis {
    /// Every weight and every head, for the same samples.
    #[default]
    Tensor,
    /// Experts, and the batch beside them; other weights are whole on every device.
    Experts {
        /// Share of the weights that experts are.
        share: f64,
    },
}

impl ModelAxis {
    /// Share of all weights that a device has where the axis has so many parts.
    pub(crate) fn weights_on_a_device(self, parts: u64) -> f64 {
        let parts = parts.max(1) as f64;
        match self {
            ModelAxis::Tensor => 1.0 / parts,
            ModelAxis::Experts { share } => share / parts + (1.0 - share),
        }
    }

    /// Parts of the batch along the axis.
    pub(crate) fn batch_parts(self, parts: u64) -> u64 {
        match self {
            ModelAxis::Tensor => 1,
            ModelAxis::Experts { .. } => parts.max(1),
        }
    }
}

/// Figures of a program for one sample, or for all of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// What a step is.
    pub kind: StepKind,
    /// Samples in the program; `None` where it takes any number.
    pub batch: Option<u64>,
    /// Tokens of a sample.
    pub tokens_per_sample: u64,
    /// Elements of weights.
    pub parameters: u64,
    /// Bytes of everything that stays from step to step: weights, optimizer state.
    pub state_bytes: u64,
    /// Bytes of keys and values of earlier tokens, for one sample.
    pub cache_bytes_per_sample: u64,
    /// Whether results take the place of the arguments they replace.
    pub is_donated: bool,
    /// FLOPs of matmuls for one sample, as the program runs them.
    pub flops_per_sample: f64,
    /// FLOPs of matmuls for one sample that the model needs.
    pub model_flops_per_sample: f64,
    /// What these count.
    pub convention: String,
    /// Bytes moved for one sample, beside weights and state.
    pub traffic_bytes_per_sample: f64,
    /// Bytes of weights as matmuls read them.
    pub weight_bytes: f64,
    /// Bytes of the gradients of weights.
    pub gradient_bytes: f64,
    /// Bytes of the largest weight as a matmul reads it.
    pub largest_weight_bytes: f64,
    /// Bytes that loops hand on for one sample: what is kept for the backward pass.
    pub kept_bytes_per_sample: f64,
    /// Bytes for one sample that wait in the host's memory for the backward pass.
    pub host_bytes_per_sample: f64,
    /// Bytes of the largest value of one sample.
    pub largest_bytes_per_sample: f64,
    /// Bytes that layers hand on for one sample, over all matmuls with weights: what splitting layers must exchange.
    pub exchanged_bytes_per_sample: f64,
    /// Largest power of two that the weights can be split by along the sizes the rules choose.
    pub max_model_parts: u64,
    /// Largest power of two that the positions of a sample can be split by; programs of any writer are not split so.
    pub max_context_parts: u64,
    /// What the axis `model` of a mesh splits.
    #[serde(skip)]
    pub model_axis: ModelAxis,
    /// Matmuls that ask for more than the default precision.
    pub precise_matmuls: usize,
}

/// Batch that programs with a symbolic one are measured at: a prime, so that sizes with the batch in them are known by it.
pub(crate) const REFERENCE_BATCH: u64 = 61;

impl Facts {
    /// Reads a static program with inlined calls. `batch` is its batch; `is_any` says that it stands for any.
    pub(crate) fn of(module: &Verified, roles: &Roles, flow: &Flow, batch: u64) -> Facts {
        let samples = batch.max(1) as f64;
        let Some(func) = module.entry() else { return Facts::empty(roles) };
        let flops = hlo::cost::cost(&matmuls_only(module, Count::All)).flops;
        let tokens = roles.batch.tokens_per_sample as f64;
        let mut facts = Facts { flops_per_sample: flops / samples, ..Facts::empty(roles) };
        let mut largest: f64 = 0.0;
        let mut matmul_parameters = 0u64;
        for (n, ty) in func.inputs.iter().enumerate() {
            let bytes = argument_bytes(ty);
            let elements = dims(ty).iter().fold(1u64, |n, d| n.saturating_mul(u64::try_from(*d).unwrap_or(0)));
            match roles.arguments[n] {
                ArgumentRole::Parameter => {
                    facts.state_bytes = facts.state_bytes.saturating_add(bytes);
                    facts.parameters = facts.parameters.saturating_add(elements);
                    let steps = flow.stepped[n].iter().filter_map(|dim| dims(ty).get(*dim));
                    let steps = steps.fold(1i64, |count, size| count.saturating_mul(*size));
                    let read = flow.uses_of(n).map(|site| element_bytes(func, site.value)).fold(0.0, f64::max);
                    facts.weight_bytes += elements as f64 * read;
                    facts.gradient_bytes += bytes as f64;
                    largest = largest.max(elements as f64 * read / steps.max(1) as f64);
                    if flow.uses_of(n).any(|site| site.kind == UseKind::Matmul) {
                        matmul_parameters = matmul_parameters.saturating_add(elements);
                    }
                    let width = dims(ty).iter().filter(|d| **d > 1).min().copied().unwrap_or(1).max(1);
                    // One value of the model's width for each weight; weights hold the width as one of their sizes, and it
                    // is never above the square root of the largest product of two of them.
                    let square = (elements as f64 / steps.max(1) as f64).sqrt().max(width as f64);
                    facts.exchanged_bytes_per_sample += square.min(8192.0) * 2.0 * tokens * steps.max(1) as f64;
                }
                ArgumentRole::State => facts.state_bytes = facts.state_bytes.saturating_add(bytes),
                ArgumentRole::Cache { .. } => facts.cache_bytes_per_sample += bytes / batch.max(1),
                // Codes of quantized weights and KV caches.
                ArgumentRole::Other if roles.kind == StepKind::Inference && is_codes(ty) => match roles.results[n] {
                    Some(_) => facts.cache_bytes_per_sample += bytes / batch.max(1),
                    None => {
                        facts.state_bytes = facts.state_bytes.saturating_add(bytes);
                        facts.parameters = facts.parameters.saturating_add(elements);
                        facts.weight_bytes += bytes as f64;
                    }
                },
                ArgumentRole::Batch { .. } | ArgumentRole::Other => {}
            }
        }
        facts.largest_weight_bytes = largest;
        let fixed = 3.0 * facts.weight_bytes + 2.0 * facts.state_bytes as f64;
        facts.traffic_bytes_per_sample = (hlo::cost::cost(module).bytes - fixed).max(0.0) / samples;
        let held = Held::of(func, batch, roles.batch.tokens_per_sample);
        facts.kept_bytes_per_sample = (held.kept - held.on_host).max(0.0) / samples;
        facts.host_bytes_per_sample = held.on_host / samples;
        facts.largest_bytes_per_sample = held.largest / samples;
        facts.precise_matmuls = func.ops.iter().filter(|op| super::source::is_precise(op)).count();
        facts.max_model_parts = max_model_parts(func, roles, flow);
        (facts.model_flops_per_sample, facts.convention) = if has_names(func) {
            let flops = hlo::cost::cost(&matmuls_only(module, Count::First)).flops / samples;
            (flops, "matmuls of the program, without rematerialized ones".to_string())
        } else {
            let factor = if roles.kind == StepKind::Training { 6.0 } else { 2.0 };
            let text = format!("{factor:.0} FLOPs for each weight of a matmul and token (no names in the program)");
            (factor * matmul_parameters as f64 * tokens, text)
        };
        facts
    }

    fn empty(roles: &Roles) -> Facts {
        Facts {
            kind: roles.kind,
            batch: roles.batch.size,
            tokens_per_sample: roles.batch.tokens_per_sample,
            parameters: 0,
            state_bytes: 0,
            cache_bytes_per_sample: 0,
            is_donated: roles.is_donated,
            flops_per_sample: 0.0,
            model_flops_per_sample: 0.0,
            convention: String::new(),
            traffic_bytes_per_sample: 0.0,
            weight_bytes: 0.0,
            gradient_bytes: 0.0,
            largest_weight_bytes: 0.0,
            kept_bytes_per_sample: 0.0,
            host_bytes_per_sample: 0.0,
            largest_bytes_per_sample: 0.0,
            exchanged_bytes_per_sample: 0.0,
            max_model_parts: 1,
            max_context_parts: 1,
            model_axis: ModelAxis::Tensor,
            precise_matmuls: 0,
        }
    }
}

/// Which matmuls are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// All.
    All,
    /// Not those that are rematerialized.
    First,
}

/// The program with everything that is not to be counted made into ops that cost nothing. Scalars stay: loops are
/// counted by them.
fn matmuls_only(module: &Module, count: Count) -> Module {
    let mut module = module.clone();
    for func in &mut module.funcs {
        for n in 0..func.ops.len() {
            let op = &func.ops[n];
            let counts = match op.kind() {
                Some(OpKind::DotGeneral | OpKind::Dot | OpKind::Convolution) => {
                    count == Count::All || !is_rematerialized(&op.loc)
                }
                Some(OpKind::Composite) if is_grouped_matmul(op) => count == Count::All || !is_rematerialized(&op.loc),
                Some(OpKind::While | OpKind::If | OpKind::Case | OpKind::Return | OpKind::FuncReturn) => true,
                _ => op.num_results == 1 && func.ty(op.first_result).as_tensor().is_some_and(|ty| ty.rank() == 0),
            };
            if !counts {
                func.ops[n].name = OpName::Extern("plan.uncounted".into());
            }
        }
    }
    module
}

/// Whether an argument has integers of 8 bits and less that stand for numbers: more than a row of them.
fn is_codes(ty: &Type) -> bool {
    let dtype = ty.as_tensor().and_then(|tensor| tensor.element.plain());
    dims(ty).len() > 1 && dtype.is_some_and(|dtype| !dtype.is_float() && (2..=8).contains(&dtype.bits()))
}

fn has_names(func: &Func) -> bool {
    func.ops.iter().any(|op| names(&op.loc).any(|name| name.contains("dot_general")))
}

fn element_bytes(func: &Func, value: Value) -> f64 {
    let bits = func.ty(value).as_tensor().and_then(|ty| ty.element.plain()).map_or(0, |dtype| dtype.bits());
    f64::from(bits) / 8.0
}

/// Bytes of values that hold the batch.
#[derive(Default)]
struct Held {
    /// What the loop with most of them hands on.
    kept: f64,
    /// What of it is in the host's memory.
    on_host: f64,
    /// The largest.
    largest: f64,
}

impl Held {
    fn of(func: &Func, batch: u64, tokens: u64) -> Held {
        let sizes: HashSet<i64> = [batch, batch.saturating_mul(tokens)]
            .into_iter()
            .filter(|size| *size > 1)
            .filter_map(|size| i64::try_from(size).ok())
            .collect();
        let bytes = |value: Value| -> f64 {
            let Some(ty) = func.ty(value).as_tensor() else { return 0.0 };
            let holds = ty.dims.iter().any(|d| sizes.contains(d));
            if holds { ty.num_elements().unwrap_or(0) as f64 * element_bytes(func, value) } else { 0.0 }
        };
        let mut held = Held::default();
        let mut host_values: HashSet<Value> = HashSet::new();
        for op in &func.ops {
            match op.kind() {
                Some(OpKind::CustomCall) if is_to_host(op) => host_values.extend(op.results()),
                Some(OpKind::Reshape | OpKind::BroadcastInDim)
                    if op.operands.iter().any(|value| host_values.contains(value)) =>
                {
                    host_values.extend(op.results());
                }
                // Where a loop stacks what each iteration gives.
                Some(OpKind::DynamicUpdateSlice)
                    if op.operands.get(1).is_some_and(|value| host_values.contains(value)) =>
                {
                    held.on_host += op.operands.first().map_or(0.0, |stack| bytes(*stack));
                }
                Some(OpKind::While) => {
                    let handed_on: f64 = op.operands.iter().map(|value| bytes(*value)).sum();
                    held.kept = held.kept.max(handed_on);
                }
                Some(OpKind::DotGeneral | OpKind::Convolution) => {
                    held.largest = op.results().map(bytes).fold(held.largest, f64::max);
                }
                // Rows of the batch, several for each position; the gradient of the matrices is none.
                Some(OpKind::Composite) if is_grouped_matmul(op) => {
                    let rows =
                        op.results().filter(|value| func.ty(*value).as_tensor().is_some_and(|ty| ty.rank() == 2));
                    let all = |value: Value| {
                        let count = func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).unwrap_or(0);
                        count as f64 * element_bytes(func, value)
                    };
                    held.largest = rows.map(all).fold(held.largest, f64::max);
                }
                _ => {}
            }
        }
        held
    }
}

/// Whether an op moves a value into the host's memory.
fn is_to_host(op: &Op) -> bool {
    let Some(Attr::Dict(frontend)) = op.attrs.get("mhlo.frontend_attributes") else { return false };
    frontend.get("_xla_buffer_placement").and_then(Attr::as_str) == Some("pinned_host")
}

/// The most parts that every large weight can be split into along `model`, up to sixteen.
fn max_model_parts(func: &Func, roles: &Roles, flow: &Flow) -> u64 {
    let splits = |model: u64| {
        let mesh = super::rules::MeshShape { model, ..super::rules::MeshShape::ONE };
        let axes = super::rules::shardings(func, roles, flow, mesh);
        let split: u64 = (0..func.inputs.len())
            .filter(|n| roles.arguments[*n] == ArgumentRole::Parameter && axes[*n].iter().any(|axes| !axes.is_empty()))
            .map(|n| argument_bytes(&func.inputs[n]))
            .fold(0, u64::saturating_add);
        let all: u64 = (0..func.inputs.len())
            .filter(|n| roles.arguments[*n] == ArgumentRole::Parameter)
            .map(|n| argument_bytes(&func.inputs[n]))
            .fold(0, u64::saturating_add);
        // Small weights, and keys and values of few heads, may stay whole.
        split as f64 >= 0.8 * all as f64
    };
    [16, 8, 4, 2].into_iter().find(|model| splits(*model)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{BatchName, OneProgram, ProgramSource};

    /// One matmul with weights of 8 bits and a scale for each column, beside a cache of 8 bits.
    #[test]
    fn codes_are_weights_and_caches() {
        let text = "func.func @main(%t: tensor<4x8xbf16>, %w: tensor<8x16xi8>, %s: tensor<16xbf16>,
              %c: tensor<2x4x6x8xi8> {tf.aliasing_output = 1 : i32}) -> (tensor<4x16xbf16>, tensor<2x4x6x8xi8>) {
            %f = stablehlo.convert %w : (tensor<8x16xi8>) -> tensor<8x16xbf16>
            %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<16xbf16>) -> tensor<8x16xbf16>
            %v = stablehlo.multiply %f, %b : tensor<8x16xbf16>
            %y = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
              : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
            return %y, %c : tensor<4x16xbf16>, tensor<2x4x6x8xi8>
          }";
        let program = OneProgram::read(text.as_bytes().to_vec(), Some(&BatchName::Dimension(0, 0))).unwrap();
        let facts = program.facts();
        assert_eq!((facts.kind, facts.cache_bytes_per_sample), (StepKind::Inference, 2 * 6 * 8));
        assert_eq!((facts.weight_bytes, facts.parameters >= 8 * 16), (8.0 * 16.0, true), "{facts:?}");
        assert!(facts.state_bytes >= 8 * 16, "{facts:?}");
    }
}
