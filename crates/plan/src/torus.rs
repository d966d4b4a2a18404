//! The network between chips: which links a group of devices has, and how long an exchange among them takes.

use std::collections::BTreeSet;

use chips::Slice;
use xla::CollectiveKind;

/// Chips along each dimension, and what a link carries.
#[derive(Clone, Debug, PartialEq)]
pub struct IciTorus {
    /// Chips along each dimension.
    pub shape: [u64; 3],
    /// Which dimensions close into rings.
    pub wrap: [bool; 3],
    /// Devices in a chip.
    pub devices_per_chip: u64,
    /// Devices in a slice.
    pub devices_per_slice: u64,
    /// One direction of one link.
    pub link_bytes_per_s: f64,
}

/// Where a group of devices lies, as far as its links matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Devices of the group.
    pub size: u64,
    /// Dimensions of the torus along which the group extends.
    pub spans: Vec<TorusSpan>,
    /// Members in one chip.
    pub per_chip: u64,
    /// Slices the group reaches over.
    pub slices: u64,
}

/// How a group lies along one dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TorusSpan {
    /// The dimension.
    pub dimension: usize,
    /// Places of the group along the dimension.
    pub places: u64,
    /// Links that bring bytes to a member along this dimension, at once; below 1 where groups share links.
    pub links: f64,
}

/// A direction along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// To higher places.
    Up,
    /// To lower places.
    Down,
}

/// What the two dies of a TPU7x chip exchange, in links between chips: six, as published. All-reduces of 10.5 MB over the two halves
/// of a chip take 25.5 us into VMEM and 28.1 us into HBM in a published trace; this gives 24.5 and 27.8.
const DIE_TO_DIE_LINKS: f64 = 6.0;

/// One direction of one link where no figure is published.
const DEFAULT_LINK_GB_PER_S: f64 = 45.0;

impl IciTorus {
    /// The network of a slice.
    pub fn of(slice: &Slice) -> IciTorus {
        let network = &slice.spec().network;
        IciTorus {
            shape: slice.shape().map(u64::from),
            wrap: slice.wrap(),
            devices_per_chip: u64::from(slice.spec().cores.devices_per_chip.value),
            devices_per_slice: u64::from(slice.devices_per_slice()),
            link_bytes_per_s: network.ici_gb_per_s_per_link_one_way.map_or(DEFAULT_LINK_GB_PER_S, |f| f.value) * 1e9,
        }
    }

    /// Place of a device: devices are numbered by core, then x, y, z; slices one after the other.
    fn place(&self, device: u64) -> ([u64; 3], u64) {
        let slice = device / self.devices_per_slice.max(1);
        let chip = device % self.devices_per_slice.max(1) / self.devices_per_chip.max(1);
        let [x, y, _] = self.shape;
        ([chip % x, chip / x % y, chip / (x * y)], slice)
    }

    /// Which way a transfer from one device to another leaves: the dimension, and whether towards higher places. The shorter way
    /// around a ring is taken; `None` within a chip or between slices.
    pub fn way(&self, from: u64, to: u64) -> Option<(usize, Way)> {
        let ((from, from_slice), (to, to_slice)) = (self.place(from), self.place(to));
        if from_slice != to_slice {
            return None;
        }
        let dimension = (0..3).find(|&dimension| from[dimension] != to[dimension])?;
        let (whole, a, b) = (self.shape[dimension], from[dimension], to[dimension]);
        let up = (b + whole - a) % whole;
        let is_up = if self.wrap[dimension] { 2 * up <= whole } else { b > a };
        Some((dimension, if is_up { Way::Up } else { Way::Down }))
    }

    /// Where a group lies. `devices` are numbers in the order of the slice.
    pub fn group(&self, devices: &[u64]) -> Group {
        let places: Vec<([u64; 3], u64)> = devices.iter().map(|&device| self.place(device)).collect();
        let along = |dimension: usize| places.iter().map(|(place, _)| place[dimension]).collect::<BTreeSet<u64>>();
        let slices: BTreeSet<u64> = places.iter().map(|(_, slice)| *slice).collect();
        let chips: BTreeSet<&([u64; 3], u64)> = places.iter().collect();
        let spans = (0..3).filter_map(|dimension| {
            let values = along(dimension);
            (values.len() > 1).then(|| self.span(dimension, &values))
        });
        Group {
            size: devices.len() as u64,
            spans: spans.collect(),
            per_chip: devices.len() as u64 / (chips.len() as u64).max(1),
            slices: slices.len() as u64,
        }
    }

