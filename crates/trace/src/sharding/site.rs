//! The devices a mesh is for, and the links between them.

use crate::sharding::{Axis, Mesh, Network};

/// The devices a mesh is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// What they are called: the name of a slice.
    pub name: String,
    /// How many there are; `None` where there are as many as the mesh has.
    pub devices: Option<usize>,
    /// How those of one slice are linked; `None` where each reaches each.
    pub torus: Option<Torus>,
}

/// A grid of devices, some of whose dimensions close to rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Torus {
    /// Devices along each dimension.
    pub extent: Vec<usize>,
    /// Whether the ends of each dimension are linked.
    pub wraps: Vec<bool>,
}

impl Torus {
    /// Dimensions for each axis of a mesh within a slice, so that each axis has whole dimensions; the last axes, which talk most,
    /// choose first and take the fewest dimensions. `None` where the axes do not fit.
    pub fn dimensions_of(&self, mesh: &Mesh) -> Option<Vec<Vec<usize>>> {
        let sizes: Vec<usize> = in_slice(mesh).map(|axis| axis.size).collect();
        assigned(&sizes, &self.extent)
    }

    /// The first axis of a mesh that must be a ring and is none here, and why.
    pub fn broken_ring<'m>(&self, mesh: &'m Mesh) -> Option<(&'m Axis, String)> {
        let is_ring = |axis: &Axis| axis.network == Network::Ring && axis.size > 1;
        let first = in_slice(mesh).find(|axis| is_ring(axis))?;
        let Some(dimensions) = self.dimensions_of(mesh) else {
            return Some((first, format!("the axes of {mesh} do not match whole dimensions of {}", self.shape())));
        };
        in_slice(mesh).zip(dimensions).filter(|(axis, _)| is_ring(axis)).find_map(|(axis, dimensions)| {
            let open = dimensions.into_iter().find(|&d| !self.closes(d))?;
            let length = self.extent[open];
            Some((axis, format!("no link closes dimension {open} of {}, which is {length} long", self.shape())))
        })
    }

    /// Whether devices along a dimension are a ring; two always are.
    fn closes(&self, dimension: usize) -> bool {
        self.extent[dimension] <= 2 || self.wraps.get(dimension).copied().unwrap_or_default()
    }

    fn shape(&self) -> String {
        let sizes = self.extent.iter().rev().skip_while(|&&size| size == 1).map(ToString::to_string);
        let mut sizes: Vec<String> = sizes.collect();
        sizes.reverse();
        sizes.join("x")
    }
}

fn in_slice(mesh: &Mesh) -> impl Iterator<Item = &Axis> {
    mesh.axes().iter().filter(|axis| axis.network != Network::BetweenSlices)
}

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

    #[test]
    fn rings_need_dimensions_that_close() {
        let broken = |extent: &[usize], wraps: &[bool], mesh: &str| {
            let torus = Torus { extent: extent.to_vec(), wraps: wraps.to_vec() };
            let mesh: Mesh = mesh.parse().unwrap();
            torus.broken_ring(&mesh).map(|(axis, why)| format!("{}: {why}", axis.name))
        };
        let (open, closed) = ([false; 3], [true; 3]);
        assert_eq!(broken(&[16, 16, 1], &closed, "data=16,ring:model=16"), None);
        assert_eq!(broken(&[4, 4, 1], &open, "data=4,model=4"), None);
        assert_eq!(broken(&[2, 4, 1], &open, "data=4,ring:model=2"), None);
        assert_eq!(broken(&[4, 4, 1], &open, "dcn:replica=2,ring:data=1,model=16"), None);
        let text = broken(&[4, 4, 1], &open, "data=4,ring:model=4").unwrap();
        assert_eq!(text, "model: no link closes dimension 1 of 4x4, which is 4 long");
        let text = broken(&[8, 16, 1], &[false, true, false], "ring:data=8,ring:model=16").unwrap();
        assert!(text.starts_with("data: no link closes dimension 0"), "{text}");
        let text = broken(&[4, 4, 4], &closed, "data=8,ring:model=8").unwrap();
        assert!(text.contains("whole dimensions of 4x4x4"), "{text}");
    }
}
