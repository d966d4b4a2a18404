//! What can go wrong in a search, who must act, and the remedy.

use std::fmt;

/// An error of a search. The first family is the caller's input, the second the machine's.
#[derive(Debug)]
#[non_exhaustive]
pub enum SearchError {
    /// The program has no entry function with a body.
    NoEntry,
    /// No batch dimension was found.
    NoBatch,
    /// `--batch` is neither `ARGUMENT:DIMENSION` nor a name.
    BatchName(String),
    /// `--batch` names a dimension that is not there.
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
    /// `--batch` names a symbolic size that is not there.
    NoSuchSymbol {
        /// The name.
        name: String,
        /// Those there are.
        symbols: Vec<String>,
    },
    /// More than one symbolic size.
    SeveralSymbols(Vec<String>),
    /// No candidate is left to explore.
    NoCandidates(String),
    /// No price for the region and terms asked for.
    NoPrice {
        /// The region.
        region: Option<String>,
        /// The terms.
        kind: chips::PriceKind,
        /// Regions with prices of the generations asked for.
        regions: Vec<String>,
    },
    /// The program cannot be read or changed.
    Program(hlo::Error),
    /// A compilation failed for a reason that every candidate shares.
    Compile(runtime::CompileError),
    /// The search was stopped.
    Interrupted,
}

impl SearchError {
    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            SearchError::NoEntry => {
                "the program needs a function `main`, or only one function; `tpu hlo FILE --print` shows what it has"
                    .into()
            }
            SearchError::NoBatch | SearchError::BatchName(_) | SearchError::NoSuchDimension { .. } => {
                "name it: --batch ARGUMENT:DIMENSION, as in --batch 0:0; or export the program with a symbolic batch"
                    .into()
            }
            SearchError::NoSuchSymbol { symbols, .. } if symbols.is_empty() => {
                "the program has no symbolic sizes; name a dimension, as in --batch 0:0".into()
            }
            SearchError::NoSuchSymbol { symbols, .. } => format!("its symbolic sizes: {}", symbols.join(", ")),
            SearchError::SeveralSymbols(_) => "export the program again with only the batch symbolic".into(),
            SearchError::NoCandidates(_) => "widen --slices or --generations, or change the batch".into(),
            SearchError::NoPrice { regions, .. } if !regions.is_empty() => {
                format!("prices are known for {}; or give one: --set v6e_price=2.70", regions.join(", "))
            }
            SearchError::NoPrice { .. } => "give a price: --set v6e_price=2.70".into(),
            SearchError::Program(_) => "`tpu hlo FILE` shows what is wrong with the program".into(),
            SearchError::Compile(error) => error.remedy(),
            SearchError::Interrupted => "compilations that were done are kept; the next run starts from them".into(),
        }
    }
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchError::NoEntry => f.write_str("the program has no entry function"),
            SearchError::NoBatch => f.write_str("no batch dimension was found in the program's arguments"),
            SearchError::BatchName(text) => write!(f, "`{text}` names no batch dimension"),
            SearchError::NoSuchDimension { argument, arguments, rank: None, .. } => {
                write!(f, "the program has no argument {argument}: it has {arguments}, counted from 0")
            }
            SearchError::NoSuchDimension { argument, dim, rank: Some(rank), .. } => {
                write!(f, "argument {argument} has no dimension {dim}: it has {rank}, counted from 0")
            }
            SearchError::NoSuchSymbol { name, .. } => write!(f, "the program has no symbolic size `{name}`"),
            SearchError::SeveralSymbols(names) => {
                write!(f, "the program has several symbolic sizes")?;
                if names.is_empty() { Ok(()) } else { write!(f, ": {}", names.join(", ")) }
            }
            SearchError::NoCandidates(why) => write!(f, "nothing to explore: {why}"),
            SearchError::NoPrice { region, kind, .. } => {
                write!(f, "no {} price is known", kind_name(*kind))?;
                region.as_ref().map_or(Ok(()), |region| write!(f, " in region `{region}`"))
            }
            SearchError::Program(error) => write!(f, "{error}"),
            SearchError::Compile(_) => f.write_str("the compiler failed"),
            SearchError::Interrupted => f.write_str("stopped"),
        }
    }
}

fn kind_name(kind: chips::PriceKind) -> &'static str {
    match kind {
        chips::PriceKind::OnDemand => "on-demand",
        chips::PriceKind::Spot => "spot",
        chips::PriceKind::Committed1Year => "one-year commitment",
        chips::PriceKind::Committed3Years => "three-year commitment",
    }
}

impl std::error::Error for SearchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SearchError::Compile(error) => Some(error),
            _ => None,
        }
    }
}

impl From<hlo::Error> for SearchError {
    fn from(error: hlo::Error) -> Self {
        SearchError::Program(error)
    }
}

#[cfg(test)]
impl PartialEq for SearchError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}
