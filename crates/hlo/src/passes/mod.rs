//! Rewrites of programs: passes that keep what a program says and make it smaller, run in an ordered list.

mod cse;
mod dce;
mod effects;
mod fold;
mod inline;
mod name_composites;
mod rewrite;
mod simplify;
mod specialize;

use std::collections::BTreeMap;

use crate::error::Error;
use crate::ir::{Dense, Module, Op, TensorType};
use crate::verify::{Verified, verify};

pub use specialize::specialize;

/// Whether the program is going to be split over devices after these passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioned {
    /// One device runs it: shardings say nothing and are dropped.
    #[default]
    No,
    /// Shardings are kept for the partitioner.
    Yes,
}

/// Which calls are inlined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// All that can be.
    #[default]
    Inlined,
    /// Those stay whose frontend attribute `inlineable` is `false` or `xla_late`.
    AsAsked,
}

/// How far results may differ from those of the program as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exactness {
    /// Same bits, apart from the payload of NaNs and what the specification leaves to the implementation: how often the
    /// initial value enters a reduction, and how composed ops such as `batch_norm_training` round inside.
    #[default]
    Bitwise,
    /// Last bits and the sign of zeros may differ.
    Approximate,
}

/// Computes an op on constants: the op, its operands, the type of its only result. `None` where it cannot.
///
/// The operands and the result may have another shape than the op's own values: a constant of one repeated element is
/// given as rank 0. Attributes are those of the op.
pub type Evaluate<'a> = dyn Fn(&Op, &[&Dense], &TensorType) -> Option<Dense> + 'a;

/// What passes may do.
#[derive(Clone)]
pub struct Options<'a> {
    /// Whether shardings matter.
    pub partitioned: Partitioned,
    /// Composites that are not inlined, by name. One named after an op of the language, as in `chlo.top_k`, becomes that op
    /// where its types and attributes are the op's; elsewhere it is inlined.
    pub keep_composites: &'a [&'a str],
    /// Which calls are inlined.
    pub calls: Calls,
    /// How far results may differ.
    pub exactness: Exactness,
    /// Arithmetic on constants; without it only shapes of constants are folded.
    pub evaluate: Option<&'a Evaluate<'a>>,
    /// Elements a folded constant may have at most, unless it repeats one element.
    pub max_folded_elements: u64,
    /// Ops the whole program may have after inlining; calls beyond it stay.
    pub max_ops: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            partitioned: Partitioned::default(),
            keep_composites: &[],
            calls: Calls::default(),
            exactness: Exactness::default(),
            evaluate: None,
            max_folded_elements: 4096,
            max_ops: 200_000,
        }
    }
}

/// How often each rule was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    counts: BTreeMap<&'static str, u64>,
}

impl Statistics {
    /// Rules that were applied, by name, and how often.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(&rule, &count)| (rule, count))
    }

    /// How often a rule was applied.
    pub fn count(&self, rule: &str) -> u64 {
        self.counts.get(rule).copied().unwrap_or(0)
    }

    /// Applications of all rules.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    fn add(&mut self, rule: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(rule).or_default() += count;
        }
    }
}

/// One pass over a module.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    run: fn(&mut Module, &Options<'_>, &mut Statistics),
}

/// Puts the op that a composite to be kept is named after in its place.
pub const NAME_COMPOSITES: Pass = Pass { name: "name_composites", run: name_composites::run };
/// Puts the bodies of functions where they are called.
pub const INLINE: Pass = Pass { name: "inline", run: inline::run };
/// Rewrites single ops by what they and the ops they read say; folds constants.
pub const SIMPLIFY: Pass = Pass { name: "simplify", run: simplify::run };
/// Computes equal values once.
pub const CSE: Pass = Pass { name: "cse", run: cse::run };
/// Drops what nothing reads.
pub const DCE: Pass = Pass { name: "dce", run: dce::run };

/// The order of [`canonicalize`]. Calls go first, since the other passes do not look across them: composites that are ops
/// before those that are calls. Unread functions go right after, so that no time is spent on them.
const ONCE: &[Pass] = &[NAME_COMPOSITES, INLINE, DCE];
/// Repeated while something changes. Simplification makes ops equal, so merging comes after it; both leave ops unread, so
/// dropping comes last.
const REPEATED: &[Pass] = &[SIMPLIFY, CSE, DCE];
/// A round sees through everything the one before left; programs settle in two or three.
const MAX_ROUNDS: usize = 8;

/// Runs every pass until nothing changes.
pub fn canonicalize(module: Verified, options: &Options<'_>) -> Result<Verified, Error> {
    canonicalize_counted(module, options).map(|(module, _)| module)
}

/// As [`canonicalize`], with what was done.
pub fn canonicalize_counted(module: Verified, options: &Options<'_>) -> Result<(Verified, Statistics), Error> {
    let mut module = module.into_inner();
    let mut statistics = Statistics::default();
    once(&mut module, ONCE, options, &mut statistics);
    for _ in 0..MAX_ROUNDS {
        let changes = |statistics: &Statistics| statistics.total() - statistics.count(dce::DROPPED);
        let before = changes(&statistics);
        once(&mut module, REPEATED, options, &mut statistics);
        if changes(&statistics) == before {
            break;
        }
    }
    finish(module).map(|module| (module, statistics))
}

/// Runs the given passes once, in order.
pub fn apply(module: Verified, passes: &[Pass], options: &Options<'_>) -> Result<(Verified, Statistics), Error> {
    let mut module = module.into_inner();
    let mut statistics = Statistics::default();
    once(&mut module, passes, options, &mut statistics);
    finish(module).map(|module| (module, statistics))
}

fn once(module: &mut Module, passes: &[Pass], options: &Options<'_>, statistics: &mut Statistics) {
    for pass in passes {
        (pass.run)(module, options, statistics);
    }
}

/// Gives ids their program order again. Every op that a pass writes was checked as it was written, and every value has the
/// type of the one it stands for (`rewrite.rs`), so the program is valid. Verifying all of it again takes as long as all
/// passes together: builds for development do.
fn finish(mut module: Module) -> Result<Verified, Error> {
    module.funcs.iter_mut().for_each(|func| func.renumber());
    if cfg!(debug_assertions) { verify(module) } else { Ok(Verified::by_construction(module)) }
}
