//! Ops that look for their elements: by index, by order, by window.

use tensor::DType;

use super::Writer;
use super::elementwise::either;
use super::value::{V, limit, ty};

/// Elements of all windows together at most.
const MAX_PLACES: usize = 1 << 24;

/// A convolution's window along one dimension, all sizes in elements.
struct Reach {
    window: usize,
    stride: usize,
    low: usize,
    high: usize,
    base_dilation: usize,
    window_dilation: usize,
}

impl Reach {
    /// All elements up to each one.
    fn so_far(size: usize) -> Reach {
        Reach { window: size, stride: 1, low: size - 1, high: 0, base_dilation: 1, window_dilation: 1 }
    }

    fn result(&self, size: usize) -> usize {
        let dilated = if size == 0 { 0 } else { (size - 1) * self.base_dilation + 1 } + self.low + self.high;
        let window = (self.window - 1) * self.window_dilation + 1;
        if dilated < window { 0 } else { (dilated - window) / self.stride + 1 }
    }
}

impl Writer {
    fn reach(&mut self, size: usize) -> Reach {
        let window = self.numbers.between(1, 3) as usize;
        Reach {
            window: window.min(size.max(1)),
            stride: self.numbers.pick(&[1, 1, 2]),
            low: self.numbers.below(3),
            high: self.numbers.below(3),
            base_dilation: self.numbers.pick(&[1, 1, 1, 2]),
            window_dilation: self.numbers.pick(&[1, 1, 1, 2]),
        }
    }

    /// Indices, some of them out of bounds.
    fn indices(&mut self, dims: &[usize]) -> V {
        let dtype = self.numbers.pick(&[DType::I32, DType::I32, DType::I64, DType::U8]);
        match self.that(|v| v.dtype == dtype && v.dims == dims) {
            Some(found) => found,
            None => self.argument(dtype, dims),
        }
    }

    pub(super) fn gather(&mut self) {
        let a = self.any();
        let rank = a.dims.len();
        if rank == 0 || a.dims.contains(&0) {
            return;
        }
        let batch = self.numbers.pick(&[vec![], vec![1], vec![3], vec![2, 5], vec![40]]);
        let indexed: Vec<usize> = (0..rank).filter(|_| self.numbers.one_in(2)).collect();
        let collapsed: Vec<usize> = indexed.iter().copied().filter(|_| self.numbers.one_in(2)).collect();
        let sizes: Vec<usize> = (0..rank)
            .map(|d| match (collapsed.contains(&d), indexed.contains(&d)) {
                (true, _) => 1,
                (_, true) => self.numbers.between(1, a.dims[d] as i64) as usize,
                _ => a.dims[d],
            })
            .collect();
        let kept: Vec<usize> = (0..rank).filter(|d| !collapsed.contains(d)).map(|d| sizes[d]).collect();
        let is_last = self.numbers.one_in(2);
        let offset: Vec<usize> =
            if is_last { (batch.len()..batch.len() + kept.len()).collect() } else { (0..kept.len()).collect() };
        let dims = if is_last { [&batch[..], &kept].concat() } else { [&kept[..], &batch].concat() };
        if !self.may_have(&dims) {
            return;
        }
        let indices = self.indices(&[&batch[..], &[indexed.len()]].concat());
        let text = format!(
            "\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {offset:?}, collapsed_slice_dims = {collapsed:?}, start_index_map = {indexed:?}, index_vector_dim = {}>, slice_sizes = array<i64{}>}}>",
            a.name,
            indices.name,
            batch.len(),
            list(&sizes)
        );
        self.op(&text, &[&a, &indices], V { dims, ..a.clone() });
    }

