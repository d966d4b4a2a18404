//! Functions of complex numbers, written so that large and small parts neither overflow nor vanish on the way.

use super::value::Complex;

const I: Complex = Complex { re: 0.0, im: 1.0 };
const ONE: Complex = Complex { re: 1.0, im: 0.0 };

impl Complex {
    pub(crate) fn negative(self) -> Complex {
        Complex { re: -self.re, im: -self.im }
    }

    /// The angle in the plane.
    pub(crate) fn argument(self) -> f64 {
        self.im.atan2(self.re)
    }

    pub(crate) fn exp(self) -> Complex {
        if self.im == 0.0 {
            return Complex { re: self.re.exp(), im: self.im };
        }
        // An infinite part times a zero is NaN; the limit along the real axis is meant.
        if self.re == f64::NEG_INFINITY {
            return if self.im.is_finite() {
                Complex { re: 0.0 * self.im.cos(), im: 0.0 * self.im.sin() }
            } else {
                Complex::default()
            };
        }
        if self.re == f64::INFINITY && !self.im.is_finite() {
            return Complex { re: f64::INFINITY, im: f64::NAN };
        }
        // Two steps where e^re alone would overflow but its product with a small sine would not.
        let (sin, cos) = self.im.sin_cos();
        if self.re > 709.0 && self.re.is_finite() {
            let half = (self.re / 2.0).exp();
            return Complex { re: half * cos * half, im: half * sin * half };
        }
        let magnitude = self.re.exp();
        Complex { re: magnitude * cos, im: magnitude * sin }
    }

    /// `exp(z) - 1` without the cancellation near zero.
    pub(crate) fn exp_m1(self) -> Complex {
        if self.im == 0.0 {
            return Complex { re: self.re.exp_m1(), im: self.im };
        }
        let half_sin = (self.im / 2.0).sin();
        let exp_m1 = self.re.exp_m1();
        let exp = self.exp();
        if !exp.re.is_finite() || !exp.im.is_finite() {
            return Complex { re: exp.re - 1.0, im: exp.im };
        }
        Complex { re: exp_m1 * self.im.cos() - 2.0 * half_sin * half_sin, im: exp.im }
    }

    pub(crate) fn ln(self) -> Complex {
        let (x, y) = (self.re.abs(), self.im.abs());
        let (large, small) = if x >= y { (x, y) } else { (y, x) };
        let re = if x.is_infinite() || y.is_infinite() {
            f64::INFINITY
        } else if large > 0.5 && large < 3.0 {
            // Near the unit circle: log1p of |z|² - 1.
            0.5 * ((large - 1.0) * (large + 1.0) + small * small).ln_1p()
        } else {
            self.magnitude().ln()
        };
        Complex { re, im: self.argument() }
    }

    /// `log(1 + z)` without the cancellation near zero.
    pub(crate) fn ln_1p(self) -> Complex {
        let (x, y) = (self.re, self.im);
        let re = if x.is_infinite() || y.is_infinite() {
            f64::INFINITY
        } else if x.abs() < 1e100 && y.abs() < 1e100 && (x + 1.0).hypot(y) < 4.0 {
            0.5 * (x * (x + 2.0) + y * y).ln_1p()
        } else {
            (x + 1.0).hypot(y).ln()
        };
        Complex { re, im: y.atan2(x + 1.0) }
    }

    pub(crate) fn sqrt(self) -> Complex {
        let (x, y) = (self.re, self.im);
        if x == 0.0 && y == 0.0 {
            return Complex { re: 0.0, im: y };
        }
        if y.is_infinite() {
            return Complex { re: f64::INFINITY, im: y };
        }
        if x == f64::INFINITY {
            return Complex { re: x, im: if y.is_nan() { y } else { 0.0f64.copysign(y) } };
        }
        if x == f64::NEG_INFINITY {
            return Complex { re: if y.is_nan() { y } else { 0.0 }, im: f64::INFINITY.copysign(y) };
        }
        // Scaled by an even power of two so that the magnitude does not overflow.
        let scale = if x.abs().max(y.abs()) > 1e300 { 0.25 } else { 1.0 };
        let (u, v) = (x * scale, y * scale);
        let root = (0.5 * (u.abs() + u.hypot(v))).sqrt();
        let back = 1.0 / f64::sqrt(scale);
        if u >= 0.0 {
            Complex { re: root * back, im: v / (2.0 * root) * back }
        } else {
            Complex { re: v.abs() / (2.0 * root) * back, im: root.copysign(v) * back }
        }
    }

