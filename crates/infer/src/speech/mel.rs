//! Log-mel features of speech as Whisper hears them.

use std::f64::consts::PI;

/// Samples in a second.
pub(crate) const SAMPLE_RATE: usize = 16_000;
/// Samples of a window.
const WINDOW: usize = 400;
/// Samples from frame to frame.
pub(crate) const HOP: usize = 160;
/// Frequencies of a window.
const FREQUENCIES: usize = WINDOW / 2 + 1;

/// Makes features of samples.
pub(crate) struct MelFeatures {
    bins: usize,
    /// `[bins, FREQUENCIES]`.
    filters: Vec<f64>,
    hann: Vec<f64>,
    /// Cosines of `2 pi n / WINDOW`; the sine is that of three quarters of a turn later.
    cosines: Vec<f64>,
}

impl MelFeatures {
    /// Features of so many bins.
    pub(crate) fn new(bins: usize) -> MelFeatures {
        let turn = |n: usize| 2.0 * PI * n as f64 / WINDOW as f64;
        MelFeatures {
            bins,
            filters: filters(bins),
            hann: (0..WINDOW).map(|n| 0.5 - 0.5 * turn(n).cos()).collect(),
            cosines: (0..WINDOW).map(|n| turn(n).cos()).collect(),
        }
    }

    /// Features `[frames, bins]` of samples, cut or filled up with silence to so many frames.
    pub(crate) fn of(&self, samples: &[f32], frames: usize) -> Vec<f32> {
        let count = frames * HOP;
        let sample = |at: i64| {
            // Reflected at both ends.
            let last = count as i64 - 1;
            let at = if at < 0 {
                -at
            } else if at > last {
                2 * last - at
            } else {
                at
            };
            usize::try_from(at).ok().and_then(|at| samples.get(at)).map_or(0.0, |sample| f64::from(*sample))
        };
        let mut features = Vec::with_capacity(frames * self.bins);
        let mut window = [0.0; WINDOW];
        let mut power = [0.0; FREQUENCIES];
        for frame in 0..frames {
            let first = (frame * HOP) as i64 - (WINDOW / 2) as i64;
            for (n, place) in window.iter_mut().enumerate() {
                *place = sample(first + n as i64) * self.hann[n];
            }
            let is_silent = window.iter().all(|value| *value == 0.0);
            for (frequency, power) in power.iter_mut().enumerate() {
                *power = if is_silent { 0.0 } else { self.power(&window, frequency) };
            }
            features.extend(self.filters.chunks_exact(FREQUENCIES).map(|filter| {
                let energy: f64 = filter.iter().zip(&power).map(|(weight, power)| weight * power).sum();
                energy.max(1e-10).log10()
            }));
        }
        let loudest = features.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        features.iter().map(|value| ((value.max(loudest - 8.0) + 4.0) / 4.0) as f32).collect()
    }

    fn power(&self, window: &[f64; WINDOW], frequency: usize) -> f64 {
        let (mut real, mut imaginary) = (0.0, 0.0);
        let mut angle = 0;
        for value in window {
            real += value * self.cosines[angle];
            imaginary += value * self.cosines[(angle + WINDOW * 3 / 4) % WINDOW];
            angle = (angle + frequency) % WINDOW;
        }
        real * real + imaginary * imaginary
    }
}

/// Triangles on Slaney's mel scale from 0 to 8 kHz, of equal area: `[bins, FREQUENCIES]`.
fn filters(bins: usize) -> Vec<f64> {
    let (linear, log_step) = (200.0 / 3.0, 6.4f64.ln() / 27.0);
    let hertz = |mel: f64| if mel < 15.0 { linear * mel } else { 1000.0 * (log_step * (mel - 15.0)).exp() };
    let top = 15.0 + (SAMPLE_RATE as f64 / 2.0 / 1000.0).ln() / log_step;
    let corners: Vec<f64> = (0..bins + 2).map(|n| hertz(top * n as f64 / (bins + 1) as f64)).collect();
    let mut filters = Vec::with_capacity(bins * FREQUENCIES);
    for corner in corners.windows(3) {
        let &[low, middle, high] = corner else { continue };
        for n in 0..FREQUENCIES {
            let frequency = SAMPLE_RATE as f64 / 2.0 * n as f64 / (FREQUENCIES - 1) as f64;
            let weight = ((frequency - low) / (middle - low)).min((high - frequency) / (high - middle)).max(0.0);
            filters.push(weight * 2.0 / (high - low));
        }
    }
    filters
}
