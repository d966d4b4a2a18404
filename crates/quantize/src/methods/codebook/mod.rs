//! Vector quantization: neighbouring weights become one number, an index into a codebook that k-means trains.
//!
//! With several codebooks, each further one holds what those before it left (residual codebooks).

mod file;
mod kmeans;

pub use file::CODEBOOK_VERSION;
pub use kmeans::Metric;

use crate::error::Error;
use crate::methods::matrix::Matrix;
use crate::methods::random::Random;
use crate::methods::statistics::InputStatistics;
use crate::methods::threads;
use kmeans::{Finder, MAX_ENTRIES, Vectors};

/// Most values of a vector.
const MAX_VECTOR: usize = 64;

/// Most codebooks whose entries are added.
const MAX_STAGES: usize = 16;

/// Rows that a thread encodes at a time.
const ROWS: usize = 8;

/// How codebooks are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodebookOptions {
    /// Neighbouring inputs that become one code.
    pub vector: usize,
    /// Entries of a codebook: at most 128 are gathered at once on TPUs, 256 are possible.
    pub entries: usize,
    /// Codebooks whose entries are added.
    pub stages: usize,
    /// Which entry is the nearest.
    pub metric: Metric,
    /// Inputs that share a scale; all of an output if absent.
    pub group: Option<usize>,
    /// Lloyd's iterations.
    pub iterations: usize,
    /// Vectors that are trained on, at equal distances.
    pub sampled_vectors: usize,
    /// Where random choices begin.
    pub seed: u64,
}

impl Default for CodebookOptions {
    fn default() -> CodebookOptions {
        CodebookOptions {
            vector: 4,
            entries: 128,
            stages: 1,
            metric: Metric::Euclidean,
            group: None,
            iterations: 20,
            sampled_vectors: 1 << 15,
            seed: 0,
        }
    }
}

/// Trained codebooks.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebooks {
    vector: usize,
    entries: usize,
    metric: Metric,
    group: Option<usize>,
    /// One codebook after the other, entry by entry.
    values: Vec<f32>,
}

impl Codebooks {
    /// Trains codebooks for a weight. With statistics, errors are weighted by the inputs' mean squares.
    pub fn train(
        weight: &Matrix,
        statistics: Option<&InputStatistics>,
        options: &CodebookOptions,
    ) -> Result<Codebooks, Error> {
        let mut codebooks = Codebooks::new(options.vector, options.entries, options.metric, options.group, Vec::new())?;
        if !(1..=MAX_STAGES).contains(&options.stages) {
            let message = format!("{} codebooks are not added to each other", options.stages);
            return Err(Error::setting(message, format!("use 1 to {MAX_STAGES} codebooks")));
        }
        let importance = codebooks.importance(weight, statistics)?;
        let mut vectors = codebooks.sample(weight, &importance, options.sampled_vectors);
        let originals = vectors.values.clone();
        let mut random = Random::new(options.seed);
        let iterations = options.iterations.min(1000);
        let size = options.entries * options.vector;
        for _ in 0..options.stages {
            let values = kmeans::train(&vectors, options.entries, options.metric, iterations, None, &mut random);
            codebooks.subtract_nearest(&mut vectors, &values);
            codebooks.values.extend(values);
        }
        // Each codebook once more, for what all the others leave.
        for stage in (0..options.stages).filter(|_| options.stages > 1) {
            vectors.values.copy_from_slice(&originals);
            for (other, values) in codebooks.values.chunks_exact(size).enumerate() {
                if other != stage {
                    codebooks.subtract_nearest(&mut vectors, values);
                }
            }
            let start = codebooks.values[stage * size..][..size].to_vec();
            let few = iterations.min(4);
            let values =
                kmeans::train(&vectors, options.entries, options.metric, few, Some(start.clone()), &mut random);
            // The order of codebooks decides what the others leave: kept only where the whole becomes better.
            let before = codebooks.error(&originals, &vectors.importance);
            codebooks.values[stage * size..][..size].copy_from_slice(&values);
            if codebooks.error(&originals, &vectors.importance) > before {
                codebooks.values[stage * size..][..size].copy_from_slice(&start);
            }
        }
        Ok(codebooks)
    }