    pub(crate) fn powc(self, exponent: Complex) -> Complex {
        if exponent.re == 0.0 && exponent.im == 0.0 {
            return ONE;
        }
        if self.re == 0.0 && self.im == 0.0 {
            return if exponent.im == 0.0 && exponent.re > 0.0 {
                Complex::default()
            } else {
                Complex::new(f64::NAN, f64::NAN)
            };
        }
        self.ln().times(exponent).exp()
    }

    pub(crate) fn sin(self) -> Complex {
        Complex { re: self.re.sin() * self.im.cosh(), im: self.re.cos() * self.im.sinh() }
    }

    pub(crate) fn cos(self) -> Complex {
        Complex { re: self.re.cos() * self.im.cosh(), im: -(self.re.sin() * self.im.sinh()) }
    }

    pub(crate) fn sinh(self) -> Complex {
        Complex { re: self.re.sinh() * self.im.cos(), im: self.re.cosh() * self.im.sin() }
    }

    pub(crate) fn cosh(self) -> Complex {
        Complex { re: self.re.cosh() * self.im.cos(), im: self.re.sinh() * self.im.sin() }
    }

    pub(crate) fn tanh(self) -> Complex {
        // Beyond this the real part is ±1 to the last bit and the quotient below would overflow.
        if self.re.abs() > 300.0 {
            let im = if self.im.is_finite() { 0.0f64.copysign((2.0 * self.im).sin()) } else { 0.0 };
            return Complex { re: 1.0f64.copysign(self.re), im };
        }
        let (sinh, tan) = (self.re.sinh(), self.im.tan());
        if tan.is_infinite() {
            return Complex { re: 1.0 / self.re.tanh(), im: 0.0 };
        }
        let secant = 1.0 + tan * tan;
        let cosh = (1.0 + sinh * sinh).sqrt();
        let below = 1.0 + secant * sinh * sinh;
        Complex { re: secant * cosh * sinh / below, im: tan / below }
    }

    pub(crate) fn tan(self) -> Complex {
        let t = Complex { re: -self.im, im: self.re }.tanh();
        Complex { re: t.im, im: -t.re }
    }

    /// The principal arc sine, by Kahan's formulas.
    pub(crate) fn asin(self) -> Complex {
        let near = ONE.minus(self).sqrt();
        let far = ONE.plus(self).sqrt();
        Complex { re: self.re.atan2(near.times(far).re), im: (near.conjugate().times(far)).im.asinh() }
    }

    /// What `asin` and `acos` share: with `w` of `z`, `asin z = (atan2(z.re, w.re), sign(z.im) w.im)` and
    /// `acos z = (atan2(w.re, z.re), -sign(z.im) w.im)`.
    pub(crate) fn asin_acos_kernel(self) -> Complex {
        let near = ONE.minus(self).sqrt();
        let far = ONE.plus(self).sqrt();
        Complex { re: near.times(far).re, im: (near.conjugate().times(far)).im.asinh().abs() }
    }

    pub(crate) fn acos(self) -> Complex {
        let near = ONE.minus(self).sqrt();
        let far = ONE.plus(self).sqrt();
        Complex { re: 2.0 * near.re.atan2(far.re), im: (far.conjugate().times(near)).im.asinh() }
    }

    pub(crate) fn asinh(self) -> Complex {
        let turned = Complex { re: -self.im, im: self.re }.asin();
        Complex { re: turned.im, im: -turned.re }
    }

