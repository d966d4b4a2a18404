//! What pipeline stages are told and what they answer, and how that goes over a network. Nothing of it is believed.

use serde::{Deserialize, Serialize};
use tensor::{DType, Literal};

use crate::error::Error;
use crate::images::GivenChunk;
use crate::launched::Picked;
use crate::request::{SamplingOptions, TokenProbability};
use crate::sizes::StepSizes;
use crate::steps::{DecodeRow, RowChoice};

/// Bytes of an order without the states that go with it, at most.
const MAX_ORDER_BYTES: usize = 16 << 20;
/// Bytes of an answer at most.
pub(super) const MAX_REPLY_BYTES: usize = 16 << 20;
/// Bytes of the length before an order.
const LENGTH_BYTES: usize = 4;

/// What a stage is to do. It goes from the first stage to the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "a few are on their way at a time")]
pub(super) enum StageOrder {
    /// Nothing: the stage before is there.
    Alive,
    /// Loads the model with so many pages of the KV cache.
    Start { pages: usize },
    /// Compiles all programs.
    WarmUp,
    /// Reads tokens into a row.
    Prefill { step: u64, filled: usize, tokens: Vec<u32>, row: StageRow },
    /// One more token of each row.
    Decode { step: u64, rows: Vec<StageRow>, longest: usize },
    /// Copies what is in a row or page into another.
    Copy { from: usize, to: usize, positions: usize },
}

/// A row of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StageRow {
    pub(super) row: usize,
    /// Its last token, where it is decoded.
    pub(super) token: Option<u32>,
    pub(super) table: Vec<u32>,
    pub(super) sampling: SamplingOptions,
    /// Tokens of the prompt and those generated, where the choice depends on them.
    pub(super) prompt: Vec<u32>,
    pub(super) generated: Vec<u32>,
    pub(super) allowed: Option<Vec<u32>>,
}

/// An order on its way to a stage.
#[derive(Debug)]
pub(super) struct StageTask {
    pub(super) order: StageOrder,
    /// What the stage before made of the tokens.
    pub(super) hidden: Option<Literal>,
    /// What stands for some tokens. Only the first stage needs it, which is never on another host.
    pub(super) given: Option<GivenChunk>,
    /// Programs that the stages before compiled so far.
    pub(super) compiled: usize,
}

/// What a stage answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum StageReply {
    /// Nothing: the stage is there.
    Alive,
    /// So many pages fit.
    Fitted {
        stage: usize,
        pages: usize,
        digest: u64,
    },
    /// The model is loaded.
    Started {
        stage: usize,
        cache_bytes: u64,
    },
    /// Programs done, and all of them.
    WarmingUp {
        stage: usize,
        done: usize,
        all: usize,
    },
    WarmedUp {
        stage: usize,
        compiled: usize,
    },
    /// The last stage chose the tokens of a step.
    Chosen {
        step: u64,
        rows: Vec<Vec<SentToken>>,
        compiled: usize,
    },
    /// The stage ends.
    Failed {
        stage: usize,
        message: String,
        remedy: Option<String>,
    },
}

/// A token and the likeliest at its place: log probabilities as bits, so that all of them come over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentToken {
    token: (u32, u32),
    likeliest: Vec<(u32, u32)>,
}

impl From<Picked> for SentToken {
    fn from(picked: Picked) -> SentToken {
        let sent = |of: TokenProbability| (of.token, of.log_probability.to_bits());
        SentToken { token: sent(picked.token), likeliest: picked.likeliest.into_iter().map(sent).collect() }
    }
}

impl From<SentToken> for Picked {
    fn from(sent: SentToken) -> Picked {
        let of = |(token, bits): (u32, u32)| TokenProbability { token, log_probability: f32::from_bits(bits) };
        Picked { token: of(sent.token), likeliest: sent.likeliest.into_iter().map(of).collect() }
    }
}

/// What orders may ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageLimits {
    pub(super) sizes: StepSizes,
    pub(super) vocabulary: usize,
    pub(super) width: usize,
    /// Of the states between stages.
    pub(super) dtype: DType,
}

/// An error of what came from another process.
pub(super) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::setting(
        format!("a pipeline stage was told what no engine says: {what}"),
        "run the same version of tpubridge on all hosts",
    )
}

fn check(is_good: bool, what: &str) -> Result<(), Error> {
    if is_good { Ok(()) } else { Err(malformed(what)) }
}

impl StageLimits {
    /// Bytes of a message at most.
    pub(super) fn max_bytes(&self) -> usize {
        let places = self.sizes.rows.max(self.sizes.chunk);
        let states = places.saturating_mul(self.width).saturating_mul(self.dtype.size_bytes());
        states.saturating_add(MAX_ORDER_BYTES + LENGTH_BYTES)
    }