    pub(crate) fn new(
        vector: usize,
        entries: usize,
        metric: Metric,
        group: Option<usize>,
        values: Vec<f32>,
    ) -> Result<Codebooks, Error> {
        if !(1..=MAX_VECTOR).contains(&vector) || !(1..=MAX_ENTRIES).contains(&entries) {
            let message = format!("a codebook of {entries} vectors of {vector} values is not made");
            let remedy = format!("use 1 to {MAX_ENTRIES} vectors (128 for TPUs) of 1 to {MAX_VECTOR} values");
            return Err(Error::setting(message, remedy));
        }
        match group {
            Some(group) if group == 0 || !group.is_multiple_of(vector) => {
                let message = format!("a group of {group} inputs has no whole vectors of {vector}");
                Err(Error::setting(message, "make the group a multiple of the vector"))
            }
            _ => Ok(Codebooks { vector, entries, metric, group, values }),
        }
    }

    /// Values of a vector.
    pub fn vector(&self) -> usize {
        self.vector
    }

    /// Entries of a codebook.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Codebooks whose entries are added.
    pub fn stages(&self) -> usize {
        self.values.len() / (self.entries * self.vector)
    }

    /// The metric they were trained with.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Inputs that share a scale.
    pub fn group(&self) -> Option<usize> {
        self.group
    }

    /// The entries, `[stages, entries, vector]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Bits of an index.
    fn index_bits(&self) -> u64 {
        u64::from(self.entries.next_power_of_two().trailing_zeros())
    }

