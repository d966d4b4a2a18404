//! Layers against formulas, against each other, and recurrent ones against PyTorch.

use nn::layers::{
    Activation, BatchNorm, Bias, Conv1d, Conv2d, Conv3d, Dispatch, Embedding, EmbeddingLookup, ExpertSizes, GroupNorm,
    Gru, LayerNorm, Linear, Lstm, LstmState, MixtureOfExperts, RmsNorm, average_pool, dropout, global_average_pool,
    max_pool,
};
use nn::{Fused, Init};
use tensor::DType;
use trace::{Convolution, Tensor, Tree, vjp};
use weights::SafeTensors;

use crate::harness::{apply, difference, floats, number, of_floats, off_by, peer, shape_of, with_key};

const SIZES: ExpertSizes = ExpertSizes { width: 6, inner: 10, experts: 4, chosen: 2 };

#[test]
fn experts_are_a_weighted_sum_of_the_best() {
    let results = with_key(2, |key| {
        let keys = key.split(2);
        let moe = MixtureOfExperts::init(&keys[0], SIZES, Activation::Silu, Dispatch::Dense, Init::Normal(0.5));
        let x = keys[1].normal(DType::F32, &[9, 6]);
        let out = moe.apply(&x).0;
        (moe.router.weight, moe.gate, moe.up, moe.down, x, out)
    });
    let [router, gate, up, down, x, out] = [0, 1, 2, 3, 4, 5].map(|n| floats(&results[n]));
    let matmul = |x: &[f32], w: &[f32], columns: usize| -> Vec<f32> {
        (0..columns).map(|c| x.iter().enumerate().map(|(r, x)| x * w[r * columns + c]).sum()).collect()
    };
    let mut expected = Vec::new();
    for x in x.chunks(6) {
        let scores: Vec<f32> = matmul(x, &router, 4).iter().map(|s| s.exp()).collect();
        let mut order: Vec<usize> = (0..4).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let total: f32 = order[..2].iter().map(|&e| scores[e]).sum();
        let mut sum = vec![0.0; 6];
        for &e in &order[..2] {
            let gated = matmul(x, &gate[e * 60..][..60], 10);
            let inner: Vec<f32> =
                gated.iter().zip(matmul(x, &up[e * 60..][..60], 10)).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            for (sum, y) in sum.iter_mut().zip(matmul(&inner, &down[e * 60..][..60], 6)) {
                *sum += scores[e] / total * y;
            }
        }
        expected.extend(sum);
    }
    assert!(off_by(&out, &expected) < 1e-5);
}

/// What experts give when positions reach them so, and the cotangents of their weights and of `x`.
fn with_gradients(
    moe: &MixtureOfExperts,
    x: &Tensor,
    ct: &(Tensor, Tensor),
    dispatch: Dispatch,
) -> (Tensor, (MixtureOfExperts, Tensor)) {
    let inputs = (moe.clone(), x.clone());
    let (out, pull) =
        vjp(|(moe, x): &(MixtureOfExperts, Tensor)| MixtureOfExperts { dispatch, ..moe.clone() }.apply(x), &inputs);
    (out.0, pull(ct))
}

#[test]
fn experts_with_room_for_all_are_exact() {
    let results = with_key(2, |key| {
        let keys = key.split(3);
        let moe = MixtureOfExperts::init(&keys[0], SIZES, Activation::Silu, Dispatch::Dense, Init::Normal(0.5));
        let x = keys[1].normal(DType::F32, &[3, 4, 6]);
        let ct = (keys[2].normal(DType::F32, &[3, 4, 6]), Tensor::ones(DType::F32, &[]));
        let of = |dispatch: Dispatch| with_gradients(&moe, &x, &ct, dispatch);
        let (dense, dense_grads) = of(Dispatch::Dense);
        let (roomy, roomy_grads) = of(Dispatch::Capacity(4.0));
        let (tight, _) = of(Dispatch::Capacity(0.5));
        let grads: Vec<Tensor> = dense_grads
            .leaves()
            .iter()
            .zip(roomy_grads.leaves())
            .map(|(dense, roomy)| difference(&roomy, dense))
            .collect();
        (difference(&tight, &dense), difference(&roomy, &dense), grads)
    });
    assert!(number(&results[0]) > 1e-2, "half the room leaves something out");
    assert_eq!(results.len(), 2 + 5);
    assert!(results[1..].iter().all(|off| number(off) < 1e-4));
}

