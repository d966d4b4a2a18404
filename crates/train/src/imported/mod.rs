//! Programs of PyTorch as models that learn: `[model] program = "model.pt2"`.

mod arguments;
mod state_dict;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nn::models::RunOptions;
use serde::Deserialize;
use serde_json::Value;
use tensor::{Literal, Spec};
use torch::graph::{InputRole, NodeArgument, OutputRole};
use torch::{Archive, LayerLoop, StackedTensor};
use trace::{Tensor, Tree};

pub(crate) use self::arguments::ArrayData;
pub use self::state_dict::{StateDict, state_dict};

use crate::error::Error;

/// What is trained.
pub(crate) type ImportedParams = BTreeMap<String, Tensor>;

/// What an imported program carries beside its parameters.
#[derive(Clone, Debug, Tree)]
pub(crate) struct ImportedCarried {
    /// Buffers that a step writes, such as the running statistics of batch norms.
    pub(crate) buffers: BTreeMap<String, Tensor>,
    /// What no step changes.
    pub(crate) frozen: ImportedFrozen,
}

/// Tensors of a program that no step changes.
#[derive(Clone, Debug, Tree)]
pub(crate) struct ImportedFrozen {
    /// Parameters without a gradient.
    pub(crate) params: BTreeMap<String, Tensor>,
    /// Buffers that are only read.
    pub(crate) buffers: BTreeMap<String, Tensor>,
    /// Tensors that are part of the program.
    pub(crate) constants: BTreeMap<String, Tensor>,
}

/// The table `[model]` of an imported program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramTable {
    /// The archive, relative to the training file.
    program: PathBuf,
    /// What is minimized.
    #[serde(default)]
    loss: ProgramLoss,
    /// The result that the loss is of, or that is the loss.
    #[serde(default)]
    output: ResultChoice,
    /// What the arguments of the program are given: arrays of the data, or numbers.
    #[serde(default)]
    inputs: BTreeMap<String, ArgumentSource>,
    /// The array that the result is compared with.
    #[serde(default)]
    target: Option<String>,
    /// Tokens that the model knows, where its result does not tell.
    #[serde(default)]
    vocab_size: Option<u32>,
    /// Whether equal layers run as one loop.
    #[serde(default = "yes")]
    scan_layers: bool,
}

fn yes() -> bool {
    true
}

/// The loss of an imported program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProgramLoss {
    /// Of logits, whose classes are along the last axis, and integer targets. Targets of -100 are ignored, as in PyTorch.
    #[default]
    CrossEntropy,
    /// The mean squared error.
    Mse,
    /// The result itself.
    Output,
}

/// A result of the program, by number or by its name in Python.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum ResultChoice {
    Number(usize),
    Name(String),
}

impl Default for ResultChoice {
    fn default() -> Self {
        ResultChoice::Number(0)
    }
}

/// What an argument of the program is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum ArgumentSource {
    /// An array of the data, by name.
    Array(String),
    /// A number, for every element.
    Number(f64),
}

/// A program of PyTorch that is trained.
#[derive(Clone, Debug)]
pub struct ImportedModel {
    pub(crate) archive: Arc<Archive>,
    pub(crate) path: PathBuf,
    table: ProgramTable,
    /// Second names of tied parameters and buffers, with the first.
    pub(crate) tied: BTreeMap<String, String>,
    pub(crate) loops: Vec<LayerLoop>,
    /// The result that the loss is of.
    result: usize,
}

/// What becomes of a tensor of a program in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateRole {
    /// It is trained.
    Trained,
    /// A step writes it.
    Buffer,
    /// Nothing changes it.
    FrozenParam,
    /// Nothing changes it.
    FrozenBuffer,
    /// Nothing changes it.
    Constant,
}

