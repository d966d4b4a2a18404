//! Ops that place, fold and contract elements.

use tensor::DType;

use super::Writer;
use super::elementwise::either;
use super::value::{V, limit, ty};

impl Writer {
    pub(super) fn view_op(&mut self) {
        let a = self.any();
        let rank = a.dims.len();
        match self.numbers.below(6) {
            0 => {
                let dims = self.refactored(a.count());
                let text = format!("stablehlo.reshape {}", a.name);
                self.op(&text, &[&a], V { dims, ..a.clone() });
            }
            1 => {
                let order = self.permutation(rank);
                let dims = order.iter().map(|&d| a.dims[d]).collect();
                self.op(&format!("stablehlo.transpose {}, dims = {order:?}", a.name), &[&a], V { dims, ..a.clone() });
            }
            2 => {
                let (mut dims, mut parts) = (Vec::new(), Vec::new());
                for &size in &a.dims {
                    let start = self.numbers.below(size + 1).min(size);
                    let end = start + self.numbers.below(size - start + 1);
                    let (start, end) = if self.numbers.one_in(3) { (0, size) } else { (start, end) };
                    let step = self.numbers.pick(&[1, 1, 1, 2, 3]);
                    parts.push(format!("{start}:{end}:{step}"));
                    dims.push((end - start).div_ceil(step));
                }
                let text = format!("stablehlo.slice {} [{}]", a.name, parts.join(", "));
                self.op(&text, &[&a], V { dims, ..a.clone() });
            }
            3 => {
                let dims: Vec<usize> = (0..rank).filter(|_| self.numbers.one_in(2)).collect();
                let name = self.name();
                self.lines.push(format!("{name} = stablehlo.reverse {}, dims = {dims:?} : {}", a.name, a.ty()));
                self.add(V { name, ..a.clone() });
            }
            _ => {
                let mut dims = a.dims.clone();
                let mut along: Vec<usize> = (0..rank).collect();
                for size in &mut dims {
                    if *size == 1 && self.numbers.one_in(2) {
                        *size = self.numbers.between(1, 5) as usize;
                    }
                }
                for _ in 0..self.numbers.below(3) {
                    let at = self.numbers.below(dims.len() + 1);
                    dims.insert(at, self.numbers.between(1, 4) as usize);
                    along.iter_mut().filter(|d| **d >= at).for_each(|d| *d += 1);
                }
                if self.may_have(&dims) && dims.len() <= 6 {
                    let text = format!("stablehlo.broadcast_in_dim {}, dims = {along:?}", a.name);
                    self.op(&text, &[&a], V { dims, ..a.clone() });
                }
            }
        }
    }

