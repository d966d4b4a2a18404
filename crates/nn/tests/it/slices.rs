//! Training steps of all models through the real TPU compiler, and what recomputation does to memory there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use chips::Generation;
use compile::cache::{Cache, CacheConfig};
use compile::worker::{Chatter, WorkerCommand, WorkerLimits};
use compile::{CacheUse, CompileMode, CompileRequest, PluginFile, Program, Report, SliceCompiler};
use nn::layers::AttentionImpl;
use nn::models::{Gpt2, Gpt2Config, Llama, LlamaConfig, RunOptions};
use nn::{DTypePolicy, Fused, Kernels, RematPolicy, StepOptions};
use testkit::{Needed, require};
use trace::Function;

use crate::training::{deepseek, four, gemma, gpt2, language, llama, mlp, resnet, vit};

/// The example that is also the compiler's process: built beside the tests.
fn worker() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.ancestors().nth(2).unwrap();
    profile.join("examples").join("llama_70b")
}

fn compiler(libtpu: &std::path::Path) -> SliceCompiler {
    SliceCompiler {
        plugin: PluginFile::open(libtpu).unwrap(),
        cache: Cache::open(&CacheConfig::default()).unwrap(),
        launch: WorkerCommand {
            program: worker(),
            args: vec!["compile-worker".into()],
            env: Default::default(),
            chatter: Chatter::Keep,
        },
        limits: WorkerLimits { time: std::time::Duration::from_secs(1200), memory_bytes: None },
    }
}

fn compiled(compiler: &SliceCompiler, function: &Function, slice: &str, mode: CompileMode) -> Report {
    let program = Program::from_module(function.module.clone());
    let request = CompileRequest { mode, cache: CacheUse::Off, ..CompileRequest::new(slice.parse().unwrap()) };
    let compilation = compiler.compile(program.bytes(), &request, &AtomicBool::new(false), &mut |_| {});
    compilation.unwrap_or_else(|error| panic!("{}", compile::with_causes(&error))).entry.report.clone()
}

#[test]
fn training_steps_compile_for_tpus() {
    let Some(libtpu) = require("training_steps_compile_for_tpus", Needed::Libtpu) else { return };
    let compiler = compiler(&libtpu);
    let options = RunOptions {
        precision: DTypePolicy::Mixed,
        remat: RematPolicy::Dots,
        attention: AttentionImpl::Chunked(8),
        ..RunOptions::default()
    };
    let plain = StepOptions { max_grad_norm: Some(1.0), ..StepOptions::default() };
    let dropping = Gpt2Config { embd_pdrop: 0.1, resid_pdrop: 0.1, ..gpt2() };
    let capacity = nn::layers::Dispatch::Capacity(1.25);
    let experts = Some(four(capacity));
    let steps = [
        ("gpt2", language(|key| Gpt2::init(key, &dropping, &options), (4, 16), &plain).1),
        ("llama", language(|key| Llama::init(key, &llama(None), &options), (4, 16), &plain).1),
        ("mixtral", language(|key| Llama::init(key, &llama(experts), &options), (4, 16), &plain).1),
        ("deepseek", language(|key| Llama::init(key, &deepseek(capacity), &options), (4, 16), &plain).1),
        ("gemma3", language(|key| Llama::init(key, &gemma(), &options), (4, 16), &plain).1),
        ("vit", vit(DTypePolicy::Mixed).1),
        ("resnet", resnet(DTypePolicy::Mixed).1),
        ("mlp", mlp().1),
    ];
    // The whole compiler takes minutes for all of them.
    for (slice, mode) in [("v5e-1", CompileMode::Quick), ("v6e-1", CompileMode::Full)] {
        for (name, step) in &steps {
            let report = compiled(&compiler, step, slice, mode);
            assert!(report.memory.aliased > 0, "{name} for {slice}: no state is donated");
        }
    }
}

