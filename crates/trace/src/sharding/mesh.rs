//! Named arrangements of devices.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::Error;

/// The most axes a mesh may have.
const MAX_AXES: usize = 16;

/// What connects the devices along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The links between chips of a slice.
    InSlice,
    /// Those, and they must close to a ring: a mesh whose slice has no such ring is refused.
    Ring,
    /// The data center's network between slices.
    BetweenSlices,
}

impl Network {
    /// What stands before the name of an axis.
    const fn prefix(self) -> &'static str {
        match self {
            Network::InSlice => "",
            Network::Ring => "ring:",
            Network::BetweenSlices => "dcn:",
        }
    }
}

/// One axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Its name.
    pub name: Arc<str>,
    /// Devices along it.
    pub size: usize,
    /// What connects them.
    pub network: Network,
}

/// Devices arranged along named axes; the last axis varies fastest. Axes between slices come first.
///
/// ```
/// let mesh: trace::Mesh = "data=4,model=2".parse()?;
/// assert_eq!((mesh.num_devices(), mesh.size_of("model")), (8, Some(2)));
/// # Ok::<(), trace::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    axes: Vec<Axis>,
}

impl Mesh {
    /// A mesh of one slice.
    pub fn new<'a>(axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Mesh, Error> {
        Mesh::from_axes(axes.into_iter().map(|(name, size)| axis(name, size, Network::InSlice)).collect())
    }

    /// The same mesh on several slices: these axes are between them.
    pub fn across_slices<'a>(&self, axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Mesh, Error> {
        let outer = axes.into_iter().map(|(name, size)| axis(name, size, Network::BetweenSlices));
        Mesh::from_axes(outer.chain(self.axes.iter().cloned()).collect())
    }

    /// A mesh of these axes; those between slices are moved to the front.
    pub fn from_axes(mut axes: Vec<Axis>) -> Result<Mesh, Error> {
        axes.sort_by_key(|axis| axis.network != Network::BetweenSlices);
        let wrong = |message: String| Err(Error::Mesh(message));
        if axes.len() > MAX_AXES {
            return wrong(format!("a mesh of {} axes; at most {MAX_AXES} are supported", axes.len()));
        }
        for (n, axis) in axes.iter().enumerate() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if axis.name.is_empty() || !axis.name.chars().all(is_word) {
                return wrong(format!("`{}` is not a valid axis name: use letters, digits and _", axis.name));
            }
            if axis.size == 0 {
                return wrong(format!("axis `{}` of the mesh has no devices", axis.name));
            }
            if axes[..n].iter().any(|other| other.name == axis.name) {
                return wrong(format!("the mesh has two axes `{}`", axis.name));
            }
        }
        match axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.size)) {
            Some(count) if i32::try_from(count).is_ok() => Ok(Mesh { axes }),
            _ => wrong("the mesh has more than 2^31 devices".into()),
        }
    }

    /// The axes, slowest first.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Devices in all.
    pub fn num_devices(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Slices: the devices along axes between slices.
    pub fn num_slices(&self) -> usize {
        self.axes.iter().filter(|axis| axis.network == Network::BetweenSlices).map(|axis| axis.size).product()
    }

    /// Devices along an axis.
    pub fn size_of(&self, name: &str) -> Option<usize> {
        self.axes.iter().find(|axis| &*axis.name == name).map(|axis| axis.size)
    }

    /// Devices along several axes together; `None` if one of them is not there.
    pub fn size_along<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<usize> {
        names.into_iter().try_fold(1, |size, name| Some(size * self.size_of(name)?))
    }

    /// The place of a device along each axis.
    pub fn place_of(&self, mut device: usize) -> Vec<usize> {
        let mut place = vec![0; self.axes.len()];
        for (at, axis) in place.iter_mut().zip(&self.axes).rev() {
            *at = device % axis.size;
            device /= axis.size;
        }
        place
    }

    /// Groups of devices that differ along these axes only, in the order of the axes given.
    pub fn groups(&self, names: &[Arc<str>]) -> Vec<Vec<usize>> {
        let along: Vec<usize> =
            names.iter().filter_map(|name| self.axes.iter().position(|axis| axis.name == *name)).collect();
        // By the place along the other axes, which is also the order of the groups' first devices.
        let mut groups: BTreeMap<Vec<usize>, Vec<(Vec<usize>, usize)>> = BTreeMap::new();
        for device in 0..self.num_devices() {
            let place = self.place_of(device);
            let rest = (0..place.len()).filter(|n| !along.contains(n)).map(|n| place[n]).collect();
            groups.entry(rest).or_default().push((along.iter().map(|&n| place[n]).collect(), device));
        }
        let in_order = |mut group: Vec<(Vec<usize>, usize)>| {
            group.sort();
            group.into_iter().map(|(_, device)| device).collect()
        };
        groups.into_values().map(in_order).collect()
    }

    /// The same axes with other sizes.
    pub fn with_sizes(&self, sizes: &[usize]) -> Result<Mesh, Error> {
        if sizes.len() != self.axes.len() {
            return Err(Error::Mesh(format!("{} sizes for the {} axes of {self}", sizes.len(), self.axes.len())));
        }
        Mesh::from_axes(self.axes.iter().zip(sizes).map(|(axis, &size)| Axis { size, ..axis.clone() }).collect())
    }

    /// The same, and nothing needs to be a ring.
    #[must_use]
    pub fn without_rings(&self) -> Mesh {
        let open = |axis: &Axis| match axis.network {
            Network::Ring => Axis { network: Network::InSlice, ..axis.clone() },
            _ => axis.clone(),
        };
        Mesh { axes: self.axes.iter().map(open).collect() }
    }

    /// A mesh of so many devices that is most like this one: one axis is made longer or shorter.
    pub fn nearest(&self, devices: usize) -> Option<Mesh> {
        let fitting = (0..self.axes.len()).filter_map(|n| {
            let others: usize =
                self.axes.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, axis)| axis.size).product();
            let size = (devices > 0 && devices.is_multiple_of(others)).then(|| devices / others)?;
            let mut axes = self.axes.clone();
            let change = (axes[n].size as f64 / size as f64).ln().abs();
            axes[n].size = size;
            Some((change, Mesh { axes }))
        });
        fitting.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, mesh)| mesh)
    }
}

