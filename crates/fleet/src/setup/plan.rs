//! What a setup will do, decided before anything is downloaded.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::installer::{Installer, InstallerChoice};
use super::package::{self, Package, Pin};
use super::wheel::Wheel;
use crate::managed::{self, Home};
use crate::{Error, System};

/// What to set up, and with what.
#[derive(Clone, Debug)]
pub struct SetupOptions {
    /// The machine: environment and `$PATH`.
    pub system: System,
    /// The managed folder; `None` for the one the environment names.
    pub home: Option<Home>,
    /// Package name: one of [`package_names`](super::package_names).
    pub package: String,
    /// Package version; `None` for the pinned one, or for the wheel's own.
    pub version: Option<String>,
    /// A wheel on this machine, instead of the package index.
    pub wheel: Option<PathBuf>,
    /// sha256 the wheel must have, instead of the pinned ones.
    pub sha256: Option<String>,
    /// Which installer to use.
    pub installer: InstallerChoice,
    /// Kind of machine, as in `std::env::consts::ARCH`.
    pub machine: String,
}

impl SetupOptions {
    /// The pinned version of a package, for this kind of machine, through any installer.
    pub fn new(system: System, package: impl Into<String>) -> Self {
        Self {
            system,
            home: None,
            package: package.into(),
            version: None,
            wheel: None,
            sha256: None,
            installer: InstallerChoice::Any,
            machine: std::env::consts::ARCH.to_owned(),
        }
    }
}

/// Where the package comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageSource {
    /// The package index the installer is configured with.
    Index(Installer),
    /// A file.
    Wheel(PathBuf),
}

/// How what was downloaded is known to be the right thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Its sha256 is in the table of this program.
    Pinned,
    /// Its sha256 was given by the caller.
    Given,
    /// Its sha256 is only written down: this version is not in the table and none was given.
    Recorded,
}

/// What a setup will do.
#[derive(Clone, Debug, Serialize)]
pub struct SetupPlan {
    /// Version of the serialized form.
    version: u32,
    #[serde(skip)]
    pub(super) system: System,
    #[serde(skip)]
    pub(super) home: Home,
    #[serde(skip)]
    pub(super) package: &'static Package,
    #[serde(skip)]
    pub(super) pin: Option<&'static Pin>,
    #[serde(skip)]
    pub(super) given_sha256: Option<String>,
    name: &'static str,
    pub(super) package_version: String,
    pub(super) machine: String,
    pub(super) source: PackageSource,
    trust: Trust,
    destination: PathBuf,
    pub(super) download_bytes: Option<u64>,
    pub(super) installed_bytes: Option<u64>,
    already_installed: bool,
}

impl SetupPlan {
    /// Decides what to do. Reads the machine and the wheel, if one is given; downloads and writes nothing.
    pub fn new(options: &SetupOptions) -> Result<Self, Error> {
        let package = Package::named(&options.package)
            .ok_or_else(|| Error::UnknownPackage { name: options.package.clone(), known: package::package_names() })?;
        if !package.machines.contains(&options.machine.as_str()) {
            return Err(Error::Unsupported { package: package.name, machine: options.machine.clone() });
        }
        if let Some(text) = options.version.as_ref().filter(|v| !package::is_version(v)) {
            return Err(Error::BadVersion { text: text.clone() });
        }
        let given_sha256 = match &options.sha256 {
            Some(text) => Some(package::sha256_from(text).ok_or_else(|| Error::BadHash { text: text.clone() })?),
            None => None,
        };
        let home = options.home.clone().map_or_else(|| Home::of(&options.system), Ok)?;
        let mut wheel_library_bytes = None;
        let (source, package_version) = match &options.wheel {
            Some(path) => {
                let mut wheel = of_package(Wheel::open(path)?, path, package, options.version.as_deref())?;
                wheel_library_bytes = wheel.library_bytes(package);
                (PackageSource::Wheel(path.clone()), wheel.version)
            }
            None => {
                let installer = Installer::find(&options.system, options.installer)?;
                (PackageSource::Index(installer), options.version.clone().unwrap_or(package.default_version.to_owned()))
            }
        };
        let pin = package.pin(&package_version, &options.machine);
        let trust = match (&given_sha256, pin) {
            (Some(_), _) => Trust::Given,
            (None, Some(_)) => Trust::Pinned,
            (None, None) => Trust::Recorded,
        };
        let destination = home.version_dir(package.name, &package_version);
        let download_bytes = match &source {
            PackageSource::Index(_) => pin.map(|p| p.download_bytes),
            PackageSource::Wheel(_) => Some(0),
        };
        Ok(Self {
            version: 1,
            system: options.system.clone(),
            package,
            pin,
            given_sha256,
            name: package.name,
            machine: options.machine.clone(),
            source,
            trust,
            already_installed: looks_installed(&destination),
            destination,
            download_bytes,
            installed_bytes: pin.map(|p| p.library_bytes).or(wheel_library_bytes),
            package_version,
            home,
        })
    }