    pub(super) fn scatter(&mut self) {
        let a = self.any();
        if a.dims.is_empty() || a.dims.contains(&0) {
            return;
        }
        let batch = self.numbers.pick(&[1, 3, 8]);
        let along = self.numbers.below(a.dims.len());
        let window: Vec<usize> = (0..a.dims.len()).filter(|&d| d != along).map(|d| a.dims[d]).collect();
        let wanted = V { dims: [&[batch], &window[..]].concat(), ..a.clone() };
        let updates = self.like(&wanted, V::is_calm);
        let indices = self.indices(&[batch, 1]);
        let fold = if a.dtype.is_bool() {
            self.numbers.pick(&["and", "or"])
        } else if a.is_float() {
            self.numbers.pick(&["add", "add", "maximum", "replace"])
        } else {
            self.numbers.pick(&["add", "maximum", "minimum", "xor", "replace", "multiply"])
        };
        let both = either(&a, &updates);
        let result = if a.is_float() && fold == "add" {
            let sum = Writer::sum(&both, batch + 1, both.size, both.error, both.grid);
            if !a.is_calm() || !updates.is_calm() || sum.size > limit(a.dtype) || !sum.is_calm() {
                return;
            }
            sum
        } else {
            V { is_untouched: both.is_untouched && fold == "replace", ..both }
        };
        let scalar = ty(a.dtype, &[]);
        let name = self.name();
        let window_dims: Vec<usize> = (1..=window.len()).collect();
        self.lines.push(format!(
            "{name} = \"stablehlo.scatter\"({}, {}, {}) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {window_dims:?}, inserted_window_dims = [{along}], scatter_dims_to_operand_dims = [{along}], index_vector_dim = 1>}}> ({{",
            a.name, indices.name, updates.name
        ));
        self.lines.push(format!("^bb0(%x: {scalar}, %y: {scalar}):"));
        if fold == "replace" {
            self.lines.push(format!("  stablehlo.return %y : {scalar}"));
        } else {
            self.lines.push(format!("  %z = stablehlo.{fold} %x, %y : {scalar}"));
            self.lines.push(format!("  stablehlo.return %z : {scalar}"));
        }
        self.lines.push(format!("}}) : ({}, {}, {}) -> {}", a.ty(), indices.ty(), updates.ty(), a.ty()));
        self.add(V { name, dims: a.dims, ..result });
    }

    /// Scalars for each dimension, some out of bounds.
    pub(super) fn starts(&mut self, rank: usize) -> Vec<V> {
        let index = self.numbers.pick(&[DType::I32, DType::I64, DType::U32, DType::I8]);
        let scalar = V {
            name: String::new(),
            dtype: index,
            dims: Vec::new(),
            size: 2.0,
            error: 0.0,
            grid: None,
            is_positive: false,
            has_special: false,
            is_untouched: true,
        };
        (0..rank).map(|_| self.like(&scalar, |_| true)).collect()
    }

    pub(super) fn dynamic_slice(&mut self) {
        let a = self.any();
        if a.dims.is_empty() {
            return;
        }
        let dims: Vec<usize> =
            a.dims.iter().map(|&d| if self.numbers.one_in(3) { d } else { self.numbers.below(d + 1) }).collect();
        let starts = self.starts(a.dims.len());
        let names: Vec<&str> = starts.iter().map(|v| &*v.name).collect();
        if self.numbers.one_in(2) {
            let text = format!("stablehlo.dynamic_slice {}, {}, sizes = {dims:?}", a.name, names.join(", "));
            let operands: Vec<&V> = std::iter::once(&a).chain(&starts).collect();
            self.op(&text, &operands, V { dims, ..a.clone() });
        } else {
            let wanted = V { dims, ..a.clone() };
            let update = self.like(&wanted, |_| true);
            let text = format!("stablehlo.dynamic_update_slice {}, {}, {}", a.name, update.name, names.join(", "));
            let operands: Vec<&V> = [&a, &update].into_iter().chain(&starts).collect();
            self.op(&text, &operands, V { dims: a.dims.clone(), ..either(&a, &update) });
        }
    }

    pub(super) fn sort(&mut self) {
        // An order that is none (NaN), or equal elements that look different, leave the result open.
        let Some(a) = self.that(|v| v.is_exact() && !v.has_special && !v.dims.is_empty()) else { return };
        if a.dtype.is_bool() {
            return;
        }
        let along = self.numbers.below(a.dims.len());
        let direction = self.numbers.pick(&["LT", "GT"]);
        let scalar = ty(a.dtype, &[]);
        let with_positions = self.numbers.one_in(2);
        let name = self.name();
        let other = V { dtype: DType::I32, dims: a.dims.clone(), ..a.clone() };
        let other = if with_positions { Some(self.like(&other, |_| true)) } else { None };
        let (operands, types) = match &other {
            Some(o) => (format!("{}, {}", a.name, o.name), format!("{}, {}", a.ty(), o.ty())),
            None => (a.name.clone(), a.ty()),
        };
        let kind = if a.is_float() && a.is_untouched && self.numbers.one_in(2) { ", TOTALORDER" } else { "" };
        let count = if other.is_some() { ":2" } else { "" };
        self.lines.push(format!(
            "{name}{count} = \"stablehlo.sort\"({operands}) <{{dimension = {along} : i64, is_stable = true}}> ({{"
        ));
        let more = if other.is_some() { ", %p: tensor<i32>, %q: tensor<i32>" } else { "" };
        self.lines.push(format!("^bb0(%x: {scalar}, %y: {scalar}{more}):"));
        self.lines
            .push(format!("  %z = stablehlo.compare {direction}, %x, %y{kind} : ({scalar}, {scalar}) -> tensor<i1>"));
        self.lines.push("  stablehlo.return %z : tensor<i1>".into());
        self.lines.push(format!("}}) : ({types}) -> ({types})"));
        match other {
            Some(other) => {
                self.add(V { name: format!("{name}#0"), ..a });
                self.add(V { name: format!("{name}#1"), ..other });
            }
            None => {
                self.add(V { name, ..a });
            }
        }
    }

