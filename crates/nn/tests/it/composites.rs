//! What models write as composites is what kernels take: names, operands, attributes and logical axis.

use std::collections::BTreeSet;
use std::sync::Arc;

use chips::Generation;
use compile::Program;
use compile::optimize::ComputePrecision;
use hlo::{Attr, Attrs, Func, Module, OpKind, Verified, Visibility};
use kernel::{composites, kernels};
use nn::layers::{
    AttentionImpl, Bias, CacheStart, Dispatch, Embedding, EmbeddingLookup, KvCacheDType, MlaSizes, RopePairs,
};
use nn::models::{LanguageModel, Llama, LlamaConfig, RunOptions, Style, WindowKind};
use nn::quant::{InputAxis, QuantizedTensor};
use nn::{Fused, Kernels, StepOptions};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Parameters};
use tensor::{DType, Literal, Spec};
use trace::{Donate, Function, Key, Tensor};

use crate::harness::{floats, of_floats, of_ints, off_by};
use crate::training::{four, language, llama};

/// Sizes that every kernel takes, and that the CPU device runs in no time.
fn step() -> Function {
    let config = LlamaConfig {
        hidden_size: 128,
        intermediate_size: 128,
        head_dim: 128,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        vocab_size: 200,
        ..llama(Some(four(Dispatch::Grouped)))
    };
    let options = RunOptions {
        attention: AttentionImpl::Flash,
        loss_chunk_size: Some(128),
        kernels: Kernels { norm: Fused::On, loss: Fused::On },
        ..RunOptions::default()
    };
    language(|key| Llama::init(key, &config, &options), (1, 128), &StepOptions::default()).1
}

/// A matmul with a weight in groups, as decode steps have them.
fn quantized_matmul() -> Function {
    let scheme = "w4a16-g64".parse().unwrap();
    let inputs = (Tensor::of(Spec::new(DType::F32, [8, 128])), Tensor::of(Spec::new(DType::F32, [128, 128])));
    let traced = trace::trace("main", &inputs, Donate::Nothing, |(x, weight)| {
        QuantizedTensor::nearest(weight, &scheme, InputAxis::First).matmul(x, DType::F32)
    });
    traced.unwrap().0
}

/// A look-up of rows of a table on SparseCores.
fn embedding_lookup() -> Function {
    let inputs = (Tensor::of(Spec::new(DType::F32, [200, 128])), Tensor::of(Spec::new(DType::I32, [16])));
    let traced = trace::trace("main", &inputs, Donate::Nothing, |(table, ids)| {
        let embedding = Embedding { weight: table.clone().into() };
        embedding.apply_with(ids, DType::F32, EmbeddingLookup::SparseCores)
    });
    traced.unwrap().0
}

/// What attention reads of pages.
#[derive(Clone, Copy)]
enum Pages {
    Plain,
    Codes,
    SinksAndChunks,
    Latent,
}

/// A decode step of a paged KV cache.
fn paged_attention(pages: Pages) -> Function {
    let plain = LlamaConfig {
        hidden_size: 128,
        intermediate_size: 128,
        head_dim: 128,
        num_hidden_layers: 1,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        ..llama(None)
    };
    let (config, options) = match pages {
        Pages::Plain => (plain, RunOptions::default()),
        Pages::Codes => (plain, RunOptions { kv_cache: Some(KvCacheDType::Int8), ..RunOptions::default() }),
        Pages::SinksAndChunks => {
            let style = Style { sinks: Bias::Zero, window: WindowKind::Chunk, ..plain.style };
            (LlamaConfig { style, sliding_window: Some(20), ..plain }, RunOptions::default())
        }
        Pages::Latent => {
            let mla = MlaSizes {
                q_lora_rank: None,
                kv_lora_rank: 128,
                qk_nope_head_dim: 64,
                qk_rope_head_dim: 64,
                v_head_dim: 32,
                pairs: RopePairs::default(),
            };
            // Experts of two layers, of which each step of the loop reads one.
            let experts = llama(Some(four(Dispatch::Grouped)));
            let sizes = LlamaConfig { mla: Some(mla), num_hidden_layers: 2, num_key_value_heads: 4, ..plain };
            (LlamaConfig { experts: experts.experts, ..sizes }, RunOptions::default())
        }
    };
    let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
    let (model, cache) = trace::shapes_of(&(), |()| {
        let model = Llama::init(&key(), &config, &options);
        let cache = model.cache(6, 128);
        (model, cache)
    })
    .unwrap();
    let of = |dims: &[usize]| Tensor::of(Spec::new(DType::I32, dims));
    let inputs = (model, cache, of(&[3, 1]), (of(&[3]), of(&[3]), of(&[3, 2])));
    let traced = trace::trace("main", &inputs, Donate::Nothing, |(model, cache, token, pages)| {
        let (filled, tokens, table) = pages.clone();
        model.extend(token, &CacheStart::Pages { filled, tokens, table }, cache)
    });
    traced.unwrap().0
}

/// All that models write.
fn functions() -> Vec<Function> {
    let pages = [Pages::Plain, Pages::Codes, Pages::SinksAndChunks, Pages::Latent].map(paged_attention);
    [step(), quantized_matmul(), embedding_lookup()].into_iter().chain(pages).collect()
}

