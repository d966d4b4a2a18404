//! Printing of constant data.

use std::fmt::Write;

use tensor::DType;

use crate::ir::{Dense, DenseData, ElementType, element_bytes};
use crate::print::float::write_float;
use crate::print::name::write_string;
use crate::print::ty::write_tensor;

/// Constants of more elements than this are printed as a blob, as MLIR does.
const MAX_LISTED: usize = 100;

/// Appends `dense<…> : tensor<…>`.
pub(super) fn write_dense(out: &mut String, dense: &Dense) {
    out.push_str("dense<");
    let width = element_bytes(&dense.ty).unwrap_or(1).max(1);
    match &dense.data {
        DenseData::Splat(element) => write_element(out, dense, element),
        DenseData::Elements(bytes) if bytes.is_empty() => {}
        DenseData::Elements(bytes) if bytes.len() / width > MAX_LISTED => write_blob(out, dense, bytes),
        DenseData::Elements(bytes) => write_nested(out, dense, bytes, width),
        DenseData::Strings(texts) => {
            out.push('[');
            for (i, text) in texts.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_string(out, text.as_bytes());
            }
            out.push(']');
        }
    }
    out.push_str("> : ");
    write_tensor(out, &dense.ty);
}

fn write_nested(out: &mut String, dense: &Dense, bytes: &[u8], width: usize) {
    let dims: Vec<usize> = dense.ty.dims.iter().map(|&d| usize::try_from(d).unwrap_or(1).max(1)).collect();
    for (i, element) in bytes.chunks_exact(width).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        // A bracket opens for each dimension whose index is zero here, and closes where it would next be zero.
        let mut size = 1;
        let opens = dims.iter().rev().take_while(|&&d| {
            size *= d;
            i.is_multiple_of(size)
        });
        out.extend(std::iter::repeat_n('[', opens.count()));
        write_element(out, dense, element);
        let mut size = 1;
        let closes = dims.iter().rev().take_while(|&&d| {
            size *= d;
            (i + 1).is_multiple_of(size)
        });
        out.extend(std::iter::repeat_n(']', closes.count()));
    }
}

fn write_element(out: &mut String, dense: &Dense, bytes: &[u8]) {
    let dtype = match &dense.ty.element {
        ElementType::Plain(dtype) => *dtype,
        ElementType::Quantized(quantized) => quantized.storage,
        ElementType::Index | ElementType::Tf32 => DType::I64,
    };
    if let Some(part) = dtype.complex_part() {
        let (real, imaginary) = bytes.split_at(bytes.len() / 2);
        out.push('(');
        write_float(out, part, word(real));
        out.push(',');
        write_float(out, part, word(imaginary));
        out.push(')');
    } else if dtype.is_float() {
        write_float(out, dtype, word(bytes));
    } else if dtype.is_bool() {
        out.push_str(if word(bytes) != 0 { "true" } else { "false" });
    } else if dtype.is_signed_integer() {
        let unused = 64 - 8 * bytes.len().min(8) as u32;
        let _ = write!(out, "{}", ((word(bytes) << unused) as i64) >> unused);
    } else {
        let _ = write!(out, "{}", word(bytes));
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let n = bytes.len().min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(word)
}

fn write_blob(out: &mut String, dense: &Dense, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let dtype = dense.ty.element.plain();
    let masked: Vec<u8>;
    let bytes = match dtype {
        // MLIR leaves the unused high bits of narrow integers zero; we keep the sign in them.
        Some(dtype) if dtype.bits() < 8 => {
            let mask = (1u8 << dtype.bits()) - 1;
            masked = bytes.iter().map(|b| b & mask).collect();
            &masked
        }
        _ => bytes,
    };
    out.reserve(2 * bytes.len() + 4);
    out.push_str("\"0x");
    for &byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out.push('"');
}
