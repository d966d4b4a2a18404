//! Ops without regions: element by element, moved, contracted, transformed.

use super::{Named, Ty, Writer, array, pairs};

const UNARY: [&str; 26] = [
    "abs",
    "cbrt",
    "ceil",
    "cosine",
    "count_leading_zeros",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "negate",
    "not",
    "popcnt",
    "real",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
    "reduce_precision",
];
const BINARY: [&str; 15] = [
    "add",
    "and",
    "atan2",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
    "xor",
];

impl Writer {
    pub(super) fn unary(&mut self) {
        let a = self.any();
        let mut name = self.choices.pick(&UNARY);
        let is_complex = a.ty.element.starts_with("complex");
        // Mostly one that has the type.
        let of_floats = ["cbrt", "ceil", "cosine", "floor", "is_finite", "log", "tanh", "rsqrt", "reduce_precision"];
        let of_integers = ["count_leading_zeros", "not", "popcnt", "abs", "negate", "sign"];
        let of_complex = ["imag", "real", "abs", "exponential", "negate", "sine", "tanh", "sqrt", "log"];
        if !self.choices.one_in(8) {
            name = match a.ty.element {
                "i1" => "not",
                _ if is_complex => self.choices.pick(&of_complex),
                _ if a.ty.is_float() => self.choices.pick(&[self.choices.clone().pick(&of_floats), name, "negate"]),
                _ => self.choices.pick(&of_integers),
            };
        }
        let part = if a.ty.element == "complex<f64>" { "f64" } else { "f32" };
        let result = match name {
            "is_finite" => a.ty.of("i1"),
            "real" | "imag" | "abs" if is_complex => a.ty.of(part),
            _ => a.ty.clone(),
        };
        let attributes = if name == "reduce_precision" {
            format!(
                "exponent_bits = {} : i32, mantissa_bits = {} : i32",
                self.choices.between(1, 11),
                self.choices.below(24)
            )
        } else {
            String::new()
        };
        self.op(&format!("stablehlo.{name}"), &[(&a.name, &a.ty)], &attributes, "", result);
    }

    pub(super) fn binary(&mut self) {
        let a = self.any();
        let b = self.operand(&a.ty);
        let name = match a.ty.element {
            "i1" => self.choices.pick(&["and", "or", "xor", "add", "multiply", "maximum"]),
            _ if a.ty.is_float() || a.ty.element.starts_with("complex") => self.choices.pick(&[
                "add",
                "subtract",
                "multiply",
                "divide",
                "maximum",
                "minimum",
                "power",
                "remainder",
            ]),
            _ => self.choices.pick(&BINARY),
        };
        self.op(&format!("stablehlo.{name}"), &[(&a.name, &a.ty), (&b, &a.ty)], "", "", a.ty.clone());
    }

    pub(super) fn compare(&mut self) {
        let a = self.any();
        let b = self.operand(&a.ty);
        let word = self.choices.pick(&["LT", "LE", "GT", "GE", "EQ", "NE"]);
        let mut attributes = format!("comparison_direction = #stablehlo<comparison_direction {word}>");
        if a.ty.is_float() && self.choices.one_in(3) {
            attributes += ", compare_type = #stablehlo<comparison_type TOTALORDER>";
        }
        self.op("stablehlo.compare", &[(&a.name, &a.ty), (&b, &a.ty)], &attributes, "", a.ty.of("i1"));
    }

    pub(super) fn select(&mut self) {
        let a = self.any();
        let b = self.operand(&a.ty);
        let scalar = Ty::new([], a.ty.element);
        if self.choices.one_in(3) {
            let bounds = if self.choices.one_in(2) { scalar } else { a.ty.clone() };
            let (low, high) = (self.operand(&bounds), self.operand(&bounds));
            self.op("stablehlo.clamp", &[(&low, &bounds), (&a.name, &a.ty), (&high, &bounds)], "", "", a.ty.clone());
        } else {
            let mask = if self.choices.one_in(2) { Ty::new([], "i1") } else { a.ty.of("i1") };
            let chosen = self.operand(&mask);
            self.op("stablehlo.select", &[(&chosen, &mask), (&a.name, &a.ty), (&b, &a.ty)], "", "", a.ty.clone());
        }
    }

