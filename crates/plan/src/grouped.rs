//! Grouped matmuls (megablox, tokamax, our own): the tiles they compute, which are more than their rows, and what they read for that.

use kernel::LEAST_PASS;
use xla::{HloModule, InstructionId, PrimitiveType, Shape};

use crate::kernel_windows::{kernel_windows, multiplied};
use crate::kernel_work::{GROUPED, KernelOrder, KernelWork};
use crate::work::{Matmul, NarrowOperand};

/// Sizes of a grouped matmul: rows that lie group by group, and a matrix for each group.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: f64,
    inner: f64,
    columns: f64,
    groups: f64,
    /// Bytes of an element of each operand and of the result.
    bytes: [f64; 3],
}

/// The block of rows, inner size and columns that a kernel multiplies at once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    rows: f64,
    inner: f64,
    columns: f64,
}

/// What a grouped matmul computes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Product {
    /// Rows times the matrix of their group.
    Rows,
    /// The gradient of each matrix: rows are what is summed over.
    Gradient,
}

/// What a kernel does because it works tile by tile.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tiled {
    /// Computed operations for each one that is asked for.
    excess: f64,
    /// Rows that pass a loaded matrix.
    streamed: f64,
    /// Numbers of matrices that are brought to the matrix units.
    loaded: f64,
    /// Numbers of rows that are brought there.
    rows_loaded: f64,
    hbm_bytes: f64,
}

/// Reads a grouped matmul. Where a kernel says that it computes less, there are rows of no group: room for the worst case.
pub(crate) fn grouped_matmul(module: &HloModule, id: InstructionId) -> Option<KernelWork> {
    let instruction = module.instruction(id);
    let is_matrix = |shape: &&Shape| {
        shape.dimensions().len() >= 2
            && shape.element_type().bits() <= 32
            && !matches!(shape.element_type(), PrimitiveType::S32 | PrimitiveType::Pred)
    };
    let mut operands =
        instruction.operands().iter().map(|&operand| module.instruction(operand).shape()).filter(is_matrix);
    let (lhs, rhs) = (operands.next()?, operands.next()?);
    let output = instruction.shape().leaves().next()?;
    let last = |shape: &Shape, n: usize| shape.dimensions().iter().rev().nth(n).map_or(1, |&d| d.max(1) as u64);
    let (product, rows, inner, columns, groups) = if output.dimensions().len() == 3 {
        let (k, n) = (last(output, 1), last(output, 0));
        (Product::Gradient, lhs.element_count() / k.max(1), k, n, last(output, 2))
    } else {
        let (rows, n) = (last(output, 1), last(output, 0));
        (Product::Rows, rows, lhs.element_count() / rows.max(1), n, last(rhs, 2))
    };
    let asked = 2.0 * rows as f64 * inner as f64 * columns as f64;
    let cost = instruction.kernel_cost();
    let stated = cost.map(|cost| cost.flops as f64).filter(|stated| *stated > 0.0);
    let flops = stated.map_or(asked, |stated| stated.min(asked));
    // Of matrices of all layers those of one are read.
    let stated_bytes = cost.map(|cost| cost.bytes_accessed as f64);
    let touched_bytes = stated_bytes.filter(|_| rhs.dimensions().len() == 4);
    let sizes = Sizes {
        rows: rows as f64 * flops / asked.max(1.0),
        inner: inner as f64,
        columns: columns as f64,
        groups: groups as f64,
        bytes: [lhs, rhs, output].map(|shape| f64::from(shape.element_type().bits()) / 8.0),
    };
    let body = instruction.kernel_body();
    let tile = body.as_ref().and_then(|body| tile(product, &kernel_windows(body)));
    // What the code multiplies, or the wider of its operands.
    let element = body.as_ref().and_then(|body| multiplied(body)).unwrap_or_else(|| {
        if lhs.element_type().bits() > rhs.element_type().bits() { lhs } else { rhs }.element_type()
    });
    let tiled = tile.map(|tile| tiled(product, &sizes, &tile));
    let (contracted, columns) = match (product, tile) {
        (Product::Rows, Some(tile)) => (tile.inner as u64, tile.columns as u64),
        (Product::Gradient, Some(tile)) => (tile.rows as u64, tile.columns as u64),
        (Product::Rows, None) => (inner, columns),
        (Product::Gradient, None) => (rows, columns),
    };
    // Codes of another type than is multiplied are widened in every visit, those of rows for each tile of columns.
    let widened = |shape: &Shape, elements: f64| {
        let codes = shape.element_type();
        let is_widened = product == Product::Rows && codes != element && codes.bits() < 16;
        is_widened.then_some(NarrowOperand { element: codes, beside: element, elements })
    };
    let both = tiled.map(|tiled| [widened(lhs, tiled.rows_loaded), widened(rhs, tiled.loaded)]);
    let converted = both.into_iter().flatten().flatten().collect();
    Some(KernelWork {
        family: GROUPED,
        matmuls: vec![Matmul { flops, element, contracted, columns }],
        vector_ops: 0.0,
        transcendentals: 0.0,
        converted,
        reach: tiled.map_or(1.0, |tiled| 1.0 / tiled.excess.max(1.0)),
        hbm_bytes: tiled.map_or(0.0, |tiled| tiled.hbm_bytes),
        touched_bytes,
        rows: tiled.map(|tiled| tiled.streamed / LEAST_PASS),
        order: KernelOrder::SideBySide,
    })
}

