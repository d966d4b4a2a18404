//! Prints a module in the style of XLA's HLO text, for reading.

use crate::attributes::Attributes;
use crate::dimensions::{ConvolutionDimensionNumbers, WindowDimension};
use crate::module::{Computation, ComputationId, HloModule, Instruction, InstructionId};
use crate::opcode::Opcode;
use crate::shape::{LayoutText, List, Shape};
use crate::{literal, sharding};
use std::fmt::{self, Display, Formatter};

/// Updates between a start and its done; more are printed in the long form.
const MAX_ASYNC_CHAIN: u32 = 64;

impl Display for HloModule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_header(f)?;
        for id in self.printing_order().into_iter().filter(|&id| !self.is_written_inline(id)) {
            f.write_str("\n")?;
            self.write_computation(f, id, self.computation(id))?;
        }
        Ok(())
    }
}

/// A shape without layouts.
struct Bare<'a>(&'a Shape);

impl Display for Bare<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.write(f, LayoutText::Hidden)
    }
}

/// Items joined by `, `, with their position every fifth.
fn numbered<T: Display>(f: &mut Formatter<'_>, items: impl Iterator<Item = T>) -> fmt::Result {
    for (i, item) in items.enumerate() {
        match i {
            0 => {}
            _ if i % 5 == 0 => write!(f, ", /*index={i}*/")?,
            _ => f.write_str(", ")?,
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl HloModule {
    /// Callees before callers, in the order in which the entry computation reaches them; unreached ones first.
    fn printing_order(&self) -> Vec<ComputationId> {
        let mut seen = vec![false; self.computations.len()];
        let mut reached = Vec::with_capacity(seen.len());
        let mut stack = vec![(self.entry, 0)];
        seen[self.entry.0 as usize] = true;
        let callees: Vec<Vec<ComputationId>> = (self.computations.iter())
            .map(|c| c.instructions.iter().flat_map(|&i| self.instruction(i).called.iter().copied()).collect())
            .collect();
        while let Some((id, next)) = stack.pop() {
            let Some(&callee) = callees[id.0 as usize].get(next) else {
                reached.push(id);
                continue;
            };
            stack.push((id, next + 1));
            if !std::mem::replace(&mut seen[callee.0 as usize], true) {
                stack.push((callee, 0));
            }
        }
        let unreached = self.computations().map(|c| c.0).filter(|c| !seen[c.0 as usize]);
        unreached.collect::<Vec<_>>().into_iter().chain(reached).collect()
    }

    fn write_header(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "HloModule {}", self.name)?;
        if self.is_scheduled {
            f.write_str(", is_scheduled=true")?;
        }
        if !self.aliases.is_empty() {
            f.write_str(", input_output_alias={ ")?;
            for (i, alias) in self.aliases.iter().enumerate() {
                let kind = if alias.must_alias { "must-alias" } else { "may-alias" };
                let comma = if i > 0 { ", " } else { "" };
                let (output, part) = (Indices(&alias.output_index), Indices(&alias.parameter_index));
                write!(f, "{comma}{output}: ({}, {part}, {kind})", alias.parameter)?;
            }
            f.write_str(" }")?;
        }
        if let Some((parameters, result)) = &self.entry_layout {
            f.write_str(", entry_computation_layout={(")?;
            numbered(f, parameters.iter())?;
            write!(f, ")->{result}}}")?;
        }
        if self.num_replicas > 1 {
            write!(f, ", replica_count={}", self.num_replicas)?;
        }
        if self.num_partitions > 1 {
            write!(f, ", num_partitions={}", self.num_partitions)?;
        }
        if !self.frontend_attributes.is_empty() {
            write!(f, ", frontend_attributes={}", Frontend(&self.frontend_attributes))?;
        }
        f.write_str("\n")?;
        self.write_frames(f)
    }

    fn write_frames(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let frames = &self.stack_frames;
        if frames.stack_frames.is_empty() {
            return Ok(());
        }
        for (title, names) in [("FileNames", &frames.file_names), ("FunctionNames", &frames.function_names)] {
            writeln!(f, "\n{title}")?;
            for (i, name) in names.iter().enumerate() {
                writeln!(f, "{} \"{}\"", i + 1, escape(name))?;
            }
        }
        writeln!(f, "\nFileLocations")?;
        for (i, l) in frames.file_locations.iter().enumerate() {
            writeln!(
                f,
                "{} {{file_name_id={} function_name_id={} line={} end_line={} column={} end_column={}}}",
                i + 1,
                l.file_name_id,
                l.function_name_id,
                l.line,
                l.end_line,
                l.column,
                l.end_column
            )?;
        }
        writeln!(f, "\nStackFrames")?;
        for (i, s) in frames.stack_frames.iter().enumerate() {
            // XLA prints the parent one higher than the message has it.
            let (location, parent) = (s.file_location_id, i64::from(s.parent_frame_id) + 1);
            writeln!(f, "{} {{file_location_id={location} parent_frame_id={parent}}}", i + 1)?;
        }
        f.write_str("\n")
    }

    fn write_computation(&self, f: &mut Formatter<'_>, id: ComputationId, computation: &Computation) -> fmt::Result {
        if id == self.entry {
            f.write_str("ENTRY ")?;
        }
        write!(f, "%{} (", computation.name)?;
        for (i, &parameter) in computation.parameters.iter().enumerate() {
            let parameter = self.instruction(parameter);
            write!(f, "{}{}: {}", if i > 0 { ", " } else { "" }, parameter.name, Bare(&parameter.shape))?;
        }
        writeln!(f, ") -> {} {{", Bare(&self.instruction(computation.root).shape))?;
        for &at in self.order(id) {
            let root = if at == computation.root { "ROOT " } else { "" };
            writeln!(f, "  {root}{}", self.line(self.instruction(at)))?;
        }
        match computation.execution_thread.as_str() {
            "" | "main" => writeln!(f, "}}"),
            thread => writeln!(f, "}}, execution_thread=\"{}\"", escape(thread)),
        }
    }

    /// The one operation that an asynchronous instruction runs, where its computation is nothing but that operation on
    /// the arguments. XLA writes such a pair as `slice-start` and `slice-done` and omits the computation.
    fn wrapped(&self, instruction: &Instruction) -> Option<&Instruction> {
        let mut start = instruction;
        // Followers lead back to the start through their first operand.
        for _ in 0..MAX_ASYNC_CHAIN {
            match start.opcode {
                Opcode::AsyncStart => break,
                Opcode::AsyncUpdate | Opcode::AsyncDone => start = self.instruction(*start.operands.first()?),
                _ => return None,
            }
        }
        let &[callee] = &*start.called else { return None };
        self.only_operation(callee)
    }

    fn only_operation(&self, id: ComputationId) -> Option<&Instruction> {
        let computation = self.computation(id);
        let root = self.instruction(computation.root);
        let is_alone = computation.instructions.len() == computation.parameters.len() + 1;
        (is_alone && *root.operands == *computation.parameters).then_some(root)
    }

    fn is_written_inline(&self, id: ComputationId) -> bool {
        let callers = &self.computation(id).callers;
        let is_async = |caller: &InstructionId| {
            matches!(self.instruction(*caller).opcode, Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone)
        };
        !callers.is_empty() && callers.iter().all(is_async) && self.only_operation(id).is_some()
    }

    /// One instruction of this module as a line of HLO text.
    pub fn line<'a>(&'a self, instruction: &'a Instruction) -> impl Display + 'a {
        Line { module: self, instruction }
    }
}

struct Line<'a> {
    module: &'a HloModule,
    instruction: &'a Instruction,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Line { module, instruction } = *self;
        let attributes = instruction.attributes();
        write!(f, "%{} = {} ", instruction.name, instruction.shape)?;
        let wrapped = module.wrapped(instruction);
        match (wrapped, &instruction.opcode) {
            (Some(inner), Opcode::AsyncStart) => write!(f, "{}-start(", inner.opcode)?,
            (Some(inner), Opcode::AsyncUpdate) => write!(f, "{}-update(", inner.opcode)?,
            (Some(inner), _) => write!(f, "{}-done(", inner.opcode)?,
            (None, opcode) => write!(f, "{opcode}(")?,
        }
        match instruction.opcode {
            Opcode::Parameter => write!(f, "{}", attributes.parameter_number.unwrap_or(0))?,
            Opcode::Constant => f.write_str(&literal::text(instruction))?,
            _ => numbered(f, instruction.operands.iter().map(|&o| format!("%{}", module.instruction(o).name)))?,
        }
        f.write_str(")")?;
        write_attributes(f, instruction, attributes)?;
        match wrapped {
            Some(inner) if instruction.opcode == Opcode::AsyncStart => {
                write_attributes(f, inner, inner.attributes())?;
                Line { module, instruction: inner }.write_called(f)?;
            }
            Some(_) => {}
            None => self.write_called(f)?,
        }
        if let Some(message) = &attributes.sharding {
            write!(f, ", sharding={}", sharding::text(message))?;
        }
        if !attributes.frontend_attributes.is_empty() {
            write!(f, ", frontend_attributes={}", Frontend(&attributes.frontend_attributes))?;
        }
        if !instruction.control_predecessors.is_empty() {
            let names = instruction.control_predecessors.iter().map(|&p| format!("%{}", module.instruction(p).name));
            write!(f, ", control-predecessors={{{}}}", names.collect::<Vec<_>>().join(", "))?;
        }
        self.write_metadata(f)?;
        match std::str::from_utf8(&instruction.backend_config) {
            Ok("") => Ok(()),
            Ok(config) if config.starts_with('{') => write!(f, ", backend_config={config}"),
            Ok(config) => write!(f, ", backend_config=\"{}\"", escape(config)),
            Err(_) => write!(f, ", backend_config=<{} bytes>", instruction.backend_config.len()),
        }
    }
}

