//! Check of the PCI bus: which TPUs are in this machine.

use chips::{Generation, PciId};

use super::{Check, Context};
use crate::System;

const NAME: &str = "TPU chips";
const DEVICES: &str = "/sys/bus/pci/devices";

/// A PCI function of a TPU.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tpu {
    pub(super) generation: Generation,
}

/// A PCI function of the vendor of TPUs.
struct Function {
    /// `0000:00:04.0`.
    address: String,
    device: u16,
    generation: Option<Generation>,
    /// Base class: 1 storage, 2 network, 0x12 accelerator.
    base_class: Option<u32>,
}

/// Every TPU on the bus.
pub(super) fn tpus(system: &System) -> Vec<Tpu> {
    functions(system).into_iter().filter_map(|f| Some(Tpu { generation: f.generation? })).collect()
}

fn functions(system: &System) -> Vec<Function> {
    let hexadecimal = |address: &str, file: &str| {
        let text = system.read_text(format!("{DEVICES}/{address}/{file}")).ok()?;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let id = |address: &str, file: &str| u16::try_from(hexadecimal(address, file)?).ok();
    let mut found = Vec::new();
    for address in system.names_in(DEVICES) {
        if id(&address, "vendor") != Some(PciId::GOOGLE) {
            continue;
        }
        let Some(device) = id(&address, "device") else { continue };
        let subsystem = id(&address, "subsystem_device").unwrap_or_default();
        let generation = Generation::from_pci(PciId::GOOGLE, device, subsystem);
        let base_class = hexadecimal(&address, "class").map(|c| c >> 16);
        found.push(Function { address, device, generation, base_class });
    }
    found
}

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    // Google Compute's disks and network adapters carry the same vendor id.
    let unknown: Vec<String> = functions(context.system)
        .iter()
        .filter(|f| f.generation.is_none() && !matches!(f.base_class, Some(1 | 2)))
        .map(|f| format!("{} (device 0x{:04x})", f.address, f.device))
        .collect();
    let mut parts: Vec<String> = Generation::ALL
        .iter()
        .map(|&g| (g, context.tpus.iter().filter(|t| t.generation == g).count()))
        .filter(|&(_, count)| count > 0)
        .map(|(generation, count)| format!("{count} × {}", generation.display_name()))
        .collect();
    if !unknown.is_empty() {
        parts.push(format!("unknown Google device {}", unknown.join(", ")));
        let remedy = "if this is a TPU, this program is older than it: get a newer one";
        return vec![Check::warn(NAME, parts.join(", "), remedy)];
    }
    if parts.is_empty() {
        return vec![Check::skipped(NAME, "no TPU on the PCI bus; compiling for any slice works without one")];
    }
    vec![Check::ok(NAME, parts.join(", "))]
}
