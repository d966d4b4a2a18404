//! Reductions over moving windows: pooling and cumulative sums.

use std::panic::Location;
use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, OpKind, TensorType};
use tensor::DType;

use crate::error::misuse;
use crate::graph::Combine;
use crate::line;
use crate::ops::shape::usizes;
use crate::ops::{attrs, i64s, only, write};
use crate::tensor::Tensor;

/// A window over all axes of a tensor; lists have one entry an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sizes.
    pub dims: Vec<usize>,
    /// Steps.
    pub strides: Vec<usize>,
    /// Padding before and after.
    pub padding: Vec<(i64, i64)>,
}

impl Window {
    /// A window of these sizes that steps by its own size, without padding.
    pub fn new(dims: &[usize]) -> Window {
        Window { dims: dims.to_vec(), strides: dims.to_vec(), padding: vec![(0, 0); dims.len()] }
    }

    /// A window over the spatial axes of `[batch, spatial…, features]`.
    pub fn spatial(sizes: &[usize], strides: &[usize], padding: &[(i64, i64)]) -> Window {
        let around = |inner: &[usize]| std::iter::once(1).chain(inner.iter().copied()).chain([1]).collect();
        let mut pads = vec![(0, 0)];
        pads.extend(padding);
        pads.push((0, 0));
        Window { dims: around(sizes), strides: around(strides), padding: pads }
    }

    fn padding_attr(padding: &[(i64, i64)]) -> Attr {
        let bytes: Vec<u8> =
            padding.iter().flat_map(|&(low, high)| [low.to_le_bytes(), high.to_le_bytes()]).flatten().collect();
        match Dense::from_elements(TensorType::new(vec![padding.len() as i64, 2], DType::I64), bytes) {
            Some(dense) => Attr::Dense(Arc::new(dense)),
            None => Attr::Unit,
        }
    }
}

impl Tensor {
    #[track_caller]
    fn reduce_window(&self, combine: Combine, init: &Tensor, window: &Window) -> Tensor {
        if window.dims.len() != self.rank()
            || window.strides.len() != self.rank()
            || window.padding.len() != self.rank()
        {
            misuse(Location::caller(), format!("a window over {} axes on {}", window.dims.len(), self.spec()));
        }
        let attrs = attrs([
            ("window_dimensions", i64s(&window.dims)),
            ("window_strides", i64s(&window.strides)),
            ("padding", Window::padding_attr(&window.padding)),
        ]);
        only(write((OpKind::ReduceWindow, attrs, Some(combine)), &[self, init], None))
    }

    /// Sums over windows.
    #[track_caller]
    #[must_use]
    pub fn window_sum(&self, window: &Window) -> Tensor {
        self.reduce_window(Combine::Add, &self.scalar_like(0.0), window)
    }

    /// Largest of each window.
    #[track_caller]
    #[must_use]
    pub fn window_max(&self, window: &Window) -> Tensor {
        self.reduce_window(Combine::Maximum, &self.scalar_like(f64::NEG_INFINITY), window)
    }

    /// Smallest of each window.
    #[track_caller]
    #[must_use]
    pub fn window_min(&self, window: &Window) -> Tensor {
        self.reduce_window(Combine::Minimum, &self.scalar_like(f64::INFINITY), window)
    }

    /// Mean over windows, of the elements that are there.
    #[track_caller]
    #[must_use]
    pub fn window_mean(&self, window: &Window) -> Tensor {
        let count = self.full_like(1.0).window_sum(window);
        self.window_sum(window) / count
    }

    /// Sums of everything up to each position of an axis.
    #[track_caller]
    #[must_use]
    pub fn cumulative_sum(&self, axis: isize) -> Tensor {
        let axis = self.axis(axis);
        let size = self.dims()[axis];
        if size == 0 {
            return self.clone();
        }
        let mut window =
            Window { dims: vec![1; self.rank()], strides: vec![1; self.rank()], padding: vec![(0, 0); self.rank()] };
        window.dims[axis] = size;
        window.padding[axis] = (size as i64 - 1, 0);
        self.window_sum(&window)
    }

    /// Products of everything up to each position of an axis.
    #[track_caller]
    #[must_use]
    pub fn cumulative_product(&self, axis: isize) -> Tensor {
        let _line = line::of(Location::caller());
        self.cumulative(axis, 1.0, |sofar, shifted| sofar * shifted)
    }

    /// Largest of everything up to each position of an axis.
    #[track_caller]
    #[must_use]
    pub fn cumulative_max(&self, axis: isize) -> Tensor {
        let _line = line::of(Location::caller());
        self.cumulative(axis, f64::NEG_INFINITY, |sofar, shifted| sofar.maximum(shifted))
    }

