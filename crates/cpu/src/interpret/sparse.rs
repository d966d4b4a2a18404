//! Sparse matmuls, as JAX asks for them by custom call.

use hlo::TensorType;
use tensor::DType;

use super::context::{Context, Eval};
use super::contraction::complexes;
use super::positions;
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, wrap};
use crate::error::Error;

/// Columns of a row that are computed between two looks at whether to stop.
const POLL_TERMS: usize = 1 << 16;

/// The meaning of a custom call of this family.
pub(crate) fn custom_call(target: &str) -> Option<Eval> {
    Some(match target {
        "cpu_csr_sparse_dense_ffi" => csr_matmul,
        _ => return None,
    })
}

/// A matrix in compressed sparse rows: row `r` has the values `starts[r]..starts[r + 1]`, each in its column.
struct Rows {
    starts: Vec<usize>,
    columns: Vec<usize>,
}

impl Rows {
    /// Checks every number that says where to read. Values behind the last row belong to none, nor do their columns.
    fn read(context: &Context<'_, '_>, num_columns: usize) -> Result<Rows, Error> {
        let (values, starts, columns) = (context.tensor(0)?.elements.len(), context.tensor(1)?, context.tensor(2)?);
        if columns.elements.len() != values {
            return context.fail(format!("{values} values have {} columns", columns.elements.len()));
        }
        let starts: Vec<usize> =
            starts.ints()?.into_iter().map(|start| usize::try_from(start).unwrap_or(usize::MAX)).collect();
        let mut last = 0;
        for (row, &start) in starts.iter().enumerate() {
            if start < last || start > values {
                return context.fail(format!(
                    "row {row} starts at value {start}, where the row before starts at {last} and there are {values}"
                ));
            }
            last = start;
        }
        let (first, last) = (starts.first().copied().unwrap_or(0), last);
        let mut places = vec![0; values];
        for (at, column) in columns.ints()?.into_iter().enumerate().take(last).skip(first) {
            match usize::try_from(column) {
                Ok(place) if place < num_columns => places[at] = place,
                _ => return context.fail(format!("value {at} is in column {column} of {num_columns}")),
            }
        }
        Ok(Rows { starts, columns: places })
    }

    /// The product with a dense matrix of `width` columns, row by row: `term` adds the product of a value and an element
    /// of the dense matrix, both by their place.
    fn times<T: Clone>(
        &self,
        context: &Context<'_, '_>,
        width: usize,
        zero: &T,
        term: impl Fn(&T, usize, usize) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut product = Vec::new();
        let mut since_poll = 0;
        for row in self.starts.windows(2) {
            let at = product.len();
            product.resize(at + width, zero.clone());
            for value in row[0]..row[1] {
                let from = self.columns[value] * width;
                for (n, sum) in product[at..].iter_mut().enumerate() {
                    *sum = term(sum, value, from + n);
                }
                since_poll += width;
                if since_poll > POLL_TERMS {
                    context.run.poll()?;
                    since_poll = 0;
                }
            }
        }
        Ok(product)
    }
}

/// Operands are the values, where rows start, the columns, and a dense matrix or vector.
fn csr_matmul(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    if context.op.operands.len() != 4 || context.op.num_results != 1 {
        return context.fail("a sparse matmul has four operands and one result");
    }
    let (values, starts, columns, dense) =
        (context.tensor(0)?, context.tensor(1)?, context.tensor(2)?, context.tensor(3)?);
    let is_index = |tensor: &TensorValue| matches!(tensor.dtype(), DType::I32 | DType::I64) && tensor.dims().len() == 1;
    if !is_index(starts) || !is_index(columns) || values.dims().len() != 1 {
        return context.fail("values, row starts and columns are vectors, the latter two of i32 or i64");
    }
    let ty = context.result_tensor(0)?;
    let dtype = values.dtype();
    let is_plain = |element: &hlo::ElementType| element.plain() == Some(dtype);
    let is_known = matches!(dtype, DType::I32 | DType::I64 | DType::F32 | DType::F64 | DType::C64 | DType::C128);
    if !is_known || ![&values.ty.element, &dense.ty.element, &ty.element].into_iter().all(is_plain) {
        return context.fail("values, dense matrix and result are of one type: i32, i64, f32, f64 or complex of those");
    }
    let (&[height, ..], 1 | 2) = (dense.dims(), dense.dims().len()) else {
        return context.fail(format!("the dense operand has sizes {:?}, not those of a matrix", dense.dims()));
    };
    let num_rows = starts.elements.len().saturating_sub(1) as i64;
    let dims: Vec<i64> = [num_rows].into_iter().chain(dense.dims().get(1).copied()).collect();
    if dims != ty.dims {
        return context.fail(format!("the result has sizes {:?}, the product {dims:?}", ty.dims));
    }
    positions::count(context, &dims)?;
    let width = dense.dims().get(1).map_or(1, |&width| width as usize);
    let rows = Rows::read(context, height as usize)?;
    let elements = match (&values.elements, &dense.elements) {
        (Elements::Int(a), Elements::Int(b)) => {
            let term = |sum: &i128, i: usize, j: usize| wrap(dtype, sum.wrapping_add(a[i].wrapping_mul(b[j])));
            Elements::Int(rows.times(context, width, &0, term)?)
        }
        (Elements::Float(a), Elements::Float(b)) => {
            let sums = rows.times(context, width, &0.0, |sum, i, j| sum + a[i] * b[j])?;
            Elements::Float(sums.into_iter().map(|sum| round(dtype, sum)).collect())
        }
        (a, b) => {
            let (a, b) = (complexes(a), complexes(b));
            let term = |sum: &Complex, i: usize, j: usize| sum.plus(a[i].times(b[j]));
            let sums = rows.times(context, width, &Complex::default(), term)?;
            Elements::Complex(sums.into_iter().map(|sum| sum.rounded(dtype)).collect())
        }
    };
    Ok(vec![TensorValue { ty: TensorType::new(dims, dtype), elements }.into()])
}
