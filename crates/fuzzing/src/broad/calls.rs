//! Calls, composites, custom calls, CHLO, sizes at run time, and collectives of one device.

use super::{Ty, Writer, array};

impl Writer {
    /// A private function that gives zeros of a type, and reads its argument where the types allow.
    fn function(&mut self, from: &Ty, results: &[Ty]) -> String {
        let name = format!("f{}", self.functions.len());
        let list: Vec<String> = results.iter().map(Ty::to_string).collect();
        let types = list.join(", ");
        let lines = std::mem::take(&mut self.lines);
        let values: Vec<String> =
            results.iter().map(|ty| if ty == from { "%x".into() } else { self.constant(ty) }).collect();
        let body = std::mem::replace(&mut self.lines, lines).join("\n    ");
        self.functions.push(format!(
            "  func.func private @{name}(%x: {from}) -> ({types}) {{\n    {body}\n    return {} : {types}\n  }}\n",
            values.join(", ")
        ));
        name
    }

    /// A private function of one op.
    fn of_op(&mut self, op: &str, from: &Ty, results: &[Ty]) -> String {
        let name = format!("f{}", self.functions.len());
        let types = results.iter().map(Ty::to_string).collect::<Vec<_>>().join(", ");
        let values = (0..results.len()).map(|n| format!("%y#{n}")).collect::<Vec<_>>().join(", ");
        self.functions.push(format!(
            "  func.func private @{name}(%x: {from}) -> ({types}) {{\n    %y:{} = {op} : ({from}) -> ({types})\n    return {values} : {types}\n  }}\n",
            results.len()
        ));
        name
    }

    pub(super) fn composite(&mut self) {
        let a = self.any();
        // Types that the name promises, and types that it does not.
        let (name, results, attributes) = match self.choices.below(4) {
            0 | 1 => {
                let k = self.choices.between(0, 5);
                let mut dims = a.ty.dims.clone();
                if let Some(last) = dims.last_mut() {
                    *last = k;
                }
                let mut results = vec![Ty::new(dims.clone(), a.ty.element), Ty::new(dims, "i32")];
                if self.choices.one_in(3) {
                    let wrong = self.ty();
                    let n = self.choices.below(2);
                    results[n] = wrong;
                }
                ("chlo.top_k", results, format!("composite_attributes = {{k = {k} : i64}}, "))
            }
            2 => {
                let result = if self.choices.one_in(2) { a.ty.clone() } else { self.ty() };
                ("chlo.erf", vec![result], String::new())
            }
            _ => ("my.op", vec![self.ty()], "composite_attributes = {n = -9223372036854775808 : i64}, ".into()),
        };
        let is_honest = !self.choices.one_in(4) && results[0].element == a.ty.element;
        let function = match name {
            "chlo.erf" if is_honest => self.of_op("\"chlo.erf\"(%x)", &a.ty, &results),
            "chlo.top_k" if is_honest => {
                let k = results[0].dims.last().copied().unwrap_or(0);
                self.of_op(&format!("\"chlo.top_k\"(%x) <{{k = {k} : i64}}>"), &a.ty, &results)
            }
            _ => self.function(&a.ty, &results),
        };
        let attributes = format!("name = \"{name}\", {attributes}decomposition = @{function}, version = 1 : i32");
        let operands = [(a.name.clone(), a.ty.clone())];
        if self.choices.one_in(6) {
            self.ops("func.call", &operands, &format!("callee = @{function}"), "", &results);
        } else {
            self.ops("stablehlo.composite", &operands, &attributes, "", &results);
        }
    }

    pub(super) fn custom_call(&mut self) {
        let a = self.any();
        let name = self.choices.pick(&[
            "Sharding",
            "SPMDFullToShardShape",
            "SPMDShardToFullShape",
            "annotate_device_placement",
            "MoveToHost",
            "xla.sdy.FuncResultSharding",
            "LayoutConstraint",
            "mhlo.topk",
            "mhlo.erf",
            "TopK",
            "Qr",
            "nothing.we.know",
        ]);
        let result = match self.choices.below(3) {
            0 => self.ty(),
            _ => a.ty.clone(),
        };
        let mut attributes = format!("call_target_name = \"{name}\"");
        if self.choices.one_in(3) {
            attributes += ", has_side_effect = true";
        }
        if self.choices.one_in(4) {
            attributes += ", backend_config = \"{\\\"k\\\": 9223372036854775807}\"";
        }
        self.op("stablehlo.custom_call", &[(&a.name, &a.ty)], &attributes, "", result);
    }

    pub(super) fn structure(&mut self) {
        let a = self.any();
        match self.choices.below(4) {
            0 => {
                let other = self.ty();
                let to = if self.choices.one_in(2) { a.ty.clone() } else { other };
                self.op("builtin.unrealized_conversion_cast", &[(&a.name, &a.ty)], "", "", to);
            }
            1 => {
                let b = self.any();
                let operands = [(a.name.clone(), a.ty.clone()), (b.name.clone(), b.ty.clone())];
                self.ops("stablehlo.optimization_barrier", &operands, "", "", &[a.ty, b.ty]);
            }
            2 => {
                let (tuple, element) = (self.name(), self.name());
                let ty = &a.ty;
                self.lines.push(format!("{tuple} = stablehlo.tuple {0}, {0} : tuple<{ty}, {ty}>", a.name));
                self.lines
                    .push(format!("{element} = stablehlo.get_tuple_element {tuple}[1] : (tuple<{ty}, {ty}>) -> {ty}"));
                self.pool.push(super::Named { name: element, ty: a.ty.clone() });
            }
            _ => {
                if !a.ty.dims.is_empty() {
                    let dimension = self.choices.below(a.ty.dims.len());
                    let attributes = format!("dimension = {dimension} : i64");
                    let scalar = Ty::new([], "i32");
                    self.op("stablehlo.get_dimension_size", &[(&a.name, &a.ty)], &attributes, "", scalar);
                }
            }
        }
    }

