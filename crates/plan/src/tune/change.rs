//! Changes of programs, one function each, in the order in which they are tried.

use chips::Slice;
use compile::Program;
use compile::optimize::{
    ComputePrecision, Level, ProgramOptimizer, RewriteStep, TargetInfo, one_hot_indexing, one_hot_rows,
};
use kernel::LossForm;

use super::Exact;
use crate::donors::Donors;
use crate::error::Error;
use crate::fix::{donation, offload, recompute};
use crate::memory::arguments;

/// What changes may look at beside the program.
pub(super) struct Setting {
    pub(super) slice: Slice,
    /// Whether the best program so far fits.
    pub(super) fits: bool,
}

/// A changed program, and what was done in words.
pub(super) struct Changed {
    pub(super) program: Program,
    pub(super) detail: String,
}

/// A changed program, or why there is nothing to change.
pub(super) type Attempt = Result<Result<Changed, String>, Error>;

/// A change of the program.
pub(super) struct Change {
    pub(super) name: &'static str,
    pub(super) reason: &'static str,
    /// How far it may move results of a program in f32.
    pub(super) exact: Exact,
    pub(super) apply: fn(&Program, &Setting) -> Attempt,
}

/// The changes whose kernels decide what a sharding is worth: in programs over several devices they come before shardings.
pub(super) const KERNELS: [&str; 2] = ["attention kernels", "chosen experts"];

/// Attention first: it removes the largest arrays, which decide what the others are worth. A fused loss computes logits twice, so it
/// has to beat what labels cost at their best: it comes after indexing. Then precision, which halves what is left, then memory:
/// donation is free, rematerialization costs time, and the link to the host is the slowest of all, so it is last.
pub(super) const CHANGES: &[Change] = &[
    Change {
        name: KERNELS[0],
        reason: "scores and weights of attention stay in VMEM, forward and backward",
        exact: Exact::Rounding,
        apply: attention,
    },
    Change {
        name: KERNELS[1],
        reason: "grouped matmuls leave out experts that a token did not choose, and slots that no token has",
        exact: Exact::Rounding,
        apply: chosen_experts,
    },
    Change {
        name: "one-hot indexing",
        reason: "a gather or scatter of one element a row needs the whole array in HBM; comparisons fuse with what computes it",
        exact: Exact::Rounding,
        apply: one_hot,
    },
    Change {
        name: "SparseCore look-ups",
        reason: "rows of a table are fetched by SparseCores, each subcore some of them, beside the TensorCores",
        exact: Exact::Rounding,
        apply: lookups,
    },
    Change {
        name: "embedding gradients as matmuls",
        reason: "a scatter adds row after row; a matmul with one-hot rows adds them in the matrix units",
        exact: Exact::Bf16,
        apply: embedding_gradients,
    },
    Change {
        name: "chunked cross-entropy",
        reason: "a loop over rows has the logits of one chunk in HBM, and both gradients in the same pass",
        exact: Exact::Rounding,
        apply: chunked_losses,
    },
    Change {
        name: "fused cross-entropy",
        reason: "logits exist block by block in VMEM: they are never written to HBM, forward and backward",
        exact: Exact::Rounding,
        apply: fused_losses,
    },
    Change {
        name: "norm kernels",
        reason: "RMS and layer norms read and write their rows once each way, the gradient of a residual connection included",
        exact: Exact::Rounding,
        apply: norms,
    },
    Change {
        name: "bf16 matmuls",
        reason: "matmuls of f32 read half the bytes; the matrix units round to bf16 by default anyway",
        exact: Exact::Bf16,
        apply: bf16_matmuls,
    },
    Change {
        name: "bf16 arithmetic",
        reason: "values between matmuls take half the bytes; odd sizes are padded",
        exact: Exact::Bf16,
        apply: bf16_arithmetic,
    },
    Change {
        name: "donated state",
        reason: "new state takes the memory of the old one; the caller must not read it after a step",
        exact: Exact::Rounding,
        apply: donated,
    },
    Change {
        name: "rematerialized activations",
        reason: "element-wise activations that loops stack are computed again in the backward pass",
        exact: Exact::Rounding,
        apply: rematerialized,
    },
    Change {
        name: "saved activations in host memory",
        reason: "what layers save for the backward pass waits in pinned host memory, and crosses PCIe twice in a step",
        exact: Exact::Rounding,
        apply: offloaded_activations,
    },
    Change {
        name: "layer inputs in host memory",
        reason: "only what each layer takes is saved, in pinned host memory; the rest is computed again in the backward pass",
        exact: Exact::Rounding,
        apply: offloaded_inputs,
    },
    Change {
        name: "optimizer state in host memory",
        reason: "state that only the update reads waits in pinned host memory, and crosses PCIe twice in a step",
        exact: Exact::Rounding,
        apply: offloaded,
    },
];

