//! LSTM, GRU and plain recurrent layers, each a loop over time.

use tensor::DType;
use trace::Tensor;

use super::{Answer, Rules};
use crate::call::{Call, cast, size};
use crate::error::Error;

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Plain,
}

impl Cell {
    /// Gates, each with weights of its own.
    fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Plain => 1,
        }
    }

    fn activations(self) -> &'static [&'static str] {
        match self {
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Plain => &["Tanh"],
        }
    }
}

/// A function of gates.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: f64,
    beta: f64,
}

impl Activation {
    fn apply(&self, x: &Tensor) -> Tensor {
        let like = |value: f64| Tensor::scalar(x.dtype(), value);
        let (alpha, beta) = (self.alpha, self.beta);
        match self.name.as_str() {
            "Sigmoid" => x.logistic(),
            "Relu" => x.relu(),
            "LeakyRelu" => x.less(&like(0.0)).select(&(x * alpha), x),
            "ThresholdedRelu" => x.greater_equal(&like(alpha)).select(x, &x.zeros_like()),
            "ScaledTanh" => (x * beta).tanh() * alpha,
            "HardSigmoid" => (x * alpha + beta).maximum(&like(0.0)).minimum(&like(1.0)),
            "Elu" => x.greater_equal(&like(0.0)).select(x, &(x.exp_m1() * alpha)),
            "Softsign" => x / &(x.abs() + 1.0),
            "Softplus" => x.softplus(),
            "Affine" => x * alpha + beta,
            _ => x.tanh(),
        }
    }

    fn of(name: &str, alpha: Option<f64>, beta: Option<f64>) -> Result<Activation, Error> {
        let (a, b) = match name {
            "LeakyRelu" => (0.01, 0.0),
            "ThresholdedRelu" | "ScaledTanh" | "Elu" => (1.0, 1.0),
            "HardSigmoid" => (0.2, 0.5),
            "Affine" => (1.0, 0.0),
            "Sigmoid" | "Tanh" | "Relu" | "Softsign" | "Softplus" => (0.0, 0.0),
            other => return Err(Error::unsupported(format!("the activation `{other}`"))),
        };
        Ok(Activation { name: name.to_string(), alpha: alpha.unwrap_or(a), beta: beta.unwrap_or(b) })
    }
}

/// What a step is made of, beside its weights.
struct Step {
    cell: Cell,
    activations: Vec<Activation>,
    clip: Option<f64>,
    resets_after: bool,
    couples: bool,
}

impl Step {
    fn clipped(&self, x: Tensor) -> Tensor {
        match self.clip {
            Some(limit) => x.clamp(&Tensor::scalar(x.dtype(), -limit), &Tensor::scalar(x.dtype(), limit)),
            None => x,
        }
    }

    /// The projected input and the state give the next state. `weights` are those of the state: its matrix, its bias, and for an LSTM
    /// how the gates see the cell.
    fn next(&self, x: &Tensor, state: &[Tensor], weights: &[Tensor]) -> Vec<Tensor> {
        let (hidden, matrix, bias) = (&state[0], &weights[0], &weights[1]);
        let act = |n: usize, x: Tensor| self.activations[n].apply(&self.clipped(x));
        match self.cell {
            Cell::Plain => vec![act(0, x + &hidden.matmul(matrix) + bias)],
            Cell::Lstm => {
                let gates = (x + &hidden.matmul(matrix) + bias).split(-1, 4);
                let cell = &state[1];
                let sees = |n: usize, gate: Tensor, cell: &Tensor| match weights.get(2) {
                    Some(peepholes) => gate + &peepholes.split(-1, 3)[n] * cell,
                    None => gate,
                };
                let input = act(0, sees(0, gates[0].clone(), cell));
                let forget = match self.couples {
                    true => input.full_like(1.0) - &input,
                    false => act(0, sees(2, gates[2].clone(), cell)),
                };
                let next = forget * cell + input * act(1, gates[3].clone());
                let output = act(0, sees(1, gates[1].clone(), &next));
                vec![output * self.activations[2].apply(&next), next]
            }
            Cell::Gru => {
                let (x, matrices, biases) = (x.split(-1, 3), matrix.split(-1, 3), bias.split(-1, 3));
                let update = act(0, &x[0] + &hidden.matmul(&matrices[0]) + &biases[0]);
                let reset = act(0, &x[1] + &hidden.matmul(&matrices[1]) + &biases[1]);
                let new = match self.resets_after {
                    true => &x[2] + &(reset * (hidden.matmul(&matrices[2]) + &biases[2])),
                    false => &x[2] + &(reset * hidden).matmul(&matrices[2]) + &biases[2],
                };
                let new = act(1, new);
                vec![(update.full_like(1.0) - &update) * new + update * hidden]
            }
        }
    }
}

