//! Arrays of tests: seeded numbers, conversion to and from literals, and comparison.

use tensor::{DType, Literal, Spec};

/// Numbers from a seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    /// About normal.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
    }

    pub(crate) fn array(&mut self, spec: &Spec, scale: f64) -> Literal {
        let values: Vec<f64> = (0..spec.num_elements()).map(|_| self.normal() * scale).collect();
        literal(spec, &values)
    }
}

pub(crate) fn literal(spec: &Spec, values: &[f64]) -> Literal {
    let bytes = values.iter().flat_map(|&v| match spec.dtype {
        DType::I32 => (v as i32).to_le_bytes().to_vec(),
        DType::I8 | DType::I4 => vec![v as i8 as u8],
        dtype => tensor::encode_float(dtype, v).unwrap().to_le_bytes()[..dtype.size_bytes()].to_vec(),
    });
    Literal::new(spec.dtype, spec.dims.clone(), bytes.collect()).unwrap()
}

pub(crate) fn values(literal: &Literal) -> Vec<f64> {
    let size = literal.dtype().size_bytes();
    let decode = |b: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(b);
        let bits = u64::from_le_bytes(word);
        match literal.dtype() {
            DType::I32 => f64::from(bits as u32 as i32),
            DType::I8 | DType::I4 => f64::from(bits as u8 as i8),
            dtype => tensor::decode_float(dtype, bits).unwrap(),
        }
    };
    literal.bytes().chunks_exact(size).map(decode).collect()
}

/// Largest difference, as a share of the largest value; NaN anywhere is infinite.
#[track_caller]
pub(crate) fn assert_close(name: &str, got: &Literal, expected: &[f64], tolerance: f64) {
    let got = values(got);
    assert_eq!(got.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(1e-6f64, |m, v| m.max(v.abs()));
    let mut worst = (0.0, 0);
    for (n, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(g.is_finite(), "{name}: element {n} is {g}, {e} expected");
        let error = (g - e).abs() / largest;
        if error > worst.0 {
            worst = (error, n);
        }
    }
    assert!(
        worst.0 <= tolerance,
        "{name}: {:.2e} of the largest at element {}: {} for {}",
        worst.0,
        worst.1,
        got[worst.1],
        expected[worst.1]
    );
}
