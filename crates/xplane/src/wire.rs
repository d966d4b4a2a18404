//! The protobuf wire format: fields of a message in memory, and of one in a file that may not fit there.

use crate::error::Error;
use std::io::{Read, Seek, SeekFrom};

/// What a field of a protobuf message holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WireValue<'a> {
    /// A number, a boolean or an enumeration.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes, which no message here has a use for.
    Fixed32,
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// The fields of any protobuf message with their numbers, up to the first damage: for values of stats that are small
/// messages themselves.
pub fn fields(message: &[u8]) -> impl Iterator<Item = (u32, WireValue<'_>)> {
    let mut fields = Fields::new("message", message, 0);
    std::iter::from_fn(move || fields.next().ok().flatten())
}

/// A field of a message in a file: its bytes are not read yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FarField {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    /// The next so many bytes of the source.
    Bytes(u64),
}

/// A varint is at most ten bytes; bits beyond the 64th must be zero.
fn varint(mut next: impl FnMut() -> Result<u8, Error>, overlong: impl FnOnce() -> Error) -> Result<u64, Error> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = next()?;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(overlong())
}

const OVERLONG: &str = "a number of more than 64 bits";
const BAD_TAG: &str = "a field without a number";
const BAD_TYPE: &str = "a field of an unknown wire type";

fn tag(message: &'static str, offset: u64, tag: u64) -> Result<(u32, u8), Error> {
    match u32::try_from(tag >> 3) {
        Ok(number) if number != 0 && number < 1 << 29 => Ok((number, (tag & 7) as u8)),
        _ => Err(Error::malformed(message, offset, BAD_TAG)),
    }
}

/// The fields of a message in memory.
pub(crate) struct Fields<'a> {
    message: &'static str,
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begin in the file.
    start: u64,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'static str, bytes: &'a [u8], start: u64) -> Fields<'a> {
        Fields { message, bytes, at: 0, start }
    }

    /// Where the next field begins in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let (message, start) = (self.message, self.offset());
        let (bytes, at) = (self.bytes, &mut self.at);
        varint(
            || {
                let byte = *bytes.get(*at).ok_or(Error::Truncated {
                    message,
                    offset: start,
                    claimed_bytes: 1,
                    present_bytes: 0,
                })?;
                *at += 1;
                Ok(byte)
            },
            || Error::malformed(message, start, OVERLONG),
        )
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Error> {
        let left = &self.bytes[self.at..];
        let taken = usize::try_from(count).ok().and_then(|count| left.get(..count)).ok_or(Error::Truncated {
            message: self.message,
            offset: self.offset(),
            claimed_bytes: count,
            present_bytes: left.len() as u64,
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    /// The next field with its number; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, Error> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let offset = self.offset();
        let (number, wire) = tag(self.message, offset, self.varint()?)?;
        let field = match wire {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default())),
            2 => {
                let count = self.varint()?;
                WireValue::Bytes(self.take(count)?)
            }
            5 => {
                self.take(4)?;
                WireValue::Fixed32
            }
            _ => return Err(Error::malformed(self.message, offset, BAD_TYPE)),
        };
        Ok(Some((number, field)))
    }
}

/// Bytes of a file that are read at a time, and kept for small steps back.
const WINDOW: usize = 256 << 10;

/// A file read through a window.
pub(crate) struct Source<R> {
    inner: R,
    /// Where the inner reader stands.
    inner_at: u64,
    length: u64,
    window: Vec<u8>,
    /// Where the window begins in the file.
    window_at: u64,
    /// Valid bytes of the window.
    filled: usize,
    /// Where reading is in the window.
    at: usize,
}