    pub(super) fn chlo(&mut self) {
        let a = self.any();
        match self.choices.below(4) {
            0 => {
                let mut dims = a.ty.dims.clone();
                let k = self.choices.between(0, 5);
                if let Some(last) = dims.last_mut() {
                    *last = k;
                }
                let results = [Ty::new(dims.clone(), a.ty.element), Ty::new(dims, "i32")];
                let operands = [(a.name.clone(), a.ty.clone())];
                self.ops("chlo.top_k", &operands, &format!("k = {k} : i64"), "", &results);
            }
            1 => {
                let scalar = Ty::new([], a.ty.element);
                let b = self.operand(&scalar);
                let name = self.choices.pick(&["add", "subtract", "multiply", "maximum", "divide", "power"]);
                let operands = [(&*a.name, &a.ty), (&*b, &scalar)];
                self.op(&format!("chlo.broadcast_{name}"), &operands, "", "", a.ty.clone());
            }
            _ => {
                let name = self.choices.pick(&[
                    "erf",
                    "erfc",
                    "erf_inv",
                    "lgamma",
                    "digamma",
                    "asin",
                    "acos",
                    "atan",
                    "sinh",
                    "cosh",
                    "asinh",
                    "acosh",
                    "atanh",
                    "bessel_i1e",
                    "tan",
                    "square",
                    "conj",
                ]);
                self.op(&format!("chlo.{name}"), &[(&a.name, &a.ty)], "", "", a.ty.clone());
            }
        }
    }

    /// Sizes that are operands, mostly constants.
    pub(super) fn dynamic(&mut self) {
        let a = self.any();
        let element = self.choices.pick(&["i32", "i64"]);
        match self.choices.below(5) {
            0 => {
                let shape = self.integers(&[a.ty.count()], element);
                let result = Ty::new([a.ty.count()], a.ty.element);
                let operands = [(&*a.name, &a.ty), (&*shape.name, &shape.ty)];
                self.op("stablehlo.dynamic_reshape", &operands, "", "", result);
            }
            1 => {
                let dims = [&[3], &a.ty.dims[..]].concat();
                let shape = self.integers(&dims, element);
                let along: Vec<i64> = (1..dims.len() as i64).collect();
                let attributes = format!("broadcast_dimensions = {}", array(&along));
                let operands = [(&*a.name, &a.ty), (&*shape.name, &shape.ty)];
                let result = Ty::new(dims, a.ty.element);
                self.op("stablehlo.dynamic_broadcast_in_dim", &operands, &attributes, "", result);
            }
            2 => {
                let dims = self.dims(2);
                if !dims.is_empty() {
                    let shape = self.integers(&dims, element);
                    let result = Ty::new(dims, self.number());
                    let operands = [(&*shape.name, &shape.ty)];
                    self.op("stablehlo.dynamic_iota", &operands, "iota_dimension = 0 : i64", "", result);
                }
            }
            3 => {
                let scalar = Ty::new([], a.ty.element);
                let fill = self.operand(&scalar);
                let low: Vec<i64> = a.ty.dims.iter().map(|_| self.choices.between(-1, 2)).collect();
                let dims: Vec<i64> = a.ty.dims.iter().zip(&low).map(|(d, low)| (d + low + 1).max(0)).collect();
                let parts =
                    [&low[..], &vec![1; low.len()], &vec![0; low.len()]].map(|part| self.integers(part, element));
                let mut operands = vec![(&*a.name, &a.ty), (&*fill, &scalar)];
                operands.extend(parts.iter().map(|part| (&*part.name, &part.ty)));
                self.op("stablehlo.dynamic_pad", &operands, "", "", Ty::new(dims, a.ty.element));
            }
            _ => {
                let zeros = vec![0; a.ty.dims.len()];
                let ones = vec![1; a.ty.dims.len()];
                let limits: Vec<i64> = a.ty.dims.iter().map(|&d| self.choices.between(0, d)).collect();
                let parts = [&zeros[..], &limits, &ones].map(|part| self.integers(part, element));
                let mut operands = vec![(&*a.name, &a.ty)];
                operands.extend(parts.iter().map(|part| (&*part.name, &part.ty)));
                self.op("stablehlo.real_dynamic_slice", &operands, "", "", Ty::new(limits, a.ty.element));
            }
        }
    }

    pub(super) fn collective(&mut self) {
        let a = self.any();
        let group = "dense<0> : tensor<1x1xi64>";
        match self.choices.below(4) {
            0 => {
                let attributes = format!("replica_groups = {group}");
                let scalar = format!("tensor<{}>", a.ty.element);
                let region = format!(
                    "{{\n    ^bb0(%a: {scalar}, %b: {scalar}):\n      %c = stablehlo.add %a, %b : {scalar}\n      stablehlo.return %c : {scalar}\n    }}"
                );
                self.op("stablehlo.all_reduce", &[(&a.name, &a.ty)], &attributes, &region, a.ty.clone());
            }
            1 => {
                let attributes = format!("all_gather_dim = 0 : i64, replica_groups = {group}");
                self.op("stablehlo.all_gather", &[(&a.name, &a.ty)], &attributes, "", a.ty.clone());
            }
            2 => {
                let attributes = "source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>";
                self.op("stablehlo.collective_permute", &[(&a.name, &a.ty)], attributes, "", a.ty.clone());
            }
            _ => {
                self.op("stablehlo.replica_id", &[], "", "", Ty::new([], "ui32"));
            }
        }
    }
}
