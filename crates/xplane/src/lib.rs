//! Profiles as XSpace (`*.xplane.pb`): a reader for files of any size and origin, messages and a writer.
//!
//! A reader's input is hostile and may be larger than memory: [`SpaceReader`] goes through it plane by plane and line by
//! line, hands events to a [`SpaceVisitor`], and keeps only the names and constants of one plane, within [`ReadLimits`].
//! A writer builds an [`XSpace`] in memory with [`SpaceBuilder`], then encodes it.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! let mut space = xplane::SpaceBuilder::new();
//! let plane = space.plane("/device:TPU:0");
//! let op = plane.event("fusion.1");
//! plane.line(1, "XLA Ops", 0).events.push(xplane::XEvent::at(op, 1_000, 500));
//! let bytes = space.finish().to_bytes();
//!
//! #[derive(Default)]
//! struct Total(i64);
//! impl xplane::SpaceVisitor for Total {
//!     fn event(&mut self, _: &xplane::Plane, _: &xplane::Line, event: &xplane::LineEvent<'_>) -> ControlFlow<()> {
//!         self.0 += event.duration_ps;
//!         ControlFlow::Continue(())
//!     }
//! }
//! let mut total = Total::default();
//! xplane::SpaceReader::new(std::io::Cursor::new(&bytes), xplane::ReadLimits::default())?.read(&mut total)?;
//! assert_eq!(total.0, 500);
//!
//! // What is cut or damaged is refused, and the message says where.
//! let cut = std::io::Cursor::new(&bytes[..bytes.len() - 1]);
//! let error = xplane::SpaceReader::new(cut, xplane::ReadLimits::default())?.read(&mut Total::default()).unwrap_err();
//! assert!(error.to_string().contains("cut or damaged at byte"), "{error}");
//! # Ok::<(), xplane::Error>(())
//! ```

mod builder;
mod error;
mod messages;
pub mod names;
mod plane;
mod reader;
mod stat;
#[cfg(test)]
mod tests;
mod wire;

pub use builder::{PlaneBuilder, SpaceBuilder};
pub use error::Error;
pub use messages::{XEvent, XEventData, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata, XStatValue};
pub use plane::{EventMetadata, FarValue, Line, LineEvent, Plane, Space};
pub use reader::{ReadLimits, SpaceReader, SpaceVisitor};
pub use stat::{Stat, StatList, StatValue};
pub use wire::{WireValue, fields};
