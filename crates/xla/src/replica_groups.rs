//! Groups of devices that take part in a collective: listed, by iota, or by mesh axes.

use crate::shape::List;
use crate::{Error, proto};
use std::fmt;

/// The groups of a collective in the form the compiler wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaGroups {
    /// Every group listed. No group at all means one group of all devices.
    List(Vec<Vec<i64>>),
    /// `[groups, size] <= [reshape] T(transpose)`.
    Iota {
        /// Number of groups.
        groups: u64,
        /// Devices in each.
        group_size: u64,
        /// Dimensions the ids `0..n` are laid out in.
        reshape: Vec<u64>,
        /// Permutation applied before reading the ids back; a permutation of `reshape`'s dimensions.
        transpose: Vec<usize>,
    },
    /// Groups along some axes of a mesh.
    Mesh(MeshGroups),
}

/// Groups along axes of a device mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshGroups {
    /// Names and sizes of the axes, major first.
    pub axes: Vec<(String, u64)>,
    device_ids: Vec<i64>,
    reshape: Vec<u64>,
    transpose: Vec<usize>,
    /// Axes, or parts of them, that a group spans.
    pub spans: Vec<AxisSpan>,
}

/// One axis that a group spans, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisSpan {
    /// Index of the axis.
    pub axis: usize,
    /// `(elements before, size)` where only part of the axis is meant.
    pub part: Option<(u64, u64)>,
}

const AT: &str = "replica groups";
/// Beyond any pod; expanding more is refused.
const MAX_DEVICES: u64 = 1 << 24;

impl ReplicaGroups {
    pub(crate) fn read(proto: &proto::Instruction) -> Result<Option<ReplicaGroups>, Error> {
        let listed = |groups: &[proto::ReplicaGroup]| {
            ReplicaGroups::List(groups.iter().map(|g| g.replica_ids.clone()).collect())
        };
        if let Some(mesh) = &proto.mesh_axes_replica_group_list {
            return MeshGroups::read(mesh).map(|m| Some(ReplicaGroups::Mesh(m)));
        }
        if let Some(iota) = &proto.iota_collective_device_list {
            return read_iota(iota).map(Some);
        }
        if let Some(list) = &proto.collective_device_list {
            if let Some(iota) = &list.iota_replica_group_list {
                return read_iota(iota).map(Some);
            }
            return Ok(Some(listed(&list.replica_groups)));
        }
        Ok((!proto.replica_groups.is_empty()).then(|| listed(&proto.replica_groups)))
    }

    /// Groups by iota: their number and size, the dimensions ids are laid out in, and their order.
    pub(crate) fn iota(shape: &[i64], reshape: &[i64], transpose: &[i64]) -> Result<ReplicaGroups, Error> {
        let &[groups, size] = shape else { return Err(Error::malformed(AT, "not two sizes")) };
        read_iota(&proto::IotaReplicaGroupList {
            num_replica_groups: groups,
            num_devices_per_group: size,
            iota_reshape_dims: reshape.to_vec(),
            iota_transpose_perm: transpose.iter().map(|&p| i32::try_from(p).unwrap_or(-1)).collect(),
        })
    }

    /// Devices in the largest group; `all_devices` where the list is empty.
    pub fn group_size(&self, all_devices: u64) -> u64 {
        match self {
            ReplicaGroups::List(groups) if groups.is_empty() => all_devices,
            ReplicaGroups::List(groups) => groups.iter().map(|g| g.len() as u64).max().unwrap_or(0),
            ReplicaGroups::Iota { group_size, .. } => *group_size,
            ReplicaGroups::Mesh(mesh) => mesh.group_size(),
        }
    }

    /// Number of groups.
    pub fn group_count(&self) -> u64 {
        match self {
            ReplicaGroups::List(groups) => groups.len().max(1) as u64,
            ReplicaGroups::Iota { groups, .. } => *groups,
            ReplicaGroups::Mesh(mesh) => mesh.devices() / mesh.group_size().max(1),
        }
    }

