//! Golden estimates: step time and HBM of programs that our own front end writes, compiled by the real TPU compiler.
//!
//! A change of a constant, of a compiler's option or of a program shows here. `UPDATE_GOLDEN=1` writes the files anew.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use testkit::repository;

use crate::harness::{Bench, arg};

/// Estimates may differ from the golden ones by this share.
const TOLERANCE: f64 = 0.005;

/// Nothing is rematerialized.
const NONE: &str = "\"none\"";
/// Everything but the inputs of layers is.
const FULL: &str = "\"full\"";
/// Everything but the results of matmuls is.
const DOTS: &str = "\"dots\"";
/// Everything but the results of matmuls with weights is.
const WEIGHT_DOTS: &str = "\"dots_with_no_batch_dims\"";
/// Inputs of layers wait in the host's memory.
const OFFLOAD: &str = "{ offload = { host = [\"layer_input\"], device = [\"attention_output\"] } }";

/// What is pinned of a program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Pinned {
    step_seconds: f64,
    hbm_bytes: u64,
}

impl Pinned {
    fn is_close(&self, expected: &Pinned) -> bool {
        let close = |found: f64, expected: f64| (found - expected).abs() <= TOLERANCE * expected.abs();
        close(self.step_seconds, expected.step_seconds) && close(self.hbm_bytes as f64, expected.hbm_bytes as f64)
    }
}

/// A training step on a slice.
struct Training {
    name: &'static str,
    /// Lines of `[model]`.
    model: String,
    precision: &'static str,
    /// What is rematerialized in the backward pass.
    remat: &'static str,
    /// Further lines of `[run]`.
    run: &'static str,
    /// Tokens of a sequence; pixels of an image's side.
    size: usize,
    batch: usize,
    /// Mesh and strategy; one device without.
    mesh: Option<(&'static str, &'static str)>,
    slice: &'static str,
}

impl Training {
    /// The training's file.
    fn text(&self) -> String {
        let Training { model, precision, remat, run, size, batch, .. } = self;
        let data = match model.contains("num_classes") {
            true => format!("kind = \"shapes\"\nsize = {size}"),
            false => format!("kind = \"synthetic\"\nsequence_length = {size}"),
        };
        format!(
            "[model]\n{model}\n[run]\nprecision = \"{precision}\"\nremat = {remat}\n{run}\n[data]\n{data}\n[optimizer]\nname = \"adamw\"\n\
             learning_rate = 1e-4\n[train]\nsteps = 1\nbatch_size = {batch}\n"
        )
    }

    /// Writes the step, compiles it and estimates its time.
    fn estimated(&self, bench: &Bench) -> Pinned {
        let file = bench.write(&format!("{}.toml", self.name), self.text());
        let program = bench.path(&format!("{}.bc", self.name));
        let mut export = vec!["train", arg(&file), "--export", arg(&program), "--slice", self.slice];
        if let Some((mesh, strategy)) = self.mesh {
            export.extend(["--mesh", mesh, "--strategy", strategy]);
        }
        bench.expect(0, &export);
        fitted(bench, arg(&program), self.slice)
    }
}

/// A step of inference on one chip.
struct Serving {
    name: &'static str,
    /// The model's `config.json`.
    model: String,
    step: &'static str,
    sequence: &'static str,
    batch: &'static str,
    slice: &'static str,
}

impl Serving {
    fn estimated(&self, bench: &Bench) -> Pinned {
        let config = bench.write(&format!("{}.json", self.name), &self.model);
        let program = bench.path(&format!("{}.mlir", self.name));
        let plan = ["plan", arg(&config), "--step", self.step, "--slices", self.slice, "--compiles", "1"];
        let sizes = ["--sequence-length", self.sequence, "--batch-size", self.batch, "--out", arg(&program)];
        bench.expect(0, &[&plan[..], &sizes].concat());
        fitted(bench, arg(&program), self.slice)
    }
}

