//! Where devices are: slices, their extent, and the processes that hold them.

use std::collections::{BTreeMap, BTreeSet};

use chips::Generation;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::device::DeviceInfo;
use crate::error::Error;

/// All devices of all processes, by slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GlobalTopology {
    /// Slices by their number. Devices without one are in slice 0.
    pub slices: Vec<SliceDevices>,
    /// Numbers of the processes that hold devices.
    pub processes: Vec<i32>,
}

/// The devices of one slice: chips that are connected by their own network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SliceDevices {
    /// Number of the slice.
    pub index: i64,
    /// Generation, for TPUs.
    pub generation: Option<Generation>,
    /// Chips along each dimension of the torus, for TPUs.
    pub extent: Option<Vec<i64>>,
    /// Devices, by number.
    pub devices: Vec<DeviceInfo>,
}

impl GlobalTopology {
    /// Sorts devices into slices. Slices that are not complete, or not alike, are an error: a host did not join.
    pub fn of(devices: Vec<DeviceInfo>) -> Result<GlobalTopology, Error> {
        let processes: BTreeSet<i32> = devices.iter().map(|device| device.process_index).collect();
        let mut slices: BTreeMap<i64, Vec<DeviceInfo>> = BTreeMap::new();
        for device in devices {
            slices.entry(device.slice_index.unwrap_or_default()).or_default().push(device);
        }
        let slices = slices.into_iter().map(|(index, devices)| SliceDevices::of(index, devices));
        let slices = slices.collect::<Result<Vec<_>, _>>()?;
        if let Some((first, other)) = slices
            .first()
            .and_then(|first| slices.iter().find(|slice| !slice.is_like(first)).map(|other| (first, other)))
        {
            return Err(Error::Distributed(format!(
                "slice {} has {} devices, slice {} has {}: programs need slices that are alike",
                first.index,
                first.devices.len(),
                other.index,
                other.devices.len()
            )));
        }
        Ok(GlobalTopology { slices, processes: processes.into_iter().collect() })
    }

    /// Devices of all slices.
    pub fn num_devices(&self) -> usize {
        self.slices.iter().map(|slice| slice.devices.len()).sum()
    }

    /// What an executable depends on of the devices: how many of what kind, and a digest of where each one is.
    pub(crate) fn target(&self) -> String {
        let kind = self.devices().next().map_or("none", |device| device.kind.as_str());
        let extent = self.slices.first().and_then(|slice| slice.extent.as_ref());
        let extent = extent.map(|extent| extent.iter().map(i64::to_string).collect::<Vec<_>>().join("x"));
        let mut digest = Sha256::new();
        for device in self.devices() {
            let DeviceInfo { id, kind, coordinates, core_on_chip, slice_index, process_index, .. } = device;
            digest.update(format!("{id} {kind} {coordinates:?} {core_on_chip:?} {slice_index:?} {process_index}\n"));
        }
        let places: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!(
            "{} device(s) of {kind}, {}{} slice(s), {} process(es), places {places}",
            self.num_devices(),
            extent.map_or_else(String::new, |extent| format!("{extent}, ")),
            self.slices.len(),
            self.processes.len()
        )
    }

    /// Every device, slice by slice.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceInfo> {
        self.slices.iter().flat_map(|slice| &slice.devices)
    }
}

impl SliceDevices {
    fn of(index: i64, mut devices: Vec<DeviceInfo>) -> Result<SliceDevices, Error> {
        devices.sort_by_key(|device| device.id);
        if let Some(pair) = devices.windows(2).find(|pair| pair[0].kind != pair[1].kind) {
            let (one, other) = (&pair[0], &pair[1]);
            let message = format!(
                "slice {index} has a {} (device {}) and a {} (device {})",
                one.kind, one.id, other.kind, other.id
            );
            return Err(Error::Distributed(message));
        }
        let extent = extent(index, &devices)?;
        Ok(SliceDevices { index, generation: devices.first().and_then(|device| device.generation), extent, devices })
    }

    fn is_like(&self, other: &SliceDevices) -> bool {
        let kind = |slice: &SliceDevices| slice.devices.first().map(|device| device.kind.clone());
        self.devices.len() == other.devices.len() && self.extent == other.extent && kind(self) == kind(other)
    }
}

