//! Training in few bits: products of fp8 and int8 against their definition, histories, straight-through gradients, and losses.

use nn::layers::{Bias, Linear};
use nn::models::{Gpt2, LanguageModel, Llama, RunOptions, TokenBatch};
use nn::optim::{Adam, Schedule};
use nn::quant::{
    AdapterParts, AmaxHistory, BackwardMatmuls, Granularity, InputAxis, LoraConfig, MatmulOptions, QuantScheme,
    QuantizedTensor, Scaling, TrainingParts, Weight, amax_history, in_training, init_adapters, merged, nearest_codes,
};
use nn::{CrossEntropy, DTypePolicy, Init, StepOptions, TrainState, train_step_with};
use tensor::{DType, Literal, decode_float, encode_float};
use trace::{Donate, Key, Spec, Tensor, Tree, value_and_grad};

use crate::harness::{apply, floats, number, of_floats, of_ints, off_by, prepared, run};
use crate::training::{gpt2, llama};

fn options(precision: DTypePolicy, matmul: MatmulOptions) -> RunOptions {
    RunOptions { precision, matmul, ..RunOptions::default() }
}

/// Numbers of very different sizes.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / ((1u64 << 24) as f32) - 0.5
    };
    (0..count).map(|_| next() * (8.0 * next()).exp2()).collect()
}

const ROWS: usize = 6;
const INPUTS: usize = 16;
const OUTPUTS: usize = 8;

/// A value as a type of few bits has it, for a scale.
fn rounded(value: f32, scale: f32, dtype: DType) -> f32 {
    let scaled = value * (1.0 / scale);
    let code = match dtype {
        DType::I8 => f64::from(scaled.clamp(-127.0, 127.0).round_ties_even()),
        _ => {
            let most = if dtype == DType::F8E5M2 { 57_344.0 } else { 448.0 };
            decode_float(dtype, encode_float(dtype, f64::from(scaled).clamp(-most, most)).unwrap()).unwrap()
        }
    };
    (code * f64::from(scale)) as f32
}

/// A matrix `[rows, columns]` in few bits, with a scale for all of it, or for what is summed: each row, or each column.
fn quantized(values: &[f32], columns: usize, dtype: DType, shared: Shared) -> Vec<f32> {
    let most = match dtype {
        DType::I8 => 127.0,
        DType::F8E5M2 => 57_344.0,
        _ => 448.0,
    };
    let group = |n: usize| match shared {
        Shared::All => 0,
        Shared::Row => n / columns,
        Shared::Column => n % columns,
    };
    let mut largest = vec![0f32; values.len()];
    values.iter().enumerate().for_each(|(n, value)| largest[group(n)] = largest[group(n)].max(value.abs()));
    let scale = |n: usize| largest[group(n)] * (1.0 / most) as f32;
    values.iter().enumerate().map(|(n, value)| rounded(*value, scale(n), dtype)).collect()
}

#[derive(Clone, Copy)]
enum Shared {
    All,
    Row,
    Column,
}

fn matmul(left: &[f32], right: &[f32], inner: usize) -> Vec<f32> {
    let columns = right.len() / inner;
    let row = |row: &[f32]| {
        (0..columns)
            .map(|c| {
                row.iter().enumerate().map(|(k, x)| f64::from(*x) * f64::from(right[k * columns + c])).sum::<f64>()
            })
            .map(|sum| sum as f32)
            .collect::<Vec<f32>>()
    };
    left.chunks(inner).flat_map(row).collect()
}

fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns;
    (0..values.len()).map(|n| values[(n % rows) * columns + n / rows]).collect()
}

/// The product of a layer, and the gradients of its input and weight for a given gradient of the result.
fn layer(options: &RunOptions, x: &[f32], weight: &[f32], ct: &[f32]) -> [Vec<f32>; 3] {
    let literals =
        [of_floats(&[ROWS, INPUTS], x), of_floats(&[INPUTS, OUTPUTS], weight), of_floats(&[ROWS, OUTPUTS], ct)];
    let shapes = literals.each_ref().map(|literal| Tensor::of(Spec::new(DType::F32, literal.dims())));
    let results = apply(&shapes, &literals, |[x, weight, ct]| {
        let of = |x: &Tensor, weight: &Tensor| {
            let linear = Linear { weight: weight.clone().into(), bias: None };
            in_training(&linear, &options.training(), TrainingParts::default()).apply(x)
        };
        let (_, grads) =
            value_and_grad(|(x, w): &(Tensor, Tensor)| (of(x, w) * ct).sum_all(), &(x.clone(), weight.clone()));
        (of(x, weight), grads.0, grads.1)
    });
    [0, 1, 2].map(|n| floats(&results[n]))
}

