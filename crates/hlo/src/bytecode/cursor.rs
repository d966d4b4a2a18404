//! A position in bytecode: bounded reads of bytes, variable-width integers and lists.

use crate::error::Error;

/// Reads forward through a part of a file and knows where in the file it stands.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    /// Offset of `data[0]` in the file.
    start: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(data: &'a [u8], start: usize) -> Self {
        Cursor { data, position: 0, start }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.position == self.data.len()
    }

    pub(super) fn remaining(&self) -> usize {
        self.data.len() - self.position
    }

    /// Offset in the file.
    pub(super) fn offset(&self) -> usize {
        self.start + self.position
    }

    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::Bytecode { offset: self.offset(), message: message.into() }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let byte = *self.data.get(self.position).ok_or_else(|| self.error("the data ends too early"))?;
        self.position += 1;
        Ok(byte)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        if count > self.remaining() {
            return Err(self.error(format!("{count} bytes are announced, {} are left", self.remaining())));
        }
        let bytes = &self.data[self.position..self.position + count];
        self.position += count;
        Ok(bytes)
    }

    /// The next `count` bytes as a cursor of their own.
    pub(super) fn slice(&mut self, count: usize) -> Result<Cursor<'a>, Error> {
        let start = self.offset();
        Ok(Cursor::new(self.bytes(count)?, start))
    }

    /// Skips to a multiple of `alignment` bytes from the start of the file.
    pub(super) fn align(&mut self, alignment: u64) -> Result<(), Error> {
        let alignment = usize::try_from(alignment).ok().filter(|a| a.is_power_of_two() && *a <= 1 << 20);
        let alignment = alignment.ok_or_else(|| self.error("a section has an invalid alignment"))?;
        let padding = self.offset().next_multiple_of(alignment) - self.offset();
        self.bytes(padding).map(|_| ())
    }

    /// An unsigned integer whose first byte's trailing zeros say how many bytes follow.
    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let first = self.byte()?;
        if first & 1 == 1 {
            return Ok(u64::from(first >> 1));
        }
        let extra = first.trailing_zeros().min(8) as usize;
        let rest = self.bytes(extra)?;
        let mut word = [0u8; 8];
        if extra == 8 {
            word.copy_from_slice(rest);
            return Ok(u64::from_le_bytes(word));
        }
        word[0] = first;
        word[1..=extra].copy_from_slice(rest);
        Ok(u64::from_le_bytes(word) >> (extra + 1))
    }

    /// A signed integer, zigzag-coded.
    pub(super) fn signed(&mut self) -> Result<i64, Error> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// An integer with a flag in its lowest bit.
    pub(super) fn flagged(&mut self) -> Result<(u64, bool), Error> {
        let value = self.varint()?;
        Ok((value >> 1, value & 1 == 1))
    }

    /// A number of things that take at least one byte each, so that it cannot exceed the bytes left.
    pub(super) fn count(&mut self) -> Result<usize, Error> {
        let count = self.varint()?;
        self.bound(count)
    }

    /// Checks a number of things that take at least one byte each.
    pub(super) fn bound(&self, count: u64) -> Result<usize, Error> {
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(self.error(format!("{count} entries are announced, {} bytes are left", self.remaining()))),
        }
    }

    /// A list of signed integers.
    pub(super) fn signed_list(&mut self) -> Result<Vec<i64>, Error> {
        let count = self.count()?;
        (0..count).map(|_| self.signed()).collect()
    }

    /// Text up to a zero byte.
    pub(super) fn zero_terminated(&mut self) -> Result<&'a str, Error> {
        let rest = &self.data[self.position..];
        let length = rest.iter().position(|&b| b == 0).ok_or_else(|| self.error("text without an end"))?;
        let text = std::str::from_utf8(&rest[..length]).map_err(|_| self.error("text that is not UTF-8"))?;
        self.position += length + 1;
        Ok(text)
    }

    /// A blob: length, then bytes.
    pub(super) fn blob(&mut self) -> Result<&'a [u8], Error> {
        let count = self.count()?;
        self.bytes(count)
    }

    /// The bits of an integer of known width: one byte up to 8 bits, zigzag up to 64.
    pub(super) fn known_width(&mut self, bits: u32) -> Result<u64, Error> {
        match bits {
            0..=8 => self.byte().map(u64::from),
            9..=64 => self.signed().map(|v| v as u64),
            _ => Err(self.error(format!("integers of {bits} bits are not supported"))),
        }
    }

    /// A double stored as its bits.
    pub(super) fn double(&mut self) -> Result<f64, Error> {
        self.known_width(64).map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_width_integers() {
        let check = |bytes: &[u8], expected: u64| assert_eq!(Cursor::new(bytes, 0).varint().unwrap(), expected);
        check(&[0x01], 0);
        check(&[0xff], 127);
        check(&[0x02, 0x02], 128);
        check(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 0x0807_0605_0403_0201);
        assert!(Cursor::new(&[0x02], 0).varint().is_err());
        assert_eq!(Cursor::new(&[0x03 << 1 | 1], 0).signed().unwrap(), -2);
    }

    #[test]
    fn announced_lengths_are_bounded_by_the_data() {
        assert!(Cursor::new(&[0xff, 1, 2], 0).signed_list().is_err());
        assert!(Cursor::new(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0).blob().is_err());
    }
}
