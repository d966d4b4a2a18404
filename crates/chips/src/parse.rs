//! One reader for every name people write for a slice.
//!
//! ```text
//! name       = [ count "x" ] one
//! one        = machine-type | generation sep size [ "_twisted" | "_untwisted" ]
//! sep        = ":" | "=" | "_" | "-" | " "
//! size       = number                   chips or TensorCores, as the generation's accelerator types count
//!            | number "x" number [ "x" number ]
//! ```
//! Upper case and the multiplication sign are read as lower case and `x`.

use crate::error::{Error, ShapeFault};
use crate::generation::Generation;
use crate::slice::{Slice, Twist, no_such_shape};
use crate::spec::CountUnit;

impl Generation {
    /// The generation for any name of it without a size: `v5e`, `v5litepod`, `trillium`, `TPU v5 lite`,
    /// `tpu-v6e-slice`. `v5` alone is ambiguous and gives `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        generation(name)
    }
}

impl Slice {
    /// Reads any name people write for a slice; the same as `str::parse`.
    pub fn parse(name: &str) -> Result<Self, Error> {
        slice(name)
    }
}

impl std::str::FromStr for Slice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::parse(name)
    }
}

/// Longest name read, in bytes; the longest real one has about 30.
const MAX_BYTES: usize = 64;

const SEPARATORS: [char; 5] = [':', '=', '_', '-', ' '];

/// Names without a size, beside each generation's own and its `device_kind`.
const ALIASES: &[(&str, Generation)] = &[
    ("v5lite", Generation::V5e),
    ("v5-lite", Generation::V5e),
    ("v5litepod", Generation::V5e),
    ("v6", Generation::V6e),
    ("v6lite", Generation::V6e),
    ("v6-lite", Generation::V6e),
    ("trillium", Generation::V6e),
    ("v7", Generation::Tpu7x),
    ("v7x", Generation::Tpu7x),
    ("7x", Generation::Tpu7x),
    ("ironwood", Generation::Tpu7x),
];

/// Node labels beside the usual one of each generation.
const LABELS: &[(&str, Generation)] = &[("tpu-v3-device", Generation::V3), ("tpu-v5-lite-device", Generation::V5e)];

/// Names that exist and have no figures here.
const KNOWN_ABSENT: &[(&str, &str)] = &[
    ("v1", "TPU v1 runs no XLA programs"),
    ("v4i", "libtpu 0.0.51 refuses it"),
    ("tpu7", "libtpu 0.0.51 refuses it; the chip sold is tpu7x"),
    ("tpu8i", "libtpu 0.0.51 refuses it"),
    ("tpu8t", "libtpu 0.0.51 refuses it"),
    ("v8", "libtpu 0.0.51 refuses it"),
    ("v8i", "libtpu 0.0.51 refuses it"),
    ("v8t", "libtpu 0.0.51 refuses it"),
];

pub(crate) fn slice(name: &str) -> Result<Slice, Error> {
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Err(Error::Empty);
    }
    if trimmed.len() > MAX_BYTES {
        return Err(Error::TooLong { length: trimmed.len(), limit: MAX_BYTES });
    }
    let text = trimmed.to_lowercase().replace('×', "x");
    match leading_count(&text) {
        None => one(&text),
        Some((count, rest)) => {
            let too_many = || Error::SliceCount { count: count.to_owned(), limit: Slice::MAX_SLICES };
            one(rest)?.times(count.parse().map_err(|_| too_many())?)
        }
    }
}

pub(crate) fn generation(name: &str) -> Option<Generation> {
    let name = name.trim().to_lowercase();
    plain_generation(&name).or_else(|| labelled_generation(&name))
}

/// `2xv5e-256` as `2` and `v5e-256`; a topology is no count.
fn leading_count(text: &str) -> Option<(&str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, rest) = text.split_at(digits);
    let rest = rest.trim_start().strip_prefix(['x', '*'])?.trim_start();
    (!count.is_empty() && rest.starts_with(|c: char| c.is_ascii_alphabetic())).then_some((count, rest))
}

