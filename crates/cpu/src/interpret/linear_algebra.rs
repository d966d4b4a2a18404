//! Linear algebra: cholesky, triangular_solve, and the factorizations that JAX asks for by custom call.

use hlo::{Attr, Keyword, OpKind, TensorType, Type};
use tensor::DType;

use super::context::{Context, Eval};
use super::contraction::complexes;
use super::eigen;
use super::matrix::{self, Matrix, Triangle, Vectors};
use super::positions;
use super::schur;
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, storage};
use crate::attributes;
use crate::error::Error;

/// Products one factorization may take, roughly: it is not interrupted in between.
const MAX_WORK: usize = 1 << 34;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::Cholesky => cholesky,
        OpKind::TriangularSolve => triangular_solve,
        _ => return None,
    })
}

/// The meaning of a custom call of this family: XLA's own targets, and LAPACK routines as JAX names them.
pub(crate) fn custom_call(target: &str) -> Option<Eval> {
    Some(match target {
        "Qr" => geqrf,
        "ProductOfElementaryHouseholderReflectors" => orgqr,
        "LuDecomposition" => getrf,
        "Eigh" => eigh,
        "tridiagonal_solve_perturbed_ffi" => perturbed_tridiagonal,
        _ => {
            // lapack_<type><routine>_ffi, the type one of s d c z.
            let routine = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
            if !routine.starts_with(['s', 'd', 'c', 'z']) {
                return None;
            }
            match &routine[1..] {
                "geqrf" => geqrf,
                "orgqr" | "ungqr" => orgqr,
                "ormqr" | "unmqr" => ormqr,
                "geqp3" => geqp3,
                "getrf" => getrf,
                "potrf" => potrf,
                "trsm" => trsm,
                "syevd" | "heevd" => syevd,
                "gesdd" | "gesvd" => gesdd,
                "gehrd" => gehrd,
                "geev" => geev,
                "gees" => gees,
                "sytrd" | "hetrd" => sytrd,
                "gtsv" => gtsv,
                _ => return None,
            }
        }
    })
}

/// Operand `n` as matrices, one for each index of its leading dimensions.
fn matrices(context: &Context<'_, '_>, n: usize) -> Result<Vec<Matrix>, Error> {
    let tensor = context.tensor(n)?;
    let &[.., rows, columns] = tensor.dims() else { return context.fail(format!("operand {n} is no matrix")) };
    let (rows, columns) = (rows as usize, columns as usize);
    let batches = tensor.dims()[..tensor.dims().len() - 2].iter().product::<i64>() as usize;
    let size = rows * columns;
    if size.saturating_mul(rows.min(columns)) > MAX_WORK {
        return Err(Error::Exhausted(format!(
            "a factorization of {rows} by {columns} is too large for the interpreter"
        )));
    }
    let values = complexes(&tensor.elements);
    Ok((0..batches).map(|b| Matrix { rows, columns, data: values[b * size..(b + 1) * size].to_vec() }).collect())
}

/// Operand `n` as vectors, one for each index of its leading dimensions.
fn vectors(context: &Context<'_, '_>, n: usize) -> Result<Vec<Vec<Complex>>, Error> {
    let tensor = context.tensor(n)?;
    let Some(&size) = tensor.dims().last() else { return context.fail(format!("operand {n} is no vector")) };
    let batches = tensor.dims()[..tensor.dims().len() - 1].iter().product::<i64>() as usize;
    let (values, size) = (complexes(&tensor.elements), size as usize);
    Ok((0..batches).map(|b| values[b * size..(b + 1) * size].to_vec()).collect())
}

/// Result `n` from its elements in order.
fn result(context: &Context<'_, '_>, n: usize, values: Vec<Complex>) -> Result<InterpreterValue, Error> {
    let Some(ty) = result_types(context).into_iter().nth(n).and_then(Type::as_tensor) else {
        return context.fail(format!("result {n} is no tensor"));
    };
    let dtype = storage(&ty.element);
    let count = positions::count(context, &ty.dims)?;
    if values.len() != count {
        return context.fail(format!("result {n} has {} elements, {count} are written", values.len()));
    }
    let elements = if dtype.is_complex() {
        Elements::Complex(values.into_iter().map(|x| x.rounded(dtype)).collect())
    } else if dtype.is_float() {
        Elements::Float(values.into_iter().map(|x| round(dtype, x.re)).collect())
    } else {
        Elements::Int(values.into_iter().map(|x| x.re as i128).collect())
    };
    Ok(TensorValue { ty: TensorType::new(ty.dims.clone(), ty.element.clone()), elements }.into())
}

