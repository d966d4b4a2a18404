//! How a command ends: yes, no, or an error with its causes and the remedy.

use std::error::Error;

use crate::log;

/// What a command that worked says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done; it fits; it is there.
    Yes,
    /// Done, and the answer is no.
    No,
    /// Ended by somebody else before the end, everything saved: the same command goes on.
    Preempted,
}

/// An error as the user sees it.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Box<dyn Error>,
    hint: Option<String>,
}

impl Failure {
    /// An error without a known remedy.
    pub(crate) fn new(error: impl Into<Box<dyn Error>>) -> Self {
        Failure { error: error.into(), hint: None }
    }

    /// With the remedy.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints the error, one line per cause, and the remedy; one record where the log is for programs.
    pub(crate) fn print(&self) {
        let causes = std::iter::successors(self.error.source(), |&error| error.source());
        if !log::is_human() {
            let message = causes.fold(format!("error: {}", self.error), |text, cause| format!("{text}: {cause}"));
            let hint = self.hint.iter().map(|hint| ("hint".to_string(), hint.as_str().into()));
            return log::say_with(&message, &hint.collect::<Vec<_>>());
        }
        eprintln!("error: {}", self.error);
        causes.for_each(|cause| eprintln!("  caused by: {cause}"));
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
    }
}

impl From<log::LogRefused> for Failure {
    fn from(error: log::LogRefused) -> Self {
        Failure::new(error).hint("--log and $TPUBRIDGE_LOG take error, warn, info, debug, trace, or target=level")
    }
}

impl From<compile::CompileError> for Failure {
    fn from(error: compile::CompileError) -> Self {
        let hint = runtime_hint(&error);
        Failure { error: error.into(), hint }
    }
}

impl From<plan::Error> for Failure {
    fn from(error: plan::Error) -> Self {
        match error {
            plan::Error::Compile(error) => error.into(),
            plan::Error::Program(error) => error.into(),
            error => {
                let hint = Some(error.remedy());
                Failure { error: error.into(), hint }
            }
        }
    }
}

impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        let hint = Some(error.remedy());
        Failure { error: error.into(), hint }
    }
}

impl From<train::Error> for Failure {
    fn from(error: train::Error) -> Self {
        match error {
            train::Error::Plan(error) => (*error).into(),
            train::Error::Runtime(error) => error.into(),
            error => {
                let hint = error.remedy();
                Failure { error: error.into(), hint }
            }
        }
    }
}

impl From<infer::Error> for Failure {
    fn from(error: infer::Error) -> Self {
        match error {
            infer::Error::Runtime(error) => error.into(),
            infer::Error::Training(error) => (*error).into(),
            error => {
                let hint = error.remedy();
                Failure { error: error.into(), hint }
            }
        }
    }
}

impl From<quantize::Error> for Failure {
    fn from(error: quantize::Error) -> Self {
        let remedy = error.remedy();
        Failure::new(error).hint(remedy)
    }
}

impl From<torch::Error> for Failure {
    fn from(error: torch::Error) -> Self {
        let remedy = error.remedy().to_string();
        Failure::new(error).hint(remedy)
    }
}

impl From<onnx::Error> for Failure {
    fn from(error: onnx::Error) -> Self {
        let remedy = error.remedy().to_string();
        Failure::new(error).hint(remedy)
    }
}

impl From<fleet::Error> for Failure {
    fn from(error: fleet::Error) -> Self {
        let hint = error.remedy();
        Failure { error: error.into(), hint }
    }
}

impl From<operate::profile::Error> for Failure {
    fn from(error: operate::profile::Error) -> Self {
        let hint = error.remedy();
        Failure::new(error).hint(hint)
    }
}

impl From<operate::diagnose::DiagnoseError> for Failure {
    fn from(error: operate::diagnose::DiagnoseError) -> Self {
        let hint = error.remedy();
        Failure::new(error).hint(hint)
    }
}

impl From<trust::SignatureError> for Failure {
    fn from(error: trust::SignatureError) -> Self {
        let hint = error.remedy();
        Failure::new(error).hint(hint)
    }
}

