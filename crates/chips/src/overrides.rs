//! Figures a user knows better than the table.

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;
use crate::figure::Figure;
use crate::generation::Generation;
use crate::price::{Price, PriceKind};
use crate::source::OVERRIDE;
use crate::spec::ChipSpec;

/// A figure that can be overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// `memory_gb`: HBM of a chip in GiB. What the runtime keeps for itself stays as it is, so usable memory follows.
    Memory,
    /// `usable_memory_gb`: HBM one device may use, in GiB.
    UsableMemory,
    /// `memory_gbps`: HBM bandwidth of a chip, 10^9 bytes per second.
    MemoryBandwidth,
    /// `bf16_tflops` of a chip.
    Bf16Rate,
    /// `int8_tops` of a chip.
    Int8Rate,
    /// `fp8_tflops` of a chip.
    Fp8Rate,
    /// `clock_ghz`.
    Clock,
    /// `vmem_mb`: vector memory of a core in MiB.
    Vmem,
    /// `ici_gbps`: one direction of one link, 10^9 bytes per second.
    IciBandwidth,
    /// `dcn_gbps`: data-centre network share of a chip, 10^9 bytes per second.
    DcnBandwidth,
    /// `pcie_gbps`: host link of a chip, 10^9 bytes per second.
    PcieBandwidth,
    /// `price`: on-demand US dollars per chip-hour.
    Price,
    /// `spot_price`: spot US dollars per chip-hour.
    SpotPrice,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Self; 13] = [
        Self::Memory,
        Self::UsableMemory,
        Self::MemoryBandwidth,
        Self::Bf16Rate,
        Self::Int8Rate,
        Self::Fp8Rate,
        Self::Clock,
        Self::Vmem,
        Self::IciBandwidth,
        Self::DcnBandwidth,
        Self::PcieBandwidth,
        Self::Price,
        Self::SpotPrice,
    ];

    /// The second half of a key: `memory_gb` in `v6e_memory_gb`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory_gb",
            Self::UsableMemory => "usable_memory_gb",
            Self::MemoryBandwidth => "memory_gbps",
            Self::Bf16Rate => "bf16_tflops",
            Self::Int8Rate => "int8_tops",
            Self::Fp8Rate => "fp8_tflops",
            Self::Clock => "clock_ghz",
            Self::Vmem => "vmem_mb",
            Self::IciBandwidth => "ici_gbps",
            Self::DcnBandwidth => "dcn_gbps",
            Self::PcieBandwidth => "pcie_gbps",
            Self::Price => "price",
            Self::SpotPrice => "spot_price",
        }
    }
}

/// Values that replace figures of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    entries: Vec<(Generation, Quantity, f64)>,
}

/// Largest value taken: beyond any chip, and its bytes still fit 64 bits.
const LARGEST: f64 = 1e9;

impl Overrides {
    /// No overrides.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads texts of the form `v7_memory_gb=128`.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let mut overrides = Self::new();
        for text in texts {
            let text = text.as_ref();
            let (key, value) =
                text.split_once('=').ok_or_else(|| Error::MalformedOverride { text: text.to_owned() })?;
            overrides.set(key, value)?;
        }
        Ok(overrides)
    }

    /// Sets one figure; a later value replaces an earlier one.
    ///
    /// A key is a generation (`v2` … `v6e`, `v7` or `tpu7x`), an underscore and a [`Quantity::key`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let key = key.trim();
        let value = value.trim();
        let (generation, quantity) = read_key(&key.to_lowercase())
            .ok_or_else(|| Error::UnknownOverride { key: key.to_owned(), valid: Self::valid_keys() })?;
        let free = matches!(quantity, Quantity::Price | Quantity::SpotPrice);
        let number =
            value.parse::<f64>().ok().filter(|v| v.is_finite() && *v <= LARGEST && (*v > 0.0 || free && *v == 0.0));
        let expected = if free { "a number from 0 to 1e9" } else { "a number above 0 and up to 1e9" };
        let number =
            number.ok_or_else(|| Error::OverrideValue { key: key.to_owned(), value: value.to_owned(), expected })?;
        self.entries.retain(|(g, q, _)| (*g, *q) != (generation, quantity));
        self.entries.push((generation, quantity, number));
        Ok(())
    }

    /// Every key that [`Self::set`] accepts, in the spelling with `tpu7x`.
    pub fn valid_keys() -> Vec<String> {
        let keys = |g: Generation| Quantity::ALL.map(|q| format!("{g}_{}", q.key()));
        Generation::ALL.into_iter().flat_map(keys).collect()
    }

    /// Whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value set for a figure.
    pub fn get(&self, generation: Generation, quantity: Quantity) -> Option<f64> {
        self.entries.iter().find(|(g, q, _)| (*g, *q) == (generation, quantity)).map(|(_, _, v)| *v)
    }
}

