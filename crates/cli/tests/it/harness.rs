//! Runs `tpu` in an environment of the test's own: its cache, its home, no plugin but the one given.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::{Needed, require};

/// A place to run the command in.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    libtpu: Option<PathBuf>,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    /// Without a plugin.
    pub(crate) fn bare() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap(), libtpu: None }
    }

    /// With the TPU compiler; `None` after reporting the skip.
    pub(crate) fn with_libtpu(test: &str) -> Option<Bench> {
        let libtpu = require(test, Needed::Libtpu)?;
        Some(Bench { libtpu: Some(libtpu), ..Bench::bare() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// The command with its environment, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tpu"));
        command.args(args).env_clear().current_dir(self.folder.path());
        command.env("HOME", self.path("home")).env("TPUBRIDGE_CACHE", self.path("cache")).env("PATH", "/nowhere");
        if let Some(libtpu) = &self.libtpu {
            command.env("TPU_LIBRARY_PATH", libtpu);
        }
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs and expects an exit code, showing everything when it is another.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(code), "tpu {}\n{}{}", args.join(" "), ran.stdout, ran.stderr);
        ran
    }

    /// Runs with `--json`, expects success, and reads the record.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let ran = self.expect(0, &[args, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}\n{}", ran.stdout))
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut stderr = text(&output.stderr);
    // Whoever shows why a run failed shows this too.
    if let Some(signal) = output.status.signal() {
        stderr.push_str(&format!("\nthe process was killed by signal {signal}\n"));
    }
    Ran { code: output.status.code(), stdout: text(&output.stdout), stderr }
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A matmul that any TPU compiles in a second.
pub(crate) const MATMUL: &str = "module @matmul {
  func.func @main(%x: tensor<512x1024xbf16>, %w: tensor<1024x256xbf16>) -> tensor<512x256xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<512x1024xbf16>, tensor<1024x256xbf16>) -> tensor<512x256xbf16>
    return %0 : tensor<512x256xbf16>
  }
}
";
