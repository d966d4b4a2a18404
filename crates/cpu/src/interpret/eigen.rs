//! Eigenvalues and eigenvectors of general matrices by shifted QR steps on the Schur form.

use super::matrix::{self, Matrix, Triangle};
use super::value::Complex;

/// QR steps one eigenvalue may take.
const MAX_STEPS: usize = 300;

/// Eigenvalues and the matrix whose columns are their unit vectors.
pub(crate) struct Eigen {
    pub(crate) values: Vec<Complex>,
    pub(crate) vectors: Matrix,
    /// Whether every eigenvalue was found.
    pub(crate) is_converged: bool,
}

/// The eigenvectors of the adjoint problem, given those of the problem: `u* A = value u*`.
pub(crate) fn left(vectors: &Matrix) -> Matrix {
    let n = vectors.rows;
    // Rows of the inverse, as columns.
    let (lu, pivots, _) = matrix::lu(vectors);
    let mut order: Vec<usize> = (0..n).collect();
    pivots.iter().enumerate().for_each(|(k, &p)| order.swap(k, p));
    let permuted = Matrix::new(n, n, |i, j| Complex::new(if order[i] == j { 1.0 } else { 0.0 }, 0.0));
    let unit = Matrix::new(n, n, |i, j| if i == j { Complex::new(1.0, 0.0) } else { lu.at(i, j) });
    let half = matrix::solve_triangular(&unit, Triangle::Lower, &permuted);
    normalised(&matrix::solve_triangular(&lu, Triangle::Upper, &half).adjoint())
}

/// Columns scaled to unit length, their largest entry real.
fn normalised(v: &Matrix) -> Matrix {
    let scale: Vec<Complex> = (0..v.columns)
        .map(|j| {
            let column = || (0..v.rows).map(|i| v.at(i, j));
            let norm = column().map(|x| x.magnitude().powi(2)).sum::<f64>().sqrt();
            let largest = column().fold(Complex::default(), |a, b| if b.magnitude() > a.magnitude() { b } else { a });
            match largest.magnitude() > 0.0 {
                true => largest.conjugate().scaled(1.0 / (largest.magnitude() * norm)),
                false => Complex::default(),
            }
        })
        .collect();
    Matrix::new(v.rows, v.columns, |i, j| v.at(i, j).times(scale[j]))
}

/// Of a real matrix: complex eigenvalues come in exact pairs, the one with positive imaginary part first.
pub(crate) fn of_real(a: &Matrix) -> Eigen {
    let found = of_complex(a);
    let n = a.rows;
    let size = found.values.iter().map(|x| x.magnitude()).fold(0.0, f64::max);
    let mut values: Vec<Complex> = Vec::with_capacity(n);
    let mut columns: Vec<Vec<Complex>> = Vec::with_capacity(n);
    let column = |j: usize| (0..n).map(|i| found.vectors.at(i, j)).collect::<Vec<_>>();
    let mut rest: Vec<usize> = (0..n).collect();
    while let Some(&j) = rest.first() {
        rest.remove(0);
        let value = found.values[j];
        let distance = |k: &usize| found.values[*k].minus(value.conjugate()).magnitude();
        let mate = rest.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        match mate.filter(|_| value.im.abs() > 1e-10 * size) {
            Some(mate) => {
                rest.retain(|&k| k != mate);
                let positive = if value.im > 0.0 { j } else { mate };
                let value = Complex::new(value.re, value.im.abs());
                let vector = column(positive);
                columns.push(vector.clone());
                columns.push(vector.into_iter().map(Complex::conjugate).collect());
                values.extend([value, value.conjugate()]);
            }
            None => {
                values.push(Complex::new(value.re, 0.0));
                columns.push(column(j).into_iter().map(|x| Complex::new(x.re, 0.0)).collect());
            }
        }
    }
    Eigen { values, vectors: Matrix::new(n, n, |i, j| columns[j][i]), is_converged: found.is_converged }
}

/// Of a complex matrix.
pub(crate) fn of_complex(a: &Matrix) -> Eigen {
    let n = a.rows;
    let (mut t, mut q, is_converged) = schur(a);
    for i in 0..n {
        for j in 0..i {
            t.set(i, j, Complex::default());
        }
    }
    // Back substitution in the triangle gives one vector for each diagonal entry.
    let small = f64::EPSILON * t.data.iter().map(|x| x.magnitude()).fold(f64::MIN_POSITIVE, f64::max);
    let mut x = Matrix::zeros(n, n);
    for k in 0..n {
        x.set(k, k, Complex::new(1.0, 0.0));
        for i in (0..k).rev() {
            let used = (i + 1..=k).fold(Complex::default(), |sum, j| sum.plus(t.at(i, j).times(x.at(j, k))));
            let mut gap = t.at(k, k).minus(t.at(i, i));
            if gap.magnitude() < small {
                gap = Complex::new(small, 0.0);
            }
            x.set(i, k, used.over(gap));
        }
    }
    q = q.times(&x);
    Eigen { values: (0..n).map(|i| t.at(i, i)).collect(), vectors: normalised(&q), is_converged }
}

