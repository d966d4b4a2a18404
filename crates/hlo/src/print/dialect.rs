//! Printing of StableHLO, CHLO and Shardy attributes.

use std::fmt::Write;

use tensor::DType;

use crate::ir::dims::{AxisRef, ConvDims, DotAlgorithm, DotDims, ResultAccuracy};
use crate::ir::sdy::{MeshAttr, MeshRef, SdyAttr, TensorSharding};
use crate::ir::{Attr, DYNAMIC, Real};
use crate::print::attr::{Dialect, NumberType, write_attr_as, write_integers};
use crate::print::float::write_float;
use crate::print::name::{write_string, write_symbol};
use crate::print::ty::write_element;

/// Appends an attribute of a dialect.
pub(super) fn write_dialect_attr(out: &mut String, attr: &Attr, dialect: Dialect) {
    match attr {
        Attr::Keyword(keyword) => {
            let (name, mnemonic, word) = (dialect.name(), keyword.set().mnemonic(), keyword.word());
            if mnemonic == "result_accuracy_mode" {
                let _ = write!(out, "#{name}.{mnemonic}<{word}>");
            } else {
                let _ = write!(out, "#{name}<{mnemonic} {word}>");
            }
        }
        Attr::Dot(dims) => Fields::open(out, "#stablehlo.dot<").dot(dims).close(),
        Attr::RaggedDot(dims) => Fields::open(out, "#chlo.ragged_dot<")
            .dot(&dims.dot)
            .dims("lhs_ragged_dimensions", &dims.lhs_ragged)
            .dims("rhs_group_dimensions", &dims.rhs_group)
            .close(),
        Attr::Gather(d) => Fields::open(out, "#stablehlo.gather<")
            .dims("offset_dims", &d.offset_dims)
            .dims("collapsed_slice_dims", &d.collapsed_slice_dims)
            .dims("operand_batching_dims", &d.operand_batching_dims)
            .dims("start_indices_batching_dims", &d.start_indices_batching_dims)
            .dims("start_index_map", &d.start_index_map)
            .number("index_vector_dim", d.index_vector_dim)
            .close(),
        Attr::Scatter(d) => Fields::open(out, "#stablehlo.scatter<")
            .dims("update_window_dims", &d.update_window_dims)
            .dims("inserted_window_dims", &d.inserted_window_dims)
            .dims("input_batching_dims", &d.input_batching_dims)
            .dims("scatter_indices_batching_dims", &d.scatter_indices_batching_dims)
            .dims("scatter_dims_to_operand_dims", &d.scatter_dims_to_operand_dims)
            .number("index_vector_dim", d.index_vector_dim)
            .close(),
        Attr::Conv(dims) => {
            out.push_str("#stablehlo.conv<");
            if !write_conv(out, dims) {
                write_raw_conv(out, dims);
            }
            out.push('>');
        }
        Attr::DotAlgorithm(algorithm) => {
            out.push_str("#stablehlo.dot_algorithm");
            write_dot_algorithm(out, algorithm);
        }
        Attr::Channel(channel) => {
            let _ = write!(out, "#stablehlo.channel_handle<handle = {}, type = {}>", channel.handle, channel.kind);
        }
        Attr::OutputAlias(alias) => {
            out.push_str("#stablehlo.output_operand_alias<output_tuple_indices = ");
            write_integers(out, &alias.output_tuple_indices);
            let _ = write!(out, ", operand_index = {}, operand_tuple_indices = ", alias.operand_index);
            write_integers(out, &alias.operand_tuple_indices);
            out.push('>');
        }
        Attr::ResultAccuracy(accuracy) => write_accuracy(out, accuracy, dialect),
        Attr::Bounds(bounds) => {
            out.push_str("#stablehlo.bounds<");
            for (i, &bound) in bounds.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                let _ = if bound == DYNAMIC { write!(out, "?") } else { write!(out, "{bound}") };
            }
            out.push('>');
        }
        Attr::MeshAxes(groups) => {
            out.push_str("#stablehlo.replica_group_mesh_axes<mesh = ");
            write_attr_as(out, &groups.mesh, dialect, NumberType::Shown);
            out.push_str(", axes = [");
            for (i, axis) in groups.axes.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str("#stablehlo.axis_ref<name = ");
                write_string(out, axis.name.as_bytes());
                if let Some((before, size)) = axis.sub_axis {
                    let _ = write!(out, ", sub_axis_info = ({before}){size}");
                }
                out.push('>');
            }
            out.push_str("]>");
        }
        Attr::Mesh(mesh) => {
            out.push_str("#stablehlo.mesh<axes=[");
            for (i, (name, size)) in mesh.axes.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str("<name = ");
                write_string(out, name.as_bytes());
                let _ = write!(out, ", size = {size}>");
            }
            out.push(']');
            if let Some(ids) = &mesh.device_ids {
                out.push_str(", device_ids=");
                write_attr_as(out, ids, dialect, NumberType::Shown);
            }
            out.push('>');
        }
        Attr::Sdy(sdy) => write_sdy(out, sdy),
        _ => {}
    }
}

