//! k-means: k-means++ seeds, Lloyd's iterations, and the entry that is nearest to a vector by a metric.

use crate::methods::random::Random;
use crate::methods::threads;

/// Entries that one byte tells apart.
pub(crate) const MAX_ENTRIES: usize = 256;

/// Vectors that are summed at a time; sums of chunks are added in order, so that threads change nothing.
const CHUNK: usize = 1024;

/// Which entry of a codebook is the nearest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// The least squared distance: the least error.
    #[default]
    Euclidean,
    /// The least angle.
    Cosine,
    /// The largest dot product.
    Dot,
}

impl Metric {
    /// The metrics and their names.
    pub const NAMES: [(&'static str, Metric); 3] =
        [("euclidean", Metric::Euclidean), ("cosine", Metric::Cosine), ("dot", Metric::Dot)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Metric::NAMES.iter().find(|(_, metric)| *metric == self).map_or("euclidean", |(name, _)| name)
    }

    /// The metric of a name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::NAMES.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric)
    }
}

/// Vectors that a codebook is trained on, with the importance of each value.
pub(crate) struct Vectors {
    pub(crate) width: usize,
    pub(crate) values: Vec<f32>,
    pub(crate) importance: Vec<f32>,
}

impl Vectors {
    pub(crate) fn count(&self) -> usize {
        self.values.len() / self.width
    }

    fn at(&self, index: usize) -> (&[f32], &[f32]) {
        let range = index * self.width..(index + 1) * self.width;
        (&self.values[range.clone()], &self.importance[range])
    }
}

/// The entries of a codebook in the order in which distances are computed.
pub(crate) struct Finder {
    metric: Metric,
    entries: usize,
    /// By dimension, then by entry; of length 1 where angles are compared.
    turned: Vec<f32>,
}

impl Finder {
    pub(crate) fn new(codebook: &[f32], width: usize, metric: Metric) -> Finder {
        let entries = codebook.len() / width;
        let mut turned = vec![0.0; codebook.len()];
        for (number, entry) in codebook.chunks_exact(width).enumerate() {
            let length = entry.iter().map(|value| value * value).sum::<f32>().sqrt();
            let factor = if metric == Metric::Cosine && length > 0.0 { 1.0 / length } else { 1.0 };
            for (dimension, value) in entry.iter().enumerate() {
                turned[dimension * entries + number] = value * factor;
            }
        }
        Finder { metric, entries, turned }
    }