#[test]
fn products_in_few_bits_are_those_of_rounded_operands() {
    let (x, w, ct) = (numbers(ROWS * INPUTS, 1), numbers(INPUTS * OUTPUTS, 2), numbers(ROWS * OUTPUTS, 3));
    let (e4m3, e5m2) = (DType::F8E4M3FN, DType::F8E5M2);
    let cases = [
        (DTypePolicy::Fp8, Granularity::Tensor, (e4m3, e5m2)),
        (DTypePolicy::Fp8, Granularity::Channel, (e4m3, e5m2)),
        (DTypePolicy::Int8, Granularity::Tensor, (DType::I8, DType::I8)),
        (DTypePolicy::Int8, Granularity::Channel, (DType::I8, DType::I8)),
    ];
    for (precision, granularity, (forward, backward)) in cases {
        let matmul_options = MatmulOptions {
            granularity: Some(granularity),
            backward: Some(BackwardMatmuls::Quantized),
            ..MatmulOptions::default()
        };
        let [y, dx, dw] = layer(&options(precision, matmul_options), &x, &w, &ct);
        // What is summed along its last axis shares a scale by rows, along its first by columns.
        let of = |values: &[f32], columns: usize, dtype: DType, along: Shared| {
            quantized(values, columns, dtype, if granularity == Granularity::Tensor { Shared::All } else { along })
        };
        let expected = matmul(&of(&x, INPUTS, forward, Shared::Row), &of(&w, OUTPUTS, forward, Shared::Column), INPUTS);
        let name = format!("{precision} {granularity:?}");
        assert!(off_by(&y, &expected) < 1e-5, "{name}: {y:?} {expected:?}");
        let weight = transposed(&of(&w, OUTPUTS, forward, Shared::Row), OUTPUTS);
        let expected = matmul(&of(&ct, OUTPUTS, backward, Shared::Row), &weight, OUTPUTS);
        assert!(off_by(&dx, &expected) < 1e-5, "{name}: {dx:?} {expected:?}");
        let input = transposed(&of(&x, INPUTS, forward, Shared::Column), INPUTS);
        let expected = matmul(&input, &of(&ct, OUTPUTS, backward, Shared::Column), ROWS);
        assert!(off_by(&dw, &expected) < 1e-5, "{name}: {dw:?} {expected:?}");
        // It is not the exact product.
        assert!(off_by(&y, &matmul(&x, &w, INPUTS)) > 1e-4, "{name}");
    }
    // The backward pass of int8 is exact unless it is asked for.
    let [_, dx, _] = layer(&options(DTypePolicy::Int8, MatmulOptions::default()), &x, &w, &ct);
    assert!(off_by(&dx, &matmul(&ct, &transposed(&w, OUTPUTS), OUTPUTS)) < 1e-5);
    // A fixed range clips what is above it.
    let fixed = MatmulOptions { scaling: Some(Scaling::Fixed(0.25)), ..MatmulOptions::default() };
    let [y, ..] = layer(&options(DTypePolicy::Fp8, fixed), &x, &w, &ct);
    let clipped =
        |values: &[f32]| values.iter().map(|v| rounded(v.clamp(-0.25, 0.25), 0.25 / 448.0, e4m3)).collect::<Vec<_>>();
    assert!(off_by(&y, &matmul(&clipped(&x), &clipped(&w), INPUTS)) < 1e-5);
}

