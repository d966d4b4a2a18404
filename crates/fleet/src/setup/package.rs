//! The plugin packages setup knows, with the hashes it accepts.
//!
//! Adding a version is a line in the table: every hash below was taken from a downloaded wheel or, for the tags not
//! downloaded, from the package index.

/// A package with a PJRT plugin in it.
#[derive(Debug)]
pub(crate) struct Package {
    /// Name on the package index, and of the folder under `plugins/`.
    pub(crate) name: &'static str,
    /// The library's path in the wheel.
    pub(crate) member: &'static str,
    /// The library's name in the managed folder.
    pub(crate) file: &'static str,
    /// The version to take when none is asked for.
    pub(crate) default_version: &'static str,
    /// Machines the package is published for.
    pub(crate) machines: &'static [&'static str],
    pins: &'static [Pin],
}

/// What is known of one version for one kind of machine.
#[derive(Debug)]
pub(crate) struct Pin {
    version: &'static str,
    machine: &'static str,
    /// Size of the wheel for [`PYTHON_VERSION`].
    pub(crate) download_bytes: u64,
    pub(crate) library_bytes: u64,
    pub(crate) library_sha256: &'static str,
    /// One for each Python the wheel is published for; all of them hold the same library.
    pub(crate) wheel_sha256: &'static [&'static str],
}

/// The Python whose wheel is asked for, whichever runs the installer. Only a helper library in the wheel depends on it.
pub(crate) const PYTHON_VERSION: &str = "3.12";
/// ABI tags that go with [`PYTHON_VERSION`].
pub(crate) const PYTHON_ABIS: [&str; 3] = ["cp312", "abi3", "none"];
/// C library levels of wheels to accept, newest first.
pub(crate) const PLATFORMS: [&str; 3] = ["manylinux_2_31", "manylinux_2_27", "manylinux2014"];

const PACKAGES: [Package; 2] = [
    Package {
        name: "libtpu",
        member: "libtpu/libtpu.so",
        file: "libtpu.so",
        default_version: "0.0.51",
        machines: &["x86_64"],
        pins: &[Pin {
            version: "0.0.51",
            machine: "x86_64",
            download_bytes: 204_805_132,
            library_bytes: 574_812_664,
            library_sha256: "ad0b2a3bc5d4de96f653b3701aaed8769a691776ca0e14c791dcdca785d43e42",
            wheel_sha256: &[
                "ba67ddbfdbac61c8da1fafc26cd51b93e9fe4d298016e2882eb986b1718cba34", // cp311
                "aeb662a3174a89fd9a94ac64c965a72f43c65436f5546abbcb8968c9d9552631", // cp312
                "bd46d9e836e66d21e1217c89459f3d000743596fe464ee2203af6cdcbf05b62f", // cp313
                "32d2c77ae4852d9f3dd433ae107c1300d500e1311204950f5ced435af32c00b5", // cp314
                "76221ce2e096f14953510566d0f53b992140c2f14eac85a443cdf88fb0d5c815", // cp314t
                "e9e2ddf9a18630b5191a7d4953322782cf35bb9f0911abf0f4fad6a560c61720", // cp315
                "f64b5eda0c7bc744e4ca65d814f6d1af0e4f5629c2fdb5f6467097c3380573e1", // cp315t
            ],
        }],
    },
    Package {
        name: "xla-cpu-pjrt",
        member: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        file: "xla_cpu_pjrt.so",
        default_version: "0.0.1",
        machines: &["x86_64", "aarch64"],
        pins: &[
            Pin {
                version: "0.0.1",
                machine: "x86_64",
                download_bytes: 63_461_052,
                library_bytes: 259_284_552,
                library_sha256: "88c3f28c5900f48ad4a82cab9e79bba9537809743395e341485f8794268820dc",
                wheel_sha256: &["55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc"],
            },
            Pin {
                version: "0.0.1",
                machine: "aarch64",
                download_bytes: 49_514_947,
                library_bytes: 200_328_224,
                library_sha256: "fcf411f3e8ff635c2b2cf87215aa7016f460e66d236c3db08309e7486583532d",
                wheel_sha256: &["8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9"],
            },
        ],
    },
];

impl Package {
    /// The package of this name; `_` and `-` are the same, as on the package index.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let name = normalized(name);
        const { &PACKAGES }.iter().find(|p| p.name == name)
    }

    /// What is known of a version on a kind of machine.
    pub(crate) fn pin(&self, version: &str, machine: &str) -> Option<&'static Pin> {
        self.pins.iter().find(|p| p.version == version && p.machine == machine)
    }
}

/// Names of all known packages.
pub fn package_names() -> Vec<&'static str> {
    PACKAGES.iter().map(|p| p.name).collect()
}

/// A package name as the index compares it.
pub(crate) fn normalized(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Whether a text can stand as a version on a command line and as a folder name.
pub(crate) fn is_version(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ".+_-".contains(c))
}

/// A sha256 in lower-case hexadecimal, from any way people write it.
pub(crate) fn sha256_from(text: &str) -> Option<String> {
    let digits = text.trim().trim_start_matches("sha256:").trim_start_matches("sha256=");
    (digits.len() == 64 && digits.chars().all(|c| c.is_ascii_hexdigit())).then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_pinned_for_every_machine() {
        for package in &PACKAGES {
            for machine in package.machines {
                let pin = package.pin(package.default_version, machine);
                let pin = pin.unwrap_or_else(|| panic!("{} for {machine}", package.name));
                assert!(pin.wheel_sha256.iter().chain([&pin.library_sha256]).all(|h| sha256_from(h).is_some()));
            }
            assert!(package.member.ends_with(package.file));
        }
    }

    #[test]
    fn names_and_versions() {
        assert_eq!(Package::named("XLA_CPU_PJRT").map(|p| p.name), Some("xla-cpu-pjrt"));
        assert!(Package::named("libtpu2").is_none());
        for good in ["0.0.51", "0.0.11.1", "1.0rc1", "0.1.dev20260101+nightly"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "..", ".1", "-r", "1/2", "1 2", "v1", &"1".repeat(65)] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
