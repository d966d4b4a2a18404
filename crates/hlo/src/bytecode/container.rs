//! The container of MLIR bytecode: header, sections, and the tables of strings, dialects, ops, attributes and types.

use super::cursor::Cursor;
use crate::error::Error;

pub(super) const MAGIC: [u8; 4] = *b"ML\xefR";

/// Newest version of the container this reader knows.
pub(super) const NEWEST_VERSION: u64 = 6;

/// Version from which dialects state versions of their own.
const DIALECT_VERSIONS: u64 = 1;
/// Version from which the number of op names is stated.
const OP_COUNT: u64 = 4;
/// Version from which an op's own attributes live in a section of their own.
pub(super) const PROPERTIES: u64 = 5;

/// What a section holds.
pub(super) mod section {
    pub(in crate::bytecode) const STRINGS: u8 = 0;
    pub(in crate::bytecode) const DIALECTS: u8 = 1;
    pub(in crate::bytecode) const ATTRS_TYPES: u8 = 2;
    pub(in crate::bytecode) const OFFSETS: u8 = 3;
    pub(in crate::bytecode) const IR: u8 = 4;
    pub(in crate::bytecode) const RESOURCES: u8 = 5;
    pub(in crate::bytecode) const RESOURCE_OFFSETS: u8 = 6;
    pub(in crate::bytecode) const DIALECT_VERSIONS: u8 = 7;
    pub(in crate::bytecode) const PROPERTIES: u8 = 8;
    pub(super) const COUNT: usize = 9;
}

/// An op name the file uses.
pub(super) struct OpEntry<'a> {
    pub(super) dialect: &'a str,
    pub(super) name: &'a str,
    /// Whether the writer knew the op, and so stored its attributes in its own way.
    pub(super) registered: bool,
}

/// An encoded attribute or type.
pub(super) struct Entry<'a> {
    pub(super) dialect: &'a str,
    /// Whether the dialect's own encoding is used rather than text.
    pub(super) custom: bool,
    pub(super) data: Cursor<'a>,
}

/// A file taken apart, nothing decoded yet.
pub(super) struct Container<'a> {
    pub(super) version: u64,
    pub(super) producer: &'a str,
    pub(super) size_bytes: usize,
    pub(super) strings: Vec<&'a [u8]>,
    pub(super) ops: Vec<OpEntry<'a>>,
    pub(super) attrs: Vec<Entry<'a>>,
    pub(super) types: Vec<Entry<'a>>,
    pub(super) properties: Vec<Cursor<'a>>,
    /// Blobs that attributes refer to; `None` for one that is announced and not held.
    pub(super) resources: Vec<Option<&'a [u8]>>,
    pub(super) ir: Cursor<'a>,
}

pub(super) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Version and producer; what follows is sections.
pub(super) fn header<'a>(bytes: &'a [u8]) -> Result<(u64, &'a str, Cursor<'a>), Error> {
    let mut cursor = Cursor::new(bytes, 0);
    if !has_magic(bytes) {
        return Err(cursor.error("this is not MLIR bytecode: it does not begin with `ML\\xefR`"));
    }
    cursor.bytes(MAGIC.len())?;
    let version = cursor.varint()?;
    if version > NEWEST_VERSION {
        return Err(
            cursor.error(format!("bytecode version {version} is newer than {NEWEST_VERSION}, the newest known"))
        );
    }
    let producer = cursor.zero_terminated()?;
    Ok((version, producer, cursor))
}

/// One section: its kind and its data.
fn section<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, Cursor<'a>), Error> {
    let kind = cursor.byte()?;
    let length = cursor.varint()?;
    if kind & 0x80 != 0 {
        let alignment = cursor.varint()?;
        cursor.align(alignment)?;
    }
    let length = cursor.bound(length)?;
    Ok((kind & 0x7f, cursor.slice(length)?))
}

