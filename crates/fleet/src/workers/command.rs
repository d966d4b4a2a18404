//! What a process of an attempt is started with: its command and its environment.

use std::collections::BTreeMap;
use std::path::Path;

use super::ssh::shell_quoted;
use crate::job::{JobFile, JobProgram};
use crate::supervisor::JobAttempt;

/// The port of the coordinator, which process 0 serves.
const PORT: u16 = 8476;

/// One process of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCommand {
    /// The words of its command.
    pub words: Vec<String>,
    /// Its environment, beside that of the worker's shell.
    pub environment: BTreeMap<String, String>,
}

impl ProcessCommand {
    /// Process `process` of an attempt. `file` is the training file as the worker has it; the secret is in `../secret`.
    pub fn of(job: &JobFile, attempt: &JobAttempt, process: usize, file: &Path) -> ProcessCommand {
        let count = attempt.places.len();
        let coordinator = attempt.places.first().map_or_else(String::new, |first| match first.internal {
            std::net::IpAddr::V4(address) => format!("{address}:{PORT}"),
            std::net::IpAddr::V6(address) => format!("[{address}]:{PORT}"),
        });
        let mut environment = job.run.environment.clone();
        let mut set = |name: &str, value: String| environment.insert(name.to_string(), value);
        // A worker joins its own attempt only.
        set("TPUBRIDGE_RUN_ID", format!("{}-{}", attempt.run, attempt.number));
        set("TPUBRIDGE_SECRET_FILE", "../secret".into());
        if job.run.plugin.as_deref() == Some("cpu") {
            set("TPUBRIDGE_DEVICE", "cpu".into());
        }
        if attempt.slices > 1 {
            let place = &attempt.places[process];
            let host = coordinator.rsplit_once(':').map_or("", |(host, _)| host);
            set("MEGASCALE_NUM_SLICES", attempt.slices.to_string());
            set("MEGASCALE_SLICE_ID", place.slice.to_string());
            set("MEGASCALE_COORDINATOR_ADDRESS", format!("{host}:8080"));
        }
        let words = match &job.run.program {
            JobProgram::Train { arguments, .. } => {
                let mut words: Vec<String> = ["./bin/tpu", "train"].map(String::from).to_vec();
                words.push(file.display().to_string());
                words.extend(["--folder".into(), job.folder.clone()]);
                words.extend(arguments_for(job, arguments, attempt.slices));
                if count > 1 {
                    let process = process.to_string();
                    let options =
                        [("--processes", count.to_string()), ("--process-id", process), ("--coordinator", coordinator)];
                    words.extend(options.into_iter().flat_map(|(option, value)| [option.to_string(), value]));
                }
                words
            }
            JobProgram::Command(command) => {
                for prefix in ["TPUBRIDGE_", "JAX_"] {
                    let name =
                        |ours: &str, jaxs: &str| format!("{prefix}{}", if prefix == "JAX_" { jaxs } else { ours });
                    environment.insert(name("PROCESSES", "NUM_PROCESSES"), count.to_string());
                    environment.insert(name("PROCESS_ID", "PROCESS_ID"), process.to_string());
                    environment.insert(name("COORDINATOR", "COORDINATOR_ADDRESS"), coordinator.clone());
                }
                environment.insert("TPUBRIDGE_JOB_FOLDER".into(), job.folder.clone());
                command.clone()
            }
        };
        ProcessCommand { words, environment }
    }

    /// As a line for a shell, which replaces itself by the program.
    pub fn line(&self) -> String {
        let set = self.environment.iter().map(|(name, value)| format!("{name}={}", shell_quoted(value)));
        let words = self.words.iter().map(|word| shell_quoted(word));
        let words: Vec<String> = ["exec".to_string(), "env".to_string()].into_iter().chain(set).chain(words).collect();
        words.join(" ")
    }
}

/// The arguments of `tpu train` with the mesh of fewer slices.
fn arguments_for(job: &JobFile, arguments: &[String], slices: u32) -> Vec<String> {
    let full = job.slice().num_slices();
    let mut words = arguments.to_vec();
    if slices == full {
        return words;
    }
    for at in 0..words.len() {
        let is_mesh = at > 0 && words[at - 1] == "--mesh";
        let (before, mesh) = match words[at].strip_prefix("--mesh=") {
            Some(mesh) => ("--mesh=", mesh),
            None if is_mesh => ("", words[at].as_str()),
            None => continue,
        };
        if let Some(mesh) = elastic_mesh(mesh, full, slices) {
            words[at] = format!("{before}{mesh}");
        }
    }
    words
}

/// The mesh of a job that goes on with fewer slices: the axis between slices shrinks, or that of the data. None if no axis
/// does.
///
/// ```
/// assert_eq!(fleet::workers::elastic_mesh("dcn:replica=4,fsdp=256", 4, 2).as_deref(), Some("dcn:replica=2,fsdp=256"));
/// assert_eq!(fleet::workers::elastic_mesh("data=8,model=4", 4, 1).as_deref(), Some("data=2,model=4"));
/// assert_eq!(fleet::workers::elastic_mesh("model=4", 4, 1), None);
/// ```
pub fn elastic_mesh(mesh: &str, full: u32, slices: u32) -> Option<String> {
    let axes: Vec<(&str, u32)> = mesh
        .split(',')
        .map(|axis| axis.trim().split_once('=').and_then(|(name, size)| Some((name, size.parse().ok()?))))
        .collect::<Option<_>>()?;
    let fits = |size: u32| u64::from(size) * u64::from(slices) % u64::from(full.max(1)) == 0 && size >= full;
    let first = |is_right: &dyn Fn(&str) -> bool| axes.iter().position(|(name, size)| is_right(name) && fits(*size));
    let at = first(&|name| name.starts_with("dcn:"))
        .or_else(|| first(&|name| ["replica", "data"].contains(&name)))
        .or_else(|| first(&|name| name == "fsdp"))?;
    let size = |number: usize, size: u32| {
        if number == at {
            (u64::from(size) * u64::from(slices) / u64::from(full)).to_string()
        } else {
            size.to_string()
        }
    };
    let axes: Vec<String> =
        axes.iter().enumerate().map(|(number, (name, count))| format!("{name}={}", size(number, *count))).collect();
    Some(axes.join(","))
}
