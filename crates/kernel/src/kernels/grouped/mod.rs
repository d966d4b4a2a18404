//! Grouped matmul (`ragged_dot` in JAX, megablox): rows are sorted by group, and each group has a matrix of its own. Group sizes are
//! data.
//!
//! A visit is a pair of a tile of rows and a group that has rows in it; tables of visits are computed by the program and prefetched.

mod composite;
mod gradient;
mod matmul;

pub use composite::{decomposition, decomposition_of_gradient, visits};
pub(super) use composite::{
    gradient_for, gradient_plain, matmul_for, matmul_plain, visits_for_gradient, visits_for_matmul,
};
pub use gradient::gradient;
pub use matmul::matmul;

use chips::Generation;
use tensor::{DType, Spec};

use super::divisor;
use crate::builder::KernelBuilder;
use crate::cost::{LEAST_PASS, packed_bytes};
use crate::error::Error;
use crate::ir::RefId;
use crate::kernel::{AxisId, CostEstimate, is_narrow};
use crate::writer::{Val, Writer};

/// Shapes of a grouped matmul: `[rows, inner] x [groups, inner, columns] -> [rows, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped {
    /// Rows of all groups.
    pub rows: usize,
    /// What is summed over.
    pub inner: usize,
    /// Columns.
    pub columns: usize,
    /// Groups.
    pub groups: usize,
    /// Layers that the array of matrices has, of which one is read; `None`: it is of one layer and has no such axis.
    pub layers: Option<usize>,
    /// Element type of the result.
    pub dtype: DType,
    /// Element type of rows: that of the result, or codes as the matrices are. Scales of rows are the program's.
    pub lhs: DType,
    /// Element type of the matrices: that of the result, or codes. Codes beside codes are multiplied as they are where the matrix units take
    /// them; otherwise they are widened in vector memory.
    pub codes: DType,
    /// How the matrices are stored.
    pub matrices: Matrices,
    /// What sums of products are multiplied by.
    pub scales: MatrixScales,
    /// Rows that groups have together where it is known to be fewer than there are: what a call is said to cost.
    pub expected_rows: Option<usize>,
}

/// How matrices are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matrices {
    /// `[groups, inner, columns]`.
    #[default]
    AsIs,
    /// `[groups, columns, inner]`.
    Transposed,
}

/// Scales of matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixScales {
    /// None.
    #[default]
    None,
    /// One for each column: `f32 [groups, 1, columns]`.
    Columns,
}

/// Tile sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows.
    pub rows: usize,
    /// What is summed over.
    pub inner: usize,
    /// Columns.
    pub columns: usize,
}

/// Which visits a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visits {
    /// Every tile at least once: rows of no group are a group of their own at the end.
    EveryTile,
    /// Every group at least once, also one without rows.
    EveryGroup,
}

/// Seconds that a step of the grid is taken to cost beside its work.
const STEP_S: f64 = 0.35e-6;
/// Share of the matrix units' rate that is counted on; the planner has fitted figures.
const REACH: f64 = 0.65;
/// Codes of a matrix that are widened in a cycle, by the compiler's cycles: those that the generation knows, and 8-bit floats that it does not.
const WIDENED_PER_CYCLE: [f64; 2] = [1000.0, 450.0];
/// Rows of tiles: a visit multiplies a whole one, however few rows of it are the group's.
const ROWS: [usize; 6] = [512, 256, 128, 64, 32, 16];
/// The inner size and columns of a tile at most: of larger ones no two blocks fit.
const MOST: usize = 16_384;

impl Tiles {
    /// Sizes for a generation, as far as they divide: those that take least time by a rule.
    pub fn preferred(grouped: &Grouped, visits: Visits, generation: Generation) -> Option<Tiles> {
        let most = if generation == Generation::V4 { 256 } else { 512 };
        let widest = Tiles { rows: most, inner: 2 * most, columns: 2 * most };
        let dense = Grouped { lhs: grouped.dtype, codes: grouped.dtype, ..*grouped };
        let room = 5 * widest.vmem_bytes(&dense, visits, generation) / 4;
        let usual = divisor(grouped.rows, 8, most)?;
        let rows = ROWS.into_iter().filter(|&rows| rows < usual && grouped.rows.is_multiple_of(rows));
        let all =
            |size: usize| (1..=size.min(MOST) / 128).map(|n| 128 * n).filter(move |tile| size.is_multiple_of(*tile));
        let mut best: Option<(f64, Tiles)> = None;
        for rows in std::iter::once(usual).chain(rows) {
            // Of equals the first is taken. Codes: the longest inner size, whose sums wait nowhere. Others: the widest columns, which
            // fill the matrix units.
            let mut inners: Vec<usize> = all(grouped.inner).collect();
            if grouped.codes != grouped.dtype {
                inners.reverse();
            }
            for inner in inners {
                for columns in all(grouped.columns) {
                    let tiles = Tiles { rows, inner, columns };
                    let seconds = tiles.seconds(grouped, visits, generation);
                    if tiles.vmem_bytes(grouped, visits, generation) <= room
                        && best.is_none_or(|(least, _)| seconds < least)
                    {
                        best = Some((seconds, tiles));
                    }
                }
            }
        }
        best.map(|(_, tiles)| tiles)
    }

