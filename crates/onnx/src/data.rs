//! Tensors of a model as literals: in the message, or in files of the model's folder.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use prost::Message;
use tensor::{DType, Literal, encode_float};

use crate::error::Error;
use crate::proto::TensorProto;

/// The element type that ONNX numbers so.
pub(crate) fn dtype(number: i32) -> Result<DType, Error> {
    Ok(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        14 => DType::C64,
        15 => DType::C128,
        16 => DType::BF16,
        17 => DType::F8E4M3FN,
        18 => DType::F8E4M3FNUZ,
        19 => DType::F8E5M2,
        20 => DType::F8E5M2FNUZ,
        21 => DType::U4,
        22 => DType::I4,
        23 => DType::F4E2M1FN,
        24 => DType::F8E8M0FNU,
        25 => DType::U2,
        26 => DType::I2,
        8 => return Err(Error::unsupported("a tensor of strings")),
        other => return Err(Error::damaged(format!("element type {other} is not known"))),
    })
}

/// Reads a tensor from a file of its own, as ONNX's tests have them.
pub fn read_tensor(bytes: Vec<u8>) -> Result<Literal, Error> {
    let proto = TensorProto::decode(Bytes::from(bytes))
        .map_err(|error| Error::damaged(format!("this is not a tensor of ONNX: {error}")))?;
    literal(&proto, None)
}

/// Types and sizes of a tensor.
pub(crate) fn shape(proto: &TensorProto) -> Result<(DType, Vec<usize>), Error> {
    let dims = proto.dims.iter().map(|dim| usize::try_from(*dim).ok()).collect::<Option<Vec<_>>>();
    let dims = dims.ok_or_else(|| Error::damaged(format!("a tensor of sizes {:?}", proto.dims)))?;
    let dtype = dtype(proto.data_type)?;
    let count = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let bytes = count.and_then(|count| count.checked_mul(dtype.size_bytes()));
    match bytes {
        Some(_) => Ok((dtype, dims)),
        None => Err(Error::damaged(format!("a tensor of sizes {dims:?} is too large"))),
    }
}

/// The values of a tensor; `folder` is the model's.
pub(crate) fn literal(proto: &TensorProto, folder: Option<&Path>) -> Result<Literal, Error> {
    let (dtype, dims) = shape(proto)?;
    let count: usize = dims.iter().product();
    let raw = match proto.data_location {
        0 if !proto.raw_data.is_empty() => Some(proto.raw_data.to_vec()),
        0 => None,
        _ => Some(external(proto, folder, stored_bytes(dtype, count))?),
    };
    let bytes = match raw {
        Some(raw) => {
            if raw.len() != stored_bytes(dtype, count) {
                let wanted = stored_bytes(dtype, count);
                return Err(Error::damaged(format!("tensor `{}` has {} bytes of {wanted}", proto.name, raw.len())));
            }
            unpacked(dtype, raw, count)
        }
        None => listed(proto, dtype, count)?,
    };
    let wrong = || Error::damaged(format!("tensor `{}` has another number of values than its shape", proto.name));
    Literal::new(dtype, dims, bytes).ok_or_else(wrong)
}

/// Bytes that values take in a file: those of few bits share a byte.
fn stored_bytes(dtype: DType, count: usize) -> usize {
    if dtype.bits() < 8 && dtype != DType::Bool {
        return count.div_ceil(8 / dtype.bits() as usize);
    }
    count.saturating_mul(dtype.size_bytes())
}

/// One value a byte, where several lie in one.
fn unpacked(dtype: DType, raw: Vec<u8>, count: usize) -> Vec<u8> {
    let bits = dtype.bits() as usize;
    if bits >= 8 || dtype == DType::Bool {
        return raw;
    }
    let parts = raw.iter().flat_map(|byte| (0..8 / bits).map(move |n| byte >> (n * bits) << (8 - bits))).take(count);
    parts
        .map(|part| if dtype.is_signed_integer() { ((part as i8) >> (8 - bits)) as u8 } else { part >> (8 - bits) })
        .collect()
}

/// Values that stand in lists by type.
fn listed(proto: &TensorProto, dtype: DType, count: usize) -> Result<Vec<u8>, Error> {
    let width = dtype.size_bytes();
    let mut bytes = Vec::new();
    match dtype {
        DType::F32 | DType::C64 => proto.float_data.iter().for_each(|value| bytes.extend(value.to_le_bytes())),
        DType::F64 | DType::C128 => proto.double_data.iter().for_each(|value| bytes.extend(value.to_le_bytes())),
        DType::I64 => proto.int64_data.iter().for_each(|value| bytes.extend(value.to_le_bytes())),
        DType::U32 | DType::U64 => {
            proto.uint64_data.iter().for_each(|value| bytes.extend(&value.to_le_bytes()[..width]));
        }
        // Several in each number.
        dtype if dtype.bits() < 8 && dtype != DType::Bool => {
            let raw = proto.int32_data.iter().map(|value| *value as u8).collect();
            return Ok(unpacked(dtype, raw, count));
        }
        // Floats of few bits are written as these bits.
        _ => proto.int32_data.iter().for_each(|value| bytes.extend(&value.to_le_bytes()[..width.min(4)])),
    }
    Ok(bytes)
}