fn fitted(bench: &Bench, program: &str, slice: &str) -> Pinned {
    let record = bench.json(&["fit", program, "--slice", slice]);
    Pinned {
        step_seconds: record["estimate"]["step"]["seconds"].as_f64().unwrap(),
        hbm_bytes: record["memory"]["total_bytes"].as_u64().unwrap(),
    }
}

/// Compares estimates with those of `tests/data/estimates/GROUP.toml`.
#[track_caller]
fn check(group: &str, found: &BTreeMap<&str, Pinned>) {
    let path = repository().join(format!("crates/cli/tests/data/estimates/{group}.toml"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, toml::to_string(found).unwrap()).unwrap();
        return;
    }
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()));
    let expected: BTreeMap<String, Pinned> = toml::from_str(&text).unwrap();
    let names = |names: Vec<&str>| names.join(" ");
    assert_eq!(
        names(found.keys().copied().collect()),
        names(expected.keys().map(String::as_str).collect()),
        "programs of {}; UPDATE_GOLDEN=1 writes it anew",
        path.display()
    );
    let moved: Vec<String> = found
        .iter()
        .filter(|(name, pinned)| !pinned.is_close(&expected[**name]))
        .map(|(name, pinned)| format!("{name}: {pinned:?} instead of {:?}", expected[*name]))
        .collect();
    assert!(
        moved.is_empty(),
        "estimates moved by more than {TOLERANCE} of {}:\n{}\nUPDATE_GOLDEN=1 accepts them",
        path.display(),
        moved.join("\n")
    );
}

#[track_caller]
fn check_trainings(test: &str, group: &str, trainings: &[Training]) {
    let Some(bench) = Bench::with_libtpu(test) else { return };
    let found = trainings.iter().map(|training| (training.name, training.estimated(&bench))).collect();
    check(group, &found);
}

fn gpt2() -> String {
    "model_type = \"gpt2\"\nvocab_size = 8192\nn_positions = 1024\nn_embd = 768\nn_layer = 4\nn_head = 12\n\
     embd_pdrop = 0.0\nresid_pdrop = 0.0\nattn_pdrop = 0.0\n"
        .into()
}

/// A relative of Llama with heads of 128.
fn llama(model_type: &str, more: &str) -> String {
    let act = if model_type == "gemma3_text" { "gelu_pytorch_tanh" } else { "silu" };
    format!(
        "model_type = \"{model_type}\"\nvocab_size = 8192\nhidden_size = 1024\nintermediate_size = 2816\n\
         num_hidden_layers = 4\nnum_attention_heads = 8\nnum_key_value_heads = 4\nhead_dim = 128\n\
         max_position_embeddings = 8192\nrms_norm_eps = 1e-5\nrope_theta = 10000.0\nhidden_act = \"{act}\"\n\
         tie_word_embeddings = false\n{more}"
    )
}

fn mixtral() -> String {
    llama("mixtral", "num_local_experts = 8\nnum_experts_per_tok = 2\n")
}

/// Multi-head latent attention and experts beside a shared one.
fn deepseek() -> String {
    let more = "q_lora_rank = 384\nkv_lora_rank = 256\nqk_nope_head_dim = 128\nqk_rope_head_dim = 64\nv_head_dim = 128\n\
                moe_intermediate_size = 512\nn_routed_experts = 16\nn_shared_experts = 1\nfirst_k_dense_replace = 1\n\
                n_group = 4\ntopk_group = 2\nnorm_topk_prob = true\nnum_experts_per_tok = 4\n";
    let kv_heads = "num_key_value_heads = ";
    llama("deepseek_v3", more)
        .replace(&format!("{kv_heads}4"), &format!("{kv_heads}8"))
        .replace("head_dim = 128\nmax", "max")
}

/// The lines of a `[model]` as a `config.json`.
fn json(model: &str) -> String {
    serde_json::to_string(&toml::from_str::<toml::Table>(model).unwrap()).unwrap()
}

