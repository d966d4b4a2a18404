//! Reading of constant data: nested lists, splats, hexadecimal blobs and resources, straight from bytes.

use std::sync::Arc;

use tensor::DType;

use crate::ir::{Attr, Dense, ElementType, TensorType, Type, element_bytes};
use crate::text::lexer::{Read, Reader, find};
use crate::text::read_attr::fit_integer;

impl<'a> Reader<'a> {
    /// `dense<…> : tensor<…>`. The literal comes before its type, so its end is found first and it is read second.
    pub(super) fn dense_attr(&mut self) -> Read<Attr> {
        let start = self.pos;
        self.expect_word("dense")?;
        self.expect(b'<')?;
        self.skip();
        let literal = self.pos;
        let has_strings = self.skip_literal()?;
        let literal_end = self.pos;
        self.expect(b'>')?;
        self.expect(b':')?;
        self.skip();
        let type_at = self.pos;
        let ty = self.ty()?;
        let end = self.pos;
        let tensor = match ty {
            Type::Tensor(tensor) => tensor,
            Type::Opaque(_) => return Ok(Attr::Opaque(self.foreign_text(start)?)),
            _ => return self.fail_at(type_at, "a constant needs a tensor type"),
        };
        if !tensor.is_static() {
            return self.fail_at(type_at, "a constant needs a static shape");
        }
        let Some(width) = element_bytes(&tensor) else {
            return self.fail_at(type_at, "this element type cannot hold a constant");
        };
        let Some(count) = tensor.num_elements().and_then(|n| usize::try_from(n).ok()) else {
            return self.fail_at(type_at, "the shape has too many elements");
        };
        self.pos = literal;
        let dense = if literal == literal_end {
            if count != 0 {
                return self.fail_at(literal, format!("the type wants {count} elements, none are given"));
            }
            Dense::from_elements((*tensor).clone(), Vec::new())
        } else if self.here() == b'"' {
            let raw = self.raw_string()?;
            self.blob(literal, raw, &tensor, count, width)?
        } else if has_strings {
            return self.fail_at(literal, "strings need a tensor of strings");
        } else if self.here() == b'[' {
            let bytes = self.nested_list(literal_end, &tensor, count, width)?;
            Dense::from_elements((*tensor).clone(), bytes)
        } else {
            let mut element = Vec::with_capacity(width);
            self.element(&tensor, &mut element)?;
            Dense::splat((*tensor).clone(), &element)
        };
        if self.peek() != b'>' || self.pos < literal_end {
            return self.expected("the end of the constant");
        }
        self.pos = end;
        match dense {
            Some(dense) => Ok(Attr::Dense(Arc::new(dense))),
            None => self.fail_at(literal, "the constant does not fit its type"),
        }
    }

    /// Moves to the `>` that ends the literal; whether it holds strings beyond a leading one.
    fn skip_literal(&mut self) -> Read<bool> {
        let start = self.pos;
        if self.here() == b'"' {
            self.raw_string()?;
            self.skip();
            return Ok(false);
        }
        let rest = &self.src[self.pos..];
        let end = find(rest, |b| b == b'>' || b == b'"');
        match end {
            Some(end) if rest[end] == b'>' => {
                self.pos += end;
                let trimmed = rest[..end].iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
                self.pos -= trimmed;
                Ok(false)
            }
            Some(_) => {
                while self.here() != b'>' {
                    if self.here() == b'"' {
                        self.raw_string()?;
                    } else if self.pos >= self.src.len() {
                        return self.fail_at(start, "the constant is never closed");
                    } else {
                        self.pos += 1;
                    }
                }
                Ok(true)
            }
            None => self.fail_at(start, "the constant is never closed"),
        }
    }

    /// Elements of a blob written as `"0x…"`.
    fn blob(&self, at: usize, raw: &[u8], tensor: &TensorType, count: usize, width: usize) -> Read<Option<Dense>> {
        let Some(bytes) = raw.strip_prefix(b"0x").and_then(decode_hex) else {
            return self.fail_at(at, "expected hexadecimal digits after `0x`, two for each byte");
        };
        let whole = count.saturating_mul(width);
        if bytes.len() == whole {
            return Ok(Dense::from_elements(tensor.clone(), bytes));
        }
        if bytes.len() == width {
            return Ok(Dense::splat(tensor.clone(), &bytes));
        }
        if let Some(bits) = unpack_bits(tensor, count, &bytes) {
            return Ok(Dense::from_elements(tensor.clone(), bits));
        }
        self.fail_at(at, format!("the type wants {whole} bytes, the blob holds {}", bytes.len()))
    }

