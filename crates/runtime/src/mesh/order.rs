//! The order of devices in a mesh: neighbours along a mesh axis are neighbours in the torus where that is possible.

use std::collections::BTreeMap;

use trace::{Mesh, Torus};

use crate::device::DeviceInfo;

/// Places of the devices in their list, in the order of the mesh. There are as many as the mesh has.
pub(super) fn of(mesh: &Mesh, devices: &[DeviceInfo]) -> Vec<usize> {
    let mut slices: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (n, device) in devices.iter().enumerate() {
        slices.entry(device.slice_index.unwrap_or_default()).or_default().push(n);
    }
    let in_order = |mut mine: Vec<usize>| {
        mine.sort_by_key(|&n| devices[n].id);
        within_slice(mesh, devices, &mine).unwrap_or(mine)
    };
    slices.into_values().flat_map(in_order).collect()
}

/// How the devices of one slice are linked; `None` where they have no places.
pub(super) fn torus(devices: &[DeviceInfo]) -> Option<Torus> {
    let first = devices.first()?.slice_index;
    let mine = devices.iter().filter(|device| device.slice_index == first);
    let places: Vec<Vec<usize>> = mine.map(place).collect::<Option<_>>()?;
    let extent = extent(&places)?;
    let shape = |d: usize| u32::try_from(extent.get(d).copied().unwrap_or(1)).ok();
    let wraps = devices[0].generation?.spec().network.wrap.value.wrap([shape(0)?, shape(1)?, shape(2)?]);
    Some(Torus { extent, wraps: wraps.to_vec() })
}

/// Where a device is in its slice: on which chip, and the core of it.
fn place(device: &DeviceInfo) -> Option<Vec<usize>> {
    let chip = device.coordinates.as_ref()?;
    // Cores of a chip are nearer than any neighbour.
    chip.iter().chain([&device.core_on_chip.unwrap_or_default()]).map(|&at| usize::try_from(at).ok()).collect()
}

fn extent(places: &[Vec<usize>]) -> Option<Vec<usize>> {
    let along = |d: usize| places.iter().filter_map(|place| Some(place.get(d)? + 1)).max().unwrap_or(1);
    Some((0..places.first()?.len()).map(along).collect())
}

/// Devices of a slice along its torus; `None` where they have no places or the axes do not fit its dimensions.
fn within_slice(mesh: &Mesh, devices: &[DeviceInfo], mine: &[usize]) -> Option<Vec<usize>> {
    let places: Vec<Vec<usize>> = mine.iter().map(|&n| place(&devices[n])).collect::<Option<_>>()?;
    let grid = Torus { extent: extent(&places)?, wraps: Vec::new() };
    let dims: Vec<usize> = grid.dimensions_of(mesh)?.concat();
    let mut order: Vec<usize> = (0..mine.len()).collect();
    order.sort_by_key(|&n| dims.iter().map(|&d| places[n][d]).collect::<Vec<_>>());
    Some(order.into_iter().map(|n| mine[n]).collect())
}
