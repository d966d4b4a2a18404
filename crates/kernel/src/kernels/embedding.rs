//! Embedding look-up on SparseCores: rows of a table, each fetched by its number.
//!
//! Every vector subcore takes windows of ids by turns. While the rows of one window arrive from HBM, those of the window before
//! leave for it. Ids beyond the table are clamped, as `stablehlo.gather` does.

use chips::Generation;
use hlo::{Attr, Attrs, Func, FuncBuilder, OpKind, TensorType, Value, Visibility};
use tensor::{DType, Spec};

use super::{Program, Request, divisor, function, tensor};
use crate::builder::KernelBuilder;
use crate::call::{call, tensor_type};
use crate::error::Error;
use crate::ir::RefId;
use crate::kernel::{CostEstimate, Kernel, Semantics};
use crate::sparse_core::SparseCores;
use crate::writer::{Copying, Val, Writer};

const KERNEL: &str = "embedding look-up";
/// Rows in a tile of 32-bit words: windows of results begin with one.
const TILE_ROWS: usize = 8;
/// Words in a line of a tile.
const TILE_COLUMNS: usize = 128;
/// Ids of a window: one line of a tile.
const MOST_IDS: usize = 128;
/// A copy for the window that arrives, one for the window that leaves.
const SLOTS: usize = 2;

/// Shapes of one look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseLookup {
    /// Rows of the table.
    pub rows: usize,
    /// Numbers in a row.
    pub size: usize,
    /// Rows that are looked up.
    pub ids: usize,
    /// Element type of the table.
    pub dtype: DType,
}

/// What a subcore fetches at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupWindow {
    /// Rows.
    pub ids: usize,
    /// Numbers of each.
    pub columns: usize,
}

impl SparseLookup {
    /// The largest window that memory has room for twice, but small enough to give every subcore one.
    pub fn preferred_window(&self, cores: &SparseCores) -> Option<LookupWindow> {
        let words = (cores.usable_bytes() / 4) as usize;
        let room = (words - SLOTS * MOST_IDS) / SLOTS;
        let lines = self.size / TILE_COLUMNS;
        let fits =
            |lines: &usize| TILE_ROWS * lines * TILE_COLUMNS <= room && self.size.is_multiple_of(*lines * TILE_COLUMNS);
        let columns = (1..=lines).rev().find(fits)? * TILE_COLUMNS;
        let each = self.ids.div_ceil(cores.workers()).next_multiple_of(TILE_ROWS);
        let ids = divisor(self.ids, TILE_ROWS, (room / columns).min(MOST_IDS).min(each))?;
        Some(LookupWindow { ids, columns })
    }

    fn check(&self, window: &LookupWindow) -> Result<(), Error> {
        let wrong = if !matches!(self.dtype, DType::F32 | DType::I32) {
            // libtpu: "only 32-bit elements are supported" by indirect transfers.
            Some(format!("SparseCores fetch rows of 32-bit elements, not of {}", self.dtype))
        } else if self.rows == 0 || i32::try_from(self.rows).is_err() {
            Some(format!("a table of {} rows", self.rows))
        } else if self.size == 0 || !self.size.is_multiple_of(TILE_COLUMNS) {
            // libtpu: a slice must be "aligned with source (gather operand) tiling (128)".
            Some(format!("rows of {} are not whole lines of {TILE_COLUMNS}", self.size))
        } else if self.ids == 0 || !self.ids.is_multiple_of(TILE_ROWS) || i32::try_from(self.ids).is_err() {
            Some(format!("{} ids are not whole tiles of {TILE_ROWS}", self.ids))
        } else if window.ids == 0
            || !window.ids.is_multiple_of(TILE_ROWS)
            || !self.ids.is_multiple_of(window.ids)
            || window.ids > MOST_IDS
        {
            Some(format!("windows of {} ids for {}", window.ids, self.ids))
        } else if window.columns == 0
            || !window.columns.is_multiple_of(TILE_COLUMNS)
            || !self.size.is_multiple_of(window.columns)
        {
            Some(format!("windows of {} columns for rows of {}", window.columns, self.size))
        } else {
            None
        };
        wrong.map_or(Ok(()), |message| Err(Error::Shape { kernel: KERNEL, message }))
    }
}

