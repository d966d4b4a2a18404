//! The Schur form of a matrix: QR steps on the Hessenberg form, in the order and with the signs of LAPACK's `lahqr`.

use std::ops::Range;

use super::matrix::{self, Matrix};
use super::value::Complex;

/// Steps one eigenvalue may take.
const MAX_STEPS: usize = 300;
/// Steps without a deflation after which an unusual shift is tried.
const STALLED: usize = 10;

/// `a = z t z'` with `z` orthogonal and `t` triangular but for 2 by 2 blocks of complex eigenvalues.
pub(crate) struct RealSchur {
    pub(crate) t: Matrix,
    pub(crate) z: Matrix,
    pub(crate) values: Vec<Complex>,
    pub(crate) is_converged: bool,
}

/// A square matrix of real numbers.
struct Real {
    n: usize,
    data: Vec<f64>,
}

impl Real {
    fn of(m: &Matrix) -> Real {
        Real { n: m.rows, data: m.data.iter().map(|x| x.re).collect() }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.n + j]
    }

    fn set(&mut self, i: usize, j: usize, value: f64) {
        self.data[i * self.n + j] = value;
    }

    fn complex(self) -> Matrix {
        Matrix { rows: self.n, columns: self.n, data: self.data.into_iter().map(|x| Complex::new(x, 0.0)).collect() }
    }

    /// Columns `k..` times `I - tau v v'`, in rows `rows`.
    fn reflect_columns(&mut self, k: usize, v: &[f64], tau: f64, rows: usize) {
        for i in 0..rows {
            let sum: f64 = v.iter().enumerate().map(|(m, v)| v * self.at(i, k + m)).sum::<f64>() * tau;
            v.iter().enumerate().for_each(|(m, v)| self.set(i, k + m, self.at(i, k + m) - sum * v));
        }
    }

    /// `I - tau v v'` times rows `k..`, in columns `from..`.
    fn reflect_rows(&mut self, k: usize, v: &[f64], tau: f64, from: usize) {
        for j in from..self.n {
            let sum: f64 = v.iter().enumerate().map(|(m, v)| v * self.at(k + m, j)).sum::<f64>() * tau;
            v.iter().enumerate().for_each(|(m, v)| self.set(k + m, j, self.at(k + m, j) - sum * v));
        }
    }

    fn is_negligible(&self, k: usize, epsilon: f64) -> bool {
        let gap = (self.at(k - 1, k - 1) - self.at(k, k)).abs();
        is_negligible(|i, j| self.at(i, j).abs(), gap, self.n, k, epsilon)
    }

    fn turn_columns(&mut self, p: usize, turn: &Turn, rows: usize) {
        for i in 0..rows {
            let (x, y) = (self.at(i, p), self.at(i, p + 1));
            self.set(i, p, turn.cos * x + turn.sin * y);
            self.set(i, p + 1, turn.cos * y - turn.sin * x);
        }
    }

    fn turn_rows(&mut self, p: usize, turn: &Turn, from: usize) {
        for j in from..self.n {
            let (x, y) = (self.at(p, j), self.at(p + 1, j));
            self.set(p, j, turn.cos * x + turn.sin * y);
            self.set(p + 1, j, turn.cos * y - turn.sin * x);
        }
    }
}

/// The real Schur form of a matrix whose imaginary parts are zero. Entries below the diagonal that are smaller than their
/// neighbours times `epsilon` count as zero: it decides how many steps are taken, and with that the signs of the result.
pub(crate) fn real_schur(a: &Matrix, epsilon: f64) -> RealSchur {
    let n = a.rows;
    let (packed, taus) = matrix::hessenberg(a);
    let mut t = Real::of(&packed);
    for i in 2..n {
        (0..i - 1).for_each(|j| t.set(i, j, 0.0));
    }
    let mut z = Real::of(&matrix::hessenberg_vectors(&packed, &taus));
    let mut values = vec![Complex::default(); n];
    // Rows and columns from `end` on are done; `steps` counts since the last deflation.
    let is_finite = t.data.iter().all(|x| x.is_finite());
    let (mut end, mut steps) = (if is_finite { n } else { 0 }, 0);
    while end > 0 {
        let last = end - 1;
        let start = (1..end).rev().find(|&k| t.is_negligible(k, epsilon)).unwrap_or(0);
        if start > 0 {
            t.set(start, start - 1, 0.0);
        }
        if start == last {
            values[last] = Complex::new(t.at(last, last), 0.0);
            (end, steps) = (last, 0);
        } else if start + 1 == last {
            let turn = Turn::standard(&mut t, start);
            t.turn_rows(start, &turn, end);
            t.turn_columns(start, &turn, start);
            z.turn_columns(start, &turn, n);
            let (b, c) = (t.at(start, last), t.at(last, start));
            let imaginary = if c == 0.0 { 0.0 } else { b.abs().sqrt() * c.abs().sqrt() };
            values[start] = Complex::new(t.at(start, start), imaginary);
            values[last] = Complex::new(t.at(last, last), -imaginary);
            (end, steps) = (start, 0);
        } else {
            steps += 1;
            if steps > MAX_STEPS || t.data.iter().any(|x| !x.is_finite()) {
                return RealSchur { t: t.complex(), z: z.complex(), values, is_converged: false };
            }
            double_step(&mut t, &mut z, start..end, steps, epsilon);
        }
    }
    RealSchur { t: t.complex(), z: z.complex(), values, is_converged: is_finite }
}

