//! A weight in blocks as its file has them, which the CPU device multiplies with as they are.

use hlo::{Attr, Attrs};
use tensor::{BlockFormat, DType};
use trace::{Contraction, Path, Precision, Tensor, Tree, composite};

use crate::quant::InputAxis;

/// A weight of blocks `u8 [.., out, bytes]`. Axes before the last two are layers.
#[derive(Clone, Debug)]
pub struct BlockTensor {
    blocks: Tensor,
    format: BlockFormat,
    input_axis: InputAxis,
    /// As layers see it.
    dims: Vec<usize>,
}

impl BlockTensor {
    /// Blocks of whole rows; refuses others.
    #[track_caller]
    pub fn new(blocks: Tensor, format: BlockFormat, input_axis: InputAxis) -> BlockTensor {
        let [layers @ .., outputs, bytes] = blocks.dims() else {
            trace::refuse(format!("blocks of {format:?} are a matrix of bytes, not {:?}", blocks.dims()))
        };
        let Some(inputs) = format.row_elements(*bytes).filter(|_| blocks.dtype() == DType::U8) else {
            trace::refuse(format!("{} {:?} are no whole blocks of {}", blocks.dtype(), blocks.dims(), format.name()))
        };
        let of_matrix = match input_axis {
            InputAxis::First => [inputs, *outputs],
            InputAxis::Last => [*outputs, inputs],
        };
        let dims = [layers, &of_matrix].concat();
        BlockTensor { blocks, format, input_axis, dims }
    }

    /// Its axes as layers see them.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The size of an axis as layers see it.
    #[track_caller]
    pub fn dim(&self, axis: isize) -> usize {
        let at = if axis < 0 { axis + self.dims.len() as isize } else { axis };
        let size = usize::try_from(at).ok().and_then(|at| self.dims.get(at));
        *size.unwrap_or_else(|| trace::refuse(format!("{:?} has no axis {axis}", self.dims)))
    }

    /// The weight in a type.
    #[track_caller]
    pub fn dense(&self, dtype: DType) -> Tensor {
        let dense = decoded(&self.blocks, self.format, dtype);
        match self.input_axis {
            InputAxis::First => dense.swap_axes(-2, -1),
            InputAxis::Last => dense,
        }
    }

    /// Vectors of the rows at `indices`, of a table `[entries, width]`.
    #[track_caller]
    pub(crate) fn rows(&self, indices: &Tensor, dtype: DType) -> Tensor {
        decoded(&self.blocks.take(0, indices), self.format, dtype)
    }

    /// The matmul of `x [..., in]` with a weight of two axes, in a type.
    #[track_caller]
    pub(crate) fn matmul(&self, x: &Tensor, result: DType) -> Tensor {
        let inputs = x.dim(-1);
        let rows = x.num_elements() / inputs.max(1);
        let format = self.format;
        let operands = (x.reshape(&[rows, inputs]), self.blocks.clone());
        let product = composite(BlockFormat::MATMUL, attributes(format), &operands, |(x, blocks)| {
            let contraction = Contraction { lhs_sum: vec![1], rhs_sum: vec![1], ..Contraction::default() };
            let weight = floats(blocks, format);
            x.cast(DType::F32).dot_general(&weight, &contraction, DType::F32, Precision::Highest)
        });
        let dims = [&x.dims()[..x.rank().saturating_sub(1)], &[product.dim(1)]].concat();
        product.cast(result).reshape(&dims)
    }
}

impl Tree for BlockTensor {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        path.within(PART, |path| self.blocks.visit(path, f));
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        let blocks = path.within(PART, |path| self.blocks.map(path, f));
        // A map may change types, as one to shapes of gradients does.
        if blocks.dtype() != DType::U8 {
            return BlockTensor { blocks, ..self.clone() };
        }
        BlockTensor::new(blocks, self.format, self.input_axis)
    }
}

/// The name of the one part.
pub(crate) const PART: &str = "blocks";

