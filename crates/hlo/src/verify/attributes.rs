//! Attributes of an op: those it requires are there, and each is of its kind.

use tensor::DType;

use crate::ir::sdy::SdyAttr;
use crate::ir::{Attr, Attrs, Dense, DenseData, ElementType, element_bytes};
use crate::ops::{AttrKind, OpDef, Presence, Violation};

/// Every attribute the op defines.
pub(crate) fn check(def: &OpDef, attrs: &Attrs) -> Result<(), Violation> {
    for attr in def.attrs {
        match (attrs.get(attr.name), attr.presence) {
            (Some(value), _) => {
                if !is_of_kind(value, attr.kind) {
                    return Err(Violation::new("", format!("attribute `{}` must be {}", attr.name, words(attr.kind))));
                }
                if let Attr::Dense(dense) = value {
                    payload(attr.name, dense)?;
                }
            }
            (None, Presence::Required) => {
                return Err(Violation::new("", format!("attribute `{}` is missing", attr.name)));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// The bytes of a constant are as many as its type says.
fn payload(name: &str, dense: &Dense) -> Result<(), Violation> {
    let (width, count) = (element_bytes(&dense.ty), dense.ty.num_elements().and_then(|n| usize::try_from(n).ok()));
    let fits = match &dense.data {
        DenseData::Splat(bytes) => width == Some(bytes.len()) && count.is_some(),
        DenseData::Elements(bytes) => match (width, count) {
            (Some(width), Some(count)) => width.checked_mul(count) == Some(bytes.len()),
            _ => false,
        },
        DenseData::Strings(_) => true,
    };
    if fits {
        return Ok(());
    }
    Err(Violation::new("", format!("attribute `{name}` does not hold as many elements as its type says")))
}

fn is_of_kind(attr: &Attr, kind: AttrKind) -> bool {
    let is_i64 = |dense: &Dense| dense.ty.element == ElementType::Plain(DType::I64);
    let each = |test: &dyn Fn(&Attr) -> bool| matches!(attr, Attr::Array(items) if items.iter().all(test));
    match kind {
        AttrKind::Any => true,
        AttrKind::Unit => matches!(attr, Attr::Unit),
        AttrKind::Bool => matches!(attr, Attr::Bool(_)),
        AttrKind::I64 => matches!(attr, Attr::Int(_, ElementType::Plain(DType::I64))),
        AttrKind::I32 | AttrKind::ApiVersion => matches!(attr, Attr::Int(_, ElementType::Plain(DType::I32))),
        AttrKind::F32 => matches!(attr, Attr::Float(_, ElementType::Plain(DType::F32))),
        AttrKind::Number(dtype) => {
            matches!(attr, Attr::Int(_, ElementType::Plain(have)) | Attr::Float(_, ElementType::Plain(have)) if *have == dtype)
        }
        AttrKind::Str => matches!(attr, Attr::Str(_)),
        AttrKind::Symbol => matches!(attr, Attr::Symbol(_)),
        AttrKind::Symbols => each(&|item| matches!(item, Attr::Symbol(_))),
        AttrKind::Dict => matches!(attr, Attr::Dict(_)),
        AttrKind::StrOrDict => matches!(attr, Attr::Str(_) | Attr::Dict(_)),
        AttrKind::Dense => matches!(attr, Attr::Dense(_)),
        AttrKind::DenseI64 => matches!(attr, Attr::Dense(dense) if is_i64(dense)),
        AttrKind::I64s => matches!(attr, Attr::DenseArray(DType::I64, _)),
        AttrKind::Bools => matches!(attr, Attr::DenseArray(DType::Bool, _)),
        AttrKind::Array => matches!(attr, Attr::Array(_)),
        AttrKind::Keyword(set) => matches!(attr, Attr::Keyword(word) if word.set() == set),
        AttrKind::Keywords(set) => each(&|item| matches!(item, Attr::Keyword(word) if word.set() == set)),
        AttrKind::Dot => matches!(attr, Attr::Dot(_)),
        AttrKind::RaggedDot => matches!(attr, Attr::RaggedDot(_)),
        AttrKind::Gather => matches!(attr, Attr::Gather(_)),
        AttrKind::Scatter => matches!(attr, Attr::Scatter(_)),
        AttrKind::Conv => matches!(attr, Attr::Conv(_)),
        AttrKind::DotAlgorithm => matches!(attr, Attr::DotAlgorithm(_)),
        AttrKind::Channel => matches!(attr, Attr::Channel(_)),
        AttrKind::ResultAccuracy => matches!(attr, Attr::ResultAccuracy(_)),
        AttrKind::ReplicaGroups => match attr {
            Attr::Dense(dense) => is_i64(dense),
            _ => matches!(attr, Attr::MeshAxes(_)),
        },
        AttrKind::SdySharding => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::Sharding(_))),
        AttrKind::SdyShardings => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::ShardingPerValue(_))),
        AttrKind::SdyManualAxes => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::ManualAxes(_))),
        AttrKind::SdyAxisLists => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::AxisLists(_))),
        AttrKind::SdyAxisList => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::AxisList(_))),
        AttrKind::Named(names) => {
            matches!(attr, Attr::Int(value, ElementType::Plain(DType::I32))
                if usize::try_from(*value).is_ok_and(|value| value < names.len()))
        }
        AttrKind::SdyAllToAll => matches!(attr, Attr::Sdy(sdy) if matches!(**sdy, SdyAttr::AllToAll(_))),
    }
}