    pub(super) fn convert(&mut self) {
        let a = self.any();
        let to = self.element();
        if a.ty.element == "f32" && self.choices.one_in(6) {
            let b = self.operand(&a.ty);
            self.op("stablehlo.complex", &[(&a.name, &a.ty), (&b, &a.ty)], "", "", a.ty.of("complex<f32>"));
            return;
        }
        self.op("stablehlo.convert", &[(&a.name, &a.ty)], "", "", a.ty.of(to));
    }

    pub(super) fn bitcast(&mut self) {
        let mut a = self.any();
        let bits = |element: &str| match element {
            "i1" => 1,
            "i2" => 2,
            "i4" | "ui4" => 4,
            "f64" | "i64" | "ui64" | "complex<f32>" => 64,
            "complex<f64>" => 128,
            "f32" | "i32" | "ui32" => 32,
            "bf16" | "f16" | "i16" | "ui16" => 16,
            _ => 8,
        };
        let to = self.element();
        let (from, into) = (bits(a.ty.element), bits(to));
        let mut dims = a.ty.dims.clone();
        if from > into {
            dims.push(from / into);
        } else if from < into {
            if dims.last() != Some(&(into / from)) {
                let ty = Ty::new([3, into / from], a.ty.element);
                a = Named { name: self.operand(&ty), ty };
                dims = a.ty.dims.clone();
            }
            dims.pop();
        }
        self.op("stablehlo.bitcast_convert", &[(&a.name, &a.ty)], "", "", Ty::new(dims, to));
    }

    pub(super) fn view(&mut self) {
        let a = self.any();
        let rank = a.ty.dims.len();
        let all: Vec<i64> = (0..rank as i64).collect();
        match self.choices.below(6) {
            0 => {
                let order: Vec<i64> = all.iter().rev().copied().collect();
                let dims: Vec<i64> = a.ty.dims.iter().rev().copied().collect();
                let attributes = format!("permutation = {}", array(&order));
                self.op("stablehlo.transpose", &[(&a.name, &a.ty)], &attributes, "", Ty::new(dims, a.ty.element));
            }
            1 => {
                let dims = if self.choices.one_in(2) { vec![a.ty.count()] } else { vec![1, a.ty.count(), 1] };
                self.op("stablehlo.reshape", &[(&a.name, &a.ty)], "", "", Ty::new(dims, a.ty.element));
            }
            2 => {
                let starts: Vec<i64> = a.ty.dims.iter().map(|&d| self.choices.between(0, d)).collect();
                let limits: Vec<i64> =
                    a.ty.dims.iter().zip(&starts).map(|(&d, &start)| self.choices.between(start, d)).collect();
                let strides: Vec<i64> = all.iter().map(|_| self.choices.pick(&[1, 1, 2, 3, 1 << 40])).collect();
                let size = |n: usize| (limits[n] - starts[n] + strides[n] - 1) / strides[n];
                let dims: Vec<i64> = (0..rank).map(size).collect();
                let attributes = format!(
                    "start_indices = {}, limit_indices = {}, strides = {}",
                    array(&starts),
                    array(&limits),
                    array(&strides)
                );
                self.op("stablehlo.slice", &[(&a.name, &a.ty)], &attributes, "", Ty::new(dims, a.ty.element));
            }
            3 => {
                let dims: Vec<i64> = all.iter().copied().filter(|_| self.choices.one_in(2)).collect();
                let attributes = format!("dimensions = {}", array(&dims));
                self.op("stablehlo.reverse", &[(&a.name, &a.ty)], &attributes, "", a.ty.clone());
            }
            4 => {
                let dims = self.dims(3);
                if !dims.is_empty() {
                    let along = self.choices.below(dims.len());
                    let ty = Ty::new(dims, self.number());
                    let attributes = format!("iota_dimension = {along} : i64");
                    self.op("stablehlo.iota", &[], &attributes, "", ty);
                }
            }
            _ => {
                let mut dims = self.dims(2);
                let along: Vec<i64> = (0..rank).map(|n| (dims.len() + n) as i64).collect();
                dims.extend(&a.ty.dims);
                if dims.iter().map(|d| d.max(&1)).product::<i64>() <= 8000 {
                    let attributes = format!("broadcast_dimensions = {}", array(&along));
                    let ty = Ty::new(dims, a.ty.element);
                    self.op("stablehlo.broadcast_in_dim", &[(&a.name, &a.ty)], &attributes, "", ty);
                }
            }
        }
    }

