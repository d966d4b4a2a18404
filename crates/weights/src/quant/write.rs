//! Writes packed matrices as compressed-tensors, which vLLM and transformers read, and the configuration beside them.

use serde_json::{Value, json};
use tensor::{DType, Literal};

use crate::error::Error;
use crate::quant::bits::Packing;
use crate::quant::matrix::{PackedMatrix, ScaleEncoding};
use crate::quant::microscaling::in_nibbles;
use crate::quant::refusal::Refusal;

/// What shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleStrategy {
    /// All elements of a matrix.
    Tensor,
    /// All inputs of an output.
    Channel,
    /// So many inputs of an output.
    Group(usize),
    /// So many outputs and inputs.
    ScaleBlock(usize, usize),
}

/// How a group of matrices is quantized when it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Inputs stay floats: weights alone are quantized.
    Float,
    /// Inputs are quantized to the type of the weights, each row with a scale found when it comes.
    Dynamic,
    /// Inputs are quantized to the type of the weights with the scale that is kept with each matrix.
    Static,
}

/// How the matrices of one entry of `config_groups` are quantized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressedGroup {
    /// Names, patterns (`re:…`) or classes (`Linear`) of modules.
    pub targets: Vec<String>,
    /// Bits of a code.
    pub bits: u32,
    /// Whether codes are floats and not integers: e4m3 of 8 bits, or e2m1 of 4 bits in groups of 16 (nvfp4) or 32 (mxfp4).
    pub is_float: bool,
    /// Whether there are no zero points.
    pub is_symmetric: bool,
    /// What shares a scale.
    pub strategy: ScaleStrategy,
    /// What is done to inputs.
    pub inputs: Inputs,
}

