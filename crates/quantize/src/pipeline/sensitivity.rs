//! Mixed precision: how much each layer loses in few bits, and the bits that each gets.

use tensor::Literal;

use crate::error::Error;
use crate::methods::mixed::{BitsChoice, Budget, LayerChoices, assign};
use crate::methods::{Matrix, nearest};
use crate::pipeline::layers::{LayerPlan, Tensors, matrix, put};
use crate::pipeline::plan::Method;
use crate::pipeline::run::Work;

/// Bits that a layer may have.
const WIDTHS: [u32; 4] = [2, 3, 4, 8];

impl Work<'_> {
    /// The bits of each layer: the sum of errors is least among those whose mean is not above `average`.
    ///
    /// The error of a layer is the squared change of its output, beside the output's square, when its weights are
    /// rounded to the nearest. It is given what the dense layers before it make of the calibration text.
    pub(crate) fn bits_of_layers(
        &mut self,
        layers: &[LayerPlan],
        x: &[Literal],
        average: f64,
    ) -> Result<Vec<u32>, Error> {
        if self.plan.method == Method::Codebook || self.plan.scheme.values.is_float() {
            return Err(Error::setting(
                "mixed precision is of integer codes",
                "leave --average-bits out, or give another --method and --scheme",
            ));
        }
        let mut x = x.to_vec();
        let mut all = Vec::new();
        let mut weights = 0;
        for layer in layers {
            let tensors = self.read(layer)?;
            let dense = self.forward(layer, &tensors, x.clone())?;
            let mut choices = Vec::new();
            for bits in WIDTHS {
                let (rounded, bytes) = self.rounded(layer, &tensors, bits)?;
                let error = relative_change(&dense, &self.forward(layer, &rounded, x.clone())?)?;
                choices.push(BitsChoice { bits: f64::from(bits), bytes, error });
            }
            let names = layer.targets.iter().flat_map(|target| &target.names);
            weights += names.filter_map(|name| tensors.get(name)).map(Literal::num_elements).sum::<usize>();
            all.push(LayerChoices { layer: format!("{}.{}", layer.stack, layer.number), choices });
            x = dense;
        }
        let mean = |bytes: u64| 8.0 * bytes as f64 / weights.max(1) as f64;
        let assignment = assign(&all, Budget::Bytes((average * weights as f64 / 8.0) as u64))?;
        if !assignment.is_within_budget {
            return Err(Error::setting(
                format!("{average} bits a weight are too few: the least is {:.2}", mean(assignment.bytes)),
                format!("give --average-bits {:.1} or more", mean(assignment.bytes) + 0.05),
            ));
        }
        Ok(assignment.choices.iter().filter_map(|choice| WIDTHS.get(*choice).copied()).collect())
    }

    /// A layer's tensors with its weights rounded, and the bytes of their codes.
    fn rounded(&self, layer: &LayerPlan, tensors: &Tensors, bits: u32) -> Result<(Tensors, u64), Error> {
        let rounding = self.plan.with_bits(bits).rounding();
        let mut rounded = tensors.clone();
        let mut bytes = 0;
        for name in layer.targets.iter().flat_map(|target| &target.names) {
            let weight = matrix(tensors, name)?;
            let packed = nearest::quantize(&weight, &rounding, None)?;
            bytes += packed.packed_bytes();
            let (outputs, inputs) = (weight.out_features(), weight.in_features());
            put(&mut rounded, Matrix::new(name.clone(), outputs, inputs, packed.dequantize())?)?;
        }
        Ok((rounded, bytes))
    }
}

/// The square of what changed, beside the square of what was.
fn relative_change(before: &[Literal], after: &[Literal]) -> Result<f64, Error> {
    let (mut change, mut size) = (0.0, 0.0);
    for (before, after) in before.iter().zip(after) {
        for (a, b) in before.to_vec::<f32>()?.into_iter().zip(after.to_vec::<f32>()?) {
            change += f64::from(a - b).powi(2);
            size += f64::from(a).powi(2);
        }
    }
    Ok(change / size.max(f64::MIN_POSITIVE))
}
