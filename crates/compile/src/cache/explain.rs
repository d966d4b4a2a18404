//! Why a look-up missed: what differs from the nearest entry.

use std::collections::BTreeMap;

use super::key::KeyParts;

/// The differences between what was asked and an entry, one sentence each, the most telling first.
pub(crate) fn differences(asked: &KeyParts, have: &KeyParts) -> Vec<String> {
    let mut found = Vec::new();
    if asked.plugin.build != have.plugin.build {
        found.push(match (&have.plugin.version, &asked.plugin.version) {
            (Some(old), Some(new)) if old != new => format!("{} {old} → {new}", asked.plugin.name),
            _ => format!("{} → {} (another build)", have.plugin, asked.plugin),
        });
    }
    if asked.target != have.target {
        found.push(format!("target: {} → {}", have.target, asked.target));
    }
    map_differences("option", &have.options, &asked.options, &mut found);
    map_differences("flag", &have.flags, &asked.flags, &mut found);
    map_differences("variable", &have.environment, &asked.environment, &mut found);
    if asked.program.digest != have.program.digest {
        let before = found.len();
        list_differences("argument", &have.program.arguments, &asked.program.arguments, &mut found);
        list_differences("result", &have.program.results, &asked.program.results, &mut found);
        if found.len() == before {
            op_differences(&have.program.ops, &asked.program.ops, &mut found);
        }
        if found.len() == before {
            found.push(
                "the program's constants, attributes or wiring changed; its signature and op counts did not".into(),
            );
        }
    }
    found
}

/// How far an entry is from what was asked; smaller is nearer.
pub(crate) fn distance(asked: &KeyParts, have: &KeyParts) -> usize {
    let mut distance = differences(asked, have).len();
    if asked.program.name != have.program.name {
        distance += 20;
    }
    if asked.program.digest != have.program.digest {
        distance += 5 + op_distance(&asked.program.ops, &have.program.ops);
    }
    distance
}

fn op_distance(a: &BTreeMap<String, u64>, b: &BTreeMap<String, u64>) -> usize {
    let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).count()
}

fn map_differences(
    what: &str,
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    found: &mut Vec<String>,
) {
    for (name, value) in new {
        match old.get(name) {
            None => found.push(format!("{what} {name}: not set → {value}")),
            Some(before) if before != value => found.push(format!("{what} {name}: {before} → {value}")),
            Some(_) => {}
        }
    }
    for (name, value) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        found.push(format!("{what} {name}: {value} → not set"));
    }
}

fn list_differences(what: &str, old: &[String], new: &[String], found: &mut Vec<String>) {
    if old.len() != new.len() {
        found.push(format!("number of {what}s: {} → {}", old.len(), new.len()));
        return;
    }
    for (at, (old, new)) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
        found.push(match (Shape::parse(old), Shape::parse(new)) {
            (Some(a), Some(b)) if a.element == b.element && a.dims.len() == b.dims.len() => {
                let changed: Vec<String> = a
                    .dims
                    .iter()
                    .zip(&b.dims)
                    .enumerate()
                    .filter(|(_, (a, b))| a != b)
                    .map(|(dim, (a, b))| format!("dim {dim}: {a} → {b}"))
                    .collect();
                format!("{what} {at} {}", changed.join(", "))
            }
            _ => format!("{what} {at}: {old} → {new}"),
        });
    }
}

fn op_differences(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>, found: &mut Vec<String>) {
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (before, after) = (old.get(name).copied().unwrap_or(0), new.get(name).copied().unwrap_or(0));
        if before != after {
            found.push(format!("{name}: {before} → {after} occurrences"));
        }
    }
}

struct Shape<'a> {
    dims: Vec<&'a str>,
    element: &'a str,
}

impl<'a> Shape<'a> {
    fn parse(text: &'a str) -> Option<Shape<'a>> {
        let inner = text.strip_prefix("tensor<")?.strip_suffix('>')?;
        let mut dims: Vec<&str> = inner.split('x').collect();
        let element = dims.pop()?;
        dims.iter().all(|d| *d == "?" || d.bytes().all(|b| b.is_ascii_digit())).then_some(Shape { dims, element })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::key::tests::parts;

    fn check(change: fn(&mut KeyParts), expected: &str) {
        let mut asked = parts("d");
        change(&mut asked);
        assert_eq!(differences(&asked, &parts("d")), [expected]);
    }

    #[test]
    fn says_what_changed() {
        check(
            |p| {
                p.program.digest = "e".into();
                p.program.arguments[0] = "tensor<4x8xf32>".into();
            },
            "argument 0 dim 0: 32 → 4",
        );
        check(
            |p| {
                p.program.digest = "e".into();
                p.program.arguments[1] = "tensor<8x8xbf16>".into();
            },
            "argument 1: tensor<8x8xf32> → tensor<8x8xbf16>",
        );
        check(
            |p| {
                p.plugin.build = "b2".into();
                p.plugin.version = Some("0.0.52".into());
            },
            "libtpu 0.0.51 → 0.0.52",
        );
        check(|p| drop(p.flags.insert("xla_x".into(), "true".into())), "flag xla_x: not set → true");
        check(|p| p.target = "v6e:2x2".into(), "target: v5e:2x2 → v6e:2x2");
        check(|p| drop(p.options.insert("partitions".into(), "4".into())), "option partitions: 1 → 4");
        check(
            |p| {
                p.program.digest = "e".into();
                p.program.ops.insert("stablehlo.tanh".into(), 2);
            },
            "stablehlo.tanh: 0 → 2 occurrences",
        );
    }
}
