//! Digits of the number of a partition, and what of a tensor they choose.

use crate::ir::sdy::{MeshAttr, TensorSharding};
use crate::ir::{TensorType, Type};

/// One digit of the number of a partition: `size` values, which lie `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digit {
    pub(super) stride: i64,
    pub(super) size: i64,
}

impl Digit {
    fn end(self) -> i64 {
        self.stride.saturating_mul(self.size)
    }

    fn overlaps(self, other: Digit) -> bool {
        self.stride < other.end() && other.stride < self.end()
    }

    /// The first `size` of its values, and the digit that is left of it.
    fn cut(self, size: i64) -> (Digit, Option<Digit>) {
        let rest = self.size / size;
        let first = Digit { stride: self.stride.saturating_mul(rest), size };
        (first, (rest > 1).then_some(Digit { stride: self.stride, size: rest }))
    }
}

/// Values that digits have together.
pub(super) fn parts(digits: &[Digit]) -> i64 {
    digits.iter().fold(1i64, |n, digit| n.saturating_mul(digit.size))
}

/// Appends a digit, major to minor; digits that follow each other become one.
pub(super) fn push(digits: &mut Vec<Digit>, digit: Digit) {
    match digits.last_mut() {
        Some(last) if last.stride == digit.end() => {
            *last = Digit { stride: digit.stride, size: last.size.saturating_mul(digit.size) };
        }
        _ => digits.push(digit),
    }
}

pub(super) fn overlap(a: &[Digit], b: &[Digit]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.overlaps(*y)))
}

/// What two lists begin with, and the rest of both.
pub(super) fn common(first: &[Digit], second: &[Digit]) -> (Vec<Digit>, Vec<Digit>, Vec<Digit>) {
    let (mut a, mut b): (Vec<Digit>, Vec<Digit>) =
        (first.iter().rev().copied().collect(), second.iter().rev().copied().collect());
    let mut shared = Vec::new();
    while let (Some(&x), Some(&y)) = (a.last(), b.last()) {
        let size = x.size.min(y.size);
        if x.end() != y.end() || x.size % size != 0 || y.size % size != 0 {
            break;
        }
        a.pop();
        b.pop();
        let (head, left) = x.cut(size);
        a.extend(left);
        b.extend(y.cut(size).1);
        push(&mut shared, head);
    }
    a.reverse();
    b.reverse();
    (shared, a, b)
}

/// The longest beginning that divides a size, what is left of the list, and what is left of the size.
pub(super) fn dividing(digits: &[Digit], size: i64) -> (Vec<Digit>, Vec<Digit>, i64) {
    let (mut taken, mut rest, mut left) = (Vec::new(), Vec::new(), size.max(0));
    for (n, &digit) in digits.iter().enumerate() {
        let part = greatest(left, digit.size);
        if left == 0 || part <= 1 {
            rest.extend(&digits[n..]);
            break;
        }
        let (head, more) = digit.cut(part);
        push(&mut taken, head);
        left /= part;
        if let Some(more) = more {
            rest.push(more);
            rest.extend(&digits[n + 1..]);
            break;
        }
    }
    (taken, rest, left)
}

fn greatest(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The beginning of a list before the first digit that overlaps one in use.
pub(super) fn unused(digits: &[Digit], used: &[Digit]) -> Vec<Digit> {
    digits.iter().copied().take_while(|digit| !overlap(&[*digit], used)).collect()
}

/// What a list has beyond another, major to minor; `None` where digits are cut at places that do not fit.
pub(super) fn beyond(digits: &[Digit], without: &[Digit]) -> Option<Vec<Digit>> {
    let mut pieces = digits.to_vec();
    for &other in without {
        let mut next = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if !piece.overlaps(other) {
                next.push(piece);
                continue;
            }
            if piece.end() > other.end() {
                let size = piece.end() / other.end();
                if other.end().checked_mul(size) != Some(piece.end()) {
                    return None;
                }
                next.push(Digit { stride: other.end(), size });
            }
            if piece.stride < other.stride {
                let size = other.stride / piece.stride;
                if piece.stride.checked_mul(size) != Some(other.stride) {
                    return None;
                }
                next.push(Digit { stride: piece.stride, size });
            }
        }
        pieces = next;
    }
    Some(ordered(pieces))
}

