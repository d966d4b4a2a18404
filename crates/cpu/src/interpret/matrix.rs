//! Dense factorizations in double precision: plain textbook algorithms, one matrix at a time.

use super::value::Complex;

/// A matrix in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) data: Vec<Complex>,
}

const ONE: Complex = Complex { re: 1.0, im: 0.0 };
const ZERO: Complex = Complex { re: 0.0, im: 0.0 };
/// Sweeps of a Jacobi iteration; it converges quadratically, in about ten.
const MAX_SWEEPS: usize = 60;

impl Matrix {
    pub(crate) fn new(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> Complex) -> Matrix {
        let data = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
        Matrix { rows, columns, data }
    }

    pub(crate) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, data: vec![ZERO; rows * columns] }
    }

    pub(crate) fn identity(n: usize) -> Matrix {
        Matrix::new(n, n, |i, j| if i == j { ONE } else { ZERO })
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> Complex {
        self.data[i * self.columns + j]
    }

    pub(crate) fn set(&mut self, i: usize, j: usize, value: Complex) {
        self.data[i * self.columns + j] = value;
    }

    pub(crate) fn transpose(&self) -> Matrix {
        Matrix::new(self.columns, self.rows, |i, j| self.at(j, i))
    }

    pub(crate) fn adjoint(&self) -> Matrix {
        Matrix::new(self.columns, self.rows, |i, j| self.at(j, i).conjugate())
    }

    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        Matrix::new(self.rows, other.columns, |i, j| {
            (0..self.columns).fold(ZERO, |sum, k| sum.plus(self.at(i, k).times(other.at(k, j))))
        })
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for j in 0..self.columns {
            self.data.swap(a * self.columns + j, b * self.columns + j);
        }
    }

    fn swap_columns(&mut self, a: usize, b: usize) {
        for i in 0..self.rows {
            self.data.swap(i * self.columns + a, i * self.columns + b);
        }
    }

    /// Columns `p` and `q` turned by the rotation that makes a Hermitian 2 by 2 matrix with these entries diagonal.
    fn rotate_columns(&mut self, p: usize, q: usize, turn: &Rotation) {
        for i in 0..self.rows {
            let (x, y) = (self.at(i, p), self.at(i, q));
            self.set(i, p, x.scaled(turn.cos).minus(y.times(turn.phase.conjugate()).scaled(turn.sin)));
            self.set(i, q, x.times(turn.phase).scaled(turn.sin).plus(y.scaled(turn.cos)));
        }
    }

    /// Rows `p` and `q` turned by the adjoint of that rotation.
    fn rotate_rows(&mut self, p: usize, q: usize, turn: &Rotation) {
        for j in 0..self.columns {
            let (x, y) = (self.at(p, j), self.at(q, j));
            self.set(p, j, x.scaled(turn.cos).minus(y.times(turn.phase).scaled(turn.sin)));
            self.set(q, j, x.times(turn.phase.conjugate()).scaled(turn.sin).plus(y.scaled(turn.cos)));
        }
    }
}

struct Rotation {
    cos: f64,
    sin: f64,
    phase: Complex,
}

impl Rotation {
    fn new(first: f64, second: f64, off: Complex) -> Rotation {
        let size = off.magnitude();
        let ratio = (second - first) / (2.0 * size);
        let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
        let cos = 1.0 / tangent.hypot(1.0);
        Rotation { cos, sin: tangent * cos, phase: off.scaled(1.0 / size) }
    }
}

/// The lower Cholesky factor of the lower triangle of `a`; `Err` is the order of the first minor that is not positive.
pub(crate) fn cholesky(a: &Matrix) -> Result<Matrix, usize> {
    let n = a.rows;
    let mut l = Matrix::zeros(n, n);
    for j in 0..n {
        let used: f64 = (0..j).map(|k| l.at(j, k).magnitude().powi(2)).sum();
        let pivot = a.at(j, j).re - used;
        if pivot.is_nan() || pivot <= 0.0 {
            return Err(j + 1);
        }
        let root = pivot.sqrt();
        l.set(j, j, Complex::new(root, 0.0));
        for i in j + 1..n {
            let used = (0..j).fold(ZERO, |sum, k| sum.plus(l.at(i, k).times(l.at(j, k).conjugate())));
            l.set(i, j, a.at(i, j).minus(used).scaled(1.0 / root));
        }
    }
    Ok(l)
}