    /// About what a kernel needs: blocks twice, what is summed, and the values of its body with the margin that is kept for them.
    fn vmem_bytes(&self, grouped: &Grouped, visits: Visits, generation: Generation) -> usize {
        let bytes = |elements: usize, dtype: DType| elements.saturating_mul(dtype.bits() as usize) / 8;
        let Tiles { rows, inner, columns } = *self;
        let [lhs, matrix, product] =
            [(rows, inner), (inner, columns), (rows, columns)].map(|(a, b)| a.saturating_mul(b));
        let dense = |elements: usize| bytes(elements, grouped.dtype);
        let (blocks, summed, read) = match visits {
            Visits::EveryTile => {
                let blocks = bytes(lhs, grouped.lhs) + bytes(matrix, grouped.codes) + dense(product);
                (blocks, product, bytes(lhs + matrix, grouped.multiplied(generation)))
            }
            Visits::EveryGroup => (dense(lhs) + dense(product) + dense(matrix), matrix, bytes(lhs, DType::F32)),
        };
        // The sum so far, the product, and both together.
        let values = 3 * bytes(summed, DType::F32) + read;
        2 * blocks + bytes(summed, DType::F32) + values + values / 2
    }

    /// About how long a call takes: a tile is visited by each group that has rows in it, matrices are read again in every visit unless
    /// their blocks stay where they are, and each step of the grid takes its time.
    fn seconds(&self, grouped: &Grouped, visits: Visits, generation: Generation) -> f64 {
        let spec = generation.spec();
        let devices = f64::from(spec.cores.devices_per_chip.value);
        let [all_rows, inner, columns, groups] =
            [grouped.rows, grouped.inner, grouped.columns, grouped.groups].map(|size| size as f64);
        let rows = grouped.expected_rows.map_or(all_rows, |expected| (expected as f64).min(all_rows)).max(1.0);
        let [tile, of_inner, of_columns] = [self.rows as f64, inner / self.inner as f64, columns / self.columns as f64];
        let of_rows = (rows / tile).ceil();
        let visited = of_rows + groups.min(rows) - 1.0;
        let edge = f64::from(spec.cores.mxu_edge.value);
        let [dense, lhs, codes] =
            [grouped.dtype, grouped.lhs, grouped.codes].map(|dtype| f64::from(dtype.bits()) / 8.0);
        let (passed, parallel, bytes) = match visits {
            Visits::EveryTile => {
                let (rows_read, matrices_read) =
                    if of_inner > 1.0 { (visited / of_rows, visited) } else { (1.0, groups.min(visited)) };
                let rows_bytes = rows * (lhs * inner * of_columns * rows_read + dense * columns);
                let bytes = rows_bytes + codes * inner * columns * matrices_read;
                (tile.max(LEAST_PASS * edge), of_columns, bytes)
            }
            Visits::EveryGroup => {
                let bytes = dense * (rows * (inner * of_columns + columns * of_inner) + groups * inner * columns);
                ((tile / edge).ceil() * edge, of_inner * of_columns, bytes)
            }
        };
        // Cores of a device share the first axes of the grid.
        let cores = f64::from(spec.cores.tensor_cores_per_chip.value) / devices;
        let busy = parallel / ((parallel / cores).ceil() * cores);
        let multiplied = grouped.multiplied(generation);
        let flops = REACH * spec.peak_ops_per_device(multiplied.name()) * busy;
        let matrix_s = 2.0 * visited * passed * inner * columns / flops;
        let widened_s = if grouped.codes == multiplied || visits == Visits::EveryGroup {
            0.0
        } else {
            let is_known = grouped.codes.is_integer() || is_double_rate(grouped.codes, generation);
            let per_cycle = WIDENED_PER_CYCLE[usize::from(!is_known)];
            visited * inner * columns / (per_cycle * spec.cores.clock_ghz.value * 1e9 * cores * busy)
        };
        let hbm_s = bytes * devices / (spec.memory.hbm_gb_per_s.value * 1e9);
        let steps = of_inner * of_columns * (all_rows / tile + groups) / (cores * busy);
        matrix_s.max(hbm_s).max(widened_s) + steps * STEP_S
    }
}

impl Grouped {
    /// Entries of a table: no tile has more visits than it has groups that end in it, and one.
    pub fn visits(&self, tiles: &Tiles) -> usize {
        self.rows / tiles.rows.max(1) + self.groups
    }

    /// Groups of a table, with the one of rows that no group has.
    pub(crate) fn listed(&self, visits: Visits) -> usize {
        match visits {
            Visits::EveryTile => self.groups + 1,
            Visits::EveryGroup => self.groups,
        }
    }

