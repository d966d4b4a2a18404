//! Ops with regions, and those that follow indices.

use super::{Named, Ty, Writer, array, pairs};

/// A region of one op on two scalars.
fn combine(name: &str, element: &str) -> String {
    let scalar = format!("tensor<{element}>");
    if name == "second" {
        return format!("{{\n    ^bb0(%a: {scalar}, %b: {scalar}):\n      stablehlo.return %b : {scalar}\n    }}");
    }
    format!(
        "{{\n    ^bb0(%a: {scalar}, %b: {scalar}):\n      %c = stablehlo.{name} %a, %b : {scalar}\n      stablehlo.return %c : {scalar}\n    }}"
    )
}

impl Writer {
    fn combining(&mut self, element: &str) -> &'static str {
        match element {
            "i1" => self.choices.pick(&["and", "or", "xor", "maximum"]),
            _ if element.starts_with("complex") => self.choices.pick(&["add", "multiply"]),
            _ => self.choices.pick(&["add", "add", "multiply", "maximum", "minimum", "subtract"]),
        }
    }

    pub(super) fn reduce(&mut self) {
        let a = self.any();
        let rank = a.ty.dims.len() as i64;
        let along: Vec<i64> = (0..rank).filter(|_| self.choices.one_in(2)).collect();
        let dims: Vec<i64> = (0..rank).filter(|d| !along.contains(d)).map(|d| a.ty.dims[d as usize]).collect();
        let to = match a.ty.element {
            "bf16" | "f16" if self.choices.one_in(2) => "f32",
            "i8" | "i4" if self.choices.one_in(2) => "i32",
            other => other,
        };
        let attributes = format!("dimensions = {}", array(&along));
        if self.choices.one_in(4) && to == a.ty.element {
            return self.reduce_with_index(&a, &attributes, dims);
        }
        let init = Ty::new([], a.ty.element);
        let start = self.operand(&init);
        let region = combine(self.combining(to), to);
        let operands = [(&*a.name, &a.ty), (&*start, &init)];
        self.op("stablehlo.reduce", &operands, &attributes, &region, Ty::new(dims, to));
    }

    /// The largest and where it is.
    fn reduce_with_index(&mut self, a: &Named, attributes: &str, dims: Vec<i64>) {
        let index = a.ty.of("i32");
        let places = self.operand(&index);
        let (first, second) = (Ty::new([], a.ty.element), Ty::new([], "i32"));
        let (x, y) = (self.operand(&first), self.operand(&second));
        let (s, i) = (first.to_string(), second.to_string());
        let word = self.choices.pick(&["GT", "LT", "GE"]);
        let region = format!(
            "{{\n    ^bb0(%a: {s}, %i: {i}, %b: {s}, %j: {i}):\n      %c = stablehlo.compare {word}, %a, %b : ({s}, {s}) -> tensor<i1>\n      %d = stablehlo.select %c, %a, %b : tensor<i1>, {s}\n      %e = stablehlo.select %c, %i, %j : tensor<i1>, {i}\n      stablehlo.return %d, %e : {s}, {i}\n    }}"
        );
        let operands = [(a.name.clone(), a.ty.clone()), (places, index), (x, first), (y, second)];
        let results = [Ty::new(dims.clone(), a.ty.element), Ty::new(dims, "i32")];
        self.ops("stablehlo.reduce", &operands, attributes, &region, &results);
    }

    pub(super) fn reduce_window(&mut self) {
        let a = self.any();
        let (mut window, mut strides, mut bases, mut holes, mut padding, mut dims) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &size in &a.ty.dims {
            let (w, stride) = (self.choices.pick(&[1, 1, 2, 3, 5]), self.choices.between(1, 3));
            let (hole, base) = (self.choices.between(1, 2), self.choices.between(1, 2));
            let (low, high) = (self.choices.between(-1, 3), self.choices.between(-1, 3));
            let dilated = if size == 0 { 0 } else { (size - 1) * base + 1 };
            let (room, reach) = (dilated + low + high, (w - 1) * hole + 1);
            if room < 0 {
                return;
            }
            window.push(w);
            strides.push(stride);
            bases.push(base);
            holes.push(hole);
            padding.push((low, high));
            dims.push(if room < reach { 0 } else { (room - reach) / stride + 1 });
        }
        let init = Ty::new([], a.ty.element);
        let start = self.operand(&init);
        let region = combine(self.combining(a.ty.element), a.ty.element);
        let attributes = format!(
            "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = {}",
            array(&window),
            array(&strides),
            array(&bases),
            array(&holes),
            pairs(&padding)
        );
        let operands = [(&*a.name, &a.ty), (&*start, &init)];
        self.op("stablehlo.reduce_window", &operands, &attributes, &region, Ty::new(dims, a.ty.element));
    }

    pub(super) fn select_and_scatter(&mut self) {
        let element = self.number();
        let (mut from, mut source, mut window, mut strides, mut padding) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.choices.between(0, 3) {
            let (w, stride, low, high) = (
                self.choices.between(1, 3),
                self.choices.between(1, 3),
                self.choices.below(2) as i64,
                self.choices.below(2) as i64,
            );
            let size = self.choices.between(1, 9);
            let room = size + low + high;
            from.push(size);
            source.push(if room < w { 0 } else { (room - w) / stride + 1 });
            window.push(w);
            strides.push(stride);
            padding.push((low, high));
        }
        let (operand, source, scalar) = (Ty::new(from, element), Ty::new(source, element), Ty::new([], element));
        let (a, b, c) = (self.operand(&operand), self.operand(&source), self.operand(&scalar));
        let word = self.choices.pick(&["GE", "GT", "LE", "LT"]);
        let select = format!(
            "{{\n    ^bb0(%a: {scalar}, %b: {scalar}):\n      %c = stablehlo.compare {word}, %a, %b : ({scalar}, {scalar}) -> tensor<i1>\n      stablehlo.return %c : tensor<i1>\n    }}"
        );
        let scatter = combine(self.choices.pick(&["add", "maximum", "multiply"]), element);
        let attributes = format!(
            "window_dimensions = {}, window_strides = {}, padding = {}",
            array(&window),
            array(&strides),
            pairs(&padding)
        );
        let regions = format!("{select}, {scatter}");
        let operands = [(&*a, &operand), (&*b, &source), (&*c, &scalar)];
        self.op("stablehlo.select_and_scatter", &operands, &attributes, &regions, operand.clone());
    }

    /// Sizes, windows and places of a gather or scatter: operand, indices, window sizes, the text of the numbers' common part.
    fn indexed(&mut self) -> (Vec<i64>, i64, Vec<i64>) {
        let rank = self.choices.between(1, 3) as usize;
        let dims: Vec<i64> = (0..rank).map(|_| self.choices.between(1, 7)).collect();
        let count = self.choices.between(0, 5);
        let sizes = dims
            .iter()
            .map(|&size| if self.choices.one_in(2) { size } else { self.choices.between(0, size) })
            .collect();
        (dims, count, sizes)
    }

    pub(super) fn gather(&mut self) {
        let (dims, count, mut sizes) = self.indexed();
        let element = self.element();
        let index = self.choices.pick(&["i32", "i64", "ui8", "i8", "ui32"]);
        sizes[0] = 1;
        let (operand, places) = (Ty::new(dims, element), Ty::new([count, 1], index));
        let (a, b) = (self.operand(&operand), self.operand(&places));
        let offsets: Vec<i64> = (1..sizes.len() as i64).collect();
        let attributes = format!(
            "dimension_numbers = #stablehlo.gather<offset_dims = {offsets:?}, collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = {}, indices_are_sorted = {}",
            array(&sizes),
            self.choices.one_in(4)
        );
        let result = Ty::new([&[count], &sizes[1..]].concat(), element);
        self.op("stablehlo.gather", &[(&a, &operand), (&b, &places)], &attributes, "", result);
    }

    pub(super) fn scatter(&mut self) {
        let (dims, count, sizes) = self.indexed();
        let element = self.element();
        let index = self.choices.pick(&["i32", "i64", "ui8", "i8", "ui32"]);
        let is_inserted = self.choices.one_in(2);
        let (windows, inserted, updates) = if is_inserted {
            ((1..sizes.len() as i64).collect::<Vec<_>>(), "0", [&[count], &sizes[1..]].concat())
        } else {
            ((1..=sizes.len() as i64).collect::<Vec<_>>(), "", [&[count], &sizes[..]].concat())
        };
        let (operand, places, updates) =
            (Ty::new(dims, element), Ty::new([count, 1], index), Ty::new(updates, element));
        let (a, b, c) = (self.operand(&operand), self.operand(&places), self.operand(&updates));
        let name = if self.choices.one_in(3) { "second" } else { self.combining(element) };
        let attributes = format!(
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {windows:?}, inserted_window_dims = [{inserted}], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = {}, unique_indices = {}",
            self.choices.one_in(8),
            self.choices.one_in(8)
        );
        let operands = [(&*a, &operand), (&*b, &places), (&*c, &updates)];
        self.op("stablehlo.scatter", &operands, &attributes, &combine(name, element), operand.clone());
    }

    pub(super) fn dynamic_slice(&mut self) {
        let a = self.any();
        let scalar = Ty::new([], self.choices.pick(&["i32", "i64", "ui8", "i8", "ui64"]));
        let sizes: Vec<i64> = a.ty.dims.iter().map(|&size| self.choices.between(0, size)).collect();
        let part = Ty::new(sizes.clone(), a.ty.element);
        let starts: Vec<String> = sizes.iter().map(|_| self.operand(&scalar)).collect();
        let is_update = self.choices.one_in(2);
        let update = is_update.then(|| self.operand(&part));
        let mut operands: Vec<(&str, &Ty)> = vec![(&a.name, &a.ty)];
        operands.extend(update.as_ref().map(|name| (&**name, &part)));
        operands.extend(starts.iter().map(|name| (&**name, &scalar)));
        if is_update {
            self.op("stablehlo.dynamic_update_slice", &operands, "", "", a.ty.clone());
        } else {
            let attributes = format!("slice_sizes = {}", array(&sizes));
            self.op("stablehlo.dynamic_slice", &operands, &attributes, "", part.clone());
        }
    }

    pub(super) fn sort(&mut self) {
        let a = self.any();
        if a.ty.dims.is_empty() {
            return;
        }
        let along = self.choices.between(-(a.ty.dims.len() as i64), a.ty.dims.len() as i64 - 1);
        let mut operands = vec![(a.name.clone(), a.ty.clone())];
        for _ in 0..self.choices.below(3) {
            let element = self.element();
            let other = a.ty.of(element);
            operands.push((self.operand(&other), other));
        }
        let key = operands[0].1.element;
        let arguments: Vec<String> =
            (0..2 * operands.len()).map(|n| format!("%a{n}: tensor<{}>", operands[n / 2].1.element)).collect();
        let word = self.choices.pick(&["LT", "GT", "LT", "LE", "NE"]);
        let total = if a.ty.is_float() && self.choices.one_in(2) { ", TOTALORDER" } else { "" };
        let region = format!(
            "{{\n    ^bb0({}):\n      %c = stablehlo.compare {word}, %a0, %a1{total} : (tensor<{key}>, tensor<{key}>) -> tensor<i1>\n      stablehlo.return %c : tensor<i1>\n    }}",
            arguments.join(", ")
        );
        let types: Vec<Ty> = operands.iter().map(|(_, ty)| ty.clone()).collect();
        let attributes = format!("dimension = {along} : i64, is_stable = {}", self.choices.one_in(2));
        self.ops("stablehlo.sort", &operands, &attributes, &region, &types);
    }

    /// Ops in a region of their own: their lines, and a value of a type.
    fn inner(&mut self, ty: &Ty) -> (String, String) {
        let (lines, pool) = (std::mem::take(&mut self.lines), self.pool.clone());
        for _ in 0..self.choices.below(3) {
            match self.choices.below(6) {
                0 => self.unary(),
                1 => self.binary(),
                2 => self.reduce(),
                3 => self.view(),
                4 => self.dot(),
                _ => self.convert(),
            }
        }
        let value = self.operand(ty);
        let text = std::mem::replace(&mut self.lines, lines).join("\n      ");
        self.pool = pool;
        // Arguments that the region brought are the function's.
        for argument in self.arguments.clone() {
            if !self.pool.iter().any(|value| value.name == argument.name) {
                self.pool.push(argument);
            }
        }
        (text, value)
    }

    pub(super) fn repeat(&mut self) {
        let a = self.any();
        let limit = self.choices.below(5);
        let start = self.name();
        self.lines.push(format!("{start} = stablehlo.constant dense<0> : tensor<i32>"));
        let (result, counter, carried) = (self.name(), self.name(), self.name());
        let pool = self.pool.clone();
        self.pool.push(Named { name: carried.clone(), ty: a.ty.clone() });
        let (text, value) = self.inner(&a.ty);
        let arguments = self.arguments.clone();
        self.pool = pool;
        for argument in arguments {
            if !self.pool.iter().any(|value| value.name == argument.name) {
                self.pool.push(argument);
            }
        }
        let ty = &a.ty;
        self.lines.push(format!(
            "{result}:2 = stablehlo.while({counter} = {start}, {carried} = {}) : tensor<i32>, {ty}
    cond {{
      %limit = stablehlo.constant dense<{limit}> : tensor<i32>
      %more = stablehlo.compare LT, {counter}, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      {text}
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add {counter}, %one : tensor<i32>
      stablehlo.return %next, {value} : tensor<i32>, {ty}
    }}",
            a.name
        ));
        self.pool.push(Named { name: format!("{result}#1"), ty: a.ty.clone() });
    }

    pub(super) fn branch(&mut self) {
        let ty = self.any().ty;
        let is_if = self.choices.one_in(2);
        let chosen = Ty::new([], if is_if { "i1" } else { "i32" });
        let index = self.operand(&chosen);
        let count = if is_if { 2 } else { self.choices.between(1, 3) };
        let regions: Vec<String> = (0..count)
            .map(|_| {
                let (text, value) = self.inner(&ty);
                format!("{{\n      {text}\n      stablehlo.return {value} : {ty}\n    }}")
            })
            .collect();
        let name = if is_if { "stablehlo.if" } else { "stablehlo.case" };
        self.op(name, &[(&index, &chosen)], "", &regions.join(", "), ty);
    }

    pub(super) fn map(&mut self) {
        let a = self.any();
        let b = self.operand(&a.ty);
        let along: Vec<i64> = (0..a.ty.dims.len() as i64).collect();
        let region = combine(self.combining(a.ty.element), a.ty.element);
        let attributes = format!("dimensions = {}", array(&along));
        self.op("stablehlo.map", &[(&a.name, &a.ty), (&b, &a.ty)], &attributes, &region, a.ty.clone());
    }
}