/// All results, each the batches' parts one after another; what a routine does not compute is zero.
fn results(context: &Context<'_, '_>, batches: Vec<Vec<Vec<Complex>>>) -> Result<Vec<InterpreterValue>, Error> {
    let types = result_types(context);
    let values = (0..types.len())
        .map(|n| {
            let mut values: Vec<Complex> = batches.iter().filter_map(|b| b.get(n)).flatten().copied().collect();
            if values.is_empty() {
                let dims = types[n].as_tensor().map_or(&[][..], |ty| &ty.dims);
                values = vec![Complex::default(); positions::count(context, dims)?];
            }
            result(context, n, values)
        })
        .collect::<Result<Vec<_>, _>>()?;
    match context.op.num_results == 1 && matches!(context.result_type(0), Type::Tuple(_)) {
        true => Ok(vec![InterpreterValue::Tuple(values)]),
        false => Ok(values),
    }
}

/// Types of the results; a single tuple stands for its members.
fn result_types<'r>(context: &Context<'_, 'r>) -> Vec<&'r Type> {
    let types: Vec<&Type> = (0..context.op.num_results as usize).map(|n| context.result_type(n)).collect();
    match types[..] {
        [Type::Tuple(members)] => members.iter().collect(),
        _ => types,
    }
}

fn real(value: f64) -> Complex {
    Complex::new(value, 0.0)
}

fn reals(values: impl IntoIterator<Item = f64>) -> Vec<Complex> {
    values.into_iter().map(real).collect()
}

/// A letter or number of the call's configuration.
fn setting(context: &Context<'_, '_>, name: &str) -> Option<i64> {
    ["mhlo.backend_config", "backend_config"].iter().find_map(|config| match context.op.attr(config) {
        Some(Attr::Dict(dict)) => dict.get(name).and_then(Attr::as_int),
        _ => None,
    })
}

fn is_letter(context: &Context<'_, '_>, name: &str, letter: char) -> bool {
    setting(context, name) == Some(i64::from(u32::from(letter)))
}

fn has_flag(context: &Context<'_, '_>, name: &str) -> bool {
    ["mhlo.backend_config", "backend_config"].iter().any(|config| match context.op.attr(config) {
        Some(Attr::Dict(dict)) => dict.get(name).and_then(Attr::as_bool) == Some(true),
        _ => false,
    })
}

fn uplo(context: &Context<'_, '_>) -> Triangle {
    if is_letter(context, "uplo", 'U') { Triangle::Upper } else { Triangle::Lower }
}

fn cholesky(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let triangle = if attributes::flag(context.op, "lower") { Triangle::Lower } else { Triangle::Upper };
    let parts = matrices(context, 0)?.iter().map(|a| vec![factor(a, triangle).0.data]).collect();
    results(context, parts)
}

/// The Cholesky factor in a triangle, the rest zero, and LAPACK's `info`; NaN where there is none.
fn factor(a: &Matrix, triangle: Triangle) -> (Matrix, usize) {
    let lower = if triangle == Triangle::Lower { a.clone() } else { a.adjoint() };
    let nan = |n: usize| Matrix::new(n, n, |i, j| if j <= i { real(f64::NAN) } else { real(0.0) });
    let (l, info) = match matrix::cholesky(&lower) {
        Ok(l) => (l, 0),
        Err(info) => (nan(a.rows), info),
    };
    (if triangle == Triangle::Lower { l } else { l.adjoint() }, info)
}

fn potrf(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let triangle = uplo(context);
    let each = |a: &Matrix| {
        let (l, info) = factor(a, triangle);
        // The other triangle keeps what it held.
        let is_inside = |i: usize, j: usize| if triangle == Triangle::Lower { j <= i } else { j >= i };
        let out = Matrix::new(a.rows, a.columns, |i, j| if is_inside(i, j) { l.at(i, j) } else { a.at(i, j) });
        vec![out.data, vec![real(info as f64)]]
    };
    let parts = matrices(context, 0)?.iter().map(each).collect();
    results(context, parts)
}

