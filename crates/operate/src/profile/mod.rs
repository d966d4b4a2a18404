//! What a profile measured: time by op, category, source line and scope, steps, waits, transfers, memory, and the
//! prediction beside it. Profiles come from any producer: JAX or PyTorch/XLA on TPU or GPU, XLA's CPU device, ours.
//!
//! A file is read once, in bounded memory: [`xplane::SpaceReader`] hands over events, `space.rs` says what they are,
//! `collect.rs` adds them up, `report.rs` makes the answer of it. Counting follows XProf: time of an op without the ops
//! inside it, lines that were derived from others left out, device clocks where a device has its own.

mod chrome;
mod collect;
mod error;
mod files;
mod host;
mod nest;
mod ops;
mod page;
mod programs;
mod record;
mod report;
mod space;
mod spans;
mod trace;

pub use error::Error;
pub(crate) use files::size_bytes;
pub(crate) use ops::is_collective;
pub use page::html;
pub use record::{
    CoreKind, HostEvent, MeasuredCollectives, MeasuredDevice, MeasuredMemory, MeasuredOp, MeasuredProgram,
    MeasuredRoofline, MeasuredSteps, MeasuredTransfer, ProfileReport, ProfileStep, ProfileTotals, TimeGroup,
};
pub use trace::TraceWriter;

use collect::Collector;
use files::Format;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

/// Reads a profile: a file, or a folder with one file for each host. A trace is written on the way where one is given.
pub fn read(
    path: &Path,
    limits: xplane::ReadLimits,
    mut trace: Option<&mut TraceWriter>,
) -> Result<ProfileReport, Error> {
    let mut collector = Collector::default();
    let files = files::find(path)?;
    for (number, (path, format)) in files.iter().enumerate() {
        match format {
            Format::Chrome => chrome::read(path, number, &mut collector)?,
            Format::Space => {
                let file = File::open(path).map_err(|source| Error::Read { path: path.clone(), source })?;
                collect_space(file, limits, trace.as_deref_mut(), number, &mut collector)
                    .map_err(|source| Error::Profile { path: path.clone(), source })?;
            }
        }
    }
    Ok(report::report(collector, files.into_iter().map(|(path, _)| path).collect()))
}

/// Reads one XSpace, wherever it is.
pub fn read_space(input: impl Read + Seek, limits: xplane::ReadLimits) -> Result<ProfileReport, xplane::Error> {
    let mut collector = Collector::default();
    collect_space(input, limits, None, 0, &mut collector)?;
    Ok(report::report(collector, Vec::new()))
}

fn collect_space(
    input: impl Read + Seek,
    limits: xplane::ReadLimits,
    trace: Option<&mut TraceWriter>,
    number: usize,
    collector: &mut Collector,
) -> Result<(), xplane::Error> {
    let mut reader = xplane::SpaceReader::new(input, limits)?;
    let mut pass = space::SpacePass::new(collector, trace, number);
    reader.read(&mut pass)?;
    let found = std::mem::take(&mut pass.found);
    programs::read_programs(&mut reader, found, number, collector);
    Ok(())
}
