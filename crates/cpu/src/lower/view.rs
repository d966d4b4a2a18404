//! Views: arrays that are other arrays read in another order, so that reshapes, broadcasts and slices cost nothing.

use hlo::{Func, Op, OpKind, OpName, Type};
use tensor::DType;

use crate::attributes;
use crate::interpret::storage;
use crate::memory::Packing;
use crate::program::Slot;

/// An array as strides over a slot: element `i` is at `offset + Σ i[d]·strides[d]`, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) slot: Slot,
    pub(crate) dtype: DType,
    pub(crate) packing: Packing,
    pub(crate) dims: Vec<usize>,
    pub(crate) offset: isize,
    pub(crate) strides: Vec<isize>,
}

/// Strides of a dense array.
pub(crate) fn row_major(dims: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; dims.len()];
    for d in (0..dims.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * dims[d + 1] as isize;
    }
    strides
}

impl View {
    /// A whole slot.
    pub(crate) fn dense(slot: Slot, dtype: DType, dims: Vec<usize>) -> View {
        View { slot, dtype, packing: Packing::Bytes, offset: 0, strides: row_major(&dims), dims }
    }

    pub(crate) fn num_elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether its elements lie one after another from the start of the slot.
    pub(crate) fn is_dense(&self) -> bool {
        let expected = row_major(&self.dims);
        self.offset == 0
            && (self.num_elements() <= 1
                || self.dims.iter().zip(&self.strides).zip(&expected).all(|((&d, s), e)| d == 1 || s == e))
    }

    /// The array with other sizes, where strides can say it.
    pub(crate) fn reshape(&self, dims: &[usize]) -> Option<View> {
        let mut strides = vec![0; dims.len()];
        if self.num_elements() == 0 {
            return Some(View { dims: dims.to_vec(), strides, ..self.clone() });
        }
        // Factors of equal size on both sides, outermost first; sizes of 1 belong to none.
        let (mut from, mut to) = (0, 0);
        while from < self.dims.len() || to < dims.len() {
            if from < self.dims.len() && self.dims[from] == 1 {
                from += 1;
                continue;
            }
            if to < dims.len() && dims[to] == 1 {
                to += 1;
                continue;
            }
            let (first_from, first_to) = (from, to);
            let (mut size_from, mut size_to) = (*self.dims.get(from)?, *dims.get(to)?);
            (from, to) = (from + 1, to + 1);
            while size_from != size_to {
                if size_from < size_to {
                    size_from *= self.dims.get(from)?;
                    from += 1;
                } else {
                    size_to *= dims.get(to)?;
                    to += 1;
                }
            }
            // The sizes of this factor must lie as one run of equal steps.
            let inner: Vec<usize> = (first_from..from).filter(|&d| self.dims[d] != 1).collect();
            for pair in inner.windows(2) {
                if self.strides[pair[0]] != self.strides[pair[1]] * self.dims[pair[1]] as isize {
                    return None;
                }
            }
            let mut step = self.strides[*inner.last()?];
            for d in (first_to..to).rev() {
                strides[d] = step;
                step *= dims[d] as isize;
            }
        }
        Some(View { dims: dims.to_vec(), strides, ..self.clone() })
    }

    /// Dimensions `from..to` as one, where they lie as one run of equal steps.
    pub(crate) fn merged(&self, from: usize) -> Option<View> {
        let mut dims = self.dims[..from].to_vec();
        dims.push(self.dims[from..].iter().product());
        self.reshape(&dims).or_else(|| {
            // A broadcast over all of them.
            let tail = &self.strides[from..];
            tail.iter().zip(&self.dims[from..]).all(|(&s, &d)| s == 0 || d == 1).then(|| {
                let mut strides = self.strides[..from].to_vec();
                strides.push(0);
                View { dims, strides, ..self.clone() }
            })
        })
    }
}

/// Sizes of a static tensor type.
pub(crate) fn sizes(ty: &Type) -> Option<Vec<usize>> {
    ty.as_tensor()?.dims.iter().map(|&d| usize::try_from(d).ok()).collect()
}

/// Type and sizes of a static tensor.
pub(crate) fn array_type(ty: &Type) -> Option<(DType, Vec<usize>)> {
    Some((storage(&ty.as_tensor()?.element), sizes(ty)?))
}