    fn check(&self, tiles: &Tiles) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Shape { kernel: "grouped matmul", message });
        if self.groups == 0 || self.layers == Some(0) || !matches!(self.dtype, DType::BF16 | DType::F32) {
            return refuse(format!("{} groups of {}", self.groups, self.dtype));
        }
        if self.codes != self.dtype && !is_narrow(self.codes) {
            return refuse(format!("matrices of {} beside a result of {}", self.codes, self.dtype));
        }
        // Codes of 4 bits meet rows of 8.
        let is_codes = is_narrow(self.lhs) && self.lhs.bits() == 8 && is_narrow(self.codes);
        if self.lhs != self.dtype && !is_codes {
            return refuse(format!("rows of {} beside matrices of {}", self.lhs, self.codes));
        }
        for (name, tile, size) in [
            ("rows", tiles.rows, self.rows),
            ("inner", tiles.inner, self.inner),
            ("columns", tiles.columns, self.columns),
        ] {
            if tile == 0 || !size.is_multiple_of(tile) {
                return refuse(format!("tiles of {tile} {name} do not divide {size}"));
            }
        }
        if i32::try_from(self.rows.saturating_add(self.groups)).is_err() {
            return refuse(format!("{} rows", self.rows));
        }
        Ok(())
    }

    pub(crate) fn lhs(&self) -> Spec {
        Spec::new(self.lhs, [self.rows, self.inner])
    }

    fn scales_spec(&self) -> Spec {
        Spec::new(DType::F32, [self.groups, 1, self.columns])
    }

    /// The type in which rows meet matrices.
    fn multiplied(&self, generation: Generation) -> DType {
        match self.lhs {
            lhs if lhs == self.codes && (!is_narrow(lhs) || is_double_rate(lhs, generation)) => lhs,
            lhs if is_narrow(lhs) => DType::BF16,
            lhs => lhs,
        }
    }

    pub(crate) fn rhs(&self) -> Spec {
        let (rows, columns) = match self.matrices {
            Matrices::AsIs => (self.inner, self.columns),
            Matrices::Transposed => (self.columns, self.inner),
        };
        Spec::new(self.codes, self.layers.into_iter().chain([self.groups, rows, columns]).collect::<Vec<_>>())
    }

    /// Work of the matmul or of its gradient.
    pub(crate) fn cost(&self) -> CostEstimate {
        let rows = self.expected_rows.map_or(self.rows, |expected| expected.min(self.rows)) as u64;
        let flops = 2 * rows.saturating_mul(self.inner as u64).saturating_mul(self.columns as u64);
        let of_one_layer = Grouped { layers: None, ..*self };
        let bytes_accessed = [self.lhs(), of_one_layer.rhs(), self.out()].iter().map(packed_bytes).sum();
        CostEstimate { flops, transcendentals: 0, bytes_accessed }
    }

    pub(crate) fn out(&self) -> Spec {
        Spec::new(self.dtype, [self.rows, self.columns])
    }
}

/// Whether the matrix units multiply a type as it is, at twice the rate of `bf16`.
fn is_double_rate(dtype: DType, generation: Generation) -> bool {
    let types = generation.spec().rates.double_rate_types.value;
    types.iter().any(|name| name.eq_ignore_ascii_case(dtype.name()))
}

/// Tables of visits, prefetched: group and tile of each visit, and where groups begin.
#[derive(Clone, Copy)]
struct Tables {
    group: RefId,
    tile: RefId,
    begins: RefId,
}

impl Tables {
    fn add(kernel: &mut KernelBuilder, visits: usize, listed: usize) -> Tables {
        Tables {
            group: kernel.prefetch("groups of visits", [visits]),
            tile: kernel.prefetch("tiles of visits", [visits]),
            begins: kernel.prefetch("first rows of groups", [listed + 1]),
        }
    }

    fn group<'k>(self, k: &'k Writer, visit: AxisId) -> Val<'k> {
        k.load_scalar(self.group, &[k.program_id(visit)])
    }

    fn tile<'k>(self, k: &'k Writer, visit: AxisId) -> Val<'k> {
        k.load_scalar(self.tile, &[k.program_id(visit)])
    }

    /// Which of a tile's rows belong to the visit's group: booleans of a shape whose first axis is rows.
    fn mine<'k>(self, k: &'k Writer, visit: AxisId, dims: [usize; 2]) -> Val<'k> {
        let group = self.group(k, visit);
        let first = self.tile(k, visit) * dims[0] as i32;
        let row = k.iota(dims, 0) + first;
        let (begin, end) = (k.load_scalar(self.begins, &[group]), k.load_scalar(self.begins, &[group + 1]));
        row.at_least(begin) & row.less(end)
    }
}

/// Whether a table's entry differs from the one before, and from the one after.
fn changes<'k>(k: &'k Writer, table: RefId, visit: AxisId, count: usize) -> (Val<'k>, Val<'k>) {
    let at = k.program_id(visit);
    let here = k.load_scalar(table, &[at]);
    let before = k.load_scalar(table, &[(at - 1).max(0)]);
    let after = k.load_scalar(table, &[(at + 1).min(count as i32 - 1)]);
    (at.equals(0) | here.differs(before), at.equals(count as i32 - 1) | here.differs(after))
}
