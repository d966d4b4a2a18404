//! The next token of each row, chosen on the device: greedy, or drawn after penalties, temperature, top-k, top-p and min-p.

use tensor::DType;
use trace::{Key, Tensor, Tree, Update, scan, vmap};

/// Steps of a search over the bit patterns of numbers from 0 to 1: `log2` of how many there are.
const SEARCH_STEPS: usize = 30;
/// One more than the bit pattern of 1.
const ABOVE_ONE: f64 = (0x3f80_0000 + 1) as f64;

/// How the next token of each row is chosen: numbers `[rows]`.
#[derive(Clone, Debug, Tree)]
pub(crate) struct ChoiceRows {
    /// `f32`; 0 is greedy.
    pub(crate) temperature: Tensor,
    /// `i32`; so many of the likeliest.
    pub(crate) top_k: Tensor,
    /// `f32`; the likeliest that have this probability together.
    pub(crate) top_p: Tensor,
    /// `f32`; those with this share of the likeliest one's probability.
    pub(crate) min_p: Tensor,
    /// `u32`.
    pub(crate) seed: Tensor,
    /// Of requests with penalties.
    pub(crate) penalties: Option<PenaltyRows>,
    /// Of requests that like some tokens more or less.
    pub(crate) biases: Option<BiasRows>,
    /// `u32 [rows, words]`: a bit for each token, 1 where it may be chosen; of requests with a form.
    pub(crate) allowed: Option<Tensor>,
}

/// What is added to logits.
#[derive(Clone, Debug, Tree)]
pub(crate) struct BiasRows {
    /// `i32 [rows, entries]`; filled up with numbers outside of the vocabulary.
    pub(crate) tokens: Tensor,
    /// `f32 [rows, entries]`.
    pub(crate) values: Tensor,
}

/// Penalties of each row, and the tokens that they count.
#[derive(Clone, Debug, Tree)]
pub(crate) struct PenaltyRows {
    /// `f32 [rows]`; logits of tokens seen are divided by it where positive, multiplied where negative.
    pub(crate) repetition: Tensor,
    /// `f32 [rows]`; taken from logits of tokens generated.
    pub(crate) presence: Tensor,
    /// `f32 [rows]`; taken from logits for each time a token was generated.
    pub(crate) frequency: Tensor,
    /// `i32 [rows, tokens]`; those of the prompt and those generated, filled up with numbers outside of the vocabulary.
    pub(crate) tokens: Tensor,
    /// `i32 [rows]`; tokens of the prompt.
    pub(crate) prompt: Tensor,
}

/// What a program has to do to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Choice {
    /// The likeliest token of every row.
    Greedy,
    /// Some rows draw from all tokens.
    Drawn,
    /// Some rows draw from some tokens only.
    Filtered,
}

/// Tokens chosen.
#[derive(Clone, Debug, Tree)]
pub(crate) struct Chosen {
    /// `i32 [rows]`.
    pub(crate) token: Tensor,
    /// `f32 [rows]`: the logarithm of its probability, before temperature and filters.
    pub(crate) log_probability: Tensor,
    /// The likeliest tokens `i32 [rows, n]` and their log probabilities `f32 [rows, n]`.
    pub(crate) likeliest: Option<(Tensor, Tensor)>,
}

/// Chooses from logits `f32 [rows, vocabulary]`; a draw depends on the row's seed and the position `i32 [rows]` of the new token.
#[track_caller]
pub(crate) fn choose(
    logits: &Tensor,
    rows: &ChoiceRows,
    position: &Tensor,
    choice: Choice,
    likeliest: usize,
) -> Chosen {
    let log_probabilities = logits.log_softmax(-1);
    let logits = match &rows.penalties {
        Some(penalties) => penalized(logits, penalties),
        None => logits.clone(),
    };
    let logits = match &rows.biases {
        Some(biases) => biased(&logits, biases),
        None => logits,
    };
    let logits = match &rows.allowed {
        Some(allowed) => masked(&logits, allowed),
        None => logits,
    };
    let greedy = logits.argmax(-1).cast(DType::I32);
    let token = match choice {
        Choice::Greedy => greedy,
        Choice::Drawn | Choice::Filtered => {
            let zero = Tensor::scalar(DType::F32, 0.0);
            let is_greedy = rows.temperature.less_equal(&zero);
            let temperature = is_greedy.select(&rows.temperature.full_like(1.0), &rows.temperature);
            let scaled = &logits / &temperature.expand(-1);
            let kept = if choice == Choice::Filtered { filtered(&scaled, rows) } else { scaled };
            let inputs = (kept, rows.seed.clone(), position.clone());
            let drawn = vmap(
                |(logits, seed, position): &(Tensor, Tensor, Tensor)| {
                    Key::from_seed(seed).fold_in(position).categorical(logits, -1).cast(DType::I32)
                },
                &inputs,
            );
            is_greedy.select(&greedy, &drawn)
        }
    };
    let log_probability = log_probabilities.take_along(-1, &token.expand(-1)).squeeze(-1);
    let likeliest = (likeliest > 0).then(|| {
        let (numbers, tokens) = log_probabilities.top_k(likeliest.min(log_probabilities.dim(-1)));
        (tokens, numbers)
    });
    Chosen { token, log_probability, likeliest }
}

