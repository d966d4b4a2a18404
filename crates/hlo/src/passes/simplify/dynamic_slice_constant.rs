//! A dynamic slice at known indices is a slice; one as large as its operand is the operand.

use crate::ir::OpKind;

use super::{Exactness, Ranges, Replacement, Rule, Site, index};

pub(super) const RULE: Rule = Rule { name: "dynamic_slice_constant", kinds: &[OpKind::DynamicSlice], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    let dims = site.dims(operand)?.to_vec();
    let sizes = site.i64s("slice_sizes")?;
    if sizes == dims {
        return Some(vec![operand]);
    }
    let mut ranges = Ranges { starts: Vec::new(), limits: Vec::new(), strides: vec![1; dims.len()] };
    for (d, (&dim, &size)) in dims.iter().zip(&sizes).enumerate() {
        // Where there is one place only, the index does not matter.
        let start = if size == dim { 0 } else { index(site, site.operand(d + 1))?.clamp(0, dim - size) };
        ranges.starts.push(start);
        ranges.limits.push(start + size);
    }
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Slice, &[operand], ranges.attrs(), ty)])
}