    pub(super) fn pad(&mut self) {
        let a = self.any();
        let scalar = Ty::new([], a.ty.element);
        let fill = self.operand(&scalar);
        let mut parts: [Vec<i64>; 4] = Default::default();
        for &size in &a.ty.dims {
            let (low, high) = (self.choices.between(-3, 3), self.choices.between(-3, 3));
            let interior = self.choices.pick(&[0, 0, 1, 3]);
            let whole = size + (size - 1).max(0) * interior;
            parts[0].push(low);
            parts[1].push(high.max(-whole - low));
            parts[2].push(interior);
            parts[3].push(whole + low + high.max(-whole - low));
        }
        if parts[3].iter().map(|d| d.max(&1)).product::<i64>() > 20_000 {
            return;
        }
        let attributes = format!(
            "edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
            array(&parts[0]),
            array(&parts[1]),
            array(&parts[2])
        );
        let [.., dims] = parts;
        let result = Ty::new(dims, a.ty.element);
        self.op("stablehlo.pad", &[(&a.name, &a.ty), (&fill, &scalar)], &attributes, "", result);
    }

    pub(super) fn concatenate(&mut self) {
        let a = self.any();
        if a.ty.dims.is_empty() {
            return;
        }
        let along = self.choices.below(a.ty.dims.len());
        let mut other = a.ty.clone();
        other.dims[along] = self.size();
        let b = self.operand(&other);
        let mut result = a.ty.clone();
        result.dims[along] = 2 * a.ty.dims[along] + other.dims[along];
        let attributes = format!("dimension = {along} : i64");
        let operands = [(&*a.name, &a.ty), (&*b, &other), (&*a.name, &a.ty)];
        self.op("stablehlo.concatenate", &operands, &attributes, "", result);
    }

    pub(super) fn dot(&mut self) {
        let element = self.element();
        let (batch, m, k, n) = (self.choices.pick(&[0, 1, 2, 3]), self.size(), self.size(), self.size());
        let is_batched = self.choices.one_in(3);
        let lead: Vec<i64> = if is_batched { vec![batch] } else { Vec::new() };
        let first = lead.len() as i64;
        let lhs = Ty::new([&lead[..], &[m, k]].concat(), element);
        let is_turned = self.choices.one_in(2);
        let rest = if is_turned { [n, k] } else { [k, n] };
        let rhs = Ty::new([&lead[..], &rest].concat(), element);
        let to = match self.choices.below(4) {
            0 if lhs.is_float() => self.float(),
            1 if element == "i8" => "i32",
            _ => element,
        };
        let (a, b) = (self.operand(&lhs), self.operand(&rhs));
        let batching = if is_batched { "0" } else { "" };
        let contracted = if is_turned { first + 1 } else { first };
        let attributes = format!(
            "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{batching}], rhs_batching_dimensions = [{batching}], lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{contracted}]>",
            first + 1
        );
        let result = Ty::new([&lead[..], &[m, n]].concat(), to);
        self.op("stablehlo.dot_general", &[(&a, &lhs), (&b, &rhs)], &attributes, "", result);
    }

