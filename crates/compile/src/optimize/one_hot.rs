//! One element of each row, by index: a gather becomes a sum of what a comparison selects, a scatter into zeros the selection itself.
//!
//! Both are what `take_along_axis` and its gradient are on a vocabulary. A gather needs its whole operand in memory, and a scatter writes
//! its whole result, while comparisons fuse with what computes the rows and with what reads them. Results are the same to the last bit,
//! the sign of zeros apart.

use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, DenseData, Func, Keyword, NewOp, Op, OpId, OpKind, OpName, Region, TensorType};
use hlo::{Value, Verified};
use tensor::DType;

use super::edit::{become_op, definition, emit, visit_ops};
use super::step::RewriteStep;
use crate::error::CompileError;

const NAME: &str = "one_hot";

/// Rewrites gathers and scatters of one element a row.
pub fn one_hot_indexing(module: Verified) -> Result<(Verified, RewriteStep), CompileError> {
    let mut module = module.into_inner();
    let (mut gathers, mut scatters) = (0, 0);
    for func in &mut module.funcs {
        visit_ops(func, |func, region, id| match func.op(id).kind() {
            Some(OpKind::Gather) => {
                if let Some(picked) = Picked::of_gather(func, id) {
                    gathers += u64::from(gather(func, region, id, &picked).is_some());
                }
            }
            Some(OpKind::Scatter) => {
                if let Some(picked) = Picked::of_scatter(func, id) {
                    scatters += u64::from(scatter(func, region, id, &picked).is_some());
                }
            }
            _ => {}
        });
        func.renumber();
    }
    let detail = format!("{gathers} gathers and {scatters} scatters of one element a row are comparisons");
    Ok((hlo::verify(module)?, RewriteStep::new(NAME, gathers + scatters, detail)))
}

/// One element of each row of an array.
struct Picked {
    /// The array: what is gathered from, or what a scatter gives.
    array: TensorType,
    /// The dimension that the index is of.
    along: usize,
    /// The indices, one for each row, in the order of rows.
    indices: Value,
    index: DType,
}

/// The dimension numbers that gathers and scatters have in common.
struct Numbers<'a> {
    /// The only dimension that is addressed and dropped.
    dropped: &'a [i64],
    addressed: &'a [i64],
    window: &'a [i64],
    batching: &'a [i64],
    indices_batching: &'a [i64],
    index_vector_dim: i64,
}

impl Picked {
    fn of_gather(func: &Func, id: OpId) -> Option<Picked> {
        let op = func.op(id);
        let Some(Attr::Gather(dims)) = op.attr("dimension_numbers") else { return None };
        let numbers = Numbers {
            dropped: &dims.collapsed_slice_dims,
            addressed: &dims.start_index_map,
            window: &dims.offset_dims,
            batching: &dims.operand_batching_dims,
            indices_batching: &dims.start_indices_batching_dims,
            index_vector_dim: dims.index_vector_dim,
        };
        Picked::of(func, op.operands[0], op.operands[1], &numbers)
    }

    fn of_scatter(func: &Func, id: OpId) -> Option<Picked> {
        let op = func.op(id);
        let Some(Attr::Scatter(dims)) = op.attr("scatter_dimension_numbers") else { return None };
        let [input, indices, _] = op.operands[..] else { return None };
        let numbers = Numbers {
            dropped: &dims.inserted_window_dims,
            addressed: &dims.scatter_dims_to_operand_dims,
            window: &dims.update_window_dims,
            batching: &dims.input_batching_dims,
            indices_batching: &dims.scatter_indices_batching_dims,
            index_vector_dim: dims.index_vector_dim,
        };
        // What is added to zero, or put in its place, is the update itself.
        let body = func.region(*op.regions.first()?);
        let given = func.op(*body.ops.last()?).operands.first()?;
        let is_update = body.args.len() == 2 && body.args.last() == Some(given);
        (is_zero(func, input) && (is_update || is_sum(func, op))).then_some(())?;
        Picked::of(func, input, indices, &numbers)
    }

    fn of(func: &Func, array: Value, indices: Value, numbers: &Numbers<'_>) -> Option<Picked> {
        Picked::by_batch(func, array, indices, numbers).or_else(|| Picked::by_place(func, array, indices, numbers))
    }

