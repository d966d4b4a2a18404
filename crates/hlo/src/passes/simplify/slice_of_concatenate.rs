//! A slice within one piece of a concatenation is a slice of that piece.

use crate::ir::OpKind;

use super::{Exactness, Ranges, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "slice_of_concatenate", kinds: &[OpKind::Slice], apply };

/// Pieces looked through for each slice, so that many slices of many pieces do not take their product.
const MAX_PIECES: usize = 1024;

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let joined = site.computed_by(site.operand(0), OpKind::Concatenate)?;
    let dim = usize::try_from(joined.attr("dimension")?.as_int()?).ok()?;
    if joined.operands.len() > MAX_PIECES {
        return None;
    }
    let pieces = joined.operands.clone();
    let mut ranges = Ranges::of(site.op())?;
    let size = *site.dims(site.result())?.get(dim)?;
    let (start, last) = (ranges.starts[dim], ranges.starts[dim] + (size - 1) * ranges.strides[dim]);
    let mut offset = 0;
    for piece in pieces {
        let length = *site.dims(piece)?.get(dim)?;
        if size > 0 && offset <= start && last < offset + length {
            ranges.starts[dim] = start - offset;
            ranges.limits[dim] = last + 1 - offset;
            let ty = site.result_type().clone();
            return Some(vec![site.emit(OpKind::Slice, &[piece], ranges.attrs(), ty)]);
        }
        offset += length;
    }
    None
}
