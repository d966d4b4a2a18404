//! Masks that depend on arguments, and those that are neither causal nor a window: what they are made of, as operands of kernels.
//!
//! A mask is taken apart into conditions that all must hold and numbers that are added. Conditions on a key or a query alone, and equal
//! ids of both, become segment ids; others become one array of the kernel.

use hlo::{Definition, Func, Keyword, Op, OpKind, Value};

use super::facts::Applied;
use super::layout::{Label, Labels, Layout};
use super::mask::{BIAS, Evaluator, MaskForm, MaskOf, Visible, visible, visible_blocks};
use super::ops::{is_constraint, unpermuted};
use super::site::Site;
use crate::call::static_spec;
use crate::kernels::flash::BLIND_BELOW;

/// A condition, or what is added.
#[derive(Clone, Debug)]
pub(super) struct MaskPart {
    pub(super) value: Value,
    pub(super) form: MaskForm,
    pub(super) layout: Layout,
    /// Dimensions along which it may vary.
    pub(super) varies: Vec<bool>,
    /// What masked scores become, where that is known.
    low: Option<f64>,
    is_static: bool,
}

/// What the program gives for a query that sees no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// There is no such query.
    Never,
    /// Zeros, as kernels do.
    Zeros,
    /// The mean of all values: masked scores are all the same.
    Mean,
}

/// All masks of an attention.
#[derive(Clone)]
pub(super) struct Conditions {
    pub(super) seen: Visible,
    /// Labels of the queries that masks tell apart, or all.
    pub(super) rows: Vec<Label>,
    /// Labels of heads; other batch labels are of sequences.
    pub(super) heads: Vec<Label>,
    pub(super) sequences: Vec<Label>,
    /// Ids of queries and keys, which must be equal.
    pub(super) ids: Option<(MaskPart, MaskPart)>,
    pub(super) of_queries: Vec<MaskPart>,
    pub(super) of_keys: Vec<MaskPart>,
    pub(super) kept: Vec<MaskPart>,
    pub(super) added: Vec<MaskPart>,
    pub(super) unseen: Unseen,
    /// The share of pairs in blocks that are not masked in whole.
    pub(super) density: Option<f32>,
}

impl Conditions {
    /// Whether segment ids are operands.
    pub(super) fn has_segments(&self) -> bool {
        self.ids.is_some() || !self.of_queries.is_empty() || !self.of_keys.is_empty()
    }

    /// Whether a mask is an operand.
    pub(super) fn has_mask(&self) -> bool {
        !self.kept.is_empty() || !self.added.is_empty()
    }

    /// The values that operands are made of.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        let ids = self.ids.iter().flat_map(|(q, k)| [q, k]);
        let others = [&self.of_queries, &self.of_keys, &self.kept, &self.added];
        ids.chain(others.into_iter().flatten()).map(|part| part.value)
    }

    /// The parts that operands are made of.
    pub(super) fn parts_mut(&mut self) -> impl Iterator<Item = &mut MaskPart> {
        let ids = self.ids.iter_mut().flat_map(|(q, k)| [q, k]);
        let others = [&mut self.of_queries, &mut self.of_keys, &mut self.kept, &mut self.added];
        ids.chain(others.into_iter().flatten())
    }

    /// In words, behind what is known of positions.
    pub(super) fn describe(&self) -> String {
        let words = [
            (self.ids.is_some(), ", segment ids"),
            (!self.of_queries.is_empty() || !self.of_keys.is_empty(), ", padding"),
            (!self.kept.is_empty(), ", a mask"),
            (!self.added.is_empty(), ", a bias"),
        ];
        words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word).collect()
    }
}

/// Numbers this low leave nothing of the scores that they are added to: a query whose scores all have one weighs all values alike. Less
/// low ones keep the order of scores, so they stay numbers that are added.
const ALONE: f64 = BLIND_BELOW as f64;
/// Parts that one mask may have.
const MAX_PARTS: usize = 32;

struct Apart<'a, 'b> {
    func: &'a Func,
    labels: &'b mut Labels,
    parts: Vec<MaskPart>,
    pending: Vec<(Value, MaskForm, Layout, Option<f64>)>,
}