    /// All groups written out. An empty list stays empty: it stands for all devices of the program.
    pub fn expand(&self) -> Vec<Vec<i64>> {
        match self {
            ReplicaGroups::List(groups) => groups.clone(),
            ReplicaGroups::Iota { group_size, reshape, transpose, .. } => {
                let ids = transposed_iota(reshape, transpose);
                ids.chunks((*group_size).max(1) as usize).map(<[i64]>::to_vec).collect()
            }
            ReplicaGroups::Mesh(mesh) => mesh.expand(),
        }
    }
}

fn sizes(dims: &[i64]) -> Result<(Vec<u64>, u64), Error> {
    let mut total: u64 = 1;
    let mut out = Vec::with_capacity(dims.len());
    for &d in dims {
        let d = u64::try_from(d).ok().filter(|&d| d > 0).ok_or_else(|| Error::malformed(AT, "dimension below 1"))?;
        total = total
            .checked_mul(d)
            .filter(|&t| t <= MAX_DEVICES)
            .ok_or_else(|| Error::malformed(AT, format!("more than {MAX_DEVICES} devices")))?;
        out.push(d);
    }
    Ok((out, total))
}

fn permutation(perm: impl Iterator<Item = i64>, rank: usize) -> Result<Vec<usize>, Error> {
    let perm: Vec<usize> = perm.map(|p| usize::try_from(p).unwrap_or(usize::MAX)).collect();
    if perm.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank) { Ok(perm) } else { Err(Error::malformed(AT, "transpose is no permutation")) }
}

fn read_iota(proto: &proto::IotaReplicaGroupList) -> Result<ReplicaGroups, Error> {
    let (shape, total) = sizes(&[proto.num_replica_groups, proto.num_devices_per_group])?;
    let (reshape, reshape_total) = sizes(&proto.iota_reshape_dims)?;
    if reshape_total != total {
        return Err(Error::malformed(AT, format!("{reshape_total} ids for {total} places")));
    }
    let transpose = permutation(proto.iota_transpose_perm.iter().map(|&p| i64::from(p)), reshape.len())?;
    Ok(ReplicaGroups::Iota { groups: shape[0], group_size: shape[1], reshape, transpose })
}

/// Row-major strides of `dims`.
fn strides(dims: &[u64]) -> Vec<u64> {
    let mut out = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        out[i - 1] = out[i] * dims[i];
    }
    out
}

/// Offsets visited when walking dimensions of the given sizes and strides, last dimension fastest.
fn walk(dims: &[(u64, u64)]) -> Vec<u64> {
    let mut offsets = vec![0];
    for &(size, stride) in dims {
        offsets = offsets.iter().flat_map(|&o| (0..size).map(move |i| o + i * stride)).collect();
    }
    offsets
}

fn transposed_iota(reshape: &[u64], transpose: &[usize]) -> Vec<i64> {
    let strides = strides(reshape);
    let dims: Vec<(u64, u64)> = transpose.iter().map(|&d| (reshape[d], strides[d])).collect();
    walk(&dims).into_iter().map(|o| o as i64).collect()
}

impl MeshGroups {
    fn read(proto: &proto::MeshAxesReplicaGroupList) -> Result<MeshGroups, Error> {
        let mesh = proto.mesh.as_ref().ok_or_else(|| Error::malformed(AT, "mesh axes without a mesh"))?;
        let (axis_sizes, total) = sizes(&mesh.axes.iter().map(|a| a.size).collect::<Vec<_>>())?;
        let (reshape, transpose) = match &mesh.iota_transform {
            Some(iota) => {
                let (reshape, n) = sizes(&iota.reshape_dims)?;
                if n != total {
                    return Err(Error::malformed(AT, format!("{n} ids for a mesh of {total}")));
                }
                let transpose = permutation(iota.transpose_perm.iter().copied(), reshape.len())?;
                (reshape, transpose)
            }
            None => (vec![total], vec![0]),
        };
        if !mesh.device_ids.is_empty() && mesh.device_ids.len() as u64 != total {
            return Err(Error::malformed(AT, format!("{} ids for a mesh of {total}", mesh.device_ids.len())));
        }
        let mut spans = Vec::with_capacity(proto.axes.len());
        for axis in &proto.axes {
            let index = usize::try_from(axis.mesh_axis_index).ok().filter(|&i| i < axis_sizes.len());
            let index = index.ok_or_else(|| Error::malformed(AT, "axis outside the mesh"))?;
            let part = match &axis.sub_axis_info {
                None => None,
                Some(sub) => {
                    let (parts, product) = sizes(&[sub.pre_size, sub.size])?;
                    if axis_sizes[index] % product != 0 {
                        return Err(Error::malformed(AT, "part does not divide its axis"));
                    }
                    Some((parts[0], parts[1]))
                }
            };
            spans.push(AxisSpan { axis: index, part });
        }
        let groups = MeshGroups {
            axes: mesh.axes.iter().zip(&axis_sizes).map(|(a, &size)| (a.name.clone(), size)).collect(),
            device_ids: mesh.device_ids.clone(),
            reshape,
            transpose,
            spans,
        };
        groups.split_axes().map(|_| groups)
    }