    /// Refuses what the sizes of the engine do not allow.
    pub(super) fn check(&self, order: &StageOrder) -> Result<(), Error> {
        let (rows, positions) = self.sizes.cache();
        let longest_sequence = self.sizes.positions();
        match order {
            StageOrder::Alive | StageOrder::WarmUp => Ok(()),
            StageOrder::Start { .. } => Err(malformed("to start again")),
            StageOrder::Prefill { filled, tokens, row, .. } => {
                let end = filled.checked_add(tokens.len());
                check(!tokens.is_empty() && tokens.len() <= self.sizes.chunk, "a chunk of too many tokens")?;
                check(end.is_some_and(|end| end <= longest_sequence), "tokens beyond the longest sequence")?;
                check(tokens.iter().all(|token| (*token as usize) < self.vocabulary), "an unknown token")?;
                self.check_row(row)
            }
            StageOrder::Decode { rows, longest, .. } => {
                check(!rows.is_empty() && rows.len() <= self.sizes.rows, "too many rows")?;
                check(*longest < longest_sequence, "positions beyond the longest sequence")?;
                let mut numbers: Vec<usize> = rows.iter().map(|row| row.row).collect();
                numbers.sort_unstable();
                check(numbers.windows(2).all(|pair| pair[0] != pair[1]), "a row twice")?;
                rows.iter().try_for_each(|row| self.check_row(row))
            }
            StageOrder::Copy { from, to, positions: count } => {
                check(*from < rows && *to < rows && *count <= positions, "a copy outside of the KV cache")
            }
        }
    }

    fn check_row(&self, row: &StageRow) -> Result<(), Error> {
        let StageRow { row: number, token, table, sampling, prompt, generated, allowed } = row;
        let (pages, _) = self.sizes.cache();
        let is_known = |token: &u32| (*token as usize) < self.vocabulary;
        check(*number < self.sizes.rows, "a row that is not there")?;
        check(table.len() <= self.sizes.pages_of_longest().unwrap_or(0), "too many pages")?;
        check(table.iter().all(|page| (*page as usize) < pages), "a page that is not there")?;
        check(token.iter().chain(prompt).chain(generated).all(is_known), "an unknown token")?;
        check(sampling.logit_bias.keys().all(is_known), "an unknown token")?;
        let known = prompt.len().checked_add(generated.len());
        check(known.is_some_and(|known| known <= self.sizes.positions()), "too long a text")?;
        let words = self.vocabulary.div_ceil(u32::BITS as usize);
        check(allowed.as_ref().is_none_or(|allowed| allowed.len() == words), "bits of another vocabulary")?;
        sampling.check()
    }

    /// The axes of the states that go with an order; `None` where none do.
    fn states(&self, order: &StageOrder) -> Option<Vec<usize>> {
        match order {
            StageOrder::Prefill { tokens, .. } => Some(vec![1, self.sizes.prefill(tokens.len()), self.width]),
            StageOrder::Decode { rows, .. } => {
                Some(vec![self.sizes.decode_rows(rows.len().saturating_sub(1)), 1, self.width])
            }
            _ => None,
        }
    }

    /// A task from another process.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<StageTask, Error> {
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(|| malformed("too few bytes"))?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (order, states) = rest.split_at_checked(length).ok_or_else(|| malformed("too few bytes"))?;
        let (order, compiled): (StageOrder, usize) = serde_json::from_slice(order).map_err(malformed)?;
        let hidden = match order {
            // The sizes are not known before the model is loaded.
            StageOrder::Start { .. } => None,
            _ => {
                self.check(&order)?;
                self.states(&order)
            }
        };
        let hidden = match hidden {
            Some(dims) => Some(
                Literal::new(self.dtype, dims, states.to_vec()).ok_or_else(|| malformed("states of another size"))?,
            ),
            None => {
                check(states.is_empty(), "states that nobody reads")?;
                None
            }
        };
        Ok(StageTask { order, hidden, given: None, compiled })
    }
}

impl StageTask {
    pub(super) fn new(order: StageOrder) -> StageTask {
        StageTask { order, hidden: None, given: None, compiled: 0 }
    }

    /// The parts of the message for another process, but for the states.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        let order = serde_json::to_vec(&(&self.order, self.compiled)).map_err(malformed)?;
        let length = u32::try_from(order.len()).ok().filter(|_| order.len() <= MAX_ORDER_BYTES);
        let length = length.ok_or_else(|| malformed("too long an order"))?;
        Ok([&length.to_le_bytes()[..], &order].concat())
    }
}

impl StageRow {
    /// A row as stages are told of it.
    pub(super) fn new(row: usize, choice: &RowChoice<'_>, table: &[u32], token: Option<u32>) -> StageRow {
        // What only the engine needs stays there: forms of answers are masks here.
        let sampling = SamplingOptions {
            stop: Vec::new(),
            format: crate::constraint::OutputFormat::Text,
            ..choice.sampling.clone()
        };
        let text = |tokens: &[u32]| if sampling.has_penalties() { tokens.to_vec() } else { Vec::new() };
        StageRow {
            row,
            token,
            table: table.to_vec(),
            prompt: text(choice.prompt),
            generated: text(choice.generated),
            allowed: choice.allowed.map(<[u32]>::to_vec),
            sampling,
        }
    }

