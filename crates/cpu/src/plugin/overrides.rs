//! Options of XLA's compiler that a client gives by name: known or refused. None of them changes what this device does.

use super::call::Failure;

/// Names and kinds of the fields of XLA's `DebugOptions`, as in jaxlib 0.10.2: one `name kind` a line, sorted.
const KNOWN: &str = include_str!("../../data/xla-compiler-options.txt");

/// A value as the client gives it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Override {
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl std::fmt::Display for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Override::Text(text) => text.fmt(f),
            Override::Bool(flag) => flag.fmt(f),
            Override::Int(number) => number.fmt(f),
            Override::Float(number) => number.fmt(f),
        }
    }
}

/// Refuses an option that XLA's compiler does not have, or a value of another kind than the option's. Clients know the
/// wording from XLA.
pub(super) fn check(name: &str, value: &Override) -> Result<(), Failure> {
    let kind = KNOWN.lines().filter_map(|line| line.split_once(' ')).find(|(known, _)| *known == name);
    let Some((_, kind)) = kind else {
        return Err(Failure::invalid(format!("No such compile option: '{name}'")));
    };
    let fits = match (kind, value) {
        ("bool", Override::Bool(_)) | ("int" | "float", Override::Int(_)) | ("float", Override::Float(_)) => true,
        ("bool", Override::Text(text)) => ["true", "false"].contains(&&*text.to_lowercase()),
        ("int", Override::Text(text)) => text.parse::<i64>().is_ok(),
        ("float", Override::Text(text)) => text.parse::<f64>().is_ok(),
        ("string", Override::Text(_)) => true,
        // Lists and names of choices, which only XLA can read.
        ("other", _) => true,
        _ => false,
    };
    if !fits {
        return Err(Failure::invalid(format!("While setting option {name}, '{value}' is not a valid {kind} value.")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_or_refused() {
        let text = |text: &str| Override::Text(text.into());
        let check = |name: &str, value: Override, said: &str| {
            let found = super::check(name, &value).err().map_or(String::new(), |failure| failure.message);
            assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{name} = {value}: {found}");
        };
        check("xla_embed_ir_in_executable", Override::Bool(true), "");
        check("xla_embed_ir_in_executable", text("True"), "");
        check("xla_dump_max_hlo_modules", Override::Int(200), "");
        check("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", Override::Float(0.5), "");
        check("xla_dump_to", text("/somewhere"), "");
        check("xla_cpu_scheduler_type", text("CPU_SCHEDULER_TYPE_DEFAULT"), "");
        check("invalid_key", text("x"), "No such compile option: 'invalid_key'");
        check("xla_embed_ir", Override::Bool(true), "No such compile option: 'xla_embed_ir'");
        check("bool", Override::Bool(true), "No such compile option: 'bool'");
        check("xla_embed_ir_in_executable", text("maybe"), "'maybe' is not a valid bool value.");
        check("xla_dump_max_hlo_modules", Override::Bool(true), "'true' is not a valid int value.");
        check("xla_dump_to", Override::Int(3), "'3' is not a valid string value.");
    }

    #[test]
    fn the_list_is_sorted_and_of_known_kinds() {
        let lines: Vec<(&str, &str)> = KNOWN.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert!(lines.len() > 300 && lines.is_sorted());
        assert!(lines.iter().all(|(_, kind)| ["bool", "int", "float", "string", "other"].contains(kind)));
    }
}