    pub(super) fn convolution(&mut self) {
        let element = self.number();
        let spatial = self.choices.below(3);
        let (feature_groups, batch_groups) = match self.choices.below(4) {
            0 => (2, 1),
            1 => (1, 2),
            _ => (1, 1),
        };
        let (b, i, o) =
            (self.choices.between(1, 3) * batch_groups, self.choices.between(1, 3), 2 * self.choices.between(1, 3));
        let (mut image, mut kernel) = (vec![b], Vec::new());
        let (mut strides, mut dilations, mut holes, mut padding, mut reversal) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut result = vec![b / batch_groups];
        for _ in 0..spatial {
            let (size, window) = (self.choices.between(0, 9), self.choices.between(1, 4));
            let (stride, hole, dilation) =
                (self.choices.between(1, 3), self.choices.between(1, 2), self.choices.between(1, 3));
            let (low, high) = (self.choices.between(-1, 3), self.choices.between(-1, 3));
            let dilated = if size == 0 { 0 } else { (size - 1) * dilation + 1 };
            let reach = (window - 1) * hole + 1;
            let room = dilated + low + high;
            image.push(size);
            kernel.push(window);
            result.push(if room < reach { 0 } else { (room - reach) / stride + 1 });
            strides.push(stride);
            dilations.push(dilation);
            holes.push(hole);
            padding.push((low, high));
            reversal.push(self.choices.one_in(4).to_string());
        }
        image.push(i * feature_groups);
        kernel.extend([i, o]);
        result.push(o);
        let digits = ["0", "1"][..spatial].join(", ");
        let with = |first: &str, last: &str| {
            [first, &digits, last].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(", ")
        };
        let dims = format!("[{}]x[{}]->[{}]", with("b", "f"), with("", "i, o"), with("b", "f"));
        let reversal =
            if reversal.is_empty() { "array<i1>".into() } else { format!("array<i1: {}>", reversal.join(", ")) };
        let attributes = format!(
            "dimension_numbers = #stablehlo.conv<{dims}>, window_strides = {}, padding = {}, lhs_dilation = {}, rhs_dilation = {}, window_reversal = {reversal}, feature_group_count = {feature_groups} : i64, batch_group_count = {batch_groups} : i64",
            array(&strides),
            pairs(&padding),
            array(&dilations),
            array(&holes),
        );
        let (lhs, rhs) = (Ty::new(image, element), Ty::new(kernel, element));
        let (a, b) = (self.operand(&lhs), self.operand(&rhs));
        self.op("stablehlo.convolution", &[(&a, &lhs), (&b, &rhs)], &attributes, "", Ty::new(result, element));
    }

    pub(super) fn fourier(&mut self) {
        let kind = self.choices.pick(&["FFT", "IFFT", "RFFT", "IRFFT"]);
        let is_wide = self.choices.one_in(3);
        let (real, complex) = if is_wide { ("f64", "complex<f64>") } else { ("f32", "complex<f32>") };
        let rank = self.choices.between(1, 3) as usize;
        let length: Vec<i64> = (0..rank).map(|_| self.choices.pick(&[1, 2, 3, 4, 5, 7, 8, 16, 17])).collect();
        let mut whole = self.dims(1);
        whole.extend(&length);
        let mut half = whole.clone();
        let last = half.len() - 1;
        half[last] = whole[last] / 2 + 1;
        let (from, to) = match kind {
            "RFFT" => (Ty::new(whole, real), Ty::new(half, complex)),
            "IRFFT" => (Ty::new(half, complex), Ty::new(whole, real)),
            _ => (Ty::new(whole.clone(), complex), Ty::new(whole, complex)),
        };
        let a = self.operand(&from);
        let attributes = format!("fft_type = #stablehlo<fft_type {kind}>, fft_length = {}", array(&length));
        self.op("stablehlo.fft", &[(&a, &from)], &attributes, "", to);
    }