    /// `dense_resource<name> : tensor<…>`, whose data is at the end of the file.
    pub(super) fn dense_resource(&mut self) -> Read<Attr> {
        let start = self.pos;
        self.expect_word("dense_resource")?;
        self.expect(b'<')?;
        let name_at = self.pos;
        let name = if self.peek() == b'"' { self.raw_string()? } else { self.word("a resource name")?.as_bytes() };
        self.expect(b'>')?;
        self.expect(b':')?;
        let tensor = match self.ty()? {
            Type::Tensor(tensor) if tensor.is_static() => tensor,
            _ => return Ok(Attr::Opaque(self.foreign_text(start)?)),
        };
        let Some(&(from, to)) = self.resources.get(name) else {
            return self.fail_at(name_at, format!("no resource `{}` at the end of the text", super::lexer::text(name)));
        };
        let Some(bytes) = self.src[from..to].strip_prefix(b"0x").and_then(decode_hex).filter(|b| b.len() >= 4) else {
            return self.fail_at(from, "a resource is `0x`, its alignment in four bytes, and its data");
        };
        let data = &bytes[4..];
        let count = tensor.num_elements().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let bits = if data.len() == count { None } else { unpack_bits(&tensor, count, data) };
        let dense = Dense::from_elements((*tensor).clone(), bits.unwrap_or_else(|| data.to_vec()));
        match dense {
            Some(dense) => Ok(Attr::Dense(Arc::new(dense))),
            None => self.fail_at(name_at, format!("the resource holds {} bytes, not what the type wants", data.len())),
        }
    }

    /// `[[1, 2], [3, 4]]` whose nesting must follow the shape.
    fn nested_list(&mut self, end: usize, tensor: &TensorType, count: usize, width: usize) -> Read<Vec<u8>> {
        // Every element takes a digit and a separator, so a count beyond the text's length is a lie.
        if count > end - self.pos {
            return self.fail(format!("the type wants {count} elements, fewer are given"));
        }
        let mut out = Vec::with_capacity(count * width);
        match &tensor.element {
            ElementType::Plain(DType::F32) => self.walk_list(end, tensor, |r| {
                let bits = r.quick_float(DType::F32)? as u32;
                out.extend_from_slice(&bits.to_le_bytes());
                Ok(())
            })?,
            ElementType::Plain(DType::F64) => self.walk_list(end, tensor, |r| {
                let bits = r.quick_float(DType::F64)?;
                out.extend_from_slice(&bits.to_le_bytes());
                Ok(())
            })?,
            ElementType::Plain(DType::I32) => self.walk_list(end, tensor, |r| {
                let value = r.quick_integer(DType::I32)? as i32;
                out.extend_from_slice(&value.to_le_bytes());
                Ok(())
            })?,
            ElementType::Plain(DType::I64) => self.walk_list(end, tensor, |r| {
                let value = r.quick_integer(DType::I64)?;
                out.extend_from_slice(&value.to_le_bytes());
                Ok(())
            })?,
            _ => self.walk_list(end, tensor, |r| r.element(tensor, &mut out))?,
        }
        Ok(out)
    }

    fn walk_list(
        &mut self,
        end: usize,
        tensor: &TensorType,
        mut element: impl FnMut(&mut Self) -> Read<()>,
    ) -> Read<()> {
        let rank = tensor.rank();
        let mut counts: Vec<i64> = vec![0; rank + 1];
        let mut level = 0;
        // True right after an item: a comma or the end of the list must follow.
        let mut after_item = false;
        loop {
            while matches!(self.here(), b' ' | b'\n' | b'\t' | b'\r') {
                self.pos += 1;
            }
            if self.here() == b'/' {
                self.skip();
            }
            if self.pos >= end {
                return self.fail("the list is never closed");
            }
            match self.here() {
                b',' if after_item => {
                    self.pos += 1;
                    after_item = false;
                }
                b']' if level > 0 && (after_item || counts[level] == 0) => {
                    let wanted = tensor.dims[level - 1];
                    if counts[level] != wanted {
                        let have = counts[level];
                        return self.fail(format!("dimension {} is {wanted} in the type, {have} here", level - 1));
                    }
                    self.pos += 1;
                    level -= 1;
                    if level == 0 {
                        return Ok(());
                    }
                    counts[level] += 1;
                    after_item = true;
                }
                b'[' if !after_item => {
                    if level == rank {
                        return self.fail("more brackets than the type has dimensions");
                    }
                    self.pos += 1;
                    level += 1;
                    counts[level] = 0;
                }
                _ if after_item => return self.expected("`,` or `]`"),
                _ => {
                    if level != rank {
                        return self.fail("fewer brackets than the type has dimensions");
                    }
                    if counts[level] >= tensor.dims[level - 1] {
                        return self.fail(format!("more elements than dimension {} has in the type", level - 1));
                    }
                    element(self)?;
                    counts[level] += 1;
                    after_item = true;
                }
            }
        }
    }

