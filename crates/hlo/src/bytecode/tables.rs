//! The attribute and type tables: each entry decoded once, when something refers to it.

use std::collections::HashMap;
use std::sync::Arc;

use super::container::{Container, Entry};
use super::cursor::Cursor;
use super::{assembly, builtin, sdy, stablehlo, vhlo};
use crate::error::Error;
use crate::ir::{Attr, ByteString, Loc};

use crate::ir::{ElementType, Type};

/// How deep attributes and types may nest.
const MAX_DEPTH: u32 = 200;

/// How many nodes a program may have for each byte of its file once shared parts are written out.
const EXPANSION_PER_BYTE: u64 = 64;
const EXPANSION_MIN: u64 = 1 << 22;

enum Slot<T> {
    Unread,
    Reading,
    /// The value, and how many nodes it has when written out in full.
    Read(T, u64),
}

/// Attributes and types of a file.
pub(super) struct Tables<'a> {
    pub(super) container: &'a Container<'a>,
    attrs: Vec<Slot<Attr>>,
    types: Vec<Slot<Type>>,
    /// Texts of string attributes that became names, so that one allocation serves every use.
    names: HashMap<u64, Arc<str>>,
    depth: u32,
    /// Nodes read so far at this level, shared parts counted at each use.
    weight: u64,
    weight_limit: u64,
}

impl<'a> Tables<'a> {
    pub(super) fn new(container: &'a Container<'a>) -> Self {
        Tables {
            container,
            attrs: container.attrs.iter().map(|_| Slot::Unread).collect(),
            types: container.types.iter().map(|_| Slot::Unread).collect(),
            names: HashMap::new(),
            depth: 0,
            weight: 0,
            weight_limit: EXPANSION_MIN.max(EXPANSION_PER_BYTE.saturating_mul(container.size_bytes as u64)),
        }
    }