/// A nested section with the ops of regions that see nothing of what surrounds them.
pub(super) fn nested_ir<'a>(cursor: &mut Cursor<'a>) -> Result<Cursor<'a>, Error> {
    match section(cursor)? {
        (section::IR, data) => Ok(data),
        (kind, _) => Err(cursor.error(format!("section {kind} stands where the ops of a region should"))),
    }
}

impl<'a> Container<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let (version, producer, mut cursor) = header(bytes)?;
        let mut sections: [Option<Cursor<'a>>; section::COUNT] = [None; section::COUNT];
        while !cursor.is_empty() {
            let (kind, data) = section(&mut cursor)?;
            let slot = sections.get_mut(usize::from(kind));
            let slot = slot.ok_or_else(|| cursor.error(format!("section {kind} is not known")))?;
            if slot.replace(data).is_some() {
                return Err(cursor.error(format!("section {kind} appears twice")));
            }
        }
        let require = |kind: u8, name: &str| {
            sections[usize::from(kind)].ok_or_else(|| cursor.error(format!("the section of {name} is missing")))
        };
        let strings = read_strings(require(section::STRINGS, "strings")?)?;
        let (dialects, ops) = read_dialects(require(section::DIALECTS, "dialects")?, version, &strings)?;
        let data = require(section::ATTRS_TYPES, "attributes and types")?;
        let (attrs, types) = read_entries(require(section::OFFSETS, "offsets")?, data, &dialects)?;
        let properties = match sections[usize::from(section::PROPERTIES)] {
            Some(data) => read_properties(data)?,
            None => Vec::new(),
        };
        let resources = match sections[usize::from(section::RESOURCE_OFFSETS)] {
            Some(offsets) => read_resources(offsets, require(section::RESOURCES, "resources")?)?,
            None => Vec::new(),
        };
        let ir = require(section::IR, "ops")?;
        Ok(Container {
            version,
            producer,
            size_bytes: bytes.len(),
            strings,
            ops,
            attrs,
            types,
            properties,
            resources,
            ir,
        })
    }
}

/// Lengths come first, last string's first; then the strings, each with a zero byte.
fn read_strings(mut cursor: Cursor<'_>) -> Result<Vec<&[u8]>, Error> {
    let count = cursor.count()?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(cursor.count()?);
    }
    let mut strings = Vec::with_capacity(count);
    for &length in lengths.iter().rev() {
        let bytes = cursor.bytes(length)?;
        strings.push(bytes.split_last().ok_or_else(|| cursor.error("a string without its zero byte"))?.1);
    }
    Ok(strings)
}