impl Line<'_> {
    fn write_called(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |id: &ComputationId| format!("%{}", self.module.computation(*id).name);
        match (&self.instruction.opcode, &*self.instruction.called) {
            (_, []) => Ok(()),
            (Opcode::While, [body, condition]) => write!(f, ", condition={}, body={}", name(condition), name(body)),
            (Opcode::SelectAndScatter, [select, scatter]) => {
                write!(f, ", select={}, scatter={}", name(select), name(scatter))
            }
            (Opcode::Conditional, branches) => {
                let list = branches.iter().map(name).collect::<Vec<_>>().join(", ");
                write!(f, ", branch_computations={{{list}}}")
            }
            (Opcode::CustomCall, callees) => {
                let list = callees.iter().map(name).collect::<Vec<_>>().join(", ");
                write!(f, ", called_computations={{{list}}}")
            }
            (Opcode::Fusion | Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone, [callee]) => {
                write!(f, ", calls={}", name(callee))
            }
            (_, [callee]) => write!(f, ", to_apply={}", name(callee)),
            (_, callees) => write!(f, ", calls={{{}}}", callees.iter().map(name).collect::<Vec<_>>().join(", ")),
        }
    }

    fn write_metadata(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(metadata) = self.instruction.metadata() else { return Ok(()) };
        let mut parts = Vec::new();
        let text = |name: &str, value: &str| (!value.is_empty()).then(|| format!("{name}=\"{}\"", escape(value)));
        let number = |name: &str, value: u32| (value > 0).then(|| format!("{name}={value}"));
        parts.extend(text("op_type", &metadata.op_type));
        parts.extend(text("op_name", &metadata.op_name));
        parts.extend(text("source_file", &metadata.source_file));
        parts.extend(number("source_line", metadata.source_line));
        parts.extend(number("stack_frame_id", metadata.stack_frame_id));
        parts.extend(text("deduplicated_name", &metadata.deduplicated_name));
        parts.extend(text("scheduling_name", &metadata.scheduling_name));
        if parts.is_empty() { Ok(()) } else { write!(f, ", metadata={{{}}}", parts.join(" ")) }
    }
}