/// What is done to the triangular matrix before solving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Transposed,
    Adjoint,
}

struct Triangular {
    triangle: Triangle,
    form: Form,
    is_left: bool,
    is_unit: bool,
}

impl Triangular {
    fn solve(&self, a: &Matrix, b: &Matrix) -> Matrix {
        let a = Matrix::new(a.rows, a.columns, |i, j| if i == j && self.is_unit { real(1.0) } else { a.at(i, j) });
        let flipped = if self.triangle == Triangle::Lower { Triangle::Upper } else { Triangle::Lower };
        let (t, triangle) = match self.form {
            Form::Plain => (a, self.triangle),
            Form::Transposed => (a.transpose(), flipped),
            Form::Adjoint => (a.adjoint(), flipped),
        };
        if self.is_left {
            return matrix::solve_triangular(&t, triangle, b);
        }
        let triangle = if triangle == Triangle::Lower { Triangle::Upper } else { Triangle::Lower };
        matrix::solve_triangular(&t.transpose(), triangle, &b.transpose()).transpose()
    }

    fn eval(&self, context: &Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
        let (a, b) = (matrices(context, 0)?, matrices(context, 1)?);
        let fits =
            |(a, b): (&Matrix, &Matrix)| a.rows == a.columns && a.rows == if self.is_left { b.rows } else { b.columns };
        if a.len() != b.len() || !a.iter().zip(&b).all(fits) {
            return context.fail("the operands do not fit");
        }
        results(context, a.iter().zip(&b).map(|(a, b)| vec![self.solve(a, b).data]).collect())
    }
}

fn triangular_solve(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let op = context.op;
    let form = match attributes::keyword(op, "transpose_a")? {
        Keyword::Transposed => Form::Transposed,
        Keyword::Adjoint => Form::Adjoint,
        _ => Form::Plain,
    };
    let triangle = if attributes::flag(op, "lower") { Triangle::Lower } else { Triangle::Upper };
    let (is_left, is_unit) = (attributes::flag(op, "left_side"), attributes::flag(op, "unit_diagonal"));
    Triangular { triangle, form, is_left, is_unit }.eval(context)
}

fn trsm(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let form = if is_letter(context, "trans_x", 'T') {
        Form::Transposed
    } else if is_letter(context, "trans_x", 'C') {
        Form::Adjoint
    } else {
        Form::Plain
    };
    let is_left = !is_letter(context, "side", 'R');
    let is_unit = is_letter(context, "diag", 'U');
    Triangular { triangle: uplo(context), form, is_left, is_unit }.eval(context)
}

fn geqrf(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let each = |a: &Matrix| {
        let (packed, taus) = matrix::qr(a);
        vec![packed.data, taus]
    };
    let parts = matrices(context, 0)?.iter().map(each).collect();
    results(context, parts)
}

fn orgqr(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (packed, taus) = (matrices(context, 0)?, vectors(context, 1)?);
    let parts = packed.iter().zip(&taus).map(|(a, taus)| vec![matrix::reflections(a, taus).data]).collect();
    results(context, parts)
}

/// The product of an orthogonal matrix, kept as reflections, and another matrix.
fn ormqr(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (packed, taus, others) = (matrices(context, 0)?, vectors(context, 1)?, matrices(context, 2)?);
    let (is_left, is_adjoint) = (has_flag(context, "left"), has_flag(context, "transpose"));
    let mut parts = Vec::new();
    for ((packed, taus), c) in packed.iter().zip(&taus).zip(&others) {
        let n = packed.rows;
        if n != if is_left { c.rows } else { c.columns } {
            return context.fail("the operands do not fit");
        }
        let columns = packed.columns;
        let square = Matrix::new(n, n, |i, j| if j < columns { packed.at(i, j) } else { real(0.0) });
        let q = matrix::reflections(&square, taus);
        let q = if is_adjoint { q.adjoint() } else { q };
        parts.push(vec![if is_left { q.times(c) } else { c.times(&q) }.data]);
    }
    results(context, parts)
}