#[test]
fn a_history_is_overwritten_with_its_gradient() {
    let delayed = MatmulOptions { scaling: Some(Scaling::Delayed), amax_history: Some(3), ..MatmulOptions::default() };
    let options = RunOptions { precision: DTypePolicy::Fp8, matmul: delayed, ..RunOptions::default() };
    let (x, w, ct) = (numbers(ROWS * INPUTS, 1), numbers(INPUTS * OUTPUTS, 2), numbers(ROWS * OUTPUTS, 3));
    let largest = |values: &[f32]| values.iter().fold(0f32, |most, value| most.max(value.abs()));
    // The last step but one knew larger numbers.
    let before = [[1.0, 8.0, 2.0], [0.5, 4.0, 0.0], [16.0, 1.0, 1.0]];
    let literals = [
        of_floats(&[ROWS, INPUTS], &x),
        of_floats(&[INPUTS, OUTPUTS], &w),
        of_floats(&[ROWS, OUTPUTS], &ct),
        of_floats(&[3, 3], before.as_flattened()),
    ];
    let shapes = literals.each_ref().map(|literal| Tensor::of(Spec::new(DType::F32, literal.dims())));
    let results = apply(&shapes, &literals, |[x, weight, ct, history]| {
        let linear = Linear { weight: weight.clone().into(), bias: None };
        assert_eq!(amax_history(&linear, &options.training()).unwrap()["weight"].dims(), [3, 3]);
        let of = |history: &Tensor| {
            let history = AmaxHistory::from([("weight".to_string(), history.clone())]);
            let parts = TrainingParts { history: Some(&history), adapters: None };
            in_training(&linear, &options.training(), parts).apply(x)
        };
        let (_, next) = value_and_grad(|history: &Tensor| (of(history) * ct).sum_all(), history);
        (of(history), next)
    });
    let by = |values: &[f32], most: f32| {
        values.iter().map(|v| rounded(*v, most / 448.0, DType::F8E4M3FN)).collect::<Vec<_>>()
    };
    assert!(off_by(&floats(&results[0]), &matmul(&by(&x, 8.0), &by(&w, 4.0), INPUTS)) < 1e-5);
    let next = floats(&results[1]);
    let expected = [[largest(&x), 1.0, 8.0], [largest(&w), 0.5, 4.0], [largest(&ct), 16.0, 1.0]];
    assert!(off_by(&next, expected.as_flattened()) < 1e-6, "{next:?}");
}

