//! An op on values broadcast alike is computed once and broadcast after.

use crate::ir::{Attr, Dense, OpKind, TensorType, Value};

use super::{Exactness, Replacement, Rule, Site, attrs, i64s};

pub(super) const RULE: Rule = Rule { name: "compute_before_broadcast", kinds: &KINDS, apply };

/// Elementwise ops but functions of CHLO, which are expanded before, and those of several element types or attributes, which
/// cost so little that they stay where they are.
const fn is_looked_at(kind: OpKind) -> bool {
    use OpKind as K;
    let stays = matches!(
        kind,
        K::BitcastConvert
            | K::Clamp
            | K::Complex
            | K::Convert
            | K::CountLeadingZeros
            | K::Imag
            | K::IsFinite
            | K::Popcnt
            | K::Real
            | K::ReducePrecision
            | K::RoundNearestAfz
            | K::RoundNearestEven
            | K::Select
            | K::Tan
    );
    kind.is_elementwise() && kind.is_stablehlo() && !stays
}

const COUNT: usize = {
    let (mut at, mut count) = (0, 0);
    while at < OpKind::ALL.len() {
        count += is_looked_at(OpKind::ALL[at]) as usize;
        at += 1;
    }
    count
};

const KINDS: [OpKind; COUNT] = {
    let mut kinds = [OpKind::Abs; COUNT];
    let (mut at, mut count) = (0, 0);
    while at < OpKind::ALL.len() {
        if is_looked_at(OpKind::ALL[at]) {
            kinds[count] = OpKind::ALL[at];
            count += 1;
        }
        at += 1;
    }
    kinds
};

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let op = site.op();
    let (kind, operands, attributes) = (op.kind()?, op.operands.clone(), op.attrs.clone());
    let result = site.array(site.result())?;
    let (dims, element) = (result.dims.clone(), result.element.clone());
    let broadcast = operands.iter().find_map(|&operand| site.computed_by(operand, OpKind::BroadcastInDim))?;
    let to = i64s(broadcast, "broadcast_dimensions")?;
    let small = site.dims(broadcast.operands[0])?.to_vec();
    if site.array(broadcast.operands[0])?.num_elements() >= result.num_elements() {
        return None;
    }
    let mut sources = Vec::with_capacity(operands.len());
    for &operand in &operands {
        let source = match site.computed_by(operand, OpKind::BroadcastInDim) {
            Some(other) if i64s(other, "broadcast_dimensions")? == to => Source::Value(other.operands[0]),
            Some(_) => return None,
            None => Source::Filled(site.splat(operand)?.to_vec()),
        };
        let fits = site.dims(operand)? == dims;
        let same = !matches!(source, Source::Value(value) if site.dims(value) != Some(&small));
        if !fits || !same {
            return None;
        }
        sources.push((source, site.dtype(operand)?));
    }
    let mut values = Vec::with_capacity(sources.len());
    for (source, dtype) in sources {
        values.push(match source {
            Source::Value(value) => value,
            Source::Filled(element) => {
                let constant = Dense::splat(TensorType::new(small.clone(), dtype), &element)?;
                site.emit_constant(constant)
            }
        });
    }
    let computed = site.emit(kind, &values, attributes, TensorType::new(small, element.clone()));
    let wide = TensorType::new(dims, element);
    Some(vec![site.emit(OpKind::BroadcastInDim, &[computed], attrs([("broadcast_dimensions", Attr::i64s(to))]), wide)])
}

/// What an operand repeats.
enum Source {
    Value(Value),
    Filled(Vec<u8>),
}
