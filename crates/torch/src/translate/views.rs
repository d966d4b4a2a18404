//! Views of tensors: how a view is read from its base, and how a write to it changes the base.

use hlo::dims::ScatterDims;
use tensor::{DType, Literal};
use trace::{Tensor, Update};

use crate::error::Error;

/// One step from a tensor to a view of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The same elements in another shape.
    Reshape(Vec<usize>),
    /// Axes in another order.
    Transpose(Vec<usize>),
    /// Every `step`-th position of an axis, from `start` to before `end`.
    Slice { axis: usize, start: usize, end: usize, step: usize },
    /// Elements repeated: reads only.
    Expand(Vec<usize>),
    /// Elements at these places, counted row by row.
    Places { places: Vec<i64>, dims: Vec<usize> },
    /// The bits as another type.
    Bits(DType),
    /// The real parts of complex numbers.
    Real,
    /// The imaginary parts of complex numbers.
    Imaginary,
    /// Complex numbers as pairs in a last axis.
    AsReal,
    /// Pairs in a last axis as complex numbers.
    AsComplex,
}

impl View {
    pub(crate) fn read(&self, base: &Tensor) -> Result<Tensor, Error> {
        Ok(match self {
            View::Reshape(dims) => {
                let count: Option<usize> = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
                if count != Some(base.num_elements()) {
                    return Err(Error::damaged(format!("{} cannot have the shape {dims:?}", base.spec())));
                }
                base.reshape(dims)
            }
            View::Transpose(order) => base.transpose(order),
            View::Slice { axis, start, end, step } => {
                let size = base.dims().get(*axis).copied().unwrap_or(0);
                if *end > size || start > end || *step == 0 {
                    return Err(Error::damaged(format!("positions {start} to {end} of {}", base.spec())));
                }
                base.slice_by(*axis as isize, *start..*end, *step)
            }
            View::Expand(dims) => base.broadcast_to(dims),
            View::Places { places, dims } => {
                let at = Tensor::constant(&Literal::from_slice(places, [places.len()])?);
                base.reshape(&[base.num_elements()]).take(0, &at).reshape(dims)
            }
            View::Bits(dtype) => bits(base, *dtype)?,
            View::Real => base.real(),
            View::Imaginary => base.imag(),
            View::AsReal => Tensor::stack(&[base.real(), base.imag()], -1),
            View::AsComplex => as_complex(base)?,
        })
    }

    /// The base after the view became `new`.
    pub(crate) fn written(&self, base: &Tensor, new: &Tensor) -> Result<Tensor, Error> {
        Ok(match self {
            View::Reshape(_) => new.reshape(base.dims()),
            View::Transpose(order) => {
                let mut back = vec![0; order.len()];
                for (to, from) in order.iter().enumerate() {
                    if let Some(place) = back.get_mut(*from) {
                        *place = to;
                    }
                }
                new.transpose(&back)
            }
            View::Slice { axis, start, end, step: 1 } => {
                let (at, size) = (*axis as isize, base.dim(*axis as isize));
                let before = (*start > 0).then(|| base.slice(at, 0..*start));
                let after = (*end < size).then(|| base.slice(at, *end..size));
                let parts: Vec<Tensor> = before.into_iter().chain([new.clone()]).chain(after).collect();
                Tensor::concat(&parts, at)
            }
            View::Slice { axis, start, step, .. } => {
                let size = base.dim(*axis as isize);
                let mut low = vec![0i64; base.rank()];
                let (mut high, mut between) = (low.clone(), low.clone());
                let count = new.dim(*axis as isize);
                let last = start + count.saturating_sub(1) * step;
                low[*axis] = *start as i64;
                between[*axis] = *step as i64 - 1;
                high[*axis] = size as i64 - 1 - last as i64;
                let spread = new.pad_all(&Tensor::scalar(new.dtype(), 0.0), &low, &high, &between);
                let ones = Tensor::ones(DType::I32, new.dims());
                let taken = ones.pad_all(&Tensor::scalar(DType::I32, 0.0), &low, &high, &between);
                taken.differs(&Tensor::scalar(DType::I32, 0.0)).select(&spread, base)
            }
            View::Places { places, .. } => {
                let mut once = places.clone();
                once.sort_unstable();
                if once.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(overlapping());
                }
                let at = Tensor::constant(&Literal::from_slice(places, [places.len(), 1])?);
                let dims = ScatterDims {
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                    ..ScatterDims::default()
                };
                let (flat, values) = (base.reshape(&[base.num_elements()]), new.reshape(&[places.len()]));
                flat.scatter(&at, &values, dims, Update::Set).reshape(base.dims())
            }
            View::Bits(_) => bits(new, base.dtype())?,
            View::Real => new.complex(&base.imag()),
            View::Imaginary => base.real().complex(new),
            View::AsReal => as_complex(new)?,
            View::AsComplex => Tensor::stack(&[new.real(), new.imag()], -1),
            View::Expand(dims) if dims.iter().product::<usize>() == base.num_elements() => new.reshape(base.dims()),
            View::Expand(_) => return Err(overlapping()),
        })
    }
}