impl CompressedGroup {
    /// The name of the layout in files.
    fn format(&self) -> &'static str {
        match (self.is_float, self.bits, self.inputs) {
            (true, 4, _) if self.strategy == ScaleStrategy::Group(NVFP4_GROUP) => "nvfp4-pack-quantized",
            (true, 4, _) => "mxfp4-pack-quantized",
            (true, ..) => "float-quantized",
            (false, 8, Inputs::Dynamic | Inputs::Static) => "int-quantized",
            (false, ..) => "pack-quantized",
        }
    }

    /// The type of its codes of floats.
    fn float_type(&self) -> DType {
        if self.bits == 4 { DType::F4E2M1FN } else { DType::F8E4M3FN }
    }

    fn is_fp4(&self) -> bool {
        self.is_float && self.bits == 4
    }

    /// The tensors of one matrix, by name.
    pub fn tensors(&self, module: &str, matrix: &PackedMatrix) -> Result<Vec<(String, Literal)>, Error> {
        let parts = self.parts(matrix).map_err(|refusal| {
            let place = format!("matrix `{module}`");
            Error::Quantized { place, message: refusal.message, help: refusal.help.into_owned() }
        })?;
        Ok(parts.into_iter().map(|(part, literal)| (format!("{module}.{part}"), literal)).collect())
    }

    fn parts(&self, matrix: &PackedMatrix) -> Result<Vec<(&'static str, Literal)>, Refusal> {
        self.check(matrix)?;
        let (rows, columns) = (matrix.out_features, matrix.in_features);
        let broken = || Refusal::damaged("a part has another size than its shape");
        let (row_blocks, groups) = matrix.blocks();
        let scale_dims = match self.strategy {
            ScaleStrategy::Tensor => vec![1],
            _ => vec![row_blocks, groups],
        };
        if self.is_fp4() {
            return fp4_parts(matrix).ok_or_else(broken);
        }
        let scales = Literal::from_slice(&matrix.scales, scale_dims).and_then(|scales| scales.cast(matrix.dense));
        let scales = scales.map_err(|error| Refusal::damaged(error.to_string()))?;
        let mut parts = vec![("weight_scale", scales)];
        if self.format() == "pack-quantized" {
            let middle = 1u8 << (self.bits - 1);
            let width = Packing::Dense.words(columns, self.bits).ok_or_else(broken)?;
            let mut bytes = Vec::with_capacity(rows * width * 4);
            for row in matrix.codes.chunks_exact(columns) {
                let mut words = vec![0; width];
                Packing::Dense.pack(row.iter().map(|code| code.wrapping_add(middle)), self.bits, &mut words);
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            }
            parts.push(("weight_packed", Literal::new(DType::I32, [rows, width], bytes).ok_or_else(broken)?));
            let shape = Literal::from_slice(&[rows as i64, columns as i64], [2]).map_err(|_| broken())?;
            parts.push(("weight_shape", shape));
            if let Some(zeros) = &matrix.zero_points {
                parts.push(("weight_zero_point", self.packed_zeros(zeros, row_blocks, groups).ok_or_else(broken)?));
            }
        } else {
            let dtype = if self.is_float { matrix.dtype } else { DType::I8 };
            parts.push(("weight", Literal::new(dtype, [rows, columns], matrix.codes.clone()).ok_or_else(broken)?));
            if let Some(zeros) = &matrix.zero_points {
                let zeros = zeros.iter().map(|zero| *zero as u8).collect();
                let zeros = Literal::new(DType::I8, [row_blocks, groups], zeros).ok_or_else(broken)?;
                parts.push(("weight_zero_point", zeros));
            }
        }
        if self.inputs == Inputs::Static {
            let missing = || {
                Refusal::new("inputs are static, but it has no scale of inputs", "calibrate it, or use dynamic inputs")
            };
            let scale = matrix.input_scale.ok_or_else(missing)?;
            parts.push(("input_scale", Literal::from_slice(&[scale], [1]).map_err(|_| broken())?));
        }
        Ok(parts)
    }

    /// Zero points by words along the outputs.
    fn packed_zeros(&self, zeros: &[i8], row_blocks: usize, groups: usize) -> Option<Literal> {
        let middle = 1u8 << (self.bits - 1);
        let height = Packing::Dense.words(row_blocks, self.bits)?;
        let mut all = vec![0u32; height * groups];
        for group in 0..groups {
            let mut words = vec![0; height];
            let of_group = (0..row_blocks).map(|row| (zeros[row * groups + group] as u8).wrapping_add(middle));
            Packing::Dense.pack(of_group, self.bits, &mut words);
            words.into_iter().enumerate().for_each(|(number, word)| all[number * groups + group] = word);
        }
        Literal::new(DType::I32, [height, groups], all.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Whether a matrix is quantized as this says.
    fn check(&self, matrix: &PackedMatrix) -> Result<(), Refusal> {
        let spec = matrix.spec();
        let has_type = if self.is_float { spec.dtype == self.float_type() } else { spec.dtype.is_signed_integer() };
        if !has_type || spec.bits != self.bits || spec.has_zero_points == self.is_symmetric {
            let message = format!(
                "it has codes of {} with {} bits and zero points: {}",
                spec.dtype, spec.bits, spec.has_zero_points
            );
            return Err(Refusal::new(message, "give a group with the type, bits and symmetry of the matrix"));
        }
        if spec.has_minima || spec.has_levels || spec.has_input_groups {
            let message = "minima, levels and act-order have no place in compressed-tensors";
            return Err(Refusal::new(message, "quantize to integers with zero points, with inputs in order"));
        }
        if self.is_fp4() {
            self.check_fp4(matrix)?;
        }
        let (rows, columns) = (matrix.out_features, matrix.in_features);
        let expected = match self.strategy {
            ScaleStrategy::Tensor => (rows, columns),
            ScaleStrategy::Channel => (1, columns),
            ScaleStrategy::Group(size) => (1, size),
            ScaleStrategy::ScaleBlock(down, across) => (down.min(rows), across.min(columns)),
        };
        if (spec.block.out_features, spec.block.in_features) != expected {
            let message = format!("it has scales by blocks of {:?}, not by {:?}", spec.block, self.strategy);
            return Err(Refusal::new(message, "give a group with the strategy of the matrix"));
        }
        if matches!(self.strategy, ScaleStrategy::Group(size) if !columns.is_multiple_of(size)) {
            return Err(Refusal::new(
                format!("{columns} inputs are not divided by its groups"),
                "use a group size that divides",
            ));
        }
        Ok(())
    }

    /// Whether floats of 4 bits have the groups, the scales and the inputs of a format.
    fn check_fp4(&self, matrix: &PackedMatrix) -> Result<(), Refusal> {
        let is_right = matches!(
            (self.strategy, matrix.scale_encoding),
            (ScaleStrategy::Group(NVFP4_GROUP), ScaleEncoding::Fp8Over(_))
                | (ScaleStrategy::Group(MXFP4_GROUP), ScaleEncoding::PowersOfTwo)
        );
        let has_even_rows = matrix.in_features.is_multiple_of(2);
        if is_right && has_even_rows && self.inputs == Inputs::Float {
            return Ok(());
        }
        let message = format!(
            "floats of 4 bits by {:?} with scales {:?}, inputs {:?}, are no format of compressed-tensors",
            self.strategy, matrix.scale_encoding, self.inputs
        );
        let help =
            "use groups of 16 with fp8 scales (nvfp4), or of 32 with powers of two (mxfp4), and inputs of floats";
        Err(Refusal::new(message, help))
    }

    /// The entry of `config_groups`.
    fn config(&self) -> Value {
        let kind = if self.is_float { "float" } else { "int" };
        let (strategy, group_size, block) = match self.strategy {
            ScaleStrategy::Tensor => ("tensor", None, None),
            ScaleStrategy::Channel => ("channel", None, None),
            ScaleStrategy::Group(NVFP4_GROUP) if self.is_fp4() => ("tensor_group", Some(NVFP4_GROUP), None),
            ScaleStrategy::Group(size) => ("group", Some(size), None),
            ScaleStrategy::ScaleBlock(rows, columns) => ("block", None, Some([rows, columns])),
        };
        let mut weights = json!({
            "num_bits": self.bits,
            "type": kind,
            "symmetric": self.is_symmetric,
            "strategy": strategy,
            "group_size": group_size,
            "dynamic": false,
        });
        if let Some(weights) = weights.as_object_mut() {
            if let Some(block) = block {
                weights.insert("block_structure".into(), json!(block));
            }
            if self.is_fp4() {
                let is_nvfp4 = self.strategy == ScaleStrategy::Group(NVFP4_GROUP);
                let scales = if is_nvfp4 { "torch.float8_e4m3fn" } else { "torch.uint8" };
                weights.insert("scale_dtype".into(), json!(scales));
            }
        }
        let inputs = match self.inputs {
            Inputs::Float => Value::Null,
            Inputs::Dynamic => {
                json!({ "num_bits": 8, "type": kind, "symmetric": true, "strategy": "token", "dynamic": true })
            }
            Inputs::Static => {
                json!({ "num_bits": 8, "type": kind, "symmetric": true, "strategy": "tensor", "dynamic": false })
            }
        };
        json!({
            "targets": self.targets,
            "weights": weights,
            "input_activations": inputs,
            "output_activations": null,
            "format": self.format(),
        })
    }
}

/// Inputs that share a scale in nvfp4.
const NVFP4_GROUP: usize = 16;

/// Inputs that share a scale in mxfp4.
const MXFP4_GROUP: usize = 32;

/// The tensors of a matrix of nvfp4 or mxfp4.
fn fp4_parts(matrix: &PackedMatrix) -> Option<Vec<(&'static str, Literal)>> {
    let (row_blocks, groups) = matrix.blocks();
    let scales: Option<Vec<u8>> = matrix.scales.iter().map(|scale| matrix.scale_encoding.encoded(*scale)).collect();
    let packed = in_nibbles(&matrix.codes);
    let packed = Literal::new(DType::U8, [matrix.out_features, matrix.in_features / 2], packed)?;
    let mut parts = vec![("weight_packed", packed)];
    let dtype = match matrix.scale_encoding {
        ScaleEncoding::Fp8Over(global) => {
            parts.push(("weight_global_scale", Literal::from_slice(&[global], [1]).ok()?));
            DType::F8E4M3FN
        }
        _ => DType::U8,
    };
    parts.push(("weight_scale", Literal::new(dtype, [row_blocks, groups], scales?)?));
    Some(parts)
}

/// The `quantization_config` of a model whose matrices are quantized by groups; what is ignored stays dense.
pub fn compressed_tensors_config(groups: &[CompressedGroup], ignore: &[String]) -> Value {
    let mut formats: Vec<&str> = groups.iter().map(CompressedGroup::format).collect();
    formats.dedup();
    let format = if formats.len() == 1 { formats[0] } else { "mixed-precision" };
    let named: serde_json::Map<String, Value> =
        groups.iter().enumerate().map(|(number, group)| (format!("group_{number}"), group.config())).collect();
    json!({
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": named,
        "ignore": ignore,
        "kv_cache_scheme": null,
        "global_compression_ratio": null,
    })
}
