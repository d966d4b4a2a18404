//! Source locations carried by ops, for error reports and profiles.

use std::sync::Arc;

/// Where an op came from; `None` is unknown.
pub type Loc = Option<Arc<Location>>;

/// A source location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A position in a file.
    File {
        /// File name.
        file: Arc<str>,
        /// First line, from 1.
        line: u32,
        /// First column, from 1.
        column: u32,
        /// Last line and column, when a range is known.
        end: Option<(u32, u32)>,
    },
    /// A name, with what it names.
    Name(Arc<str>, Loc),
    /// A position inlined at another.
    CallSite {
        /// The inlined position.
        callee: Loc,
        /// Where it was inlined.
        caller: Loc,
    },
    /// Several positions merged into one op, with the metadata attribute's text if any.
    Fused(Vec<Loc>, Option<Arc<str>>),
}

impl Location {
    /// The first file position reachable from here.
    pub fn file_position(&self) -> Option<(&str, u32, u32)> {
        self.first(|location| match location {
            Location::File { file, line, column, .. } => Some((&**file, *line, *column)),
            _ => None,
        })
    }

    /// The first name reachable from here: the scopes and the op as the framework named them.
    pub fn name(&self) -> Option<&str> {
        self.first(|location| match location {
            Location::Name(name, _) => Some(&**name),
            _ => None,
        })
    }

    /// The first thing found on the way through the location.
    fn first<'l, T>(&'l self, find: impl Fn(&'l Location) -> Option<T>) -> Option<T> {
        let mut pending = vec![self];
        let mut steps = 0;
        while let Some(location) = pending.pop() {
            steps += 1;
            if steps > 1000 {
                return None;
            }
            if let Some(found) = find(location) {
                return Some(found);
            }
            match location {
                Location::File { .. } => {}
                Location::Name(_, child) => pending.extend(child.as_deref()),
                Location::CallSite { callee, caller } => {
                    pending.extend(caller.as_deref());
                    pending.extend(callee.as_deref());
                }
                Location::Fused(parts, _) => pending.extend(parts.iter().rev().filter_map(|p| p.as_deref())),
            }
        }
        None
    }
}