/// Which triangle of a matrix is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Triangle {
    Lower,
    Upper,
}

/// `x` with `t x = b`, where only one triangle of `t` is read.
pub(crate) fn solve_triangular(t: &Matrix, triangle: Triangle, b: &Matrix) -> Matrix {
    let n = t.rows;
    let mut x = b.clone();
    for step in 0..n {
        let (i, known) = match triangle {
            Triangle::Lower => (step, 0..step),
            Triangle::Upper => (n - 1 - step, n - step..n),
        };
        for j in 0..b.columns {
            let used = known.clone().fold(ZERO, |sum, k| sum.plus(t.at(i, k).times(x.at(k, j))));
            x.set(i, j, b.at(i, j).minus(used).over(t.at(i, i)));
        }
    }
    x
}

/// LU with partial pivoting: both factors in one matrix, the row swapped with each row, the first zero pivot (from 1) or 0.
pub(crate) fn lu(a: &Matrix) -> (Matrix, Vec<usize>, usize) {
    let mut a = a.clone();
    let mut pivots = Vec::new();
    let mut info = 0;
    for k in 0..a.rows.min(a.columns) {
        // LAPACK measures a complex pivot by the sum of its parts.
        let size = |x: Complex| x.re.abs() + x.im.abs();
        let mut best = k;
        for i in k + 1..a.rows {
            if size(a.at(i, k)) > size(a.at(best, k)) {
                best = i;
            }
        }
        pivots.push(best);
        a.swap_rows(k, best);
        let pivot = a.at(k, k);
        if pivot == ZERO {
            info = if info == 0 { k + 1 } else { info };
            continue;
        }
        for i in k + 1..a.rows {
            let factor = a.at(i, k).over(pivot);
            a.set(i, k, factor);
            for j in k + 1..a.columns {
                a.set(i, j, a.at(i, j).minus(factor.times(a.at(k, j))));
            }
        }
    }
    (a, pivots, info)
}

/// Makes `a[from+1.., column]` zero by a reflection `I - tau v v*`, keeps `v` there, and gives `tau` (LAPACK `larfg`).
fn reflect(a: &mut Matrix, from: usize, column: usize) -> Complex {
    let alpha = a.at(from, column);
    let below: f64 = (from + 1..a.rows).map(|i| a.at(i, column).magnitude().powi(2)).sum::<f64>().sqrt();
    if below == 0.0 && alpha.im == 0.0 {
        return ZERO;
    }
    let beta = -alpha.magnitude().hypot(below).copysign(alpha.re);
    for i in from + 1..a.rows {
        a.set(i, column, a.at(i, column).over(Complex::new(alpha.re - beta, alpha.im)));
    }
    a.set(from, column, Complex::new(beta, 0.0));
    Complex::new((beta - alpha.re) / beta, -alpha.im / beta)
}

/// `target := (I - factor v v*) target` over columns `columns`, `v` as [`reflect`] left it.
fn apply(
    v: &Matrix,
    from: usize,
    column: usize,
    factor: Complex,
    target: &mut Matrix,
    columns: std::ops::Range<usize>,
) {
    let entry = |i: usize| if i == from { ONE } else { v.at(i, column) };
    let vector: Vec<Complex> = (from..v.rows).map(entry).collect();
    for j in columns {
        let dot = (from..v.rows).fold(ZERO, |sum, i| sum.plus(vector[i - from].conjugate().times(target.at(i, j))));
        let dot = dot.times(factor);
        for i in from..v.rows {
            target.set(i, j, target.at(i, j).minus(vector[i - from].times(dot)));
        }
    }
}

