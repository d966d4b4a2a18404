//! A point of the search: a slice, how the program lies on it, its batch, its precision, the compiler's options.

use std::collections::BTreeMap;

use chips::{Generation, Slice};
use serde::Serialize;
use trace::{DTypePolicy, RematPolicy};

use super::roles::StepKind;
use super::rules::MeshShape;
use super::source::ProgramSource;

/// How a program is split over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardingChoice {
    /// By rule, over a mesh.
    ByRule(MeshShape),
    /// As the program says.
    AsWritten,
}

/// Precision of matmuls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PrecisionChoice {
    /// As the program asks.
    AsWritten,
    /// The default of the compiler, where the program asks for more.
    Default,
}

/// A set of compiler flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlagSet {
    /// None but the caller's.
    Default,
    /// More vector memory for one fusion: three quarters of it.
    LargeVmem,
    /// Transfers started earlier, beside more of the computation.
    Overlap,
}

impl FlagSet {
    /// The sets that are tried on the best plan.
    pub(crate) const TRIALS: [FlagSet; 2] = [FlagSet::LargeVmem, FlagSet::Overlap];

    /// The flags for a generation.
    pub fn flags(self, generation: Generation) -> BTreeMap<String, String> {
        let vmem_kib = generation.spec().memory.vmem_bytes_per_core.value / 1024;
        let flags: &[(&str, &str)] = match self {
            FlagSet::Default => &[],
            FlagSet::LargeVmem => {
                let kib = (vmem_kib * 3 / 4).to_string();
                return BTreeMap::from([("xla_tpu_scoped_vmem_limit_kib".to_string(), kib)]);
            }
            FlagSet::Overlap => &[
                ("xla_enable_async_all_gather", "true"),
                ("xla_latency_hiding_scheduler_rerun", "2"),
                ("xla_tpu_assign_all_reduce_scatter_layout", "true"),
                ("xla_tpu_data_parallel_opt_different_sized_ops", "true"),
                ("xla_tpu_enable_ag_backward_pipelining", "true"),
                ("xla_tpu_enable_all_experimental_scheduler_features", "true"),
                ("xla_tpu_enable_data_parallel_all_reduce_opt", "true"),
                ("xla_tpu_overlap_compute_collective_tc", "true"),
                ("xla_tpu_scheduler_percent_shared_memory_limit", "100"),
            ],
        };
        flags.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
    }
}

/// XLA's windowed einsum: a collective matmul made by the partitioner, whose parts travel while others are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowedEinsum {
    /// The compiler chooses: it may cut a matmul between collectives into a loop of parts.
    Default,
    /// No matmul is cut. One that is cut reads its other operand once for each part, which can cost more than what it hides.
    Off,
}

impl WindowedEinsum {
    /// The flags.
    pub fn flags(self) -> BTreeMap<String, String> {
        match self {
            WindowedEinsum::Default => BTreeMap::new(),
            // Cut are matmuls above so many MiB.
            WindowedEinsum::Off => {
                BTreeMap::from([("xla_jf_spmd_threshold_for_windowed_einsum_mib".to_string(), "1000000".to_string())])
            }
        }
    }
}

/// A point of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The slice.
    pub slice: Slice,
    /// How the program is sharded over it.
    pub sharding: ShardingChoice,
    /// Samples in a step, on all devices together.
    pub batch: u64,
    /// Precision of matmuls.
    pub precision: PrecisionChoice,
    /// Compiler flags.
    pub flags: FlagSet,
    /// Whether the partitioner may cut matmuls into windows.
    pub windowed_einsum: WindowedEinsum,
    /// How the model is written; `None` is as the program has it.
    pub variant: Option<Variant>,
}

/// A way to write a model's step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// The rematerialization policy of the layers, where there is a backward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remat: Option<RematPolicy>,
    /// Types of parameters and activations.
    pub types: DTypePolicy,
    /// What is of few bits, where there is no backward pass.
    #[serde(flatten)]
    pub quantization: Quantization,
}

