//! Models that write their own programs: for every mesh, batch, precision and choice of what is kept for the backward pass.

use std::fmt;

use compile::Program;
use hlo::Verified;

use super::candidate::{Candidate, ShardingChoice, Variant};
use super::facts::{Facts, ModelAxis, REFERENCE_BATCH};
use super::roles::BatchName;
use super::rules::MeshShape;
use super::source::{OneProgram, ProgramSource};
use crate::error::Error;

/// What a model is asked to write a step for.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChoice {
    /// Devices along each axis.
    pub mesh: MeshShape,
    /// Slices they are on, along the data axis.
    pub slices: u64,
    /// Samples in a step.
    pub batch: u64,
    /// How it is written.
    pub variant: Variant,
}

/// A step of a model, written for a choice.
#[derive(Clone, Debug)]
pub struct ModelStep {
    /// The program.
    pub module: Verified,
    /// Its first argument that is a part of the batch; its first axis is that of the samples.
    pub batch_argument: usize,
}

/// Figures of a model that its programs do not say.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFigures {
    /// Tokens of a sample.
    pub tokens_per_sample: u64,
    /// Operations for a sample, without recomputation.
    pub model_flops_per_sample: f64,
    /// What these count.
    pub convention: String,
    /// Largest power of two that heads and feed-forwards can be split by.
    pub max_model_parts: u64,
    /// Largest power of two that sequences can be split by.
    pub max_context_parts: u64,
    /// What the axis `model` of a mesh splits.
    pub model_axis: ModelAxis,
}

/// Writes the step of a choice; the error says why it cannot.
pub type WriteStep<'a> = dyn Fn(&ModelChoice) -> Result<ModelStep, String> + Sync + 'a;

/// A model that writes its own programs.
pub struct ModelSource<'a> {
    write: Box<WriteStep<'a>>,
    /// By how it is written.
    facts: Vec<(Variant, Facts)>,
}

impl fmt::Debug for ModelSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSource").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<'a> ModelSource<'a> {
    /// A model that can be written in these ways, at least one.
    pub fn new(
        write: Box<WriteStep<'a>>,
        figures: &ModelFigures,
        variants: &[Variant],
    ) -> Result<ModelSource<'a>, Error> {
        let of = |variant: &Variant| {
            let choice =
                ModelChoice { mesh: MeshShape::ONE, slices: 1, batch: REFERENCE_BATCH, variant: variant.clone() };
            let step = write(&choice).map_err(Error::Model)?;
            let bytes = Program::from_module(step.module).bytes().to_vec();
            let one = OneProgram::read(bytes, Some(&BatchName::Dimension(step.batch_argument, 0)))?;
            let facts = Facts {
                batch: None,
                tokens_per_sample: figures.tokens_per_sample,
                model_flops_per_sample: figures.model_flops_per_sample,
                convention: figures.convention.clone(),
                max_model_parts: figures.max_model_parts,
                max_context_parts: figures.max_context_parts,
                model_axis: figures.model_axis,
                ..one.facts().clone()
            };
            Ok((variant.clone(), facts))
        };
        let facts = variants.iter().map(of).collect::<Result<Vec<_>, Error>>()?;
        if facts.is_empty() {
            return Err(Error::NoCandidates("no way to write the model was given".into()));
        }
        Ok(ModelSource { write, facts })
    }
}

/// The choice that a candidate stands for.
pub fn choice_of(candidate: &Candidate) -> ModelChoice {
    let mesh = match candidate.sharding {
        ShardingChoice::ByRule(mesh) => mesh,
        ShardingChoice::AsWritten => MeshShape { data: u64::from(candidate.slice.devices()), ..MeshShape::ONE },
    };
    ModelChoice {
        mesh,
        slices: u64::from(candidate.slice.num_slices()),
        batch: candidate.batch,
        variant: candidate.variant.clone().unwrap_or_default(),
    }
}

impl ProgramSource for ModelSource<'_> {
    fn facts(&self) -> &Facts {
        &self.facts[0].1
    }

    fn facts_for(&self, candidate: &Candidate) -> &Facts {
        let wanted = candidate.variant.as_ref();
        self.facts.iter().find(|(variant, _)| Some(variant) == wanted).map_or(&self.facts[0].1, |(_, facts)| facts)
    }

    fn variants(&self) -> Vec<Option<Variant>> {
        self.facts.iter().map(|(variant, _)| Some(variant.clone())).collect()
    }

    fn devices(&self) -> Option<u64> {
        None
    }

    fn argument_bytes(&self, candidate: &Candidate) -> f64 {
        let facts = self.facts_for(candidate);
        let mesh = choice_of(candidate).mesh;
        let samples = candidate.batch as f64 / mesh.batch_parts().max(1) as f64;
        facts.state_bytes as f64 * facts.model_axis.weights_on_a_device(mesh.model) / mesh.fsdp.max(1) as f64
            + facts.cache_bytes_per_sample as f64 * samples / mesh.model.max(1) as f64
    }

    fn program(&self, candidate: &Candidate) -> Result<Program, Error> {
        let step = (self.write)(&choice_of(candidate)).map_err(Error::Model)?;
        Ok(Program::from_module(step.module))
    }
}
