//! Tokens made as they are asked for, with something to learn in them: a Markov chain.

use tensor::{DType, Literal, Spec};

use super::Dataset;
use super::error::DataError;
use super::order::{Batching, Shard};
use super::permutation::{Random, key};
use super::tokens::wrong_size;

/// What random tokens look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkovOptions {
    /// Number of different tokens, at least four.
    pub vocab_size: u32,
    /// Tokens of a row.
    pub sequence_length: usize,
    /// Chooses the chain. Training and validation share it and differ in the seed of `batching`.
    pub chain_seed: u64,
    /// Rows of a batch, seed and shard.
    pub batching: Batching,
}

/// Random tokens, each of which is followed by one of four others, with probabilities 1/2, 1/4, 1/8 and 1/8: inputs and
/// targets, `i32[batch, sequence]` each. Rows never repeat.
#[derive(Clone, Debug)]
pub struct MarkovTokens {
    options: MarkovOptions,
    rows: usize,
}

impl MarkovTokens {
    /// The loss, in nats, of a model that knows the chain: the entropy of its next token.
    pub const LOWEST_LOSS: f64 = 1.75 * std::f64::consts::LN_2;

    /// Tokens of a chain.
    pub fn new(options: MarkovOptions) -> Result<MarkovTokens, DataError> {
        if !(4..=1 << 31).contains(&options.vocab_size) {
            return Err(DataError::Options(format!("{} different tokens are not from 4 to 2^31", options.vocab_size)));
        }
        if options.sequence_length == 0 {
            return Err(DataError::Options("the sequence length is 0".into()));
        }
        let rows = options.batching.rows(row_bytes(options.sequence_length))?;
        Ok(MarkovTokens { options, rows })
    }

    /// One of the four successors of a token; the bits choose which.
    fn next(&self, token: u64, bits: u64) -> u64 {
        let vocabulary = u64::from(self.options.vocab_size);
        let likely = Random::new(key(&[self.options.chain_seed, token])).below(vocabulary);
        let branch = match bits >> 61 {
            0..4 => 0,
            4 | 5 => 1,
            6 => 2,
            _ => 3,
        };
        (likely + branch) % vocabulary
    }
}

fn row_bytes(sequence_length: usize) -> Option<usize> {
    sequence_length.checked_mul(2 * size_of::<i32>())
}

impl Dataset for MarkovTokens {
    fn specs(&self) -> Vec<Spec> {
        vec![Spec::new(DType::I32, [self.rows, self.options.sequence_length]); 2]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        self.rows(step, self.options.batching.shard)
    }

    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        let MarkovOptions { vocab_size: vocabulary, sequence_length: sequence, batching, .. } = self.options;
        let batching = Batching { shard, ..batching };
        let rows = batching.rows(row_bytes(sequence))?;
        let bytes = rows * sequence * size_of::<i32>();
        let (mut inputs, mut targets) = (Vec::with_capacity(bytes), Vec::with_capacity(bytes));
        for position in batching.positions(step) {
            let mut random = Random::new(key(&[batching.seed, position]));
            let mut token = random.below(u64::from(vocabulary));
            for _ in 0..sequence {
                inputs.extend((token as i32).to_le_bytes());
                token = self.next(token, random.bits());
                targets.extend((token as i32).to_le_bytes());
            }
        }
        let array = |bytes| Literal::new(DType::I32, [rows, sequence], bytes);
        array(inputs).zip(array(targets)).map(|(inputs, targets)| vec![inputs, targets]).ok_or_else(wrong_size)
    }

    fn describe(&self) -> String {
        let MarkovOptions { vocab_size, sequence_length, chain_seed, batching: Batching { batch, seed, .. } } =
            self.options;
        format!(
            "chain {chain_seed} of {vocab_size} tokens, sequence {sequence_length}, batches of {batch}, seed {seed}"
        )
    }
}