fn geqp3(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let each = |a: &Matrix| {
        let (packed, order, taus) = matrix::pivoted_qr(a);
        vec![packed.data, reals(order.into_iter().map(|j| (j + 1) as f64)), taus]
    };
    let parts = matrices(context, 0)?.iter().map(each).collect();
    results(context, parts)
}

/// LU: LAPACK counts pivots from 1 and reports `info`; XLA's own call counts from 0 and gives the permutation.
fn getrf(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let is_lapack = context.op.attr("call_target_name").and_then(Attr::as_str) != Some("LuDecomposition");
    let each = |a: &Matrix| {
        let (lu, pivots, info) = matrix::lu(a);
        if is_lapack {
            return vec![lu.data, reals(pivots.iter().map(|&p| (p + 1) as f64)), vec![real(info as f64)]];
        }
        let mut order: Vec<usize> = (0..a.rows).collect();
        pivots.iter().enumerate().for_each(|(k, &p)| order.swap(k, p));
        vec![lu.data, reals(pivots.iter().map(|&p| p as f64)), reals(order.into_iter().map(|i| i as f64))]
    };
    let parts = matrices(context, 0)?.iter().map(each).collect();
    results(context, parts)
}

/// The Hermitian matrix one triangle of `a` stands for.
fn hermitian(a: &Matrix, triangle: Triangle) -> Matrix {
    Matrix::new(a.rows, a.columns, |i, j| {
        let is_inside = if triangle == Triangle::Lower { j < i } else { j > i };
        match i == j {
            true => real(a.at(i, i).re),
            false if is_inside => a.at(i, j),
            false => a.at(j, i).conjugate(),
        }
    })
}

/// Fails where a routine of square matrices gets another one.
fn square(context: &Context<'_, '_>) -> Result<Vec<Matrix>, Error> {
    let all = matrices(context, 0)?;
    if all.iter().any(|a| a.rows != a.columns) { context.fail("the matrix is not square") } else { Ok(all) }
}

fn syevd(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let triangle = uplo(context);
    let each = |a: &Matrix| {
        let (values, v) = matrix::hermitian_eigen(&hermitian(a, triangle));
        vec![v.data, reals(values), vec![real(0.0)]]
    };
    let parts = square(context)?.iter().map(each).collect();
    results(context, parts)
}

/// XLA's own call: `backend_config` is "lower,sort,…"; it gives vectors and values, or values and vectors.
fn eigh(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let config = context.op.attr("backend_config").and_then(Attr::as_str).unwrap_or_default();
    let triangle = if config.starts_with('0') { Triangle::Upper } else { Triangle::Lower };
    let ranks: Vec<usize> = result_types(context).iter().map(|ty| ty.as_tensor().map_or(0, |ty| ty.rank())).collect();
    let is_vectors_first = matches!(ranks[..], [first, second, ..] if first > second);
    let each = |a: &Matrix| {
        let (values, v) = matrix::hermitian_eigen(&hermitian(a, triangle));
        if is_vectors_first { vec![v.data, reals(values)] } else { vec![reals(values), v.data] }
    };
    let parts = square(context)?.iter().map(each).collect();
    results(context, parts)
}

fn gesdd(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let vectors = if is_letter(context, "mode", 'A') { Vectors::Full } else { Vectors::Thin };
    let has_vectors = !is_letter(context, "mode", 'N');
    let matrices = matrices(context, 0)?;
    let longest = matrices.first().map_or(0, |a| a.rows.max(a.columns));
    if vectors == Vectors::Full && longest.saturating_pow(3) > MAX_WORK {
        return Err(Error::Exhausted(format!("{longest} full singular vectors are too many for the interpreter")));
    }
    let each = |a: &Matrix| {
        let (values, u, vt) = matrix::svd(a, vectors);
        let (u, vt) = if has_vectors { (u.data, vt.data) } else { (Vec::new(), Vec::new()) };
        vec![a.data.clone(), reals(values), u, vt, vec![real(0.0)]]
    };
    let parts = matrices.iter().map(each).collect();
    results(context, parts)
}

