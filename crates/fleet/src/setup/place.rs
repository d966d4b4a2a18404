//! Carrying out a plan: get, check, unpack beside the destination, rename.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use super::hash::{self, CopyError};
use super::installer::{Installer, InstallerKind, Request};
use super::plan::{PackageSource, SetupPlan, Trust, of_package};
use super::wheel::{self, Wheel};
use crate::Error;
use crate::managed::{PluginRecord, RECORD_FILE, RECORD_VERSION, read_record};

/// Prefix of unfinished folders. The dot keeps them out of every listing of plugins.
const WORK_PREFIX: &str = ".tmp-";
const LOCK_FILE: &str = ".lock";
const LOCK_POLL: Duration = Duration::from_millis(50);
/// Room to leave beside what is written, so that setup is not what fills the disk.
const SPARE_BYTES: u64 = 64 << 20;

/// How far a setup is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupProgress {
    /// Another setup of the same package is at work.
    Waiting,
    /// The installer was started.
    Started {
        /// The command line.
        command: String,
    },
    /// The installer is at work.
    Downloading {
        /// Bytes on disk so far; stays zero where the installer downloads into its own cache.
        bytes: u64,
        /// Bytes to come in all, where known.
        expected_bytes: Option<u64>,
    },
    /// A file is being hashed.
    Checking {
        /// Bytes so far.
        bytes: u64,
    },
    /// The library is being unpacked.
    Unpacking {
        /// Bytes so far.
        bytes: u64,
        /// Bytes in all, where known.
        expected_bytes: Option<u64>,
    },
    /// Written files are being made durable and put in place.
    Finishing,
}

/// What a setup did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was not there before.
    New,
    /// It was there, and its hash is right: nothing was done.
    AlreadyInstalled,
    /// Something else or something damaged was there.
    Replaced,
}

/// A plugin in its place.
#[derive(Clone, Debug, Serialize)]
pub struct Installed {
    /// The library.
    pub path: PathBuf,
    /// What was done.
    pub outcome: Outcome,
    /// How it was checked.
    pub trust: Trust,
    /// The record beside the library.
    pub record: PluginRecord,
}

/// Reports progress and carries the cancellation flag.
struct Watch<'a> {
    cancel: &'a AtomicBool,
    progress: &'a mut dyn FnMut(SetupProgress),
}

impl SetupPlan {
    /// Does what the plan says. When it fails or `cancel` is raised, the destination is as before.
    pub fn run(&self, cancel: &AtomicBool, progress: &mut dyn FnMut(SetupProgress)) -> Result<Installed, Error> {
        let mut watch = Watch { cancel, progress };
        // Before anything is written: what is there may be used from a folder that cannot be written to.
        if let Some(record) = self.present(&mut watch)? {
            return Ok(self.installed(record, Outcome::AlreadyInstalled));
        }
        let dir = self.home.plugin_dir(self.package.name);
        fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        let lock = take_lock(&dir.join(LOCK_FILE), &mut watch)?;
        // Again with the lock held: another setup may have finished meanwhile.
        if let Some(record) = self.present(&mut watch)? {
            return Ok(self.installed(record, Outcome::AlreadyInstalled));
        }
        if lock.is_some() {
            remove_stale(&dir);
        }
        self.require_space(&dir)?;
        let work = tempfile::Builder::new()
            .prefix(WORK_PREFIX)
            .tempdir_in(&dir)
            .map_err(Error::io("create a folder in", &dir))?;
        let stage = work.path().join("stage");
        fs::create_dir(&stage).map_err(Error::io("create", &stage))?;
        let record = match &self.source {
            PackageSource::Wheel(path) => self.stage_wheel(path, &stage, &mut watch)?,
            PackageSource::Index(installer) => self.stage_from_index(installer, work.path(), &stage, &mut watch)?,
        };
        (watch.progress)(SetupProgress::Finishing);
        write_record(&record, &stage)?;
        make_durable(&stage)?;
        if watch.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let outcome = swap_in(&stage, self.destination(), work.path())?;
        sync_dir(&dir)?;
        Ok(self.installed(record, outcome))
    }

