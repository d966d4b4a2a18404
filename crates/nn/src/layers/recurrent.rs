//! Recurrent layers: a state carried along a sequence by a scan.

use trace::{Key, Tensor, Tree, scan};

use crate::init::Init;
use crate::layers::{Bias, Linear};

/// Long short-term memory. Gates are in the order input, forget, cell, output.
#[derive(Clone, Debug, Tree)]
pub struct Lstm {
    /// `[width, 4 * hidden]`.
    pub input: Linear,
    /// `[hidden, 4 * hidden]`.
    pub recurrent: Linear,
}

/// What an [`Lstm`] carries: `[batch, hidden]` each.
#[derive(Clone, Debug, Tree)]
pub struct LstmState {
    /// Its output.
    pub hidden: Tensor,
    /// Its memory.
    pub cell: Tensor,
}

impl Lstm {
    /// Drawn weights.
    #[track_caller]
    pub fn init(key: &Key, width: usize, hidden: usize, weight: Init) -> Lstm {
        let keys = key.split(2);
        Lstm {
            input: Linear::init(&keys[0], width, 4 * hidden, Bias::Zero, weight),
            recurrent: Linear::init(&keys[1], hidden, 4 * hidden, Bias::Zero, weight),
        }
    }

    /// Applied to `[batch, positions, width]`: outputs `[batch, positions, hidden]` and the last state.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, state: &LstmState) -> (Tensor, LstmState) {
        trace::scope("lstm", || {
            // The matmul with the input needs no state: one matmul for all positions.
            let inputs = self.input.apply(x).swap_axes(0, 1);
            let (state, outputs) = scan(state, &inputs, None, |state, input| {
                let gates = (input + &self.recurrent.apply(&state.hidden)).split(-1, 4);
                let cell = &(&gates[1].logistic() * &state.cell) + &(&gates[0].logistic() * &gates[2].tanh());
                let hidden = &gates[3].logistic() * &cell.tanh();
                (LstmState { hidden: hidden.clone(), cell }, hidden)
            });
            (outputs.swap_axes(0, 1), state)
        })
    }
}

/// Gated recurrent unit. Gates are in the order reset, update, new.
#[derive(Clone, Debug, Tree)]
pub struct Gru {
    /// `[width, 3 * hidden]`.
    pub input: Linear,
    /// `[hidden, 3 * hidden]`.
    pub recurrent: Linear,
}

impl Gru {
    /// Drawn weights.
    #[track_caller]
    pub fn init(key: &Key, width: usize, hidden: usize, weight: Init) -> Gru {
        let keys = key.split(2);
        Gru {
            input: Linear::init(&keys[0], width, 3 * hidden, Bias::Zero, weight),
            recurrent: Linear::init(&keys[1], hidden, 3 * hidden, Bias::Zero, weight),
        }
    }

    /// Applied to `[batch, positions, width]` from a state `[batch, hidden]`: all outputs, and the last.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, state: &Tensor) -> (Tensor, Tensor) {
        trace::scope("gru", || {
            let inputs = self.input.apply(x).swap_axes(0, 1);
            let (state, outputs) = scan(state, &inputs, None, |state, input| {
                let (of_input, of_state) = (input.split(-1, 3), self.recurrent.apply(state).split(-1, 3));
                let reset = (&of_input[0] + &of_state[0]).logistic();
                let update = (&of_input[1] + &of_state[1]).logistic();
                let new = (&of_input[2] + &(&reset * &of_state[2])).tanh();
                let state = &new + &(&update * &(state - &new));
                (state.clone(), state)
            });
            (outputs.swap_axes(0, 1), state)
        })
    }
}