    /// One element of any type, appended as little-endian bytes.
    fn element(&mut self, tensor: &TensorType, out: &mut Vec<u8>) -> Read<()> {
        let (dtype, width) = match &tensor.element {
            ElementType::Plain(dtype) => (*dtype, dtype.size_bytes()),
            ElementType::Index => (DType::I64, 8),
            ElementType::Quantized(quantized) => (quantized.storage, quantized.storage.size_bytes()),
            ElementType::Tf32 => return self.fail("this element type cannot hold a constant"),
        };
        if let Some(part) = dtype.complex_part() {
            self.expect(b'(')?;
            self.skip();
            let real = self.quick_float(part)?;
            self.expect(b',')?;
            self.skip();
            let imaginary = self.quick_float(part)?;
            self.expect(b')')?;
            out.extend_from_slice(&real.to_le_bytes()[..width / 2]);
            out.extend_from_slice(&imaginary.to_le_bytes()[..width / 2]);
            return Ok(());
        }
        let bits = if dtype.is_float() { self.quick_float(dtype)? as i64 } else { self.quick_integer(dtype)? };
        out.extend_from_slice(&bits.to_le_bytes()[..width]);
        Ok(())
    }

    #[inline]
    fn quick_integer(&mut self, dtype: DType) -> Read<i64> {
        let rest = &self.src[self.pos..];
        let negative = rest.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let mut value: i64 = 0;
        while let Some(digit) = rest.get(at).map(|b| b.wrapping_sub(b'0')).filter(|&d| d <= 9) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            at += 1;
        }
        let digits = at - usize::from(negative);
        // Nine digits fit every type this path serves; anything else takes the careful path.
        let small = (1..=9).contains(&digits) && rest.get(at) != Some(&b'x') && dtype.bits() >= 32;
        let allowed = !(negative && dtype.is_unsigned_integer());
        if small && allowed && rest.get(at) != Some(&b'.') {
            self.pos += at;
            return Ok(if negative { -value } else { value });
        }
        let start = self.pos;
        if digits > 0 && rest.get(at) == Some(&b'.') {
            return self.fail("expected an integer, found a number with a decimal point");
        }
        if dtype.is_bool() || digits == 0 {
            match self.peek_word() {
                word @ ("true" | "false") if dtype.is_bool() => {
                    self.pos += word.len();
                    return Ok(i64::from(word == "true"));
                }
                _ if digits == 0 => return self.expected("an integer"),
                _ => {}
            }
        }
        let wide = self.wide_integer()?;
        fit_integer(dtype, wide).map_or_else(|| self.fail_at(start, format!("the integer does not fit in {dtype}")), Ok)
    }

    /// The bits of a real element: a decimal number, or its pattern in hexadecimal.
    #[inline]
    fn quick_float(&mut self, dtype: DType) -> Read<u64> {
        let rest = &self.src[self.pos..];
        if rest.starts_with(b"0x") {
            let start = self.pos;
            let bits = self.wide_integer()? as u64;
            if dtype.bits() < 64 && bits >> dtype.bits() != 0 {
                return self.fail_at(start, format!("the bit pattern does not fit in {dtype}"));
            }
            return Ok(bits);
        }
        let (value, length) = scan_float(rest);
        let Some(value) = value else { return self.expected("a number with a decimal point") };
        self.pos += length;
        match dtype {
            DType::F32 => Ok(u64::from((value as f32).to_bits())),
            DType::F64 => Ok(value.to_bits()),
            _ => tensor::encode_float(dtype, value).map_or_else(|| self.fail("not a floating-point type"), Ok),
        }
    }
}

