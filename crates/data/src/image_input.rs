//! Pictures as a model of images wants them: sizes, scale and normalization as a `preprocessor_config.json` says.

use serde::Deserialize;
use serde_json::Value;
use tensor::{DType, Literal};

use super::error::DataError;
use super::picture::{Channels, MAX_DECODE_BYTES, Picture};
use super::resample::{Resampling, resample};

/// Longest side of what a model takes.
const MAX_INPUT_SIDE: usize = 4096;
/// Most bytes of a file that is decoded.
pub const MAX_IMAGE_FILE_BYTES: usize = 64 << 20;

/// What becomes of a picture before a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePreprocessor {
    /// Before all else the picture is filled up to a square, in these colours.
    padded: Option<[u8; 3]>,
    resize: Option<(Resize, Resampling)>,
    crop: Option<(usize, usize)>,
    rescale: Option<f64>,
    normalize: Option<([f64; 3], [f64; 3])>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resize {
    /// To this height and width, whatever the proportions.
    To(usize, usize),
    /// The shorter side to this, with the same proportions.
    Shortest(usize),
}

/// `size` or `crop_size`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum RawSize {
    Side(usize),
    Named { height: Option<usize>, width: Option<usize>, shortest_edge: Option<usize> },
}

/// As the file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPreprocessor {
    #[serde(alias = "feature_extractor_type")]
    image_processor_type: Option<String>,
    do_resize: Option<bool>,
    size: Option<RawSize>,
    resample: Option<u64>,
    do_center_crop: Option<bool>,
    crop_size: Option<RawSize>,
    crop_pct: Option<f64>,
    do_pad: Option<bool>,
    do_rescale: Option<bool>,
    rescale_factor: Option<f64>,
    do_normalize: Option<bool>,
    image_mean: Option<Vec<f64>>,
    image_std: Option<Vec<f64>>,
}

/// Means and deviations of CLIP's pictures.
const CLIP_MEAN: [f64; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
const CLIP_STD: [f64; 3] = [0.268_629_54, 0.261_302_58, 0.275_777_11];
/// Those of ImageNet.
const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];

/// Kinds of preprocessors, told apart by what they do where a file does not say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Clip,
    Siglip,
    Vit,
    ConvNext,
}