#[test]
fn golden_estimates_of_dense_models() {
    let trainings = [
        Training {
            name: "gpt2-f32-v5e-1",
            model: gpt2(),
            precision: "f32",
            remat: NONE,
            run: "",
            size: 512,
            batch: 8,
            mesh: None,
            slice: "v5e-1",
        },
        Training {
            name: "gpt2-mixed-fsdp-v5e-4",
            model: gpt2(),
            precision: "mixed",
            remat: FULL,
            run: "",
            size: 1024,
            batch: 16,
            mesh: Some(("fsdp=4", "fsdp")),
            slice: "v5e-4",
        },
        Training {
            name: "llama-f32-data-v4-8",
            model: llama("llama", ""),
            precision: "f32",
            remat: DOTS,
            run: "",
            size: 1024,
            batch: 8,
            mesh: Some(("data=4", "data")),
            slice: "v4-8",
        },
        Training {
            name: "llama-bf16-tensor-v5p-8",
            model: llama("llama", ""),
            precision: "bf16",
            remat: FULL,
            run: "",
            size: 2048,
            batch: 8,
            mesh: Some(("data=2,model=2", "megatron")),
            slice: "v5p-8",
        },
        Training {
            name: "llama-mixed-offload-v6e-8",
            model: llama("llama", ""),
            precision: "mixed",
            remat: OFFLOAD,
            run: "",
            size: 2048,
            batch: 16,
            mesh: Some(("fsdp=8", "fsdp")),
            slice: "v6e-8",
        },
        Training {
            name: "mistral-mixed-hybrid-v6e-8",
            model: llama("mistral", "sliding_window = 1024\n"),
            precision: "mixed",
            remat: WEIGHT_DOTS,
            run: "",
            size: 4096,
            batch: 8,
            mesh: Some(("fsdp=4,model=2", "hybrid")),
            slice: "v6e-8",
        },
    ];
    check_trainings("golden_estimates_of_dense_models", "dense", &trainings);
}

#[test]
fn golden_estimates_of_larger_meshes() {
    let trainings = [
        Training {
            name: "llama-mixed-context-v5e-16",
            model: llama("llama", ""),
            precision: "mixed",
            remat: FULL,
            run: "loss_chunk_size = 1024",
            size: 8192,
            batch: 4,
            mesh: Some(("data=4,context=4", "hybrid")),
            slice: "v5e-16",
        },
        Training {
            name: "llama-mixed-pipeline-v6e-8",
            model: llama("llama", ""),
            precision: "mixed",
            remat: FULL,
            run: "",
            size: 1024,
            batch: 16,
            mesh: Some(("stage=4,data=2", "hybrid")),
            slice: "v6e-8",
        },
        Training {
            name: "qwen3-bf16-fsdp-tpu7x-8",
            model: llama("qwen3", ""),
            precision: "bf16",
            remat: FULL,
            run: "",
            size: 4096,
            batch: 16,
            mesh: Some(("fsdp=8", "fsdp")),
            slice: "tpu7x-8",
        },
        Training {
            name: "gemma3-mixed-fsdp-v6e-16",
            model: llama(
                "gemma3_text",
                "sliding_window = 512\nsliding_window_pattern = 2\nquery_pre_attn_scalar = 128\n",
            ),
            precision: "mixed",
            remat: FULL,
            run: "",
            size: 2048,
            batch: 32,
            mesh: Some(("fsdp=16", "fsdp")),
            slice: "v6e-16",
        },
    ];
    check_trainings("golden_estimates_of_larger_meshes", "meshes", &trainings);
}

