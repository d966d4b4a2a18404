//! Programs of other frameworks: archives of `torch.export` and models of ONNX as StableHLO, with their weights.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use onnx::OnnxModel;
use runtime::Port;
use tensor::Literal;
use torch::Archive;

use crate::failure::Failure;

/// Files that are translated, by their endings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `.pt2`.
    Torch,
    /// `.onnx`.
    Onnx,
}

/// What a file is; nothing for programs in StableHLO.
pub(crate) fn format(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "pt2" => Some(Format::Torch),
        "onnx" => Some(Format::Onnx),
        _ => None,
    }
}

/// The program of a file as bytecode, with the sizes of the example that was exported; sizes that a model of ONNX leaves open are 1.
pub(crate) fn program(path: &Path, format: Format) -> Result<Vec<u8>, Failure> {
    Imported::open(path, format, None)?.program()
}

/// A file with the arguments that it is run with.
pub(crate) enum Imported {
    Torch { archive: Archive, symbols: BTreeMap<String, i64>, given: BTreeMap<String, Literal> },
    Onnx { model: OnnxModel, given: BTreeMap<String, Literal> },
}

impl Imported {
    /// Opens a file for arguments by name; without any, for the sizes of the example.
    pub(crate) fn open(
        path: &Path,
        format: Format,
        arrays: Option<Vec<(String, Literal)>>,
    ) -> Result<Imported, Failure> {
        let named = |(name, literal): (String, Literal)| {
            let short = ["inputs.", "input."].iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_string);
            (short.unwrap_or(name), literal)
        };
        let is_given = arrays.is_some();
        let given: BTreeMap<String, Literal> = arrays.unwrap_or_default().into_iter().map(named).collect();
        if format == Format::Onnx {
            return Ok(Imported::Onnx { model: OnnxModel::open(path)?, given });
        }
        let archive = Archive::open(path)?;
        let shapes = given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect();
        let symbols = match is_given {
            true => archive.program().bound(&shapes)?,
            false => archive.program().examples.clone(),
        };
        Ok(Imported::Torch { archive, symbols, given })
    }

    /// The program for these sizes. Of a model of ONNX, inputs that shapes are computed from become part of it.
    pub(crate) fn program(&mut self) -> Result<Vec<u8>, Failure> {
        let function = match self {
            Imported::Torch { archive, symbols, .. } => archive.program().trace("main", symbols)?.0,
            Imported::Onnx { model, given } => match traced(model, given) {
                Err(error) if error.needs_value() => {
                    let whole = given.iter().filter(|(_, literal)| is_small_and_whole(literal));
                    let fixed: BTreeMap<String, Literal> =
                        whole.map(|(name, value)| (name.clone(), value.clone())).collect();
                    if fixed.is_empty() {
                        return Err(error.into());
                    }
                    *model = model.with_constants(&fixed);
                    given.retain(|name, _| !fixed.contains_key(name));
                    traced(model, given)?
                }
                traced => traced?,
            },
        };
        Ok(hlo::bytecode::write(&function.module)?)
    }

    /// The value of an input: an argument, or what the file holds; none where it is to be made up.
    pub(crate) fn value(&self, port: &Port) -> Result<Option<Arc<Literal>>, Failure> {
        let (kind, name) = port.name.split_once('.').unwrap_or(("", &port.name));
        let (Imported::Torch { given, .. } | Imported::Onnx { given, .. }) = self;
        if kind == "inputs" {
            return Ok(given.get(name).cloned().map(Arc::new));
        }
        Ok(Some(Arc::new(match self {
            Imported::Torch { archive, .. } => archive.tensor(name)?,
            Imported::Onnx { model, .. } => model.tensor(name)?,
        })))
    }
}

fn traced(model: &OnnxModel, given: &BTreeMap<String, Literal>) -> Result<trace::Function, onnx::Error> {
    let shapes = given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect();
    Ok(model.trace("main", &model.shapes(&shapes)?)?.0)
}

/// Whether an input can be one that shapes are computed from.
fn is_small_and_whole(literal: &Literal) -> bool {
    literal.dims().len() <= 1 && literal.num_elements() <= 64 && !literal.dtype().is_float()
}
