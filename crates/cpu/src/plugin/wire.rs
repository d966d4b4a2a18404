//! The few protobuf messages that cross the table: compile options in, device assignments and shardings out.

use crate::engine::Spread;
use crate::sharding::Sharding;

use super::call::Failure;
use super::overrides::{self, Override};

/// What we read of `CompileOptionsProto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompileOptions {
    pub(super) spread: Spread,
    /// Device ids by `[replica][partition]`.
    pub(super) device_ids: Option<Vec<i64>>,
    pub(super) portable: Portable,
    /// Results whose shardings the program may choose; nothing written means all.
    pub(super) free_results: Vec<bool>,
    /// The same of arguments; nothing written means none.
    pub(super) free_arguments: Vec<bool>,
}

/// Whether a program runs on any one device the caller names at each launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portable {
    Yes,
    No,
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Double(f64),
    Other,
}

/// Splits a message into its fields.
fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>, Failure> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => {
                let (double, rest) = bytes.split_first_chunk().ok_or_else(truncated)?;
                bytes = rest;
                Field::Double(f64::from_le_bytes(*double))
            }
            2 => {
                let len = varint(&mut bytes)?;
                Field::Bytes(take(&mut bytes, usize::try_from(len).map_err(|_| truncated())?)?)
            }
            5 => take(&mut bytes, 4).map(|_| Field::Other)?,
            _ => return Err(truncated()),
        };
        found.push((key >> 3, field));
    }
    Ok(found)
}

fn truncated() -> Failure {
    Failure::invalid("the compile options are not a CompileOptionsProto")
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], Failure> {
    let (head, rest) = bytes.split_at_checked(len).ok_or_else(truncated)?;
    *bytes = rest;
    Ok(head)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Failure> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(truncated())
}

impl CompileOptions {
    pub(super) fn decode(bytes: &[u8]) -> Result<CompileOptions, Failure> {
        let mut options = CompileOptions {
            spread: Spread::ONE,
            device_ids: None,
            portable: Portable::No,
            free_results: Vec::new(),
            free_arguments: Vec::new(),
        };
        for (tag, field) in fields(bytes)? {
            match (tag, field) {
                (3, Field::Bytes(build)) => options.decode_build(build)?,
                (4, Field::Number(n)) if n != 0 => options.portable = Portable::Yes,
                (7, Field::Bytes(entry)) => check_override(entry)?,
                _ => {}
            }
        }
        let count = options.spread.num_devices();
        if options.device_ids.as_ref().is_some_and(|ids| ids.len() != count) {
            return Err(Failure::invalid(format!("the device assignment is not for {count} devices")));
        }
        Ok(options)
    }