/// Logits, but for tokens that filters leave out: these are -infinity.
#[track_caller]
fn filtered(logits: &Tensor, rows: &ChoiceRows) -> Tensor {
    let probabilities = logits.softmax(-1);
    // Bit patterns of numbers that are not negative are in their order.
    let bits = probabilities.bitcast(DType::I32);
    let by_count = least_kept(&bits, &probabilities.full_like(1.0), &rows.top_k.cast(DType::F32));
    let kept = at_least(&bits, &by_count, &probabilities);
    let by_mass = least_kept(&bits, &kept, &(&rows.top_p * &kept.sum(&[1])));
    let by_share = (&rows.min_p * &probabilities.max(&[1])).bitcast(DType::I32);
    let least = by_count.maximum(&by_mass).maximum(&by_share);
    bits.greater_equal(&least.expand(-1)).select(logits, &logits.full_like(f64::NEG_INFINITY))
}

/// Weights of elements whose bits are at least a row's, else 0.
#[track_caller]
fn at_least(bits: &Tensor, least: &Tensor, weights: &Tensor) -> Tensor {
    bits.greater_equal(&least.expand(-1)).select(weights, &weights.full_like(0.0))
}

/// The largest bits of each row such that the weights of elements with at least these bits reach a target: a search by halves
/// needs no sorting.
#[track_caller]
fn least_kept(bits: &Tensor, weights: &Tensor, target: &Tensor) -> Tensor {
    let rows = target.dims();
    let init = (Tensor::zeros(DType::I32, rows), Tensor::full(DType::I32, rows, ABOVE_ONE));
    let inputs = (bits.clone(), weights.clone(), target.clone());
    let ((low, _), ()) = scan(&init, &(), Some(SEARCH_STEPS), |(low, high), ()| {
        let (bits, weights, target) = &inputs;
        let middle = low + &(&(high - low) / &Tensor::scalar(DType::I32, 2.0));
        let reaches = at_least(bits, &middle, weights).sum(&[1]).greater_equal(target);
        ((reaches.select(&middle, low), reaches.select(high, &middle)), ())
    });
    low
}

/// Logits, with what requests add to some of them.
#[track_caller]
fn biased(logits: &Tensor, biases: &BiasRows) -> Tensor {
    let inputs = (logits.clone(), biases.tokens.clone(), biases.values.clone());
    vmap(
        |(logits, tokens, values): &(Tensor, Tensor, Tensor)| {
            logits.scatter(&tokens.expand(-1), values, one_by_one(), Update::Add)
        },
        &inputs,
    )
}

/// Logits, but for tokens that are not allowed: these are -infinity.
#[track_caller]
fn masked(logits: &Tensor, allowed: &Tensor) -> Tensor {
    let (rows, words) = (allowed.dim(0), allowed.dim(1));
    let bits = u32::BITS as usize;
    let place = Tensor::iota(DType::U32, &[rows, words, bits], 2);
    let one = Tensor::full(DType::U32, &[rows, words, bits], 1.0);
    let spread = allowed.expand(-1).broadcast_to(&[rows, words, bits]).shift_right(&place).and(&one);
    let is_allowed = spread.equals(&one).reshape(&[rows, words * bits]).slice(1, 0..logits.dim(-1));
    is_allowed.select(logits, &logits.full_like(f64::NEG_INFINITY))
}

/// Numbers that are put into a vector, each at its index.
fn one_by_one() -> hlo::dims::ScatterDims {
    hlo::dims::ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..hlo::dims::ScatterDims::default()
    }
}

/// Logits after penalties.
#[track_caller]
fn penalized(logits: &Tensor, penalties: &PenaltyRows) -> Tensor {
    let PenaltyRows { repetition, presence, frequency, tokens, prompt } = penalties;
    let place = Tensor::iota(DType::I32, tokens.dims(), 1);
    let is_generated = place.greater_equal(&prompt.expand(-1)).cast(DType::F32);
    let inputs = (tokens.clone(), is_generated, logits.full_like(0.0));
    let (seen, generated) = vmap(
        |(tokens, is_generated, none): &(Tensor, Tensor, Tensor)| {
            let at = tokens.expand(-1);
            let seen = none.scatter(&at, &is_generated.full_like(1.0), one_by_one(), Update::Add);
            (seen, none.scatter(&at, is_generated, one_by_one(), Update::Add))
        },
        &inputs,
    );
    let zero = Tensor::scalar(DType::F32, 0.0);
    let factor = repetition.expand(-1);
    let repeated = logits.greater(&zero).select(&(logits / &factor), &(logits * &factor));
    let logits = seen.greater(&zero).select(&repeated, logits);
    let present = generated.greater(&zero).cast(DType::F32) * presence.expand(-1);
    logits - present - generated * frequency.expand(-1)
}
