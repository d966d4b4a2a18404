//! What can be wrong with a name or an override, and what would be right instead.

use std::fmt;

use crate::generation::Generation;

/// Every failure of this crate is the caller's input: a table has no device to fail and holds no state to corrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Nothing but spaces.
    Empty,
    /// Longer than any name.
    TooLong {
        /// Length given, in bytes.
        length: usize,
        /// Longest length read.
        limit: usize,
    },
    /// The part before the size names no generation.
    UnknownGeneration {
        /// That part.
        name: String,
        /// What is known about it, where something is.
        remark: Option<&'static str>,
    },
    /// The part before the size names more than one generation.
    AmbiguousGeneration {
        /// That part.
        name: String,
        /// Complete names it may stand for.
        candidates: Vec<String>,
    },
    /// A topology without a generation, `4x4`.
    MissingGeneration {
        /// The topology.
        topology: String,
    },
    /// A generation without a size.
    MissingSize {
        /// The generation.
        generation: Generation,
        /// Names with sizes.
        examples: Vec<String>,
    },
    /// The part after the generation is neither a number nor a topology.
    MalformedSize {
        /// The generation.
        generation: Generation,
        /// That part.
        size: String,
        /// Names with sizes.
        examples: Vec<String>,
    },
    /// No slice of this generation has this size.
    NoSuchSize {
        /// The generation.
        generation: Generation,
        /// The name as understood, `v5p-100`.
        name: String,
        /// Next smaller size.
        smaller: Option<String>,
        /// Next larger size.
        larger: Option<String>,
        /// A likely misunderstanding, such as cores for chips.
        remark: Option<String>,
    },
    /// No slice of this generation has this shape.
    NoSuchShape {
        /// The generation.
        generation: Generation,
        /// The shape as given, `4x4x10`.
        shape: String,
        /// What is wrong with it.
        fault: ShapeFault,
        /// Slices with the same number of chips.
        same_chips: Vec<String>,
        /// Next smaller slice.
        smaller: Option<String>,
        /// Next larger slice.
        larger: Option<String>,
    },
    /// Zero slices, or more than can be addressed.
    SliceCount {
        /// Count as given.
        count: String,
        /// Most slices.
        limit: u32,
    },
    /// An override that is not `key=value`.
    MalformedOverride {
        /// As given.
        text: String,
    },
    /// An override of something that is not a figure.
    UnknownOverride {
        /// As given.
        key: String,
        /// What can be overridden.
        valid: Vec<String>,
    },
    /// An override whose value is not a number that the figure can take.
    OverrideValue {
        /// The key.
        key: String,
        /// As given.
        value: String,
        /// What the figure can take.
        expected: &'static str,
    },
}

/// What is wrong with a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeFault {
    /// A dimension of zero.
    Zero,
    /// Two dimensions where three are needed, or the other way round.
    Rank {
        /// Dimensions of the torus.
        torus_dimensions: u32,
    },
    /// The same dimensions exist in ascending order.
    NotAscending,
    /// Not among the shapes offered.
    NotOffered,
    /// Larger than the small shapes and not made of whole cubes.
    NotWholeCubes {
        /// Edge of a cube.
        edge: u32,
    },
    /// A dimension too long.
    TooLong {
        /// Longest dimension.
        longest: u32,
    },
    /// More chips than one slice can have.
    TooManyChips {
        /// Most chips.
        max_chips: u32,
    },
    /// The shape exists, but not twisted.
    NotTwistable,
}

impl fmt::Display for ShapeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("a dimension is zero"),
            Self::Rank { torus_dimensions } => write!(f, "a topology has {torus_dimensions} dimensions"),
            Self::NotAscending => f.write_str("dimensions are written smallest first"),
            Self::NotOffered => f.write_str("this shape is not offered"),
            Self::NotWholeCubes { edge } => {
                write!(f, "dimensions beyond the small slices are multiples of {edge}")
            }
            Self::TooLong { longest } => write!(f, "a dimension is at most {longest}"),
            Self::TooManyChips { max_chips } => write!(f, "a slice has at most {max_chips} chips"),
            Self::NotTwistable => f.write_str("this shape cannot be twisted"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty slice name; write one such as v5e-16, v4-8 or tpu7x:4x4x4"),
            Self::TooLong { length, limit } => write!(f, "slice name of {length} bytes; names have at most {limit}"),
            Self::UnknownGeneration { name, remark } => {
                let names = Generation::ALL.map(Generation::name).join(", ");
                write!(f, "unknown TPU generation {name:?}; known are {names}")?;
                remark.map_or(Ok(()), |r| write!(f, " ({r})"))
            }
            Self::AmbiguousGeneration { name, candidates } => {
                write!(f, "{name:?} names more than one TPU generation; write {}", candidates.join(" or "))
            }
            Self::MissingGeneration { topology } => {
                let generation = if topology.matches('x').count() == 2 { Generation::V5p } else { Generation::V5e };
                write!(f, "topology {topology} without a generation; write for example {generation}:{topology}")
            }
            Self::MissingSize { generation, examples } => {
                write!(f, "{generation} without a size; write for example {}", examples.join(", "))
            }
            Self::MalformedSize { generation, size, examples } => {
                write!(
                    f,
                    "{size:?} is neither a number nor a topology of {generation}; write for example {}",
                    examples.join(", ")
                )
            }
            Self::NoSuchSize { name, smaller, larger, remark, .. } => {
                write!(f, "no slice {name}")?;
                neighbours(f, smaller, larger)?;
                remark.as_ref().map_or(Ok(()), |r| write!(f, "; {r}"))
            }
            Self::NoSuchShape { generation, shape, fault, same_chips, smaller, larger } => {
                write!(f, "no slice {generation}:{shape}: {fault}")?;
                if !same_chips.is_empty() {
                    write!(f, "; with as many chips there is {}", same_chips.join(", "))?;
                }
                neighbours(f, smaller, larger)
            }
            Self::SliceCount { count, limit } => write!(f, "{count} slices; a job has 1 to {limit}"),
            Self::MalformedOverride { text } => write!(f, "override {text:?} is not of the form key=value"),
            Self::UnknownOverride { key, valid } => {
                write!(f, "unknown override {key:?}; valid are {}", valid.join(", "))
            }
            Self::OverrideValue { key, value, expected } => {
                write!(f, "override {key}={value}: expected {expected}")
            }
        }
    }
}

fn neighbours(f: &mut fmt::Formatter<'_>, smaller: &Option<String>, larger: &Option<String>) -> fmt::Result {
    let smaller = smaller.iter().map(|s| format!("next smaller {s}"));
    let shown: Vec<String> = smaller.chain(larger.iter().map(|l| format!("next larger {l}"))).collect();
    if shown.is_empty() { Ok(()) } else { write!(f, "; {}", shown.join(", ")) }
}

impl std::error::Error for Error {}