/// Whether the entry left of the diagonal in row `k` may be set to zero (the test of Ahues and Tisseur). `size` is how
/// large an entry is, `gap` how far the two diagonal entries beside it are apart.
fn is_negligible(size: impl Fn(usize, usize) -> f64, gap: f64, n: usize, k: usize, epsilon: f64) -> bool {
    let tiny = f64::MIN_POSITIVE * n as f64 / f64::EPSILON;
    let (low, here) = (size(k, k - 1), size(k, k));
    if low <= tiny {
        return true;
    }
    let mut around = size(k - 1, k - 1) + here;
    if around == 0.0 {
        around += if k >= 2 { size(k - 1, k - 2) } else { 0.0 };
        around += if k + 1 < n { size(k + 1, k) } else { 0.0 };
    }
    if low > epsilon * around {
        return false;
    }
    let high = size(k - 1, k);
    let (ab, ba) = (low.max(high), low.min(high));
    let (aa, bb) = (here.max(gap), here.min(gap));
    let sum = aa + ab;
    ba * (ab / sum) <= tiny.max(epsilon * (bb * (aa / sum)))
}

/// The two shifts of a step: the eigenvalues of the last 2 by 2 block, or twice the real one nearer to its corner.
fn shifts(t: &Real, start: usize, end: usize, steps: usize) -> [Complex; 2] {
    let last = end - 1;
    let unusual = |size: f64, corner: f64| {
        let diagonal = 0.75 * size + corner;
        [diagonal, -0.4375 * size, size, diagonal]
    };
    let [a, b, c, d] = if steps.is_multiple_of(2 * STALLED) {
        unusual(t.at(last, last - 1).abs() + t.at(last - 1, last - 2).abs(), t.at(last, last))
    } else if steps.is_multiple_of(STALLED) {
        unusual(t.at(start + 1, start).abs() + t.at(start + 2, start + 1).abs(), t.at(start, start))
    } else {
        [t.at(last - 1, last - 1), t.at(last - 1, last), t.at(last, last - 1), t.at(last, last)]
    };
    let size = a.abs() + b.abs() + c.abs() + d.abs();
    if size == 0.0 {
        return [Complex::default(); 2];
    }
    let [a, b, c, d] = [a / size, b / size, c / size, d / size];
    let middle = (a + d) / 2.0;
    let determinant = (a - middle) * (d - middle) - b * c;
    let root = determinant.abs().sqrt();
    if determinant >= 0.0 {
        return [Complex::new(middle * size, root * size), Complex::new(middle * size, -root * size)];
    }
    let (plus, minus) = (middle + root, middle - root);
    let nearer = if (plus - d).abs() <= (minus - d).abs() { plus } else { minus };
    [Complex::new(nearer * size, 0.0); 2]
}