impl<'a> Apart<'a, '_> {
    /// Takes masks apart; whether they are few enough.
    fn run(&mut self) -> Option<()> {
        while let Some((value, form, layout, low)) = self.pending.pop() {
            let is_static = Evaluator::new(self.func).varies(value).is_some();
            if is_static || self.step(value, form, &layout, low).is_none() {
                let varies = Evaluator::new(self.func).axes(value)?;
                self.parts.push(MaskPart { value, form, layout, varies, low, is_static });
            }
            (self.parts.len() + self.pending.len() <= MAX_PARTS).then_some(())?;
        }
        Some(())
    }

    /// Takes one op apart; `None` where it is a part itself.
    fn step(&mut self, value: Value, form: MaskForm, layout: &Layout, low: Option<f64>) -> Option<()> {
        let func = self.func;
        let op = defining(func, value)?;
        let kind = op.kind()?;
        let number = |value: Value| Evaluator::new(func).scalar(value);
        if let Some((operand, above)) = view(func, self.labels, op, kind, layout) {
            self.pending.push((operand, form, above, low));
            return Some(());
        }
        let same = |value: Value| {
            static_spec(func.ty(value)).map(|spec| spec.dims)
                == static_spec(func.ty(op.first_result)).map(|spec| spec.dims)
        };
        let mut all: Vec<(Value, MaskForm, Option<f64>)> = Vec::new();
        match (kind, form, &op.operands[..]) {
            (OpKind::And, MaskForm::KeepWhere, &[a, b]) => all.extend([(a, form, low), (b, form, low)]),
            (OpKind::Or, MaskForm::MaskWhere, &[a, b]) => all.extend([(a, form, low), (b, form, low)]),
            (OpKind::Not, MaskForm::KeepWhere, &[a]) => all.push((a, MaskForm::MaskWhere, low)),
            (OpKind::Not, MaskForm::MaskWhere, &[a]) => all.push((a, MaskForm::KeepWhere, low)),
            // A truth that was a number in between.
            (OpKind::Compare, MaskForm::KeepWhere | MaskForm::MaskWhere, &[a, b]) if number(b) == Some(0.0) => {
                let truth = truth(func, a)?;
                let form = match (op.attr("comparison_direction")?.as_keyword()?, form) {
                    (Keyword::Ne, form) => form,
                    (Keyword::Eq, MaskForm::KeepWhere) => MaskForm::MaskWhere,
                    (Keyword::Eq, _) => MaskForm::KeepWhere,
                    _ => return None,
                };
                all.push((truth, form, low));
            }
            (OpKind::Select, MaskForm::KeepWhere, &[p, a, b]) if same(p) && number(b) == Some(0.0) => {
                all.extend([(p, form, low), (a, form, low)]);
            }
            (OpKind::Select, MaskForm::MaskWhere, &[p, a, b]) if same(p) && number(a) == Some(1.0) => {
                all.extend([(p, form, low), (b, form, low)]);
            }
            (OpKind::Add, MaskForm::Added, &[a, b]) => all.extend([(a, form, low), (b, form, low)]),
            (OpKind::Select, MaskForm::Added, &[p, a, b]) if same(p) => {
                let (keep, low, rest) = match (number(a), number(b)) {
                    (_, Some(low)) if low <= ALONE => (MaskForm::KeepWhere, low, a),
                    (Some(low), _) if low <= ALONE => (MaskForm::MaskWhere, low, b),
                    _ => return None,
                };
                all.extend([(p, keep, Some(low)), (rest, form, None)]);
            }
            (OpKind::Multiply, MaskForm::Added, &[a, b]) => {
                let (by, low) = match (number(a), number(b)) {
                    (Some(low), _) => (b, low),
                    (_, Some(low)) => (a, low),
                    _ => return None,
                };
                (low <= ALONE).then_some(())?;
                let less = defining(func, by).filter(|op| op.kind() == Some(OpKind::Subtract));
                match less {
                    Some(less) if number(less.operands[0]) == Some(1.0) => {
                        all.push((truth(func, less.operands[1])?, MaskForm::KeepWhere, Some(low)));
                    }
                    _ => all.push((truth(func, by)?, MaskForm::MaskWhere, Some(low))),
                }
            }
            _ => return None,
        }
        // Numbers that add nothing.
        all.retain(|&(value, form, _)| form != MaskForm::Added || number(value) != Some(0.0));
        self.pending.extend(all.into_iter().map(|(value, form, low)| (value, form, layout.clone(), low)));
        Some(())
    }
}

fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