fn gehrd(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let each = |a: &Matrix| {
        let (packed, taus) = matrix::hessenberg(a);
        vec![packed.data, taus, vec![real(0.0)]]
    };
    let parts = square(context)?.iter().map(each).collect();
    results(context, parts)
}

/// Eigenvalues and eigenvectors of any matrix. Real input gives real and imaginary parts of the values apart.
fn geev(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let is_real = !context.tensor(0)?.dtype().is_complex();
    let (left, right) = (is_letter(context, "compute_left", 'V'), is_letter(context, "compute_right", 'V'));
    let each = |a: &Matrix| {
        let found = if is_real { eigen::of_real(a) } else { eigen::of_complex(a) };
        let info = vec![real(if found.is_converged { 0.0 } else { 1.0 })];
        let vl = if left { found.left.data } else { Vec::new() };
        let vr = if right { found.vectors.data } else { Vec::new() };
        match is_real {
            true => {
                vec![reals(found.values.iter().map(|x| x.re)), reals(found.values.iter().map(|x| x.im)), vl, vr, info]
            }
            false => vec![found.values, vl, vr, info],
        }
    };
    let parts = square(context)?.iter().map(each).collect();
    results(context, parts)
}

/// The Schur form, its vectors, the eigenvalues, how many of them were selected (none: nothing sorts), `info`.
fn gees(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let is_real = !context.tensor(0)?.dtype().is_complex();
    let has_vectors = is_letter(context, "mode", 'V');
    let epsilon = epsilon(context.tensor(0)?);
    let each = |a: &Matrix| {
        let (t, z, values, is_converged) = if is_real {
            let found = schur::real_schur(a, epsilon);
            (found.t, found.z, found.values, found.is_converged)
        } else {
            let found = schur::complex_schur(a, epsilon);
            let values = (0..a.rows).map(|i| found.t.at(i, i)).collect();
            (found.t, found.z, values, found.is_converged)
        };
        let z = if has_vectors { z.data } else { Vec::new() };
        let info = vec![real(if is_converged { 0.0 } else { 1.0 })];
        let none = vec![real(0.0)];
        match is_real {
            true => {
                let (re, im) = (reals(values.iter().map(|x| x.re)), reals(values.iter().map(|x| x.im)));
                vec![t.data, z, re, im, none, info]
            }
            false => vec![t.data, z, values, none, info],
        }
    };
    let parts = square(context)?.iter().map(each).collect();
    results(context, parts)
}

/// Reduction of a Hermitian matrix to three diagonals: reflections beside them, the diagonals, the scalars, `info`.
fn sytrd(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let triangle = uplo(context);
    let each = |a: &Matrix| {
        let n = a.rows;
        // The upper triangle's reduction is that of the lower one, read from the other end.
        let turned = |i: usize| if triangle == Triangle::Lower { i } else { n - 1 - i };
        let whole = hermitian(a, triangle);
        let (packed, taus) = matrix::hessenberg(&Matrix::new(n, n, |i, j| whole.at(turned(i), turned(j))));
        let (d, e) = (|i: usize| packed.at(i, i), |i: usize| packed.at(i + 1, i));
        let off = n.saturating_sub(1);
        let back = |i: usize| if triangle == Triangle::Lower { i } else { off - 1 - i };
        let out = Matrix::new(n, n, |i, j| {
            let is_inside = if triangle == Triangle::Lower { j <= i } else { j >= i };
            if is_inside { packed.at(turned(i), turned(j)) } else { a.at(i, j) }
        });
        vec![
            out.data,
            (0..n).map(|i| d(turned(i))).collect(),
            (0..off).map(|i| e(back(i))).collect(),
            (0..off).map(|i| taus[back(i)]).collect(),
            vec![real(0.0)],
        ]
    };
    let parts = square(context)?.iter().map(each).collect();
    results(context, parts)
}

/// A tridiagonal system: `dl`, `d`, `du` and the right sides; the diagonals come back as LAPACK leaves them: used up.
fn gtsv(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let parts = tridiagonal_systems(context, Pivots::AsTheyAre)?;
    results(context, parts)
}

/// The same with pivots that are nearly zero moved away from it, and only the solutions as results.
fn perturbed_tridiagonal(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let relative = epsilon(context.tensor(1)?);
    let parts = tridiagonal_systems(context, Pivots::AtLeast { relative })?;
    results(context, parts.into_iter().map(|mut part| vec![part.swap_remove(3)]).collect())
}

