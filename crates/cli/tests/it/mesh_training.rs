//! `tpu train --mesh`: every strategy and family learns on eight devices what one device learns; checkpoints move between meshes.

use serde_json::Value;

use crate::harness::Bench;

const COMMON: &str = r#"
[optimizer]
name = "adamw"
learning_rate = 1e-2

[train]
steps = 4
batch_size = 8
max_grad_norm = 1.0
log_every = 1
"#;

const TOKENS: &str = r#"
[data]
kind = "synthetic"
sequence_length = 8
"#;

const IMAGES: &str = r#"
[data]
kind = "shapes"
size = 8
"#;

const LLAMA: &str = r#"
vocab_size = 64
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 8
num_key_value_heads = 4
max_position_embeddings = 16
rms_norm_eps = 1e-5
rope_theta = 10000.0
hidden_act = "silu"
"#;

/// The training of a small Llama, its last table open.
pub(crate) fn llama() -> String {
    format!("[model]\nmodel_type = \"llama\"\n{LLAMA}{TOKENS}{COMMON}")
}

/// Families by name, with their files.
pub(crate) fn families() -> Vec<(&'static str, String)> {
    let gpt = r#"
[model]
model_type = "gpt2"
vocab_size = 64
n_positions = 16
n_embd = 32
n_layer = 2
n_head = 8
embd_pdrop = 0.1
resid_pdrop = 0.1
attn_pdrop = 0.0
"#;
    // Room for every position in every expert: what is left out would depend on the mesh.
    let experts = |dispatch: &str| {
        let sizes = "num_local_experts = 8\nnum_experts_per_tok = 2";
        format!("[model]\nmodel_type = \"mixtral\"\n{LLAMA}{sizes}\n\n[run]\nexperts = {dispatch}\n{TOKENS}{COMMON}")
    };
    // Turns of a layer with a window and one without, one for each of four stages.
    let gemma = LLAMA.replace("num_hidden_layers = 2", "num_hidden_layers = 8").replace("silu", "gelu_pytorch_tanh");
    let gemma =
        format!("{gemma}head_dim = 8\nquery_pre_attn_scalar = 8\nsliding_window = 3\nsliding_window_pattern = 2\n");
    let latent = LLAMA
        .replace("num_hidden_layers = 2", "num_hidden_layers = 5")
        .replace("num_key_value_heads = 4", "num_key_value_heads = 8");
    let latent = format!(
        "{latent}q_lora_rank = 16\nkv_lora_rank = 16\nqk_nope_head_dim = 4\nqk_rope_head_dim = 4\nv_head_dim = 4\n\
         moe_intermediate_size = 32\nn_routed_experts = 8\nn_shared_experts = 1\nfirst_k_dense_replace = 1\n\
         n_group = 2\ntopk_group = 1\nnorm_topk_prob = true\nnum_experts_per_tok = 2\n\n[run]\n\
         experts = {{ capacity = 8.0 }}\n"
    );
    let vit = "[model]\nmodel_type = \"vit\"\nimage_size = 8\npatch_size = 4\nhidden_size = 32\nintermediate_size = 64\n\
               num_hidden_layers = 2\nnum_attention_heads = 8\nnum_classes = 4\n";
    let resnet = "[model]\nmodel_type = \"resnet\"\nstages = [1]\nblock = \"plain\"\nwidth = 16\nnum_channels = 3\n\
                  num_classes = 4\nnorm = { group = 4 }\nstem = \"small\"\n";
    vec![
        ("gpt", format!("{gpt}{TOKENS}{COMMON}")),
        ("llama", llama()),
        ("experts", experts("{ capacity = 8.0 }")),
        ("grouped", experts("\"grouped\"")),
        ("gemma", format!("[model]\nmodel_type = \"gemma3_text\"\n{gemma}{TOKENS}{COMMON}")),
        ("latent", format!("[model]\nmodel_type = \"deepseek_v3\"\n{latent}{TOKENS}{COMMON}")),
        ("vit", format!("{vit}{IMAGES}{COMMON}")),
        ("resnet", format!("{resnet}{IMAGES}{COMMON}")),
    ]
}

pub(crate) fn losses(bench: &Bench, folder: &str) -> Vec<f64> {
    let lines = std::fs::read_to_string(bench.path(&format!("{folder}/metrics/metrics.jsonl"))).unwrap();
    // Lines of evaluations have none.
    let losses: Vec<f64> =
        lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["loss"].as_f64()).collect();
    assert!(!losses.is_empty(), "{folder} has no losses");
    losses
}