    pub(super) fn reduce_window(&mut self) {
        let Some(a) = self.that(|v| v.is_calm() && !v.dtype.is_bool() && !v.dims.is_empty() && !v.dims.contains(&0))
        else {
            return;
        };
        let mut reaches: Vec<Reach> = a.dims.iter().map(|&d| self.reach(d)).collect();
        if self.numbers.one_in(3) {
            // Sums so far: every window starts before the array and ends at an element of it.
            let along = self.numbers.below(a.dims.len());
            reaches = (0..a.dims.len()).map(|d| Reach::so_far(if d == along { a.dims[d] } else { 1 })).collect();
        }
        let dims: Vec<usize> = reaches.iter().zip(&a.dims).map(|(r, &d)| r.result(d)).collect();
        let count: usize = reaches.iter().map(|r| r.window).product();
        let fold = if a.is_float() {
            self.numbers.pick(&["add", "maximum", "minimum"])
        } else {
            self.numbers.pick(&["add", "maximum"])
        };
        let scalar = V { dims: Vec::new(), ..a.clone() };
        let first = self.like(&scalar, V::is_calm);
        let both = either(&a, &first);
        let result = if a.is_float() && fold == "add" {
            let sum = Writer::sum(&both, count + 1, both.size, both.error, both.grid);
            if !sum.is_calm() || sum.size > limit(a.dtype) || !first.is_calm() {
                return;
            }
            sum
        } else {
            V { is_untouched: false, ..both }
        };
        // As many places as windows and their elements: long sums so far would take minutes.
        let places = dims.iter().try_fold(count, |all, &dim| all.checked_mul(dim));
        if !self.may_have(&dims) || places.is_none_or(|places| places > MAX_PLACES) {
            return;
        }
        let t = ty(a.dtype, &[]);
        let of = |get: fn(&Reach) -> usize| list(&reaches.iter().map(get).collect::<Vec<_>>());
        let padding: Vec<String> = reaches.iter().map(|r| format!("[{}, {}]", r.low, r.high)).collect();
        let name = self.name();
        self.lines.push(format!(
            "{name} = \"stablehlo.reduce_window\"({}, {}) <{{window_dimensions = array<i64{}>, window_strides = array<i64{}>, base_dilations = array<i64{}>, window_dilations = array<i64{}>, padding = dense<[{}]> : tensor<{}x2xi64>}}> ({{",
            a.name,
            first.name,
            of(|r| r.window),
            of(|r| r.stride),
            of(|r| r.base_dilation),
            of(|r| r.window_dilation),
            padding.join(", "),
            reaches.len()
        ));
        self.lines.push(format!("^bb0(%x: {t}, %y: {t}):"));
        self.lines.push(format!("  %z = stablehlo.{fold} %x, %y : {t}"));
        self.lines.push(format!("  stablehlo.return %z : {t}"));
        let value = V { name, dims, ..result };
        self.lines.push(format!("}}) : ({}, {t}) -> {}", a.ty(), value.ty()));
        self.add(value);
    }

