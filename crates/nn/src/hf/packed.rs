//! Quantized weights from files into the form that devices multiply with, never as a whole dense copy.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tensor::{DType, Literal};
use trace::{Spec, Tensor, Tree};
use weights::TensorRegion;
use weights::quant::{PackedMatrix, QuantizedFolder, QuantizedWeight, Storage};

use crate::error::Error;
use crate::hf::Family;
use crate::hf::device_form::{DeviceForm, LayerForm, StackedForms, segment_starts};
use crate::hf::layout::Layout;
use crate::hf::load::found;
use crate::hf::names::Naming;
use crate::quant::{ActivationQuant, BlockTensor, InputAxis, MapWeights, QuantScheme, QuantizedTensor, Weight, blocks};
use crate::stacked::{is_stacked, range_word, stack_of, without_range};

/// What became of a quantized weight.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedWeight {
    /// Its path in the model.
    pub path: String,
    /// How it is quantized on the device; `None` where it is dense.
    pub scheme: Option<QuantScheme>,
    /// Whether its values changed.
    pub change: WeightChange,
    /// Bits of a code in the files, each width once: several where layers that share a form here differ.
    pub file_bits: Vec<u32>,
}

/// What became of quantized weights, in lines: how many have each form, what was lost, into how many segments layers were cut, and
/// where layers of different widths share a form, which takes the bytes of the widest.
pub fn load_report(weights: &[LoadedWeight]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for weight in weights {
        let form = match (&weight.scheme, weight.change) {
            (Some(scheme), WeightChange::Exact | WeightChange::Dense) => format!("{scheme}, as in the files"),
            (Some(scheme), WeightChange::Requantized(_)) => {
                format!("{scheme}, codes of another type than in the files")
            }
            (None, _) => "no quantized form: dense".to_string(),
        };
        *counts.entry(form).or_default() += 1;
    }
    let mut lines: Vec<String> =
        counts.into_iter().map(|(form, count)| format!("{count} weights have {form}")).collect();
    let least = weights.iter().filter_map(|weight| match weight.change {
        WeightChange::Requantized(decibels) => Some((decibels, &weight.path)),
        _ => None,
    });
    if let Some((decibels, path)) = least.min_by(|one, other| one.0.total_cmp(&other.0)) {
        lines.push(format!("`{path}` lost most: its signal is {decibels:.1} dB over the noise"));
    }
    let mut segments: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for path in weights.iter().map(|weight| weight.path.as_str()) {
        if let (Cow::Owned(_), start) = without_range(path) {
            segments.entry(stack_of(path).unwrap_or(path)).or_default().insert(start);
        }
    }
    for (stack, starts) in segments {
        lines.push(format!(
            "quantized layers of `{stack}` are in {} segments of equal form, which run one after the other",
            starts.len()
        ));
    }
    for weight in weights.iter().filter(|weight| weight.file_bits.len() > 1) {
        let Some(scheme) = &weight.scheme else { continue };
        let widths: Vec<String> = weight.file_bits.iter().map(u32::to_string).collect();
        lines.push(format!(
            "`{}`: layers of {} bits in the files all take {}",
            weight.path,
            widths.join(" and "),
            scheme.values
        ));
    }
    lines
}

/// What a weight lost on its way from a file to a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightChange {
    /// Nothing: every element is what the file says.
    Exact,
    /// Codes of another type: this is the ratio of signal to noise in dB.
    Requantized(f64),
    /// It is dense, as its layers are quantized in ways that no form has.
    Dense,
}

/// The forms that weights of files take on a device, by their paths in a model: what is known of them by headers alone.
#[derive(Clone, Debug, Default)]
pub struct PackedForms {
    pub(super) plans: BTreeMap<String, PackedPlan>,
    /// Weights that are quantized in the files in ways that no form has.
    pub(super) dense: Vec<String>,
    /// At which layers stacks are cut.
    starts: BTreeMap<String, Vec<usize>>,
}

