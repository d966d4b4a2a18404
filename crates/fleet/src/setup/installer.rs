//! The user's own pip or uv: finding it, and running it so that it can be cancelled.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::package::{PLATFORMS, PYTHON_ABIS, PYTHON_VERSION};
use crate::{Error, System};

const POLL: Duration = Duration::from_millis(20);
/// How long `python3 -m pip --version` may take before pip counts as absent.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
const OUTPUT_TAIL_BYTES: u64 = 2000;

/// Which installer to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstallerChoice {
    /// The first found: uv, `python3 -m pip`, `pip3`, `pip`.
    #[default]
    Any,
    /// uv only.
    Uv,
    /// pip only.
    Pip,
}

/// How an installer is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstallerKind {
    /// `uv pip install --target`.
    Uv,
    /// `python3 -m pip download`.
    PythonPip,
    /// `pip3 download`.
    Pip,
}

/// An installer on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installer {
    /// How it is called.
    pub kind: InstallerKind,
    /// The program.
    pub program: PathBuf,
}

impl Installer {
    /// Every usable installer on `$PATH`, the preferred one first.
    pub fn all(system: &System) -> Vec<Self> {
        let on_path = |kind, name| Some(Self { kind, program: system.find_program(name)? });
        let python_pip = || on_path(InstallerKind::PythonPip, "python3").filter(|p| p.answers(system));
        let pip = || on_path(InstallerKind::Pip, "pip3").or_else(|| on_path(InstallerKind::Pip, "pip"));
        [on_path(InstallerKind::Uv, "uv"), python_pip(), pip()].into_iter().flatten().collect()
    }

    pub(super) fn find(system: &System, choice: InstallerChoice) -> Result<Self, Error> {
        let all = Self::all(system).into_iter();
        let is_uv = |i: &Self| i.kind == InstallerKind::Uv;
        match choice {
            InstallerChoice::Any => all.into_iter().next().ok_or(Error::NoInstaller),
            InstallerChoice::Uv => all.into_iter().find(is_uv).ok_or(Error::InstallerMissing { name: "uv" }),
            InstallerChoice::Pip => all.into_iter().find(|i| !is_uv(i)).ok_or(Error::InstallerMissing { name: "pip" }),
        }
    }

    /// What to type to get the same program.
    pub fn words(&self) -> &'static str {
        match self.kind {
            InstallerKind::Uv => "uv pip",
            InstallerKind::PythonPip => "python3 -m pip",
            InstallerKind::Pip => "pip3",
        }
    }

    fn answers(&self, system: &System) -> bool {
        let mut command = self.command(system);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        let started = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if started.elapsed() < VERSION_LIMIT => std::thread::sleep(POLL),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return false;
                }
            }
        }
    }

    fn command(&self, system: &System) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(system.vars()).stdin(Stdio::null());
        match self.kind {
            InstallerKind::Uv => command.arg("pip"),
            InstallerKind::PythonPip => command.args(["-m", "pip"]),
            InstallerKind::Pip => &mut command,
        };
        command
    }

    /// Arguments that bring one package into `dest`: a wheel from pip, the unpacked package from uv.
    pub(super) fn arguments(&self, request: &Request<'_>) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut put = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        match self.kind {
            InstallerKind::Uv => {
                let platform = format!("{}-{}", request.machine, PLATFORMS[0]);
                put(&["install", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy"]);
                put(&["--python-version", PYTHON_VERSION, "--python-platform", &platform]);
                args.extend(["--target".into(), request.dest.into()]);
                if request.hashed {
                    args.push("--require-hashes".into());
                }
                args.extend(["-r".into(), request.requirements.into()]);
            }
            InstallerKind::PythonPip | InstallerKind::Pip => {
                put(&["download", "--no-deps", "--only-binary=:all:", "--implementation", "cp"]);
                put(&["--python-version", PYTHON_VERSION]);
                PYTHON_ABIS.iter().for_each(|abi| put(&["--abi", abi]));
                PLATFORMS.iter().for_each(|p| put(&["--platform", &format!("{p}_{}", request.machine)]));
                args.extend(["--dest".into(), request.dest.into(), request.requirement.into()]);
            }
        }
        args
    }

    /// Runs the installer to its end, calling `on_wait` from time to time, or kills it when cancelled.
    ///
    /// Temporary files and output go to `work`, so that nothing is left of an installer that was killed.
    pub(super) fn run(
        &self,
        system: &System,
        arguments: &[OsString],
        work: &Path,
        cancel: &AtomicBool,
        on_wait: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let output_path = work.join("output");
        let mut output = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&output_path)
            .map_err(Error::io("create", &output_path))?;
        let clone = || output.try_clone().map_err(Error::io("open", &output_path));
        let mut command = self.command(system);
        command.args(arguments).stdout(clone()?).stderr(clone()?);
        command.env("TMPDIR", work).env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_NO_INPUT", "1");
        command.process_group(0);
        let line = self.command_line(arguments);
        let failed = |what: String, source| Error::Installer { command: line.clone(), what, source };
        let mut child = command.spawn().map_err(|e| failed("cannot be started".into(), Some(e)))?;
        let status = loop {
            if cancel.load(Ordering::Relaxed) {
                if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Cancelled);
            }
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {
                    on_wait();
                    std::thread::sleep(POLL);
                }
                Err(e) => return Err(failed("was lost".into(), Some(e))),
            }
        };
        if status.success() { Ok(()) } else { Err(failed(format!("failed ({status}){}", tail(&mut output)), None)) }
    }

    /// The command line to show.
    pub(super) fn command_line(&self, arguments: &[OsString]) -> String {
        let words = arguments.iter().map(|a| a.to_string_lossy());
        std::iter::once(self.words().into()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// One package to bring.
pub(super) struct Request<'a> {
    /// `name==version`.
    pub(super) requirement: &'a str,
    /// A file with the requirement and, when `hashed`, the accepted hashes.
    pub(super) requirements: &'a Path,
    pub(super) hashed: bool,
    pub(super) machine: &'a str,
    pub(super) dest: &'a Path,
}

fn tail(output: &mut File) -> String {
    let mut bytes = Vec::new();
    let length = output.metadata().map_or(0, |m| m.len());
    if output.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_TAIL_BYTES))).is_ok() {
        let _ = output.take(OUTPUT_TAIL_BYTES).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(":\n{text}") }
}