/// Losses of steps on the same batch.
fn losses<M: LanguageModel>(init: impl Fn(&Key) -> M, steps: usize) -> (String, Vec<f32>) {
    let optimizer = Adam::new(Schedule::constant(3e-3));
    let step_options = StepOptions::default();
    let seed = Tensor::of(Spec::new(DType::U32, []));
    let (start, state) = trace::trace("init", &seed, Donate::Nothing, |seed| {
        let key = Key::from_seed(seed);
        let model = init(&key);
        let carried = Carried { overwrite_with_gradient: amax_history(&model, &model.options().training()) };
        TrainState::init_with(model, carried, &optimizer, &step_options, &key)
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let batch = TokenBatch::shape(4, 16);
    let (step, _) = trace::trace("step", &(state.clone(), batch), Donate::Nothing, |(state, batch)| {
        train_step_with(state, batch, &optimizer, &step_options, |model: &M, carried: &Carried, batch, key| {
            let history = carried.overwrite_with_gradient.as_ref();
            let parts = TrainingParts { history, adapters: None };
            let trained = in_training(model, &model.options().training(), parts);
            (trained.loss(batch, &CrossEntropy::default(), Some(key)), carried.clone())
        })
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let count = state.specs().len();
    let mut leaves = run(&start, &[Literal::from(7u32)]);
    let step_of = prepared(&step);
    let tokens: Vec<i32> = (0..64).map(|n| (n * n + n / 3) % 31).collect();
    let targets: Vec<i32> = tokens.iter().map(|token| (token * 3 + 1) % 32).collect();
    let batch = [of_ints(&[4, 16], &tokens), of_ints(&[4, 16], &targets)];
    let mut losses = Vec::new();
    for _ in 0..steps {
        let results = step_of(&[leaves, batch.to_vec()].concat());
        losses.push(number(&results[count]));
        leaves = results[..count].to_vec();
    }
    (hlo::text::print(&step.module), losses)
}

#[derive(Clone, Tree)]
struct Carried {
    overwrite_with_gradient: Option<AmaxHistory>,
}

#[test]
fn small_models_learn_in_few_bits_as_in_bf16() {
    let delayed = MatmulOptions { scaling: Some(Scaling::Delayed), amax_history: Some(8), ..MatmulOptions::default() };
    let all = MatmulOptions { backward: Some(BackwardMatmuls::Quantized), ..MatmulOptions::default() };
    let qat = |scheme: &str| RunOptions {
        precision: DTypePolicy::Mixed,
        qat: Some(scheme.parse::<QuantScheme>().unwrap()),
        ..RunOptions::default()
    };
    let (_, exact) = losses(|key| Gpt2::init(key, &gpt2(), &options(DTypePolicy::Mixed, MatmulOptions::default())), 12);
    let cases = [
        (options(DTypePolicy::Fp8, MatmulOptions::default()), vec!["f8E4M3FN", "f8E5M2"], 0.02),
        (options(DTypePolicy::Fp8, delayed), vec!["f8E4M3FN", "f8E5M2"], 0.05),
        (options(DTypePolicy::Int8, all), vec!["xi8>"], 0.02),
        (qat("w4a16-g16"), vec!["xi4>"], 0.1),
        (qat("w8a8"), vec!["xi8>"], 0.02),
    ];
    for (options, types, bound) in cases {
        let name = serde_json::to_string(&options).unwrap();
        let (text, found) = losses(|key| Gpt2::init(key, &gpt2(), &options), 12);
        for dtype in types {
            assert!(text.contains(dtype), "{name} has no {dtype}");
        }
        let (last, exact) = (found[11], exact[11]);
        assert!(found[0] > 3.0 && last < 0.8 * found[0], "{name}: {found:?}");
        assert!((last / exact - 1.0).abs() < bound, "{name}: {last} beside {exact}");
    }
    // Of other families too, through gates and grouped heads.
    let (text, found) = losses(|key| Llama::init(key, &llama(None), &options(DTypePolicy::Fp8, delayed)), 4);
    assert!(text.contains("f8E5M2") && found[3] < found[0], "{found:?}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |options: RunOptions, words: &str| {
        let message = options.check().unwrap_err();
        assert!(message.contains(words), "{message}");
    };
    let matmul = |text: &str| serde_json::from_str::<MatmulOptions>(text).unwrap();
    refused(
        options(DTypePolicy::Mixed, matmul(r#"{"scaling": "current"}"#)),
        "is for run.precision = \"fp8\" or \"int8\"",
    );
    refused(options(DTypePolicy::Int8, matmul(r#"{"scaling": "delayed"}"#)), "int8 needs \"current\"");
    let both = matmul(r#"{"scaling": "delayed", "granularity": "channel"}"#);
    refused(options(DTypePolicy::Fp8, both), "granularity = \"tensor\"");
    refused(options(DTypePolicy::Fp8, matmul(r#"{"scaling": {"fixed": -1.0}}"#)), "must be a positive number");
    refused(options(DTypePolicy::Fp8, matmul(r#"{"amax_history": 4}"#)), "scaling = \"delayed\"");
    refused(options(DTypePolicy::Fp8, matmul(r#"{"scaling": "delayed", "amax_history": 0}"#)), "must be 1 to");
    let qat =
        |scheme: &str, precision| RunOptions { precision, qat: Some(scheme.parse().unwrap()), ..RunOptions::default() };
    refused(qat("w4a16", DTypePolicy::Fp8), "precision = \"mixed\" with run.qat");
    refused(qat("w4a16-g64-zp", DTypePolicy::Mixed), "without zero points");
    refused(qat("w8a8-static", DTypePolicy::Mixed), "not before it");
    assert!(
        serde_json::from_str::<MatmulOptions>(r#"{"scaling": "late"}"#).unwrap_err().to_string().contains("`delayed`")
    );
    // A history that nobody keeps.
    let delayed = options(DTypePolicy::Fp8, matmul(r#"{"scaling": "delayed"}"#));
    let batch = TokenBatch::shape(1, 8);
    let lost = trace::shapes_of(&batch, |batch| {
        Gpt2::init(&Key::from_seed(1), &gpt2(), &delayed).loss(batch, &CrossEntropy::default(), None)
    });
    assert!(lost.unwrap_err().to_string().contains("keeps a history beside the parameters"));
    // Options that are not set are not written: checkpoints of before are those of the same training.
    let written = serde_json::to_value(RunOptions::default()).unwrap();
    assert!(written.get("matmul").is_none() && written.get("qat").is_none());
}

#[test]
fn gradients_pass_straight_through_rounding() {
    let scheme: QuantScheme = "w4a16-g8".parse().unwrap();
    let weight = numbers(INPUTS * OUTPUTS, 5);
    let literal = of_floats(&[INPUTS, OUTPUTS], &weight);
    let shape = Tensor::of(Spec::new(DType::F32, [INPUTS, OUTPUTS]));
    let results = apply(&shape, std::slice::from_ref(&literal), |weight| {
        let fake = |weight: &Tensor| nn::quant::fake_quantized(weight, &scheme, InputAxis::First);
        let (_, grad) = value_and_grad(|weight: &Tensor| fake(weight).square().sum_all(), weight);
        let kept = QuantizedTensor::nearest(weight, &scheme, InputAxis::First);
        (fake(weight), grad, kept.values, kept.scales, fake(&fake(weight)))
    });
    let (fake, grad) = (floats(&results[0]), floats(&results[1]));
    assert!(off_by(&grad, &fake.iter().map(|value| 2.0 * value).collect::<Vec<_>>()) < 1e-6);
    assert!(off_by(&fake, &weight) > 1e-2);
    // What is trained is what is quantized afterwards, and on the host to the bit.
    assert!(off_by(&floats(&results[4]), &fake) < 1e-6);
    let (values, scales) = nearest_codes(&literal, &scheme, InputAxis::First).unwrap();
    assert_eq!((values.bytes(), scales.bytes()), (results[2].bytes(), results[3].bytes()));
    assert!(nearest_codes(&literal, &"w4a16-g5".parse().unwrap(), InputAxis::First).is_none());
}

#[test]
fn adapters_are_added_and_merged() {
    let config = LoraConfig { rank: 2, alpha: 6.0, dropout: 0.0, target_modules: Vec::new(), base: None };
    let results = apply(&(), &[], |()| {
        let keys = Key::from_seed(3).split(4);
        let linear = Linear::init(&keys[0], INPUTS, OUTPUTS, Bias::Zero, Init::Normal(0.5));
        let mut adapters = init_adapters(&keys[1], &linear, &config, |_| true);
        assert_eq!(adapters["weight"].paths(), ["lora_a", "lora_b"]);
        let x = keys[2].normal(DType::F32, &[ROWS, INPUTS]);
        let with = |adapters: &nn::quant::Adapters, config: &LoraConfig, base: &Linear| {
            let parts = AdapterParts { adapters, config, key: Some(&keys[3]) };
            in_training(base, &RunOptions::default().training(), TrainingParts { history: None, adapters: Some(parts) })
                .apply(&x)
        };
        let untrained = with(&adapters, &config, &linear);
        if let Some(pair) = adapters.get_mut("weight") {
            pair.b = keys[3].normal(DType::F32, &[2, OUTPUTS]);
        }
        let dropped = LoraConfig { dropout: 0.5, ..config.clone() };
        let narrow = |weight: &Weight| {
            Weight::Quantized(QuantizedTensor::nearest(
                &weight.dense(DType::F32),
                &"w8a8".parse().unwrap(),
                InputAxis::First,
            ))
        };
        let quantized = Linear { weight: narrow(&linear.weight), bias: linear.bias.clone() };
        let plain = Linear { weight: quantized.weight.dense(DType::F32).into(), bias: linear.bias.clone() };
        (
            (untrained, linear.apply(&x)),
            (with(&adapters, &config, &linear), merged(&linear, &adapters, &config).apply(&x)),
            with(&adapters, &dropped, &linear),
            (with(&adapters, &config, &quantized), with(&adapters, &config, &plain)),
        )
    });
    let all: Vec<Vec<f32>> = results.iter().map(floats).collect();
    assert_eq!(all[0], all[1]);
    assert!(off_by(&all[2], &all[3]) < 1e-5 && off_by(&all[2], &all[0]) > 0.1);
    assert!(off_by(&all[4], &all[2]) > 0.01);
    assert!(off_by(&all[5], &all[6]) < 1e-5);
}