impl PackedForms {
    /// Those of the weights of a model, which is known by types and shapes and dense.
    pub fn of<P: Tree + MapWeights>(
        files: &QuantizedFolder,
        family: Family,
        model: &P,
        activations: ActivationQuant,
    ) -> Result<PackedForms, Error> {
        PackedForms::with_blocks(files, family, model, activations, FileBlocks::Unpacked)
    }

    /// The same, with blocks of files as they are where a device can multiply with them.
    pub(super) fn with_blocks<P: Tree + MapWeights>(
        files: &QuantizedFolder,
        family: Family,
        model: &P,
        activations: ActivationQuant,
        blocks: FileBlocks,
    ) -> Result<PackedForms, Error> {
        let naming = Naming::in_files(files, family, model);
        let (mut all, mut failed) = (BTreeMap::new(), None);
        let _ = model.map_weights(|path, weight, input_axis| {
            if let (Weight::Dense(dense), None) = (weight, &failed) {
                let reading = Reading { files, family, naming: &naming, activations, blocks };
                match WeightFiles::of(&reading, path, dense.spec(), input_axis) {
                    Ok(found) => all.extend(found.map(|found| (path.to_string(), found))),
                    Err(error) => failed = Some(error),
                }
            }
            weight.clone()
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(PackedForms::of_files(&all)),
        }
    }

    fn of_files(all: &BTreeMap<String, WeightFiles>) -> PackedForms {
        let mut stacks: BTreeMap<&str, Vec<StackedForms<'_>>> = BTreeMap::new();
        for (path, weight) in all {
            if let Some(stack) = whole_stack(path) {
                stacks.entry(stack).or_default().push(weight.stacked());
            }
        }
        let starts =
            stacks.into_iter().map(|(stack, weights)| (stack.to_string(), segment_starts(&weights, MOST_SEGMENTS)));
        let mut forms = PackedForms { starts: starts.collect(), ..PackedForms::default() };
        for (path, weight) in all {
            let stack = whole_stack(path);
            let starts = stack.and_then(|stack| forms.starts.get(stack)).map_or(&[][..], Vec::as_slice);
            let ends = starts.iter().copied().chain([weight.layers.len()]);
            let ranges: Vec<Range<usize>> =
                std::iter::once(0).chain(starts.iter().copied()).zip(ends).map(|(start, end)| start..end).collect();
            for range in &ranges {
                let path = match stack.filter(|_| ranges.len() > 1) {
                    Some(stack) => format!("{stack}.{}{}", range_word(range), &path[stack.len()..]),
                    None => path.clone(),
                };
                let form = LayerForm::of_all(weight.layers.get(range.clone()).unwrap_or_default());
                match form.packed {
                    Some(packed) => {
                        forms.plans.insert(path, weight.plan(range, packed, &form.file_bits));
                    }
                    None if form.is_dequantized => forms.dense.push(path),
                    None => {}
                }
            }
        }
        forms
    }

    /// Whether no weight is quantized.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// A model with zeros of these forms in place of its weights, and stacks in segments where layers differ.
    #[track_caller]
    pub fn shapes<P: MapWeights>(&self, model: &P) -> P {
        let model = model.in_segments(|stack| self.starts.get(stack).cloned().unwrap_or_default());
        model.map_weights(|path, weight, _| match self.plans.get(path) {
            Some(plan) => plan.shape(),
            None => weight.clone(),
        })
    }
}

/// What becomes of blocks that llama.cpp's files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileBlocks {
    /// Codes, scales and zero points apart: any device multiplies with them.
    Unpacked,
    /// As they are, where there is a kernel for their format: for the CPU device, and without a mesh.
    Kept,
}

/// Where weights are read from, and how.
#[derive(Clone, Copy)]
struct Reading<'a> {
    files: &'a QuantizedFolder,
    family: Family,
    naming: &'a Naming,
    activations: ActivationQuant,
    blocks: FileBlocks,
}