impl ImagePreprocessor {
    /// From a `preprocessor_config.json`.
    pub fn of(settings: &Value) -> Result<ImagePreprocessor, DataError> {
        let refused = |why: String| DataError::Options(format!("preprocessor_config.json: {why}"));
        let mut given = settings.clone();
        if let Some(keys) = given.as_object_mut() {
            // `null` is as if a key were not there, and both names may be.
            keys.retain(|_, value| !value.is_null());
            if keys.contains_key("image_processor_type") {
                keys.remove("feature_extractor_type");
            }
        }
        let raw: RawPreprocessor = serde_json::from_value(given).map_err(|error| refused(error.to_string()))?;
        let name = raw.image_processor_type.as_deref().unwrap_or("CLIPImageProcessor");
        let plain =
            name.trim_end_matches("Fast").trim_end_matches("ImageProcessor").trim_end_matches("FeatureExtractor");
        let kind = match plain {
            "CLIP" | "Llava" => Kind::Clip,
            "Siglip" => Kind::Siglip,
            "ViT" | "DeiT" => Kind::Vit,
            "ConvNext" => Kind::ConvNext,
            _ => {
                let known = "CLIP, Llava, Siglip, ViT, DeiT and ConvNext are";
                return Err(refused(format!("image processors of type {name} are not known; {known}")));
            }
        };
        if kind == Kind::Vit && plain == "DeiT" && raw.size.is_none() {
            return Err(refused("it has no size".into()));
        }
        let side = |size: usize| match size {
            1..=MAX_INPUT_SIDE => Ok(size),
            _ => Err(refused(format!("a side of {size} pixels; from 1 to {MAX_INPUT_SIDE} can be"))),
        };
        let both = |size: RawSize| match size {
            RawSize::Side(size) | RawSize::Named { shortest_edge: Some(size), .. } => Ok((side(size)?, side(size)?)),
            RawSize::Named { height: Some(height), width: Some(width), .. } => Ok((side(height)?, side(width)?)),
            RawSize::Named { .. } => Err(refused("a size has neither height and width nor shortest_edge".into())),
        };
        let filter = match raw.resample {
            Some(number) => {
                Resampling::of(number).ok_or_else(|| refused(format!("resample {number} is not from 0 to 5")))?
            }
            None if kind == Kind::Vit => Resampling::Bilinear,
            None => Resampling::Bicubic,
        };
        let mut crop = None;
        let resize = match (raw.do_resize.unwrap_or(true), raw.size, kind) {
            (false, ..) => None,
            (true, size, Kind::ConvNext) => {
                let (short, _) = both(size.unwrap_or(RawSize::Side(384)))?;
                // Small pictures are cut out of larger ones.
                if short < 384 {
                    let share = raw.crop_pct.unwrap_or(224.0 / 256.0);
                    if !(0.05..=1.0).contains(&share) {
                        return Err(refused(format!("crop_pct is {share}")));
                    }
                    crop = Some((short, short));
                    Some(Resize::Shortest(side((short as f64 / share) as usize)?))
                } else {
                    Some(Resize::To(short, short))
                }
            }
            (true, Some(RawSize::Named { shortest_edge: Some(short), .. }), Kind::Clip) => {
                Some(Resize::Shortest(side(short)?))
            }
            (true, Some(RawSize::Side(short)), Kind::Clip) => Some(Resize::Shortest(side(short)?)),
            (true, None, Kind::Clip) => Some(Resize::Shortest(224)),
            (true, size, _) => {
                let (height, width) = both(size.unwrap_or(RawSize::Side(224)))?;
                Some(Resize::To(height, width))
            }
        };
        if kind != Kind::ConvNext && raw.do_center_crop.unwrap_or(kind == Kind::Clip || plain == "DeiT") {
            crop = Some(both(raw.crop_size.unwrap_or(RawSize::Side(224)))?);
        }
        let three = |given: Option<Vec<f64>>, usual: [f64; 3], what: &str| match given.as_deref() {
            None => Ok(usual),
            Some([one]) => Ok([*one; 3]),
            Some([a, b, c]) => Ok([*a, *b, *c]),
            Some(other) => Err(refused(format!("{what} has {} numbers, not 3", other.len()))),
        };
        let (mean, deviation) = match kind {
            Kind::Clip => (CLIP_MEAN, CLIP_STD),
            Kind::Siglip | Kind::Vit | Kind::ConvNext if plain != "DeiT" => ([0.5; 3], [0.5; 3]),
            _ => (IMAGENET_MEAN, IMAGENET_STD),
        };
        let (mean, deviation) =
            (three(raw.image_mean, mean, "image_mean")?, three(raw.image_std, deviation, "image_std")?);
        if mean.iter().any(|value| !value.is_finite())
            || deviation.iter().any(|value| !value.is_finite() || *value <= 0.0)
        {
            return Err(refused(format!("image_mean {mean:?} and image_std {deviation:?} cannot be")));
        }
        let is_padded = plain == "Llava" && raw.do_pad.unwrap_or(false);
        Ok(ImagePreprocessor {
            padded: is_padded.then(|| mean.map(|value| (value * 255.0) as u8)),
            resize: resize.map(|resize| (resize, filter)),
            crop,
            rescale: raw.do_rescale.unwrap_or(true).then(|| raw.rescale_factor.unwrap_or(1.0 / 255.0)),
            normalize: raw.do_normalize.unwrap_or(true).then_some((mean, deviation)),
        })
    }

