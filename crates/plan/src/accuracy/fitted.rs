//! Which published rows the constants of the estimate were chosen with, and which came later.

/// Training runs on the first page after the fitted constants were last changed, on 15 November 2026: those of `machine.rs`
/// (`in_a_model`, `host_of_slices` of v6e, `grouped`, `indexed_row_s`) may have been chosen with them in sight. A
/// change of these constants makes every row that was predicted before it a row of this list.
const TRAINING: &[&str] = &[
    "ironwood-llama3.1-405b/8k-fp8-tpu7x-4x8x8",
    "ironwood-llama3.1-70b/8k-bf16-tpu7x-4x4x4",
    "ironwood-llama3.1-70b/8k-fp8-tpu7x-4x8x8",
    "maxtext-logs-deepseek2-16b-v5p-8",
    "recipe-GPT3-175B-MaxText/bf16",
    "recipe-Gemma3-12B-MaxText/v6e-256",
    "recipe-Llama3.1-70B-MaxText/v6e-128",
    "recipe-Llama3.1-70B-MaxText/v6e-32",
    "recipe-Llama3.1-8B-MaxText/v6e-128",
    "recipe-Llama3.1-8B-MaxText/v6e-32",
    "recipe-Llama3.1-8B-MaxText/v6e-8",
    "recipe-Mixtral-8x7B-MaxText",
    "recipe-v5p-GPT3-175B-MaxText",
    "recipe-v5p-Llama4-Maverick-17B-128E-Maxtext",
    "recipe-v5p-Llama4-Scout-17B-16E-Maxtext",
    "maxtext-v4-22B-v4-128",
    "maxtext-v5e-2023-16b-1x",
    "maxtext-v5e-2023-32b-1x",
    "maxtext-v5p-2023-32b-v5p-128",
];

/// Micro-benchmarks that `machine.rs` names as the source of a constant; those with a dash at the end begin so.
const MICRO: &[&str] = &["gemm-7x-128", "gemm-7x-32768", "gemm-v6e-8192", "hbm-copy-7x-", "allgather-7x-2x2x1-"];

/// Whether constants were chosen with this row in sight: its error says how well they fit, not how well they predict.
pub fn is_fitted(id: &str) -> bool {
    let is_micro = |known: &&str| id == *known || (known.ends_with('-') && id.starts_with(*known));
    TRAINING.contains(&id) || MICRO.iter().any(is_micro)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_known_by_their_ids() {
        assert!(is_fitted("recipe-Mixtral-8x7B-MaxText") && is_fitted("hbm-copy-7x-8388608"));
        assert!(!is_fitted("recipe-Llama3.1-405B-MaxText"));
        assert!(!is_fitted("gemm-7x-1280") && !is_fitted("allgather-7x-2x2x2-0.006291456"));
    }

    /// A constant that moves was chosen with all rows in sight: then the lists above must grow.
    #[test]
    fn the_lists_belong_to_these_constants() {
        let reach = |slice: &str| crate::machine::Machine::of(&slice.parse().unwrap()).reach;
        let fitted = ["v4-8", "v5e-4", "v5p-8", "v6e-4", "tpu7x-8"].map(|slice| {
            let reach = reach(slice);
            (reach.in_a_model, reach.host_of_slices, reach.grouped, reach.indexed_row_s)
        });
        let common = (0.97, 0.9, 0.65, 10e-9);
        assert_eq!(fitted, [common, common, common, (0.84, 1.6, 0.65, 10e-9), (0.91, 0.9, 0.65, 10e-9)]);
    }
}