/// Writes `name = value` fields, leaving out empty lists and zeros as MLIR does.
struct Fields<'o> {
    out: &'o mut String,
    first: bool,
}

impl<'o> Fields<'o> {
    fn open(out: &'o mut String, start: &str) -> Self {
        out.push_str(start);
        Fields { out, first: true }
    }

    fn name(&mut self, name: &str) {
        self.out.push_str(if self.first { "" } else { ", " });
        self.out.push_str(name);
        self.out.push_str(" = ");
        self.first = false;
    }

    fn dims(mut self, name: &str, values: &[i64]) -> Self {
        if !values.is_empty() {
            self.name(name);
            write_integers(self.out, values);
        }
        self
    }

    fn number(mut self, name: &str, value: i64) -> Self {
        if value != 0 {
            self.name(name);
            let _ = write!(self.out, "{value}");
        }
        self
    }

    fn dot(self, dims: &DotDims) -> Self {
        self.dims("lhs_batching_dimensions", &dims.lhs_batching)
            .dims("rhs_batching_dimensions", &dims.rhs_batching)
            .dims("lhs_contracting_dimensions", &dims.lhs_contracting)
            .dims("rhs_contracting_dimensions", &dims.rhs_contracting)
    }

    fn close(self) {
        self.out.push('>');
    }
}

/// Appends `[b, 0, f]x[0, i, o]->[b, 0, f]`; writes nothing and says so if the numbers are not a permutation.
pub(crate) fn write_conv(out: &mut String, d: &ConvDims) -> bool {
    let input = side(d.input_batch, d.input_feature, &d.input_spatial, ['b', 'f']);
    let kernel = side(d.kernel_input_feature, d.kernel_output_feature, &d.kernel_spatial, ['i', 'o']);
    let output = side(d.output_batch, d.output_feature, &d.output_spatial, ['b', 'f']);
    match (input, kernel, output) {
        (Some(input), Some(kernel), Some(output)) => {
            let _ = write!(out, "{input}x{kernel}->{output}");
            true
        }
        _ => false,
    }
}

fn side(first: i64, second: i64, spatial: &[i64], names: [char; 2]) -> Option<String> {
    let mut slots: Vec<Option<String>> = vec![None; spatial.len() + 2];
    let mut put = |at: i64, text: String| {
        let slot = slots.get_mut(usize::try_from(at).ok()?)?;
        slot.replace(text).is_none().then_some(())
    };
    put(first, names[0].into())?;
    put(second, names[1].into())?;
    for (i, &at) in spatial.iter().enumerate() {
        put(at, i.to_string())?;
    }
    let words: Option<Vec<String>> = slots.into_iter().collect();
    Some(format!("[{}]", words?.join(", ")))
}

fn write_raw_conv(out: &mut String, d: &ConvDims) {
    let _ = write!(
        out,
        "raw input_batch_dimension = {}, input_feature_dimension = {}, input_spatial_dimensions = {:?}, \
         kernel_input_feature_dimension = {}, kernel_output_feature_dimension = {}, kernel_spatial_dimensions = {:?}, \
         output_batch_dimension = {}, output_feature_dimension = {}, output_spatial_dimensions = {:?}",
        d.input_batch,
        d.input_feature,
        d.input_spatial,
        d.kernel_input_feature,
        d.kernel_output_feature,
        d.kernel_spatial,
        d.output_batch,
        d.output_feature,
        d.output_spatial
    );
}

/// Appends `<lhs_precision_type = tf32, …>`.
pub(crate) fn write_dot_algorithm(out: &mut String, a: &DotAlgorithm) {
    out.push_str("<lhs_precision_type = ");
    write_element(out, &a.lhs_precision_type);
    out.push_str(", rhs_precision_type = ");
    write_element(out, &a.rhs_precision_type);
    out.push_str(", accumulation_type = ");
    write_element(out, &a.accumulation_type);
    let _ = write!(
        out,
        ", lhs_component_count = {}, rhs_component_count = {}, num_primitive_operations = {}, \
         allow_imprecise_accumulation = {}>",
        a.lhs_component_count, a.rhs_component_count, a.num_primitive_operations, a.allow_imprecise_accumulation
    );
}

fn write_accuracy(out: &mut String, accuracy: &ResultAccuracy, dialect: Dialect) {
    let _ = write!(out, "#{}.result_accuracy<", dialect.name());
    let tolerance = |out: &mut String, name: &str, value: Real| {
        if value.get() != 0.0 {
            let _ = write!(out, "{name} = ");
            write_float(out, DType::F64, value.get().to_bits());
            out.push_str(", ");
        }
    };
    tolerance(out, "atol", accuracy.atol);
    tolerance(out, "rtol", accuracy.rtol);
    if accuracy.ulps != 0 {
        let _ = write!(out, "ulps = {}, ", accuracy.ulps);
    }
    out.push_str("mode = ");
    write_dialect_attr(out, &Attr::Keyword(accuracy.mode), dialect);
    out.push('>');
}

