//! Attributes of the Shardy dialect: meshes, tensor shardings and manual axes.

use crate::ir::dims::AxisRef;

/// `#sdy.mesh<["x"=4, "y"=2]>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeshAttr {
    /// Axis names and sizes, major to minor.
    pub axes: Vec<(String, i64)>,
    /// Explicit device order, if not the natural one.
    pub device_ids: Vec<i64>,
}

impl MeshAttr {
    /// Number of devices the mesh spans, if it fits.
    pub fn device_count(&self) -> Option<i64> {
        if self.axes.is_empty() && !self.device_ids.is_empty() {
            return Some(1);
        }
        self.axes.iter().try_fold(1i64, |n, (_, size)| n.checked_mul(*size))
    }
}

/// How one dimension is split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DimensionSharding {
    /// Axes the dimension is split along, major to minor.
    pub axes: Vec<AxisRef>,
    /// Closed dimensions take no further axes from propagation (`?` marks an open one).
    pub is_closed: bool,
    /// Propagation priority (`p1`), if given.
    pub priority: Option<i64>,
}

/// The mesh a sharding refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MeshRef {
    /// `@mesh`.
    Symbol(String),
    /// `mesh<["x"=2]>` written in place.
    Inline(MeshAttr),
}

/// `#sdy.sharding<@mesh, [{"x"}, {}], replicated={"y"}, unreduced={"z"}>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSharding {
    /// The mesh.
    pub mesh: MeshRef,
    /// One entry for each dimension.
    pub dims: Vec<DimensionSharding>,
    /// Axes along which the tensor is explicitly replicated.
    pub replicated: Vec<AxisRef>,
    /// Axes along which the tensor is a partial result.
    pub unreduced: Vec<AxisRef>,
}

/// An attribute of the Shardy dialect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SdyAttr {
    /// `#sdy.mesh`.
    Mesh(MeshAttr),
    /// `#sdy.sharding`.
    Sharding(TensorSharding),
    /// `#sdy.sharding_per_value`: one sharding for each operand or result.
    ShardingPerValue(Vec<TensorSharding>),
    /// `#sdy<manual_axes{…}>`.
    ManualAxes(Vec<String>),
    /// `#sdy<list_of_axis_ref_lists[…]>`: axes for each dimension.
    AxisLists(Vec<Vec<AxisRef>>),
    /// `#sdy<axis_ref_list{…}>`: axes.
    AxisList(Vec<AxisRef>),
    /// `#sdy<all_to_all_param_list[…]>`: axes moved from one dimension to another.
    AllToAll(Vec<(Vec<AxisRef>, i64, i64)>),
}