fn attributes(format: BlockFormat) -> Attrs {
    let mut attrs = Attrs::new();
    attrs.set(BlockFormat::ATTRIBUTE, Attr::string(format.name()));
    attrs
}

/// Blocks `[.., bytes]` as floats of a type, `[.., elements]`.
#[track_caller]
fn decoded(blocks: &Tensor, format: BlockFormat, dtype: DType) -> Tensor {
    let bytes = blocks.dim(-1);
    let rows = blocks.num_elements() / bytes.max(1);
    let flat = blocks.reshape(&[rows, bytes]);
    let dense = composite(BlockFormat::DECODE, attributes(format), &flat, |blocks| floats(blocks, format).cast(dtype));
    dense.reshape(&[&blocks.dims()[..blocks.rank().saturating_sub(1)], &[dense.dim(1)]].concat())
}

/// What blocks `[rows, bytes]` stand for, `f32 [rows, elements]`.
#[track_caller]
fn floats(blocks: &Tensor, format: BlockFormat) -> Tensor {
    let (rows, bytes) = (blocks.dim(0), blocks.dim(1));
    let count = bytes / format.bytes();
    let block = blocks.reshape(&[rows, count, format.bytes()]);
    let part = |start: usize, end: usize| block.slice(2, start..end);
    // [rows, blocks, 1]
    let half = |at: usize| part(at, at + 2).bitcast(DType::F16).cast(DType::F32).expand(2);
    let and = |tensor: &Tensor, bits: u8| tensor.and(&tensor.full_like(f64::from(bits)));
    let right = |tensor: &Tensor, bits: u8| tensor.shift_right(&tensor.full_like(f64::from(bits)));
    let left = |tensor: &Tensor, bits: u8| tensor.shift_left(&tensor.full_like(f64::from(bits)));
    let less = |tensor: &Tensor, offset: f64| {
        let wide = tensor.cast(DType::F32);
        &wide - &wide.full_like(offset)
    };
    let dims = [rows, count * format.elements()];
    match format {
        BlockFormat::Q4_0 => {
            let codes = part(2, 18);
            let codes = Tensor::concat(&[and(&codes, 15), right(&codes, 4)], 2);
            (less(&codes, 8.0) * half(0)).reshape(&dims)
        }
        BlockFormat::Q8_0 => (part(2, 34).bitcast(DType::I8).cast(DType::F32) * half(0)).reshape(&dims),
        BlockFormat::Q4K => {
            let (a, b, c) = (part(4, 8), part(8, 12), part(12, 16));
            let top = |tensor: &Tensor| left(&right(tensor, 6), 4);
            let scales = Tensor::concat(&[and(&a, 63), and(&c, 15).or(&top(&a))], 2);
            let minima = Tensor::concat(&[and(&b, 63), right(&c, 4).or(&top(&b))], 2);
            // [rows, blocks, 8, 1]
            let scales = (scales.cast(DType::F32) * half(0)).expand(3);
            let minima = (minima.cast(DType::F32) * half(2)).expand(3);
            let codes = part(16, 144).reshape(&[rows, count, 4, 1, 32]);
            let codes = Tensor::concat(&[and(&codes, 15), right(&codes, 4)], 3).reshape(&[rows, count, 8, 32]);
            (codes.cast(DType::F32) * scales - minima).reshape(&dims)
        }
        BlockFormat::Q6K => {
            // [rows, blocks, halves, quarters, 32]
            let low = part(0, 128).reshape(&[rows, count, 2, 2, 32]);
            let low = Tensor::concat(&[and(&low, 15), right(&low, 4)], 3);
            let high = part(128, 192).reshape(&[rows, count, 2, 1, 32]);
            let quarters: Vec<Tensor> = [0, 2, 4, 6].map(|bits| left(&and(&right(&high, bits), 3), 4)).to_vec();
            let codes = low.or(&Tensor::concat(&quarters, 3)).reshape(&[rows, count, 16, 16]);
            let scales = (part(192, 208).bitcast(DType::I8).cast(DType::F32) * half(208)).expand(3);
            (less(&codes, 32.0) * scales).reshape(&dims)
        }
    }
}
