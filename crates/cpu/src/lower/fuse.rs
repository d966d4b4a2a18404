//! Fusion: which elementwise ops and reductions share one pass over memory.
//!
//! Ops are visited from the last to the first, so the consumers of an op have their place when the op is looked at. A
//! group has a *domain* (sizes it walks); every member's result lies in it by a map from its dimensions to the domain's.
//! Groups and the other ops have *levels*: whatever reads a result of a group from outside has a lower level than the
//! group. An op therefore may join a group, and still be read from outside, without a cycle ever arising.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hlo::{Definition, Func, Op, OpClass, OpId, OpKind, Region, Value};

use super::region;
use super::view::{is_transparent, sizes};
use super::{constant, lanes};
use crate::attributes;
use crate::kernels::loops::ir::Fold;

/// Ops one group has at most, so that code and registers stay within reason.
const MAX_MEMBERS: usize = 96;
/// Groups one op is computed in at most.
const MAX_HOMES: usize = 4;
/// A value of up to this many elements is no reason for groups that use it to become one,
const FEW_ELEMENTS: usize = 64;
/// unless there is so little to do that a pass of its own costs more.
const SMALL_DOMAIN: usize = 4096;
/// A reduction to rows shorter than this does not stretch a group that works on the row results.
const MIN_STRETCHED_ROW: usize = 16;

/// A group: an index into [`Fusion::groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId(pub(crate) u32);

/// Dimension of the domain for each dimension of a value; `None` for those of size 1.
pub(crate) type Map = Vec<Option<u8>>;

/// Ops that run in one pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Sizes walked, outermost first.
    pub(crate) dims: Vec<usize>,
    /// Trailing dimensions that form the row where there is a reduction; 0 where there is none.
    pub(crate) row_dims: usize,
    /// In program order, each with the map of its result.
    pub(crate) members: BTreeMap<OpId, Map>,
    /// Results that are needed outside.
    pub(crate) outputs: BTreeSet<Value>,
    /// Whatever reads the outputs has a lower level.
    pub(crate) level: u32,
    has_combined: bool,
}

impl Group {
    /// Whether results are folded into memory along outer dimensions.
    pub(crate) fn has_combined(&self) -> bool {
        self.has_combined
    }
}

/// What was decided for a region.
#[derive(Debug, Default)]
pub(crate) struct Fusion {
    pub(crate) groups: Vec<Group>,
    /// Where each fused op is computed.
    pub(crate) homes: HashMap<OpId, Vec<GroupId>>,
}

/// Who needs a value.
#[derive(Clone, Debug, PartialEq)]
enum Demand {
    /// A group, with the value lying in its domain by this map.
    Inside(GroupId, Map),
    /// Something of this level that needs it in memory.
    Outside(u32),
}

/// The fold of a reduction that a loop can do.
pub(crate) fn reduction_fold(func: &Func, op: &Op) -> Option<Fold> {
    if op.kind() != Some(OpKind::Reduce) || op.num_results != 1 || op.operands.len() != 2 {
        return None;
    }
    let dtype = func.ty(op.operands[0]).as_tensor()?.element.plain()?;
    if dtype != func.ty(op.first_result).as_tensor()?.element.plain()? {
        return None;
    }
    crate::kernels::loops::ir::Lane::of(dtype)?;
    region::simple_fold(func, *op.regions.first()?)
}

/// Whether an op can be part of a loop.
pub(crate) fn is_fusible(func: &Func, op: &Op) -> bool {
    let is_empty = |v: Value| sizes(func.ty(v)).is_none_or(|dims| dims.contains(&0));
    if op.num_results != 1 || is_empty(op.first_result) || op.operands.iter().any(|&v| is_empty(v)) {
        return false;
    }
    reduction_fold(func, op).is_some() || lanes::is_supported(func, op)
}

