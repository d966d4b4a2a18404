//! An integer compared with itself, and a boolean compared with a known one.

use tensor::DType;

use crate::ir::{Attrs, Keyword, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "compare_known", kinds: &[OpKind::Compare], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    let dtype = site.dtype(lhs)?;
    let direction = site.op().attr("comparison_direction")?.as_keyword()?;
    if lhs == rhs && (dtype.is_integer() || dtype.is_bool()) {
        let holds = matches!(direction, Keyword::Eq | Keyword::Ge | Keyword::Le);
        let dims = site.dims(lhs)?.to_vec();
        return Some(vec![site.emit_filled(&dims, DType::Bool, f64::from(u8::from(holds)))?]);
    }
    if !dtype.is_bool() {
        return None;
    }
    let (value, known) = match (site.int_splat(rhs), site.int_splat(lhs)) {
        (Some(known), _) => (lhs, known != 0),
        (None, Some(known)) => (rhs, known != 0),
        (None, None) => return None,
    };
    match direction {
        Keyword::Eq if known => Some(vec![value]),
        Keyword::Ne if !known => Some(vec![value]),
        Keyword::Eq | Keyword::Ne => {
            let ty = site.result_type().clone();
            Some(vec![site.emit(OpKind::Not, &[value], Attrs::new(), ty)])
        }
        _ => None,
    }
}