    /// Index vectors that name the row too, as in `x[jnp.arange(rows), labels]`: all but the last count rows.
    fn by_place(func: &Func, array: Value, indices: Value, numbers: &Numbers<'_>) -> Option<Picked> {
        let array = plain(func, array)?;
        let along = array.dims.len().checked_sub(1)?;
        let all = 0..i64::try_from(array.dims.len()).ok()?;
        let is_all = numbers.dropped.iter().copied().eq(all.clone()) && numbers.addressed.iter().copied().eq(all);
        let is_alone = numbers.window.is_empty() && numbers.batching.is_empty();
        let joined = definition(func, indices).filter(|op| op.kind() == Some(OpKind::Concatenate))?;
        let is_joined = joined.attr("dimension").and_then(Attr::as_int) == Some(numbers.index_vector_dim)
            && numbers.index_vector_dim == along as i64
            && joined.operands.len() == array.dims.len();
        (is_all && is_alone && is_joined && along > 0).then_some(())?;
        let (&picked, places) = joined.operands.split_last()?;
        for &value in &joined.operands {
            let dims = &plain(func, value)?.dims;
            (dims.split_last()? == (&1, array.dims.get(..along)?)).then_some(())?;
        }
        places.iter().enumerate().all(|(n, &place)| counts(func, place, n, MOST_OPS)).then_some(())?;
        let index = plain(func, picked)?.element.plain()?;
        let is_wide = matches!(index, DType::I32 | DType::U32 | DType::I64);
        let is_sized = i32::try_from(*array.dims.get(along)?).is_ok_and(|size| size > 0);
        (is_wide && is_sized).then_some(Picked { array: array.clone(), along, indices: picked, index })
    }

    fn by_batch(func: &Func, array: Value, indices: Value, numbers: &Numbers<'_>) -> Option<Picked> {
        let (array, of_indices) = (plain(func, array)?, plain(func, indices)?);
        let [dropped] = *numbers.dropped else { return None };
        let is_one_element = numbers.addressed == [dropped] && numbers.window.is_empty();
        let along = usize::try_from(dropped).ok()?;
        let rest = (0..array.dims.len()).filter(|&n| n != along);
        let is_by_row = numbers.batching.iter().map(|&n| usize::try_from(n).ok()).eq(rest.map(Some))
            && numbers.indices_batching.is_sorted();
        // The dimension of index vectors has size 1 or is not there; so have all that are no rows.
        let rank = i64::try_from(of_indices.dims.len()).ok()?;
        let is_vector = |n: i64| n == numbers.index_vector_dim || numbers.indices_batching.contains(&n);
        let others = (0..rank).filter(|&n| !is_vector(n)).all(|n| of_indices.dims[n as usize] == 1);
        let index = of_indices.element.plain()?;
        let is_wide = matches!(index, DType::I32 | DType::U32 | DType::I64);
        let size = array.dims.get(along)?;
        let is_sized = i32::try_from(*size).is_ok_and(|size| size > 0);
        let sound = is_one_element && is_by_row && others && is_wide && is_sized;
        sound.then_some(Picked { array: array.clone(), along, indices, index })
    }

    /// The array's type with other elements.
    fn like(&self, dtype: DType) -> TensorType {
        TensorType::new(self.array.dims.clone(), dtype)
    }

    fn rows(&self, dtype: DType) -> TensorType {
        let rest = self.array.dims.iter().enumerate().filter(|(n, _)| *n != self.along);
        TensorType::new(rest.map(|(_, &size)| size).collect::<Vec<i64>>(), dtype)
    }
}

/// Ops that a counter of rows may be written in.
const MOST_OPS: usize = 8;

/// Whether an array counts along a dimension: it is a counter, or what indexing by one makes of it, since none is negative.
fn counts(func: &Func, value: Value, along: usize, left: usize) -> bool {
    let (Some(op), Some(left)) = (definition(func, value), left.checked_sub(1)) else { return false };
    let is_zeros = |value: Value| is_zero(func, value);
    match op.kind() {
        Some(OpKind::Iota) => op.attr("iota_dimension").and_then(Attr::as_int) == Some(along as i64),
        Some(OpKind::BroadcastInDim) => {
            let to = op.attr("broadcast_dimensions").and_then(Attr::as_i64s).unwrap_or(&[]);
            let Some(from) = to.iter().position(|&to| to == along as i64) else { return false };
            let size = |value: Value, n: usize| plain(func, value).and_then(|ty| ty.dims.get(n).copied());
            size(op.operands[0], from) == size(value, along) && counts(func, op.operands[0], from, left)
        }
        Some(OpKind::Reshape) => {
            // A dimension of size 1 more or less behind it.
            let [Some(from), Some(to)] = [op.operands[0], value].map(|value| plain(func, value)) else { return false };
            let same = from.dims.get(..=along).is_some_and(|dims| to.dims.get(..=along) == Some(dims));
            same && counts(func, op.operands[0], along, left)
        }
        Some(OpKind::Select) => {
            let [predicate, _, counter] = op.operands[..] else { return false };
            let Some(compare) = definition(func, predicate).filter(|op| op.kind() == Some(OpKind::Compare)) else {
                return false;
            };
            let is_negative = compare.attr("comparison_direction").and_then(Attr::as_keyword) == Some(Keyword::Lt)
                && compare.operands.first() == Some(&counter)
                && compare.operands.get(1).is_some_and(|&zero| is_zeros(zero));
            is_negative && counts(func, counter, along, left)
        }
        _ => false,
    }
}

