//! Things a test needs that not every machine has: found, or reported as skipped, and never passed silently.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Something `./test` provides through the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The TPU compiler's library.
    Libtpu,
    /// The library of XLA's CPU plugin.
    XlaCpu,
    /// A Python interpreter with JAX.
    Python,
    /// A Python interpreter with an S3 server and Hugging Face's safetensors.
    StoresPython,
    /// A Python interpreter with tpu-info, OpenTelemetry's messages, Google's calculator of goodput and OpenAI's client.
    OperatePython,
    /// A Python interpreter with Google's client of the Cloud TPU API and a checker of Kubernetes' manifests.
    FleetPython,
    /// The published schema of JobSet.
    KubernetesSchemas,
    /// Programs exported from JAX.
    Corpus,
    /// Programs exported from PyTorch.
    TorchCorpus,
    /// A Python interpreter with PyTorch and transformers.
    TorchPython,
    /// A Python interpreter with PyTorch and a newer transformers.
    ModelsPython,
    /// Programs with the figures JAX reports for them.
    Reference,
    /// StableHLO's own self-checking programs.
    Conformance,
    /// A browser.
    Chromium,
    /// The etcd server.
    Etcd,
    /// The Prometheus server, with promtool beside it.
    Prometheus,
    /// Prometheus' Alertmanager.
    Alertmanager,
    /// OpenSSH's server.
    Sshd,
    /// Profiles measured on TPUs by others.
    Profiles,
    /// Archives of torch.export with what PyTorch answers.
    TorchExport,
    /// Models of well-known families that PyTorch exported, with its answers.
    TorchModels,
    /// A Python interpreter with XProf.
    XprofPython,
    /// Small models quantized by the tools that define the formats.
    Quantized,
    /// A Python interpreter with these tools.
    QuantizePython,
    /// A Python interpreter with JAX, libtpu, notebooks, mypy and ONNX, for the Python package.
    PackagePython,
    /// ONNX's own tests of ops and models.
    Onnx,
}

impl Needed {
    fn variable(self) -> &'static str {
        match self {
            Needed::Libtpu => "TPUBRIDGE_LIBTPU",
            Needed::XlaCpu => "TPUBRIDGE_XLA_CPU",
            Needed::Python => "TPUBRIDGE_PYTHON",
            Needed::StoresPython => "TPUBRIDGE_STORES_PYTHON",
            Needed::OperatePython => "TPUBRIDGE_OPERATE_PYTHON",
            Needed::FleetPython => "TPUBRIDGE_FLEET_PYTHON",
            Needed::KubernetesSchemas => "TPUBRIDGE_KUBERNETES_SCHEMAS",
            Needed::Corpus => "TPUBRIDGE_CORPUS",
            Needed::TorchCorpus => "TPUBRIDGE_TORCH_CORPUS",
            Needed::TorchPython => "TPUBRIDGE_TORCH_PYTHON",
            Needed::ModelsPython => "TPUBRIDGE_MODELS_PYTHON",
            Needed::Reference => "TPUBRIDGE_REFERENCE",
            Needed::Conformance => "TPUBRIDGE_CONFORMANCE",
            Needed::Chromium => "TPUBRIDGE_CHROMIUM",
            Needed::Etcd => "TPUBRIDGE_ETCD",
            Needed::Prometheus => "TPUBRIDGE_PROMETHEUS",
            Needed::Alertmanager => "TPUBRIDGE_ALERTMANAGER",
            Needed::Sshd => "TPUBRIDGE_SSHD",
            Needed::Profiles => "TPUBRIDGE_PROFILES",
            Needed::TorchExport => "TPUBRIDGE_TORCH_EXPORT",
            Needed::TorchModels => "TPUBRIDGE_TORCH_MODELS",
            Needed::XprofPython => "TPUBRIDGE_XPROF_PYTHON",
            Needed::Quantized => "TPUBRIDGE_QUANTIZED",
            Needed::QuantizePython => "TPUBRIDGE_QUANTIZE_PYTHON",
            Needed::PackagePython => "TPUBRIDGE_PACKAGE_PYTHON",
            Needed::Onnx => "TPUBRIDGE_ONNX",
        }
    }
}

/// Set by `./test`, which says so, where Chromium is not there and cannot be installed.
const NO_BROWSER: &str = "TPUBRIDGE_NO_BROWSER";

/// Names what tests may do without even where nothing may be skipped; `./test --may-skip` sets it.
const MAY_SKIP: &str = "TPUBRIDGE_MAY_SKIP";

/// The path of something needed, or `None` after reporting the skip.
///
/// Where nothing may be skipped (`CI` or `TPUBRIDGE_REQUIRE_ALL` is set), its absence fails the test, unless
/// `TPUBRIDGE_MAY_SKIP` names it. The conformance programs are the exception: they are not part of this repository, and
/// `./test` judges their absence at its end. Why a thing is absent stands in its variable with `_ABSENT` added.
#[track_caller]
pub fn require(test: &str, needed: Needed) -> Option<PathBuf> {
    let variable = needed.variable();
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.exists() => Some(path),
        Some(path) => panic!("{variable} names {}, which does not exist", path.display()),
        None if needed == Needed::Chromium && std::env::var_os(NO_BROWSER).is_some() => {
            eprintln!("{test} did not run: there is no browser, and ./test could not install one");
            None
        }
        None if needed == Needed::KubernetesSchemas && std::env::var_os(format!("{variable}_ABSENT")).is_some() => {
            eprintln!("{test} did not run: the schema of JobSet is not here, and ./test could not fetch it");
            None
        }
        None => {
            let strict = ["CI", "TPUBRIDGE_REQUIRE_ALL"].iter().any(|name| std::env::var_os(name).is_some());
            let may_skip =
                needed == Needed::Conformance || is_named(needed, &std::env::var(MAY_SKIP).unwrap_or_default());
            assert!(!strict || may_skip, "{variable} is not set and nothing may be skipped here");
            let reason = std::env::var(format!("{variable}_ABSENT")).unwrap_or_else(|_| "./test sets it".into());
            skip(test, &format!("{variable} is not set; {reason}"));
            None
        }
    }
}

/// Whether a list of names separated by spaces has this thing: its variable in lower case, without `TPUBRIDGE_`.
fn is_named(needed: Needed, names: &str) -> bool {
    let name = needed.variable().trim_start_matches("TPUBRIDGE_").to_lowercase();
    names.split_whitespace().any(|named| named == name)
}

/// Reports a skip on standard error and in the file `$TPUBRIDGE_SKIP_LOG` names.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED: {test}: {reason}");
    if let Some(log) = std::env::var_os("TPUBRIDGE_SKIP_LOG")
        && let Ok(mut file) = std::fs::File::options().create(true).append(true).open(log)
    {
        let _ = writeln!(file, "SKIPPED: {test}: {reason}");
    }
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}

#[test]
fn things_are_named_by_their_variables() {
    assert!(is_named(Needed::Conformance, "etcd conformance"));
    assert!(is_named(Needed::XlaCpu, "xla_cpu"));
    assert!(!is_named(Needed::Python, "torch_python stores_python"));
    assert!(!is_named(Needed::Etcd, ""));
}
