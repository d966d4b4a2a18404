//! `tpu train --mesh stage=…`: layers as stages of a pipeline learn what one device learns, in the TPU compiler's program too.

use crate::harness::{Bench, arg};
use crate::mesh_training::{assert_alike, families, llama, losses};

/// The families with twice the layers: four stages have one each.
fn deep(text: &str) -> String {
    text.replace("num_hidden_layers = 2", "num_hidden_layers = 4").replace("n_layer = 2", "n_layer = 4")
}

#[test]
fn stages_learn_what_one_device_learns() {
    let bench = Bench::bare();
    for (family, file) in families() {
        if family == "resnet" {
            continue;
        }
        let path = format!("{family}.toml");
        bench.write(&path, deep(&file));
        bench.expect(0, &["train", &path, "--folder", family, "-d", "cpu"]);
        let plain = losses(&bench, family);
        let mut meshes: Vec<Vec<&str>> = vec![
            vec!["stage=2,data=2,model=2"],
            vec!["stage=4,data=2", "--strategy", "pipeline", "--with", "run.remat=full"],
        ];
        match family {
            "llama" => meshes.extend([
                vec!["stage=2,fsdp=2,model=2", "--with", "run.remat=dots_with_no_batch_dims", "--microbatches", "2"],
                vec!["stage=2,data=2", "--microbatches", "1"],
                vec!["stage=2,data=2", "--with", "train.gradient_accumulation_steps=2"],
                vec!["stage=2,data=2,model=2", "--with", "run.attention=flash", "--with", "run.remat={every_layers=2}"],
            ]),
            // Room for every position in every expert.
            "experts" | "grouped" | "latent" => meshes.push(vec!["stage=2,expert=4"]),
            _ => {}
        }
        for (n, mesh) in meshes.into_iter().enumerate() {
            let folder = format!("{family}{n}");
            let args = [&["train", &path, "--folder", &folder, "-d", "cpu", "--mesh"][..], &mesh].concat();
            bench.expect(0, &args);
            assert_alike(&format!("{family} on {mesh:?}"), &losses(&bench, &folder), &plain);
        }
    }
}

#[test]
fn a_training_goes_on_without_stages() {
    let bench = Bench::bare();
    bench.write("llama.toml", deep(&llama()));
    let train = |folder: &str, steps: &str, mesh: &[&str]| {
        let args = [&["train", "llama.toml", "--folder", folder, "-d", "cpu", "--with", steps][..], mesh].concat();
        bench.expect(0, &args)
    };
    train("whole", "train.steps=6", &[]);
    train("moved", "train.steps=2", &["--mesh", "stage=4,data=2"]);
    let on = train("moved", "train.steps=4", &[]);
    assert!(on.stderr.contains("resuming from step 2"), "{}", on.stderr);
    train("moved", "train.steps=6", &["--mesh", "stage=2,data=2", "--microbatches", "2"]);
    assert_alike("moved from stages to one device and back", &losses(&bench, "moved"), &losses(&bench, "whole"));
}

#[test]
fn stages_that_cannot_be_are_refused_with_what_would_work() {
    let bench = Bench::bare();
    bench.write("llama.toml", deep(&llama()));
    let (_, resnet) = families().pop().unwrap();
    bench.write("resnet.toml", resnet);
    let refused = |args: &[&str], parts: &[&str]| {
        let run = bench.expect(2, &[&["train"][..], args, &["-d", "cpu"]].concat());
        for part in parts.iter().chain(&["hint:"]) {
            assert!(run.stderr.contains(part), "{args:?}: {}", run.stderr);
        }
    };
    refused(&["llama.toml", "--mesh", "stage=8"], &["layers.", "[4, ", "4 is not a multiple of 8"]);
    let three = ["llama.toml", "--mesh", "stage=2", "--microbatches", "3"];
    refused(&three, &["a batch of 8 examples", "[8, 8, 32]", "3 equal microbatches", "2 would work"]);
    let eight = ["llama.toml", "--mesh", "stage=2,data=2", "--microbatches", "8"];
    refused(&eight, &["that 2 devices share (data)", "4 would work"]);
    let small = ["llama.toml", "--mesh", "stage=4,data=2", "--with", "train.batch_size=4"];
    refused(&small, &["a batch of 4 examples", "a batch of 16 would work"]);
    refused(&["llama.toml", "--mesh", "data=2", "--microbatches", "2"], &["no axis `stage`"]);
    refused(&["llama.toml", "--microbatches", "2"], &["a mesh with pipeline stages"]);
    refused(&["llama.toml", "--mesh", "stage=2", "--microbatches", "0"], &["number of microbatches is 0"]);
    refused(&["llama.toml", "--mesh", "data=8", "--strategy", "pipeline"], &["needs an axis `stage`"]);
    refused(&["resnet.toml", "--mesh", "stage=2,data=4"], &["has pipeline stages", "no stacked layers"]);
    let odd = ["llama.toml", "--mesh", "stage=2", "--with", "run.remat={every_layers=3}"];
    refused(&odd, &["every_layers = 3", "2 layers of each of the 2 pipeline stages"]);
}

