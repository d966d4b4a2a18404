//! Cases of functions that run for a batch.

use serde_json::json;
use tensor::DType;
use trace::{Tensor, cond, grad, scan, vmap, vmap_axes, while_loop};

use super::case::Case;

/// The loss of one example.
fn loss(weight: &Tensor, x: &Tensor) -> Tensor {
    x.expand(0).matmul(weight).tanh().square().sum_all()
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("vmap/gradient of each example", "vmap_gradients", &[&[3, 2], &[4, 3]], |x, _| {
            let weight = x[0].clone();
            vec![vmap(|x: &Tensor| grad(|weight: &Tensor| loss(weight, x), &weight), &x[1])]
        })
        .second(),
        Case::new("vmap/softmax and its kin", "vmap_exponentials", &[&[2, 3, 4]], |x, _| {
            let (softmax, logs, sums) = vmap(|x: &Tensor| (x.softmax(0), x.log_softmax(0), x.log_sum_exp(0)), &x[0]);
            vec![softmax, logs, sums]
        })
        .second(),
        Case::new("vmap/other axes", "vmap_axes", &[&[3, 4], &[2, 3], &[4]], |x, _| {
            let inputs = (x[0].clone(), x[1].clone(), x[2].clone());
            vec![vmap_axes(|(x, w, s)| &w.matmul(&x.expand(-1)).squeeze(-1) * s, &inputs, &[Some(1), None, Some(0)])]
        })
        .second(),
        Case::new("vmap/in vmap", "vmap_twice", &[&[3, 4], &[2, 4]], |x, _| {
            let others = x[1].clone();
            vec![vmap(|x: &Tensor| vmap(|y: &Tensor| (x * y).sum_all().sin(), &others), &x[0])]
        })
        .second(),
        Case::new("vmap/of scan", "vmap_scan", &[&[2, 3], &[2, 4, 3], &[3, 3]], |x, _| {
            let weight = x[2].clone();
            let (last, all) = vmap(
                |(state, steps): &(Tensor, Tensor)| {
                    scan(state, steps, None, |state, step| {
                        let next = (&state.expand(0).matmul(&weight).squeeze(0) + step).tanh();
                        (next.clone(), next)
                    })
                },
                &(x[0].clone(), x[1].clone()),
            );
            vec![last, all]
        })
        .second(),
        Case::new("vmap/of cond", "vmap_cond", &[&[4, 3]], |x, _| {
            vec![vmap(
                |x: &Tensor| {
                    let is_positive = x.sum_all().greater(&Tensor::scalar(x.dtype(), 0.0));
                    cond(&is_positive, x, |x| x.sin(), |x| x.square())
                },
                &x[0],
            )]
        })
        .second(),
        Case::new("vmap/of while with different lengths", "vmap_while", &[&[4]], |x, _| {
            vec![vmap(|x: &Tensor| while_loop(x, |x| x.greater(&x.full_like(1.0)), |x| x * 0.5), &x[0])]
        })
        .input(0, &[13.0, 0.7, 3.0, 100.0])
        .forward_only(),
        Case::new(
            "vmap/convolution with a kernel of each example",
            "vmap_convolve",
            &[&[3, 1, 5, 2], &[3, 2, 2, 4]],
            {
                |x, _| {
                    let how = trace::Convolution::new(1);
                    vec![vmap(|(x, w): &(Tensor, Tensor)| x.convolve(w, &how), &(x[0].clone(), x[1].clone()))]
                }
            },
        )
        .second(),
        Case::new("vmap/places of each example", "vmap_take", &[&[3, 5, 2]], |x, k| {
            let inputs = (x[0].clone(), k[0].clone());
            vec![vmap(|(x, places): &(Tensor, Tensor)| x.take(0, places), &inputs)]
        })
        .fixed(DType::I32, &[3, 2], &[0.0, 4.0, 1.0, 1.0, 2.0, 3.0])
        .with(json!({}))
        .second(),
    ]
}
