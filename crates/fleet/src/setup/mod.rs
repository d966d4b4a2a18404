//! Setup: a PJRT plugin from the package index, or from a wheel file, into the managed folder.
//!
//! [`SetupPlan::new`] decides everything that can be decided without the network, [`SetupPlan::describe`] says it,
//! [`SetupPlan::run`] does it. What lies at the destination is either whole and checked or not there: everything is made in a folder
//! beside it and renamed. Several setups may run at once; the later ones wait and find the work done.

mod hash;
mod installer;
mod package;
mod place;
mod plan;
mod wheel;

pub use installer::{Installer, InstallerChoice, InstallerKind};
pub(crate) use package::is_version;
pub use package::package_names;
pub use place::{Installed, Outcome, SetupProgress};
pub use plan::{PackageSource, SetupOptions, SetupPlan, Trust};
