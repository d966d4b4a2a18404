//! Shardings as GSPMD has them: which devices hold which part, without names. A mesh is found behind them, and its axes along each
//! dimension.

use super::TileAssignment;

/// Axes along each dimension, major to minor, by their place in the mesh.
pub type AxisSpec = Vec<Vec<usize>>;

/// A run of devices along one dimension: so many, so far apart.
type Piece = (u64, u64);

/// Sizes of the mesh that all of these are made of, major to minor; `None` where they are not of one mesh in its natural order.
pub fn mesh_sizes(all: &[TileAssignment], devices: u64) -> Option<Vec<i64>> {
    let mut ends = vec![1, devices];
    for tiles in all {
        for (stride, size) in pieces(tiles)?.into_iter().flatten() {
            ends.extend([stride, stride.checked_mul(size)?]);
        }
    }
    ends.sort_unstable();
    ends.dedup();
    let mut sizes = Vec::new();
    for pair in ends.windows(2) {
        let &[minor, major] = pair else { return None };
        if minor == 0 || major % minor != 0 {
            return None;
        }
        sizes.push(i64::try_from(major / minor).ok()?);
    }
    sizes.reverse();
    Some(sizes)
}

/// The axes of a mesh along each dimension.
pub fn spec_of(tiles: &TileAssignment, sizes: &[i64]) -> Option<AxisSpec> {
    let strides = strides(sizes)?;
    let axes = |pieces: Vec<Piece>| -> Option<Vec<usize>> {
        let mut axes = Vec::new();
        for (stride, size) in pieces {
            let of_piece = |axis: &usize| (stride..stride * size).contains(&strides[*axis]) && sizes[*axis] > 1;
            let found: Vec<usize> = (0..sizes.len()).filter(of_piece).collect();
            let product = found.iter().try_fold(1u64, |n, axis| n.checked_mul(u64::try_from(sizes[*axis]).ok()?))?;
            if product != size {
                return None;
            }
            axes.extend(found);
        }
        Some(axes)
    };
    let mut dims = pieces(tiles)?;
    dims.pop();
    let spec: AxisSpec = dims.into_iter().map(axes).collect::<Option<_>>()?;
    (holders(&devices_of(&spec, sizes)?, tiles) == holders(&tiles.order, tiles)).then_some(spec)
}

/// The attribute for axes along each dimension, as JAX writes it.
pub fn text_of(spec: &AxisSpec, sizes: &[i64]) -> String {
    let product = |axes: &[usize]| axes.iter().map(|axis| sizes[*axis]).product::<i64>();
    let mut parts: Vec<i64> = spec.iter().map(|axes| product(axes)).collect();
    if parts.iter().all(|part| *part == 1) {
        return "{replicated}".into();
    }
    let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let real: Vec<usize> = (0..sizes.len()).filter(|axis| sizes[*axis] > 1).collect();
    let mut order: Vec<usize> = spec.iter().flatten().copied().filter(|axis| sizes[*axis] > 1).collect();
    let rest: Vec<usize> = real.iter().copied().filter(|axis| !order.contains(axis)).collect();
    let suffix = if rest.is_empty() { "" } else { " last_tile_dim_replicate" };
    if !rest.is_empty() {
        parts.push(product(&rest));
    }
    order.extend(rest);
    let devices: i64 = real.iter().map(|axis| sizes[*axis]).product();
    let source = if order == real {
        format!("<=[{devices}]")
    } else {
        let place = |axis: &usize| real.iter().position(|other| other == axis).unwrap_or(0) as i64;
        let dims: Vec<i64> = real.iter().map(|axis| sizes[*axis]).collect();
        format!("<=[{}]T({})", list(&dims), list(&order.iter().map(place).collect::<Vec<_>>()))
    };
    format!("{{devices=[{}]{source}{suffix}}}", list(&parts))
}

/// Devices between neighbours along each axis.
fn strides(sizes: &[i64]) -> Option<Vec<u64>> {
    let of = |axis: usize| {
        sizes[axis + 1..].iter().try_fold(1u64, |n, size| n.checked_mul(u64::try_from(*size).ok().filter(|s| *s > 0)?))
    };
    (0..sizes.len()).map(of).collect()
}