fn write_attributes(f: &mut Formatter<'_>, instruction: &Instruction, a: &Attributes) -> fmt::Result {
    use Opcode as O;
    let braces = |f: &mut Formatter<'_>, name: &str, list: &[i64]| write!(f, ", {name}={{{}}}", List(list));
    let opcode = &instruction.opcode;
    if let Some(channel) = a.channel_id {
        write!(f, ", channel_id={channel}")?;
    }
    if let Some(groups) = &a.replica_groups {
        write!(f, ", replica_groups={groups}")?;
    }
    if !a.source_target_pairs.is_empty() {
        let pairs: Vec<String> = a.source_target_pairs.iter().map(|(s, t)| format!("{{{s},{t}}}")).collect();
        write!(f, ", source_target_pairs={{{}}}", List(&pairs))?;
    }
    match opcode {
        O::Iota => write!(f, ", iota_dimension={}", a.dimensions.first().copied().unwrap_or(0))?,
        O::Broadcast | O::Transpose | O::Concatenate | O::Reduce | O::Reverse | O::Map | O::Sort => {
            braces(f, "dimensions", &a.dimensions)?;
        }
        _ if !a.dimensions.is_empty() => braces(f, "dimensions", &a.dimensions)?,
        _ => {}
    }
    if a.is_stable {
        f.write_str(", is_stable=true")?;
    }
    if a.use_global_device_ids {
        f.write_str(", use_global_device_ids=true")?;
    }
    if a.is_host_transfer {
        f.write_str(", is_host_transfer=true")?;
    }
    if !a.window.is_empty() {
        write!(f, ", window={}", Window(&a.window))?;
    }
    if let Some(numbers) = a.convolution.as_ref().filter(|_| *opcode == O::Convolution) {
        write!(f, ", dim_labels={}", DimLabels(numbers))?;
        for (name, count) in
            [("feature_group_count", a.feature_group_count), ("batch_group_count", a.batch_group_count)]
        {
            if count > 1 {
                write!(f, ", {name}={count}")?;
            }
        }
    }
    if let Some(dot) = &a.dot {
        for (name, list) in [
            ("lhs_batch_dims", &dot.lhs_batch_dimensions),
            ("lhs_contracting_dims", &dot.lhs_contracting_dimensions),
            ("rhs_batch_dims", &dot.rhs_batch_dimensions),
            ("rhs_contracting_dims", &dot.rhs_contracting_dimensions),
        ] {
            if !list.is_empty() {
                braces(f, name, list)?;
            }
        }
    }
    if a.operand_precision.iter().any(|&p| p != 0) {
        let names = a.operand_precision.iter().map(|&p| match p {
            0 => "default",
            1 => "high",
            _ => "highest",
        });
        write!(f, ", operand_precision={{{}}}", List(&names.collect::<Vec<_>>()))?;
    }
    if *opcode == O::Slice {
        let ranges: Vec<String> = (a.slice.iter())
            .map(|s| match s.stride {
                0 | 1 => format!("[{}:{}]", s.start, s.limit),
                stride => format!("[{}:{}:{stride}]", s.start, s.limit),
            })
            .collect();
        write!(f, ", slice={{{}}}", ranges.join(", "))?;
    }
    if *opcode == O::DynamicSlice {
        braces(f, "dynamic_slice_sizes", &a.dynamic_slice_sizes)?;
    }
    if !a.padding.is_empty() {
        let dims: Vec<String> = (a.padding.iter())
            .map(|p| match p.interior_padding {
                0 => format!("{}_{}", p.edge_padding_low, p.edge_padding_high),
                interior => format!("{}_{}_{interior}", p.edge_padding_low, p.edge_padding_high),
            })
            .collect();
        write!(f, ", padding={}", dims.join("x"))?;
    }
    write_indexing(f, a)?;
    if *opcode == O::ReducePrecision {
        write!(f, ", exponent_bits={}, mantissa_bits={}", a.exponent_bits, a.mantissa_bits)?;
    }
    if !a.comparison_direction.is_empty() {
        write!(f, ", direction={}", a.comparison_direction)?;
        if a.comparison_type == "TOTALORDER" {
            f.write_str(", type=TOTALORDER")?;
        }
    }
    if let Some(index) = a.tuple_index {
        write!(f, ", index={index}")?;
    }
    if let Some(index) = a.cross_program_prefetch_index {
        write!(f, ", cross_program_prefetch_index={index}")?;
    }
    if !a.fusion_kind.is_empty() {
        write!(f, ", kind={}", a.fusion_kind)?;
    }
    if !a.custom_call_target.is_empty() {
        write!(f, ", custom_call_target=\"{}\"", escape(&a.custom_call_target))?;
    }
    if !a.operand_shapes_with_layout.is_empty() {
        let shapes: Vec<String> = a.operand_shapes_with_layout.iter().map(Shape::to_string).collect();
        write!(f, ", operand_layout_constraints={{{}}}", shapes.join(", "))?;
    }
    if a.custom_call_has_side_effect {
        f.write_str(", custom_call_has_side_effect=true")?;
    }
    if !a.output_operand_aliasing.is_empty() {
        let pairs: Vec<String> = (a.output_operand_aliasing.iter())
            .map(|p| format!("{}: ({}, {})", Indices(&p.output_index), p.operand, Indices(&p.operand_index)))
            .collect();
        write!(f, ", output_to_operand_aliasing={{{}}}", pairs.join(", "))?;
    }
    if !matches!(a.async_execution_thread.as_str(), "" | "main") {
        write!(f, ", async_execution_thread=\"{}\"", escape(&a.async_execution_thread))?;
    }
    Ok(())
}

