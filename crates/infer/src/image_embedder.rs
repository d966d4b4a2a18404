//! Vectors of images, in the space of those of texts.

use std::path::Path;
use std::sync::Arc;

use data::ImagePreprocessor;
use nn::hf::{self, Family};
use nn::models::{ClipVision, RunOptions};
use runtime::{Backend, Jit, ReadTensor, TreeArrays};
use tensor::DType;
use trace::{Donate, Key, Tensor};
use weights::quant::QuantizedFolder;

use crate::embed::VectorLength;
use crate::error::Error;
use crate::images::{preprocessor, read_pixels};

/// The half of a CLIP that reads images, on a device.
pub struct ImageEmbedder {
    model: ClipVision,
    program: Jit<(ClipVision, Tensor), Tensor>,
    preprocessor: Option<ImagePreprocessor>,
    side: usize,
    length: VectorLength,
}

impl ImageEmbedder {
    /// Opens the Hugging Face folder of a CLIP, and loads what reads images onto the device of a backend.
    pub fn open(
        backend: &Backend,
        folder: &Path,
        length: Option<VectorLength>,
        run: &RunOptions,
    ) -> Result<ImageEmbedder, Error> {
        let files = QuantizedFolder::open(folder).map_err(nn::Error::from)?;
        let Some(config) = files.config().map(hf::read_clip_config).transpose()?.flatten() else {
            return Err(Error::setting(
                format!("{} makes no vectors of images", folder.display()),
                "give the Hugging Face folder of a CLIP",
            ));
        };
        let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        let shapes = trace::shapes_of(&(), |()| ClipVision::init(&key(), &config, run))?;
        let mut arrays = Vec::new();
        for literal in hf::load(&files, Family::ClipVision, &shapes)? {
            arrays.push(backend.send(&Arc::new(literal))?);
        }
        let program = Jit::new(backend, "embed_image", Donate::Nothing, |(model, image): &(ClipVision, Tensor)| {
            model.vectors(&image.expand(0)).squeeze(0)
        });
        Ok(ImageEmbedder {
            model: shapes.with_arrays(arrays)?,
            program,
            preprocessor: preprocessor(folder)?,
            side: config.vision.image_size,
            length: length.unwrap_or(VectorLength::Normalized),
        })
    }

    /// The vector of a PNG or JPEG file.
    pub fn embed(&mut self, file: &[u8]) -> Result<Vec<f32>, Error> {
        let pixels = read_pixels(self.preprocessor.as_ref(), file, self.side)?;
        let mut vector = self.program.call((self.model.clone(), Tensor::from(pixels)))?.to_vec::<f32>()?;
        if self.length == VectorLength::Normalized {
            let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt().max(1e-12);
            vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
        }
        Ok(vector)
    }
}
