//! How long the methods take on a square weight: `cargo run --release --example speed -- 4096`.

use std::time::Instant;

use quantize::methods::awq::{self, AwqOptions};
use quantize::methods::codebook::{CodebookOptions, Codebooks};
use quantize::methods::gptq::{self, GptqOptions};
use quantize::methods::rotation::Rotation;
use quantize::methods::{InputStatistics, Matrix, Rounding, metrics, nearest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let width: usize = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let mut state = 1u64;
    let mut next = move || {
        // Sums of uniform numbers are near enough to Gaussian ones.
        (0..4)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
            })
            .sum::<f32>()
    };
    let mut weight = Matrix::new("weight", width, width, (0..width * width).map(|_| next()).collect())?;
    let rows: Vec<f32> = (0..256 * width).map(|_| next()).collect();
    let mut last = Instant::now();
    let mut tell = |what: &str| {
        println!("{what:<24} {:>8.2} s", last.elapsed().as_secs_f64());
        last = Instant::now();
    };
    let mut statistics = InputStatistics::new("weight", width)?;
    statistics.add_rows(&rows)?;
    tell("Gram matrix of 256 rows");
    let rounding = Rounding::new("w4a16".parse()?);
    let packed = nearest::quantize(&weight, &rounding, None)?;
    tell("nearest, int4, clip");
    let back = packed.dequantize();
    metrics::relative_output_error(&weight, &back, &statistics)?;
    tell("output error");
    gptq::quantize(&weight, &rounding, &statistics, &GptqOptions::default())?;
    tell("GPTQ, int4 per channel");
    awq::search(&[&weight], &rounding, &statistics, &AwqOptions::default())?;
    tell("AWQ");
    let codebooks = Codebooks::train(&weight, Some(&statistics), &CodebookOptions::default())?;
    tell("codebook, trained");
    codebooks.encode(&weight, Some(&statistics))?;
    tell("codebook, encoded");
    let rotation = Rotation::new(width, 1)?;
    rotation.rotate_inputs(&mut weight)?;
    tell("rotation of inputs");
    rotation.rotate_outputs(&mut weight)?;
    tell("rotation of outputs");
    Ok(())
}