/// Names of all kernels but those that only `kernel::recognise_norms` writes: no model of ours gains from a layer norm kernel.
fn names_in_models() -> BTreeSet<&'static str> {
    let only_recognised = [composites::LAYER_NORM, composites::LAYER_NORM_BACKWARD];
    kernels::names().filter(|name| !only_recognised.contains(name)).collect()
}

/// A composite as a model wrote it.
struct Written {
    name: String,
    attributes: Attrs,
    operands: Vec<Spec>,
    decomposition: Func,
}

/// Each composite of ours once: those of one name and equal attributes and operands are one.
fn written(module: &Module) -> Vec<Written> {
    let mut found: Vec<Written> = Vec::new();
    for func in &module.funcs {
        for op in func.walk().into_iter().map(|id| func.op(id)).filter(|op| op.kind() == Some(OpKind::Composite)) {
            let Some(name) = op.attr("name").and_then(Attr::as_str) else { continue };
            let Some(Attr::Symbol(callee)) = op.attr("decomposition") else { continue };
            let attributes = match op.attr("composite_attributes") {
                Some(Attr::Dict(attributes)) => (**attributes).clone(),
                _ => Attrs::new(),
            };
            let spec = |&value: &hlo::Value| {
                let ty = func.ty(value).as_tensor().unwrap();
                Spec::new(ty.element.plain().unwrap(), ty.dims.iter().map(|&d| d as usize).collect::<Vec<_>>())
            };
            let operands: Vec<Spec> = op.operands.iter().map(spec).collect();
            let is_known = |w: &Written| w.name == name && w.attributes == attributes && w.operands == operands;
            if name.starts_with(composites::NAMESPACE) && !found.iter().any(is_known) {
                let decomposition = module.func(callee).unwrap().clone();
                found.push(Written { name: name.to_owned(), attributes, operands, decomposition });
            }
        }
    }
    found
}

#[test]
fn every_composite_becomes_a_kernel() {
    let mut called = BTreeSet::new();
    for function in functions() {
        let lowered = kernel::lower(function.module, Generation::V6e).unwrap();
        assert!(lowered.kept.is_empty(), "{:?}", lowered.kept);
        called.extend(lowered.called.into_iter().map(|(name, _)| name));
    }
    assert!(called.iter().map(String::as_str).eq(names_in_models()), "{called:?}");
}

#[test]
fn decompositions_of_models_are_those_of_kernels() {
    let mut compared = BTreeSet::new();
    let modules: Vec<Module> = functions().into_iter().map(|function| function.module.into_inner()).collect();
    for (module, written) in modules.iter().flat_map(|module| written(module).into_iter().map(move |w| (module, w))) {
        let Written { name, attributes, operands, decomposition } = &written;
        let of_kernel = kernels::decomposition(name, operands, attributes, "main").unwrap().unwrap();
        assert_eq!(of_kernel.inputs, decomposition.inputs, "{name}");
        assert_eq!(of_kernel.outputs, decomposition.outputs, "{name}");
        let inputs: Vec<Literal> = operands.iter().enumerate().map(|(n, spec)| input(name, n, spec)).collect();
        let actual = run_alone(module, decomposition.clone(), &inputs);
        let expected = run_alone(module, of_kernel, &inputs);
        for (n, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
            let off = off_by(&floats(actual), &floats(expected));
            assert!(off < 1e-4, "result {n} of {name} is off by {off}");
        }
        compared.insert(name.clone());
    }
    assert!(compared.iter().map(String::as_str).eq(names_in_models()), "{compared:?}");
}

/// Numbers of about one; labels are of the vocabulary, and groups have about half of the rows.
fn input(name: &str, n: usize, spec: &Spec) -> Literal {
    let count = spec.dims.iter().product::<usize>();
    if spec.dtype == DType::I32 {
        let is_labels = name.starts_with(composites::CROSS_ENTROPY);
        let number = |at: usize| if is_labels { (at * 37 % 200) as i32 } else { 24 + 8 * at as i32 };
        return of_ints(&spec.dims, &(0..count).map(number).collect::<Vec<_>>());
    }
    if matches!(spec.dtype, DType::I4 | DType::I8) {
        let codes = (0..count).map(|at| ((at * 7 % 16) as i8 - 8) as u8).collect();
        return Literal::new(spec.dtype, spec.dims.clone(), codes).unwrap();
    }
    let number = |at: usize| ((at * 7919 + n * 104_729) % 1009) as f32 / 1009.0 - 0.5;
    of_floats(&spec.dims, &(0..count).map(number).collect::<Vec<_>>())
}

/// Runs one function of a module, with those it calls.
fn run_alone(module: &Module, mut func: Func, inputs: &[Literal]) -> Vec<Literal> {
    func.name = "main".into();
    func.visibility = Visibility::Public;
    let mut alone = module.clone();
    alone.funcs.retain(|other| &*other.name != "main");
    alone.funcs.insert(0, func);
    let module: Verified = hlo::verify(alone).unwrap();
    // In f32: what rounds matmuls to bf16 need not see the same matmuls in both.
    let config = Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32);
    let backend = Backend::auto(&config).unwrap();
    let program = Arc::new(Program::from_module(module));
    let prepared = backend.prepare_program(&program, &Parameters::none()).unwrap();
    let inputs: Vec<_> = inputs.iter().map(|input| backend.send(&Arc::new(input.clone())).unwrap()).collect();
    prepared.run(&inputs).unwrap().iter().map(|output| output.to_host().unwrap()).collect()
}
