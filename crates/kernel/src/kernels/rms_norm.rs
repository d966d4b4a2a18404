//! RMSNorm in one pass over HBM, and its gradients in another.

use chips::Generation;
use hlo::Func;
use tensor::{DType, Spec};

use super::{PassDirection, Request, bits, divisor, function, tensor};
use crate::builder::KernelBuilder;
use crate::composites::RmsNormAttributes;
use crate::error::Error;
use crate::kernel::{Kernel, Semantics};
use crate::writer::Val;

/// Shapes of one norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedRmsNorm {
    /// Rows, each normalised by itself.
    pub rows: usize,
    /// Elements of a row.
    pub size: usize,
    /// Element type of `x` and the result.
    pub dtype: DType,
    /// Element type of the weight.
    pub weight: DType,
    /// Added to the mean of squares.
    pub epsilon: f32,
}

impl FusedRmsNorm {
    fn x(&self) -> Spec {
        Spec::new(self.dtype, [self.rows, self.size])
    }

    /// Rows of one step: those that the compiler's static estimate prefers (`docs/kernel-cycles.md`), of a size for which there
    /// is room.
    pub fn preferred_rows(&self, pass: PassDirection, generation: Generation) -> Option<usize> {
        let has_room = generation.spec().memory.vmem_bytes_per_core.value >= 64 << 20;
        let elements = match pass {
            _ if !has_room => 1 << 18,
            PassDirection::Forward => 1 << 20,
            PassDirection::Backward => 1 << 19,
        };
        divisor(self.rows, 8, (elements / self.size.max(1)).clamp(8, 1024))
    }

    fn check(&self, rows: usize) -> Result<(), Error> {
        let types = [self.dtype, self.weight];
        if rows == 0 || !self.rows.is_multiple_of(rows) || types.iter().any(|t| !matches!(t, DType::F32 | DType::BF16))
        {
            let message = format!("blocks of {rows} rows for {} rows of {}", self.rows, self.dtype);
            return Err(Error::Shape { kernel: "rms_norm", message });
        }
        Ok(())
    }

    /// Rows divided by their root mean square, and its inverse.
    fn normal<'k>(&self, x: Val<'k>) -> (Val<'k>, Val<'k>) {
        let inverse = ((x * x).sum(1) * (1.0 / self.size as f32) + self.epsilon).rsqrt();
        (x * inverse, inverse)
    }
}

/// The forward kernel, with blocks of that many rows.
pub fn forward(norm: &FusedRmsNorm, rows: usize, generation: Generation) -> Result<Kernel, Error> {
    norm.check(rows)?;
    let n = *norm;
    let mut kernel = KernelBuilder::new("rms_norm_fwd", generation);
    let steps = kernel.grid(n.rows / rows, Semantics::Parallel);
    let x = kernel.input("x", n.x(), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let weight = Spec::new(n.weight, [1, n.size]);
    let weight = kernel.input("weight", weight, [1, n.size], |m| vec![m.i32(0), m.i32(0)]);
    let y = kernel.output("y", n.x(), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    kernel.body(|k| {
        let (normal, _) = n.normal(k.load(x).cast(DType::F32));
        k.store(y, (normal * k.load(weight).cast(DType::F32)).cast(n.dtype));
    })
}

/// The backward kernel, with blocks of that many rows.
pub fn backward(norm: &FusedRmsNorm, rows: usize, generation: Generation) -> Result<Kernel, Error> {
    norm.check(rows)?;
    let n = *norm;
    let count = n.rows / rows;
    let mut kernel = KernelBuilder::new("rms_norm_bwd", generation);
    let steps = kernel.grid(count, Semantics::Arbitrary);
    let x = kernel.input("x", n.x(), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let weight = Spec::new(n.weight, [1, n.size]);
    let weight = kernel.input("weight", weight, [1, n.size], |m| vec![m.i32(0), m.i32(0)]);
    let dy = kernel.input("gradient", n.x(), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let dx = kernel.output("gradient of x", n.x(), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let dweight = Spec::new(DType::F32, [1, n.size]);
    let dweight = kernel.output("gradient of weight", dweight, [1, n.size], |m| vec![m.i32(0), m.i32(0)]);
    kernel.body(|k| {
        let (normal, inverse) = n.normal(k.load(x).cast(DType::F32));
        let dy = k.load(dy).cast(DType::F32);
        let dnormal = dy * k.load(weight).cast(DType::F32);
        let along = (dnormal * normal).sum(1) * (1.0 / n.size as f32);
        k.store(dx, ((dnormal - normal * along) * inverse).cast(n.dtype));
        let part = (dy * normal).sum(0);
        let is_first = k.program_id(steps).equals(0);
        k.when(is_first, || k.store(dweight, part));
        k.when(!is_first, || k.store(dweight, k.load(dweight) + part));
    })
}

fn read(request: &Request<'_>, pass: PassDirection) -> Result<(FusedRmsNorm, usize), Error> {
    let [rows, size] = request.dims("rms_norm", 0)?;
    let dtype = |n: usize| request.operands.get(n).map_or(DType::F32, |spec| spec.dtype);
    let RmsNormAttributes { epsilon } = RmsNormAttributes::of(request.attributes);
    let norm = FusedRmsNorm { rows, size, dtype: dtype(0), weight: dtype(1), epsilon };
    let message = format!("{rows} rows are not whole blocks of 8");
    let block = norm.preferred_rows(pass, request.generation).ok_or(Error::Shape { kernel: "rms_norm", message })?;
    Ok((norm, request.size("block_rows").unwrap_or(block)))
}

pub(super) fn forward_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request, PassDirection::Forward)?.0, name)
}

pub(super) fn backward_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition_of_gradient(&read(request, PassDirection::Backward)?.0, name)
}

pub(super) fn forward_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (norm, rows) = read(request, PassDirection::Forward)?;
    forward(&norm, rows, request.generation)
}