    fn installed(&self, record: PluginRecord, outcome: Outcome) -> Installed {
        Installed { path: self.destination().join(&record.file), outcome, trust: self.trust(), record }
    }

    /// The record of what lies at the destination, if that is what this plan would put there.
    fn present(&self, watch: &mut Watch<'_>) -> Result<Option<PluginRecord>, Error> {
        let Some(record) = read_record(self.destination()) else { return Ok(None) };
        let same_package = record.name == self.package.name
            && record.package_version == self.package_version
            && record.file == self.package.file;
        let trusted = match (&self.given_sha256, self.pin) {
            (Some(given), _) => record.wheel_sha256.as_ref() == Some(given),
            (None, Some(pin)) => record.sha256 == pin.library_sha256,
            (None, None) => true,
        };
        let path = self.destination().join(&record.file);
        let same_size = path.metadata().is_ok_and(|m| m.is_file() && m.len() == record.file_bytes);
        if !(same_package && trusted && same_size) {
            return Ok(None);
        }
        let found =
            hash::of_file(&path, watch.cancel, &mut |bytes| (watch.progress)(SetupProgress::Checking { bytes }))?;
        Ok((found.sha256 == record.sha256).then_some(record))
    }

    fn require_space(&self, dir: &Path) -> Result<(), Error> {
        let (Some(download), Some(installed)) = (self.download_bytes, self.installed_bytes) else { return Ok(()) };
        // A wheel is copied, and so is a library that uv unpacked.
        let copied = match &self.source {
            PackageSource::Wheel(path) => path.metadata().map_or(0, |wheel| wheel.len()),
            PackageSource::Index(installer) if installer.kind == InstallerKind::Uv => installed,
            PackageSource::Index(_) => download,
        };
        let needed_bytes = [download, installed, SPARE_BYTES].into_iter().fold(copied, u64::saturating_add);
        match rustix::fs::statvfs(dir) {
            Ok(disk) => {
                let available_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
                if available_bytes < needed_bytes {
                    return Err(Error::Space { path: dir.to_owned(), needed_bytes, available_bytes });
                }
                Ok(())
            }
            // A disk that does not tell is found full by writing to it.
            Err(_) => Ok(()),
        }
    }

    /// Reads the wheel once, into a file without a name that nobody else can open: what is hashed is what is unpacked.
    fn stage_wheel(&self, path: &Path, stage: &Path, watch: &mut Watch<'_>) -> Result<PluginRecord, Error> {
        let mut copy = tempfile::tempfile_in(stage).map_err(Error::io("create a file in", stage))?;
        let mut wheel = wheel::open_file(path)?.take(wheel::MAX_WHEEL_BYTES);
        let found = hash::copy(&mut wheel, &mut copy, watch.cancel, &mut |bytes| {
            (watch.progress)(SetupProgress::Checking { bytes });
        });
        let found = found.map_err(|error| match error {
            CopyError::Read(source) => Error::io("read", path)(source),
            CopyError::Write(source) => Error::io("write a copy to", stage)(source),
            CopyError::Cancelled => Error::Cancelled,
        })?;
        let expected = self.accepted_sha256();
        if !expected.is_empty() && !expected.contains(&found.sha256) {
            return Err(Error::HashMismatch { path: path.to_owned(), expected, found: found.sha256 });
        }
        let wheel = Wheel::read(path, copy)?;
        let mut wheel = of_package(wheel, path, self.package, Some(&self.package_version))?;
        let expected_bytes = wheel.library_bytes(self.package);
        let library = wheel.unpack_library(self.package, stage, watch.cancel, &mut |bytes| {
            (watch.progress)(SetupProgress::Unpacking { bytes, expected_bytes });
        })?;
        wheel.unpack_licences(stage)?;
        self.record(library, Some(found.sha256), stage)
    }

