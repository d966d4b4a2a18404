//! Cases of operations element by element.

use serde_json::json;
use tensor::DType;
use trace::Tensor;

use super::case::Case;

type Unary = fn(&Tensor) -> Tensor;
type Binary = fn(&Tensor, &Tensor) -> Tensor;

/// Functions of one tensor, with the range they are smooth in.
const UNARY: &[(&str, Unary, f64, f64)] = &[
    ("abs", Tensor::abs, 0.1, 2.0),
    ("neg", Tensor::negate, -2.0, 2.0),
    ("sign", Tensor::sign, 0.1, 2.0),
    ("exp", Tensor::exp, -2.0, 2.0),
    ("expm1", Tensor::exp_m1, -1.0, 1.0),
    ("log", Tensor::log, 0.2, 3.0),
    ("log1p", Tensor::log_1p, -0.5, 2.0),
    ("sqrt", Tensor::sqrt, 0.2, 3.0),
    ("rsqrt", Tensor::rsqrt, 0.2, 3.0),
    ("cbrt", Tensor::cbrt, 0.2, 3.0),
    ("sin", Tensor::sin, -3.0, 3.0),
    ("cos", Tensor::cos, -3.0, 3.0),
    ("tan", Tensor::tan, -1.0, 1.0),
    ("tanh", Tensor::tanh, -2.0, 2.0),
    ("logistic", Tensor::logistic, -4.0, 4.0),
    ("erf", Tensor::erf, -2.0, 2.0),
    ("erfc", Tensor::erfc, -2.0, 2.0),
    ("erf_inv", Tensor::erf_inv, -0.8, 0.8),
    ("lgamma", Tensor::lgamma, 0.5, 4.0),
    ("digamma", Tensor::digamma, 0.5, 4.0),
    ("asin", Tensor::asin, -0.8, 0.8),
    ("acos", Tensor::acos, -0.8, 0.8),
    ("atan", Tensor::atan, -2.0, 2.0),
    ("sinh", Tensor::sinh, -2.0, 2.0),
    ("cosh", Tensor::cosh, -2.0, 2.0),
    ("asinh", Tensor::asinh, -2.0, 2.0),
    ("acosh", Tensor::acosh, 1.5, 4.0),
    ("atanh", Tensor::atanh, -0.8, 0.8),
    ("floor", Tensor::floor, 0.1, 0.9),
    ("ceil", Tensor::ceil, 0.1, 0.9),
    ("round", Tensor::round, 0.6, 1.4),
    ("square", Tensor::square, -2.0, 2.0),
    ("relu", Tensor::relu, 0.1, 2.0),
    ("silu", Tensor::silu, -3.0, 3.0),
    ("gelu", Tensor::gelu, -3.0, 3.0),
    ("gelu_tanh", Tensor::gelu_tanh, -3.0, 3.0),
    ("softplus", Tensor::softplus, 0.1, 3.0),
];

/// Functions of two tensors, with the ranges of both.
const BINARY: &[(&str, Binary, (f64, f64))] = &[
    ("add", Tensor::plus, (-2.0, 2.0)),
    ("sub", Tensor::minus, (-2.0, 2.0)),
    ("mul", Tensor::times, (-2.0, 2.0)),
    ("div", Tensor::over, (0.5, 2.0)),
    ("pow", Tensor::pow, (0.5, 2.0)),
    ("max", Tensor::maximum, (-2.0, 2.0)),
    ("min", Tensor::minimum, (-2.0, 2.0)),
    ("atan2", Tensor::atan2, (0.3, 2.0)),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(name, function, low, high) in UNARY {
        let has_second = !matches!(name, "sign" | "floor" | "ceil" | "round" | "digamma");
        let mut case = Case::new(format!("unary/{name}"), "unary", &[&[3, 5]], move |x, _| vec![function(&x[0])])
            .between(low, high)
            .with(json!({ "name": name }));
        case.has_second = has_second;
        if matches!(name, "lgamma" | "digamma") {
            case = case.within(2e-4);
        }
        cases.push(case);
    }
    let shapes: [(&str, &[usize], &[usize]); 4] =
        [("same", &[3, 4], &[3, 4]), ("row", &[3, 4], &[4]), ("outer", &[3, 1], &[1, 4]), ("scalar", &[], &[2, 3])];
    for &(name, function, (low, high)) in BINARY {
        for (kind, left, right) in shapes {
            let mut case = Case::new(format!("binary/{name} {kind}"), "binary", &[left, right], move |x, _| {
                vec![function(&x[0], &x[1])]
            })
            .between(low, high)
            .with(json!({ "name": name }));
            case.has_second = kind == "same" && !matches!(name, "add" | "sub");
            cases.push(case);
        }
    }
    cases.extend(kinks());
    cases.extend(choices());
    cases.extend(complex());
    cases.extend(types());
    cases
}

