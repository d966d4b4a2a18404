//! Ops on each element by itself.

use tensor::DType;

use super::Writer;
use super::value::{V, epsilon, limit, ty};

/// Rounding of a function that is computed by approximation, in distances between neighbours.
const FUNCTION_ULPS: f64 = 8.0;

impl Writer {
    /// An elementwise op without a change of type.
    fn same(&mut self, name: &str, operands: &[&V], result: V) -> V {
        let value = self.name();
        let names: Vec<&str> = operands.iter().map(|v| &*v.name).collect();
        self.lines.push(format!("{value} = stablehlo.{name} {} : {}", names.join(", "), result.ty()));
        self.add(V { name: value, ..result })
    }

    pub(super) fn binary(&mut self) {
        let a = self.any();
        if a.dtype.is_bool() {
            let b = self.like(&a, |_| true);
            let name = self.numbers.pick(&["and", "or", "xor", "add", "multiply", "maximum", "minimum"]);
            self.same(name, &[&a, &b], V { is_untouched: true, ..a.clone() });
        } else if a.is_float() {
            self.binary_float(a);
        } else {
            let b = self.like(&a, |_| true);
            let name = self.numbers.pick(&[
                "add",
                "subtract",
                "multiply",
                "divide",
                "remainder",
                "maximum",
                "minimum",
                "and",
                "or",
                "xor",
                "shift_left",
                "shift_right_logical",
                "shift_right_arithmetic",
            ]);
            self.same(name, &[&a, &b], a.clone());
        }
    }

    fn binary_float(&mut self, a: V) {
        if !a.is_calm() {
            return;
        }
        let name = self.numbers.pick(&[
            "add",
            "add",
            "subtract",
            "multiply",
            "multiply",
            "divide",
            "maximum",
            "minimum",
            "remainder",
            "power",
            "atan2",
        ]);
        let fine = |g: Option<i32>, h: Option<i32>| Some(g?.max(h?));
        let rough = epsilon(a.dtype) * FUNCTION_ULPS;
        match name {
            "add" | "subtract" => {
                let b = self.like(&a, V::is_calm);
                let result = a.clone().computed(a.size + b.size, a.error + b.error, fine(a.grid, b.grid));
                let result = V { has_special: a.has_special || b.has_special, ..result };
                self.same(name, &[&a, &b], result);
            }
            "multiply" => {
                let b = self.like(&a, |b| b.is_calm() && b.size * a.size <= limit(a.dtype));
                if b.size * a.size > limit(a.dtype) {
                    return;
                }
                // Zero times infinity: which zero it is must be certain.
                if (a.has_special || b.has_special) && !(a.is_exact() && b.is_exact()) {
                    return;
                }
                let error = a.size * b.error + b.size * a.error;
                let grid = a.grid.zip(b.grid).map(|(g, h)| g + h);
                let result = V {
                    has_special: a.has_special || b.has_special,
                    ..a.clone().computed(a.size * b.size, error, grid)
                };
                self.same(name, &[&a, &b], result);
            }
            "divide" => {
                let b = self.like(&a, |b| b.is_exact() && b.is_untouched && b.least().is_some());
                let (Some(least), true) = (b.least(), b.is_exact() && b.is_untouched) else { return };
                let size = a.size / least;
                // 0/0 and inf/inf must be certain.
                if size > limit(a.dtype) || !a.is_exact() && (a.has_special || !b.is_positive) {
                    return;
                }
                let result = V { has_special: true, ..a.clone().computed(size, a.error / least, None) };
                let result = V { has_special: a.has_special || b.has_special || !b.is_positive, ..result };
                self.same(name, &[&a, &b], result);
            }
            "maximum" | "minimum" => {
                let b = self.like(&a, |_| true);
                let result = V {
                    size: a.size.max(b.size),
                    error: a.error.max(b.error),
                    grid: fine(a.grid, b.grid),
                    is_positive: a.is_positive && b.is_positive,
                    has_special: a.has_special || b.has_special,
                    is_untouched: false,
                    ..a.clone()
                };
                self.same(name, &[&a, &b], result);
            }
            "remainder" => {
                let b = self.like(&a, |b| b.grid.is_some() && b.is_untouched);
                if !(a.is_exact() && a.grid.is_some() && b.grid.is_some() && b.is_untouched) {
                    return;
                }
                let result = a.clone().computed(b.size.min(a.size).max(a.size), 0.0, fine(a.grid, b.grid));
                self.same(name, &[&a, &b], V { has_special: true, ..result });
            }
            "power" => {
                let b = self.like(&a, |b| b.size <= 2.0 && b.is_exact() && !b.has_special);
                if !(a.is_positive
                    && a.size <= 2.0
                    && a.is_exact()
                    && !a.has_special
                    && b.is_exact()
                    && b.size <= 2.0
                    && !b.has_special)
                {
                    return;
                }
                let result = a.clone().computed(4.0, 4.0 * rough, None);
                self.same(name, &[&a, &b], result);
            }
            _ => {
                let b = self.like(&a, |b| b.is_exact() && b.is_untouched);
                if !(a.is_exact() && a.is_untouched && b.is_exact() && b.is_untouched) {
                    return;
                }
                let result = a.clone().computed(3.2, 3.2 * rough, None);
                self.same(name, &[&a, &b], V { has_special: a.has_special || b.has_special, ..result });
            }
        }
    }

