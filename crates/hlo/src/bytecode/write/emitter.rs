//! Bytes of bytecode as they are written: variable-width integers, lists and sections.

/// Bytes written so far.
#[derive(Default)]
pub(super) struct Emitter(Vec<u8>);

impl Emitter {
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// An unsigned integer; the trailing zeros of the first byte say how many bytes follow.
    pub(super) fn varint(&mut self, value: u64) {
        let bits = 64 - value.leading_zeros().min(63);
        let count = bits.div_ceil(7);
        if count > 8 {
            self.byte(0);
            self.bytes(&value.to_le_bytes());
        } else {
            let word = value << count | 1 << (count - 1);
            self.bytes(&word.to_le_bytes()[..count as usize]);
        }
    }

    pub(super) fn signed(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    pub(super) fn flagged(&mut self, value: u64, flag: Flag) {
        self.varint(value << 1 | flag as u64);
    }

    pub(super) fn signed_list(&mut self, values: &[i64]) {
        self.varint(values.len() as u64);
        values.iter().for_each(|&value| self.signed(value));
    }

    pub(super) fn indices(&mut self, values: &[u64]) {
        self.varint(values.len() as u64);
        values.iter().for_each(|&value| self.varint(value));
    }

    /// An attribute that may be absent.
    pub(super) fn optional(&mut self, index: Option<u64>) {
        match index {
            Some(index) => self.flagged(index, Flag::Set),
            None => self.varint(0),
        }
    }

    pub(super) fn blob(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// The bits of an integer of known width: one byte up to 8 bits, zigzag above.
    pub(super) fn known_width(&mut self, bits: u32, value: u64) {
        match bits {
            0..=8 => self.byte(value as u8),
            _ => self.signed(value as i64),
        }
    }

    pub(super) fn double(&mut self, value: f64) {
        self.known_width(64, value.to_bits());
    }

    pub(super) fn section(&mut self, kind: u8, data: &[u8]) {
        self.byte(kind);
        self.blob(data);
    }
}

/// A bit that travels with an integer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    Clear = 0,
    Set = 1,
}

impl From<bool> for Flag {
    fn from(is_set: bool) -> Self {
        if is_set { Flag::Set } else { Flag::Clear }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::cursor::Cursor;

    #[test]
    fn integers_read_back() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, u64::MAX >> bit]) {
            let mut emitter = Emitter::default();
            emitter.varint(value);
            emitter.signed(value as i64);
            let bytes = emitter.finish();
            let mut cursor = Cursor::new(&bytes, 0);
            assert_eq!(cursor.varint().unwrap(), value);
            assert_eq!(cursor.signed().unwrap(), value as i64);
            assert!(cursor.is_empty());
        }
    }
}
