//! What a reader knows of a profile while it goes through it: the space, a plane, a line, an event.

use crate::stat::{Stat, StatList, StatValue};
use crate::wire::{Fields, WireValue};
use std::collections::HashMap;

/// The profile as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// How many planes there are.
    pub planes: u64,
    /// What went wrong while recording.
    pub errors: Vec<String>,
    /// What the producer wants a reader to know.
    pub warnings: Vec<String>,
    /// Hosts the planes come from.
    pub hostnames: Vec<String>,
}

/// A plane without its lines.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    /// Place in the profile, from 0.
    pub index: u64,
    /// Number the producer gave.
    pub id: i64,
    /// Name, such as `/device:TPU:0`.
    pub name: String,
    /// How many lines there are.
    pub lines: u64,
    /// Facts about the plane.
    pub stats: StatList,
    pub(crate) event_metadata: HashMap<i64, EventMetadata>,
    pub(crate) stat_names: HashMap<i64, Box<str>>,
}

/// What events of one kind have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventMetadata {
    /// Name; for an XLA op its HLO text or its name.
    pub name: Box<str>,
    /// Name to show; empty where there is none.
    pub display_name: Box<str>,
    /// Values that all such events share.
    pub stats: StatList,
    /// Values too large to keep.
    pub far: Vec<FarValue>,
}

/// A value that is left in the file; [`crate::SpaceReader::far_value`] fetches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarValue {
    /// Key of the stat's name in its plane.
    pub metadata_id: i64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl FarValue {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A line without its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Place in the plane, from 0.
    pub index: u64,
    /// Number; lines of one number are one timeline.
    pub id: i64,
    /// Lines of one display id share a row.
    pub display_id: i64,
    /// Name.
    pub name: String,
    /// Name to show; empty where there is none.
    pub display_name: String,
    /// Start, nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// How long was recorded; often 0.
    pub duration_ps: i64,
    /// How many events there are.
    pub events: u64,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineEvent<'a> {
    /// Key of its metadata in the plane.
    pub metadata_id: i64,
    /// Start, from the start of the line. Not checked: it may be negative.
    pub offset_ps: i64,
    /// Length. Not checked: it may be negative.
    pub duration_ps: i64,
    /// Occurrences, where many are added up into this one, which then has no start.
    pub occurrences: Option<i64>,
    pub(crate) encoded: &'a [u8],
}

impl Plane {
    /// What events of this key have in common.
    pub fn event_metadata(&self, id: i64) -> Option<&EventMetadata> {
        self.event_metadata.get(&id)
    }

    /// All event metadata with their keys, in no order.
    pub fn all_event_metadata(&self) -> impl ExactSizeIterator<Item = (i64, &EventMetadata)> {
        self.event_metadata.iter().map(|(id, metadata)| (*id, metadata))
    }

    /// Name of the stat of this key.
    pub fn stat_name(&self, id: i64) -> Option<&str> {
        self.stat_names.get(&id).map(|name| &**name)
    }

    /// What the caller makes of the names of stats, by their keys: asked once, not for every event.
    pub fn stat_kinds<T>(&self, kind: impl Fn(&str) -> Option<T>) -> HashMap<i64, T> {
        self.stat_names.iter().filter_map(|(id, name)| Some((*id, kind(name)?))).collect()
    }

    /// Keys of the stats of this name.
    pub fn stat_ids<'a>(&'a self, name: &'a str) -> impl Iterator<Item = i64> + 'a {
        self.stat_names.iter().filter(move |(_, known)| &***known == name).map(|(id, _)| *id)
    }

    /// A value as text: its own, or the name it refers to.
    pub fn text<'a>(&'a self, value: StatValue<'a>) -> Option<&'a str> {
        match value {
            StatValue::Str(text) => Some(text),
            StatValue::Ref(id) => self.stat_name(id as i64),
            _ => None,
        }
    }

    /// The plane's own fact of that name.
    pub fn fact<'a>(&'a self, name: &str) -> Option<StatValue<'a>> {
        self.stats.iter().find(|stat| self.stat_name(stat.metadata_id) == Some(name)).map(|stat| stat.value)
    }
}

impl Line {
    /// Where an event begins, picoseconds since 1970.
    pub fn start_ps(&self, event: &LineEvent<'_>) -> i128 {
        i128::from(self.timestamp_ns) * 1000 + i128::from(event.offset_ps)
    }
}

impl<'a> LineEvent<'a> {
    /// Values particular to this event.
    pub fn stats(&self) -> impl Iterator<Item = Stat<'a>> + use<'a> {
        let mut fields = Fields::new("XEvent", self.encoded, 0);
        std::iter::from_fn(move || {
            loop {
                if let (4, WireValue::Bytes(bytes)) = fields.next().ok()?? {
                    return Stat::decode(bytes, 0).ok();
                }
            }
        })
    }
}
