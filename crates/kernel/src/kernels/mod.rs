//! Kernels of this crate, found by the names of composites; each has a plain decomposition, which is what it means.

pub mod flash;

use chips::Generation;
use hlo::{Attr, Attrs, Func};
use tensor::{DType, Spec};

use crate::error::Error;
use crate::kernel::Kernel;

/// What names of our composites begin with.
pub const NAMESPACE: &str = "tpubridge.";

/// What a composite says about the kernel it wants.
pub(crate) struct Request<'a> {
    pub(crate) operands: &'a [Spec],
    pub(crate) attributes: &'a Attrs,
    pub(crate) generation: Generation,
}

type Make = fn(&Request<'_>) -> Result<Kernel, Error>;

const KERNELS: &[(&str, Make)] = &[(flash::FORWARD, flash::forward_for), (flash::BACKWARD, flash::backward_for)];

pub(crate) fn by_name(name: &str) -> Option<Make> {
    KERNELS.iter().find(|(known, _)| *known == name).map(|(_, make)| *make)
}

/// Names of composites that become kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|(name, _)| *name)
}

impl Request<'_> {
    pub(crate) fn float(&self, name: &str, default: f32) -> f32 {
        match self.attributes.get(name) {
            Some(Attr::Float(value, _)) => value.get() as f32,
            _ => default,
        }
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.attributes.get(name).and_then(Attr::as_bool).unwrap_or(false)
    }

    pub(crate) fn size(&self, name: &str) -> Option<usize> {
        self.attributes.get(name).and_then(Attr::as_int).and_then(|n| usize::try_from(n).ok())
    }

    /// An operand's sizes, of a rank.
    pub(crate) fn dims<const N: usize>(&self, kernel: &'static str, n: usize) -> Result<[usize; N], Error> {
        let dims = self.operands.get(n).and_then(|spec| <[usize; N]>::try_from(&spec.dims[..]).ok());
        dims.ok_or_else(|| Error::Shape { kernel, message: format!("operand {n} has not {N} dimensions") })
    }
}

/// A tensor type of StableHLO.
pub(crate) fn tensor<const N: usize>(dtype: DType, dims: [usize; N]) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{}>", dtype.name())
}

/// A number of a decomposition, exactly.
pub(crate) fn bits(value: f32) -> String {
    format!("0x{:08X}", value.to_bits())
}

/// A function of a decomposition from its text.
pub(crate) fn function(text: String) -> Result<Func, Error> {
    let module = hlo::text::parse(&text).map_err(Error::Rewrite)?;
    module.funcs.into_iter().next().ok_or_else(|| Error::Internal("a decomposition without a function".into()))
}

/// The largest multiple of `step` that divides a length and is no larger than `most`.
pub(crate) fn divisor(length: usize, step: usize, most: usize) -> Option<usize> {
    (1..=most.min(length) / step.max(1)).rev().map(|n| n * step).find(|&block| length.is_multiple_of(block))
}
