//! Grouped matmuls, interpreted, against plain loops; groups end anywhere, some are empty, some rows are in none.

use chips::Generation;
use kernel::kernels::grouped::{self, Grouped, Matrices, MatrixScales, Tiles, Visits};
use kernel::{Error, interpret};
use tensor::{DType, Literal, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

/// Tables as their description says, tile by tile.
fn tables(g: &Grouped, tiles: &Tiles, sizes: &[usize], which: Visits) -> Vec<Literal> {
    let mut listed = sizes.to_vec();
    if which == Visits::EveryTile {
        listed.push(g.rows - sizes.iter().sum::<usize>());
    }
    let (mut begins, mut visits) = (vec![0], Vec::new());
    for (group, size) in listed.iter().enumerate() {
        let begin = begins[group];
        begins.push(begin + size);
        let last_tile = g.rows / tiles.rows - 1;
        if *size == 0 && which == Visits::EveryGroup {
            visits.push((group, (begin / tiles.rows).min(last_tile)));
        }
        visits.extend(
            (0..=last_tile)
                .filter(|tile| *size > 0 && tile * tiles.rows < begin + size && (tile + 1) * tiles.rows > begin)
                .map(|tile| (group, tile)),
        );
    }
    visits.resize(g.visits(tiles), (listed.len(), g.rows / tiles.rows - 1));
    let ints = |values: Vec<usize>| {
        let values: Vec<f64> = values.into_iter().map(|v| v as f64).collect();
        literal(&Spec::new(DType::I32, [values.len()]), &values)
    };
    let (groups, tiles) = visits.into_iter().unzip();
    vec![ints(groups), ints(tiles), ints(begins)]
}

const PLAIN: Grouped = Grouped {
    rows: 48,
    inner: 256,
    columns: 128,
    groups: 1,
    layers: None,
    dtype: DType::BF16,
    lhs: DType::BF16,
    codes: DType::BF16,
    matrices: Matrices::AsIs,
    scales: MatrixScales::None,
    expected_rows: None,
};

/// Matrices with their last two axes in the other order.
fn transposed(g: &Grouped, matrices: &[f64]) -> Literal {
    let at = |n: usize| {
        let (group, column, inner) = (n / (g.columns * g.inner), n / g.inner % g.columns, n % g.inner);
        matrices[(group * g.inner + inner) * g.columns + column]
    };
    let values: Vec<f64> = (0..matrices.len()).map(at).collect();
    literal(&Spec::new(g.dtype, [g.groups, g.columns, g.inner]), &values)
}

#[test]
fn matmul_and_gradient() {
    let mut numbers = Numbers::new(41);
    for sizes in [vec![16, 8, 24], vec![0, 5, 0, 40, 3], vec![48], vec![1, 1, 1], vec![0, 0], vec![13, 0, 35]] {
        let g = Grouped { groups: sizes.len(), ..PLAIN };
        let tiles = Tiles { rows: 16, inner: 128, columns: 128 };
        let lhs = numbers.array(&Spec::new(g.dtype, [g.rows, g.inner]), 1.0);
        let rhs = numbers.array(&Spec::new(g.dtype, [g.groups, g.inner, g.columns]), 1.0);
        let dout = numbers.array(&Spec::new(g.dtype, [g.rows, g.columns]), 1.0);
        let (a, b, d) = (values(&lhs), values(&rhs), values(&dout));
        let (mut out, mut db) = (vec![0.0; g.rows * g.columns], vec![0.0; b.len()]);
        let mut row = 0;
        for (group, size) in sizes.iter().enumerate() {
            for r in row..row + size {
                for i in 0..g.inner {
                    for c in 0..g.columns {
                        let at = (group * g.inner + i) * g.columns + c;
                        out[r * g.columns + c] += a[r * g.inner + i] * b[at];
                        db[at] += a[r * g.inner + i] * d[r * g.columns + c];
                    }
                }
            }
            row += size;
        }
        let kernel = grouped::matmul(&g, tiles, Generation::V5e).unwrap();
        let mut operands = tables(&g, &tiles, &sizes, Visits::EveryTile);
        operands.extend([lhs.clone(), rhs]);
        assert_close(&format!("matmul {sizes:?}"), &interpret(&kernel, &operands).unwrap()[0], &out, 4e-3);
        // The second of three layers, whose others are not numbers.
        let stacked = Grouped { layers: Some(3), ..g };
        let kernel = grouped::matmul(&stacked, tiles, Generation::V5e).unwrap();
        let all = [vec![f64::NAN; b.len()], b.clone(), vec![f64::NAN; b.len()]].concat();
        let mut of_layer = tables(&g, &tiles, &sizes, Visits::EveryTile);
        of_layer.push(literal(&Spec::new(DType::I32, [1]), &[1.0]));
        of_layer.extend([lhs.clone(), literal(&Spec::new(g.dtype, [3, g.groups, g.inner, g.columns]), &all)]);
        assert_close(&format!("layer {sizes:?}"), &interpret(&kernel, &of_layer).unwrap()[0], &out, 4e-3);
        assert_eq!(kernel.cost, grouped::matmul(&g, tiles, Generation::V5e).unwrap().cost);
        let other = Grouped { matrices: Matrices::Transposed, expected_rows: Some(12), ..g };
        let kernel = grouped::matmul(&other, tiles, Generation::V5e).unwrap();
        assert_eq!(kernel.cost.flops, 2 * 12 * 256 * 128);
        *operands.last_mut().unwrap() = transposed(&g, &b);
        assert_close(&format!("transposed {sizes:?}"), &interpret(&kernel, &operands).unwrap()[0], &out, 4e-3);
        let kernel = grouped::gradient(&g, tiles, Generation::V5e).unwrap();
        let mut operands = tables(&g, &tiles, &sizes, Visits::EveryGroup);
        operands.extend([lhs, dout]);
        assert_close(&format!("gradient {sizes:?}"), &interpret(&kernel, &operands).unwrap()[0], &db, 4e-3);
    }
}

/// Rows in codes, matrices in codes, scales of columns, on generations that multiply such codes as they are and on others; the inner size
/// in one step and in two.
#[test]
fn rows_of_codes() {
    use DType::{F8E4M3FN, I4, I8};
    let mut numbers = Numbers::new(43);
    let sizes = [0, 21, 3, 0, 17];
    for (lhs, codes) in [(I8, I8), (I8, I4), (F8E4M3FN, F8E4M3FN), (DType::BF16, F8E4M3FN)] {
        let scales = MatrixScales::Columns;
        let g = Grouped { groups: sizes.len(), lhs, codes, scales, ..PLAIN };
        let most = |dtype| if dtype == I4 { 1.2 } else { 30.0 };
        let rows = numbers.array(&Spec::new(lhs, [g.rows, g.inner]), most(lhs));
        let matrices = numbers.array(&Spec::new(codes, [g.groups, g.inner, g.columns]), most(codes));
        let of_columns = numbers.array(&Spec::new(DType::F32, [g.groups, 1, g.columns]), 1.0);
        let (a, b, s) = (values(&rows), values(&matrices), values(&of_columns));
        let mut out = vec![0.0; g.rows * g.columns];
        let mut row = 0;
        for (group, size) in sizes.iter().enumerate() {
            for r in row..row + size {
                for c in 0..g.columns {
                    let product = |i: usize| a[r * g.inner + i] * b[(group * g.inner + i) * g.columns + c];
                    out[r * g.columns + c] = (0..g.inner).map(product).sum::<f64>() * s[group * g.columns + c];
                }
            }
            row += size;
        }
        for generation in [Generation::V4, Generation::V5e, Generation::V6e, Generation::Tpu7x] {
            for inner in [128, 256] {
                let tiles = Tiles { rows: 16, inner, columns: 128 };
                let kernel = grouped::matmul(&g, tiles, generation).unwrap();
                let types = |dtype: &str| format!(": vector<16x{inner}x{dtype}>, vector<{inner}x128x{dtype}>");
                let is_native =
                    lhs == codes && generation.spec().peak_ops_per_device(lhs.name()) > bf16_ops(generation);
                let multiplied = if is_native { lhs.name() } else { "bf16" };
                assert!(kernel.text().contains(&types(multiplied)), "{generation:?}: {}", kernel.text());
                let mut operands = tables(&g, &tiles, &sizes, Visits::EveryTile);
                operands.extend([rows.clone(), matrices.clone(), of_columns.clone()]);
                let name = format!("{lhs} by {codes}, {generation:?}, {inner}");
                assert_close(&name, &interpret(&kernel, &operands).unwrap()[0], &out, 4e-3);
            }
        }
    }
    // Wide matrices beside codes, and rows of fewer bits than kernels take.
    for (lhs, codes) in [(I8, DType::BF16), (I4, I4), (DType::F32, I8)] {
        let g = Grouped { lhs, codes, ..PLAIN };
        let tiles = Tiles { rows: 16, inner: 128, columns: 128 };
        assert!(matches!(grouped::matmul(&g, tiles, Generation::V6e), Err(Error::Shape { .. })), "{lhs} by {codes}");
    }
}

fn bf16_ops(generation: Generation) -> f64 {
    generation.spec().peak_ops_per_device("bf16")
}

/// A visit multiplies a whole tile: with a few rows in each group tiles are low, with thousands of them high, and a matrix that fits is
/// read once.
#[test]
fn tiles_follow_the_rows_of_groups() {
    let of = |rows: usize, [inner, columns]: [usize; 2], groups: usize, expected: usize, generation: Generation| {
        let g = Grouped { rows, inner, columns, groups, expected_rows: Some(expected), ..PLAIN };
        let tiles = |visits| Tiles::preferred(&g, visits, generation).unwrap();
        // Both kernels can be made with them.
        grouped::gradient(&g, tiles(Visits::EveryGroup), generation).unwrap();
        grouped::matmul(&g, tiles(Visits::EveryTile), generation).unwrap();
        tiles(Visits::EveryTile)
    };
    for generation in [Generation::V4, Generation::V5e, Generation::V5p, Generation::V6e, Generation::Tpu7x] {
        let few = of(512, [6144, 2560], 20, 64, generation);
        let many = of(65_536, [4096, 14_336], 8, 65_536, generation);
        assert!(few.rows <= 128 && many.rows >= 256, "{generation:?}: {few:?}, {many:?}");
        let small = of(4096, [2048, 768], 16, 4096, generation);
        assert!(generation == Generation::V4 || small.inner == 2048, "{generation:?}: {small:?}");
        // What no larger tile divides.
        assert_eq!(of(24, [384, 128], 3, 24, generation).rows, 24);
    }
    // However large the sizes of a program are, a few tiles are looked at.
    let huge = Grouped { inner: 1 << 60, columns: 1 << 60, ..PLAIN };
    let tiles = Tiles::preferred(&huge, Visits::EveryTile, Generation::V6e).unwrap();
    assert!(tiles.inner * tiles.columns < 1 << 24, "{tiles:?}");
    assert_eq!(Tiles::preferred(&Grouped { columns: 100, ..PLAIN }, Visits::EveryTile, Generation::V5e), None);
}
