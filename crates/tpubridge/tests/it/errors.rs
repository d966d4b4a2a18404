//! Errors of every crate are one error, with what helps and with their causes.

use std::error::Error as _;

use tpubridge::prelude::*;

/// A function of a user that meets errors of four crates.
fn questions(slice: &str, values: &[f32]) -> Result<f32> {
    let slice: Slice = slice.parse()?;
    let literal = Literal::from_slice(values, [2])?;
    let backend = Backend::auto(&Config::new(Mode::Development).device(Target::Cpu))?;
    let mut sum = backend.jit(|x: &Tensor| x.sum_all());
    let value: f32 = sum.call(Tensor::from(literal))?.item()?;
    lower("wrong", &Tensor::of(Spec::new(DType::F32, [3])), |x| {
        x + &Tensor::zeros(DType::F32, &[slice.chips() as usize])
    })?;
    Ok(value)
}

#[test]
fn every_error_converts() {
    assert!(matches!(questions("v99-1", &[]), Err(Error::Chips(_))));
    let error = questions("v5e-1", &[1.0]).unwrap_err();
    assert!(matches!(error, Error::Value(_)));
    assert_eq!(error.to_string(), "1 values do not fill f32[2], which has 2");
    assert!(error.remedy().is_some_and(|remedy| remedy.contains("product of the sizes")));
    let error = questions("v5e-4", &[1.0, 2.0]).unwrap_err();
    assert!(matches!(error, Error::Trace(_)) && error.to_string().contains("errors.rs:"), "{error}");
    assert_eq!(questions("v5e-1", &[1.0, 2.0]).unwrap(), 3.0);
}

#[test]
fn causes_are_kept() {
    let error = Error::from(Program::open("no-such-file.mlir").unwrap_err());
    assert!(error.to_string().contains("no-such-file.mlir"), "{error}");
    assert!(error.source().is_some_and(|cause| cause.to_string().contains("No such file")), "{:?}", error.source());
}