#[test]
fn golden_estimates_of_mixtures_of_experts() {
    let trainings = [
        Training {
            name: "mixtral-mixed-capacity-v5e-16",
            model: mixtral(),
            precision: "mixed",
            remat: FULL,
            run: "experts = { capacity = 1.25 }",
            size: 1024,
            batch: 16,
            mesh: Some(("fsdp=4,expert=4", "hybrid")),
            slice: "v5e-16",
        },
        Training {
            name: "mixtral-bf16-grouped-v5p-16",
            model: mixtral(),
            precision: "bf16",
            remat: FULL,
            run: "experts = \"grouped\"",
            size: 1024,
            batch: 16,
            mesh: Some(("fsdp=2,expert=4", "hybrid")),
            slice: "v5p-16",
        },
        Training {
            name: "deepseek-mixed-mla-v6e-16",
            model: deepseek(),
            precision: "mixed",
            remat: FULL,
            run: "experts = { capacity = 1.25 }",
            size: 1024,
            batch: 16,
            mesh: Some(("fsdp=4,expert=4", "hybrid")),
            slice: "v6e-16",
        },
    ];
    check_trainings("golden_estimates_of_mixtures_of_experts", "experts", &trainings);
}

#[test]
fn golden_estimates_of_models_of_images() {
    let vit = "model_type = \"vit\"\nimage_size = 224\npatch_size = 16\nhidden_size = 768\nintermediate_size = 3072\n\
               num_hidden_layers = 4\nnum_attention_heads = 12\nnum_classes = 8\n";
    let resnet = "model_type = \"resnet\"\nstages = [2, 2]\nblock = \"bottleneck\"\nwidth = 64\nnum_channels = 3\n\
                  num_classes = 8\nnorm = \"batch\"\nstem = \"large\"\nprecision = \"mixed\"\n";
    let trainings = [
        Training {
            name: "vit-mixed-data-v5e-4",
            model: vit.into(),
            precision: "mixed",
            remat: NONE,
            run: "",
            size: 224,
            batch: 64,
            mesh: Some(("data=4", "data")),
            slice: "v5e-4",
        },
        Training {
            name: "resnet-mixed-v6e-1",
            model: resnet.into(),
            precision: "mixed",
            remat: NONE,
            run: "",
            size: 128,
            batch: 64,
            mesh: None,
            slice: "v6e-1",
        },
    ];
    check_trainings("golden_estimates_of_models_of_images", "images", &trainings);
}

/// Collectives within slices and between them.
#[test]
fn golden_estimates_of_two_slices() {
    let resnet = "model_type = \"resnet\"\nstages = [1]\nblock = \"plain\"\nwidth = 64\nnum_channels = 3\n\
                  num_classes = 8\nnorm = { group = 8 }\nstem = \"small\"\nprecision = \"mixed\"\n";
    let trainings = [Training {
        name: "resnet-mixed-data-2xv5e-4",
        model: resnet.into(),
        precision: "mixed",
        remat: NONE,
        run: "",
        size: 32,
        batch: 256,
        mesh: Some(("dcn:replica=2,data=4", "hybrid")),
        slice: "2xv5e-4",
    }];
    check_trainings("golden_estimates_of_two_slices", "slices", &trainings);
}

#[test]
fn golden_estimates_of_inference() {
    let Some(bench) = Bench::with_libtpu("golden_estimates_of_inference") else { return };
    let steps = [
        Serving {
            name: "llama-decode-v5e-1",
            model: json(&llama("llama", "")),
            step: "decode",
            sequence: "2048",
            batch: "32",
            slice: "v5e-1",
        },
        Serving {
            name: "qwen3-prefill-v6e-1",
            model: json(&llama("qwen3", "")),
            step: "prefill",
            sequence: "2048",
            batch: "4",
            slice: "v6e-1",
        },
        Serving {
            name: "deepseek-decode-v6e-1",
            model: json(&deepseek()),
            step: "decode",
            sequence: "2048",
            batch: "32",
            slice: "v6e-1",
        },
    ];
    let found = steps.iter().map(|step| (step.name, step.estimated(&bench))).collect();
    check("inference", &found);
}
