//! A slice: a block of chips with fast links, or several equal ones joined by the data-centre network.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::{Error, ShapeFault};
use crate::generation::Generation;
use crate::shape;
use crate::spec::{ChipSpec, CountUnit, HostCount};

/// Whether the torus of a slice is twisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Twist {
    /// Plain torus or mesh.
    Untwisted,
    /// Twisted torus.
    Twisted,
}

/// A slice that exists: constructors refuse shapes that cannot be had.
///
/// `chips`, `cores`, `devices` and `hosts` count all slices of a multi-slice job; `*_per_slice` count one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slice {
    generation: Generation,
    shape: [u32; 3],
    twist: Twist,
    slices: u32,
}

/// Arguments of libtpu's topology call. All must be passed: libtpu's own defaults are an open mesh and, on v4, two
/// devices per chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopologyRequest {
    /// `v5e:4x4`, `v5p:4x4x8_twisted`.
    pub name: String,
    /// `default` or `megacore`.
    pub chip_config_name: &'static str,
    /// Chips of one process along x, y, z.
    pub chips_per_host_bounds: [i64; 3],
    /// 1 for each dimension that closes into a ring.
    pub wrap: [i64; 3],
    /// Slices in the job.
    pub num_slices: i64,
}

/// A number of machines of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MachineCount {
    /// `ct5lp-hightpu-4t`.
    pub machine_type: &'static str,
    /// Machines for all slices.
    pub count: u32,
}

impl Slice {
    /// Most slices in one job.
    pub const MAX_SLICES: u32 = 1024;

    /// First device id of the second slice minus that of the first, in multi-slice jobs.
    pub const DEVICE_ID_STRIDE: u64 = 100_000;

    /// The slice of this shape; two-dimensional generations have 1 as third dimension.
    pub fn new(generation: Generation, shape: [u32; 3], twist: Twist) -> Result<Self, Error> {
        let network = &generation.spec().network;
        if let Some(fault) = network.shapes.value.fault(shape) {
            return Err(no_such_shape(generation, shape, shape_text(generation, shape), fault));
        }
        if twist == Twist::Twisted && !network.twist.value.allows(shape) {
            return Err(no_such_shape(generation, shape, shape_text(generation, shape), ShapeFault::NotTwistable));
        }
        Ok(Self { generation, shape, twist, slices: 1 })
    }

    /// The default slice with this many chips.
    pub fn with_chips(generation: Generation, chips: u32) -> Option<Self> {
        let shape = generation.spec().network.shapes.value.default_for(chips)?;
        Some(Self { generation, shape, twist: Twist::Untwisted, slices: 1 })
    }

    /// The same slice this many times, as one job over the data-centre network.
    pub fn times(self, slices: u32) -> Result<Self, Error> {
        if slices == 0 || slices > Self::MAX_SLICES {
            return Err(Error::SliceCount { count: slices.to_string(), limit: Self::MAX_SLICES });
        }
        Ok(Self { slices, ..self })
    }

    /// Every single slice of a generation, twisted ones after the plain one of the same shape.
    pub fn all(generation: Generation) -> Vec<Self> {
        let network = &generation.spec().network;
        let plain = |shape| Self { generation, shape, twist: Twist::Untwisted, slices: 1 };
        let mut all = Vec::new();
        for shape in network.shapes.value.all() {
            all.push(plain(shape));
            if network.twist.value.allows(shape) {
                all.push(Self { twist: Twist::Twisted, ..plain(shape) });
            }
        }
        all
    }

    /// The slice each size of a generation stands for, by number of chips.
    pub fn defaults(generation: Generation) -> Vec<Self> {
        let mut all = Self::all(generation);
        all.retain(|s| s.twist == Twist::Untwisted);
        all.dedup_by_key(|s| s.chips());
        all
    }