/// The runs along each dimension and, last, along the copies, each major to minor.
fn pieces(tiles: &TileAssignment) -> Option<Vec<Vec<Piece>>> {
    let sizes: Vec<u64> = tiles.parts.iter().copied().chain([tiles.copies]).collect();
    let mut all = Vec::new();
    for (dim, &size) in sizes.iter().enumerate() {
        let step: u64 = sizes[dim + 1..].iter().product();
        let device = |n: u64| tiles.order.get(usize::try_from(n * step).ok()?).copied();
        if device(0)? != 0 {
            return None;
        }
        let (mut covered, mut list) = (1, Vec::new());
        while covered < size {
            let stride = device(covered)?;
            let mut count = 1;
            while covered * count < size && device(covered * count)? == count * stride {
                count += 1;
            }
            if stride == 0 || count < 2 || !size.is_multiple_of(covered * count) {
                return None;
            }
            list.push((stride, count));
            covered *= count;
        }
        list.reverse();
        all.push(list);
    }
    Some(all)
}

/// Devices by part and copy for axes along each dimension.
fn devices_of(spec: &AxisSpec, sizes: &[i64]) -> Option<Vec<u64>> {
    let strides = strides(sizes)?;
    let used: Vec<usize> = spec.iter().flatten().copied().collect();
    let rest = (0..sizes.len()).filter(|axis| !used.contains(axis));
    let mut devices = vec![0u64];
    for axis in used.iter().copied().chain(rest) {
        let count = u64::try_from(sizes[axis]).ok()?;
        devices = devices
            .iter()
            .flat_map(|at| (0..count).map(move |n| (at, n)))
            .map(|(at, n)| at + n * strides[axis])
            .collect();
    }
    Some(devices)
}

/// Devices of each part; copies are in no order.
fn holders(order: &[u64], tiles: &TileAssignment) -> Vec<Vec<u64>> {
    let copies = usize::try_from(tiles.copies).unwrap_or(1).max(1);
    let sorted = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part
    };
    order.chunks(copies).map(sorted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_is_found_behind_devices() {
        let texts = [
            ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", vec![vec![], vec![1]]),
            ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", vec![vec![0], vec![]]),
            ("{devices=[2,4]<=[8]}", vec![vec![0], vec![1]]),
            ("{devices=[4,2]<=[2,4]T(1,0)}", vec![vec![1], vec![0]]),
            ("{devices=[1,8]<=[8]}", vec![vec![], vec![0, 1]]),
            ("{devices=[8,1]<=[2,4]T(1,0)}", vec![vec![1, 0], vec![]]),
            ("{replicated}", vec![vec![], vec![]]),
        ];
        let tiles: Vec<TileAssignment> =
            texts.iter().map(|(text, _)| TileAssignment::read(text, 2, 8).unwrap()).collect();
        assert_eq!(mesh_sizes(&tiles, 8), Some(vec![2, 4]));
        for ((text, expected), tiles) in texts.iter().zip(&tiles) {
            let spec = spec_of(tiles, &[2, 4]).unwrap();
            assert_eq!(&spec, expected, "{text}");
            assert_eq!(&text_of(&spec, &[2, 4]), text);
        }
        // The same axes over another mesh, and over one that has no second axis.
        assert_eq!(text_of(&texts[0].1, &[4, 2]), "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
        assert_eq!(text_of(&texts[0].1, &[8, 1]), "{replicated}");
        assert_eq!(text_of(&texts[2].1, &[8, 1]), "{devices=[8,1]<=[8]}");
    }

    #[test]
    fn other_orders_are_no_mesh() {
        for text in ["{devices=[4]1,0,2,3}", "{devices=[4]0,2,3,1}"] {
            assert_eq!(mesh_sizes(&[TileAssignment::read(text, 1, 4).unwrap()], 4), None, "{text}");
        }
        let three = TileAssignment::read("{devices=[3,2]<=[6]}", 2, 6).unwrap();
        let two = TileAssignment::read("{devices=[2,3]<=[6]}", 2, 6).unwrap();
        assert_eq!(mesh_sizes(&[three, two], 6), None, "neither is a part of the other");
    }
}
