//! Attributes of the Shardy dialect, written.

use super::emitter::{Emitter, Flag};
use super::tables::{Encoding, Tables};
use crate::bytecode::sdy::code;
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};

impl Tables {
    fn sdy(&mut self, code: u64, rest: impl FnOnce(&mut Emitter)) -> u64 {
        let mut out = Emitter::default();
        out.varint(code);
        rest(&mut out);
        self.attr_entry("sdy", Encoding::Custom, out.finish())
    }

    pub(super) fn sdy_attr(&mut self, attr: &SdyAttr) -> u64 {
        match attr {
            SdyAttr::Mesh(mesh) => self.sdy_mesh(mesh),
            SdyAttr::Sharding(sharding) => self.sdy_sharding(sharding),
            SdyAttr::ShardingPerValue(shardings) => {
                let is_unreduced = shardings.iter().any(|sharding| !sharding.unreduced.is_empty());
                let parts: Vec<u64> = shardings.iter().map(|sharding| self.sdy_sharding(sharding)).collect();
                let code = if is_unreduced { code::SHARDING_PER_VALUE_UNREDUCED } else { code::SHARDING_PER_VALUE };
                self.sdy(code, |out| out.indices(&parts))
            }
            SdyAttr::ManualAxes(axes) => {
                let axes: Vec<u64> = axes.iter().map(|axis| self.builtin_string(axis)).collect();
                self.sdy(code::MANUAL_AXES, |out| out.indices(&axes))
            }
            SdyAttr::AxisList(axes) => self.sdy_axis_list(axes),
            SdyAttr::AxisLists(lists) => {
                let lists: Vec<u64> = lists.iter().map(|axes| self.sdy_axis_list(axes)).collect();
                self.sdy(code::AXIS_LISTS, |out| out.indices(&lists))
            }
            SdyAttr::AllToAll(params) => {
                let mut indices = Vec::with_capacity(params.len());
                for (axes, from_dim, to_dim) in params {
                    let axes = self.sdy_axes(axes);
                    indices.push(self.sdy(code::ALL_TO_ALL_PARAM, |out| {
                        out.indices(&axes);
                        out.signed(*from_dim);
                        out.signed(*to_dim);
                    }));
                }
                self.sdy(code::ALL_TO_ALL_PARAMS, |out| out.indices(&indices))
            }
        }
    }

    fn sdy_axis_list(&mut self, axes: &[AxisRef]) -> u64 {
        let axes = self.sdy_axes(axes);
        self.sdy(code::AXIS_LIST, |out| out.indices(&axes))
    }

    pub(super) fn sdy_mesh(&mut self, mesh: &MeshAttr) -> u64 {
        let mut axes = Vec::with_capacity(mesh.axes.len());
        for (name, size) in &mesh.axes {
            let name = self.string(name);
            axes.push(self.sdy(code::MESH_AXIS, |out| {
                out.varint(name);
                out.signed(*size);
            }));
        }
        self.sdy(code::MESH, |out| {
            out.indices(&axes);
            out.signed_list(&mesh.device_ids);
        })
    }

    fn sdy_sharding(&mut self, sharding: &TensorSharding) -> u64 {
        let mesh = match &sharding.mesh {
            MeshRef::Symbol(name) => self.symbol(name),
            MeshRef::Inline(mesh) => self.sdy_mesh(mesh),
        };
        let dims: Vec<u64> = sharding.dims.iter().map(|dim| self.sdy_dimension(dim)).collect();
        let replicated = self.sdy_axes(&sharding.replicated);
        let unreduced = self.sdy_axes(&sharding.unreduced);
        let code = if unreduced.is_empty() { code::SHARDING } else { code::SHARDING_UNREDUCED };
        self.sdy(code, |out| {
            out.varint(mesh);
            out.indices(&dims);
            out.indices(&replicated);
            if !unreduced.is_empty() {
                out.indices(&unreduced);
            }
        })
    }

    fn sdy_dimension(&mut self, dim: &DimensionSharding) -> u64 {
        let axes = self.sdy_axes(&dim.axes);
        self.sdy(code::DIMENSION_SHARDING, |out| {
            out.indices(&axes);
            out.byte(u8::from(dim.is_closed));
            out.flagged(dim.priority.map_or(0, |priority| priority as u64), Flag::from(dim.priority.is_some()));
        })
    }

    fn sdy_axes(&mut self, axes: &[AxisRef]) -> Vec<u64> {
        let mut indices = Vec::with_capacity(axes.len());
        for axis in axes {
            let name = self.string(&axis.name);
            let sub_axis = axis.sub_axis.map(|(pre_size, size)| {
                self.sdy(code::SUB_AXIS_INFO, |out| {
                    out.signed(pre_size);
                    out.signed(size);
                })
            });
            indices.push(self.sdy(code::AXIS_REF, |out| {
                out.varint(name);
                out.optional(sub_axis);
            }));
        }
        indices
    }
}
