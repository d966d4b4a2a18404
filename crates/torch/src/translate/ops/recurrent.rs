//! LSTM, GRU and plain recurrent layers, each a loop over time.

use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value, positive};
use crate::translate::ops::matmul::matmul;
use crate::translate::run::Rules;

type Answer = Result<Value, Error>;

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

/// The weights of one direction of one layer: of inputs, of the state, and biases.
struct Weights {
    input: Tensor,
    state: Tensor,
    biases: Option<(Tensor, Tensor)>,
}

/// One step: the projected input and the state give the next state.
fn step(cell: Cell, x: &Tensor, state: &[Tensor], weights: &(Tensor, Option<Tensor>)) -> Result<Vec<Tensor>, Error> {
    let hidden = &state[0];
    let mut y = matmul(hidden, &weights.0.swap_axes(0, 1))?;
    if let Some(bias) = &weights.1 {
        y = y + bias;
    }
    Ok(match cell {
        Cell::Tanh => vec![(x + &y).tanh()],
        Cell::Relu => {
            let sum = x + &y;
            vec![sum.maximum(&Tensor::scalar(sum.dtype(), 0.0))]
        }
        Cell::Lstm => {
            let gates = (x + &y).split(-1, 4);
            let (input, forget, output) = (gates[0].logistic(), gates[1].logistic(), gates[3].logistic());
            let cell = &forget * &state[1] + &input * &gates[2].tanh();
            vec![&output * &cell.tanh(), cell]
        }
        Cell::Gru => {
            let (x, y) = (x.split(-1, 3), y.split(-1, 3));
            let (reset, update) = ((&x[0] + &y[0]).logistic(), (&x[1] + &y[1]).logistic());
            let new = (&x[2] + &(&reset * &y[2])).tanh();
            vec![&(hidden - &new) * &update + &new]
        }
    })
}

/// One direction over all steps of `[time, batch, features]`: all states, and the last.
fn direction(
    cell: Cell,
    x: &Tensor,
    state: Vec<Tensor>,
    weights: &Weights,
    is_reversed: bool,
) -> Result<(Tensor, Vec<Tensor>), Error> {
    // All inputs are projected at once; only the state is left for the loop.
    let mut projected = matmul(x, &weights.input.swap_axes(0, 1))?;
    if let Some((bias, _)) = &weights.biases {
        projected = projected + bias;
    }
    let own = (weights.state.clone(), weights.biases.as_ref().map(|(_, bias)| bias.clone()));
    let mut failed = None;
    let carry = (state, own);
    let body = |(state, own): &(Vec<Tensor>, (Tensor, Option<Tensor>)), x: &Tensor| match step(cell, x, state, own) {
        Ok(next) => {
            let hidden = next[0].clone();
            ((next, own.clone()), hidden)
        }
        Err(error) => {
            failed = Some(error);
            ((state.clone(), own.clone()), state[0].clone())
        }
    };
    let ((last, _), all) = match is_reversed {
        true => trace::scan_reversed(&carry, &projected, None, body),
        false => trace::scan(&carry, &projected, None, body),
    };
    match failed {
        Some(error) => Err(error),
        None => Ok((all, last)),
    }
}

fn recurrent(call: &mut Call<'_, '_>, cell: Cell) -> Answer {
    let mut x = call.subject()?;
    if call.has("batch_sizes") {
        return Err(call.unsupported("a recurrent layer over packed sequences"));
    }
    let is_lstm = cell == Cell::Lstm;
    let initial = match is_lstm {
        true => call.all_tensors("hx")?,
        false => vec![call.tensor("hx")?],
    };
    let params = call.all_tensors("params")?;
    let has_biases = call.bool("has_biases", true)?;
    let layers = positive(call.int("num_layers", 1)?)?;
    let directions = if call.bool("bidirectional", false)? { 2 } else { 1 };
    if call.bool("train", false)? && call.float("dropout", 0.0)? > 0.0 && layers > 1 {
        return Err(Error::new(
            "it draws random numbers: the model was exported in training mode with dropout",
            "call `model.eval()` before the export, or set the rate to 0",
        ));
    }
    let each = if has_biases { 4 } else { 2 };
    if params.len() != layers * directions * each {
        return Err(call.unsupported("a recurrent layer with a projection"));
    }
    let is_batch_first = call.bool("batch_first", false)?;
    let has_batch = x.rank() == 3;
    if !has_batch {
        x = x.expand(1);
    } else if is_batch_first {
        x = x.swap_axes(0, 1);
    }
    let initial: Vec<Tensor> =
        initial.into_iter().map(|state| if has_batch { state } else { state.expand(1) }).collect();
    if initial.iter().any(|state| state.rank() != 3 || state.dim(0) != layers * directions) {
        return Err(Error::damaged("the first state has another shape"));
    }
    let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); initial.len()];
    for layer in 0..layers {
        let mut outputs = Vec::new();
        for side in 0..directions {
            let number = layer * directions + side;
            let own = &params[number * each..(number + 1) * each];
            let weights = Weights {
                input: own[0].clone(),
                state: own[1].clone(),
                biases: has_biases.then(|| (own[2].clone(), own[3].clone())),
            };
            let state = initial.iter().map(|state| state.at(0, number)).collect();
            let (all, end) = direction(cell, &x, state, &weights, side == 1)?;
            outputs.push(all);
            for (list, end) in last.iter_mut().zip(end) {
                list.push(end);
            }
        }
        x = Tensor::concat(&outputs, -1);
    }
    if !has_batch {
        x = x.squeeze(1);
    } else if is_batch_first {
        x = x.swap_axes(0, 1);
    }
    let ends = last.into_iter().map(|list| {
        let state = Tensor::stack(&list, 0);
        if has_batch { state } else { state.squeeze(1) }
    });
    Ok([vec![x], ends.collect()].concat().into())
}

/// One step of a cell by itself.
fn one_step(call: &mut Call<'_, '_>, cell: Cell) -> Answer {
    let x = call.subject()?;
    let state = match cell {
        Cell::Lstm => call.all_tensors("hx")?,
        _ => vec![call.tensor("hx")?],
    };
    let (input, own) = (call.tensor("w_ih")?, call.tensor("w_hh")?);
    if state.len() != if cell == Cell::Lstm { 2 } else { 1 } || input.rank() != 2 || own.rank() != 2 {
        return Err(Error::damaged("a cell with another state"));
    }
    let mut projected = matmul(&x, &input.swap_axes(0, 1))?;
    if let Some(bias) = call.optional_tensor("b_ih")? {
        projected = projected + bias;
    }
    let bias = call.optional_tensor("b_hh")?;
    let mut next = step(cell, &projected, &state, &(own, bias))?;
    Ok(if cell == Cell::Lstm { next.into() } else { next.swap_remove(0).into() })
}

pub(super) const RULES: Rules = &[
    ("lstm", |c| recurrent(c, Cell::Lstm)),
    ("gru", |c| recurrent(c, Cell::Gru)),
    ("rnn_tanh", |c| recurrent(c, Cell::Tanh)),
    ("rnn_relu", |c| recurrent(c, Cell::Relu)),
    ("lstm_cell", |c| one_step(c, Cell::Lstm)),
    ("gru_cell", |c| one_step(c, Cell::Gru)),
    ("rnn_tanh_cell", |c| one_step(c, Cell::Tanh)),
    ("rnn_relu_cell", |c| one_step(c, Cell::Relu)),
];
