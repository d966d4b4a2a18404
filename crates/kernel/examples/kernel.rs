//! Prints a kernel as a program: `kernel KIND GENERATION SIZES [BLOCKS] [text]`, sizes and blocks with commas.
//!
//! `flash-fwd`, `flash-bwd` of a length, with blocks of queries, keys in VMEM and keys; `norm-fwd`, `norm-bwd` of rows and a size,
//! with a block of rows; `quantized-i4`, `quantized-i8`, `quantized-f8E4M3FN` of rows, input and output features and a group, with
//! blocks of input and output features; `grouped-bf16` and such of rows, inner size, columns, groups and rows that groups are expected
//! to have, with tiles of rows, inner size and columns; `paged`, `paged-int8`, `paged-mla` of sequences, KV heads, group, tokens, table and page size,
//! with a block of queries;
//! `loss-fwd`, `loss-bwd` of rows, depth and vocabulary size, with blocks of rows and vocabulary; `lookup` of rows of a table, their
//! size and ids, with a window of ids and columns.

use std::process::ExitCode;

use chips::Generation;
use hlo::{FuncBuilder, ModuleBuilder, OpKind, Type};
use kernel::kernels::PassDirection;
use kernel::kernels::cross_entropy::{self, FusedCrossEntropy};
use kernel::kernels::embedding::{self, LookupWindow, SparseLookup};
use kernel::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, Segments};
use kernel::kernels::grouped::{self, Grouped, Matrices, MatrixScales, Tiles, Visits};
use kernel::kernels::norm::{self, FusedNorm, FusedNormKind};
use kernel::kernels::paged::{self, AttentionSinks, PagedAttention};
use kernel::kernels::quantized::{self, QuantizedMatmul, QuantizedTiles};
use kernel::{Kernel, SparseCores};
use tensor::{DType, Spec};

/// Heads: cycles grow with them evenly, and so does the time to count them.
const HEADS: usize = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match printed(&args) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn printed(args: &[String]) -> Result<String, String> {
    let [kind, generation, sizes, rest @ ..] = args else {
        return Err("a kind of kernel, a generation and sizes".into());
    };
    let generation = Generation::from_name(generation).ok_or("no such generation")?;
    let numbers = |text: &str| -> Vec<usize> { text.split(',').filter_map(|n| n.parse().ok()).collect() };
    let blocks = rest.first().map(|text| numbers(text)).unwrap_or_default();
    let kernel = match (kind.as_str(), &numbers(sizes)[..]) {
        ("flash-fwd", &[length]) => flash_kernel(length, &blocks, PassDirection::Forward, generation),
        ("flash-bwd", &[length]) => flash_kernel(length, &blocks, PassDirection::Backward, generation),
        ("norm-fwd" | "norm-bwd", &[rows, size]) => {
            let norm = FusedNorm::new(FusedNormKind::Rms, [rows, size], DType::BF16, DType::F32, 1e-5);
            let (pass, make): (_, fn(&FusedNorm, usize, Generation) -> _) = match kind.as_str() {
                "norm-fwd" => (PassDirection::Forward, norm::forward),
                _ => (PassDirection::Backward, norm::backward),
            };
            let block = blocks.first().copied().or_else(|| norm.preferred_rows(pass, generation));
            let block = block.ok_or("no blocks divide that many rows")?;
            make(&norm, block, generation).map_err(|error| error.to_string())
        }
        ("lookup", &[rows, size, ids]) => {
            let lookup = SparseLookup { rows, size, ids, dtype: DType::F32 };
            let window = match blocks[..] {
                [ids, columns] => Some(LookupWindow { ids, columns }),
                _ => SparseCores::of(generation).ok().and_then(|cores| lookup.preferred_window(&cores)),
            };
            let window = window.ok_or("no window fits")?;
            embedding::lookup(&lookup, window, generation).map_err(|error| error.to_string())
        }
        ("loss-fwd", &[rows, depth, vocab_size]) => {
            loss_kernel([rows, depth, vocab_size], &blocks, PassDirection::Forward, generation)
        }
        ("loss-bwd", &[rows, depth, vocab_size]) => {
            loss_kernel([rows, depth, vocab_size], &blocks, PassDirection::Backward, generation)
        }
        ("paged" | "paged-int8" | "paged-mla", &[sequences, kv_heads, group, tokens, table, page_size]) => {
            // Latent vectors of DeepSeek.
            let (depth, rotary) = if kind == "paged-mla" { (512, Some(64)) } else { (128, None) };
            let attention = PagedAttention {
                sequences,
                kv_heads,
                group,
                queries: (tokens * group).next_multiple_of(16),
                depth,
                rotary,
                layers: 1,
                pages: sequences * table,
                page_size,
                table,
                dtype: DType::BF16,
                codes: if kind == "paged-int8" { DType::I8 } else { DType::BF16 },
                scale: 0.088,
                window: None,
                chunk: None,
                soft_cap: None,
                sinks: AttentionSinks::Absent,
            };
            let block = blocks.first().copied().or_else(|| attention.preferred_block(generation));
            let block = block.ok_or("no blocks divide these queries")?;
            paged::attention(&attention, block, generation).map_err(|error| error.to_string())
        }
        (kind, &[rows, inner, columns, group]) if kind.starts_with("quantized-") => {
            let codes = DType::from_name(kind.trim_start_matches("quantized-")).ok_or("no such type of codes")?;
            let shape = QuantizedMatmul { rows, inner, columns, group, x: DType::BF16, codes };
            let tiles = match blocks[..] {
                [inner, columns] => Some(QuantizedTiles { inner, columns }),
                _ => QuantizedTiles::preferred(&shape, generation),
            };
            let tiles = tiles.ok_or("no blocks divide these features")?;
            quantized::matmul(&shape, tiles, generation).map_err(|error| error.to_string())
        }
        (kind, &[rows, inner, columns, groups, expected]) if kind.starts_with("grouped-") => {
            // Rows in codes too have a type of their own before that of the matrices.
            let types = kind.trim_start_matches("grouped-");
            let (lhs, codes) = types.split_once('.').unwrap_or(("bf16", types));
            let lhs = DType::from_name(lhs).ok_or("no such type of rows")?;
            let codes = DType::from_name(codes).ok_or("no such type of matrices")?;
            let grouped = Grouped {
                rows,
                inner,
                columns,
                groups,
                layers: None,
                dtype: DType::BF16,
                lhs,
                codes,
                matrices: Matrices::AsIs,
                scales: if lhs == DType::BF16 { MatrixScales::None } else { MatrixScales::Columns },
                expected_rows: Some(expected),
            };
            let tiles = match blocks[..] {
                [rows, inner, columns] => Some(Tiles { rows, inner, columns }),
                _ => Tiles::preferred(&grouped, Visits::EveryTile, generation),
            };
            let tiles = tiles.ok_or("no tiles divide these sizes")?;
            eprintln!("tiles of {} rows, {} inner, {} columns", tiles.rows, tiles.inner, tiles.columns);
            grouped::matmul(&grouped, tiles, generation).map_err(|error| error.to_string())
        }
        _ => return Err(format!("no kernel {kind} of {sizes}")),
    }?;
    if rest.get(1).is_some_and(|word| word == "text") { Ok(kernel.text()) } else { program(&kernel) }
}

