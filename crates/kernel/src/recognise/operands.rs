//! Writes what masks were found to be as operands of kernels: segment ids of queries and keys, and one array that masks or is added.

use tensor::{DType, Spec};

use super::conditions::{Conditions, MaskPart};
use super::layout::{Label, Labels};
use super::mask::{LOW, MaskForm};
use super::write::{Decompositions, Order, Writer};
use crate::call::static_spec;
use crate::error::Error;
use crate::kernels::flash::{FlashAttention, FlashMask, MASK_VALUE};
use crate::kernels::{bits, tensor};
use hlo::Value;

/// Ids of keys that nobody sees, of queries that see nobody, and of keys that were added.
const UNSEEN_KEY: i32 = i32::MIN;
const UNSEEING_QUERY: i32 = i32::MIN + 1;
/// What a bias of added or masked keys is.
const FAR_BELOW: i32 = -1_000_000_000;

/// The mask of a kernel, for axes of so many sequences, heads and queries.
pub(super) fn flash_mask(
    labels: &Labels,
    found: &Conditions,
    order: &Order,
    types: &[DType],
    padded: usize,
) -> Option<FlashMask> {
    if !found.has_mask() {
        return None;
    }
    let parts = || found.kept.iter().chain(&found.added);
    let size = |axis: usize| {
        let is_told = parts().any(|part| told(labels, part, order).get(axis) == Some(&true));
        let all: usize = order.get(axis).map_or(1, |of| of.iter().map(|&label| labels.size(label)).product());
        if is_told { all } else { 1 }
    };
    let is_narrow = found.kept.is_empty() && types.iter().all(|&dtype| dtype == DType::BF16);
    let dtype = match found.added.is_empty() {
        true => DType::I8,
        false if is_narrow => DType::BF16,
        false => DType::F32,
    };
    let queries = if dtype == DType::I8 || size(2) > 1 { padded } else { 1 };
    Some(FlashMask { dtype, batch: size(0), heads: size(1), queries, density: found.density })
}

/// Which of the axes a part varies along.
fn told(labels: &Labels, part: &MaskPart, order: &Order) -> [bool; 4] {
    let have = part.axes(labels);
    [0, 1, 2, 3].map(|axis| order[axis].iter().any(|label| have.contains(label)))
}

impl Writer<'_> {
    /// A part of size 1 along dimensions where it does not vary.
    pub(super) fn told_apart(&mut self, part: &MaskPart) -> Value {
        let dims = static_spec(self.func.ty(part.value)).map_or_else(Vec::new, |spec| spec.dims);
        let mut value = part.value;
        for axis in (0..dims.len()).filter(|&axis| dims[axis] > 1 && part.varies.get(axis) == Some(&false)) {
            value = self.cut(value, axis, 0..1);
        }
        value
    }

    /// A part with all axes in order, of size 1 where it does not vary.
    fn part(&mut self, labels: &Labels, part: &MaskPart, order: &Order) -> Option<Value> {
        let value = self.told_apart(part);
        let have = part.axes(labels);
        let told = told(labels, part, order);
        let want: Vec<Label> = (0..4).filter(|&n| told[n]).flat_map(|n| order[n].clone()).collect();
        let sizes = |of: &[Label]| of.iter().map(|&label| labels.size(label)).collect::<Vec<_>>();
        let flat = self.reshaped(value, sizes(&have));
        let places: Option<Vec<usize>> =
            have.iter().map(|label| want.iter().position(|other| other == label)).collect();
        let wide = self.broadcast(flat, &places?, sizes(&want));
        let axis = |n: usize| if told[n] { sizes(&order[n]).iter().product() } else { 1 };
        Some(self.reshaped(wide, [0, 1, 2, 3].map(axis).to_vec()))
    }
}

/// A part that was written, with the type it has.
struct Given {
    value: Value,
    spec: Spec,
    form: MaskForm,
}

fn given(writer: &mut Writer<'_>, labels: &Labels, parts: &[MaskPart], order: &Order) -> Result<Vec<Given>, Error> {
    let internal = || Error::Internal("axes of a mask do not agree".into());
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        let value = writer.part(labels, part, order).ok_or_else(internal)?;
        let spec = static_spec(writer.func.ty(value)).ok_or_else(internal)?;
        all.push(Given { value, spec, form: part.form });
    }
    Ok(all)
}

fn of(spec: &Spec, dtype: DType) -> String {
    let dims: String = spec.dims.iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{dims}{}>", dtype.name())
}

