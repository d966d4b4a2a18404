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

/// Memory of this machine; of a container, its limit.
pub(crate) fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    [machine, group].into_iter().flatten().min()
}

/// Number of TPU chips on the PCI bus.
pub(crate) fn tpu_chips(root: &Path) -> usize {
    chips_on_bus(root).len()
}

/// The TPU chips on the PCI bus of the machine whose file system begins at `root`, by their addresses.
pub fn chips_on_bus(root: &Path) -> Vec<(String, chips::Generation)> {
    let Ok(devices) = fs::read_dir(root.join("sys/bus/pci/devices")) else { return Vec::new() };
    let chip = |device: fs::DirEntry| {
        let id = |file: &str| {
            let text = fs::read_to_string(device.path().join(file)).ok()?;
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        let ids = (id("vendor"), id("device"), id("subsystem_device"));
        let (Some(vendor), Some(model), subsystem) = ids else { return None };
        let generation = chips::Generation::from_pci(vendor, model, subsystem.unwrap_or_default())?;
        Some((device.file_name().to_string_lossy().into_owned(), generation))
    };
    let mut found: Vec<_> = devices.flatten().filter_map(chip).collect();
    found.sort();
    found
}
