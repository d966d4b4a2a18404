//! Flags of the TPU compiler that a user gives by name: known ones only.

use std::collections::BTreeMap;

use compile::flags;

use super::setting::Setting;
use super::{Config, ConfigError, SettingSource};

/// What is written for no flags.
const NONE: &str = "none";

/// Flags of the TPU compiler, by name; every name is one that libtpu takes for a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XlaFlags(BTreeMap<String, String>);

impl XlaFlags {
    /// Reads `name=value name=value`; leading dashes are left out, `none` is no flags.
    pub fn parse(text: &str) -> Result<XlaFlags, ConfigError> {
        let mut flags = BTreeMap::new();
        if text.trim() == NONE {
            return Ok(XlaFlags(flags));
        }
        for word in text.split_whitespace() {
            let (name, value) = word.trim_start_matches('-').split_once('=').ok_or_else(|| ConfigError::Value {
                name: "xla_flags".into(),
                value: word.into(),
                expected: "name=value, several with spaces between them".into(),
                source: SettingSource::Program,
            })?;
            if !flags::is_known(name) {
                return Err(ConfigError::Flag { name: name.into(), similar: flags::similar(name) });
            }
            flags.insert(name.to_string(), value.to_string());
        }
        Ok(XlaFlags(flags))
    }

    /// Names and values, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Setting for XlaFlags {
    fn read(text: &str) -> Result<Self, String> {
        XlaFlags::parse(text).map_err(|error| format!("flags of the TPU compiler ({error}; {})", error.remedy()))
    }

    fn show(&self) -> String {
        if self.is_empty() {
            return NONE.to_string();
        }
        self.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }
}

impl Config {
    /// Sets [`xla_flags`](Config::xla_flags) from `name=value name=value`. A name libtpu does not take is an error that
    /// names the ones that look alike, and changes nothing.
    pub fn set_xla_flags(&mut self, text: &str) -> Result<(), ConfigError> {
        self.xla_flags = XlaFlags::parse(text)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    #[test]
    fn known_flags_are_taken_and_others_are_refused_with_a_suggestion() {
        let mut config = Config::new(Mode::Inference);
        config.set_xla_flags("--xla_tpu_scoped_vmem_limit_kib=65536  xla_tpu_enable_async_all_to_all=true").unwrap();
        let kept = "xla_tpu_enable_async_all_to_all=true xla_tpu_scoped_vmem_limit_kib=65536";
        assert_eq!(config.xla_flags.show(), kept);
        let error = config.set_xla_flags("xla_tpu_scoped_vmem_limit_kb=1").unwrap_err();
        assert!(matches!(error, ConfigError::Flag { .. }), "{error}");
        assert!(error.remedy().contains("xla_tpu_scoped_vmem_limit_kib"), "{}", error.remedy());
        let error = config.set_xla_flags("xla_tpu_scoped_vmem_limit_kib").unwrap_err();
        assert!(matches!(error, ConfigError::Value { .. }), "{error}");
        assert_eq!(config.xla_flags.show(), kept, "a mistake changes nothing");
        // Names that are passed around and that libtpu does not have.
        for name in ["xla_tpu_enable_data_parallelism", "xla_tpu_enable_megacore_fusion", "xla_gpu_triton_gemm_any"] {
            assert!(config.set_xla_flags(&format!("{name}=true")).is_err(), "{name}");
        }
        config.set_xla_flags("none").unwrap();
        assert!(config.xla_flags.is_empty());
    }
}