/// Whether a scatter adds.
pub(super) fn is_sum(func: &Func, op: &Op) -> bool {
    let Some(&region) = op.regions.first() else { return false };
    let body = func.region(region);
    let ([add, last], [a, b]) = (&body.ops[..], &body.args[..]) else { return false };
    let (add, last) = (func.op(*add), func.op(*last));
    let is_of_both = add.operands == [*a, *b] || add.operands == [*b, *a];
    add.kind() == Some(OpKind::Add) && is_of_both && last.operands == [add.first_result]
}

/// The type of an array of known shape without encoding.
pub(super) fn plain(func: &Func, value: Value) -> Option<&TensorType> {
    let ty = func.ty(value).as_tensor()?;
    let is_plain = ty.element.plain().is_some() && ty.encoding.is_none() && ty.num_elements().is_some();
    is_plain.then_some(ty)
}

/// Whether an array is zeros, as a constant or repeated.
pub(super) fn is_zero(func: &Func, value: Value) -> bool {
    let Some(op) = definition(func, value) else { return false };
    match (op.kind(), op.attr("value")) {
        (Some(OpKind::Constant), Some(Attr::Dense(dense))) => match &dense.data {
            DenseData::Splat(bytes) => bytes.iter().all(|&byte| byte == 0),
            _ => false,
        },
        (Some(OpKind::BroadcastInDim), _) => op.operands.first().is_some_and(|&operand| is_zero(func, operand)),
        _ => false,
    }
}

/// Writes ops before another one.
pub(super) struct Before<'a> {
    pub(super) func: &'a mut Func,
    pub(super) region: Region,
    pub(super) id: OpId,
}

impl Before<'_> {
    pub(super) fn op(&mut self, kind: OpKind, operands: &[Value], attrs: Attrs, ty: TensorType) -> Value {
        emit(self.func, self.region, self.id, kind, operands, attrs, ty)
    }

    fn constant(&mut self, ty: TensorType, bytes: &[u8]) -> Option<Value> {
        let dense = Dense::splat(ty.clone(), bytes)?;
        Some(self.op(OpKind::Constant, &[], attrs([("value", Attr::Dense(Arc::new(dense)))]), ty))
    }

    pub(super) fn reshape(&mut self, value: Value, ty: TensorType) -> Value {
        if self.func.ty(value).as_tensor() == Some(&ty) {
            return value;
        }
        self.op(OpKind::Reshape, &[value], Attrs::new(), ty)
    }

    /// Rows repeated along the dimension of the index.
    fn along(&mut self, rows: Value, picked: &Picked, dtype: DType) -> Value {
        let rows = self.reshape(rows, picked.rows(dtype));
        let rank = picked.array.dims.len();
        let dims: Vec<i64> = (0..rank).filter(|&n| n != picked.along).map(|n| n as i64).collect();
        self.op(
            OpKind::BroadcastInDim,
            &[rows],
            attrs([("broadcast_dimensions", Attr::i64s(dims))]),
            picked.like(dtype),
        )
    }

    /// Where the index of a row is.
    fn is_picked(&mut self, indices: Value, picked: &Picked) -> Value {
        let indices = self.along(indices, picked, picked.index);
        let dimension = attrs([("iota_dimension", Attr::i64(picked.along as i64))]);
        let counted = self.op(OpKind::Iota, &[], dimension, picked.like(picked.index));
        let equal = attrs([("comparison_direction", Attr::Keyword(Keyword::Eq))]);
        self.op(OpKind::Compare, &[counted, indices], equal, picked.like(DType::Bool))
    }
}