/// Whether computing an op again costs less than reading its result.
fn is_cheap(op: &Op) -> bool {
    use OpKind as K;
    let Some(kind) = op.kind() else { return false };
    // Several instructions each, or none that a loop has.
    let takes_longer = matches!(
        kind,
        K::BitcastConvert
            | K::Ceil
            | K::Complex
            | K::CountLeadingZeros
            | K::Floor
            | K::Imag
            | K::Popcnt
            | K::Real
            | K::ReducePrecision
            | K::RoundNearestAfz
            | K::RoundNearestEven
            | K::ShiftRightArithmetic
    );
    let is_simple = kind.class() == OpClass::Arithmetic && kind.is_stablehlo() && !takes_longer;
    is_simple || matches!(kind, K::Iota | K::Constant)
}

struct Fuser<'f> {
    func: &'f Func,
    /// Uses of each value by ops of the region: op and operand number. Uses in nested regions count as the outer op's.
    uses: &'f HashMap<Value, Vec<(OpId, usize)>>,
    levels: HashMap<OpId, u32>,
    demands: HashMap<Value, Vec<Demand>>,
    /// Groups that have become part of another.
    merged_into: HashMap<GroupId, GroupId>,
    fusion: Fusion,
}

/// Decides for the ops of a region, but those that are `taken`: they become steps in another way.
pub(crate) fn fuse(
    func: &Func,
    region: Region,
    uses: &HashMap<Value, Vec<(OpId, usize)>>,
    taken: &dyn Fn(OpId) -> bool,
) -> Fusion {
    let mut fuser = Fuser {
        func,
        uses,
        levels: HashMap::new(),
        demands: HashMap::new(),
        merged_into: HashMap::new(),
        fusion: Fusion::default(),
    };
    for &id in func.region(region).ops.iter().rev() {
        let op = func.op(id);
        if is_transparent(func, op) {
            // Remembered now, so that a long chain of views is no deep recursion.
            for result in op.results() {
                fuser.demands(result);
            }
            continue;
        }
        if is_fusible(func, op) && !taken(id) {
            fuser.place(id);
        } else {
            let demands: Vec<Demand> = op.results().flat_map(|v| fuser.demands(v)).collect();
            let level = demands.iter().map(|d| fuser.level(d)).max();
            fuser.levels.insert(id, level.map_or(0, |n| n + 1));
        }
    }
    fuser.fusion
}

