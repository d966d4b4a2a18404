//! `tpu plan --job`: the job of a plan, with the training file and what that needs.

use std::path::{Path, PathBuf};

use chips::Slice;
use fleet::job::{JobCapacity, JobFile, JobPlatform, JobProgram};
use plan::search::Plan;
use toml::{Table, Value};
use train::Planned;

use super::plan::is_toml;
use crate::args::{PlanArgs, PriceArg};
use crate::commands::compile::write_file;
use crate::failure::{Failure, file};
use crate::quantity;

/// Zones that a job is asked for in at once.
const ZONES: usize = 4;

/// Files of a training file, by table and key: code or data.
const FILES: [(&str, &str, FileKind); 4] = [
    ("model", "config", FileKind::Code),
    ("data", "tokenizer", FileKind::Code),
    ("data", "files", FileKind::Data),
    ("data", "folder", FileKind::Data),
];

#[derive(Clone, Copy, PartialEq)]
enum FileKind {
    Code,
    Data,
}

/// Writes the job of a plan, and its training file where --out names none.
pub(super) fn write(args: &PlanArgs, planned: &Planned, plan: &Plan, path: &Path) -> Result<(), Failure> {
    if !planned.is_training() {
        return Err(Failure::new("--job is for trainings; this is a step of inference").hint("leave --step out"));
    }
    let name = path.file_stem().map_or_else(|| "job".into(), |stem| stem.to_string_lossy().to_lowercase());
    let slice: Slice = plan.slice.parse()?;
    let beside = folder_of(path)?;
    let out = args.out.clone().filter(|out| is_toml(out));
    let training = out.clone().unwrap_or_else(|| path.with_file_name("TRAIN.toml"));
    let training_folder = folder_of(&training)?;
    // Names in a training file are as seen from it; that of a model's own file is as it was given.
    let source = if is_toml(&args.file) { folder_of(&args.file)? } else { folder_of(Path::new("here"))? };
    let mut table: Table = toml::from_str(&planned.training(plan)?).map_err(Failure::new)?;
    let mut needed = Vec::new();
    for (section, key, kind) in FILES {
        let Some(value) = table.get_mut(section).and_then(|section| section.get_mut(key)) else { continue };
        let values = match value {
            Value::Array(values) => values.iter_mut().collect(),
            value => vec![value],
        };
        for value in values {
            let Some(text) = value.as_str().filter(|text| !text.contains("://")) else { continue };
            let Ok(whole) = source.join(text).canonicalize() else { continue };
            *value = Value::String(seen_from(&training_folder, &whole).display().to_string());
            needed.push((kind, seen_from(&beside, &whole)));
        }
    }
    if out.is_none() {
        write_file(&training, toml::to_string(&table).map_err(Failure::new)?.as_bytes())?;
    }
    let whole = training.canonicalize().map_err(|error| file("reading", &training, error))?;
    let mut arguments = Vec::new();
    let flags = plan.candidate.compiler_flags();
    if !flags.is_empty() {
        let flags: Vec<String> = flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        arguments = vec!["--set".to_string(), format!("xla_flags={}", flags.join(" "))];
    }
    let folder = format!("gs://BUCKET/{name}");
    let program = JobProgram::Train { file: seen_from(&beside, &whole), arguments };
    let mut job = JobFile::new(&name, &folder, program, slice);
    for (kind, path) in needed {
        match kind {
            FileKind::Code => job.run.code.push(path),
            FileKind::Data => job.run.data.push(path),
        }
    }
    let is_near = |zone: &&&str| args.region.as_ref().is_none_or(|region| zone.starts_with(region.as_str()));
    let zones = chips::zones(slice.generation());
    job.slices.zones = zones.iter().filter(is_near).take(ZONES).map(|zone| (*zone).to_string()).collect();
    if args.price == PriceArg::Spot {
        job.slices.capacity = JobCapacity::Spot;
    }
    if slice.spec().names.tpu_api_type.value.is_none() {
        job.platform = JobPlatform::Gke;
        job.kubernetes.image = Some("us-docker.pkg.dev/PROJECT/images/tpubridge:0.1.0".into());
    }
    job.limits.budget_usd = quantity::dollars("budget", args.budget.as_deref())?;
    let deadline = quantity::seconds("deadline", args.deadline.as_deref())?;
    job.limits.deadline_s = deadline.map(|seconds| seconds.round() as u64);
    let text = job.to_toml();
    // A file that is written can be read, or the fault is told now.
    JobFile::parse(&text)
        .map_err(|error| Failure::new(error).hint("name the file otherwise, or give another --region"))?;
    let head = format!("# Written by `tpu plan`. Put your bucket into folder, then: tpu job run {}\n", path.display());
    write_file(path, format!("{head}{text}").as_bytes())
}

/// The folder of a file that may not be there yet.
fn folder_of(path: &Path) -> Result<PathBuf, Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    parent.canonicalize().map_err(|error| file("reading", parent, error))
}

/// A path as seen from a folder; both are whole.
fn seen_from(folder: &Path, path: &Path) -> PathBuf {
    let shared = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Path::new("..").as_os_str());
    let down = path.components().skip(shared).map(|part| part.as_os_str());
    up.chain(down).collect()
}
