//! What is copied to every worker: this program, the training file, code and data, as one tar stream in its own layout.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::job::{JobFile, JobPlugin, JobProgram};

/// Files of a bundle, below a folder that all of them share.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    /// The folder that the worker's one stands for.
    pub(super) root: PathBuf,
    /// Files and folders below it.
    pub(super) files: Vec<PathBuf>,
    /// This program.
    pub(super) program: PathBuf,
    /// What all of it is: names, sizes and times.
    pub(super) identity: String,
}

impl Bundle {
    pub(super) fn of(job: &JobFile, program: &Path) -> Result<Bundle, String> {
        let mut files: Vec<PathBuf> = job.run.code.iter().chain(&job.run.data).cloned().collect();
        if let JobProgram::Train { file, .. } = &job.run.program {
            files.push(file.clone());
        }
        if let Some(JobPlugin::File(file)) = job.run.plugin() {
            files.push(file);
        }
        let mut whole = Vec::new();
        for file in files {
            let found = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
            whole.push(found);
        }
        let parents = || whole.iter().map(|file| file.parent().unwrap_or(Path::new("/")).to_path_buf());
        let root = parents().reduce(|a, b| shared(&a, &b)).unwrap_or_else(|| PathBuf::from("/"));
        let mut hash = Sha256::new();
        let mut pending: Vec<PathBuf> = whole.iter().cloned().chain([program.to_path_buf()]).collect();
        let mut seen = Vec::new();
        while let Some(path) = pending.pop() {
            let at = |error: std::io::Error| format!("{}: {error}", path.display());
            let metadata = std::fs::metadata(&path).map_err(at)?;
            if metadata.is_dir() {
                for entry in std::fs::read_dir(&path).map_err(at)? {
                    pending.push(entry.map_err(at)?.path());
                }
                continue;
            }
            let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            seen.push(format!("{} {} {modified:?}", path.display(), metadata.len()));
        }
        seen.sort();
        seen.iter().for_each(|line| hash.update(line.as_bytes()));
        let identity: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let below = |file: &PathBuf| file.strip_prefix(&root).map(Path::to_path_buf).unwrap_or_default();
        let files = whole.iter().map(below).collect();
        Ok(Bundle { root, files, program: program.to_path_buf(), identity })
    }

    /// A tar stream of everything; the program is `bin/tpu` in it.
    pub(super) fn tar(&self) -> Command {
        let mut command = Command::new("tar");
        let folder = self.program.parent().unwrap_or(Path::new("/"));
        let name = self.program.file_name().unwrap_or_default();
        command.args(["--create", "--file=-", "--dereference", "--sparse"]);
        let quoted = regex_quoted(&name.to_string_lossy());
        // Only the program itself is renamed: `flags=r` leaves links alone, and the folder of nothing else is `.//`.
        command.arg(format!("--transform=flags=r;s,^\\./\\./{quoted}$,bin/tpu,"));
        command.arg("--directory").arg(folder).arg(format!("././{}", name.to_string_lossy()));
        if !self.files.is_empty() {
            command.arg("--directory").arg(&self.root).args(&self.files);
        }
        command
    }

    /// A local path as the worker has it, below its folder.
    pub(super) fn remote(&self, path: &Path) -> PathBuf {
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        whole.strip_prefix(&self.root).map(Path::to_path_buf).unwrap_or(whole)
    }
}

fn shared(a: &Path, b: &Path) -> PathBuf {
    a.components().zip(b.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
}

fn regex_quoted(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_ascii_alphanumeric() { vec![c] } else { vec!['\\', c] }).collect()
}
