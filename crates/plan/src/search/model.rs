//! Models that write their own programs: for every mesh, batch and choice of what is kept for the backward pass.

use std::fmt;

use hlo::Verified;
use nn::Remat;
use runtime::Program;

use super::candidate::{Candidate, Layout};
use super::facts::{Facts, REFERENCE_BATCH};
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
    /// What layers keep for the backward pass.
    pub remat: Remat,
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
}

/// Writes the step of a choice; the error says why it cannot.
pub type WriteStep<'a> = dyn Fn(&ModelChoice) -> Result<ModelStep, String> + Sync + 'a;

/// A model that writes its own programs.
pub struct ModelSource<'a> {
    write: Box<WriteStep<'a>>,
    /// By what is kept.
    facts: Vec<(Remat, Facts)>,
}

impl fmt::Debug for ModelSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSource").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<'a> ModelSource<'a> {
    /// A model with these choices of what is kept, at least one.
    pub fn new(write: Box<WriteStep<'a>>, figures: &ModelFigures, remats: &[Remat]) -> Result<ModelSource<'a>, Error> {
        let of = |remat: &Remat| {
            let mesh = MeshShape { data: 1, fsdp: 1, model: 1 };
            let choice = ModelChoice { mesh, slices: 1, batch: REFERENCE_BATCH, remat: remat.clone() };
            let step = write(&choice).map_err(Error::Model)?;
            let bytes = Program::from_module(step.module).bytes().to_vec();
            let one = OneProgram::read(bytes, Some(&BatchName::Dimension(step.batch_argument, 0)))?;
            let facts = Facts {
                batch: None,
                tokens_per_sample: figures.tokens_per_sample,
                model_flops_per_sample: figures.model_flops_per_sample,
                convention: figures.convention.clone(),
                max_model_parts: figures.max_model_parts,
                ..one.facts().clone()
            };
            Ok((remat.clone(), facts))
        };
        let facts = remats.iter().map(of).collect::<Result<Vec<_>, Error>>()?;
        if facts.is_empty() {
            return Err(Error::NoCandidates("no choice of what is kept was given".into()));
        }
        Ok(ModelSource { write, facts })
    }
}

/// The choice that a candidate stands for.
pub fn choice_of(candidate: &Candidate) -> ModelChoice {
    let mesh = match candidate.layout {
        Layout::ByRule(mesh) => mesh,
        Layout::AsWritten => MeshShape { data: u64::from(candidate.slice.devices()), fsdp: 1, model: 1 },
    };
    ModelChoice {
        mesh,
        slices: u64::from(candidate.slice.num_slices()),
        batch: candidate.batch,
        remat: candidate.remat.clone().unwrap_or_default(),
    }
}

impl ProgramSource for ModelSource<'_> {
    fn facts(&self) -> &Facts {
        &self.facts[0].1
    }

    fn facts_for(&self, candidate: &Candidate) -> &Facts {
        let wanted = candidate.remat.as_ref();
        self.facts.iter().find(|(remat, _)| Some(remat) == wanted).map_or(&self.facts[0].1, |(_, facts)| facts)
    }

    fn remats(&self) -> Vec<Option<Remat>> {
        self.facts.iter().map(|(remat, _)| Some(remat.clone())).collect()
    }

    fn devices(&self) -> Option<u64> {
        None
    }

    fn argument_bytes(&self, candidate: &Candidate) -> f64 {
        let facts = self.facts_for(candidate);
        let mesh = choice_of(candidate).mesh;
        let samples = candidate.batch as f64 / mesh.batch_parts().max(1) as f64;
        facts.state_bytes as f64 / (mesh.fsdp * mesh.model).max(1) as f64
            + facts.cache_bytes_per_sample as f64 * samples / mesh.model.max(1) as f64
    }

    fn program(&self, candidate: &Candidate) -> Result<Program, Error> {
        let step = (self.write)(&choice_of(candidate)).map_err(Error::Model)?;
        Ok(Program::from_module(step.module))
    }
}
