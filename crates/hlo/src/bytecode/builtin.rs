//! Attributes, locations and types of MLIR's builtin dialect, as bytecode encodes them.

use std::sync::Arc;

use tensor::{DType, decode_float};

use super::cursor::Cursor;
use super::tables::Tables;
use super::{assembly, constant};
use crate::error::Error;
use crate::ir::{Attr, AttrName, Attrs, ByteString, Dense, DenseData, Loc, Location};

use crate::ir::{ElementType, FunctionType, Real, TensorType, Type};

/// Decodes an attribute or location.
pub(super) fn attr(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    Ok(match cursor.varint()? {
        0 => Attr::Array(tables.attrs(cursor)?.into()),
        1 => {
            let count = cursor.count()?;
            let mut attrs = Attrs::new();
            for _ in 0..count {
                let name = tables.name(cursor)?;
                attrs.set(AttrName::Owned(name.to_string()), tables.attr(cursor)?);
            }
            Attr::Dict(attrs.into())
        }
        // A string's own type is never printed, so it is not kept.
        2 => tables.byte_string(cursor)?,
        3 => {
            let text = tables.byte_string(cursor)?;
            tables.ty(cursor)?;
            text
        }
        4 => Attr::Symbol(tables.name(cursor)?),
        5 => {
            let mut path = tables.name(cursor)?.to_string();
            for nested in tables.attrs(cursor)? {
                match nested {
                    Attr::Symbol(name) => path = format!("{path}::@{name}"),
                    _ => return Err(cursor.error("a symbol path holds what is not a symbol")),
                }
                tables.weigh(path.len() / 8)?;
            }
            Attr::Symbol(path.into())
        }
        6 => Attr::Type(tables.ty(cursor)?),
        7 => Attr::Unit,
        8 => {
            let element = tables.element(cursor)?;
            integer(cursor, element)?
        }
        9 => {
            let element = tables.element(cursor)?;
            float(cursor, element)?
        }
        10 => {
            let callee = tables.loc(cursor)?;
            location(Location::CallSite { callee, caller: tables.loc(cursor)? })
        }
        11 => {
            let file = tables.name(cursor)?;
            let (line, column) = (line_or_column(cursor)?, line_or_column(cursor)?);
            location(Location::File { file, line, column, end: None })
        }
        12 => location(Location::Fused(fused(tables, cursor)?, None)),
        13 => {
            let parts = fused(tables, cursor)?;
            let metadata = assembly::print_attr(&tables.attr(cursor)?);
            tables.weigh(metadata.len() / 8)?;
            location(Location::Fused(parts, Some(metadata.into())))
        }
        14 => {
            let name = tables.name(cursor)?;
            location(Location::Name(name, tables.loc(cursor)?))
        }
        15 => Attr::Loc(None),
        16 => {
            let ty = tables.ty(cursor)?;
            let index = cursor.varint()?;
            let blob = usize::try_from(index).ok().and_then(|i| tables.container.resources.get(i).copied().flatten());
            let blob = blob.ok_or_else(|| cursor.error(format!("the file does not hold resource {index}")))?;
            tables.weigh(blob.len() / 8)?;
            constant::dense(cursor, &ty, blob)?
        }
        17 => dense_array(tables, cursor)?,
        18 => {
            let ty = tables.ty(cursor)?;
            let blob = cursor.blob()?;
            tables.weigh(blob.len() / 8)?;
            constant::dense(cursor, &ty, blob)?
        }
        19 => dense_strings(tables, cursor)?,
        20 => return Err(cursor.error("sparse constants are not supported")),
        21 => tables.attr(cursor)?,
        22 => file_range(tables, cursor)?,
        code => return Err(cursor.error(format!("builtin attribute code {code} is not known"))),
    })
}

fn location(location: Location) -> Attr {
    Attr::Loc(Some(Arc::new(location)))
}

fn line_or_column(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    let value = cursor.varint()?;
    u32::try_from(value).map_err(|_| cursor.error(format!("line or column {value} is too large")))
}

