//! What a process of an attempt is started with: its command and its environment.

use std::collections::BTreeMap;
use std::path::Path;

use super::ssh::shell_quoted;
use crate::job::{JobFile, JobPlugin, JobProgram};
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
    pub fn of(job: &JobFile, attempt: &JobAttempt, process: usize, file: &Path) -> Result<ProcessCommand, String> {
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
        if job.run.plugin() == Some(JobPlugin::Cpu) {
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
            JobProgram::Train { file: local, arguments } => {
                let mut words: Vec<String> = ["./bin/tpu", "train"].map(String::from).to_vec();
                words.push(file.display().to_string());
                words.extend(["--folder".into(), job.folder.clone()]);
                words.extend(arguments_for(job, local, arguments, attempt.slices)?);
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
        Ok(ProcessCommand { words, environment })
    }

    /// As a line for a shell, which replaces itself by the program.
    pub fn line(&self) -> String {
        let set = self.environment.iter().map(|(name, value)| format!("{name}={}", shell_quoted(value)));
        let words = self.words.iter().map(|word| shell_quoted(word));
        let words: Vec<String> = ["exec".to_string(), "env".to_string()].into_iter().chain(set).chain(words).collect();
        words.join(" ")
    }
}

/// The arguments of `tpu train` with the mesh of fewer slices: that of the arguments, or that of the training file.
fn arguments_for(job: &JobFile, file: &Path, arguments: &[String], slices: u32) -> Result<Vec<String>, String> {
    let full = job.slice().num_slices();
    let mut words = arguments.to_vec();
    if slices == full {
        return Ok(words);
    }
    let shrunk = |mesh: &str| {
        let none = || format!("no axis of the mesh {mesh:?} can shrink from {full} slices to {slices}");
        elastic_mesh(mesh, full, slices).ok_or_else(none)
    };
    let mut is_named = false;
    for at in 0..words.len() {
        let follows = |option: &str| at > 0 && words[at - 1] == option;
        let (before, mesh) = if let Some(mesh) = words[at].strip_prefix("--mesh=") {
            ("--mesh=", mesh)
        } else if follows("--mesh") {
            ("", words[at].as_str())
        } else if let Some(mesh) = words[at].strip_prefix("mesh.axes=").filter(|_| follows("--with")) {
            ("mesh.axes=", mesh)
        } else if let Some(mesh) = words[at].strip_prefix("--with=mesh.axes=") {
            ("--with=mesh.axes=", mesh)
        } else {
            continue;
        };
        words[at] = format!("{before}{}", shrunk(mesh.trim_matches(['"', '\'']))?);
        is_named = true;
    }
    if !is_named && let Some(mesh) = mesh_of_file(file)? {
        words.extend(["--mesh".to_string(), shrunk(&mesh)?]);
    }
    Ok(words)
}

/// The mesh that a training file names.
fn mesh_of_file(file: &Path) -> Result<Option<String>, String> {
    let at = |error: String| format!("{}: {error}", file.display());
    let text = crate::job::small_file(file).map_err(at)?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| at(error.message().to_string()))?;
    let axes = table.get("mesh").and_then(|mesh| mesh.get("axes"));
    Ok(axes.and_then(toml::Value::as_str).map(str::to_string))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::supervisor::{AttemptPhase, Place};

    fn attempt(slices: u32) -> JobAttempt {
        let place = |slice: u32| Place {
            unit: format!("a-{slice}"),
            zone: "us-west4-a".into(),
            unit_slice: 0,
            slice,
            worker: 0,
            internal: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            external: None,
        };
        JobAttempt {
            run: "r1".into(),
            number: 1,
            epoch: 1,
            slices,
            places: (0..slices).map(place).collect(),
            phase: AttemptPhase::Starting,
            since_ms: 0,
            running_ms: None,
            from_step: None,
            kept_ms: None,
            unreachable: BTreeMap::new(),
        }
    }

    #[test]
    fn the_mesh_shrinks_wherever_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let words = |arguments: &str, training: &str, slices: u32| {
            std::fs::write(folder.path().join("t.toml"), training).unwrap();
            let text = format!(
                "name = 'a'\nfolder = 'run'\n[run]\ntrain = 't.toml'\narguments = [{arguments}]\n\
                 [slices]\ntype = 'v5e-16'\ncount = 4\nmin_count = 1\nzones = ['us-west4-a']\n"
            );
            std::fs::write(folder.path().join("job.toml"), text).unwrap();
            let job = JobFile::read(&folder.path().join("job.toml")).unwrap();
            let command = ProcessCommand::of(&job, &attempt(slices), 0, Path::new("t.toml"))?;
            let end = command.words.iter().position(|word| word == "--processes").unwrap_or(command.words.len());
            Ok::<_, String>(command.words[5..end].join(" "))
        };
        let file = "[mesh]\naxes = 'dcn:replica=4,fsdp=16'\n";
        assert_eq!(words("", file, 4).unwrap(), "");
        assert_eq!(words("", file, 2).unwrap(), "--mesh dcn:replica=2,fsdp=16");
        assert_eq!(words("'--mesh=data=8,model=4'", file, 1).unwrap(), "--mesh=data=2,model=4");
        assert_eq!(words("'--with', 'mesh.axes=\"data=8\"'", file, 2).unwrap(), "--with mesh.axes=data=4");
        assert!(words("", "[mesh]\naxes = 'model=4'\n", 2).unwrap_err().contains("can shrink from 4 slices to 2"));
        assert!(words("", "[mesh", 2).unwrap_err().contains("t.toml"));
    }
}