fn one(text: &str) -> Result<Slice, Error> {
    if let Some((generation, chips)) = machine_type(text)
        && let Some(slice) = Slice::with_chips(generation, chips)
    {
        return Ok(slice);
    }
    let (text, twist) = twist_suffix(text);
    let Some((head, tail)) = text.rsplit_once(SEPARATORS) else {
        return Err(without_size(text));
    };
    let head = head.trim_end();
    if tail.is_empty() {
        return Err(without_size(head));
    }
    if !tail.starts_with(|c: char| c.is_ascii_digit()) || tail.contains(|c: char| !c.is_ascii_digit() && c != 'x') {
        return Err(match plain_generation(head) {
            Some(g) if plain_generation(text).is_none() => malformed(g, tail),
            _ => without_size(text),
        });
    }
    if tail.contains('x') {
        let generation = match plain_generation(head).or_else(|| labelled_generation(head)) {
            Some(generation) => generation,
            None if is_bare_v5(head) && tail.split('x').count() == 3 => Generation::V5p,
            None => return Err(without_size(head)),
        };
        by_topology(generation, tail, twist)
    } else {
        match plain_generation(head) {
            Some(generation) => by_count(generation, tail, twist),
            None => Err(unknown_with_count(head, tail)),
        }
    }
}

fn twist_suffix(text: &str) -> (&str, Twist) {
    if let Some(rest) = text.strip_suffix("_untwisted") {
        (rest, Twist::Untwisted)
    } else if let Some(rest) = text.strip_suffix("_twisted") {
        (rest, Twist::Twisted)
    } else {
        (text, Twist::Untwisted)
    }
}

fn by_topology(generation: Generation, tail: &str, twist: Twist) -> Result<Slice, Error> {
    let dimensions: Option<Vec<u32>> = tail.split('x').map(|d| d.parse().ok()).collect();
    let shape = match dimensions.as_deref() {
        Some(&[x, y]) => [x, y, 1],
        Some(&[x, y, z]) => [x, y, z],
        _ => return Err(malformed(generation, tail)),
    };
    let torus_dimensions = generation.spec().network.torus_dimensions.value;
    let written = tail.matches('x').count() as u32 + 1;
    if written < torus_dimensions || (torus_dimensions == 2 && shape[2] != 1) {
        return Err(no_such_shape(generation, shape, tail.to_owned(), ShapeFault::Rank { torus_dimensions }));
    }
    Slice::new(generation, shape, twist)
}

fn by_count(generation: Generation, digits: &str, twist: Twist) -> Result<Slice, Error> {
    let count: u64 = digits.parse().unwrap_or(u64::MAX);
    let per_chip = units_per_chip(generation);
    let chips = count.is_multiple_of(per_chip).then_some(count / per_chip).and_then(|c| u32::try_from(c).ok());
    match chips.and_then(|c| Slice::with_chips(generation, c)) {
        Some(slice) => Slice::new(generation, slice.shape(), twist),
        None => Err(no_such_size(generation, digits, count)),
    }
}

/// What an accelerator type counts for each chip.
fn units_per_chip(generation: Generation) -> u64 {
    let spec = generation.spec();
    match spec.names.count_unit.value {
        CountUnit::Chips => 1,
        CountUnit::Cores => spec.cores.tensor_cores_per_chip.value.into(),
    }
}

fn no_such_size(generation: Generation, digits: &str, count: u64) -> Error {
    let per_chip = units_per_chip(generation);
    let defaults = Slice::defaults(generation);
    let units = |s: &&Slice| u64::from(s.chips()) * per_chip;
    let smaller = defaults.iter().rfind(|s| units(s) < count);
    let larger = defaults.iter().find(|s| units(s) > count);
    let prefix = generation.spec().names.accelerator_prefix;

    let mut remarks = Vec::new();
    if per_chip > 1 {
        remarks.push(format!("{prefix}-N counts TensorCores, {per_chip} per chip"));
        if let Some(meant) = u32::try_from(count).ok().and_then(|chips| Slice::with_chips(generation, chips)) {
            remarks.push(format!("did you mean {} for {count} chips?", meant.accelerator_type()));
        }
    }
    if let (Some(largest), None) = (smaller, larger)
        && count.is_multiple_of(units(&largest))
        && let Ok(slices) = u32::try_from(count / units(&largest))
        && let Ok(several) = largest.times(slices)
    {
        remarks.push(format!("as several slices it is {several}"));
    }
    Error::NoSuchSize {
        generation,
        name: format!("{prefix}-{digits}"),
        smaller: smaller.map(Slice::accelerator_type),
        larger: larger.map(Slice::accelerator_type),
        remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
    }
}