impl From<chips::Error> for Failure {
    fn from(error: chips::Error) -> Self {
        Failure::new(error).hint("`tpu chips` lists generations, `tpu chips v5e --slices` the slices of one")
    }
}

impl From<hlo::Error> for Failure {
    fn from(error: hlo::Error) -> Self {
        let hint = program_hint(&error).map(str::to_string);
        Failure { error: error.into(), hint }
    }
}

/// Reading or writing a file of the user's failed.
pub(crate) fn file(doing: &str, path: &std::path::Path, source: std::io::Error) -> Failure {
    let hint = match source.kind() {
        std::io::ErrorKind::NotFound => Some("check the path"),
        std::io::ErrorKind::PermissionDenied => Some("check the permissions"),
        std::io::ErrorKind::StorageFull => Some("free some disk space; nothing was left half-written"),
        _ => None,
    };
    let failure = Failure::new(format!("{doing} {}: {source}", path.display()));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn program_hint(error: &hlo::Error) -> Option<&'static str> {
    Some(match error {
        hlo::Error::Syntax { .. } => {
            "expected StableHLO text or a portable artifact: `jax.jit(f).lower(...).as_text()` or `jax.export` make them"
        }
        hlo::Error::Bytecode { .. } => {
            "the file is cut short, damaged, or newer than this program; export it again with an older StableHLO version"
        }
        hlo::Error::Verify(_) => {
            "the exporter produced an invalid program; `tpu hlo FILE --print --no-verify` shows it"
        }
        _ => return None,
    })
}

fn runtime_hint(error: &compile::CompileError) -> Option<String> {
    use compile::CompileError as E;
    Some(match error {
        E::Program(error) => return program_hint(error).map(str::to_string),
        E::Unsupported(_) => "the TPU compiler would abort on this; change the program as the findings say".into(),
        E::Devices(_) => "use a larger --slice, or fewer --partitions or --replicas".into(),
        E::Flag { similar, .. } if !similar.is_empty() => format!("did you mean {}?", similar.join(" or ")),
        E::Flag { .. } => "flags are given as --flag NAME=VALUE; names and values are the compiler's own".into(),
        E::Refused { .. } => "the compiler names the op; `--verbose` shows everything it prints".into(),
        E::OutOfMemory(_) => {
            "a larger slice, more partitions, a smaller batch, rematerialization or donated arguments".into()
        }
        E::Bundle { .. } => "make the bundle again with `tpu cache export`".into(),
        E::CacheFolder(distrusted) => distrusted.remedy(),
        E::Unsigned(_) => "ask for its signature (FILE.minisig), or import it with --trust if you know who made it: \
                           a bundle is machine code that runs as you"
            .into(),
        E::Signature { source, .. } => source.remedy().into(),
        E::NoCacheFolder => "set $HOME or $TPUBRIDGE_CACHE, or give --cache-dir".into(),
        E::Plugin(_) => "`tpu doctor` says what is wrong with the plugin; `tpu setup` installs a tested one".into(),
        E::Timeout(_) => "raise --compilation-timeout-seconds, lower --optimization-level, or use --quick".into(),
        E::MemoryLimit { .. } => "raise --memory-limit, or use --quick".into(),
        E::Crashed { log, .. } => {
            let last = last_words(log);
            if last.is_empty() {
                "run again with --verbose; nothing was kept of this compilation".into()
            } else {
                format!("its last words were:\n{last}")
            }
        }
        E::Interrupted => "nothing was kept of this compilation".into(),
        E::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => "free some disk space".into(),
        _ => return None,
    })
}

/// The lines of a crash log that tell why: the failed check, else the last lines.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let mut chosen: Vec<&str> = Vec::new();
    for line in lines.iter().copied() {
        let telling = line.contains("Check failed") || line.contains("ERROR:") || line.contains("LLVM ERROR");
        if telling && !chosen.contains(&line) && chosen.len() < 3 {
            chosen.push(line);
        }
    }
    if chosen.is_empty() {
        chosen = lines[lines.len().saturating_sub(5)..].to_vec();
    }
    chosen.iter().map(|l| format!("  {}", l.chars().take(300).collect::<String>())).collect::<Vec<_>>().join("\n")
}