/// Segments that a stack may be cut into: each is compiled on its own.
const MOST_SEGMENTS: usize = 32;

/// The path of the stack that a weight is in, if that may be cut: one whose layers are in segments already may not.
fn whole_stack(path: &str) -> Option<&str> {
    let is_whole = matches!(without_range(path), (Cow::Borrowed(_), _));
    stack_of(path).filter(|_| is_whole && is_stacked(path))
}

/// One of our weights in the files.
#[derive(Clone, Debug)]
struct WeightFiles {
    /// Layers and experts, one after the other.
    names: Vec<String>,
    /// What each layer becomes; a weight that is in no stack is one layer.
    layers: Vec<LayerForm>,
    /// Ours, dense.
    spec: Spec,
    input_axis: InputAxis,
}

impl WeightFiles {
    /// `None` of a weight that is not there.
    fn of(reading: &Reading<'_>, path: &str, spec: &Spec, input_axis: InputAxis) -> Result<Option<WeightFiles>, Error> {
        let Reading { files, family, naming, activations, blocks } = *reading;
        let Some(origin) = naming.origin(path) else { return Ok(None) };
        let names: Option<Vec<String>> =
            origin.names(path, &spec.dims).iter().map(|name| found(files, family, name)).collect();
        let Some(names) = names.filter(|names| !names.is_empty()) else { return Ok(None) };
        let count = match spec.dims.first() {
            Some(&layers) if is_stacked(path) && origin.is_layered() => layers.clamp(1, names.len()),
            _ => 1,
        };
        let has_layout = matches!(
            (origin.layout, input_axis),
            (Layout::Transposed, InputAxis::First) | (Layout::Same, InputAxis::Last)
        );
        let mut layers = Vec::with_capacity(count);
        for of_layer in names.chunks(names.len() / count) {
            let mut forms = Vec::with_capacity(of_layer.len());
            for name in of_layer {
                let spec = files.spec(name)?;
                forms.push(match (spec.storage, spec.dims.as_slice()) {
                    (Storage::Dense(_), _) => LayerForm::default(),
                    (Storage::Packed(packed), [_, inputs]) if has_layout => {
                        // Experts are multiplied with all at once, and codes of activations with codes.
                        let is_kept =
                            blocks == FileBlocks::Kept && !origin.has_experts() && activations == ActivationQuant::None;
                        let kept = files.block_format(name).filter(|_| is_kept);
                        let form = DeviceForm::of(&packed, *inputs, activations);
                        LayerForm::packed(DeviceForm { blocks: kept, ..form }, packed.bits)
                    }
                    _ => LayerForm::dequantized(),
                });
            }
            layers.push(LayerForm::of_all(&forms));
        }
        Ok(Some(WeightFiles { names, layers, spec: spec.clone(), input_axis }))
    }

    fn stacked(&self) -> StackedForms<'_> {
        let elements = self.spec.dims.iter().skip(1).product();
        StackedForms { elements, dense: self.spec.dtype, layers: &self.layers }
    }

    /// Some of the layers in a form that has room for all of them.
    fn plan(&self, layers: &Range<usize>, form: DeviceForm, file_bits: &BTreeSet<u32>) -> PackedPlan {
        let each = self.names.len() / self.layers.len().max(1);
        let names = self.names.get(layers.start * each..layers.end * each).unwrap_or_default().to_vec();
        let mut dims = self.spec.dims.clone();
        if let Some(first) = dims.first_mut().filter(|_| self.layers.len() > 1) {
            *first = layers.len();
        }
        PackedPlan { names, dims, input_axis: self.input_axis, form, file_bits: file_bits.iter().copied().collect() }
    }
}