    fn devices(&self) -> u64 {
        self.axes.iter().map(|a| a.1).product()
    }

    fn group_size(&self) -> u64 {
        self.spans.iter().map(|s| s.part.map_or(self.axes[s.axis].1, |p| p.1)).product()
    }

    /// `(size, stride)` of the dimensions across groups, and of those within a group in the order of `spans`.
    #[allow(clippy::type_complexity)]
    fn split_axes(&self) -> Result<(Vec<(u64, u64)>, Vec<(u64, u64)>), Error> {
        let axis_sizes: Vec<u64> = self.axes.iter().map(|a| a.1).collect();
        let axis_strides = strides(&axis_sizes);
        let mut across = Vec::new();
        let mut within = vec![(1, 0); self.spans.len()];
        for (axis, (&size, &stride)) in axis_sizes.iter().zip(&axis_strides).enumerate() {
            let mut parts: Vec<(u64, u64, usize)> = (self.spans.iter().enumerate())
                .filter(|(_, s)| s.axis == axis)
                .map(|(i, s)| (s.part.map_or(1, |p| p.0), s.part.map_or(size, |p| p.1), i))
                .collect();
            parts.sort_unstable();
            let mut before = 1;
            for (pre, part, span) in parts {
                if pre < before || pre % before != 0 {
                    return Err(Error::malformed(AT, "parts of an axis overlap"));
                }
                across.push((pre / before, stride * (size / pre)));
                before = pre * part;
                within[span] = (part, stride * (size / before));
            }
            across.push((size / before, stride));
        }
        Ok((across, within))
    }

    fn expand(&self) -> Vec<Vec<i64>> {
        let Ok((across, within)) = self.split_axes() else { return Vec::new() };
        let ids = if self.device_ids.is_empty() {
            transposed_iota(&self.reshape, &self.transpose)
        } else {
            self.device_ids.clone()
        };
        let members = walk(&within);
        let group = |start: u64| members.iter().filter_map(|&m| ids.get((start + m) as usize).copied()).collect();
        walk(&across).into_iter().map(group).collect()
    }
}

