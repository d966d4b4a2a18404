//! Rules of ops, by name: what a node means as traced tensors.

mod attention;
mod convolution;
mod elementwise;
mod index;
mod matmul;
mod norm;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod sample;
mod shape;

use std::collections::BTreeSet;

use trace::Tensor;

use crate::call::Call;
use crate::error::Error;
use crate::model::OnnxModel;
use crate::proto::{GraphProto, NodeProto};

/// What an op gives.
pub(crate) type Answer = Result<Vec<Tensor>, Error>;

/// What an op means.
pub(crate) type Rule = fn(&Call<'_>) -> Answer;

type Rules = &'static [(&'static str, Rule)];

const ALL: [Rules; 12] = [
    attention::RULES,
    convolution::RULES,
    elementwise::RULES,
    index::RULES,
    matmul::RULES,
    norm::RULES,
    quantize::RULES,
    recurrent::RULES,
    reduce::RULES,
    resize::RULES,
    sample::RULES,
    shape::RULES,
];

/// Ops that no program for a TPU can have, and why.
const REFUSED: &[(&str, &str)] = &[
    ("Loop", "loops are not translated"),
    ("Scan", "loops are not translated"),
    ("RandomNormal", "it draws random numbers"),
    ("RandomNormalLike", "it draws random numbers"),
    ("RandomUniform", "it draws random numbers"),
    ("RandomUniformLike", "it draws random numbers"),
    ("Bernoulli", "it draws random numbers"),
    ("Multinomial", "it draws random numbers"),
    ("NonMaxSuppression", "the size of its result depends on the data"),
    ("Unique", "the size of its result depends on the data"),
    ("StringNormalizer", "it works on strings"),
    ("StringConcat", "it works on strings"),
    ("StringSplit", "it works on strings"),
    ("RegexFullMatch", "it works on strings"),
    ("TfIdfVectorizer", "it works on strings"),
    ("ImageDecoder", "it reads files"),
];

/// Whether a node is of ONNX's own ops.
pub(crate) fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// The rule of a node.
pub(crate) fn find(node: &NodeProto) -> Option<Rule> {
    let rules = ALL.iter().flat_map(|rules| rules.iter());
    rules.filter(|_| is_standard(&node.domain)).find(|(name, _)| *name == node.op_type).map(|(_, rule)| *rule)
}

/// Every op that has a rule.
pub fn op_names() -> Vec<&'static str> {
    let all: BTreeSet<&str> = ALL.iter().flat_map(|rules| rules.iter()).map(|(name, _)| *name).chain(["If"]).collect();
    all.into_iter().collect()
}

/// Ops of a graph that have no rule, each once.
pub(crate) fn missing(graph: &GraphProto, depth: usize, found: &mut Vec<String>) {
    for node in &graph.node {
        let name = full_name(node);
        if find(node).is_none() && !(node.op_type == "If" && is_standard(&node.domain)) && !found.contains(&name) {
            found.push(name);
        }
        if depth > 0 {
            let inner = node.attribute.iter().filter_map(|attribute| attribute.g.as_deref());
            inner.for_each(|graph| missing(graph, depth - 1, found));
        }
    }
}

fn full_name(node: &NodeProto) -> String {
    if is_standard(&node.domain) { node.op_type.clone() } else { format!("{}.{}", node.domain, node.op_type) }
}

/// An op without a rule, with the others that have none.
pub(crate) fn no_rule(model: &OnnxModel, node: &NodeProto) -> Error {
    let own = full_name(node);
    if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == own) {
        return Error::new(format!("op `{own}` is refused: {why}"), "export the model without it");
    }
    let others: Vec<String> = model.missing_ops().into_iter().filter(|name| *name != own).collect();
    let others = match others.len() {
        0 => "every other op of the model has a translation".to_string(),
        count => format!("{count} other ops have none either: {}", others[..count.min(8)].join(", ")),
    };
    Error::new(
        format!("op `{own}` has no translation; {others}"),
        "export the model with ops of ONNX's standard set, or without it",
    )
}

/// One result.
fn one(tensor: Tensor) -> Answer {
    Ok(vec![tensor])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_one_rule() {
        let all: Vec<&str> = ALL.iter().flat_map(|rules| rules.iter()).map(|(name, _)| *name).collect();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len());
        assert!(REFUSED.iter().all(|(name, _)| !once.contains(name)));
        assert!(all.len() >= 120, "{}", all.len());
    }
}
