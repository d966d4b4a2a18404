//! Tokens that a program on the device is choosing, and their way to the host.

use runtime::ReadTensor;
use tensor::Literal;
use trace::Tensor;

use crate::choose::Chosen;
use crate::error::Error;
use crate::request::TokenProbability;

/// The next token of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picked {
    pub(crate) token: TokenProbability,
    pub(crate) likeliest: Vec<TokenProbability>,
}

/// Waits for the tokens of each row.
type AwaitTokens = Box<dyn FnOnce() -> Result<Vec<Vec<Picked>>, Error>>;

/// What a step gives: on its way until it is read.
pub(crate) enum Launched {
    /// Tokens on a device here.
    Chosen(LaunchedTokens),
    /// What the next pipeline stage reads, on a device here.
    Hidden(Tensor),
    /// Tokens of so many rows that the last pipeline stage chooses.
    Awaited(usize, AwaitTokens),
}

/// Tokens that a program on a device here is choosing.
pub(crate) struct LaunchedTokens {
    /// Of each row and place, one after the other.
    chosen: Chosen,
    /// `i32 [rows]`: so many of the tokens of a row hold; `None`: all.
    count: Option<Tensor>,
    /// Tokens of each row.
    width: usize,
    /// Likeliest tokens of each place.
    likeliest: usize,
}

impl Launched {
    /// One token of each row.
    pub(crate) fn one_each(chosen: Chosen, likeliest: usize) -> Launched {
        Launched::Chosen(LaunchedTokens { chosen, count: None, width: 1, likeliest })
    }

    /// Up to `width` tokens of each row, of which the first `count` hold.
    pub(crate) fn several_each(chosen: Chosen, count: Tensor, width: usize, likeliest: usize) -> Launched {
        Launched::Chosen(LaunchedTokens { chosen, count: Some(count), width, likeliest })
    }

    /// What the next pipeline stage reads.
    pub(crate) fn hidden(states: Tensor) -> Launched {
        Launched::Hidden(states)
    }

    /// Rows that tokens are chosen for, those without a request among them.
    pub(crate) fn num_rows(&self) -> usize {
        match self {
            Launched::Chosen(tokens) => {
                tokens.chosen.token.dims().first().map_or(0, |count| count / tokens.width.max(1))
            }
            Launched::Hidden(states) => states.dims().first().copied().unwrap_or(0),
            Launched::Awaited(rows, _) => *rows,
        }
    }

    /// Whether drafts were verified.
    pub(crate) fn has_drafts(&self) -> bool {
        matches!(self, Launched::Chosen(LaunchedTokens { count: Some(_), .. }))
    }

    /// The tokens of each row, after waiting for them; none where the next stage chooses them.
    pub(crate) fn read(self) -> Result<Vec<Vec<Picked>>, Error> {
        match self {
            Launched::Chosen(tokens) => tokens.read(),
            Launched::Hidden(_) => Ok(Vec::new()),
            Launched::Awaited(_, wait) => wait(),
        }
    }

    /// What the next pipeline stage reads, after waiting for it; `None` where tokens are chosen.
    pub(crate) fn states(&self) -> Result<Option<Literal>, Error> {
        match self {
            Launched::Hidden(states) => Ok(Some(states.to_host()?)),
            Launched::Chosen(_) | Launched::Awaited(..) => Ok(None),
        }
    }
}

impl LaunchedTokens {
    /// The tokens of each row, after waiting for them.
    fn read(self) -> Result<Vec<Vec<Picked>>, Error> {
        let tokens = self.chosen.token.to_vec::<i32>()?;
        let numbers = self.chosen.log_probability.to_vec::<f32>()?;
        let (others, their) = match &self.chosen.likeliest {
            Some((tokens, numbers)) => (tokens.to_vec::<i32>()?, numbers.to_vec::<f32>()?),
            None => (Vec::new(), Vec::new()),
        };
        let counts = self.count.as_ref().map(Tensor::to_vec::<i32>).transpose()?;
        let probability =
            |(&token, &log_probability): (&i32, &f32)| TokenProbability { token: token as u32, log_probability };
        let all: Vec<Picked> = tokens
            .iter()
            .zip(&numbers)
            .map(probability)
            .enumerate()
            .map(|(place, token)| {
                let of = place * self.likeliest..(place + 1) * self.likeliest;
                let likeliest = others.get(of.clone()).unwrap_or(&[]).iter().zip(their.get(of).unwrap_or(&[]));
                Picked { token, likeliest: likeliest.map(probability).collect() }
            })
            .collect();
        let rows = all.chunks(self.width.max(1)).enumerate().map(|(row, picked)| {
            let count = counts.as_ref().and_then(|counts| counts.get(row));
            let count = count.map_or(self.width, |&count| usize::try_from(count).unwrap_or(0));
            picked.iter().take(count).cloned().collect()
        });
        Ok(rows.collect())
    }
}
