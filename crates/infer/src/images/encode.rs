//! What a tower makes of the images of a prompt, and where it stands in the prompt.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use nn::hf::{self, Family};
use nn::models::{LlavaVision, RunOptions};
use runtime::{Backend, Jit, ReadTensor, TreeArrays};
use tensor::DType;
use trace::{Donate, Key, Tensor};
use weights::quant::QuantizedFolder;

use super::{ImageReader, PromptImage};
use crate::error::Error;

/// Set in what stands for a token of an image where prompts are compared; no vocabulary has such tokens.
const IMAGE_KEY: u32 = 1 << 31;

/// The model that reads images, on a device.
pub(crate) struct ImageEncoder {
    model: LlavaVision,
    program: Jit<(LlavaVision, Tensor), Tensor>,
    token: u32,
    each: usize,
    width: usize,
}

impl ImageEncoder {
    /// Loads the tower and the projector of a folder.
    pub(crate) fn load(
        backend: &Backend,
        files: &QuantizedFolder,
        reader: &ImageReader,
        run: &RunOptions,
    ) -> Result<ImageEncoder, Error> {
        let config = reader.config();
        let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        let shapes = trace::shapes_of(&(), |()| LlavaVision::init(&key(), config, run))?;
        let params = hf::load(files, Family::LlavaVision, &shapes)?;
        let mut arrays = Vec::new();
        for literal in params {
            arrays.push(backend.send(&Arc::new(literal))?);
        }
        let program = Jit::new(backend, "encode_image", Donate::Nothing, |(model, image): &(LlavaVision, Tensor)| {
            model.apply(&image.expand(0)).squeeze(0)
        });
        Ok(ImageEncoder {
            model: shapes.with_arrays(arrays)?,
            program,
            token: reader.token(),
            each: reader.num_tokens(),
            width: config.text_width,
        })
    }

    /// Refuses a prompt that has not as many tokens for images as these have.
    pub(crate) fn check(&self, prompt: &[u32], images: &[PromptImage]) -> Result<(), Error> {
        let places = prompt.iter().filter(|&&token| token == self.token).count();
        if places != images.len() * self.each {
            return Err(Error::setting(
                format!("the prompt has {places} tokens for {} images of {} tokens each", images.len(), self.each),
                "give each image its tokens (OpenedModel::with_image_tokens)",
            ));
        }
        Ok(())
    }

    /// Whether tokens have some of an image.
    pub(crate) fn has_images(&self, tokens: &[u32]) -> bool {
        tokens.contains(&self.token)
    }

    /// What the images of a prompt become.
    pub(crate) fn encode(&mut self, images: &[PromptImage]) -> Result<GivenPrompt, Error> {
        let mut states = Vec::with_capacity(images.len() * self.each * self.width);
        for image in images {
            let made = self.program.call((self.model.clone(), Tensor::from((*image.pixels).clone())))?;
            states.extend(made.to_vec::<f32>()?);
        }
        Ok(GivenPrompt { states, width: self.width, token: self.token })
    }

    /// A prompt as it is compared with others: what stands for an image depends on its pixels.
    pub(crate) fn keys(&self, prompt: &[u32], images: &[PromptImage]) -> Vec<u32> {
        let hashes: Vec<u64> = images
            .iter()
            .map(|image| {
                let mut hasher = DefaultHasher::new();
                image.pixels.bytes().hash(&mut hasher);
                hasher.finish()
            })
            .collect();
        let mut place = 0;
        let key = |&token: &u32| {
            if token != self.token {
                return token;
            }
            let mut hasher = DefaultHasher::new();
            (hashes.get(place / self.each.max(1)), place).hash(&mut hasher);
            place += 1;
            hasher.finish() as u32 | IMAGE_KEY
        };
        prompt.iter().map(key).collect()
    }
}

/// What stands for the tokens of images, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct GivenPrompt {
    states: Vec<f32>,
    width: usize,
    token: u32,
}

/// The part of it that stands in some tokens of a prompt.
#[derive(Clone, Debug)]
pub(crate) struct GivenChunk {
    /// `[tokens, width]`.
    pub(crate) states: Vec<f32>,
    pub(crate) is_given: Vec<bool>,
    pub(crate) width: usize,
}

impl GivenPrompt {
    /// What stands at some positions of a prompt, or of what was generated after it; `None` where nothing does.
    pub(crate) fn chunk(&self, prompt: &[u32], positions: Range<usize>) -> Option<GivenChunk> {
        let is_image = |position: usize| prompt.get(position) == Some(&self.token);
        let is_given: Vec<bool> = positions.clone().map(is_image).collect();
        if !is_given.contains(&true) {
            return None;
        }
        let first = (0..positions.start).filter(|&position| is_image(position)).count();
        let mut states = vec![0.0; positions.len() * self.width];
        let places = states.chunks_exact_mut(self.width.max(1)).zip(&is_given).filter(|(_, is)| **is);
        for (next, (place, _)) in (first..).zip(places) {
            let from = self.states.get(next * self.width..(next + 1) * self.width).unwrap_or_default();
            place.iter_mut().zip(from).for_each(|(place, value)| *place = *value);
        }
        Some(GivenChunk { states, is_given, width: self.width })
    }
}
