//! From the attributes a StableHLO op has to the flat, complete attributes VHLO stores.

use super::attrs::unwritable;
use super::tables::Tables;
use crate::error::Error;
use crate::ir::{Attr, Dense, Keyword, Op, TensorType, Type};
use crate::ops::def::window_rank;
use crate::ops::{AttrDef, AttrKind, OpDef, Presence, VhloForm};
use tensor::DType;

/// Forms newer than the oldest version written, and the version that introduced them.
const NEWER_FORMS: &[(&str, (u32, u32, u32))] = &[
    ("send_v2", (1, 12, 0)),
    ("recv_v2", (1, 12, 0)),
    ("composite_v2", (1, 14, 0)),
    ("async_start_v1", (1, 15, 0)),
    ("async_done_v1", (1, 15, 0)),
    ("custom_call_v2", (1, 18, 0)),
    ("collective_reduce_v1", (1, 19, 0)),
    ("collective_broadcast_v2", (1, 20, 0)),
];

/// The form an op is stored in: the newest, unless an older one holds the op and can be read by more.
pub(super) fn choose_form(tables: &mut Tables, def: &OpDef, op: &Op) -> Option<&'static VhloForm> {
    let (newest, older) = def.vhlo.split_last()?;
    let needs_newest = match newest.name {
        "send_v2" | "recv_v2" => op.attr("source_target_pairs").is_some(),
        "composite_v2" => !op.regions.is_empty(),
        "custom_call_v2" => op.attr("result_tilings").is_some(),
        "collective_broadcast_v2" => op.attr("has_dynamic_root").is_some(),
        _ => true,
    };
    let form = if needs_newest { newest } else { older.last().unwrap_or(newest) };
    if let Some((_, version)) = NEWER_FORMS.iter().find(|(name, _)| *name == form.name) {
        tables.need(*version);
    }
    Some(form)
}

/// One attribute of the stored form.
pub(super) fn stored(tables: &mut Tables, def: &OpDef, op: &Op, name: &str) -> Result<u64, Error> {
    let attr = def.attr(name);
    if let (Some(attr), Some(value)) = (attr, op.attr(name)) {
        return match (attr.kind, value) {
            (AttrKind::ApiVersion, Attr::Int(version, _)) => Ok(tables.api_version(*version)),
            (AttrKind::Unit, _) => tables.vhlo_attr(&Attr::Bool(true)),
            _ => tables.vhlo_attr(value),
        };
    }
    if let Some(part) = part(op, name) {
        return tables.vhlo_attr(&part);
    }
    match (name, attr) {
        ("channel_id", _) => tables.vhlo_attr(&Attr::i64(0)),
        ("api_version", _) => Ok(tables.api_version(1)),
        ("precision_config", _) => {
            let default = Attr::Keyword(Keyword::PrecisionDefault);
            tables.vhlo_attr(&Attr::Array([default.clone(), default].into()))
        }
        ("result_accuracy", _) => tables.vhlo_accuracy(0.0, 0.0, 0, Keyword::AccuracyDefault),
        ("source_target_pairs", _) => tables.vhlo_attr(&Attr::i64s([])),
        (_, Some(attr)) => match absent(op, attr) {
            Some(value) => tables.vhlo_attr(&value),
            None => Err(missing(def, name)),
        },
        _ => Err(missing(def, name)),
    }
}

fn missing(def: &OpDef, name: &str) -> Error {
    unwritable(format!("`{}` without `{name}`", def.name))
}

/// What the absence of an attribute means.
fn absent(op: &Op, attr: &AttrDef) -> Option<Attr> {
    match (attr.presence, attr.kind) {
        (Presence::Default(default), _) => Some(default()),
        (Presence::DefaultFill(fill), kind) => filled(op, kind, fill),
        (Presence::Optional, AttrKind::Unit) => Some(Attr::Bool(false)),
        (Presence::Optional, AttrKind::Array) => Some(Attr::Array([].into())),
        _ => None,
    }
}

