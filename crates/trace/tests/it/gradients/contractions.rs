//! Cases of contractions (matmuls) and convolutions.

use serde_json::json;
use tensor::DType;
use trace::{Contraction, Convolution, Precision};

use super::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let matrices: [(&[usize], &[usize]); 7] = [
        (&[3, 4], &[4, 5]),
        (&[2, 3, 4], &[4, 5]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[2, 1, 3, 4], &[1, 5, 4, 2]),
        (&[3, 4], &[2, 4, 5]),
        (&[1, 4], &[4, 1]),
        (&[2, 3, 5, 1], &[3, 1, 4]),
    ];
    for (left, right) in matrices {
        cases.push(
            Case::new(format!("matmul/{left:?} {right:?}"), "matmul", &[left, right], |x, _| vec![x[0].matmul(&x[1])])
                .second(),
        );
    }
    let equations: [(&str, &[usize], &[usize]); 12] = [
        ("ab,bc->ac", &[3, 4], &[4, 5]),
        ("ab,bc->ca", &[3, 4], &[4, 5]),
        ("ab,cb->ac", &[3, 4], &[5, 4]),
        ("ba,bc->ac", &[4, 3], &[4, 5]),
        ("bqhd,bkhd->bhqk", &[2, 3, 2, 4], &[2, 5, 2, 4]),
        ("bhqk,bkhd->bqhd", &[2, 2, 3, 5], &[2, 5, 2, 4]),
        ("abc,bca->abc", &[2, 3, 4], &[3, 4, 2]),
        ("abc,cb->a", &[2, 3, 4], &[4, 3]),
        ("a,b->ab", &[3], &[4]),
        ("a,a->", &[3], &[3]),
        ("abx,bc->ac", &[2, 3, 4], &[3, 5]),
        ("btd,dnh->bnth", &[2, 3, 4], &[4, 2, 5]),
    ];
    for (equation, left, right) in equations {
        cases.push(
            Case::new(format!("einsum/{equation}"), "einsum", &[left, right], move |x, _| {
                vec![x[0].einsum(equation, &x[1])]
            })
            .with(json!({ "equation": equation }))
            .second(),
        );
    }
    let dots: [(&[usize], &[usize], [&[usize]; 4]); 5] = [
        (&[2, 3, 4], &[4, 3, 2], [&[], &[], &[1, 2], &[1, 0]]),
        (&[2, 3, 4], &[4, 3, 2], [&[], &[], &[2, 1], &[0, 1]]),
        (&[2, 3, 4, 5], &[5, 3, 2, 6], [&[1, 0], &[1, 2], &[3], &[0]]),
        (&[3, 2], &[2, 3], [&[], &[], &[], &[]]),
        (&[2, 3], &[3, 2], [&[0, 1], &[1, 0], &[], &[]]),
    ];
    for (left, right, [lhs_batch, rhs_batch, lhs_sum, rhs_sum]) in dots {
        let contraction = Contraction {
            lhs_batch: lhs_batch.to_vec(),
            rhs_batch: rhs_batch.to_vec(),
            lhs_sum: lhs_sum.to_vec(),
            rhs_sum: rhs_sum.to_vec(),
        };
        let name = format!("dot_general/{left:?} {right:?} {lhs_batch:?} {rhs_batch:?} {lhs_sum:?} {rhs_sum:?}");
        cases.push(
            Case::new(name, "dot_general", &[left, right], move |x, _| {
                vec![x[0].dot_general(&x[1], &contraction, x[0].dtype(), Precision::Highest)]
            })
            .with(json!({"batch": [lhs_batch, rhs_batch], "sum": [lhs_sum, rhs_sum]}))
            .second(),
        );
    }
    cases.push(
        Case::new("einsum/bf16 products summed in f32", "einsum_wide", &[&[3, 8], &[8, 4]], |x, _| {
            let narrow = |n: usize| x[n].cast(DType::BF16);
            vec![narrow(0).einsum_as("ab,bc->ac", &narrow(1), DType::F32)]
        })
        .kinked()
        .within(2e-2)
        .only(&[DType::F32]),
    );
    cases.extend(convolutions());
    cases
}

fn convolutions() -> Vec<Case> {
    let plain = Convolution::new;
    let mut list: Vec<(&str, Vec<usize>, Vec<usize>, Convolution)> = vec![
        ("1d", vec![2, 7, 3], vec![3, 3, 4], plain(1)),
        ("1d same", vec![2, 7, 3], vec![4, 3, 2], plain(1).same(&[4])),
        ("1d stride 2", vec![2, 8, 3], vec![3, 3, 4], plain(1).stride(2)),
        ("1d causal", vec![1, 6, 2], vec![3, 2, 2], plain(1).pad(2, 0)),
        ("1d depthwise", vec![2, 6, 4], vec![3, 1, 4], plain(1).groups(4)),
        ("2d", vec![2, 5, 6, 2], vec![3, 2, 2, 3], plain(2)),
        ("2d same", vec![1, 5, 4, 2], vec![3, 3, 2, 3], plain(2).same(&[3, 3])),
        ("2d stride 2 padded", vec![1, 7, 6, 2], vec![3, 3, 2, 3], plain(2).stride(2).pad(1, 1)),
        ("2d groups", vec![1, 4, 5, 4], vec![2, 3, 2, 6], plain(2).groups(2)),
        ("2d groups, stride 2", vec![2, 5, 5, 6], vec![3, 2, 2, 6], plain(2).groups(3).stride(2)),
        ("2d negative padding", vec![1, 6, 6, 1], vec![2, 2, 1, 2], plain(2).pad(-1, 1)),
        ("2d 1x1", vec![2, 3, 3, 4], vec![1, 1, 4, 2], plain(2)),
        ("3d", vec![1, 4, 3, 4, 2], vec![2, 2, 2, 2, 2], plain(3)),
        ("3d stride 2 padded", vec![1, 4, 4, 5, 1], vec![3, 2, 3, 1, 2], plain(3).stride(2).pad(1, 0)),
    ];
    let mut dilated = plain(2).pad(2, 2);
    dilated.kernel_dilation = vec![2, 1];
    list.push(("2d dilated kernel", vec![1, 6, 5, 2], vec![3, 2, 2, 2], dilated.clone()));
    dilated.strides = vec![1, 2];
    list.push(("2d dilated kernel, stride", vec![1, 6, 5, 2], vec![3, 2, 2, 2], dilated));
    let mut upward = plain(2).pad(2, 1);
    upward.input_dilation = vec![2, 3];
    list.push(("2d dilated input", vec![1, 4, 3, 2], vec![3, 3, 2, 2], upward.clone()));
    upward.groups = 2;
    upward.kernel_dilation = vec![2, 1];
    list.push(("2d all at once", vec![2, 4, 3, 4], vec![2, 3, 2, 4], upward));
    list.into_iter()
        .map(|(name, input, kernel, how)| {
            let settings = json!({
                "strides": how.strides,
                "padding": how.padding.iter().map(|&(low, high)| vec![low, high]).collect::<Vec<_>>(),
                "input_dilation": how.input_dilation,
                "kernel_dilation": how.kernel_dilation,
                "groups": how.groups,
            });
            let case = Case::new(format!("convolve/{name}"), "convolve", &[&input, &kernel], move |x, _| {
                vec![x[0].convolve(&x[1], &how)]
            });
            // The second derivative of a convolution in groups goes through groups of the batch.
            let case = case.with(settings).second();
            // Differences alone: XLA's CPU device reads past the kernel's cotangent here and gives other numbers each time.
            if name == "2d negative padding" { case.only(&[]) } else { case }
        })
        .collect()
}