    pub(super) fn window_gradient(&mut self) {
        let Some(a) =
            self.that(|v| v.is_exact() && v.is_float() && !v.has_special && v.dims.len() >= 2 && !v.dims.contains(&0))
        else {
            return;
        };
        let window: Vec<usize> = a.dims.iter().map(|&d| self.numbers.between(1, 2.min(d as i64)) as usize).collect();
        let dims: Vec<usize> = a.dims.iter().zip(&window).map(|(&d, &w)| (d - w) / w + 1).collect();
        let wanted = V { dims, ..a.clone() };
        let source = self.like(&wanted, |v| v.is_calm());
        let scalar = V { dims: Vec::new(), ..a.clone() };
        let first = self.like(&scalar, |v| v.is_calm());
        let result = Writer::sum(
            &either(&source, &first),
            2,
            source.size.max(first.size),
            source.error.max(first.error),
            either(&source, &first).grid,
        );
        if !result.is_calm() || result.size > limit(a.dtype) {
            return;
        }
        let t = ty(a.dtype, &[]);
        let name = self.name();
        for line in [
            format!(
                "{name} = \"stablehlo.select_and_scatter\"({}, {}, {}) <{{window_dimensions = array<i64{}>, window_strides = array<i64{}>}}> ({{",
                a.name,
                source.name,
                first.name,
                list(&window),
                list(&window)
            ),
            format!("^bb0(%x: {t}, %y: {t}):"),
            format!("  %z = stablehlo.compare GE, %x, %y : ({t}, {t}) -> tensor<i1>"),
            "  stablehlo.return %z : tensor<i1>".into(),
            "}, {".into(),
            format!("^bb0(%x: {t}, %y: {t}):"),
            format!("  %z = stablehlo.add %x, %y : {t}"),
            format!("  stablehlo.return %z : {t}"),
            format!("}}) : ({}, {}, {t}) -> {}", a.ty(), source.ty(), a.ty()),
        ] {
            self.lines.push(line);
        }
        self.add(V { name, dims: a.dims, ..result });
    }

    pub(super) fn convolution(&mut self) {
        let dtype = self.numbers.pick(&[DType::F32, DType::F32, DType::BF16, DType::F64, DType::I32]);
        let groups = self.numbers.pick(&[1, 1, 2, 3]);
        let (batch, features) = (self.numbers.between(1, 3) as usize, groups * self.numbers.between(1, 3) as usize);
        let outputs = groups * self.numbers.between(1, 4) as usize;
        let (height, width) = (self.numbers.between(1, 7) as usize, self.numbers.between(1, 9) as usize);
        let (r, s) = (self.reach(height), self.reach(width));
        let left = V::argument(String::new(), dtype, vec![batch, height, width, features]);
        let a = self.like(&left, |v| v.is_calm() && !v.has_special);
        let kernel = V { dims: vec![r.window, s.window, features / groups, outputs], ..left };
        let b = self.like(&kernel, |v| v.is_calm() && !v.has_special);
        let dims = vec![batch, r.result(height), s.result(width), outputs];
        let count = r.window * s.window * features;
        let grid = a.grid.zip(b.grid).map(|(g, h)| g + h);
        let base = V { dims: dims.clone(), is_untouched: false, ..a.clone() };
        let result = if a.is_float() {
            base.product(count, a.size * b.size, a.size * b.error + b.size * a.error, grid)
        } else {
            base
        };
        if !result.is_calm() || a.has_special || b.has_special || !self.may_have(&dims) {
            return;
        }
        let text = format!(
            "stablehlo.convolution({}, {}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{stride = [{}, {}], pad = [[{}, {}], [{}, {}]], lhs_dilate = [{}, {}], rhs_dilate = [{}, {}]}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}",
            a.name,
            b.name,
            r.stride,
            s.stride,
            r.low,
            r.high,
            s.low,
            s.high,
            r.base_dilation,
            s.base_dilation,
            r.window_dilation,
            s.window_dilation
        );
        self.op(&text, &[&a, &b], result);
    }

    pub(super) fn random_bits(&mut self) {
        let dims = self.shape();
        let dtype = self.numbers.pick(&[DType::U32, DType::U64, DType::U8, DType::U16]);
        let state = self.argument(DType::U64, &[2]);
        let algorithm = self.numbers.pick(&["THREE_FRY", "PHILOX", "DEFAULT"]);
        let bits = V { name: String::new(), dtype, dims, ..state.clone() };
        let name = self.name();
        self.lines.push(format!(
            "{name}:2 = stablehlo.rng_bit_generator {}, algorithm = {algorithm} : ({}) -> ({}, {})",
            state.name,
            state.ty(),
            state.ty(),
            bits.ty()
        ));
        self.add(V { name: format!("{name}#0"), ..state });
        self.add(V { name: format!("{name}#1"), ..bits });
    }
}

/// Integers as an `array<i64 …>` attribute takes them.
fn list(values: &[usize]) -> String {
    if values.is_empty() {
        return String::new();
    }
    format!(": {}", values.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}
