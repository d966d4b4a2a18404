//! Rows times the matrix of their group.

use chips::Generation;
use tensor::DType;

use super::{Grouped, Matrices, MatrixScales, Tables, Tiles, Visits, changes};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedRhs};
use crate::kernel::{Kernel, Semantics};
use crate::writer::Val;

/// The kernel. Operands: tables of [`Visits::EveryTile`], the layer `i32 [1]` where matrices are of all layers, rows, matrices. Result: rows, zeros where they belong to no group.
pub fn matmul(grouped: &Grouped, tiles: Tiles, generation: Generation) -> Result<Kernel, Error> {
    grouped.check(&tiles)?;
    let (g, groups) = (*grouped, grouped.groups as i32);
    let count = g.visits(&tiles);
    let rounds = g.inner / tiles.inner;
    let mut kernel = KernelBuilder::new("gmm", generation);
    let columns = kernel.grid(g.columns / tiles.columns, Semantics::Parallel);
    let visit = kernel.grid(count, Semantics::Arbitrary);
    let inner = kernel.grid(rounds, Semantics::Arbitrary);
    let tables = Tables::add(&mut kernel, count, g.listed(Visits::EveryTile));
    let layer = g.layers.map(|_| kernel.prefetch("layer", [1]));
    // Where rows are of no group nothing is read: the block stays the one it was.
    let lhs = kernel.input("rows", g.lhs(), [tiles.rows, tiles.inner], |m| {
        let is_group = tables.group(m, visit).less(groups);
        vec![tables.tile(m, visit), is_group.select(m.program_id(inner), 0)]
    });
    let (block, form) = match g.matrices {
        Matrices::AsIs => ([1, tiles.inner, tiles.columns], Plain),
        Matrices::Transposed => ([1, tiles.columns, tiles.inner], TransposedRhs),
    };
    let block: Vec<usize> = layer.map(|_| 1).into_iter().chain(block).collect();
    let rhs = kernel.input("matrices", g.rhs(), block, |m| {
        let group = tables.group(m, visit);
        let (summed, column) = (group.less(groups).select(m.program_id(inner), 0), m.program_id(columns));
        let group = group.min(groups - 1);
        let within = match g.matrices {
            Matrices::AsIs => [group, summed, column],
            Matrices::Transposed => [group, column, summed],
        };
        layer.map(|layer| m.load_scalar(layer, &[m.i32(0)])).into_iter().chain(within).collect()
    });
    let scales = (g.scales == MatrixScales::Columns).then(|| {
        kernel.input("scales", g.scales_spec(), [1, 1, tiles.columns], |m| {
            vec![tables.group(m, visit).min(groups - 1), m.i32(0), m.program_id(columns)]
        })
    });
    let out = kernel
        .output("result", g.out(), [tiles.rows, tiles.columns], |m| vec![tables.tile(m, visit), m.program_id(columns)]);
    let factor = g.multiplied(generation);
    let sum_dtype = if factor.is_integer() { DType::I32 } else { DType::F32 };
    let dims = [tiles.rows, tiles.columns];
    let sum = (rounds > 1).then(|| kernel.scratch("accumulator", sum_dtype, dims));
    kernel.cost(g.cost());
    kernel.body(|k| {
        let is_group = tables.group(k, visit).less(groups);
        let product = || k.matmul(k.load(lhs).cast(factor), k.load(rhs).cast(factor), form);
        // Rows of other groups stay what they are.
        let give = |dot: Val<'_>| {
            let dot = dot.cast(DType::F32);
            let scaled = scales.map_or(dot, |scales| dot * k.load(scales));
            let before = k.load(out).cast(DType::F32);
            k.store(out, tables.mine(k, visit, dims).select(scaled, before).cast(g.dtype));
        };
        let clear = || {
            let (is_first, _) = changes(k, tables.tile, visit, count);
            k.when(is_first, || k.store(out, k.zeros(g.dtype, dims)));
        };
        let Some(sum) = sum else {
            clear();
            k.when(is_group, || give(product()));
            return;
        };
        k.when(k.program_id(inner).equals(0), || k.store(sum, k.zeros(sum_dtype, dims)));
        k.when(is_group, || k.store(sum, k.load(sum) + product()));
        k.when(k.program_id(inner).equals(rounds as i32 - 1), || {
            clear();
            k.when(is_group, || give(k.load(sum)));
        });
    })
}
