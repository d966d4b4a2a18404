//! The image made without Docker: the same bytes each time, digests that fit, a user that is not root, a list of its parts.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};
use testkit::repository;

fn make(out: &Path) -> String {
    let mut command = Command::new("python3");
    command.arg(repository().join("scripts/oci-image.py")).args(["--tpu", "/bin/true", "--tag", "1.2.3", "--out"]);
    let made = command.arg(out).env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

fn blob(out: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = std::fs::read(out.join("blobs/sha256").join(digest)).unwrap();
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((found.as_str(), bytes.len() as u64), (digest, descriptor["size"].as_u64().unwrap()));
    bytes
}

#[test]
fn an_image_is_made_without_docker_and_alike_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    assert_eq!(make(&one), make(&two));
    // A second time in the same place, and never over what is no image.
    make(&one);
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("mine"), "x").unwrap();
    let mut command = Command::new("python3");
    command.arg(repository().join("scripts/oci-image.py")).args(["--tpu", "/bin/true", "--tag", "1", "--out"]);
    assert!(!command.arg(&other).output().unwrap().status.success());
    assert!(other.join("mine").exists());

    let index: Value = serde_json::from_slice(&std::fs::read(one.join("index.json")).unwrap()).unwrap();
    let manifest: Value = serde_json::from_slice(&blob(&one, &index["manifests"][0])).unwrap();
    let config: Value = serde_json::from_slice(&blob(&one, &manifest["config"])).unwrap();
    let layer = blob(&one, &manifest["layers"][0]);
    assert!(layer.starts_with(&[0x1f, 0x8b]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/local/bin/tpu");
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    let parts: Value = serde_json::from_slice(&std::fs::read(one.join("sbom.spdx.json")).unwrap()).unwrap();
    assert_eq!(parts["spdxVersion"], "SPDX-2.3");
    let has =
        |list: &str, field: &str, name: &str| parts[list].as_array().unwrap().iter().any(|part| part[field] == name);
    assert!(has("packages", "name", "tpubridge-cli") && has("packages", "name", "serde_json"));
    assert!(
        has("files", "fileName", "/usr/local/bin/tpu")
            && has("files", "fileName", "/etc/ssl/certs/ca-certificates.crt")
    );
    assert!(!parts.to_string().contains("/bin/sh"));
}