#[test]
fn norms_and_losses_are_kernels_on_tpus() {
    let Some(libtpu) = require("norms_and_losses_are_kernels_on_tpus", Needed::Libtpu) else { return };
    let compiler = compiler(&libtpu);
    let config = LlamaConfig { hidden_size: 256, head_dim: 64, vocab_size: 500, ..llama(None) };
    let in_chunks = |kernels: Kernels, chunk_size: usize| {
        let options = RunOptions {
            precision: DTypePolicy::Mixed,
            loss_chunk_size: Some(chunk_size),
            kernels,
            ..RunOptions::default()
        };
        language(|key| Llama::init(key, &config, &options), (2, 256), &StepOptions::default()).1
    };
    let step = |kernels: Kernels| in_chunks(kernels, config.hidden_size);
    let names = |step: &Function, generation: Generation| {
        let lowered = kernel::lower(step.module.clone(), generation).unwrap();
        lowered.called.iter().map(|(_, kernel)| kernel.name.clone()).collect::<BTreeSet<String>>()
    };
    let all = step(Kernels { norm: Fused::On, loss: Fused::On });
    let expected = ["cross_entropy_bwd", "cross_entropy_fwd", "rms_norm_bwd", "rms_norm_fwd"];
    assert!(names(&all, Generation::V6e).iter().eq(expected), "{:?}", names(&all, Generation::V6e));
    for slice in ["v5e-1", "v6e-1", "v5p-8"] {
        compiled(&compiler, &all, slice, CompileMode::Full);
    }
    // By itself the loss is one where one core has a device, and where it is taken in chunks that are not short.
    let auto = step(Kernels::default());
    assert!(names(&auto, Generation::V5e).iter().eq(&expected[..2]), "{:?}", names(&auto, Generation::V5e));
    assert!(names(&auto, Generation::V5p).is_empty(), "{:?}", names(&auto, Generation::V5p));
    assert!(names(&step(Kernels { loss: Fused::Off, ..Kernels::default() }), Generation::V5e).is_empty());
    assert!(names(&in_chunks(Kernels::default(), 128), Generation::V5e).is_empty());
}

/// Wide enough that activations outweigh everything else.
fn wide() -> LlamaConfig {
    LlamaConfig {
        hidden_size: 256,
        intermediate_size: 1024,
        num_hidden_layers: 8,
        head_dim: 64,
        vocab_size: 512,
        ..llama(None)
    }
}

#[test]
fn what_the_host_keeps_is_not_on_the_device() {
    let Some(libtpu) = require("what_the_host_keeps_is_not_on_the_device", Needed::Libtpu) else { return };
    let compiler = compiler(&libtpu);
    let names = || ["layer_input", "query", "attention_output"].map(String::from).to_vec();
    let memory = |remat| {
        let options = RunOptions { precision: DTypePolicy::Mixed, remat, ..RunOptions::default() };
        let step = language(|key| Llama::init(key, &wide(), &options), (8, 512), &StepOptions::default()).1;
        compiled(&compiler, &step, "v6e-1", CompileMode::Quick).memory
    };
    let on_device = memory(RematPolicy::SaveOnlyTheseNames(names()));
    let on_host = memory(RematPolicy::Offload { host: names(), device: Vec::new() });
    // Eight layers of 8 by 512 positions in bf16, three values of each.
    let offloaded = 8 * 8 * 512 * 2 * (256 + 256 + 256);
    assert_eq!(on_device.host_temporaries.unwrap_or(0), 0, "{on_device:?}");
    assert!(on_host.host_temporaries.unwrap_or(0) >= offloaded, "{on_host:?}");
    assert!(on_host.temporaries + offloaded / 2 < on_device.temporaries, "{on_host:?} {on_device:?}");
}

#[test]
fn what_is_kept_orders_memory() {
    let Some(libtpu) = require("what_is_kept_orders_memory", Needed::Libtpu) else { return };
    let compiler = compiler(&libtpu);
    let config = wide();
    let temporaries = [RematPolicy::Full, RematPolicy::Dots, RematPolicy::None].map(|remat| {
        let options = RunOptions { precision: DTypePolicy::Mixed, remat, ..RunOptions::default() };
        let step = language(|key| Llama::init(key, &config, &options), (8, 512), &StepOptions::default()).1;
        compiled(&compiler, &step, "v5e-1", CompileMode::Quick).memory.temporaries
    });
    assert!(temporaries.is_sorted_by(|less, more| less < more), "{temporaries:?}");
}
