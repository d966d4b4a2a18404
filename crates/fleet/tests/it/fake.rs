//! Fakes: a folder that looks like a machine, installers as shell scripts, wheels.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use fleet::System;
use fleet::managed::Home;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

/// A folder with a machine in it.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
    vars: Vec<(OsString, OsString)>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), vars: Vec::new() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file under an absolute path of the machine.
    pub(crate) fn file(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
        self
    }

    pub(crate) fn var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.vars.push((name.into(), value.into()));
        self
    }

    pub(crate) fn system(&self) -> System {
        System::new(self.root(), self.vars.clone()).with_glibc(Some("2.36".into()))
    }
}

/// Writes an executable script. A child does the writing: a file this process has open for writing cannot be executed
/// by a child that another test thread starts at that moment.
pub(crate) fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let write = r#"printf '%s' "$1" > "$2" && chmod 755 "$2""#;
    let status = Command::new("sh").args(["-c", write, "sh", text]).arg(path).status().unwrap();
    assert!(status.success());
}

/// A managed folder, a folder of installers and a log of their calls.
pub(crate) struct Workshop {
    dir: tempfile::TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let workshop = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(workshop.bin()).unwrap();
        workshop
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    pub(crate) fn home(&self) -> Home {
        Home::at(self.path("home"))
    }

    /// The fake installers come first on the path; the real system's tools serve the scripts.
    pub(crate) fn system(&self) -> System {
        let path = std::env::join_paths([self.bin(), "/usr/bin".into(), "/bin".into()]).unwrap();
        System::new("/", [("PATH".into(), path)])
    }

    /// A `python3` whose pip does `action`, with the destination in `$dest`.
    pub(crate) fn python_pip(&self, action: &str) {
        let log = self.path("log");
        let text = format!(
            r#"#!/bin/sh
[ "$3" = --version ] && exit 0
echo "$@" >> '{}'
while [ $# -gt 0 ]; do [ "$1" = --dest ] && dest="$2"; shift; done
mkdir -p "$dest"
{action}
"#,
            log.display()
        );
        script(&self.bin().join("python3"), &text);
    }

    /// A `uv` that does `action`, with the destination in `$dest` and the requirements in `$requirements`.
    pub(crate) fn uv(&self, action: &str) {
        let log = self.path("log");
        let text = format!(
            r#"#!/bin/sh
echo "$@" >> '{}'
while [ $# -gt 0 ]; do
  [ "$1" = --target ] && dest="$2"
  [ "$1" = -r ] && requirements="$2"
  shift
done
mkdir -p "$dest"
{action}
"#,
            log.display()
        );
        script(&self.bin().join("uv"), &text);
    }

    /// Calls of the fake installers.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Names in the folder of a package, without the lock.
    pub(crate) fn versions(&self, package: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.home().plugin_dir(package)) else { return Vec::new() };
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n != ".lock").collect()
    }

    /// Writes a wheel of `libtpu`.
    pub(crate) fn wheel(&self, version: &str, library: &[u8]) -> PathBuf {
        let metadata = format!("Metadata-Version: 2.1\nName: libtpu\nVersion: {version}\n\nName: not-this\n");
        let info = format!("libtpu-{version}.dist-info");
        let path = self.path(&format!("libtpu-{version}-cp312-cp312-manylinux_2_31_x86_64.whl"));
        let members: [(&str, &[u8]); 6] = [
            ("libtpu/__init__.py", b"import os\n"),
            ("libtpu/libtpu.so", library),
            ("libtpu/LICENSE", b"licence text\n"),
            ("libtpu/../../../escape/NOTICE", b"notice\n"),
            (&format!("{info}/METADATA"), metadata.as_bytes()),
            (&format!("{info}/WHEEL"), b"Wheel-Version: 1.0\n"),
        ];
        zip_file(&path, &members);
        path
    }
}

pub(crate) fn zip_file(path: &Path, members: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, contents) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(contents).unwrap();
    }
    zip.finish().unwrap();
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
