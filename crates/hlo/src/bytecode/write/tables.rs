//! The tables a file refers to by number: strings, dialects, op names, attributes, types and properties.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::emitter::{Emitter, Flag};
use crate::bytecode::container::section;

/// Oldest StableHLO version written: the one in which the ops that take a result accuracy got it.
const OLDEST_VERSION: (u32, u32, u32) = (1, 10, 0);

/// Numbers for things that are equal.
struct Interner<T> {
    numbers: HashMap<Arc<T>, u64>,
    items: Vec<Arc<T>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { numbers: HashMap::new(), items: Vec::new() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    fn number(&mut self, item: T) -> u64 {
        if let Some(&number) = self.numbers.get(&item) {
            return number;
        }
        let (number, item) = (self.items.len() as u64, Arc::new(item));
        self.items.push(item.clone());
        self.numbers.insert(item, number);
        number
    }
}

/// How an attribute or type is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    /// As text.
    Text,
    /// As the dialect encodes it.
    Custom,
}

#[derive(PartialEq, Eq, Hash)]
struct Entry {
    dialect: u64,
    encoding: Encoding,
    data: Vec<u8>,
}

#[derive(PartialEq, Eq, Hash)]
struct OpName {
    dialect: u64,
    name: u64,
    is_registered: bool,
}

/// Everything numbered so far.
#[derive(Default)]
pub(super) struct Tables {
    strings: Interner<Vec<u8>>,
    dialects: Interner<u64>,
    ops: Interner<OpName>,
    attrs: Interner<Entry>,
    types: Interner<Entry>,
    properties: Interner<Vec<u8>>,
    needed_version: (u32, u32, u32),
}

impl Tables {
    /// Notes that the program uses what a version introduced.
    pub(super) fn need(&mut self, version: (u32, u32, u32)) {
        self.needed_version = self.needed_version.max(version);
    }

    /// The oldest version that has everything the program uses.
    pub(super) fn version(&self) -> (u32, u32, u32) {
        self.needed_version.max(OLDEST_VERSION)
    }

    pub(super) fn string(&mut self, bytes: impl AsRef<[u8]>) -> u64 {
        self.strings.number(bytes.as_ref().to_vec())
    }

    fn dialect(&mut self, name: &str) -> u64 {
        let name = self.string(name);
        self.dialects.number(name)
    }

    pub(super) fn op(&mut self, dialect: &str, name: &str, is_registered: bool) -> u64 {
        let (dialect, name) = (self.dialect(dialect), self.string(name));
        self.ops.number(OpName { dialect, name, is_registered })
    }

    pub(super) fn attr_entry(&mut self, dialect: &str, encoding: Encoding, data: Vec<u8>) -> u64 {
        let dialect = self.dialect(dialect);
        self.attrs.number(Entry { dialect, encoding, data })
    }

    pub(super) fn type_entry(&mut self, dialect: &str, encoding: Encoding, data: Vec<u8>) -> u64 {
        let dialect = self.dialect(dialect);
        self.types.number(Entry { dialect, encoding, data })
    }

    pub(super) fn properties(&mut self, data: Vec<u8>) -> u64 {
        self.properties.number(data)
    }

    /// Writes every table as its section.
    pub(super) fn emit(&self, out: &mut Emitter) {
        out.section(section::DIALECTS, &self.dialect_section());
        let (data, offsets) = self.entry_sections();
        out.section(section::ATTRS_TYPES, &data);
        out.section(section::OFFSETS, &offsets);
        out.section(section::STRINGS, &self.string_section());
        let mut properties = Emitter::default();
        properties.varint(self.properties.items.len() as u64);
        self.properties.items.iter().for_each(|data| properties.blob(data));
        out.section(section::PROPERTIES, &properties.finish());
    }

    fn dialect_section(&self) -> Vec<u8> {
        let mut out = Emitter::default();
        out.varint(self.dialects.items.len() as u64);
        self.dialects.items.iter().for_each(|name| out.flagged(**name, Flag::Clear));
        out.varint(self.ops.items.len() as u64);
        for group in self.ops.items.chunk_by(|a, b| a.dialect == b.dialect) {
            out.varint(group[0].dialect);
            out.varint(group.len() as u64);
            group.iter().for_each(|op| out.flagged(op.name, op.is_registered.into()));
        }
        out.finish()
    }

    fn entry_sections(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut offsets) = (Emitter::default(), Emitter::default());
        offsets.varint(self.attrs.items.len() as u64);
        offsets.varint(self.types.items.len() as u64);
        for entries in [&self.attrs.items, &self.types.items] {
            for group in entries.chunk_by(|a, b| a.dialect == b.dialect) {
                offsets.varint(group[0].dialect);
                offsets.varint(group.len() as u64);
                for entry in group {
                    offsets.flagged(entry.data.len() as u64, (entry.encoding == Encoding::Custom).into());
                    data.bytes(&entry.data);
                }
            }
        }
        (data.finish(), offsets.finish())
    }

    /// Lengths with the zero byte, last string's first; then the strings.
    fn string_section(&self) -> Vec<u8> {
        let mut out = Emitter::default();
        out.varint(self.strings.items.len() as u64);
        self.strings.items.iter().rev().for_each(|string| out.varint(string.len() as u64 + 1));
        for string in &self.strings.items {
            out.bytes(string);
            out.byte(0);
        }
        out.finish()
    }
}