/// The tile that windows show: those of the rows, of the other operand, and of the result.
fn tile(product: Product, windows: &[Vec<u64>]) -> Option<Tile> {
    let two = |window: &Vec<u64>| match window[..] {
        [.., a, b] if a > 0 && b > 0 => Some((a as f64, b as f64)),
        _ => None,
    };
    let ((rows, inner), (first, columns)) = (two(windows.first()?)?, two(windows.last()?)?);
    let same = if product == Product::Rows { rows } else { inner };
    (windows.len() >= 3 && first == same).then_some(Tile { rows, inner, columns })
}

/// A tile is visited once for every group that has rows of it: there are as many visits as tiles, and one more for each group that begins
/// inside of a tile, which nearly all do. Every visit multiplies a whole tile, and the last tile of a size that it does not divide is whole
/// too. Blocks stay in VMEM from one visit to the next where neither of their places changes.
fn tiled(product: Product, sizes: &Sizes, tile: &Tile) -> Tiled {
    let Sizes { rows, inner, columns, groups, bytes: [lhs_bytes, rhs_bytes, out_bytes] } = *sizes;
    let tiles = |size: f64, tile: f64| (size / tile).ceil().max(1.0);
    let (of_rows, of_inner, of_columns) =
        (tiles(rows, tile.rows), tiles(inner, tile.inner), tiles(columns, tile.columns));
    let visits = of_rows + groups.min(rows.max(1.0)) - 1.0;
    let computed = visits * tile.rows * of_inner * tile.inner * of_columns * tile.columns;
    let matrices = inner * columns;
    let hbm_bytes = match product {
        Product::Rows => {
            let (lhs_reads, rhs_reads) =
                if of_inner > 1.0 { (visits / of_rows, visits) } else { (1.0, groups.min(visits)) };
            lhs_bytes * rows * inner * of_columns * lhs_reads
                + rhs_bytes * matrices * rhs_reads
                + out_bytes * rows * columns
        }
        Product::Gradient => {
            lhs_bytes * rows * inner * of_columns
                + rhs_bytes * rows * columns * of_inner
                + out_bytes * groups * matrices
        }
    };
    Tiled {
        excess: computed / (rows * inner * columns).max(1.0),
        loaded: visits * matrices,
        rows_loaded: visits * tile.rows * inner * of_columns,
        streamed: if product == Product::Rows { tile.rows } else { tile.inner },
        hbm_bytes,
    }
}

#[cfg(test)]
mod tests {
    use chips::Slice;
    use kernel::kernels::grouped::{self, Grouped, Matrices, MatrixScales, Tiles, Visits};
    use tensor::DType;

    use super::*;
    use crate::machine::Machine;
    use crate::op_time::Bound;
    use crate::work::Work;

    /// DeepSeek 2 16B on a v5p: columns of 1408 in tiles of 1024 are computed as 2048, and 64 groups share 576 tiles of rows.
    #[test]
    fn whole_tiles_are_computed() {
        let sizes = Sizes { rows: 294_912.0, inner: 2048.0, columns: 1408.0, groups: 64.0, bytes: [2.0, 2.0, 2.0] };
        let windows = [vec![512, 1024], vec![1, 1024, 1024], vec![512, 1024]];
        let tile = tile(Product::Rows, &windows).unwrap();
        let forward = tiled(Product::Rows, &sizes, &tile);
        assert!((forward.excess - 639.0 / 576.0 * 2048.0 / 1408.0).abs() < 1e-9, "{forward:?}");
        assert_eq!(forward.streamed, 512.0);
        // Two tiles of the inner size: each visit reads its matrix again.
        let read_again = 639.0 * 2048.0 * 1408.0 * 2.0;
        assert!(forward.hbm_bytes > read_again && forward.hbm_bytes < 2.0 * read_again, "{forward:?}");
        // With the whole inner size in a tile a matrix is read once.
        let whole = Tile { inner: 2048.0, ..tile };
        assert!(tiled(Product::Rows, &sizes, &whole).hbm_bytes < 0.8 * forward.hbm_bytes);
    }

