//! The TPU generations and the identifiers that tell them apart.

use std::fmt;

use serde::Serialize;

/// A TPU generation that libtpu can compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Generation {
    /// TPU v2.
    V2,
    /// TPU v3.
    V3,
    /// TPU v4.
    V4,
    /// TPU v5e, "v5 lite".
    V5e,
    /// TPU v5p.
    V5p,
    /// TPU v6e, Trillium.
    V6e,
    /// TPU7x, Ironwood.
    Tpu7x,
}

/// How a chip of a generation shows on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PciId {
    /// Vendor, always [`PciId::GOOGLE`].
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Subsystem device, where two generations share a device id.
    pub subsystem: Option<u16>,
}

impl PciId {
    /// Google's PCI vendor id.
    pub const GOOGLE: u16 = 0x1ae0;
}

impl Generation {
    /// All generations, oldest first.
    pub const ALL: [Self; 7] = [Self::V2, Self::V3, Self::V4, Self::V5e, Self::V5p, Self::V6e, Self::Tpu7x];

    /// The short name, which is also libtpu's topology name: `v5e`, `tpu7x`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3 => "v3",
            Self::V4 => "v4",
            Self::V5e => "v5e",
            Self::V5p => "v5p",
            Self::V6e => "v6e",
            Self::Tpu7x => "tpu7x",
        }
    }

    /// The name Google's pages use: `TPU v6e (Trillium)`.
    pub const fn display_name(self) -> &'static str {
        match self {
            Self::V2 => "TPU v2",
            Self::V3 => "TPU v3",
            Self::V4 => "TPU v4",
            Self::V5e => "TPU v5e",
            Self::V5p => "TPU v5p",
            Self::V6e => "TPU v6e (Trillium)",
            Self::Tpu7x => "TPU7x (Ironwood)",
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