fn fused(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Vec<Loc>, Error> {
    let count = cursor.count()?;
    (0..count).map(|_| tables.loc(cursor)).collect()
}

/// A file with up to four numbers: line, column, and where the range ends.
fn file_range(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let file = tables.name(cursor)?;
    let count = cursor.count()?;
    let numbers = (0..count.min(5)).map(|_| line_or_column(cursor)).collect::<Result<Vec<u32>, Error>>()?;
    let (line, column, end) = match *numbers.as_slice() {
        [] => (0, 0, None),
        [line] => (line, 0, None),
        [line, column] => (line, column, None),
        [line, column, end_column] => (line, column, Some((line, end_column))),
        [line, column, end_line, end_column] => (line, column, Some((end_line, end_column))),
        _ => return Err(cursor.error("a file range has more than four numbers")),
    };
    Ok(location(Location::File { file, line, column, end }))
}

/// An integer of a type read before; `i1` is a boolean.
pub(super) fn integer(cursor: &mut Cursor<'_>, element: ElementType) -> Result<Attr, Error> {
    let dtype = match element {
        ElementType::Index => return Ok(Attr::Int(cursor.known_width(64)? as i64, element)),
        ElementType::Plain(DType::Bool) => return Ok(Attr::Bool(cursor.known_width(1)? & 1 == 1)),
        ElementType::Plain(dtype) if dtype.is_integer() => dtype,
        _ => return Err(cursor.error(format!("{element:?} is not an integer type"))),
    };
    let unused = 64 - dtype.bits();
    let bits = cursor.known_width(dtype.bits())? << unused;
    let value = if dtype.is_signed_integer() { bits as i64 >> unused } else { (bits >> unused) as i64 };
    Ok(Attr::Int(value, element))
}

/// A real number of a type read before.
pub(super) fn float(cursor: &mut Cursor<'_>, element: ElementType) -> Result<Attr, Error> {
    let dtype = element.plain().filter(|dtype| dtype.is_float());
    let dtype = dtype.ok_or_else(|| cursor.error(format!("{element:?} is not a floating-point type")))?;
    let bits = cursor.known_width(dtype.bits())?;
    let value = decode_float(dtype, bits).ok_or_else(|| cursor.error("a number that cannot be decoded"))?;
    Ok(Attr::Float(Real::new(value), element))
}

fn dense_array(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let element = tables.element(cursor)?;
    let dtype = element.plain().filter(|dtype| !dtype.is_complex());
    let dtype = dtype.ok_or_else(|| cursor.error(format!("arrays of {element:?} do not exist")))?;
    let count = cursor.varint()?;
    let blob = cursor.blob()?;
    let width = dtype.size_bytes();
    if count.checked_mul(width as u64) != Some(blob.len() as u64) {
        return Err(cursor.error(format!("{} bytes do not hold {count} elements", blob.len())));
    }
    tables.weigh(blob.len())?;
    let value = |bytes: &[u8]| {
        let mut word = [0u8; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let unused = 64 - 8 * width as u32;
        let value = i64::from_le_bytes(word);
        if dtype.is_signed_integer() { value << unused >> unused } else { value }
    };
    Ok(Attr::DenseArray(dtype, blob.chunks_exact(width).map(value).collect()))
}

fn dense_strings(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let ty = tables.ty(cursor)?;
    let tensor = ty.as_tensor().ok_or_else(|| cursor.error("a constant's type must be a tensor"))?.clone();
    let is_splat = cursor.varint()? != 0;
    let count = match is_splat {
        true => 1,
        false => tensor.num_elements().ok_or_else(|| cursor.error("a constant's shape must be static"))?,
    };
    let strings = (0..cursor.bound(count)?).map(|_| Ok(ByteString::new(tables.string(cursor)?)));
    let strings = strings.collect::<Result<Vec<ByteString>, Error>>()?;
    Ok(Attr::Dense(Dense { ty: tensor, data: DenseData::Strings(strings.into()) }.into()))
}

/// Decodes a type.
pub(super) fn ty(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    let plain = |dtype: DType| Type::Element(ElementType::Plain(dtype));
    Ok(match cursor.varint()? {
        0 => integer_type(cursor)?,
        1 => Type::Element(ElementType::Index),
        2 => {
            let inputs = tables.types(cursor)?;
            Type::Function(FunctionType { inputs, outputs: tables.types(cursor)? }.into())
        }
        3 => plain(DType::BF16),
        4 => plain(DType::F16),
        5 => plain(DType::F32),
        6 => plain(DType::F64),
        7 => Type::Opaque("f80".into()),
        8 => Type::Opaque("f128".into()),
        9 => complex(tables, cursor)?,
        10 => buffer(tables, cursor)?,
        12 => Type::None,
        13 => {
            let dims = tables.integers(cursor)?;
            tensor(dims, tables.element(cursor)?, None)
        }
        14 => {
            let encoding = tables.attr(cursor)?;
            let dims = tables.integers(cursor)?;
            tensor(dims, tables.element(cursor)?, Some(encoding))
        }
        15 => Type::Tuple(tables.types(cursor)?.into()),
        18 => unranked(tables, cursor)?,
        21 => Type::Element(ElementType::Tf32),
        22 => plain(DType::F8E5M2),
        23 => plain(DType::F8E4M3),
        24 => plain(DType::F8E4M3FN),
        25 => plain(DType::F8E5M2FNUZ),
        26 => plain(DType::F8E4M3FNUZ),
        27 => plain(DType::F8E4M3B11FNUZ),
        28 => plain(DType::F8E3M4),
        29 => plain(DType::F4E2M1FN),
        30 => plain(DType::F6E2M3FN),
        31 => plain(DType::F6E3M2FN),
        32 => plain(DType::F8E8M0FNU),
        code => return Err(cursor.error(format!("builtin type code {code} is not known or not supported"))),
    })
}

pub(super) fn tensor(dims: Vec<i64>, element: ElementType, encoding: Option<Attr>) -> Type {
    Type::Tensor(Arc::new(TensorType { dims, element, encoding }))
}

/// A memory reference; its layout must be the plain one.
fn buffer(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    let dims = tables.integers(cursor)?;
    let element = tables.element(cursor)?;
    let layout = cursor.varint()?;
    let layout = tables.stored_text(layout).and_then(|text| text.strip_prefix("affine_map<")?.strip_suffix('>'));
    match layout.and_then(|map| map.split_once(" -> ")) {
        Some((from, to)) if from == to => Ok(Type::Buffer(Arc::new(TensorType { dims, element, encoding: None }))),
        _ => Err(cursor.error("memory references with a layout are not supported")),
    }
}

pub(super) fn complex(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    match tables.element(cursor)? {
        ElementType::Plain(DType::F32) => Ok(Type::Element(DType::C64.into())),
        ElementType::Plain(DType::F64) => Ok(Type::Element(DType::C128.into())),
        other => Err(cursor.error(format!("complex numbers of {other:?} do not exist"))),
    }
}

pub(super) fn unranked(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    match tables.element(cursor)? {
        ElementType::Plain(dtype) => Ok(Type::Opaque(format!("tensor<*x{dtype}>").into())),
        other => Err(cursor.error(format!("unranked tensors of {other:?} are not supported"))),
    }
}

/// Width, then in the low bits whether signless, signed or unsigned.
fn integer_type(cursor: &mut Cursor<'_>) -> Result<Type, Error> {
    let word = cursor.varint()?;
    let (width, signedness) = (word >> 2, word & 3);
    let name = match signedness {
        0 => format!("i{width}"),
        1 => format!("si{width}"),
        2 => format!("ui{width}"),
        _ => return Err(cursor.error("an integer type with an unknown sign")),
    };
    Ok(match DType::from_name(&name) {
        Some(dtype) => Type::Element(dtype.into()),
        None => Type::Opaque(name.into()),
    })
}
