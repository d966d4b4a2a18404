//! From the flat attributes VHLO stores to the attributes a StableHLO op has.

use std::sync::Arc;

use tensor::DType;

use crate::ir::dims::{ChannelHandle, ConvDims, DotAlgorithm, DotDims, GatherDims, ScatterDims};
use crate::ir::{Attr, AttrName, Attrs, ElementType, Keyword, Type};
use crate::ops::{AttrDef, AttrKind, OpDef, VhloForm};

/// More dimensions than any op can name.
const MAX_DIMENSIONS: usize = 1 << 16;

/// The attributes of an op stored in `form`; what is wrong with them otherwise.
pub(super) fn legalize(def: &OpDef, form: &VhloForm, mut stored: Attrs) -> Result<Attrs, String> {
    let mut attrs = Attrs::new();
    for attr in def.attrs {
        if let Some(value) = gather_parts(attr, &mut stored)? {
            attrs.set(attr.name, value);
        }
    }
    for (name, value) in stored.iter() {
        match def.attr(name) {
            Some(attr) => {
                if let Some(value) = convert(attr, value)? {
                    attrs.set(attr.name, value);
                }
            }
            // What a form has and the op has not was dropped from the language.
            None if form.attrs.contains(&name) => {}
            None => {
                attrs.set(AttrName::Owned(name.to_owned()), value.clone());
            }
        }
    }
    drop_absent(&mut attrs);
    def.drop_defaults(&mut attrs);
    Ok(attrs)
}

/// Builds an attribute that VHLO stores in parts, taking the parts.
fn gather_parts(attr: &AttrDef, stored: &mut Attrs) -> Result<Option<Attr>, String> {
    Ok(Some(match attr.kind {
        AttrKind::Conv => Attr::Conv(Arc::new(ConvDims {
            input_batch: int(stored, "input_batch_dimension")?,
            input_feature: int(stored, "input_feature_dimension")?,
            input_spatial: ints(stored, "input_spatial_dimensions")?,
            kernel_input_feature: int(stored, "kernel_input_feature_dimension")?,
            kernel_output_feature: int(stored, "kernel_output_feature_dimension")?,
            kernel_spatial: ints(stored, "kernel_spatial_dimensions")?,
            output_batch: int(stored, "output_batch_dimension")?,
            output_feature: int(stored, "output_feature_dimension")?,
            output_spatial: ints(stored, "output_spatial_dimensions")?,
        })),
        AttrKind::Dot => Attr::Dot(Arc::new(DotDims {
            lhs_batching: ints(stored, "lhs_batching_dimensions")?,
            rhs_batching: ints(stored, "rhs_batching_dimensions")?,
            lhs_contracting: ints(stored, "lhs_contracting_dimensions")?,
            rhs_contracting: ints(stored, "rhs_contracting_dimensions")?,
        })),
        AttrKind::DotAlgorithm => return dot_algorithm(stored),
        AttrKind::Gather => Attr::Gather(Arc::new(GatherDims {
            offset_dims: ints(stored, "offset_dims")?,
            collapsed_slice_dims: ints(stored, "collapsed_slice_dims")?,
            operand_batching_dims: ints_or_none(stored, "operand_batching_dims")?,
            start_indices_batching_dims: ints_or_none(stored, "start_indices_batching_dims")?,
            start_index_map: ints(stored, "start_index_map")?,
            index_vector_dim: int(stored, "index_vector_dim")?,
        })),
        AttrKind::Scatter => Attr::Scatter(Arc::new(ScatterDims {
            update_window_dims: ints(stored, "update_window_dims")?,
            inserted_window_dims: ints(stored, "inserted_window_dims")?,
            input_batching_dims: ints_or_none(stored, "input_batching_dims")?,
            scatter_indices_batching_dims: ints_or_none(stored, "scatter_indices_batching_dims")?,
            scatter_dims_to_operand_dims: ints(stored, "scatter_dims_to_operand_dims")?,
            index_vector_dim: int(stored, "index_vector_dim")?,
        })),
        AttrKind::Channel => {
            let handle = int(stored, "channel_id")?;
            let has_kind = stored.get("channel_type").is_some();
            let kind = if has_kind { int(stored, "channel_type")? } else { 0 };
            // Only ops that store a kind distinguish channel 0 from none.
            if handle == 0 && !has_kind {
                return Ok(None);
            }
            Attr::Channel(ChannelHandle { handle, kind })
        }
        _ => return Ok(None),
    }))
}