/// Sorting by expert gives what all experts everywhere give, forward and backward, however the router chooses.
#[test]
fn grouped_experts_are_exact() {
    for (seed, positions, skew) in [(2, 12, 0.0), (3, 65, 0.0), (4, 300, 0.0), (5, 40, 100.0)] {
        let results = with_key(seed, |key| {
            let keys = key.split(3);
            let moe = MixtureOfExperts::init(&keys[0], SIZES, Activation::Silu, Dispatch::Dense, Init::Normal(0.5));
            let x = keys[1].normal(DType::F32, &[positions, 6]);
            // Positions with a first feature of 1 all choose expert 2 first and never expert 0.
            let first = Tensor::iota(DType::F32, &[6], 0).equals(&Tensor::zeros(DType::F32, &[]));
            let x = if skew == 0.0 { x } else { first.select(&Tensor::ones(DType::F32, &[]), &x) };
            let lean = Tensor::from_f32s(&[1, 4], &[-1.0, 0.0, 1.0, 0.0]).pad(0, 0, 5) * skew;
            let router = Linear { weight: (&moe.router.weight.dense(DType::F32) + &lean).into(), bias: None };
            let moe = MixtureOfExperts { router, ..moe };
            let ct = (keys[2].normal(DType::F32, &[positions, 6]), Tensor::ones(DType::F32, &[]));
            let of = |dispatch: Dispatch| with_gradients(&moe, &x, &ct, dispatch);
            let (dense, dense_grads) = of(Dispatch::Dense);
            let (grouped, grouped_grads) = of(Dispatch::Grouped);
            let pairs = dense_grads.leaves().into_iter().zip(grouped_grads.leaves());
            let grads: Vec<Tensor> = pairs.map(|(dense, grouped)| difference(&grouped, &dense)).collect();
            let unused = moe.apply_with_usage(&x).1.chosen.min(&[0]);
            (unused, dense.abs().max(&[0, 1]), difference(&grouped, &dense), grads)
        });
        assert_eq!(number(&results[0]) == 0.0, skew > 0.0, "an expert without rows");
        assert!(number(&results[1]) > 0.1);
        assert_eq!(results.len(), 3 + 5);
        let off: Vec<f32> = results[2..].iter().map(number).collect();
        assert!(off.iter().all(|off| *off < 1e-4), "{positions} positions: {off:?}");
    }
}

#[test]
fn recurrent_layers_are_those_of_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folder) = peer("recurrent_layers_are_those_of_pytorch", "recurrent", folder.path()) else { return };
    let file = SafeTensors::open(&folder.join("recurrent.safetensors")).unwrap();
    for kind in ["lstm", "gru"] {
        let names = ["input.weight", "input.bias", "recurrent.weight", "recurrent.bias"];
        let mut inputs: Vec<_> = names.iter().map(|name| file.read(&format!("{kind}.{name}")).unwrap()).collect();
        inputs.push(file.read("x").unwrap());
        let shapes: Vec<Tensor> = inputs.iter().map(shape_of).collect();
        let actual = apply(&shapes, &inputs, |given| {
            let linear = |n: usize| Linear { weight: given[n].clone().into(), bias: Some(given[n + 1].clone()) };
            let zeros = Tensor::zeros(DType::F32, &[3, 6]);
            if kind == "lstm" {
                let state = LstmState { hidden: zeros.clone(), cell: zeros };
                Lstm { input: linear(0), recurrent: linear(2) }.apply(&given[4], &state).0
            } else {
                Gru { input: linear(0), recurrent: linear(2) }.apply(&given[4], &zeros).0
            }
        });
        let expected = file.read(&format!("{kind}.out")).unwrap();
        assert!(off_by(&floats(&actual[0]), &floats(&expected)) < 1e-5, "{kind}");
    }
}

#[test]
fn norms_have_mean_0_and_deviation_1() {
    let results = with_key(4, |key| {
        let x = &(&key.normal(DType::F32, &[5, 3, 8]) * 3.0) + 7.0;
        let moments = |y: &Tensor, axes: &[usize]| {
            let mean = y.mean(axes);
            let worst = |t: Tensor| t.abs().max(&(0..t.rank()).collect::<Vec<_>>());
            (worst(mean), worst(&y.square().mean(axes) - 1.0))
        };
        let grouped = GroupNorm::init(8, 2, 0.0).apply(&x).reshape(&[5, 3, 2, 4]);
        let (norm, seen) = BatchNorm::init(8);
        let (batch, seen) = BatchNorm { epsilon: 0.0, ..norm.clone() }.train(&x, &seen);
        let at_inference = norm.apply(&x, &seen);
        (
            moments(&LayerNorm::init(8, 0.0).apply(&x), &[2]),
            moments(&grouped, &[1, 3]),
            moments(&batch, &[0, 1]),
            (difference(&seen.mean, &(&x.mean(&[0, 1]) * 0.1)), at_inference.mean_all()),
        )
    });
    assert!(results[..7].iter().all(|off| number(off) < 1e-4), "{:?}", results.iter().map(number).collect::<Vec<_>>());
    assert!(number(&results[7]) > 1.0, "running statistics have hardly moved");
}