fn words(kind: AttrKind) -> String {
    match kind {
        AttrKind::Any => "any attribute".into(),
        AttrKind::Unit => "a unit attribute".into(),
        AttrKind::Bool => "true or false".into(),
        AttrKind::I64 => "an integer of type i64".into(),
        AttrKind::I32 | AttrKind::ApiVersion => "an integer of type i32".into(),
        AttrKind::F32 => "a number of type f32".into(),
        AttrKind::Number(dtype) => format!("a number of type {dtype}"),
        AttrKind::Str => "a string".into(),
        AttrKind::Symbol => "a symbol".into(),
        AttrKind::Symbols => "an array of symbols".into(),
        AttrKind::Dict => "a dictionary".into(),
        AttrKind::StrOrDict => "a string or a dictionary".into(),
        AttrKind::Dense => "a dense constant".into(),
        AttrKind::DenseI64 => "a dense constant of i64".into(),
        AttrKind::I64s => "array<i64: …>".into(),
        AttrKind::Bools => "array<i1: …>".into(),
        AttrKind::Array => "an array".into(),
        AttrKind::Keyword(set) => format!("a word of {}", set.mnemonic()),
        AttrKind::Keywords(set) => format!("an array of words of {}", set.mnemonic()),
        AttrKind::Dot => "#stablehlo.dot".into(),
        AttrKind::RaggedDot => "#chlo.ragged_dot".into(),
        AttrKind::Gather => "#stablehlo.gather".into(),
        AttrKind::Scatter => "#stablehlo.scatter".into(),
        AttrKind::Conv => "#stablehlo.conv".into(),
        AttrKind::DotAlgorithm => "#stablehlo.dot_algorithm".into(),
        AttrKind::Channel => "#stablehlo.channel_handle".into(),
        AttrKind::ResultAccuracy => "#stablehlo.result_accuracy".into(),
        AttrKind::ReplicaGroups => "a dense constant of i64 or #stablehlo.replica_group_mesh_axes".into(),
        AttrKind::SdySharding => "#sdy.sharding".into(),
        AttrKind::SdyShardings => "#sdy.sharding_per_value".into(),
        AttrKind::SdyManualAxes => "#sdy<manual_axes{…}>".into(),
        AttrKind::SdyAxisLists => "#sdy<list_of_axis_ref_lists[…]>".into(),
        AttrKind::SdyAxisList => "#sdy<axis_ref_list{…}>".into(),
        AttrKind::Named(names) => format!("one of {}", names.join(", ")),
        AttrKind::SdyAllToAll => "#sdy<all_to_all_param_list[…]>".into(),
    }
}