/// Digits of a set, major to minor.
pub(super) fn ordered(mut digits: Vec<Digit>) -> Vec<Digit> {
    digits.sort_by_key(|digit| std::cmp::Reverse(digit.stride));
    let mut out = Vec::with_capacity(digits.len());
    digits.into_iter().for_each(|digit| push(&mut out, digit));
    out
}

/// What one partition holds of a tensor: the digits that choose its part along each dimension, and those along which it
/// holds a summand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) dims: Vec<Vec<Digit>>,
    pub(super) unreduced: Vec<Digit>,
}

impl Held {
    /// All of a tensor.
    pub(super) fn whole(rank: usize) -> Held {
        Held { dims: vec![Vec::new(); rank], unreduced: Vec::new() }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.unreduced.is_empty() && self.dims.iter().all(Vec::is_empty)
    }

    /// The type of a part; `None` where a dimension does not split evenly.
    pub(super) fn part(&self, ty: &Type) -> Option<Type> {
        let Type::Tensor(tensor) = ty else { return self.is_whole().then(|| ty.clone()) };
        if self.dims.iter().all(Vec::is_empty) {
            return Some(ty.clone());
        }
        let dim = |(&size, digits): (&i64, &Vec<Digit>)| {
            let parts = parts(digits);
            (size >= 0 && size % parts == 0).then_some(size / parts)
        };
        let dims = tensor.dims.iter().zip(&self.dims).map(dim).collect::<Option<Vec<_>>>()?;
        Some(TensorType { dims, ..(**tensor).clone() }.into())
    }

    /// What a sharding says; `None` where it does not fit the tensor or the partitions.
    pub(super) fn of(sharding: &TensorSharding, mesh: &MeshAttr, sizes: &[i64], count: i64) -> Option<Held> {
        if mesh.axes.is_empty() {
            return Some(Held::whole(sizes.len()));
        }
        if mesh.device_count() != Some(count) || !mesh.device_ids.is_empty() || sharding.dims.len() != sizes.len() {
            return None;
        }
        let list = |axes: &[crate::ir::dims::AxisRef]| {
            let mut digits = Vec::new();
            for axis in axes {
                let at = mesh.axes.iter().position(|(name, _)| *name == axis.name)?;
                let below = mesh.axes[at + 1..].iter().fold(1i64, |n, (_, size)| n.saturating_mul(*size));
                let whole = mesh.axes[at].1;
                let (pre, size) = axis.sub_axis.unwrap_or((1, whole));
                let used = pre.checked_mul(size).filter(|&used| used > 0 && pre > 0 && whole % used == 0)?;
                if size > 1 {
                    push(&mut digits, Digit { stride: below.saturating_mul(whole / used), size });
                }
            }
            Some(digits)
        };
        let mut dims = Vec::with_capacity(sizes.len());
        for (dim, &size) in sharding.dims.iter().zip(sizes) {
            dims.push(dividing(&list(&dim.axes)?, size).0);
        }
        Some(Held { dims, unreduced: ordered(list(&sharding.unreduced)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digit(stride: i64, size: i64) -> Digit {
        Digit { stride, size }
    }

    #[test]
    fn digits_are_cut_and_joined() {
        let mut joined = vec![digit(4, 2)];
        push(&mut joined, digit(1, 4));
        assert_eq!(joined, [digit(1, 8)]);
        assert_eq!(dividing(&joined, 4), (vec![digit(2, 4)], vec![digit(1, 2)], 1));
        assert_eq!(dividing(&joined, 12), (vec![digit(2, 4)], vec![digit(1, 2)], 3));
        assert_eq!(common(&joined, &[digit(4, 2)]), (vec![digit(4, 2)], vec![digit(1, 4)], vec![]));
        assert_eq!(common(&[digit(1, 2)], &[digit(4, 2)]).0, []);
        assert_eq!(beyond(&joined, &[digit(2, 2)]), Some(vec![digit(4, 2), digit(1, 2)]));
        assert_eq!(beyond(&[digit(1, 6)], &[digit(1, 4)]), None);
        assert!(overlap(&joined, &[digit(2, 2)]) && !overlap(&[digit(1, 2)], &[digit(2, 4)]));
    }
}
