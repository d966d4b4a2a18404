//! `reshape`: dimensions that are split or joined share factors.

use super::{Factor, FactorKind, Manner, Rule};

/// Cuts both shapes at the same places: a factor lies between two cuts.
pub(super) fn rule(from: &[i64], to: &[i64]) -> Option<Rule> {
    let mut rule = Rule::new(&[from.len(), to.len()]);
    rule.manner = Manner::First;
    if from.iter().chain(to).any(|&size| size <= 0) {
        return Some(rule);
    }
    let (mut a, mut b) = (0, 0);
    let (mut left, mut right) = (1i64, 1i64);
    loop {
        while left == 1 && a < from.len() {
            left = from[a];
            a += 1;
        }
        while right == 1 && b < to.len() {
            right = to[b];
            b += 1;
        }
        if left == 1 || right == 1 {
            return Some(rule);
        }
        // The first part of the larger dimension is the whole smaller one, where it can be.
        let size = left.min(right);
        let factor = rule.factors.len();
        if left % size == 0 && right % size == 0 {
            rule.factors.push(Factor { size, kind: FactorKind::PassThrough });
            rule.tensors[0][a - 1].push(factor);
            rule.tensors[1][b - 1].push(factor);
            (left, right) = (left / size, right / size);
            continue;
        }
        // No cut in common before the dimensions end together: what they begin with may still be shared.
        let shared = greatest(left, right);
        if shared > 1 {
            rule.factors.push(Factor { size: shared, kind: FactorKind::PassThrough });
            rule.tensors[0][a - 1].push(factor);
            rule.tensors[1][b - 1].push(factor);
        }
        let (mut have, mut want) = (left, right);
        while have != want {
            if have < want {
                have = have.checked_mul(*from.get(a)?)?;
                a += 1;
            } else {
                want = want.checked_mul(*to.get(b)?)?;
                b += 1;
            }
        }
        (left, right) = (1, 1);
    }
}

fn greatest(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &[i64], to: &[i64], sizes: &[i64], first: &[&[usize]], second: &[&[usize]]) {
        let rule = rule(from, to).unwrap();
        assert_eq!(rule.factors.iter().map(|f| f.size).collect::<Vec<_>>(), sizes, "{from:?} {to:?}");
        assert_eq!(rule.tensors[0], first, "{from:?}");
        assert_eq!(rule.tensors[1], second, "{to:?}");
    }

    #[test]
    fn dimensions_are_cut_alike() {
        check(&[8, 4], &[2, 4, 4], &[2, 4, 4], &[&[0, 1], &[2]], &[&[0], &[1], &[2]]);
        check(&[2, 1, 3], &[6], &[2, 3], &[&[0], &[], &[1]], &[&[0, 1]]);
        check(&[6, 4], &[4, 6], &[2], &[&[0], &[]], &[&[0], &[]]);
        check(&[], &[1, 1], &[], &[], &[&[], &[]]);
    }
}