    fn decode_build(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let count = |n: u64| usize::try_from(n).ok().filter(|n| *n <= 1 << 16).ok_or_else(truncated);
        for (tag, field) in fields(bytes)? {
            match (tag, field) {
                // Zero, the default on the wire, means one.
                (4, Field::Number(n)) => self.spread.num_replicas = count(n)?.max(1),
                (5, Field::Number(n)) => self.spread.num_partitions = count(n)?.max(1),
                (9, Field::Bytes(assignment)) => self.device_ids = Some(decode_assignment(assignment)?),
                (12, field) => flags(field, &mut self.free_results)?,
                (18, field) => flags(field, &mut self.free_arguments)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// A repeated boolean: all at once, or one of them.
fn flags(field: Field<'_>, into: &mut Vec<bool>) -> Result<(), Failure> {
    match field {
        Field::Number(n) => into.push(n != 0),
        Field::Bytes(mut packed) => {
            while !packed.is_empty() {
                into.push(varint(&mut packed)? != 0);
            }
        }
        _ => return Err(truncated()),
    }
    Ok(())
}

/// An entry of the map of options by name. A value that is not written is an empty text, the default on the wire.
fn check_override(entry: &[u8]) -> Result<(), Failure> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| truncated());
    let (mut name, mut value) = (String::new(), Override::Text(String::new()));
    for (tag, field) in fields(entry)? {
        match (tag, field) {
            (1, Field::Bytes(bytes)) => name = text(bytes)?,
            (2, Field::Bytes(bytes)) => {
                for (tag, field) in fields(bytes)? {
                    value = match (tag, field) {
                        (1, Field::Bytes(bytes)) => Override::Text(text(bytes)?),
                        (2, Field::Number(n)) => Override::Bool(n != 0),
                        (3, Field::Number(n)) => Override::Int(n as i64),
                        (4, Field::Double(number)) => Override::Float(number),
                        _ => continue,
                    };
                }
            }
            _ => {}
        }
    }
    overrides::check(&name, &value)
}

fn decode_assignment(bytes: &[u8]) -> Result<Vec<i64>, Failure> {
    let mut columns: Vec<Vec<i64>> = Vec::new();
    for (tag, field) in fields(bytes)? {
        let (3, Field::Bytes(column)) = (tag, field) else { continue };
        let mut ids = Vec::new();
        for (tag, field) in fields(column)? {
            match (tag, field) {
                (1, Field::Number(n)) => ids.push(n as i64),
                (1, Field::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        ids.push(varint(&mut packed)? as i64);
                    }
                }
                _ => {}
            }
        }
        columns.push(ids);
    }
    let replicas = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != replicas) {
        return Err(Failure::invalid("the device assignment is not a full matrix"));
    }
    Ok((0..replicas).flat_map(|r| columns.iter().map(move |column| column[r])).collect())
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_number(out: &mut Vec<u8>, tag: u64, value: u64) {
    put_varint(out, tag << 3);
    put_varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    put_varint(out, tag << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn put_numbers(out: &mut Vec<u8>, tag: u64, values: impl Iterator<Item = u64>) {
    let mut packed = Vec::new();
    values.for_each(|value| put_varint(&mut packed, value));
    put_bytes(out, tag, &packed);
}

/// A serialized `DeviceAssignmentProto`.
pub(super) fn device_assignment(spread: Spread, device_ids: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, 1, spread.num_replicas as u64);
    put_number(&mut out, 2, spread.num_partitions as u64);
    for partition in 0..spread.num_partitions {
        let mut column = Vec::new();
        let ids =
            (0..spread.num_replicas).map(|replica| device_ids[replica * spread.num_partitions + partition] as u64);
        put_numbers(&mut column, 1, ids);
        put_bytes(&mut out, 3, &column);
    }
    out
}

/// A serialized `OpSharding`.
pub(super) fn op_sharding(sharding: &Sharding) -> Vec<u8> {
    // Numbers of `OpSharding.Type`.
    const REPLICATED: u64 = 0;
    const OTHER: u64 = 3;
    const UNREDUCED: u64 = 6;
    let mut out = Vec::new();
    if sharding.is_replicated() {
        // REPLICATED is zero, the default on the wire.
        return out;
    }
    let (summands, copies) = (sharding.summands, sharding.copies());
    if summands > 1 && sharding.num_tiles() == 1 && copies == 1 {
        put_number(&mut out, 1, UNREDUCED);
        return out;
    }
    put_number(&mut out, 1, OTHER);
    let last = [(summands, UNREDUCED), (copies, REPLICATED)];
    let last: Vec<_> = last.into_iter().filter(|(count, _)| *count > 1).collect();
    let tiles = sharding.tiles.iter().copied().chain(last.iter().map(|(count, _)| *count));
    put_numbers(&mut out, 3, tiles.map(|n| n as u64));
    put_numbers(&mut out, 4, sharding.partitions.iter().map(|&n| n as u64));
    if summands > 1 {
        put_numbers(&mut out, 8, last.into_iter().map(|(_, kind)| kind));
    } else if copies > 1 {
        put_number(&mut out, 6, 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_round_trip() {
        let spread = Spread { num_replicas: 2, num_partitions: 3 };
        let ids = [5, 3, 1, 300, 2, 0];
        let mut build = Vec::new();
        put_number(&mut build, 4, 2);
        put_number(&mut build, 5, 3);
        put_bytes(&mut build, 9, &device_assignment(spread, &ids));
        let mut options = Vec::new();
        put_bytes(&mut options, 3, &build);
        let read = CompileOptions::decode(&options).unwrap();
        assert_eq!(read.spread, spread);
        assert_eq!(read.device_ids.unwrap(), [5, 3, 1, 300, 2, 0]);
    }

    #[test]
    fn options_by_name_are_read() {
        let decode = |name: &str, value: &dyn Fn(&mut Vec<u8>)| {
            let (mut entry, mut inner, mut options) = (Vec::new(), Vec::new(), Vec::new());
            value(&mut inner);
            put_bytes(&mut entry, 1, name.as_bytes());
            put_bytes(&mut entry, 2, &inner);
            put_bytes(&mut options, 7, &entry);
            CompileOptions::decode(&options).map(drop).map_err(|failure| failure.message)
        };
        assert_eq!(decode("xla_embed_ir_in_executable", &|out| put_number(out, 2, 1)), Ok(()));
        assert_eq!(decode("xla_embed_ir_in_executable", &|out| put_bytes(out, 1, b"true")), Ok(()));
        assert_eq!(decode("xla_dump_max_hlo_modules", &|out| put_number(out, 3, 200)), Ok(()));
        let ratio = |out: &mut Vec<u8>| {
            put_varint(out, 4 << 3 | 1);
            out.extend(0.5f64.to_le_bytes());
        };
        assert_eq!(decode("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", &ratio), Ok(()));
        assert!(decode("xla_embed_ir_in_executable", &ratio).unwrap_err().contains("'0.5' is not a valid bool value."));
        assert!(
            decode("unknown", &|out| put_number(out, 2, 1)).unwrap_err().contains("No such compile option: 'unknown'")
        );
        assert!(decode("xla_dump_to", &|out| put_bytes(out, 1, &[0xff])).is_err());
    }

    #[test]
    fn hostile_options_are_refused() {
        for bytes in [
            &[0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
            &[0x80],
            &[0x07],
            &[0x1a, 5, 1],
            &[0x09, 1],
        ] {
            assert!(CompileOptions::decode(bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(CompileOptions::decode(&[]).unwrap().spread, Spread::ONE);
    }
}