/// The kernel: a table `[rows, size]` and ids `i32 [ids]` give `[ids, size]`.
pub fn lookup(shapes: &SparseLookup, window: LookupWindow, generation: Generation) -> Result<Kernel, Error> {
    let cores = SparseCores::of(generation)?;
    shapes.check(&window)?;
    let mut kernel = KernelBuilder::new("sparse_core_lookup", generation);
    let core = kernel.grid(cores.cores, Semantics::Core);
    let subcore = kernel.grid(cores.subcores, Semantics::Subcore);
    let moved = (shapes.ids * shapes.size * shapes.dtype.size_bytes()) as u64;
    kernel.cost(CostEstimate { bytes_accessed: 2 * moved + 4 * shapes.ids as u64, ..CostEstimate::default() });
    let body = Body {
        shapes: *shapes,
        window,
        cores,
        table: kernel.hbm_input("table", Spec::new(shapes.dtype, [shapes.rows, shapes.size])),
        ids: kernel.hbm_input("ids", Spec::new(DType::I32, [shapes.ids])),
        out: kernel.hbm_output("rows", Spec::new(shapes.dtype, [shapes.ids, shapes.size])),
        // A line for each window, however many ids it has.
        numbers: kernel.scratch("numbers", DType::I32, [SLOTS * MOST_IDS]),
        fetched: kernel.scratch("fetched", shapes.dtype, [SLOTS, window.ids, window.columns]),
        reading: kernel.semaphores("ids are here", 1),
        arriving: kernel.semaphores("rows are here", SLOTS),
        leaving: kernel.semaphores("rows are gone", SLOTS),
    };
    kernel.body(|k| body.write(k, k.program_id(core) * cores.subcores as i32 + k.program_id(subcore)))
}

struct Body {
    shapes: SparseLookup,
    window: LookupWindow,
    cores: SparseCores,
    table: RefId,
    ids: RefId,
    out: RefId,
    numbers: RefId,
    fetched: RefId,
    reading: RefId,
    arriving: RefId,
    leaving: RefId,
}

impl Body {
    /// Windows are numbered, columns of the same ids next to each other; a subcore takes one in as many as there are subcores.
    fn write<'k>(&self, k: &'k Writer, worker: Val<'k>) {
        let blocks = self.shapes.size / self.window.columns;
        let windows = (self.shapes.ids / self.window.ids * blocks) as i32;
        let workers = self.cores.workers() as i32;
        let rounds = (k.i32(windows + workers - 1) - worker) / workers;
        let part = |round: Val<'k>| {
            let number = worker + round * workers;
            let (ids, columns) =
                if blocks == 1 { (number, k.i32(0)) } else { (number / blocks as i32, number % blocks as i32) };
            Piece {
                first: (ids * self.window.ids as i32).multiple_of(TILE_ROWS as u32),
                column: (columns * self.window.columns as i32).multiple_of(TILE_COLUMNS as u32),
                slot: round % SLOTS as i32,
            }
        };
        k.when(rounds.greater(0), || self.fetch(k, &part(k.i32(0))));
        k.for_each(k.i32(0), rounds, &[], |round, _| {
            let next = round + 1;
            k.when(next.less(rounds), || {
                // Its place is free when the window before this one has left.
                k.when(round.greater(0), || k.wait(&self.departure(k, &part(round - 1))));
                self.fetch(k, &part(next));
            });
            let now = part(round);
            k.wait(&self.arrival(k, &now));
            k.start(&self.departure(k, &now));
            Vec::new()
        });
        // Those that no other window took the place of.
        for back in (1..=SLOTS as i32).rev() {
            k.when(rounds.at_least(back), || k.wait(&self.departure(k, &part(rounds - back))));
        }
    }

    /// Brings ids, and begins to bring their rows.
    fn fetch(&self, k: &Writer, piece: &Piece<'_>) {
        let ids = Copying {
            from: k.at(self.ids, &[piece.first], [self.window.ids]),
            to: self.numbers(k, piece),
            rows: None,
            semaphore: k.at(self.reading, &[k.i32(0)], []),
        };
        k.start(&ids);
        k.wait(&ids);
        let lanes = self.cores.lanes;
        let place = piece.slot * MOST_IDS as i32;
        k.for_each(k.i32(0), k.i32(self.window.ids.div_ceil(lanes) as i32), &[], |group, _| {
            let at = place + group * lanes as i32;
            let inside = k.load_part(self.numbers, &[at], [lanes]).max(0).min(self.shapes.rows as i32 - 1);
            k.store_part(self.numbers, &[at], inside);
            Vec::new()
        });
        k.start(&self.arrival(k, piece));
    }

    fn numbers<'k>(&self, k: &'k Writer, piece: &Piece<'k>) -> crate::writer::MemorySlice<'k> {
        let place = (piece.slot * MOST_IDS as i32).multiple_of(MOST_IDS as u32);
        k.at(self.numbers, &[place], [self.window.ids])
    }

    fn arrival<'k>(&self, k: &'k Writer, piece: &Piece<'k>) -> Copying<'k> {
        Copying {
            from: k.at(self.table, &[k.i32(0), piece.column], [self.shapes.rows, self.window.columns]),
            to: k.at(self.fetched, &[piece.slot, k.i32(0), k.i32(0)], [self.window.ids, self.window.columns]),
            rows: Some(self.numbers(k, piece)),
            semaphore: k.at(self.arriving, &[piece.slot], []),
        }
    }

    fn departure<'k>(&self, k: &'k Writer, piece: &Piece<'k>) -> Copying<'k> {
        let block = [self.window.ids, self.window.columns];
        Copying {
            from: k.at(self.fetched, &[piece.slot, k.i32(0), k.i32(0)], block),
            to: k.at(self.out, &[piece.first, piece.column], block),
            rows: None,
            semaphore: k.at(self.leaving, &[piece.slot], []),
        }
    }
}