fn write_sdy(out: &mut String, attr: &SdyAttr) {
    match attr {
        SdyAttr::Mesh(mesh) => {
            out.push_str("#sdy.mesh");
            write_mesh(out, mesh);
        }
        SdyAttr::Sharding(sharding) => {
            out.push_str("#sdy.sharding");
            write_sharding(out, sharding);
        }
        SdyAttr::ShardingPerValue(shardings) => {
            out.push_str("#sdy.sharding_per_value<");
            write_shardings(out, shardings);
            out.push('>');
        }
        SdyAttr::ManualAxes(_) => {
            out.push_str("#sdy<manual_axes");
            write_short_sdy(out, attr);
            out.push('>');
        }
        SdyAttr::AxisLists(_) => {
            out.push_str("#sdy<list_of_axis_ref_lists");
            write_short_sdy(out, attr);
            out.push('>');
        }
        SdyAttr::AxisList(_) => {
            out.push_str("#sdy<axis_ref_list");
            write_short_sdy(out, attr);
            out.push('>');
        }
        SdyAttr::AllToAll(_) => {
            out.push_str("#sdy<all_to_all_param_list");
            write_short_sdy(out, attr);
            out.push('>');
        }
    }
}

/// Appends a Shardy attribute as pretty op forms show it, without its name.
pub(crate) fn write_short_sdy(out: &mut String, attr: &SdyAttr) {
    match attr {
        SdyAttr::Mesh(mesh) => write_mesh(out, mesh),
        SdyAttr::Sharding(sharding) => write_sharding(out, sharding),
        SdyAttr::ShardingPerValue(shardings) => write_shardings(out, shardings),
        SdyAttr::ManualAxes(axes) => {
            let axes: Vec<AxisRef> = axes.iter().map(|name| AxisRef { name: name.clone(), sub_axis: None }).collect();
            write_axes(out, &axes);
        }
        SdyAttr::AxisLists(lists) => {
            out.push('[');
            for (i, axes) in lists.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_axes(out, axes);
            }
            out.push(']');
        }
        SdyAttr::AxisList(axes) => write_axes(out, axes),
        SdyAttr::AllToAll(params) => {
            out.push('[');
            for (i, (axes, source, target)) in params.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_axes(out, axes);
                let _ = write!(out, ": {source}->{target}");
            }
            out.push(']');
        }
    }
}

/// Appends `<["x"=2], device_ids=[…]>`.
pub(crate) fn write_mesh(out: &mut String, mesh: &MeshAttr) {
    out.push_str("<[");
    for (i, (name, size)) in mesh.axes.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write_string(out, name.as_bytes());
        let _ = write!(out, "={size}");
    }
    out.push(']');
    if !mesh.device_ids.is_empty() {
        out.push_str(", device_ids=");
        write_integers(out, &mesh.device_ids);
    }
    out.push('>');
}

fn write_shardings(out: &mut String, shardings: &[TensorSharding]) {
    out.push('[');
    for (i, sharding) in shardings.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write_sharding(out, sharding);
    }
    out.push(']');
}

fn write_sharding(out: &mut String, sharding: &TensorSharding) {
    out.push('<');
    match &sharding.mesh {
        MeshRef::Symbol(name) => write_symbol(out, name),
        MeshRef::Inline(mesh) => {
            out.push_str("mesh");
            write_mesh(out, mesh);
        }
    }
    out.push_str(", [");
    for (i, dim) in sharding.dims.iter().enumerate() {
        out.push_str(if i > 0 { ", {" } else { "{" });
        write_axis_names(out, &dim.axes);
        if !dim.is_closed {
            out.push_str(if dim.axes.is_empty() { "?" } else { ", ?" });
        }
        out.push('}');
        if let Some(priority) = dim.priority {
            let _ = write!(out, "p{priority}");
        }
    }
    out.push(']');
    for (name, axes) in [("replicated", &sharding.replicated), ("unreduced", &sharding.unreduced)] {
        if !axes.is_empty() {
            let _ = write!(out, ", {name}=");
            write_axes(out, axes);
        }
    }
    out.push('>');
}

fn write_axes(out: &mut String, axes: &[AxisRef]) {
    out.push('{');
    write_axis_names(out, axes);
    out.push('}');
}

fn write_axis_names(out: &mut String, axes: &[AxisRef]) {
    for (i, axis) in axes.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write_string(out, axis.name.as_bytes());
        if let Some((before, size)) = axis.sub_axis {
            let _ = write!(out, ":({before}){size}");
        }
    }
}
