//! Rows of logits on NVIDIA GPUs: one kernel reads each row once for its loss, another writes the gradient of the logits in their place.

use std::f32::consts::{LN_2, LOG2_E};

use hlo::{FuncBuilder, Value};
use tensor::{DType, Spec};

use super::triton::{Element, Launch, Program, Tile};
use crate::error::Error;
use crate::kernels::flash::MASK_VALUE;

/// Logits of a tile.
const WIDTH: usize = 4096;
const WARPS: usize = 8;

/// Logits `[rows, padded]`, of which the first `vocab_size` of each row are of tokens.
#[derive(Debug)]
pub(super) struct Logits {
    rows: usize,
    vocab_size: usize,
    padded: usize,
    dtype: DType,
    element: Element,
}

impl Logits {
    /// `None` where these kernels do not take such sizes or numbers.
    pub(super) fn new(rows: usize, vocab_size: usize, padded: usize, dtype: DType) -> Option<Logits> {
        let element = Element::of(dtype).filter(|_| matches!(dtype, DType::BF16 | DType::F16))?;
        let is_sized = rows > 0 && vocab_size > 0 && [rows, padded].iter().all(|&size| i32::try_from(size).is_ok());
        is_sized.then_some(Logits { rows, vocab_size, padded, dtype, element })
    }

    fn row(&self) -> Spec {
        Spec::new(DType::F32, [1, self.rows])
    }

    /// The address of a row: numbers of all logits are more than 32 bits have.
    fn row_at(&self, p: &mut Program, logits: &Tile, row: &Tile) -> Tile {
        let padded = p.int(self.padded);
        let [row, padded] = [row, &padded].map(|n| p.wide(n));
        let start = p.mul(&row, &padded);
        p.offset(logits, &start)
    }

    /// The label of a row, and where it is a token.
    fn label(&self, p: &mut Program, labels: &Tile, row: &Tile) -> [Tile; 2] {
        let at = p.offset(labels, row);
        let label = p.load(&at);
        let [zero, last] = [0, self.vocab_size - 1].map(|n| p.int(n));
        let within = p.max(&label, &zero);
        let within = p.min(&within, &last);
        [label, within]
    }

    /// From logits and labels the loss of each row, and the logarithm of its sum of exponentials.
    fn losses_program(&self) -> Program {
        let p = &mut Program::new("cross_entropy_rows");
        let (logits, labels) = (p.argument(self.dtype), p.argument(DType::I32));
        let [losses, totals]: [Tile; 2] = std::array::from_fn(|_| p.argument(DType::F32));
        let row = p.program_id(0);
        let at_row = self.row_at(p, &logits, &row);
        let [zero, tiles, width, end] = [0, self.vocab_size.div_ceil(WIDTH), WIDTH, self.vocab_size].map(|n| p.int(n));
        let range = p.range(WIDTH);
        let log2_e = p.float(LOG2_E);
        let hidden = p.float(MASK_VALUE);
        let (top, sum) = (p.float(MASK_VALUE), p.float(0.0));
        let [top, sum] = p.repeat(&zero, &tiles, [top, sum], |p, number, [top, sum]| {
            let first = p.mul(number, &width);
            let word = p.add(&range, &first);
            let is_word = p.less(&word, &end);
            let at = p.offset(&at_row, &word);
            let score = p.load_where(&at, &is_word);
            let score = p.widened(&score);
            let score = p.mul(&score, &log2_e);
            let score = p.select(&is_word, &score, &hidden);
            let highest = p.largest(&score, 0);
            let next = p.max(&top, &highest);
            let shrink = p.sub(&top, &next);
            let shrink = p.exp2(&shrink);
            let weights = p.sub(&score, &next);
            let weights = p.exp2(&weights);
            let more = p.sum(&weights, 0);
            let sum = p.mul(&sum, &shrink);
            [next, p.add(&sum, &more)]
        });
        let log = p.log2(&sum);
        let total = p.add(&top, &log);
        let ln_2 = p.float(LN_2);
        let total = p.mul(&total, &ln_2);
        let [_, within] = self.label(p, &labels, &row);
        let at = p.offset(&at_row, &within);
        let of_label = p.load(&at);
        let of_label = p.widened(&of_label);
        let loss = p.sub(&total, &of_label);
        for (result, value) in [(&losses, &loss), (&totals, &total)] {
            let at = p.offset(result, &row);
            p.store(&at, value);
        }
        std::mem::replace(p, Program::new(""))
    }

    /// From logits, labels, logarithms of sums, the share of each row's probabilities and what is taken from its label, the gradient.
    fn gradient_program(&self) -> Program {
        let p = &mut Program::new("cross_entropy_gradient");
        let (logits, labels) = (p.argument(self.dtype), p.argument(DType::I32));
        let rows: [Tile; 3] = std::array::from_fn(|_| p.argument(DType::F32));
        let gradient = p.argument(self.dtype);
        let [row, tile] = [0, 1].map(|axis| p.program_id(axis));
        let [total, share, taken] = rows.each_ref().map(|all| {
            let at = p.offset(all, &row);
            p.load(&at)
        });
        let [label, _] = self.label(p, &labels, &row);
        let [width, end, padded] = [WIDTH, self.vocab_size, self.padded].map(|n| p.int(n));
        let range = p.range(WIDTH);
        let first = p.mul(&tile, &width);
        let word = p.add(&range, &first);
        let is_word = p.less(&word, &end);
        let [from, to] = [&logits, &gradient].map(|all| {
            let at_row = self.row_at(p, all, &row);
            p.offset(&at_row, &word)
        });
        let score = p.load_where(&from, &is_word);
        let score = p.widened(&score);
        let score = p.sub(&score, &total);
        let log2_e = p.float(LOG2_E);
        let score = p.mul(&score, &log2_e);
        let probability = p.exp2(&score);
        let weighed = p.mul(&probability, &share);
        let is_label = p.equal(&word, &label);
        let zero = p.float(0.0);
        let of_label = p.select(&is_label, &taken, &zero);
        let of_logit = p.sub(&weighed, &of_label);
        let of_logit = p.select(&is_word, &of_logit, &zero);
        let of_logit = p.narrowed(&of_logit, self.element);
        let is_there = p.less(&word, &padded);
        p.store_where(&to, &of_logit, &is_there);
        std::mem::replace(p, Program::new(""))
    }

    /// The loss of each row, and the logarithm of its sum of exponentials, both `[1, rows]`.
    pub(super) fn losses(&self, function: &mut FuncBuilder, logits: Value, labels: Value) -> Result<[Value; 2], Error> {
        let launch = Launch { grid: [self.rows, 1, 1], warps: WARPS, stages: 2 };
        self.losses_program().call(function, launch, &[logits, labels], [self.row(), self.row()], &[])
    }

    /// The gradient of the logits, in their place.
    pub(super) fn gradient(
        &self,
        function: &mut FuncBuilder,
        logits: Value,
        labels: Value,
        [total, share, taken]: [Value; 3],
    ) -> Result<Value, Error> {
        let launch = Launch { grid: [self.rows, self.padded.div_ceil(WIDTH), 1], warps: WARPS, stages: 1 };
        let result = Spec::new(self.dtype, [self.rows, self.padded]);
        let operands = [logits, labels, total, share, taken];
        let [gradient] = self.gradient_program().call(function, launch, &operands, [result], &[(0, 0)])?;
        Ok(gradient)
    }
}