fn write_indexing(f: &mut Formatter<'_>, a: &Attributes) -> fmt::Result {
    let lists = |f: &mut Formatter<'_>, lists: &[(&str, &[i64])]| {
        lists.iter().try_for_each(|(name, list)| match list.is_empty() && name.contains("batching") {
            true => Ok(()),
            false => write!(f, ", {name}={{{}}}", List(list)),
        })
    };
    if let Some(g) = &a.gather {
        lists(
            f,
            &[
                ("offset_dims", &g.offset_dims),
                ("collapsed_slice_dims", &g.collapsed_slice_dims),
                ("start_index_map", &g.start_index_map),
                ("operand_batching_dims", &g.operand_batching_dims),
                ("start_indices_batching_dims", &g.start_indices_batching_dims),
            ],
        )?;
        write!(f, ", index_vector_dim={}, slice_sizes={{{}}}", g.index_vector_dim, List(&a.gather_slice_sizes))?;
    }
    if let Some(s) = &a.scatter {
        lists(
            f,
            &[
                ("update_window_dims", &s.update_window_dims),
                ("inserted_window_dims", &s.inserted_window_dims),
                ("scatter_dims_to_operand_dims", &s.scatter_dims_to_operand_dims),
                ("input_batching_dims", &s.input_batching_dims),
                ("scatter_indices_batching_dims", &s.scatter_indices_batching_dims),
            ],
        )?;
        write!(f, ", index_vector_dim={}", s.index_vector_dim)?;
    }
    if a.indices_are_sorted {
        f.write_str(", indices_are_sorted=true")?;
    }
    if a.unique_indices {
        f.write_str(", unique_indices=true")?;
    }
    Ok(())
}