    pub(super) fn unary(&mut self) {
        let a = self.any();
        if a.dtype.is_bool() {
            self.same("not", &[&a], a.clone());
        } else if !a.is_float() {
            let name = self.numbers.pick(&["negate", "abs", "not", "sign", "popcnt", "count_leading_zeros"]);
            if matches!(name, "abs" | "sign") && a.dtype.is_unsigned_integer() {
                return;
            }
            self.same(name, &[&a], a.clone());
        } else {
            self.unary_float(&a);
        }
    }

    fn unary_float(&mut self, a: &V) {
        let name = self.numbers.pick(&[
            "negate",
            "abs",
            "sign",
            "floor",
            "ceil",
            "round_nearest_even",
            "round_nearest_afz",
            "sqrt",
            "rsqrt",
            "cbrt",
            "exponential",
            "exponential_minus_one",
            "log",
            "log_plus_one",
            "tanh",
            "logistic",
            "sine",
            "cosine",
            "tan",
            "is_finite",
        ]);
        let rough = epsilon(a.dtype) * FUNCTION_ULPS;
        let smooth = |size: f64, slope: f64| a.clone().computed(size, slope * a.error + rough * size.max(0.01), None);
        let result = match name {
            "is_finite" => {
                let result = V { dtype: DType::Bool, error: 0.0, is_untouched: true, ..a.clone() };
                self.op(&format!("stablehlo.is_finite {}", a.name), &[a], result);
                return;
            }
            "negate" => V { is_positive: false, ..a.clone() },
            "abs" => a.clone(),
            "sign" if a.is_exact() => a.clone().computed(1.0, 0.0, Some(0)),
            "floor" | "ceil" | "round_nearest_even" | "round_nearest_afz" if a.is_exact() && a.is_calm() => {
                a.clone().computed(a.size + 1.0, 0.0, Some(0))
            }
            "sqrt" if a.is_exact() && a.least().is_some() => V { has_special: true, ..smooth(a.size.sqrt(), 0.0) },
            "rsqrt" if a.is_exact() && a.is_untouched && a.least().is_some() => {
                V { has_special: true, ..smooth(a.least().unwrap_or(1.0).sqrt().recip(), 0.0) }
            }
            "cbrt" if a.is_exact() => smooth(a.size.cbrt().max(1.0), 0.0),
            "exponential" if a.size <= 4.0 => smooth(a.size.exp(), a.size.exp()),
            "exponential_minus_one" if a.size <= 4.0 => smooth(a.size.exp(), a.size.exp()),
            "log" if a.is_exact() && a.least().is_some() && a.is_calm() => {
                let size = a.size.ln().abs().max(a.least().unwrap_or(1.0).ln().abs());
                V { has_special: true, ..smooth(size, 0.0) }
            }
            "log_plus_one" if a.is_exact() && a.grid.is_some() && a.is_calm() => {
                V { has_special: true, ..smooth((1.0 + a.size).ln() + 15.0, 0.0) }
            }
            "tanh" | "logistic" if a.is_calm() => smooth(1.0, 1.0),
            "sine" | "cosine" if a.size <= 100.0 => V { has_special: a.has_special, ..smooth(1.0, 1.0) },
            "tan" if a.size <= 1.0 => V { has_special: a.has_special, ..smooth(1.6, 4.0) },
            _ => return,
        };
        // An overflow of a narrow type is decided by the last digit.
        if result.size <= limit(a.dtype) || a.size == result.size {
            self.same(name, &[a], result);
        }
    }

    pub(super) fn compare(&mut self) {
        let Some(a) = self.that(V::is_exact) else { return };
        let b = self.like(&a, V::is_exact);
        if !b.is_exact() {
            return;
        }
        let direction = self.numbers.pick(&["EQ", "NE", "LT", "LE", "GT", "GE"]);
        let kind = if a.is_float() && a.is_untouched && b.is_untouched && self.numbers.one_in(3) {
            ", TOTALORDER"
        } else {
            ""
        };
        let result = V { dtype: DType::Bool, is_untouched: true, ..a.clone() };
        self.op(&format!("stablehlo.compare {direction}, {}, {}{kind}", a.name, b.name), &[&a, &b], result);
    }

