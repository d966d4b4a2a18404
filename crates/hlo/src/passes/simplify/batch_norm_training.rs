//! `batch_norm_training` is the mean and variance of each feature, then a scale and a shift.

use crate::ir::{Attrs, OpKind};

use super::batch_norm::Batch;
use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "batch_norm_training", kinds: &[OpKind::BatchNormTraining], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let batch = Batch::of(site)?;
    let [input, scale, offset] = [0, 1, 2].map(|n| site.operand(n));
    let mean = batch.mean(site, input)?;
    let wide = batch.spread(site, mean);
    let centred = site.emit(OpKind::Subtract, &[input, wide], Attrs::new(), batch.whole.clone());
    let squares = site.emit(OpKind::Multiply, &[centred, centred], Attrs::new(), batch.whole.clone());
    let variance = batch.mean(site, squares)?;
    let out = batch.normalised(site, input, scale, offset, mean, variance)?;
    Some(vec![out, mean, variance])
}
