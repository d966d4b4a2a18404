//! Quantized weights from files into the form that devices multiply with, never as a whole dense copy.

use std::collections::{BTreeMap, BTreeSet};

use tensor::{DType, Literal};
use trace::{Tensor, Tree};
use weights::quant::{PackedMatrix, PackedSpec, QuantizedFolder, QuantizedWeight, Storage};

use crate::error::Error;
use crate::hf::Family;
use crate::hf::load::found;
use crate::hf::names::{Layout, Naming};
use crate::quant::{ActivationQuant, InputAxis, MapWeights, QuantScheme, QuantizedTensor, Weight, ZeroPoints};

/// What became of a quantized weight.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedWeight {
    /// Its path in the model.
    pub path: String,
    /// How it is quantized on the device; `None` where it is dense.
    pub scheme: Option<QuantScheme>,
    /// Whether its values changed.
    pub change: WeightChange,
    /// Bits of a code in the files, each width once: several where layers that are stacked here differ.
    pub file_bits: Vec<u32>,
}

/// What became of quantized weights, in lines: how many have each form, what was lost, and where stacked layers of different
/// widths take the bytes of the widest.
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
    for weight in weights.iter().filter(|weight| weight.file_bits.len() > 1) {
        let (Some(scheme), Some(widest)) = (&weight.scheme, weight.file_bits.last()) else { continue };
        let widths: Vec<String> = weight.file_bits.iter().map(u32::to_string).collect();
        lines.push(format!(
            "`{}`: stacked layers of {} bits all take {} (the widest has {widest}): the file's bytes are saved, not HBM",
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
}

impl PackedForms {
    /// Those of the weights of a model, which is known by types and shapes and dense.
    pub fn of<P: Tree + MapWeights>(
        files: &QuantizedFolder,
        family: Family,
        model: &P,
        activations: ActivationQuant,
    ) -> Result<PackedForms, Error> {
        let naming = Naming::of(family, model);
        let (mut forms, mut failed) = (PackedForms::default(), None);
        let _ = model.map_weights(|path, weight, input_axis| {
            if let (Weight::Dense(dense), None) = (weight, &failed) {
                match PackedPlan::of(files, family, &naming, path, dense.dims(), input_axis, activations) {
                    Ok(Planned::Dense) => {}
                    Ok(Planned::Dequantized) => forms.dense.push(path.to_string()),
                    Ok(Planned::Packed(plan)) => {
                        forms.plans.insert(path.to_string(), plan);
                    }
                    Err(error) => failed = Some(error),
                }
            }
            weight.clone()
        });
        failed.map_or(Ok(forms), Err)
    }

    /// Whether no weight is quantized.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// A model with zeros of these forms in place of its weights.
    #[track_caller]
    pub fn shapes<P: MapWeights>(&self, model: &P) -> P {
        model.map_weights(|path, weight, _| match self.plans.get(path) {
            Some(plan) => Weight::Quantized(plan.shape()),
            None => weight.clone(),
        })
    }
}

/// How a weight is brought to a device.
enum Planned {
    /// It is dense in the files.
    Dense,
    /// It is quantized in the files in ways that no form has.
    Dequantized,
    Packed(PackedPlan),
}

/// One of our weights that is quantized.
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

/// What a device is given.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DeviceForm {
    dtype: DType,
    inputs: usize,
    group: usize,
    /// Type of zero points.
    zero_points: Option<DType>,
    has_order: bool,
    activations: ActivationQuant,
}

impl DeviceForm {
    fn of(spec: &PackedSpec, inputs: usize) -> DeviceForm {
        let dtype = if spec.has_levels || spec.dtype == DType::F4E2M1FN { DType::I8 } else { spec.dtype };
        let zero_points = match (spec.has_minima, spec.has_zero_points) {
            (true, _) => Some(DType::F32),
            (false, true) => Some(DType::I8),
            (false, false) => None,
        };
        let group = common_divisor(spec.block.in_features.min(inputs), inputs);
        DeviceForm {
            dtype,
            inputs,
            group,
            zero_points,
            has_order: spec.has_input_groups,
            activations: ActivationQuant::None,
        }
    }

    /// The form that has room for both; `None` where there is none.
    fn with(self, other: DeviceForm) -> Option<DeviceForm> {
        let dtype = match (self.dtype, other.dtype) {
            (one, two) if one == two => one,
            (one, two) if [one, two].iter().all(|dtype| dtype.is_integer() && *dtype != DType::U8) => DType::I8,
            _ => return None,
        };
        let zero_points = match (self.zero_points, other.zero_points) {
            (Some(DType::F32), _) | (_, Some(DType::F32)) => Some(DType::F32),
            (one, two) => one.or(two),
        };
        Some(DeviceForm {
            dtype,
            inputs: self.inputs,
            group: common_divisor(self.group, other.group),
            zero_points,
            has_order: self.has_order || other.has_order,
            activations: self.activations,
        })
    }

    fn scheme(&self) -> QuantScheme {
        QuantScheme {
            values: self.dtype,
            group: Some(self.group).filter(|group| *group < self.inputs),
            zero_points: if self.zero_points.is_some() { ZeroPoints::PerGroup } else { ZeroPoints::None },
            activations: self.activations,
        }
    }
}

impl PackedPlan {
    fn of(
        files: &QuantizedFolder,
        family: Family,
        naming: &Naming,
        path: &str,
        dims: &[usize],
        input_axis: InputAxis,
        activations: ActivationQuant,
    ) -> Result<Planned, Error> {
        let Some(origin) = naming.origin(path) else { return Ok(Planned::Dense) };
        let names = origin.names(path, dims);
        let mut form: Option<DeviceForm> = None;
        let (mut is_dense, mut is_packed, mut has_form) = (false, false, true);
        let (mut own, mut widths) = (Vec::with_capacity(names.len()), BTreeSet::new());
        for name in &names {
            let Some(name) = found(files, family, name) else { return Ok(Planned::Dense) };
            match files.spec(&name)? {
                spec if !matches!(spec.storage, Storage::Packed(_)) => {
                    is_dense |= matches!(spec.storage, Storage::Dense(_));
                    has_form &= matches!(spec.storage, Storage::Dense(_));
                    is_packed |= !matches!(spec.storage, Storage::Dense(_));
                }
                spec => {
                    let (Storage::Packed(packed), [_, inputs]) = (spec.storage, spec.dims.as_slice()) else {
                        return Ok(Planned::Dequantized);
                    };
                    is_packed = true;
                    widths.insert(packed.bits);
                    let next = DeviceForm { activations, ..DeviceForm::of(&packed, *inputs) };
                    let together = form.map_or(Some(next), |form| form.with(next));
                    has_form &= together.is_some();
                    form = together.or(form);
                }
            }
            own.push(name);
        }
        let has_layout = matches!(
            (origin.layout, input_axis),
            (Layout::Transposed, InputAxis::First) | (Layout::Same, InputAxis::Last)
        );
        Ok(match form {
            Some(form) if has_form && has_layout && !is_dense => {
                let file_bits = widths.into_iter().collect();
                Planned::Packed(PackedPlan { names: own, dims: dims.to_vec(), input_axis, form, file_bits })
            }
            _ if is_packed => Planned::Dequantized,
            _ => Planned::Dense,
        })
    }

    /// The weight known by its shape.
    fn shape(&self) -> QuantizedTensor {
        let shape = QuantizedTensor::of_shape(&self.dims, &self.form.scheme(), self.input_axis);
        let zero_points = self.form.zero_points.map(|dtype| Tensor::zeros(dtype, shape.scales.dims()));
        let order = [&self.dims[..self.dims.len().saturating_sub(2)], &[self.form.inputs]].concat();
        let input_order = self.form.has_order.then(|| Tensor::zeros(DType::I32, &order));
        QuantizedTensor { zero_points, input_order, ..shape }
    }

    /// Reads the parts, under their paths, and says what became of the weight.
    pub(super) fn read(
        &self,
        files: &QuantizedFolder,
        path: &str,
        parts: &mut BTreeMap<String, Literal>,
    ) -> Result<LoadedWeight, Error> {
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
        let shape = trace::shapes_of(&(), |()| self.shape())?;
        let mut put = |part: &str, like: &Tensor, bytes: Vec<u8>| {
            let literal = Literal::new(like.dtype(), like.dims().to_vec(), bytes)
                .ok_or_else(|| Error::config(format!("`{path}.{part}` has another size than its files say")))?;
            parts.insert(format!("{path}.{part}"), literal);
            Ok::<(), Error>(())
        };
        put("values", &shape.values, all.values)?;
        put("scales", &shape.scales, bytes_of(&all.scales))?;
        if let Some(zero_points) = &shape.zero_points {
            let bytes = match zero_points.dtype() {
                DType::F32 => bytes_of(&all.zero_points),
                _ => all.zero_points.iter().map(|value| *value as i8 as u8).collect(),
            };
            put("zero_points", zero_points, bytes)?;
        }
        if let Some(scale) = &shape.input_scale {
            let scales = all.input_scales.iter().copied().collect::<Option<Vec<f32>>>();
            let scales =
                scales.ok_or_else(|| Error::config(format!("`{path}` has no input_scale in all of its layers")))?;
            put("input_scale", scale, bytes_of(&scales))?;
        }
        if let Some(order) = &shape.input_order {
            put("input_order", order, all.order.iter().flat_map(|input| (*input as i32).to_le_bytes()).collect())?;
        }
        let change = match noise {
            0.0 => WeightChange::Exact,
            _ => WeightChange::Requantized(10.0 * (signal / noise).log10()),
        };
        let (scheme, file_bits) = (Some(self.form.scheme()), self.file_bits.clone());
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
                values: turned(&codes, outputs, inputs),
                scales: turned(&scales, outputs, groups),
                zero_points: if zero_points.is_empty() { zero_points } else { turned(&zero_points, outputs, groups) },
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

/// `[rows, columns]` with its axes exchanged, in tiles that stay in the cache.
fn turned<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    const TILE: usize = 64;
    let mut out = vec![T::default(); values.len()];
    for first_row in (0..rows).step_by(TILE) {
        for first_column in (0..columns).step_by(TILE) {
            for row in first_row..(first_row + TILE).min(rows) {
                for column in first_column..(first_column + TILE).min(columns) {
                    if let (Some(to), Some(from)) =
                        (out.get_mut(column * rows + row), values.get(row * columns + column))
                    {
                        *to = *from;
                    }
                }
            }
        }
    }
    out
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}
