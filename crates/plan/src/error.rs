//! Errors of the crate, by who must act: the caller's input, the machine, or us.

use std::fmt;

use chips::PriceKind;
use compile::{CompileError, OutOfMemory};

/// What can go wrong between a program and its plan.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    // ---- the caller's input ----
    /// The program has no function to start with.
    NoEntry {
        /// Functions it has.
        functions: Vec<String>,
    },
    /// The program is not StableHLO, or breaks its rules.
    Program(hlo::Error),
    /// Sizes of the program are known only at run time, and no batch was given.
    BatchUnknown,
    /// An unknown size is no batch.
    NotBatch {
        /// Which argument, from 0.
        argument: usize,
        /// Its type.
        ty: String,
    },
    /// No batch dimension was found.
    NoBatch,
    /// What should name the batch is neither `ARGUMENT:DIMENSION` nor a name.
    BatchName(String),
    /// A dimension that is named as the batch is not there.
    NoSuchDimension {
        /// The argument named.
        argument: usize,
        /// The dimension named.
        dim: usize,
        /// Arguments there are.
        arguments: usize,
        /// Dimensions of the argument, if it is there.
        rank: Option<usize>,
    },
    /// A symbolic size that is named as the batch is not there.
    NoSuchSymbol {
        /// The name.
        name: String,
        /// Those there are.
        symbols: Vec<String>,
    },
    /// More than one symbolic size.
    SeveralSymbols(Vec<String>),
    /// A search has no candidate to explore.
    NoCandidates(String),
    /// A model cannot be written as a program for a choice of mesh and batch.
    Model(String),
    /// No generation of a search has a price for the region and terms asked for.
    NoPrice {
        /// The region.
        region: Option<String>,
        /// The terms.
        kind: PriceKind,
        /// Regions with prices of the generations asked for.
        regions: Vec<String>,
    },
    /// A number that must be positive is not.
    NotPositive {
        /// Which, as in `tokens per step`.
        what: &'static str,
        /// What was given.
        given: f64,
    },
    /// There is no price for the region.
    UnknownRegion {
        /// What was asked for.
        region: String,
        /// Generation of the slice.
        generation: String,
        /// Regions that have a price.
        known: Vec<String>,
    },
    /// A run's length needs tokens per step, and they are not known.
    TokensUnknown,
    /// A file of measurements, or the record of an exported run, cannot be read.
    Record(String),
    /// A machine file cannot be read, or is of other chips.
    MachineFile(String),
    /// A profile has too few ops for any rate.
    TooFewOps {
        /// Ops that a rate needs.
        needed: usize,
        /// Ops found for each rate, in words.
        found: String,
    },
    /// There is no such slice.
    Slice(chips::Error),
    /// None of the proposed changes is a change of the program.
    NothingToApply,

    // ---- the device or the machine ----
    /// The compiler did not answer, or refused the program.
    Compile(CompileError),
    /// The program does not fit.
    TooLarge(OutOfMemory),

    // ---- us ----
    /// The compiled program cannot be read.
    Unreadable(xla::Error),
    /// The compiler left out something that is always there.
    Missing(&'static str),
    /// Kernels could not be put into the program.
    Kernel(kernel::Error),
}

impl Error {
    /// A program that has no function to start with.
    pub(crate) fn no_entry(module: &hlo::Module) -> Error {
        Error::NoEntry { functions: module.funcs.iter().map(|func| func.name.to_string()).collect() }
    }

    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Error::NoEntry { functions } if functions.is_empty() => {
                "export a program with a function @main; `tpu hlo FILE` shows what a file holds".into()
            }
            Error::NoEntry { functions } => {
                format!("the entry function must be called @main; the program has {}", at_most(functions, "@"))
            }
            Error::Program(_) => "export the program again; `tpu hlo FILE` shows what is wrong with it".into(),
            Error::BatchUnknown => "give --batch N; the unknown leading sizes of arguments become N".into(),
            Error::NotBatch { .. } => {
                "only leading sizes can be the batch; export the program with the others fixed".into()
            }
            Error::NoBatch | Error::BatchName(_) | Error::NoSuchDimension { .. } => {
                "name it: --batch ARGUMENT:DIMENSION, as in --batch 0:0; or export the program with a symbolic batch"
                    .into()
            }
            Error::NoSuchSymbol { symbols, .. } if symbols.is_empty() => {
                "the program has no symbolic sizes; name a dimension, as in --batch 0:0".into()
            }
            Error::NoSuchSymbol { symbols, .. } => format!("its symbolic sizes: {}", at_most(symbols, "")),
            Error::SeveralSymbols(_) => "export the program again with only the batch symbolic".into(),
            Error::Model(_) => {
                "correct the model's configuration, or choose slices whose devices divide its sizes".into()
            }
            Error::NoCandidates(_) => "widen --slices or --generations, or change the batch".into(),
            Error::NoPrice { regions, .. } if !regions.is_empty() => {
                format!("prices are known for {}; or give one: --set v6e_price=2.70", at_most(regions, ""))
            }
            Error::NoPrice { .. } => "give a price: --set v6e_price=2.70".into(),
            Error::NotPositive { .. } => "give a number above zero, or leave it out".into(),
            Error::UnknownRegion { known, .. } => {
                format!("regions with a price are {}; or give a price of your own with --price", at_most(known, ""))
            }
            Error::TokensUnknown => "give --tokens, the tokens that all devices together work through in a step".into(),
            Error::Record(_) => {
                "measurements and results are JSON files with `rows`, as benchmarks/accuracy/README.md describes".into()
            }
            Error::MachineFile(_) => "`tpu calibrate` writes machine files from profiles".into(),
            Error::TooFewOps { .. } => {
                "give a profile of several training or inference steps, with ops of 20 us and more, or more profiles"
                    .into()
            }
            Error::Slice(_) => "`tpu chips` shows slices".into(),
            Error::TooLarge(_) => "`tpu explain` says what fills the memory and what helps".into(),
            Error::NothingToApply => "apply the flags that are printed, or choose another slice".into(),
            Error::Compile(error) => error.remedy(),
            Error::Unreadable(_) | Error::Missing(_) | Error::Kernel(_) => {
                "this is a bug; please report it with the program".into()
            }
        }
    }
}