const PARTITIONED: &str = "the program is partitioned: its kernels would have to be so by hand";

/// What stays as it is, and why.
fn left(list: &[(String, usize)]) -> String {
    let all: Vec<String> = list.iter().map(|(reason, count)| format!("{count} left: {reason}")).collect();
    all.join("; ")
}

/// A changed program with the kernels of some changes.
pub(super) fn with_kernels(changed: Changed, setting: &Setting, kernels: &[&str]) -> Attempt {
    let Changed { mut program, detail } = changed;
    for change in CHANGES.iter().filter(|change| kernels.contains(&change.name)) {
        match (change.apply)(&program, setting)? {
            Ok(with) => program = with.program,
            Err(reason) => return Ok(Err(format!("{} cannot be put in: {reason}", change.name))),
        }
    }
    Ok(Ok(Changed { program, detail }))
}

fn attention(program: &Program, setting: &Setting) -> Attempt {
    let generation = setting.slice.generation();
    let find = |program: &Program| kernel::recognise(program.verified().clone(), generation).map_err(Error::Kernel);
    let mut best = find(program)?;
    let mut how = "";
    // Weights that a loop saves for the backward loop are computed there again, so that nobody reads them from memory.
    if let Some(again) = recompute::scores(program)? {
        let found = find(&again)?;
        let backward = |found: &kernel::Recognised| found.found.iter().filter(|one| one.has_backward).count();
        if (backward(&found), found.found.len()) > (backward(&best), best.found.len()) {
            (best, how) = (found, "; saved weights are not saved any more");
        }
    }
    if best.found.is_empty() {
        let reason = left(&best.left);
        return Ok(Err(if reason.is_empty() { "no attention is written in plain ops".into() } else { reason }));
    }
    let backward = best.found.iter().filter(|one| one.has_backward).count();
    let first = best.found.first().map_or("", |one| one.description.as_str());
    let mut detail = format!("{} attentions, {backward} with gradients ({first}){how}", best.found.len());
    if !best.left.is_empty() {
        detail.push_str(&format!("; {}", left(&best.left)));
    }
    Ok(Ok(Changed { program: Program::from_module(best.module), detail }))
}

fn chosen_experts(program: &Program, setting: &Setting) -> Attempt {
    let generation = setting.slice.generation();
    let find =
        |program: &Program| kernel::recognise_experts(program.verified().clone(), generation).map_err(Error::Kernel);
    let (mut read, mut how) = (find(program)?, "");
    // What a loop saves of experts for the backward loop is computed there again, on the rows of chosen ones.
    if let Some(again) = recompute::experts(program)? {
        let found = find(&again)?;
        if found.replaced > read.replaced {
            (read, how) = (found, "; activations of experts are not saved any more");
        }
    }
    let Some(first) = read.found.first() else {
        let reason = left(&read.left);
        return Ok(Err(match reason.is_empty() {
            true => "no experts are weighed by one-hot vectors, or have a capacity".into(),
            false => reason,
        }));
    };
    let mut detail = format!("{} mixtures ({first}), {} matmuls replaced{how}", read.found.len(), read.replaced);
    if !read.left.is_empty() {
        detail.push_str(&format!("; {}", left(&read.left)));
    }
    Ok(Ok(Changed { program: Program::from_module(read.module), detail }))
}

fn chunked_losses(program: &Program, setting: &Setting) -> Attempt {
    losses(program, setting, LossForm::Chunks)
}

fn fused_losses(program: &Program, setting: &Setting) -> Attempt {
    losses(program, setting, LossForm::Kernels)
}

fn losses(program: &Program, setting: &Setting, form: LossForm) -> Attempt {
    // The logit of a label may be a gather, and its gradient a scatter.
    let (module, _) = one_hot_indexing(program.verified().clone())?;
    let read = kernel::recognise_losses(module, setting.slice.generation(), form).map_err(Error::Kernel)?;
    let Some(first) = read.found.first() else {
        let reason = left(&read.left);
        return Ok(Err(if reason.is_empty() {
            "no cross-entropy reads the logits of a matmul".into()
        } else {
            reason
        }));
    };
    let mut detail = format!("{} losses ({first})", read.found.len());
    if !read.left.is_empty() {
        detail.push_str(&format!("; {}", left(&read.left)));
    }
    Ok(Ok(Changed { program: Program::from_module(read.module), detail }))
}