    /// The pixels `f32 [height, width, 3]` of a PNG or JPEG file.
    pub fn read(&self, file: &[u8]) -> Result<Literal, DataError> {
        let refused = |why: String| DataError::Options(format!("the image: {why}"));
        if file.len() > MAX_IMAGE_FILE_BYTES {
            return Err(refused(format!("it has {} bytes; at most {MAX_IMAGE_FILE_BYTES} are read", file.len())));
        }
        let picture = Picture::decode(file, Channels::Colour).map_err(|error| refused(error.to_string()))?;
        let mut pixels = Pixels::of(picture);
        if let Some(colour) = self.padded {
            pixels = pixels.squared(colour).ok_or_else(|| refused("it is too long for its width".into()))?;
        }
        if let Some((resize, filter)) = self.resize {
            let (height, width) = match resize {
                Resize::To(height, width) => (height, width),
                Resize::Shortest(short) => {
                    let longer = |long: usize, short_side: usize| (short * long) / short_side.max(1);
                    match pixels.width <= pixels.height {
                        true => (longer(pixels.height, pixels.width), short),
                        false => (short, longer(pixels.width, pixels.height)),
                    }
                }
            };
            if height as u64 * width as u64 * 3 > MAX_DECODE_BYTES {
                return Err(refused("it is too long for its width".into()));
            }
            let bytes = resample(&pixels.bytes, (pixels.height, pixels.width), 3, (height, width), filter);
            pixels = Pixels { height, width, bytes };
        }
        if let Some((height, width)) = self.crop {
            pixels = pixels.center(height, width);
        }
        if pixels.height.max(pixels.width) > MAX_INPUT_SIDE {
            return Err(refused(format!("{} x {} pixels are left of it", pixels.width, pixels.height)));
        }
        let (scale, (mean, deviation)) = (self.rescale.unwrap_or(1.0), self.normalize.unwrap_or(([0.0; 3], [1.0; 3])));
        let values = pixels.bytes.chunks_exact(3).flat_map(|pixel| {
            let of = |n: usize| ((f64::from(pixel[n]) * scale - mean[n]) / deviation[n]) as f32;
            [of(0), of(1), of(2)].map(f32::to_le_bytes)
        });
        let bytes: Vec<u8> = values.flatten().collect();
        Literal::new(DType::F32, [pixels.height, pixels.width, 3], bytes)
            .ok_or_else(|| refused("its pixels have another size".into()))
    }
}

/// Rows of pixels of three bytes.
struct Pixels {
    height: usize,
    width: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    fn of(picture: Picture) -> Pixels {
        let ((width, height), bytes) = picture.into_parts();
        Pixels { height, width, bytes }
    }

    /// Put into a larger or smaller frame, from a row and a column of the frame on; what is outside of the picture is of one colour.
    fn framed(&self, height: usize, width: usize, (top, left): (i64, i64), colour: [u8; 3]) -> Pixels {
        let mut bytes = Vec::with_capacity(height * width * 3);
        for row in 0..height as i64 {
            for column in 0..width as i64 {
                let at = usize::try_from(row - top).ok().zip(usize::try_from(column - left).ok());
                let at = at.filter(|(row, column)| *row < self.height && *column < self.width);
                let pixel =
                    at.and_then(|(row, column)| self.bytes.get((row * self.width + column) * 3..)?.first_chunk());
                bytes.extend_from_slice(pixel.unwrap_or(&colour));
            }
        }
        Pixels { height, width, bytes }
    }

    /// In the middle of a square.
    fn squared(&self, colour: [u8; 3]) -> Option<Pixels> {
        let side = self.height.max(self.width);
        if (side as u64).pow(2) * 3 > MAX_DECODE_BYTES {
            return None;
        }
        let middle = |own: usize| ((side - own) / 2) as i64;
        Some(self.framed(side, side, (middle(self.height), middle(self.width)), colour))
    }

    /// What is in the middle; black where the picture does not reach.
    fn center(&self, height: usize, width: usize) -> Pixels {
        // Of a picture that is smaller, one more row is filled up before it than after.
        let before = |own: usize, wanted: usize| -(own as i64 - wanted as i64).div_euclid(2);
        self.framed(height, width, (before(self.height, height), before(self.width, width)), [0; 3])
    }
}
