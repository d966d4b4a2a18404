//! Pictures scaled as Pillow scales them: the same filters and the same arithmetic in whole numbers, so that pixels are equal.

/// Bits after the point of a weight.
const PRECISION_BITS: u32 = 32 - 8 - 2;

/// How pixels between pixels are found; numbers are those of `resample` in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resampling {
    /// The nearest pixel.
    Nearest,
    /// A triangle.
    Bilinear,
    /// Keys' cubic with -1/2.
    Bicubic,
    /// A sinc of three lobes.
    Lanczos,
    /// The mean of what is covered.
    Box,
    /// A cosine over two pixels.
    Hamming,
}

impl Resampling {
    /// The filter of a number.
    pub(super) fn of(number: u64) -> Option<Resampling> {
        Some(match number {
            0 => Resampling::Nearest,
            1 => Resampling::Lanczos,
            2 => Resampling::Bilinear,
            3 => Resampling::Bicubic,
            4 => Resampling::Box,
            5 => Resampling::Hamming,
            _ => return None,
        })
    }

    /// How far the filter reaches, in pixels.
    fn support(self) -> f64 {
        match self {
            Resampling::Nearest | Resampling::Box => 0.5,
            Resampling::Bilinear | Resampling::Hamming => 1.0,
            Resampling::Bicubic => 2.0,
            Resampling::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) };
        let size = x.abs();
        match self {
            Resampling::Nearest | Resampling::Box => f64::from(x > -0.5 && x <= 0.5),
            Resampling::Bilinear => (1.0 - size).max(0.0),
            Resampling::Hamming if size >= 1.0 => 0.0,
            Resampling::Hamming => sinc(size) * (0.54 + 0.46 * (size * std::f64::consts::PI).cos()),
            Resampling::Bicubic => {
                const A: f64 = -0.5;
                match size {
                    size if size < 1.0 => ((A + 2.0) * size - (A + 3.0)) * size * size + 1.0,
                    size if size < 2.0 => (((size - 5.0) * size + 8.0) * size - 4.0) * A,
                    _ => 0.0,
                }
            }
            Resampling::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Resampling::Lanczos => 0.0,
        }
    }
}

/// The old pixels that a new one is made of.
struct Taps {
    first: usize,
    weights: Vec<i64>,
}

fn taps(from: usize, to: usize, filter: Resampling) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    let of = |pixel: usize| {
        let center = (pixel as f64 + 0.5) * scale;
        let first = ((center - support + 0.5).max(0.0) as usize).min(from.saturating_sub(1));
        let end = ((center + support + 0.5).max(0.0) as usize).clamp(first + 1, from);
        let weights: Vec<f64> = (first..end).map(|old| filter.weight((old as f64 - center + 0.5) / stretch)).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: f64| {
            let weight = if sum == 0.0 { weight } else { weight / sum };
            // To the nearest, halves away from zero.
            (weight * f64::from(1u32 << PRECISION_BITS)).round() as i64
        };
        Taps { first, weights: weights.into_iter().map(fixed).collect() }
    };
    (0..to).map(of).collect()
}

fn rounded(sum: i64) -> u8 {
    ((sum + (1 << (PRECISION_BITS - 1))) >> PRECISION_BITS).clamp(0, 255) as u8
}

/// Rows of pixels of `depth` bytes, `(height, width)` of them, scaled to another size. Both sizes are at least 1.
pub(super) fn resample(
    bytes: &[u8],
    (height, width): (usize, usize),
    depth: usize,
    (to_height, to_width): (usize, usize),
    filter: Resampling,
) -> Vec<u8> {
    if filter == Resampling::Nearest {
        let place =
            |n: usize, from: usize, to: usize| (((n as f64 + 0.5) * from as f64 / to as f64) as usize).min(from - 1);
        let rows = (0..to_height).map(|row| place(row, height, to_height));
        let pixels = rows.flat_map(|row| (0..to_width).map(move |column| row * width + place(column, width, to_width)));
        return pixels.flat_map(|at| &bytes[at * depth..(at + 1) * depth]).copied().collect();
    }
    let across = if width == to_width {
        bytes.to_vec()
    } else {
        let taps = taps(width, to_width, filter);
        let mut across = Vec::with_capacity(height * to_width * depth);
        for row in bytes.chunks_exact(width * depth) {
            for Taps { first, weights } in &taps {
                for channel in 0..depth {
                    let old = row.iter().skip(first * depth + channel).step_by(depth);
                    across.push(rounded(old.zip(weights).map(|(byte, weight)| i64::from(*byte) * weight).sum()));
                }
            }
        }
        across
    };
    if height == to_height {
        return across;
    }
    let row_bytes = to_width * depth;
    let mut out = Vec::with_capacity(to_height * row_bytes);
    for Taps { first, weights } in taps(height, to_height, filter) {
        let mut sums = vec![0i64; row_bytes];
        for (row, weight) in across.chunks_exact(row_bytes).skip(first).zip(&weights) {
            sums.iter_mut().zip(row).for_each(|(sum, byte)| *sum += i64::from(*byte) * weight);
        }
        out.extend(sums.into_iter().map(rounded));
    }
    out
}