    fn stage_values(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.entries * self.vector)
    }

    fn finders(&self) -> Vec<Finder> {
        self.stage_values().map(|values| Finder::new(values, self.vector, self.metric)).collect()
    }

    /// How much each input matters, 1 on average.
    fn importance(&self, weight: &Matrix, statistics: Option<&InputStatistics>) -> Result<Vec<f32>, Error> {
        let inputs = weight.in_features();
        if !inputs.is_multiple_of(self.vector) {
            let message = format!("its {inputs} inputs are no vectors of {}", self.vector);
            return Err(Error::layer(weight.name(), message, "use a vector that divides the inputs"));
        }
        let Some(statistics) = statistics else { return Ok(vec![1.0; inputs]) };
        statistics.check_for(weight.name(), inputs)?;
        let squares = statistics.mean_square();
        let mean = squares.iter().map(|square| f64::from(*square)).sum::<f64>() / inputs as f64;
        if mean <= 0.0 {
            return Ok(vec![1.0; inputs]);
        }
        // Inputs that were never seen matter a little.
        Ok(squares.iter().map(|square| (f64::from(*square) / mean).max(1e-4) as f32).collect())
    }

    fn group_size(&self, inputs: usize) -> usize {
        self.group.unwrap_or(inputs).min(inputs)
    }

    /// Vectors at equal distances, divided by the scales of their groups.
    fn sample(&self, weight: &Matrix, importance: &[f32], count: usize) -> Vectors {
        let (inputs, group) = (weight.in_features(), self.group_size(weight.in_features()));
        let total = weight.values().len() / self.vector;
        let count = count.clamp(1, total);
        let mut vectors = Vectors { width: self.vector, values: Vec::new(), importance: Vec::new() };
        for n in 0..count {
            let first = (n as u128 * total as u128 / count as u128) as usize * self.vector;
            let (row, input) = (first / inputs, first % inputs);
            let start = input / group * group;
            let scale = root_mean_square(&weight.row(row)[start..(start + group).min(inputs)]);
            vectors.values.extend(weight.values()[first..first + self.vector].iter().map(|value| value / scale));
            vectors.importance.extend(&importance[input..input + self.vector]);
        }
        vectors
    }

    fn subtract_nearest(&self, vectors: &mut Vectors, values: &[f32]) {
        let finder = Finder::new(values, self.vector, self.metric);
        let importance = &vectors.importance;
        let chunk = 1024 * self.vector;
        threads::for_each_chunk(&mut vectors.values, chunk, |number, vectors| {
            let importance = importance[number * chunk..].chunks_exact(self.vector);
            for (vector, importance) in vectors.chunks_exact_mut(self.vector).zip(importance) {
                let entry = &values[usize::from(finder.nearest(vector, importance)) * self.vector..];
                vector.iter_mut().zip(entry).for_each(|(value, entry)| *value -= entry);
            }
        });
    }

    /// The weighted squared error of vectors.
    fn error(&self, values: &[f32], importance: &[f32]) -> f64 {
        let finders = self.finders();
        let errors = threads::map_chunks(values.len() / self.vector, 1024, |range| {
            let mut sum = 0.0;
            for index in range {
                let range = index * self.vector..(index + 1) * self.vector;
                let mut left = values[range.clone()].to_vec();
                self.encode_vector(&finders, &mut left, &importance[range.clone()], |_, _| {});
                sum += left
                    .iter()
                    .zip(&importance[range])
                    .map(|(v, w)| f64::from(*w) * f64::from(*v).powi(2))
                    .sum::<f64>();
            }
            sum
        });
        errors.iter().sum()
    }

    /// Takes the nearest entry of each codebook from a vector, and gives their numbers.
    fn encode_vector(&self, finders: &[Finder], left: &mut [f32], importance: &[f32], mut give: impl FnMut(usize, u8)) {
        for (stage, (finder, values)) in finders.iter().zip(self.stage_values()).enumerate() {
            let code = finder.nearest(left, importance);
            let entry = &values[usize::from(code) * self.vector..];
            left.iter_mut().zip(entry).for_each(|(value, entry)| *value -= entry);
            give(stage, code);
        }
    }

    /// Quantizes a weight with these codebooks.
    pub fn encode(&self, weight: &Matrix, statistics: Option<&InputStatistics>) -> Result<EncodedMatrix, Error> {
        let importance = self.importance(weight, statistics)?;
        let (inputs, group) = (weight.in_features(), self.group_size(weight.in_features()));
        let (finders, stages) = (self.finders(), self.stages());
        let done = threads::map_chunks(weight.out_features(), ROWS, |rows| {
            let mut codes = vec![Vec::with_capacity(rows.len() * inputs / self.vector); stages];
            let mut scales = Vec::new();
            let mut left = vec![0.0f32; self.vector];
            for row in rows {
                for (number, values) in weight.row(row).chunks(group).enumerate() {
                    let scale = root_mean_square(values);
                    // The scale that fits best once codes are known, by least squares.
                    let (mut with, mut square) = (0.0f64, 0.0f64);
                    for (n, vector) in values.chunks_exact(self.vector).enumerate() {
                        let importance = &importance[number * group + n * self.vector..][..self.vector];
                        left.iter_mut().zip(vector).for_each(|(left, value)| *left = value / scale);
                        self.encode_vector(&finders, &mut left, importance, |stage, code| codes[stage].push(code));
                        for ((value, left), weight) in vector.iter().zip(&left).zip(importance) {
                            let (value, weight) = (f64::from(*value), f64::from(*weight));
                            let decoded = value / f64::from(scale) - f64::from(*left);
                            with += weight * value * decoded;
                            square += weight * decoded * decoded;
                        }
                    }
                    let fitted = (with / square) as f32;
                    scales.push(if fitted.is_normal() && fitted > 0.0 { fitted } else { scale });
                }
            }
            (codes, scales)
        });
        let mut codes = vec![Vec::with_capacity(weight.values().len() / self.vector); stages];
        let mut scales = Vec::new();
        for (chunk, more) in done {
            codes.iter_mut().zip(chunk).for_each(|(codes, chunk)| codes.extend(chunk));
            scales.extend(more);
        }
        EncodedMatrix::new(self.clone(), weight.out_features(), inputs, codes.concat(), scales)
    }
}

/// The scale of a group; 1 where all of it is zero.
fn root_mean_square(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
    let scale = (sum / values.len().max(1) as f64).sqrt() as f32;
    if scale.is_normal() { scale } else { 1.0 }
}