/// One step with two shifts on rows and columns of a range.
fn double_step(t: &mut Real, z: &mut Real, active: Range<usize>, steps: usize, epsilon: f64) {
    let (n, start, end) = (t.n, active.start, active.end);
    let [first, second] = shifts(t, start, end, steps);
    // The step may start at a row where two small entries below the diagonal follow each other.
    let mut begin = end - 3;
    let mut v;
    loop {
        let (here, next) = (t.at(begin, begin), t.at(begin + 1, begin + 1));
        let size = (here - second.re).abs() + second.im.abs() + t.at(begin + 1, begin).abs();
        let low = t.at(begin + 1, begin) / size;
        v = [
            low * t.at(begin, begin + 1) + (here - first.re) * ((here - second.re) / size)
                - first.im * (second.im / size),
            low * (here + next - first.re - second.re),
            low * t.at(begin + 2, begin + 1),
        ];
        let size: f64 = v.iter().map(|x| x.abs()).sum();
        v.iter_mut().for_each(|x| *x /= size);
        if begin == start {
            break;
        }
        let around = t.at(begin - 1, begin - 1).abs() + here.abs() + next.abs();
        if t.at(begin, begin - 1).abs() * (v[1].abs() + v[2].abs()) <= epsilon * v[0].abs() * around {
            break;
        }
        begin -= 1;
    }
    for k in begin..end - 1 {
        let width = 3.min(end - k);
        if k > begin {
            (0..width).for_each(|m| v[m] = t.at(k + m, k - 1));
        }
        let v = &mut v[..width];
        let (beta, tau) = reflection(v);
        if k > begin {
            t.set(k, k - 1, beta);
            (1..width).for_each(|m| t.set(k + m, k - 1, 0.0));
        } else if begin > start {
            t.set(k, k - 1, t.at(k, k - 1) * (1.0 - tau));
        }
        t.reflect_rows(k, v, tau, k);
        t.reflect_columns(k, v, tau, (k + 4).min(end));
        z.reflect_columns(k, v, tau, n);
    }
}

/// Turns `v` into the vector, its first entry 1, of the reflection that makes all but its first entry zero; gives that
/// entry and the scalar.
fn reflection(v: &mut [f64]) -> (f64, f64) {
    let alpha = v[0];
    let rest = v[1..].iter().map(|x| x * x).sum::<f64>().sqrt();
    v[0] = 1.0;
    if rest == 0.0 {
        return (alpha, 0.0);
    }
    let beta = -alpha.hypot(rest).copysign(alpha);
    v[1..].iter_mut().for_each(|x| *x /= alpha - beta);
    (beta, (beta - alpha) / beta)
}

/// A plane rotation.
struct Turn {
    cos: f64,
    sin: f64,
}

impl Turn {
    /// Brings the 2 by 2 block at `p` to its standard form: triangular, or with equal diagonal entries and the others of
    /// different sign.
    fn standard(t: &mut Real, p: usize) -> Turn {
        let (mut a, mut b, mut c, mut d) = (t.at(p, p), t.at(p, p + 1), t.at(p + 1, p), t.at(p + 1, p + 1));
        let (mut cos, mut sin) = (1.0, 0.0);
        if c == 0.0 || (a == d && b.signum() != c.signum() && b != 0.0) {
            return Turn { cos, sin };
        }
        if b == 0.0 {
            (cos, sin) = (0.0, 1.0);
            (a, d) = (d, a);
            (b, c) = (-c, 0.0);
        } else {
            let gap = a - d;
            let half = 0.5 * gap;
            let larger = b.abs().max(c.abs());
            let smaller = b.abs().min(c.abs()) * b.signum() * c.signum();
            let scale = half.abs().max(larger);
            let z = (half / scale) * half + (larger / scale) * smaller;
            if z >= 4.0 * f64::EPSILON {
                let z = half + (scale.sqrt() * z.sqrt()).copysign(half);
                a = d + z;
                d -= (larger / z) * smaller;
                let tau = c.hypot(z);
                (cos, sin) = (z / tau, c / tau);
                (b, c) = (b - c, 0.0);
            } else {
                let sigma = b + c;
                let tau = sigma.hypot(gap);
                cos = (0.5 * (1.0 + sigma.abs() / tau)).sqrt();
                sin = -(half / (tau * cos)) * 1f64.copysign(sigma);
                let (aa, bb) = (a * cos + b * sin, -a * sin + b * cos);
                let (cc, dd) = (c * cos + d * sin, -c * sin + d * cos);
                (a, b) = (aa * cos + cc * sin, bb * cos + dd * sin);
                (c, d) = (-aa * sin + cc * cos, -bb * sin + dd * cos);
                let middle = 0.5 * (a + d);
                (a, d) = (middle, middle);
                if c != 0.0 && b == 0.0 {
                    (b, c) = (-c, 0.0);
                    (cos, sin) = (-sin, cos);
                } else if c != 0.0 && b.signum() == c.signum() {
                    // Two real eigenvalues after all.
                    let (sab, sac) = (b.abs().sqrt(), c.abs().sqrt());
                    let p = (sab * sac).copysign(c);
                    let tau = 1.0 / (b + c).abs().sqrt();
                    (a, d) = (middle + p, middle - p);
                    (b, c) = (b - c, 0.0);
                    let (cos1, sin1) = (sab * tau, sac * tau);
                    (cos, sin) = (cos * cos1 - sin * sin1, cos * sin1 + sin * cos1);
                }
            }
        }
        for (i, j, value) in [(p, p, a), (p, p + 1, b), (p + 1, p, c), (p + 1, p + 1, d)] {
            t.set(i, j, value);
        }
        Turn { cos, sin }
    }
}