    fn stage_from_index(
        &self,
        installer: &Installer,
        work: &Path,
        stage: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<PluginRecord, Error> {
        let dest = work.join("download");
        let requirements = work.join("requirements.txt");
        let requirement = format!("{}=={}", self.package.name, self.package_version);
        let hashes = self.accepted_sha256();
        let hash_options: String = hashes.iter().map(|h| format!(" --hash=sha256:{h}")).collect();
        fs::write(&requirements, format!("{requirement}{hash_options}\n"))
            .map_err(Error::io("write", &requirements))?;
        let arguments = installer.arguments(&Request {
            requirement: &requirement,
            requirements: &requirements,
            hashed: !hashes.is_empty(),
            machine: &self.machine,
            dest: &dest,
        });
        (watch.progress)(SetupProgress::Started { command: installer.command_line(&arguments) });
        let expected_bytes = self.download_bytes;
        installer.run(&self.system, &arguments, work, watch.cancel, &mut || {
            // Installers copy or unpack what they downloaded before they end.
            let bytes = tree_bytes(work, TREE_DEPTH).min(expected_bytes.unwrap_or(u64::MAX));
            (watch.progress)(SetupProgress::Downloading { bytes, expected_bytes });
        })?;
        match installer.kind {
            InstallerKind::Uv => self.stage_unpacked(&dest, stage, watch),
            InstallerKind::PythonPip | InstallerKind::Pip => {
                self.stage_wheel(&only_wheel(installer, &arguments, &dest)?, stage, watch)
            }
        }
    }

    /// Takes the library out of a package that uv unpacked; uv checked the wheel's hash where one is known.
    fn stage_unpacked(&self, tree: &Path, stage: &Path, watch: &mut Watch<'_>) -> Result<PluginRecord, Error> {
        let library = tree.join(self.package.member);
        let target = stage.join(self.package.file);
        // Copied, not moved: a link, or a file that somebody else still holds, would not stay what was hashed.
        let mut from = open_inside(tree, &library)?.take(wheel::MAX_LIBRARY_BYTES);
        let mut to = File::create_new(&target).map_err(Error::io("create", &target))?;
        let found = hash::copy(&mut from, &mut to, watch.cancel, &mut |bytes| {
            (watch.progress)(SetupProgress::Checking { bytes });
        });
        let found = found.map_err(|error| match error {
            CopyError::Read(source) => Error::io("read", &library)(source),
            CopyError::Write(source) => Error::io("write", &target)(source),
            CopyError::Cancelled => Error::Cancelled,
        })?;
        let mut licences = Vec::new();
        collect_licences(tree, TREE_DEPTH, &mut licences);
        for path in licences {
            let mut bytes = Vec::new();
            let file = open_inside(tree, &path)?;
            file.take(wheel::MAX_LICENCE_BYTES).read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
            wheel::write_licence(stage, &path.to_string_lossy(), &bytes)?;
        }
        self.record(found, self.given_sha256.clone(), stage)
    }

    fn record(&self, library: hash::Copied, wheel_sha256: Option<String>, stage: &Path) -> Result<PluginRecord, Error> {
        // The wheel a caller vouches for may hold another build than the pinned one.
        if let (None, Some(pin)) = (&self.given_sha256, self.pin)
            && library.sha256 != pin.library_sha256
        {
            return Err(Error::HashMismatch {
                path: stage.join(self.package.file),
                expected: vec![pin.library_sha256.to_owned()],
                found: library.sha256,
            });
        }
        Ok(PluginRecord {
            version: RECORD_VERSION,
            name: self.package.name.to_owned(),
            package_version: self.package_version.clone(),
            file: self.package.file.to_owned(),
            file_bytes: library.bytes,
            sha256: library.sha256,
            wheel_sha256,
        })
    }
}

/// Opens a file of an unpacked package: no link, and not reached through one that leads out of the package.
fn open_inside(tree: &Path, path: &Path) -> Result<File, Error> {
    let folder = path.parent().unwrap_or(tree);
    let is_inside = match (folder.canonicalize(), tree.canonicalize()) {
        (Ok(folder), Ok(tree)) => folder.starts_with(tree),
        _ => false,
    };
    let no_follow = OFlags::NOFOLLOW.bits() as i32;
    let file = File::options().read(true).custom_flags(no_follow).open(path).map_err(Error::io("take", path))?;
    let is_file = file.metadata().map_err(Error::io("look at", path))?.is_file();
    if !(is_inside && is_file) {
        return Err(Error::io("take", path)(io::Error::other("it is not a file of the package")));
    }
    Ok(file)
}

/// Takes the package's lock, waiting for whoever holds it. `None` on disks without locks: there the rename decides.
fn take_lock(path: &Path, watch: &mut Watch<'_>) -> Result<Option<File>, Error> {
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(Error::io("open", path))?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => {
                if watch.cancel.load(Ordering::Relaxed) {
                    return Err(Error::Cancelled);
                }
                (watch.progress)(SetupProgress::Waiting);
                std::thread::sleep(LOCK_POLL);
            }
            Err(Errno::INTR) => {}
            Err(_) => return Ok(None),
        }
    }
}