fn plain_generation(name: &str) -> Option<Generation> {
    let own = |name: &str| {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, g)| *g);
        alias.or_else(|| Generation::ALL.into_iter().find(|g| g.name() == name))
    };
    own(name).or_else(|| name.strip_prefix("tpu").and_then(|n| own(n.trim_start_matches(['-', '_', ' '])))).or_else(
        || {
            // "TPU v5" is v5p to libtpu and either to people.
            let kind = |g: &Generation| g.device_kind().to_lowercase();
            let is_kind = |g: &Generation| kind(g) == name || kind(g).strip_prefix("tpu ") == Some(name);
            Generation::ALL.into_iter().filter(|g| *g != Generation::V5p).find(is_kind)
        },
    )
}

/// A node label of Kubernetes Engine or a machine type: it names a generation, and only a topology completes it.
fn labelled_generation(name: &str) -> Option<Generation> {
    let label = |g: &Generation| g.spec().names.gke_accelerator.is_some_and(|l| l.value == name);
    let listed = LABELS.iter().find(|(label, _)| *label == name).map(|(_, g)| *g);
    listed.or_else(|| Generation::ALL.into_iter().find(label)).or_else(|| machine_type(name).map(|(g, _)| g))
}

fn machine_type(name: &str) -> Option<(Generation, u32)> {
    Generation::ALL.into_iter().find_map(|g| {
        let machines = g.spec().host.machine_types.value;
        machines.iter().find(|m| m.name == name).map(|m| (g, m.chips))
    })
}

fn is_bare_v5(name: &str) -> bool {
    name == "v5" || name == "tpu v5" || name == "tpu-v5"
}

fn examples(generation: Generation) -> Vec<String> {
    let defaults = Slice::defaults(generation);
    let shown = defaults.iter().take(6).map(Slice::accelerator_type);
    let largest = defaults.iter().skip(6).last().map(Slice::accelerator_type);
    shown.chain(largest).collect()
}

fn malformed(generation: Generation, size: &str) -> Error {
    Error::MalformedSize { generation, size: size.to_owned(), examples: examples(generation) }
}

/// The error for a text that ends without a size, or whose head names nothing.
fn without_size(name: &str) -> Error {
    if let Some(generation) = plain_generation(name).or_else(|| labelled_generation(name)) {
        return Error::MissingSize { generation, examples: examples(generation) };
    }
    if is_bare_v5(name) {
        return Error::AmbiguousGeneration { name: name.to_owned(), candidates: vec!["v5e".into(), "v5p".into()] };
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) && name.contains('x') {
        return Error::MissingGeneration { topology: name.to_owned() };
    }
    let remark = KNOWN_ABSENT.iter().find(|(absent, _)| *absent == name).map(|(_, why)| *why);
    Error::UnknownGeneration { name: name.to_owned(), remark }
}

fn unknown_with_count(head: &str, digits: &str) -> Error {
    if is_bare_v5(head) {
        let candidates = [Generation::V5e, Generation::V5p].map(|g| format!("{g}-{digits}"));
        return Error::AmbiguousGeneration { name: format!("{head}-{digits}"), candidates: candidates.into() };
    }
    if labelled_generation(head).is_some() {
        let remark = Some("a node label or machine type takes a topology, as in tpu-v5p-slice:2x2x1");
        return Error::UnknownGeneration { name: format!("{head}-{digits}"), remark };
    }
    without_size(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_told_from_a_topology() {
        for (text, expected) in [
            ("2xv5e-256", Some(("2", "v5e-256"))),
            ("2*v5e-256", Some(("2", "v5e-256"))),
            ("2 x tpu7x-8", Some(("2", "tpu7x-8"))),
            ("2x2x1", None),
            ("7x-8", None),
            ("v5e-256", None),
            ("xv5e", None),
        ] {
            assert_eq!(leading_count(text), expected, "{text}");
        }
    }

    #[test]
    fn every_alias_is_lower_case_and_unambiguous() {
        for (alias, expected) in ALIASES {
            assert_eq!(plain_generation(alias), Some(*expected));
            assert_eq!(*alias, alias.to_lowercase());
        }
        for (absent, _) in KNOWN_ABSENT {
            assert_eq!(plain_generation(absent), None, "{absent}");
        }
    }
}