/// The Schur form `a = q t q*`, and whether the iteration converged.
fn schur(a: &Matrix) -> (Matrix, Matrix, bool) {
    let n = a.rows;
    let (packed, taus) = matrix::hessenberg(a);
    let mut t = Matrix::new(n, n, |i, j| if i <= j + 1 { packed.at(i, j) } else { Complex::default() });
    let mut q = Matrix::identity(n);
    if n > 1 {
        let shifted = Matrix::new(n - 1, n - 1, |i, j| packed.at(i + 1, j));
        let inner = matrix::reflections(&shifted, &taus);
        for i in 1..n {
            for j in 1..n {
                q.set(i, j, inner.at(i - 1, j - 1));
            }
        }
    }
    let mut end = n;
    let mut steps = 0;
    while end > 1 {
        let is_small = |t: &Matrix, i: usize| {
            let around = t.at(i, i).magnitude() + t.at(i - 1, i - 1).magnitude();
            t.at(i, i - 1).magnitude() <= f64::EPSILON * around.max(f64::MIN_POSITIVE)
        };
        if is_small(&t, end - 1) {
            t.set(end - 1, end - 2, Complex::default());
            end -= 1;
            steps = 0;
            continue;
        }
        steps += 1;
        if steps > MAX_STEPS || t.data.iter().any(|x| !x.magnitude().is_finite()) {
            return (t, q, false);
        }
        let start = (1..end).rev().find(|&i| is_small(&t, i)).unwrap_or(0);
        let shift = shift(&t, end, steps);
        step(&mut t, &mut q, start, end, shift);
    }
    (t, q, true)
}

/// Wilkinson's shift: the eigenvalue of the last 2 by 2 block nearest to its last entry.
fn shift(t: &Matrix, end: usize, steps: usize) -> Complex {
    let (a, b) = (t.at(end - 2, end - 2), t.at(end - 2, end - 1));
    let (c, d) = (t.at(end - 1, end - 2), t.at(end - 1, end - 1));
    if steps % 11 == 10 {
        // An unusual shift gets out of a cycle.
        return d.plus(Complex::new(c.magnitude(), 0.0));
    }
    let half = a.minus(d).scaled(0.5);
    let root = half.times(half).plus(b.times(c)).sqrt();
    let (plus, minus) = (half.plus(root), half.minus(root));
    let larger = if plus.magnitude() > minus.magnitude() { plus } else { minus };
    if larger.magnitude() == 0.0 { d } else { d.minus(b.times(c).over(larger)) }
}

/// One QR step with a shift on rows and columns `start..end` of a Hessenberg matrix, by Givens rotations.
fn step(t: &mut Matrix, q: &mut Matrix, start: usize, end: usize, shift: Complex) {
    let n = t.rows;
    for i in start..end {
        t.set(i, i, t.at(i, i).minus(shift));
    }
    let mut turns = Vec::with_capacity(end - start);
    for k in start..end - 1 {
        let (x, y) = (t.at(k, k), t.at(k + 1, k));
        let norm = x.magnitude().hypot(y.magnitude());
        let (c, s) = if norm == 0.0 {
            (Complex::new(1.0, 0.0), Complex::default())
        } else {
            (x.scaled(1.0 / norm), y.scaled(1.0 / norm))
        };
        for j in k..n {
            let (x, y) = (t.at(k, j), t.at(k + 1, j));
            t.set(k, j, c.conjugate().times(x).plus(s.conjugate().times(y)));
            t.set(k + 1, j, c.times(y).minus(s.times(x)));
        }
        turns.push((c, s));
    }
    for (k, (c, s)) in (start..end - 1).zip(turns) {
        let turn = |m: &mut Matrix, rows: usize| {
            for i in 0..rows {
                let (x, y) = (m.at(i, k), m.at(i, k + 1));
                m.set(i, k, x.times(c).plus(y.times(s)));
                m.set(i, k + 1, y.times(c.conjugate()).minus(x.times(s.conjugate())));
            }
        };
        turn(t, (k + 2).min(end));
        turn(q, n);
    }
    for i in start..end {
        t.set(i, i, t.at(i, i).plus(shift));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_satisfy_their_equation() {
        for n in 1..6usize {
            let a = Matrix::new(n, n, |i, j| Complex::new(((i * 7 + j * 5 + i * j) % 9) as f64 - 3.0, 0.0));
            let found = of_real(&a);
            assert!(found.is_converged);
            let (av, dual) = (a.times(&found.vectors), left(&found.vectors));
            let ua = dual.adjoint().times(&a);
            for j in 0..n {
                for i in 0..n {
                    let expected = found.vectors.at(i, j).times(found.values[j]);
                    assert!(av.at(i, j).minus(expected).magnitude() < 1e-8, "{n}: {:?}", found.values);
                    let expected = dual.at(i, j).conjugate().times(found.values[j]);
                    assert!(ua.at(j, i).minus(expected).magnitude() < 1e-7, "{n}: left of {:?}", found.values);
                }
            }
        }
    }
}