/// What a value shows in another order, shape or type, and how that lies.
fn view(func: &Func, labels: &mut Labels, op: &Op, kind: OpKind, layout: &Layout) -> Option<(Value, Layout)> {
    let &operand = op.operands.first()?;
    let (from, to) = (static_spec(func.ty(operand))?, static_spec(func.ty(op.first_result))?);
    let above = match kind {
        OpKind::Convert if from.dtype.is_float() && to.dtype.is_float() => layout.clone(),
        _ if is_constraint(op) => layout.clone(),
        OpKind::Transpose => unpermuted(op, layout)?,
        OpKind::Reshape => labels.reshaped(layout, &from.dims)?,
        OpKind::BroadcastInDim => {
            let dims = op.attr("broadcast_dimensions")?.as_i64s()?;
            let one = |(&size, &dim): (&usize, &i64)| {
                let dim = usize::try_from(dim).ok()?;
                Some(if to.dims.get(dim) == Some(&size) { layout.get(dim)?.clone() } else { Vec::new() })
            };
            from.dims.iter().zip(dims).map(one).collect::<Option<Layout>>()?
        }
        _ => return None,
    };
    Some((operand, above))
}

/// The truth that a number of 0 or 1 was.
fn truth(func: &Func, mut value: Value) -> Option<Value> {
    loop {
        let op = defining(func, value).filter(|op| op.kind() == Some(OpKind::Convert))?;
        value = *op.operands.first()?;
        if static_spec(func.ty(value))?.dtype.is_bool() {
            return Some(value);
        }
    }
}

/// Ids of queries and keys where a part says that they are equal: views of arrays of integers.
fn ids(func: &Func, labels: &mut Labels, part: &MaskPart) -> Option<[(Value, Layout); 2]> {
    let op = defining(func, part.value).filter(|op| op.kind() == Some(OpKind::Compare))?;
    let direction = op.attr("comparison_direction")?.as_keyword()?;
    let is_equality =
        matches!((direction, part.form), (Keyword::Eq, MaskForm::KeepWhere) | (Keyword::Ne, MaskForm::MaskWhere));
    let [a, b] = op.operands[..] else { return None };
    let dtype = static_spec(func.ty(a))?.dtype;
    (is_equality && !dtype.is_float() && !dtype.is_bool()).then_some(())?;
    let mut root = |value: Value| {
        let (mut value, mut layout) = (value, part.layout.clone());
        while let Some(op) = defining(func, value)
            && let Some(kind) = op.kind()
            && let Some(next) = view(func, labels, op, kind, &layout)
        {
            (value, layout) = next;
        }
        (value, layout)
    };
    Some([root(a), root(b)])
}

impl MaskPart {
    /// Labels along which it varies.
    pub(super) fn axes(&self, labels: &Labels) -> Vec<Label> {
        let varying = self.layout.iter().zip(&self.varies).filter(|(_, varies)| **varies);
        varying.flat_map(|(of, _)| labels.leaves(of)).collect()
    }
}

fn whole(func: &Func, value: Value, layout: Layout) -> MaskPart {
    let varies =
        static_spec(func.ty(value)).map_or(Vec::new(), |spec| spec.dims.iter().map(|&size| size > 1).collect());
    MaskPart { value, form: MaskForm::KeepWhere, layout, varies, low: None, is_static: false }
}

