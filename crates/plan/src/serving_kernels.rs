//! Custom kernels of inference engines (vLLM on TPUs): quantized matmuls with scales by groups, ragged paged attention.

use xla::{HloModule, InstructionId, PrimitiveType, Shape};

use crate::kernel_work::{KernelOrder, KernelWork, OPS_PER_CODE};
use crate::work::Matmul;

/// Vector operations for each number of a group's partial sum: conversion, scale, sum.
const OPS_PER_PARTIAL_SUM: f64 = 3.0;
/// Vector operations for each score beside the exponential: mask, maximum, subtraction, sum, conversion.
const OPS_PER_SCORE: f64 = 5.0;

fn size(shape: &Shape, axis: usize) -> Option<u64> {
    shape.dimensions().get(axis).and_then(|&n| u64::try_from(n).ok())
}

/// Activations `[rows, inner]`, codes `[columns, inner]`, scales `[groups, 1, columns]`: the kernel quantizes activations itself and
/// multiplies in 8 bits; a group's partial sum is scaled after its matmul, not beside it.
pub(crate) fn quantized(module: &HloModule, id: InstructionId) -> Option<KernelWork> {
    let instruction = module.instruction(id);
    let operand = |index: usize| instruction.operands().get(index).map(|&operand| module.instruction(operand).shape());
    let (activations, codes, scales) = (operand(0)?, operand(1)?, operand(2)?);
    if scales.dimensions().len() != 3 || size(scales, 1)? != 1 {
        return None;
    }
    let (rows, columns, contracted) = (size(activations, 0)?, size(codes, 0)?, size(codes, 1)?);
    let (groups, element) = (size(scales, 0)?, codes.element_type());
    let is_integer = matches!(element, PrimitiveType::S8 | PrimitiveType::S4 | PrimitiveType::U8 | PrimitiveType::U4);
    let multiplied = match element.bits() {
        bits if bits > 8 => element,
        _ if is_integer => PrimitiveType::S8,
        8 => element,
        _ => PrimitiveType::F8E4M3Fn,
    };
    let flops = 2.0 * rows as f64 * columns as f64 * contracted as f64;
    let work = KernelWork::of("quantized matmul", vec![Matmul { flops, element: multiplied, contracted, columns }]);
    let partial_sums = rows as f64 * groups as f64 * columns as f64;
    Some(work.with_vector(OPS_PER_PARTIAL_SUM * partial_sums, 0.0).in_order(KernelOrder::OneAfterTheOther))
}

/// Our own attention to pages, which says what it computes and reads: queries `[sequences, kv heads, queries, depth]`, keys
/// `[layers, pages, kv heads, page, depth]`. A page is loaded into the MXU for each block of queries, however few these are.
pub(crate) fn own_paged_attention(module: &HloModule, id: InstructionId) -> Option<KernelWork> {
    let instruction = module.instruction(id);
    let stated = instruction.kernel_cost()?;
    let shapes = instruction.operands().iter().map(|&operand| module.instruction(operand).shape());
    let mut arrays = shapes.filter(|shape| !shape.is_tuple() && shape.dimensions().len() >= 4);
    let (query, keys) = (arrays.next()?, arrays.next()?);
    let (rows, depth) = (size(query, 2)?.clamp(1, MOST_ROWS), size(query, 3)?);
    let page = size(keys, 3)?;
    let (flops, scores) = (stated.flops as f64, stated.transcendentals as f64);
    let one = |contracted: u64, columns: u64| Matmul {
        flops: flops / 2.0,
        element: query.element_type(),
        contracted,
        columns,
    };
    let is_codes = keys.element_type().bits() < query.element_type().bits();
    let widened = if is_codes { OPS_PER_CODE * flops / (2.0 * rows as f64) } else { 0.0 };
    let work = KernelWork::of("paged attention", vec![one(depth, page), one(page, depth)]);
    let work = work.with_vector(OPS_PER_SCORE * scores + widened, scores).of_rows(rows as f64);
    Some(work.touching(stated.bytes_accessed as f64))
}

/// Most queries of a block of our own kernel.
const MOST_ROWS: u64 = 256;

/// Whether a kernel is ragged paged attention, by the name its authors gave it.
pub(crate) fn is_paged_attention(name: &str) -> bool {
    name.starts_with("rpa-") || name.starts_with("ragged_paged_attention")
}

/// Queries `[kv heads, tokens, ..., depth]` or `[tokens, heads, depth]`. Contexts are not in the program: tokens are taken as one
/// prompt from its beginning. Every block of queries meets whole blocks of keys, as the kernel's name says them
/// (`bq_32-bkvp_32-p_128`: 32 queries, 32 pages of 128 keys), masked or not.
pub(crate) fn paged_attention(module: &HloModule, id: InstructionId, name: &str) -> Option<KernelWork> {
    let instruction = module.instruction(id);
    let shapes = instruction.operands().iter().map(|&operand| module.instruction(operand).shape());
    let is_values = |shape: &&Shape| {
        !shape.is_tuple() && shape.dimensions().len() >= 3 && !matches!(shape.element_type(), PrimitiveType::S32)
    };
    let mut values = shapes.filter(is_values);
    let query = values.next()?;
    // The largest array is the cache: pages of some positions each.
    let cache = values.max_by_key(|shape| shape.element_count())?;
    let positions = size(cache, 0)?.saturating_mul(size(cache, 1)?).max(1);
    let dims = query.dimensions();
    let depth = u64::try_from(*dims.last()?).ok()?.max(1);
    let tokens = size(query, if dims.len() >= 5 { 1 } else { 0 })?.max(1);
    let heads = query.element_count() / (depth * tokens).max(1);
    let block = |key: &str| {
        let (_, rest) = name.split_once(key)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok().filter(|n| *n > 0)
    };
    let queries = block("bq_").unwrap_or(tokens).min(tokens);
    let keys = block("bkvp_").unwrap_or(1).saturating_mul(block("-p_").unwrap_or(1)).max(1);
    // Blocks of keys up to the last query of each block of queries.
    let blocks = tokens.div_ceil(queries).min(MOST_BLOCKS);
    let met: f64 = (1..=blocks).map(|n| ((n * queries).min(tokens).div_ceil(keys) * keys) as f64).sum();
    let scores = heads as f64 * queries as f64 * met;
    let touched = 2.0 * query.byte_size() as f64 + met * cache.byte_size() as f64 / positions as f64;
    let one = |contracted: u64, columns: u64| Matmul {
        flops: 2.0 * scores * depth as f64,
        element: query.element_type(),
        contracted,
        columns,
    };
    let work = KernelWork::of("paged attention", vec![one(depth, keys), one(keys, depth)]);
    let work = work.with_vector(OPS_PER_SCORE * scores, scores).touching(touched);
    Some(work.in_order(KernelOrder::OneAfterTheOther))
}

/// Blocks of queries that are looked at one by one.
const MOST_BLOCKS: u64 = 1 << 20;
