//! Decides how an attention that was understood is written: sizes of the kernel, where its passes go, how devices share it.

use chips::Generation;
use hlo::{OpId, Value};
use tensor::DType;

use super::conditions::{Conditions, conditions};
use super::devices::{DeviceMesh, Split};
use super::layout::{Label, Layout};
use super::mask::Visible;
use super::operands::flash_mask;
use super::ops::{Ops, is_default_precision};
use super::site::{Part, Side, Site};
use super::write::Order;
use crate::call::static_spec;
use crate::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, PassDirection, Segments};

/// An attention as it is to be written.
pub(super) struct Plan {
    pub(super) site: Site,
    pub(super) attention: FlashAttention,
    pub(super) conditions: Conditions,
    /// Of scores.
    pub(super) mask_order: Order,
    pub(super) q_order: Order,
    pub(super) kv_order: Order,
    pub(super) v_order: Order,
    pub(super) out_order: Order,
    /// Queries and keys before they were padded.
    pub(super) lengths: (usize, usize),
    /// Features of a query and of a value; the kernel has the larger of both for either.
    pub(super) depths: (usize, usize),
    /// The op before which the forward pass goes.
    pub(super) forward: OpId,
    /// The op before which the backward pass goes, where there is one.
    pub(super) backward: Option<OpId>,
    /// How it is split over devices; the labels of `site` are those of one device then.
    pub(super) split: Option<Split>,
}

impl Plan {
    /// How many matmuls of the backward pass it replaces.
    pub(super) fn has_backward(&self) -> bool {
        self.backward.is_some()
    }

    /// Axes of a result, and its positions and features before they were padded.
    pub(super) fn order(&self, part: Part) -> (&Order, [usize; 2]) {
        let ((queries, keys), (of_query, of_value)) = (self.lengths, self.depths);
        match part {
            Part::Output => (&self.out_order, [queries, of_value]),
            Part::OfQueries => (&self.q_order, [queries, of_query]),
            Part::OfKeys => (&self.kv_order, [keys, of_query]),
            Part::OfValues => (&self.v_order, [keys, of_value]),
        }
    }

    /// Whether every array that the kernels read or give has just the axes that they have for it. A gradient whose own matmul is not
    /// there may have others.
    fn knows_all_axes(&self) -> bool {
        let labels = &self.site.labels;
        let are_equal = |layout: &Layout, order: &Order| {
            let (mut have, mut want) = (labels.flat(layout), order.concat());
            have.sort_unstable();
            want.sort_unstable();
            have == want
        };
        let has =
            |side: Side, order: &Order| self.site.sides.get(&side).is_some_and(|(_, layout)| are_equal(layout, order));
        has(Side::Queries, &self.q_order)
            && has(Side::Keys, &self.kv_order)
            && has(Side::Values, &self.v_order)
            && (self.backward.is_none() || has(Side::Gradient, &self.out_order))
            && self.site.given.iter().all(|given| are_equal(&given.layout, self.order(given.part).0))
    }

    pub(super) fn describe(&self) -> String {
        let a = &self.attention;
        let mask = match (a.causality, a.window) {
            (Causality::Full, _) => "full".to_owned(),
            (Causality::Causal, None) => "causal".to_owned(),
            (Causality::Causal, Some(window)) => format!("window of {window}"),
        };
        let cap = a.soft_cap.map_or_else(String::new, |cap| format!(", soft cap {cap}"));
        let others = self.conditions.describe();
        let depth = match self.depths {
            (of_query, of_value) if of_query == of_value => of_query.to_string(),
            (of_query, of_value) => format!("{of_query} (values {of_value})"),
        };
        let devices =
            self.split.as_ref().map_or_else(String::new, |split| format!(", on each device of {}", split.describe()));
        format!(
            "{} × {} heads ({} KV), {} queries, {} keys, depth {depth}, {}, {mask}{cap}{others}{devices}",
            a.batch, a.q_heads, a.kv_heads, self.lengths.0, self.lengths.1, a.dtype
        )
    }
}

