//! `tpu weights`: the weights of a PyTorch archive, or of a training of it, as safetensors by the names of the `state_dict`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::key;
use crate::args::WeightsArgs;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    file: String,
    tensors: usize,
    size_bytes: u64,
    /// Steps they were trained for; absent where they are the archive's.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
}

pub(crate) fn run(args: &WeightsArgs, output: &Output) -> Result<Answer, Failure> {
    let run = match &args.run {
        Some(folder) => Some((folder.as_str(), args.step, key::protection(&args.keys)?)),
        None => None,
    };
    let found = ::train::state_dict(&args.program, run)?;
    let tensors = found.tensors.iter().map(|(name, literal)| (name.as_str(), literal));
    // PyTorch's readers ask for it.
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    ::weights::write(&args.out, tensors, &metadata).map_err(runtime::Error::from)?;
    let record = Record {
        version: 1,
        file: args.out.display().to_string(),
        tensors: found.tensors.len(),
        size_bytes: found.tensors.values().map(|literal| literal.bytes().len() as u64).sum(),
        step: found.step,
    };
    output.record(&record, || {
        let of = record.step.map_or_else(|| "of the archive".to_string(), |step| format!("after step {step}"));
        let (count, bytes) = (record.tensors, human::bytes(record.size_bytes));
        format!(
            "{count} tensors {of}, {bytes}, in {file}\nnext: model.load_state_dict(safetensors.torch.load_file(\"{file}\"))\n",
            file = record.file
        )
    })?;
    Ok(Answer::Yes)
}