    /// Package name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Package version.
    pub fn package_version(&self) -> &str {
        &self.package_version
    }

    /// Where the package comes from.
    pub fn source(&self) -> &PackageSource {
        &self.source
    }

    /// How the download will be checked.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// The folder the plugin will lie in.
    pub fn destination(&self) -> &Path {
        &self.destination
    }

    /// Size of the download: zero for a wheel file, `None` where it is not known beforehand.
    pub fn download_bytes(&self) -> Option<u64> {
        self.download_bytes
    }

    /// Size of the library once installed, where it is known.
    pub fn installed_bytes(&self) -> Option<u64> {
        self.installed_bytes
    }

    /// Whether this version seems to be there already. [`SetupPlan::run`] checks its hash before it relies on that.
    pub fn already_installed(&self) -> bool {
        self.already_installed
    }

    /// sha256 values a wheel may have; empty when any is accepted.
    pub(super) fn accepted_sha256(&self) -> Vec<String> {
        match (&self.given_sha256, self.pin) {
            (Some(given), _) => vec![given.clone()],
            (None, Some(pin)) => pin.wheel_sha256.iter().map(|&h| h.to_owned()).collect(),
            (None, None) => Vec::new(),
        }
    }

    /// What will be downloaded, how large it is, where it goes and how it is checked, as lines of text.
    pub fn describe(&self) -> String {
        let size = |bytes: Option<u64>| bytes.map_or("size not known beforehand".to_owned(), megabytes);
        let mut text = format!("{} {} for Linux on {}\n", self.name, self.package_version, self.machine);
        let mut line = |label: &str, value: String| {
            let _ = writeln!(text, "  {label:<10}{value}");
        };
        match &self.source {
            PackageSource::Index(installer) => {
                line("download", format!("{}, with {}", size(self.download_bytes), installer.words()));
            }
            PackageSource::Wheel(path) => line("from", path.display().to_string()),
        }
        line("installed", size(self.installed_bytes));
        line("into", self.destination.display().to_string());
        line(
            "check",
            match self.trust {
                Trust::Pinned => "sha256 known to this program".into(),
                Trust::Given => "sha256 given by you".into(),
                Trust::Recorded => "none: this version's sha256 is not known here and will only be recorded".into(),
            },
        );
        if self.already_installed {
            line("state", "already installed; its hash will be checked".into());
        }
        text
    }
}

/// A wheel that is of the package, and of the version where one is asked for.
pub(super) fn of_package(wheel: Wheel, path: &Path, package: &Package, version: Option<&str>) -> Result<Wheel, Error> {
    if package::normalized(&wheel.name) != package.name {
        return Err(Error::wheel(path, format!("a wheel of {:?}, not of {}", wheel.name, package.name)));
    }
    if !package::is_version(&wheel.version) {
        return Err(Error::wheel(path, format!("its version {:?} is not a version", wheel.version)));
    }
    match version {
        Some(version) if version != wheel.version => {
            Err(Error::wheel(path, format!("version {}, not {version}", wheel.version)))
        }
        _ => Ok(wheel),
    }
}

fn looks_installed(destination: &Path) -> bool {
    managed::read_record(destination).is_some_and(|record| {
        destination.join(&record.file).metadata().is_ok_and(|m| m.is_file() && m.len() == record.file_bytes)
    })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
