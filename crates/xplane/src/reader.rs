//! Goes through a profile in a file: plane by plane, line by line, event by event, in bounded memory.
//!
//! Producers write the lines of a plane before its names, and the events of a line before some of its fields. So a
//! plane and a line are each gone through twice: first for what describes them, skipping the rest, then for the rest.

use crate::error::Error;
use crate::plane::{EventMetadata, FarValue, Line, LineEvent, Plane, Space};
use crate::stat::{Stat, text};
use crate::wire::{FarField, Fields, Source, WireValue};
use std::io::{Read, Seek};
use std::ops::ControlFlow;

/// How much memory a reader may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// For what describes the space, or one plane with its names and constants.
    pub metadata_bytes: u64,
    /// For one event with its stats, or one name.
    pub event_bytes: u64,
    /// For one value fetched by [`SpaceReader::far_value`].
    pub far_value_bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { metadata_bytes: 1 << 30, event_bytes: 16 << 20, far_value_bytes: 1 << 30 }
    }
}

/// What a reader hands out, in the order of the file. Every method has a default: go on.
pub trait SpaceVisitor {
    /// The profile as a whole; called first.
    fn space(&mut self, _space: &Space) {}

    /// A plane, all its names known. `Break` skips its lines unread.
    fn plane(&mut self, _plane: &Plane) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A line. `Break` skips its events unread.
    fn line(&mut self, _plane: &Plane, _line: &Line) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// An event. `Break` ends reading.
    fn event(&mut self, plane: &Plane, line: &Line, event: &LineEvent<'_>) -> ControlFlow<()>;

    /// The end of a line that was not skipped.
    fn line_end(&mut self, _plane: &Plane, _line: &Line) {}

    /// The end of a plane that was not skipped.
    fn plane_end(&mut self, _plane: &Plane) {}
}

/// Values of more bytes stay in the file.
const FAR: u64 = 64 << 10;

/// What a map's entry costs beside its text, and a list's entry.
const ENTRY_BYTES: u64 = 256;
const ITEM_BYTES: u64 = 48;

const SPACE: &str = "XSpace";
const PLANE: &str = "XPlane";
const LINE: &str = "XLine";
const EVENT: &str = "XEvent";
const EVENT_METADATA: &str = "XEventMetadata";
const STAT_METADATA: &str = "XStatMetadata";
const STAT: &str = "XStat";
const OTHER_TYPE: &str = "a field of another type";

/// Memory that may still be claimed.
struct Budget {
    left: u64,
    limit: u64,
    what: &'static str,
}

impl Budget {
    fn new(limits: &ReadLimits, what: &'static str) -> Budget {
        Budget { left: limits.metadata_bytes, limit: limits.metadata_bytes, what }
    }

    fn claim(&mut self, bytes: u64, offset: u64) -> Result<(), Error> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::TooLarge { what: self.what, offset, limit_bytes: self.limit }),
        }
    }
}

/// A reader of `*.xplane.pb`.
pub struct SpaceReader<R> {
    source: Source<R>,
    limits: ReadLimits,
}

impl<R: Read + Seek> SpaceReader<R> {
    /// A reader over a file or bytes; nothing is read yet.
    pub fn new(input: R, limits: ReadLimits) -> Result<SpaceReader<R>, Error> {
        Ok(SpaceReader { source: Source::new(input)?, limits })
    }

    /// Size of the input.
    pub fn length(&self) -> u64 {
        self.source.length()
    }

    /// Goes through the whole input.
    pub fn read(&mut self, visitor: &mut dyn SpaceVisitor) -> Result<(), Error> {
        let end = self.source.length();
        if end == 0 {
            return Err(Error::malformed(SPACE, 0, "nothing: the file is empty"));
        }
        let space = self.space(end)?;
        visitor.space(&space);
        self.source.seek(0);
        let mut index = 0;
        while let Some((number, field)) = self.source.next(SPACE, end)? {
            let FarField::Bytes(bytes) = field else { continue };
            let plane_end = self.source.offset() + bytes;
            if number == 1 {
                if self.plane(index, plane_end, visitor)?.is_break() {
                    return Ok(());
                }
                index += 1;
            }
            self.source.seek(plane_end);
        }
        Ok(())
    }