fn dot_algorithm(stored: &mut Attrs) -> Result<Option<Attr>, String> {
    const PARTS: [&str; 7] = [
        "accumulation_type",
        "allow_imprecise_accumulation",
        "lhs_component_count",
        "lhs_precision_type",
        "num_primitive_operations",
        "rhs_component_count",
        "rhs_precision_type",
    ];
    if matches!(stored.get("lhs_component_count"), None | Some(Attr::Type(Type::None))) {
        PARTS.iter().for_each(|part| drop(stored.remove(part)));
        return Ok(None);
    }
    Ok(Some(Attr::DotAlgorithm(Arc::new(DotAlgorithm {
        lhs_precision_type: element(stored, "lhs_precision_type")?,
        rhs_precision_type: element(stored, "rhs_precision_type")?,
        accumulation_type: element(stored, "accumulation_type")?,
        lhs_component_count: int(stored, "lhs_component_count")?,
        rhs_component_count: int(stored, "rhs_component_count")?,
        num_primitive_operations: int(stored, "num_primitive_operations")?,
        allow_imprecise_accumulation: match take(stored, "allow_imprecise_accumulation")? {
            Attr::Bool(value) => value,
            _ => return Err("`allow_imprecise_accumulation` must be a boolean".into()),
        },
    }))))
}

/// One stored attribute in the form the op has it; `None` where its value says what absence says.
fn convert(attr: &AttrDef, value: &Attr) -> Result<Option<Attr>, String> {
    Ok(Some(match (attr.kind, value) {
        (AttrKind::I64s, Attr::Dense(_)) => Attr::i64s(integers(attr.name, value)?),
        (AttrKind::Bools, Attr::Dense(_)) => Attr::DenseArray(DType::Bool, integers(attr.name, value)?.into()),
        (AttrKind::Symbol, Attr::Str(_)) => symbol(attr.name, value)?,
        (AttrKind::Symbols, Attr::Array(values)) => {
            Attr::Array(values.iter().map(|value| symbol(attr.name, value)).collect::<Result<_, _>>()?)
        }
        (AttrKind::I32, Attr::Int(value, _)) => Attr::Int(*value, DType::I32.into()),
        (AttrKind::Unit, Attr::Bool(false)) => return Ok(None),
        (AttrKind::Unit, Attr::Bool(true)) => Attr::Unit,
        _ => value.clone(),
    }))
}

fn symbol(name: &str, value: &Attr) -> Result<Attr, String> {
    match value {
        Attr::Symbol(_) => Ok(value.clone()),
        _ => value.as_str().map(|text| Attr::Symbol(text.into())).ok_or_else(|| format!("`{name}` must name a symbol")),
    }
}

/// Removes what portable artifacts write where StableHLO writes nothing.
fn drop_absent(attrs: &mut Attrs) {
    let is_empty = |attrs: &Attrs, name: &str| match attrs.get(name) {
        Some(Attr::Array(values)) => values.is_empty(),
        Some(Attr::Dict(values)) => values.is_empty(),
        Some(Attr::Dense(dense)) => dense.ty.num_elements() == Some(0),
        _ => false,
    };
    if is_empty(attrs, "operand_layouts") && is_empty(attrs, "result_layouts") {
        attrs.remove("operand_layouts");
        attrs.remove("result_layouts");
    }
    for name in ["result_tilings", "source_target_pairs", "layout", "backend_config"] {
        if is_empty(attrs, name) {
            attrs.remove(name);
        }
    }
    let all_default = |values: &[Attr]| values.iter().all(|v| *v == Attr::Keyword(Keyword::PrecisionDefault));
    if matches!(attrs.get("precision_config"), Some(Attr::Array(values)) if all_default(values)) {
        attrs.remove("precision_config");
    }
    if let Some(Attr::ResultAccuracy(accuracy)) = attrs.get("result_accuracy") {
        let is_default = accuracy.atol.get() == 0.0
            && accuracy.rtol.get() == 0.0
            && accuracy.ulps == 0
            && accuracy.mode == Keyword::AccuracyDefault;
        if is_default {
            attrs.remove("result_accuracy");
        }
    }
}

fn take(stored: &mut Attrs, name: &str) -> Result<Attr, String> {
    stored.remove(name).ok_or_else(|| format!("`{name}` is missing"))
}

fn int(stored: &mut Attrs, name: &str) -> Result<i64, String> {
    take(stored, name)?.as_int().ok_or_else(|| format!("`{name}` must be an integer"))
}

fn ints(stored: &mut Attrs, name: &str) -> Result<Vec<i64>, String> {
    integers(name, &take(stored, name)?)
}

/// Lists that older forms do not have.
fn ints_or_none(stored: &mut Attrs, name: &str) -> Result<Vec<i64>, String> {
    stored.remove(name).map_or(Ok(Vec::new()), |value| integers(name, &value))
}

fn integers(name: &str, value: &Attr) -> Result<Vec<i64>, String> {
    match value {
        Attr::Dense(dense) => dense.to_i64s(MAX_DIMENSIONS),
        Attr::DenseArray(_, values) => Some(values.to_vec()),
        _ => None,
    }
    .ok_or_else(|| format!("`{name}` must be a short list of integers"))
}

fn element(stored: &mut Attrs, name: &str) -> Result<ElementType, String> {
    match take(stored, name)? {
        Attr::Type(Type::Element(element)) => Ok(element),
        _ => Err(format!("`{name}` must be an element type")),
    }
}