/// A weight as indices into codebooks, with scales.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedMatrix {
    codebooks: Codebooks,
    out_features: usize,
    in_features: usize,
    /// `[stages, out_features, in_features / vector]`.
    codes: Vec<u8>,
    /// `[out_features, groups]`.
    scales: Vec<f32>,
}

impl EncodedMatrix {
    pub(crate) fn new(
        codebooks: Codebooks,
        out_features: usize,
        in_features: usize,
        codes: Vec<u8>,
        scales: Vec<f32>,
    ) -> Result<EncodedMatrix, Error> {
        let wrong = |message: String| Error::setting(message, "quantize the weight again");
        let elements = out_features.checked_mul(in_features).filter(|elements| *elements > 0);
        let vectors = elements.filter(|_| in_features.is_multiple_of(codebooks.vector)).map(|n| n / codebooks.vector);
        if vectors.and_then(|vectors| vectors.checked_mul(codebooks.stages())) != Some(codes.len()) {
            let message = format!("a weight of [{out_features}, {in_features}] has {} codes", codes.len());
            return Err(wrong(message));
        }
        if let Some(code) = codes.iter().find(|code| usize::from(**code) >= codebooks.entries) {
            return Err(wrong(format!("the code {code} is out of a codebook of {} entries", codebooks.entries)));
        }
        let groups = in_features.div_ceil(codebooks.group_size(in_features));
        if scales.len() != out_features * groups || scales.iter().any(|scale| !scale.is_finite()) {
            return Err(wrong(format!("{} scales, all finite, are needed", out_features * groups)));
        }
        Ok(EncodedMatrix { codebooks, out_features, in_features, codes, scales })
    }

    /// The codebooks.
    pub fn codebooks(&self) -> &Codebooks {
        &self.codebooks
    }

    /// Outputs: rows.
    pub fn out_features(&self) -> usize {
        self.out_features
    }

    /// Inputs: columns.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// Indices into the codebooks, `[stages, out_features, in_features / vector]`.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// Scales, `[out_features, groups]`.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// All elements, row by row.
    pub fn dequantize(&self) -> Vec<f32> {
        let (vector, inputs) = (self.codebooks.vector, self.in_features);
        let group = self.codebooks.group_size(inputs);
        let groups = inputs.div_ceil(group);
        let mut values = vec![0.0; self.out_features * inputs];
        let per_stage = values.len() / vector;
        for (codes, entries) in self.codes.chunks_exact(per_stage).zip(self.codebooks.stage_values()) {
            for (target, code) in values.chunks_exact_mut(vector).zip(codes) {
                let entry = &entries[usize::from(*code) * vector..];
                target.iter_mut().zip(entry).for_each(|(target, entry)| *target += entry);
            }
        }
        for (row, scales) in values.chunks_exact_mut(inputs).zip(self.scales.chunks_exact(groups)) {
            for (values, scale) in row.chunks_mut(group).zip(scales) {
                values.iter_mut().for_each(|value| *value *= scale);
            }
        }
        values
    }

    /// Bytes where codes take no more than their bits; entries and scales take 2 bytes each.
    pub fn packed_bytes(&self) -> u64 {
        let codes = (self.codes.len() as u64 * self.codebooks.index_bits()).div_ceil(8);
        codes + 2 * (self.codebooks.values.len() + self.scales.len()) as u64
    }

