//! Stats: named values of planes, events and event metadata, decoded from their bytes when looked at.

use crate::error::Error;
use crate::wire::{Fields, WireValue};

/// A value of a stat; which, the producer says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatValue<'a> {
    /// No value.
    None,
    /// A float.
    Double(f64),
    /// A natural number.
    Uint64(u64),
    /// An integer.
    Int64(i64),
    /// Text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text that is the name of the stat metadata of this id; [`crate::Plane::text`] looks it up.
    Ref(u64),
    /// Text compressed by gzip.
    CompressedStr(&'a [u8]),
}

impl StatValue<'_> {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match *self {
            StatValue::Double(value) => Some(value),
            StatValue::Uint64(value) => Some(value as f64),
            StatValue::Int64(value) => Some(value as f64),
            _ => None,
        }
    }

    /// The value as an integer, if it is one. Ids of 64 bits come back as the same bits.
    pub fn integer(&self) -> Option<i64> {
        match *self {
            StatValue::Uint64(value) => Some(value as i64),
            StatValue::Int64(value) => Some(value),
            _ => None,
        }
    }
}

/// A named value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat<'a> {
    /// Key of the stat's name in its plane.
    pub metadata_id: i64,
    /// Its value.
    pub value: StatValue<'a>,
}

const MESSAGE: &str = "XStat";
const NOT_UTF8: &str = "text that is not UTF-8";

pub(crate) fn text<'a>(message: &'static str, bytes: &'a [u8], offset: u64) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::malformed(message, offset, NOT_UTF8))
}

impl<'a> Stat<'a> {
    pub(crate) fn decode(bytes: &'a [u8], offset: u64) -> Result<Stat<'a>, Error> {
        let mut fields = Fields::new(MESSAGE, bytes, offset);
        let mut stat = Stat { metadata_id: 0, value: StatValue::None };
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, WireValue::Varint(value)) => stat.metadata_id = value as i64,
                (2, WireValue::Fixed64(bits)) => stat.value = StatValue::Double(f64::from_bits(bits)),
                (3, WireValue::Varint(value)) => stat.value = StatValue::Uint64(value),
                (4, WireValue::Varint(value)) => stat.value = StatValue::Int64(value as i64),
                (5, WireValue::Bytes(bytes)) => stat.value = StatValue::Str(text(MESSAGE, bytes, offset)?),
                (6, WireValue::Bytes(bytes)) => stat.value = StatValue::Bytes(bytes),
                (7, WireValue::Varint(value)) => stat.value = StatValue::Ref(value),
                (8, WireValue::Bytes(bytes)) => stat.value = StatValue::CompressedStr(bytes),
                (1..=8, _) => return Err(Error::malformed(MESSAGE, offset, "a field of another type")),
                _ => {}
            }
        }
        Ok(stat)
    }
}

/// Stats kept as they were written, one after the other with their lengths. All were decoded once when read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatList {
    bytes: Vec<u8>,
}

impl StatList {
    pub(crate) fn push(&mut self, stat: &[u8]) {
        self.bytes.extend((stat.len() as u32).to_le_bytes());
        self.bytes.extend(stat);
    }

    /// The stats in their order.
    pub fn iter(&self) -> impl Iterator<Item = Stat<'_>> {
        let mut left = &self.bytes[..];
        std::iter::from_fn(move || {
            let (count, rest) = left.split_first_chunk::<4>()?;
            let (stat, rest) = rest.split_at_checked(u32::from_le_bytes(*count) as usize)?;
            left = rest;
            Stat::decode(stat, 0).ok()
        })
    }
}