impl Fuser<'_> {
    fn level(&self, demand: &Demand) -> u32 {
        match demand {
            Demand::Inside(group, _) => self.group(*group).level,
            Demand::Outside(level) => *level,
        }
    }

    fn group(&self, id: GroupId) -> &Group {
        &self.fusion.groups[self.current(id).0 as usize]
    }

    /// The group that a group is part of by now.
    fn current(&self, mut id: GroupId) -> GroupId {
        while let Some(&into) = self.merged_into.get(&id) {
            id = into;
        }
        id
    }

    /// Who needs a value, through the ops that only look at it in another way.
    fn demands(&mut self, value: Value) -> Vec<Demand> {
        if let Some(known) = self.demands.get(&value) {
            let current = |demand: &Demand| match demand {
                Demand::Inside(group, map) => Demand::Inside(self.current(*group), map.clone()),
                Demand::Outside(level) => Demand::Outside(*level),
            };
            return known.iter().map(current).collect();
        }
        let mut all = Vec::new();
        for &(id, operand) in self.uses.get(&value).map_or(&[][..], |uses| uses) {
            let op = self.func.op(id);
            if is_transparent(self.func, op) {
                let result = Value(op.first_result.0 + if op.num_results > 1 { operand as u32 } else { 0 });
                for demand in self.demands(result) {
                    all.push(match &demand {
                        Demand::Inside(group, map) => match pull_back(self.func, op, value, result, map) {
                            Some(map) => Demand::Inside(*group, map),
                            None => Demand::Outside(self.group(*group).level),
                        },
                        Demand::Outside(level) => Demand::Outside(*level),
                    });
                }
            } else if let Some(homes) = self.fusion.homes.get(&id) {
                for &home in homes {
                    let group = self.group(home);
                    // What a reduction into memory starts from is there before the loop.
                    if operand == 1 && op.kind() == Some(OpKind::Reduce) && !is_row_reduction(self.func, op) {
                        all.push(Demand::Outside(group.level));
                        continue;
                    }
                    let map = operand_map(self.func, op, operand, group, &group.members[&id]);
                    all.push(Demand::Inside(home, map));
                }
            } else {
                all.push(Demand::Outside(self.levels.get(&id).copied().unwrap_or(0)));
            }
        }
        // A group that was joined later changes nothing here: users of a value are placed before its producer.
        self.demands.insert(value, all.clone());
        all
    }

    fn place(&mut self, id: OpId) {
        let op = self.func.op(id);
        let value = op.first_result;
        let demands = self.demands(value);
        if demands.is_empty() {
            // Nobody needs it, and it has no effect.
            return;
        }
        let mut inside: Vec<(GroupId, Map)> = Vec::new();
        let mut outside: Option<u32> = None;
        for demand in &demands {
            match demand {
                Demand::Outside(level) => outside = outside.max(Some(*level)),
                Demand::Inside(group, map) => match inside.iter().find(|(g, _)| g == group) {
                    // The group needs it in two ways: it reads it from memory.
                    Some((_, other)) if other != map => {
                        outside = outside.max(Some(self.group(*group).level));
                        inside.retain(|(g, _)| g != group);
                    }
                    Some(_) => {}
                    None => inside.push((*group, map.clone())),
                },
            }
        }
        let mut joinable = Vec::new();
        for (group, map) in inside {
            if self.may_join(id, group, &map) {
                joinable.push((group, map));
            } else {
                outside = outside.max(Some(self.group(group).level));
            }
        }
        // Groups of one level do not depend on each other: those of one domain can become one.
        if joinable.len() > 1 {
            joinable = self.merge(joinable, op.first_result);
        }
        if joinable.len() > 1 && !(outside.is_none() && joinable.len() <= MAX_HOMES && self.is_worth_repeating(op)) {
            // One group computes it; the others read what it writes.
            joinable.sort_by_key(|(group, _)| std::cmp::Reverse(self.group(*group).level));
            let rest = joinable.split_off(1);
            outside = rest.iter().map(|(group, _)| self.group(*group).level).max().max(outside);
        }
        if let (Some(level), [(group, map)]) = (outside, &joinable[..])
            && (self.group(*group).level <= level || !self.may_be_written(id, *group, map))
        {
            return self.start(id, &demands);
        }
        if joinable.is_empty() {
            return self.start(id, &demands);
        }
        for (group, map) in &joinable {
            self.join(id, *group, map.clone(), outside.is_some());
        }
    }

    /// A group with the op as its first member.
    fn start(&mut self, id: OpId, demands: &[Demand]) {
        let op = self.func.op(id);
        let level = demands.iter().map(|d| self.level(d)).max().map_or(0, |n| n + 1);
        let shaped = if op.kind() == Some(OpKind::Reduce) { op.operands[0] } else { op.first_result };
        let dims = sizes(self.func.ty(shaped)).unwrap_or_default();
        let mut group = Group { level, ..Group::default() };
        let mut map: Map = (0..dims.len()).map(|d| (dims[d] != 1).then_some(d as u8)).collect();
        if op.kind() == Some(OpKind::Reduce) {
            let reduced = reduced_dims(op);
            group.row_dims = (0..dims.len()).rev().take_while(|d| reduced.contains(d)).count();
            group.has_combined = reduced.len() > group.row_dims;
            map = (0..dims.len()).filter(|d| !reduced.contains(d)).map(|d| map[d]).collect();
        }
        group.dims = dims;
        group.members.insert(id, map);
        group.outputs.insert(op.first_result);
        self.fusion.groups.push(group);
        self.fusion.homes.insert(id, vec![GroupId(self.fusion.groups.len() as u32 - 1)]);
    }

    fn join(&mut self, id: OpId, to: GroupId, map: Map, is_output: bool) {
        let op = self.func.op(id);
        let group = &mut self.fusion.groups[to.0 as usize];
        if op.kind() == Some(OpKind::Reduce) {
            let dims = sizes(self.func.ty(op.operands[0])).unwrap_or_default();
            let reduced = reduced_dims(op);
            if map.iter().flatten().count() == group.dims.iter().filter(|&&d| d != 1).count() && group.row_dims == 0 {
                group.dims.extend(reduced.iter().map(|&d| dims[d]));
            }
            group.row_dims = reduced.len();
        }
        group.members.insert(id, map);
        if is_output {
            group.outputs.insert(op.first_result);
        }
        self.fusion.homes.entry(id).or_default().push(to);
    }

    fn may_join(&self, id: OpId, to: GroupId, map: &Map) -> bool {
        let (op, group) = (self.func.op(id), self.group(to));
        if group.members.len() >= MAX_MEMBERS {
            return false;
        }
        let mapped: Vec<u8> = map.iter().flatten().copied().collect();
        if op.kind() == Some(OpKind::Reduce) {
            return self.may_join_reduction(op, group, &mapped);
        }
        let whole: usize = group.dims.iter().product();
        let own: usize = mapped.iter().map(|&d| group.dims[d as usize]).product();
        if own == whole || is_cheap(op) {
            return true;
        }
        // Computed once for each row it does not change along; more often than that only where it is cheap.
        let outer = group.dims.len() - group.row_dims.max(1).min(group.dims.len());
        let rows: usize = group.dims[..outer].iter().product();
        let in_row = mapped.iter().any(|&d| d as usize >= outer);
        !in_row && (own == rows || whole / rows.max(1) >= MIN_STRETCHED_ROW)
    }

    fn may_join_reduction(&self, op: &Op, group: &Group, mapped: &[u8]) -> bool {
        let Some(dims) = sizes(self.func.ty(op.operands[0])) else { return false };
        let reduced = reduced_dims(op);
        let first = dims.len() - reduced.len();
        if reduced.is_empty() || reduced.iter().any(|&d| d < first) || group.has_combined {
            return false;
        }
        let sizes_reduced: Vec<usize> = dims[first..].to_vec();
        let row: usize = sizes_reduced.iter().product();
        let is_leading = |outer: usize| {
            mapped.iter().enumerate().all(|(n, &d)| (d as usize) < outer && (n == 0 || mapped[n - 1] < d))
                && mapped.len() == group.dims[..outer].iter().filter(|&&d| d != 1).count()
        };
        if group.row_dims > 0 || group.dims.len() >= reduced.len() && group.dims.ends_with(&sizes_reduced) {
            let row_dims = if group.row_dims > 0 { group.row_dims } else { reduced.len() };
            let outer = group.dims.len() - row_dims;
            if row_dims == reduced.len() && group.dims[outer..] == sizes_reduced[..] && is_leading(outer) {
                return true;
            }
        }
        // Results for each row, so far the whole domain: the rows are stretched out.
        group.row_dims == 0 && row >= MIN_STRETCHED_ROW && is_leading(group.dims.len())
    }

    /// Whether the group can write the op's result: one element for each point, or one for each row.
    fn may_be_written(&self, id: OpId, to: GroupId, map: &Map) -> bool {
        let group = self.group(to);
        let mut outer = group.dims.len() - group.row_dims;
        if self.func.op(id).kind() == Some(OpKind::Reduce) && group.row_dims == 0 {
            // The group is about to be stretched, or its last dimensions become the row.
            let covered = map.iter().flatten().count() == group.dims.iter().filter(|&&d| d != 1).count();
            outer = if covered { outer } else { outer - reduced_dims(self.func.op(id)).len() };
        }
        let mapped: BTreeSet<usize> = map.iter().flatten().map(|&d| d as usize).collect();
        let needs = |range: std::ops::Range<usize>| range.filter(|&d| group.dims[d] != 1).all(|d| mapped.contains(&d));
        let has_row = (outer..group.dims.len()).any(|d| mapped.contains(&d));
        needs(0..outer) && (!has_row || needs(outer..group.dims.len()))
    }

    /// Computing the op in several groups costs at most one read of full size in each.
    fn is_worth_repeating(&self, op: &Op) -> bool {
        let own = sizes(self.func.ty(op.first_result)).map_or(0, |d| d.iter().product::<usize>());
        let full = |v: &&Value| sizes(self.func.ty(**v)).is_some_and(|d| d.iter().product::<usize>() == own);
        is_cheap(op) && (own <= 64 || op.operands.iter().filter(full).count() <= 1)
    }

    /// Arrays of about a group's own size that it reads: one pass instead of two saves memory where two groups have one in
    /// common. Updates of different parameters do not, though all of them use the same few scalars; as one loop they would
    /// be many streams.
    fn large_inputs(&self, group: &Group) -> BTreeSet<Value> {
        let func = self.func;
        let domain: usize = group.dims.iter().product();
        let is_constant = |v: Value| match func.value(v).definition {
            Definition::Result(id, _) => constant::splat(func.op(id)).is_some(),
            Definition::Argument(..) => false,
        };
        let is_large = |v: &Value| {
            let size = sizes(func.ty(*v)).map_or(0, |dims| dims.iter().product::<usize>());
            size.saturating_mul(4) >= domain && !is_constant(*v)
        };
        // What is only looked at in another way is the same array.
        let origin = |mut value: Value| {
            while let Definition::Result(id, n) = func.value(value).definition
                && is_transparent(func, func.op(id))
            {
                let op = func.op(id);
                value = op.operands[if op.num_results > 1 { n as usize } else { 0 }];
            }
            value
        };
        let operands = group.members.keys().flat_map(|&id| func.op(id).operands.iter().copied());
        operands.map(origin).filter(is_large).collect()
    }

    /// Groups of which one pass makes sense become one, for a value that all of them use.
    fn merge(&mut self, mut candidates: Vec<(GroupId, Map)>, shared: Value) -> Vec<(GroupId, Map)> {
        let is_small = sizes(self.func.ty(shared)).is_some_and(|dims| dims.iter().product::<usize>() <= FEW_ELEMENTS);
        let mut merged: Vec<(GroupId, Map)> = Vec::new();
        // Which of `merged` read a large array.
        let mut readers: HashMap<Value, Vec<usize>> = HashMap::new();
        candidates.sort_by_key(|(id, _)| *id);
        for (id, map) in candidates {
            let must_share = is_small && self.group(id).dims.iter().product::<usize>() > SMALL_DOMAIN;
            let inputs = if must_share { self.large_inputs(self.group(id)) } else { BTreeSet::new() };
            let fits = |at: &usize| {
                let (other, other_map) = &merged[*at];
                let (a, b) = (self.group(*other), self.group(id));
                a.level == b.level
                    && a.dims == b.dims
                    && *other_map == map
                    && (a.row_dims == b.row_dims || a.row_dims == 0 || b.row_dims == 0)
                    && !folds_within_rows(a, b)
                    && !folds_within_rows(b, a)
                    && a.members.len() + b.members.len() < MAX_MEMBERS
            };
            let found = if must_share {
                let sharing: BTreeSet<usize> =
                    inputs.iter().filter_map(|v| readers.get(v)).flatten().copied().collect();
                sharing.into_iter().find(fits)
            } else {
                (0..merged.len()).find(fits)
            };
            for &input in &inputs {
                readers.entry(input).or_default().push(found.unwrap_or(merged.len()));
            }
            let Some(into) = found.map(|at| merged[at].0) else {
                merged.push((id, map));
                continue;
            };
            let group = std::mem::take(&mut self.fusion.groups[id.0 as usize]);
            for member in group.members.keys() {
                if let Some(homes) = self.fusion.homes.get_mut(member) {
                    homes.retain(|home| *home != id);
                    if !homes.contains(&into) {
                        homes.push(into);
                    }
                }
            }
            let target = &mut self.fusion.groups[into.0 as usize];
            target.members.extend(group.members);
            target.outputs.extend(group.outputs);
            target.row_dims = target.row_dims.max(group.row_dims);
            target.has_combined |= group.has_combined;
            self.merged_into.insert(id, into);
        }
        merged
    }
}

