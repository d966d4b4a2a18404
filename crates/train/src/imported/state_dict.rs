//! Parameters and buffers back under the names of PyTorch's `state_dict`, from an archive or a checkpoint of a training.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tensor::Literal;
use torch::Archive;
use torch::graph::InputRole;
use weights::{CheckpointManager, IntegrityCheck, Protection, Saved, TensorRegion};

use super::{ImportedModel, StateRole, StateTensor};
use crate::error::Error;
use crate::trainer::Resume;

/// Tensors by the names of a `state_dict`.
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    /// Parameters and persistent buffers.
    pub tensors: BTreeMap<String, Literal>,
    /// The step that they were trained to; none where they come from an archive.
    pub step: Option<u64>,
}

/// The state dict of an archive, or with `run`, the folder of a training of it, that of a checkpoint: of a step, or the newest good one.
pub fn state_dict(program: &Path, run: Option<(&str, Option<u64>, Protection)>) -> Result<StateDict, Error> {
    let Some((folder, step, protection)) = run else {
        let archive = Archive::open(program)?;
        let mut tensors = BTreeMap::new();
        for name in persistent(&archive) {
            tensors.insert(name.to_string(), archive.tensor(name)?);
        }
        return Ok(StateDict { tensors, step: None });
    };
    let location = format!("{}/checkpoints", folder.trim_end_matches('/'));
    let manager = CheckpointManager::open(&location)?.protected(protection);
    let saved = match step {
        Some(step) => manager.load(step)?,
        None => manager.latest_good(IntegrityCheck::Sizes)?.saved,
    };
    let wrong = |error: serde_json::Error| {
        Error::new(format!("{}: {error}", saved.address())).hint("give the folder of a `tpu train` run")
    };
    let kept: Resume = serde_json::from_value(saved.metadata().clone()).map_err(wrong)?;
    let mut table = kept.description.get("model").cloned().unwrap_or_default();
    let Some(named) = table.get_mut("program") else {
        return Err(Error::new(format!("{} is no training of an imported program", saved.address()))
            .hint("only trainings with model.program have a state dict of PyTorch"));
    };
    *named = Value::String(program.to_string_lossy().into_owned());
    let model = ImportedModel::open(&table, Path::new(""))?;
    let then = kept.description.get("program_fingerprint").and_then(Value::as_str).unwrap_or_default();
    if then != model.fingerprint()? {
        return Err(Error::new(format!("{} was not trained from {}", saved.address(), program.display()))
            .hint("give the archive that the training file named"));
    }
    let mut tensors = BTreeMap::new();
    for tensor in model.state()? {
        collect(&model, &tensor, &saved, &mut tensors)?;
    }
    for (name, first) in &model.tied {
        if let Some(value) = tensors.get(first).cloned() {
            tensors.insert(name.clone(), value);
        }
    }
    let names: std::collections::BTreeSet<&str> = persistent(&model.archive).collect();
    tensors.retain(|name, _| names.contains(name.as_str()));
    Ok(StateDict { tensors, step: Some(kept.step) })
}

/// Names of a state dict: parameters, and buffers that the file keeps with them.
fn persistent(archive: &Archive) -> impl Iterator<Item = &str> {
    let program = archive.program();
    let names = program.inputs.iter().filter_map(|role| match role {
        InputRole::Parameter(name) => Some(name.as_str()),
        InputRole::Buffer(name) => Some(name.as_str()).filter(|name| program.is_persistent(name)),
        _ => None,
    });
    names.filter(|name| archive.spec(name).is_some())
}

/// A tensor of the state under the names of its members: trained ones from the checkpoint, the EMA where one was kept.
fn collect(
    model: &ImportedModel,
    tensor: &StateTensor<'_>,
    saved: &Saved,
    into: &mut BTreeMap<String, Literal>,
) -> Result<(), Error> {
    let name = tensor.name;
    let has = |path: &str| saved.tensors().any(|tensor| tensor.name == path);
    let value = match tensor.role {
        StateRole::Trained => {
            let ema = format!("ema.{name}");
            let path = if has(&ema) { ema } else { format!("params.{name}") };
            saved.read_as(&path, tensor.spec.dtype)?
        }
        StateRole::Buffer => saved.read_as(&format!("carried.buffers.{name}"), tensor.spec.dtype)?,
        StateRole::FrozenParam | StateRole::FrozenBuffer => model.value(tensor)?,
        StateRole::Constant => return Ok(()),
    };
    if !tensor.is_stacked {
        into.insert(name.to_string(), value);
        return Ok(());
    }
    for (layer, member) in tensor.members.iter().enumerate() {
        let (mut start, mut size) = (vec![0; value.dims().len()], value.dims().to_vec());
        (start[0], size[0]) = (layer, 1);
        let part = TensorRegion { start, size }.cut(&value);
        let part = part.and_then(|part| Literal::new(part.dtype(), &part.dims()[1..], part.bytes().to_vec()));
        let part = part.ok_or_else(|| Error::new(format!("`{name}` has no layer {layer}")))?;
        into.insert(member.to_string(), part);
    }
    Ok(())
}
