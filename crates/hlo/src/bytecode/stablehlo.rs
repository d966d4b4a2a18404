//! Attributes and types of the StableHLO, CHLO and quant dialects themselves, as written by tools that skip VHLO.

use std::sync::Arc;

use super::cursor::Cursor;
use super::tables::Tables;
use super::vhlo;
use crate::error::Error;
use crate::ir::dims::{
    AxisRef, ChannelHandle, ConvDims, DotAlgorithm, DotDims, GatherDims, InlineMesh, ReplicaGroupMeshAxes, ScatterDims,
};
use crate::ir::{Attr, KeywordSet, Type};

const SUB_AXIS_INFO: u64 = 19;
const AXIS_REF: u64 = 20;
const MESH_AXIS: u64 = 21;
/// Code of an array in the builtin dialect.
const BUILTIN_ARRAY: u64 = 0;

/// Decodes an attribute of `stablehlo`.
pub(super) fn attr(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let code = cursor.varint()?;
    Ok(match code {
        1 => Attr::Channel(ChannelHandle { handle: cursor.signed()?, kind: cursor.signed()? }),
        2 => vhlo::keyword(cursor, KeywordSet::ComparisonDirection)?,
        3 => vhlo::keyword(cursor, KeywordSet::ComparisonType)?,
        4 => conv(tables, cursor)?,
        5 => Attr::Dot(Arc::new(DotDims {
            lhs_batching: tables.integers(cursor)?,
            rhs_batching: tables.integers(cursor)?,
            lhs_contracting: tables.integers(cursor)?,
            rhs_contracting: tables.integers(cursor)?,
        })),
        6 => vhlo::keyword(cursor, KeywordSet::FftType)?,
        7 => Attr::Gather(Arc::new(GatherDims {
            offset_dims: tables.integers(cursor)?,
            collapsed_slice_dims: tables.integers(cursor)?,
            operand_batching_dims: tables.integers(cursor)?,
            start_indices_batching_dims: tables.integers(cursor)?,
            start_index_map: tables.integers(cursor)?,
            index_vector_dim: cursor.signed()?,
        })),
        8 => vhlo::keyword(cursor, KeywordSet::Precision)?,
        9 => vhlo::keyword(cursor, KeywordSet::RngAlgorithm)?,
        10 => vhlo::keyword(cursor, KeywordSet::RngDistribution)?,
        11 => Attr::Scatter(Arc::new(ScatterDims {
            update_window_dims: tables.integers(cursor)?,
            inserted_window_dims: tables.integers(cursor)?,
            input_batching_dims: tables.integers(cursor)?,
            scatter_indices_batching_dims: tables.integers(cursor)?,
            scatter_dims_to_operand_dims: tables.integers(cursor)?,
            index_vector_dim: cursor.signed()?,
        })),
        12 => vhlo::keyword(cursor, KeywordSet::Transpose)?,
        13 => Attr::Bounds(tables.integers(cursor)?.into()),
        14 => vhlo::output_operand_alias(tables, cursor)?,
        15 => Attr::DotAlgorithm(Arc::new(DotAlgorithm {
            lhs_precision_type: tables.element(cursor)?,
            rhs_precision_type: tables.element(cursor)?,
            accumulation_type: tables.element(cursor)?,
            lhs_component_count: cursor.signed()?,
            rhs_component_count: cursor.signed()?,
            num_primitive_operations: cursor.signed()?,
            allow_imprecise_accumulation: cursor.byte()? != 0,
        })),
        16 => vhlo::keyword(cursor, KeywordSet::ResultAccuracyMode)?,
        17 => vhlo::result_accuracy(tables, cursor)?,
        18 => mesh_axes(tables, cursor)?,
        22 => mesh(tables, cursor)?,
        SUB_AXIS_INFO..=MESH_AXIS => return Err(cursor.error("a part of a mesh stands alone")),
        code => return Err(cursor.error(format!("StableHLO attribute code {code} is not known"))),
    })
}

/// Decodes an attribute of `chlo`.
pub(super) fn chlo_attr(cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    match cursor.varint()? {
        0 => vhlo::keyword(cursor, KeywordSet::ComparisonDirection),
        1 => vhlo::keyword(cursor, KeywordSet::ComparisonType),
        code => Err(cursor.error(format!("CHLO attribute code {code} is not known"))),
    }
}

fn conv(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    Ok(Attr::Conv(Arc::new(ConvDims {
        input_batch: cursor.signed()?,
        input_feature: cursor.signed()?,
        input_spatial: tables.integers(cursor)?,
        kernel_input_feature: cursor.signed()?,
        kernel_output_feature: cursor.signed()?,
        kernel_spatial: tables.integers(cursor)?,
        output_batch: cursor.signed()?,
        output_feature: cursor.signed()?,
        output_spatial: tables.integers(cursor)?,
    })))
}

fn mesh_axes(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let mesh = tables.attr(cursor)?;
    let count = cursor.count()?;
    let mut axes = Vec::with_capacity(count);
    for _ in 0..count {
        let index = cursor.varint()?;
        let mut axis = tables.encoded(cursor, index, "stablehlo", AXIS_REF)?;
        let name = tables.text(&mut axis)?.to_owned();
        let sub_axis = match axis.byte()? {
            0 => None,
            _ => {
                let index = axis.varint()?;
                let mut sub_axis = tables.encoded(&axis, index, "stablehlo", SUB_AXIS_INFO)?;
                Some((sub_axis.signed()?, sub_axis.signed()?))
            }
        };
        axes.push(AxisRef { name, sub_axis });
    }
    Ok(Attr::MeshAxes(ReplicaGroupMeshAxes { mesh, axes }.into()))
}

fn mesh(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let list = cursor.varint()?;
    let mut list = tables.encoded(cursor, list, "builtin", BUILTIN_ARRAY)?;
    let count = list.count()?;
    let mut axes = Vec::with_capacity(count);
    for _ in 0..count {
        let index = list.varint()?;
        let mut axis = tables.encoded(&list, index, "stablehlo", MESH_AXIS)?;
        axes.push((tables.text(&mut axis)?.to_owned(), axis.signed()?));
    }
    let device_ids = match cursor.byte()? {
        0 => None,
        _ => Some(tables.attr(cursor)?),
    };
    Ok(Attr::Mesh(InlineMesh { axes, device_ids }.into()))
}

/// Decodes a type of `stablehlo`.
pub(super) fn ty(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    match cursor.varint()? {
        0 => Ok(Type::Token),
        1 => Ok(Type::Future(tables.types(cursor)?.into())),
        code => Err(cursor.error(format!("StableHLO type code {code} is not known"))),
    }
}

/// Decodes a type of `quant`.
pub(super) fn quantized(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    match cursor.varint()? {
        4 => vhlo::quantized(tables, cursor),
        5 => vhlo::quantized_along_axis(tables, cursor),
        code => Err(cursor.error(format!("quantized type code {code} is not supported"))),
    }
}
