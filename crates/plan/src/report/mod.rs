//! The answer as one HTML file that needs nothing else: no network, no other file, readable without scripts.
//!
//! What is shown is plain data, so that every command that has a part of an answer can fill that part:
//! [`ReportInput`] is turned into a page by [`html`]. [`Pictures::of`] makes the parts that come from a compiled program
//! rather than from an answer.
//!
//! Names and messages come from programs that nobody here wrote: all text is escaped and cut, all lists are cut with
//! their length said, and the page forbids itself every connection.

mod charts;
mod fill;
mod input;
mod number;
mod page;
mod roofline;
mod sheet;
mod tables;
mod text;

pub use crate::pictures::{
    Alive, Band, LiveMemory, LivePoint, LoopSpan, Pictures, Span, SpanKind, Timeline, TransferWindow,
};
pub use input::{
    AdviceLine, CostLine, Fact, FixLine, MemoryClass, MemoryPart, Proof, ReportInput, ReportVerdict, StepPart,
};
pub use number::{bytes, percent, scaled, seconds};
pub use page::html;
pub use roofline::Roof;
pub use sheet::{Sheet, SheetBlock, SheetCell, SheetSection, SheetTable, SheetTile, sheet_html};