    /// Bits a weight takes, with codebooks and scales.
    pub fn bits_per_weight(&self) -> f64 {
        self.packed_bytes() as f64 * 8.0 / (self.out_features * self.in_features) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::examples::{correlated, gaussian};
    use crate::methods::{Rounding, metrics, nearest};

    fn sqnr(weight: &Matrix, options: &CodebookOptions) -> (f64, f64) {
        let packed = Codebooks::train(weight, None, options).unwrap().encode(weight, None).unwrap();
        (metrics::sqnr_db(weight.values(), &packed.dequantize()), packed.bits_per_weight())
    }

    #[test]
    fn two_bits_by_codebook_are_better_than_by_scalar() {
        let weight = gaussian(256, 1024, 1);
        let scalar = nearest::quantize(&weight, &Rounding::new("w2a16".parse().unwrap()), None).unwrap();
        let (scalar_db, scalar_bits) =
            (metrics::sqnr_db(weight.values(), &scalar.dequantize()), metrics::bits_per_weight(&scalar));
        let default = CodebookOptions { iterations: 8, ..CodebookOptions::default() };
        let (db, bits) = sqnr(&weight, &CodebookOptions { entries: 256, ..default });
        assert!(
            db > scalar_db + 1.0 && bits < scalar_bits + 0.1,
            "{db:.2} dB {bits:.2}, {scalar_db:.2} {scalar_bits:.2}"
        );
        // Better with fewer bits, in the size that TPUs gather.
        let (db, bits) = sqnr(&weight, &default);
        assert!(db > scalar_db && bits < scalar_bits, "{db:.2} dB {bits:.2}, {scalar_db:.2} {scalar_bits:.2}");
        // Residual codebooks come near to one that is as large as all of them.
        let (db, bits) = sqnr(&weight, &CodebookOptions { vector: 8, stages: 2, ..default });
        assert!(db > 7.5 && bits < 1.9, "{db:.2} dB {bits:.2}");
    }

    #[test]
    fn weighted_codebooks_lose_less_of_what_is_important() {
        let (weight, statistics) = (gaussian(64, 256, 2), correlated(400, 256, 3));
        let error = |statistics_given: Option<&InputStatistics>, metric| {
            let options = CodebookOptions { metric, group: Some(64), iterations: 6, ..CodebookOptions::default() };
            let codebooks = Codebooks::train(&weight, statistics_given, &options).unwrap();
            let back = codebooks.encode(&weight, statistics_given).unwrap().dequantize();
            let squares = statistics.mean_square();
            let terms = weight.values().iter().zip(back).enumerate();
            terms.map(|(n, (a, b))| f64::from((a - b) * (a - b) * squares[n % 256])).sum::<f64>()
        };
        let euclidean = error(Some(&statistics), Metric::Euclidean);
        assert!(euclidean < error(None, Metric::Euclidean) * 0.9);
        for metric in [Metric::Cosine, Metric::Dot] {
            let other = error(Some(&statistics), metric);
            assert!(other.is_finite() && other >= euclidean, "{metric:?}");
        }
    }

    #[test]
    fn equal_seeds_give_equal_codes() {
        let weight = gaussian(32, 128, 4);
        let of = |seed| {
            let options = CodebookOptions { seed, stages: 2, entries: 16, iterations: 3, ..CodebookOptions::default() };
            Codebooks::train(&weight, None, &options).unwrap().encode(&weight, None).unwrap()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn degenerate_weights_and_options_do_not_panic() {
        for values in [vec![0.0; 16], vec![f32::MAX; 16], vec![1e-45; 16]] {
            let weight = Matrix::new("w", 2, 8, values).unwrap();
            let options = CodebookOptions { stages: 2, iterations: 2, ..CodebookOptions::default() };
            let packed = Codebooks::train(&weight, None, &options).unwrap().encode(&weight, None).unwrap();
            assert!(packed.scales().iter().all(|scale| scale.is_finite()));
        }
        let weight = gaussian(2, 6, 1);
        let default = CodebookOptions { vector: 2, ..CodebookOptions::default() };
        let refused = |options| Codebooks::train(&weight, None, &options).is_err();
        assert!(refused(CodebookOptions { vector: 4, ..default }) && refused(CodebookOptions { vector: 0, ..default }));
        assert!(
            refused(CodebookOptions { entries: 0, ..default }) && refused(CodebookOptions { entries: 257, ..default })
        );
        assert!(
            refused(CodebookOptions { stages: 0, ..default }) && refused(CodebookOptions { stages: 99, ..default })
        );
        assert!(refused(CodebookOptions { group: Some(3), ..default }) && !refused(default));
    }
}