/// `a = z t z*` with `z` unitary and `t` triangular.
pub(crate) struct ComplexSchur {
    pub(crate) t: Matrix,
    pub(crate) z: Matrix,
    pub(crate) is_converged: bool,
}

/// The sum of a number's parts, by which LAPACK measures it.
fn parts(x: Complex) -> f64 {
    x.re.abs() + x.im.abs()
}

/// The Schur form of a complex matrix; `epsilon` as for [`real_schur`].
pub(crate) fn complex_schur(a: &Matrix, epsilon: f64) -> ComplexSchur {
    let n = a.rows;
    let (packed, taus) = matrix::hessenberg(a);
    let mut z = matrix::hessenberg_vectors(&packed, &taus);
    let mut t = Matrix::new(n, n, |i, j| if i <= j + 1 { packed.at(i, j) } else { Complex::default() });
    let is_finite = |t: &Matrix| t.data.iter().all(|x| parts(*x).is_finite());
    let mut is_converged = is_finite(&t);
    let (mut end, mut steps) = (n, 0);
    while end > 1 && is_converged {
        let is_small = |k: usize| {
            let gap = parts(t.at(k - 1, k - 1).minus(t.at(k, k)));
            is_negligible(|i, j| parts(t.at(i, j)), gap, n, k, epsilon)
        };
        let start = (1..end).rev().find(|&k| is_small(k)).unwrap_or(0);
        if start > 0 {
            t.set(start, start - 1, Complex::default());
        }
        if start + 1 == end {
            (end, steps) = (start, 0);
        } else {
            steps += 1;
            let shift = shift(&t, start, end, steps);
            single_step(&mut t, &mut z, start..end, shift, epsilon);
            is_converged = steps < MAX_STEPS && is_finite(&t);
        }
    }
    let t = Matrix::new(n, n, |i, j| if i <= j { t.at(i, j) } else { Complex::default() });
    ComplexSchur { t, z, is_converged }
}

/// Wilkinson's shift: the eigenvalue of the last 2 by 2 block nearest to its last entry.
fn shift(t: &Matrix, start: usize, end: usize, steps: usize) -> Complex {
    let last = end - 1;
    let unusual = |corner: usize, low: Complex| t.at(corner, corner).plus(Complex::new(0.75 * low.re.abs(), 0.0));
    if steps.is_multiple_of(2 * STALLED) {
        return unusual(last, t.at(last, last - 1));
    } else if steps.is_multiple_of(STALLED) {
        return unusual(start, t.at(start + 1, start));
    }
    let corner = t.at(last, last);
    let off = t.at(last - 1, last).sqrt().times(t.at(last, last - 1).sqrt());
    if parts(off) == 0.0 {
        return corner;
    }
    let half = t.at(last - 1, last - 1).minus(corner).scaled(0.5);
    let size = parts(off).max(parts(half));
    let (x, u) = (half.scaled(1.0 / size), off.scaled(1.0 / size));
    let mut root = x.times(x).plus(u.times(u)).sqrt().scaled(size);
    if parts(half) > 0.0 && half.re * root.re + half.im * root.im < 0.0 {
        root = root.scaled(-1.0);
    }
    corner.minus(off.times(off.over(half.plus(root))))
}

