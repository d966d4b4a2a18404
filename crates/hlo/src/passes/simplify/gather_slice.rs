//! A gather of one slice at known indices is a slice.

use crate::ir::{Attr, OpKind, TensorType};

use super::{Exactness, Ranges, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "gather_slice", kinds: &[OpKind::Gather], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (operand, indices) = (site.operand(0), site.operand(1));
    let Attr::Gather(numbers) = site.op().attr("dimension_numbers")? else { return None };
    let sizes = site.i64s("slice_sizes")?;
    let rank = sizes.len();
    let starts = site.constant(indices)?.to_i64s(rank)?;
    let is_unsigned = site.dtype(indices)?.is_unsigned_integer();
    // One index vector: as many indices as components.
    if starts.len() != numbers.start_index_map.len() || !numbers.operand_batching_dims.is_empty() {
        return None;
    }
    let dims = site.dims(operand)?;
    let mut ranges = Ranges { starts: vec![0; rank], limits: sizes.clone(), strides: vec![1; rank] };
    for (&d, &start) in numbers.start_index_map.iter().zip(&starts) {
        let d = d as usize;
        let start = if is_unsigned && start < 0 { i64::MAX } else { start };
        ranges.starts[d] = start.clamp(0, dims[d] - sizes[d]);
        ranges.limits[d] = ranges.starts[d] + sizes[d];
    }
    let to = site.dims(site.result())?.to_vec();
    let ty = TensorType::new(sizes, site.dtype(operand)?);
    // Index vectors without components may be many.
    if ty.num_elements() != site.array(site.result())?.num_elements() {
        return None;
    }
    let slice = site.emit(OpKind::Slice, &[operand], ranges.attrs(), ty);
    Some(vec![site.emit_reshape(slice, &to)?])
}
