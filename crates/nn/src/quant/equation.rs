//! Einstein's sums of two tensors as letters, with the sums that are their gradients.

use std::fmt;

use trace::Tensor;

/// `left,right->out`, one letter an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Equation {
    left: String,
    right: String,
    out: String,
}

impl fmt::Display for Equation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}->{}", self.left, self.right, self.out)
    }
}

impl Equation {
    /// One of the form `ab,bc->ac`.
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Equation {
        let parts = text.split_once("->").and_then(|(both, out)| Some((both.split_once(',')?, out)));
        let Some(((left, right), out)) = parts else {
            trace::refuse(format!("`{text}` is not of the form `ab,bc->ac`"))
        };
        Equation { left: left.into(), right: right.into(), out: out.into() }
    }

    /// The matmul of `[..., in]` with `[in, out]`, for so many axes of the left.
    pub(crate) fn of_rank(rank: usize) -> Equation {
        let rows: String = ('a'..='j').take(rank.saturating_sub(1)).collect();
        Equation { left: format!("{rows}k"), right: "kn".into(), out: format!("{rows}n") }
    }

    /// What gives the gradient of the left: of the gradient of the result, and the right.
    pub(crate) fn to_left(&self) -> Equation {
        Equation { left: self.out.clone(), right: self.right.clone(), out: self.left.clone() }
    }

    /// What gives the gradient of the right: of the left, and the gradient of the result.
    pub(crate) fn to_right(&self) -> Equation {
        Equation { left: self.left.clone(), right: self.out.clone(), out: self.right.clone() }
    }

    /// Axes of the left that are summed over.
    pub(crate) fn summed_left(&self) -> Vec<usize> {
        self.summed(&self.left)
    }

    /// Axes of the right that are summed over.
    pub(crate) fn summed_right(&self) -> Vec<usize> {
        self.summed(&self.right)
    }

    fn summed(&self, operand: &str) -> Vec<usize> {
        operand.chars().enumerate().filter(|(_, letter)| !self.out.contains(*letter)).map(|(axis, _)| axis).collect()
    }

    /// The scale of the left as the result is multiplied by it.
    #[track_caller]
    pub(crate) fn spread_left(&self, scale: &Tensor) -> Tensor {
        self.spread(&self.left, scale)
    }

    /// The scale of the right as the result is multiplied by it.
    #[track_caller]
    pub(crate) fn spread_right(&self, scale: &Tensor) -> Tensor {
        self.spread(&self.right, scale)
    }

    /// A scale with an axis of 1 in place of each that is summed, in the order of the result's axes; scalars as they are.
    #[track_caller]
    fn spread(&self, operand: &str, scale: &Tensor) -> Tensor {
        if scale.rank() == 0 {
            return scale.clone();
        }
        let axis_of = |letter: char| operand.chars().position(|own| own == letter);
        let kept: Vec<usize> = self.out.chars().filter_map(axis_of).collect();
        let order: Vec<usize> = kept.iter().copied().chain(self.summed(operand)).collect();
        let dims: Vec<usize> =
            self.out.chars().map(|letter| axis_of(letter).map_or(1, |axis| scale.dims()[axis])).collect();
        scale.transpose(&order).reshape(&dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_sums_of_the_same_letters() {
        let heads = Equation::parse("bsw,whd->bshd");
        assert_eq!(heads.to_left().to_string(), "bshd,whd->bsw");
        assert_eq!(heads.to_right().to_string(), "bsw,bshd->whd");
        assert_eq!((heads.summed_left(), heads.summed_right()), (vec![2], vec![0]));
        assert_eq!((heads.to_right().summed_left(), heads.to_right().summed_right()), (vec![0, 1], vec![0, 1]));
        assert_eq!(Equation::of_rank(3).to_string(), "abk,kn->abn");
    }
}