fn flash_kernel(
    length: usize,
    blocks: &[usize],
    pass: PassDirection,
    generation: Generation,
) -> Result<Kernel, String> {
    let attention = FlashAttention {
        batch: 1,
        q_heads: HEADS,
        kv_heads: HEADS,
        q_len: length,
        kv_len: length,
        depth: 128,
        dtype: DType::BF16,
        scale: 0.088,
        soft_cap: None,
        causality: Causality::Causal,
        window: None,
        segments: Segments::One,
        mask: None,
    };
    let blocks = match *blocks {
        [q, kv_major, kv] => Some(FlashBlockSizes { q, kv_major, kv }),
        _ => FlashBlockSizes::preferred(&attention, generation, pass),
    };
    let blocks = blocks.ok_or("no blocks divide that length")?;
    let make = match pass {
        PassDirection::Forward => flash::forward,
        PassDirection::Backward => flash::backward,
    };
    make(&attention, blocks, generation).map_err(|error| error.to_string())
}

fn loss_kernel(
    sizes: [usize; 3],
    blocks: &[usize],
    pass: PassDirection,
    generation: Generation,
) -> Result<Kernel, String> {
    let [rows, depth, vocab_size] = sizes;
    let loss = FusedCrossEntropy { rows, depth, vocab_size, dtype: DType::BF16 };
    let blocks = match *blocks {
        [rows, vocab] => vec![cross_entropy::CrossEntropyBlockSizes { rows, vocab }],
        _ => cross_entropy::CrossEntropyBlockSizes::preferred(&loss, pass).collect(),
    };
    let make = |blocks| match pass {
        PassDirection::Forward => cross_entropy::forward(&loss, blocks, generation),
        PassDirection::Backward => cross_entropy::backward(&loss, blocks, cross_entropy::Sum::Begins, generation),
    };
    let mut refused = "no blocks divide that many rows".to_owned();
    for blocks in blocks {
        match make(blocks) {
            Ok(kernel) => return Ok(kernel),
            Err(error) => refused = error.to_string(),
        }
    }
    Err(refused)
}

fn program(kernel: &Kernel) -> Result<String, String> {
    let mut f = FuncBuilder::new("main");
    let ty = |spec: &Spec| Type::tensor(spec.dims.iter().map(|&d| d as i64).collect::<Vec<_>>(), spec.dtype);
    let operands: Vec<_> = kernel.operands().iter().map(|spec| f.arg(ty(spec))).collect();
    let call = kernel::call(kernel, &operands);
    f.at(call.loc);
    let results = f
        .op_with_types(OpKind::CustomCall, &call.operands, call.attrs, &[], call.results)
        .map_err(|violation| format!("{violation:?}"))?;
    let mut module = ModuleBuilder::new("kernel");
    module.func(f.finish(&results));
    let module = hlo::verify(module.finish()).map_err(|error| error.to_string())?;
    Ok(hlo::text::print(&module))
}