/// What of a model is of few bits, in the words of whoever writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantization {
    /// The scheme of the weights, as in `w4a16`; `None`: as the types say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// The scheme of the LM head, as in `w8a16`; `None`: as the types say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_head: Option<String>,
    /// The type of the KV cache, as in `int8`; `None`: that of activations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<String>,
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.types)?;
        if let Some(weights) = &self.quantization.weights {
            write!(f, " {weights}")?;
        }
        if let Some(lm_head) = &self.quantization.lm_head {
            write!(f, " {lm_head} LM head")?;
        }
        if let Some(kv_cache) = &self.quantization.kv_cache {
            write!(f, " {kv_cache} cache")?;
        }
        match &self.remat {
            Some(remat) => write!(f, " remat {remat}"),
            None => Ok(()),
        }
    }
}

impl Candidate {
    /// All compiler flags of the candidate.
    pub fn compiler_flags(&self) -> BTreeMap<String, String> {
        let mut flags = self.flags.flags(self.slice.generation());
        flags.extend(self.windowed_einsum.flags());
        flags
    }
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.slice)?;
        match self.sharding {
            ShardingChoice::ByRule(mesh) => write!(f, " {mesh}")?,
            ShardingChoice::AsWritten => write!(f, " as written")?,
        }
        write!(f, " batch {}", self.batch)?;
        if self.precision == PrecisionChoice::Default {
            write!(f, " default precision")?;
        }
        if let Some(variant) = &self.variant {
            write!(f, " {variant}")?;
        }
        if self.windowed_einsum == WindowedEinsum::Off {
            write!(f, " windowed_einsum=off")?;
        }
        match self.flags {
            FlagSet::Default => Ok(()),
            FlagSet::LargeVmem => write!(f, " large vmem"),
            FlagSet::Overlap => write!(f, " overlap"),
        }
    }
}

/// Samples on one device that are tried where the program takes any batch.
const SAMPLES_PER_PART: [u64; 14] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 64, 128, 256];

/// Every candidate on the given slices. `batches` replaces the batches that would be tried.
pub(crate) fn all(source: &dyn ProgramSource, slices: &[Slice], batches: Option<&[u64]>) -> Vec<Candidate> {
    let (facts, devices, variants) = (source.facts(), source.devices(), source.variants());
    let mut found = Vec::new();
    for &slice in slices {
        let on = u64::from(slice.devices());
        let shardings: Vec<ShardingChoice> = match devices {
            Some(devices) if devices == on => vec![ShardingChoice::AsWritten],
            Some(_) => Vec::new(),
            None => {
                // Weights gathered for every token of a decode step would be all it does.
                let max_fsdp = if facts.kind == StepKind::Training { u64::MAX } else { 1 };
                let most = MeshShape {
                    data: u64::MAX,
                    fsdp: max_fsdp,
                    context: facts.max_context_parts,
                    model: facts.max_model_parts,
                };
                MeshShape::all(on, most).into_iter().map(ShardingChoice::ByRule).collect()
            }
        };
        for sharding in shardings {
            let parts = match sharding {
                ShardingChoice::ByRule(mesh) => mesh.batch_parts() * facts.model_axis.batch_parts(mesh.model),
                ShardingChoice::AsWritten => 1,
            };
            // Slices reach each other over the data axis alone.
            let crosses =
                matches!(sharding, ShardingChoice::ByRule(mesh) if mesh.data % u64::from(slice.num_slices()) != 0);
            if crosses {
                continue;
            }
            let sizes: Vec<u64> = match (facts.batch, batches) {
                (Some(batch), _) => vec![batch],
                (None, Some(batches)) => batches.to_vec(),
                (None, None) => SAMPLES_PER_PART.iter().filter_map(|n| n.checked_mul(parts)).collect(),
            };
            for batch in sizes.into_iter().filter(|batch| batch.is_multiple_of(parts.max(1))) {
                let precisions: &[PrecisionChoice] = match facts.precise_matmuls {
                    0 => &[PrecisionChoice::AsWritten],
                    _ => &[PrecisionChoice::AsWritten, PrecisionChoice::Default],
                };
                for (&precision, variant) in precisions.iter().flat_map(|p| variants.iter().map(move |v| (p, v))) {
                    found.push(Candidate {
                        slice,
                        sharding,
                        batch,
                        precision,
                        flags: FlagSet::Default,
                        windowed_einsum: WindowedEinsum::Default,
                        variant: variant.clone(),
                    });
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_follow_the_vector_memory() {
        let flags = FlagSet::LargeVmem.flags(Generation::V6e);
        assert_eq!(flags["xla_tpu_scoped_vmem_limit_kib"], "98304");
        assert!(FlagSet::Default.flags(Generation::V6e).is_empty());
    }
}
