//! Checkpoints of compressed-tensors (LLM Compressor, vLLM): integers, fp8, packed integers, nvfp4 and the mx formats.

use serde_json::Value;
use tensor::{DType, Literal};

use crate::folder::SafeTensorsFolder;
use crate::quant::bits::{Packing, words};
use crate::quant::format::{
    Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec, group_block, wrong_shape,
};
use crate::quant::matrix::{PackedMatrix, PackedSpec, ScaleBlock, ScaleEncoding, signed_type};
use crate::quant::microscaling::{nibbles, powers_of_two, sixes};
use crate::quant::refusal::Refusal;
use crate::quant::settings::{Settings, wrong};
use crate::quant::targets::Targets;
use crate::quant::write::ScaleStrategy;

const SCALES: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// Parts beside the codes; what else a module has (`k_scale`, `v_scale`) is not of its weight.
const PARTS: &[&str] = &[
    "weight_scale",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
    "weight_global_scale",
    "input_scale",
    "input_zero_point",
    "input_global_scale",
    "output_scale",
    "output_zero_point",
];

/// How codes lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One value of the type each.
    Naive,
    /// Integers in 32-bit words.
    Packed,
    Nvfp4,
    Mxfp4,
    Mxfp6,
    Mxfp8,
}

const LAYOUTS: &[(&str, Layout)] = &[
    ("naive-quantized", Layout::Naive),
    ("int-quantized", Layout::Naive),
    ("float-quantized", Layout::Naive),
    ("pack-quantized", Layout::Packed),
    ("nvfp4-pack-quantized", Layout::Nvfp4),
    ("mxfp4-pack-quantized", Layout::Mxfp4),
    ("mxfp6-pack-quantized", Layout::Mxfp6),
    ("mxfp8-quantized", Layout::Mxfp8),
];

/// How the weights of a group of modules are quantized.
#[derive(Clone, Debug)]
struct Scheme {
    targets: Targets,
    layout: Layout,
    bits: u32,
    is_float: bool,
    is_symmetric: bool,
    strategy: ScaleStrategy,
    has_static_inputs: bool,
}

/// The settings of a model.
#[derive(Clone, Debug)]
pub(crate) struct CompressedTensors {
    schemes: Vec<Scheme>,
}

impl CompressedTensors {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<CompressedTensors, Refusal> {
        if let Some(sparsity) = settings.object("sparsity_config")? {
            let format = Settings(sparsity).text("format")?.unwrap_or("dense");
            if format != "dense" {
                let message = format!("weights are sparse (sparsity_config.format `{format}`)");
                return Err(Refusal::new(message, "take the model without sparsity"));
            }
        }
        let format = settings.text("format")?.unwrap_or("dense");
        let groups = settings.object("config_groups")?.ok_or_else(|| {
            Refusal::new("`config_groups` is missing", "take the configuration that the tool wrote beside the weights")
        })?;
        let mut schemes = Vec::new();
        for (name, group) in groups {
            let group = group.as_object().map(Settings).ok_or_else(|| wrong(name, group, "an object"))?;
            let scheme = scheme(group, format)
                .map_err(|refusal| Refusal::new(format!("config_groups.{name}: {}", refusal.message), refusal.help))?;
            schemes.extend(scheme);
        }
        Ok(CompressedTensors { schemes })
    }

    /// The scheme that means a module most exactly; of several the first.
    fn scheme(&self, module: &str) -> Result<&Scheme, Refusal> {
        let mut best = None;
        for scheme in &self.schemes {
            if let Some(found) = scheme.targets.matches(module)
                && best.is_none_or(|(known, _)| found > known)
            {
                best = Some((found, scheme));
            }
        }
        best.map(|(_, scheme)| scheme).ok_or_else(|| {
            Refusal::new(
                "it is quantized, but no group of config_groups has it as a target",
                "add it to the targets of one",
            )
        })
    }
}

