//! Builds an XSpace in memory: planes whose event and stat names are given ids once.

use crate::messages::{XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata, XStatValue};
use std::collections::HashMap;

/// An [`XSpace`] under construction.
#[derive(Clone, Debug, Default)]
pub struct SpaceBuilder {
    planes: Vec<PlaneBuilder>,
    errors: Vec<String>,
    warnings: Vec<String>,
    hostnames: Vec<String>,
}

/// A plane under construction.
#[derive(Clone, Debug, Default)]
pub struct PlaneBuilder {
    plane: XPlane,
    events: HashMap<String, i64>,
    stats: HashMap<String, i64>,
    lines: HashMap<i64, usize>,
}

impl SpaceBuilder {
    /// A space without planes.
    pub fn new() -> SpaceBuilder {
        SpaceBuilder::default()
    }

    /// The plane of that name; made if there is none.
    pub fn plane(&mut self, name: &str) -> &mut PlaneBuilder {
        let at = self.planes.iter().position(|plane| plane.plane.name == name).unwrap_or_else(|| {
            let id = self.planes.len() as i64;
            let plane = XPlane { id, name: name.into(), ..XPlane::default() };
            self.planes.push(PlaneBuilder { plane, ..PlaneBuilder::default() });
            self.planes.len() - 1
        });
        &mut self.planes[at]
    }

    /// Says what went wrong while recording.
    pub fn error(&mut self, text: impl Into<String>) {
        self.errors.push(text.into());
    }

    /// Says what a reader should know, such as dropped events.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Names a host that planes come from.
    pub fn hostname(&mut self, name: impl Into<String>) {
        self.hostnames.push(name.into());
    }

    /// The finished space.
    pub fn finish(self) -> XSpace {
        XSpace {
            planes: self.planes.into_iter().map(|plane| plane.plane).collect(),
            errors: self.errors,
            warnings: self.warnings,
            hostnames: self.hostnames,
        }
    }
}

impl PlaneBuilder {
    /// Key of the event metadata of that name; made if there is none.
    pub fn event(&mut self, name: &str) -> i64 {
        if let Some(id) = self.events.get(name) {
            return *id;
        }
        // 0 is what an absent field reads as.
        let id = self.plane.event_metadata.len() as i64 + 1;
        self.events.insert(name.into(), id);
        let metadata = XEventMetadata { id, name: name.into(), ..XEventMetadata::default() };
        self.plane.event_metadata.insert(id, metadata);
        id
    }

    /// The event metadata of a key that [`PlaneBuilder::event`] gave; made if there is none.
    pub fn metadata(&mut self, id: i64) -> &mut XEventMetadata {
        self.plane.event_metadata.entry(id).or_insert_with(|| XEventMetadata { id, ..XEventMetadata::default() })
    }

    /// Key of the stat metadata of that name; made if there is none.
    pub fn stat_id(&mut self, name: &str) -> i64 {
        if let Some(id) = self.stats.get(name) {
            return *id;
        }
        let id = self.plane.stat_metadata.len() as i64 + 1;
        self.stats.insert(name.into(), id);
        let metadata = XStatMetadata { id, name: name.into(), description: String::new() };
        self.plane.stat_metadata.insert(id, metadata);
        id
    }

    /// A stat of that name.
    pub fn stat(&mut self, name: &str, value: XStatValue) -> XStat {
        XStat { metadata_id: self.stat_id(name), value: Some(value) }
    }

    /// A stat whose text is kept once in the plane, however many events have it.
    pub fn shared_text(&mut self, name: &str, text: &str) -> XStat {
        let value = XStatValue::Ref(self.stat_id(text) as u64);
        self.stat(name, value)
    }

    /// Adds a fact about the plane.
    pub fn fact(&mut self, name: &str, value: XStatValue) {
        let stat = self.stat(name, value);
        self.plane.stats.push(stat);
    }

    /// The line of that id; made if there is none.
    pub fn line(&mut self, id: i64, name: &str, timestamp_ns: i64) -> &mut XLine {
        let lines = &mut self.plane.lines;
        let at = *self.lines.entry(id).or_insert_with(|| {
            lines.push(XLine { id, name: name.into(), timestamp_ns, ..XLine::default() });
            lines.len() - 1
        });
        &mut self.plane.lines[at]
    }
}