    /// Fetches a value that was left in the file.
    pub fn far_value(&mut self, value: &FarValue) -> Result<Vec<u8>, Error> {
        let limit_bytes = self.limits.far_value_bytes;
        let offset = value.offset;
        let too_large = Error::TooLarge { what: "a value", offset, limit_bytes };
        if value.bytes > limit_bytes || offset.checked_add(value.bytes).is_none_or(|end| end > self.source.length()) {
            return Err(too_large);
        }
        let count = usize::try_from(value.bytes).map_err(|_| too_large)?;
        self.source.seek(offset);
        Ok(self.source.bytes(STAT, count)?.to_vec())
    }

    /// What describes the space; planes are skipped.
    fn space(&mut self, end: u64) -> Result<Space, Error> {
        let mut budget = Budget::new(&self.limits, "the list of hosts and messages");
        let mut space = Space::default();
        while let Some((number, field)) = self.source.next(SPACE, end)? {
            match (number, field) {
                (1, FarField::Bytes(bytes)) => {
                    space.planes += 1;
                    self.skip(bytes);
                }
                (2..=4, FarField::Bytes(bytes)) => {
                    let text = self.text(SPACE, bytes, &mut budget)?;
                    match number {
                        2 => space.errors.push(text),
                        3 => space.warnings.push(text),
                        _ => space.hostnames.push(text),
                    }
                }
                (1..=4, _) => return Err(Error::malformed(SPACE, self.source.offset(), OTHER_TYPE)),
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok(space)
    }

    fn plane(&mut self, index: u64, end: u64, visitor: &mut dyn SpaceVisitor) -> Result<ControlFlow<()>, Error> {
        let start = self.source.offset();
        let plane = self.plane_head(index, end)?;
        if visitor.plane(&plane).is_break() {
            return Ok(ControlFlow::Continue(()));
        }
        self.source.seek(start);
        let mut line_index = 0;
        while let Some((number, field)) = self.source.next(PLANE, end)? {
            let FarField::Bytes(bytes) = field else { continue };
            let line_end = self.source.offset() + bytes;
            if number == 3 {
                if self.line(&plane, line_index, line_end, visitor)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                line_index += 1;
            }
            self.source.seek(line_end);
        }
        visitor.plane_end(&plane);
        Ok(ControlFlow::Continue(()))
    }

    /// What describes a plane; lines are skipped.
    fn plane_head(&mut self, index: u64, end: u64) -> Result<Plane, Error> {
        let mut budget = Budget::new(&self.limits, "what describes a plane");
        let mut plane = Plane { index, ..Plane::default() };
        while let Some((number, field)) = self.source.next(PLANE, end)? {
            match (number, field) {
                (1, FarField::Varint(id)) => plane.id = id as i64,
                (2, FarField::Bytes(bytes)) => plane.name = self.text(PLANE, bytes, &mut budget)?,
                (3, FarField::Bytes(bytes)) => {
                    plane.lines += 1;
                    self.skip(bytes);
                }
                (4, FarField::Bytes(bytes)) => {
                    let entry_end = self.source.offset() + bytes;
                    let (id, metadata) = self.event_metadata_entry(entry_end, &mut budget)?;
                    plane.event_metadata.insert(id, metadata);
                }
                (5, FarField::Bytes(bytes)) => {
                    let entry_end = self.source.offset() + bytes;
                    let (id, name) = self.stat_metadata_entry(entry_end, &mut budget)?;
                    plane.stat_names.insert(id, name);
                }
                (6, FarField::Bytes(bytes)) => {
                    let offset = self.source.offset();
                    budget.claim(bytes + ITEM_BYTES, offset)?;
                    // A fact of the plane is small; one that is not is not worth its memory.
                    if bytes > FAR {
                        self.skip(bytes);
                    } else {
                        let encoded = self.source.bytes(STAT, bytes as usize)?;
                        Stat::decode(encoded, offset)?;
                        plane.stats.push(encoded);
                    }
                }
                (1..=6, _) => return Err(Error::malformed(PLANE, self.source.offset(), OTHER_TYPE)),
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok(plane)
    }

    fn event_metadata_entry(&mut self, end: u64, budget: &mut Budget) -> Result<(i64, EventMetadata), Error> {
        budget.claim(ENTRY_BYTES, self.source.offset())?;
        let (mut id, mut metadata) = (0, EventMetadata::default());
        while let Some((number, field)) = self.source.next(EVENT_METADATA, end)? {
            match (number, field) {
                (1, FarField::Varint(key)) => id = key as i64,
                (2, FarField::Bytes(bytes)) => {
                    let value_end = self.source.offset() + bytes;
                    self.event_metadata(value_end, &mut metadata, budget)?;
                }
                (1 | 2, _) => return Err(Error::malformed(EVENT_METADATA, self.source.offset(), OTHER_TYPE)),
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok((id, metadata))
    }

    fn event_metadata(&mut self, end: u64, metadata: &mut EventMetadata, budget: &mut Budget) -> Result<(), Error> {
        while let Some((number, field)) = self.source.next(EVENT_METADATA, end)? {
            match (number, field) {
                (2, FarField::Bytes(bytes)) => {
                    metadata.name = self.text(EVENT_METADATA, bytes, budget)?.into();
                }
                (4, FarField::Bytes(bytes)) => {
                    metadata.display_name = self.text(EVENT_METADATA, bytes, budget)?.into();
                }
                (5, FarField::Bytes(bytes)) if bytes > FAR => {
                    budget.claim(ITEM_BYTES, self.source.offset())?;
                    let stat_end = self.source.offset() + bytes;
                    metadata.far.extend(self.far_stat(stat_end)?);
                }
                (5, FarField::Bytes(bytes)) => {
                    let offset = self.source.offset();
                    budget.claim(bytes + ITEM_BYTES, offset)?;
                    let encoded = self.source.bytes(STAT, bytes as usize)?;
                    Stat::decode(encoded, offset)?;
                    metadata.stats.push(encoded);
                }
                (2 | 4 | 5, _) => return Err(Error::malformed(EVENT_METADATA, self.source.offset(), OTHER_TYPE)),
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok(())
    }

    /// A stat too large to keep: where its text or bytes are.
    fn far_stat(&mut self, end: u64) -> Result<Option<FarValue>, Error> {
        let (mut metadata_id, mut place) = (0, None);
        while let Some((number, field)) = self.source.next(STAT, end)? {
            match (number, field) {
                (1, FarField::Varint(id)) => metadata_id = id as i64,
                (5 | 6 | 8, FarField::Bytes(bytes)) => {
                    place = Some((self.source.offset(), bytes));
                    self.skip(bytes);
                }
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok(place.map(|(offset, bytes)| FarValue { metadata_id, offset, bytes }))
    }

    fn stat_metadata_entry(&mut self, end: u64, budget: &mut Budget) -> Result<(i64, Box<str>), Error> {
        budget.claim(ENTRY_BYTES, self.source.offset())?;
        let (mut id, mut name) = (0, Box::from(""));
        while let Some((number, field)) = self.source.next(STAT_METADATA, end)? {
            match (number, field) {
                (1, FarField::Varint(key)) => id = key as i64,
                (2, FarField::Bytes(bytes)) => {
                    let value_end = self.source.offset() + bytes;
                    while let Some((number, field)) = self.source.next(STAT_METADATA, value_end)? {
                        match (number, field) {
                            (2, FarField::Bytes(bytes)) => {
                                name = self.text(STAT_METADATA, bytes, budget)?.into();
                            }
                            (_, FarField::Bytes(bytes)) => self.skip(bytes),
                            _ => {}
                        }
                    }
                }
                (1 | 2, _) => return Err(Error::malformed(STAT_METADATA, self.source.offset(), OTHER_TYPE)),
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok((id, name))
    }

    fn line(
        &mut self,
        plane: &Plane,
        index: u64,
        end: u64,
        visitor: &mut dyn SpaceVisitor,
    ) -> Result<ControlFlow<()>, Error> {
        let start = self.source.offset();
        let line = self.line_head(index, end)?;
        if visitor.line(plane, &line).is_break() {
            return Ok(ControlFlow::Continue(()));
        }
        self.source.seek(start);
        while let Some((number, field)) = self.source.next(LINE, end)? {
            let FarField::Bytes(bytes) = field else { continue };
            if number != 4 {
                self.skip(bytes);
                continue;
            }
            let offset = self.source.offset();
            let limit_bytes = self.limits.event_bytes;
            if bytes > limit_bytes {
                return Err(Error::TooLarge { what: "an event", offset, limit_bytes });
            }
            let event = decode_event(self.source.bytes(EVENT, bytes as usize)?, offset)?;
            if visitor.event(plane, &line, &event).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        visitor.line_end(plane, &line);
        Ok(ControlFlow::Continue(()))
    }

    /// What describes a line; events are skipped.
    fn line_head(&mut self, index: u64, end: u64) -> Result<Line, Error> {
        let mut budget = Budget::new(&self.limits, "what describes a line");
        let mut line = Line { index, ..Line::default() };
        while let Some((number, field)) = self.source.next(LINE, end)? {
            match (number, field) {
                (1, FarField::Varint(id)) => line.id = id as i64,
                (2, FarField::Bytes(bytes)) => line.name = self.text(LINE, bytes, &mut budget)?,
                (3, FarField::Varint(start)) => line.timestamp_ns = start as i64,
                (4, FarField::Bytes(bytes)) => {
                    line.events += 1;
                    self.skip(bytes);
                }
                (9, FarField::Varint(duration)) => line.duration_ps = duration as i64,
                (10, FarField::Varint(id)) => line.display_id = id as i64,
                (11, FarField::Bytes(bytes)) => line.display_name = self.text(LINE, bytes, &mut budget)?,
                (1..=4 | 9..=11, _) => return Err(Error::malformed(LINE, self.source.offset(), OTHER_TYPE)),
                (_, FarField::Bytes(bytes)) => self.skip(bytes),
                _ => {}
            }
        }
        Ok(line)
    }

    fn skip(&mut self, bytes: u64) {
        self.source.seek(self.source.offset() + bytes);
    }

    fn text(&mut self, message: &'static str, bytes: u64, budget: &mut Budget) -> Result<String, Error> {
        let offset = self.source.offset();
        if bytes > self.limits.event_bytes {
            return Err(Error::TooLarge { what: "a name", offset, limit_bytes: self.limits.event_bytes });
        }
        budget.claim(bytes + ITEM_BYTES, offset)?;
        Ok(text(message, self.source.bytes(message, bytes as usize)?, offset)?.to_string())
    }
}

fn decode_event(encoded: &[u8], offset: u64) -> Result<LineEvent<'_>, Error> {
    let mut event = LineEvent { metadata_id: 0, offset_ps: 0, duration_ps: 0, occurrences: None, encoded };
    let mut fields = Fields::new(EVENT, encoded, offset);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, WireValue::Varint(id)) => event.metadata_id = id as i64,
            (2, WireValue::Varint(start)) => event.offset_ps = start as i64,
            (3, WireValue::Varint(duration)) => event.duration_ps = duration as i64,
            (4, WireValue::Bytes(stat)) => {
                let end = fields.offset();
                Stat::decode(stat, end - stat.len() as u64)?;
            }
            (5, WireValue::Varint(count)) => event.occurrences = Some(count as i64),
            (1..=5, _) => return Err(Error::malformed(EVENT, offset, OTHER_TYPE)),
            _ => {}
        }
    }
    Ok(event)
}
