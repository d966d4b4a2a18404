//! Kernels of this crate, found by the names of composites; each has a plain decomposition, which is what it means.

pub mod cross_entropy;
pub mod flash;
pub mod grouped;
pub mod rms_norm;

use chips::Generation;
use hlo::{Attr, Attrs, Func};
use tensor::{DType, Spec};

use crate::error::Error;
use crate::kernel::Kernel;

/// What names of our composites begin with.
pub const NAMESPACE: &str = "tpubridge.";

/// Which pass a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
}

/// What a composite says about the kernel it wants.
pub(crate) struct Request<'a> {
    pub(crate) operands: &'a [Spec],
    pub(crate) attributes: &'a Attrs,
    pub(crate) generation: Generation,
}

/// A function that calls kernels in place of a composite.
pub(crate) struct Program {
    pub(crate) function: Func,
    /// In the order of the calls.
    pub(crate) kernels: Vec<Kernel>,
}

type MakeKernel = fn(&Request<'_>) -> Result<Kernel, Error>;

/// What takes the place of a composite.
#[derive(Clone, Copy)]
pub(crate) enum Make {
    /// A call of a kernel.
    Kernel(MakeKernel),
    /// A call of a function of that name, which calls kernels.
    Program(fn(&Request<'_>, &str) -> Result<Program, Error>),
}

/// A composite that becomes a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    name: &'static str,
    pub(crate) make: Make,
    /// What is computed from one of the operands, in its place and before all others: tables to prefetch.
    pub(crate) tables: Option<Tables>,
}

#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) operand: usize,
    /// A function of that name.
    pub(crate) function: fn(&Request<'_>, &str) -> Result<Func, Error>,
}

const fn entry(name: &'static str, make: MakeKernel) -> Entry {
    Entry { name, make: Make::Kernel(make), tables: None }
}

const KERNELS: &[Entry] = &[
    entry(flash::FORWARD, flash::forward_for),
    entry(flash::BACKWARD, flash::backward_for),
    entry(rms_norm::FORWARD, rms_norm::forward_for),
    entry(rms_norm::BACKWARD, rms_norm::backward_for),
    Entry { name: cross_entropy::FORWARD, make: Make::Program(cross_entropy::forward_for), tables: None },
    Entry { name: cross_entropy::BACKWARD, make: Make::Program(cross_entropy::backward_for), tables: None },
    Entry {
        tables: Some(Tables { operand: 2, function: grouped::visits_for_product }),
        ..entry(grouped::PRODUCT, grouped::product_for)
    },
    Entry {
        tables: Some(Tables { operand: 2, function: grouped::visits_for_gradient }),
        ..entry(grouped::GRADIENT, grouped::gradient_for)
    },
];

pub(crate) fn by_name(name: &str) -> Option<Entry> {
    KERNELS.iter().find(|entry| entry.name == name).copied()
}

/// Names of composites that become kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|entry| entry.name)
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

    /// Whether an attribute is this word.
    pub(crate) fn is_word(&self, name: &str, word: &str) -> bool {
        self.attributes.get(name).and_then(Attr::as_str) == Some(word)
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