/// Matrices and biases of one direction: of the input `[in, gates]`, of the state `[hidden, gates]`.
struct Weights {
    input: Tensor,
    input_bias: Tensor,
    state: Vec<Tensor>,
}

/// One direction over all steps of `[time, batch, features]`: all hidden states, and the last states.
fn direction(
    step: &Step,
    x: &Tensor,
    state: Vec<Tensor>,
    weights: &Weights,
    lengths: Option<&Tensor>,
    is_reversed: bool,
) -> (Tensor, Vec<Tensor>) {
    // All inputs are projected at once; only the state is left for the loop.
    let projected = x.matmul(&weights.input) + &weights.input_bias;
    let time = Tensor::iota(DType::I32, &[x.dims()[0]], 0);
    let carry = (state, weights.state.clone(), lengths.into_iter().cloned().collect::<Vec<Tensor>>());
    let body = |(state, own, lengths): &(Vec<Tensor>, Vec<Tensor>, Vec<Tensor>), (x, at): &(Tensor, Tensor)| {
        let mut next = step.next(x, state, own);
        let mut shown = next[0].clone();
        if let Some(lengths) = lengths.first() {
            let is_there = |like: &Tensor| at.less(lengths).expand(-1).broadcast_to(like.dims());
            shown = is_there(&shown).select(&shown, &shown.zeros_like());
            next = next.iter().zip(state).map(|(new, old)| is_there(new).select(new, old)).collect();
        }
        ((next, own.clone(), lengths.clone()), shown)
    };
    let ((last, ..), all) = match is_reversed {
        true => trace::scan_reversed(&carry, &(projected, time), None, body),
        false => trace::scan(&carry, &(projected, time), None, body),
    };
    (all, last)
}

fn steps(call: &Call<'_>, cell: Cell, directions: usize) -> Result<Vec<Step>, Error> {
    let attributes = call.attributes;
    let names = attributes.texts("activations");
    let each = cell.activations().len();
    if !names.is_empty() && names.len() != directions * each {
        return Err(Error::damaged(format!("{} activations for {directions} directions", names.len())));
    }
    let numbers = |name: &str| attributes.floats(name).unwrap_or_default();
    // Numbers are for those activations that take one, in order.
    let (mut alphas, mut betas) = (numbers("activation_alpha").iter(), numbers("activation_beta").iter());
    (0..directions)
        .map(|side| {
            let activation = |n: usize| {
                let name = names.get(side * each + n).map_or(cell.activations()[n], String::as_str);
                let takes_alpha =
                    matches!(name, "LeakyRelu" | "ThresholdedRelu" | "ScaledTanh" | "HardSigmoid" | "Elu" | "Affine");
                let takes_beta = matches!(name, "ScaledTanh" | "HardSigmoid" | "Affine");
                let alpha = takes_alpha.then(|| alphas.next()).flatten().map(|value| f64::from(*value));
                let beta = takes_beta.then(|| betas.next()).flatten().map(|value| f64::from(*value));
                Activation::of(name, alpha, beta)
            };
            Ok(Step {
                cell,
                activations: (0..each).map(activation).collect::<Result<_, _>>()?,
                clip: attributes.has("clip").then(|| attributes.float("clip", 0.0)),
                resets_after: attributes.int("linear_before_reset", 0) != 0,
                couples: attributes.int("input_forget", 0) != 0,
            })
        })
        .collect()
}

