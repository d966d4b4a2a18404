//! Where options come from: the program itself, a file, the environment, the command line; the later one wins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::values::Mode;
use super::{Config, ConfigError, OPTIONS, REFUSED, Setting};

/// Options of other sources begin with this in the environment.
const PREFIX: &str = "TPUBRIDGE_";

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SettingSource {
    /// The default of the mode.
    Default,
    /// The program that uses this library.
    Program,
    /// A file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// The command line.
    CommandLine,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::Default => f.write_str("default"),
            SettingSource::Program => f.write_str("program"),
            SettingSource::File(path) => write!(f, "{}", path.display()),
            SettingSource::Environment(name) => write!(f, "${name}"),
            SettingSource::CommandLine => f.write_str("command line"),
        }
    }
}

/// What each source says.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What the program asks for.
    pub program: Option<Config>,
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Variables of the environment.
    pub environment: BTreeMap<String, String>,
    /// Options of the command line, by name.
    pub command_line: Vec<(String, String)>,
}

/// A configuration, and where each value came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The configuration.
    pub config: Config,
    sources: BTreeMap<&'static str, SettingSource>,
}

impl Effective {
    /// Where the value of an option came from.
    pub fn source(&self, option: &str) -> SettingSource {
        self.sources.get(option).cloned().unwrap_or(SettingSource::Default)
    }
}

impl Sources {
    /// The environment of this process; `$TPUBRIDGE_CONFIG` names the file.
    pub fn from_environment() -> Sources {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment: BTreeMap<String, String> =
            std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with(PREFIX)).collect();
        let file = environment.get(&format!("{PREFIX}CONFIG")).map(PathBuf::from);
        Sources { file, environment, ..Sources::default() }
    }

    /// Puts everything together.
    pub fn resolve(&self) -> Result<Effective, ConfigError> {
        let given = self.given()?;
        let mut sources = BTreeMap::new();
        let mut mode = self.program.as_ref().map_or(Mode::Inference, |config| config.mode);
        if let Some(program) = &self.program
            && program.mode != Mode::Inference
        {
            sources.insert("mode", SettingSource::Program);
        }
        // The mode first: it says what the defaults of the others are.
        for (_, value, source) in given.iter().filter(|(name, ..)| name == "mode") {
            mode = Mode::read(value).map_err(|expected| refuse("mode", value, expected, source))?;
            sources.insert("mode", source.clone());
        }
        let mut config = Config::new(mode);
        if let Some(program) = &self.program {
            let defaults = Config::new(program.mode);
            for option in OPTIONS {
                let wanted = (option.show)(program);
                if wanted != (option.show)(&defaults) {
                    let expected = (option.read)(&mut config, &wanted);
                    expected.map_err(|expected| refuse(option.name, &wanted, expected, &SettingSource::Program))?;
                    sources.insert(option.name, SettingSource::Program);
                }
            }
        }
        for (name, value, source) in given.iter().filter(|(name, ..)| name != "mode") {
            let option = OPTIONS.iter().find(|option| option.name == name);
            let option = option.ok_or_else(|| unknown(name, source))?;
            if option.name == "xla_flags" {
                config.set_xla_flags(value).map_err(|error| from(error, source))?;
            }
            (option.read)(&mut config, value).map_err(|expected| refuse(name, value, expected, source))?;
            sources.insert(option.name, source.clone());
        }
        Ok(Effective { config, sources })
    }

    /// Options by name, the ones that win last.
    fn given(&self) -> Result<Vec<(String, String, SettingSource)>, ConfigError> {
        let mut given = Vec::new();
        if let Some(path) = &self.file {
            for (name, value) in read_file(path)? {
                given.push((name, value, SettingSource::File(path.clone())));
            }
        }
        for (variable, value) in &self.environment {
            // Variables of other parts, such as the CPU device's, share the prefix; what is no option is theirs.
            let name = variable.strip_prefix(PREFIX).unwrap_or(variable).to_lowercase();
            let is_ours = name == "mode" || OPTIONS.iter().any(|option| option.name == name);
            if is_ours || REFUSED.iter().any(|refused| refused.name == name) {
                given.push((name, value.clone(), SettingSource::Environment(variable.clone())));
            }
        }
        for (name, value) in &self.command_line {
            given.push((name.replace('-', "_"), value.clone(), SettingSource::CommandLine));
        }
        Ok(given)
    }
}

fn refuse(name: &str, value: &str, expected: String, source: &SettingSource) -> ConfigError {
    ConfigError::Value { name: name.into(), value: value.into(), expected, source: source.clone() }
}

/// The error, with the place the value really came from.
fn from(error: ConfigError, place: &SettingSource) -> ConfigError {
    match error {
        ConfigError::Value { name, value, expected, .. } => refuse(&name, &value, expected, place),
        other => other,
    }
}

