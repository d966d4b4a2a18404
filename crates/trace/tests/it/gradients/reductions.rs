//! Cases of reductions along axes and over windows, and what is built from them.

use serde_json::json;
use tensor::DType;
use trace::{Tensor, Window};

use super::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let kinds: [(&str, fn(&Tensor, &[usize]) -> Tensor); 5] = [
        ("sum", Tensor::sum),
        ("max", Tensor::max),
        ("min", Tensor::min),
        ("prod", Tensor::product),
        ("mean", Tensor::mean),
    ];
    let axes: [&[usize]; 4] = [&[0], &[2], &[0, 2], &[0, 1, 2]];
    for (name, function) in kinds {
        for axes in axes {
            let case = Case::new(format!("reduce/{name} {axes:?}"), "reduce", &[&[2, 3, 4]], move |x, _| {
                vec![function(&x[0], axes)]
            });
            let mut case = case.with(json!({"name": name, "axes": axes}));
            case.has_second = axes.len() == 2;
            cases.push(case);
        }
    }
    let ties = [1.0, 2.0, 2.0, 0.0, 2.0, -1.0, 3.0, 3.0, 1.0, 0.0, 0.0, 0.0];
    for name in ["max", "min"] {
        cases.push(
            Case::new(format!("reduce/{name} with ties"), "reduce", &[&[3, 4]], move |x, _| {
                vec![if name == "max" { x[0].max(&[1]) } else { x[0].min(&[1]) }]
            })
            .input(0, &ties)
            .with(json!({"name": name, "axes": [1]}))
            .kinked(),
        );
    }
    for (kind, values) in [("one zero", [2.0, 0.0, 3.0, -1.0]), ("two zeros", [0.0, 0.0, 3.0, -1.0])] {
        cases.push(
            Case::new(format!("reduce/product with {kind}"), "reduce", &[&[4]], |x, _| vec![x[0].product(&[0])])
                .input(0, &values)
                .with(json!({"name": "prod", "axes": [0]})),
        );
    }
    for axis in [0isize, -1] {
        let settings = json!({"axis": axis});
        cases.extend([
            Case::new(format!("softmax {axis}"), "softmax", &[&[3, 4]], move |x, _| vec![x[0].softmax(axis)])
                .with(settings.clone())
                .second(),
            Case::new(format!("log_softmax {axis}"), "log_softmax", &[&[3, 4]], move |x, _| {
                vec![x[0].log_softmax(axis)]
            })
            .with(settings.clone())
            .second(),
            Case::new(format!("log_sum_exp {axis}"), "log_sum_exp", &[&[3, 4]], move |x, _| {
                vec![x[0].log_sum_exp(axis)]
            })
            .with(settings)
            .second(),
        ]);
    }
    cases.extend([
        Case::new("log_sum_exp of large", "log_sum_exp", &[&[2, 3]], |x, _| vec![x[0].log_sum_exp(-1)])
            .input(0, &[1000.0, 999.0, -1000.0, -1000.0, -1001.0, -1002.0])
            .with(json!({"axis": -1}))
            .only(&[DType::F32]),
        Case::new("sum_all", "reduce", &[&[2, 3]], |x, _| vec![x[0].sum_all()])
            .with(json!({"name": "sum", "axes": [0, 1]})),
        Case::new("mean_all", "reduce", &[&[2, 3]], |x, _| vec![x[0].mean_all()])
            .with(json!({"name": "mean", "axes": [0, 1]})),
        Case::new("layer norm by hand", "layer_norm", &[&[3, 8], &[8], &[8]], |x, _| {
            let centred = &x[0] - &x[0].mean(&[1]).expand(-1);
            let scale = (&centred.square().mean(&[1]) + 1e-5).rsqrt().expand(-1);
            vec![&(&(&centred * &scale) * &x[1]) + &x[2]]
        })
        .second(),
    ]);
    for axis in [0isize, 1] {
        let kinds: [(&str, fn(&Tensor, isize) -> Tensor); 3] = [
            ("cumsum", Tensor::cumulative_sum),
            ("cumprod", Tensor::cumulative_product),
            ("cummax", Tensor::cumulative_max),
        ];
        for (name, function) in kinds {
            cases.push(
                Case::new(format!("{name} {axis}"), "cumulative", &[&[3, 5]], move |x, _| vec![function(&x[0], axis)])
                    .with(json!({"name": name, "axis": axis}))
                    .second(),
            );
        }
    }
    cases.extend(windows());
    cases
}

fn windows() -> Vec<Case> {
    let kinds: [(&str, fn(&Tensor, &Window) -> Tensor); 4] = [
        ("max", Tensor::window_max),
        ("min", Tensor::window_min),
        ("sum", Tensor::window_sum),
        ("mean", Tensor::window_mean),
    ];
    let shapes: [(&str, Window); 5] = [
        ("side by side", Window::spatial(&[2, 2], &[2, 2], &[(0, 0), (0, 0)])),
        ("overlapping", Window::spatial(&[3, 2], &[1, 1], &[(0, 0), (0, 0)])),
        ("padded", Window::spatial(&[3, 3], &[2, 2], &[(1, 1), (0, 1)])),
        ("with gaps", Window::spatial(&[2, 1], &[3, 2], &[(0, 0), (0, 0)])),
        ("uneven", Window::spatial(&[2, 3], &[2, 3], &[(0, 0), (1, 0)])),
    ];
    let mut cases = Vec::new();
    for (name, function) in kinds {
        for (kind, window) in &shapes {
            let settings = json!({
                "name": name,
                "dims": window.dims,
                "strides": window.strides,
                "padding": window.padding.iter().map(|&(low, high)| vec![low, high]).collect::<Vec<_>>(),
            });
            let window = window.clone();
            let mut case = Case::new(format!("window/{name} {kind}"), "window", &[&[2, 6, 5, 2]], move |x, _| {
                vec![function(&x[0], &window)]
            });
            case.has_second = *kind == "overlapping" || *kind == "padded";
            cases.push(case.with(settings));
        }
    }
    cases
}
