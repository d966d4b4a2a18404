//! A model as one file: parameters, optimizer state and notes in one safetensors file that other tools read too.
//!
//! It is for handing a model on. A training run saves into a [`CheckpointManager`](crate::CheckpointManager), which is safe at any moment.
//! Parameters keep their names, so that other tools read them; the optimizer's tensors are under `optimizer/`.

use std::collections::BTreeMap;
use std::path::Path;

use tensor::Literal;

use crate::error::Error;
use crate::safetensors::{SafeTensors, write};

/// The newest version this release writes and reads.
pub const CHECKPOINT_VERSION: u64 = 1;

const VERSION_KEY: &str = "tpubridge.version";
const NOTE_PREFIX: &str = "tpubridge.note.";
const OPTIMIZER_PREFIX: &str = "optimizer/";

/// A model at rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Parameters by name.
    pub parameters: BTreeMap<String, Literal>,
    /// State of the optimizer by name.
    pub optimizer: BTreeMap<String, Literal>,
    /// Anything else worth keeping: the step, the configuration.
    pub notes: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Writes the checkpoint: whole, or not at all.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        if let Some(name) = self.parameters.keys().find(|name| name.starts_with(OPTIMIZER_PREFIX)) {
            let message = format!("names of parameters may not begin with `{OPTIMIZER_PREFIX}`");
            return Err(Error::Tensor { name: name.clone(), message });
        }
        let mut metadata = BTreeMap::from([(VERSION_KEY.to_string(), CHECKPOINT_VERSION.to_string())]);
        metadata.extend(self.notes.iter().map(|(name, value)| (format!("{NOTE_PREFIX}{name}"), value.clone())));
        let optimizer: Vec<(String, &Literal)> =
            self.optimizer.iter().map(|(name, literal)| (format!("{OPTIMIZER_PREFIX}{name}"), literal)).collect();
        let parameters = self.parameters.iter().map(|(name, literal)| (name.as_str(), literal));
        write(path, parameters.chain(optimizer.iter().map(|(name, literal)| (name.as_str(), *literal))), &metadata)
    }

    /// Reads a checkpoint, or a safetensors file of another tool: all its tensors are parameters then.
    pub fn load(path: &Path) -> Result<Checkpoint, Error> {
        let file = SafeTensors::open(path)?;
        if let Some(version) = file.metadata().get(VERSION_KEY) {
            let found = version.parse().map_err(|_| Error::format(path, format!("its version is `{version}`")))?;
            if found > CHECKPOINT_VERSION {
                return Err(Error::Newer { path: path.to_path_buf(), found, supported: CHECKPOINT_VERSION });
            }
        }
        let mut checkpoint = Checkpoint::default();
        for name in file.entries().keys() {
            let literal = file.read(name)?;
            match name.strip_prefix(OPTIMIZER_PREFIX) {
                Some(name) => checkpoint.optimizer.insert(name.to_string(), literal),
                None => checkpoint.parameters.insert(name.clone(), literal),
            };
        }
        let notes = file.metadata().iter();
        let notes =
            notes.filter_map(|(name, value)| Some((name.strip_prefix(NOTE_PREFIX)?.to_string(), value.clone())));
        checkpoint.notes = notes.collect();
        Ok(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::DType;

    fn checkpoint() -> Checkpoint {
        let one = |value: u8| Literal::new(DType::U8, [1], vec![value]).unwrap();
        Checkpoint {
            parameters: BTreeMap::from([("w".to_string(), one(1))]),
            optimizer: BTreeMap::from([("w".to_string(), one(2)), ("m/w".to_string(), one(3))]),
            notes: BTreeMap::from([("step".to_string(), "7".to_string())]),
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        checkpoint().save(&path).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint());
    }

    #[test]
    fn newer_versions_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        let metadata = BTreeMap::from([(VERSION_KEY.to_string(), "2".to_string())]);
        write(&path, [], &metadata).unwrap();
        assert!(matches!(Checkpoint::load(&path), Err(Error::Newer { found: 2, supported: 1, .. })));
        let metadata = BTreeMap::from([(VERSION_KEY.to_string(), "x".to_string())]);
        write(&path, [], &metadata).unwrap();
        assert!(matches!(Checkpoint::load(&path), Err(Error::Format { .. })));
    }

    #[test]
    fn files_of_other_tools_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let literal = Literal::zeros(DType::F32, [2]).unwrap();
        write(&path, [("layer.weight", &literal)], &BTreeMap::new()).unwrap();
        let loaded = Checkpoint::load(&path).unwrap();
        assert_eq!(loaded.parameters.keys().collect::<Vec<_>>(), ["layer.weight"]);
    }
}
