//! Tiers of instruction sets, by which kernels are chosen and which a user may force.

use std::fmt;
use std::str::FromStr;

use super::machine::Machine;
use crate::error::Error;

/// A tier of instruction sets. A device that is held to one uses nothing beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CpuIsa {
    /// No instruction set but what every machine of the architecture has: on x86-64 SSE2.
    Portable,
    /// NEON of AArch64.
    Neon,
    /// AVX2 with FMA and F16C: Haswell, Zen.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and CD: Skylake servers.
    Avx512,
    /// The same with VNNI, dot products of bytes: Cascade Lake.
    Vnni,
    /// AMX tiles, and everything else the CPU has: Sapphire Rapids.
    Amx,
}

impl CpuIsa {
    /// All tiers, a CPU's highest last.
    pub const ALL: [CpuIsa; 6] =
        [CpuIsa::Portable, CpuIsa::Neon, CpuIsa::Avx2, CpuIsa::Avx512, CpuIsa::Vnni, CpuIsa::Amx];

    /// The name by which it is forced.
    pub fn as_str(self) -> &'static str {
        match self {
            CpuIsa::Portable => "portable",
            CpuIsa::Neon => "neon",
            CpuIsa::Avx2 => "avx2",
            CpuIsa::Avx512 => "avx512",
            CpuIsa::Vnni => "vnni",
            CpuIsa::Amx => "amx",
        }
    }

    /// The highest tier of this CPU.
    pub fn detect() -> CpuIsa {
        Machine::detect().tier()
    }

    /// The tiers of this CPU, the highest last.
    pub fn available() -> Vec<CpuIsa> {
        let machine = Machine::detect();
        CpuIsa::ALL.into_iter().filter(|&tier| machine.has(tier)).collect()
    }

    /// The machine with no more than this tier.
    pub(crate) fn machine(self) -> Result<Machine, Error> {
        Machine::detect().limited_to(self).ok_or_else(|| refuse(self.as_str(), "is not of this CPU, which"))
    }
}

impl fmt::Display for CpuIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CpuIsa {
    type Err = Error;

    /// A tier of this CPU by its name.
    fn from_str(name: &str) -> Result<CpuIsa, Error> {
        let tier = CpuIsa::ALL.into_iter().find(|tier| tier.as_str() == name);
        let tier = tier.ok_or_else(|| refuse(name, "is no instruction set tier; this CPU"))?;
        tier.machine().map(|_| tier)
    }
}

fn refuse(name: &str, why: &str) -> Error {
    let names: Vec<&str> = CpuIsa::available().into_iter().map(CpuIsa::as_str).collect();
    Error::Arguments(format!("`{name}` {why} has {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_this_machine() {
        for tier in CpuIsa::available() {
            assert_eq!(tier.as_str().parse(), Ok(tier));
            assert_eq!(tier.machine().map(|machine| machine.tier()), Ok(tier));
        }
        let unknown = "sse9".parse::<CpuIsa>().unwrap_err().to_string();
        assert!(unknown.starts_with("`sse9` is no instruction set tier; this CPU has portable"), "{unknown}");
        let foreign = if cfg!(target_arch = "aarch64") { CpuIsa::Avx2 } else { CpuIsa::Neon };
        let refused = foreign.as_str().parse::<CpuIsa>().unwrap_err().to_string();
        assert!(refused.contains("is not of this CPU, which has portable"), "{refused}");
        assert_eq!(CpuIsa::available().last(), Some(&CpuIsa::detect()));
    }
}
