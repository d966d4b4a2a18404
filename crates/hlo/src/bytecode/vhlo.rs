//! Attributes and types of VHLO, the versioned dialect of portable artifacts, decoded to what they mean in StableHLO.

use std::sync::Arc;

use tensor::DType;

use super::cursor::Cursor;
use super::tables::Tables;
use super::{builtin, constant};
use crate::error::Error;
use crate::ir::dims::{AxisRef, InlineMesh, OutputOperandAlias, ReplicaGroupMeshAxes, ResultAccuracy};
use crate::ir::{Attr, AttrName, Attrs, ElementType, FunctionType, KeywordSet, Quantized, Real, TensorType, Type};

/// Codes of attributes, shared with the writer.
pub(super) mod code {
    pub(in crate::bytecode) const ARRAY: u64 = 1;
    pub(in crate::bytecode) const BOOLEAN: u64 = 2;
    pub(in crate::bytecode) const COMPARISON_DIRECTION: u64 = 3;
    pub(in crate::bytecode) const COMPARISON_TYPE: u64 = 4;
    pub(in crate::bytecode) const API_VERSION: u64 = 5;
    pub(in crate::bytecode) const DICTIONARY: u64 = 6;
    pub(in crate::bytecode) const FFT_TYPE: u64 = 7;
    pub(in crate::bytecode) const FLOAT: u64 = 8;
    pub(in crate::bytecode) const INTEGER: u64 = 9;
    pub(in crate::bytecode) const OUTPUT_OPERAND_ALIAS: u64 = 10;
    pub(in crate::bytecode) const PRECISION: u64 = 11;
    pub(in crate::bytecode) const RNG_ALGORITHM: u64 = 12;
    pub(in crate::bytecode) const RNG_DISTRIBUTION: u64 = 13;
    pub(in crate::bytecode) const STRING: u64 = 14;
    pub(in crate::bytecode) const TENSOR: u64 = 15;
    pub(in crate::bytecode) const TRANSPOSE: u64 = 16;
    pub(in crate::bytecode) const TYPE: u64 = 17;
    pub(in crate::bytecode) const TYPE_EXTENSIONS: u64 = 18;
    pub(in crate::bytecode) const RESULT_ACCURACY_MODE: u64 = 19;
    pub(in crate::bytecode) const RESULT_ACCURACY: u64 = 20;
    pub(in crate::bytecode) const SUB_AXIS_INFO: u64 = 21;
    pub(in crate::bytecode) const AXIS_REF: u64 = 22;
    pub(in crate::bytecode) const REPLICA_GROUP_MESH_AXES: u64 = 23;
    pub(in crate::bytecode) const MESH_AXIS: u64 = 24;
    pub(in crate::bytecode) const MESH: u64 = 25;
}

/// Element types and the codes of those that have nothing but a code.
pub(super) const ELEMENTS: &[(u64, DType)] = &[
    (0, DType::Bool),
    (2, DType::BF16),
    (3, DType::F16),
    (4, DType::F32),
    (5, DType::F64),
    (6, DType::F8E4M3FN),
    (7, DType::F8E5M2),
    (10, DType::I4),
    (11, DType::I8),
    (12, DType::I16),
    (13, DType::I32),
    (14, DType::I64),
    (15, DType::U4),
    (16, DType::U8),
    (17, DType::U16),
    (18, DType::U32),
    (19, DType::U64),
    (27, DType::F8E4M3FNUZ),
    (28, DType::F8E5M2FNUZ),
    (29, DType::F8E4M3B11FNUZ),
    (31, DType::I2),
    (32, DType::U2),
    (35, DType::F8E4M3),
    (36, DType::F8E3M4),
    (37, DType::F4E2M1FN),
    (38, DType::F6E2M3FN),
    (39, DType::F6E3M2FN),
    (40, DType::F8E8M0FNU),
];

/// The keyword set an attribute code stands for.
pub(super) fn keyword_set(code: u64) -> Option<KeywordSet> {
    Some(match code {
        code::COMPARISON_DIRECTION => KeywordSet::ComparisonDirection,
        code::COMPARISON_TYPE => KeywordSet::ComparisonType,
        code::FFT_TYPE => KeywordSet::FftType,
        code::PRECISION => KeywordSet::Precision,
        code::RNG_ALGORITHM => KeywordSet::RngAlgorithm,
        code::RNG_DISTRIBUTION => KeywordSet::RngDistribution,
        code::TRANSPOSE => KeywordSet::Transpose,
        code::RESULT_ACCURACY_MODE => KeywordSet::ResultAccuracyMode,
        _ => return None,
    })
}