    /// Generation of the chips.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Figures of the generation, without overrides.
    pub fn spec(&self) -> &'static ChipSpec {
        self.generation.spec()
    }

    /// Chips along x, y, z.
    pub fn shape(&self) -> [u32; 3] {
        self.shape
    }

    /// Plain or twisted torus.
    pub fn twist(&self) -> Twist {
        self.twist
    }

    /// Slices in the job.
    pub fn num_slices(&self) -> u32 {
        self.slices
    }

    /// Which dimensions close into rings.
    pub fn wrap(&self) -> [bool; 3] {
        self.spec().network.wrap.value.wrap(self.shape)
    }

    /// Chips in one slice.
    pub fn chips_per_slice(&self) -> u32 {
        shape::chips(self.shape)
    }

    /// PJRT devices in one slice.
    pub fn devices_per_slice(&self) -> u32 {
        self.chips_per_slice() * self.spec().cores.devices_per_chip.value
    }

    /// Chips in all slices.
    pub fn chips(&self) -> u32 {
        self.chips_per_slice() * self.slices
    }

    /// TensorCores in all slices.
    pub fn cores(&self) -> u32 {
        self.chips() * self.spec().cores.tensor_cores_per_chip.value
    }

    /// PJRT devices in all slices.
    pub fn devices(&self) -> u32 {
        self.devices_per_slice() * self.slices
    }

    /// Chips of one process along x, y, z, as libtpu is told.
    pub fn chips_per_host_bounds(&self) -> [u32; 3] {
        let [x, y, _] = self.shape;
        [x.min(2), y.min(2), 1]
    }

    /// Processes libtpu counts in one slice: chips over [`Self::chips_per_host_bounds`].
    pub fn processes_per_slice(&self) -> u32 {
        self.chips_per_slice() / shape::chips(self.chips_per_host_bounds())
    }

    /// Machines in all slices: of the usual machine type, or one per libtpu process where none is known.
    ///
    /// Eight chips of v5e or v6e are one machine although libtpu's topology counts two processes.
    pub fn hosts(&self) -> u32 {
        self.machines().first().map_or(self.processes_per_slice() * self.slices, |m| m.count)
    }

    /// Machines that form this, the usual choice first; empty where no machine type is known.
    pub fn machines(&self) -> Vec<MachineCount> {
        let chips = self.chips_per_slice();
        let types = self.spec().host.machine_types.value.iter();
        types
            .filter(|m| {
                m.chips == chips || (m.hosts == HostCount::Any && chips > m.chips && chips.is_multiple_of(m.chips))
            })
            .map(|m| MachineCount { machine_type: m.name, count: chips / m.chips * self.slices })
            .collect()
    }

    /// The topology as Kubernetes Engine and the TPU API write it: `4x4`, `2x2x1`.
    pub fn topology(&self) -> String {
        shape::text(self.shape, self.spec().network.torus_dimensions.value)
    }

    /// The accelerator type of one slice, `v5litepod-16`. It says nothing of the shape: see [`Self::is_default_shape`].
    pub fn accelerator_type(&self) -> String {
        let names = &self.spec().names;
        let count = match names.count_unit.value {
            CountUnit::Chips => self.chips_per_slice(),
            CountUnit::Cores => self.chips_per_slice() * self.spec().cores.tensor_cores_per_chip.value,
        };
        format!("{}-{count}", names.accelerator_prefix)
    }

    /// Whether the accelerator type alone stands for this slice.
    pub fn is_default_shape(&self) -> bool {
        self.twist == Twist::Untwisted
            && self.spec().network.shapes.value.default_for(self.chips_per_slice()) == Some(self.shape)
    }

    /// Arguments of libtpu's topology call.
    pub fn topology_request(&self) -> TopologyRequest {
        TopologyRequest {
            name: self.topology_name(),
            chip_config_name: self.spec().names.chip_config_name.value,
            chips_per_host_bounds: self.chips_per_host_bounds().map(i64::from),
            wrap: self.wrap().map(i64::from),
            num_slices: i64::from(self.slices),
        }
    }

    /// What the compiler lets one device use, without overrides; libtpu's `device_memory_bytes_limit`.
    pub fn usable_hbm_bytes_per_device(&self) -> u64 {
        self.spec().usable_hbm_bytes_per_device(self.devices_per_slice())
    }

    /// The ids of all devices in libtpu's order.
    pub fn device_ids(&self) -> DeviceIds {
        DeviceIds { per_slice: self.devices_per_slice().into(), slices: self.slices, next: 0 }
    }

    fn topology_name(&self) -> String {
        let suffix = if self.twist == Twist::Twisted { "_twisted" } else { "" };
        format!("{}:{}{suffix}", self.generation, self.topology())
    }
}

