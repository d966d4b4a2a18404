//! A norm of a decoder's layers: by root mean square, or by mean and deviation.

use trace::{Path, Tensor, Tree};

use crate::layers::{LayerNorm, RmsNorm};

/// A norm; its parameters have the paths of whichever it is.
#[derive(Clone, Debug)]
pub enum DecoderNorm {
    /// Root mean square.
    Rms(RmsNorm),
    /// Mean and deviation.
    Layer(LayerNorm),
}

impl Tree for DecoderNorm {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        match self {
            DecoderNorm::Rms(norm) => norm.visit(path, f),
            DecoderNorm::Layer(norm) => norm.visit(path, f),
        }
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        match self {
            DecoderNorm::Rms(norm) => DecoderNorm::Rms(norm.map(path, f)),
            DecoderNorm::Layer(norm) => DecoderNorm::Layer(norm.map(path, f)),
        }
    }
}

impl DecoderNorm {
    /// Applied over the last axis.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        match self {
            DecoderNorm::Rms(norm) => norm.apply(x),
            DecoderNorm::Layer(norm) => norm.apply(x),
        }
    }
}
