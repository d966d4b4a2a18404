//! Rules of ops, by name. In-place ops (`relu_`) have the rule of the op without the underscore.

mod attention;
mod control;
mod convolution;
mod create;
mod elementwise;
mod index;
mod matmul;
mod norm;
mod recurrent;
mod reduce;
mod resample;
mod shape;
mod sizes;

use std::collections::BTreeSet;

use crate::error::Error;
use crate::graph::{Graph, NodeArgument};
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;

pub(crate) use shape::{Viewed, views};

/// What an op means.
pub(crate) type Rule = fn(&mut Call<'_, '_>) -> Result<Value, Error>;

const ALL: [Rules; 13] = [
    attention::RULES,
    control::RULES,
    convolution::RULES,
    create::RULES,
    elementwise::RULES,
    index::RULES,
    matmul::RULES,
    norm::RULES,
    recurrent::RULES,
    reduce::RULES,
    resample::RULES,
    shape::RULES,
    sizes::RULES,
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
    let rule =
        |key: &str| ALL.iter().flat_map(|rules| rules.iter()).find(|(own, _)| *own == key).map(|(_, rule)| *rule);
    let key = name.key();
    if let Some(found) = rule(&key) {
        return Some((found, false));
    }
    let plain = key.strip_suffix('_').filter(|plain| !plain.ends_with('_'))?;
    rule(plain).map(|found| (found, true))
}

/// Every op that has a rule.
pub fn op_names() -> Vec<&'static str> {
    let rules = ALL.iter().flat_map(|rules| rules.iter()).map(|(name, _)| *name);
    let all: BTreeSet<&str> = rules.chain(shape::VIEWS.iter().copied()).collect();
    all.into_iter().collect()
}

/// Ops of a graph that have no rule.
pub(crate) fn missing_ops(graph: &Graph, found: &mut BTreeSet<String>) {
    for node in &graph.nodes {
        let name = Name::of(&node.target);
        let is_view = name.library == "aten" && shape::VIEWS.contains(&name.base.as_str());
        if !is_view && find(&name).is_none() {
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