pub(super) fn keyword(cursor: &mut Cursor<'_>, set: KeywordSet) -> Result<Attr, Error> {
    let value = cursor.varint()?;
    let keyword = set.from_value(value);
    keyword.map(Attr::Keyword).ok_or_else(|| cursor.error(format!("{value} is no {}", set.mnemonic())))
}

/// Decodes an attribute.
pub(super) fn attr(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let code = cursor.varint()?;
    if let Some(set) = keyword_set(code) {
        return keyword(cursor, set);
    }
    Ok(match code {
        code::ARRAY => Attr::Array(tables.attrs(cursor)?.into()),
        code::BOOLEAN => match cursor.varint()? {
            0 => Attr::Bool(false),
            1 => Attr::Bool(true),
            other => return Err(cursor.error(format!("{other} is no boolean"))),
        },
        code::API_VERSION => match i32::try_from(cursor.varint()?) {
            Ok(version @ 0..=4) => Attr::i32(version),
            _ => return Err(cursor.error("a custom-call API version that is not known")),
        },
        code::DICTIONARY => {
            let count = cursor.count()?;
            let mut attrs = Attrs::new();
            for _ in 0..count {
                let name = tables.name(cursor)?;
                attrs.set(AttrName::Owned(name.to_string()), tables.attr(cursor)?);
            }
            Attr::Dict(attrs.into())
        }
        code::FLOAT => {
            let element = tables.element(cursor)?;
            builtin::float(cursor, element)?
        }
        code::INTEGER => {
            let element = tables.element(cursor)?;
            builtin::integer(cursor, element)?
        }
        code::OUTPUT_OPERAND_ALIAS => output_operand_alias(tables, cursor)?,
        code::STRING => tables.byte_string(cursor)?,
        code::TENSOR => {
            let ty = tables.ty(cursor)?;
            let blob = cursor.blob()?;
            tables.weigh(blob.len() / 8)?;
            constant::dense(cursor, &ty, blob)?
        }
        code::TYPE => Attr::Type(tables.ty(cursor)?),
        code::TYPE_EXTENSIONS => Attr::Bounds(tables.integers(cursor)?.into()),
        code::RESULT_ACCURACY => result_accuracy(tables, cursor)?,
        code::REPLICA_GROUP_MESH_AXES => mesh_axes(tables, cursor)?,
        code::MESH => mesh(tables, cursor)?,
        code::SUB_AXIS_INFO | code::AXIS_REF | code::MESH_AXIS => {
            return Err(cursor.error("a part of a mesh stands alone"));
        }
        code => return Err(unknown(cursor, "attribute", code)),
    })
}

fn unknown(cursor: &Cursor<'_>, what: &str, code: u64) -> Error {
    cursor.error(format!("VHLO {what} code {code} is not known: the artifact is newer than this reader"))
}

pub(super) fn output_operand_alias(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let output_tuple_indices = tables.integers(cursor)?;
    let operand_index = cursor.signed()?;
    let operand_tuple_indices = tables.integers(cursor)?;
    Ok(Attr::OutputAlias(OutputOperandAlias { output_tuple_indices, operand_index, operand_tuple_indices }.into()))
}

pub(super) fn result_accuracy(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let (atol, rtol) = (Real::new(cursor.double()?), Real::new(cursor.double()?));
    let ulps = cursor.signed()?;
    let mode = tables.attr(cursor)?.as_keyword().filter(|k| k.set() == KeywordSet::ResultAccuracyMode);
    let mode = mode.ok_or_else(|| cursor.error("a result accuracy without its mode"))?;
    Ok(Attr::ResultAccuracy(ResultAccuracy { atol, rtol, ulps, mode }.into()))
}

fn mesh_axes(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let mesh = match tables.attr(cursor)? {
        Attr::Str(name) => Attr::Symbol(String::from_utf8_lossy(name.as_bytes()).into()),
        other => other,
    };
    let list = cursor.varint()?;
    let mut list = tables.encoded(cursor, list, "vhlo", code::ARRAY)?;
    let count = list.count()?;
    let mut axes = Vec::with_capacity(count);
    for _ in 0..count {
        let index = list.varint()?;
        axes.push(axis_ref(tables, &list, index)?);
    }
    tables.weigh(axes.len())?;
    Ok(Attr::MeshAxes(ReplicaGroupMeshAxes { mesh, axes }.into()))
}

