//! Forms that models have on NVIDIA GPUs and on the CPU device against those they have elsewhere; what is put in the place of composites.

use hlo::{Attr, OpKind};
use kernel::KernelTarget;
use nn::hf::{self, DenseOrder, ModelConfig, ParameterReader};
use nn::layers::{AttentionImpl, AttentionMask, CacheStart, Dispatch, Positions, attend};
use nn::models::{Gpt2, LanguageModel, Llama, RunOptions};
use nn::quant::ActivationQuant;
use nn::{DTypePolicy, StepOptions};
use tensor::DType;
use trace::{CompileTarget, Donate, Function, Key, RematPolicy, Spec, Tensor, Tree, for_target, grad};
use weights::quant::QuantizedFolder;

use crate::harness::{floats, of_floats, of_ints, off_by, run, with_key};
use crate::training::{four, gemma, gpt2, language, llama, losses, tokens};

type Step = (Function, Function);

/// Traces the step of a model that is run as the options say.
type Make = Box<dyn Fn(&RunOptions) -> Step>;

/// A model's step for a device, with what takes the place of its composites there.
fn step(target: CompileTarget, precision: DTypePolicy, make: impl Fn(&RunOptions) -> Step) -> Step {
    let options = RunOptions { precision, ..RunOptions::default() };
    let (start, step) = for_target(target, || make(&options));
    match target {
        CompileTarget::Any | CompileTarget::Cpu => (start, step),
        CompileTarget::Cuda => {
            let lowered = kernel::lower(step.module.clone(), KernelTarget::Cuda).unwrap();
            (start, Function { module: lowered.module, ..step })
        }
    }
}

fn count(function: &Function, kind: OpKind) -> usize {
    let funcs = &function.module.funcs;
    funcs
        .iter()
        .flat_map(|func| func.walk().into_iter().map(|id| func.op(id).kind()))
        .filter(|k| *k == Some(kind))
        .count()
}

#[test]
fn models_have_the_losses_they_have_elsewhere() {
    let plain = StepOptions { max_grad_norm: Some(1.0), ..StepOptions::default() };
    let batch = (4, 16);
    let models: [(&str, Make); 5] = [
        ("gpt2", Box::new(move |run| language(|key| Gpt2::init(key, &gpt2(), run), batch, &plain))),
        ("llama", Box::new(move |run| language(|key| Llama::init(key, &llama(None), run), batch, &plain))),
        ("gemma", Box::new(move |run| language(|key| Llama::init(key, &gemma(), run), batch, &plain))),
        (
            "experts",
            Box::new(move |run| {
                language(|key| Llama::init(key, &llama(Some(four(Dispatch::Dense))), run), batch, &plain)
            }),
        ),
        (
            "remat",
            Box::new(move |run| {
                let run = RunOptions { remat: RematPolicy::Full, ..run.clone() };
                language(|key| Gpt2::init(key, &gpt2(), &run), batch, &plain)
            }),
        ),
    ];
    for (name, make) in &models {
        for (precision, most) in [(DTypePolicy::F32, 1e-4), (DTypePolicy::Mixed, 2e-2)] {
            let [expected, actual] = [CompileTarget::Any, CompileTarget::Cuda].map(|target| {
                let step = step(target, precision, make);
                let is_loop = count(&step.1, OpKind::While) > 0;
                assert_eq!(is_loop, target == CompileTarget::Any, "{name}: layers are a loop, but not on GPUs");
                losses(&step, &tokens(4, 16), 4)
            });
            let off = off_by(&actual, &expected);
            assert!(off < most, "{name} in {precision}: {actual:?} and {expected:?}");
        }
    }
}

/// cuDNN runs both passes of attention in 16 bits; in `f32` the decomposition stays.
#[test]
fn attention_calls_cudnn() {
    for (precision, calls) in [
        (DTypePolicy::Mixed, ["__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"].as_slice()),
        (DTypePolicy::F32, &[]),
    ] {
        let config =
            nn::models::Gpt2Config { n_positions: 128, n_layer: 1, n_embd: 64, n_head: 4, attn_pdrop: 0.0, ..gpt2() };
        let (_, step) = step(CompileTarget::Cuda, precision, |run| {
            language(|key| Gpt2::init(key, &config, run), (2, 128), &StepOptions::default())
        });
        let mut names: Vec<String> = Vec::new();
        for func in &step.module.funcs {
            let ops = func.walk().into_iter().map(|id| func.op(id)).filter(|op| op.kind() == Some(OpKind::CustomCall));
            names.extend(ops.filter_map(|op| op.attr("call_target_name").and_then(Attr::as_str).map(str::to_owned)));
        }
        names.sort();
        assert_eq!(names, calls, "{precision}");
    }
}