/// One step with a shift on rows and columns of a range. Entries left of the diagonal stay real.
fn single_step(t: &mut Matrix, z: &mut Matrix, active: Range<usize>, shift: Complex, epsilon: f64) {
    let (n, start, end) = (t.rows, active.start, active.end);
    let scale_row = |m: &mut Matrix, i: usize, columns: Range<usize>, by: Complex| {
        columns.for_each(|j| m.set(i, j, m.at(i, j).times(by)));
    };
    let scale_column = |m: &mut Matrix, j: usize, rows: Range<usize>, by: Complex| {
        rows.for_each(|i| m.set(i, j, m.at(i, j).times(by)));
    };
    // As for real matrices, the step may start below `start`.
    let mut begin = end - 2;
    let mut v;
    loop {
        let (here, next) = (t.at(begin, begin), t.at(begin + 1, begin + 1));
        let (top, low) = (here.minus(shift), t.at(begin + 1, begin).re);
        let size = parts(top) + low.abs();
        let (top, low) = (top.scaled(1.0 / size), low / size);
        v = [top, Complex::new(low, 0.0)];
        let is_split = |above: f64| above.abs() * low.abs() <= epsilon * parts(top) * (parts(here) + parts(next));
        if begin == start || is_split(t.at(begin, begin - 1).re) {
            break;
        }
        begin -= 1;
    }
    for k in begin..end - 1 {
        if k > begin {
            v = [t.at(k, k - 1), t.at(k + 1, k - 1)];
        }
        let (beta, tau, low) = complex_reflection(v);
        if k > begin {
            t.set(k, k - 1, beta);
            t.set(k + 1, k - 1, Complex::default());
        }
        let second = tau.times(low).re;
        for j in k..n {
            let sum = tau.conjugate().times(t.at(k, j)).plus(t.at(k + 1, j).scaled(second));
            t.set(k, j, t.at(k, j).minus(sum));
            t.set(k + 1, j, t.at(k + 1, j).minus(sum.times(low)));
        }
        for (m, rows) in [(&mut *t, (k + 3).min(end)), (&mut *z, n)] {
            for i in 0..rows {
                let sum = tau.times(m.at(i, k)).plus(m.at(i, k + 1).scaled(second));
                m.set(i, k, m.at(i, k).minus(sum));
                m.set(i, k + 1, m.at(i, k + 1).minus(sum.times(low.conjugate())));
            }
        }
        if k == begin && begin > start {
            // A step that starts below `start` leaves a phase there.
            let phase = Complex::new(1.0, 0.0).minus(tau);
            let phase = phase.scaled(1.0 / phase.magnitude());
            t.set(k + 1, k, t.at(k + 1, k).times(phase.conjugate()));
            if k + 2 < end {
                t.set(k + 2, k + 1, t.at(k + 2, k + 1).times(phase));
            }
            for j in (k..end).filter(|&j| j != k + 1) {
                scale_row(t, j, j + 1..n, phase);
                scale_column(t, j, 0..j, phase.conjugate());
                scale_column(z, j, 0..n, phase.conjugate());
            }
        }
    }
    let last = end - 1;
    let low = t.at(last, last - 1);
    if low.im != 0.0 {
        let size = low.magnitude();
        let phase = low.scaled(1.0 / size);
        t.set(last, last - 1, Complex::new(size, 0.0));
        scale_row(t, last, last + 1..n, phase.conjugate());
        scale_column(t, last, 0..last, phase);
        scale_column(z, last, 0..n, phase);
    }
}

/// The reflection that makes the second entry zero: what the first becomes, the scalar, and the vector's second entry.
fn complex_reflection([first, second]: [Complex; 2]) -> (Complex, Complex, Complex) {
    let rest = second.magnitude();
    if rest == 0.0 && first.im == 0.0 {
        return (first, Complex::default(), second);
    }
    let beta = -first.magnitude().hypot(rest).copysign(first.re);
    let tau = Complex::new((beta - first.re) / beta, -first.im / beta);
    (Complex::new(beta, 0.0), tau, second.over(Complex::new(first.re - beta, first.im)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_multiply_to_the_matrix() {
        for n in 0..9usize {
            let a = Matrix::new(n, n, |i, j| Complex::new(((i * 7 + j * 5 + i * j * 3) % 13) as f64 - 5.0, 0.0));
            let found = real_schur(&a, f64::EPSILON);
            assert!(found.is_converged);
            let back = found.z.times(&found.t).times(&found.z.adjoint());
            let unit = found.z.times(&found.z.adjoint());
            for i in 0..n {
                for j in 0..n {
                    assert!(back.at(i, j).minus(a.at(i, j)).magnitude() < 1e-10, "{n}");
                    assert!((unit.at(i, j).re - if i == j { 1.0 } else { 0.0 }).abs() < 1e-12, "{n}");
                    assert!(i < j + 2 || found.t.at(i, j).magnitude() == 0.0, "{n}");
                }
            }
            let turned =
                Matrix::new(n, n, |i, j| Complex::new(a.at(i, j).re, ((i * 3 + j * 11 + i * j) % 7) as f64 - 3.0));
            let complex = complex_schur(&turned, f64::EPSILON);
            assert!(complex.is_converged);
            let back = complex.z.times(&complex.t).times(&complex.z.adjoint());
            let apart = back.data.iter().zip(&turned.data).map(|(x, y)| x.minus(*y).magnitude()).fold(0.0, f64::max);
            assert!(apart < 1e-10, "{n}: {apart}");
            let trace: f64 = (0..n).map(|i| a.at(i, i).re).sum();
            assert!((found.values.iter().map(|x| x.re).sum::<f64>() - trace).abs() < 1e-10, "{n}");
        }
    }
}
