//! Floating-point operations of `dot` and `convolution`, counting only products with real input elements.

use crate::dimensions::WindowDimension;
use crate::module::{HloModule, Instruction, InstructionId};
use crate::opcode::Opcode;
use crate::shape::{PrimitiveType, Shape};

impl HloModule {
    /// Operations of one execution of a `dot`, `ragged-dot` or `convolution` (2 per multiply-add); 0 for others.
    ///
    /// Window positions that fall on padding or between dilated elements are not counted: the TPU compiler writes batched
    /// matmuls as convolutions whose window is mostly padding.
    pub fn matmul_flops(&self, id: InstructionId) -> u64 {
        let instruction = self.instruction(id);
        let multiply_adds = match instruction.opcode {
            Opcode::Convolution => self.convolution_multiply_adds(instruction),
            ref opcode if opcode.is_contraction() => self.dot_multiply_adds(instruction),
            _ => None,
        };
        multiply_adds.unwrap_or(0).saturating_mul(2)
    }

    /// The wider operand type of a matmul: what decides the rate of the matrix unit.
    pub fn matmul_type(&self, id: InstructionId) -> Option<PrimitiveType> {
        let instruction = self.instruction(id);
        let types = || instruction.operands.iter().take(2).map(|&o| self.instruction(o).shape.element_type());
        instruction.opcode.is_contraction().then(|| types().max_by_key(|t| t.bits()))?
    }

    fn operand_shape(&self, instruction: &Instruction, index: usize) -> Option<&Shape> {
        instruction.operands.get(index).map(|&o| &self.instruction(o).shape)
    }

    fn dot_multiply_adds(&self, instruction: &Instruction) -> Option<u64> {
        let lhs = self.operand_shape(instruction, 0)?;
        let dot = instruction.attributes().dot.as_ref()?;
        let mut contracted = dot.lhs_contracting_dimensions.iter().map(|&d| lhs.dimension(d));
        let depth = contracted.try_fold(1u64, |n, d| Some(n.saturating_mul(d?)))?;
        Some(instruction.shape.element_count().saturating_mul(depth))
    }

    fn convolution_multiply_adds(&self, instruction: &Instruction) -> Option<u64> {
        let attributes = instruction.attributes();
        let numbers = attributes.convolution.as_ref()?;
        let (lhs, rhs) = (self.operand_shape(instruction, 0)?, self.operand_shape(instruction, 1)?);
        let output = instruction.shape.leaves().next()?;
        let groups = |n: i64| u64::try_from(n).unwrap_or(1).max(1);
        let batch = lhs.dimension(numbers.input_batch_dimension)? / groups(attributes.batch_group_count);
        let features = lhs.dimension(numbers.input_feature_dimension)? / groups(attributes.feature_group_count);
        let outputs = rhs.dimension(numbers.kernel_output_feature_dimension)?;
        let mut total = batch.saturating_mul(features).saturating_mul(outputs);
        for (i, window) in attributes.window.iter().enumerate() {
            let input = lhs.dimension(*numbers.input_spatial_dimensions.get(i)?)?;
            let out = output.dimension(*numbers.output_spatial_dimensions.get(i)?)?;
            total = total.saturating_mul(valid_positions(window, input, out));
        }
        Some(total)
    }
}

/// Pairs (output position, window element) that meet a real input element along one dimension.
fn valid_positions(window: &WindowDimension, input: u64, output: u64) -> u64 {
    const MAX_STEPS: i64 = 1 << 20;
    let positive = |n: i64| n.max(1);
    let (size, output) = (window.size.max(0), i64::try_from(output).unwrap_or(i64::MAX));
    let (stride, dilation) = (positive(window.stride), positive(window.window_dilation));
    let spacing = positive(window.base_dilation);
    let Ok(input) = i64::try_from(input) else { return 0 };
    if input == 0 || size == 0 || output == 0 {
        return 0;
    }
    let upper = (size as u64).saturating_mul(output as u64);
    let Some(last) = (input - 1).checked_mul(spacing) else { return upper };
    // Iterate over the shorter side; count the other side's hits in closed form.
    let (steps, step, others, other_step) =
        if size <= output { (size, dilation, output, stride) } else { (output, stride, size, dilation) };
    if steps > MAX_STEPS {
        return upper;
    }
    let mut total: u64 = 0;
    for k in 0..steps {
        let Some(start) = k.checked_mul(step).and_then(|p| p.checked_sub(window.padding_low)) else { return upper };
        total = total.saturating_add(hits(start, other_step, others, last, spacing));
    }
    total
}

/// How many `j` in `0..count` put `start + j * step` into `0..=last` on a multiple of `spacing`.
fn hits(start: i64, step: i64, count: i64, last: i64, spacing: i64) -> u64 {
    let (start, step, count, last, spacing) =
        (i128::from(start), i128::from(step), i128::from(count), i128::from(last), i128::from(spacing));
    let first = if start >= 0 { 0 } else { (-start + step - 1) / step };
    let end = if start > last { 0 } else { ((last - start) / step + 1).min(count) };
    if first >= end {
        return 0;
    }
    // `start + j * step = 0 (mod spacing)` has solutions at every `period`-th j, if any.
    let (divisor, inverse) = bezout(step, spacing);
    if start % divisor != 0 {
        return 0;
    }
    let period = spacing / divisor;
    let residue = (-(start / divisor) % period * (inverse % period)).rem_euclid(period);
    let aligned = first + (residue - first).rem_euclid(period);
    if aligned >= end { 0 } else { u64::try_from((end - 1 - aligned) / period + 1).unwrap_or(u64::MAX) }
}

/// Greatest common divisor of `a` and `b`, and the `x` of `a * x + b * y = gcd`.
fn bezout(a: i128, b: i128) -> (i128, i128) {
    let (mut r0, mut r1, mut x0, mut x1) = (a, b, 1, 0);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1) = (r1, r0 - q * r1);
        (x0, x1) = (x1, x0 - q * x1);
    }
    (r0, x0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_hand(w: &WindowDimension, input: i64, output: i64) -> u64 {
        let mut n = 0;
        for o in 0..output {
            for k in 0..w.size {
                let p = o * w.stride - w.padding_low + k * w.window_dilation;
                n += u64::from(p >= 0 && p <= (input - 1) * w.base_dilation && p % w.base_dilation == 0);
            }
        }
        n
    }

    #[test]
    fn closed_form_equals_counting() {
        for input in 1..7 {
            for code in 0..3i64.pow(5) {
                let digit = |i: u32| code / 3i64.pow(i) % 3;
                let window = WindowDimension {
                    size: 1 + digit(0) * 2,
                    stride: 1 + digit(1),
                    padding_low: digit(2) * 2 - 1,
                    padding_high: 0,
                    window_dilation: 1 + digit(3),
                    base_dilation: 1 + digit(4),
                    window_reversal: false,
                };
                for output in 1..6 {
                    let expected = by_hand(&window, input, output);
                    assert_eq!(valid_positions(&window, input as u64, output as u64), expected, "{window:?} {input}");
                }
            }
        }
    }

    #[test]
    fn hostile_windows_do_not_overflow() {
        let window = WindowDimension {
            size: i64::MAX,
            stride: i64::MAX,
            padding_low: i64::MIN,
            padding_high: i64::MIN,
            window_dilation: i64::MAX,
            base_dilation: i64::MAX,
            window_reversal: true,
        };
        for (input, output) in [(u64::MAX, 3), (1 << 40, u64::MAX), (1, 2), (3, 1000)] {
            valid_positions(&window, input, output);
        }
    }
}