fn axis(name: &str, size: usize, network: Network) -> Axis {
    Axis { name: name.into(), size, network }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, axis) in self.axes.iter().enumerate() {
            let (comma, network) = (if n > 0 { "," } else { "" }, axis.network.prefix());
            write!(f, "{comma}{network}{}={}", axis.name, axis.size)?;
        }
        Ok(())
    }
}

impl FromStr for Mesh {
    type Err = Error;

    /// `data=4,model=2`; `dcn:replica=2,fsdp=16` has an axis between slices, `ring:model=16` one whose links close.
    fn from_str(text: &str) -> Result<Mesh, Error> {
        let read = |part: &str| {
            let part = part.trim();
            let named = [Network::BetweenSlices, Network::Ring]
                .into_iter()
                .find_map(|network| Some((part.strip_prefix(network.prefix())?, network)));
            let (part, network) = named.unwrap_or((part, Network::InSlice));
            let read = part.split_once('=').and_then(|(name, size)| Some((name.trim(), size.trim().parse().ok()?)));
            let (name, size) =
                read.ok_or_else(|| Error::Mesh(format!("`{part}` is not a mesh axis; write axes as data=4")))?;
            Ok(axis(name, size, network))
        };
        Mesh::from_axes(text.split(',').map(read).collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meshes_are_read_and_printed() {
        for text in ["data=4,model=2", "dcn:replica=2,fsdp=16,model=4", "data=4,ring:model=16", "x=1"] {
            assert_eq!(text.parse::<Mesh>().unwrap().to_string(), text);
        }
        assert_eq!("fsdp=16, dcn:replica=2".parse::<Mesh>().unwrap().to_string(), "dcn:replica=2,fsdp=16");
        for (text, part) in [
            ("", "is not a mesh axis"),
            ("data", "is not a mesh axis"),
            ("data=0", "no devices"),
            ("data=x", "is not a mesh axis"),
            ("data=2,data=2", "two axes"),
            ("a b=2", "not a valid axis name"),
            ("a=99999,b=99999", "2^31"),
            ("a=18446744073709551615,b=2", "2^31"),
        ] {
            let error = text.parse::<Mesh>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn groups_differ_along_their_axes() {
        let mesh = Mesh::new([("a", 2), ("b", 2), ("c", 2)]).unwrap();
        assert_eq!(mesh.groups(&["b".into()]), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(mesh.groups(&["c".into(), "a".into()]), [[0, 4, 1, 5], [2, 6, 3, 7]]);
        assert_eq!(mesh.place_of(6), [1, 1, 0]);
    }

    #[test]
    fn the_nearest_mesh_changes_one_axis() {
        let mesh = Mesh::new([("data", 4), ("model", 2)]).unwrap();
        assert_eq!(mesh.nearest(16).unwrap().to_string(), "data=8,model=2");
        assert_eq!(mesh.nearest(12).unwrap().to_string(), "data=6,model=2");
        assert!(mesh.nearest(7).is_none());
    }
}
