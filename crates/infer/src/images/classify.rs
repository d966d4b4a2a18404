//! Which class an image is of.

use std::path::Path;
use std::sync::Arc;

use data::ImagePreprocessor;
use nn::hf::{self, AnyClassifierConfig};
use nn::models::{ConvNext, RunOptions, Vit};
use runtime::{Backend, Jit, ReadTensor, TreeArrays};
use serde::Serialize;
use tensor::{DType, Literal};
use trace::{Donate, Key, Tensor, Tree};
use weights::quant::QuantizedFolder;

use super::{preprocessor, read_pixels};
use crate::error::Error;

/// Images that are computed at once.
const AT_ONCE: usize = 8;

/// A class, and how likely it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassScore {
    /// Its number.
    pub class: usize,
    /// Its name.
    pub label: String,
    /// From 0 to 1; those of all classes add up to 1.
    pub probability: f32,
}

/// A classifier of images on a device.
pub struct ImageClassifier {
    model: Box<dyn Classifies>,
    preprocessor: Option<ImagePreprocessor>,
    labels: Vec<String>,
    side: usize,
}

/// Pixels `f32 [batch, height, width, 3]` to logits, one image after the other.
trait Classifies {
    fn logits(&mut self, pixels: Literal) -> Result<Vec<f32>, Error>;
}

struct Placed<M: Tree + Clone + 'static> {
    model: M,
    program: Jit<(M, Tensor), Tensor>,
}

impl<M: Tree + Clone + 'static> Classifies for Placed<M> {
    fn logits(&mut self, pixels: Literal) -> Result<Vec<f32>, Error> {
        Ok(self.program.call((self.model.clone(), Tensor::from(pixels)))?.to_vec::<f32>()?)
    }
}

fn placed<M: Tree + Clone + 'static>(
    backend: &Backend,
    files: &QuantizedFolder,
    config: &AnyClassifierConfig,
    shapes: &M,
    apply: impl Fn(&M, &Tensor) -> Tensor + 'static,
) -> Result<Box<dyn Classifies>, Error> {
    let mut arrays = Vec::new();
    for literal in hf::load(files, config.family(), shapes)? {
        arrays.push(backend.send(&Arc::new(literal))?);
    }
    let program =
        Jit::new(backend, "classify", Donate::Nothing, move |(model, pixels): &(M, Tensor)| apply(model, pixels));
    Ok(Box::new(Placed { model: shapes.with_arrays(arrays)?, program }))
}

impl ImageClassifier {
    /// Opens a Hugging Face folder of a ViT or a ConvNeXt, and loads it onto the device of a backend.
    pub fn open(backend: &Backend, folder: &Path, run: &RunOptions) -> Result<ImageClassifier, Error> {
        let files = QuantizedFolder::open(folder).map_err(nn::Error::from)?;
        let Some(json) = files.config() else {
            return Err(Error::setting(
                format!("{} has no config.json", folder.display()),
                "give the Hugging Face folder of a ViT or a ConvNeXt",
            ));
        };
        let (config, labels) = AnyClassifierConfig::of(json)?;
        let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        let model = match &config {
            AnyClassifierConfig::Vit(sizes) => {
                let shapes = trace::shapes_of(&(), |()| Vit::init(&key(), sizes, run))?;
                placed(backend, &files, &config, &shapes, |model: &Vit, pixels| model.apply(pixels, None))?
            }
            AnyClassifierConfig::ConvNext(sizes) => {
                let shapes = trace::shapes_of(&(), |()| ConvNext::init(&key(), sizes, run))?;
                placed(backend, &files, &config, &shapes, ConvNext::apply)?
            }
        };
        Ok(ImageClassifier { model, preprocessor: preprocessor(folder)?, labels, side: config.image_size() })
    }

    /// Names of the classes.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The likeliest classes of PNG or JPEG files, of each so many, the likeliest first.
    pub fn classify<F: AsRef<[u8]>>(&mut self, files: &[F], top: usize) -> Result<Vec<Vec<ClassScore>>, Error> {
        let mut all = Vec::new();
        for batch in files.chunks(AT_ONCE) {
            let mut pixels = Vec::new();
            for file in batch {
                pixels.extend(read_pixels(self.preprocessor.as_ref(), file.as_ref(), self.side)?.into_bytes());
            }
            // Two sizes are compiled at most.
            let rows = if batch.len() == 1 { 1 } else { AT_ONCE };
            let each = pixels.len() / batch.len().max(1);
            pixels.resize(rows * each, 0);
            let literal = Literal::new(DType::F32, [rows, self.side, self.side, 3], pixels);
            let literal =
                literal.ok_or_else(|| Error::setting("images have other sizes than others", "report this"))?;
            let logits = self.model.logits(literal)?;
            all.extend(
                logits.chunks_exact(self.labels.len().max(1)).take(batch.len()).map(|one| self.scores(one, top)),
            );
        }
        Ok(all)
    }

    fn scores(&self, logits: &[f32], top: usize) -> Vec<ClassScore> {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let shares: Vec<f64> = logits.iter().map(|logit| f64::from(logit - most).exp()).collect();
        let sum: f64 = shares.iter().sum();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        let score = |&class: &usize| ClassScore {
            class,
            label: self.labels.get(class).cloned().unwrap_or_default(),
            probability: (shares[class] / sum) as f32,
        };
        order.iter().take(top).map(score).collect()
    }
}