/// A scheme of `config_groups`; `None` where only activations are quantized.
fn scheme(group: Settings<'_>, format: &str) -> Result<Option<Scheme>, Refusal> {
    let Some(weights) = group.object("weights")?.map(Settings) else { return Ok(None) };
    let format = group.text("format")?.unwrap_or(format);
    let layout = LAYOUTS.iter().find(|(known, _)| *known == format).map(|(_, layout)| *layout).ok_or_else(|| {
        let known: Vec<&str> = LAYOUTS.iter().map(|(name, _)| *name).collect();
        Refusal::new(
            format!("format `{format}` is not read; {} are", known.join(", ")),
            "save the model again with one of these formats",
        )
    })?;
    let is_float = match weights.text("type")?.unwrap_or("int") {
        "int" => false,
        "float" => true,
        other => return Err(wrong("type", &other.into(), "int or float")),
    };
    let bits: &[u32] = match (layout, is_float) {
        (Layout::Naive, false) => &[2, 3, 4, 5, 6, 7, 8],
        (Layout::Packed, false) => &[1, 2, 3, 4, 5, 6, 7, 8],
        (Layout::Naive | Layout::Mxfp8, true) => &[8],
        (Layout::Nvfp4 | Layout::Mxfp4, true) => &[4],
        (Layout::Mxfp6, true) => &[6],
        (Layout::Packed, true) | (_, false) => {
            let kind = if is_float { "floats" } else { "integers" };
            return Err(Refusal::damaged(format!("format `{format}` has no {kind}")));
        }
    };
    let bits = weights.bits("num_bits", bits)?;
    let is_symmetric = weights.flag("symmetric")?.unwrap_or(true);
    if is_float && !is_symmetric {
        let message = "floats with zero points (symmetric = false) are not read";
        return Err(Refusal::new(message, "quantize to floats symmetrically"));
    }
    let strategy = strategy(weights)?;
    let expected = match layout {
        Layout::Nvfp4 => Some(16),
        Layout::Mxfp4 | Layout::Mxfp6 | Layout::Mxfp8 => Some(32),
        Layout::Naive | Layout::Packed => None,
    };
    if let Some(size) = expected
        && strategy != ScaleStrategy::Group(size)
    {
        return Err(Refusal::damaged(format!("format `{format}` has groups of {size}, not {strategy:?}")));
    }
    let inputs = group.object("input_activations")?.map(Settings);
    let has_static_inputs = inputs.is_some_and(|inputs| inputs.get("dynamic") == Some(&Value::Bool(false)))
        && !matches!(layout, Layout::Nvfp4 | Layout::Mxfp4 | Layout::Mxfp6 | Layout::Mxfp8);
    let targets = Targets::parse(&group.texts("targets")?)?;
    Ok(Some(Scheme { targets, layout, bits, is_float, is_symmetric, strategy, has_static_inputs }))
}

fn strategy(weights: Settings<'_>) -> Result<ScaleStrategy, Refusal> {
    let group_size = weights.group_size("group_size")?;
    let is_channel = weights.has("group_size") && group_size.is_none();
    let inferred = match group_size {
        Some(_) => "group",
        None if is_channel => "channel",
        None => "tensor",
    };
    match weights.text("strategy")?.unwrap_or(inferred) {
        "tensor" => Ok(ScaleStrategy::Tensor),
        "channel" => Ok(ScaleStrategy::Channel),
        "group" | "tensor_group" => {
            let missing = || Refusal::damaged("the strategy has groups, but `group_size` is missing");
            Ok(ScaleStrategy::Group(group_size.ok_or_else(missing)?))
        }
        "block" => {
            let structure = weights.get("block_structure");
            let sizes: Vec<usize> = match structure {
                Some(Value::Array(sizes)) => {
                    sizes.iter().filter_map(|size| usize::try_from(size.as_u64()?).ok()).collect()
                }
                Some(Value::String(text)) => text.split('x').filter_map(|size| size.parse().ok()).collect(),
                _ => Vec::new(),
            };
            match sizes[..] {
                [rows, columns] if rows > 0 && columns > 0 => Ok(ScaleStrategy::ScaleBlock(rows, columns)),
                _ => Err(wrong("block_structure", structure.unwrap_or(&Value::Null), "two sizes such as [128, 128]")),
            }
        }
        other => Err(Refusal::new(
            format!("strategy `{other}` is not one of weights"),
            "quantize weights by tensor, channel, group or block",
        )),
    }
}