/// Distance from 1 to the next number of the precision a matrix is in.
fn epsilon(tensor: &TensorValue) -> f64 {
    match tensor.dtype() {
        DType::F64 | DType::C128 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// What becomes of pivots that are nearly zero.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pivots {
    AsTheyAre,
    /// At least this fraction of the largest entry of the triangle.
    AtLeast {
        relative: f64,
    },
}

fn tridiagonal_systems(context: &Context<'_, '_>, pivots: Pivots) -> Result<Vec<Vec<Vec<Complex>>>, Error> {
    let (dl, d, du) = (vectors(context, 0)?, vectors(context, 1)?, vectors(context, 2)?);
    let b = matrices(context, 3)?;
    let mut parts = Vec::new();
    for (n, b) in b.iter().enumerate() {
        let (Some(dl), Some(d), Some(du)) = (dl.get(n), d.get(n), du.get(n)) else {
            return context.fail("the operands do not fit");
        };
        let size = d.len();
        // JAX pads the lower diagonal in front; LAPACK's has one element less and starts at once.
        let shift = usize::from(dl.len() == size);
        if b.rows != size || du.len() + 1 < size || dl.len() + 1 < size {
            return context.fail("the operands do not fit");
        }
        let Some((x, info)) = tridiagonal(&dl[shift.min(dl.len())..], d, du, b, pivots) else {
            return context.fail("the operands do not fit");
        };
        parts.push(vec![dl.clone(), d.clone(), du.clone(), x.data, vec![real(info as f64)]]);
    }
    Ok(parts)
}

/// Gaussian elimination of three diagonals with partial pivoting, which fills a second upper one.
fn tridiagonal(dl: &[Complex], d: &[Complex], du: &[Complex], b: &Matrix, pivots: Pivots) -> Option<(Matrix, usize)> {
    let n = d.len();
    let at = |list: &[Complex], i: usize| list.get(i).copied().unwrap_or_default();
    // Row i holds the entries of columns i, i+1 and i+2 once it is reached.
    let mut rows: Vec<[Complex; 3]> =
        (0..n).map(|i| [d[i], if i + 1 < n { at(du, i) } else { real(0.0) }, real(0.0)]).collect();
    let mut x = b.clone();
    let mut info = 0;
    for i in 0..n.saturating_sub(1) {
        let mut lower = [at(dl, i), rows[i + 1][0], rows[i + 1][1]];
        if lower[0].magnitude() > rows[i][0].magnitude() {
            std::mem::swap(&mut rows[i], &mut lower);
            for j in 0..x.columns {
                let (p, q) = (x.at(i, j), x.at(i + 1, j));
                x.set(i, j, q);
                x.set(i + 1, j, p);
            }
        }
        let factor = if lower[0] == real(0.0) { real(0.0) } else { lower[0].over(rows[i][0]) };
        rows[i + 1] = [lower[1].minus(factor.times(rows[i][1])), lower[2].minus(factor.times(rows[i][2])), real(0.0)];
        for j in 0..x.columns {
            x.set(i + 1, j, x.at(i + 1, j).minus(factor.times(x.at(i, j))));
        }
    }
    if let Pivots::AtLeast { relative } = pivots {
        let largest = rows.iter().flatten().map(|x| x.magnitude()).fold(0.0, f64::max);
        let least = relative * if largest > 0.0 { largest } else { 1.0 };
        for pivot in rows.iter_mut().map(|row| &mut row[0]).filter(|pivot| pivot.magnitude() < least) {
            *pivot = real(least.copysign(pivot.re));
        }
    }
    for i in (0..n).rev() {
        if rows[i][0] == real(0.0) && info == 0 {
            info = i + 1;
        }
        for j in 0..x.columns {
            let mut value = x.at(i, j);
            for (k, entry) in rows[i].iter().enumerate().skip(1).filter(|(k, _)| i + k < n) {
                value = value.minus(entry.times(x.at(i + k, j)));
            }
            x.set(i, j, value.over(rows[i][0]));
        }
    }
    Some((x, info))
}
