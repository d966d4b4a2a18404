//! `batch_norm_inference` is a scale and a shift of each feature.

use crate::ir::OpKind;

use super::batch_norm::Batch;
use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "batch_norm_inference", kinds: &[OpKind::BatchNormInference], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let batch = Batch::of(site)?;
    let [scale, offset, mean, variance] = [1, 2, 3, 4].map(|n| site.operand(n));
    let input = site.operand(0);
    Some(vec![batch.normalised(site, input, scale, offset, mean, variance)?])
}