impl Format for CompressedTensors {
    fn describe(&self) -> String {
        let one = |scheme: &Scheme| {
            let kind = match scheme.layout {
                Layout::Nvfp4 => "nvfp4",
                Layout::Mxfp4 => "mxfp4",
                Layout::Mxfp6 => "mxfp6",
                Layout::Mxfp8 => "mxfp8",
                Layout::Naive | Layout::Packed if scheme.is_float => "fp",
                Layout::Naive | Layout::Packed => "int",
            };
            let bits = if matches!(scheme.layout, Layout::Naive | Layout::Packed) {
                scheme.bits.to_string()
            } else {
                String::new()
            };
            match scheme.strategy {
                ScaleStrategy::Tensor => format!("{kind}{bits} by tensor"),
                ScaleStrategy::Channel => format!("{kind}{bits} by channel"),
                ScaleStrategy::Group(size) => format!("{kind}{bits} by groups of {size}"),
                ScaleStrategy::ScaleBlock(rows, columns) => format!("{kind}{bits} by blocks of {rows}x{columns}"),
            }
        };
        let mut schemes: Vec<String> = self.schemes.iter().map(one).collect();
        schemes.dedup();
        format!("compressed-tensors, {}", schemes.join(" and "))
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        let mut modules = Module::all_with(files, "weight_packed", PARTS);
        for (name, entry) in files.entries() {
            let Some(module) = name.strip_suffix(".weight") else { continue };
            let is_code = matches!(entry.dtype, DType::I8 | DType::U8 | DType::F8E4M3FN | DType::F8E5M2);
            if is_code || files.entry(&format!("{module}.weight_scale")).is_some() {
                modules.push(Module::of(files, module, "weight", PARTS));
            }
        }
        Ok(modules)
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let scheme = self.scheme(&parts.module.module)?;
        let shape = Shape::of(scheme, parts)?;
        Ok(WeightSpec { dims: vec![shape.out_features, shape.in_features], storage: Storage::Packed(shape.spec) })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let scheme = self.scheme(&parts.module.module)?;
        let matrix = Shape::of(scheme, parts)?.read(scheme, parts)?;
        Ok(QuantizedWeight::Packed(matrix.checked()?.without_zero_scales()?))
    }
}

/// A matrix as its description has it.
struct Shape {
    out_features: usize,
    in_features: usize,
    spec: PackedSpec,
    packing: Packing,
    input_groups: Option<Vec<u32>>,
}