/// A window of one round: its first id and column, and the memory it has.
struct Piece<'k> {
    first: Val<'k>,
    column: Val<'k>,
    slot: Val<'k>,
}

fn read(request: &Request<'_>) -> Result<SparseLookup, Error> {
    let [rows, size] = request.dims(KERNEL, 0)?;
    let [ids] = request.dims(KERNEL, 1)?;
    let dtype = request.operands.first().map_or(DType::F32, |spec| spec.dtype);
    if request.operands.get(1).is_none_or(|spec| spec.dtype != DType::I32) {
        return Err(Error::Shape { kernel: KERNEL, message: "ids are i32".into() });
    }
    Ok(SparseLookup { rows, size, ids, dtype })
}

/// A call of the kernel; where ids are not whole tiles, zeros make them so, and what they look up is cut off.
pub(super) fn lookup_for(request: &Request<'_>, name: &str) -> Result<Program, Error> {
    let cores = SparseCores::of(request.generation)?;
    let asked = read(request)?;
    let shapes = SparseLookup { ids: asked.ids.next_multiple_of(TILE_ROWS), ..asked };
    let window = shapes.preferred_window(&cores).unwrap_or(LookupWindow { ids: TILE_ROWS, columns: TILE_COLUMNS });
    let kernel = lookup(&shapes, window, request.generation)?;
    let mut function = FuncBuilder::new(name);
    function.visibility(Visibility::Private);
    let table = function.arg(tensor_type(&Spec::new(asked.dtype, [asked.rows, asked.size])));
    let mut ids = function.arg(tensor_type(&Spec::new(DType::I32, [asked.ids])));
    let more = shapes.ids - asked.ids;
    if more > 0 {
        let zero = function.splat(TensorType::new(Vec::new(), DType::I32), &[0; 4]).map_err(broken)?;
        let attrs =
            listed([("edge_padding_low", [0]), ("edge_padding_high", [more as i64]), ("interior_padding", [0])]);
        ids = function.op(OpKind::Pad, &[ids, zero], attrs).map_err(broken)?;
    }
    let op = call(&kernel, &[table, ids]);
    function.at(op.loc);
    let made = function.op_with_types(OpKind::CustomCall, &op.operands, op.attrs, &[], op.results).map_err(broken)?;
    function.at(None);
    let mut rows: Value = made.first().copied().ok_or_else(|| Error::Internal("a call without a result".into()))?;
    if more > 0 {
        let (ids, size) = (asked.ids as i64, asked.size as i64);
        let attrs = listed([("start_indices", [0, 0]), ("limit_indices", [ids, size]), ("strides", [1, 1])]);
        rows = function.op(OpKind::Slice, &[rows], attrs).map_err(broken)?;
    }
    Ok(Program { function: function.finish(&[rows]), kernels: vec![kernel] })
}

fn listed<const N: usize, const M: usize>(list: [(&'static str, [i64; M]); N]) -> Attrs {
    list.into_iter().map(|(name, values)| (name.into(), Attr::i64s(values.to_vec()))).collect()
}

fn broken(violation: impl std::fmt::Debug) -> Error {
    Error::Internal(format!("the call of a look-up: {violation:?}"))
}

pub(super) fn lookup_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request)?, name)
}

/// The look-up in plain ops, a function of that name.
pub fn decomposition(shapes: &SparseLookup, name: &str) -> Result<Func, Error> {
    let SparseLookup { rows, size, ids, dtype } = *shapes;
    let (table, out) = (tensor(dtype, [rows, size]), tensor(dtype, [ids, size]));
    function(format!(
        "func.func private @{name}(%table: {table}, %ids: tensor<{ids}xi32>) -> {out} {{
  %rows = \"stablehlo.gather\"(%table, %ids) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
         start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {size}>}}> : ({table}, tensor<{ids}xi32>) -> {out}
  return %rows : {out}
}}"
    ))
}
