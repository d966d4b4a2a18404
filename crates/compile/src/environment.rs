//! Variables that change what a compiler makes of a program: part of what a result depends on.

use std::collections::BTreeMap;
use std::fs;

use sha2::{Digest, Sha256};

/// Variables that hold flags, and files of flags.
const FLAGS: [&str; 2] = ["LIBTPU_INIT_ARGS", "XLA_FLAGS"];

/// Variables that change the topology or the arithmetic.
const OTHERS: [&str; 6] = [
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_TOPOLOGY",
    "NVIDIA_TF32_OVERRIDE",
    "TPU_MEGACORE",
    "TPU_TOPOLOGY_ALT",
    "TPU_TOPOLOGY_WRAP",
];

/// What XLA itself reads, but for what only JAX's client does.
const PREFIX: &str = "XLA_";
const NOT_THE_COMPILERS: &str = "XLA_PYTHON_CLIENT_";

/// An argument that names files of flags.
const FLAG_FILE: &str = "--flagfile=";
/// A file of flags is short; of a longer one only this is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The variables of an environment that a compiler reads. Where a value names a file of flags, the file's digest stands beside it.
pub fn compiler_environment(variables: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let read_by_compilers = |name: &str| {
        OTHERS.contains(&name)
            || FLAGS.contains(&name)
            || (name.starts_with(PREFIX) && !name.starts_with(NOT_THE_COMPILERS))
    };
    let variables = variables.into_iter().filter(|(name, value)| read_by_compilers(name) && !value.is_empty());
    variables.map(|(name, value)| (name.clone(), with_files(&name, value))).collect()
}

/// The variables of this process that a compiler in it reads.
pub fn environment_here() -> BTreeMap<String, String> {
    compiler_environment(this_process())
}

/// Variables of this process that are text; compilers read no others.
pub(crate) fn this_process() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// XLA takes a value that does not begin with a dash for the name of a file of flags, and libtpu has an argument for it.
fn with_files(name: &str, value: String) -> String {
    if !FLAGS.contains(&name) {
        return value;
    }
    let trimmed = value.trim();
    let mut files: Vec<&str> = Vec::new();
    if !trimmed.starts_with('-') {
        files.push(trimmed);
    }
    let named = trimmed.split_whitespace().filter_map(|word| word.strip_prefix(FLAG_FILE));
    files.extend(named.flat_map(|list| list.split(',')));
    let digests: Vec<String> = files.into_iter().filter_map(|file| Some(format!("{file}:{}", digest(file)?))).collect();
    if digests.is_empty() { value } else { format!("{value} [{}]", digests.join(" ")) }
}

fn digest(file: &str) -> Option<String> {
    use std::io::Read;
    let mut text = Vec::new();
    fs::File::open(file).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        compiler_environment(variables.iter().map(|(name, value)| (name.to_string(), value.to_string())))
    }

    #[test]
    fn what_compilers_read_is_kept_and_the_rest_is_not() {
        for (name, one, other) in [
            ("XLA_FLAGS", "--xla_a=1", "--xla_a=2"),
            ("LIBTPU_INIT_ARGS", "--xla_jf_a=1", "--xla_jf_a=2"),
            ("XLA_TPU_HBM_BW", "1", "2"),
            ("TPU_MEGACORE", "MEGACORE_DENSE", "MEGACORE_DISABLED"),
            ("TPU_TOPOLOGY_WRAP", "true,true", "false,false"),
            ("MEGASCALE_NUM_SLICES", "1", "2"),
            ("NVIDIA_TF32_OVERRIDE", "0", "1"),
        ] {
            assert_ne!(of(&[(name, one)]), of(&[(name, other)]), "{name}");
            assert_ne!(of(&[(name, one)]), of(&[]), "{name}");
            assert_eq!(of(&[(name, "")]), of(&[]), "{name}");
        }
        for name in ["HOME", "TPU_WORKER_ID", "TPU_LOG_DIR", "MEGASCALE_SLICE_ID", "XLA_PYTHON_CLIENT_MEM_FRACTION"] {
            assert_eq!(of(&[(name, "1")]), of(&[]), "{name}");
        }
    }

    #[test]
    fn a_file_of_flags_counts_by_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flags");
        let path = file.to_str().unwrap();
        for (name, value) in [("XLA_FLAGS", path.to_string()), ("LIBTPU_INIT_ARGS", format!("--a=1 --flagfile={path}"))]
        {
            fs::write(&file, "--xla_a=1").unwrap();
            let first = of(&[(name, &value)]);
            fs::write(&file, "--xla_a=2").unwrap();
            assert_ne!(of(&[(name, &value)]), first, "{name}");
            fs::write(&file, "--xla_a=1").unwrap();
            assert_eq!(of(&[(name, &value)]), first, "{name}");
        }
    }
}