    pub(super) fn linear_algebra(&mut self) {
        let element = self.choices.pick(&["f32", "f64", "complex<f32>", "complex<f64>"]);
        let n = self.choices.pick(&[0, 1, 2, 3, 5, 17]);
        let lead = self.dims(1);
        let square = Ty::new([&lead[..], &[n, n]].concat(), element);
        let a = self.operand(&square);
        let flag = |writer: &mut Writer| writer.choices.one_in(2);
        if self.choices.one_in(2) {
            let attributes = format!("lower = {}", flag(self));
            self.op("stablehlo.cholesky", &[(&a, &square)], &attributes, "", square.clone());
            return;
        }
        let is_left = flag(self);
        let m = self.size();
        let rest = if is_left { [n, m] } else { [m, n] };
        let rhs = Ty::new([&lead[..], &rest].concat(), element);
        let b = self.operand(&rhs);
        let turned = self.choices.pick(&["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]);
        let attributes = format!(
            "left_side = {is_left}, lower = {}, unit_diagonal = {}, transpose_a = #stablehlo<transpose {turned}>",
            flag(self),
            flag(self)
        );
        self.op("stablehlo.triangular_solve", &[(&a, &square), (&b, &rhs)], &attributes, "", rhs.clone());
    }

    pub(super) fn batch_norm(&mut self) {
        let element = self.float();
        let mut dims = self.dims(3);
        dims.push(self.choices.between(1, 5));
        let index = self.choices.below(dims.len());
        let (x, row) = (Ty::new(dims.clone(), element), Ty::new([dims[index]], element));
        let a = self.operand(&x);
        let rows: Vec<String> = (0..4).map(|_| self.operand(&row)).collect();
        let attributes = format!("epsilon = 0.001 : f32, feature_index = {index} : i64");
        let mut operands: Vec<(String, Ty)> = vec![(a, x.clone())];
        operands.extend(rows.into_iter().map(|name| (name, row.clone())));
        match self.choices.below(3) {
            0 => {
                let list: Vec<(&str, &Ty)> = operands.iter().map(|(name, ty)| (&**name, ty)).collect();
                self.op("stablehlo.batch_norm_inference", &list, &attributes, "", x);
            }
            1 => {
                operands.truncate(3);
                self.ops("stablehlo.batch_norm_training", &operands, &attributes, "", &[x, row.clone(), row]);
            }
            _ => {
                let gradient = self.operand(&x);
                operands[4] = (gradient, x.clone());
                self.ops("stablehlo.batch_norm_grad", &operands, &attributes, "", &[x, row.clone(), row]);
            }
        }
    }

    pub(super) fn random(&mut self) {
        if self.choices.one_in(4) {
            let dims = self.dims(2);
            let element = self.choices.pick(&["f32", "f64", "bf16", "i32", "i8", "i1"]);
            let scalar = Ty::new([], element);
            let (low, high) = (self.constant(&scalar), self.constant(&scalar));
            let shape = self.integers(&dims, "i64");
            let word = if element.contains('f') { self.choices.pick(&["UNIFORM", "NORMAL"]) } else { "UNIFORM" };
            let attributes = format!("rng_distribution = #stablehlo<rng_distribution {word}>");
            let operands = [(&*low, &scalar), (&*high, &scalar), (&*shape.name, &shape.ty)];
            self.op("stablehlo.rng", &operands, &attributes, "", Ty::new(dims, element));
            return;
        }
        let (word, state) = self.choices.pick(&[("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 2)]);
        let state = Ty::new([state], "ui64");
        let a = self.operand(&state);
        let element = self.number();
        let result = Ty::new(self.dims(3), element);
        let attributes = format!("rng_algorithm = #stablehlo<rng_algorithm {word}>");
        self.ops("stablehlo.rng_bit_generator", &[(a, state.clone())], &attributes, "", &[state, result]);
    }
}