impl Shape {
    fn of(scheme: &Scheme, parts: &Parts<'_>) -> Result<Shape, Failure> {
        let mut packing = Packing::Dense;
        let bytes_of = |parts: &Parts<'_>, values: usize, bytes: usize| {
            let (_, rows, width) = parts.matrix("weight_packed", &[DType::U8])?;
            let columns = width.checked_mul(values).filter(|all| all.is_multiple_of(bytes)).map(|all| all / bytes);
            let columns =
                columns.ok_or_else(|| Refusal::damaged(format!("its `weight_packed` has {width} columns")))?;
            Ok::<_, Refusal>((rows, columns))
        };
        let (out_features, in_features, dtype) = match scheme.layout {
            Layout::Naive if !scheme.is_float => {
                let (_, rows, columns) = parts.matrix("weight", &[DType::I8])?;
                (rows, columns, signed_type(scheme.bits).unwrap_or(DType::I8))
            }
            Layout::Naive | Layout::Mxfp8 => {
                let (dtype, rows, columns) = parts.matrix("weight", &[DType::F8E4M3FN, DType::F8E5M2])?;
                (rows, columns, dtype)
            }
            Layout::Packed => {
                let (_, rows, width) = parts.matrix("weight_packed", &[DType::I32])?;
                let shape = parts.integers("weight_shape")?;
                let sizes: Vec<usize> = shape.iter().filter_map(|size| usize::try_from(*size).ok()).collect();
                let columns = match sizes[..] {
                    [first, columns] if first == rows => columns,
                    _ => {
                        return Err(Refusal::damaged(format!("its `weight_shape` is {shape:?} for {rows} rows")).into());
                    }
                };
                let fits = |packing: &Packing| packing.words(columns, scheme.bits) == Some(width);
                packing = [Packing::Dense, Packing::ByWord].into_iter().find(fits).ok_or_else(|| {
                    Refusal::damaged(format!("{columns} values of {} bits do not fill {width} words", scheme.bits))
                })?;
                (rows, columns, signed_type(scheme.bits).unwrap_or(DType::I8))
            }
            Layout::Nvfp4 | Layout::Mxfp4 => {
                let (rows, columns) = bytes_of(parts, 2, 1)?;
                (rows, columns, DType::F4E2M1FN)
            }
            Layout::Mxfp6 => {
                let (rows, columns) = bytes_of(parts, 4, 3)?;
                (rows, columns, DType::F6E2M3FN)
            }
        };
        if out_features == 0 || in_features == 0 {
            return Err(Refusal::damaged(format!("it has the shape [{out_features}, {in_features}]")).into());
        }
        let block = match scheme.strategy {
            ScaleStrategy::Tensor => ScaleBlock { out_features, in_features },
            ScaleStrategy::Channel => ScaleBlock { out_features: 1, in_features },
            ScaleStrategy::Group(size) => group_block(Some(size), in_features)?,
            ScaleStrategy::ScaleBlock(rows, columns) => {
                ScaleBlock { out_features: rows.min(out_features), in_features: columns.min(in_features) }
            }
        };
        let input_groups = match scheme.strategy {
            ScaleStrategy::Group(size) => parts.input_groups("weight_g_idx", in_features, size)?,
            _ => None,
        };
        let dense = match scheme.layout {
            Layout::Naive | Layout::Packed => {
                let entry = parts.entry("weight_scale")?;
                if !SCALES.contains(&entry.dtype) {
                    return Err(Refusal::damaged(format!("its `weight_scale` has the type {}", entry.dtype)).into());
                }
                entry.dtype
            }
            // The tool unpacks these to bf16.
            Layout::Nvfp4 | Layout::Mxfp4 | Layout::Mxfp6 | Layout::Mxfp8 => DType::BF16,
        };
        let spec = PackedSpec {
            dtype,
            bits: scheme.bits,
            block,
            has_levels: false,
            has_zero_points: !scheme.is_symmetric,
            has_minima: false,
            has_input_groups: input_groups.is_some(),
            dense,
        };
        Ok(Shape { out_features, in_features, spec, packing, input_groups })
    }

    fn read(self, scheme: &Scheme, parts: &Parts<'_>) -> Result<PackedMatrix, Failure> {
        let Shape { out_features, in_features, spec, packing, input_groups } = self;
        let dims = [out_features, in_features];
        let codes = match scheme.layout {
            Layout::Naive if !scheme.is_float => parts.read("weight", &[DType::I8], &dims)?.into_bytes(),
            Layout::Naive | Layout::Mxfp8 => parts.read("weight", &[spec.dtype], &dims)?.into_bytes(),
            Layout::Packed => {
                let width = packing.words(in_features, scheme.bits).unwrap_or(0);
                let packed = parts.read("weight_packed", &[DType::I32], &[out_features, width])?;
                unpacked(&packed, packing, scheme.bits, in_features)?
            }
            Layout::Nvfp4 | Layout::Mxfp4 => {
                nibbles(parts.read("weight_packed", &[DType::U8], &[out_features, in_features / 2])?.bytes())
            }
            Layout::Mxfp6 => {
                sixes(parts.read("weight_packed", &[DType::U8], &[out_features, in_features / 4 * 3])?.bytes())
            }
        };
        let mut matrix =
            PackedMatrix::bare(out_features, in_features, spec.dtype, spec.bits, codes, spec.block, Vec::new());
        let (row_blocks, groups) = matrix.blocks();
        let count = row_blocks * groups;
        matrix.scales = match scheme.layout {
            Layout::Naive | Layout::Packed => parts.floats("weight_scale", count)?,
            Layout::Nvfp4 => {
                let scales = parts.read("weight_scale", &[DType::F8E4M3FN], &[row_blocks, groups])?;
                let scales = crate::quant::format::floats(scales)?;
                let global = parts.floats("weight_global_scale", 1)?[0];
                if !(global.is_finite() && global > 0.0) {
                    return Err(Refusal::damaged(format!("its `weight_global_scale` is {global}")).into());
                }
                matrix.scale_encoding = ScaleEncoding::Fp8Over(global);
                scales.into_iter().map(|scale| scale / global).collect()
            }
            Layout::Mxfp4 | Layout::Mxfp6 | Layout::Mxfp8 => {
                let types = [DType::U8, DType::F8E8M0FNU];
                matrix.scale_encoding = ScaleEncoding::PowersOfTwo;
                powers_of_two(parts.read("weight_scale", &types, &[row_blocks, groups])?.bytes())?
            }
        };
        let zero_points = zero_points(scheme, parts, packing, &matrix)?;
        if scheme.is_symmetric && zero_points.iter().flatten().any(|zero| *zero != 0) {
            let message = "symmetric is true, but it has zero points that are not 0";
            return Err(
                Refusal::new(message, "set symmetric to false in config_groups, or quantize the model again").into()
            );
        }
        matrix.zero_points = if scheme.is_symmetric { None } else { zero_points };
        matrix.input_groups = input_groups;
        matrix.dense = spec.dense;
        if scheme.has_static_inputs && parts.has("input_scale") {
            matrix.input_scale = Some(parts.floats("input_scale", 1)?[0]);
        }
        Ok(matrix)
    }
}

