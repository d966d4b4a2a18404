//! Rows added to an array by index: a scatter-add becomes a matmul with one-hot rows.
//!
//! That is the gradient of an embedding. A TPU scatters row after row; the matrix units take all rows at once, and the comparison that
//! makes the one-hot matrix fuses with the matmul. Rows enter as bf16, the sum stays f32.

use std::sync::Arc;

use hlo::dims::DotDims;
use hlo::{Attr, Attrs, Func, Keyword, OpId, OpKind, Region, TensorType, Verified};
use tensor::DType;

use super::edit::{become_op, visit_ops};
use super::one_hot::{Before, attrs, is_sum, is_zero, plain};
use super::step::RewriteStep;
use crate::error::CompileError;

const NAME: &str = "one_hot_rows";

/// Rewrites scatters that add rows.
pub fn one_hot_rows(module: Verified) -> Result<(Verified, RewriteStep), CompileError> {
    let mut module = module.into_inner();
    let mut changed = 0;
    for func in &mut module.funcs {
        visit_ops(func, |func, region, id| {
            if let Some(added) = Added::of(func, id) {
                changed += u64::from(matmul(func, region, id, &added).is_some());
            }
        });
        func.renumber();
    }
    let detail = format!("{changed} scatters that add rows are matmuls with one-hot rows");
    Ok((hlo::verify(module)?, RewriteStep::new(NAME, changed, detail)))
}

/// Rows that are added to a table.
struct Added {
    table: TensorType,
    index: DType,
    /// How many rows are added, and how many numbers each has.
    rows: i64,
    width: i64,
}

impl Added {
    fn of(func: &Func, id: OpId) -> Option<Added> {
        let op = func.op(id);
        let Some(Attr::Scatter(dims)) = op.attr("scatter_dimension_numbers") else { return None };
        let [input, indices, updates] = op.operands[..] else { return None };
        let (table, indices, updates) = (plain(func, input)?, plain(func, indices)?, plain(func, updates)?);
        let is_float = matches!(table.element.plain()?, DType::F32 | DType::BF16);
        // Whole rows of the first dimension, behind all dimensions of the indices.
        let inner = table.dims.len().checked_sub(1)?;
        let outer = i64::try_from(updates.dims.len().checked_sub(inner)?).ok()?;
        let behind = (outer..).take(inner);
        let is_rows = dims.inserted_window_dims == [0]
            && dims.scatter_dims_to_operand_dims == [0]
            && dims.input_batching_dims.is_empty()
            && dims.update_window_dims.iter().copied().eq(behind)
            && updates.dims.get(usize::try_from(outer).ok()?..) == table.dims.get(1..);
        // One number for each row: the dimension of index vectors is the last one, or is not there.
        let rank = i64::try_from(indices.dims.len()).ok()?;
        let is_index =
            dims.index_vector_dim == outer && (rank == outer || rank == outer + 1 && indices.dims.last() == Some(&1));
        let index = indices.element.plain()?;
        let is_wide = matches!(index, DType::I32 | DType::U32 | DType::I64);
        let product = |dims: &[i64]| dims.iter().try_fold(1i64, |product, &size| product.checked_mul(size));
        let (rows, width) =
            (product(updates.dims.get(..usize::try_from(outer).ok()?)?)?, product(table.dims.get(1..)?)?);
        let size = *table.dims.first()?;
        let is_sized = i32::try_from(size).is_ok() && size > 0 && rows > 0 && width > 0;
        let sound = is_float && is_rows && is_index && is_wide && is_sized && is_sum(func, op);
        sound.then(|| Added { table: table.clone(), index, rows, width })
    }
}