/// Lines that make the truth `%t{n}` of an argument `%a{n}`, repeated to a shape.
fn truth(n: usize, given: &Given, wide: &Spec) -> String {
    let (own, own_i1) = (of(&given.spec, given.spec.dtype), of(&given.spec, DType::Bool));
    let line = match given.form {
        MaskForm::KeepWhere => format!("  %k{n} = stablehlo.convert %a{n} : ({own}) -> {own_i1}"),
        MaskForm::MaskWhere => format!("  %k{n} = stablehlo.not %a{n} : {own}"),
        MaskForm::Added => format!(
            "  %w{n} = stablehlo.convert %a{n} : ({own}) -> {own32}
  %l{n} = stablehlo.constant dense<{low}> : {own32}
  %k{n} = stablehlo.compare GT, %w{n}, %l{n}, FLOAT : ({own32}, {own32}) -> {own_i1}",
            own32 = of(&given.spec, DType::F32),
            low = bits(LOW as f32),
        ),
    };
    let repeated = of(wide, DType::Bool);
    let dims: Vec<usize> = (0..wide.dims.len()).collect();
    format!("{line}\n  %t{n} = stablehlo.broadcast_in_dim %k{n}, dims = {dims:?} : ({own_i1}) -> {repeated}")
}

/// Lines that make `%all` of the truths of arguments from `first` on.
fn together(first: usize, all: &[Given], wide: &Spec) -> String {
    let ty = of(wide, DType::Bool);
    let mut lines = vec![format!("  %all{first} = stablehlo.constant dense<true> : {ty}")];
    for (n, given) in (first..).zip(all) {
        lines.push(truth(n, given, wide));
        lines.push(format!("  %all{} = stablehlo.and %all{n}, %t{n} : {ty}", n + 1));
    }
    lines.push(format!("  %all = stablehlo.and %all{0}, %all{0} : {ty}", first + all.len()));
    lines.join("\n")
}

fn arguments(all: &[&Given]) -> String {
    let one = |(n, given): (usize, &&Given)| format!("%a{n}: {}", of(&given.spec, given.spec.dtype));
    all.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

/// Segment ids of queries or keys `i32 [batch, 1, length]`: what ids are given, or 1, another id where a condition does not hold.
fn ids(
    name: &str,
    (ids, conditions): (Option<&Given>, &[Given]),
    [batch, real, padded]: [usize; 3],
    other: i32,
) -> String {
    let wide = Spec::new(DType::I32, [batch, real]);
    let (flat, flat_i1) = (of(&wide, DType::I32), of(&wide, DType::Bool));
    let all: Vec<&Given> = ids.into_iter().chain(conditions).collect();
    let own = match ids {
        None => format!("  %ids = stablehlo.constant dense<1> : {flat}"),
        Some(ids) => {
            let (own, own_i32) = (of(&ids.spec, ids.spec.dtype), of(&ids.spec, DType::I32));
            format!(
                "  %narrow = stablehlo.convert %a0 : ({own}) -> {own_i32}
  %ids = stablehlo.broadcast_in_dim %narrow, dims = [0, 1] : ({own_i32}) -> {flat}"
            )
        }
    };
    let (long, result) = (tensor(DType::I32, [batch, padded]), tensor(DType::I32, [batch, 1, padded]));
    format!(
        "func.func private @{name}({args}) -> {result} {{
{own}
{together}
  %other = stablehlo.constant dense<{other}> : {flat}
  %told = stablehlo.select %all, %ids, %other : {flat_i1}, {flat}
  %added = stablehlo.constant dense<{other}> : tensor<i32>
  %long = stablehlo.pad %told, %added, low = [0, 0], high = [0, {more}], interior = [0, 0] : ({flat}, tensor<i32>) -> {long}
  %result = stablehlo.reshape %long : ({long}) -> {result}
  return %result : {result}
}}",
        args = arguments(&all),
        together = together(usize::from(ids.is_some()), conditions, &wide),
        more = padded - real,
    )
}

