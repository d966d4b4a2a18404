//! Attention to a paged KV cache as one step: the composite that models write it as.
#![allow(unsafe_code)]

use hlo::{Attr, Attrs, Op};
use tensor::DType;

use super::dense_operands;
use crate::error::Error;
use crate::footprint::Footprint;
use crate::kernels::attention::paged::{Paged, PagedArrays, PagedShape, Sinks};
use crate::lower::block::Lowering;
use crate::program::{Kernel, Run};

/// The composite's name. Operands: the layer, the pages of each sequence, positions filled, tokens, queries, keys, values, and attention
/// sinks where there are any.
pub(crate) const PAGED_ATTENTION: &str = "tpubridge.paged_attention";

struct Step(Paged);

pub(crate) fn attention(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    if op.attr("name").and_then(Attr::as_str) != Some(PAGED_ATTENTION) {
        return Ok(None);
    }
    let mut types = Vec::new();
    for &value in op.operands.iter().chain([&op.first_result]) {
        types.push(lowering.array_type(value)?);
    }
    let none = Attrs::new();
    let attributes: &Attrs = match op.attr("composite_attributes") {
        Some(Attr::Dict(attributes)) => attributes,
        _ => &none,
    };
    let Some(shape) = shape_of(&types, attributes).filter(PagedShape::is_supported) else { return Ok(None) };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    lowering.step(slots, vec![result], Step(Paged::new(shape, lowering.machine)));
    Ok(Some(()))
}

/// The sizes of operands and result, where they are those of the composite.
fn shape_of(types: &[(DType, Vec<usize>)], attributes: &Attrs) -> Option<PagedShape> {
    let [layer, table, filled, tokens, query, keys, values, rest @ ..] = types else { return None };
    let (sinks, result) = match rest {
        [result] => (None, result),
        [sinks, result] => (Some(sinks), result),
        _ => return None,
    };
    let ([sequences, kv_heads, queries, depth], [layers, pages, _, page_size, _]) = (&query.1[..], &keys.1[..]) else {
        return None;
    };
    let numbers = |numbers: &(DType, Vec<usize>), count: usize| numbers.0 == DType::I32 && numbers.1 == [count];
    let entries = *table.1.first()?;
    let of_table = entries.checked_div(*sequences)?;
    let float = |name: &str| match attributes.get(name) {
        Some(Attr::Float(value, _)) => Some(value.get() as f32),
        _ => None,
    };
    let size = |name: &str| attributes.get(name).and_then(Attr::as_int).and_then(|n| usize::try_from(n).ok());
    let group = size("group").unwrap_or(1).max(1);
    let cache = [*layers, *pages, *kv_heads, *page_size, *depth];
    let fits = numbers(layer, 1)
        && numbers(table, of_table.checked_mul(*sequences)?)
        && numbers(filled, *sequences)
        && numbers(tokens, *sequences)
        && [keys, values].iter().all(|of| of.1 == cache && of.0 == query.0)
        && sinks.is_none_or(|sinks| sinks.0 == DType::F32 && sinks.1 == [*kv_heads, group])
        && result == query;
    fits.then(|| PagedShape {
        sequences: *sequences,
        kv_heads: *kv_heads,
        group,
        queries: *queries,
        depth: *depth,
        layers: *layers,
        pages: *pages,
        page_size: *page_size,
        table: of_table,
        dtype: query.0,
        scale: float("scale").unwrap_or(1.0),
        window: size("window"),
        chunk: size("chunk"),
        soft_cap: float("soft_cap"),
        sinks: if sinks.is_some() { Sinks::Present } else { Sinks::Absent },
    })
}

impl Kernel for Step {
    fn name(&self) -> String {
        self.0.label()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.0.footprint()
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let [layer, table, filled, tokens] = [0, 1, 2, 3].map(|n| inputs[n].cast::<i32>());
        let [query, keys, values] = [4, 5, 6].map(|n| inputs[n]);
        let sinks = inputs.get(7).map_or(std::ptr::null(), |sinks| sinks.cast::<f32>());
        let arrays = PagedArrays { layer, table, filled, tokens, query, keys, values, sinks, out: outputs[0] };
        // SAFETY: the slots hold what the footprint says.
        unsafe { self.0.run(&arrays, run.cores) };
        Ok(())
    }
}