/// A shape index: `{1, 2}`.
struct Indices<'a>(&'a [i64]);

impl Display for Indices<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.0.iter().map(i64::to_string).collect();
        write!(f, "{{{}}}", items.join(", "))
    }
}

struct Frontend<'a>(&'a [(String, String)]);

impl Display for Frontend<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match value.starts_with('{') {
                true => write!(f, "{comma}{name}={value}")?,
                false => write!(f, "{comma}{name}=\"{}\"", escape(value))?,
            }
        }
        f.write_str("}")
    }
}

struct Window<'a>(&'a [WindowDimension]);

impl Display for Window<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let join = |each: &dyn Fn(&WindowDimension) -> String| self.0.iter().map(each).collect::<Vec<_>>().join("x");
        let any = |differs: &dyn Fn(&WindowDimension) -> bool| self.0.iter().any(differs);
        write!(f, "{{size={}", join(&|d| d.size.to_string()))?;
        if any(&|d| d.stride > 1) {
            write!(f, " stride={}", join(&|d| d.stride.to_string()))?;
        }
        if any(&|d| d.padding_low != 0 || d.padding_high != 0) {
            write!(f, " pad={}", join(&|d| format!("{}_{}", d.padding_low, d.padding_high)))?;
        }
        if any(&|d| d.base_dilation > 1) {
            write!(f, " lhs_dilate={}", join(&|d| d.base_dilation.to_string()))?;
        }
        if any(&|d| d.window_dilation > 1) {
            write!(f, " rhs_dilate={}", join(&|d| d.window_dilation.to_string()))?;
        }
        if any(&|d| d.window_reversal) {
            write!(f, " rhs_reversal={}", join(&|d| u8::from(d.window_reversal).to_string()))?;
        }
        f.write_str("}")
    }
}

struct DimLabels<'a>(&'a ConvolutionDimensionNumbers);

impl Display for DimLabels<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let labels = |first: (i64, char), second: (i64, char), spatial: &[i64]| -> String {
            let rank = spatial.len().min(64) + 2;
            let mut out = vec!['?'; rank];
            let numbered = spatial.iter().take(10).enumerate().map(|(i, &d)| (d, char::from(b'0' + i as u8)));
            for (dimension, label) in [first, second].into_iter().chain(numbered) {
                if let Some(slot) = usize::try_from(dimension).ok().and_then(|d| out.get_mut(d)) {
                    *slot = label;
                }
            }
            out.into_iter().collect()
        };
        let input =
            labels((n.input_batch_dimension, 'b'), (n.input_feature_dimension, 'f'), &n.input_spatial_dimensions);
        let kernel = labels(
            (n.kernel_input_feature_dimension, 'i'),
            (n.kernel_output_feature_dimension, 'o'),
            &n.kernel_spatial_dimensions,
        );
        let output =
            labels((n.output_batch_dimension, 'b'), (n.output_feature_dimension, 'f'), &n.output_spatial_dimensions);
        write!(f, "{input}_{kernel}->{output}")
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\'' => out.push_str("\\'"),
            _ => out.push(c),
        }
    }
    out
}