    pub(crate) fn acosh(self) -> Complex {
        let near = self.minus(ONE).sqrt();
        let far = self.plus(ONE).sqrt();
        Complex { re: (near.conjugate().times(far)).re.asinh(), im: 2.0 * near.im.atan2(far.re) }
    }

    pub(crate) fn atanh(self) -> Complex {
        let (x, y) = (self.re, self.im);
        if x.is_infinite() || y.is_infinite() || x.abs().max(y.abs()) > 1e150 {
            return Complex { re: 0.0f64.copysign(x), im: std::f64::consts::FRAC_PI_2.copysign(y) };
        }
        // |1+z|² over |1-z|² through log1p, and the angle between 1+z and 1-z.
        let apart = (1.0 - x) * (1.0 - x) + y * y;
        let re = if x >= 0.0 {
            0.25 * (4.0 * x / apart).ln_1p()
        } else {
            let apart = (1.0 + x) * (1.0 + x) + y * y;
            -0.25 * (-4.0 * x / apart).ln_1p()
        };
        Complex { re, im: 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y) }
    }

    pub(crate) fn atan(self) -> Complex {
        let turned = Complex { re: -self.im, im: self.re }.atanh();
        Complex { re: turned.im, im: -turned.re }
    }

    /// `atan2(self, x)` for complex numbers: `-i log((x + i y) / sqrt(x² + y²))`.
    pub(crate) fn atan2(self, x: Complex) -> Complex {
        let length = x.times(x).plus(self.times(self)).sqrt();
        let turned = x.plus(I.times(self)).over(length).ln();
        Complex { re: turned.im, im: -turned.re }
    }

    /// `1 / (1 + exp(-z))`.
    pub(crate) fn logistic(self) -> Complex {
        ONE.over(ONE.plus(self.negative().exp()))
    }

    pub(crate) fn reciprocal_sqrt(self) -> Complex {
        if self.re.is_infinite() || self.im.is_infinite() {
            return Complex::default();
        }
        ONE.over(self.sqrt())
    }

    /// `z / |z|`, zero for zero.
    pub(crate) fn sign(self) -> Complex {
        if self.re == 0.0 && self.im == 0.0 {
            return self;
        }
        let magnitude = self.magnitude();
        Complex { re: self.re / magnitude, im: self.im / magnitude }
    }

    pub(crate) fn cbrt(self) -> Complex {
        if self.re == 0.0 && self.im == 0.0 {
            return self;
        }
        let (radius, angle) = (self.magnitude().cbrt(), self.argument() / 3.0);
        Complex { re: radius * angle.cos(), im: radius * angle.sin() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex, b: Complex) {
        let apart = a.minus(b).magnitude();
        assert!(apart <= 1e-14 * (1.0 + b.magnitude()), "{a:?} is not {b:?}");
    }

    #[test]
    fn functions_undo_each_other() {
        for z in [Complex::new(0.3, -0.7), Complex::new(-1.2, 0.4), Complex::new(1e-9, 2e-9), Complex::new(-0.5, -0.25)]
        {
            close(z.ln().exp(), z);
            close(z.ln_1p().exp_m1(), z);
            close(z.sqrt().times(z.sqrt()), z);
            close(z.asin().sin(), z);
            let w = z.asin_acos_kernel();
            close(z.asin(), Complex { re: z.re.atan2(w.re), im: w.im.copysign(z.im) });
            close(z.acos(), Complex { re: w.re.atan2(z.re), im: -w.im.copysign(z.im) });
            close(z.acos().cos(), z);
            close(z.atan().tan(), z);
            close(z.asinh().sinh(), z);
            close(z.acosh().cosh(), z);
            close(z.atanh().tanh(), z);
            let root = z.cbrt();
            close(root.times(root).times(root), z);
        }
    }

    #[test]
    fn extremes_stay_finite() {
        close(Complex::new(400.0, 1.0).tanh(), ONE);
        let root = Complex::new(1e308, 1e308).sqrt();
        assert!(root.re.is_finite() && root.im.is_finite());
    }
}
