//! Rules of ops, by name. In-place ops (`relu_`) have the rule of the op without the underscore.

mod attention;
mod combine;
mod control;
mod convolution;
mod create;
mod dropout;
mod elementwise;
mod fourier;
mod index;
mod loss;
mod matmul;
mod norm;
mod order;
mod pool;
mod recurrent;
mod reduce;
mod refused;
mod resample;
mod shape;
mod sizes;
mod special;
mod viewed;

use std::collections::BTreeSet;

use crate::error::Error;
use crate::graph::{Graph, NodeArgument};
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;

pub(crate) use viewed::{Viewed, views};

/// What an op means.
pub(crate) type Rule = fn(&mut Call<'_, '_>) -> Result<Value, Error>;

/// Tables of rules, by what the ops are about.
const ALL: &[(&str, Rules)] = &[
    ("Attention", attention::RULES),
    ("Dropout", dropout::RULES),
    ("Element by element", elementwise::RULES),
    ("Special functions", special::RULES),
    ("Matmul and products", matmul::RULES),
    ("Convolution", convolution::RULES),
    ("Pools, patches and pixels", pool::RULES),
    ("Resampling", resample::RULES),
    ("Norms", norm::RULES),
    ("Losses and distances", loss::RULES),
    ("Recurrent", recurrent::RULES),
    ("Reductions and softmax", reduce::RULES),
    ("Order", order::RULES),
    ("Indexing and embedding", index::RULES),
    ("Shapes", shape::RULES),
    ("Joining", combine::RULES),
    ("Creation", create::RULES),
    ("Fourier transforms", fourier::RULES),
    ("Control flow", control::RULES),
    ("Sizes and Python numbers", sizes::RULES),
];

/// Ops that are known and refused, by the reason.
const REFUSED: &[(&str, Rules)] = &[
    ("draws random numbers, and an exported program has no seed", refused::RANDOM),
    ("the size of its result depends on values", refused::SIZED_BY_VALUES),
    ("makes a Python value of what tensors hold", refused::DECIDED_BY_VALUES),
];

/// The parts of `torch.ops.aten.add_.Tensor`.
pub(crate) struct Name {
    /// `aten`.
    pub(crate) library: String,
    /// `add_`.
    pub(crate) base: String,
}

impl Name {
    pub(crate) fn of(target: &str) -> Name {
        let rest = target.strip_prefix("torch.ops.").unwrap_or(target);
        let mut parts = rest.split('.');
        let library = parts.next().unwrap_or_default().to_string();
        Name { library, base: parts.next().unwrap_or_default().to_string() }
    }

    /// The name in the table: ops of libraries other than `aten` keep theirs before them.
    fn key(&self) -> String {
        match self.library.as_str() {
            "aten" | "prims" => self.base.clone(),
            library => format!("{library}.{}", self.base),
        }
    }
}

/// The rule of an op, and whether it writes to its first argument.
pub(crate) fn find(name: &Name) -> Option<(Rule, bool)> {
    let tables = || ALL.iter().chain(REFUSED).flat_map(|(_, rules)| rules.iter());
    let rule = |key: &str| tables().find(|(own, _)| *own == key).map(|(_, rule)| *rule);
    let key = name.key();
    if let Some(found) = rule(&key) {
        return Some((found, false));
    }
    let plain = key.strip_suffix('_').filter(|plain| !plain.ends_with('_'))?;
    rule(plain).map(|found| (found, true))
}

/// Whether the result of an op may share the storage of its first argument.
pub(crate) fn is_view(name: &Name) -> bool {
    name.library == "aten" && viewed::VIEWS.contains(&name.base.as_str())
}

/// Whether an op may write running statistics, which its schema does not say.
pub(crate) fn writes_statistics(name: &Name) -> bool {
    name.library == "aten" && name.base.contains("batch_norm")
}

/// Every op that has a rule.
pub fn op_names() -> Vec<&'static str> {
    let all: BTreeSet<&str> = op_table().into_iter().flat_map(|(_, names)| names).collect();
    all.into_iter().collect()
}

/// Every op that has a rule, by what the ops are about.
pub fn op_table() -> Vec<(&'static str, Vec<&'static str>)> {
    let names = |rules: Rules| rules.iter().map(|(name, _)| *name).collect();
    let mut table: Vec<(&str, Vec<&str>)> = ALL.iter().map(|(title, rules)| (*title, names(rules))).collect();
    table.push(("Views", viewed::VIEWS.to_vec()));
    table
}

/// Ops that are known and refused, by the reason.
pub fn refused_ops() -> Vec<(&'static str, Vec<&'static str>)> {
    REFUSED.iter().map(|(why, rules)| (*why, rules.iter().map(|(name, _)| *name).collect())).collect()
}

/// Ops of a graph that have no rule.
pub(crate) fn missing_ops(graph: &Graph, found: &mut BTreeSet<String>) {
    for node in &graph.nodes {
        let name = Name::of(&node.target);
        if !is_view(&name) && find(&name).is_none() {
            found.insert(node.target.trim_start_matches("torch.ops.").to_string());
        }
        for (_, argument) in &node.inputs {
            if let NodeArgument::Graph(_, inner) = argument {
                missing_ops(inner, found);
            }
        }
    }
}

/// An op without a rule, with the others that have none.
pub(crate) fn missing(graph: &Graph, target: &str) -> Error {
    let mut all = BTreeSet::new();
    missing_ops(graph, &mut all);
    let own = target.trim_start_matches("torch.ops.");
    all.remove(own);
    let others = match all.len() {
        0 => "every other op of the program has a translation".to_string(),
        count => {
            let some: Vec<&str> = all.iter().take(8).map(String::as_str).collect();
            format!("{count} other ops have none either: {}", some.join(", "))
        }
    };
    Error::new(
        format!("op `{own}` has no translation; {others}"),
        "export with `run_decompositions()`, which writes fewer ops, or replace it in the model",
    )
}
