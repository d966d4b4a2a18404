//! `tpu calibrate`: the rates of a user's own chips, from profiles measured on them; profiles op by op for `tpu accuracy`.

use std::path::Path;

use chips::Slice;
use operate::profile::{self, CoreKind, ProfileReport};
use plan::accuracy::{ClassError, ProfileClasses, ProfileErrors, ProfiledOp, Results, timed_matmuls};
use plan::report::seconds;
use plan::{Machine, MachineFile, PricedClass};
use serde::Serialize;

use crate::args::{AccuracyArgs, CalibrateArgs};
use crate::commands::compile::write_file;
use crate::failure::{self, Answer, Failure};
use crate::output::{Align, Output, Table};

/// What `--json` prints of a profile.
#[derive(Serialize)]
struct Compared<'a> {
    version: u32,
    slice: String,
    #[serde(flatten)]
    errors: &'a ProfileErrors,
}

/// What `--json` prints of `tpu calibrate`.
#[derive(Serialize)]
struct Calibrated<'a> {
    version: u32,
    slice: String,
    machine: &'a MachineFile,
}

pub(crate) fn run(args: &CalibrateArgs, output: &Output) -> Result<Answer, Failure> {
    let mut ops = Vec::new();
    let mut slice = args.slice.as_deref().map(str::parse::<Slice>).transpose()?;
    for path in &args.profiles {
        let (found, measured) = measured(path, slice)?;
        if *slice.get_or_insert(found) != found {
            return Err(Failure::new(format!("{} is of another slice, {found}", path.display()))
                .hint("calibrate each kind of chip by itself"));
        }
        ops.extend(measured);
    }
    let slice = slice.ok_or_else(|| Failure::new("there is no profile"))?;
    let file = plan::calibrate(&ops, &Machine::of(&slice))?;
    if let Some(path) = &args.out {
        write_file(path, file.to_json().as_bytes())?;
        eprintln!("machine file written to {}", path.display());
    }
    let record = Calibrated { version: 1, slice: slice.to_string(), machine: &file };
    output.record(&record, || rates(&file))?;
    Ok(Answer::Yes)
}

fn rates(file: &MachineFile) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["rate", "ops", "usual", "measured"]);
    for rate in &file.fitted {
        let shown = |value: f64| if rate.name.ends_with("_s") { seconds(value) } else { format!("{value:.3}") };
        table.row(vec![rate.name.clone(), rate.ops.to_string(), shown(rate.before), shown(rate.after)]);
    }
    table.render()
}

/// Reads a machine file.
pub(crate) fn read(path: &Path) -> Result<MachineFile, Failure> {
    Ok(MachineFile::read(&std::fs::read(path).map_err(|error| failure::file("reading", path, error))?)?)
}

/// The ops of a profile on TensorCores, and the slice they ran on.
fn measured(path: &Path, slice: Option<Slice>) -> Result<(Slice, Vec<ProfiledOp>), Failure> {
    if path.extension().is_some_and(|extension| extension == "csv") {
        let slice = slice
            .ok_or_else(|| Failure::new("a table of matmuls needs a slice").hint("give --slice, such as v6e-1"))?;
        let table = std::fs::read_to_string(path).map_err(|error| failure::file("reading", path, error))?;
        return Ok((slice, timed_matmuls(&table, &Machine::of(&slice))?));
    }
    let report: ProfileReport = profile::read(path, xplane::ReadLimits::default(), None)?;
    let named = || report.programs.iter().find_map(|program| program.predicted_for.as_deref()?.parse::<Slice>().ok());
    let slice = slice.or_else(named).ok_or_else(|| {
        Failure::new(format!("{} does not say which chip it was measured on", path.display()))
            .hint("give --slice, such as v6e-8 or tpu7x-2")
    })?;
    let ops = report
        .ops
        .iter()
        .filter(|op| op.core == CoreKind::TensorCore && (!op.expression.is_empty() || op.work.is_some()));
    Ok((slice, ops.map(|op| op.profiled()).collect()))
}

/// `tpu accuracy --profile`.
pub(crate) fn compare(name: &Path, args: &AccuracyArgs, output: &Output) -> Result<Answer, Failure> {
    let slice = args.slice.as_deref().map(str::parse::<Slice>).transpose()?;
    let (slice, ops) = measured(name, slice)?;
    let errors = ProfileErrors::of(ops, &Machine::of(&slice));
    if errors.ops.is_empty() {
        return Err(Failure::new(format!("{} has no op that can be priced", name.display()))
            .hint("profiles of TPUs with the HLO text of their ops, or the HLO of their programs, can be"));
    }
    if let Some(path) = &args.results {
        let mut results = Results::read(&std::fs::read(path).map_err(|error| failure::file("reading", path, error))?)?;
        let file = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        results.add_profile(ProfileClasses { file, slice: slice.to_string(), classes: errors.classes.clone() });
        write_file(path, results.to_json().as_bytes())?;
    }
    let record = Compared { version: 1, slice: slice.to_string(), errors: &errors };
    output.record(&record, || text(&errors, args.top))?;
    for (name, why) in &errors.unpriced {
        eprintln!("note: {name} has no price: {why}");
    }
    Ok(Answer::Yes)
}

fn share(value: f64) -> String {
    format!("{:+.1} %", value * 100.0)
}

fn text(errors: &ProfileErrors, top: usize) -> String {
    let mut classes = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right]);
    classes.row(["class", "ops above 20 us", "median error", "p90", "measured", "predicted"]);
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_string(), |value| format!("{:.1} %", value * 100.0));
    for ClassError { class, ops, measured_s, predicted_s, median, p90 } in &errors.classes {
        let name = class.map_or("all", PricedClass::name).to_string();
        classes.row(vec![
            name,
            ops.to_string(),
            percent(*median),
            percent(*p90),
            seconds(*measured_s),
            seconds(*predicted_s),
        ]);
    }
    let right = Align::Right;
    let mut worst = Table::new(&[Align::Left, Align::Left, right, right, right, right, Align::Left]);
    worst.row(["op", "class", "times", "measured", "predicted", "error", "limit"]);
    for op in errors.ops.iter().take(top) {
        worst.row(vec![
            op.name.clone(),
            op.class.name().into(),
            op.executions.to_string(),
            seconds(op.measured_s),
            seconds(op.predicted_s),
            share(op.error()),
            op.bound.name().into(),
        ]);
    }
    format!("{}\nmost seconds off:\n{}", classes.render(), worst.render())
}