/// Whether rows of several dimensions would hide one that a reduction of the other group keeps.
fn folds_within_rows(rows: &Group, folding: &Group) -> bool {
    rows.row_dims > 1 && folding.row_dims == 0 && folding.has_combined
}

/// Dimensions a reduction removes, in order.
pub(crate) fn reduced_dims(op: &Op) -> Vec<usize> {
    let mut dims: Vec<usize> =
        attributes::ints(op, "dimensions").unwrap_or_default().iter().map(|&d| d as usize).collect();
    dims.sort_unstable();
    dims
}

/// Whether a reduction is over the last dimensions, or none: its result is there for the rest of the loop.
pub(crate) fn is_row_reduction(func: &Func, op: &Op) -> bool {
    let rank = sizes(func.ty(op.operands[0])).map_or(0, |dims| dims.len());
    let reduced = reduced_dims(op);
    reduced.iter().all(|&d| d + reduced.len() >= rank)
}

/// The map of a reduction's operand: kept dimensions as the result has them, reduced ones where they lie in the domain.
fn reduced_operand_map(op: &Op, rank: usize, group: &Group, map: &Map) -> Map {
    let reduced = reduced_dims(op);
    let is_own = group.dims.len() == rank && group.has_combined;
    let first_of_row = group.dims.len() - group.row_dims.min(group.dims.len());
    let mut kept = map.iter();
    let mut row = first_of_row;
    (0..rank)
        .map(|d| {
            if !reduced.contains(&d) {
                return kept.next().copied().flatten();
            }
            // A combined reduction is over its own operand's dimensions.
            let at = if is_own { d } else { row };
            row += 1;
            (group.dims.get(at).is_some_and(|&size| size != 1)).then_some(at as u8)
        })
        .collect()
}