/// Prints as the texts [`Overrides::parse`] reads, separated by commas.
impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (generation, quantity, value)) in self.entries.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{generation}_{}={value}", quantity.key())?;
        }
        Ok(())
    }
}

fn read_key(key: &str) -> Option<(Generation, Quantity)> {
    let (name, quantity) = key.split_once('_')?;
    let generation = crate::parse::generation(name)?;
    let quantity = Quantity::ALL.into_iter().find(|q| q.key() == quantity)?;
    Some((generation, quantity))
}

impl ChipSpec {
    /// These figures with the overrides for this generation in their place.
    pub fn with(&self, overrides: &Overrides) -> Self {
        let mut spec = self.clone();
        for &(_, quantity, value) in overrides.entries.iter().filter(|(g, _, _)| *g == self.generation) {
            spec.replace(quantity, value);
        }
        // Set last, so that it holds whatever the order in which total memory was given.
        if let Some(gib) = overrides.get(self.generation, Quantity::UsableMemory) {
            spec.replace(Quantity::UsableMemory, gib);
        }
        spec
    }

    fn replace(&mut self, quantity: Quantity, value: f64) {
        let bytes = |unit_shift: u32| (value * (1u64 << unit_shift) as f64) as u64;
        let given = Figure::new(value, &[OVERRIDE]);
        match quantity {
            Quantity::Memory => {
                let devices = u64::from(self.cores.devices_per_chip.value);
                let memory = &mut self.memory;
                let kept = (memory.hbm_bytes_per_chip.value / devices)
                    .saturating_sub(memory.usable_hbm_bytes_per_device.value);
                memory.hbm_bytes_per_chip = Figure::new(bytes(30), &[OVERRIDE]);
                memory.usable_hbm_bytes_per_device = Figure::noted(
                    (bytes(30) / devices).saturating_sub(kept),
                    &[OVERRIDE],
                    "follows the overridden memory of the chip",
                );
            }
            Quantity::UsableMemory => self.memory.usable_hbm_bytes_per_device = Figure::new(bytes(30), &[OVERRIDE]),
            Quantity::MemoryBandwidth => self.memory.hbm_gb_per_s = given,
            Quantity::Bf16Rate => self.rates.bf16_tflops = given,
            Quantity::Int8Rate => self.rates.int8_tops = Figure::new(Some(value), &[OVERRIDE]),
            Quantity::Fp8Rate => self.rates.fp8_tflops = Figure::new(Some(value), &[OVERRIDE]),
            Quantity::Clock => self.cores.clock_ghz = given,
            Quantity::Vmem => self.memory.vmem_bytes_per_core = Figure::new(bytes(20), &[OVERRIDE]),
            Quantity::IciBandwidth => self.network.ici_gb_per_s_per_link_one_way = Some(given),
            Quantity::DcnBandwidth => self.network.dcn_gb_per_s_per_chip = Some(given),
            Quantity::PcieBandwidth => self.host.pcie_gb_per_s_per_chip = Some(given),
            Quantity::Price => self.replace_price(PriceKind::OnDemand, value),
            Quantity::SpotPrice => self.replace_price(PriceKind::Spot, value),
        }
    }

    fn replace_price(&mut self, kind: PriceKind, usd_per_chip_hour: f64) {
        let mut prices = self.prices.to_vec();
        prices.retain(|p| p.kind != kind);
        prices.push(Price { region: "any", kind, usd_per_chip_hour, date: "", source: OVERRIDE });
        self.prices = Cow::Owned(prices);
    }
}