fn unknown(name: &str, source: &SettingSource) -> ConfigError {
    if let Some(refused) = REFUSED.iter().find(|refused| refused.name == name) {
        return ConfigError::Refused { name: name.into(), reason: refused.reason, source: source.clone() };
    }
    let similar = OPTIONS.iter().map(|option| option.name).filter(|option| compile::flags::is_near(name, option));
    ConfigError::Unknown { name: name.into(), similar: similar.take(3).collect(), source: source.clone() }
}

/// The options of a TOML file: keys of the top level, and tables whose keys are `name=value` pairs of one option.
fn read_file(path: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.into(), source };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > MAX_FILE_BYTES {
        return Err(ConfigError::Syntax { path: path.into(), message: format!("it is {size} bytes long") });
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let table: toml::Table =
        text.parse().map_err(|e: toml::de::Error| ConfigError::Syntax { path: path.into(), message: e.to_string() })?;
    let plain = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let option = |(name, value): (&String, &toml::Value)| {
        let value = match value {
            toml::Value::Table(pairs) => {
                pairs.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join(" ")
            }
            other => plain(other),
        };
        (name.clone(), value)
    };
    Ok(table.iter().map(option).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fraction;
    use compile::optimize::ComputePrecision;

    fn resolve(
        file: &str,
        environment: &[(&str, &str)],
        command_line: &[(&str, &str)],
    ) -> Result<Effective, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tpubridge.toml");
        std::fs::write(&path, file).unwrap();
        let pair = |(a, b): &(&str, &str)| (a.to_string(), b.to_string());
        let sources = Sources {
            program: Some(Config::new(Mode::Training).memory_fraction(Fraction::new(0.5).unwrap())),
            file: Some(path),
            environment: environment.iter().map(pair).collect(),
            command_line: command_line.iter().map(pair).collect(),
        };
        sources.resolve()
    }

    #[test]
    fn the_later_source_wins() {
        let file = "memory_fraction = 0.6\nprecision = \"bf16\"\ncache_max_size = 7\n";
        let environment =
            [("TPUBRIDGE_PRECISION", "f32"), ("TPUBRIDGE_CACHE_MAX_SIZE", "8"), ("TPUBRIDGE_CPU_THREADS", "2")];
        let found = resolve(file, &environment, &[("cache-max-size", "9")]).unwrap();
        assert_eq!(found.config.memory_fraction.get(), 0.6);
        assert_eq!(found.config.precision, ComputePrecision::F32);
        assert_eq!(found.config.cache_max_size, 9);
        assert_eq!(found.source("cache_max_size"), SettingSource::CommandLine);
        assert_eq!(found.source("precision"), SettingSource::Environment("TPUBRIDGE_PRECISION".into()));
        assert!(matches!(found.source("memory_fraction"), SettingSource::File(_)));
        assert_eq!(found.source("mode"), SettingSource::Program);
        assert_eq!(found.source("interpret"), SettingSource::Default);
    }

    #[test]
    fn the_mode_sets_defaults_and_nothing_else() {
        let found = resolve("", &[("TPUBRIDGE_MODE", "development")], &[]).unwrap();
        assert_eq!(found.config.precision, ComputePrecision::F32);
        assert!(found.config.strict_validation);
        // The program's own wish outlives the change of mode.
        assert_eq!(found.config.memory_fraction.get(), 0.5);
    }

    #[test]
    fn long_names_of_types_are_taken() {
        for (text, precision) in [("bfloat16", ComputePrecision::Bf16), ("float32", ComputePrecision::F32)] {
            let found = resolve("", &[], &[("precision", text)]).unwrap();
            assert_eq!(found.config.precision, precision);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = resolve("memory_fracton = 1", &[], &[]).unwrap_err();
        assert!(error.remedy().contains("memory_fraction"), "{error}: {}", error.remedy());
        let error = resolve("", &[("TPUBRIDGE_MEMORY_FRACTION", "1.5")], &[]).unwrap_err();
        assert!(error.to_string().contains("$TPUBRIDGE_MEMORY_FRACTION"), "{error}");
        assert!(matches!(resolve("a = ", &[], &[]), Err(ConfigError::Syntax { .. })));
        for refused in REFUSED {
            let error = resolve("", &[], &[(refused.name, "true")]).unwrap_err();
            assert!(matches!(error, ConfigError::Refused { .. }), "{}: {error}", refused.name);
        }
    }

    #[test]
    fn what_is_shown_can_be_given() {
        for mode in Mode::ALL {
            let mut config = Config::new(*mode);
            for option in OPTIONS {
                let shown = (option.show)(&config);
                (option.read)(&mut config, &shown).unwrap_or_else(|e| panic!("{}: {shown}: {e}", option.name));
            }
            assert_eq!(config, Config::new(*mode));
        }
    }
}
