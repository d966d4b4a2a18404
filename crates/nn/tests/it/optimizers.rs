//! Optimizers step by step against PyTorch's, and what goes with them against formulas.

use nn::Init;
use nn::optim::{
    Adafactor, Adam, AnyOptimizer, Ema, Lion, MomentDType, Muon, Optimizer, Schedule, Sgd, WeightDecay, accumulated,
    clipped, global_norm, updated_ema,
};
use tensor::{DType, Literal};
use trace::{Key, Tensor, Tree, value_and_grad};
use weights::SafeTensors;

use crate::harness::{apply, difference, floats, number, of_floats, off_by, peer, shape_of, with_key};

const STEPS: usize = 6;

/// A matrix that is tall, one that is wide, and a vector, as the peer has them.
#[derive(Clone, Tree)]
struct Params {
    tall: Tensor,
    wide: Tensor,
    bias: Tensor,
}

/// Parameters after all steps.
fn trained(file: &SafeTensors, optimizer: &impl Optimizer<Params>) -> Vec<Literal> {
    let read = |name: &str| (0..3).map(|n| file.read(&format!("{name}.{n}")).unwrap()).collect::<Vec<_>>();
    let mut inputs = read("start");
    (0..STEPS).for_each(|step| inputs.extend(read(&format!("grad.{step}"))));
    let params =
        |tensors: &[Tensor]| Params { tall: tensors[0].clone(), wide: tensors[1].clone(), bias: tensors[2].clone() };
    let shapes: Vec<Tensor> = inputs.iter().map(shape_of).collect();
    apply(&shapes, &inputs, |tensors| {
        let mut now = params(tensors);
        let mut state = optimizer.init(&now);
        for step in 0..STEPS {
            let grads = params(&tensors[3 + 3 * step..]);
            (now, state) = optimizer.update(&grads, &state, &now, &Tensor::scalar(DType::I32, step as f64));
        }
        now
    })
}

#[test]
fn steps_are_those_of_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folder) = peer("steps_are_those_of_pytorch", "optimizers", folder.path()) else { return };
    let file = SafeTensors::open(&folder.join("optimizers.safetensors")).unwrap();
    let at = Schedule::constant;
    let adam = Adam { beta2: 0.95, weight_decay: WeightDecay::all(0.1), ..Adam::new(at(0.05)) };
    let momentum = Sgd { momentum: 0.9, weight_decay: WeightDecay::all(0.01), ..Sgd::new(at(0.1)) };
    let nesterov = Sgd { momentum: 0.9, nesterov: true, ..Sgd::new(at(0.1)) };
    let lion = Lion { weight_decay: WeightDecay::all(0.1), ..Lion::new(at(0.02)) };
    let adafactor = Adafactor { weight_decay: WeightDecay::all(0.02), ..Adafactor::new(at(0.05)) };
    let muon = Muon { weight_decay: WeightDecay::all(0.1), ..Muon::new(at(0.05), adam.clone()) };
    let cases = [
        ("sgd", AnyOptimizer::Sgd(Sgd::new(at(0.1))), 3, 1e-6),
        ("sgd-momentum", AnyOptimizer::Sgd(momentum), 3, 1e-6),
        ("sgd-nesterov", AnyOptimizer::Sgd(nesterov), 3, 1e-6),
        ("adam", AnyOptimizer::Adam(Adam::new(at(0.05))), 3, 1e-5),
        ("adamw", AnyOptimizer::Adam(adam), 3, 1e-5),
        ("adafactor", AnyOptimizer::Adafactor(adafactor), 3, 1e-5),
        ("lion", AnyOptimizer::Lion(lion), 3, 1e-6),
        // Five iterations in bf16 on both sides, with sums in another order.
        ("muon", AnyOptimizer::Muon(muon), 2, 2e-2),
    ];
    for (name, optimizer, count, tolerance) in cases {
        let actual = trained(&file, &optimizer);
        for (n, actual) in actual.iter().enumerate().take(count) {
            let expected = file.read(&format!("{name}.{n}")).unwrap();
            let off = off_by(&floats(actual), &floats(&expected));
            assert!(off < tolerance, "{name}: parameter {n} is off by {off}");
            // The test would see an optimizer that does nothing.
            let start = file.read(&format!("start.{n}")).unwrap();
            assert!(off_by(&floats(actual), &floats(&start)) > 1e-2, "{name}: parameter {n} did not move");
        }
    }
}