fn text_at<'a>(cursor: &Cursor<'_>, strings: &[&'a [u8]], index: u64) -> Result<&'a str, Error> {
    let bytes = usize::try_from(index).ok().and_then(|i| strings.get(i));
    let bytes = bytes.ok_or_else(|| cursor.error(format!("string {index} does not exist")))?;
    std::str::from_utf8(bytes).map_err(|_| cursor.error("a name that is not UTF-8"))
}

/// Names of dialects, and the ops of them that the file uses.
type DialectsAndOps<'a> = (Vec<&'a str>, Vec<OpEntry<'a>>);

fn read_dialects<'a>(mut cursor: Cursor<'a>, version: u64, strings: &[&'a [u8]]) -> Result<DialectsAndOps<'a>, Error> {
    let count = cursor.count()?;
    let mut dialects = Vec::with_capacity(count);
    for _ in 0..count {
        let (name, has_version) =
            if version >= DIALECT_VERSIONS { cursor.flagged()? } else { (cursor.varint()?, false) };
        dialects.push(text_at(&cursor, strings, name)?);
        // What a dialect says about its version does not change how its attributes are encoded.
        if has_version {
            match section(&mut cursor)? {
                (section::DIALECT_VERSIONS, _) => {}
                (kind, _) => return Err(cursor.error(format!("section {kind} stands where a dialect version should"))),
            }
        }
    }
    if version >= OP_COUNT {
        cursor.varint()?;
    }
    let mut ops = Vec::new();
    while !cursor.is_empty() {
        let (dialect, entries) = grouping(&mut cursor, &dialects)?;
        for _ in 0..cursor.bound(entries)? {
            let (name, registered) = if version >= PROPERTIES { cursor.flagged()? } else { (cursor.varint()?, true) };
            ops.push(OpEntry { dialect, name: text_at(&cursor, strings, name)?, registered });
        }
    }
    Ok((dialects, ops))
}

/// The dialect the next entries belong to, and how many there are.
fn grouping<'a>(cursor: &mut Cursor<'_>, dialects: &[&'a str]) -> Result<(&'a str, u64), Error> {
    let index = cursor.varint()?;
    let dialect = usize::try_from(index).ok().and_then(|i| dialects.get(i));
    let dialect = dialect.ok_or_else(|| cursor.error(format!("dialect {index} does not exist")))?;
    Ok((dialect, cursor.varint()?))
}

type Entries<'a> = (Vec<Entry<'a>>, Vec<Entry<'a>>);

fn read_entries<'a>(mut cursor: Cursor<'a>, mut data: Cursor<'a>, dialects: &[&'a str]) -> Result<Entries<'a>, Error> {
    let num_attrs = cursor.varint()?;
    let num_types = cursor.varint()?;
    let (num_attrs, num_types) = (cursor.bound(num_attrs)?, cursor.bound(num_types)?);
    let mut read = |count: usize| {
        let mut entries = Vec::with_capacity(count);
        while entries.len() < count {
            let (dialect, in_group) = grouping(&mut cursor, dialects)?;
            let in_group = cursor.bound(in_group)?;
            if in_group > count - entries.len() {
                return Err(cursor.error("more attributes or types than announced"));
            }
            for _ in 0..in_group {
                let (length, custom) = cursor.flagged()?;
                let length = data.bound(length)?;
                entries.push(Entry { dialect, custom, data: data.slice(length)? });
            }
        }
        Ok(entries)
    };
    Ok((read(num_attrs)?, read(num_types)?))
}

fn read_properties(mut cursor: Cursor<'_>) -> Result<Vec<Cursor<'_>>, Error> {
    let count = cursor.count()?;
    let mut properties = Vec::with_capacity(count);
    for _ in 0..count {
        let length = cursor.count()?;
        properties.push(cursor.slice(length)?);
    }
    Ok(properties)
}

/// Resources of tools outside the program come first and are skipped; those of dialects are numbered in order.
fn read_resources<'a>(mut offsets: Cursor<'a>, mut data: Cursor<'a>) -> Result<Vec<Option<&'a [u8]>>, Error> {
    for _ in 0..offsets.count()? {
        offsets.varint()?;
        read_resource_group(&mut offsets, &mut data, &mut Vec::new())?;
    }
    let mut resources = Vec::new();
    while !offsets.is_empty() {
        offsets.varint()?;
        read_resource_group(&mut offsets, &mut data, &mut resources)?;
    }
    Ok(resources)
}

fn read_resource_group<'a>(
    offsets: &mut Cursor<'a>,
    data: &mut Cursor<'a>,
    resources: &mut Vec<Option<&'a [u8]>>,
) -> Result<(), Error> {
    const BLOB: u8 = 0;
    for _ in 0..offsets.count()? {
        offsets.varint()?;
        let length = offsets.varint()?;
        let kind = offsets.byte()?;
        let length = data.bound(length)?;
        let mut resource = data.slice(length)?;
        if kind != BLOB || resource.is_empty() {
            resources.push(None);
            continue;
        }
        let alignment = resource.varint()?;
        let length = resource.varint()?;
        resource.align(alignment)?;
        let length = resource.bound(length)?;
        resources.push(Some(resource.bytes(length)?));
    }
    Ok(())
}