/// Layers of one of our weights that are quantized, in one form.
#[derive(Clone, Debug)]
pub(super) struct PackedPlan {
    /// Layers and experts, one after the other.
    pub(super) names: Vec<String>,
    /// Axes of ours.
    dims: Vec<usize>,
    input_axis: InputAxis,
    form: DeviceForm,
    /// Widths of codes in the files, the narrowest first.
    file_bits: Vec<u32>,
}

impl PackedPlan {
    /// The weight known by its shape.
    #[track_caller]
    fn shape(&self) -> Weight {
        match (self.form.blocks, self.blocks_dims()) {
            (Some(format), Some(dims)) => {
                Weight::Blocks(BlockTensor::new(Tensor::zeros(DType::U8, &dims), format, self.input_axis))
            }
            _ => Weight::Quantized(self.quantized_shape()),
        }
    }

    /// The axes of its blocks, where the file's rows are as long as ours.
    fn blocks_dims(&self) -> Option<Vec<usize>> {
        let row = self.form.blocks?.row_bytes(self.form.inputs)?;
        let (layers, matrix) = self.dims.split_at_checked(self.dims.len().checked_sub(2)?)?;
        let (outputs, inputs) = match (self.input_axis, matrix) {
            (InputAxis::First, [inputs, outputs]) | (InputAxis::Last, [outputs, inputs]) => (*outputs, *inputs),
            _ => return None,
        };
        (inputs == self.form.inputs).then(|| [layers, &[outputs, row]].concat())
    }

    fn quantized_shape(&self) -> QuantizedTensor {
        let shape = QuantizedTensor::of_shape(&self.dims, &self.form.scheme(), self.input_axis);
        let zero_points = self.form.zero_points.map(|dtype| Tensor::zeros(dtype, shape.scales.dims()));
        let order = [&self.dims[..self.dims.len().saturating_sub(2)], &[self.form.inputs]].concat();
        let input_order = self.form.has_order.then(|| Tensor::zeros(DType::I32, &order));
        QuantizedTensor { zero_points, input_order, ..shape }
    }

    /// The layers that a region of one of its leaves has; all of them without a region, or where it is not stacked.
    pub(super) fn layers(&self, region: Option<&TensorRegion>) -> Range<usize> {
        match (self.dims.as_slice(), region.map(|region| (region.start.as_slice(), region.size.as_slice()))) {
            ([_, _, _, ..], Some(([start, ..], [size, ..]))) => *start..start.saturating_add(*size),
            ([count, _, _, ..], _) => 0..*count,
            _ => 0..0,
        }
    }

    /// The plan of some of its layers; all of it where it is not stacked.
    pub(super) fn of_layers(&self, layers: &Range<usize>) -> Option<PackedPlan> {
        let [count, _, _, ..] = self.dims[..] else { return Some(self.clone()) };
        let each = self.names.len().checked_div(count)?;
        let names = self.names.get(layers.start.checked_mul(each)?..layers.end.checked_mul(each)?)?.to_vec();
        let mut dims = self.dims.clone();
        dims[0] = layers.len();
        Some(PackedPlan { names, dims, ..self.clone() })
    }

