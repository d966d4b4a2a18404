//! Ops that belong together: what models are made of, and compilers look for.

use tensor::DType;

use super::Writer;
use super::value::{V, epsilon, limit};

impl Writer {
    pub(super) fn pattern(&mut self) {
        match self.numbers.below(5) {
            0 => self.softmax_of_any(),
            1 => self.normalization(),
            2 => self.attention(),
            3 => self.quantized(),
            _ => self.layer(),
        }
    }

    /// A float of one of the usual types, with numbers of moderate size and rows.
    fn rows(&mut self) -> Option<V> {
        self.that(|v| {
            matches!(v.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
                && v.size <= 4.0
                && v.error <= 1e-3
                && !v.has_special
                && !v.dims.is_empty()
                && !v.dims.contains(&0)
        })
    }

    /// An elementwise op of two values of one type.
    fn apply(&mut self, name: &str, a: &V, b: &V) -> V {
        let result = self.name();
        self.lines.push(format!("{result} = stablehlo.{name} {}, {} : {}", a.name, b.name, a.ty()));
        V { name: result, is_positive: false, is_untouched: false, has_special: false, grid: None, ..a.clone() }
    }

    fn apply_one(&mut self, name: &str, a: &V) -> V {
        let result = self.name();
        self.lines.push(format!("{result} = stablehlo.{name} {} : {}", a.name, a.ty()));
        V { name: result, is_positive: false, is_untouched: false, grid: None, ..a.clone() }
    }

    /// A fold along the rows, spread over them again.
    fn row_fold(&mut self, a: &V, fold: &str, first: &str) -> V {
        let init = self.scalar(a.dtype, first);
        let (outer, last) = (a.dims[..a.dims.len() - 1].to_vec(), a.dims.len() - 1);
        let folded = V { dims: outer, ..a.clone() };
        let scalar = V { dims: Vec::new(), ..a.clone() };
        let text =
            format!("stablehlo.reduce({} init: {init}) applies stablehlo.{fold} across dimensions = [{last}]", a.name);
        let name = self.name();
        self.lines.push(format!("{name} = {text} : ({}, {}) -> {}", a.ty(), scalar.ty(), folded.ty()));
        let spread = self.name();
        let along: Vec<usize> = (0..last).collect();
        self.lines.push(format!(
            "{spread} = stablehlo.broadcast_in_dim {name}, dims = {along:?} : ({}) -> {}",
            folded.ty(),
            a.ty()
        ));
        V { name: spread, ..a.clone() }
    }

    fn splat(&mut self, a: &V, text: &str) -> V {
        let name = self.name();
        self.lines.push(format!("{name} = stablehlo.constant dense<{text}> : {}", a.ty()));
        V { name, ..a.clone() }
    }

    fn softmax(&mut self, a: &V) -> V {
        let lowest = if a.dtype == DType::F32 { "0xFF800000" } else { "-64.0" };
        let most = self.row_fold(a, "maximum", lowest);
        let shifted = self.apply("subtract", a, &most);
        let powers = self.apply_one("exponential", &shifted);
        let sum = self.row_fold(&powers, "add", "0.0");
        let result = self.apply("divide", &powers, &sum);
        let n = *a.dims.last().unwrap_or(&1) as f64;
        V { size: 1.0, error: 4.0 * a.error + (2.0 * n + 32.0) * epsilon(a.dtype), ..result }
    }

    fn softmax_of_any(&mut self) {
        if let Some(a) = self.rows() {
            let result = self.softmax(&a);
            self.add(result);
        }
    }

    fn normalization(&mut self) {
        let Some(a) = self.rows().filter(|v| matches!(v.dtype, DType::F32 | DType::F64)) else { return };
        let count = *a.dims.last().unwrap_or(&1) as f64;
        let divisor = self.splat(&a, &format!("{count:?}"));
        let sum = self.row_fold(&a, "add", "0.0");
        let mean = self.apply("divide", &sum, &divisor);
        let centred = self.apply("subtract", &a, &mean);
        let squares = self.apply("multiply", &centred, &centred);
        let sum = self.row_fold(&squares, "add", "0.0");
        let variance = self.apply("divide", &sum, &divisor);
        let little = self.splat(&a, "0.125");
        let raised = self.apply("add", &variance, &little);
        let scale = self.apply_one("rsqrt", &raised);
        let result = self.apply("multiply", &centred, &scale);
        let rounding = count * epsilon(a.dtype);
        let mean_error = 2.0 * a.error + rounding * a.size;
        let variance_error = 8.0 * a.size * mean_error + rounding * 4.0 * a.size * a.size;
        // The slope of 1/√x at 0.125 is 11.4.
        let error = 3.0 * mean_error + 2.0 * a.size * 12.0 * variance_error;
        self.add(V { size: 6.0 * a.size, error, ..result });
    }

    fn attention(&mut self) {
        let dtype = self.numbers.pick(&[DType::F32, DType::F32, DType::BF16, DType::F64]);
        let heads = self.numbers.pick(&[vec![], vec![2], vec![1, 3]]);
        let (rows, columns) = (self.numbers.pick(&[1, 5, 16, 33, 70]), self.numbers.pick(&[1, 7, 16, 40, 260]));
        let (width, value_width) = (self.numbers.pick(&[4, 8, 16]), self.numbers.pick(&[8, 16, 5]));
        let model = V::argument(String::new(), dtype, [&heads[..], &[rows, width]].concat());
        let calm = |v: &V| v.size <= 2.0 && v.is_exact() && !v.has_special && v.grid.is_some();
        let q = self.like(&model, calm);
        let k = self.like(&V { dims: [&heads[..], &[columns, width]].concat(), ..model.clone() }, calm);
        let v = self.like(&V { dims: [&heads[..], &[columns, value_width]].concat(), ..model.clone() }, calm);
        if ![&q, &k, &v].into_iter().all(calm) {
            return;
        }
        let batch: Vec<usize> = (0..heads.len()).collect();
        let (inner, last) = (heads.len(), heads.len() + 1);
        let scores = V { dims: [&heads[..], &[rows, columns]].concat(), ..q.clone() }.product(width, 4.0, 0.0, Some(4));
        let error = scores.error;
        let dot = |a: &V, b: &V, x: usize, y: usize| {
            format!(
                "stablehlo.dot_general {}, {}, batching_dims = {batch:?} x {batch:?}, contracting_dims = [{x}] x [{y}]",
                a.name, b.name
            )
        };
        let name = self.name();
        self.lines.push(format!("{name} = {} : ({}, {}) -> {}", dot(&q, &k, last, last), q.ty(), k.ty(), scores.ty()));
        let scores = V { name, ..scores };
        let factor = self.splat(&scores, "0.125");
        let mut scaled = self.apply("multiply", &scores, &factor);
        scaled.size = scores.size / 8.0;
        scaled.error = error / 8.0 + epsilon(dtype) * scaled.size;
        let mask = self.numbers.pick(&["none", "data", "positions", "positions"]);
        if mask != "none" {
            let (mask, other) = if mask == "data" {
                (self.argument(DType::Bool, &scaled.dims), self.splat(&scaled, "-30.0"))
            } else {
                let hidden = self.numbers.pick(&["-2000.0", "-1.0e9", "-30.0"]);
                (self.mask_of_positions(&scaled), self.splat(&scaled, hidden))
            };
            let name = self.name();
            self.lines.push(format!(
                "{name} = stablehlo.select {}, {}, {} : {}, {}",
                mask.name,
                scaled.name,
                other.name,
                mask.ty(),
                scaled.ty()
            ));
            scaled.name = name;
        }
        let weights = self.softmax(&scaled);
        let result = V { dims: [&heads[..], &[rows, value_width]].concat(), size: v.size, ..weights.clone() };
        let text = dot(&weights, &v, last, inner);
        let n = columns as f64;
        let error = n * weights.error * v.size + n * epsilon(dtype) * v.size;
        self.op(&text, &[&weights, &v], V { error, ..result });
    }

    /// Which columns each row of the last two dimensions sees. In f32 some rows may see none; in other types the maximum
    /// of such a row would not be its own.
    fn mask_of_positions(&mut self, like: &V) -> V {
        let (row, column) = (like.dims.len() - 2, like.dims.len() - 1);
        let whole = V { dtype: DType::I32, ..like.clone() };
        let mask = V { dtype: DType::Bool, ..like.clone() };
        let [rows, columns] = [row, column].map(|along| {
            let name = self.name();
            self.lines.push(format!("{name} = stablehlo.iota dim = {along} : {}", whole.ty()));
            V { name, ..whole.clone() }
        });
        let compare = |generator: &mut Self, order: &str, shift: i64| {
            let shift = generator.splat(&whole, &shift.to_string());
            let (moved, name) = (generator.name(), generator.name());
            let ty = whole.ty();
            generator.lines.push(format!("{moved} = stablehlo.add {}, {} : {ty}", rows.name, shift.name));
            generator.lines.push(format!(
                "{name} = stablehlo.compare {order}, {moved}, {}, SIGNED : ({ty}, {ty}) -> {}",
                columns.name,
                mask.ty()
            ));
            V { name, ..mask.clone() }
        };
        let on = self.numbers.pick(&[0, 0, 3, 200]);
        let seen = compare(self, "GE", on);
        if like.dtype != DType::F32 || self.numbers.one_in(2) {
            return seen;
        }
        let back = self.numbers.pick(&[-1, -4, -40, 2]);
        let other = compare(self, "LE", back);
        let name = self.name();
        self.lines.push(format!("{name} = stablehlo.and {}, {} : {}", seen.name, other.name, mask.ty()));
        V { name, ..mask }
    }

    /// A matmul, a row added to it, a function of that.
    fn layer(&mut self) {
        let dtype = self.numbers.pick(&[DType::F32, DType::F32, DType::BF16, DType::F64, DType::F16]);
        let (m, k, n) =
            (self.numbers.pick(&[1, 4, 17, 40]), self.numbers.pick(&[1, 8, 33]), self.numbers.pick(&[1, 16, 31, 64]));
        let model = V::argument(String::new(), dtype, vec![m, k]);
        let calm = |v: &V| v.size <= 2.0 && v.is_exact() && !v.has_special && v.grid.is_some();
        let a = self.like(&model, calm);
        let b = self.like(&V { dims: vec![k, n], ..model.clone() }, calm);
        let c = self.like(&V { dims: vec![n], ..model.clone() }, calm);
        if ![&a, &b, &c].into_iter().all(calm) {
            return;
        }
        let dot = V { dims: vec![m, n], ..a.clone() }.product(k + 1, 4.0, 0.0, Some(4));
        if dot.size > limit(dtype) {
            return;
        }
        let text = format!("stablehlo.dot_general {}, {}, contracting_dims = [1] x [0]", a.name, b.name);
        let dot = self.op(&text, &[&a, &b], dot);
        let text = format!("stablehlo.broadcast_in_dim {}, dims = [1]", c.name);
        let row = self.op(&text, &[&c], V { dims: vec![m, n], ..c.clone() });
        let error = dot.error + epsilon(dtype) * dot.size;
        let sum = V { error, ..self.apply("add", &dot, &row) };
        let is_transposed = self.numbers.one_in(3);
        let last = match self.numbers.below(3) {
            0 => {
                let zero = self.splat(&sum, "0.0");
                V { error, ..self.apply("maximum", &sum, &zero) }
            }
            1 => V { size: 1.0, error: error + 16.0 * epsilon(dtype), ..self.apply_one("tanh", &sum) },
            _ => sum,
        };
        let last = self.add(last);
        if is_transposed {
            let text = format!("stablehlo.transpose {}, dims = [1, 0]", last.name);
            let turned = self.op(&text, &[&last], V { dims: vec![n, m], ..last.clone() });
            let doubled = self.apply("add", &turned, &turned);
            self.add(V {
                size: 2.0 * turned.size,
                error: 2.0 * turned.error + epsilon(dtype) * turned.size,
                ..doubled
            });
        }
    }
}