/// Whether an op gives a view of its operand of the same number (the first, except where an op passes several through).
pub(crate) fn is_transparent(func: &Func, op: &Op) -> bool {
    let width = |n: usize| {
        let value = if n == 0 { op.operands.first().copied() } else { Some(op.first_result) };
        value.and_then(|v| func.ty(v).as_tensor()).map(|ty| storage(&ty.element))
    };
    match &op.name {
        OpName::Known(kind) => match kind {
            OpKind::Reshape
            | OpKind::BroadcastInDim
            | OpKind::Broadcast
            | OpKind::Transpose
            | OpKind::Slice
            | OpKind::Reverse
            | OpKind::OptimizationBarrier
            | OpKind::SdyShardingConstraint
            | OpKind::SdyReshard => true,
            OpKind::Convert => width(0) == width(1),
            OpKind::BitcastConvert => match (width(0), width(1)) {
                (Some(a), Some(b)) => a.bits() == b.bits() && a.bits() >= 8 && !a.is_complex() && !b.is_complex(),
                _ => false,
            },
            _ => false,
        },
        OpName::Extern(name) => {
            &**name == "builtin.unrealized_conversion_cast" && op.operands.len() == op.num_results as usize
        }
    }
}

/// The result of a transparent op as a view, given that of its operand; `None` where strides cannot say it.
pub(crate) fn through(func: &Func, op: &Op, result: hlo::Value, operand: &View) -> Option<View> {
    let (dtype, dims) = array_type(func.ty(result))?;
    let Some(kind) = op.kind() else { return Some(operand.clone()) };
    let ints = |name: &str| attributes::ints(op, name).ok();
    let view = match kind {
        OpKind::Reshape => operand.reshape(&dims)?,
        OpKind::BroadcastInDim => {
            let along = ints("broadcast_dimensions")?;
            let mut strides = vec![0; dims.len()];
            for (d, &to) in along.iter().enumerate() {
                if operand.dims[d] == dims[to as usize] {
                    strides[to as usize] = operand.strides[d];
                }
            }
            View { dims, strides, ..operand.clone() }
        }
        OpKind::Broadcast => {
            let leading = dims.len() - operand.dims.len();
            let strides = std::iter::repeat_n(0, leading).chain(operand.strides.iter().copied()).collect();
            View { dims, strides, ..operand.clone() }
        }
        OpKind::Transpose => {
            let order = ints("permutation")?;
            let strides = order.iter().map(|&d| operand.strides[d as usize]).collect();
            View { dims, strides, ..operand.clone() }
        }
        OpKind::Slice => {
            let (start, step) = (ints("start_indices")?, ints("strides")?);
            let offset: isize = start.iter().zip(&operand.strides).map(|(&s, &t)| s as isize * t).sum();
            // A step that is not taken may be any number.
            let taken = step.iter().zip(&dims).map(|(&s, &size)| if size > 1 { s as isize } else { 1 });
            let strides = taken.zip(&operand.strides).map(|(s, &t)| s * t).collect();
            let offset = if dims.contains(&0) { 0 } else { operand.offset + offset };
            View { dims, strides, offset, ..operand.clone() }
        }
        OpKind::Reverse => {
            let mut view = operand.clone();
            for d in ints("dimensions")? {
                let d = d as usize;
                if view.dims[d] > 0 {
                    view.offset += view.strides[d] * (view.dims[d] as isize - 1);
                    view.strides[d] = -view.strides[d];
                }
            }
            view
        }
        _ => operand.clone(),
    };
    Some(View { dtype, ..view })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dims: &[usize], strides: &[isize], to: &[usize], expected: Option<&[isize]>) {
        let view = View { strides: strides.to_vec(), ..View::dense(Slot(0), DType::F32, dims.to_vec()) };
        assert_eq!(view.reshape(to).map(|v| v.strides), expected.map(<[isize]>::to_vec));
    }

    #[test]
    fn a_reshape_is_a_view_where_runs_stay_whole() {
        check(&[2, 3, 4], &[12, 4, 1], &[6, 4], Some(&[4, 1]));
        check(&[6, 4], &[4, 1], &[2, 3, 4], Some(&[12, 4, 1]));
        check(&[4, 6], &[1, 4], &[24], None);
        check(&[4, 6], &[1, 4], &[4, 2, 3], Some(&[1, 12, 4]));
        check(&[1, 6], &[0, 1], &[6, 1], Some(&[1, 0]));
        check(&[3, 4], &[0, 1], &[12], None);
        check(&[3, 4], &[0, 1], &[1, 3, 4], Some(&[0, 0, 1]));
        check(&[1, 1], &[7, 7], &[1], Some(&[0]));
    }
}