/// The step as text.
fn step(bench: &Bench, args: &[&str]) -> String {
    bench.expect(0, &[&["train", "llama.toml", "--export", "step.mlir"][..], args].concat());
    hlo::text::print(&hlo::read(&std::fs::read(bench.path("step.mlir")).unwrap()).unwrap())
}

#[test]
fn stages_keep_what_layers_keep() {
    let bench = Bench::bare();
    bench.write("llama.toml", deep(&llama()));
    let mut before = None;
    for remat in ["none", "dots_with_no_batch_dims", "full"] {
        let with = format!("run.remat={remat}");
        // The body of a layer is written once in both, so that recomputation shows in the number of matmuls.
        let flops =
            |mesh: &[&str]| step(&bench, &[&["--with", &with], mesh].concat()).matches("stablehlo.dot_general").count();
        let plain = flops(&[]);
        assert_eq!(flops(&["--mesh", "stage=2"]), plain, "{remat}");
        assert_ne!(before.replace(plain), Some(plain), "{remat} rematerializes as much as the policy before it");
    }
}

#[test]
fn attention_in_stages_is_a_kernel_of_each_device() {
    let bench = Bench::bare();
    bench.write("llama.toml", deep(&llama()));
    let text = step(&bench, &["--mesh", "stage=2,data=2,model=2", "--with", "run.attention=flash"]);
    for name in ["\"tpubridge.flash_attention\"", "\"tpubridge.flash_attention_backward\""] {
        let calls: Vec<&str> = text.lines().filter(|line| line.contains(name)).collect();
        assert!(!calls.is_empty(), "{name}");
        // Of 8 examples, 8 heads: four microbatches of 2 over two devices of `data`, heads over two of `model`.
        assert!(calls.iter().all(|line| line.contains("tensor<1x4x8x4xf32>")), "{calls:?}");
    }
}

#[test]
fn stages_pass_on_by_permutation_on_tpus() {
    let Some(bench) = Bench::with_libtpu("stages_pass_on_by_permutation_on_tpus") else { return };
    let sizes = deep(&llama())
        .replace("hidden_size = 32", "hidden_size = 256")
        .replace("sequence_length = 8", "sequence_length = 16");
    bench.write("llama.toml", sizes);
    let file = bench.path("step.mlir");
    let collectives = |mesh: &str| {
        bench.expect(0, &["train", "llama.toml", "--mesh", mesh, "--export", arg(&file)]);
        let hlo = bench.expect(0, &["compile", arg(&file), "--slice", "v5e-4", "--emit", "hlo"]).stdout;
        let count = |name: &str| hlo.lines().filter(|line| line.contains(&format!(" {name}("))).count();
        let permutes = count("collective-permute") + count("collective-permute-start");
        (permutes, count("all-gather") + count("all-gather-start"))
    };
    let (permutes, gathers) = collectives("stage=4");
    // Forward and backward.
    assert!(permutes >= 2, "{permutes} permutations");
    // Layers stay where they are: at most the embedded batch is gathered for the first stage, and its gradient.
    assert!(gathers <= 4, "{gathers} gathers");
}