impl ImportedModel {
    /// Opens the archive that the table names.
    pub(crate) fn open(table: &Value, beside: &Path) -> Result<ImportedModel, Error> {
        let table: ProgramTable = serde_json::from_value(table.clone()).map_err(|error| {
            Error::new(format!("[model]: {error}")).hint(
                "docs/reference/train.md has the keys of an imported program: program, loss, output, inputs, target",
            )
        })?;
        let path = std::path::absolute(beside.join(&table.program)).map_err(Error::new)?;
        let archive = Archive::open(&path)?;
        let program = archive.program();
        let missing = program.missing_ops();
        if !missing.is_empty() {
            return Err(Error::new(format!(
                "{}: {} ops have no translation: {}",
                path.display(),
                missing.len(),
                missing.join(", ")
            ))
            .hint("export with `run_decompositions()`, which writes fewer ops, or replace them in the model"));
        }
        let result = result_number(&archive, &table.output)?;
        let tied = archive.tied();
        let single: BTreeSet<String> = tied.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        let loops = if table.scan_layers { program.layer_loops(&single) } else { Vec::new() };
        Ok(ImportedModel { archive: Arc::new(archive), path, table, tied, loops, result })
    }

    /// Says what training does not do with a model that was exported for evaluation.
    fn warn_of_mode(&self) {
        if mode_of(&self.archive) == ExportMode::Evaluation {
            tracing::warn!(
                archive = %self.path.display(),
                "exported after model.eval(): dropout is off, and batch norms keep their running statistics; \
                 export after model.train() to train with them"
            );
        }
    }

    /// Refuses what only models of ours have.
    pub(crate) fn check(&self, run: &RunOptions) -> Result<(), Error> {
        let known = RunOptions { remat: run.remat.clone(), ..RunOptions::default() };
        if *run != known {
            return Err(Error::new("[run] has settings that an imported program does not take; it takes remat alone")
                .hint(
                    "types are those of the archive: convert the model (`model.to(torch.bfloat16)`) before the export",
                ));
        }
        Ok(())
    }

    /// Every tensor of the state: its name, what becomes of it, type and shape, and its members where it is stacked.
    pub(crate) fn state(&self) -> Result<Vec<StateTensor<'_>>, Error> {
        let program = self.archive.program();
        let written = self.written();
        let mut stacks: BTreeMap<&str, &StackedTensor> = BTreeMap::new();
        for stack in self.loops.iter().flat_map(|layers| &layers.stacked) {
            stacks.extend(stack.members.iter().map(|member| (member.as_str(), stack)));
        }
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        for (input, role) in program.graph.inputs.iter().zip(&program.inputs) {
            let NodeArgument::Tensor(argument) = input else { continue };
            let meta = program.graph.tensors.get(argument);
            let (own, role) = match role {
                InputRole::Parameter(own) if meta.is_some_and(|meta| meta.requires_grad) => (own, StateRole::Trained),
                InputRole::Parameter(own) => (own, StateRole::FrozenParam),
                InputRole::Buffer(own) if written.contains(own.as_str()) => (own, StateRole::Buffer),
                InputRole::Buffer(own) => (own, StateRole::FrozenBuffer),
                InputRole::Constant(own) => (own, StateRole::Constant),
                InputRole::User | InputRole::Nothing => continue,
            };
            if role == StateRole::Trained && written.contains(own.as_str()) {
                return Err(Error::new(format!("the program writes to its parameter `{own}`"))
                    .hint("a parameter that forward() changes cannot be trained: make it a buffer"));
            }
            let stack = stacks.get(own.as_str()).copied();
            let name = stack.map_or(own, |stack| &stack.name);
            if self.tied.contains_key(own) || !seen.insert(name) {
                continue;
            }
            let mut spec = self.archive.spec(own).ok_or_else(|| {
                Error::new(format!("{}: there are no values of `{own}`", self.path.display()))
                    .hint("export and save the model again, with its weights")
            })?;
            if let Some(stack) = stack {
                spec = Spec::new(spec.dtype, [&[stack.members.len()][..], &spec.dims].concat());
            }
            let members =
                stack.map_or_else(|| vec![own.as_str()], |stack| stack.members.iter().map(String::as_str).collect());
            all.push(StateTensor { name, role, spec, members, is_stacked: stack.is_some() });
        }
        Ok(all)
    }

    /// Buffers and parameters that running the program changes.
    fn written(&self) -> BTreeSet<String> {
        let program = self.archive.program();
        let mutated = program.outputs.iter().filter_map(|role| match role {
            OutputRole::Mutation(name) => Some(name.clone()),
            _ => None,
        });
        mutated.chain(program.written_tensors()).collect()
    }

    /// The values of a tensor of the state, from the archive.
    pub(crate) fn value(&self, tensor: &StateTensor<'_>) -> Result<Literal, Error> {
        let [only] = tensor.members.as_slice() else {
            let parts = tensor.members.iter().map(|name| self.archive.tensor(name)).collect::<Result<Vec<_>, _>>()?;
            let bytes = parts.iter().flat_map(|part| part.bytes().iter().copied()).collect();
            let unequal = || Error::new(format!("the parts of `{}` differ in size", tensor.name));
            return Literal::new(tensor.spec.dtype, tensor.spec.dims.clone(), bytes).ok_or_else(unequal);
        };
        Ok(self.archive.tensor(only)?)
    }

    /// What the archive is told by.
    pub(crate) fn fingerprint(&self) -> Result<String, Error> {
        Ok(data::fingerprint_of_files(std::slice::from_ref(&self.path))?)
    }
}

