//! A step in closed form: which candidates are worth compiling.
//!
//! Right to a factor, not to a percent: it orders hundreds of candidates, and what the compiler says of the first ones
//! corrects it for the rest.

use xla::CollectiveKind;

use super::candidate::{Candidate, ShardingChoice};
use super::facts::Facts;
use super::roles::StepKind;
use super::rules::MeshShape;
use crate::machine::{HostTransfer, Machine};

/// A step of a candidate, roughly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rough {
    /// Seconds of a step.
    pub(crate) step_s: f64,
    /// Bytes on one device.
    pub(crate) hbm_bytes: f64,
}

/// Share of the peak rate that matmuls reach in large programs.
const MATMUL_REACH: f64 = 0.7;
/// Share of a transfer that stands in the way of matmuls even where there is enough to hide it behind.
const EXPOSED: f64 = 0.15;
/// Share of what layers exchange that keys and values are, which all parts of a sequence need.
const SEEN: f64 = 0.1;
/// Values as large as the largest that are alive at once.
const WORKING_VALUES: f64 = 2.0;

/// The closed form. `argument_bytes` are those on one device.
pub(crate) fn rough(facts: &Facts, machine: &Machine, candidate: &Candidate, argument_bytes: f64) -> Rough {
    let devices = f64::from(candidate.slice.devices()).max(1.0);
    let mesh = match candidate.sharding {
        ShardingChoice::ByRule(mesh) => mesh,
        // Unknown; as if parameters were split over everything.
        ShardingChoice::AsWritten => MeshShape { fsdp: candidate.slice.devices().into(), ..MeshShape::ONE },
    };
    let samples = candidate.batch as f64;
    let batch_parts = mesh.batch_parts() * mesh.context * facts.model_axis.batch_parts(mesh.model);
    let samples_per_part = samples / batch_parts as f64;
    // Parts of what a sample has.
    let model = mesh.model as f64 / facts.model_axis.batch_parts(mesh.model) as f64;
    let of_weights = facts.model_axis.weights_on_a_device(mesh.model);
    let of_state = of_weights / mesh.fsdp as f64;
    let is_training = facts.kind == StepKind::Training;

    let matmuls = facts.flops_per_sample * samples / devices / (machine.bf16_flops * MATMUL_REACH);
    let passes = if is_training { 3.0 } else { 1.0 };
    // A program's count has the whole KV cache once for each layer that writes into it: of a step with one, activations count by
    // what layers hand on, written and read by two.
    let activations = if facts.cache_bytes_per_sample > 0 {
        4.0 * facts.exchanged_bytes_per_sample
    } else {
        facts.traffic_bytes_per_sample
    };
    let traffic = activations * samples / devices
        + passes * facts.weight_bytes * of_weights
        + if is_training { 2.0 * facts.state_bytes as f64 * of_state } else { 0.0 }
        + facts.cache_bytes_per_sample as f64 * samples_per_part / model;
    let memory = traffic / (machine.hbm_bytes_per_s * machine.reach.hbm);

    let links = Links { machine, mesh };
    let mut transfers = 0.0;
    if is_training {
        // Weights are gathered forward and backward, gradients summed up once.
        transfers += 2.0 * links.seconds(CollectiveKind::AllGather, Axis::Fsdp, facts.weight_bytes * of_weights);
        transfers += links.seconds(CollectiveKind::ReduceScatter, Axis::Fsdp, facts.gradient_bytes * of_weights);
        transfers += links.seconds(CollectiveKind::AllReduce, Axis::Data, facts.gradient_bytes * of_state);
        transfers += links.seconds(CollectiveKind::AllReduce, Axis::Context, facts.gradient_bytes * of_state);
    }
    let exchanged = facts.exchanged_bytes_per_sample * samples_per_part * if is_training { 1.0 } else { 0.3 };
    let seen = exchanged * mesh.context as f64 * SEEN / model;
    let between_layers = links.seconds(CollectiveKind::AllReduce, Axis::Model, exchanged)
        + links.seconds(CollectiveKind::AllGather, Axis::Context, seen);
    let core = matmuls.max(memory);
    // Weights can come while the layer before is computed; what layers exchange is waited for.
    let hidden = transfers.min(core);
    // Out in the forward pass, back in the backward pass, both while layers are computed.
    let host = 2.0 * machine.host_s(facts.host_bytes_per_sample * samples_per_part, HostTransfer::Slice);
    let waited_for = (host - core).max(0.0);
    let step_s = core + (transfers - hidden) + EXPOSED * hidden + 0.8 * between_layers + waited_for;

    // The loop over layers hands the KV cache on, which is an argument: there once more only if it may not be written in place.
    let cache = (facts.cache_bytes_per_sample as f64).min(facts.kept_bytes_per_sample);
    let kept = facts.kept_bytes_per_sample - cache + if facts.is_donated { 0.0 } else { cache / model };
    let per_part = kept + WORKING_VALUES * facts.largest_bytes_per_sample / model;
    let results = if facts.is_donated { 0.0 } else { facts.state_bytes as f64 * of_state };
    let gradients = if is_training { facts.gradient_bytes * of_state } else { 0.0 };
    let gathered = if mesh.fsdp > 1 { 2.0 * facts.largest_weight_bytes / mesh.model as f64 } else { 0.0 };
    let hbm_bytes = argument_bytes + results + gradients + gathered + per_part * samples_per_part;
    Rough { step_s: step_s.max(1e-9), hbm_bytes }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Data,
    Fsdp,
    Context,
    Model,
}

