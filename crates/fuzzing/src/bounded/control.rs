//! Loops and branches.

use tensor::DType;

use super::Writer;
use super::elementwise::either;
use super::value::{V, ty};

impl Writer {
    /// Writes a region: ops of its own, and what it returns as `last` chooses.
    fn region(&mut self, ops: usize, last: impl FnOnce(&mut Writer) -> Vec<V>) -> (Vec<String>, Vec<V>) {
        let (lines, pool) = (std::mem::take(&mut self.lines), self.pool.clone());
        self.depth += 1;
        for _ in 0..ops {
            self.any_op();
        }
        let returned = last(self);
        let (names, types): (Vec<&str>, Vec<String>) = returned.iter().map(|v| (&*v.name, v.ty())).unzip();
        let end = format!("stablehlo.return {} : {}", names.join(", "), types.join(", "));
        self.lines.push(end);
        self.depth -= 1;
        self.pool = pool;
        (std::mem::replace(&mut self.lines, lines), returned)
    }

    /// A value that may take the place of another in every iteration of a loop.
    fn successor(&mut self, value: &V) -> V {
        let fits = |v: &V| {
            v.dtype == value.dtype
                && v.dims == value.dims
                && (!v.is_float()
                    || v.size <= value.size
                        && v.error <= value.error
                        && (value.grid.is_none() || v.grid.is_some_and(|g| Some(g) <= value.grid))
                        && (!v.has_special || value.has_special)
                        && (!value.is_positive || v.is_positive)
                        && (!value.is_untouched || v.is_untouched))
        };
        self.that(fits).unwrap_or_else(|| value.clone())
    }

    pub(super) fn repeat(&mut self) {
        if self.depth >= 2 {
            return;
        }
        let mut carried = Vec::new();
        for _ in 0..self.numbers.between(1, 4) {
            let value = self.any();
            // Two of one type can change places.
            if self.numbers.one_in(2) {
                let other = self.like(&value, |_| true);
                carried.push(V { is_untouched: value.is_untouched && other.is_untouched, ..either(&other, &value) });
                let last = carried.len() - 1;
                carried[last].name = other.name.clone();
                let joint = V { name: value.name.clone(), ..carried[last].clone() };
                carried.push(joint);
            } else {
                carried.push(value);
            }
        }
        // Arithmetic on carried values is part of most loops: their zeros and bits are not certain.
        for value in &mut carried {
            value.is_untouched &= !value.is_float();
            value.is_positive = false;
        }
        let rounds = self.numbers.below(5);
        let zero = self.scalar(DType::I32, "0");
        let name = self.name();
        let inner: Vec<V> = carried.iter().map(|v| V { name: self.name(), ..v.clone() }).collect();
        let counter = self.name();
        let pool = self.pool.clone();
        let (i, b) = (ty(DType::I32, &[]), ty(DType::Bool, &[]));
        let (condition, _) = self.region(0, |writer| {
            let limit = writer.scalar(DType::I32, &rounds.to_string());
            let more = writer.name();
            writer.lines.push(format!("{more} = stablehlo.compare LT, {counter}, {limit} : ({i}, {i}) -> {b}"));
            vec![V { name: more, dtype: DType::Bool, dims: Vec::new(), ..carried[0].clone() }]
        });
        self.pool.extend(inner.iter().cloned());
        let ops = self.numbers.below(5);
        let (body, _) = self.region(ops, |writer| {
            let mut returned = Vec::new();
            for value in &inner {
                if writer.numbers.one_in(3) && !value.dims.is_empty() {
                    returned.push(writer.update(value));
                } else {
                    returned.push(writer.successor(value));
                }
            }
            let (one, next) = (writer.scalar(DType::I32, "1"), writer.name());
            writer.lines.push(format!("{next} = stablehlo.add {counter}, {one} : {i}"));
            returned.push(V { name: next, dtype: DType::I32, dims: Vec::new(), ..value_of(&inner) });
            returned
        });
        self.pool = pool;
        let pairs: Vec<String> = inner
            .iter()
            .zip(&carried)
            .map(|(a, b)| format!("{} = {}", a.name, b.name))
            .chain([format!("{counter} = {zero}")])
            .collect();
        let types: Vec<String> = carried.iter().map(V::ty).chain([i]).collect();
        self.lines.push(format!(
            "{name}:{} = stablehlo.while({}) : {}",
            types.len(),
            pairs.join(", "),
            types.join(", ")
        ));
        self.lines.push("cond {".into());
        self.push_indented(&condition);
        self.lines.push("} do {".into());
        self.push_indented(&body);
        self.lines.push("}".into());
        for (n, value) in carried.into_iter().enumerate() {
            self.add(V { name: format!("{name}#{n}"), ..value });
        }
    }

    /// A part of the array replaced by a part of a value that fits.
    fn update(&mut self, value: &V) -> V {
        let source = self.successor(value);
        let dims: Vec<usize> = value.dims.iter().map(|&d| self.numbers.below(d + 1)).collect();
        let parts: Vec<String> = dims.iter().map(|d| format!("0:{d}")).collect();
        let text = format!("stablehlo.slice {} [{}]", source.name, parts.join(", "));
        let part = self.op(&text, &[&source], V { dims, ..source.clone() });
        let starts = self.starts(value.dims.len());
        let names: Vec<&str> = starts.iter().map(|v| &*v.name).collect();
        let text = format!("stablehlo.dynamic_update_slice {}, {}, {}", value.name, part.name, names.join(", "));
        let operands: Vec<&V> = [value, &part].into_iter().chain(&starts).collect();
        self.op(&text, &operands, value.clone())
    }

    pub(super) fn choose(&mut self) {
        if self.depth >= 3 {
            return;
        }
        let is_if = self.numbers.one_in(2);
        let (dtype, count) = if is_if { (DType::Bool, 2) } else { (DType::I32, self.numbers.between(1, 3) as usize) };
        let index = match self.that(|v| v.dtype == dtype && v.dims.is_empty()) {
            Some(found) => found,
            None => self.argument(dtype, &[]),
        };
        let models: Vec<V> = (0..self.numbers.between(1, 3)).map(|_| self.any()).collect();
        let mut results = models.clone();
        let mut regions = Vec::new();
        for _ in 0..count {
            let ops = self.numbers.below(4);
            let (lines, returned) =
                self.region(ops, |writer| models.iter().map(|m| writer.like(m, |_| true)).collect());
            results = results.iter().zip(&returned).map(|(a, b)| either(a, b)).collect();
            regions.push(lines);
        }
        let name = self.name();
        let kind = if is_if { "if" } else { "case" };
        let suffix = if results.len() > 1 { format!(":{}", results.len()) } else { String::new() };
        for (n, lines) in regions.iter().enumerate() {
            self.lines.push(if n == 0 {
                format!("{name}{suffix} = \"stablehlo.{kind}\"({}) ({{", index.name)
            } else {
                "}, {".into()
            });
            self.push_indented(lines);
        }
        let types: Vec<String> = results.iter().map(V::ty).collect();
        self.lines.push(format!("}}) : ({}) -> ({})", index.ty(), types.join(", ")));
        let is_one = results.len() == 1;
        for (n, value) in results.into_iter().enumerate() {
            self.add(V { name: if is_one { name.clone() } else { format!("{name}#{n}") }, ..value });
        }
    }
}

fn value_of(values: &[V]) -> V {
    values[0].clone()
}