#[track_caller]
pub(crate) fn assert_alike(what: &str, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (a, b) in got.iter().zip(want) {
        assert!((a - b).abs() <= 2e-5 * b.abs(), "{what}: {got:?} instead of {want:?}");
    }
}

#[test]
fn eight_devices_learn_what_one_learns() {
    let bench = Bench::bare();
    for (family, file) in families() {
        let path = format!("{family}.toml");
        bench.write(&path, file);
        bench.expect(0, &["train", &path, "--folder", family, "-d", "cpu"]);
        let plain = losses(&bench, family);
        assert!(plain.last() < plain.first(), "{family} learns: {plain:?}");
        let mut meshes = vec![
            ("data=8", "data"),
            ("data=8", "fsdp"),
            ("data=4,model=2", "megatron"),
            ("fsdp=2,model=4", "hybrid"),
            ("data=2,context=4", "hybrid"),
        ];
        if ["experts", "grouped", "latent"].contains(&family) {
            meshes.extend([("data=2,expert=4", "expert"), ("fsdp=2,model=2,expert=2", "hybrid")]);
        }
        // Positions of an image are its patches and one more, which nothing divides.
        if ["vit", "resnet"].contains(&family) {
            meshes.retain(|(mesh, _)| !mesh.contains("context"));
        }
        for (n, (mesh, strategy)) in meshes.into_iter().enumerate() {
            let folder = format!("{family}{n}");
            let args = ["train", &path, "--folder", &folder, "-d", "cpu", "--mesh", mesh, "--strategy", strategy];
            bench.expect(0, &args);
            assert_alike(&format!("{family} on {mesh} by {strategy}"), &losses(&bench, &folder), &plain);
        }
    }
}

/// Ulysses sequence parallelism: an all-to-all between positions and heads around the kernel, or all heads on every device
/// where there are too few.
#[test]
fn attention_in_blocks_is_the_same_where_sequences_are_split() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let train = |folder: &str, more: &[&str]| {
        let common = ["train", "llama.toml", "--folder", folder, "-d", "cpu", "--with", "run.attention=flash"];
        bench.expect(0, &[&common[..], more].concat());
        losses(&bench, folder)
    };
    let plain = train("plain", &[]);
    for (n, mesh) in ["data=2,context=4", "data=2,context=2,model=2", "context=8"].into_iter().enumerate() {
        assert_alike(mesh, &train(&format!("split{n}"), &["--mesh", mesh]), &plain);
    }
}

