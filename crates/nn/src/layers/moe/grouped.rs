//! Grouped matmul (`ragged_dot` in JAX, megablox) as composites, which TPUs get as kernels: rows are sorted by group, and each group
//! has its matrix.

use hlo::dims::ScatterDims;
use kernel::composites::{GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT, GroupedAttributes};
use tensor::DType;
use trace::{Contraction, PartitionSpec, Precision, Tensor, Tree, Update, composite, custom_vjp, scan};

use crate::quant::{QuantizedRows, Weight, quantized_rows};

/// Tiles of kernels; few rows are one tile.
const TILES: &[usize] = &[512, 128, 16];

/// As many rows as are needed, and so many more that kernels take them.
pub(super) fn rows_for(needed: usize) -> usize {
    let tile = TILES.iter().find(|tile| needed >= **tile).or(TILES.last()).copied().unwrap_or(1);
    needed.next_multiple_of(tile).max(tile)
}

/// How rows are grouped.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// Rows of each group, `i32 [groups]`.
    pub(super) sizes: Tensor,
    /// Rows that all groups together have.
    pub(super) extent: Extent,
}

impl Groups {
    /// The group of each of so many rows, `i32 [rows]`; the last for rows of nobody.
    #[track_caller]
    pub(super) fn of_rows(&self, rows: usize) -> Tensor {
        let groups = self.sizes.dim(0);
        let at = Tensor::iota(DType::I32, &[rows, groups], 0);
        let before = self.sizes.cumulative_sum(0).less_equal(&at).cast(DType::I32).sum(&[1]);
        before.minimum(&Tensor::scalar(DType::I32, groups.saturating_sub(1) as f64))
    }
}

/// How many rows groups have together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// At most.
    pub(super) most: usize,
    /// Most likely.
    pub(super) expected: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Matrices `[groups, inner, columns]`.
    AsIs,
    /// Matrices `[groups, columns, inner]`.
    Transposed,
}

/// Matrices of groups as a grouped matmul reads them.
#[derive(Clone, Debug, trace::Tree)]
pub(super) struct GroupWeights {
    /// `[groups, inner, columns]`, in the type of rows or in codes; with an axis of layers first where there is a layer.
    matrices: Tensor,
    /// Which of the layers, an `i32` scalar.
    layer: Option<Tensor>,
    /// Scales of channels, `f32 [groups, 1, columns]`: they are applied to the result.
    scales: Option<Tensor>,
    /// The type of codes in which rows enter, each with a scale of its own; as they are if absent.
    #[tree(skip)]
    activations: Option<DType>,
}

impl GroupWeights {
    /// Of weights `[groups, inner, columns]`.
    #[track_caller]
    pub(super) fn of(weight: &Weight, dtype: DType) -> GroupWeights {
        let scaled = match weight {
            Weight::Quantized(quantized) => quantized.channel_scales().map(|scales| (quantized, scales)),
            _ => None,
        };
        match scaled {
            Some((quantized, scales)) => {
                let activations = quantized.scheme.row_codes();
                GroupWeights { matrices: quantized.values.clone(), layer: None, scales: Some(scales), activations }
            }
            None => GroupWeights { matrices: weight.dense(dtype), layer: None, scales: None, activations: None },
        }
    }

    /// The matrices of all layers in their place, of which this has one.
    pub(super) fn in_stack(self, matrices: &Tensor, layer: &Tensor) -> GroupWeights {
        GroupWeights { matrices: matrices.clone(), layer: Some(layer.clone()), ..self }
    }

