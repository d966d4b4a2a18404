//! How a training's file says the batch and the threads that prepare it; neither the one nor the other changes what is learned.

use crate::harness::{Bench, arg};
use crate::mesh_training::{assert_alike, llama, losses};

/// The number of examples in the file of [`llama`].
const BATCH: &str = "batch_size = 8\n";

/// Trains a file on the CPU; the losses of its steps.
fn trained(bench: &Bench, file: &str, folder: &str, more: &[&str]) -> Vec<f64> {
    bench.expect(0, &[&["train", file, "--folder", folder, "-d", "cpu"][..], more].concat());
    losses(bench, folder)
}

#[test]
fn a_batch_may_be_given_for_each_chip() {
    let bench = Bench::bare();
    let per_chip = |count: &str| llama().replace(BATCH, &format!("batch_size_per_chip = {count}\n"));
    assert_ne!(per_chip("2"), llama());
    bench.write("whole.toml", llama());
    let whole = trained(&bench, "whole.toml", "whole", &[]);
    // Eight on one device, two on each of four.
    bench.write("one.toml", per_chip("8"));
    assert_eq!(trained(&bench, "one.toml", "one", &[]), whole);
    bench.write("four.toml", per_chip("2"));
    assert_alike("on four devices", &trained(&bench, "four.toml", "four", &["--mesh", "data=4"]), &whole);
    // The batch is that of all devices, so the training goes on where it is given as such.
    let on = bench.json(&["train", "whole.toml", "--folder", "four", "-d", "cpu", "--with", "train.steps=5"]);
    assert_eq!((&on["first_step"], &on["step"]), (&4.into(), &5.into()));
    // What the command line says replaces what the file says.
    let two = ["--with", "train.batch_size_per_chip=8"];
    assert_eq!(trained(&bench, "whole.toml", "replaced", &two), whole);
}

#[test]
fn a_batch_for_each_chip_of_a_slice() {
    let bench = Bench::bare();
    bench.write("step.toml", llama().replace(BATCH, "batch_size_per_chip = 2\n"));
    let program = bench.path("step.mlir");
    for (slice, more, batch) in [
        ("v5e-4", &[][..], 8),
        ("v5e-4", &["--mesh", "fsdp=4", "--strategy", "fsdp"], 8),
        ("2xv5e-4", &["--mesh", "dcn:replica=2,fsdp=4"], 16),
    ] {
        let export = ["train", "step.toml", "--export", arg(&program), "--slice", slice];
        bench.expect(0, &[&export[..], more].concat());
        let text = bench.expect(0, &["hlo", arg(&program), "--print"]).stdout;
        assert!(text.contains(&format!("tensor<{batch}x8xi32>")), "{slice} {more:?}\n{text}");
    }
}

#[test]
fn one_of_the_two_batches_is_given() {
    let bench = Bench::bare();
    let refuse = |batch: &str, expected: &str| {
        bench.write("wrong.toml", llama().replace(BATCH, batch));
        let ran = bench.expect(2, &["train", "wrong.toml", "-d", "cpu"]);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{expected}\n{}", ran.stderr);
    };
    refuse("", "not neither");
    refuse("batch_size = 8\nbatch_size_per_chip = 8\n", "not both");
    refuse("batch_size_per_chip = 0\n", "is 0");
    refuse("batch_size_per_chip = 3\ngradient_accumulation_steps = 2\n", "not a multiple");
}

#[test]
fn the_number_of_workers_changes_no_loss() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let of = |workers: usize| {
        let workers = format!("data.workers={workers}");
        trained(&bench, "llama.toml", &workers, &["--with", &workers])
    };
    assert_eq!(of(1), of(4));
    // Nor is it part of the training: it goes on with another number.
    let more = ["train", "llama.toml", "--folder", "data.workers=4", "-d", "cpu", "--with", "data.workers=2"];
    assert_eq!(bench.json(&[&more[..], &["--with", "train.steps=6"]].concat())["first_step"], 4);
    for (wrong, expected) in [
        ("data.workers=0", "data.workers is 0"),
        ("data.decode_threads=2", "data.decode_threads is for images"),
        ("data.workerz=2", "workerz"),
    ] {
        let ran = bench.expect(2, &["train", "llama.toml", "-d", "cpu", "--with", wrong]);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{expected}\n{}", ran.stderr);
    }
}

/// A grey PNG of one pixel: everything but the pixels and the two checksums over them.
fn png(deflated: u8, checksums: [u8; 8]) -> Vec<u8> {
    let head =
        b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\x0aIDAT\x78\xda\x63";
    let end = b"\0\0\0\0IEND\xae\x42\x60\x82";
    [&head[..], &[deflated, 0, 0], &checksums, end].concat()
}