/// The number with a decimal point at the start of `bytes`, and its length.
pub(super) fn scan_float(bytes: &[u8]) -> (Option<f64>, usize) {
    const EXACT_POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22,
    ];
    let negative = bytes.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let mut mantissa: u64 = 0;
    let mut digits = 0u32;
    let whole_start = at;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|&d| d <= 9) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        digits += u32::from(mantissa != 0);
        at += 1;
    }
    if at == whole_start || bytes.get(at) != Some(&b'.') {
        return (None, 0);
    }
    at += 1;
    let fraction_start = at;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|&d| d <= 9) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        digits += u32::from(mantissa != 0);
        at += 1;
    }
    let fraction = at - fraction_start;
    let mut exponent: i32 = 0;
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let mut e = at + 1;
        let minus = bytes.get(e) == Some(&b'-');
        e += usize::from(matches!(bytes.get(e), Some(b'-' | b'+')));
        let exponent_start = e;
        while let Some(digit) = bytes.get(e).map(|b| b.wrapping_sub(b'0')).filter(|&d| d <= 9) {
            exponent = exponent.saturating_mul(10).saturating_add(i32::from(digit));
            e += 1;
        }
        if e > exponent_start {
            at = e;
            exponent = if minus { -exponent } else { exponent };
        } else {
            exponent = 0;
        }
    }
    // Up to 15 digits and a power of ten up to 22 are both exact doubles, so one operation rounds correctly.
    let scale = i64::from(exponent) - fraction as i64;
    if digits <= 15 && (-22..=22).contains(&scale) {
        let whole = mantissa as f64;
        let power = EXACT_POWERS[scale.unsigned_abs() as usize];
        let value = if scale < 0 { whole / power } else { whole * power };
        return (Some(if negative { -value } else { value }), at);
    }
    let value = std::str::from_utf8(&bytes[..at]).ok().and_then(|s| s.parse().ok());
    (value, at)
}

/// Booleans that older versions of MLIR packed eight to a byte.
fn unpack_bits(tensor: &TensorType, count: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let is_packed = tensor.element == ElementType::Plain(DType::Bool) && bytes.len() == count.div_ceil(8);
    is_packed.then(|| (0..count).map(|i| (bytes[i / 8] >> (i % 8)) & 1).collect())
}

/// Bytes from pairs of hexadecimal digits.
fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    const BAD: u8 = 0xf0;
    const DIGITS: [u8; 256] = {
        let mut table = [BAD; 256];
        let mut i = 0;
        while i < 10 {
            table[b'0' as usize + i] = i as u8;
            i += 1;
        }
        let mut i = 0;
        while i < 6 {
            table[b'a' as usize + i] = 10 + i as u8;
            table[b'A' as usize + i] = 10 + i as u8;
            i += 1;
        }
        table
    };
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let mut bad = 0;
    let bytes = text
        .chunks_exact(2)
        .map(|pair| {
            let (high, low) = (DIGITS[pair[0] as usize], DIGITS[pair[1] as usize]);
            bad |= high | low;
            (high << 4) | low
        })
        .collect();
    (bad & BAD == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_the_standard_library_reads_them() {
        for text in [
            "1.0",
            "0.1",
            "-2.5e-3",
            "1.000000e+00",
            "3.40282347E+38",
            "1.17549435e-38",
            "4.9406564584124654e-324",
            "123456789012345678.0",
            "0.000000000000000000000000001",
            "9007199254740993.0",
            "1.5e300",
            "-0.0",
        ] {
            let (value, length) = scan_float(text.as_bytes());
            assert_eq!(value.map(f64::to_bits), text.parse::<f64>().ok().map(f64::to_bits), "{text}");
            assert_eq!(length, text.len(), "{text}");
        }
        assert_eq!(scan_float(b"1").0, None);
        assert_eq!(scan_float(b".5").0, None);
    }

    #[test]
    fn hexadecimal_decodes_or_is_refused() {
        assert_eq!(decode_hex(b"00fFa1"), Some(vec![0, 255, 0xa1]));
        assert_eq!(decode_hex(b"0"), None);
        assert_eq!(decode_hex(b"0g"), None);
    }
}