pub(super) fn backward_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (norm, rows) = read(request, PassDirection::Backward)?;
    backward(&norm, rows, request.generation)
}

/// Rows divided by their root mean square, in plain ops (`%normal`, and the inverse repeated: `%inverse`).
fn plain_normal(norm: &FusedRmsNorm) -> String {
    let (x, wide) = (tensor(norm.dtype, [norm.rows, norm.size]), tensor(DType::F32, [norm.rows, norm.size]));
    let (column, weight) = (tensor(DType::F32, [norm.rows]), tensor(norm.weight, [1, norm.size]));
    format!(
        "  %x32 = stablehlo.convert %x : ({x}) -> {wide}
  %w32 = stablehlo.convert %w : ({weight}) -> tensor<1x{size}xf32>
  %w1 = stablehlo.reshape %w32 : (tensor<1x{size}xf32>) -> tensor<{size}xf32>
  %ww = stablehlo.broadcast_in_dim %w1, dims = [1] : (tensor<{size}xf32>) -> {wide}
  %squares = stablehlo.multiply %x32, %x32 : {wide}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %total = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %share = stablehlo.constant dense<{share}> : {column}
  %mean = stablehlo.multiply %total, %share : {column}
  %epsilon = stablehlo.constant dense<{epsilon}> : {column}
  %shifted = stablehlo.add %mean, %epsilon : {column}
  %rsqrt = stablehlo.rsqrt %shifted : {column}
  %inverse = stablehlo.broadcast_in_dim %rsqrt, dims = [0] : ({column}) -> {wide}
  %normal = stablehlo.multiply %x32, %inverse : {wide}",
        size = norm.size,
        share = bits(1.0 / norm.size as f32),
        epsilon = bits(norm.epsilon),
    )
}

/// The forward pass in plain ops, a function of that name.
pub fn decomposition(norm: &FusedRmsNorm, name: &str) -> Result<Func, Error> {
    let (x, wide) = (tensor(norm.dtype, [norm.rows, norm.size]), tensor(DType::F32, [norm.rows, norm.size]));
    let weight = tensor(norm.weight, [1, norm.size]);
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}) -> {x} {{
{normal}
  %y32 = stablehlo.multiply %normal, %ww : {wide}
  %y = stablehlo.convert %y32 : ({wide}) -> {x}
  return %y : {x}
}}",
        normal = plain_normal(norm)
    ))
}

/// The backward pass in plain ops, a function of that name.
pub fn decomposition_of_gradient(norm: &FusedRmsNorm, name: &str) -> Result<Func, Error> {
    let (x, wide) = (tensor(norm.dtype, [norm.rows, norm.size]), tensor(DType::F32, [norm.rows, norm.size]));
    let (weight, column, size) = (tensor(norm.weight, [1, norm.size]), tensor(DType::F32, [norm.rows]), norm.size);
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %dy: {x}) -> ({x}, tensor<1x{size}xf32>) {{
{normal}
  %dy32 = stablehlo.convert %dy : ({x}) -> {wide}
  %dnormal = stablehlo.multiply %dy32, %ww : {wide}
  %products = stablehlo.multiply %dnormal, %normal : {wide}
  %along0 = stablehlo.reduce(%products init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %along1 = stablehlo.multiply %along0, %share : {column}
  %along = stablehlo.broadcast_in_dim %along1, dims = [0] : ({column}) -> {wide}
  %back = stablehlo.multiply %normal, %along : {wide}
  %across = stablehlo.subtract %dnormal, %back : {wide}
  %dx32 = stablehlo.multiply %across, %inverse : {wide}
  %dx = stablehlo.convert %dx32 : ({wide}) -> {x}
  %parts = stablehlo.multiply %dy32, %normal : {wide}
  %dw1 = stablehlo.reduce(%parts init: %zero) applies stablehlo.add across dimensions = [0] : ({wide}, tensor<f32>) -> tensor<{size}xf32>
  %dw = stablehlo.reshape %dw1 : (tensor<{size}xf32>) -> tensor<1x{size}xf32>
  return %dx, %dw : {x}, tensor<1x{size}xf32>
}}",
        normal = plain_normal(norm)
    ))
}