/// Flash attention is plain attention on the CPU device, which runs it as one step, but not where the backward pass needs more of it.
#[test]
fn the_cpu_device_has_plain_attention() {
    let spec = |heads: usize| Spec::new(DType::F32, [2, 128, heads, 16]);
    let inputs = (Tensor::of(spec(4)), Tensor::of(spec(2)), Tensor::of(spec(2)));
    let number = |n: usize| ((n * 7919) % 1009) as f32 / 500.0 - 1.0;
    let values = [4, 2, 2]
        .map(|heads| of_floats(&[2, 128, heads, 16], &(0..2 * 128 * heads * 16).map(number).collect::<Vec<_>>()));
    for mask in [AttentionMask::Full, AttentionMask::Causal, AttentionMask::SlidingWindow(40)] {
        let with = |implementation: AttentionImpl| {
            let apply = |(query, key, value): &(Tensor, Tensor, Tensor)| {
                attend(query, key, value, &Positions::sequence(128), mask, implementation)
            };
            let forward = trace::trace("attend", &inputs, Donate::Nothing, apply).unwrap().0;
            let backward = trace::trace("gradient", &inputs, Donate::Nothing, |inputs| {
                grad(|inputs| apply(inputs).square().sum_all(), inputs)
            });
            [forward, backward.unwrap().0]
        };
        let ([forward, backward], [expected, _]) = (with(AttentionImpl::Flash), with(AttentionImpl::Plain));
        let lowered = kernel::lower(forward.module.clone(), KernelTarget::Cpu).unwrap();
        assert_eq!((lowered.replaced.len(), lowered.kept.len()), (1, 0));
        assert!(kernel::lower(backward.module, KernelTarget::Cpu).unwrap().replaced.is_empty());
        let lowered = Function { module: lowered.module, ..forward };
        assert_eq!(count(&lowered, OpKind::While), 0);
        let [actual, expected] = [lowered, expected].map(|function| floats(&run(&function, &values)[0]));
        assert!(off_by(&actual, &expected) < 1e-5, "{mask:?}");
    }
}

/// A decode step of rows that are filled to different positions writes the same KV cache.
#[test]
fn decode_steps_write_the_same_cache() {
    let inputs = (Tensor::of(Spec::new(DType::I32, [3, 2])), Tensor::of(Spec::new(DType::I32, [3])));
    let values = [of_ints(&[3, 2], &[1, 2, 3, 4, 5, 6]), of_ints(&[3], &[0, 5, 14])];
    let [expected, actual] = [CompileTarget::Any, CompileTarget::Cuda].map(|target| {
        let traced = for_target(target, || {
            trace::trace("decode", &inputs, Donate::Nothing, |(tokens, filled)| {
                let model = Llama::init(&Key::from_seed(1u64), &llama(None), &RunOptions::default());
                let start = CacheStart::Rows { filled: filled.clone(), context: 16 };
                let (hidden, cache) = model.extend(tokens, &start, &model.cache(4, 32));
                (hidden, cache.keys, cache.values)
            })
        });
        run(&traced.unwrap().0, &values)
    });
    for (actual, expected) in actual.iter().zip(&expected) {
        let (actual, expected) = (floats(actual), floats(expected));
        assert!(expected.iter().any(|&number| number != 0.0));
        assert!(off_by(&actual, &expected) < 1e-5);
    }
}

/// Weights that lie as files have them are the same model: one vector is summed along their rows, several are multiplied, and those of
/// the same input are one matmul.
#[test]
fn weights_as_files_have_them_give_the_same_logits() {
    let sizes = llama(None);
    let params = with_key(7, |key| Llama::init(key, &sizes, &RunOptions::default()));
    let key = Tensor::of(Spec::new(DType::U32, [2]));
    let model = trace::shapes_of(&key, |key| Llama::init(&Key::from_data(key), &sizes, &RunOptions::default()));
    let (model, family) = (model.unwrap(), ModelConfig::Llama(sizes).family());
    let folder = tempfile::tempdir().unwrap();
    hf::save(folder.path(), family, &model, &params, u64::MAX).unwrap();
    let files = QuantizedFolder::open(folder.path()).unwrap();
    for (length, tokens) in [(1, vec![5]), (3, vec![5, 2, 9])] {
        let [expected, actual] = [DenseOrder::InOut, DenseOrder::OutIn].map(|order| {
            let mut reader = ParameterReader::open(&files, family, &model, ActivationQuant::None, order).unwrap();
            let model = reader.model().clone();
            let mut inputs: Vec<_> = model.paths().iter().map(|path| reader.read(path).unwrap()).collect();
            inputs.push(of_ints(&[1, length], &tokens));
            let shapes = (model, Tensor::of(Spec::new(DType::I32, [1, length])));
            let traced = for_target(CompileTarget::Cuda, || {
                trace::trace("logits", &shapes, Donate::Nothing, |(model, tokens)| model.logits(tokens))
            });
            let function = traced.unwrap().0;
            (floats(&run(&function, &inputs)[0]), count(&function, OpKind::DotGeneral))
        });
        assert!(off_by(&actual.0, &expected.0) < 1e-5, "{length} tokens");
        assert!(actual.1 < expected.1, "{length} tokens: {} and {} products", actual.1, expected.1);
    }
}
