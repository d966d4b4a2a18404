//! What the compiler's errors mean: too large, a bad flag, or a program it does not take.

use crate::error::{CompileError, OutOfMemory};
use crate::flags;
use crate::worker::Failure;

/// Turns a failure of the compiler's process into an error the caller can act on.
pub(crate) fn classify(failure: Failure) -> CompileError {
    match failure {
        Failure::Plugin(message) => CompileError::Plugin(message),
        Failure::Request(message) => CompileError::Devices(message),
        Failure::Status { code, message, call } => {
            if let Some(oom) = out_of_memory(&code, &message) {
                return CompileError::OutOfMemory(oom);
            }
            if let Some(flag) = unknown_flag(&message) {
                return CompileError::Flag { similar: flags::similar(flag), message };
            }
            if message.contains("into flag") {
                return CompileError::Flag {
                    similar: Vec::new(),
                    message: message.trim_end_matches([' ', ':']).to_string(),
                };
            }
            if call.contains("Initialize") || code == "UNIMPLEMENTED" && !message.contains("HLO") {
                return CompileError::Plugin(format!("{call}: {code}: {message}"));
            }
            CompileError::Refused { code, message }
        }
    }
}

/// Turns an error of a plugin in this process into ours.
pub fn of_plugin(error: pjrt::Error) -> CompileError {
    classify(crate::worker::failure(error))
}

fn unknown_flag(message: &str) -> Option<&str> {
    let rest = &message[message.find("No such compile option: '")? + "No such compile option: '".len()..];
    rest.split('\'').next()
}

fn out_of_memory(code: &str, message: &str) -> Option<OutOfMemory> {
    if code != "RESOURCE_EXHAUSTED" {
        return None;
    }
    let space = if message.contains("E1001") || message.to_lowercase().contains("vmem") { "VMEM" } else { "HBM" };
    let sizes = sizes(message);
    let (needed, available) = match space {
        "HBM" => (sizes.first().copied(), sizes.get(1).copied()),
        _ => (after(message, "size ").and_then(size), after(message, "limit ").and_then(size)),
    };
    Some(OutOfMemory {
        space: space.to_string(),
        needed_bytes: needed,
        available_bytes: available,
        message: message.trim().to_string(),
    })
}

/// Sizes in parentheses, as in `(22.54G)`.
fn sizes(message: &str) -> Vec<u64> {
    message.split('(').skip(1).filter_map(|rest| size(rest.split(')').next()?)).collect()
}

fn after<'a>(message: &'a str, word: &str) -> Option<&'a str> {
    message.find(word).and_then(|at| message[at + word.len()..].split([' ', ',']).next())
}

/// A size as the compiler writes it: a number and a binary unit.
fn size(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('.');
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let scale = match text[digits..].trim() {
        "" | "B" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1024.0 * 1024.0,
        "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "T" | "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: &str, message: &str) -> CompileError {
        classify(Failure::Status { call: "PJRT_Compile".into(), code: code.into(), message: message.into() })
    }

    #[test]
    fn memory_overflows_carry_their_figures() {
        let hbm = "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries \
                   (22.50G) exceeds available HBM (15.75G). HLO module: jit_step.";
        match status("RESOURCE_EXHAUSTED", hbm) {
            CompileError::OutOfMemory(oom) => {
                assert_eq!(oom.space, "HBM");
                assert_eq!(oom.needed_bytes, Some(45 << 29));
                assert_eq!(oom.available_bytes, Some(63 << 28));
            }
            other => panic!("{other}"),
        }
        let vmem = "E1001: CompileTimeScopedVmemOom: Scoped allocation with size 64.0K and limit 1.0K exceeded";
        match status("RESOURCE_EXHAUSTED", vmem) {
            CompileError::OutOfMemory(oom) => {
                assert_eq!(
                    (oom.space.as_str(), oom.needed_bytes, oom.available_bytes),
                    ("VMEM", Some(65536), Some(1024))
                );
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_unknown_flag_names_its_neighbours() {
        match status("INVALID_ARGUMENT", "No such compile option: 'xla_tpu_scoped_vmem_limit_kb'") {
            CompileError::Flag { similar, .. } => assert_eq!(similar[0], "xla_tpu_scoped_vmem_limit_kib"),
            other => panic!("{other}"),
        }
    }
}
