//! Values of an image at computed places between its elements.

use tensor::DType;
use trace::Tensor;

use super::{Answer, Rules, one};
use crate::call::{Call, cast, wide};
use crate::error::Error;

/// What lies outside of an image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// One axis of an image.
struct Axis {
    size: f64,
    outside: Outside,
    /// Limits that places are reflected at.
    limits: (f64, f64),
}

impl Axis {
    /// A place inside, by what lies outside; zeros leave it where it is.
    fn inside(&self, at: &Tensor) -> Tensor {
        let number = |value: f64| Tensor::scalar(at.dtype(), value);
        match self.outside {
            Outside::Zeros => at.clone(),
            Outside::Border => at.maximum(&number(0.0)).minimum(&number(self.size - 1.0)),
            Outside::Reflection => {
                let (low, high) = self.limits;
                let span = high - low;
                if span <= 0.0 {
                    return at.zeros_like();
                }
                let from_low = (at - low).abs().remainder(&number(2.0 * span));
                from_low.greater(&number(span)).select(&(number(2.0 * span) - &from_low), &from_low) + low
            }
        }
    }

    /// Elements around a place, with their weights.
    fn taps(&self, at: &Tensor, mode: &str) -> Vec<(Tensor, Tensor)> {
        let number = |value: f64| Tensor::scalar(at.dtype(), value);
        if mode == "nearest" {
            return vec![self.tap(&self.inside(&at.round()), at.full_like(1.0))];
        }
        let at = if mode == "cubic" { at.clone() } else { self.inside(at) };
        let low = at.floor();
        let part = &at - &low;
        if mode != "cubic" {
            return vec![self.tap(&low, number(1.0) - &part), self.tap(&(low + 1.0), part)];
        }
        let near = |x: Tensor| (&(&x * 1.25 - 2.25) * &x) * &x + 1.0;
        let far = |x: Tensor| ((&x * -0.75 + 3.75) * &x - 6.0) * &x + 3.0;
        vec![
            self.tap(&(&low - 1.0), far(&part + 1.0)),
            self.tap(&low, near(part.clone())),
            self.tap(&(&low + 1.0), near(number(1.0) - &part)),
            self.tap(&(&low + 2.0), far(number(2.0) - &part)),
        ]
    }

    /// A whole place that can be read, and its weight: none outside, where that is zeros.
    fn tap(&self, at: &Tensor, weight: Tensor) -> (Tensor, Tensor) {
        let at = self.inside(at).round();
        let number = |value: f64| Tensor::scalar(at.dtype(), value);
        let last = number(self.size - 1.0);
        let is_there = at.greater_equal(&number(0.0)).and(&at.less_equal(&last));
        let weight = is_there.select(&weight, &weight.zeros_like());
        (at.maximum(&number(0.0)).minimum(&last).cast(DType::I64), weight)
    }
}

fn grid_sample(call: &Call<'_>) -> Answer {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let rank = x.rank().saturating_sub(2);
    let fits = rank > 0 && grid.rank() == x.rank() && grid.dim(-1) == rank && grid.dim(0) == x.dim(0);
    if !fits || rank > 3 || x.dims()[2..].contains(&0) {
        return Err(Error::damaged(format!("samples of {} at {}", x.spec(), grid.spec())));
    }
    let outside = match call.attributes.text("padding_mode", "zeros").as_str() {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(Error::damaged(format!("the padding `{other}`"))),
    };
    let mode = match call.attributes.text("mode", "linear").as_str() {
        "nearest" => "nearest",
        "cubic" | "bicubic" => "cubic",
        _ => "linear",
    };
    let is_aligned = call.attributes.int("align_corners", 0) != 0;
    let work = wide(x.dtype());
    let (batch, features) = (x.dims()[0], x.dims()[1]);
    let places: usize = grid.dims()[1..grid.rank() - 1].iter().product();
    let count: usize = x.dims()[2..].iter().product();
    let grid = cast(grid, work).reshape(&[batch, places, rank]);
    // All combinations of elements around a place: their number in the flat image, and their weight.
    let mut taps = vec![(Tensor::zeros(DType::I64, &[batch, places]), Tensor::ones(work, &[batch, places]))];
    for n in 0..rank {
        let size = x.dims()[2 + n] as f64;
        // The last axis of an image comes first in a grid.
        let at = grid.at(2, rank - 1 - n);
        let at = if is_aligned { (at + 1.0) * ((size - 1.0) / 2.0) } else { ((at + 1.0) * size - 1.0) / 2.0 };
        let limits = if is_aligned { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
        let own = Axis { size, outside, limits }.taps(&at, mode);
        let both = |(flat, weight): &(Tensor, Tensor)| {
            own.iter().map(|(at, part)| (flat * size + at, weight * part)).collect::<Vec<_>>()
        };
        taps = taps.iter().flat_map(both).collect();
    }
    let flat = cast(x, work).reshape(&[batch, features, count]);
    let dims = [batch, features, places];
    let mut sum = Tensor::zeros(work, &dims);
    for (at, weight) in taps {
        let values = flat.take_along(2, &at.broadcast_along(&dims, &[0, 2]));
        sum = sum + values * weight.broadcast_along(&dims, &[0, 2]);
    }
    let out: Vec<usize> = [&x.dims()[..2], &call.input(1)?.dims()[1..=rank]].concat();
    one(cast(&sum.reshape(&out), x.dtype()))
}

pub(super) const RULES: Rules = &[("GridSample", grid_sample)];