    pub(super) fn select(&mut self) {
        let a = self.any();
        let b = self.like(&a, |_| true);
        let is_scalar = self.numbers.one_in(4);
        let dims = if is_scalar { Vec::new() } else { a.dims.clone() };
        let mask = match self.that(|v| v.dtype.is_bool() && v.dims == dims) {
            Some(mask) => mask,
            None => self.argument(DType::Bool, &dims),
        };
        let result = either(&a, &b);
        let text = format!("stablehlo.select {}, {}, {}", mask.name, a.name, b.name);
        self.op(&text, &[&mask, &a, &b], result);
    }

    pub(super) fn clamp(&mut self) {
        let a = self.any();
        if a.dtype.is_bool() || a.dtype.bits() < 8 {
            return;
        }
        let (low, high) = if a.is_float() { ("-1.25", "1.5") } else { ("1", "5") };
        let (low, high) = (self.scalar(a.dtype, low), self.scalar(a.dtype, high));
        let (name, scalar) = (self.name(), ty(a.dtype, &[]));
        self.lines.push(format!(
            "{name} = stablehlo.clamp {low}, {}, {high} : ({scalar}, {}, {scalar}) -> {}",
            a.name,
            a.ty(),
            a.ty()
        ));
        let grid = a.grid.map(|g| g.max(2));
        let result = V { name, size: 1.5, grid, is_untouched: false, is_positive: false, ..a.clone() };
        self.add(result);
    }

    pub(super) fn convert(&mut self) {
        let a = self.any();
        let to = self.dtype();
        if to == a.dtype {
            return;
        }
        let result = match (a.is_float(), to.is_float()) {
            (true, true) => {
                if a.size > limit(to) {
                    return;
                }
                V { is_positive: a.is_positive, ..V { dtype: to, ..a.clone() }.computed(a.size, a.error, a.grid) }
            }
            (true, false) => {
                if !a.is_exact() || a.has_special && to.bits() < 8 {
                    return;
                }
                V { dtype: to, ..a.clone() }
            }
            (false, true) => {
                // Any integer may become a float, but arithmetic goes on with small ones only.
                let size = if a.dtype.is_bool() { 1.0 } else { 2f64.powi(a.dtype.bits() as i32) };
                if size > 1e30 && to.bits() < 32 || size > 40.0 && to.bits() == 8 || size > 60000.0 && to == DType::F16
                {
                    return;
                }
                let result = V { dtype: to, has_special: false, error: 0.0, ..a.clone() };
                // One rounding of an exact number is the same for all.
                V { error: 0.0, ..result.computed(size, 0.0, Some(0)) }
            }
            (false, false) => V { dtype: to, ..a.clone() },
        };
        self.op(&format!("stablehlo.convert {}", a.name), &[&a], result);
    }

    pub(super) fn bitcast(&mut self) {
        let Some(a) = self.that(|v| v.is_exact() && v.is_untouched && !v.dtype.is_bool() && v.dtype.bits() >= 8) else {
            return;
        };
        let to = match (a.is_float(), a.dtype.bits()) {
            (true, 8) => DType::U8,
            (true, 16) => DType::I16,
            (true, 32) => DType::U32,
            (true, _) => DType::I64,
            (false, 8) => self.numbers.pick(&[DType::I8, DType::U8]),
            (false, 16) => self.numbers.pick(&[DType::I16, DType::U16]),
            (false, 32) => self.numbers.pick(&[DType::I32, DType::U32]),
            (false, _) => self.numbers.pick(&[DType::I64, DType::U64]),
        };
        // NaNs have bits of their own only where nothing was computed.
        if a.has_special && a.is_float() {
            return;
        }
        let text = format!("stablehlo.bitcast_convert {}", a.name);
        if self.numbers.one_in(3) && to.bits() == 32 {
            let dims = [&a.dims[..], &[4]].concat();
            if self.may_have(&dims) {
                self.op(&text, &[&a], V { dtype: DType::U8, dims, ..a.clone() });
            }
            return;
        }
        self.op(&text, &[&a], V { dtype: to, ..a.clone() });
    }

    pub(super) fn barrier(&mut self) {
        let a = self.any();
        self.same("optimization_barrier", &[&a], a.clone());
    }
}

/// What is known of a value that is one of two.
pub(super) fn either(a: &V, b: &V) -> V {
    V {
        size: a.size.max(b.size),
        error: a.error.max(b.error),
        grid: a.grid.zip(b.grid).map(|(g, h)| g.max(h)),
        is_positive: a.is_positive && b.is_positive,
        has_special: a.has_special || b.has_special,
        is_untouched: a.is_untouched && b.is_untouched,
        ..a.clone()
    }
}