/// Zero points as the scales of a matrix lie, where there are any.
fn zero_points(
    scheme: &Scheme,
    parts: &Parts<'_>,
    packing: Packing,
    matrix: &PackedMatrix,
) -> Result<Option<Vec<i8>>, Failure> {
    const PART: &str = "weight_zero_point";
    if !parts.has(PART) || scheme.is_float {
        if !scheme.is_symmetric {
            parts.entry(PART)?;
        }
        return Ok(None);
    }
    let (row_blocks, groups) = matrix.blocks();
    let entry = parts.entry(PART)?;
    // By words along the outputs, or one each.
    if scheme.layout == Layout::Packed && entry.dtype == DType::I32 {
        let words_each = packing.words(row_blocks, scheme.bits).unwrap_or(0);
        let packed = words(parts.read(PART, &[DType::I32], &[words_each, groups])?.bytes());
        let middle = 1u8 << (scheme.bits - 1);
        let one = |row: usize, group: usize| {
            let word = |number: usize| packed.get(number * groups + group).copied().unwrap_or(0);
            packing.value(word, row, scheme.bits).wrapping_sub(middle) as i8
        };
        return Ok(Some((0..row_blocks).flat_map(|row| (0..groups).map(move |group| one(row, group))).collect()));
    }
    let size = entry.dims.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
    if size != Some(row_blocks * groups) {
        return Err(wrong_shape(PART, &entry.dims, &[row_blocks, groups]).into());
    }
    let dims = entry.dims.clone();
    let zeros = parts.read(PART, &[DType::I8], &dims)?;
    Ok(Some(zeros.bytes().iter().map(|zero| *zero as i8).collect()))
}

/// Signed codes out of words that lie by row.
fn unpacked(packed: &Literal, packing: Packing, bits: u32, in_features: usize) -> Result<Vec<u8>, Refusal> {
    let [rows, width] = packed.dims()[..] else { return Err(Refusal::damaged("its codes are no matrix")) };
    let packed = words(packed.bytes());
    let middle = 1u8 << (bits - 1);
    let count = rows.checked_mul(in_features).ok_or_else(|| Refusal::damaged("it is too large"))?;
    let mut codes = Vec::with_capacity(count);
    for row in packed.chunks_exact(width.max(1)) {
        let word = |number: usize| row.get(number).copied().unwrap_or(0);
        codes.extend((0..in_features).map(|input| packing.value(word, input, bits).wrapping_sub(middle)));
    }
    Ok(codes)
}
