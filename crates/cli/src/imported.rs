//! Programs of PyTorch: archives of `torch.export` as StableHLO, with their weights.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use runtime::Port;
use tensor::Literal;
use torch::Archive;

use crate::failure::Failure;

/// Whether a file is an archive of PyTorch, by its ending.
pub(crate) fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "pt2")
}

/// The program of an archive as bytecode, with the sizes of the example that was exported.
pub(crate) fn program(path: &Path) -> Result<Vec<u8>, Failure> {
    let archive = Archive::open(path)?;
    let symbols = archive.program().examples.clone();
    traced(&archive, &symbols)
}

fn traced(archive: &Archive, symbols: &BTreeMap<String, i64>) -> Result<Vec<u8>, Failure> {
    let (function, _) = archive.program().trace("main", symbols)?;
    Ok(hlo::bytecode::write(&function.module)?)
}

/// An archive with the arguments that it is run with.
pub(crate) struct Imported {
    archive: Archive,
    symbols: BTreeMap<String, i64>,
    given: BTreeMap<String, Literal>,
}

impl Imported {
    /// Opens an archive for arguments by name; without any, for the sizes of the example.
    pub(crate) fn open(path: &Path, arrays: Option<Vec<(String, Literal)>>) -> Result<Imported, Failure> {
        let archive = Archive::open(path)?;
        let Some(arrays) = arrays else {
            let symbols = archive.program().examples.clone();
            return Ok(Imported { archive, symbols, given: BTreeMap::new() });
        };
        let named = |(name, literal): (String, Literal)| {
            let short = ["inputs.", "input."].iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_string);
            (short.unwrap_or(name), literal)
        };
        let given: BTreeMap<String, Literal> = arrays.into_iter().map(named).collect();
        let shapes = given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect();
        let symbols = archive.program().bound(&shapes)?;
        Ok(Imported { archive, symbols, given })
    }

    /// The program for these sizes.
    pub(crate) fn program(&self) -> Result<Vec<u8>, Failure> {
        traced(&self.archive, &self.symbols)
    }

    /// The value of an input: an argument, or what the archive holds; none where it is to be made up.
    pub(crate) fn value(&self, port: &Port) -> Result<Option<Arc<Literal>>, Failure> {
        let (kind, name) = port.name.split_once('.').unwrap_or(("", &port.name));
        if kind == "inputs" {
            return Ok(self.given.get(name).cloned().map(Arc::new));
        }
        Ok(Some(Arc::new(self.archive.tensor(name)?)))
    }
}