impl<R: Read + Seek> Source<R> {
    pub(crate) fn new(mut inner: R) -> Result<Source<R>, Error> {
        let length = inner.seek(SeekFrom::End(0)).map_err(|source| Error::Io { offset: 0, source })?;
        Ok(Source { inner, inner_at: length, length, window: vec![0; WINDOW], window_at: 0, filled: 0, at: 0 })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn offset(&self) -> u64 {
        self.window_at + self.at as u64
    }

    pub(crate) fn seek(&mut self, to: u64) {
        if to >= self.window_at && to - self.window_at <= self.filled as u64 {
            self.at = (to - self.window_at) as usize;
        } else {
            (self.window_at, self.filled, self.at) = (to, 0, 0);
        }
    }

    /// Makes the next `count` bytes lie in the window. The caller has checked them against the file's length.
    fn require(&mut self, message: &'static str, count: usize) -> Result<(), Error> {
        if self.filled - self.at >= count {
            return Ok(());
        }
        self.window.copy_within(self.at..self.filled, 0);
        self.window_at += self.at as u64;
        (self.filled, self.at) = (self.filled - self.at, 0);
        if self.window.len() < count {
            self.window.resize(count, 0);
        } else if count <= WINDOW && self.window.len() > WINDOW && self.filled <= WINDOW {
            self.window.truncate(WINDOW);
            self.window.shrink_to_fit();
        }
        let offset = self.window_at + self.filled as u64;
        let failed = |source| Error::Io { offset, source };
        if self.inner_at != offset {
            self.inner_at = self.inner.seek(SeekFrom::Start(offset)).map_err(failed)?;
        }
        while self.filled < count {
            match self.inner.read(&mut self.window[self.filled..]) {
                Ok(0) => {
                    return Err(Error::Truncated {
                        message,
                        offset: self.window_at,
                        claimed_bytes: count as u64,
                        present_bytes: self.filled as u64,
                    });
                }
                Ok(read) => {
                    self.filled += read;
                    self.inner_at += read as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn byte(&mut self, message: &'static str, end: u64) -> Result<u8, Error> {
        if self.offset() >= end {
            return Err(Error::Truncated { message, offset: self.offset(), claimed_bytes: 1, present_bytes: 0 });
        }
        self.require(message, 1)?;
        let byte = self.window[self.at];
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self, message: &'static str, end: u64) -> Result<u64, Error> {
        let start = self.offset();
        varint(|| self.byte(message, end), || Error::malformed(message, start, OVERLONG))
    }

    fn check(&self, message: &'static str, count: u64, end: u64) -> Result<(), Error> {
        let present = end.saturating_sub(self.offset());
        if count <= present {
            return Ok(());
        }
        Err(Error::Truncated { message, offset: self.offset(), claimed_bytes: count, present_bytes: present })
    }

    /// The next field of a message that ends at `end`, and `None` there. Bytes are left for [`Source::bytes`] or
    /// [`Source::seek`].
    pub(crate) fn next(&mut self, message: &'static str, end: u64) -> Result<Option<(u32, FarField)>, Error> {
        let offset = self.offset();
        if offset >= end {
            return Ok(None);
        }
        let (number, wire) = {
            let value = self.varint(message, end)?;
            tag(message, offset, value)?
        };
        let field = match wire {
            0 => FarField::Varint(self.varint(message, end)?),
            1 => {
                self.check(message, 8, end)?;
                FarField::Fixed64(u64::from_le_bytes(self.bytes(message, 8)?.try_into().unwrap_or_default()))
            }
            2 => {
                let count = self.varint(message, end)?;
                self.check(message, count, end)?;
                FarField::Bytes(count)
            }
            5 => {
                self.check(message, 4, end)?;
                self.bytes(message, 4)?;
                FarField::Fixed32
            }
            _ => return Err(Error::malformed(message, offset, BAD_TYPE)),
        };
        Ok(Some((number, field)))
    }

    /// The next bytes. The caller has checked that they are there and has bounded their number.
    pub(crate) fn bytes(&mut self, message: &'static str, count: usize) -> Result<&[u8], Error> {
        self.require(message, count)?;
        let from = self.at;
        self.at += count;
        Ok(&self.window[from..self.at])
    }
}