    /// The array of all layers that kernels can read as it is; `None` where a layer's matrices are computed from it.
    pub(super) fn stack(weight: &Weight, dtype: DType) -> Option<Tensor> {
        match weight {
            Weight::Dense(tensor) if tensor.dtype() == dtype => Some(tensor.clone()),
            Weight::Quantized(quantized) if quantized.channel_scales().is_some() => Some(quantized.values.clone()),
            _ => None,
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.matrices.dim(-3)
    }

    /// Shardings of the leaves, of that of `[groups, inner, columns]`. Scales of a whole channel are not split along its inputs.
    pub(super) fn shardings(&self, of_matrices: &PartitionSpec) -> Vec<PartitionSpec> {
        let of_leaf = |leaf: &Tensor| {
            let before = leaf.rank().saturating_sub(of_matrices.dims.len());
            let axes = leaf.dims()[before..].iter().zip(&of_matrices.dims);
            let axes = axes.map(|(size, axes)| axes.clone().filter(|_| *size > 1));
            PartitionSpec { dims: PartitionSpec::replicated(before).dims.into_iter().chain(axes).collect() }
        };
        self.leaves().iter().map(of_leaf).collect()
    }

    /// Rows `[rows, inner]` times the matrices of their groups.
    #[track_caller]
    pub(super) fn matmul(&self, rows: &Tensor, groups: &Groups) -> Tensor {
        match (&self.layer, &self.scales) {
            (None, None) => matmul(rows, &self.matrices, groups),
            (Some(_), _) => self.forward(rows, groups),
            (None, Some(scales)) => self.scaled_matmul(scales, rows, groups),
        }
    }

    /// The matmul without its gradient.
    #[track_caller]
    fn forward(&self, rows: &Tensor, groups: &Groups) -> Tensor {
        let inputs = |rows: &Tensor| Inputs {
            layer: self.layer.as_ref().map(|layer| layer.reshape(&[1])),
            rows: rows.clone(),
            matrices: self.matrices.clone(),
            scales: self.scales.clone(),
            sizes: groups.sizes.clone(),
        };
        match self.activations {
            Some(dtype) => {
                let QuantizedRows { values, scales } = quantized_rows(rows, dtype);
                let dot = one_matmul(&inputs(&values), Side::AsIs, groups.extent, rows.dtype());
                (dot.cast(DType::F32) * scales).cast(rows.dtype())
            }
            None => one_matmul(&inputs(rows), Side::AsIs, groups.extent, rows.dtype()),
        }
    }

    /// The matmul of codes with scales. Gradients pass the rounding of rows as if there were none.
    #[track_caller]
    fn scaled_matmul(&self, scales: &Tensor, rows: &Tensor, groups: &Groups) -> Tensor {
        let (extent, activations) = (groups.extent, self.activations);
        let inputs = (rows.clone(), self.matrices.clone(), scales.clone(), groups.sizes.clone());
        custom_vjp(
            &inputs,
            |(rows, matrices, scales, sizes)| {
                let scales = Some(scales.clone());
                let weights = GroupWeights { matrices: matrices.clone(), layer: None, scales, activations };
                weights.forward(rows, &Groups { sizes: sizes.clone(), extent })
            },
            move |(rows, matrices, scales, sizes), _, ct| {
                let of_rows = Groups { sizes: sizes.clone(), extent }.of_rows(rows.dim(0));
                let wide = ct.cast(DType::F32);
                let scaled = (&wide * &scales.squeeze(1).take(0, &of_rows)).cast(rows.dtype());
                let (layer, sizes) = (None, sizes.clone());
                let back = Inputs { layer, rows: scaled, matrices: matrices.clone(), scales: None, sizes };
                let to_rows = one_matmul(&back, Side::Transposed, extent, rows.dtype());
                let plain =
                    one_matmul(&Inputs { rows: rows.clone(), ..back.clone() }, Side::AsIs, extent, rows.dtype());
                let is_of = of_rows.one_hot(scales.dim(0), DType::F32);
                let to_scales = is_of.einsum_as("rg,rc->gc", &(&wide * &plain.cast(DType::F32)), DType::F32).expand(1);
                (to_rows, matrices.zeros_like(), to_scales, back.sizes.zeros_like())
            },
        )
    }
}

/// Rows `[rows, inner]` times the matrices `[groups, inner, columns]` of their groups.
#[track_caller]
pub(super) fn matmul(rows: &Tensor, matrices: &Tensor, groups: &Groups) -> Tensor {
    let extent = groups.extent;
    custom_vjp(
        &(rows.clone(), matrices.clone(), groups.sizes.clone()),
        |(rows, matrices, sizes)| one_matmul(&Inputs::dense(rows, matrices, sizes), Side::AsIs, extent, rows.dtype()),
        move |(rows, matrices, sizes), _, ct| {
            let of_rows = one_matmul(&Inputs::dense(ct, matrices, sizes), Side::Transposed, extent, rows.dtype());
            let inputs = (rows.clone(), ct.clone(), sizes.clone());
            let attributes = attributes(Side::AsIs, extent, rows.dim(0)).to_attrs();
            let of_matrices =
                composite(GROUPED_MATMUL_GRADIENT, attributes, &inputs, |inputs| gradient_by_visits(inputs, extent));
            (of_rows, of_matrices, sizes.zeros_like())
        },
    )
}

/// Rows `[rows, inner]`, sorted by group, times the matrices `[groups, inner, columns]` of their groups; `sizes` are rows of each
/// group, `i32 [groups]`. Rows behind the last group give zeros. On TPUs it is a kernel (`ragged_dot` in JAX).
#[track_caller]
#[must_use]
pub fn grouped_matmul(rows: &Tensor, matrices: &Tensor, sizes: &Tensor) -> Tensor {
    let count = rows.dim(0);
    let padded = rows.pad(0, 0, rows_for(count) - count);
    let groups = Groups { sizes: sizes.clone(), extent: Extent { most: count, expected: count } };
    matmul(&padded, matrices, &groups).slice(0, 0..count)
}

/// What [`GROUPED_MATMUL`] reads, in its order.
#[derive(Clone, Debug, trace::Tree)]
struct Inputs {
    /// `i32 [1]`, where matrices are of all layers.
    layer: Option<Tensor>,
    rows: Tensor,
    matrices: Tensor,
    /// `f32 [groups, 1, columns]`, where results are multiplied by them.
    scales: Option<Tensor>,
    sizes: Tensor,
}

impl Inputs {
    fn dense(rows: &Tensor, matrices: &Tensor, sizes: &Tensor) -> Inputs {
        let (rows, matrices, sizes) = (rows.clone(), matrices.clone(), sizes.clone());
        Inputs { layer: None, rows, matrices, scales: None, sizes }
    }
}

fn one_matmul(inputs: &Inputs, side: Side, extent: Extent, result: DType) -> Tensor {
    let of_rows = attributes(side, extent, inputs.rows.dim(0));
    let result_attribute = (result != inputs.rows.dtype()).then_some(result);
    let attributes = GroupedAttributes { result: result_attribute, ..of_rows }.to_attrs();
    composite(GROUPED_MATMUL, attributes, inputs, |inputs| matmul_by_visits(inputs, side, extent, result))
}

fn attributes(side: Side, extent: Extent, rows: usize) -> GroupedAttributes {
    let expected_rows = (extent.expected < rows).then_some(extent.expected);
    GroupedAttributes { transposed: side == Side::Transposed, expected_rows, result: None }
}

/// Pairs of a tile of rows and a group that has rows in it, one after the other: `i32` scalars, or `[visits]`.
#[derive(Clone, Debug, trace::Tree)]
struct Visit {
    group: Tensor,
    /// First row of the tile.
    start: Tensor,
    /// Rows of the group: none where there is no visit.
    begin: Tensor,
    end: Tensor,
}

impl Visit {
    /// All visits of tiles of so many rows. A visit ends where a tile ends or a group does, so there are no more than these.
    fn all(sizes: &Tensor, extent: Extent, tile: usize) -> Visit {
        let groups = sizes.dim(0);
        let visits = extent.most.div_ceil(tile) + groups.min(extent.most).saturating_sub(1);
        let dims = [visits.max(1), groups];
        let number = |value: usize| Tensor::scalar(DType::I32, value as f64);
        let ends = sizes.cumulative_sum(0);
        let begins = &ends - sizes;
        let first = &begins / &number(tile);
        let past = &(&ends + &number(tile - 1)) / &number(tile);
        let count = sizes.greater(&number(0)).select(&(&past - &first), &number(0));
        let so_far = count.cumulative_sum(0);
        let earlier = &so_far - &count;
        let at = Tensor::iota(DType::I32, &dims, 0);
        let is_over = so_far.less_equal(&at).cast(DType::I32);
        let group = is_over.sum(&[1]);
        let is_of = group.one_hot(groups, DType::I32);
        let of = |table: &Tensor| (&is_of * table).sum(&[1]);
        let tile_of = &of(&(&first - &earlier)) + &Tensor::iota(DType::I32, &dims[..1], 0);
        let is_visit = group.less(&number(groups));
        Visit {
            start: is_visit.select(&(&tile_of * tile as f64), &number(0)),
            begin: of(&begins),
            end: of(&ends),
            group: group.minimum(&number(groups.saturating_sub(1))),
        }
    }

