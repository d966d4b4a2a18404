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
    alone("xla_tpu_rwb_fusion", &["false"], "reductions and broadcasts in fusions of their own"),
    alone("xla_tpu_enable_experimental_fusion_cost_model", &["true"], "fusions by a cost model"),
    alone("xla_tpu_enable_all_experimental_scheduler_features", &["true"], "experimental schedules"),
    alone(
        "xla_tpu_scoped_vmem_limit_kib",
        &["32768", "65536", "98304"],
        "larger fusions and kernels, less VMEM for values kept between ops",
    ),
    alone("xla_tpu_enable_multi_level_output_dot_dot_fusion", &["true"], "a matmul fused with those that read it"),
    alone("xla_tpu_enable_multi_level_input_dot_dot_fusion", &["true"], "a matmul fused with those it reads"),
    alone("xla_tpu_dot_dot_fusion_duplicated", &["true"], "a matmul computed in each fusion that reads it"),
    alone("xla_tpu_enable_large_2nd_minor_layout_for_x16", &["true"], "tiles of bf16 with more rows"),
    alone("xla_tpu_order_dot_after_layout", &["false"], "order of matmuls chosen before layouts"),
    alone("xla_tpu_msa_reduce_scoped_vmem_limit", &["true"], "VMEM that fusions do not use holds values"),
    alone("xla_tpu_licm_size_inflation_ratio", &["2"], "more is computed once, before a loop"),
    alone(
        "xla_tpu_offload_all_supported_gathers_to_sparsecore",
        &["true"],
        "gathers of few rows or of small tables on SparseCores too, not only those the compiler chooses",
    ),
    alone("xla_latency_hiding_scheduler_rerun", &["0", "3"], "schedules tried for a smaller peak of memory"),
    together(
        "xla_tpu_all_gather_collective_matmul_mode",
        &["post_spmd"],
        "collective matmul: a matmul begins with the first part gathered",
    ),
    together(
        "xla_tpu_reduce_scatter_collective_matmul_mode",
        &["post_spmd"],
        "collective matmul: parts of a matmul leave as they are done",
    ),
    together("xla_tpu_decompose_all_gather_einsum", &["true"], "an all-gather and its einsum as a loop over parts"),
    together(
        "xla_tpu_decompose_einsum_reduce_scatter",
        &["true"],
        "an einsum and its reduce-scatter as a loop over parts",
    ),
    together(
        "xla_jf_spmd_threshold_for_windowed_einsum_mib",
        &["0", "1000000"],
        "windowed einsum: all matmuls beside collectives are cut into parts, or none",
    ),
    together("xla_tpu_enable_async_collective_fusion_fuse_all_reduce", &["true"], "all-reduces beside matmuls"),
    together("xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter", &["true"], "reduce-scatters beside matmuls"),
    together("xla_tpu_enable_async_collective_fusion_fuse_all_gather", &["true"], "all-gathers beside matmuls"),
    together(
        "xla_tpu_async_collective_fusion_fuse_multiple_collectives",
        &["true"],
        "several transfers beside one matmul",
    ),
    together("xla_enable_async_all_gather", &["true"], "all-gathers begin early and end where they are read"),
    together("xla_max_concurrent_async_all_gathers", &["4"], "more all-gathers under way"),
    together("xla_max_concurrent_async_collective_permutes", &["10"], "more transfers under way"),
    together("xla_tpu_enable_ag_backward_pipelining", &["true"], "all-gathers of a loop one iteration ahead"),
    together(
        "xla_tpu_enable_data_parallel_all_reduce_opt",
        &["false"],
        "all-reduces of gradients where they are, not beside later layers",
    ),
    together(
        "xla_tpu_enable_all_reduce_native_decomposition",
        &["true"],
        "all-reduces as reduce-scatter and all-gather",
    ),
    together("xla_tpu_assign_all_reduce_scatter_layout", &["true"], "layouts that reduce-scatters need no copy of"),
    together(
        "xla_tpu_use_minor_sharding_for_major_trivial_input",
        &["true"],
        "reduce-scatters along a minor dimension where the major one is trivial",
    ),
    together("xla_tpu_overlap_compute_collective_tc", &["false"], "transfers before what reads them, not beside"),
    together("xla_tpu_enable_latency_hiding_scheduler", &["false"], "a schedule for memory, not for overlap"),
];

