//! RMS and layer norm in one pass over HBM, and their gradients in another.

use chips::Generation;
use hlo::Func;
use tensor::{DType, Spec};

use super::{PassDirection, Request, bits, divisor, function, tensor};
use crate::builder::KernelBuilder;
use crate::composites::NormAttributes;
use crate::error::Error;
use crate::kernel::{Kernel, Semantics};
use crate::writer::Val;

/// What a row is divided by, and whether its mean is taken away before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusedNormKind {
    /// Its root mean square.
    Rms,
    /// Its standard deviation, less its mean.
    Layer,
}

/// Shapes of one norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedNorm {
    /// What is computed.
    pub kind: FusedNormKind,
    /// Rows, each normalised by itself.
    pub rows: usize,
    /// Elements of a row.
    pub size: usize,
    /// Element type of `x`.
    pub dtype: DType,
    /// Element type of the weight.
    pub weight: DType,
    /// Element type of what is added after the weight; forward only.
    pub bias: Option<DType>,
    /// Element type of the gradient of the result; backward only.
    pub gradient: DType,
    /// Element type of what is added to the gradient of `x`; backward only.
    pub residual: Option<DType>,
    /// Element type of the result, or of the gradient of `x`.
    pub result: DType,
    /// Added to the mean of squares.
    pub epsilon: f32,
}

impl FusedNorm {
    /// One of rows that are all of one type, with a weight and no more.
    pub fn new(kind: FusedNormKind, [rows, size]: [usize; 2], dtype: DType, weight: DType, epsilon: f32) -> FusedNorm {
        let (bias, residual) = (None, None);
        FusedNorm { kind, rows, size, dtype, weight, bias, gradient: dtype, residual, result: dtype, epsilon }
    }

    fn of(&self, dtype: DType) -> Spec {
        Spec::new(dtype, [self.rows, self.size])
    }

    fn row(&self, dtype: DType) -> Spec {
        Spec::new(dtype, [1, self.size])
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

    fn name(&self) -> &'static str {
        match self.kind {
            FusedNormKind::Rms => "rms_norm",
            FusedNormKind::Layer => "layer_norm",
        }
    }

    fn check(&self, rows: usize) -> Result<(), Error> {
        let types = [self.dtype, self.weight, self.gradient, self.result].into_iter().chain(self.bias);
        let mut types = types.chain(self.residual);
        if rows == 0 || !self.rows.is_multiple_of(rows) || types.any(|t| !matches!(t, DType::F32 | DType::BF16)) {
            let message = format!("blocks of {rows} rows for {} rows of {}", self.rows, self.dtype);
            return Err(Error::Shape { kernel: self.name(), message });
        }
        Ok(())
    }

    /// Rows less their mean and divided by their deviation, and its inverse.
    fn normal<'k>(&self, x: Val<'k>) -> (Val<'k>, Val<'k>) {
        let share = 1.0 / self.size as f32;
        let centred = match self.kind {
            FusedNormKind::Rms => x,
            FusedNormKind::Layer => x - x.sum(1) * share,
        };
        let inverse = ((centred * centred).sum(1) * share + self.epsilon).rsqrt();
        (centred * inverse, inverse)
    }
}