    /// Reads the parts, under their paths, and says what became of the weight.
    pub(super) fn read(
        &self,
        files: &QuantizedFolder,
        path: &str,
        parts: &mut BTreeMap<String, Literal>,
    ) -> Result<LoadedWeight, Error> {
        let (scheme, file_bits) = (Some(self.form.scheme()), self.file_bits.clone());
        if let Some(dims) = self.blocks_dims() {
            let mut bytes = Vec::new();
            for name in &self.names {
                let own = files.read_blocks(name)?;
                if bytes.is_empty() {
                    bytes = own;
                    // Only a hint: layers may turn out to be of other sizes.
                    let _ = bytes.try_reserve_exact(bytes.len().saturating_mul(self.names.len().saturating_sub(1)));
                } else {
                    bytes.extend(own);
                }
            }
            let path_of_part = format!("{path}.{}", blocks::PART);
            let literal = Literal::new(DType::U8, dims, bytes)
                .ok_or_else(|| Error::config(format!("`{path_of_part}` has another size than its files say")))?;
            parts.insert(path_of_part, literal);
            return Ok(LoadedWeight { path: path.to_string(), scheme, change: WeightChange::Exact, file_bits });
        }
        let mut all = DeviceParts::default();
        let (mut signal, mut noise) = (0.0, 0.0);
        for name in &self.names {
            let QuantizedWeight::Packed(matrix) = files.read(name)? else {
                return Err(Error::config(format!(
                    "`{name}` is quantized by its description, but its tensors are not"
                )));
            };
            let is_exact = matrix.levels().is_none();
            let one = DeviceParts::of(&matrix, &self.form, self.input_axis)?;
            if !is_exact {
                let (own_signal, own_noise) = one.noise(&matrix, &self.form, self.input_axis)?;
                (signal, noise) = (signal + own_signal, noise + own_noise);
            }
            all.append(one);
            all.input_scales.push(matrix.input_scale());
        }
        let shape = trace::shapes_of(&(), |()| self.quantized_shape())?;
        let mut put = |part: &str, like: &Tensor, bytes: Vec<u8>| {
            let literal = Literal::new(like.dtype(), like.dims().to_vec(), bytes)
                .ok_or_else(|| Error::config(format!("`{path}.{part}` has another size than its files say")))?;
            parts.insert(format!("{path}.{part}"), literal);
            Ok::<(), Error>(())
        };
        put("values", &shape.values, all.values)?;
        put("scales", &shape.scales, tensor::float_bytes(&all.scales))?;
        if let Some(zero_points) = &shape.zero_points {
            let bytes = match zero_points.dtype() {
                DType::F32 => tensor::float_bytes(&all.zero_points),
                _ => all.zero_points.iter().map(|value| *value as i8 as u8).collect(),
            };
            put("zero_points", zero_points, bytes)?;
        }
        if let Some(scale) = &shape.input_scale {
            let scales = all.input_scales.iter().copied().collect::<Option<Vec<f32>>>();
            let scales =
                scales.ok_or_else(|| Error::config(format!("`{path}` has no input_scale in all of its layers")))?;
            put("input_scale", scale, tensor::float_bytes(&scales))?;
        }
        if let Some(order) = &shape.input_order {
            put("input_order", order, all.order.iter().flat_map(|input| (*input as i32).to_le_bytes()).collect())?;
        }
        let change = match noise {
            0.0 => WeightChange::Exact,
            _ => WeightChange::Requantized(10.0 * (signal / noise).log10()),
        };
        Ok(LoadedWeight { path: path.to_string(), scheme, change, file_bits })
    }
}

/// Parts of a weight in the order of a device.
#[derive(Default)]
struct DeviceParts {
    values: Vec<u8>,
    scales: Vec<f32>,
    zero_points: Vec<f32>,
    order: Vec<u32>,
    /// Of each matrix, where there is one.
    input_scales: Vec<Option<f32>>,
}

/// Twice the values of `f4E2M1FN`, which are integers.
const TWICE_F4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The code of the largest level of a table.
const LARGEST_LEVEL_CODE: f32 = 127.0;

