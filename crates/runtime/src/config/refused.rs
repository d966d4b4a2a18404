//! Options known from other tools that have no meaning here, each with the reason.

/// An option that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedOption {
    /// Its name elsewhere.
    pub name: &'static str,
    /// Why it is refused, and what to use instead.
    pub reason: &'static str,
}

/// Options that are refused.
pub static REFUSED: &[RefusedOption] = &[
    RefusedOption {
        name: "enable_xla_fusion",
        reason: "the TPU compiler always fuses and has no switch for it; `optimization` chooses how far programs are rewritten before",
    },
    RefusedOption {
        name: "communication_optimization",
        reason: "it names no single thing; use `async_collectives`, `latency_hiding` or `collective_matmul`",
    },
    RefusedOption {
        name: "enable_hardware_acceleration",
        reason: "no TPU has a vector-quantization unit; there is nothing to switch on",
    },
    RefusedOption {
        name: "enable_xla_cache",
        reason: "use `enable_cache`: it keeps compiled programs and prepared models",
    },
    RefusedOption { name: "mixed_precision", reason: "use `precision`: bf16, f32 or mixed" },
    RefusedOption { name: "fp32_params", reason: "use `precision = mixed`: parameters in f32, arithmetic in bf16" },
    RefusedOption {
        name: "tpu_version",
        reason: "use `slice`, such as v5e-16: it names generation, chips and topology",
    },
    RefusedOption { name: "num_chips", reason: "use `slice`, such as v5e-16: it names generation, chips and topology" },
    RefusedOption { name: "topology", reason: "use `slice`, such as v5e:4x4: it names generation, chips and topology" },
    RefusedOption {
        name: "memory_per_chip",
        reason: "the table of chips has it; `v6e_memory_gb` and `v7_memory_gb` replace a figure that differs on your machines",
    },
    RefusedOption {
        name: "xla_python_client_preallocate",
        reason: "it belongs to Python's client; `memory_fraction` bounds what is allocated",
    },
    RefusedOption { name: "enable_strict_validation", reason: "use `strict_validation`" },
    RefusedOption { name: "enable_async_collective", reason: "use `async_collectives`: auto, on or off" },
    RefusedOption { name: "enable_rematerialization", reason: "use `rematerialization`: auto, on or off" },
    RefusedOption { name: "use_collective_matmul", reason: "use `collective_matmul`: auto, on or off" },
    RefusedOption { name: "enable_latency_hiding", reason: "use `latency_hiding`: auto, on or off" },
    RefusedOption { name: "enable_megacore", reason: "use `megacore`: auto, on or off" },
    RefusedOption { name: "enable_profiling", reason: "use `profiling`" },
    RefusedOption {
        name: "enable_xla_optimizations",
        reason: "use `optimization` for rewrites before the compiler, `xla_optimization_level` for the compiler's effort",
    },
    RefusedOption { name: "use_mixed_precision", reason: "use `precision`: bf16, f32 or mixed" },
    RefusedOption {
        name: "activation_checkpointing_layers",
        reason: "use `gradient_checkpointing`: auto, none, activations or layers",
    },
    RefusedOption { name: "version", reason: "use `slice`, such as v5e-16: it names generation, chips and topology" },
    RefusedOption {
        name: "xla_python_client_allocator",
        reason: "it belongs to Python's client; `memory_fraction` bounds what is allocated",
    },
];
