//! Matrices of experts, and whether a grouped matmul takes them.

use chips::Generation;
use hlo::Value;
use tensor::DType;

use super::super::layout::{Label, Layout};
use crate::kernels::grouped::{self, Grouped, Matrices, MatrixScales, Tiles, Visits};

/// Matrices of experts.
pub(super) struct Matrix {
    pub(super) value: Value,
    /// Its axes: experts, inner, columns.
    pub(super) order: [usize; 3],
    /// The labels of each.
    pub(super) labels: [Vec<Label>; 3],
}

/// Rows of tokens, sorted by expert.
#[derive(Clone, Copy)]
pub(super) struct SortedRows {
    pub(super) rows: usize,
    pub(super) experts: usize,
    pub(super) generation: Generation,
}

impl Matrix {
    /// The labels of its dimensions.
    pub(super) fn layout(&self) -> Layout {
        let mut layout = vec![Vec::new(); 3];
        for (&dim, labels) in self.order.iter().zip(&self.labels) {
            if let Some(of) = layout.get_mut(dim) {
                of.clone_from(labels);
            }
        }
        layout
    }
}

/// How matrices with these axes (experts, inner, columns) lie, where they need not be turned.
pub(super) fn lies(order: &[usize; 3]) -> Option<Matrices> {
    match order {
        [0, 1, 2] => Some(Matrices::AsIs),
        [0, 2, 1] => Some(Matrices::Transposed),
        _ => None,
    }
}

impl SortedRows {
    fn grouped(&self, inner: usize, columns: usize, dtype: DType, matrices: Matrices) -> Grouped {
        Grouped {
            rows: self.rows,
            inner,
            columns,
            groups: self.experts,
            layers: None,
            dtype,
            lhs: dtype,
            codes: dtype,
            matrices,
            scales: MatrixScales::None,
            expected_rows: None,
        }
    }

    /// Whether the kernel can be made of so many inner features and columns.
    pub(super) fn takes(&self, [inner, columns]: [usize; 2], lies: Option<Matrices>, dtype: DType) -> Option<()> {
        let grouped = self.grouped(inner, columns, dtype, lies.unwrap_or_default());
        let tiles = Tiles::preferred(&grouped, Visits::EveryTile, self.generation)?;
        grouped::matmul(&grouped, tiles, self.generation).ok().map(drop)
    }

    /// Whether the kernel of a gradient can be made.
    pub(super) fn takes_gradient(&self, [inner, columns]: [usize; 2], dtype: DType) -> Option<()> {
        let grouped = self.grouped(inner, columns, dtype, Matrices::AsIs);
        let tiles = Tiles::preferred(&grouped, Visits::EveryGroup, self.generation)?;
        grouped::gradient(&grouped, tiles, self.generation).ok().map(drop)
    }
}
