//! Functions for a batch against a loop over its examples: values, gradients of batches, batches of gradients.

use tensor::{DType, Literal};
use trace::{Tensor, vjp, vmap, vmap_axes};

use crate::gradients::{Case, cases};
use crate::run::{Device, literal, numbers};

/// Examples of a batch.
const SIZE: usize = 3;

/// A batch: the given values in the first example, values like them in the others.
fn batch_of(given: &Literal) -> Literal {
    let values = numbers(given);
    let (dtype, count) = (given.dtype(), values.len());
    let mut all = Vec::new();
    for example in 0..SIZE {
        for at in 0..count {
            all.push(match dtype {
                // Nearer to zero: inside of where the function is defined.
                _ if dtype.is_float() => values[at] * (1.0 - 0.05 * example as f64),
                DType::Bool if count == 1 => (values[0] + example as f64) % 2.0,
                _ if count == 1 => values[0] + example as f64,
                // The same places in another order.
                _ => values[(at + example) % count],
            });
        }
    }
    let dims: Vec<usize> = std::iter::once(SIZE).chain(given.dims().iter().copied()).collect();
    literal(dtype, &dims, &all)
}

/// Which inputs are batched, in every way worth trying.
fn variants(case: &Case) -> Vec<Vec<bool>> {
    let (inputs, fixed) = (case.inputs.len(), case.fixed.len());
    let all = inputs + fixed;
    let mut variants = vec![vec![true; all]];
    if all > 1 {
        variants.extend((0..all).map(|n| (0..all).map(|other| other == n).collect::<Vec<bool>>()));
    }
    if fixed > 0 && inputs > 1 {
        variants.push((0..all).map(|n| n < inputs).collect());
    }
    variants
}

/// How far two lists of numbers are apart, relative to the largest.
fn distance(have: &[f64], want: &[f64]) -> f64 {
    let scale = want.iter().fold(1.0f64, |scale, x| scale.max(x.abs()));
    let apart = |(a, b): (&f64, &f64)| if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() / scale };
    if have.len() != want.len() {
        return f64::INFINITY;
    }
    have.iter()
        .zip(want)
        .map(apart)
        .fold(0.0, |worst, apart| if apart.is_nan() { f64::INFINITY } else { worst.max(apart) })
}

/// What is computed for the batch, then the same by a loop.
fn both_ways(case: &Case, is_batched: &[bool], args: &[Tensor]) -> Vec<Tensor> {
    let axes: Vec<Option<isize>> = is_batched.iter().map(|&is_batched| is_batched.then_some(0)).collect();
    let all = args.to_vec();
    let inputs = case.inputs.len();
    let example = |n: usize| -> Vec<Tensor> {
        all.iter().zip(is_batched).map(|(x, &is_batched)| if is_batched { x.at(0, n) } else { x.clone() }).collect()
    };
    let stacked = |lists: Vec<Vec<Tensor>>| -> Vec<Tensor> {
        (0..lists[0].len())
            .map(|n| Tensor::stack(&lists.iter().map(|list| list[n].clone()).collect::<Vec<_>>(), 0))
            .collect()
    };
    let mut batched = vmap_axes(|all: &Vec<Tensor>| case.call(all), &all, &axes);
    let mut looped = stacked((0..SIZE).map(|n| case.call(&example(n))).collect());
    if !case.has_cotangents {
        return batched.into_iter().chain(looped).collect();
    }
    // The cotangents are the values: some numbers of the right shape.
    let pulled = |all: &Vec<Tensor>| {
        let (xs, ks) = (all[..inputs].to_vec(), all[inputs..].to_vec());
        let (out, pull) = vjp(|xs: &Vec<Tensor>| (case.function)(xs, &ks), &xs);
        pull(&out.iter().map(Tensor::stop_gradient).collect())
    };
    let each: Vec<Vec<Tensor>> = (0..SIZE).map(|n| pulled(&example(n))).collect();
    batched.extend(vmap_axes(pulled, &all, &axes));
    looped.extend(stacked(each.clone()));
    let (xs, ks) = (all[..inputs].to_vec(), all[inputs..].to_vec());
    let whole = |xs: &Vec<Tensor>| {
        let all: Vec<Tensor> = xs.iter().chain(&ks).cloned().collect();
        vmap_axes(|all: &Vec<Tensor>| case.call(all), &all, &axes)
    };
    let (out, pull) = vjp(whole, &xs);
    batched.extend(pull(&out));
    let sums = stacked(each).into_iter().enumerate();
    looped.extend(sums.map(|(n, grads)| if is_batched[n] { grads } else { grads.sum(&[0]) }));
    batched.into_iter().chain(looped).collect()
}

#[test]
fn a_batch_is_a_loop_over_its_examples() {
    let device = Device::new();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in cases() {
        let given: Vec<Literal> =
            case.inputs.iter().map(|input| input.literal(DType::F32)).chain(case.fixed.iter().cloned()).collect();
        for is_batched in variants(&case) {
            let inputs: Vec<Literal> = given
                .iter()
                .zip(&is_batched)
                .map(|(value, &is_batched)| if is_batched { batch_of(value) } else { value.clone() })
                .collect();
            let name = format!("{} with {is_batched:?}", case.name);
            match device.try_run(&inputs, |args| both_ways(&case, &is_batched, args)) {
                Err(error) => wrong.push(format!("{name}: {error}")),
                Ok(results) => {
                    let (batched, looped) = results.split_at(results.len() / 2);
                    for (n, (have, want)) in batched.iter().zip(looped).enumerate() {
                        let (have, want) = (numbers(have), numbers(want));
                        let apart = distance(&have, &want);
                        if apart > case.tolerance {
                            wrong.push(format!("{name}: result {n} is {apart:.1e} off: {have:?} and not {want:?}"));
                        }
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} results are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1000, "{compared}");
}

#[test]
fn a_pad_value_of_each_example_is_its_own() {
    let device = Device::new();
    let results = device.run(&[literal(DType::F32, &[2], &[5.0, 7.0])], |x| {
        vec![vmap(|value: &Tensor| Tensor::zeros(DType::F32, &[1]).pad_all(value, &[1], &[0], &[0]), &x[0])]
    });
    assert_eq!(numbers(&results[0]), [5.0, 0.0, 7.0, 0.0]);
}