fn norms(program: &Program, setting: &Setting) -> Attempt {
    let generation = setting.slice.generation();
    let find =
        |program: &Program| kernel::recognise_norms(program.verified().clone(), generation).map_err(Error::Kernel);
    let backward = |read: &kernel::RecognisedNorms| read.found.iter().filter(|one| one.has_backward).count();
    let (mut read, mut how) = (find(program)?, "");
    // What a loop saves of norms for the backward loop is computed there again, inside the kernel.
    if let Some(again) = recompute::norms(program)? {
        let found = find(&again)?;
        if backward(&found) > backward(&read) {
            (read, how) = (found, "; normalised rows are not saved any more");
        }
    }
    let Some(first) = read.found.first() else {
        let reason = left(&read.left);
        return Ok(Err(if reason.is_empty() { "no norm is written in plain ops".into() } else { reason }));
    };
    let forward = read.found.iter().filter(|one| one.has_forward).count();
    let mut detail = format!("{forward} norms, {} gradients ({}){how}", backward(&read), first.description);
    if !read.left.is_empty() {
        detail.push_str(&format!("; {}", left(&read.left)));
    }
    Ok(Ok(Changed { program: Program::from_module(read.module), detail }))
}

fn one_hot(program: &Program, _: &Setting) -> Attempt {
    let (module, step) = one_hot_indexing(program.verified().clone())?;
    if step.changes == 0 {
        return Ok(Err("no gather or scatter takes one element a row".into()));
    }
    Ok(Ok(Changed { program: Program::from_module(module), detail: step.detail }))
}

fn lookups(program: &Program, setting: &Setting) -> Attempt {
    if program.partitions().is_some_and(|count| count > 1) {
        return Ok(Err(PARTITIONED.into()));
    }
    let read = kernel::recognise_lookups(program.verified().clone(), setting.slice.generation());
    let read = read.map_err(Error::Kernel)?;
    let Some(first) = read.found.first() else {
        let reason = left(&read.left);
        return Ok(Err(if reason.is_empty() { "no gather takes whole rows of a table".into() } else { reason }));
    };
    let mut detail = format!("{} look-ups ({first})", read.found.len());
    if !read.left.is_empty() {
        detail.push_str(&format!("; {}", left(&read.left)));
    }
    Ok(Ok(Changed { program: Program::from_module(read.module), detail }))
}

fn embedding_gradients(program: &Program, _: &Setting) -> Attempt {
    let (module, step) = one_hot_rows(program.verified().clone())?;
    if step.changes == 0 {
        return Ok(Err("no scatter adds rows".into()));
    }
    Ok(Ok(Changed { program: Program::from_module(module), detail: step.detail }))
}

fn optimized(program: &Program, setting: &Setting, level: Level, precision: ComputePrecision) -> Attempt {
    let target = TargetInfo::tpu(setting.slice.generation());
    let (changed, steps) = ProgramOptimizer::new(level, target, precision).rewrite(program)?;
    let narrowed: u64 = steps.iter().filter(|step| step.rewrite.starts_with("bf16")).map(|step| step.changes).sum();
    if narrowed == 0 {
        return Ok(Err("no matmul of f32 gains".into()));
    }
    let is_done = |step: &&RewriteStep| step.changes > 0 && step.rewrite != "clean_up";
    let done: Vec<&str> = steps.iter().filter(is_done).map(|step| step.detail.as_str()).collect();
    Ok(Ok(Changed { program: changed, detail: done.join("; ") }))
}

fn bf16_matmuls(program: &Program, setting: &Setting) -> Attempt {
    optimized(program, setting, Level::Balanced, ComputePrecision::Mixed)
}

fn bf16_arithmetic(program: &Program, setting: &Setting) -> Attempt {
    optimized(program, setting, Level::Aggressive, ComputePrecision::Mixed)
}

fn donated(program: &Program, _: &Setting) -> Attempt {
    let arguments = arguments(program.module());
    Ok(match donation::donate(program, &arguments, Donors::State)? {
        Some(program) => Ok(Changed { program, detail: "state that a result of its type replaces is donated".into() }),
        None => Err("no argument is replaced by a result, or all are donated".into()),
    })
}

fn rematerialized(program: &Program, _: &Setting) -> Attempt {
    Ok(match recompute::cheap_activations(program)? {
        Some(program) => Ok(Changed { program, detail: "stacks of element-wise activations are not saved".into() }),
        None => Err("no loop saves activations that cost no matmul".into()),
    })
}

/// Why nothing is sent to the host: the link to it is slower than anything that a program that fits may gain.
const FITS: &str = "the program fits without";

