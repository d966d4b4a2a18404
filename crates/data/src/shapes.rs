//! Images of simple shapes with their names as labels, made as they are asked for.

use tensor::{DType, Literal, Spec};

use super::Dataset;
use super::error::DataError;
use super::order::{Batching, Shard};
use super::permutation::{Random, key};
use super::tokens::wrong_size;

/// Names of the shapes; a label is an index into them.
pub const SHAPE_CLASSES: [&str; 8] = ["disc", "square", "triangle", "cross", "ring", "diamond", "bars", "frame"];

/// What images of shapes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeOptions {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// 1 for grey, 3 for colour.
    pub channels: usize,
    /// How many of [`SHAPE_CLASSES`] there are, from 2.
    pub classes: usize,
    /// Rows of a batch, seed and shard.
    pub batching: Batching,
}

/// Images of shapes: pixels `f32[batch, height, width, channels]` from about -1 to 1 and labels `i32[batch]`.
///
/// Shapes differ in place, size and colour and lie on noise. Only operations that IEEE 754 rounds exactly are used, so
/// that every machine makes the same pixels.
#[derive(Clone, Debug)]
pub struct ShapeImages {
    options: ShapeOptions,
    rows: usize,
}

impl ShapeImages {
    /// Images of shapes.
    pub fn new(options: ShapeOptions) -> Result<ShapeImages, DataError> {
        let ShapeOptions { height, width, channels, classes, batching } = options;
        if height < 8 || width < 8 || !matches!(channels, 1 | 3) {
            return Err(DataError::Options(format!("images of {height}x{width}x{channels} are not of 8x8x1 or more")));
        }
        if !(2..=SHAPE_CLASSES.len()).contains(&classes) {
            return Err(DataError::Options(format!("{classes} classes are not from 2 to {}", SHAPE_CLASSES.len())));
        }
        let mut images = ShapeImages { options, rows: 0 };
        images.rows = batching.rows(images.row_bytes())?;
        Ok(images)
    }

    fn row_bytes(&self) -> Option<usize> {
        let ShapeOptions { height, width, channels, .. } = self.options;
        height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels * size_of::<f32>()))
    }

    /// Appends one image and gives its label.
    fn draw(&self, random: &mut Random, pixels: &mut Vec<u8>) -> i32 {
        let ShapeOptions { height, width, channels, classes, .. } = self.options;
        let label = random.below(classes as u64);
        let shorter = height.min(width) as f32;
        let radius = shorter * random.between(0.2, 0.4);
        let (row, column) = (middle(random, height, radius), middle(random, width, radius));
        // Shape and background differ by at least half of the range in each channel.
        let colours: [(f32, f32); 3] = std::array::from_fn(|_| {
            let low = random.between(-0.8, -0.3);
            let high = low + random.between(0.5, 1.0);
            if random.bits() >> 63 == 0 { (low, high) } else { (high, low) }
        });
        for y in 0..height {
            for x in 0..width {
                let inside = is_inside(label, (x as f32 + 0.5 - column) / radius, (y as f32 + 0.5 - row) / radius);
                for (back, front) in colours.iter().take(channels) {
                    let value = if inside { front } else { back } + random.between(-0.1, 0.1);
                    pixels.extend(value.to_le_bytes());
                }
            }
        }
        label as i32
    }
}

/// A place for the middle of a shape so that all of it is in the image.
fn middle(random: &mut Random, size: usize, radius: f32) -> f32 {
    random.between(radius, size as f32 - radius)
}

/// Whether a point is in a shape of radius 1 around the origin.
fn is_inside(label: u64, x: f32, y: f32) -> bool {
    let square = x.abs().max(y.abs());
    let distance = x * x + y * y;
    match label {
        0 => distance <= 1.0,
        1 => square <= 0.9,
        2 => y <= 0.9 && y >= -0.9 + 2.0 * x.abs(),
        3 => square <= 1.0 && x.abs().min(y.abs()) <= 0.3,
        4 => (0.4..=1.0).contains(&distance),
        5 => x.abs() + y.abs() <= 1.0,
        6 => square <= 1.0 && (x.abs() <= 0.25 || x.abs() >= 0.75),
        _ => (0.6..=0.95).contains(&square),
    }
}

impl Dataset for ShapeImages {
    fn specs(&self) -> Vec<Spec> {
        let ShapeOptions { height, width, channels, .. } = self.options;
        vec![Spec::new(DType::F32, [self.rows, height, width, channels]), Spec::new(DType::I32, [self.rows])]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        self.rows(step, self.options.batching.shard)
    }

    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        let ShapeOptions { height, width, channels, batching, .. } = self.options;
        let batching = Batching { shard, ..batching };
        let rows = batching.rows(self.row_bytes())?;
        let mut pixels = Vec::with_capacity(rows * height * width * channels * size_of::<f32>());
        let mut labels = Vec::with_capacity(rows * size_of::<i32>());
        for position in batching.positions(step) {
            let mut random = Random::new(key(&[batching.seed, position]));
            labels.extend(self.draw(&mut random, &mut pixels).to_le_bytes());
        }
        let pixels = Literal::new(DType::F32, [rows, height, width, channels], pixels);
        let labels = Literal::new(DType::I32, [rows], labels);
        pixels.zip(labels).map(|(pixels, labels)| vec![pixels, labels]).ok_or_else(wrong_size)
    }

    fn describe(&self) -> String {
        let ShapeOptions { height, width, channels, classes, batching: Batching { batch, seed, .. } } = self.options;
        format!("{classes} shapes, {height}x{width}x{channels}, batches of {batch}, seed {seed}")
    }
}