    fn permutation(&mut self, rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rank).collect();
        for d in (1..rank).rev() {
            let other = self.numbers.below(d + 1);
            order.swap(d, other);
        }
        order
    }

    /// Other sizes with this product.
    fn refactored(&mut self, count: usize) -> Vec<usize> {
        let mut dims = Vec::new();
        let mut rest = count;
        for factor in [2, 3, 4, 5, 7, 16] {
            if rest > 0 && rest.is_multiple_of(factor) && self.numbers.one_in(2) {
                dims.push(factor);
                rest /= factor;
            }
        }
        let at = self.numbers.below(dims.len() + 1);
        dims.insert(at, rest);
        if self.numbers.one_in(3) {
            let at = self.numbers.below(dims.len() + 1);
            dims.insert(at, 1);
        }
        if count == 1 && self.numbers.one_in(2) { Vec::new() } else { dims }
    }

    pub(super) fn pad(&mut self) {
        let a = self.any();
        let (mut dims, mut low, mut high, mut inner) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &size in &a.dims {
            let interior = self.numbers.pick(&[0, 0, 0, 1, 2]);
            let whole = size as i64 + (size as i64 - 1).max(0) * interior;
            let (l, mut h) = (self.numbers.between(-2, 3), self.numbers.between(-2, 3));
            if whole + l + h < 0 {
                h = -whole - l;
            }
            dims.push((whole + l + h) as usize);
            low.push(l);
            high.push(h);
            inner.push(interior);
        }
        if !self.may_have(&dims) {
            return;
        }
        let scalar = V { dims: Vec::new(), ..a.clone() };
        let fill = self.like(&scalar, |_| true);
        let text =
            format!("stablehlo.pad {}, {}, low = {low:?}, high = {high:?}, interior = {inner:?}", a.name, fill.name);
        self.op(&text, &[&a, &fill], V { dims, ..either(&a, &fill) });
    }

    pub(super) fn concatenate(&mut self) {
        let a = self.any();
        if a.dims.is_empty() {
            return;
        }
        let along = self.numbers.below(a.dims.len());
        let mut parts = vec![a.clone()];
        let mut result = a.clone();
        for _ in 0..self.numbers.between(1, 3) {
            let fits = |v: &V| {
                v.dtype == a.dtype
                    && v.dims.len() == a.dims.len()
                    && (0..a.dims.len()).all(|d| d == along || v.dims[d] == a.dims[d])
            };
            let part = self.that(fits).unwrap_or_else(|| a.clone());
            result = V { dims: result.dims.clone(), ..either(&result, &part) };
            result.dims[along] += part.dims[along];
            parts.push(part);
        }
        if self.may_have(&result.dims) {
            let names: Vec<&str> = parts.iter().map(|v| &*v.name).collect();
            let text = format!("stablehlo.concatenate {}, dim = {along}", names.join(", "));
            self.op(&text, &parts.iter().collect::<Vec<_>>(), result);
        }
    }

    /// What a fold of `count` elements and a first one gives; `None` where the type or the error does not allow it.
    fn folded(&mut self, a: &V, first: &V, count: usize, fold: &str) -> Option<V> {
        if !a.is_float() {
            return Some(either(a, first));
        }
        match fold {
            "add" => {
                let both = either(a, first);
                if !a.is_calm() || !first.is_calm() {
                    return None;
                }
                let sum = Writer::sum(&both, count + 1, both.size, both.error, both.grid);
                (sum.size <= limit(a.dtype) && sum.is_calm()).then_some(sum)
            }
            "maximum" | "minimum" => Some(V { is_untouched: false, ..either(a, first) }),
            _ => None,
        }
    }

    fn a_fold(&mut self, dtype: DType) -> &'static str {
        if dtype.is_bool() {
            self.numbers.pick(&["and", "or", "xor"])
        } else if dtype.is_float() {
            self.numbers.pick(&["add", "add", "maximum", "minimum"])
        } else {
            self.numbers.pick(&["add", "maximum", "minimum", "multiply", "and", "or", "xor"])
        }
    }

    pub(super) fn reduce(&mut self) {
        let a = self.any();
        let fold = self.a_fold(a.dtype);
        let dims: Vec<usize> = match self.numbers.below(3) {
            0 => (0..a.dims.len()).filter(|_| self.numbers.one_in(2)).collect(),
            1 => (self.numbers.below(a.dims.len() + 1)..a.dims.len()).collect(),
            _ => (0..a.dims.len().min(1)).collect(),
        };
        let kept = (0..a.dims.len()).filter(|d| !dims.contains(d)).map(|d| a.dims[d]).collect();
        let count = dims.iter().map(|&d| a.dims[d]).product();
        let first = self.fold_start(&a, fold);
        let Some(result) = self.folded(&a, &first, count, fold) else { return };
        let text = format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{fold} across dimensions = {dims:?}",
            a.name, first.name
        );
        self.op(&text, &[&a, &first], V { dims: kept, ..result });
    }

    /// A first value: the neutral one, or any.
    fn fold_start(&mut self, a: &V, fold: &str) -> V {
        let scalar = V { dims: Vec::new(), ..a.clone() };
        if self.numbers.one_in(3) {
            return self.like(&scalar, V::is_calm);
        }
        let text = match (fold, a.is_float(), a.dtype.is_bool()) {
            ("and", _, true) => "true",
            (_, _, true) => "false",
            ("add", true, _) => "0.0",
            ("multiply", ..) => "1",
            (_, true, _) => "-2.0",
            _ => "0",
        };
        let name = self.scalar(a.dtype, text);
        let value = V { name, grid: Some(2), size: 2.0, error: 0.0, has_special: false, is_positive: false, ..scalar };
        self.add(value)
    }

    pub(super) fn argmax(&mut self) {
        let Some(a) = self.that(|v| v.is_exact() && !v.dims.is_empty() && !v.dtype.is_bool() && v.dtype.bits() >= 8)
        else {
            return;
        };
        let along = self.numbers.below(a.dims.len());
        let positions = self.name();
        let indices = V { dtype: DType::I32, ..a.clone() };
        self.lines.push(format!("{positions} = stablehlo.iota dim = {along} : {}", indices.ty()));
        let lowest = match (a.dtype, a.is_float(), a.dtype.is_unsigned_integer()) {
            (DType::F32, ..) => "0xFF800000".to_string(),
            (_, true, _) => "-8.0".into(),
            (_, _, true) => "0".into(),
            _ => (-(1i128 << (a.dtype.bits() - 1))).to_string(),
        };
        let (first, zero) = (self.scalar(a.dtype, &lowest), self.scalar(DType::I32, "0"));
        let dims: Vec<usize> = (0..a.dims.len()).filter(|&d| d != along).map(|d| a.dims[d]).collect();
        let (t, i) = (ty(a.dtype, &[]), ty(DType::I32, &[]));
        let name = self.name();
        let direction = self.numbers.pick(&["GT", "GE"]);
        let (values, found) = (V { dims: dims.clone(), ..a.clone() }, V { dims, ..indices.clone() });
        self.lines.push(format!(
            "{name}:2 = stablehlo.reduce({} init: {first}), ({positions} init: {zero}) across dimensions = [{along}] : ({}, {}, {t}, {i}) -> ({}, {})",
            a.name, a.ty(), indices.ty(), values.ty(), found.ty()
        ));
        for line in [
            format!(" reducer(%p: {t}, %q: {t}) (%m: {i}, %n: {i})  {{"),
            format!("  %c = stablehlo.compare {direction}, %p, %q : ({t}, {t}) -> tensor<i1>"),
            format!("  %d = stablehlo.compare NE, %p, %p : ({t}, {t}) -> tensor<i1>"),
            "  %e = stablehlo.or %c, %d : tensor<i1>".into(),
            format!("  %f = stablehlo.compare EQ, %p, %q : ({t}, {t}) -> tensor<i1>"),
            format!("  %g = stablehlo.compare LT, %m, %n : ({i}, {i}) -> tensor<i1>"),
            "  %h = stablehlo.and %f, %g : tensor<i1>".into(),
            "  %k = stablehlo.or %e, %h : tensor<i1>".into(),
            format!("  %v = stablehlo.select %e, %p, %q : tensor<i1>, {t}"),
            format!("  %w = stablehlo.select %k, %m, %n : tensor<i1>, {i}"),
            format!("  stablehlo.return %v, %w : {t}, {i}"),
            "}".into(),
        ] {
            self.lines.push(line);
        }
        let values = V { size: values.size.max(8.0), is_untouched: false, is_positive: false, ..values };
        self.add(V { name: format!("{name}#0"), ..values });
        self.add(V { name: format!("{name}#1"), is_untouched: true, ..found });
    }

    pub(super) fn iota(&mut self) {
        let (dtype, dims) = (self.dtype(), self.shape());
        if dims.is_empty() || dtype.is_bool() {
            return;
        }
        let along = self.numbers.below(dims.len());
        let size = dims[along] as f64;
        if dtype.is_float() && size > limit(dtype) {
            return;
        }
        let name = self.name();
        self.lines.push(format!("{name} = stablehlo.iota dim = {along} : {}", ty(dtype, &dims)));
        let value = V {
            name,
            dtype,
            dims,
            size,
            error: 0.0,
            grid: None,
            is_positive: false,
            has_special: false,
            is_untouched: true,
        };
        let computed = V { error: 0.0, ..value.computed(size, 0.0, Some(0)) };
        self.add(computed);
    }

    pub(super) fn dot(&mut self) {
        let Some(a) = self.that(|v| v.is_calm() && !v.dtype.is_bool() && v.dtype.bits() >= 8 && v.dims.len() <= 4)
        else {
            return;
        };
        let order = self.permutation(a.dims.len());
        let batches = self.numbers.below(order.len().min(2) + 1);
        let contracted = self.numbers.below((order.len() - batches).min(2) + 1);
        let (batch, rest) = order.split_at(batches);
        let (contract, free) = rest.split_at(contracted);
        // The other side has the same batch and contracted sizes somewhere, and sizes of its own.
        let own = if self.numbers.one_in(4) { vec![] } else { vec![self.numbers.pick(&[1, 2, 3, 8, 16, 17, 33, 40])] };
        let parts: Vec<(u8, usize)> = (0..batches)
            .map(|n| (0, n))
            .chain((0..contracted).map(|n| (1, n)))
            .chain((0..own.len()).map(|n| (2, n)))
            .collect();
        let places = self.permutation(parts.len());
        let shuffled: Vec<(u8, usize)> = places.iter().map(|&p| parts[p]).collect();
        let size_of = |part: &(u8, usize)| match part.0 {
            0 => a.dims[batch[part.1]],
            1 => a.dims[contract[part.1]],
            _ => own[part.1],
        };
        let dims: Vec<usize> = shuffled.iter().map(size_of).collect();
        let where_is = |kind: u8, count: usize| -> Vec<usize> {
            (0..count).filter_map(|n| shuffled.iter().position(|p| *p == (kind, n))).collect()
        };
        let free_left: Vec<usize> = {
            let mut free = free.to_vec();
            free.sort_unstable();
            free.iter().map(|&d| a.dims[d]).collect()
        };
        let mut result_dims: Vec<usize> = batch.iter().map(|&d| a.dims[d]).collect();
        result_dims.extend(free_left);
        result_dims.extend(shuffled.iter().filter(|p| p.0 == 2).map(size_of));
        if !self.may_have(&dims) || !self.may_have(&result_dims) {
            return;
        }
        let wanted = V { dims, ..a.clone() };
        let b = self.like(&wanted, V::is_calm);
        if !b.is_calm() || (a.has_special || b.has_special) && !(a.is_exact() && b.is_exact()) {
            return;
        }
        let k: usize = contract.iter().map(|&d| a.dims[d]).product();
        let dtype = match a.dtype {
            DType::BF16 | DType::F16 if self.numbers.one_in(2) => DType::F32,
            DType::I8 | DType::U8 if self.numbers.one_in(2) => DType::I32,
            other => other,
        };
        let base = V { dtype, dims: result_dims, has_special: a.has_special || b.has_special, ..a.clone() };
        let result = if a.is_float() {
            let grid = a.grid.zip(b.grid).map(|(g, h)| g + h);
            let sum = base.product(k.max(1), a.size * b.size, a.size * b.error + b.size * a.error, grid);
            if sum.size > limit(dtype) || !sum.is_calm() {
                return;
            }
            sum
        } else {
            base
        };
        let text = format!(
            "stablehlo.dot_general {}, {}, batching_dims = {batch:?} x {:?}, contracting_dims = {contract:?} x {:?}",
            a.name,
            b.name,
            where_is(0, batches),
            where_is(1, contracted)
        );
        self.op(&text, &[&a, &b], result);
    }
}