#[test]
fn convolutions_and_pools() {
    let image = of_floats(&[1, 3, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let actual = apply(&shape_of(&image), &[image], |x| {
        let ones = |dims: &[usize]| Tensor::ones(DType::F32, dims);
        let two = Conv2d { kernel: ones(&[2, 2, 1, 1]), bias: Some(ones(&[1])), how: Convolution::new(2) };
        let row = x.reshape(&[1, 9, 1]);
        let one = Conv1d { kernel: ones(&[3, 1, 1]), bias: None, how: Convolution::new(1).stride(3) };
        let three = Conv3d { kernel: ones(&[1, 3, 3, 1, 1]), bias: None, how: Convolution::new(3) };
        (
            two.apply(x),
            one.apply(&row),
            three.apply(&x.reshape(&[1, 1, 3, 3, 1])),
            (
                max_pool(x, &[2, 2], &[1, 1], &[(0, 0), (0, 0)]),
                average_pool(x, &[2, 2], &[2, 2], &[(0, 1), (0, 1)]),
                global_average_pool(x),
            ),
        )
    });
    let actual: Vec<Vec<f32>> = actual.iter().map(floats).collect();
    assert_eq!(actual[0], [13.0, 17.0, 25.0, 29.0]);
    assert_eq!(actual[1], [6.0, 15.0, 24.0]);
    assert_eq!(actual[2], [45.0]);
    assert_eq!(actual[3], [5.0, 6.0, 8.0, 9.0]);
    assert_eq!(actual[4], [3.0, 4.5, 7.5, 9.0]);
    assert_eq!(actual[5], [5.0]);
}

#[test]
fn dropout_keeps_the_mean() {
    let results = with_key(6, |key| {
        let x = Tensor::ones(DType::F32, &[100, 100]);
        let dropped = dropout(&x, 0.25, Some(key));
        let zeros = dropped.equals(&x.zeros_like()).cast(DType::F32).mean_all();
        (dropped.mean_all(), zeros, difference(&dropout(&x, 0.25, None), &x))
    });
    assert!((number(&results[0]) - 1.0).abs() < 0.03);
    assert!((number(&results[1]) - 0.25).abs() < 0.02);
    assert_eq!(number(&results[2]), 0.0);
}

#[test]
fn narrow_matmuls_are_summed_wide() {
    // In bf16 a sum of ones would stay at 256.
    let results = with_key(0, |key| {
        let layer = Linear::init(key, 4096, 1, Bias::None, Init::Ones);
        layer.apply(&Tensor::ones(DType::BF16, &[1, 4096])).cast(DType::F32)
    });
    assert_eq!(number(&results[0]), 4096.0);
}

#[test]
fn a_fused_norm_is_the_norm() {
    let differences = with_key(5, |key| {
        let keys = key.split(3);
        let x = &keys[0].normal(DType::F32, &[2, 5, 8]) * 3.0;
        let weight = keys[1].normal(DType::F32, &[8]);
        let ct = keys[2].normal(DType::F32, &[2, 5, 8]);
        let of = |fused: Fused| {
            let of = |(x, weight): &(Tensor, Tensor)| {
                let norm = RmsNorm { weight: weight.clone(), ..RmsNorm::init(8, 1e-5) }.with_fused(fused);
                (&norm.apply(x) * &ct).sum_all()
            };
            trace::value_and_grad(of, &(x.clone(), weight.clone()))
        };
        let (plain, fused) = (of(Fused::Off), of(Fused::On));
        [difference(&fused.0, &plain.0), difference(&fused.1.0, &plain.1.0), difference(&fused.1.1, &plain.1.1)]
    });
    assert!(
        differences.iter().all(|off| number(off) < 1e-5),
        "{:?}",
        differences.iter().map(number).collect::<Vec<_>>()
    );
}

#[test]
fn a_look_up_on_sparse_cores_is_a_gather() {
    let differences = with_key(6, |key| {
        let keys = key.split(3);
        let table = keys[0].normal(DType::F32, &[7, 8]);
        // Some beyond either end of the table.
        let ids = (&keys[1].normal(DType::F32, &[3, 5]) * 6.0).cast(DType::I32);
        let ct = keys[2].normal(DType::F32, &[3, 5, 8]);
        let of = |lookup: EmbeddingLookup| {
            let of = |table: &Tensor| {
                let embedding = Embedding { weight: table.clone().into() };
                (&embedding.apply_with(&ids, DType::F32, lookup) * &ct).sum_all()
            };
            trace::value_and_grad(of, &table)
        };
        let (plain, other) = (of(EmbeddingLookup::Gather), of(EmbeddingLookup::SparseCores));
        [difference(&other.0, &plain.0), difference(&other.1, &plain.1)]
    });
    assert!(differences.iter().all(|off| number(off) == 0.0));
}