fn overlapping() -> Error {
    Error::new(
        "it writes to an expanded tensor, whose elements lie on each other",
        "clone the tensor before it is written to",
    )
}

/// The same bits; the last axis grows or shrinks with the width of the type.
fn bits(x: &Tensor, dtype: DType) -> Result<Tensor, Error> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    let (from, to) = (x.dtype().size_bytes(), dtype.size_bytes());
    if x.dtype() == DType::Bool || dtype == DType::Bool || x.dtype().is_complex() || dtype.is_complex() {
        return Err(Error::new(
            format!("the bits of {} as {dtype} are not translated", x.dtype()),
            "convert the values with `to` in place of `view`",
        ));
    }
    let last = x.dims().last().copied().unwrap_or(1);
    let (large, small) = (from.max(to), from.min(to));
    let by = large.checked_div(small).unwrap_or(0);
    if by == 0 || large % small != 0 || (to > from && last % by != 0) || (from != to && x.rank() == 0) {
        return Err(Error::damaged(format!("the bits of {} as {dtype}", x.spec())));
    }
    let mut dims = x.dims().to_vec();
    dims.pop();
    Ok(match from.cmp(&to) {
        std::cmp::Ordering::Equal => x.bitcast(dtype),
        // Each element becomes several in a new last axis, the lowest bits first.
        std::cmp::Ordering::Greater => {
            let parts = x.bitcast(dtype);
            dims.push(last * by);
            parts.reshape(&dims)
        }
        std::cmp::Ordering::Less => {
            dims.extend([last / by, by]);
            x.reshape(&dims).bitcast(dtype)
        }
    })
}

fn as_complex(x: &Tensor) -> Result<Tensor, Error> {
    match x.dims().last() {
        Some(2) => Ok(x.at(-1, 0).complex(&x.at(-1, 1))),
        _ => Err(Error::damaged(format!("complex numbers of {}", x.spec()))),
    }
}

/// Whether another shape of a tensor with these strides is a view of it, as PyTorch decides: axes merge where they lie behind each other.
pub(crate) fn is_reshape_view(dims: &[i64], strides: &[i64], new: &[usize]) -> bool {
    if dims.contains(&0) || dims.is_empty() || dims.len() != strides.len() {
        return true;
    }
    let mut at = new.len();
    let (mut step, mut own, mut theirs) = (strides[strides.len() - 1], 1i64, 1i64);
    for axis in (0..dims.len()).rev() {
        own = own.saturating_mul(dims[axis]);
        let is_end = axis == 0 || (dims[axis - 1] != 1 && strides[axis - 1] != own.saturating_mul(step));
        if !is_end {
            continue;
        }
        while at > 0 && (theirs < own || new[at - 1] == 1) {
            theirs = theirs.saturating_mul(new[at - 1] as i64);
            at -= 1;
        }
        if theirs != own {
            return false;
        }
        if axis > 0 {
            (step, own, theirs) = (strides[axis - 1], 1, 1);
        }
    }
    at == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_are_views_where_axes_lie_behind_each_other() {
        // [2, 3, 4] row by row.
        assert!(is_reshape_view(&[2, 3, 4], &[12, 4, 1], &[6, 4]));
        assert!(is_reshape_view(&[2, 3, 4], &[12, 4, 1], &[24]));
        // Transposed: only axes that were not parted merge.
        assert!(!is_reshape_view(&[3, 2, 4], &[4, 12, 1], &[6, 4]));
        assert!(is_reshape_view(&[3, 2, 4], &[4, 12, 1], &[3, 2, 2, 2]));
        // A slice of the last axis.
        assert!(!is_reshape_view(&[2, 3, 2], &[12, 4, 1], &[2, 6]));
        assert!(is_reshape_view(&[2, 3, 2], &[12, 4, 1], &[6, 2]));
        // Expanded.
        assert!(!is_reshape_view(&[2, 3], &[1, 0], &[6]));
        assert!(is_reshape_view(&[], &[], &[1, 1]));
    }
}