#[test]
fn fused_norms_and_losses_learn_what_plain_ones_learn() {
    let bench = Bench::bare();
    let run = |kernels: &str| format!("{}\n[run]\nloss_chunk_size = 3\nkernels = {kernels}\n", llama());
    bench.write("plain.toml", run(r#"{ norm = "off", loss = "off" }"#));
    bench.write("fused.toml", run(r#"{ norm = "on", loss = "on" }"#));
    bench.expect(0, &["train", "plain.toml", "--folder", "plain", "-d", "cpu"]);
    bench.expect(0, &["train", "fused.toml", "--folder", "fused", "-d", "cpu"]);
    let plain = losses(&bench, "plain");
    assert_alike("fused on one device", &losses(&bench, "fused"), &plain);
    // Words whole, stored in parts along one axis, along two, along one of two; split, so that the loss stays plain; positions
    // split; layers in stages.
    let meshes = [
        ("data=8", "data"),
        ("data=8", "fsdp"),
        ("a=2,b=4", "fsdp"),
        ("data=2,fsdp=4", "hybrid"),
        ("fsdp=2,model=4", "hybrid"),
        ("data=2,context=4", "hybrid"),
        ("stage=2,data=2", "hybrid"),
    ];
    for (n, (mesh, strategy)) in meshes.into_iter().enumerate() {
        let folder = format!("fused{n}");
        let args = ["train", "fused.toml", "--folder", &folder, "-d", "cpu", "--mesh", mesh, "--strategy", strategy];
        bench.expect(0, &args);
        assert_alike(&format!("fused on {mesh} by {strategy}"), &losses(&bench, &folder), &plain);
    }
}

#[test]
fn a_training_goes_on_on_another_mesh() {
    let bench = Bench::bare();
    let (_, file) = families().remove(1);
    bench.write("llama.toml", file);
    let train = |folder: &str, steps: &str, mesh: &[&str]| {
        let args = [&["train", "llama.toml", "--folder", folder, "-d", "cpu", "--with", steps][..], mesh].concat();
        bench.expect(0, &args)
    };
    train("whole", "train.steps=9", &[]);
    train("moved", "train.steps=3", &["--mesh", "data=8", "--strategy", "fsdp"]);
    let on = train("moved", "train.steps=6", &["--mesh", "fsdp=2,model=4"]);
    assert!(on.stderr.contains("resuming from step 3"), "{}", on.stderr);
    train("moved", "train.steps=9", &[]);
    assert_alike("moved from mesh to mesh", &losses(&bench, "moved"), &losses(&bench, "whole"));
    // Parts are written as they lie: eight pieces of what is split eight ways.
    let manifest = std::fs::read_dir(bench.path("moved/checkpoints")).unwrap().count();
    assert!(manifest > 0);
}

#[test]
fn meshes_that_cannot_be_are_refused_with_what_would_do() {
    let bench = Bench::bare();
    let (_, file) = families().remove(1);
    bench.write("llama.toml", file);
    let refused = |args: &[&str], parts: &[&str]| {
        let run = bench.expect(2, &[&["train", "llama.toml", "-d", "cpu"][..], args].concat());
        for part in parts.iter().chain(&["hint:"]) {
            assert!(run.stderr.contains(part), "{args:?}: {}", run.stderr);
        }
        run.stderr
    };
    for (mesh, strategy, parts) in [
        ("data=3", "hybrid", &["array 0 of the batch", "[8, 8]", "8 is not a multiple of 3"][..]),
        ("data=3,model=2", "hybrid", &["array 0 of the batch", "8 is not a multiple of 3"]),
        ("data=2,model=12", "megatron", &["attention.key.weight", "[2, 32, 16]", "16 is not a multiple of 12"]),
        ("stage=4,data=2", "hybrid", &["layers.", "[2, ", "2 is not a multiple of 4"]),
    ] {
        let stderr = refused(&["--mesh", mesh, "--strategy", strategy], parts);
        // What is named instead is a training that runs.
        let near = stderr.split(" would work").next().and_then(|text| text.rsplit("; ").next()).unwrap().to_string();
        let args = ["train", "llama.toml", "-d", "cpu", "--with", "train.steps=1", "--mesh", &near];
        bench.expect(0, &[&args[..], &["--strategy", strategy]].concat());
    }
    let on_slice =
        ["--export", "step.mlir", "--slice", "v5e-16", "--strategy", "megatron", "--with", "train.batch_size=16"];
    let mesh = |mesh: &'static str| [&on_slice[..], &["--mesh", mesh]].concat();
    let weight = "`layers.attention.key.weight` of shape [2, 32, 16]";
    let no_ring = ["not a ring on v5litepod-16", "no link closes dimension", weight, "data=4,model=4 would work"];
    refused(&mesh("data=4,ring:model=4"), &no_ring);
    refused(&mesh("data=4,model=2"), &["8 devices, but v5litepod-16 has 16", "data=8,model=2 would work"]);
    bench.expect(0, &[&["train", "llama.toml"][..], &mesh("data=4,model=4")].concat());
    refused(&["--mesh", "data=8", "--strategy", "megatron"], &["needs an axis `model`"]);
    refused(&["--mesh", "rows=8"], &["`rows` is not known"]);
    refused(&["--mesh", "data"], &["is not a mesh axis"]);
    refused(&["--strategy", "fsdp"], &["needs a mesh"]);
    refused(&["--mesh", "data=2", "--strategy", "magic"], &["`magic` is not a strategy", "megatron"]);
}

#[test]
fn a_step_for_a_mesh_is_written_without_devices() {
    let bench = Bench::bare();
    let (_, file) = families().remove(1);
    bench.write("llama.toml", file);
    let args = ["train", "llama.toml", "--mesh", "fsdp=4,model=2", "--export", "step.mlir"];
    let run = bench.expect(0, &args);
    assert!(run.stdout.contains("--slice v6e-8"), "{}", run.stdout);
    let module = hlo::read(&std::fs::read(bench.path("step.mlir")).unwrap()).unwrap();
    assert_eq!(module.meshes.len(), 1);
    let text = hlo::text::print(&module);
    assert!(text.contains("sdy.sharding_constraint"));
}