/// Two classes, and an image of each.
pub(crate) fn classes() -> [(&'static str, Vec<u8>); 2] {
    [
        ("dark", png(0x50, [0x00, 0x22, 0x00, 0x21, 0x4e, 0x67, 0x1d, 0x86])),
        ("bright", png(0x78, [0x00, 0xe2, 0x00, 0xe1, 0xb8, 0xfe, 0x3e, 0x8d])),
    ]
}

/// A training on the folder `images`.
pub(crate) const IMAGES: &str = "[model]\nmodel_type = \"resnet\"\nstages = [1]\nblock = \"plain\"\nwidth = 4\nnum_channels = 1\nnum_classes = 2\n\
         norm = { group = 2 }\nstem = \"small\"\n\n[data]\nkind = \"images\"\nfolder = \"images\"\nsize = 8\n\
         validation_fraction = 0.0\ncrop_padding = 2\n\n[optimizer]\nname = \"sgd\"\n\
         learning_rate = 1e-2\n\n[train]\nsteps = 6\nbatch_size = 4\nlog_every = 1\n";

#[test]
fn threads_that_decode_images_change_no_loss() {
    let bench = Bench::bare();
    for (class, image) in classes() {
        std::fs::create_dir_all(bench.path("images").join(class)).unwrap();
        for n in 0..8 {
            bench.write(&format!("images/{class}/{n}.png"), &image);
        }
    }
    bench.write("images.toml", IMAGES);
    let of = |workers: usize, threads: usize| {
        let (workers, threads) = (format!("data.workers={workers}"), format!("data.decode_threads={threads}"));
        trained(&bench, "images.toml", &format!("{workers},{threads}"), &["--with", &workers, "--with", &threads])
    };
    let alone = of(1, 1);
    assert_eq!(alone.len(), 6);
    assert_eq!(of(4, 3), alone);
    assert_eq!(trained(&bench, "images.toml", "as usual", &[]), alone);
}

const TOKENS: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 32
n_positions = 16
n_embd = 16
n_layer = 1
n_head = 2

[data]
kind = "tokens"
files = ["tokens.bin"]
sequence_length = 8

[optimizer]
name = "sgd"
learning_rate = 1e-2

[train]
steps = 4
batch_size = 2
log_every = 1
"#;

#[test]
fn data_of_the_same_name_and_size_with_other_contents_are_refused() {
    let bench = Bench::bare();
    bench.write("tokens.toml", TOKENS);
    let mut tokens: Vec<u8> = (0..4000u16).flat_map(|n| (n % 32).to_le_bytes()).collect();
    bench.write("tokens.bin", &tokens);
    let train = |code, steps: &str| {
        let steps = format!("train.steps={steps}");
        bench.expect(code, &["train", "tokens.toml", "--folder", "run", "-d", "cpu", "--with", &steps]).stderr
    };
    train(0, "4");
    train(0, "5");
    tokens[4000] ^= 1;
    bench.write("tokens.bin", &tokens);
    let refused = train(2, "6");
    assert!(refused.contains("of another training: the contents of the data"), "{refused}");
    assert!(refused.contains("hint: "), "{refused}");
    // As they were: it goes on.
    tokens[4000] ^= 1;
    bench.write("tokens.bin", &tokens);
    train(0, "6");
}

/// Everything that is written may be read by whom the umask lets, and by nobody else.
#[test]
fn files_get_the_permissions_of_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::bare();
    bench.write("text.txt", "some text that is long enough. ".repeat(50));
    let text =
        TOKENS.replace("kind = \"tokens\"", "kind = \"text\"\ntokenizer = \"bytes\"").replace("tokens.bin", "text.txt");
    bench.write("text.toml", text.replace("vocab_size = 32", "vocab_size = 256"));
    for (umask, expected) in [("027", 0o640), ("002", 0o664)] {
        let folder = format!("run{umask}");
        let own = bench.command(&["train", "text.toml", "--folder", &folder, "-d", "cpu"]);
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", "umask \"$0\"; exec \"$@\"", umask]).arg(own.get_program()).args(own.get_args());
        command.current_dir(own.get_current_dir().unwrap());
        command.env("HOME", bench.path("home")).env("TPUBRIDGE_CACHE", bench.path("cache").join(umask));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut pending = vec![bench.path(&folder), bench.path("cache").join(umask)];
        let mut names = Vec::new();
        while let Some(path) = pending.pop() {
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            for entry in entries.map(Result::unwrap) {
                if entry.path().is_dir() {
                    pending.push(entry.path());
                    continue;
                }
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, expected, "{} is {mode:o} with umask {umask}", entry.path().display());
                names.push(entry.file_name().into_string().unwrap());
            }
        }
        for written in ["manifest-", "owner-", ".safetensors", ".bin", "metrics.jsonl", "tfevents"] {
            assert!(names.iter().any(|name| name.contains(written)), "no {written} in {names:?}");
        }
    }
}
