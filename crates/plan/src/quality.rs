//! What weights of few bits cost in quality: published by others, and measured here (`benchmarks/results/quant-quality.md`).

/// What weights of int8 cost, by what was published and what we measured.
pub const INT8_COST: &str = "perplexity +0.0 to 0.3 % (int8 weights of Llama 3.1 8B: 7.35 on 7.33, torchao's documents; +0.01 % measured \
                             here on a model of 32 million parameters)";

/// What weights of int4 with a scale for each channel cost, by what was published and what we measured.
pub const INT4_COST: &str = "perplexity +2 to 4 % after rotation and GPTQ (5.6 on 5.47 of Llama 2 7B, 6.4 on 6.14 of Llama 3 8B), +27 % \
                             and more rounded to the nearest (SpinQuant's README); 0.0 and +1.5 % measured here on a model of 32 million \
                             parameters";