/// Householder QR as LAPACK's `geqrf` leaves it: R above, reflections below, and their scalars.
pub(crate) fn qr(a: &Matrix) -> (Matrix, Vec<Complex>) {
    let mut a = a.clone();
    let mut taus = Vec::new();
    for k in 0..a.rows.min(a.columns) {
        let tau = reflect(&mut a, k, k);
        let (v, columns) = (a.clone(), k + 1..a.columns);
        apply(&v, k, k, tau.conjugate(), &mut a, columns);
        taus.push(tau);
    }
    (a, taus)
}

/// QR with column pivoting as LAPACK's `geqp3`, columns counted from 0.
pub(crate) fn pivoted_qr(a: &Matrix) -> (Matrix, Vec<usize>, Vec<Complex>) {
    let mut a = a.clone();
    let mut order: Vec<usize> = (0..a.columns).collect();
    let mut taus = Vec::new();
    for k in 0..a.rows.min(a.columns) {
        let norm = |a: &Matrix, j: usize| (k..a.rows).map(|i| a.at(i, j).magnitude().powi(2)).sum::<f64>();
        let best = (k..a.columns).fold(k, |best, j| if norm(&a, j) > norm(&a, best) { j } else { best });
        a.swap_columns(k, best);
        order.swap(k, best);
        let tau = reflect(&mut a, k, k);
        let (v, columns) = (a.clone(), k + 1..a.columns);
        apply(&v, k, k, tau.conjugate(), &mut a, columns);
        taus.push(tau);
    }
    (a, order, taus)
}

/// The first columns of the product of the reflections that [`qr`] left, as many as `packed` has.
pub(crate) fn reflections(packed: &Matrix, taus: &[Complex]) -> Matrix {
    let n = packed.columns;
    let mut q = Matrix::new(packed.rows, n, |i, j| if i == j { ONE } else { ZERO });
    for k in (0..taus.len().min(n).min(packed.rows)).rev() {
        apply(packed, k, k, taus[k], &mut q, 0..n);
    }
    q
}

/// Reduction to Hessenberg form as LAPACK's `gehrd` leaves it.
pub(crate) fn hessenberg(a: &Matrix) -> (Matrix, Vec<Complex>) {
    let mut a = a.clone();
    let mut taus = Vec::new();
    let n = a.rows;
    for k in 0..n.saturating_sub(1) {
        let tau = reflect(&mut a, k + 1, k);
        let v = a.clone();
        apply(&v, k + 1, k, tau.conjugate(), &mut a, k + 1..n);
        // From the right: the adjoint of the same from the left, on the adjoint.
        let mut adjoint = a.adjoint();
        let keep = a.clone();
        apply(&v, k + 1, k, tau.conjugate(), &mut adjoint, 0..n);
        a = adjoint.adjoint();
        for j in 0..=k {
            for i in 0..n {
                a.set(i, j, keep.at(i, j));
            }
        }
        taus.push(tau);
    }
    (a, taus)
}

/// The unitary matrix of a reduction that [`hessenberg`] left.
pub(crate) fn hessenberg_vectors(packed: &Matrix, taus: &[Complex]) -> Matrix {
    let n = packed.rows;
    if n < 2 {
        return Matrix::identity(n);
    }
    let inner = reflections(&Matrix::new(n - 1, n - 1, |i, j| packed.at(i + 1, j)), taus);
    Matrix::new(n, n, |i, j| match (i, j) {
        (0, 0) => ONE,
        (0, _) | (_, 0) => ZERO,
        _ => inner.at(i - 1, j - 1),
    })
}

