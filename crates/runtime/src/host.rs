//! What of this machine matters before a plugin is loaded: TPU chips on its bus, variables that libtpu reads.

use std::fs;
use std::path::Path;

/// A variable that libtpu needs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The value it needs.
    pub value: String,
    /// What happens without it.
    pub why: &'static str,
}

/// TPU chips on the PCI bus.
pub(crate) fn tpu_chips(root: &Path) -> usize {
    let Ok(devices) = fs::read_dir(root.join("sys/bus/pci/devices")) else { return 0 };
    let is_tpu = |device: &fs::DirEntry| {
        let id = |file: &str| {
            let text = fs::read_to_string(device.path().join(file)).ok()?;
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        let ids = (id("vendor"), id("device"), id("subsystem_device"));
        let (Some(vendor), Some(device), subsystem) = ids else { return false };
        chips::Generation::from_pci(vendor, device, subsystem.unwrap_or_default()).is_some()
    };
    devices.flatten().filter(is_tpu).count()
}