/// The forward kernel, with blocks of that many rows.
pub fn forward(norm: &FusedNorm, rows: usize, generation: Generation) -> Result<Kernel, Error> {
    norm.check(rows)?;
    let n = *norm;
    let mut kernel = KernelBuilder::new(format!("{}_fwd", n.name()), generation);
    let steps = kernel.grid(n.rows / rows, Semantics::Parallel);
    let x = kernel.input("x", n.of(n.dtype), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let weight = kernel.input("weight", n.row(n.weight), [1, n.size], |m| vec![m.i32(0), m.i32(0)]);
    let bias = n.bias.map(|bias| kernel.input("bias", n.row(bias), [1, n.size], |m| vec![m.i32(0), m.i32(0)]));
    let y = kernel.output("y", n.of(n.result), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    kernel.body(|k| {
        let (normal, _) = n.normal(k.load(x).cast(DType::F32));
        let weighed = normal * k.load(weight).cast(DType::F32);
        let shifted = match bias {
            Some(bias) => weighed + k.load(bias).cast(DType::F32),
            None => weighed,
        };
        k.store(y, shifted.cast(n.result));
    })
}

/// The backward kernel, with blocks of that many rows.
pub fn backward(norm: &FusedNorm, rows: usize, generation: Generation) -> Result<Kernel, Error> {
    norm.check(rows)?;
    let n = *norm;
    let mut kernel = KernelBuilder::new(format!("{}_bwd", n.name()), generation);
    let steps = kernel.grid(n.rows / rows, Semantics::Arbitrary);
    let x = kernel.input("x", n.of(n.dtype), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let weight = kernel.input("weight", n.row(n.weight), [1, n.size], |m| vec![m.i32(0), m.i32(0)]);
    let dy = kernel.input("gradient", n.of(n.gradient), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let residual = n.residual.map(|residual| {
        kernel.input("residual", n.of(residual), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)])
    });
    let dx = kernel.output("gradient of x", n.of(n.result), [rows, n.size], |m| vec![m.program_id(steps), m.i32(0)]);
    let total = n.row(DType::F32);
    let dweight = kernel.output("gradient of weight", total.clone(), [1, n.size], |m| vec![m.i32(0), m.i32(0)]);
    let dbias = (n.kind == FusedNormKind::Layer)
        .then(|| kernel.output("gradient of bias", total, [1, n.size], |m| vec![m.i32(0), m.i32(0)]));
    kernel.body(|k| {
        let share = 1.0 / n.size as f32;
        let (normal, inverse) = n.normal(k.load(x).cast(DType::F32));
        let dy = k.load(dy).cast(DType::F32);
        let dnormal = dy * k.load(weight).cast(DType::F32);
        let along = (dnormal * normal).sum(1) * share;
        let across = match n.kind {
            FusedNormKind::Rms => dnormal - normal * along,
            FusedNormKind::Layer => dnormal - dnormal.sum(1) * share - normal * along,
        };
        let of_x = match residual {
            Some(residual) => across * inverse + k.load(residual).cast(DType::F32),
            None => across * inverse,
        };
        k.store(dx, of_x.cast(n.result));
        let part = (dy * normal).sum(0);
        let of_bias = dbias.map(|dbias| (dbias, dy.sum(0)));
        let is_first = k.program_id(steps).equals(0);
        k.when(is_first, || {
            k.store(dweight, part);
            of_bias.iter().for_each(|(dbias, part)| k.store(*dbias, *part));
        });
        k.when(!is_first, || {
            k.store(dweight, k.load(dweight) + part);
            of_bias.iter().for_each(|(dbias, part)| k.store(*dbias, k.load(*dbias) + *part));
        });
    })
}

fn read(request: &Request<'_>, kind: FusedNormKind, pass: PassDirection) -> Result<(FusedNorm, usize), Error> {
    let shape = request.dims("norm", 0)?;
    let at = |n: usize| request.operands.get(n).map(|spec| spec.dtype);
    let (x, weight) = (at(0).unwrap_or(DType::F32), at(1).unwrap_or(DType::F32));
    let NormAttributes { epsilon, result } = NormAttributes::of(request.attributes);
    let norm = FusedNorm { result: result.unwrap_or(x), ..FusedNorm::new(kind, shape, x, weight, epsilon) };
    let norm = match pass {
        PassDirection::Forward => FusedNorm { bias: at(2), ..norm },
        PassDirection::Backward => FusedNorm { gradient: at(2).unwrap_or(x), residual: at(3), ..norm },
    };
    let message = format!("{} rows are not whole blocks of 8", norm.rows);
    let block = norm.preferred_rows(pass, request.generation).ok_or(Error::Shape { kernel: norm.name(), message })?;
    Ok((norm, request.size("block_rows").unwrap_or(block)))
}

pub(super) fn forward_for(request: &Request<'_>, kind: FusedNormKind) -> Result<Kernel, Error> {
    let (norm, rows) = read(request, kind, PassDirection::Forward)?;
    forward(&norm, rows, request.generation)
}

pub(super) fn backward_for(request: &Request<'_>, kind: FusedNormKind) -> Result<Kernel, Error> {
    let (norm, rows) = read(request, kind, PassDirection::Backward)?;
    backward(&norm, rows, request.generation)
}

pub(super) fn forward_plain(request: &Request<'_>, kind: FusedNormKind, name: &str) -> Result<Func, Error> {
    decomposition(&read(request, kind, PassDirection::Forward)?.0, name)
}

pub(super) fn backward_plain(request: &Request<'_>, kind: FusedNormKind, name: &str) -> Result<Func, Error> {
    decomposition_of_gradient(&read(request, kind, PassDirection::Backward)?.0, name)
}

/// Ops of a decomposition as text.
struct Plain {
    wide: String,
    column: String,
    size: usize,
}

impl Plain {
    fn of(norm: &FusedNorm) -> Plain {
        let (rows, size) = (norm.rows, norm.size);
        Plain { wide: tensor(DType::F32, [rows, size]), column: tensor(DType::F32, [rows]), size }
    }

    /// A row of numbers as one for each row: `%{name}` of `%{from}`.
    fn spread(&self, name: &str, from: &str, dtype: DType) -> String {
        let (size, wide) = (self.size, &self.wide);
        let row = tensor(dtype, [1, size]);
        format!(
            "  %{name}_32 = stablehlo.convert %{from} : ({row}) -> tensor<1x{size}xf32>
  %{name}_1 = stablehlo.reshape %{name}_32 : (tensor<1x{size}xf32>) -> tensor<{size}xf32>
  %{name} = stablehlo.broadcast_in_dim %{name}_1, dims = [1] : (tensor<{size}xf32>) -> {wide}
"
        )
    }

    /// The mean of each row, repeated: `%{name}` of `%{from}`.
    fn mean(&self, name: &str, from: &str) -> String {
        let Plain { wide, column, .. } = self;
        format!(
            "  %{name}_sum = stablehlo.reduce(%{from} init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %{name}_0 = stablehlo.multiply %{name}_sum, %share : {column}
  %{name} = stablehlo.broadcast_in_dim %{name}_0, dims = [0] : ({column}) -> {wide}
"
        )
    }

    /// The sum of all rows: `%{name}` of `%{from}`.
    fn total(&self, name: &str, from: &str) -> String {
        let (size, wide) = (self.size, &self.wide);
        format!(
            "  %{name}_1 = stablehlo.reduce(%{from} init: %zero) applies stablehlo.add across dimensions = [0] : ({wide}, tensor<f32>) -> tensor<{size}xf32>
  %{name} = stablehlo.reshape %{name}_1 : (tensor<{size}xf32>) -> tensor<1x{size}xf32>
"
        )
    }

    /// `%normal`, and the inverse deviation repeated: `%inverse`; `%ww` is the weight.
    fn normal(&self, norm: &FusedNorm) -> String {
        let Plain { wide, column, .. } = self;
        let x = tensor(norm.dtype, [norm.rows, norm.size]);
        let (centre, centred) = match norm.kind {
            FusedNormKind::Rms => (String::new(), "x32"),
            FusedNormKind::Layer => {
                let mean = self.mean("mean", "x32");
                (format!("{mean}  %centred = stablehlo.subtract %x32, %mean : {wide}\n"), "centred")
            }
        };
        format!(
            "  %x32 = stablehlo.convert %x : ({x}) -> {wide}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %share = stablehlo.constant dense<{share}> : {column}
{weight}{centre}  %squares = stablehlo.multiply %{centred}, %{centred} : {wide}
  %total = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %square = stablehlo.multiply %total, %share : {column}
  %epsilon = stablehlo.constant dense<{epsilon}> : {column}
  %shifted = stablehlo.add %square, %epsilon : {column}
  %rsqrt = stablehlo.rsqrt %shifted : {column}
  %inverse = stablehlo.broadcast_in_dim %rsqrt, dims = [0] : ({column}) -> {wide}
  %normal = stablehlo.multiply %{centred}, %inverse : {wide}
",
            weight = self.spread("ww", "w", norm.weight),
            share = bits(1.0 / norm.size as f32),
            epsilon = bits(norm.epsilon),
        )
    }
}

/// The forward pass in plain ops, a function of that name.
pub fn decomposition(norm: &FusedNorm, name: &str) -> Result<Func, Error> {
    let plain = Plain::of(norm);
    let wide = &plain.wide;
    let of = |dtype: DType| tensor(dtype, [norm.rows, norm.size]);
    let row = |dtype: DType| tensor(dtype, [1, norm.size]);
    let (argument, bias, y32) = match norm.bias {
        Some(dtype) => {
            let spread = plain.spread("bb", "b", dtype);
            let added = format!("{spread}  %shifted_y = stablehlo.add %weighed, %bb : {wide}\n");
            (format!(", %b: {}", row(dtype)), added, "shifted_y")
        }
        None => (String::new(), String::new(), "weighed"),
    };
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}{argument}) -> {y} {{
{normal}  %weighed = stablehlo.multiply %normal, %ww : {wide}
{bias}  %y = stablehlo.convert %{y32} : ({wide}) -> {y}
  return %y : {y}
}}",
        x = of(norm.dtype),
        y = of(norm.result),
        weight = row(norm.weight),
        normal = plain.normal(norm)
    ))
}

