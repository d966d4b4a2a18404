//! The Python package: its wheel, installed into a fresh environment and used as from JAX, PyTorch and notebooks.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Needed, repository, require};

/// A fresh environment with the wheel in it, and with the packages of another environment.
struct Installed {
    folder: tempfile::TempDir,
    python: PathBuf,
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{command:?}\n{}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

impl Installed {
    /// Packs what cargo built and installs it beside the packages of `beside`.
    fn beside(beside: &Path) -> Installed {
        let folder = tempfile::tempdir().unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_tpu"));
        let binaries = folder.path().join("binaries");
        std::fs::create_dir(&binaries).unwrap();
        let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, binaries.join(name)).unwrap();
        link(built, "tpu");
        link(&built.with_file_name("deps").join("libcpu_plugin.so"), "libcpu_plugin.so");
        let pack = repository().join("scripts/wheel");
        let wheel = output(Command::new(beside).arg(pack).arg(&binaries).arg(folder.path()).arg("--stored"));
        let environment = folder.path().join("environment");
        output(Command::new(beside).args(["-m", "venv", "--without-pip"]).arg(&environment));
        let python = environment.join("bin/python");
        let purelib = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let packages = output(Command::new(&python).args(["-c", purelib]));
        let others = output(Command::new(beside).args(["-c", purelib]));
        // By `site`, which also reads the `.pth` files there.
        let line = format!("import site; site.addsitedir({:?})\n", others.trim());
        std::fs::write(Path::new(packages.trim()).join("others.pth"), line).unwrap();
        let pip = ["-m", "pip", "--disable-pip-version-check", "--python"];
        let install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel.trim()];
        output(Command::new(beside).args(pip).arg(&python).args(install));
        Installed { folder, python }
    }

    /// Runs a part of the tests in Python.
    #[track_caller]
    fn check(&self, part: &str, files: &[&str]) {
        let script = repository().join("crates/testkit/python/python_package.py");
        let home = self.folder.path().join("home");
        let work = self.folder.path().join("work");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&work).unwrap();
        let path = format!("{}:/usr/bin:/bin", self.python.parent().unwrap().display());
        let mut command = Command::new(&self.python);
        command.arg(script).arg(part).arg(&work).args(files.iter().map(|file| repository().join(file)));
        command.env_clear().env("PATH", path).env("HOME", &home).env("TPUBRIDGE_CACHE", home.join("cache"));
        command.env("JAX_PLATFORMS", "cpu").env("PYTHONDONTWRITEBYTECODE", "1").env("TPUBRIDGE_AUDIT_LOG", "off");
        if part == "torch" {
            command.envs(std::env::var_os("TPUBRIDGE_LIBTPU").map(|library| ("TPU_LIBRARY_PATH", library)));
        }
        let said = output(&mut command);
        assert!(said.contains(&format!("ok {part}")), "{said}");
    }
}

#[test]
fn the_wheel_asks_the_tpu_compiler() {
    let Some(python) = require("the_wheel_asks_the_tpu_compiler", Needed::PackagePython) else { return };
    Installed::beside(&python).check("commands", &[]);
}

#[test]
fn the_wheel_is_a_device_of_jax() {
    let Some(python) = require("the_wheel_is_a_device_of_jax", Needed::PackagePython) else { return };
    Installed::beside(&python).check("devices", &[]);
}

#[test]
fn the_wheel_takes_modules_of_pytorch() {
    let Some(python) = require("the_wheel_takes_modules_of_pytorch", Needed::TorchPython) else { return };
    Installed::beside(&python).check("torch", &[]);
}

#[test]
fn documents_for_python_work_as_printed() {
    let Some(python) = require("documents_for_python_work_as_printed", Needed::PackagePython) else { return };
    Installed::beside(&python).check("documents", &["docs/tutorials/from-python.md", "examples/fit_a_step.ipynb"]);
}

#[test]
fn types_of_the_package_hold() {
    let Some(python) = require("types_of_the_package_hold", Needed::PackagePython) else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut mypy = Command::new(python);
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(cache.path()).arg("tpubridge");
    output(mypy.current_dir(repository().join("python")));
}