fn matmul(func: &mut Func, region: Region, id: OpId, added: &Added) -> Option<()> {
    let dtype = added.table.element.plain()?;
    let size = *added.table.dims.first()?;
    let [input, indices, updates] = func.op(id).operands[..] else { return None };
    let is_alone = is_zero(func, input);
    let mut before = Before { func, region, id };
    let one_hot = vec![added.rows, size];
    let indices = before.reshape(indices, TensorType::new(vec![added.rows], added.index));
    let along = attrs([("broadcast_dimensions", Attr::i64s(vec![0]))]);
    let indices = before.op(OpKind::BroadcastInDim, &[indices], along, TensorType::new(one_hot.clone(), added.index));
    let dimension = attrs([("iota_dimension", Attr::i64(1))]);
    let counted = before.op(OpKind::Iota, &[], dimension, TensorType::new(one_hot.clone(), added.index));
    let equal = attrs([("comparison_direction", Attr::Keyword(Keyword::Eq))]);
    let is_here = before.op(OpKind::Compare, &[counted, indices], equal, TensorType::new(one_hot.clone(), DType::Bool));
    let ones = before.op(OpKind::Convert, &[is_here], Attrs::new(), TensorType::new(one_hot, DType::BF16));
    let flat = vec![added.rows, added.width];
    let rows = before.reshape(updates, TensorType::new(flat.clone(), dtype));
    let rows = match dtype {
        DType::BF16 => rows,
        _ => before.op(OpKind::Convert, &[rows], Attrs::new(), TensorType::new(flat, DType::BF16)),
    };
    let dot = DotDims { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDims::default() };
    let dot = attrs([("dot_dimension_numbers", Attr::Dot(Arc::new(dot)))]);
    let sum = before.op(OpKind::DotGeneral, &[ones, rows], dot, TensorType::new(vec![size, added.width], DType::F32));
    let sum = match dtype {
        DType::F32 => sum,
        _ => before.op(OpKind::Convert, &[sum], Attrs::new(), TensorType::new(vec![size, added.width], dtype)),
    };
    let func = if is_alone {
        let func = before.func;
        become_op(func, id, OpKind::Reshape, vec![sum], Attrs::new());
        func
    } else {
        let sum = before.reshape(sum, added.table.clone());
        let func = before.func;
        become_op(func, id, OpKind::Add, vec![input, sum], Attrs::new());
        func
    };
    func.op_mut(id).regions.clear();
    Some(())
}

#[cfg(test)]
mod tests {
    use cpu::interpret::{Interpreter, InterpreterOptions, InterpreterValue, TensorValue};

    use super::*;

    const ROWS: &str = r#"
func.func @main(%x: tensor<5x2xf32>, %i: tensor<2x3x1xi32>, %u: tensor<2x3x2xf32>) -> tensor<5x2xf32> {
  %p = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %d = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %d : tensor<f32>
  }) : (tensor<5x2xf32>, tensor<2x3x1xi32>, tensor<2x3x2xf32>) -> tensor<5x2xf32>
  return %p : tensor<5x2xf32>
}"#;

    fn rewritten(text: &str) -> (Verified, u64) {
        let module = hlo::verify(hlo::text::parse(text).unwrap()).unwrap();
        let (module, step) = one_hot_rows(module).unwrap();
        (module, step.changes)
    }

    fn run(module: &Verified) -> Vec<InterpreterValue> {
        let tensor = |dtype, dims: &[usize], bytes: Vec<u8>| {
            let mut literal = tensor::Literal::zeros(dtype, dims.to_vec()).unwrap();
            literal.bytes_mut().copy_from_slice(&bytes);
            InterpreterValue::Tensor(TensorValue::from_literal(&literal))
        };
        let floats =
            |count: i16| (0..count).flat_map(|n| (f32::from(n) * 0.25 - 1.0).to_le_bytes()).collect::<Vec<u8>>();
        // Rows that meet, and rows outside on both sides.
        let indices = [0i32, 4, 4, -1, 5, 2].iter().flat_map(|i| i.to_le_bytes()).collect();
        let arguments = vec![
            tensor(DType::F32, &[5, 2], floats(10)),
            tensor(DType::I32, &[2, 3, 1], indices),
            tensor(DType::F32, &[2, 3, 2], floats(12)),
        ];
        Interpreter::new(module, InterpreterOptions::default()).run("main", arguments).unwrap()
    }

    #[test]
    fn added_rows_are_a_matmul() {
        let (module, changes) = rewritten(ROWS);
        assert_eq!(changes, 1);
        assert!(hlo::text::print(&module).contains("dot_general"));
        // All numbers are bf16, so the sums are exact.
        assert_eq!(run(&module), run(&hlo::verify(hlo::text::parse(ROWS).unwrap()).unwrap()));
        assert_eq!(rewritten(&ROWS.replace("%d = stablehlo.add", "%d = stablehlo.maximum")).1, 0);
    }
}