/// The map of an operand of an op that gives a view, from that of the view.
pub(crate) fn pull_back(func: &Func, op: &Op, operand: Value, result: Value, map: &Map) -> Option<Map> {
    let (from, to) = (sizes(func.ty(operand))?, sizes(func.ty(result))?);
    match op.kind() {
        Some(OpKind::BroadcastInDim) => {
            let along = attributes::ints(op, "broadcast_dimensions").ok()?;
            let one = |(d, &size): (usize, &usize)| if size == 1 { None } else { map[along[d] as usize] };
            Some(from.iter().enumerate().map(one).collect())
        }
        Some(OpKind::Broadcast) => Some(map[to.len() - from.len()..].to_vec()),
        Some(OpKind::Reshape) => {
            let kept: Vec<usize> = (0..to.len()).filter(|&d| to[d] != 1).collect();
            let mut next = kept.iter();
            let mut back = Vec::with_capacity(from.len());
            for &size in &from {
                if size == 1 {
                    back.push(None);
                    continue;
                }
                let &d = next.next()?;
                if to[d] != size {
                    return None;
                }
                back.push(map[d]);
            }
            next.next().is_none().then_some(back)
        }
        Some(OpKind::Transpose | OpKind::Slice | OpKind::Reverse | OpKind::BitcastConvert) => None,
        _ => Some(map.clone()),
    }
}

/// The map of an operand, from that of the op's result.
pub(crate) fn operand_map(func: &Func, op: &Op, operand: usize, group: &Group, map: &Map) -> Map {
    let rank = sizes(func.ty(op.operands[operand])).map_or(0, |dims| dims.len());
    if op.kind() == Some(OpKind::Reduce) {
        return if operand == 1 { Vec::new() } else { reduced_operand_map(op, rank, group, map) };
    }
    // Scalars of clamp and select stand for every element.
    if rank == 0 { Vec::new() } else { map.clone() }
}
