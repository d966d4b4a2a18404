//! Pictures of PNG and JPEG files: decoded within bounds to 8 bits a channel, cropped and scaled.

use std::error::Error;
use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Longest side of a picture that is decoded.
pub(super) const MAX_SIDE_PIXELS: u32 = 1 << 15;

/// Most bytes a decoded picture may take. A small file can ask for much.
pub(super) const MAX_DECODE_BYTES: u64 = 256 << 20;

/// Why a file is no picture that can be used.
pub(super) type Refusal = Box<dyn Error + Send + Sync>;

/// What each pixel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    /// Brightness.
    Grey,
    /// Red, green and blue.
    Colour,
}

impl Channels {
    fn count(self) -> usize {
        match self {
            Channels::Grey => 1,
            Channels::Colour => 3,
        }
    }
}

/// Pixels in rows, 8 bits a channel. Both sides are at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    width: usize,
    height: usize,
    channels: Channels,
    bytes: Vec<u8>,
}

impl Picture {
    /// Decodes a PNG or JPEG file. What is transparent shows as if it were not.
    pub(super) fn decode(file: &[u8], channels: Channels) -> Result<Picture, Refusal> {
        if file.starts_with(b"\x89PNG\r\n\x1a\n") {
            decode_png(file, channels)
        } else if file.starts_with(&[0xff, 0xd8, 0xff]) {
            decode_jpeg(file, channels)
        } else {
            Err("it is neither PNG nor JPEG".into())
        }
    }

    /// Width and height, and the bytes.
    pub(super) fn into_parts(self) -> ((usize, usize), Vec<u8>) {
        ((self.width, self.height), self.bytes)
    }

    /// Samples of 8 bits as they lie in a file: so many a pixel, the first ones colour or grey, any other transparency.
    fn of_samples(size: (usize, usize), samples: &[u8], per_pixel: usize, channels: Channels) -> Picture {
        let pixels = samples.chunks_exact(per_pixel.max(1));
        let bytes = match (per_pixel, channels) {
            (0..3, Channels::Grey) => pixels.map(|pixel| pixel[0]).collect(),
            (0..3, Channels::Colour) => pixels.flat_map(|pixel| [pixel[0]; 3]).collect(),
            (_, Channels::Grey) => {
                pixels.map(|pixel| luma([pixel[0], pixel[1], pixel[2]].map(|part| f32::from(part) / 255.0))).collect()
            }
            (_, Channels::Colour) => pixels.flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        };
        Picture { width: size.0, height: size.1, channels, bytes }
    }

    /// The largest part in the middle that has the proportions of a size.
    pub(super) fn crop(self, height: usize, width: usize) -> Picture {
        let (height, width) = (height.max(1), width.max(1));
        let crop_width = self.width.min(self.height * width / height).max(1);
        let crop_height = self.height.min(self.width * height / width).max(1);
        if (crop_width, crop_height) == (self.width, self.height) {
            return self;
        }
        let (left, top) = ((self.width - crop_width) / 2, (self.height - crop_height) / 2);
        let pixel_bytes = self.channels.count();
        let rows = self.bytes.chunks_exact(self.width * pixel_bytes).skip(top).take(crop_height);
        let bytes = rows.flat_map(|row| &row[left * pixel_bytes..(left + crop_width) * pixel_bytes]).copied().collect();
        Picture { width: crop_width, height: crop_height, channels: self.channels, bytes }
    }

    /// Scales all of it to a size and gives its bytes. Each new pixel is the mean of those it covers, nearer ones counting
    /// more (a triangle over two pixels of the coarser grid); rows are scaled first, in `f32`.
    pub(super) fn scale(self, height: usize, width: usize) -> Vec<u8> {
        if (width, height) == (self.width, self.height) {
            return self.bytes;
        }
        let depth = self.channels.count();
        let row_elements = self.width * depth;
        let mut row = vec![0.0f32; row_elements];
        let mut scaled = Vec::with_capacity(height * width * depth);
        let across = weights(self.width, width);
        for Covered { first, weights } in weights(self.height, height) {
            row.fill(0.0);
            let rows = self.bytes.chunks_exact(row_elements).skip(first);
            for (source, weight) in rows.zip(&weights) {
                for (sum, byte) in row.iter_mut().zip(source) {
                    *sum += f32::from(*byte) * weight;
                }
            }
            for Covered { first, weights } in &across {
                for channel in 0..depth {
                    let covered = row.iter().skip(first * depth + channel).step_by(depth);
                    let sum = covered.zip(weights).fold(0.0, |sum, (value, weight)| sum + value * weight);
                    // A conversion to u8 keeps to its bounds.
                    scaled.push(sum.round() as u8);
                }
            }
        }
        scaled
    }
}