/// Eigenvalues, ascending, and eigenvectors of a Hermitian matrix, by Jacobi rotations.
pub(crate) fn hermitian_eigen(a: &Matrix) -> (Vec<f64>, Matrix) {
    let n = a.rows;
    let mut a = a.clone();
    let mut v = Matrix::identity(n);
    let norm: f64 = a.data.iter().map(|x| x.magnitude().powi(2)).sum::<f64>().sqrt();
    for _ in 0..MAX_SWEEPS {
        let mut largest: f64 = 0.0;
        for p in 0..n {
            for q in p + 1..n {
                let off = a.at(p, q);
                largest = largest.max(off.magnitude());
                if off.magnitude() <= f64::EPSILON * 1e-2 * norm || !off.magnitude().is_normal() {
                    continue;
                }
                let turn = Rotation::new(a.at(p, p).re, a.at(q, q).re, off);
                a.rotate_columns(p, q, &turn);
                a.rotate_rows(p, q, &turn);
                v.rotate_columns(p, q, &turn);
            }
        }
        if largest <= f64::EPSILON * norm || largest.is_nan() {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a.at(i, i).re.total_cmp(&a.at(j, j).re));
    (order.iter().map(|&i| a.at(i, i).re).collect(), Matrix::new(n, n, |i, j| v.at(i, order[j])))
}

/// How many singular vectors are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// As many as there are singular values.
    Thin,
    /// Two square matrices.
    Full,
}

/// Singular values, descending, and the left and (adjoint) right singular vectors.
pub(crate) fn svd(a: &Matrix, vectors: Vectors) -> (Vec<f64>, Matrix, Matrix) {
    if a.rows < a.columns {
        let (values, left, right) = svd(&a.adjoint(), vectors);
        return (values, right.adjoint(), left.adjoint());
    }
    let (mut work, mut v) = (a.clone(), Matrix::identity(a.columns));
    let dot = |m: &Matrix, p: usize, q: usize| {
        (0..m.rows).fold(ZERO, |sum, i| sum.plus(m.at(i, p).conjugate().times(m.at(i, q))))
    };
    for _ in 0..MAX_SWEEPS {
        let mut turned = false;
        for p in 0..a.columns {
            for q in p + 1..a.columns {
                let (first, second, off) = (dot(&work, p, p).re, dot(&work, q, q).re, dot(&work, p, q));
                if off.magnitude() > f64::EPSILON * (first * second).sqrt() && off.magnitude().is_normal() {
                    let turn = Rotation::new(first, second, off);
                    work.rotate_columns(p, q, &turn);
                    v.rotate_columns(p, q, &turn);
                    turned = true;
                }
            }
        }
        if !turned {
            break;
        }
    }
    let norms: Vec<f64> = (0..a.columns).map(|j| dot(&work, j, j).re.sqrt()).collect();
    let mut order: Vec<usize> = (0..a.columns).collect();
    order.sort_by(|&i, &j| norms[j].total_cmp(&norms[i]));
    let largest = order.first().map_or(0.0, |&j| norms[j]);
    let columns: Vec<Option<Vec<Complex>>> = order
        .iter()
        .map(|&j| {
            let is_zero = norms[j] <= f64::EPSILON * largest * a.rows as f64 * 1e-3;
            (!is_zero).then(|| (0..a.rows).map(|i| work.at(i, j).scaled(1.0 / norms[j])).collect())
        })
        .collect();
    let width = if vectors == Vectors::Full { a.rows } else { a.columns };
    let left = completed(a.rows, width, columns);
    (
        order.iter().map(|&j| norms[j]).collect(),
        left,
        Matrix::new(a.columns, a.columns, |i, j| v.at(j, order[i]).conjugate()),
    )
}

