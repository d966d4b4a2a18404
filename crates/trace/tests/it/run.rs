//! Traced programs run on the built-in CPU device; numbers in and out of literals, literals in and out of Python.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions};
use serde_json::{Value, json};
use tensor::{DType, Literal};
use trace::{Donate, Spec, Tensor};

/// The device of a test.
pub(crate) struct Device(Arc<Cpu>);

impl Device {
    pub(crate) fn new() -> Device {
        Device(Cpu::new(Some(1)))
    }

    /// Traces a function of tensors like these values and runs it on them.
    #[track_caller]
    pub(crate) fn run(&self, inputs: &[Literal], f: impl FnOnce(&Vec<Tensor>) -> Vec<Tensor>) -> Vec<Literal> {
        match self.try_run(inputs, f) {
            Ok(results) => results,
            Err(message) => panic!("{message}"),
        }
    }

    /// [`Device::run`], with what goes wrong as text.
    pub(crate) fn try_run(
        &self,
        inputs: &[Literal],
        f: impl FnOnce(&Vec<Tensor>) -> Vec<Tensor>,
    ) -> Result<Vec<Literal>, String> {
        let shapes: Vec<Tensor> =
            inputs.iter().map(|input| Tensor::of(Spec::new(input.dtype(), input.dims()))).collect();
        let (function, _) = trace::trace("test", &shapes, Donate::Nothing, f).map_err(|error| full(&error))?;
        let run = || {
            let program = Compiled::from_module(&self.0, function.module, &EngineOptions::default())?;
            let arrays = inputs.iter().map(|input| Array::from_literal(self.0.memory(), input));
            program.run(vec![arrays.collect::<Result<_, _>>()?], &InterpreterOptions::default())
        };
        let results = run().map_err(|error: cpu::Error| full(&error))?;
        Ok(results.into_iter().flatten().map(|array| array.to_literal()).collect())
    }
}

/// An error with its causes.
fn full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Numbers as a tensor of a type, rounded.
pub(crate) fn literal(dtype: DType, dims: &[usize], values: &[f64]) -> Literal {
    let mut bytes = Vec::new();
    for &value in values {
        match dtype {
            DType::Bool => bytes.push(u8::from(value != 0.0)),
            DType::C64 => {
                bytes.extend((value as f32).to_le_bytes());
                bytes.extend(0f32.to_le_bytes());
            }
            _ if dtype.is_float() => {
                let bits = tensor::encode_float(dtype, value).expect("a float");
                bytes.extend(&bits.to_le_bytes()[..dtype.size_bytes()]);
            }
            _ => bytes.extend(&(value as i64).to_le_bytes()[..dtype.size_bytes()]),
        }
    }
    Literal::new(dtype, dims, bytes).expect("as many numbers as the shape has")
}

/// The numbers of a tensor; complex ones as real and imaginary part in turn.
pub(crate) fn numbers(literal: &Literal) -> Vec<f64> {
    let dtype = literal.dtype();
    let (dtype, width) = match dtype {
        DType::C64 => (DType::F32, 4),
        DType::C128 => (DType::F64, 8),
        _ => (dtype, dtype.size_bytes()),
    };
    let number = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        if dtype.is_float() {
            tensor::decode_float(dtype, bits).expect("a float")
        } else if dtype.is_signed_integer() {
            let unused = 64 - 8 * bytes.len() as u32;
            ((bits << unused) as i64 >> unused) as f64
        } else {
            bits as f64
        }
    };
    literal.bytes().chunks(width).map(number).collect()
}

/// Types by the names that `exchange.py` knows.
fn dtype_of(name: &str) -> DType {
    DType::from_name(name).unwrap_or_else(|| panic!("no type is called {name}"))
}

/// Writes arrays for a Python script: one file of bytes, one that says what is where.
pub(crate) fn write_arrays(folder: &Path, arrays: &BTreeMap<String, Literal>) {
    let (mut bytes, mut index) = (Vec::new(), serde_json::Map::new());
    for (name, array) in arrays {
        let place = json!({"type": array.dtype().name(), "dims": array.dims(), "start": bytes.len()});
        index.insert(name.clone(), place);
        bytes.extend(array.bytes());
    }
    std::fs::write(folder.join("arrays.bin"), bytes).expect("arrays are written");
    std::fs::write(folder.join("arrays.json"), Value::Object(index).to_string()).expect("their index is written");
}

/// Reads the arrays a Python script wrote.
pub(crate) fn read_arrays(folder: &Path) -> BTreeMap<String, Literal> {
    let bytes = std::fs::read(folder.join("arrays.bin")).expect("arrays are read");
    let text = std::fs::read_to_string(folder.join("arrays.json")).expect("their index is read");
    let index: BTreeMap<String, Value> = serde_json::from_str(&text).expect("an index");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let read = |(name, place): (String, Value)| {
        let dtype = dtype_of(place["type"].as_str().expect("a type"));
        let dims: Vec<usize> = place["dims"].as_array().expect("sizes").iter().map(number).collect();
        let start = number(&place["start"]);
        let end = start + dims.iter().product::<usize>() * dtype.size_bytes();
        (name, Literal::new(dtype, dims, bytes[start..end].to_vec()).expect("as many bytes as the shape has"))
    };
    index.into_iter().map(read).collect()
}
