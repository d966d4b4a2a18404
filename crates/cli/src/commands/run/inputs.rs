//! Inputs of a program: from files by name or position, or random.

use std::path::Path;
use std::sync::Arc;

use runtime::{Port, Spec};
use tensor::{DType, Literal, encode_float};

use crate::failure::Failure;
use crate::imported::Imported;

/// The word for inputs that are made up.
const RANDOM: &str = "random";

/// Loads what the program takes.
pub(super) fn load(from: &str, seed: u64, ports: &[Port]) -> Result<Vec<Arc<Literal>>, Failure> {
    if from == RANDOM {
        let made = ports.iter().enumerate().map(|(n, port)| random(&port.spec, seed, n as u64).map(Arc::new));
        return made.collect();
    }
    let given = read(Path::new(from))?;
    let by_name = ports.iter().all(|port| given.iter().any(|(name, _)| *name == port.name));
    if !by_name && given.len() != ports.len() {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        return Err(Failure::new(format!("the program takes {} inputs, {from} has {}", ports.len(), given.len()))
            .hint(format!("name the arrays {}, or give one for each input in order", names.join(", "))));
    }
    let pick = |(index, port): (usize, &Port)| {
        let found = if by_name { given.iter().find(|(name, _)| *name == port.name) } else { given.get(index) };
        found.map(|(_, literal)| Arc::new(literal.clone()))
    };
    Ok(ports.iter().enumerate().filter_map(pick).collect())
}

/// Arrays of a file by name; none where inputs are made up.
pub(super) fn named(from: &str) -> Result<Option<Vec<(String, Literal)>>, Failure> {
    if from == RANDOM { Ok(None) } else { read(Path::new(from)).map(Some) }
}

/// What an archive of PyTorch or a model of ONNX holds, and the arguments; those that were not given are made up.
pub(super) fn with_weights(imported: &Imported, seed: u64, ports: &[Port]) -> Result<Vec<Arc<Literal>>, Failure> {
    let value = |(n, port): (usize, &Port)| match imported.value(port)? {
        Some(value) => Ok(value),
        None => random(&port.spec, seed, n as u64).map(Arc::new),
    };
    ports.iter().enumerate().map(value).collect()
}

/// Arrays of a file, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<(String, Literal)>, Failure> {
    let read = match path.extension().and_then(|extension| extension.to_str()) {
        Some("npz") => weights::read_npz(path),
        Some("npy") => weights::read_npy(path).map(|literal| vec![("argument 0".to_string(), literal)]),
        Some("safetensors") => weights::SafeTensors::open(path).and_then(|file| {
            // The format has no order of its own: names by their numbers, so that `2` comes before `10`.
            let mut names: Vec<&String> = file.entries().keys().collect();
            names.sort_by_key(|name| by_number(name));
            names.into_iter().map(|name| Ok((name.clone(), file.read(name)?))).collect()
        }),
        _ => {
            return Err(Failure::new(format!("{} is of no known format", path.display()))
                .hint("inputs are .npz, .npy or .safetensors files, or the word random"));
        }
    };
    Ok(read.map_err(runtime::Error::from)?)
}

/// A name as words and numbers, for sorting.
fn by_number(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(digits);
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        parts.push((word.to_string(), after[..end].parse().unwrap_or(u64::MAX)));
        rest = &after[end..];
    }
    parts
}

/// Numbers between -1 and 1, small integers, both booleans: the same for the same seed.
fn random(spec: &Spec, seed: u64, stream: u64) -> Result<Literal, Failure> {
    let mut state = seed ^ (stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let too_large = || Failure::new(format!("an input {spec} is too large for this machine"));
    let mut literal = Literal::zeros(spec.dtype, spec.dims.clone()).ok_or_else(too_large)?;
    let width = spec.dtype.size_bytes();
    for element in literal.bytes_mut().chunks_exact_mut(width) {
        put(spec.dtype, &mut next, element);
    }
    Ok(literal)
}

fn put(dtype: DType, next: &mut impl FnMut() -> u64, element: &mut [u8]) {
    let mut real = || (next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    let bits = match dtype {
        DType::C64 => {
            element[..4].copy_from_slice(&(real() as f32).to_le_bytes());
            element[4..].copy_from_slice(&(real() as f32).to_le_bytes());
            return;
        }
        DType::C128 => {
            element[..8].copy_from_slice(&real().to_le_bytes());
            element[8..].copy_from_slice(&real().to_le_bytes());
            return;
        }
        dtype if dtype.is_float() => encode_float(dtype, real()).unwrap_or_default(),
        dtype if dtype.is_bool() => next() & 1,
        // Valid indices more often than not.
        dtype => next() % (1 << dtype.bits().min(4).saturating_sub(1)),
    };
    element.copy_from_slice(&bits.to_le_bytes()[..element.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let mut names = ["10", "2", "b.1", "a.11", "a.9"];
        names.sort_by_key(|name| by_number(name));
        assert_eq!(names, ["2", "10", "a.9", "a.11", "b.1"]);
    }
}
