//! Eigenvalues and eigenvectors of general matrices, from their Schur form.

use super::matrix::Matrix;
use super::schur::{self, ComplexSchur, RealSchur};
use super::value::Complex;

/// Eigenvalues and the matrix whose columns are their unit vectors.
pub(crate) struct Eigen {
    pub(crate) values: Vec<Complex>,
    pub(crate) vectors: Matrix,
    /// Those of the adjoint problem: `u* A = value u*`.
    pub(crate) left: Matrix,
    /// Whether every eigenvalue was found.
    pub(crate) is_converged: bool,
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

/// Of a real matrix, in LAPACK's order: complex eigenvalues come in exact pairs, the one with positive imaginary part first.
pub(crate) fn of_real(a: &Matrix) -> Eigen {
    let n = a.rows;
    let RealSchur { mut t, mut z, values, is_converged } = schur::real_schur(a, f64::EPSILON);
    for p in (1..n).map(|i| i - 1).filter(|&p| values[p].im != 0.0 && values[p + 1] == values[p].conjugate()) {
        if t.at(p + 1, p) != Complex::default() {
            split_block(&mut t, &mut z, p, values[p]);
        }
    }
    let vectors = paired(&values, right_vectors(&t, &z));
    let left = paired(&values, left_vectors(&t, &z));
    Eigen { values, vectors, left, is_converged }
}

/// Vectors of real eigenvalues made real, those of a pair made each other's conjugate.
fn paired(values: &[Complex], mut vectors: Matrix) -> Matrix {
    let n = values.len();
    for (j, value) in values.iter().enumerate() {
        for i in 0..n {
            let entry = vectors.at(i, j);
            match value.im {
                0.0 => vectors.set(i, j, Complex::new(entry.re, 0.0)),
                im if im > 0.0 && j + 1 < n => vectors.set(i, j + 1, entry.conjugate()),
                _ => {}
            }
        }
    }
    vectors
}

/// Makes the 2 by 2 block at `p` of a real Schur form triangular by a complex rotation, `first` its first eigenvalue.
fn split_block(t: &mut Matrix, z: &mut Matrix, p: usize, first: Complex) {
    let n = t.rows;
    // The eigenvector of the block.
    let (x, y) = (t.at(p, p + 1), first.minus(t.at(p, p)));
    let norm = x.magnitude().hypot(y.magnitude());
    let (c, s) = (x.scaled(1.0 / norm), y.scaled(1.0 / norm));
    for j in 0..n {
        let (x, y) = (t.at(p, j), t.at(p + 1, j));
        t.set(p, j, c.conjugate().times(x).plus(s.conjugate().times(y)));
        t.set(p + 1, j, c.times(y).minus(s.times(x)));
    }
    for m in [t, z] {
        for i in 0..n {
            let (x, y) = (m.at(i, p), m.at(i, p + 1));
            m.set(i, p, x.times(c).plus(y.times(s)));
            m.set(i, p + 1, y.times(c.conjugate()).minus(x.times(s.conjugate())));
        }
    }
}

/// Of a complex matrix.
pub(crate) fn of_complex(a: &Matrix) -> Eigen {
    let ComplexSchur { t, z, is_converged } = schur::complex_schur(a, f64::EPSILON);
    let values = (0..a.rows).map(|i| t.at(i, i)).collect();
    Eigen { values, vectors: right_vectors(&t, &z), left: left_vectors(&t, &z), is_converged }
}

/// The least distance of eigenvalues that counts: nearer ones are taken to be this far apart.
fn least_gap(t: &Matrix) -> f64 {
    f64::EPSILON * t.data.iter().map(|x| x.magnitude()).fold(f64::MIN_POSITIVE, f64::max)
}

fn gap(first: Complex, second: Complex, least: f64) -> Complex {
    let gap = first.minus(second);
    if gap.magnitude() < least { Complex::new(least, 0.0) } else { gap }
}

/// Unit eigenvectors of `z t z*`, of whose `t` the upper triangle is read: one for each diagonal entry.
fn right_vectors(t: &Matrix, z: &Matrix) -> Matrix {
    let n = t.rows;
    let least = least_gap(t);
    let mut x = Matrix::zeros(n, n);
    for k in 0..n {
        x.set(k, k, Complex::new(1.0, 0.0));
        for i in (0..k).rev() {
            let used = (i + 1..=k).fold(Complex::default(), |sum, j| sum.plus(t.at(i, j).times(x.at(j, k))));
            x.set(i, k, used.over(gap(t.at(k, k), t.at(i, i), least)));
        }
    }
    normalised(&z.times(&x))
}

/// Unit left eigenvectors of the same.
fn left_vectors(t: &Matrix, z: &Matrix) -> Matrix {
    let n = t.rows;
    let least = least_gap(t);
    let mut x = Matrix::zeros(n, n);
    for k in 0..n {
        x.set(k, k, Complex::new(1.0, 0.0));
        for j in k + 1..n {
            let used = (k..j).fold(Complex::default(), |sum, i| sum.plus(x.at(i, k).conjugate().times(t.at(i, j))));
            x.set(j, k, used.over(gap(t.at(k, k), t.at(j, j), least)).conjugate());
        }
    }
    normalised(&z.times(&x))
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
            let (av, dual) = (a.times(&found.vectors), &found.left);
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
