//! What a compilation depends on, and the digest that names it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A content address: SHA-256 of everything a result depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// The digest of labelled byte strings; lengths are hashed too, so that no two lists collide by concatenation.
    pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> CacheKey {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        CacheKey(hasher.finalize().into())
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for CacheKey {
    type Err = ();

    fn from_str(text: &str) -> Result<CacheKey, ()> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(drop)?;
            *byte = u8::from_str_radix(digits, 16).map_err(drop)?;
        }
        Ok(CacheKey(bytes))
    }
}

/// The program's part of a key: its digest, and enough of its shape to say what changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramParts {
    /// Module name.
    pub name: String,
    /// SHA-256 of the canonical text without locations.
    pub digest: String,
    /// Types of the entry function's arguments.
    pub arguments: Vec<String>,
    /// Types of its results.
    pub results: Vec<String>,
    /// How often each op occurs.
    pub ops: BTreeMap<String, u64>,
}

/// The plugin's part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginParts {
    /// Name, as in `libtpu`.
    pub name: String,
    /// Package version, if the installation tells it.
    pub version: Option<String>,
    /// Build identity of the library file: the same on every machine for the same build.
    pub build: String,
}

impl fmt::Display for PluginParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => write!(f, "{} (build {})", self.name, self.build),
        }
    }
}

/// Everything a compilation depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyParts {
    /// The program.
    pub program: ProgramParts,
    /// The target slice, with everything the topology call was told.
    pub target: String,
    /// The compiler.
    pub plugin: PluginParts,
    /// Compile options by name.
    pub options: BTreeMap<String, String>,
    /// Compiler flag overrides.
    pub flags: BTreeMap<String, String>,
    /// Variables the compiler reads ([`compiler_environment`](crate::compiler_environment)).
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

impl KeyParts {
    /// The content address.
    pub fn key(&self) -> CacheKey {
        CacheKey::digest([b"tpubridge-compile-2".as_slice(), self.program.digest.as_bytes(), &self.circumstances()])
    }

    /// The address under which the same bytes, compiled the same way, are found without reading them as a program.
    pub fn alias(program: &[u8], others: &KeyParts) -> CacheKey {
        CacheKey::digest([b"tpubridge-alias-2".as_slice(), program, &others.circumstances()])
    }

    /// Everything but the program. The package version is left out: the build identity decides.
    fn circumstances(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        add(&self.target);
        add(&self.plugin.name);
        add(&self.plugin.build);
        for map in [&self.options, &self.flags, &self.environment] {
            add(&map.len().to_string());
            for (name, value) in map {
                add(name);
                add(value);
            }
        }
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn parts(digest: &str) -> KeyParts {
        KeyParts {
            program: ProgramParts {
                name: "step".into(),
                digest: digest.into(),
                arguments: vec!["tensor<32x8xf32>".into(), "tensor<8x8xf32>".into()],
                results: vec!["tensor<32x8xf32>".into()],
                ops: [("stablehlo.add".to_string(), 1)].into(),
            },
            target: "v5e:2x2".into(),
            plugin: PluginParts { name: "libtpu".into(), version: Some("0.0.51".into()), build: "b1".into() },
            options: [("partitions".to_string(), "1".to_string())].into(),
            flags: BTreeMap::new(),
            environment: BTreeMap::new(),
        }
    }

    #[test]
    fn every_part_changes_the_key() {
        let base = parts("d").key();
        let mut seen = vec![base];
        let mut check = |change: fn(&mut KeyParts)| {
            let mut other = parts("d");
            change(&mut other);
            assert!(!seen.contains(&other.key()));
            seen.push(other.key());
        };
        check(|p| p.program.digest = "e".into());
        check(|p| p.target = "v5e:4x4".into());
        check(|p| p.plugin.build = "b2".into());
        check(|p| drop(p.options.insert("partitions".into(), "2".into())));
        check(|p| drop(p.flags.insert("xla_a".into(), "1".into())));
        check(|p| drop(p.environment.insert("xla_a".into(), "1".into())));
        check(|p| drop(p.environment.insert("XLA_FLAGS".into(), "--xla_a=1".into())));
        check(|p| drop(p.environment.insert("XLA_FLAGS".into(), "--xla_a=2".into())));
        check(|p| drop(p.environment.insert("LIBTPU_INIT_ARGS".into(), "--xla_a=1".into())));
        let mut same = parts("d");
        same.plugin.version = None;
        assert_eq!(same.key(), base);
    }

    #[test]
    fn a_key_prints_and_parses() {
        let key = parts("d").key();
        assert_eq!(key.to_string().parse(), Ok(key));
        for bad in ["", "ab", &"g".repeat(64), &"é".repeat(32)] {
            assert!(bad.parse::<CacheKey>().is_err());
        }
    }
}
