//! Executables in a compile cache on disk: a second process loads them instead of compiling.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use compile::blob::{EXECUTABLE, PROGRAM};
use compile::cache::{Blob, Cache, CacheEntry, CacheKey, KeyParts, Lookup, PluginParts, now_unix};
use compile::{BundleTrust, CompileError, Moved, Program, Report};
use pjrt::{Client, CompileOptions, LoadedExecutable};

use trust::SecretKey;

use super::Compiler;
use crate::error::Error;
use crate::signature::{Port, Signature};

/// A cache of executables, and what they depend on beside the program.
#[derive(Debug)]
pub(super) struct Store {
    cache: Arc<Cache>,
    plugin: PluginParts,
    target: String,
    /// Variables the plugin may have read when it was loaded.
    environment: BTreeMap<String, String>,
    /// Entries this process loaded or wrote: what [`Compiler::export_bundle`] writes.
    used: Mutex<Vec<CacheKey>>,
}

impl Store {
    fn parts(&self, program: &Program, options: &CompileOptions) -> KeyParts {
        let options = options.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        KeyParts {
            program: program.parts(),
            target: self.target.clone(),
            plugin: self.plugin.clone(),
            options: BTreeMap::from([("compile_options".to_string(), options)]),
            flags: BTreeMap::new(),
            environment: self.environment.clone(),
        }
    }

    fn used(&self, key: CacheKey) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !used.contains(&key) {
            used.push(key);
        }
    }

    /// Loads what was compiled before. What cannot be loaded is compiled again.
    pub(super) fn load(
        &self,
        client: &Client,
        program: &Program,
        signature: &Signature,
        options: &CompileOptions,
    ) -> Option<LoadedExecutable> {
        let key = self.parts(program, options).key();
        let entry = match self.cache.get(&key) {
            Lookup::Hit(entry) => entry,
            Lookup::Miss(warning) => {
                if let Some(warning) = warning {
                    tracing::warn!("{warning}");
                }
                return None;
            }
        };
        let loaded = match client.deserialize(entry.blob(EXECUTABLE)?, None) {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::warn!(%error, program = program.name(), "a kept executable cannot be loaded; compiling again");
                return None;
            }
        };
        if let Some(why) = why_not_of(&loaded, signature, options) {
            tracing::warn!(why, program = program.name(), "a kept executable is of another program; compiling again");
            return None;
        }
        self.used(key);
        Some(loaded)
    }

    /// Keeps an executable, if its plugin can write it. Failing costs the next process a compilation, nothing else.
    pub(super) fn keep(&self, loaded: &LoadedExecutable, program: &Program, options: &CompileOptions, seconds: f64) {
        let bytes = match loaded.executable().and_then(|executable| executable.serialize()) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(%error, program = program.name(), "this plugin does not write executables");
                return;
            }
        };
        let parts = self.parts(program, options);
        let key = parts.key();
        let report =
            Report { module: program.name().to_string(), plugin: parts.plugin.to_string(), ..Report::default() };
        let blob = |name: &str, bytes: Vec<u8>| Blob { name: name.to_string(), bytes };
        let blobs = vec![blob(EXECUTABLE, bytes), blob(PROGRAM, program.bytes().to_vec())];
        let entry = CacheEntry { parts, report, compile_seconds: seconds, created_unix: now_unix(), blobs };
        match self.cache.put(Arc::new(entry)) {
            Some(warning) => tracing::warn!("{warning}"),
            None => self.used(key),
        }
    }

    /// Programs of entries for these devices and this plugin.
    fn programs(&self) -> Result<Vec<Arc<Program>>, CompileError> {
        let mut programs = Vec::new();
        for row in self.cache.list()? {
            let Ok(key) = row.key.parse::<CacheKey>() else { continue };
            let Some(entry) = self.cache.recheck(&key) else { continue };
            let is_ours = entry.parts.target == self.target && entry.parts.plugin.build == self.plugin.build;
            if let Some(bytes) = entry.blob(PROGRAM).filter(|_| is_ours) {
                programs.push(Arc::new(Program::read(bytes.to_vec())?));
            }
        }
        Ok(programs)
    }
}

/// What an executable says of itself that is not so of its program: results would be read as what they are not. A plugin need not
/// answer; what it does not say is not compared.
fn why_not_of(loaded: &LoadedExecutable, signature: &Signature, options: &CompileOptions) -> Option<String> {
    let executable = loaded.executable().ok()?;
    let differs = |what: &str, found: usize, expected: usize| {
        (found != expected).then(|| format!("{found} {what} instead of {expected}"))
    };
    let results = &signature.results;
    let counts = [
        ("results", executable.num_outputs(), results.len()),
        ("partitions", executable.num_partitions(), options.num_partitions as usize),
        ("replicas", executable.num_replicas(), options.num_replicas as usize),
    ];
    let mut counts = counts.into_iter().filter_map(|(what, found, expected)| differs(what, found.ok()?, expected));
    if let Some(why) = counts.next() {
        return Some(why);
    }
    // Of several partitions each has a part, whose shape the compiler decides.
    let dims = executable.output_dims().ok().filter(|_| options.num_partitions == 1)?;
    let is_same = |(found, port): (&Vec<i64>, &Port)| {
        found.len() == port.spec.dims.len()
            && found.iter().zip(&port.spec.dims).all(|(found, size)| usize::try_from(*found) == Ok(*size))
    };
    let other = dims.iter().zip(results).find(|(found, port)| !is_same((found, port)));
    other.map(|(found, port)| format!("{} of shape {found:?} instead of {}", port.name, port.spec))
}

impl Compiler {
    /// Keeps executables in a cache on disk too. The first cache given stays.
    pub(crate) fn keep_in(&self, cache: Cache, plugin: PluginParts, target: String) {
        let environment = compile::environment_here();
        let store = Store { cache: Arc::new(cache), plugin, target, environment, used: Mutex::default() };
        // Whoever set a cache first decided where this compiler's results are.
        let _ = self.shared.store.set(store);
    }

    fn store(&self) -> Result<&Store, CompileError> {
        self.shared.store.get().ok_or(CompileError::NoCacheFolder)
    }

    /// Writes the executables this process compiled or loaded to one file, for another machine or process, and with a key its
    /// signature beside it. Needs
    /// [`Backend::keep_executables`](crate::Backend::keep_executables).
    pub fn export_bundle(&self, path: &Path, sign: Option<&SecretKey>) -> Result<Moved, Error> {
        let store = self.store()?;
        let used = store.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(store.cache.export(Some(&used), path, sign)?)
    }

    /// Adds the executables of a bundle to the cache and gives the programs they are of, for
    /// [`warm_up`](Self::warm_up). Needs [`Backend::keep_executables`](crate::Backend::keep_executables).
    pub fn import_bundle(&self, path: &Path, trust: BundleTrust<'_>) -> Result<Vec<Arc<Program>>, Error> {
        let store = self.store()?;
        store.cache.import(path, trust)?;
        Ok(store.programs()?)
    }
}
