//! Cases of loops, branches, recomputation, and derivatives of one's own.

use serde_json::json;
use tensor::DType;
use trace::{
    Branch, RematPolicy, Tensor, checkpoint, cond, custom_vjp, grad, jvp, scan, scan_reversed, switch, while_loop,
};

use super::case::Case;

/// One step of a small recurrent network.
fn cell(state: &Tensor, input: &Tensor, weight: &Tensor) -> Tensor {
    (&state.matmul(weight) + input).tanh()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = scans();
    cases.extend(branches());
    cases.extend(checkpoints());
    cases.extend(customs());
    cases.extend(derivatives_inside());
    cases
}

fn scans() -> Vec<Case> {
    // A state, inputs of five steps, and a weight that every step uses.
    let shapes: [&[usize]; 3] = [&[2, 3], &[5, 2, 3], &[3, 3]];
    vec![
        Case::new("scan/recurrent", "scan_recurrent", &shapes, |x, _| {
            let weight = x[2].clone();
            let (last, all) = scan(&x[0], &x[1], None, |state, input| {
                let next = cell(state, input, &weight);
                (next.clone(), &next * 2.0)
            });
            vec![last, all]
        })
        .with(json!({"reverse": false}))
        .second(),
        Case::new("scan/reversed", "scan_recurrent", &shapes, |x, _| {
            let weight = x[2].clone();
            let (last, all) = scan_reversed(&x[0], &x[1], None, |state, input| {
                let next = cell(state, input, &weight);
                (next.clone(), &next * 2.0)
            });
            vec![last, all]
        })
        .with(json!({"reverse": true}))
        .second(),
        Case::new("scan/results only", "scan_results_only", &shapes, |x, _| {
            let weight = x[2].clone();
            let (_, all) = scan(&x[0], &x[1], None, |state, input| {
                let next = cell(state, input, &weight);
                (next.clone(), next)
            });
            vec![all]
        }),
        Case::new("scan/blocks", "scan_blocks", &[&[4, 3], &[3, 3, 3]], |x, _| {
            // Much of a block is rematerialized in its backward pass rather than saved.
            let (last, ()) = scan(&x[0], &x[1], None, |x, weight| {
                let centred = x - &x.mean(&[1]).expand(-1);
                let normed = &centred * &(&centred.square().mean(&[1]) + 1e-3).rsqrt().expand(-1);
                let mixed = normed.matmul(&normed.transpose(&[1, 0])).softmax(-1).matmul(&normed);
                (x + &(x + &mixed).matmul(weight).gelu_tanh(), ())
            });
            vec![last]
        })
        .second(),
        Case::new("scan/of a length", "scan_of_length", &[&[3]], |x, _| {
            let (last, _) = scan(&x[0], &(), Some(4), |state, _| (&state.sin() + state, ()));
            vec![last]
        })
        .second(),
        Case::new("scan/counter carried along", "scan_counter", &[&[3], &[4, 3]], |x, _| {
            let start = (x[0].clone(), Tensor::scalar(DType::I32, 0.0));
            let ((last, _), all) = scan(&start, &x[1], None, |(sum, count), slice| {
                let weight = (count + 1.0).cast(sum.dtype());
                let next = sum + &(slice * &weight);
                ((next.clone(), count + 1.0), next.square())
            });
            vec![last, all]
        })
        .second(),
        Case::new("scan/nested", "scan_nested", &[&[3], &[2, 4, 3]], |x, _| {
            let (last, all) = scan(&x[0], &x[1], None, |state, rows| {
                let (inner, results) = scan(state, rows, None, |state, row| {
                    let next = (state * row).sin();
                    (next.clone(), &next + row)
                });
                (inner, results.sum(&[0]))
            });
            vec![last, all]
        })
        .second(),
        Case::new("scan/carry not differentiated at first", "scan_late", &[&[4, 3]], |x, _| {
            let zero = Tensor::zeros(x[0].dtype(), &[3]);
            let (last, _) = scan(&zero, &x[0], None, |state, slice| (&(state * 0.5) + &slice.exp(), ()));
            vec![last]
        })
        .second(),
        Case::new("scan/two carried, crossed", "scan_crossed", &[&[3], &[3]], |x, _| {
            let start = (x[0].clone(), x[1].clone());
            let ((one, other), _) = scan(&start, &(), Some(3), |(one, other), _| ((other.sin(), one * other), ()));
            vec![one, other]
        })
        .second(),
        Case::new("scan/checkpointed step", "scan_recurrent", &shapes, |x, _| {
            let weight = x[2].clone();
            let (last, all) = scan(&x[0], &x[1], None, |state, input| {
                let inputs = (state.clone(), input.clone());
                let next = checkpoint(&RematPolicy::Full, &inputs, |(state, input)| cell(state, input, &weight));
                (next.clone(), &next * 2.0)
            });
            vec![last, all]
        })
        .with(json!({"reverse": false})),
        Case::new("while/tangent", "while_power", &[&[3]], |x, _| {
            let start = (Tensor::scalar(DType::I32, 0.0), x[0].clone());
            let base = x[0].clone();
            let (_, product) = while_loop(
                &start,
                |(count, _)| count.less(&Tensor::scalar(DType::I32, 3.0)),
                |(count, product)| (count + 1.0, product * &base),
            );
            vec![product]
        })
        .forward_only(),
        Case::new("while/by value", "while_halving", &[&[]], |x, _| {
            let last = while_loop(&x[0], |x| x.greater(&x.full_like(1.0)), |x| x * 0.5);
            vec![last]
        })
        .input(0, &[13.0])
        .forward_only(),
    ]
}

