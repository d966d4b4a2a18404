//! Checks of the variables that change what libtpu, XLA and JAX do in one process.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Check, Context};

/// Longest value shown.
const SHOWN_CHARS: usize = 120;

/// One variable: its name and what to say of its value. An absent variable is not mentioned.
struct Variable {
    name: &'static str,
    judge: fn(&Context<'_>, &'static str, &str) -> Check,
}

const VARIABLES: [Variable; 6] = [
    Variable { name: "TPU_SKIP_MDS_QUERY", judge: skip_metadata_query },
    Variable { name: "TPU_LIBRARY_PATH", judge: library_path },
    Variable { name: "ALLOW_MULTIPLE_LIBTPU_LOAD", judge: allow_multiple },
    Variable { name: "LIBTPU_INIT_ARGS", judge: init_args },
    Variable { name: "XLA_FLAGS", judge: xla_flags },
    Variable { name: "JAX_PLATFORMS", judge: jax_platforms },
];

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    let checks: Vec<Check> =
        VARIABLES.iter().filter_map(|v| Some((v.judge)(context, v.name, &context.system.text_var(v.name)?))).collect();
    if checks.is_empty() {
        return vec![Check::ok("environment", "no variable changes what libtpu, XLA or JAX do")];
    }
    checks
}

/// A value as it can be printed: not too long.
pub(super) fn shown(value: &str) -> String {
    let mut text: String = value.chars().take(SHOWN_CHARS).collect();
    if value.chars().count() > SHOWN_CHARS {
        text.push('…');
    }
    text
}

fn switch(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Some(true),
        "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn not_a_switch(name: &'static str, value: &str) -> Check {
    Check::warn(name, format!("{:?} is neither 1 nor 0", shown(value)), format!("`export {name}=1` or `unset {name}`"))
}

fn skip_metadata_query(context: &Context<'_>, name: &'static str, value: &str) -> Check {
    let by_hand = ["TPU_ACCELERATOR_TYPE", "TPU_WORKER_HOSTNAMES"];
    let missing: Vec<&str> = by_hand.into_iter().filter(|v| context.system.var(v).is_none()).collect();
    match switch(value) {
        None => not_a_switch(name, value),
        Some(true) if !context.tpus.is_empty() && !missing.is_empty() => Check::warn(
            name,
            format!(
                "set on a machine with TPUs, where libtpu then does not learn its slice; {} not set",
                missing.join(" and ")
            ),
            format!("`unset {name}`, or set {}", missing.join(" and ")),
        ),
        Some(true) => Check::ok(name, "set: libtpu does not ask the metadata server"),
        Some(false) => Check::ok(name, "off: libtpu asks the metadata server, and waits for it off Google Compute"),
    }
}

fn library_path(context: &Context<'_>, name: &'static str, value: &str) -> Check {
    let remedy = format!("`unset {name}`, or set it to the full path of a libtpu.so");
    let path = Path::new(value);
    let place = context.system.path(path);
    if !path.is_absolute() {
        Check::warn(name, format!("{:?} depends on the current folder", shown(value)), remedy)
    } else if place.is_dir() {
        Check::fail(name, format!("{} is a folder, not a library", shown(value)), remedy)
    } else if !place.is_file() {
        Check::fail(name, format!("{} does not exist", shown(value)), remedy)
    } else {
        Check::ok(name, shown(value))
    }
}

fn allow_multiple(context: &Context<'_>, name: &'static str, value: &str) -> Check {
    match switch(value) {
        None => not_a_switch(name, value),
        Some(true) if !context.tpus.is_empty() => Check::warn(
            name,
            "set on a machine with TPUs: two programs may take the same chips, and both fail or hang",
            format!("`unset {name}`; `tpu compile` sets it where it is harmless"),
        ),
        Some(true) => Check::ok(name, "set: several processes may load libtpu"),
        Some(false) => Check::ok(name, "off: one process at a time may load libtpu"),
    }
}

/// Flags of a value: name to values, in order of name; and words that are not flags.
fn flags(value: &str) -> (BTreeMap<&str, Vec<&str>>, Vec<&str>) {
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut others = Vec::new();
    for word in value.split_whitespace() {
        match word.strip_prefix("--").filter(|f| !f.is_empty()) {
            Some(flag) => {
                let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
                named.entry(name).or_default().push(value);
            }
            None => others.push(word),
        }
    }
    (named, others)
}

/// Faults both kinds of flag variable can have.
fn flag_fault(name: &'static str, value: &str) -> Option<Check> {
    let (named, others) = flags(value);
    if let Some(word) = others.first() {
        let detail = format!("{:?} is not a flag: flags begin with two dashes and have no spaces in them", shown(word));
        return Some(Check::fail(name, detail, format!("write {name} as \"--flag=value --flag=value\"")));
    }
    let twice = named.iter().find(|(_, values)| values.iter().any(|v| *v != values[0]));
    twice.map(|(flag, values)| {
        let detail = format!("--{} is given as {}", shown(flag), shown(&values.join(" and as ")));
        Check::warn(name, detail, "keep one of them: the last one counts")
    })
}

fn init_args(_: &Context<'_>, name: &'static str, value: &str) -> Check {
    flag_fault(name, value).unwrap_or_else(|| {
        Check::warn(
            name,
            format!("{}; libtpu ends the process at once when it does not know a flag", shown(value)),
            format!("`unset {name}` if a program ends while libtpu starts; it also changes what is compiled"),
        )
    })
}

fn xla_flags(_: &Context<'_>, name: &'static str, value: &str) -> Check {
    if let Some(fault) = flag_fault(name, value) {
        return fault;
    }
    let (named, _) = flags(value);
    match named.keys().find(|flag| flag.starts_with("xla_tpu_") || flag.starts_with("xla_jf_")) {
        Some(flag) => Check::warn(
            name,
            format!("--{} belongs to libtpu; JAX aborts on flags it does not know", shown(flag)),
            "move it to LIBTPU_INIT_ARGS",
        ),
        None => Check::ok(name, shown(value)),
    }
}

fn jax_platforms(_: &Context<'_>, name: &'static str, value: &str) -> Check {
    if value.split(',').any(|p| p.trim() == "tpu") {
        return Check::ok(name, shown(value));
    }
    Check::warn(
        name,
        format!("{:?} leaves out tpu: JAX will not use the TPUs of this machine", shown(value)),
        format!("`unset {name}` or add tpu to it; `tpu` does not read it"),
    )
}