fn axis_ref(tables: &mut Tables<'_>, at: &Cursor<'_>, index: u64) -> Result<AxisRef, Error> {
    let mut cursor = tables.encoded(at, index, "vhlo", code::AXIS_REF)?;
    let name = tables.name(&mut cursor)?.to_string();
    let sub_axis = match cursor.varint()? {
        0 => None,
        _ => {
            let index = cursor.varint()?;
            let mut sub_axis = tables.encoded(&cursor, index, "vhlo", code::SUB_AXIS_INFO)?;
            Some((sub_axis.signed()?, sub_axis.signed()?))
        }
    };
    Ok(AxisRef { name, sub_axis })
}

fn mesh(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let list = cursor.varint()?;
    let mut list = tables.encoded(cursor, list, "vhlo", code::ARRAY)?;
    let count = list.count()?;
    let mut axes = Vec::with_capacity(count);
    for _ in 0..count {
        let index = list.varint()?;
        let mut axis = tables.encoded(&list, index, "vhlo", code::MESH_AXIS)?;
        axes.push((tables.name(&mut axis)?.to_string(), axis.signed()?));
    }
    let device_ids = tables.optional_attr(cursor)?;
    Ok(Attr::Mesh(InlineMesh { axes, device_ids }.into()))
}

/// Decodes a type.
pub(super) fn ty(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    let code = cursor.varint()?;
    if let Some((_, dtype)) = ELEMENTS.iter().find(|(known, _)| *known == code) {
        return Ok(Type::Element((*dtype).into()));
    }
    Ok(match code {
        1 => builtin::complex(tables, cursor)?,
        8 => {
            let inputs = tables.types(cursor)?;
            Type::Function(FunctionType { inputs, outputs: tables.types(cursor)? }.into())
        }
        9 => Type::Element(ElementType::Index),
        20 => {
            let dims = tables.integers(cursor)?;
            builtin::tensor(dims, tables.element(cursor)?, None)
        }
        21 => {
            let encoding = tables.attr(cursor)?;
            let dims = tables.integers(cursor)?;
            builtin::tensor(dims, tables.element(cursor)?, Some(encoding))
        }
        22 => Type::Token,
        23 => Type::Tuple(tables.types(cursor)?.into()),
        24 => quantized(tables, cursor)?,
        25 => builtin::unranked(tables, cursor)?,
        26 => Type::Opaque("!shape.witness".into()),
        30 => quantized_along_axis(tables, cursor)?,
        33 => Type::None,
        34 => Type::Element(ElementType::Tf32),
        41 => {
            let dims = tables.integers(cursor)?;
            let element = tables.element(cursor)?;
            Type::Buffer(Arc::new(TensorType { dims, element, encoding: None }))
        }
        42 => Type::Future(tables.types(cursor)?.into()),
        code => return Err(unknown(cursor, "type", code)),
    })
}

/// Storage and expressed type; the lowest flag says whether the storage is signed.
fn storage(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<(DType, DType), Error> {
    let is_signed = cursor.varint()? & 1 == 1;
    let storage = tables.element(cursor)?.plain();
    let storage = match (storage, is_signed) {
        (Some(DType::I2), false) => Some(DType::U2),
        (Some(DType::I4), false) => Some(DType::U4),
        (Some(DType::I8), false) => Some(DType::U8),
        (Some(DType::I16), false) => Some(DType::U16),
        (Some(DType::I32), false) => Some(DType::U32),
        (other, _) => other.filter(|dtype| !dtype.is_complex()),
    };
    let expressed = tables.element(cursor)?.plain().filter(|dtype| dtype.is_float());
    storage.zip(expressed).ok_or_else(|| cursor.error("a quantized type of types that cannot be quantized"))
}

pub(super) fn quantized(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    let (storage, expressed) = storage(tables, cursor)?;
    let scales = vec![Real::new(cursor.double()?)];
    let zero_points = vec![cursor.signed()?];
    let (storage_min, storage_max) = (cursor.signed()?, cursor.signed()?);
    let quantized = Quantized { storage, expressed, storage_min, storage_max, axis: None, scales, zero_points };
    Ok(Type::Element(ElementType::Quantized(quantized.into())))
}

pub(super) fn quantized_along_axis(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    let (storage, expressed) = storage(tables, cursor)?;
    let axis = i64::try_from(cursor.varint()?).map_err(|_| cursor.error("a quantization axis that is too large"))?;
    let (storage_min, storage_max) = (cursor.signed()?, cursor.signed()?);
    let count = cursor.count()?;
    let scales = (0..count).map(|_| cursor.double().map(Real::new)).collect::<Result<Vec<Real>, Error>>()?;
    tables.weigh(scales.len())?;
    let zero_points = tables.integers(cursor)?;
    let axis = Some(axis);
    let quantized = Quantized { storage, expressed, storage_min, storage_max, axis, scales, zero_points };
    Ok(Type::Element(ElementType::Quantized(quantized.into())))
}