#[test]
fn decay_goes_by_path_and_moments_by_type() {
    let step = Tensor::of(trace::Spec::new(DType::I32, []));
    let zero = crate::harness::of_ints(&[], &[0]);
    let moved = apply(&step, &[zero], |step| {
        let ones = Params {
            tall: Tensor::ones(DType::F32, &[2, 2]),
            wide: Tensor::ones(DType::F32, &[2, 2]),
            bias: Tensor::ones(DType::F32, &[2]),
        };
        let grads = ones.map_leaves(Tensor::zeros_like);
        let weight_decay = WeightDecay { rate: 0.5, except: vec!["wide".into(), "bias".into()] };
        let adam = Adam { weight_decay, moment_dtype: MomentDType::Bf16, ..Adam::new(Schedule::constant(0.1)) };
        let state = adam.init(&ones);
        assert!(state.leaves().iter().all(|leaf| leaf.dtype() == DType::BF16));
        let (params, state) = adam.update(&grads, &state, &ones, step);
        assert!(state.leaves().iter().all(|leaf| leaf.dtype() == DType::BF16));
        params
    });
    assert_eq!(floats(&moved[0]), [0.95; 4]);
    assert_eq!(floats(&moved[1]), [1.0; 4]);
    assert_eq!(floats(&moved[2]), [1.0; 2]);
}