/// The backward pass in plain ops, a function of that name.
pub fn decomposition_of_gradient(norm: &FusedNorm, name: &str) -> Result<Func, Error> {
    let plain = Plain::of(norm);
    let (wide, size) = (&plain.wide, norm.size);
    let of = |dtype: DType| tensor(dtype, [norm.rows, norm.size]);
    let total = format!("tensor<1x{size}xf32>");
    let (centre, centred) = match norm.kind {
        FusedNormKind::Rms => (String::new(), "dnormal"),
        FusedNormKind::Layer => {
            let mean = plain.mean("dmean", "dnormal");
            (format!("{mean}  %dcentred = stablehlo.subtract %dnormal, %dmean : {wide}\n"), "dcentred")
        }
    };
    let (argument, residual, dx32) = match norm.residual.map(of) {
        Some(ty) => {
            let added = format!(
                "  %r32 = stablehlo.convert %r : ({ty}) -> {wide}\n  %dsum = stablehlo.add %dscaled, %r32 : {wide}\n"
            );
            (format!(", %r: {ty}"), added, "dsum")
        }
        None => (String::new(), String::new(), "dscaled"),
    };
    let (bias, of_bias, bias_type) = match norm.kind {
        FusedNormKind::Rms => (String::new(), "", String::new()),
        FusedNormKind::Layer => (plain.total("db", "dy32"), ", %db", format!(", {total}")),
    };
    let (x, weight, dy, dx) = (of(norm.dtype), tensor(norm.weight, [1, size]), of(norm.gradient), of(norm.result));
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %dy: {dy}{argument}) -> ({dx}, {total}{bias_type}) {{
{normal}  %dy32 = stablehlo.convert %dy : ({dy}) -> {wide}
  %dnormal = stablehlo.multiply %dy32, %ww : {wide}
  %products = stablehlo.multiply %dnormal, %normal : {wide}
{along}{centre}  %back = stablehlo.multiply %normal, %along : {wide}
  %across = stablehlo.subtract %{centred}, %back : {wide}
  %dscaled = stablehlo.multiply %across, %inverse : {wide}
{residual}  %dx = stablehlo.convert %{dx32} : ({wide}) -> {dx}
  %parts = stablehlo.multiply %dy32, %normal : {wide}
{parts}{bias}  return %dx, %dw{of_bias} : {dx}, {total}{bias_type}
}}",
        normal = plain.normal(norm),
        along = plain.mean("along", "products"),
        parts = plain.total("dw", "parts"),
    ))
}