    /// The tile, with zeros for rows of other groups.
    fn rows_of(&self, rows: &Tensor, tile: usize) -> Tensor {
        let own = rows.dynamic_slice_in(0, &self.start, tile);
        let row = &Tensor::iota(DType::I32, &[tile, 1], 0) + &self.start;
        let is_mine = row.greater_equal(&self.begin).and(&row.less(&self.end));
        is_mine.select(&own, &own.zeros_like())
    }
}

/// Rows of a tile where no kernel is known: small beside the rows of a group, as each group's last tile is computed whole.
fn tile_of(rows: usize, groups: usize) -> usize {
    let most = (rows / (4 * groups.max(1))).max(8);
    let mut tile = 1;
    while tile * 2 <= most && rows.is_multiple_of(tile * 2) {
        tile *= 2;
    }
    tile
}

/// What [`GROUPED_MATMUL`] means.
fn matmul_by_visits(inputs: &Inputs, side: Side, extent: Extent, result: DType) -> Tensor {
    let Inputs { layer, rows, matrices, scales, sizes } = inputs;
    let (count, columns) = (rows.dim(0), matrices.dim(if side == Side::AsIs { -1 } else { -2 }));
    let tile = tile_of(count, matrices.dim(-3));
    let visits = Visit::all(sizes, extent, tile);
    let summed = if side == Side::AsIs { 0 } else { 1 };
    let contraction = Contraction { lhs_sum: vec![1], rhs_sum: vec![summed], ..Contraction::default() };
    let out = Tensor::zeros(result, &[count, columns]);
    let window =
        ScatterDims { update_window_dims: vec![0, 1], scatter_dims_to_operand_dims: vec![0], ..ScatterDims::default() };
    let (out, ()) = scan(&out, &visits, None, |out, visit| {
        let own = visit.rows_of(rows, tile);
        let matrix = match layer {
            None => matrices.dynamic_slice_in(0, &visit.group, 1).squeeze(0),
            Some(layer) => {
                let zero = Tensor::zeros(DType::I32, &[]);
                let at = [layer.reshape(&[]), visit.group.clone(), zero.clone(), zero];
                let sizes = [1, 1, matrices.dim(2), matrices.dim(3)];
                matrices.dynamic_slice(&at, &sizes).squeeze(0).squeeze(0)
            }
        };
        let (own, matrix) = (own.cast(result), matrix.cast(result));
        let dot = own.dot_general(&matrix, &contraction, DType::F32, Precision::Default);
        let dot = match scales {
            Some(scales) => dot * scales.dynamic_slice_in(0, &visit.group, 1).squeeze(0),
            None => dot,
        };
        let dot = dot.cast(result);
        // Rows of other groups get zeros. What is carried is only ever added to, which devices do where it lies.
        (out.scatter(&visit.start.expand(0), &dot, window, Update::Add), ())
    });
    out
}

/// What [`GROUPED_MATMUL_GRADIENT`] means.
fn gradient_by_visits((rows, ct, sizes): &(Tensor, Tensor, Tensor), extent: Extent) -> Tensor {
    let (count, groups) = (rows.dim(0), sizes.dim(0));
    let tile = tile_of(count, groups);
    let visits = Visit::all(sizes, extent, tile);
    let contraction = Contraction { lhs_sum: vec![0], rhs_sum: vec![0], ..Contraction::default() };
    let sum = Tensor::zeros(DType::F32, &[groups, rows.dim(1), ct.dim(1)]);
    let window = ScatterDims {
        update_window_dims: vec![0, 1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..ScatterDims::default()
    };
    let (sum, ()) = scan(&sum, &visits, None, |sum, visit| {
        let ct = ct.dynamic_slice_in(0, &visit.start, tile);
        let dot = visit.rows_of(rows, tile).dot_general(&ct, &contraction, DType::F32, Precision::Default);
        (sum.scatter(&visit.group.expand(0), &dot, window, Update::Add), ())
    });
    sum.cast(rows.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_tiles() {
        let check = |needed: usize, rows: usize| assert_eq!(rows_for(needed), rows, "{needed}");
        check(0, 16);
        check(2, 16);
        check(17, 32);
        check(130, 256);
        check(513, 1024);
        check(8192, 8192);
        assert_eq!((tile_of(8192, 8), tile_of(16, 8), tile_of(1024, 8)), (256, 8, 32));
    }
}