pub(super) fn attrs<const N: usize>(list: [(&'static str, Attr); N]) -> Attrs {
    list.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn gather(func: &mut Func, region: Region, id: OpId, picked: &Picked) -> Option<()> {
    let dtype = picked.array.element.plain()?;
    let is_summed = dtype.is_float() || dtype.is_signed_integer() || dtype.is_unsigned_integer();
    let width = dtype.size_bytes();
    is_summed.then_some(())?;
    let last = i32::try_from(picked.array.dims.get(picked.along)? - 1).ok()?;
    let operand = func.op(id).operands[0];
    let mut before = Before { func, region, id };
    // A gather takes the nearest element where an index is outside.
    let wide = i64::from(last).to_le_bytes();
    let bytes = picked.index.size_bytes();
    let scalar = TensorType::new(Vec::new(), picked.index);
    let low = before.constant(scalar.clone(), wide.map(|_| 0).get(..bytes)?)?;
    let high = before.constant(scalar, wide.get(..bytes)?)?;
    let indices_type = before.func.ty(picked.indices).as_tensor()?.clone();
    let inside = before.op(OpKind::Clamp, &[low, picked.indices, high], Attrs::new(), indices_type);
    let is_picked = before.is_picked(inside, picked);
    let zeros = before.constant(picked.array.clone(), &vec![0; width])?;
    let selected = before.op(OpKind::Select, &[is_picked, operand, zeros], Attrs::new(), picked.array.clone());
    let zero = before.constant(TensorType::new(Vec::new(), dtype), &vec![0; width])?;
    let func = before.func;
    let body = func.add_region();
    let scalar: hlo::Type = TensorType::new(Vec::new(), dtype).into();
    let [a, b] = [0, 1].map(|_| func.add_argument(body, scalar.clone(), None));
    let add = NewOp { operands: vec![a, b], results: vec![scalar], ..NewOp::new(OpName::Known(OpKind::Add)) };
    let add = func.add_op(body, add);
    let sum = func.op(add).first_result;
    func.add_op(body, NewOp { operands: vec![sum], ..NewOp::new(OpName::Known(OpKind::Return)) });
    let reduce = NewOp {
        operands: vec![selected, zero],
        results: vec![picked.rows(dtype).into()],
        attrs: attrs([("dimensions", Attr::i64s(vec![picked.along as i64]))]),
        regions: vec![body],
        loc: func.op(id).loc.clone(),
        ..NewOp::new(OpName::Known(OpKind::Reduce))
    };
    let reduce = func.add_op(region, reduce);
    let summed = func.op(reduce).first_result;
    become_op(func, id, OpKind::Reshape, vec![summed], Attrs::new());
    Some(())
}

fn scatter(func: &mut Func, region: Region, id: OpId, picked: &Picked) -> Option<()> {
    let dtype = picked.array.element.plain()?;
    let updates = *func.op(id).operands.get(2)?;
    let mut before = Before { func, region, id };
    let is_picked = before.is_picked(picked.indices, picked);
    let updates = before.along(updates, picked, dtype);
    let zeros = before.constant(picked.array.clone(), &vec![0; dtype.size_bytes()])?;
    let func = before.func;
    func.op_mut(id).regions.clear();
    become_op(func, id, OpKind::Select, vec![is_picked, updates, zeros], Attrs::new());
    Some(())
}

#[cfg(test)]
mod tests {
    use cpu::interpret::{Interpreter, InterpreterOptions, InterpreterValue, TensorValue};

    use super::*;

    const PICK: &str = r#"
func.func @main(%x: tensor<2x3x7xf32>, %i: tensor<2x3x1xi32>, %u: tensor<2x3x1xf32>) -> (tensor<2x3x1xf32>, tensor<2x3x7xf32>) {
  %s = stablehlo.reshape %i : (tensor<2x3x1xi32>) -> tensor<2x3x1x1xi32>
  %g = "stablehlo.gather"(%x, %s) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1],
    start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false,
    slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x3x7xf32>, tensor<2x3x1x1xi32>) -> tensor<2x3x1xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %z = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2x3x7xf32>
  %p = "stablehlo.scatter"(%z, %s, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2],
    input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>,
    unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %d = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %d : tensor<f32>
  }) : (tensor<2x3x7xf32>, tensor<2x3x1x1xi32>, tensor<2x3x1xf32>) -> tensor<2x3x7xf32>
  return %g, %p : tensor<2x3x1xf32>, tensor<2x3x7xf32>
}"#;

    fn rewritten(text: &str) -> (Verified, u64) {
        let module = hlo::verify(hlo::text::parse(text).unwrap()).unwrap();
        let (module, step) = one_hot_indexing(module).unwrap();
        (module, step.changes)
    }

    fn run(module: &Verified) -> Vec<InterpreterValue> {
        run_on(module, &[vec![2, 3, 7], vec![2, 3, 1], vec![2, 3, 1]])
    }

    fn run_on(module: &Verified, dims: &[Vec<usize>; 3]) -> Vec<InterpreterValue> {
        let floats = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let x: Vec<f32> = (0..42).map(|n| n as f32 - 20.5).collect();
        // Inside, at both ends, and outside on both sides.
        let i: Vec<u8> = [0i32, 6, 3, -2, 9, 5].iter().flat_map(|i| i.to_le_bytes()).collect();
        let literal = |dtype, dims: &[usize], bytes: Vec<u8>| {
            let mut literal = tensor::Literal::zeros(dtype, dims.to_vec()).unwrap();
            literal.bytes_mut().copy_from_slice(&bytes);
            literal
        };
        let arguments = [
            literal(DType::F32, &dims[0], floats(&x)),
            literal(DType::I32, &dims[1], i),
            literal(DType::F32, &dims[2], floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ];
        let arguments = arguments.iter().map(|one| InterpreterValue::Tensor(TensorValue::from_literal(one))).collect();
        Interpreter::new(module, InterpreterOptions::default()).run("main", arguments).unwrap()
    }

    #[test]
    fn one_element_a_row_is_a_comparison() {
        let (module, changes) = rewritten(PICK);
        assert_eq!(changes, 2);
        let text = hlo::text::print(&module);
        assert!(!text.contains("gather") && !text.contains("scatter"), "{text}");
        let plain = hlo::verify(hlo::text::parse(PICK).unwrap()).unwrap();
        assert_eq!(run(&module), run(&plain));
    }

    /// `x[jnp.arange(6), i]` and its gradient.
    const PLACED: &str = r#"
func.func @main(%x: tensor<6x7xf32>, %i: tensor<6xi32>, %u: tensor<6xf32>) -> (tensor<6xf32>, tensor<6x7xf32>) {
  %n = stablehlo.iota dim = 0 : tensor<6xi32>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %os = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<i32>) -> tensor<6xi32>
  %below = stablehlo.compare LT, %n, %os, SIGNED : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
  %six = stablehlo.constant dense<6> : tensor<6xi32>
  %more = stablehlo.add %n, %six : tensor<6xi32>
  %rows = stablehlo.select %below, %more, %n : tensor<6xi1>, tensor<6xi32>
  %a = stablehlo.broadcast_in_dim %rows, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
  %b = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
  %s = stablehlo.concatenate %a, %b, dim = 1 : (tensor<6x1xi32>, tensor<6x1xi32>) -> tensor<6x2xi32>
  %g = "stablehlo.gather"(%x, %s) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1],
    index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<6x7xf32>, tensor<6x2xi32>) -> tensor<6xf32>
  %z = stablehlo.constant dense<0.0> : tensor<6x7xf32>
  %p = "stablehlo.scatter"(%z, %s, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1],
    scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %e = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %e : tensor<f32>
  }) : (tensor<6x7xf32>, tensor<6x2xi32>, tensor<6xf32>) -> tensor<6x7xf32>
  return %g, %p : tensor<6xf32>, tensor<6x7xf32>
}"#;

    #[test]
    fn rows_may_be_counted() {
        let (module, changes) = rewritten(PLACED);
        assert_eq!(changes, 2);
        let plain = hlo::verify(hlo::text::parse(PLACED).unwrap()).unwrap();
        let dims = [vec![6, 7], vec![6], vec![6]];
        assert_eq!(run_on(&module, &dims), run_on(&plain, &dims));
        // Rows in another order, another comparison.
        let reversed = PLACED.replace(
            "%a = stablehlo.broadcast_in_dim %rows",
            "%r = stablehlo.reverse %rows, dims = [0] : tensor<6xi32>\n  %a = stablehlo.broadcast_in_dim %r",
        );
        assert_eq!(rewritten(&reversed).1, 0);
        assert_eq!(rewritten(&PLACED.replace("compare LT", "compare GT")).1, 0);
    }

    #[test]
    fn others_stay() {
        // A product, something else than zeros, an array that is no constant.
        for (from, to) in
            [("%d = stablehlo.add", "%d = stablehlo.multiply"), ("dense<0.0>", "dense<1.0>"), ("\"(%z,", "\"(%x,")]
        {
            assert!(PICK.contains(from));
            assert_eq!(rewritten(&PICK.replace(from, to)).1, 1, "{to}");
        }
    }
}