/// `width` orthonormal columns with the given ones among them; the missing ones are made up.
fn completed(n: usize, width: usize, given: Vec<Option<Vec<Complex>>>) -> Matrix {
    let mut basis: Vec<Vec<Complex>> = given.iter().flatten().cloned().collect();
    let mut candidates = 0..n;
    let mut columns = Vec::with_capacity(width);
    for j in 0..width {
        if let Some(Some(column)) = given.get(j) {
            columns.push(column.clone());
            continue;
        }
        let fresh = candidates.find_map(|k| {
            let mut x: Vec<Complex> = (0..n).map(|i| if i == k { ONE } else { ZERO }).collect();
            // Twice is enough: the second pass removes what rounding left.
            for _ in 0..2 {
                for b in &basis {
                    let dot = b.iter().zip(&x).fold(ZERO, |sum, (b, x)| sum.plus(b.conjugate().times(*x)));
                    x.iter_mut().zip(b).for_each(|(x, b)| *x = x.minus(b.times(dot)));
                }
            }
            let norm = x.iter().map(|x| x.magnitude().powi(2)).sum::<f64>().sqrt();
            (norm > 1e-3 / (n as f64)).then(|| x.iter().map(|x| x.scaled(1.0 / norm)).collect::<Vec<_>>())
        });
        let fresh = fresh.unwrap_or_else(|| vec![ZERO; n]);
        basis.push(fresh.clone());
        columns.push(fresh);
    }
    Matrix::new(n, width, |i, j| columns[j][i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: usize, columns: usize) -> Matrix {
        Matrix::new(rows, columns, |i, j| {
            Complex::new(((i * 7 + j * 3) % 11) as f64 - 4.0, ((i * 5 + j * 2) % 7) as f64 * 0.5 - 1.0)
        })
    }

    fn close(a: &Matrix, b: &Matrix) {
        assert_eq!((a.rows, a.columns), (b.rows, b.columns));
        for (x, y) in a.data.iter().zip(&b.data) {
            assert!(x.minus(*y).magnitude() < 1e-10, "{a:?} is not {b:?}");
        }
    }

    #[test]
    fn factors_multiply_to_the_matrix() {
        for (m, n) in [(4, 4), (5, 3), (3, 5), (1, 1)] {
            let a = sample(m, n);
            let (packed, taus) = qr(&a);
            let square = Matrix::new(m, m, |i, j| if j < n { packed.at(i, j) } else { ZERO });
            let q = reflections(&square, &taus);
            let r = Matrix::new(m, n, |i, j| if i <= j { packed.at(i, j) } else { ZERO });
            close(&q.times(&r), &a);
            close(&q.adjoint().times(&q), &Matrix::identity(m));
            let (values, u, vt) = svd(&a, Vectors::Full);
            let s = Matrix::new(m, n, |i, j| if i == j { Complex::new(values[i], 0.0) } else { ZERO });
            close(&u.times(&s).times(&vt), &a);
            close(&u.adjoint().times(&u), &Matrix::identity(m));
        }
    }

    #[test]
    fn hermitian_matrices_have_their_eigenvectors_and_factors() {
        let b = sample(4, 4);
        let a = b.adjoint().times(&b);
        let (values, v) = hermitian_eigen(&a);
        let d = Matrix::new(4, 4, |i, j| if i == j { Complex::new(values[i], 0.0) } else { ZERO });
        close(&v.times(&d).times(&v.adjoint()), &a);
        let shifted = Matrix::new(4, 4, |i, j| if i == j { a.at(i, j).plus(ONE) } else { a.at(i, j) });
        let l = cholesky(&shifted).unwrap();
        close(&l.times(&l.adjoint()), &shifted);
        let x = solve_triangular(&l, Triangle::Lower, &b);
        close(&l.times(&x), &b);
        assert_eq!(cholesky(&Matrix::new(2, 2, |i, j| Complex::new(if i == j { -1.0 } else { 0.0 }, 0.0))), Err(1));
    }

    #[test]
    fn hessenberg_form_is_similar() {
        let a = sample(4, 4);
        let (packed, taus) = hessenberg(&a);
        let h = Matrix::new(4, 4, |i, j| if i <= j + 1 { packed.at(i, j) } else { ZERO });
        let q = hessenberg_vectors(&packed, &taus);
        close(&q.times(&h).times(&q.adjoint()), &a);
    }
}
