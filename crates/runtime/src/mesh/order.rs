//! The order of devices in a mesh: neighbours along a mesh axis are neighbours in the torus where that is possible.

use trace::{Mesh, Network};

use crate::backend::DeviceInfo;

/// Places of the devices in their list, in the order of the mesh. There are as many as the mesh has.
pub(super) fn of(mesh: &Mesh, devices: &[DeviceInfo]) -> Vec<usize> {
    let mut slices: Vec<i64> = devices.iter().map(|device| device.slice_index.unwrap_or_default()).collect();
    slices.sort_unstable();
    slices.dedup();
    let inner: Vec<usize> =
        mesh.axes().iter().filter(|axis| axis.network == Network::InSlice).map(|axis| axis.size).collect();
    let mut order = Vec::with_capacity(devices.len());
    for slice in slices {
        let mut mine: Vec<usize> =
            (0..devices.len()).filter(|&n| devices[n].slice_index.unwrap_or_default() == slice).collect();
        mine.sort_by_key(|&n| devices[n].id);
        order.extend(within_slice(&inner, devices, &mine).unwrap_or(mine));
    }
    order
}

/// Devices of a slice along its torus; `None` where they have no places or the axes do not fit its dimensions.
fn within_slice(sizes: &[usize], devices: &[DeviceInfo], mine: &[usize]) -> Option<Vec<usize>> {
    let places: Vec<Vec<usize>> = mine
        .iter()
        .map(|&n| {
            let mut place: Vec<usize> =
                devices[n].coordinates.as_ref()?.iter().map(|&at| usize::try_from(at).ok()).collect::<Option<_>>()?;
            // Cores of a chip are nearer than any neighbour.
            place.push(usize::try_from(devices[n].core_on_chip.unwrap_or_default()).ok()?);
            Some(place)
        })
        .collect::<Option<_>>()?;
    let rank = places.first()?.len();
    let extent: Vec<usize> = (0..rank).map(|d| places.iter().map(|place| place[d] + 1).max().unwrap_or(1)).collect();
    let taken = assigned(sizes, &extent)?;
    let dims: Vec<usize> = taken.concat();
    let key = |place: &Vec<usize>| dims.iter().map(|&d| place[d]).collect::<Vec<_>>();
    let mut order: Vec<usize> = (0..mine.len()).collect();
    order.sort_by_key(|&n| key(&places[n]));
    Some(order.into_iter().map(|n| mine[n]).collect())
}

/// Dimensions of the torus for each axis, so that each axis has whole dimensions; the last axes, which talk most, choose
/// first and take the fewest dimensions.
fn assigned(sizes: &[usize], extent: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut left: Vec<usize> = (0..extent.len()).filter(|&d| extent[d] > 1).collect();
    let mut taken = vec![Vec::new(); sizes.len()];
    for (n, &size) in sizes.iter().enumerate().rev() {
        if size == 1 {
            continue;
        }
        let subsets = (1u32..1 << left.len()).filter(|set| {
            let product: usize =
                (0..left.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| extent[left[bit]]).product();
            product == size
        });
        // Of as few dimensions the last ones, so that the natural order stays where it will do.
        let best = subsets.min_by_key(|set| (set.count_ones(), std::cmp::Reverse(*set)))?;
        taken[n] = (0..left.len()).filter(|bit| best >> bit & 1 == 1).map(|bit| left[bit]).collect();
        left.retain(|d| !taken[n].contains(d));
    }
    left.is_empty().then_some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_take_whole_dimensions() {
        assert_eq!(assigned(&[16, 16], &[16, 16, 1]), Some(vec![vec![0], vec![1]]));
        assert_eq!(assigned(&[64, 4], &[4, 8, 8]), Some(vec![vec![1, 2], vec![0]]));
        assert_eq!(assigned(&[4, 1, 8], &[4, 4, 2]), Some(vec![vec![0], vec![], vec![1, 2]]));
        assert_eq!(assigned(&[8, 8], &[4, 4, 4]), None);
        assert_eq!(assigned(&[256], &[16, 16]), Some(vec![vec![0, 1]]));
    }
}
