//! The gradient of the matrices: rows of a group, transposed, times gradients of its rows.

use chips::Generation;
use tensor::DType;

use super::{Grouped, Matrices, Tables, Tiles, Visits, changes};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::TransposedLhs;
use crate::kernel::{Kernel, Semantics};

/// The kernel. Operands: tables of [`Visits::EveryGroup`], rows, gradients of the matmul. Result: like the matrices, zeros for a
/// group without rows.
pub fn gradient(grouped: &Grouped, tiles: Tiles, generation: Generation) -> Result<Kernel, Error> {
    grouped.check(&tiles)?;
    let (g, groups) = (Grouped { matrices: Matrices::AsIs, codes: grouped.dtype, ..*grouped }, grouped.groups as i32);
    let count = g.visits(&tiles);
    let mut kernel = KernelBuilder::new("tgmm", generation);
    let inner = kernel.grid(g.inner / tiles.inner, Semantics::Parallel);
    let columns = kernel.grid(g.columns / tiles.columns, Semantics::Parallel);
    let visit = kernel.grid(count, Semantics::Arbitrary);
    let tables = Tables::add(&mut kernel, count, g.listed(Visits::EveryGroup));
    let lhs =
        kernel.input("rows", g.lhs(), [tiles.rows, tiles.inner], |m| vec![tables.tile(m, visit), m.program_id(inner)]);
    let rhs = kernel.input("gradients", g.out(), [tiles.rows, tiles.columns], |m| {
        vec![tables.tile(m, visit), m.program_id(columns)]
    });
    let out = kernel.output("gradient", g.rhs(), [1, tiles.inner, tiles.columns], |m| {
        vec![tables.group(m, visit).min(groups - 1), m.program_id(inner), m.program_id(columns)]
    });
    let sum = kernel.scratch("accumulator", DType::F32, [tiles.inner, tiles.columns]);
    kernel.cost(g.cost());
    kernel.body(|k| {
        let (is_first, is_last) = changes(k, tables.group, visit, count);
        // Entries after the last visit have a group that is none.
        k.when(tables.group(k, visit).less(groups), || {
            k.when(is_first, || k.store(sum, k.zeros(DType::F32, [tiles.inner, tiles.columns])));
            let mine = tables.mine(k, visit, [tiles.rows, tiles.inner]);
            let rows = mine.select(k.load(lhs).cast(DType::F32), 0.0).cast(g.dtype);
            k.store(sum, k.load(sum) + k.matmul(rows, k.load(rhs), TransposedLhs));
            k.when(is_last, || k.store(out, k.load(sum).cast(g.dtype)));
        });
    })
}