    pub(super) fn choice(&self) -> RowChoice<'_> {
        RowChoice {
            sampling: &self.sampling,
            prompt: &self.prompt,
            generated: &self.generated,
            allowed: self.allowed.as_deref(),
        }
    }

    pub(super) fn decoded(&self) -> DecodeRow<'_> {
        DecodeRow { row: self.row, choice: self.choice(), table: &self.table, token: self.token }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::{CacheLayout, ContextSizes};

    fn limits() -> StageLimits {
        let sizes = StepSizes {
            rows: 4,
            layout: CacheLayout::Pages { pages: 6, page_size: 8 },
            contexts: ContextSizes::Longest,
            least_batch: 1,
            max_length: 32,
            chunk: 16,
        };
        StageLimits { sizes, vocabulary: 40, width: 4, dtype: DType::F32 }
    }

    fn row(row: usize) -> StageRow {
        let sampling = SamplingOptions::default();
        let choice = RowChoice { sampling: &sampling, prompt: &[], generated: &[], allowed: None };
        StageRow::new(row, &choice, &[0, 5], Some(3))
    }

    fn sent(order: &StageOrder, states: usize) -> Vec<u8> {
        [StageTask::new(order.clone()).encode().unwrap(), vec![0; states]].concat()
    }

    #[test]
    fn tasks_come_over_as_they_were() {
        let prefill = StageOrder::Prefill { step: 7, filled: 3, tokens: vec![1, 2, 39], row: row(3) };
        let task = limits().decode(&sent(&prefill, 16 * 4 * 4)).unwrap();
        assert_eq!((task.order, task.hidden.unwrap().dims().to_vec()), (prefill, vec![1, 16, 4]));
        let decode = StageOrder::Decode { step: 8, rows: vec![row(2), row(0), row(1)], longest: 30 };
        let task = limits().decode(&sent(&decode, 4 * 4 * 4)).unwrap();
        assert_eq!((task.order, task.hidden.unwrap().dims().to_vec()), (decode, vec![4, 1, 4]));
        for order in [StageOrder::Alive, StageOrder::WarmUp, StageOrder::Copy { from: 0, to: 5, positions: 8 }] {
            assert_eq!(limits().decode(&sent(&order, 0)).unwrap().order, order);
        }
    }

    #[test]
    fn tasks_that_no_engine_sends_are_errors() {
        let decode = |rows: Vec<StageRow>| StageOrder::Decode { step: 1, rows, longest: 3 };
        let with = |change: &dyn Fn(&mut StageRow)| {
            let mut row = row(1);
            change(&mut row);
            decode(vec![row])
        };
        let prefill = |filled: usize, tokens: Vec<u32>| StageOrder::Prefill { step: 1, filled, tokens, row: row(0) };
        let wrong = [
            decode(Vec::new()),
            decode(vec![row(1), row(1)]),
            decode(vec![row(4)]),
            decode((0..5).map(row).collect()),
            StageOrder::Decode { step: 1, rows: vec![row(0)], longest: usize::MAX },
            with(&|row| row.table = vec![6]),
            with(&|row| row.table = vec![0; 1000]),
            with(&|row| row.token = Some(40)),
            with(&|row| row.prompt = vec![1; 1000]),
            with(&|row| row.allowed = Some(vec![0; 3])),
            with(&|row| row.sampling.log_probabilities = usize::MAX),
            with(&|row| row.sampling.temperature = -1.0),
            with(&|row| row.sampling.logit_bias = [(40, 1.0)].into()),
            prefill(0, Vec::new()),
            prefill(0, vec![0; 17]),
            prefill(0, vec![40]),
            prefill(usize::MAX, vec![1]),
            StageOrder::Copy { from: 6, to: 0, positions: 8 },
            StageOrder::Copy { from: 0, to: 0, positions: 9 },
        ];
        for order in wrong {
            for states in [0, 16, 64, 256] {
                assert!(limits().decode(&sent(&order, states)).is_err(), "{order:?}");
            }
        }
        // States of another size, bytes that end too early, and bytes of any kind.
        let good = sent(&decode(vec![row(1)]), 16);
        assert!(limits().decode(&good).is_ok());
        for end in 0..good.len() {
            assert!(limits().decode(&good[..end]).is_err(), "{end}");
        }
        assert!(limits().decode(&[&good[..], &[0]].concat()).is_err());
        for at in 0..good.len() - 16 {
            let mut changed = good.clone();
            changed[at] ^= 0x55;
            let _ = limits().decode(&changed);
        }
        assert!(limits().decode(&[0xff; 64]).is_err());
    }

    #[test]
    fn log_probabilities_that_are_no_numbers_come_over() {
        let token = |log_probability| TokenProbability { token: 3, log_probability };
        let picked = Picked { token: token(f32::NEG_INFINITY), likeliest: vec![token(-0.125)] };
        let text = serde_json::to_vec(&SentToken::from(picked.clone())).unwrap();
        assert_eq!(Picked::from(serde_json::from_slice::<SentToken>(&text).unwrap()), picked);
    }
}
