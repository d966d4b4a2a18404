//! Training: the loss of tiny models falls, and state comes back at its place.

use nn::layers::{
    Activation, Bias, Dispatch, ExpertGroups, Gating, MlaSizes, RopePairs, RopeScaling, RouterScores, RouterWeights,
    Routing,
};
use nn::models::{
    DenseLayers, Experts, GlobalLayers, GlobalPositions, Gpt2, Gpt2Config, Head, HeadNorm, LanguageModel, Llama,
    LlamaConfig, Mlp, MlpConfig, NormKind, Norms, Phase, ResNet, ResNetConfig, RunOptions, Stem, Style, TokenBatch,
    Vit, VitConfig,
};
use nn::optim::{Adam, Ema, Schedule};
use nn::{CrossEntropy, DTypePolicy, StepOptions, trace_init, trace_train_step};
use tensor::{DType, Literal};
use trace::{Function, Key, Spec, Tensor, Tree};

use crate::harness::{number, of_floats, of_ints, run};

pub(crate) fn gpt2() -> Gpt2Config {
    Gpt2Config {
        vocab_size: 32,
        n_positions: 16,
        n_embd: 32,
        n_layer: 2,
        n_head: 4,
        embd_pdrop: 0.0,
        resid_pdrop: 0.0,
        attn_pdrop: 0.0,
        ..Gpt2Config::default()
    }
}

pub(crate) fn llama(experts: Option<Experts>) -> LlamaConfig {
    LlamaConfig {
        vocab_size: 32,
        hidden_size: 32,
        intermediate_size: 64,
        num_hidden_layers: 4,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 8,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: RopeScaling::None,
        hidden_act: Activation::Silu,
        projection_bias: Bias::None,
        output_bias: Bias::None,
        sliding_window: None,
        global_layers: None,
        mla: None,
        long_rope: None,
        style: Style::default(),
        head: Head::Own,
        experts,
        initializer_range: 0.02,
    }
}

/// Turns of two layers and a rest of one, with what Gemma 3 does otherwise.
pub(crate) fn gemma() -> LlamaConfig {
    LlamaConfig {
        num_hidden_layers: 5,
        sliding_window: Some(4),
        global_layers: Some(GlobalLayers {
            every: 2,
            rope_theta: 100_000.0,
            rope_scaling: RopeScaling::None,
            positions: GlobalPositions::Rotary,
        }),
        style: Style {
            head_norm: HeadNorm::Rms,
            norms: Norms::Around,
            norm_offset: 1.0,
            embedding_scale: 32f64.sqrt(),
            score_scale: Some(0.4),
            ..Style::default()
        },
        head: Head::Tied,
        ..llama(None)
    }
}

/// A first layer without experts, then experts and a shared feed-forward, with what DeepSeek 3 does otherwise.
pub(crate) fn deepseek(dispatch: Dispatch) -> LlamaConfig {
    let mla = MlaSizes {
        q_lora_rank: Some(16),
        kv_lora_rank: 12,
        qk_nope_head_dim: 8,
        qk_rope_head_dim: 4,
        v_head_dim: 6,
        pairs: RopePairs::Neighbours,
    };
    let groups = Some(ExpertGroups { count: 2, chosen: 1, best: 2 });
    let routing = Routing { scores: RouterScores::Sigmoid, groups, scale: 2.0, ..Routing::default() };
    let dense = Some(DenseLayers { count: 1, inner: 64 });
    let experts =
        Experts { count: 8, chosen: 2, routing, shared: Some(24), dense, load_balancing_loss: 0.0, ..four(dispatch) };
    LlamaConfig {
        intermediate_size: 24,
        head_dim: mla.head_dim(),
        num_key_value_heads: 4,
        mla: Some(mla),
        ..llama(Some(experts))
    }
}

/// Four experts, of which two are used.
pub(crate) fn four(dispatch: Dispatch) -> Experts {
    Experts {
        count: 4,
        chosen: 2,
        routing: Routing::default(),
        shared: None,
        dense: None,
        interleaved: None,
        load_balancing_loss: 0.01,
        dispatch,
        bias: Bias::None,
        gating: Gating::Product,
    }
}

fn optimizer() -> Adam {
    Adam::with_weight_decay(Schedule::constant(3e-3), 0.01)
}

/// The programs that start and step a model of token sequences.
pub(crate) fn language<M: LanguageModel>(
    init: impl Fn(&Key) -> M,
    batch: (usize, usize),
    options: &StepOptions,
) -> (Function, Function) {
    let (start, state) = trace_init(&optimizer(), options, init).unwrap();
    let batch = TokenBatch::shape(batch.0, batch.1);
    let step = trace_train_step(&state, &batch, &optimizer(), options, |model: &M, batch, key| {
        model.loss(batch, &CrossEntropy::default(), Some(key))
    });
    (start, step.unwrap_or_else(|error| panic!("{error}")))
}

/// Images and their classes.
#[derive(Clone, Tree)]
pub(crate) struct Images {
    images: Tensor,
    classes: Tensor,
}

impl Images {
    pub(crate) fn shape(batch: usize, side: usize) -> Images {
        Images {
            images: Tensor::of(Spec::new(DType::F32, [batch, side, side, 3])),
            classes: Tensor::of(Spec::new(DType::I32, [batch])),
        }
    }
}