    /// Doubles the reach of each position until it covers the axis.
    #[track_caller]
    fn cumulative(&self, axis: isize, neutral: f64, combine: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
        let axis = self.axis(axis);
        let mut sofar = self.clone();
        let mut reach = 1;
        while reach < self.dims()[axis] {
            let (mut low, mut high) = (vec![0; self.rank()], vec![0; self.rank()]);
            (low[axis], high[axis]) = (reach as i64, -(reach as i64));
            let shifted = sofar.pad_all(&self.scalar_like(neutral), &low, &high, &vec![0; self.rank()]);
            sofar = combine(&sofar, &shifted);
            reach *= 2;
        }
        sofar
    }
}

/// The window of a node.
fn window_of(attrs: &Attrs, rank: usize) -> Window {
    let list = |name: &str| {
        let values = usizes(attrs, name);
        if values.is_empty() { vec![1; rank] } else { values }
    };
    let padding = match attrs.get("padding") {
        Some(Attr::Dense(dense)) => dense.to_i64s(2 * rank).unwrap_or_default(),
        _ => Vec::new(),
    };
    Window {
        dims: list("window_dimensions"),
        strides: list("window_strides"),
        padding: if padding.is_empty() {
            vec![(0, 0); rank]
        } else {
            padding.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        },
    }
}

/// The cotangent of the operand of a reduction over windows.
pub(crate) fn transposed(attrs_: &Attrs, combine: Option<Combine>, x: &Tensor, ct: &Tensor) -> Option<Tensor> {
    let window = window_of(attrs_, x.rank());
    match combine? {
        Combine::Add => {
            // Each element of x is in the windows around it: the same reduction over the spread-out cotangent.
            let interior: Vec<i64> = window.strides.iter().map(|&stride| stride as i64 - 1).collect();
            let (mut low, mut high) = (Vec::new(), Vec::new());
            for axis in 0..x.rank() {
                let spread = (ct.dims()[axis] as i64 - 1).max(0) * window.strides[axis] as i64 + 1;
                let before = window.dims[axis] as i64 - 1 - window.padding[axis].0;
                low.push(before);
                high.push(x.dims()[axis] as i64 + window.dims[axis] as i64 - 1 - before - spread);
            }
            let padded = ct.pad_all(&ct.scalar_like(0.0), &low, &high, &interior);
            let sliding = Window { strides: vec![1; x.rank()], padding: vec![(0, 0); x.rank()], ..window };
            Some(padded.window_sum(&sliding))
        }
        combine @ (Combine::Maximum | Combine::Minimum) => {
            let attrs = attrs([
                ("window_dimensions", i64s(&window.dims)),
                ("window_strides", i64s(&window.strides)),
                ("padding", Window::padding_attr(&window.padding)),
            ]);
            let zero = x.scalar_like(0.0);
            Some(only(write((OpKind::SelectAndScatter, attrs, Some(combine)), &[x, ct, &zero], None)))
        }
        _ => None,
    }
}

/// What stands at the place of the extreme of each window: `values` read where `x` is largest or smallest.
pub(crate) fn selected(attrs_: &Attrs, combine: Option<Combine>, x: &Tensor, values: &Tensor) -> Option<Tensor> {
    let window = window_of(attrs_, x.rank());
    let (combine, worst) = match combine? {
        Combine::Maximum => (Combine::ArgMaximum, f64::NEG_INFINITY),
        Combine::Minimum => (Combine::ArgMinimum, f64::INFINITY),
        _ => return None,
    };
    let flat = Tensor::iota(DType::I32, &[x.num_elements()], 0).reshape(x.dims());
    let attrs = attrs([
        ("window_dimensions", i64s(&window.dims)),
        ("window_strides", i64s(&window.strides)),
        ("padding", Window::padding_attr(&window.padding)),
    ]);
    // Padding loses against every element.
    let starts = [x.scalar_like(worst), Tensor::scalar(DType::I32, f64::from(i32::MAX))];
    let mut found = write((OpKind::ReduceWindow, attrs, Some(combine)), &[x, &flat, &starts[0], &starts[1]], None);
    let places = found.pop()?;
    Some(values.reshape(&[x.num_elements()]).take(0, &places))
}

/// The cotangent of operand `n` of the op that scatters to the extremes of windows.
pub(crate) fn selection_transposed(
    attrs: &Attrs,
    combine: Option<Combine>,
    ins: &[Tensor],
    n: usize,
    ct: &Tensor,
) -> Option<Tensor> {
    if n == 1 { selected(attrs, combine, &ins[0], ct) } else { None }
}

/// Attributes of an op over windows with the axis of a batch in front.
pub(crate) fn batched(attrs: &Attrs) -> Attrs {
    let rank = usizes(attrs, "window_dimensions").len();
    let mut window = window_of(attrs, rank);
    window.dims.insert(0, 1);
    window.strides.insert(0, 1);
    window.padding.insert(0, (0, 0));
    let mut attrs = attrs.clone();
    attrs.set("window_dimensions", i64s(&window.dims));
    attrs.set("window_strides", i64s(&window.strides));
    attrs.set("padding", Window::padding_attr(&window.padding));
    attrs
}