    /// The number of the nearest entry; of equal ones the first.
    pub(crate) fn nearest(&self, vector: &[f32], importance: &[f32]) -> u8 {
        let mut scores = [0.0f32; MAX_ENTRIES];
        let scores = &mut scores[..self.entries];
        for ((entries, value), weight) in self.turned.chunks_exact(self.entries).zip(vector).zip(importance) {
            match self.metric {
                Metric::Euclidean => {
                    for (score, entry) in scores.iter_mut().zip(entries) {
                        *score += weight * (value - entry) * (value - entry);
                    }
                }
                Metric::Cosine | Metric::Dot => {
                    let factor = weight * value;
                    scores.iter_mut().zip(entries).for_each(|(score, entry)| *score -= factor * entry);
                }
            }
        }
        let mut best = (f32::INFINITY, 0);
        for (number, score) in scores.iter().enumerate() {
            if *score < best.0 {
                best = (*score, number);
            }
        }
        best.1 as u8
    }
}

/// What a pass over all vectors gives.
struct Pass {
    sums: Vec<f64>,
    weights: Vec<f64>,
    error: f64,
    /// The vectors that are farthest from their entries, with their errors.
    farthest: Vec<(f64, usize)>,
}

/// A codebook of `entries` vectors. `start` is where it begins, k-means++ if absent.
pub(crate) fn train(
    vectors: &Vectors,
    entries: usize,
    metric: Metric,
    iterations: usize,
    start: Option<Vec<f32>>,
    random: &mut Random,
) -> Vec<f32> {
    let width = vectors.width;
    let mut codebook = start.unwrap_or_else(|| seeds(vectors, entries, random));
    let (mut best, mut least) = (codebook.clone(), f64::INFINITY);
    for _ in 0..=iterations {
        let pass = pass(vectors, &codebook, metric);
        // Metrics other than the euclidean one need not come nearer with each iteration.
        if pass.error < least {
            (least, best) = (pass.error, codebook.clone());
        }
        let mut farthest = pass.farthest.iter();
        for (entry, (sums, weights)) in
            codebook.chunks_exact_mut(width).zip(pass.sums.chunks_exact(width).zip(pass.weights.chunks_exact(width)))
        {
            if weights.iter().all(|weight| *weight == 0.0) {
                // No vector has chosen it: it moves to one that is far from all entries.
                if let Some((_, index)) = farthest.next() {
                    entry.copy_from_slice(vectors.at(*index).0);
                }
                continue;
            }
            for ((value, sum), weight) in entry.iter_mut().zip(sums).zip(weights) {
                if *weight > 0.0 {
                    *value = (sum / weight) as f32;
                }
            }
        }
    }
    best
}

fn pass(vectors: &Vectors, codebook: &[f32], metric: Metric) -> Pass {
    let width = vectors.width;
    let entries = codebook.len() / width;
    let finder = Finder::new(codebook, width, metric);
    let chunks = threads::map_chunks(vectors.count(), CHUNK, |range| {
        let (sums, weights) = (vec![0.0f64; codebook.len()], vec![0.0f64; codebook.len()]);
        let mut pass = Pass { sums, weights, error: 0.0, farthest: Vec::new() };
        for index in range {
            let (vector, importance) = vectors.at(index);
            let first = usize::from(finder.nearest(vector, importance)) * width;
            let mut error = 0.0;
            for (n, (value, weight)) in vector.iter().zip(importance).enumerate() {
                let (value, weight) = (f64::from(*value), f64::from(*weight));
                pass.sums[first + n] += weight * value;
                pass.weights[first + n] += weight;
                error += weight * (value - f64::from(codebook[first + n])).powi(2);
            }
            pass.error += error;
            pass.farthest.push((error, index));
        }
        pass.farthest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        pass.farthest.truncate(entries);
        pass
    });
    let zeros = || vec![0.0; codebook.len()];
    let mut whole = Pass { sums: zeros(), weights: zeros(), error: 0.0, farthest: Vec::new() };
    for chunk in chunks {
        whole.sums.iter_mut().zip(chunk.sums).for_each(|(sum, more)| *sum += more);
        whole.weights.iter_mut().zip(chunk.weights).for_each(|(sum, more)| *sum += more);
        whole.error += chunk.error;
        whole.farthest.extend(chunk.farthest);
    }
    whole.farthest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    whole.farthest.truncate(entries);
    whole
}

/// k-means++: each further seed is a vector picked with a probability that grows with its squared distance to the seeds.
fn seeds(vectors: &Vectors, entries: usize, random: &mut Random) -> Vec<f32> {
    let count = vectors.count();
    let mut seeds = vectors.at(random.below(count)).0.to_vec();
    let mut distances = vec![f64::INFINITY; count];
    while seeds.len() < entries * vectors.width {
        let seed = &seeds[seeds.len() - vectors.width..];
        threads::for_each_chunk(&mut distances, CHUNK, |chunk, distances| {
            for (n, distance) in distances.iter_mut().enumerate() {
                let (vector, importance) = vectors.at(chunk * CHUNK + n);
                let terms = vector.iter().zip(seed).zip(importance);
                let now: f32 = terms.map(|((a, b), weight)| weight * (a - b) * (a - b)).sum();
                *distance = distance.min(f64::from(now));
            }
        });
        let mut left = random.uniform() * distances.iter().sum::<f64>();
        let mut picked = random.below(count);
        for (index, distance) in distances.iter().enumerate() {
            left -= distance;
            if left < 0.0 {
                picked = index;
                break;
            }
        }
        seeds.extend_from_slice(vectors.at(picked).0);
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(values: Vec<f32>, width: usize) -> Vectors {
        Vectors { width, importance: vec![1.0; values.len()], values }
    }

    #[test]
    fn clusters_are_found() {
        let mut random = Random::new(1);
        let centres = [[-5.0f32, 0.0], [5.0, 5.0], [0.0, 9.0], [4.0, -6.0]];
        let values = (0..4000)
            .flat_map(|n| centres[n % 4].map(|centre| centre + 0.3 * random.gaussian() as f32))
            .collect::<Vec<_>>();
        for (_, metric) in Metric::NAMES {
            let codebook = train(&vectors(values.clone(), 2), 4, metric, 10, None, &mut Random::new(2));
            let near = |centre: &[f32; 2]| {
                codebook.chunks(2).any(|entry| entry.iter().zip(centre).all(|(a, b)| (a - b).abs() < 0.1))
            };
            assert!(metric == Metric::Dot || centres.iter().all(near), "{metric:?}: {codebook:?}");
        }
    }

    #[test]
    fn nearest_entries_equal_their_definition() {
        let mut random = Random::new(3);
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.gaussian() as f32).collect() };
        let (codebook, values) = (numbers(60 * 3), numbers(200 * 3));
        let importance = [1.0, 3.0, 0.5];
        for (name, metric) in Metric::NAMES {
            assert_eq!(Metric::from_name(name), Some(metric));
            let finder = Finder::new(&codebook, 3, metric);
            for vector in values.chunks(3) {
                let score = |entry: &[f32]| -> f32 {
                    let weighted = |f: &dyn Fn(f32, f32) -> f32| -> f32 {
                        (0..3).map(|n| importance[n] * f(vector[n], entry[n])).sum()
                    };
                    match metric {
                        Metric::Euclidean => weighted(&|a, b| (a - b) * (a - b)),
                        Metric::Dot => -weighted(&|a, b| a * b),
                        Metric::Cosine => {
                            -weighted(&|a, b| a * b) / entry.iter().map(|value| value * value).sum::<f32>().sqrt()
                        }
                    }
                };
                let best = codebook.chunks(3).map(score).fold(f32::INFINITY, f32::min);
                let found = usize::from(finder.nearest(vector, &importance));
                assert!(score(&codebook[found * 3..][..3]) <= best + 1e-5, "{name}");
            }
        }
    }

    #[test]
    fn few_and_equal_vectors_make_a_codebook_too() {
        let codebook = train(&vectors(vec![1.0, 2.0, 1.0, 2.0], 2), 8, Metric::Euclidean, 3, None, &mut Random::new(1));
        assert_eq!(codebook, [1.0, 2.0].repeat(8));
    }
}
