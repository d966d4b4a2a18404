//! Programs whose batch is known only at run time, made for one batch.

use compile::Program;
use hlo::{DYNAMIC, Type};

use crate::error::Error;

/// Whether sizes of the program's arguments are known only at run time.
pub(crate) fn is_symbolic(program: &Program) -> bool {
    let is_dynamic = |ty: &Type| ty.as_tensor().is_some_and(|tensor| !tensor.is_static() && tensor.bounds().is_none());
    program.module().entry().is_some_and(|func| func.inputs.iter().any(is_dynamic))
}

/// The program for a batch: every unknown leading size is this one.
pub(crate) fn with_batch(program: &Program, batch: u64) -> Result<Program, Error> {
    let size = i64::try_from(batch).ok().filter(|&size| size > 0);
    let size = size.ok_or(Error::NotPositive { what: "the batch", given: batch as f64 })?;
    let Some(func) = program.module().entry() else { return Ok(program.clone()) };
    let mut types = Vec::with_capacity(func.inputs.len());
    for (index, ty) in func.inputs.iter().enumerate() {
        let Some(tensor) = ty.as_tensor() else {
            types.push(ty.clone());
            continue;
        };
        let mut tensor = tensor.clone();
        if let Some(first) = tensor.dims.first_mut().filter(|first| **first == DYNAMIC) {
            *first = size;
        }
        if !tensor.is_static() {
            return Err(Error::NotBatch { argument: index, ty: ty.to_string() });
        }
        types.push(Type::from(tensor));
    }
    Ok(Program::from_module(hlo::passes::specialize(program.verified(), &types, None)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLIC: &str = "func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>) -> tensor<?x4xf32> {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    }";

    #[test]
    fn the_batch_reaches_the_results() {
        let program = Program::read(SYMBOLIC.as_bytes().to_vec()).unwrap();
        assert!(is_symbolic(&program));
        let made = with_batch(&program, 16).unwrap();
        assert!(!is_symbolic(&made));
        assert_eq!(made.module().entry().unwrap().outputs[0].to_string(), "tensor<16x4xf32>");
        assert!(matches!(with_batch(&program, 0), Err(Error::NotPositive { .. })));
    }

    #[test]
    fn other_unknown_sizes_are_refused() {
        let text = SYMBOLIC.replace("tensor<8x4xf32>", "tensor<8x?xf32>").replace("tensor<?x4xf32>", "tensor<?x?xf32>");
        let program = Program::read(text.into_bytes()).unwrap();
        assert!(matches!(with_batch(&program, 16), Err(Error::NotBatch { argument: 1, .. })));
    }
}