impl DeviceParts {
    fn of(matrix: &PackedMatrix, form: &DeviceForm, input_axis: InputAxis) -> Result<DeviceParts, Error> {
        let ordered = matrix.by_input_group()?;
        let (matrix, order) = match &ordered {
            Some((matrix, order)) => (matrix, order.clone()),
            None => (matrix, (0..form.inputs as u32).collect()),
        };
        let (mut codes, factor) = match (matrix.levels(), matrix.spec().dtype) {
            (Some(levels), _) => {
                let table = levels.map(|level| (level * LARGEST_LEVEL_CODE).round() as i8 as u8);
                (through(matrix.codes(), &table), 1.0 / LARGEST_LEVEL_CODE)
            }
            (None, DType::F4E2M1FN) => (through(matrix.codes(), &TWICE_F4.map(|value| value as u8)), 0.5),
            (None, _) => (matrix.codes().to_vec(), 1.0),
        };
        let (outputs, inputs) = (matrix.out_features(), form.inputs);
        let groups = inputs / form.group.max(1);
        let (block, (_, across)) = (matrix.block(), matrix.blocks());
        let mut scales = Vec::with_capacity(outputs * groups);
        let mut zero_points = Vec::with_capacity(if form.zero_points.is_some() { outputs * groups } else { 0 });
        for output in 0..outputs {
            for group in 0..groups {
                let at = output / block.out_features.max(1) * across + group * form.group / block.in_features.max(1);
                let value = |list: &[f32]| list.get(at).copied().unwrap_or(0.0);
                let minimum = matrix.minima().map_or(0.0, value);
                let zero_point = matrix.zero_points().and_then(|list| list.get(at)).map_or(0.0, |z| f32::from(*z));
                // A group without a scale is its minimum, whatever its codes are: they become 0, and so the scale is any.
                let scale = match value(matrix.scales()) * factor {
                    0.0 if minimum != 0.0 => {
                        let first = output * inputs + group * form.group;
                        codes.iter_mut().skip(first).take(form.group).for_each(|code| *code = 0);
                        minimum.abs()
                    }
                    scale => scale,
                };
                scales.push(scale);
                if form.zero_points.is_some() {
                    zero_points.push(zero_point + if minimum == 0.0 { 0.0 } else { minimum / scale });
                }
            }
        }
        Ok(match input_axis {
            InputAxis::Last => DeviceParts { values: codes, scales, zero_points, order, input_scales: Vec::new() },
            InputAxis::First => DeviceParts {
                values: tensor::transpose_matrices(&codes, outputs, inputs, 1),
                scales: tensor::transpose_floats(&scales, outputs, groups),
                zero_points: if zero_points.is_empty() {
                    zero_points
                } else {
                    tensor::transpose_floats(&zero_points, outputs, groups)
                },
                order,
                input_scales: Vec::new(),
            },
        })
    }

    fn append(&mut self, other: DeviceParts) {
        self.values.extend(other.values);
        self.scales.extend(other.scales);
        self.zero_points.extend(other.zero_points);
        self.order.extend(other.order);
    }

    /// Squares of the first rows of a matrix, and of what they are off by. Only codes of one byte are asked about.
    fn noise(&self, matrix: &PackedMatrix, form: &DeviceForm, input_axis: InputAxis) -> Result<(f64, f64), Error> {
        let (outputs, inputs) = (matrix.out_features(), matrix.in_features());
        let groups = inputs / form.group.max(1);
        let (mut signal, mut noise) = (0.0, 0.0);
        let mut row = vec![0.0; inputs];
        for output in 0..outputs.min(NOISE_ROWS) {
            matrix.dequantize_row(output, &mut row)?;
            for (input, exact) in row.iter().enumerate() {
                let group = input / form.group.max(1);
                let (at, scale) = match input_axis {
                    InputAxis::First => (input * outputs + output, group * outputs + output),
                    InputAxis::Last => (output * inputs + input, output * groups + group),
                };
                let code = self.values.get(at).map_or(0.0, |code| f32::from(*code as i8));
                let own = code * self.scales.get(scale).copied().unwrap_or(0.0);
                signal += f64::from(*exact) * f64::from(*exact);
                noise += f64::from(exact - own) * f64::from(exact - own);
            }
        }
        Ok((signal, noise))
    }
}

/// Rows whose error stands for that of a matrix.
const NOISE_ROWS: usize = 64;

fn through(codes: &[u8], table: &[u8; 16]) -> Vec<u8> {
    codes.iter().map(|code| table[usize::from(code & 15)]).collect()
}
