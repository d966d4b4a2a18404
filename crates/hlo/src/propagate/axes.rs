//! Axes of a mesh and lists of them: what one dimension of a tensor is split along, major to minor.

/// A mesh axis or a part of one: `size` of its places, below `pre` larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) index: usize,
    pub(super) pre: i64,
    pub(super) size: i64,
}

impl Axis {
    fn overlaps(self, other: Axis) -> bool {
        self.index == other.index && self.pre < other.end() && other.pre < self.end()
    }

    fn end(self) -> i64 {
        self.pre.saturating_mul(self.size)
    }
}

/// Number of parts a list of axes makes.
pub(super) fn parts(axes: &[Axis]) -> i64 {
    axes.iter().fold(1i64, |n, axis| n.saturating_mul(axis.size))
}

/// Appends an axis; parts of one axis that follow each other become one.
pub(super) fn push(axes: &mut Vec<Axis>, axis: Axis) {
    match axes.last_mut() {
        Some(last) if last.index == axis.index && last.end() == axis.pre => {
            last.size = last.size.saturating_mul(axis.size);
        }
        _ => axes.push(axis),
    }
}

/// The first part of two axes that both begin with, if there is one.
fn shared(a: Axis, b: Axis) -> Option<Axis> {
    if a.index != b.index || a.pre != b.pre {
        return None;
    }
    let size = a.size.min(b.size);
    (size > 1 && a.size % size == 0 && b.size % size == 0).then_some(Axis { size, ..a })
}

/// Which of two lists is over where they differ.
pub(super) struct Common {
    /// Whether the first list is over there.
    pub(super) ends_first: bool,
    /// Whether the second is.
    pub(super) ends_second: bool,
}

pub(super) fn common(first: &[Axis], second: &[Axis]) -> Common {
    let (mut a, mut b) = (first.iter().copied(), second.iter().copied());
    let (mut left, mut right) = (a.next(), b.next());
    while let (Some(x), Some(y)) = (left, right) {
        let Some(both) = shared(x, y) else { break };
        let rest = |axis: Axis| {
            (axis.size > both.size).then(|| Axis {
                index: axis.index,
                pre: axis.pre.saturating_mul(both.size),
                size: axis.size / both.size,
            })
        };
        left = rest(x).or_else(|| a.next());
        right = rest(y).or_else(|| b.next());
    }
    Common { ends_first: left.is_none(), ends_second: right.is_none() }
}

/// Whether the second list begins with the first.
pub(super) fn is_prefix(first: &[Axis], second: &[Axis]) -> bool {
    common(first, second).ends_first
}

/// The longest beginning that has nothing in common with axes in use.
pub(super) fn without_overlap(axes: &[Axis], used: &[Axis]) -> Vec<Axis> {
    let mut kept = Vec::new();
    for &axis in axes {
        let first = used.iter().filter(|other| other.overlaps(axis)).map(|other| other.pre).min();
        match first {
            None => push(&mut kept, axis),
            Some(pre) => {
                if pre > axis.pre && pre % axis.pre == 0 && axis.size % (pre / axis.pre) == 0 {
                    push(&mut kept, Axis { size: pre / axis.pre, ..axis });
                }
                break;
            }
        }
    }
    kept
}

/// The longest beginning that splits `size` evenly, and what is left of both.
pub(super) fn dividing(axes: &[Axis], size: i64) -> (Vec<Axis>, Vec<Axis>, i64) {
    let (mut taken, mut rest, mut left) = (Vec::new(), Vec::new(), size);
    for (n, &axis) in axes.iter().enumerate() {
        let part = gcd(left, axis.size);
        if part > 1 {
            push(&mut taken, Axis { size: part, ..axis });
            left /= part;
        }
        if part != axis.size {
            let pre = axis.pre.saturating_mul(part.max(1));
            rest.push(Axis { index: axis.index, pre, size: axis.size / part.max(1) });
            rest.extend(&axes[n + 1..]);
            break;
        }
    }
    (taken, rest, left)
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(index: usize, pre: i64, size: i64) -> Axis {
        Axis { index, pre, size }
    }

    #[test]
    fn lists_are_compared_through_parts_of_axes() {
        let (x, y) = (axis(0, 1, 4), axis(1, 1, 2));
        let half = axis(0, 1, 2);
        let found = common(&[x, y], &[half]);
        assert_eq!((found.ends_first, found.ends_second), (false, true));
        assert!(is_prefix(&[half], &[x]) && !is_prefix(&[y], &[x]) && is_prefix(&[], &[x]));
        assert_eq!(without_overlap(&[y, x], &[axis(0, 2, 2)]), [y, half]);
        assert_eq!(without_overlap(&[x, y], &[y]), [x]);
    }

    #[test]
    fn an_axis_is_cut_where_a_size_is() {
        let x = axis(0, 1, 4);
        assert_eq!(dividing(&[x], 2), (vec![axis(0, 1, 2)], vec![axis(0, 2, 2)], 1));
        assert_eq!(dividing(&[x], 8), (vec![x], vec![], 2));
        assert_eq!(dividing(&[x], 3), (vec![], vec![x], 3));
        let mut joined = vec![axis(0, 1, 2)];
        push(&mut joined, axis(0, 2, 2));
        assert_eq!(joined, [x]);
    }
}
