//! One case of the suite: a function of tensors, its inputs, and the name of the same function in JAX.

use std::rc::Rc;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use trace::Tensor;

use crate::run::literal;

/// A function of the tensors that have derivatives and of those that have none.
pub(crate) type Function = Rc<dyn Fn(&[Tensor], &[Tensor]) -> Vec<Tensor>>;

/// Numbers of a shape.
#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) dims: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Array {
    /// Numbers between two bounds, the same in every run, different for every `salt`.
    pub(crate) fn drawn(dims: &[usize], low: f64, high: f64, salt: u64) -> Array {
        let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
        let values = (0..dims.iter().product::<usize>())
            .map(|_| {
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut mixed = state;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                mixed ^= mixed >> 31;
                low + (high - low) * (mixed >> 11) as f64 / (1u64 << 53) as f64
            })
            .collect();
        Array { dims: dims.to_vec(), values }
    }

    /// These numbers.
    pub(crate) fn of(dims: &[usize], values: &[f64]) -> Array {
        assert_eq!(dims.iter().product::<usize>(), values.len());
        Array { dims: dims.to_vec(), values: values.to_vec() }
    }

    pub(crate) fn literal(&self, dtype: DType) -> Literal {
        literal(dtype, &self.dims, &self.values)
    }
}

/// A case.
#[derive(Clone)]
pub(crate) struct Case {
    /// Unique in the suite.
    pub(crate) name: String,
    /// The function in `gradients.py`.
    pub(crate) peer: &'static str,
    /// What else that function takes.
    pub(crate) settings: Value,
    /// Inputs with derivatives.
    pub(crate) inputs: Vec<Array>,
    /// Inputs without.
    pub(crate) fixed: Vec<Literal>,
    pub(crate) function: Function,
    /// Types of the inputs in which results are compared with JAX.
    pub(crate) dtypes: Vec<DType>,
    /// Whether differences of values approximate the derivative at these inputs.
    pub(crate) is_smooth: bool,
    /// Whether second derivatives are compared.
    pub(crate) has_second: bool,
    /// Whether tangents are pushed forward.
    pub(crate) has_tangents: bool,
    /// Whether cotangents are pulled back.
    pub(crate) has_cotangents: bool,
    /// Error allowed in f32, relative to the largest number of a result.
    pub(crate) tolerance: f64,
}

impl Case {
    /// A case of inputs of these shapes with numbers in -1..1, compared in f32 and bf16.
    pub(crate) fn new(
        name: impl Into<String>,
        peer: &'static str,
        shapes: &[&[usize]],
        function: impl Fn(&[Tensor], &[Tensor]) -> Vec<Tensor> + 'static,
    ) -> Case {
        let inputs = shapes.iter().enumerate().map(|(n, dims)| Array::drawn(dims, -1.0, 1.0, n as u64 + 1)).collect();
        Case {
            name: name.into(),
            peer,
            settings: json!({}),
            inputs,
            fixed: Vec::new(),
            function: Rc::new(function),
            dtypes: vec![DType::F32, DType::BF16],
            is_smooth: true,
            has_second: false,
            has_tangents: true,
            has_cotangents: true,
            tolerance: 3e-5,
        }
    }

    /// With inputs between two bounds.
    pub(crate) fn between(mut self, low: f64, high: f64) -> Case {
        for (n, input) in self.inputs.iter_mut().enumerate() {
            *input = Array::drawn(&input.dims.clone(), low, high, n as u64 + 1);
        }
        self
    }

    /// With these numbers as an input.
    pub(crate) fn input(mut self, n: usize, values: &[f64]) -> Case {
        self.inputs[n] = Array::of(&self.inputs[n].dims.clone(), values);
        self
    }

    /// With one more input without derivatives.
    pub(crate) fn fixed(mut self, dtype: DType, dims: &[usize], values: &[f64]) -> Case {
        self.fixed.push(literal(dtype, dims, values));
        self
    }

    /// With settings of the function in JAX.
    pub(crate) fn with(mut self, settings: Value) -> Case {
        self.settings = settings;
        self
    }

    /// At a point where the function has a kink, or with a derivative that is not that of the value.
    pub(crate) fn kinked(mut self) -> Case {
        self.is_smooth = false;
        self
    }

    /// With second derivatives.
    pub(crate) fn second(mut self) -> Case {
        self.has_second = true;
        self
    }

    /// Compared in these types only.
    pub(crate) fn only(mut self, dtypes: &[DType]) -> Case {
        self.dtypes = dtypes.to_vec();
        self
    }

    /// Of a function that has no tangents, such as one with a backward pass of its own.
    pub(crate) fn backward_only(mut self) -> Case {
        self.has_tangents = false;
        self
    }

    /// Of a function that has no backward pass.
    pub(crate) fn forward_only(mut self) -> Case {
        self.has_cotangents = false;
        self
    }

    /// With this error allowed in f32.
    pub(crate) fn within(mut self, tolerance: f64) -> Case {
        self.tolerance = tolerance;
        self
    }

    /// The function, on inputs followed by those without derivatives.
    pub(crate) fn call(&self, all: &[Tensor]) -> Vec<Tensor> {
        let (inputs, fixed) = all.split_at(self.inputs.len());
        (self.function)(inputs, fixed)
    }
}