/// A window attribute with the same value in each dimension of the window.
fn filled(op: &Op, kind: AttrKind, fill: i64) -> Option<Attr> {
    let rank = window_rank(&op.attrs)?;
    match kind {
        AttrKind::I64s => Some(Attr::i64s(vec![fill; rank])),
        AttrKind::Bools => Some(Attr::DenseArray(DType::Bool, vec![fill; rank].into())),
        AttrKind::DenseI64 => {
            let ty = TensorType::new([i64::try_from(rank).ok()?, 2], DType::I64);
            Dense::splat(ty, &fill.to_le_bytes()).map(|dense| Attr::Dense(dense.into()))
        }
        _ => None,
    }
}

/// A part of an attribute that VHLO stores in parts.
fn part(op: &Op, name: &str) -> Option<Attr> {
    let ints = |values: &[i64]| Some(Attr::i64s(values));
    let int = |value: i64| Some(Attr::i64(value));
    for (_, value) in op.attrs.iter() {
        let found = match value {
            Attr::Conv(dims) => match name {
                "input_batch_dimension" => int(dims.input_batch),
                "input_feature_dimension" => int(dims.input_feature),
                "input_spatial_dimensions" => ints(&dims.input_spatial),
                "kernel_input_feature_dimension" => int(dims.kernel_input_feature),
                "kernel_output_feature_dimension" => int(dims.kernel_output_feature),
                "kernel_spatial_dimensions" => ints(&dims.kernel_spatial),
                "output_batch_dimension" => int(dims.output_batch),
                "output_feature_dimension" => int(dims.output_feature),
                "output_spatial_dimensions" => ints(&dims.output_spatial),
                _ => None,
            },
            Attr::Dot(dims) => match name {
                "lhs_batching_dimensions" => ints(&dims.lhs_batching),
                "rhs_batching_dimensions" => ints(&dims.rhs_batching),
                "lhs_contracting_dimensions" => ints(&dims.lhs_contracting),
                "rhs_contracting_dimensions" => ints(&dims.rhs_contracting),
                _ => None,
            },
            Attr::DotAlgorithm(algorithm) => match name {
                "lhs_precision_type" => Some(Attr::Type(Type::Element(algorithm.lhs_precision_type.clone()))),
                "rhs_precision_type" => Some(Attr::Type(Type::Element(algorithm.rhs_precision_type.clone()))),
                "accumulation_type" => Some(Attr::Type(Type::Element(algorithm.accumulation_type.clone()))),
                "lhs_component_count" => int(algorithm.lhs_component_count),
                "rhs_component_count" => int(algorithm.rhs_component_count),
                "num_primitive_operations" => int(algorithm.num_primitive_operations),
                "allow_imprecise_accumulation" => Some(Attr::Bool(algorithm.allow_imprecise_accumulation)),
                _ => None,
            },
            Attr::Gather(dims) => match name {
                "offset_dims" => ints(&dims.offset_dims),
                "collapsed_slice_dims" => ints(&dims.collapsed_slice_dims),
                "operand_batching_dims" => ints(&dims.operand_batching_dims),
                "start_indices_batching_dims" => ints(&dims.start_indices_batching_dims),
                "start_index_map" => ints(&dims.start_index_map),
                "index_vector_dim" => int(dims.index_vector_dim),
                _ => None,
            },
            Attr::Scatter(dims) => match name {
                "update_window_dims" => ints(&dims.update_window_dims),
                "inserted_window_dims" => ints(&dims.inserted_window_dims),
                "input_batching_dims" => ints(&dims.input_batching_dims),
                "scatter_indices_batching_dims" => ints(&dims.scatter_indices_batching_dims),
                "scatter_dims_to_operand_dims" => ints(&dims.scatter_dims_to_operand_dims),
                "index_vector_dim" => int(dims.index_vector_dim),
                _ => None,
            },
            Attr::Channel(channel) => match name {
                "channel_id" => int(channel.handle),
                "channel_type" => int(channel.kind),
                _ => None,
            },
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    // A dot without an algorithm stores the absence of a type in each of the algorithm's places.
    const ALGORITHM: [&str; 7] = [
        "accumulation_type",
        "allow_imprecise_accumulation",
        "lhs_component_count",
        "lhs_precision_type",
        "num_primitive_operations",
        "rhs_component_count",
        "rhs_precision_type",
    ];
    ALGORITHM.contains(&name).then_some(Attr::Type(Type::None))
}