#[test]
fn schedules_follow_their_shape() {
    let check = |schedule: Schedule, expected: &[(i32, f64)]| {
        for &(step, rate) in expected {
            let input = crate::harness::of_ints(&[], &[step]);
            let actual = f64::from(number(&apply(&shape_of(&input), &[input], |step| schedule.at(step))[0]));
            assert!((actual - rate).abs() < 1e-6, "{schedule:?} at {step}: {actual}, not {rate}");
        }
    };
    check(Schedule::constant(0.3), &[(0, 0.3), (1000, 0.3)]);
    let linear = Schedule::Linear { peak_value: 1.0, warmup_steps: 4, total_steps: 14, end_value: 0.5 };
    check(linear, &[(0, 0.0), (1, 0.25), (4, 1.0), (9, 0.75), (14, 0.5), (99, 0.5)]);
    let cosine = Schedule::Cosine { peak_value: 1.0, warmup_steps: 0, total_steps: 8, end_value: 0.0 };
    check(cosine, &[(0, 1.0), (4, 0.5), (8, 0.0), (9, 0.0)]);
    let root = Schedule::InverseSqrt { peak_value: 1.0, warmup_steps: 4 };
    check(root, &[(2, 0.5), (4, 1.0), (16, 0.5), (64, 0.25)]);
    let wsd = Schedule::Wsd { peak_value: 1.0, warmup_steps: 2, total_steps: 10, decay_steps: 4, end_value: 0.0 };
    check(wsd, &[(1, 0.5), (2, 1.0), (6, 1.0), (8, 0.5), (10, 0.0)]);
    // As a configuration file has it.
    let read: Schedule =
        serde_json::from_str(r#"{"kind":"cosine","peak_value":1.0,"warmup_steps":0,"total_steps":8,"end_value":0.0}"#)
            .unwrap();
    assert_eq!(read, cosine);
}

#[test]
fn configuration_files_give_numbers_or_tables() {
    let read = |text: &str| serde_json::from_str::<AnyOptimizer>(text).map_err(|error| error.to_string());
    let written = |text: &str| serde_json::to_value(read(text).unwrap()).unwrap();
    // A number is what the longer form says, whole numbers too.
    let short = r#"{"name":"adamw","learning_rate":1,"weight_decay":0.1}"#;
    let long = r#"{"name":"adamw","learning_rate":{"kind":"constant","value":1.0},"weight_decay":{"rate":0.1}}"#;
    assert_eq!(written(short), written(long));
    // All else has the defaults of the constructors.
    let rate = || Schedule::constant(0.5);
    let adam = || Adam::new(rate());
    let optimizers = [
        (r#"{"name":"sgd","learning_rate":0.5}"#, AnyOptimizer::Sgd(Sgd::new(rate()))),
        (r#"{"name":"adam","learning_rate":0.5}"#, AnyOptimizer::Adam(adam())),
        (r#"{"name":"adafactor","learning_rate":0.5}"#, AnyOptimizer::Adafactor(Adafactor::new(rate()))),
        (r#"{"name":"lion","learning_rate":0.5}"#, AnyOptimizer::Lion(Lion::new(rate()))),
        (
            r#"{"name":"muon","learning_rate":0.5,"adam":{"learning_rate":0.5}}"#,
            AnyOptimizer::Muon(Muon::new(rate(), adam())),
        ),
    ];
    for (text, expected) in optimizers {
        assert_eq!(written(text), serde_json::to_value(expected).unwrap(), "{text}");
    }
    // A key that does not exist is refused, not ignored.
    let unknown = [
        (r#"{"name":"adamw","learning_rate":1.0,"decay":0.1}"#, "unknown field `decay`"),
        (r#"{"name":"adamw","learning_rate":{"kind":"constant","rate":1.0}}"#, "unknown field `rate`"),
        (r#"{"name":"adamw","learning_rate":1.0,"weight_decay":{"ratio":1.0}}"#, "unknown field `ratio`"),
        (r#"{"name":"adamw","learning_rate":"high"}"#, "expected a number or a table"),
    ];
    for (text, expected) in unknown {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn clipping_shortens_what_is_too_long() {
    let grads = [of_floats(&[2], &[3.0, 0.0]), of_floats(&[1], &[4.0])];
    let shapes = (shape_of(&grads[0]), shape_of(&grads[1]));
    for (longest, expected) in [(10.0, [3.0, 0.0, 4.0]), (1.0, [0.6, 0.0, 0.8])] {
        let actual = apply(&shapes, &grads, |grads| {
            let norm = global_norm(grads);
            (norm.clone(), clipped(grads, &norm, longest))
        });
        assert_eq!(number(&actual[0]), 5.0);
        let values: Vec<f32> = actual[1..].iter().flat_map(floats).collect();
        assert!(off_by(&values, &expected) < 1e-6, "{values:?}");
    }
}

#[test]
fn parts_of_a_batch_have_the_gradient_of_the_whole() {
    let differences = with_key(5, |key| {
        let keys = key.split(2);
        let (w, x) = (keys[0].normal(DType::F32, &[3, 2]), keys[1].normal(DType::F32, &[8, 3]));
        let loss = |w: &Tensor, x: &Tensor, _: &Key| x.matmul(w).tanh().square().mean_all();
        let whole = value_and_grad(|w| loss(w, &x, key), &w);
        let parts = accumulated(&w, &x, key, 4, loss);
        (difference(&parts.0, &whole.0), difference(&parts.1, &whole.1))
    });
    assert!(differences.iter().all(|off| number(off) < 1e-6));
}

#[test]
fn ema_follows_parameters() {
    let inputs = [of_floats(&[], &[1.0]), of_floats(&[], &[2.0])];
    let shapes = (shape_of(&inputs[0]), shape_of(&inputs[1]));
    let actual = apply(&shapes, &inputs, |(old, new)| {
        let step = |n: f64| Tensor::scalar(DType::I32, n);
        let how = Ema { decay: 0.9 };
        (updated_ema(old, new, how, &step(0.0)), updated_ema(old, new, how, &step(100_000.0)))
    });
    assert!((number(&actual[0]) - (2.0 - 0.1)).abs() < 1e-6);
    assert!((number(&actual[1]) - 1.1).abs() < 1e-6);
}

#[test]
fn orthogonal_matrices_are() {
    for dims in [[6, 6], [4, 9], [9, 4]] {
        let off = with_key(9, |key| {
            let x = Init::Orthogonal(2.0).draw(key, DType::F32, &dims);
            let short = if dims[0] < dims[1] { x.matmul(&x.swap_axes(0, 1)) } else { x.swap_axes(0, 1).matmul(&x) };
            let size = dims[0].min(dims[1]);
            let identity = Tensor::iota(DType::I32, &[size], 0).one_hot(size, DType::F32);
            difference(&short, &(&identity * 4.0))
        });
        assert!(number(&off[0]) < 1e-4, "{dims:?}: {}", number(&off[0]));
    }
}
