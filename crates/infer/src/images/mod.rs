//! Images: what stands for them in prompts, and what classifies them.

mod classify;
mod encode;

use std::path::Path;
use std::sync::Arc;

use data::ImagePreprocessor;
use nn::hf;
use nn::models::LlavaConfig;
use serde_json::Value;
use tensor::Literal;

pub use self::classify::{ClassScore, ImageClassifier};
pub(crate) use self::encode::{GivenChunk, GivenPrompt, ImageEncoder};
use crate::error::Error;
use crate::settings::read_json;

/// Most images of one prompt.
pub const MAX_PROMPT_IMAGES: usize = 64;

/// An image as a model takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptImage {
    /// `f32 [height, width, 3]`.
    pixels: Arc<Literal>,
}

/// How a model takes images in its prompts.
#[derive(Clone, Debug)]
pub struct ImageReader {
    config: LlavaConfig,
    /// Absent where the folder does not say it.
    preprocessor: Option<ImagePreprocessor>,
}

/// The image processor of a folder; `None` where it has none.
pub(crate) fn preprocessor(folder: &Path) -> Result<Option<ImagePreprocessor>, Error> {
    if let Some(settings) = read_json(&folder.join("preprocessor_config.json"))? {
        return Ok(Some(ImagePreprocessor::of(&settings)?));
    }
    // Newer folders have it as a part of another file.
    let newer = read_json(&folder.join("processor_config.json"))?;
    let part = newer.as_ref().and_then(|settings| settings.get("image_processor"));
    Ok(part.map(ImagePreprocessor::of).transpose()?)
}

/// Pixels of a file, of so many a side.
pub(crate) fn read_pixels(
    preprocessor: Option<&ImagePreprocessor>,
    file: &[u8],
    side: usize,
) -> Result<Literal, Error> {
    let Some(preprocessor) = preprocessor else {
        return Err(Error::setting(
            "the folder does not say how images are prepared",
            "get its preprocessor_config.json too",
        ));
    };
    let pixels = preprocessor.read(file)?;
    if pixels.dims() != [side, side, 3] {
        return Err(Error::setting(
            format!(
                "preprocessor_config.json makes images of {:?}, and the model takes {side} x {side}",
                pixels.dims()
            ),
            "get the folder again",
        ));
    }
    Ok(pixels)
}

impl ImageReader {
    /// Of a folder with this `config.json`; `None` where its model reads no images.
    pub(crate) fn open(folder: &Path, config: &Value) -> Result<Option<ImageReader>, Error> {
        let Some(config) = hf::read_llava_config(config)? else { return Ok(None) };
        Ok(Some(ImageReader { config, preprocessor: preprocessor(folder)? }))
    }

    /// Reads a PNG or JPEG file.
    pub fn read(&self, file: &[u8]) -> Result<PromptImage, Error> {
        let pixels = read_pixels(self.preprocessor.as_ref(), file, self.config.tower.image_size)?;
        Ok(PromptImage { pixels: Arc::new(pixels) })
    }

    /// Tokens that one image takes.
    pub fn num_tokens(&self) -> usize {
        self.config.num_tokens()
    }

    /// The token that stands for an image in a text.
    pub fn token(&self) -> u32 {
        self.config.image_token
    }

    /// A prompt in which each token that stands for an image is there as often as the image has tokens. Images that a prompt does not
    /// name stand before it, after the token that begins a text.
    pub(crate) fn expanded(&self, prompt: &[u32], images: usize, begin: Option<u32>) -> Result<Vec<u32>, Error> {
        if images > MAX_PROMPT_IMAGES {
            return Err(Error::setting(
                format!("{images} images are given"),
                format!("give at most {MAX_PROMPT_IMAGES}"),
            ));
        }
        let (token, each) = (self.token(), self.num_tokens());
        let named = prompt.iter().filter(|&&one| one == token).count();
        if named == 0 && images > 0 {
            let begin = usize::from(begin.is_some() && prompt.first().copied() == begin);
            let mut all = prompt[..begin].to_vec();
            all.resize(begin + images * each, token);
            all.extend_from_slice(&prompt[begin..]);
            return Ok(all);
        }
        if named != images {
            return Err(Error::setting(
                format!("the prompt names {named} images, and {images} are given"),
                "give as many images as the prompt has places for, or none of them",
            ));
        }
        let repeated = |&one: &u32| std::iter::repeat_n(one, if one == token { each } else { 1 });
        Ok(prompt.iter().flat_map(repeated).collect())
    }

    pub(crate) fn config(&self) -> &LlavaConfig {
        &self.config
    }
}