fn branches() -> Vec<Case> {
    let mut cases = Vec::new();
    for (word, value) in [("true", 1.0), ("false", 0.0)] {
        cases.push(
            Case::new(format!("cond/{word}"), "cond", &[&[3], &[3]], |x, k| {
                let outer = x[1].clone();
                vec![cond(&k[0], &x[0], |x| &x.sin() * &outer, |x| x.square())]
            })
            .fixed(DType::Bool, &[], &[value])
            .second(),
        );
    }
    for index in [0.0, 1.0, 2.0] {
        cases.push(
            Case::new(format!("switch/{index}"), "switch", &[&[3], &[3]], |x, k| {
                let inputs = (x[0].clone(), x[1].clone());
                let branches: Vec<Branch<'_, (Tensor, Tensor), Tensor>> = vec![
                    Box::new(|(x, y)| x * y),
                    Box::new(|(x, _)| x.exp()),
                    Box::new(|(_, y)| Tensor::ones(y.dtype(), &[3])),
                ];
                vec![switch(&k[0], &inputs, branches)]
            })
            .fixed(DType::I32, &[], &[index])
            .second(),
        );
    }
    cases.push(
        Case::new("cond/inside scan", "cond_in_scan", &[&[3], &[4, 3]], |x, _| {
            let (last, all) = scan(&x[0], &x[1], None, |state, slice| {
                let is_positive = slice.sum_all().greater(&Tensor::scalar(slice.dtype(), 0.0));
                let next = cond(&is_positive, state, |state| &state.sin() + slice, |state| state * 0.5);
                (next.clone(), next)
            });
            vec![last, all]
        })
        .second(),
    );
    cases
}

/// Two layers with a name on the values between them.
pub(crate) fn layers(x: &Tensor, first: &Tensor, second: &Tensor) -> Tensor {
    let hidden = x.matmul(first).named("hidden").tanh();
    (&hidden.matmul(second).sin() + &hidden.sum(&[1]).expand(-1)).exp()
}

/// Every policy.
pub(crate) fn policies() -> Vec<(&'static str, RematPolicy)> {
    vec![
        ("none", RematPolicy::None),
        ("full", RematPolicy::Full),
        ("dots", RematPolicy::Dots),
        ("dots with no batch dims", RematPolicy::DotsWithNoBatchDims),
        ("names", RematPolicy::SaveOnlyTheseNames(vec!["hidden".into()])),
        ("offload", RematPolicy::Offload { host: vec!["hidden".into()], device: Vec::new() }),
    ]
}

fn checkpoints() -> Vec<Case> {
    policies()
        .into_iter()
        .map(|(name, policy)| {
            Case::new(format!("checkpoint/{name}"), "layers", &[&[2, 3], &[3, 4], &[4, 2]], move |x, _| {
                let inputs = (x[0].clone(), x[1].clone());
                let second = x[2].clone();
                vec![checkpoint(&policy, &inputs, |(x, first)| layers(x, first, &second))]
            })
            .second()
        })
        .collect()
}

fn customs() -> Vec<Case> {
    vec![
        Case::new("custom_vjp/clipped", "custom_clipped", &[&[4]], |x, _| {
            vec![custom_vjp(
                &x[0],
                |x| x.exp(),
                |_, out, ct| {
                    let limit = out.full_like(0.5);
                    (ct * out).clamp(&limit.negate(), &limit)
                },
            )]
        })
        .kinked()
        .backward_only(),
        Case::new("custom_vjp/two inputs in scan", "custom_in_scan", &[&[3], &[4, 3]], |x, _| {
            let (last, _) = scan(&x[0], &x[1], None, |state, slice| {
                let inputs = (state.clone(), slice.clone());
                let next = custom_vjp(
                    &inputs,
                    |(state, slice)| state * slice,
                    |(state, slice), _, ct| (&(ct * slice) * 2.0, &(ct * state) * 3.0),
                );
                (next, ())
            });
            vec![last]
        })
        .kinked()
        .backward_only(),
    ]
}

/// Functions that are themselves derivatives.
fn derivatives_inside() -> Vec<Case> {
    vec![
        Case::new("grad inside", "grad_inside", &[&[3]], |x, _| {
            vec![grad(|x: &Tensor| (&x.sin() * &x.square()).sum_all(), &x[0])]
        })
        .second(),
        Case::new("jvp inside", "jvp_inside", &[&[3], &[3]], |x, _| {
            let (value, change) = jvp(|x: &Tensor| &x.sin() * x, &x[0], &x[1]);
            vec![value, change]
        })
        .second(),
        Case::new("grad of grad inside", "grad_of_grad_inside", &[&[3]], |x, _| {
            vec![grad(|x: &Tensor| grad(|x: &Tensor| (&x.exp() * &x.square()).sum_all(), x).square().sum_all(), &x[0])]
        }),
        Case::new("grad inside scan", "grad_inside_scan", &[&[3], &[3, 3]], |x, _| {
            let (last, _) = scan(&x[0], &(), Some(3), |state, _| {
                let gradient = grad(|s: &Tensor| s.expand(0).matmul(&x[1]).sin().sum_all(), state);
                (state - &(&gradient * 0.1), ())
            });
            vec![last]
        })
        .second(),
    ]
}
