//! The compile cache through the command: hits, misses explained, bundles, bad folders, many at once.

use testkit::repository;

use crate::harness::{Bench, MATMUL, arg, ran};

#[test]
fn a_second_compile_hits_and_a_bundle_moved_elsewhere_hits_too() {
    let Some(bench) = Bench::with_libtpu("a_second_compile_hits") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let compile = ["compile", arg(&program), "--slice", "v5e-4"];
    let first = bench.json(&compile);
    assert_eq!(first["cached"], false);
    let second = bench.json(&compile);
    assert_eq!((second["cached"].as_bool(), &second["report"]), (Some(true), &first["report"]));

    // Formatting, names and bytecode do not change what the program is.
    let renamed = bench.write("renamed.mlir", MATMUL.replace("%x", "%input").replace("\n      ", " "));
    assert_eq!(bench.json(&["compile", arg(&renamed), "--slice", "v5e-4"])["cached"], true);
    let bytecode = bench.path("matmul.mlir.bc");
    bench.expect(0, &["hlo", arg(&program), "--out", arg(&bytecode)]);
    assert_eq!(bench.json(&["compile", arg(&bytecode), "--slice", "v5e-4"])["cached"], true);

    let bundle = bench.path("warm.bundle");
    bench.expect(0, &["cache", "export", arg(&bundle)]);
    let elsewhere = bench.path("elsewhere");
    bench.expect(0, &["cache", "--cache-dir", arg(&elsewhere), "import", "--trust", arg(&bundle)]);
    let moved = bench.json(&[&compile[..], &["--cache-dir", arg(&elsewhere)]].concat());
    assert_eq!(moved["cached"], true);
    let stats = bench.json(&["cache", "stats"]);
    assert_eq!((stats["hits"].as_u64(), stats["misses"].as_u64()), (Some(3), Some(1)));
    assert!(bench.expect(0, &["cache", "list"]).stdout.contains("matmul"));
}

#[test]
fn a_miss_says_what_changed() {
    let Some(bench) = Bench::with_libtpu("a_miss_says_what_changed") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4", "--quick"]);
    let smaller = bench.write("smaller.mlir", MATMUL.replace("512x", "256x"));
    let text = bench.expect(0, &["compile", arg(&smaller), "--slice", "v5e-4", "--quick"]).stdout;
    assert!(text.contains("argument 0 dim 0: 512 → 256"), "{text}");
    let flagged = ["--flag", "xla_tpu_scoped_vmem_limit_kib=65536"];
    let text =
        bench.expect(0, &[&["compile", arg(&program), "--slice", "v5e-4", "--quick"], &flagged[..]].concat()).stdout;
    assert!(text.contains("flag xla_tpu_scoped_vmem_limit_kib: not set → 65536"), "{text}");
    let text = bench.expect(0, &["compile", arg(&program), "--slice", "v6e-4", "--quick"]).stdout;
    assert!(text.contains("target: v5e:2x2") && text.contains("→ v6e:2x2"), "{text}");
}

#[test]
fn a_corrupt_entry_is_compiled_again_with_one_warning() {
    let Some(bench) = Bench::with_libtpu("a_corrupt_entry_is_compiled_again") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let compile = ["compile", arg(&program), "--slice", "v5e-4", "--quick"];
    bench.expect(0, &compile);
    for shard in std::fs::read_dir(bench.path("cache/v1/entries")).unwrap() {
        for entry in std::fs::read_dir(shard.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    let ran = bench.expect(0, &compile);
    assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("unreadable"), "{}", ran.stderr);
    assert_eq!(bench.expect(0, &compile).stderr, "");
}

#[test]
fn a_cache_that_cannot_be_written_only_warns() {
    let Some(bench) = Bench::with_libtpu("a_cache_that_cannot_be_written") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let file = bench.write("not-a-folder", "");
    let ran = bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4", "--quick", "--cache-dir", arg(&file)]);
    assert!(ran.stderr.contains("warning: the result could not be kept"), "{}", ran.stderr);
    assert!(ran.stdout.contains("cache: not kept"), "{}", ran.stdout);
}

#[test]
fn a_full_disk_only_warns_and_leaves_nothing_behind() {
    let Some(bench) = Bench::with_libtpu("a_full_disk_only_warns") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let (small, tpu) = (bench.path("small"), env!("CARGO_BIN_EXE_tpu"));
    std::fs::create_dir(&small).unwrap();
    // A file system of 64 KiB in a mount namespace of the test's own: room for the folders, not for the executable.
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs {0} && {tpu} compile {1} --slice v5e-4 --cache-dir {0}; code=$?
         {tpu} compile {1} --slice v5e-4 --no-cache --out {0}/out.bin; echo \"out $?\"
         find {0} -type f -size +1k | sed 's/^/left: /'; exit $code",
        arg(&small),
        arg(&program)
    );
    let mut command = bench.command(&[]);
    let environment: Vec<_> = command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).env_clear();
    command
        .envs(environment.into_iter().filter_map(|(k, v)| Some((k, v?))))
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let Ok(output) = command.output() else {
        return testkit::skip("a_full_disk_only_warns", "unshare is not installed");
    };
    let ran = ran(output);
    if ran.stderr.contains("unshare failed") {
        return testkit::skip("a_full_disk_only_warns", "user namespaces are not allowed here");
    }
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("warning: the result could not be kept"), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("out 2") && ran.stderr.contains("hint: free some disk space"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert!(!ran.stdout.contains("left: "), "{}", ran.stdout);
}