/// Names, of a long list only the first ones.
fn at_most(names: &[String], prefix: &str) -> String {
    const SHOWN: usize = 12;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{prefix}{name}")).collect();
    if names.len() > SHOWN {
        text.push(format!("{} more", names.len() - SHOWN));
    }
    text.join(", ")
}

fn kind_name(kind: PriceKind) -> &'static str {
    match kind {
        PriceKind::OnDemand => "on-demand",
        PriceKind::Spot => "spot",
        PriceKind::Committed1Year => "one-year commitment",
        PriceKind::Committed3Years => "three-year commitment",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoEntry { .. } => f.write_str("the program has no entry function"),
            Error::Program(_) => f.write_str("the program cannot be read"),
            Error::BatchUnknown => f.write_str("the program's batch is known only at run time"),
            Error::NotBatch { argument, ty } => {
                write!(f, "argument {argument} is {ty}: a size that is not the leading one is unknown")
            }
            Error::NoBatch => f.write_str("no batch dimension was found in the program's arguments"),
            Error::BatchName(text) => write!(f, "`{text}` names no batch dimension"),
            Error::NoSuchDimension { argument, arguments, rank: None, .. } => {
                write!(f, "the program has no argument {argument}: it has {arguments}, counted from 0")
            }
            Error::NoSuchDimension { argument, dim, rank: Some(rank), .. } => {
                write!(f, "argument {argument} has no dimension {dim}: it has {rank}, counted from 0")
            }
            Error::NoSuchSymbol { name, .. } => write!(f, "the program has no symbolic size `{name}`"),
            Error::SeveralSymbols(names) => {
                write!(f, "the program has several symbolic sizes")?;
                if names.is_empty() { Ok(()) } else { write!(f, ": {}", at_most(names, "")) }
            }
            Error::Model(why) => write!(f, "the model cannot be written as a program: {why}"),
            Error::NoCandidates(why) => write!(f, "nothing to explore: {why}"),
            Error::NoPrice { region, kind, .. } => {
                write!(f, "no {} price is known", kind_name(*kind))?;
                region.as_ref().map_or(Ok(()), |region| write!(f, " in region `{region}`"))
            }
            Error::NotPositive { what, given } => write!(f, "{what} must be a positive number, not {given}"),
            Error::UnknownRegion { region, generation, .. } => {
                write!(f, "there is no price of {generation} in region {region}")
            }
            Error::TokensUnknown => f.write_str("how many steps a run takes is not known without the tokens of a step"),
            Error::NothingToApply => f.write_str("there is no change of the program to write"),
            Error::Record(message) => f.write_str(message),
            Error::MachineFile(message) => write!(f, "the machine file cannot be used: {message}"),
            Error::TooFewOps { needed, found } => {
                write!(f, "the profile has too few ops to fit a rate: {needed} are needed, there are: {found}")
            }
            Error::Slice(error) => error.fmt(f),
            Error::TooLarge(_) => f.write_str("the program does not fit the slice"),
            Error::Compile(error) => error.fmt(f),
            Error::Unreadable(_) => f.write_str("what the compiler returned cannot be read"),
            Error::Missing(what) => write!(f, "the compiler returned no {what}"),
            Error::Kernel(_) => f.write_str("kernels cannot be put into the program"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Program(error) => Some(error),
            Error::Compile(error) => error.source(),
            Error::Unreadable(error) => Some(error),
            Error::Kernel(error) => Some(error),
            _ => None,
        }
    }
}

impl From<chips::Error> for Error {
    fn from(error: chips::Error) -> Self {
        Error::Slice(error)
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Error::Compile(error)
    }
}

impl From<hlo::Error> for Error {
    fn from(error: hlo::Error) -> Self {
        Error::Program(error)
    }
}

impl From<xla::Error> for Error {
    fn from(error: xla::Error) -> Self {
        Error::Unreadable(error)
    }
}