/// Bytes of a file in the model's folder: a path that leads out of it is refused, also by a link.
fn external(proto: &TensorProto, folder: Option<&Path>, wanted: usize) -> Result<Vec<u8>, Error> {
    let about = |what: String| Error::damaged(format!("external data of tensor `{}`: {what}", proto.name));
    let folder = folder.ok_or_else(|| about("the model has no folder".into()))?;
    let entry = |key: &str| proto.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    let location = entry("location").ok_or_else(|| about("it names no file".into()))?;
    let number = |key: &str, default: u64| match entry(key) {
        None => Ok(default),
        Some(text) => text.parse::<u64>().map_err(|_| about(format!("{key} is `{text}`"))),
    };
    let (offset, length) = (number("offset", 0)?, number("length", wanted as u64)?);
    if length != wanted as u64 {
        return Err(about(format!("{length} bytes of {wanted}")));
    }
    let path = inside(folder, location).map_err(about)?;
    let io = |error: std::io::Error| about(format!("{location}: {error}"));
    let mut file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(about(format!("{location} has {size} bytes, and {length} at {offset} are wanted")));
    }
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    let mut bytes = vec![0; wanted];
    file.read_exact(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// The path of a file that must lie in a folder.
fn inside(folder: &Path, location: &str) -> Result<PathBuf, String> {
    let relative = Path::new(location);
    if location.is_empty()
        || !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        return Err(format!("`{location}` is outside of the model's folder"));
    }
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(relative).canonicalize().map_err(|error| format!("{location}: {error}"))?;
    match path.starts_with(&folder) && path.is_file() {
        true => Ok(path),
        false => Err(format!("`{location}` is no file in the model's folder")),
    }
}

/// Whole numbers of a literal.
pub(crate) fn integers(literal: &Literal) -> Option<Vec<i64>> {
    let (width, dtype) = (literal.dtype().size_bytes(), literal.dtype());
    if dtype.is_float() || dtype.is_complex() {
        return None;
    }
    let value = |bytes: &[u8]| {
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(bytes);
        let spare = 64 - 8 * width as u32;
        let bits = u64::from_le_bytes(raw);
        if dtype.is_signed_integer() { ((bits << spare) as i64) >> spare } else { bits as i64 }
    };
    Some(literal.bytes().chunks_exact(width).map(value).collect())
}

/// Numbers of a literal.
pub(crate) fn numbers(literal: &Literal) -> Option<Vec<f64>> {
    if let Some(whole) = integers(literal) {
        return Some(whole.into_iter().map(|value| value as f64).collect());
    }
    let (width, dtype) = (literal.dtype().size_bytes(), literal.dtype());
    let value = |bytes: &[u8]| {
        let mut raw = [0; 8];
        raw.get_mut(..width)?.copy_from_slice(bytes);
        tensor::decode_float(dtype, u64::from_le_bytes(raw))
    };
    literal.bytes().chunks_exact(width).map(value).collect()
}

/// A literal of numbers in a type.
pub(crate) fn of_numbers(values: &[f64], dtype: DType, dims: &[usize]) -> Option<Literal> {
    let width = dtype.size_bytes();
    let mut bytes = Vec::with_capacity(values.len().checked_mul(width)?);
    for value in values {
        let bits = match dtype {
            DType::Bool => u64::from(*value != 0.0),
            dtype if dtype.is_float() => encode_float(dtype, *value)?,
            dtype if dtype.is_complex() => return None,
            _ => *value as i64 as u64,
        };
        bytes.extend(&bits.to_le_bytes()[..width]);
    }
    Literal::new(dtype, dims, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_data_stays_in_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("model");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(root.path().join("secret"), [7; 8]).unwrap();
        std::fs::write(folder.join("weights"), [1, 0, 2, 0, 3, 0, 4, 0]).unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let entry =
            |key: &str, value: &str| crate::proto::StringStringEntryProto { key: key.into(), value: value.into() };
        let tensor = |location: &str, offset: &str| TensorProto {
            dims: vec![2],
            data_type: 5,
            data_location: 1,
            external_data: vec![entry("location", location), entry("offset", offset)],
            ..TensorProto::default()
        };
        let read = |location: &str, offset: &str| literal(&tensor(location, offset), Some(&folder));
        assert_eq!(read("weights", "4").unwrap().to_vec::<i16>().unwrap(), [3, 4]);
        assert_eq!(read("./weights", "0").unwrap().to_vec::<i16>().unwrap(), [1, 2]);
        for location in ["../secret", "link", "/etc/passwd", "", "missing", "../model/weights", "."] {
            let refused = read(location, "0").unwrap_err().to_string();
            assert!(refused.contains("external data"), "{location}: {refused}");
        }
        for offset in ["5", "18446744073709551615", "-1", "x"] {
            assert!(read("weights", offset).is_err(), "{offset}");
        }
    }

    #[test]
    fn few_bits_are_unpacked() {
        let tensor = |data_type| TensorProto {
            dims: vec![3],
            data_type,
            raw_data: vec![0xf1, 0x08].into(),
            ..TensorProto::default()
        };
        assert_eq!(literal(&tensor(21), None).unwrap().bytes(), [1, 15, 8]);
        assert_eq!(integers(&literal(&tensor(22), None).unwrap()).unwrap(), [1, -1, -8]);
    }
}