/// Points where the derivative is a matter of convention.
fn kinks() -> Vec<Case> {
    let around = [-1.0, -0.0, 0.0, 1.0];
    let unary = |name: &'static str, function: Unary| {
        Case::new(format!("kink/{name}"), "unary", &[&[4]], move |x, _| vec![function(&x[0])])
            .input(0, &around)
            .with(json!({ "name": name }))
            .kinked()
    };
    let ties = |name: &'static str, function: Binary| {
        Case::new(format!("kink/{name} ties"), "binary", &[&[4], &[4]], move |x, _| vec![function(&x[0], &x[1])])
            .input(0, &[1.0, 2.0, -1.0, 0.0])
            .input(1, &[1.0, 1.0, 1.0, 0.0])
            .with(json!({ "name": name }))
            .kinked()
    };
    vec![
        unary("abs", Tensor::abs),
        unary("sign", Tensor::sign),
        unary("relu", Tensor::relu),
        unary("softplus", Tensor::softplus),
        unary("silu", Tensor::silu),
        ties("max", Tensor::maximum),
        ties("min", Tensor::minimum),
        Case::new("kink/pow of zero", "binary", &[&[4], &[4]], |x, _| vec![x[0].pow(&x[1])])
            .input(0, &[0.0, 0.0, 2.0, 1.5])
            .input(1, &[2.0, 1.0, 0.0, 3.0])
            .with(json!({ "name": "pow" }))
            .kinked(),
        Case::new("rem", "binary", &[&[4], &[4]], |x, _| vec![x[0].remainder(&x[1])])
            .input(0, &[5.3, -5.3, 2.2, 0.7])
            .input(1, &[2.0, 2.0, -1.5, 3.0])
            .with(json!({ "name": "rem" })),
        Case::new("clamp/inside, at and beyond", "clamp", &[&[6], &[6], &[6]], |x, _| vec![x[1].clamp(&x[0], &x[2])])
            .input(0, &[-1.0; 6])
            .input(1, &[-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
            .input(2, &[1.0; 6])
            .kinked(),
        Case::new("clamp/inside", "clamp", &[&[2], &[2], &[2]], |x, _| vec![x[1].clamp(&x[0], &x[2])])
            .input(0, &[-1.0, 0.1])
            .input(1, &[0.3, -0.5])
            .input(2, &[1.0, 2.0]),
    ]
}

fn choices() -> Vec<Case> {
    vec![
        Case::new("select", "select", &[&[2, 3], &[2, 3]], |x, k| vec![k[0].select(&x[0], &x[1])])
            .fixed(DType::Bool, &[2, 3], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
            .second(),
        Case::new("select of a scalar", "select", &[&[], &[2, 3]], |x, k| vec![k[0].select(&x[0], &x[1])]).fixed(
            DType::Bool,
            &[3],
            &[1.0, 0.0, 1.0],
        ),
        Case::new("where guarded", "guarded_log", &[&[4]], |x, _| {
            let is_positive = x[0].greater(&x[0].zeros_like());
            let safe = is_positive.select(&x[0], &x[0].full_like(1.0));
            vec![is_positive.select(&safe.log(), &x[0].zeros_like())]
        })
        .input(0, &[0.5, -1.0, 2.0, -0.5])
        .second(),
        Case::new("stop_gradient", "stop_gradient", &[&[4]], |x, _| vec![&x[0] * &x[0].sin().stop_gradient()]).kinked(),
        Case::new("value used twice", "used_twice", &[&[4]], |x, _| {
            let y = x[0].sin();
            vec![&y * &y, &y + &x[0]]
        })
        .second(),
        Case::new("unused input", "unused_input", &[&[3], &[2]], |x, _| vec![x[0].exp()]),
        Case::new("constant result", "constant_result", &[&[3]], |x, _| {
            vec![x[0].exp(), Tensor::ones(x[0].dtype(), &[2])]
        }),
    ]
}

fn complex() -> Vec<Case> {
    let f32_only = [DType::F32];
    let pair = |name: &'static str, function: fn(&Tensor) -> Tensor| {
        // Two real tensors become a complex one, whose result is read as two real ones.
        Case::new(format!("complex/{name}"), "complex", &[&[3], &[3]], move |x, _| {
            let z = function(&x[0].complex(&x[1]));
            if z.dtype().is_complex() { vec![z.real(), z.imag()] } else { vec![z] }
        })
        .between(0.3, 1.5)
        .with(json!({ "name": name }))
        .only(&f32_only)
    };
    vec![
        pair("abs", Tensor::abs).second(),
        pair("conj", Tensor::conj),
        pair("exp", Tensor::exp).second(),
        pair("log", Tensor::log),
        pair("sqrt", Tensor::sqrt),
        pair("sin", Tensor::sin),
        pair("cos", Tensor::cos),
        pair("tanh", Tensor::tanh),
        pair("square", Tensor::square).second(),
        pair("real", Tensor::real),
        pair("imag", Tensor::imag),
        pair("neg", Tensor::negate),
        Case::new("complex/product and quotient", "complex_arithmetic", &[&[3], &[3]], |x, _| {
            let (z, w) = (x[0].complex(&x[1]), x[1].complex(&x[0].negate()));
            let y = &(&z * &w) + &(&w / &(&z + 3.0));
            vec![y.real(), y.imag()]
        })
        .only(&f32_only)
        .second(),
    ]
}

fn types() -> Vec<Case> {
    vec![
        Case::new("cast/to bf16 and back", "cast", &[&[4]], |x, _| {
            vec![(&x[0].cast(DType::BF16) * 3.0).cast(x[0].dtype())]
        })
        .with(json!({ "to": "bfloat16" }))
        .kinked()
        .within(1e-2),
        Case::new("cast/to f16 and back", "cast", &[&[4]], |x, _| {
            vec![(&x[0].cast(DType::F16) * 3.0).cast(x[0].dtype())]
        })
        .with(json!({ "to": "float16" }))
        .kinked()
        .within(1e-2),
        Case::new("cast/to i32 stops", "cast_integer", &[&[4]], |x, _| {
            vec![&x[0] * &x[0].cast(DType::I32).cast(x[0].dtype())]
        })
        .between(1.2, 1.8),
        Case::new("reduce_precision", "reduce_precision", &[&[6]], |x, _| vec![x[0].reduce_precision(5, 3)])
            .kinked()
            .only(&[DType::F32]),
    ]
}