/// A setting of one flag and what it is worth alone.
struct Candidate {
    flag: &'static Flag,
    value: &'static str,
    measure: Option<TuneMeasure>,
    refused: Option<String>,
}

/// Flags that were kept, the program with them, and everything that was tried.
struct Chosen {
    flags: BTreeMap<String, String>,
    measure: TuneMeasure,
    trials: Vec<TuneTrial>,
}

/// A compilation with flags: what it is worth, or why it was refused; `None` when the time is up.
type Measure<'a> =
    dyn FnMut(&str, &BTreeMap<String, String>) -> Result<Option<Result<TuneMeasure, String>>, Error> + 'a;

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
    let (program, before) = (search.program.clone(), search.measure.clone());
    let chosen = choose(candidates, before, &mut |what, flags| {
        if search.is_over() {
            return Ok(None);
        }
        (search.driver.progress)(what);
        search.compiled(&program, flags).map(Some)
    })?;
    (search.flags, search.measure) = (chosen.flags, chosen.measure);
    search.trials.extend(chosen.trials);
    Ok(())
}

fn choose(mut candidates: Vec<Candidate>, before: TuneMeasure, measure: &mut Measure<'_>) -> Result<Chosen, Error> {
    for candidate in &mut candidates {
        let name = format!("{}={}", candidate.flag.name, candidate.value);
        let flags = BTreeMap::from([(candidate.flag.name.to_string(), candidate.value.to_string())]);
        match measure(&format!("trying: {name}"), &flags)? {
            Some(Ok(measure)) => candidate.measure = Some(measure),
            Some(Err(reason)) => candidate.refused = Some(reason),
            None => break,
        }
    }
    let seconds = |candidate: &Candidate| candidate.measure.as_ref().map_or(f64::INFINITY, |it| it.step.seconds);
    candidates.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let tried = candidates.iter().filter(|candidate| candidate.measure.is_some()).count();
    let start_s = before.step.seconds;
    let mut chosen = Chosen { flags: BTreeMap::new(), measure: before, trials: Vec::new() };
    for (place, candidate) in candidates.into_iter().enumerate() {
        let name = format!("{}={}", candidate.flag.name, candidate.value);
        let mut trial = TuneTrial::new(&name, candidate.flag.reason);
        if let Some(reason) = candidate.refused {
            (trial.outcome, trial.detail) = (TuneOutcome::Refused, reason);
        } else if let Some(mut alone) = candidate.measure {
            let mut flags = chosen.flags.clone();
            let is_set = flags.insert(candidate.flag.name.into(), candidate.value.into()).is_some();
            let is_finalist = place < tried.div_ceil(2) && !is_set && alone.step.seconds < start_s;
            // The first one stands alone and is compiled already. Beside others a flag is worth what all of them are together.
            let mut is_known = flags.len() == 1;
            if is_finalist
                && !is_known
                && let Some(Ok(both)) = measure(&format!("adding: {name}"), &flags)?
            {
                (alone, is_known) = (both, true);
            }
            let judgement = judge(&chosen.measure, &alone);
            record(&mut trial, &alone, &judgement);
            if is_finalist && is_known && judgement.is_better {
                trial.outcome = TuneOutcome::Kept;
                (chosen.flags, chosen.measure) = (flags, alone);
            } else {
                trial.outcome = TuneOutcome::NoGain;
            }
        }
        chosen.trials.push(trial);
    }
    Ok(chosen)
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
    use compile::CompileMode;

    use super::*;
    use crate::estimate::{Share, StepTime};
    use crate::op_time::Bound;

    /// A program bound by memory.
    fn taking(milliseconds: f64) -> TuneMeasure {
        let seconds = milliseconds * 1e-3;
        TuneMeasure {
            step: StepTime { seconds, low_s: seconds, high_s: seconds },
            hbm_bytes: 90,
            limit_bytes: 100,
            fits: true,
            mode: CompileMode::Quick,
            shares: vec![Share { bound: Bound::Hbm, seconds, share: 1.0 }],
        }
    }

    fn candidates() -> Vec<Candidate> {
        let pairs = FLAGS.iter().flat_map(|flag| flag.values.iter().map(move |&value| (flag, value)));
        pairs.map(|(flag, value)| Candidate { flag, value, measure: None, refused: None }).collect()
    }

    /// A compiler for which some flags save milliseconds of 100, one costs some, and one is refused.
    fn compiled(flags: &BTreeMap<String, String>) -> Result<TuneMeasure, String> {
        let mut milliseconds = 100.0;
        for (name, value) in flags {
            milliseconds -= match (name.as_str(), value.as_str()) {
                ("xla_tpu_rwb_fusion", _) => 10.0,
                ("xla_tpu_all_gather_collective_matmul_mode", _) => 5.0,
                // Less than half a percent.
                ("xla_enable_async_all_gather", _) => 0.3,
                ("xla_tpu_scoped_vmem_limit_kib", "65536") => 4.0,
                ("xla_tpu_scoped_vmem_limit_kib", "98304") => 3.0,
                ("xla_tpu_licm_size_inflation_ratio", _) => -20.0,
                ("xla_tpu_order_dot_after_layout", _) => return Err("refused".into()),
                _ => 0.0,
            };
        }
        // Both together are worth no more than the first.
        if flags.contains_key("xla_tpu_rwb_fusion") && flags.contains_key("xla_tpu_all_gather_collective_matmul_mode") {
            milliseconds += 5.0;
        }
        Ok(taking(milliseconds))
    }

    #[test]
    fn flags_that_gain_together_are_kept() {
        let mut compilations = 0;
        let chosen = choose(candidates(), taking(100.0), &mut |_, flags| {
            compilations += 1;
            Ok(Some(compiled(flags)))
        })
        .unwrap();
        let kept: Vec<(&str, &str)> =
            chosen.flags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(kept, [("xla_tpu_rwb_fusion", "false"), ("xla_tpu_scoped_vmem_limit_kib", "65536")]);
        assert!((chosen.measure.step.seconds - 0.086).abs() < 1e-9);
        let outcome = |name: &str| chosen.trials.iter().find(|trial| trial.name == name).unwrap().outcome;
        assert_eq!(outcome("xla_tpu_rwb_fusion=false"), TuneOutcome::Kept);
        assert_eq!(outcome("xla_tpu_all_gather_collective_matmul_mode=post_spmd"), TuneOutcome::NoGain);
        assert_eq!(outcome("xla_enable_async_all_gather=true"), TuneOutcome::NoGain);
        assert_eq!(outcome("xla_tpu_scoped_vmem_limit_kib=98304"), TuneOutcome::NoGain);
        assert_eq!(outcome("xla_tpu_order_dot_after_layout=false"), TuneOutcome::Refused);
        assert!(compilations > candidates().len(), "finalists are compiled together");
    }

    #[test]
    fn what_was_not_compiled_is_not_kept() {
        let mut left = 2;
        let chosen = choose(candidates(), taking(100.0), &mut |_, flags| {
            left -= 1;
            Ok((left >= 0).then(|| compiled(flags)))
        })
        .unwrap();
        // The first one was compiled alone; the time was up before anything could be added to it.
        assert_eq!(chosen.flags.keys().map(String::as_str).collect::<Vec<_>>(), ["xla_tpu_rwb_fusion"]);
        assert!(chosen.trials.iter().any(|trial| trial.outcome == TuneOutcome::NotTried));
    }

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
