//! Kernels of this crate, found by the names of composites; each has a plain decomposition, which is what it means.

pub(crate) mod cpu;
pub mod cross_entropy;
pub(crate) mod cuda;
pub mod embedding;
pub mod flash;
pub mod grouped;
pub mod norm;
pub mod paged;
pub mod quantized;

use chips::Generation;
use hlo::{Attrs, Func};
use tensor::{DType, Spec};

use crate::composites;
use crate::error::Error;
use crate::kernel::Kernel;
use norm::FusedNormKind;

/// Which pass a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassDirection {
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

/// Makes a function of that name that means what a composite does.
pub(crate) type MakeFunction = fn(&Request<'_>, &str) -> Result<Func, Error>;

type MakeKernel = fn(&Request<'_>) -> Result<Kernel, Error>;

/// What takes the place of a composite.
#[derive(Clone, Copy)]
pub(crate) enum Make {
    /// A call of a kernel.
    Kernel(MakeKernel),
    /// A call of a function of that name, which calls kernels.
    Program(fn(&Request<'_>, &str) -> Result<Program, Error>),
    /// A call of a function of that name without kernels of this crate.
    Function(MakeFunction),
}

/// A composite that becomes a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    name: &'static str,
    pub(crate) make: Make,
    /// What the composite means, as a function of that name.
    decompose: MakeFunction,
    /// What is computed from one of the operands, in its place and before all others: tables to prefetch, activations rearranged.
    pub(crate) tables: Option<Tables>,
}

#[derive(Clone, Copy)]
pub(crate) struct Tables {
    /// The operand, or [`LAST`].
    pub(crate) operand: usize,
    /// Whether there is such an operand.
    pub(crate) is_given: fn(&Request<'_>) -> bool,
    /// A function of that name.
    pub(crate) function: fn(&Request<'_>, &str) -> Result<Func, Error>,
}

/// The last of the operands, however many there are.
pub(crate) const LAST: usize = usize::MAX;

fn always(_: &Request<'_>) -> bool {
    true
}

const fn entry(name: &'static str, make: Make, decompose: MakeFunction) -> Entry {
    Entry { name, make, decompose, tables: None }
}

const KERNELS: &[Entry] = &[
    Entry {
        tables: Some(flash::FORWARD_MASK),
        ..entry(composites::FLASH, Make::Kernel(flash::forward_for), flash::forward_plain)
    },
    Entry {
        tables: Some(flash::BACKWARD_MASK),
        ..entry(composites::FLASH_BACKWARD, Make::Kernel(flash::backward_for), flash::backward_plain)
    },
    entry(composites::PAGED_ATTENTION, Make::Kernel(paged::attention_for), paged::attention_plain),
    entry(composites::EMBEDDING_LOOKUP, Make::Program(embedding::lookup_for), embedding::lookup_plain),
    entry(
        composites::RMS_NORM,
        Make::Kernel(|request| norm::forward_for(request, FusedNormKind::Rms)),
        |request, name| norm::forward_plain(request, FusedNormKind::Rms, name),
    ),
    entry(
        composites::RMS_NORM_BACKWARD,
        Make::Kernel(|request| norm::backward_for(request, FusedNormKind::Rms)),
        |request, name| norm::backward_plain(request, FusedNormKind::Rms, name),
    ),
    entry(
        composites::LAYER_NORM,
        Make::Kernel(|request| norm::forward_for(request, FusedNormKind::Layer)),
        |request, name| norm::forward_plain(request, FusedNormKind::Layer, name),
    ),
    entry(
        composites::LAYER_NORM_BACKWARD,
        Make::Kernel(|request| norm::backward_for(request, FusedNormKind::Layer)),
        |request, name| norm::backward_plain(request, FusedNormKind::Layer, name),
    ),
    entry(composites::CROSS_ENTROPY, Make::Program(cross_entropy::forward_for), cross_entropy::forward_plain),
    entry(
        composites::CROSS_ENTROPY_BACKWARD,
        Make::Program(cross_entropy::backward_for),
        cross_entropy::backward_plain,
    ),
    Entry {
        tables: Some(Tables { operand: LAST, is_given: always, function: grouped::visits_for_matmul }),
        ..entry(composites::GROUPED_MATMUL, Make::Kernel(grouped::matmul_for), grouped::matmul_plain)
    },
    Entry {
        tables: Some(Tables { operand: 2, is_given: always, function: grouped::visits_for_gradient }),
        ..entry(composites::GROUPED_MATMUL_GRADIENT, Make::Kernel(grouped::gradient_for), grouped::gradient_plain)
    },
    Entry {
        tables: Some(Tables { operand: 0, is_given: always, function: quantized::prepared_for }),
        ..entry(composites::QUANTIZED_MATMUL, Make::Kernel(quantized::matmul_for), quantized::matmul_plain)
    },
];

pub(crate) fn by_name(name: &str) -> Option<Entry> {
    KERNELS.iter().find(|entry| entry.name == name).copied()
}

/// What a composite of these operands means in plain ops, as a function; `None` where the name is not one of ours.
pub fn decomposition(
    composite: &str,
    operands: &[Spec],
    attributes: &Attrs,
    function: &str,
) -> Option<Result<Func, Error>> {
    // The generation decides blocks only, which a decomposition has not.
    let request = Request { operands, attributes, generation: Generation::V6e };
    Some((by_name(composite)?.decompose)(&request, function))
}

/// Names of composites that become kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|entry| entry.name)
}

impl Request<'_> {
    pub(crate) fn size(&self, name: &str) -> Option<usize> {
        composites::size(self.attributes, name)
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
