//! Matmuls with quantized weights: narrow right factors, whole or slices of a stack, with scales by column or by group.

use tensor::DType;

use super::Writer;
use super::value::{V, epsilon, limit};

impl Writer {
    /// `x · convert(w)`, as a front end writes it for weights in few bits.
    pub(super) fn quantized(&mut self) {
        let dtype = self.numbers.pick(&[DType::F32, DType::F32, DType::BF16, DType::F16]);
        let narrow = self.numbers.pick(&[
            DType::I8,
            DType::U8,
            DType::I4,
            DType::I4,
            DType::U4,
            DType::I2,
            DType::U2,
            DType::F8E4M3FN,
            DType::F8E5M2,
        ]);
        let (m, groups) = (self.numbers.pick(&[1, 1, 2, 4, 9, 33]), self.numbers.pick(&[1, 1, 3]));
        let (k, n) = (self.numbers.pick(&[1, 8, 33, 64]), self.numbers.pick(&[1, 16, 31, 64, 136]));
        let model = V::argument(String::new(), dtype, vec![m, groups, k]);
        let calm = |v: &V| v.size <= 2.0 && v.is_exact() && !v.has_special && v.grid.is_some();
        let x = self.like(&model, calm);
        if !calm(&x) {
            return;
        }
        let w = self.weights(narrow, &[groups, k, n]);
        let size = if narrow.is_float() { 2.0 } else { f64::from(1 << narrow.bits()) };
        let grid = if narrow.is_float() { 2 } else { 0 };
        let wide = V { name: self.name(), dtype, size, grid: Some(grid), has_special: false, ..w.clone() };
        self.lines.push(format!("{} = stablehlo.convert {} : ({}) -> {}", wide.name, w.name, w.ty(), wide.ty()));
        let sums = V { dtype: DType::F32, dims: vec![groups, m, n], ..x.clone() };
        let sums = sums.product(k, x.size * size, 0.0, x.grid.map(|g| g + grid));
        if sums.size * groups as f64 > limit(dtype) {
            return;
        }
        let text = format!(
            "stablehlo.dot_general {}, {}, batching_dims = [1] x [0], contracting_dims = [2] x [1]",
            x.name, wide.name
        );
        let sums = self.op(&text, &[&x, &wide], sums);
        if self.numbers.one_in(2) {
            self.scaled_by_group(&sums);
        }
    }

    /// An argument, or a slice of a stack of them at an index that may be anywhere.
    fn weights(&mut self, narrow: DType, dims: &[usize]) -> V {
        if self.numbers.one_in(2) {
            return self.argument(narrow, dims);
        }
        let stack = self.argument(narrow, &[&[3], dims].concat());
        let index = self.argument(DType::I32, &[]);
        let zero = self.scalar(DType::I32, "0");
        let (slice, name) = (self.name(), self.name());
        let sizes = [&[1], dims].concat();
        let sliced = V { name: slice, dims: sizes.clone(), ..stack.clone() };
        let scalar = "tensor<i32>";
        self.lines.push(format!(
            "{} = stablehlo.dynamic_slice {}, {}, {zero}, {zero}, {zero}, sizes = {sizes:?} : ({}, {scalar}, {scalar}, \
             {scalar}, {scalar}) -> {}",
            sliced.name,
            stack.name,
            index.name,
            stack.ty(),
            sliced.ty()
        ));
        let whole = V { name, dims: dims.to_vec(), ..sliced.clone() };
        self.lines.push(format!(
            "{} = stablehlo.reshape {} : ({}) -> {}",
            whole.name,
            sliced.name,
            sliced.ty(),
            whole.ty()
        ));
        whole
    }

    /// Partial sums times their scales, added up.
    fn scaled_by_group(&mut self, sums: &V) {
        let [groups, m, n] = sums.dims[..] else { return };
        let calm = |v: &V| v.size <= 2.0 && v.is_exact() && !v.has_special && v.grid.is_some();
        let scales = self.like(&V::argument(String::new(), DType::F32, vec![groups, n]), calm);
        if !calm(&scales) {
            return;
        }
        let spread = self.name();
        self.lines.push(format!(
            "{spread} = stablehlo.broadcast_in_dim {}, dims = [0, 2] : ({}) -> {}",
            scales.name,
            scales.ty(),
            sums.ty()
        ));
        let product = self.name();
        self.lines.push(format!("{product} = stablehlo.multiply {}, {spread} : {}", sums.name, sums.ty()));
        let zero = self.scalar(DType::F32, "0.0");
        let size = sums.size * scales.size;
        let error = sums.error * scales.size + 2.0 * epsilon(DType::F32) * size;
        let grid = sums.grid.zip(scales.grid).map(|(g, h)| g + h);
        let error = if grid.is_some() && sums.is_exact() { 0.0 } else { error };
        let result = V { dims: vec![m, n], ..sums.clone() }.product(groups, size, error, grid);
        let name = self.name();
        self.lines.push(format!(
            "{name} = stablehlo.reduce({product} init: {zero}) applies stablehlo.add across dimensions = [0] : ({}, \
             tensor<f32>) -> {}",
            sums.ty(),
            result.ty()
        ));
        self.add(V { name, ..result });
    }
}