/// What the masks of an attention are; the reason where they are not understood.
pub(super) fn conditions(func: &Func, site: &mut Site) -> Result<Conditions, String> {
    let masks: Vec<Applied> = site.masks.clone();
    let pending = masks.into_iter().map(|mask| (mask.value, mask.form, mask.layout, mask.low)).collect();
    let mut apart = Apart { func, labels: &mut site.labels, parts: Vec::new(), pending };
    apart.run().ok_or("the mask has too many parts")?;
    let parts = apart.parts;
    let equal: Vec<Option<[(Value, Layout); 2]>> =
        parts.iter().map(|part| if part.is_static { None } else { ids(func, &mut site.labels, part) }).collect();
    let labels = &site.labels;
    let (batch, queries, keys) = (labels.leaves(&site.batch), labels.leaves(&site.queries), labels.leaves(&site.keys));
    let size = |of: &[Label]| of.iter().map(|&label| labels.size(label)).product::<usize>();
    let mut used: Vec<Label> = Vec::new();
    for label in parts.iter().flat_map(|part| part.axes(labels)).filter(|label| queries.contains(label)) {
        if !used.contains(&label) {
            used.push(label);
        }
    }
    let rows = match used[..] {
        [] => queries.clone(),
        [one] => vec![one],
        _ if used.len() == queries.len() => queries.clone(),
        _ => return Err("masks tell different axes of the queries apart".into()),
    };
    let is_within = |part: &MaskPart, allowed: &[&[Label]]| {
        part.axes(labels).iter().all(|label| allowed.iter().any(|of| of.contains(label)))
    };
    // Sequences are what conditions on one key or query tell apart; heads are another axis.
    let is_of_segments = |n: usize, part: &MaskPart| {
        equal[n].is_some() || is_within(part, &[&batch, &keys]) || is_within(part, &[&batch, &rows])
    };
    let told: Vec<Label> = (0..parts.len())
        .filter(|&n| !parts[n].is_static && parts[n].form != MaskForm::Added && is_of_segments(n, &parts[n]))
        .flat_map(|n| parts[n].axes(labels))
        .collect();
    let heads: Vec<Label> = batch.iter().rev().copied().find(|label| !told.contains(label)).into_iter().collect();
    let sequences: Vec<Label> = batch.iter().copied().filter(|label| !heads.contains(label)).collect();
    let mut found = Conditions {
        seen: Visible::All,
        rows: rows.clone(),
        heads,
        sequences: sequences.clone(),
        ids: None,
        of_queries: Vec::new(),
        of_keys: Vec::new(),
        kept: Vec::new(),
        added: Vec::new(),
        unseen: Unseen::Never,
        density: None,
    };
    let (mut by_position, mut is_dynamic, mut is_own) = (Vec::new(), false, true);
    for (part, equal) in parts.into_iter().zip(equal) {
        let dim = |of: &[Label]| {
            let at = |n: &usize| part.varies[*n] && labels.leaves(&part.layout[*n]) == of;
            (0..part.layout.len()).find(at)
        };
        let of = MaskOf { value: part.value, form: part.form, queries: dim(&rows), keys: dim(&keys) };
        let is_flat = part.varies.iter().filter(|varies| **varies).count()
            == usize::from(of.queries.is_some()) + usize::from(of.keys.is_some());
        if part.is_static && is_flat {
            let sizes = (size(&rows), size(&keys));
            // What is added to all scores of a query hides none of them.
            let is_shift = part.form == MaskForm::Added
                && visible_blocks(func, &[of], sizes.0, sizes.1).is_none_or(|(_, has_empty_rows)| has_empty_rows);
            match visible(func, &[of], sizes.0, sizes.1) {
                Err(BIAS) => found.added.push(part),
                _ if is_shift => found.added.push(part),
                _ => by_position.push((of, part)),
            }
            continue;
        }
        is_dynamic = true;
        let sides = equal.filter(|_| found.ids.is_none()).and_then(|[a, b]| {
            let [a, b] = [a, b].map(|(value, layout)| whole(func, value, layout));
            let fits =
                |q: &MaskPart, k: &MaskPart| is_within(q, &[&sequences, &rows]) && is_within(k, &[&sequences, &keys]);
            match () {
                () if fits(&a, &b) => Some((a, b)),
                () if fits(&b, &a) => Some((b, a)),
                () => None,
            }
        });
        match sides {
            Some((q, k)) => {
                is_own &= q.value == k.value && size(&rows) == size(&keys);
                found.ids = Some((q, k));
                continue;
            }
            None => is_own = false,
        }
        match part.form {
            MaskForm::Added => found.added.push(part),
            _ if is_within(&part, &[&sequences, &keys]) => found.of_keys.push(part),
            _ if is_within(&part, &[&sequences, &rows]) => found.of_queries.push(part),
            _ => found.kept.push(part),
        }
    }
    let lows: Vec<f64> = [&found.of_queries, &found.of_keys, &found.kept]
        .into_iter()
        .flatten()
        .chain(by_position.iter().map(|(_, part)| part))
        .filter_map(|part| part.low)
        .collect();
    let fits: Vec<MaskOf> = by_position.iter().map(|(of, _)| *of).collect();
    let mut has_blind = is_dynamic && !is_own || !found.added.is_empty();
    match visible(func, &fits, size(&rows), size(&keys)) {
        Ok(seen) => found.seen = seen,
        Err(_) => {
            let (share, has_empty_rows) =
                visible_blocks(func, &fits, size(&rows), size(&keys)).ok_or("the mask cannot be computed")?;
            if is_dynamic {
                has_blind = true;
            } else if found.added.is_empty() {
                found.density = Some(share);
            }
            has_blind |= has_empty_rows;
            found.kept.extend(by_position.into_iter().map(|(_, part)| part));
        }
    }
    if has_blind {
        let infinite = lows.iter().filter(|low| low.is_infinite()).count();
        found.unseen = match infinite {
            0 => Unseen::Mean,
            n if n == lows.len() => Unseen::Zeros,
            _ => return Err("masks have different numbers for masked scores".into()),
        };
    }
    Ok(found)
}