struct Links<'a> {
    machine: &'a Machine,
    mesh: MeshShape,
}

impl Links<'_> {
    /// Seconds of an exchange of `bytes` among the devices along an axis.
    fn seconds(&self, kind: CollectiveKind, axis: Axis, bytes: f64) -> f64 {
        let MeshShape { data, fsdp, context, model } = self.mesh;
        let (count, stride) = match axis {
            Axis::Data => (data, fsdp * context * model),
            Axis::Fsdp => (fsdp, context * model),
            Axis::Context => (context, model),
            Axis::Model => (model, 1),
        };
        if count <= 1 {
            return 0.0;
        }
        let members: Vec<u64> = (0..count).map(|n| n * stride).collect();
        let torus = &self.machine.torus;
        let group = torus.group(&members);
        if group.slices > 1 {
            // Each slice first, then each device its part over the network between slices.
            return 2.0 * bytes / (self.machine.dcn_bytes_per_s * self.machine.reach.dcn);
        }
        group.transfer_s(kind, bytes as u64, torus.link_bytes_per_s * self.machine.reach.ici)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{FlagSet, ModelAxis, PrecisionChoice, WindowedEinsum};

    /// A decode step of 100 GB of weights with caches of 1 GB, on a v6e-8.
    fn decode(model_axis: ModelAxis, mesh: MeshShape) -> Rough {
        let facts = Facts {
            kind: StepKind::Inference,
            batch: None,
            tokens_per_sample: 1,
            parameters: 50_000_000_000,
            state_bytes: 100_000_000_000,
            cache_bytes_per_sample: 1_000_000_000,
            is_donated: true,
            flops_per_sample: 1e11,
            model_flops_per_sample: 1e11,
            convention: String::new(),
            traffic_bytes_per_sample: 1e11,
            weight_bytes: 1e11,
            gradient_bytes: 1e11,
            largest_weight_bytes: 1e9,
            kept_bytes_per_sample: 1e9,
            host_bytes_per_sample: 0.0,
            largest_bytes_per_sample: 0.0,
            exchanged_bytes_per_sample: 1e6,
            max_model_parts: 8,
            max_context_parts: 1,
            model_axis,
            precise_matmuls: 0,
        };
        let slice: chips::Slice = "v6e-8".parse().unwrap();
        let sharding = ShardingChoice::ByRule(mesh);
        let candidate = Candidate {
            slice,
            sharding,
            batch: 16,
            precision: PrecisionChoice::AsWritten,
            flags: FlagSet::Default,
            windowed_einsum: WindowedEinsum::Default,
            variant: None,
        };
        let arguments = 1e11 * model_axis.weights_on_a_device(mesh.model) + 1e9 * 16.0 / 8.0;
        rough(&facts, &Machine::of(&slice), &candidate, arguments)
    }

    #[test]
    fn caches_are_in_memory_once() {
        let (wide, narrow) =
            (MeshShape { model: 8, ..MeshShape::ONE }, MeshShape { data: 2, model: 4, ..MeshShape::ONE });
        assert_eq!(decode(ModelAxis::Tensor, wide).hbm_bytes, 1e11 / 8.0 + 2e9);
        assert_eq!(decode(ModelAxis::Tensor, narrow).hbm_bytes, 1e11 / 4.0 + 2e9);
        // Half the weights of a device are read in half the time.
        assert!(decode(ModelAxis::Tensor, wide).step_s < 0.7 * decode(ModelAxis::Tensor, narrow).step_s);
        // Of experts each device has its own, and all of the rest.
        let experts = ModelAxis::Experts { share: 0.8 };
        assert!((decode(experts, wide).hbm_bytes - (0.3 * 1e11 + 2e9)).abs() < 1.0);
    }
}