fn offloaded_activations(program: &Program, setting: &Setting) -> Attempt {
    if setting.fits {
        return Ok(Err(FITS.into()));
    }
    Ok(match offload::activations(program)? {
        Some((program, bytes)) => {
            Ok(Changed { program, detail: format!("{} MiB of stacks, those of all devices together", bytes >> 20) })
        }
        None => Err("no loop saves activations for another loop".into()),
    })
}

fn offloaded_inputs(program: &Program, setting: &Setting) -> Attempt {
    if setting.fits {
        return Ok(Err(FITS.into()));
    }
    let Some(inputs) = recompute::all_but_inputs(program)? else {
        return Ok(Err("no loop saves more than the inputs of its layers".into()));
    };
    offloaded_activations(&inputs, setting)
}

fn offloaded(program: &Program, setting: &Setting) -> Attempt {
    if setting.fits {
        return Ok(Err(FITS.into()));
    }
    Ok(match offload::optimizer_state(program, &arguments(program.module()))? {
        Some(program) => {
            let detail =
                "arguments and results with memory kind pinned_host (NamedSharding(…, memory_kind=\"pinned_host\"))";
            Ok(Changed { program, detail: detail.into() })
        }
        None => Err("no argument is optimizer state that a result replaces".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gradients of scanned attention with grouped queries.
    const SCANNED: &str = include_str!("../../tests/data/scanned_attention.mlir");

    fn program(text: &str) -> Program {
        Program::read(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn saved_weights_are_computed_again() {
        let setting = Setting { slice: "v6e-1".parse().unwrap(), fits: false };
        let changed = attention(&program(SCANNED), &setting).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        assert!(changed.detail.starts_with("2 attentions, 1 with gradients (1 × 4 heads (2 KV)"), "{}", changed.detail);
        assert!(changed.detail.contains("not saved any more"), "{}", changed.detail);
        let text = hlo::text::print(changed.program.module());
        assert!(!text.contains("2x1x2x2x128x128"), "weights of layers are still stacked: {text}");
    }

    /// Gradients of scanned layers of experts, the two best of four.
    const SCANNED_EXPERTS: &str = include_str!("../../tests/data/experts_scanned.mlir");

    #[test]
    fn saved_activations_of_experts_are_computed_again() {
        let setting = Setting { slice: "v6e-1".parse().unwrap(), fits: false };
        let program = program(SCANNED_EXPERTS);
        let changed = chosen_experts(&program, &setting).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        assert!(changed.detail.contains("7 matmuls replaced; activations of experts"), "{}", changed.detail);
        let text = hlo::text::print(changed.program.module());
        assert!(!text.contains("2x1x256x4x256"), "activations of experts are still stacked: {text}");
    }

    /// What is the same in all rounds is not carried once a program is simplified, as the change before this one does.
    #[test]
    fn stacks_that_a_loop_reads_from_outside_are_computed_again() {
        let setting = Setting { slice: "v6e-1".parse().unwrap(), fits: false };
        let module = program(SCANNED_EXPERTS).verified().clone();
        let simplified = kernel::recognise(module, setting.slice.generation()).unwrap();
        let program = Program::from_module(simplified.module);
        let changed = chosen_experts(&program, &setting).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        assert!(changed.detail.contains("7 matmuls replaced; activations of experts"), "{}", changed.detail);
    }

    #[test]
    fn a_program_without_any_of_it_stays() {
        let setting = Setting { slice: "v6e-1".parse().unwrap(), fits: false };
        let program = program(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xi1> {
               %0 = stablehlo.compare EQ, %x, %x, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
               return %0 : tensor<4xi1>
             }",
        );
        for change in CHANGES {
            assert!((change.apply)(&program, &setting).unwrap().is_err(), "{}", change.name);
        }
    }

    #[test]
    fn optimizer_state_waits_in_host_memory() {
        let text = include_str!("../../tests/data/megatron_step.mlir");
        let mut setting = Setting { slice: "v6e-8".parse().unwrap(), fits: true };
        assert!(offloaded(&program(text), &setting).unwrap().is_err(), "what fits stays where it is");
        setting.fits = false;
        let changed = offloaded(&program(text), &setting).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        let printed = hlo::text::print(changed.program.module());
        // Two arrays of momentum, there and back.
        assert_eq!(printed.matches("@annotate_device_placement").count(), 4, "{printed}");
        assert_eq!(printed.matches("mhlo.memory_kind = \"pinned_host\"").count(), 4, "{printed}");
        assert!(offloaded(&changed.program, &setting).unwrap().is_err(), "it is there already");
    }
}