/// Device ids of a slice: 0, 1, … in one slice; (slice + 1) x 100000 + 0, 1, … in several.
#[derive(Clone, Debug)]
pub struct DeviceIds {
    per_slice: u64,
    slices: u32,
    next: u64,
}

impl Iterator for DeviceIds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (slice, local) = (self.next / self.per_slice, self.next % self.per_slice);
        if slice >= self.slices.into() {
            return None;
        }
        self.next += 1;
        Some(if self.slices == 1 { local } else { (slice + 1) * Slice::DEVICE_ID_STRIDE + local })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.per_slice * u64::from(self.slices) - self.next).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for DeviceIds {}

/// The shortest name that parses back to the same slice: `v5litepod-16`, `v5p:4x4x16`, `2xv5litepod-256`.
impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.slices > 1 {
            write!(f, "{}x", self.slices)?;
        }
        f.write_str(&if self.is_default_shape() { self.accelerator_type() } else { self.topology_name() })
    }
}

/// A slice serializes as everything derived from it, so that a report needs no second table.
#[derive(Serialize)]
struct Record {
    name: String,
    generation: Generation,
    topology: String,
    shape: [u32; 3],
    wrap: [bool; 3],
    twisted: bool,
    num_slices: u32,
    chips: u32,
    cores: u32,
    devices: u32,
    hosts: u32,
    chips_per_host_bounds: [u32; 3],
    accelerator_type: String,
    gke_accelerator: Option<&'static str>,
    machines: Vec<MachineCount>,
    libtpu: TopologyRequest,
    usable_hbm_bytes_per_device: u64,
}

impl Serialize for Slice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Record {
            name: self.to_string(),
            generation: self.generation,
            topology: self.topology(),
            shape: self.shape,
            wrap: self.wrap(),
            twisted: self.twist == Twist::Twisted,
            num_slices: self.slices,
            chips: self.chips(),
            cores: self.cores(),
            devices: self.devices(),
            hosts: self.hosts(),
            chips_per_host_bounds: self.chips_per_host_bounds(),
            accelerator_type: self.accelerator_type(),
            gke_accelerator: self.spec().names.gke_accelerator.map(|label| label.value),
            machines: self.machines(),
            libtpu: self.topology_request(),
            usable_hbm_bytes_per_device: self.usable_hbm_bytes_per_device(),
        }
        .serialize(serializer)
    }
}

fn shape_text(generation: Generation, given: [u32; 3]) -> String {
    let dimensions = if given[2] == 1 { generation.spec().network.torus_dimensions.value } else { 3 };
    shape::text(given, dimensions)
}

/// The refusal of a shape, with the slices that come closest.
pub(crate) fn no_such_shape(generation: Generation, given: [u32; 3], as_written: String, fault: ShapeFault) -> Error {
    let chips = shape::chips(given);
    let same_chips = Slice::all(generation)
        .into_iter()
        .filter(|s| s.twist == Twist::Untwisted && s.chips() == chips)
        .map(|s| s.topology_name())
        .collect();
    let defaults = Slice::defaults(generation);
    let smaller = defaults.iter().rfind(|s| s.chips() < chips);
    let larger = defaults.iter().find(|s| s.chips() > chips);
    Error::NoSuchShape {
        generation,
        shape: as_written,
        fault,
        same_chips,
        smaller: smaller.map(Slice::topology_name),
        larger: larger.map(Slice::topology_name),
    }
}
