//! Types of options that are more than a number.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use compile::optimize::{ComputePrecision, GradientCheckpointing, Level};
use pjrt::Effort;

use super::setting::Setting;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $word:literal $(or $other:literal)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word for the value.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl Setting for $name {
            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word $(| $other)? => Ok(Self::$variant),)*
                    _ => Err([$($word),*].join(", ")),
                }
            }

            fn show(&self) -> String {
                self.name().to_string()
            }
        }
    };
}

words! {
    /// What the process is for; sets the defaults of the other options.
    Mode {
        /// Programs run as they are, as fast as possible.
        Inference "inference",
        /// State is updated step by step.
        Training "training",
        /// Mistakes are found early, at the cost of speed.
        Development "development",
    }
}

impl Setting for ComputePrecision {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "bfloat16" => Ok(ComputePrecision::Bf16),
            "float32" => Ok(ComputePrecision::F32),
            _ => word(text, &ComputePrecision::ALL, ComputePrecision::name),
        }
    }

    fn show(&self) -> String {
        self.name().to_string()
    }
}

impl Setting for Level {
    fn read(text: &str) -> Result<Self, String> {
        word(text, &Level::ALL, Level::name)
    }

    fn show(&self) -> String {
        self.name().to_string()
    }
}

impl Setting for GradientCheckpointing {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(GradientCheckpointing::Activations),
            "false" => Ok(GradientCheckpointing::None),
            _ => word(text, &GradientCheckpointing::ALL, GradientCheckpointing::name),
        }
    }

    fn show(&self) -> String {
        self.name().to_string()
    }
}

/// The value of this name, else all names.
fn word<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|value| name(*value) == text);
    found.ok_or_else(|| all.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", "))
}

words! {
    /// How hard the compiler tries to save device memory.
    MemoryOptimization {
        /// Speed first.
        None "none",
        /// The compiler's own balance.
        Normal "normal",
        /// Memory first.
        Aggressive "aggressive",
    }
}

words! {
    /// A choice that is on, off, or left to the compiler.
    Switch {
        /// As the compiler does by itself.
        Auto "auto",
        /// On.
        On "on",
        /// Off.
        Off "off",
    }
}

/// A number above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// The fraction, if the number is one.
    pub fn new(value: f64) -> Option<Fraction> {
        (value > 0.0 && value <= 1.0).then_some(Fraction(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Setting for Fraction {
    fn read(text: &str) -> Result<Self, String> {
        let value = text.parse().ok().and_then(Fraction::new);
        value.ok_or_else(|| "a number above 0 and at most 1".into())
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A length of time, above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(Duration);

impl Seconds {
    /// The longest time that is taken: a hundred years.
    const MAX: f64 = 3.2e9;

    /// That many seconds, if that is a length of time.
    pub fn new(seconds: f64) -> Option<Seconds> {
        (seconds > 0.0 && seconds <= Self::MAX).then(|| Seconds(Duration::from_secs_f64(seconds)))
    }

    /// The time.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl Setting for Seconds {
    fn read(text: &str) -> Result<Self, String> {
        let value = text.parse().ok().and_then(Seconds::new);
        value.ok_or_else(|| "a number of seconds above 0".into())
    }

    fn show(&self) -> String {
        self.0.as_secs_f64().to_string()
    }
}

/// Which device to use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// A TPU, else a GPU, else the built-in CPU device.
    #[default]
    Auto,
    /// The built-in CPU device.
    Cpu,
    /// An NVIDIA GPU through a CUDA plugin.
    Cuda,
    /// A TPU through libtpu.
    Tpu,
    /// The devices of this plugin.
    Plugin(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => Target::Auto,
            "cpu" => Target::Cpu,
            "cuda" | "gpu" => Target::Cuda,
            "tpu" => Target::Tpu,
            path if path.contains(['/', '.']) => Target::Plugin(path.into()),
            _ => return Err("auto, cpu, cuda, tpu, or the path of a plugin".into()),
        })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Auto => f.write_str("auto"),
            Target::Cpu => f.write_str("cpu"),
            Target::Cuda => f.write_str("cuda"),
            Target::Tpu => f.write_str("tpu"),
            Target::Plugin(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Setting for Target {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for chips::Slice {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: chips::Error| format!("a slice name such as v5e-16 ({error})"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for PathBuf {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a path".into()) } else { Ok(text.into()) }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

/// An amount of memory in GiB, above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Gibibytes(f64);

impl Gibibytes {
    /// The most that is taken.
    const MAX: f64 = 1e6;

    /// That many GiB, if that is an amount of memory.
    pub fn new(gib: f64) -> Option<Gibibytes> {
        (gib > 0.0 && gib <= Self::MAX).then_some(Gibibytes(gib))
    }

    /// The amount in bytes.
    pub fn bytes(self) -> u64 {
        (self.0 * (1u64 << 30) as f64) as u64
    }
}

impl Setting for Gibibytes {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().ok().and_then(Gibibytes::new).ok_or_else(|| "a number of GiB above 0".into())
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Effort levels, by number.
const EFFORTS: [(Effort, &str); 4] = [(Effort::O0, "0"), (Effort::O1, "1"), (Effort::O2, "2"), (Effort::O3, "3")];

impl Setting for Effort {
    fn read(text: &str) -> Result<Self, String> {
        let found = EFFORTS.iter().find(|(_, number)| text.trim_start_matches('O') == *number);
        found.map(|(effort, _)| *effort).ok_or_else(|| "0, 1, 2 or 3".into())
    }

    fn show(&self) -> String {
        EFFORTS.iter().find(|(effort, _)| effort == self).map_or("", |(_, number)| number).to_string()
    }
}