    /// One of our kernels for the experts of Qwen3 Coder 480B on one of eight devices, 64 rows in 20 groups.
    fn experts(slice: &str, lhs: DType, codes: DType) -> (HloModule, InstructionId) {
        let scales = if lhs == codes { MatrixScales::Columns } else { MatrixScales::None };
        let [rows, inner, columns, groups] = [512, 6144, 2560, 20];
        let (layers, expected_rows, dtype) = (Some(62), Some(64), DType::BF16);
        let matrices = Matrices::AsIs;
        let g = Grouped { rows, inner, columns, groups, layers, dtype, lhs, codes, matrices, scales, expected_rows };
        let generation = slice.parse::<Slice>().unwrap().generation();
        let tiles = Tiles::preferred(&g, Visits::EveryTile, generation).unwrap();
        let kernel = grouped::matmul(&g, tiles, generation).unwrap();
        let hlo = |dtype: DType| dtype.name().to_lowercase().replace("i8", "s8");
        let given = format!(
            "s32[24] %groups, s32[24] %tiles, s32[22] %begins, s32[1] %layer, {}[512,6144] %rows, {}[62,20,6144,2560] %w",
            hlo(lhs),
            hlo(codes)
        );
        let scales = if lhs == codes { ", f32[20,1,2560] %scales" } else { "" };
        let text = format!(
            "%gmm.1 = bf16[512,2560] custom-call({given}{scales}), custom_call_target=\"tpu_custom_call\", backend_config={}",
            kernel.backend_config()
        );
        let module = HloModule::from_instruction_text(&text).unwrap();
        let (id, _) = module.instructions().find(|(_, found)| found.name() == "gmm.1").unwrap();
        (module, id)
    }

    /// What a kernel multiplies is read from its code: codes that the matrix units take are not widened, and the others are in each visit.
    #[test]
    fn codes_are_priced_as_the_code_multiplies_them() {
        let check = |slice: &str, lhs: DType, codes: DType, multiplied: PrimitiveType, converted: usize| {
            let (module, id) = experts(slice, lhs, codes);
            let work = KernelWork::read(&module, id).unwrap();
            assert_eq!(work.matmuls[0].element, multiplied, "{slice}: {lhs} by {codes}");
            assert_eq!(work.converted.len(), converted, "{slice}: {lhs} by {codes}");
            work.time(&Machine::of(&slice.parse().unwrap()), &Work::default())
        };
        let (bf16, i8, e4m3) = (DType::BF16, DType::I8, DType::F8E4M3FN);
        let codes_bytes = 20.0 * 6144.0 * 2560.0;
        for (slice, codes, multiplied) in [
            ("tpu7x-2", e4m3, PrimitiveType::F8E4M3Fn),
            ("v5e-1", i8, PrimitiveType::S8),
            ("v6e-1", i8, PrimitiveType::S8),
            ("v5p-8", i8, PrimitiveType::S8),
        ] {
            let native = check(slice, codes, codes, multiplied, 0);
            let widened = check(slice, bf16, codes, PrimitiveType::Bf16, 1);
            assert_eq!(native.vector_s, 0.0, "{slice}");
            assert!(widened.vector_s > 0.0 && widened.matrix_s > 1.5 * native.matrix_s, "{slice}: {widened:?}");
            // Matrices are read once, and in decode that takes longest.
            let machine = Machine::of(&slice.parse().unwrap());
            let read_s = codes_bytes / (machine.hbm_bytes_per_s * machine.reach.hbm_of_matmuls);
            assert!((1.0..1.1).contains(&(native.hbm_s / read_s)), "{slice}: {native:?}");
            assert_eq!(native.bound(), Bound::Hbm, "{slice}: {native:?}");
        }
        // Matrix units that do not know a type: both sides are widened, and floats of 8 bits take longest.
        let int8 = check("v6e-1", bf16, i8, PrimitiveType::Bf16, 1);
        let float8 = check("v6e-1", e4m3, e4m3, PrimitiveType::Bf16, 2);
        assert!(float8.vector_s > 2.5 * int8.vector_s, "{float8:?} {int8:?}");
        check("tpu7x-2", i8, i8, PrimitiveType::Bf16, 2);
        check("v4-8", i8, i8, PrimitiveType::Bf16, 2);
    }

    #[test]
    fn rows_of_few_groups_are_computed_once() {
        let sizes = Sizes { rows: 8.0, inner: 256.0, columns: 256.0, groups: 128.0, bytes: [2.0, 2.0, 2.0] };
        let tile = tile(Product::Gradient, &[vec![8, 256], vec![8, 256], vec![1, 256, 256]]).unwrap();
        // One tile, begun by at most eight groups.
        assert_eq!(tiled(Product::Gradient, &sizes, &tile).excess, 8.0);
        assert_eq!(super::tile(Product::Rows, &[vec![8, 256], vec![8, 128]]), None, "there is no second operand");
        assert_eq!(super::tile(Product::Rows, &[vec![8, 256], vec![1, 256, 128], vec![16, 128]]), None);
    }
}