/// A mask of a kernel: conditions that all hold, and what is added.
fn mask(name: &str, (kept, added): (&[Given], &[Given]), like: &FlashMask, real: [usize; 2], padded: usize) -> String {
    let FlashMask { dtype, batch, heads, queries, .. } = *like;
    let rows = if queries == 1 { 1 } else { real[0] };
    let wide = Spec::new(DType::F32, [batch, heads, rows, real[1]]);
    let all: Vec<&Given> = kept.iter().chain(added).collect();
    let (ty, ty32, ty_i1) = (of(&wide, dtype), of(&wide, DType::F32), of(&wide, DType::Bool));
    let mut lines = vec![together(0, kept, &wide)];
    if added.is_empty() {
        lines.push(format!("  %short = stablehlo.convert %all : ({ty_i1}) -> {ty}"));
    } else {
        lines.push(format!("  %s{} = stablehlo.constant dense<0.0> : {ty32}", kept.len()));
        for (n, given) in (kept.len()..).zip(added) {
            let (own, own32) = (of(&given.spec, given.spec.dtype), of(&given.spec, DType::F32));
            lines.push(format!(
                "  %f{n} = stablehlo.convert %a{n} : ({own}) -> {own32}
  %b{n} = stablehlo.broadcast_in_dim %f{n}, dims = [0, 1, 2, 3] : ({own32}) -> {ty32}
  %s{next} = stablehlo.add %s{n}, %b{n} : {ty32}",
                next = n + 1
            ));
        }
        lines.push(format!(
            "  %below = stablehlo.constant dense<{FAR_BELOW}.0> : {ty32}
  %sum = stablehlo.select %all, %s{last}, %below : {ty_i1}, {ty32}
  %short = stablehlo.convert %sum : ({ty32}) -> {ty}",
            last = all.len()
        ));
    }
    let long = Spec::new(dtype, [batch, heads, queries, padded]);
    let number = if dtype == DType::I8 { "0".to_owned() } else { format!("{FAR_BELOW}.0") };
    format!(
        "func.func private @{name}({args}) -> {result} {{
{lines}
  %added = stablehlo.constant dense<{number}> : {one}
  %long = stablehlo.pad %short, %added, low = [0, 0, 0, 0], high = [0, 0, {q}, {k}], interior = [0, 0, 0, 0] : ({ty}, {one}) -> {result}
  return %long : {result}
}}",
        args = arguments(&all),
        lines = lines.join("\n"),
        one = format_args!("tensor<{}>", dtype.name()),
        result = of(&long, dtype),
        q = queries - rows,
        k = padded - real[1],
    )
}

/// Operands of an attention behind queries, keys and values.
pub(super) fn operands(
    writer: &mut Writer<'_>,
    decompositions: &mut Decompositions,
    (labels, found): (&Labels, &Conditions),
    (attention, order): (&FlashAttention, &Order),
    lengths: (usize, usize),
) -> Result<Vec<Value>, Error> {
    let internal = || Error::Internal("axes of a mask do not agree".into());
    let mut all = Vec::new();
    if found.has_segments() {
        let (of_queries, of_keys) = match &found.ids {
            Some((q, k)) => (Some(q.clone()), Some(k.clone())),
            None => (None, None),
        };
        for (own, conditions, axis, real, padded, other) in [
            (of_queries, &found.of_queries, 2, lengths.0, attention.q_len, UNSEEING_QUERY),
            (of_keys, &found.of_keys, 3, lengths.1, attention.kv_len, UNSEEN_KEY),
        ] {
            let flat = |writer: &mut Writer<'_>, parts: &[MaskPart]| {
                let mut parts = given(writer, labels, parts, order)?;
                for part in &mut parts {
                    part.spec.dims = vec![part.spec.dims[0], part.spec.dims[axis]];
                    part.value = writer.reshaped(part.value, part.spec.dims.clone());
                }
                Ok::<_, Error>(parts)
            };
            let own = flat(writer, own.as_slice())?;
            let conditions = flat(writer, conditions)?;
            let values = own.iter().chain(&conditions).map(|part| part.value).collect();
            let sizes = [attention.batch, real, padded];
            let text = |name: &str| ids(name, (own.first(), &conditions), sizes, other);
            all.extend(writer.call(decompositions, &text, values)?);
        }
    }
    if let Some(like) = &attention.mask {
        let (kept, added) = (given(writer, labels, &found.kept, order)?, given(writer, labels, &found.added, order)?);
        let values = kept.iter().chain(&added).map(|part| part.value).collect();
        let lengths = [lengths.0, lengths.1];
        let text = |name: &str| mask(name, (&kept, &added), like, lengths, attention.kv_len);
        all.push(*writer.call(decompositions, &text, values)?.first().ok_or_else(internal)?);
    }
    Ok(all)
}

/// Lines that tell queries that saw no key (`%blind`, repeated along the depth), from the log-sum-exp.
fn blind(a: &FlashAttention) -> String {
    let (row, flat) =
        (tensor(DType::F32, [a.batch, a.q_heads, 1, a.q_len]), tensor(DType::F32, [a.batch, a.q_heads, a.q_len]));
    let flat_i1 = tensor(DType::Bool, [a.batch, a.q_heads, a.q_len]);
    let wide_i1 = tensor(DType::Bool, [a.batch, a.q_heads, a.q_len, a.depth]);
    format!(
        "  %flat = stablehlo.reshape %lse : ({row}) -> {flat}
  %most = stablehlo.constant dense<{most}> : {flat}
  %sees_none = stablehlo.compare GT, %flat, %most, FLOAT : ({flat}, {flat}) -> {flat_i1}
  %blind = stablehlo.broadcast_in_dim %sees_none, dims = [0, 1, 2] : ({flat_i1}) -> {wide_i1}",
        most = bits(-MASK_VALUE / 2.0),
    )
}

