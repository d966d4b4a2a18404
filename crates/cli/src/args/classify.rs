//! Arguments of `tpu classify`.

use std::path::PathBuf;

use clap::Args;
use trace::DTypePolicy;

use super::ConfigFileArgs;

#[derive(Debug, Args)]
pub(crate) struct ClassifyArgs {
    /// Hugging Face folder of a ViT or a ConvNeXt.
    pub(crate) folder: PathBuf,
    /// Images, PNG or JPEG.
    #[arg(required = true, value_name = "IMAGE")]
    pub(crate) images: Vec<PathBuf>,
    /// Classes that are named for each image, the likeliest first.
    #[arg(long, short = 'k', default_value_t = 5)]
    pub(crate) top_k: usize,
    /// Precision of parameters and activations: f32, or bf16.
    #[arg(long, default_value = "f32")]
    pub(crate) precision: DTypePolicy,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}