/// Chips along each dimension, if every device has a place; places that nobody holds are an error.
fn extent(index: i64, devices: &[DeviceInfo]) -> Result<Option<Vec<i64>>, Error> {
    let places: Option<Vec<&Vec<i64>>> = devices.iter().map(|device| device.coordinates.as_ref()).collect();
    let Some(places) = places.filter(|places| !places.is_empty()) else { return Ok(None) };
    let rank = places[0].len();
    if places.iter().any(|place| place.len() != rank) {
        return Err(Error::Distributed(format!("places in slice {index} have different numbers of dimensions")));
    }
    let along = |dimension: usize| {
        let most = places.iter().map(|place| place[dimension]).max().unwrap_or_default();
        let least = places.iter().map(|place| place[dimension]).min().unwrap_or_default();
        most.saturating_sub(least).saturating_add(1)
    };
    let extent: Vec<i64> = (0..rank).map(along).collect();
    let chips: BTreeSet<&Vec<i64>> = places.iter().copied().collect();
    let cores: BTreeSet<i64> = devices.iter().map(|device| device.core_on_chip.unwrap_or_default()).collect();
    let (expected, present) =
        (extent.iter().fold(cores.len() as i64, |n, size| n.saturating_mul(*size)), devices.len() as i64);
    if expected != present || chips.len() * cores.len() != devices.len() {
        let shape = extent.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
        let message = format!(
            "slice {index} reaches over {shape} chips, {expected} devices, but {present} are there: a host did not join"
        );
        return Err(Error::Distributed(message));
    }
    Ok(Some(extent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::PeakRates;

    fn device(id: i32, place: [i64; 3], slice: i64) -> DeviceInfo {
        DeviceInfo {
            id,
            kind: "TPU v5 lite".into(),
            generation: Some(Generation::V5e),
            coordinates: Some(place.to_vec()),
            core_on_chip: Some(0),
            slice_index: Some(slice),
            process_index: id / 4,
            memory_bytes: None,
            peak: PeakRates::default(),
        }
    }

    fn two_slices() -> Vec<DeviceInfo> {
        let places = |slice: i64| {
            (0..8).map(move |n| device(n + 8 * slice as i32, [i64::from(n % 2), i64::from(n / 2), 0], slice))
        };
        places(0).chain(places(1)).collect()
    }

    #[test]
    fn devices_are_sorted_into_slices() {
        let topology = GlobalTopology::of(two_slices()).unwrap();
        assert_eq!((topology.slices.len(), topology.num_devices(), topology.processes.len()), (2, 16, 4));
        assert_eq!(topology.slices[1].extent, Some(vec![2, 4, 1]));
        assert_eq!(topology.devices().nth(9).map(|device| device.id), Some(9));
    }

    #[test]
    fn every_place_is_another_target() {
        let of = |change: &dyn Fn(&mut Vec<DeviceInfo>)| {
            let mut devices: Vec<DeviceInfo> = two_slices().into_iter().take(8).collect();
            change(&mut devices);
            GlobalTopology::of(devices).unwrap().target()
        };
        let base = of(&|_| {});
        assert_eq!(base, of(&|_| {}));
        assert!(base.starts_with("8 device(s) of TPU v5 lite, 2x4x1, 1 slice(s), 2 process(es), places "), "{base}");
        let each = |devices: &mut Vec<DeviceInfo>, change: fn(&mut DeviceInfo)| devices.iter_mut().for_each(change);
        assert_ne!(base, of(&|devices| each(devices, |d| d.kind = "TPU v6 lite".into())));
        assert_ne!(base, of(&|devices| each(devices, |d| d.process_index = 0)));
        assert_ne!(base, of(&|devices| each(devices, |d| d.coordinates.as_mut().unwrap().swap(0, 1))));
        assert_ne!(base, of(&|devices| devices.truncate(4)));
        // Free memory is not a place.
        assert_eq!(base, of(&|devices| each(devices, |d| d.memory_bytes = Some(1))));
    }

    #[test]
    fn a_host_that_did_not_join_is_noticed() {
        let check = |devices: Vec<DeviceInfo>, expected: &str| {
            let Err(Error::Distributed(message)) = GlobalTopology::of(devices) else { panic!("{expected}") };
            assert!(message.contains(expected), "{message}");
        };
        // A hole in the middle; a host missing at the edge; another kind of chip; coordinates of another rank, or far away.
        let without = |ids: std::ops::Range<i32>| {
            let mut devices = two_slices();
            devices.retain(|device| !ids.contains(&device.id));
            devices
        };
        check(without(10..12), "slice 1 reaches over 2x4x1 chips, 8 devices, but 6 are there");
        check(without(12..16), "slice 0 has 8 devices, slice 1 has 4");
        let mut mixed = two_slices();
        mixed[3].kind = "TPU v4".into();
        check(mixed, "slice 0 has a TPU v5 lite");
        let mut flat = two_slices();
        flat[0].coordinates = Some(vec![0, 0]);
        check(flat, "different numbers of dimensions");
        let mut far = two_slices();
        far[0].coordinates = Some(vec![i64::MIN, i64::MAX, 0]);
        check(far, "but 8 are there");
        assert_eq!(GlobalTopology::of(Vec::new()).unwrap().num_devices(), 0);
    }
}