/// A tensor of the state of an imported program.
#[derive(Clone, Debug)]
pub(crate) struct StateTensor<'a> {
    /// As in the state dict, or the name of a stack.
    pub(crate) name: &'a str,
    pub(crate) role: StateRole,
    pub(crate) spec: Spec,
    /// Names in the state dict.
    pub(crate) members: Vec<&'a str>,
    pub(crate) is_stacked: bool,
}

/// The mode that a model was in when it was exported, as far as its ops tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportMode {
    Training,
    Evaluation,
    /// No op differs between the two.
    Any,
}

/// Ops that differ between the modes, and the argument that says which.
fn mode_of(archive: &Archive) -> ExportMode {
    let mut mode = ExportMode::Any;
    for node in &archive.program().graph.nodes {
        let flag = node.inputs.iter().find_map(|(name, value)| match (name.as_str(), value) {
            ("train" | "training", NodeArgument::Bool(flag)) => Some(*flag),
            _ => None,
        });
        let is_frozen_norm = node.target.contains("batch_norm_legit_no_training");
        let is_live_norm = node.target.contains("batch_norm_legit_functional");
        match flag {
            Some(true) => return ExportMode::Training,
            _ if is_live_norm => return ExportMode::Training,
            Some(false) => mode = ExportMode::Evaluation,
            None if is_frozen_norm => mode = ExportMode::Evaluation,
            None => {}
        }
    }
    mode
}

/// The number of a result among the user's.
fn result_number(archive: &Archive, choice: &ResultChoice) -> Result<usize, Error> {
    let program = archive.program();
    let count = program.outputs.iter().filter(|role| matches!(role, OutputRole::User | OutputRole::Loss)).count();
    let known = || {
        let names: Vec<String> = program.result_names.iter().map(|name| format!("\"{name}\"")).collect();
        format!("the program has {count} results: {}", names.join(", "))
    };
    let found = match choice {
        ResultChoice::Number(number) => Some(*number),
        ResultChoice::Name(name) => program.result_names.iter().position(|own| own == name),
    };
    found.filter(|number| *number < count).ok_or_else(|| {
        let asked = match choice {
            ResultChoice::Number(number) => number.to_string(),
            ResultChoice::Name(name) => format!("\"{name}\""),
        };
        Error::new(format!("model.output is {asked}")).hint(known())
    })
}