    fn span(&self, dimension: usize, values: &BTreeSet<u64>) -> TorusSpan {
        let (places, whole) = (values.len() as u64, self.shape[dimension]);
        let reach = values.last().copied().unwrap_or(0) - values.first().copied().unwrap_or(0) + 1;
        let is_ring = self.wrap[dimension] && whole > 2;
        let links = if places == whole {
            if is_ring { 2.0 } else { 1.0 }
        } else if reach == places {
            // A block of neighbours: a line, since the links around lead outside.
            1.0
        } else {
            // Every so many places: each link between is used by as many groups as there are places from one member to the next.
            let shared = ((reach - 1) as f64 / (places - 1) as f64).max(1.0);
            (if is_ring { 2.0 } else { 1.0 }) / shared
        };
        TorusSpan { dimension, places, links }
    }
}

impl Group {
    /// Links of one member.
    fn links(&self) -> f64 {
        self.spans.iter().map(|span| span.links).sum()
    }

    /// Whether all members are parts of one chip.
    pub fn is_within_chip(&self) -> bool {
        self.spans.is_empty() && self.slices <= 1 && self.size > 1
    }

    /// Hops between the farthest members, along rings half the way.
    pub fn hops(&self) -> u64 {
        self.spans.iter().map(|span| if span.links >= 2.0 { span.places / 2 } else { span.places - 1 }).sum()
    }

    /// Seconds that the links of a member are busy, for a value of `payload` bytes (the larger of what goes in and comes out).
    pub fn transfer_s(&self, kind: CollectiveKind, payload: u64, link_bytes_per_s: f64) -> f64 {
        let n = self.size.max(1) as f64;
        let payload = payload as f64;
        if self.spans.is_empty() {
            // Within a chip: dies are joined by links of their own.
            let passes = if kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
            let rate = DIE_TO_DIE_LINKS * link_bytes_per_s;
            return if n > 1.0 { passes * payload * (n - 1.0) / n / rate } else { 0.0 };
        }
        // Members in one chip share its links, and need the same bytes.
        let chips = n / self.per_chip.max(1) as f64;
        let others = payload * (chips - 1.0) / chips.max(1.0);
        let rate = self.links() * link_bytes_per_s;
        match kind {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => others / rate,
            CollectiveKind::AllReduce => 2.0 * others / rate,
            CollectiveKind::AllToAll => {
                // What crosses the middle of the longest dimension: a quarter of everything, both ways.
                let slowest = self.spans.iter().map(|span| span.places as f64 / (4.0 * span.links));
                let per_chip = payload * self.per_chip.max(1) as f64;
                slowest.fold(0.0, f64::max) * per_chip / link_bytes_per_s
            }
            _ => payload / link_bytes_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torus(name: &str) -> IciTorus {
        IciTorus::of(&name.parse().unwrap())
    }

    #[test]
    fn places_follow_the_order_of_devices() {
        let torus = torus("tpu7x-128");
        assert_eq!((torus.shape, torus.devices_per_slice), ([4, 4, 4], 128));
        assert_eq!(torus.place(0), ([0, 0, 0], 0));
        assert_eq!(torus.place(127), ([3, 3, 3], 0));
        assert_eq!(torus.place(8), ([0, 1, 0], 0));
        assert_eq!(torus.place(128), ([0, 0, 0], 1));
    }

    #[test]
    fn groups_have_the_links_they_lie_on() {
        let check = |slice: &str, devices: Vec<u64>, links: f64| {
            let group = torus(slice).group(&devices);
            assert!((group.links() - links).abs() < 1e-9, "{slice} {devices:?}: {group:?}");
        };
        // Whole slices: rings where they close, lines where they do not.
        check("v6e-256", (0..256).collect(), 4.0);
        check("v6e-64", (0..64).collect(), 2.0);
        check("v5p-128", (0..64).collect(), 6.0);
        check("v6e-4", (0..4).collect(), 2.0);
        // A row of a closed dimension, half of it, and every other place of it.
        check("v6e-256", (0..16).collect(), 2.0);
        check("v6e-256", (0..8).collect(), 1.0);
        check("v6e-256", (0..16).step_by(2).collect(), 1.0);
        // Pairs two hops apart on a line: the link in the middle carries two pairs.
        check("v6e-8", vec![0, 4], 0.5);
        // One chip.
        check("tpu7x-128", vec![0, 1], 0.0);
    }

    #[test]
    fn exchanges_take_what_their_links_allow() {
        let four = torus("tpu7x-8").group(&[0, 2, 4, 6]);
        // Three quarters of the value over two links.
        let seconds = four.transfer_s(CollectiveKind::AllGather, 4_000_000_000, 90e9);
        assert!((seconds - 3e9 / 180e9).abs() < 1e-6, "{seconds}");
        let ring = torus("v6e-256").group(&(0..16).collect::<Vec<_>>());
        let gather = ring.transfer_s(CollectiveKind::AllGather, 1 << 30, 90e9);
        assert_eq!(ring.transfer_s(CollectiveKind::AllReduce, 1 << 30, 90e9), 2.0 * gather);
        assert_eq!(ring.hops(), 8);
    }
}