impl fmt::Display for ReplicaGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaGroups::List(groups) => {
                f.write_str("{")?;
                for (i, group) in groups.iter().enumerate() {
                    write!(f, "{}{{{}}}", if i > 0 { "," } else { "" }, List(group))?;
                }
                f.write_str("}")
            }
            ReplicaGroups::Iota { groups, group_size, reshape, transpose } => {
                write!(f, "[{groups},{group_size}]<=[{}]", List(reshape))?;
                if transpose.iter().copied().ne(0..transpose.len()) {
                    write!(f, "T({})", List(transpose))?;
                }
                Ok(())
            }
            ReplicaGroups::Mesh(mesh) => {
                let axes: Vec<String> = mesh.axes.iter().map(|(name, size)| format!("'{name}'={size}")).collect();
                write!(f, "mesh[{}]", List(&axes))?;
                if !mesh.device_ids.is_empty() {
                    write!(f, ", device_ids=({})", List(&mesh.device_ids))?;
                } else if mesh.reshape.len() > 1 {
                    write!(f, ", device_ids=([{}]T({}))", List(&mesh.reshape), List(&mesh.transpose))?;
                }
                let span = |s: &AxisSpan| match s.part {
                    None => format!("'{}'", mesh.axes[s.axis].0),
                    Some((pre, size)) => format!("'{}':({pre}){size}", mesh.axes[s.axis].0),
                };
                let spans: Vec<String> = mesh.spans.iter().map(span).collect();
                write!(f, " {{{}}}", List(&spans))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iota(groups: i64, size: i64, reshape: &[i64], transpose: &[i32]) -> Result<ReplicaGroups, Error> {
        read_iota(&proto::IotaReplicaGroupList {
            num_replica_groups: groups,
            num_devices_per_group: size,
            iota_reshape_dims: reshape.to_vec(),
            iota_transpose_perm: transpose.to_vec(),
        })
    }

    #[test]
    fn iota_expands() {
        let plain = iota(2, 4, &[8], &[]).unwrap();
        assert_eq!(plain.to_string(), "[2,4]<=[8]");
        assert_eq!(plain.expand(), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        let strided = iota(4, 2, &[2, 4], &[1, 0]).unwrap();
        assert_eq!(strided.to_string(), "[4,2]<=[2,4]T(1,0)");
        assert_eq!(strided.expand(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!((strided.group_count(), strided.group_size(8)), (4, 2));
    }

    #[test]
    fn iota_of_older_compilers_is_inside_the_list() {
        use prost::Message;
        // As libtpu of March 2025 wrote it for `[4,2]<=[2,4]T(1,0)`: field 87, and in it field 2.
        let bytes = [0xba, 5, 14, 0x12, 12, 8, 4, 0x10, 2, 0x1a, 2, 2, 4, 0x22, 2, 1, 0];
        let groups = ReplicaGroups::read(&proto::Instruction::decode(&bytes[..]).unwrap()).unwrap().unwrap();
        assert_eq!(groups.to_string(), "[4,2]<=[2,4]T(1,0)");
    }

    #[test]
    fn hostile_iota_is_refused() {
        assert!(iota(2, 4, &[9], &[]).is_err());
        assert!(iota(i64::MAX, i64::MAX, &[8], &[]).is_err());
        assert!(iota(1 << 30, 1, &[1 << 30], &[]).is_err());
        assert!(iota(2, 4, &[2, 4], &[0, 0]).is_err());
        assert!(iota(2, 4, &[2, 4], &[5, -1]).is_err());
    }

    fn mesh(axes: &[(&str, i64)], spans: &[(i64, Option<(i64, i64)>)]) -> Result<MeshGroups, Error> {
        MeshGroups::read(&proto::MeshAxesReplicaGroupList {
            mesh: Some(proto::Mesh {
                axes: axes.iter().map(|&(n, size)| proto::MeshAxis { name: n.into(), size }).collect(),
                ..Default::default()
            }),
            axes: spans
                .iter()
                .map(|&(mesh_axis_index, sub)| proto::AxisRef {
                    mesh_axis_index,
                    sub_axis_info: sub.map(|(pre_size, size)| proto::SubAxis { pre_size, size }),
                })
                .collect(),
        })
    }

    #[test]
    fn mesh_expands() {
        let groups = ReplicaGroups::Mesh(mesh(&[("a", 2), ("b", 4)], &[(0, None)]).unwrap());
        assert_eq!(groups.to_string(), "mesh['a'=2,'b'=4] {'a'}");
        assert_eq!(groups.expand(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!((groups.group_count(), groups.group_size(8)), (4, 2));
        let parts = ReplicaGroups::Mesh(mesh(&[("a", 8)], &[(0, Some((2, 2)))]).unwrap());
        assert_eq!(parts.expand(), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        let both = ReplicaGroups::Mesh(mesh(&[("a", 2), ("b", 2)], &[(1, None), (0, None)]).unwrap());
        assert_eq!(both.expand(), [[0, 2, 1, 3]]);
        assert!(mesh(&[("a", 8)], &[(0, Some((3, 2)))]).is_err());
        assert!(mesh(&[("a", 8)], &[(0, None), (0, None)]).is_err());
        assert!(mesh(&[("a", 8)], &[(1, None)]).is_err());
    }
}
