//! Traced programs run on the built-in CPU device, and numbers in and out of literals.

use std::sync::Arc;

use runtime::config::{Config, Mode, Target};
use runtime::optimize::Level;
use runtime::{Backend, Parameters, Program};
use tensor::{DType, Literal};
use trace::{Donate, Spec, Tensor, Tree};

/// The device of a test.
pub(crate) struct Device(Backend);

impl Device {
    pub(crate) fn new() -> Device {
        let config = Config::new(Mode::Training).device(Target::Cpu).optimization(Level::None);
        Device(Backend::auto(&config).expect("the built-in CPU device"))
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
        let program = Arc::new(Program::from_module(function.module));
        let model = self.0.prepare_model(&program, &Parameters::none()).map_err(|error| full(&error))?;
        let sent: Vec<_> = inputs
            .iter()
            .map(|input| self.0.send(&Arc::new(input.clone())))
            .collect::<Result<_, _>>()
            .map_err(|error| full(&error))?;
        let outputs = model.run(&sent).map_err(|error| full(&error))?;
        outputs.iter().map(|output| output.to_host().map_err(|error| full(&error))).collect()
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

/// Leaves of any structure.
pub(crate) fn leaves<T: Tree>(tree: &T) -> Vec<Tensor> {
    tree.leaves()
}