#[test]
fn eight_at_once_share_one_cache_and_lose_nothing() {
    let Some(bench) = Bench::with_libtpu("eight_at_once_share_one_cache") else { return };
    let ffn = repository().join("examples/ffn.mlir");
    let same = bench.write("matmul.mlir", MATMUL);
    let other = bench.write("other.mlir", MATMUL.replace("512x", "128x"));
    let jobs: Vec<(&std::path::Path, &str)> = vec![
        (&same, "v5e-4"),
        (&same, "v5e-4"),
        (&same, "v5e-4"),
        (&other, "v5e-4"),
        (&other, "v6e-4"),
        (&ffn, "v5e-4"),
        (&ffn, "v5e-4"),
        (&same, "v4-8"),
    ];
    let children: Vec<_> = jobs
        .iter()
        .map(|(program, slice)| {
            bench
                .command(&["compile", arg(program), "--slice", slice, "--quick", "--json"])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (child, job) in children.into_iter().zip(&jobs) {
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{job:?}");
    }
    let stats = bench.json(&["cache", "stats"]);
    assert_eq!(stats["entries"], 5, "five different compilations");
    assert_eq!(stats["hits"].as_u64().unwrap() + stats["misses"].as_u64().unwrap(), 8);
    for (program, slice) in jobs {
        assert_eq!(bench.json(&["compile", arg(program), "--slice", slice, "--quick"])["cached"], true);
    }
}

/// Without the TPU compiler: an empty bundle is a bundle.
#[test]
fn a_bundle_is_imported_from_whom_one_trusts() {
    let bench = Bench::bare();
    let bundle = bench.path("warm.bundle");
    let import = ["cache", "import", arg(&bundle)];
    bench.expect(0, &["cache", "export", arg(&bundle)]);
    let refused = bench.expect(2, &import).stderr;
    assert!(refused.contains("is not signed") && refused.contains("--trust"), "{refused}");
    bench.expect(0, &["cache", "import", "--trust", arg(&bundle)]);

    let refused = bench.expect(2, &["cache", "export", arg(&bundle), "--sign"]).stderr;
    assert!(refused.contains("tpu key new"), "{refused}");
    let made = bench.json(&["key", "new", "--comment", "ours"]);
    let id = made["key"]["id"].as_str().unwrap();
    assert!(bench.expect(2, &["key", "new"]).stderr.contains("signing.key"), "nothing is written over");
    assert!(bench.json(&["cache", "export", arg(&bundle), "--sign"])["signed_by"] == id);
    let refused = bench.expect(2, &import).stderr;
    assert!(refused.contains(id) && refused.contains("is not trusted here"), "{refused}");

    bench.expect(0, &["key", "trust", made["public_file"].as_str().unwrap()]);
    assert_eq!(bench.json(&import)["signed_by"], id);
    assert!(bench.expect(0, &["key", "list"]).stdout.contains("ours"));
    bench.expect(0, &["key", "verify", arg(&bundle)]);
    let mut bytes = std::fs::read(&bundle).unwrap();
    bytes.push(0);
    std::fs::write(&bundle, &bytes).unwrap();
    assert!(bench.expect(2, &["key", "verify", arg(&bundle)]).stderr.contains("the signature is wrong"));
    bench.expect(2, &import);

    bench.expect(0, &["key", "sign", arg(&bundle)]);
    bench.expect(0, &["key", "distrust", id]);
    bench.expect(1, &["key", "distrust", id]);
    bench.expect(2, &["key", "verify", arg(&bundle)]);
    let line = made["key"]["public_key"].as_str().unwrap();
    bench.expect(0, &["key", "verify", arg(&bundle), "--key", line]);
}

#[test]
fn a_cache_folder_that_others_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::bare();
    let folder = bench.path("cache");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = bench.expect(2, &["cache", "list"]).stderr;
    assert!(refused.contains("machine code") && refused.contains("chmod -R go-w"), "{refused}");
}