/// The output with the mean of all values for queries that saw no key.
pub(super) fn mean_of_values(name: &str, a: &FlashAttention, keys: usize) -> String {
    let (q, kv) = (
        tensor(a.dtype, [a.batch, a.q_heads, a.q_len, a.depth]),
        tensor(a.dtype, [a.batch, a.kv_heads, a.kv_len, a.depth]),
    );
    let (kv32, sum) = (
        tensor(DType::F32, [a.batch, a.kv_heads, a.kv_len, a.depth]),
        tensor(DType::F32, [a.batch, a.kv_heads, a.depth]),
    );
    let narrow = tensor(a.dtype, [a.batch, a.kv_heads, a.depth]);
    let five = tensor(a.dtype, [a.batch, a.kv_heads, a.group(), a.q_len, a.depth]);
    format!(
        "func.func private @{name}(%out: {q}, %lse: {row}, %v: {kv}) -> {q} {{
{blind}
  %wide = stablehlo.convert %v : ({kv}) -> {kv32}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%wide init: %zero) applies stablehlo.add across dimensions = [2] : ({kv32}, tensor<f32>) -> {sum}
  %share = stablehlo.constant dense<{share}> : {sum}
  %mean32 = stablehlo.multiply %sum, %share : {sum}
  %mean = stablehlo.convert %mean32 : ({sum}) -> {narrow}
  %means = stablehlo.broadcast_in_dim %mean, dims = [0, 1, 4] : ({narrow}) -> {five}
  %all = stablehlo.reshape %means : ({five}) -> {q}
  %result = stablehlo.select %blind, %all, %out : {wide_i1}, {q}
  return %result : {q}
}}",
        row = tensor(DType::F32, [a.batch, a.q_heads, 1, a.q_len]),
        blind = blind(a),
        share = bits(1.0 / keys.max(1) as f32),
        wide_i1 = tensor(DType::Bool, [a.batch, a.q_heads, a.q_len, a.depth]),
    )
}

/// The gradient of the values with that of queries that saw no key, of which each value has an equal share.
pub(super) fn gradient_of_mean(name: &str, a: &FlashAttention, keys: usize) -> String {
    let (q, kv) = (
        tensor(a.dtype, [a.batch, a.q_heads, a.q_len, a.depth]),
        tensor(a.dtype, [a.batch, a.kv_heads, a.kv_len, a.depth]),
    );
    let (q32, kv32) = (
        tensor(DType::F32, [a.batch, a.q_heads, a.q_len, a.depth]),
        tensor(DType::F32, [a.batch, a.kv_heads, a.kv_len, a.depth]),
    );
    let five = tensor(DType::F32, [a.batch, a.kv_heads, a.group(), a.q_len, a.depth]);
    let sum = tensor(DType::F32, [a.batch, a.kv_heads, a.depth]);
    format!(
        "func.func private @{name}(%dv: {kv}, %lse: {row}, %dout: {q}) -> {kv} {{
{blind}
  %wide = stablehlo.convert %dout : ({q}) -> {q32}
  %none = stablehlo.constant dense<0.0> : {q32}
  %of_blind = stablehlo.select %blind, %wide, %none : {wide_i1}, {q32}
  %cut = stablehlo.reshape %of_blind : ({q32}) -> {five}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%cut init: %zero) applies stablehlo.add across dimensions = [2, 3] : ({five}, tensor<f32>) -> {sum}
  %share = stablehlo.constant dense<{share}> : {sum}
  %mean = stablehlo.multiply %sum, %share : {sum}
  %all = stablehlo.broadcast_in_dim %mean, dims = [0, 1, 3] : ({sum}) -> {kv32}
  %dv32 = stablehlo.convert %dv : ({kv}) -> {kv32}
  %both = stablehlo.add %dv32, %all : {kv32}
  %result = stablehlo.convert %both : ({kv32}) -> {kv}
  return %result : {kv}
}}",
        row = tensor(DType::F32, [a.batch, a.q_heads, 1, a.q_len]),
        blind = blind(a),
        share = bits(1.0 / keys.max(1) as f32),
        wide_i1 = tensor(DType::Bool, [a.batch, a.q_heads, a.q_len, a.depth]),
    )
}