    /// Counts what an attribute or type holds beyond other entries.
    pub(super) fn weigh(&mut self, nodes: usize) -> Result<(), Error> {
        self.weight = self.weight.saturating_add(nodes as u64);
        if self.weight > self.weight_limit {
            let message = format!("the program, written out, is {EXPANSION_PER_BYTE} times as large as its file");
            return Err(Error::Limit { message });
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<u64, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::Limit { message: format!("attributes nest deeper than {MAX_DEPTH}") });
        }
        self.depth += 1;
        Ok(std::mem::replace(&mut self.weight, 1))
    }

    fn leave(&mut self, before: u64) -> Result<u64, Error> {
        self.depth -= 1;
        let own = std::mem::replace(&mut self.weight, before);
        self.weigh(usize::try_from(own).unwrap_or(usize::MAX))?;
        Ok(own)
    }

    /// The attribute of that number.
    pub(super) fn attr_at(&mut self, at: &Cursor<'_>, index: u64) -> Result<Attr, Error> {
        let slot = usize::try_from(index).ok().filter(|&i| i < self.attrs.len());
        let slot = slot.ok_or_else(|| at.error(format!("attribute {index} does not exist")))?;
        match &self.attrs[slot] {
            Slot::Read(attr, weight) => {
                let (attr, weight) = (attr.clone(), *weight as usize);
                self.weigh(weight)?;
                return Ok(attr);
            }
            Slot::Reading => return Err(at.error(format!("attribute {index} contains itself"))),
            Slot::Unread => {}
        }
        self.attrs[slot] = Slot::Reading;
        let before = self.enter()?;
        let attr = self.decode_attr(&self.container.attrs[slot])?;
        let weight = self.leave(before)?;
        self.attrs[slot] = Slot::Read(attr.clone(), weight);
        Ok(attr)
    }

    /// All attributes of the builtin dialect that can be read.
    pub(super) fn builtin(&mut self) -> Vec<Attr> {
        let container = self.container;
        let is_builtin = |entry: &&Entry<'a>| entry.custom && entry.dialect == "builtin";
        let entries = container.attrs.iter().enumerate().filter(|(_, entry)| is_builtin(entry));
        let read = entries.filter_map(|(index, entry)| {
            let before = self.weight;
            let attr = self.attr_at(&entry.data, index as u64);
            if attr.is_err() {
                // It left without giving back its depth, and what was counted before it.
                (self.depth, self.weight) = (0, self.weight.saturating_add(before));
            }
            attr.ok()
        });
        read.collect()
    }

    /// The type of that number.
    pub(super) fn type_at(&mut self, at: &Cursor<'_>, index: u64) -> Result<Type, Error> {
        let slot = usize::try_from(index).ok().filter(|&i| i < self.types.len());
        let slot = slot.ok_or_else(|| at.error(format!("type {index} does not exist")))?;
        match &self.types[slot] {
            Slot::Read(ty, weight) => {
                let (ty, weight) = (ty.clone(), *weight as usize);
                self.weigh(weight)?;
                return Ok(ty);
            }
            Slot::Reading => return Err(at.error(format!("type {index} contains itself"))),
            Slot::Unread => {}
        }
        self.types[slot] = Slot::Reading;
        let before = self.enter()?;
        let ty = self.decode_type(&self.container.types[slot])?;
        let weight = self.leave(before)?;
        self.types[slot] = Slot::Read(ty.clone(), weight);
        Ok(ty)
    }

    fn decode_attr(&mut self, entry: &Entry<'a>) -> Result<Attr, Error> {
        let mut cursor = entry.data;
        if !entry.custom {
            let text = cursor.zero_terminated()?;
            self.weigh(text.len() / 8)?;
            return assembly::parse_attr(text)
                .map_err(|error| cursor.error(format!("the attribute `{text}`: {error}")));
        }
        match entry.dialect {
            "builtin" => builtin::attr(self, &mut cursor),
            "vhlo" => vhlo::attr(self, &mut cursor),
            "stablehlo" => stablehlo::attr(self, &mut cursor),
            "chlo" => stablehlo::chlo_attr(&mut cursor),
            "sdy" => sdy::attr(self, &mut cursor),
            other => Err(cursor.error(format!("the attribute encoding of dialect `{other}` is not known"))),
        }
    }

    fn decode_type(&mut self, entry: &Entry<'a>) -> Result<Type, Error> {
        let mut cursor = entry.data;
        if !entry.custom {
            let text = cursor.zero_terminated()?;
            self.weigh(text.len() / 8)?;
            return assembly::parse_type(text).map_err(|error| cursor.error(format!("the type `{text}`: {error}")));
        }
        match entry.dialect {
            "builtin" => builtin::ty(self, &mut cursor),
            "vhlo" => vhlo::ty(self, &mut cursor),
            "stablehlo" => stablehlo::ty(self, &mut cursor),
            "quant" => stablehlo::quantized(self, &mut cursor),
            other => Err(cursor.error(format!("the type encoding of dialect `{other}` is not known"))),
        }
    }

    /// The encoded form of an attribute a dialect is expected to have encoded with a certain code.
    pub(super) fn encoded(&self, at: &Cursor<'_>, index: u64, dialect: &str, code: u64) -> Result<Cursor<'a>, Error> {
        let entry = usize::try_from(index).ok().and_then(|i| self.container.attrs.get(i));
        let entry = entry.filter(|entry| entry.custom && entry.dialect == dialect);
        let mut cursor =
            entry.ok_or_else(|| at.error(format!("attribute {index} is not of dialect `{dialect}`")))?.data;
        match cursor.varint()? {
            found if found == code => Ok(cursor),
            found => Err(at.error(format!("attribute {index} has code {found} where {code} is expected"))),
        }
    }

    /// The text of an attribute that is stored as text.
    pub(super) fn stored_text(&self, index: u64) -> Option<&'a str> {
        let entry = usize::try_from(index).ok().and_then(|i| self.container.attrs.get(i))?;
        let mut data = entry.data;
        if entry.custom { None } else { data.zero_terminated().ok() }
    }

    /// An attribute named by the next integer.
    pub(super) fn attr(&mut self, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
        let index = cursor.varint()?;
        self.attr_at(cursor, index)
    }

    /// An attribute that may be absent.
    pub(super) fn optional_attr(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<Attr>, Error> {
        match cursor.flagged()? {
            (_, false) => Ok(None),
            (index, true) => self.attr_at(cursor, index).map(Some),
        }
    }

    pub(super) fn attrs(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Attr>, Error> {
        let count = cursor.count()?;
        (0..count).map(|_| self.attr(cursor)).collect()
    }

    /// A type named by the next integer.
    pub(super) fn ty(&mut self, cursor: &mut Cursor<'_>) -> Result<Type, Error> {
        let index = cursor.varint()?;
        self.type_at(cursor, index)
    }

    pub(super) fn types(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Type>, Error> {
        let count = cursor.count()?;
        (0..count).map(|_| self.ty(cursor)).collect()
    }

    pub(super) fn element(&mut self, cursor: &mut Cursor<'_>) -> Result<ElementType, Error> {
        match self.ty(cursor)? {
            Type::Element(element) => Ok(element),
            other => Err(cursor.error(format!("{other:?} is not an element type"))),
        }
    }

    /// Sizes of dimensions and other lists of integers.
    pub(super) fn integers(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<i64>, Error> {
        let integers = cursor.signed_list()?;
        self.weigh(integers.len())?;
        Ok(integers)
    }

    /// A string of the string section.
    pub(super) fn string(&mut self, cursor: &mut Cursor<'_>) -> Result<&'a [u8], Error> {
        let index = cursor.varint()?;
        let bytes = usize::try_from(index).ok().and_then(|i| self.container.strings.get(i).copied());
        let bytes = bytes.ok_or_else(|| cursor.error(format!("string {index} does not exist")))?;
        self.weigh(bytes.len() / 8)?;
        Ok(bytes)
    }

    pub(super) fn text(&mut self, cursor: &mut Cursor<'_>) -> Result<&'a str, Error> {
        std::str::from_utf8(self.string(cursor)?).map_err(|_| cursor.error("a name that is not UTF-8"))
    }

    /// The text of a string attribute, as a name.
    pub(super) fn name(&mut self, cursor: &mut Cursor<'_>) -> Result<Arc<str>, Error> {
        let index = cursor.varint()?;
        if let Some(name) = self.names.get(&index) {
            let (name, weight) = (name.clone(), name.len() / 8);
            self.weigh(weight)?;
            return Ok(name);
        }
        let name: Arc<str> = match self.attr_at(cursor, index)? {
            Attr::Str(text) => String::from_utf8_lossy(text.as_bytes()).into(),
            _ => return Err(cursor.error(format!("attribute {index} is not a string"))),
        };
        self.names.insert(index, name.clone());
        Ok(name)
    }

    pub(super) fn byte_string(&mut self, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
        Ok(Attr::Str(ByteString::new(self.string(cursor)?)))
    }

    /// A location named by the next integer.
    pub(super) fn loc(&mut self, cursor: &mut Cursor<'_>) -> Result<Loc, Error> {
        match self.attr(cursor)? {
            Attr::Loc(loc) => Ok(loc),
            _ => Err(cursor.error("an attribute that is not a location stands for one")),
        }
    }
}
