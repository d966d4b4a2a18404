//! Compiler flags that change schedules and memory, each with a reason; found by successive halving over quick compilations.

use std::collections::BTreeMap;

use super::judge::judge;
use super::{Search, TuneMeasure, TuneOutcome, TuneTrial, record};
use crate::error::Error;

/// A flag that may help.
struct Flag {
    name: &'static str,
    values: &'static [&'static str],
    reason: &'static str,
    /// Whether it only matters where devices talk to each other.
    is_collective: bool,
}

const fn alone(name: &'static str, values: &'static [&'static str], reason: &'static str) -> Flag {
    Flag { name, values, reason, is_collective: false }
}

const fn together(name: &'static str, values: &'static [&'static str], reason: &'static str) -> Flag {
    Flag { name, values, reason, is_collective: true }
}

/// Flags of libtpu 0.0.51 that schedules, fusions and memory depend on. All are taken for one compilation.
const FLAGS: &[Flag] = &[
    alone(
        "xla_tpu_scoped_vmem_limit_kib",
        &["32768", "65536", "98304"],
        "larger fusions and kernels, less VMEM for values kept between ops",
    ),
    alone("xla_tpu_enable_experimental_fusion_cost_model", &["true"], "fusions by a cost model"),
    alone("xla_tpu_enable_multi_level_output_dot_dot_fusion", &["true"], "a matmul fused with those that read it"),
    alone("xla_tpu_enable_multi_level_input_dot_dot_fusion", &["true"], "a matmul fused with those it reads"),
    alone("xla_tpu_dot_dot_fusion_duplicated", &["true"], "a matmul computed in each fusion that reads it"),
    alone("xla_tpu_enable_large_2nd_minor_layout_for_x16", &["true"], "tiles of bf16 with more rows"),
    alone("xla_tpu_order_dot_after_layout", &["false"], "order of matmuls chosen before layouts"),
    alone("xla_tpu_rwb_fusion", &["false"], "reductions and broadcasts in fusions of their own"),
    alone("xla_tpu_msa_reduce_scoped_vmem_limit", &["true"], "VMEM that fusions do not use holds values"),
    alone("xla_tpu_licm_size_inflation_ratio", &["2"], "more is computed once, before a loop"),
    alone("xla_latency_hiding_scheduler_rerun", &["0", "3"], "schedules tried for a smaller peak of memory"),
    alone("xla_tpu_enable_all_experimental_scheduler_features", &["true"], "experimental schedules"),
    together("xla_tpu_enable_async_collective_fusion_fuse_all_reduce", &["true"], "all-reduces beside matmuls"),
    together("xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter", &["true"], "reduce-scatters beside matmuls"),
    together("xla_tpu_enable_async_collective_fusion_fuse_all_gather", &["true"], "all-gathers beside matmuls"),
    together(
        "xla_tpu_async_collective_fusion_fuse_multiple_collectives",
        &["true"],
        "several transfers beside one matmul",
    ),
    together(
        "xla_tpu_all_gather_collective_matmul_mode",
        &["post_spmd"],
        "a matmul begins with the first part gathered",
    ),
    together(
        "xla_tpu_reduce_scatter_collective_matmul_mode",
        &["post_spmd"],
        "parts of a matmul leave as they are done",
    ),
    together("xla_tpu_overlap_compute_collective_tc", &["false"], "transfers before what reads them, not beside"),
    together("xla_max_concurrent_async_collective_permutes", &["10"], "more transfers under way"),
];

/// A setting of one flag and what it is worth alone.
struct Candidate {
    flag: &'static Flag,
    value: &'static str,
    measure: Option<TuneMeasure>,
    refused: Option<String>,
}

/// Tries every flag alone, then adds the better half to one another, best first, as long as each gains.
pub(super) fn search(search: &mut Search<'_, '_>) -> Result<(), Error> {
    let devices = search.request.fit.compile.slice.devices();
    let mut candidates: Vec<Candidate> = FLAGS
        .iter()
        .filter(|flag| !flag.is_collective || devices > 1)
        .filter(|flag| !search.request.fit.compile.flags.contains_key(flag.name))
        .flat_map(|flag| flag.values.iter().map(move |&value| Candidate { flag, value, measure: None, refused: None }))
        .collect();
    shuffle(&mut candidates, search.request.seed);
    let program = search.program.clone();
    for candidate in &mut candidates {
        if search.is_over() {
            break;
        }
        (search.driver.progress)(&format!("trying: {}={}", candidate.flag.name, candidate.value));
        let flags = BTreeMap::from([(candidate.flag.name.to_string(), candidate.value.to_string())]);
        match search.compiled(&program, &flags)? {
            Ok(measure) => candidate.measure = Some(measure),
            Err(reason) => candidate.refused = Some(reason),
        }
    }
    let seconds = |candidate: &Candidate| candidate.measure.as_ref().map_or(f64::INFINITY, |it| it.step.seconds);
    candidates.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let tried = candidates.iter().filter(|candidate| candidate.measure.is_some()).count();
    for (place, candidate) in candidates.into_iter().enumerate() {
        let name = format!("{}={}", candidate.flag.name, candidate.value);
        let mut trial = TuneTrial::new(&name, candidate.flag.reason);
        if let Some(reason) = candidate.refused {
            (trial.outcome, trial.detail) = (TuneOutcome::Refused, reason);
        } else if let Some(mut measure) = candidate.measure {
            let mut flags = search.flags.clone();
            let is_set = flags.insert(candidate.flag.name.into(), candidate.value.into()).is_some();
            let is_finalist = place < tried.div_ceil(2) && !is_set;
            // The first one stands alone and is compiled already.
            if is_finalist && flags.len() > 1 && judge(&search.measure, &measure).gain_s > 0.0 && !search.is_over() {
                (search.driver.progress)(&format!("adding: {}", trial.name));
                if let Ok(both) = search.compiled(&program, &flags)? {
                    measure = both;
                }
            }
            let judgement = judge(&search.measure, &measure);
            record(&mut trial, &measure, &judgement);
            if is_finalist && judgement.is_better {
                trial.outcome = TuneOutcome::Kept;
                (search.flags, search.measure) = (flags, measure);
            } else {
                trial.outcome = TuneOutcome::NoGain;
            }
        }
        search.trials.push(trial);
    }
    Ok(())
}

/// The same order for the same seed; 0 is the order of the list, in which those that helped most often come first.
fn shuffle<T>(items: &mut [T], seed: u64) {
    if seed == 0 {
        return;
    }
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    for n in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(n, (state % (n as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_ones_that_libtpu_takes() {
        for flag in FLAGS {
            assert!(compile::flags::is_known(flag.name), "{}", flag.name);
            assert!(!flag.values.is_empty() && !flag.reason.is_empty());
        }
    }

    #[test]
    fn the_order_is_that_of_the_seed() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        assert!(order(0).is_sorted());
    }
}