fn recurrent(call: &Call<'_>, cell: Cell) -> Answer {
    let is_batch_first = call.attributes.int("layout", 0) != 0;
    let swapped = |x: &Tensor| if is_batch_first { x.swap_axes(0, 1) } else { x.clone() };
    let (w, r) = (call.input(1)?, call.input(2)?);
    let given = call.input(0)?;
    if given.rank() != 3 || w.rank() != 3 || r.rank() != 3 {
        return Err(Error::damaged(format!("a layer of {} with {} and {}", given.spec(), w.spec(), r.spec())));
    }
    let x = swapped(given);
    let (directions, hidden, gates) = (w.dims()[0], r.dims()[2], cell.gates());
    let wanted = match call.attributes.text("direction", "forward").as_str() {
        "bidirectional" => 2,
        _ => 1,
    };
    let is_backward = call.attributes.text("direction", "forward") == "reverse";
    let said = size(call.attributes.int("hidden_size", hidden as i64))?;
    let shapes =
        [w.dims() == [directions, gates * hidden, x.dims()[2]], r.dims() == [directions, gates * hidden, hidden]];
    if directions != wanted || said != hidden || shapes.contains(&false) {
        return Err(Error::damaged(format!("a layer of {} with {} and {}", x.spec(), w.spec(), r.spec())));
    }
    let batch = x.dims()[1];
    let zeros = |dims: &[usize]| Tensor::zeros(x.dtype(), dims);
    let bias = call.optional(3).cloned().unwrap_or_else(|| zeros(&[directions, 2 * gates * hidden]));
    let lengths = call.optional(4).map(|lengths| cast(lengths, DType::I32));
    let states = if cell == Cell::Lstm { 2 } else { 1 };
    let first = |n: usize| -> Result<Tensor, Error> {
        let state = call.optional(5 + n).map(&swapped).unwrap_or_else(|| zeros(&[directions, batch, hidden]));
        match state.dims() == [directions, batch, hidden] {
            true => Ok(state),
            false => Err(Error::damaged(format!("a first state {}", state.spec()))),
        }
    };
    let initial = (0..states).map(first).collect::<Result<Vec<_>, _>>()?;
    let peepholes = call.optional(7).filter(|_| cell == Cell::Lstm);
    let mut shown = Vec::new();
    let mut ends: Vec<Vec<Tensor>> = vec![Vec::new(); states];
    for (side, step) in steps(call, cell, directions)?.iter().enumerate() {
        let matrix = |weights: &Tensor| weights.at(0, side).swap_axes(0, 1);
        let half = |n: usize| bias.at(0, side).slice(0, n * gates * hidden..(n + 1) * gates * hidden);
        let mut state = vec![matrix(r), half(1)];
        state.extend(peepholes.map(|peepholes| peepholes.at(0, side)));
        let weights = Weights { input: matrix(w), input_bias: half(0), state };
        let from = initial.iter().map(|state| state.at(0, side)).collect();
        let (all, last) = direction(step, &x, from, &weights, lengths.as_ref(), is_backward || side == 1);
        shown.push(all);
        ends.iter_mut().zip(last).for_each(|(list, end)| list.push(end));
    }
    // `[time, directions, batch, hidden]`, or with the batch first.
    let y = Tensor::stack(&shown, 1);
    let y = if is_batch_first { y.transpose(&[2, 0, 1, 3]) } else { y };
    let ends = ends.iter().map(|list| swapped(&Tensor::stack(list, 0)));
    Ok(std::iter::once(y).chain(ends).collect())
}

pub(super) const RULES: Rules = &[
    ("GRU", |c| recurrent(c, Cell::Gru)),
    ("LSTM", |c| recurrent(c, Cell::Lstm)),
    ("RNN", |c| recurrent(c, Cell::Plain)),
];