/// The programs that start and step a model of images.
pub(crate) fn vision<M: Tree + Clone>(
    init: impl Fn(&Key) -> M,
    logits: impl Fn(&M, &Tensor) -> Tensor,
    batch: (usize, usize),
) -> (Function, Function) {
    let options = StepOptions::default();
    let (start, state) = trace_init(&optimizer(), &options, init).unwrap();
    let batch = Images::shape(batch.0, batch.1);
    let step = trace_train_step(&state, &batch, &optimizer(), &options, |model: &M, batch: &Images, _| {
        CrossEntropy::default().mean(&logits(model, &batch.images), &batch.classes)
    });
    (start, step.unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) fn vit(precision: DTypePolicy) -> (Function, Function) {
    let config = VitConfig {
        image_size: 8,
        patch_size: 4,
        hidden_size: 32,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 64,
        num_classes: 4,
        ..VitConfig::default()
    };
    let options = RunOptions { precision, ..RunOptions::default() };
    vision(|key| Vit::init(key, &config, &options), |model, images| model.apply(images, None), (4, 8))
}

pub(crate) fn resnet(precision: DTypePolicy) -> (Function, Function) {
    let mut config = ResNetConfig::resnet18(4, NormKind::Group(4));
    config = ResNetConfig { stages: vec![1, 1], width: 16, stem: Stem::Small, precision, ..config };
    let logits = |model: &ResNet, images: &Tensor| model.apply(images, &Vec::new(), Phase::Training).0;
    vision(|key| ResNet::init(key, &config).0, logits, (4, 8))
}

pub(crate) fn mlp() -> (Function, Function) {
    let config = MlpConfig { input: 192, hidden: vec![32], output: 4, activation: Activation::Relu };
    let logits = |model: &Mlp, images: &Tensor| model.apply(&images.reshape(&[images.dim(0), 192]));
    vision(|key| Mlp::init(key, &config), logits, (4, 8))
}

/// Losses of so many steps on the same batch.
pub(crate) fn losses((start, step): &(Function, Function), batch: &[Literal], steps: usize) -> Vec<f32> {
    let seed = Literal::new(DType::U32, [], 1u32.to_le_bytes().to_vec()).unwrap();
    let mut state = run(start, &[seed]);
    let leaves = state.len();
    for (n, leaf) in start.outputs.iter().enumerate() {
        assert_eq!(leaf.spec, step.inputs[n].spec);
        assert_eq!(leaf.spec, step.outputs[n].spec);
    }
    let mut losses = Vec::new();
    for _ in 0..steps {
        let mut inputs = state.clone();
        inputs.extend(batch.iter().cloned());
        let outputs = run(step, &inputs);
        losses.push(number(&outputs[leaves]));
        assert!(number(&outputs[leaves + 1]).is_finite());
        state = outputs[..leaves].to_vec();
    }
    losses
}

pub(crate) fn tokens(batch: usize, positions: usize) -> Vec<Literal> {
    let of = |from: i32| -> Vec<i32> {
        (0..batch * positions).map(|n| ((n as i32 + from) * 7 + n as i32 / 5) % 32).collect()
    };
    vec![of_ints(&[batch, positions], &of(0)), of_ints(&[batch, positions], &of(1))]
}

fn images() -> Vec<Literal> {
    let pixels: Vec<f32> = (0..4 * 8 * 8 * 3).map(|n| ((n * 37) % 101) as f32 / 50.0 - 1.0).collect();
    vec![of_floats(&[4, 8, 8, 3], &pixels), of_ints(&[4], &[0, 1, 2, 3])]
}

fn falls(name: &str, losses: &[f32]) {
    assert!(losses.iter().all(|loss| loss.is_finite()), "{name}: {losses:?}");
    assert!(losses[losses.len() - 1] < 0.8 * losses[0], "{name}: {losses:?}");
}

#[test]
fn losses_of_language_models_fall() {
    let options = RunOptions::default();
    let plain = StepOptions { max_grad_norm: Some(1.0), ..StepOptions::default() };
    let more = StepOptions { gradient_accumulation_steps: 2, ema: Some(Ema { decay: 0.99 }), ..plain };
    let mixed = RunOptions { precision: DTypePolicy::Mixed, loss_chunk_size: Some(24), ..options.clone() };
    let experts = Some(four(Dispatch::Dense));
    falls("gpt2", &losses(&language(|key| Gpt2::init(key, &gpt2(), &options), (4, 16), &plain), &tokens(4, 16), 12));
    falls("parts", &losses(&language(|key| Gpt2::init(key, &gpt2(), &options), (4, 16), &more), &tokens(4, 16), 12));
    let narrow = language(|key| Llama::init(key, &llama(None), &mixed), (4, 16), &plain);
    falls("llama", &losses(&narrow, &tokens(4, 16), 12));
    let mixture = language(|key| Llama::init(key, &llama(experts), &options), (4, 16), &plain);
    falls("mixtral", &losses(&mixture, &tokens(4, 16), 12));
    let normed = Style { head_norm: HeadNorm::Rms, ..Style::default() };
    let unequal = experts.map(|experts| Experts {
        routing: Routing { weights: RouterWeights::Scores, ..Routing::default() },
        ..experts
    });
    let mla = deepseek(Dispatch::Dense);
    falls("deepseek", &losses(&language(|key| Llama::init(key, &mla, &options), (4, 16), &plain), &tokens(4, 16), 12));
    for experts in [None, unequal] {
        let config = LlamaConfig { style: normed, ..llama(experts) };
        let qwen = language(|key| Llama::init(key, &config, &options), (4, 16), &plain);
        falls("qwen3", &losses(&qwen, &tokens(4, 16), 12));
    }
    falls("gemma3", &losses(&language(|key| Llama::init(key, &gemma(), &mixed), (4, 16), &plain), &tokens(4, 16), 12));
}

#[test]
fn losses_of_models_of_images_fall() {
    falls("mlp", &losses(&mlp(), &images(), 12));
    falls("vit", &losses(&vit(DTypePolicy::F32), &images(), 12));
    falls("resnet", &losses(&resnet(DTypePolicy::Mixed), &images(), 12));
}