/// Decides how an attention is written, on one device or by each of a mesh; the reason where no kernel takes it.
pub(super) fn plan(
    ops: &Ops<'_>,
    mut site: Site,
    position: usize,
    (generation, mesh): (Generation, Option<&DeviceMesh>),
) -> Result<Plan, String> {
    let func = ops.func;
    let found = conditions(func, &mut site)?;
    let side = |side: Side| site.sides.get(&side).ok_or_else(|| "an array of the attention is not known".to_owned());
    let (q, k, v) = (side(Side::Queries)?, side(Side::Keys)?, side(Side::Values)?);
    let spec = |value: Value| static_spec(func.ty(value)).ok_or_else(|| "sizes change".to_owned());
    let dtype = spec(q.0)?.dtype;
    if spec(k.0)?.dtype != dtype || spec(v.0)?.dtype != dtype {
        return Err("queries, keys and values differ in their types".into());
    }
    let matmuls = site.given.iter().map(|given| given.position).chain([position]);
    if dtype == DType::F32 && !matmuls.into_iter().all(|n| is_default_precision(func.op(ops.order[n]))) {
        return Err("its matmuls ask for more than the default precision".into());
    }
    let queries = site.labels.leaves(&site.queries);
    // Queries that masks do not tell apart are heads that share keys.
    let group: Vec<Label> = queries.iter().copied().filter(|label| !found.rows.contains(label)).collect();
    let (rows, rest, heads) = (found.rows.clone(), found.sequences.clone(), found.heads.clone());
    // Without a mask by position any part of the queries is an attention of its own.
    let of_rows = if matches!(found.seen, Visible::All) { rows.as_slice() } else { &[] };
    let free = [&heads, rest.as_slice(), &group, of_rows].concat();
    let split = mesh.map(|mesh| mesh.split(&site, &free)).transpose()?;
    if let Some(split) = &split {
        site.labels = split.local();
    }
    let labels = &site.labels;
    let (keys, depth, columns) = (labels.leaves(&site.keys), labels.leaves(&site.depth), labels.leaves(&site.columns));
    let size = |of: &[Label]| of.iter().map(|&label| labels.size(label)).product::<usize>();
    let depths = (size(&depth), size(&columns));
    let (causality, window) = match found.seen {
        Visible::All => (Causality::Full, None),
        Visible::Causal { window } => (Causality::Causal, window),
    };
    let lengths = (size(&rows), size(&keys));
    let (q_len, kv_len, segments) = padded(lengths, causality, &found)?;
    let q_heads = [heads.clone(), group.clone()].concat();
    let mask_order = [rest.clone(), q_heads.clone(), rows.clone(), keys.clone()];
    let types: Vec<DType> =
        found.added.iter().filter_map(|part| spec(part.value).ok()).map(|spec| spec.dtype).collect();
    let mask = flash_mask(labels, &found, &mask_order, &types, q_len);
    let attention = FlashAttention {
        batch: size(&rest),
        q_heads: size(&heads) * size(&group),
        kv_heads: size(&heads),
        q_len,
        kv_len,
        depth: depths.0.max(depths.1),
        dtype,
        scale: site.scale as f32,
        soft_cap: site.soft_cap.map(|cap| cap as f32),
        causality,
        window,
        segments,
        mask,
    };
    let has_backward = !site.gradient_matmuls.is_empty();
    let forward = place(ops, &site, &found, Pass::Forward)?;
    let backward = if has_backward { Some(place(ops, &site, &found, Pass::Backward)?) } else { None };
    if backward.is_some_and(|backward| backward < forward) {
        return Err("its gradients are computed before its output".into());
    }
    takes(&attention, PassDirection::Forward, generation)?;
    if has_backward {
        takes(&attention, PassDirection::Backward, generation)?;
    }
    let plan = Plan {
        attention,
        conditions: found,
        mask_order,
        q_order: [rest.clone(), q_heads.clone(), rows.clone(), depth.clone()],
        kv_order: [rest.clone(), heads.clone(), keys.clone(), depth],
        v_order: [rest.clone(), heads, keys, columns.clone()],
        out_order: [rest, q_heads, rows, columns],
        lengths,
        depths,
        forward: ops.order[forward],
        backward: backward.map(|backward| ops.order[backward]),
        split,
        site,
    };
    if plan.knows_all_axes() { Ok(plan) } else { Err("axes of an array of the attention are not known".into()) }
}

/// Lengths that are padded at least.
const SHORTEST: usize = 64;

/// Lengths as kernels take them, and whether padding needs segments: keys that were added must not be seen.
fn padded(
    (queries, keys): (usize, usize),
    causality: Causality,
    found: &Conditions,
) -> Result<(usize, usize, Segments), String> {
    let up = |length: usize| length.div_ceil(128).saturating_mul(128);
    let given = if found.has_segments() { Segments::Packed } else { Segments::One };
    if queries.is_multiple_of(128) && keys.is_multiple_of(128) {
        return Ok((queries, keys, given));
    }
    if queries < SHORTEST || keys < SHORTEST {
        return Err(format!("{queries} queries and {keys} keys are too few for a kernel"));
    }
    match causality {
        // Later keys are masked anyway.
        Causality::Causal if queries == keys => Ok((up(queries), up(keys), given)),
        Causality::Causal => Err(format!("{queries} queries and {keys} keys are no multiples of 128")),
        Causality::Full if keys.is_multiple_of(128) => Ok((up(queries), keys, given)),
        // Their own masks hide keys that were added.
        Causality::Full if found.has_mask() => Ok((up(queries), up(keys), given)),
        Causality::Full => Ok((up(queries), up(keys), Segments::Packed)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Forward,
    Backward,
}

/// The position before which a pass goes: behind all that it reads, and before the first op that reads its results.
fn place(ops: &Ops<'_>, site: &Site, found: &Conditions, pass: Pass) -> Result<usize, String> {
    let sides = [Side::Queries, Side::Keys, Side::Values];
    let gradient = (pass == Pass::Backward).then_some(Side::Gradient);
    let entering = sides.into_iter().chain(gradient).filter_map(|side| site.sides.get(&side));
    let entering = entering.map(|(value, _)| *value).chain(found.values());
    let behind = entering.filter_map(|value| ops.defined(value)).map(|at| at + 1).max().unwrap_or(0);
    let is_of = |part: Part| (part == Part::Output) == (pass == Pass::Forward);
    let given = site.given.iter().filter(|given| is_of(given.part));
    // The backward pass reads what the forward one gives.
    let all = site.given.iter().filter(|given| pass == Pass::Forward || is_of(given.part));
    let first = all.map(|given| ops.first_reader(given.value)).min().unwrap_or(0);
    let wanted = given.map(|given| given.position).min().unwrap_or(behind).max(behind);
    if wanted > first || wanted >= ops.order.len() {
        return Err("its results are read before all that it reads is computed".into());
    }
    Ok(wanted)
}

/// Whether the kernel can be made.
fn takes(attention: &FlashAttention, pass: PassDirection, generation: Generation) -> Result<(), String> {
    let blocks = FlashBlockSizes::preferred(attention, generation, pass)
        .ok_or_else(|| format!("{} queries and {} keys are no multiples of 128", attention.q_len, attention.kv_len))?;
    let made = match pass {
        PassDirection::Forward => flash::forward(attention, blocks, generation),
        PassDirection::Backward => flash::backward(attention, blocks, generation),
    };
    made.map(drop).map_err(|error| error.to_string())
}