/// Removes what setups that were killed left behind. Only called with the lock held, so nobody is using it.
fn remove_stale(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Renames the staged folder to the destination; what lies there goes to `work`, which is removed.
fn swap_in(stage: &Path, destination: &Path, work: &Path) -> Result<Outcome, Error> {
    let mut outcome = Outcome::New;
    // Without locks another setup may put its result there in between; it is moved aside like any other.
    for attempt in 0.. {
        match fs::rename(stage, destination) {
            Ok(()) => break,
            Err(e) if attempt < 8 && destination.symlink_metadata().is_ok() => {
                let aside = work.join(format!("old-{attempt}"));
                match fs::rename(destination, &aside) {
                    Ok(()) => outcome = Outcome::Replaced,
                    Err(gone) if gone.kind() == io::ErrorKind::NotFound => {}
                    Err(_) => return Err(Error::io("replace", destination)(e)),
                }
            }
            Err(e) => return Err(Error::io("rename to", destination)(e)),
        }
    }
    Ok(outcome)
}

fn write_record(record: &PluginRecord, dir: &Path) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(record).map_err(|source| Error::Encode { source })?;
    text.push(b'\n');
    let path = dir.join(RECORD_FILE);
    fs::write(&path, text).map_err(Error::io("write", &path))
}

/// Forces a staged folder to the disk: a rename must not become durable before what it names.
fn make_durable(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        if path.is_dir() {
            make_durable(&path)?;
        } else {
            File::open(&path).and_then(|f| f.sync_all()).map_err(Error::io("write", &path))?;
        }
    }
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(Error::io("write", dir))
}

/// Deepest folder looked into below an unpacked package.
const TREE_DEPTH: u32 = 4;

fn tree_bytes(dir: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(m) if m.is_dir() && depth > 0 => tree_bytes(&entry.path(), depth - 1),
            Ok(m) if m.is_file() => m.len(),
            _ => 0,
        })
        .sum()
}

fn collect_licences(dir: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect_licences(&entry.path(), depth - 1, found);
        } else if kind.is_file()
            && found.len() < wheel::MAX_LICENCES
            && wheel::is_licence(&entry.file_name().to_string_lossy())
        {
            found.push(entry.path());
        }
    }
}

fn only_wheel(installer: &Installer, arguments: &[std::ffi::OsString], dir: &Path) -> Result<PathBuf, Error> {
    let mut wheels: Vec<PathBuf> =
        fs::read_dir(dir).map(|entries| entries.filter_map(|e| Some(e.ok()?.path())).collect()).unwrap_or_default();
    wheels.retain(|p| p.extension().is_some_and(|e| e == "whl"));
    let count = wheels.len();
    wheels.pop().filter(|_| count == 1).ok_or_else(|| Error::Installer {
        command: installer.command_line(arguments),
        what: format!("left {count} wheels where one was expected"),
        source: None,
    })
}