/// Old pixels that a new one covers: from which on, and how much each counts. The weights add up to 1.
struct Covered {
    first: usize,
    weights: Vec<f32>,
}

/// What each of `to` pixels covers of `from` pixels, along one side.
fn weights(from: usize, to: usize) -> Vec<Covered> {
    let ratio = from as f32 / to as f32;
    let reach = ratio.max(1.0);
    let covered = |pixel: usize| {
        // The middle of the new pixel, measured in old ones.
        let middle = (pixel as f32 + 0.5) * ratio;
        let first = ((middle - reach).floor().max(0.0) as usize).min(from - 1);
        let end = ((middle + reach).ceil().max(0.0) as usize).clamp(first + 1, from);
        let weight = |old: usize| (1.0 - ((old as f32 - (middle - 0.5)) / reach).abs()).max(0.0);
        let weights: Vec<f32> = (first..end).map(weight).collect();
        let sum: f32 = weights.iter().sum();
        Covered { first, weights: weights.into_iter().map(|weight| weight / sum).collect() }
    };
    (0..to).map(covered).collect()
}

/// Brightness of a colour from 0 to 1 by the coefficients of sRGB, to the nearest of 256 steps.
fn luma([red, green, blue]: [f32; 3]) -> u8 {
    const RED: f32 = 0.212_639;
    const GREEN: f32 = 0.715_168_7;
    const BLUE: f32 = 0.072_192_32;
    ((RED * red + GREEN * green + BLUE * blue) * 255.0).round() as u8
}

/// Refuses sizes out of bounds before anything is allocated for them.
fn check_size(width: u32, height: u32, pixel_bytes: u64) -> Result<(), Refusal> {
    if width == 0 || height == 0 {
        return Err(format!("it has {width} x {height} pixels").into());
    }
    if width.max(height) > MAX_SIDE_PIXELS || u64::from(width) * u64::from(height) * pixel_bytes > MAX_DECODE_BYTES {
        let most = format!("at most {MAX_SIDE_PIXELS} a side and {} MiB in all are read", MAX_DECODE_BYTES >> 20);
        return Err(format!("it has {width} x {height} pixels; {most}").into());
    }
    Ok(())
}

fn decode_png(file: &[u8], channels: Channels) -> Result<Picture, Refusal> {
    let limits = png::Limits { bytes: MAX_DECODE_BYTES as usize };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
    // Palettes become colours, fewer than 8 bits become 8.
    decoder.set_transformations(png::Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    let header = decoder.read_header_info()?;
    check_size(header.width, header.height, 8)?;
    let mut reader = decoder.read_info()?;
    let size_bytes = reader.output_buffer_size().ok_or("its size overflows")?;
    let mut samples = vec![0; size_bytes];
    let frame = reader.next_frame(&mut samples)?;
    samples.truncate(frame.buffer_size());
    let per_pixel = frame.color_type.samples();
    let size = (frame.width as usize, frame.height as usize);
    match frame.bit_depth {
        png::BitDepth::Sixteen => {
            Ok(Picture::of_samples(size, &narrowed(&samples, per_pixel, channels), per_pixel, channels))
        }
        _ => Ok(Picture::of_samples(size, &samples, per_pixel, channels)),
    }
}

/// Samples of 16 bits, high byte first, as samples of 8. Brightness is taken before the bits are lost, and stands in all
/// channels.
fn narrowed(samples: &[u8], per_pixel: usize, channels: Channels) -> Vec<u8> {
    let wide: Vec<u16> = samples.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    if channels == Channels::Grey && per_pixel >= 3 {
        let brightness = |pixel: &[u16]| luma([pixel[0], pixel[1], pixel[2]].map(|part| f32::from(part) / 65_535.0));
        return wide.chunks_exact(per_pixel).flat_map(|pixel| vec![brightness(pixel); per_pixel]).collect();
    }
    // To the nearest of 256 steps.
    wide.into_iter().map(|sample| ((u32::from(sample) + 128) / 257) as u8).collect()
}

fn decode_jpeg(file: &[u8], channels: Channels) -> Result<Picture, Refusal> {
    let side = MAX_SIDE_PIXELS as usize;
    let options = DecoderOptions::default().set_strict_mode(false).set_max_width(side).set_max_height(side);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers()?;
    let (width, height) = decoder.dimensions().ok_or("it has no size")?;
    check_size(u32::try_from(width)?, u32::try_from(height)?, 4)?;
    let (wanted, per_pixel) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (ColorSpace::Luma, 1),
        _ => (ColorSpace::RGB, 3),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(wanted));
    let mut samples = vec![0; width * height * per_pixel];
    decoder.decode_into(&mut samples)?;
    Ok(Picture::of_samples((width, height), &samples, per_pixel, channels))
}
