//! Encrypted and signed checkpoints: round trips, and everything that must be refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tensor::{DType, Literal};
use trust::{SealError, SealingKey, SecretKey, SignatureError};
use weights::{CheckpointManager, Error, IntegrityCheck, Keep, Protection, Saver, Snapshot, SnapshotPiece, Types};

/// Larger than two chunks of the encryption.
const ELEMENTS: usize = 50_000;

fn values(seed: usize) -> Arc<Literal> {
    let bytes = (0..ELEMENTS).flat_map(|n| ((n * 7 + seed) as f32).to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, vec![ELEMENTS], bytes).unwrap())
}

fn manager(folder: &Path, protection: &Protection) -> CheckpointManager {
    CheckpointManager::open(folder.to_str().unwrap()).unwrap().protected(protection.clone())
}

fn save(folder: &Path, protection: &Protection, step: u64) {
    let mut saver = Saver::new(manager(folder, protection), Keep::ALL).unwrap().with_file_bytes(300_000);
    let pieces = ["a", "b", "c"]
        .into_iter()
        .enumerate()
        .map(|(n, name)| SnapshotPiece::slice(name.to_string(), &[ELEMENTS], &[0], values(n + step as usize)));
    let metadata = serde_json::json!({ "secret plan": step });
    saver.save(Snapshot { step, pieces: pieces.collect(), metadata }).unwrap();
}

fn read(folder: &Path, protection: &Protection, step: u64) -> Result<(), Error> {
    let saved = manager(folder, protection).load(step)?;
    saved.verify()?;
    let all = saved.read_all(Types::AsSaved)?;
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(all[name], *values(n + step as usize), "{name}");
    }
    Ok(())
}

/// Files of a step, the manifest last.
fn files(folder: &Path, step: u64) -> Vec<PathBuf> {
    let folder = folder.join(format!("step-{step:08}"));
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort_by_key(|path| (path.extension().is_some_and(|ending| ending == "json"), path.clone()));
    files
}

fn encrypted() -> Protection {
    Protection { encryption_key: Some(SealingKey::generate().unwrap()), ..Protection::default() }
}

fn signed() -> Protection {
    let key = SecretKey::generate().unwrap();
    let trusted_keys = Some(vec![key.public("")]);
    Protection { signing_key: Some(Arc::new(key)), trusted_keys, ..Protection::default() }
}

#[test]
fn encrypted_checkpoints_come_back_and_say_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let protection = encrypted();
    save(folder.path(), &protection, 1);
    save(folder.path(), &protection, 2);
    read(folder.path(), &protection, 1).unwrap();
    let found = manager(folder.path(), &protection).latest_good(IntegrityCheck::Contents).unwrap();
    assert_eq!((found.saved.step(), found.damaged.len()), (2, 0));
    let files = files(folder.path(), 2);
    assert!(files.len() >= 3, "several files: {files:?}");
    let plain = values(2);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"secret plan" || window == b"safetensors"), "{file:?}");
        assert!(!bytes.windows(64).any(|window| window == &plain.bytes()[..64]), "{file:?}");
    }
}

#[test]
fn a_wrong_key_is_told_from_damage_and_nothing_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let protection = encrypted();
    save(folder.path(), &protection, 1);
    let other = read(folder.path(), &encrypted(), 1).unwrap_err();
    assert!(matches!(&other, Error::Sealed { source: SealError::OtherKey(..), .. }) && !other.is_damage(), "{other}");
    let without = Protection::default();
    assert!(matches!(read(folder.path(), &without, 1), Err(Error::NoKey { .. })));
    // Neither of them may take it for the rest of an interrupted save.
    for wrong in [encrypted(), without.clone()] {
        let found = manager(folder.path(), &wrong).latest_good(IntegrityCheck::Sizes);
        assert!(matches!(found, Err(Error::Sealed { .. } | Error::NoKey { .. })));
        let mut saver = Saver::new(manager(folder.path(), &wrong), Keep::newest(1)).unwrap();
        let piece = SnapshotPiece::slice("a", &[ELEMENTS], &[0], values(0));
        let snapshot = Snapshot { step: 9, pieces: vec![piece], metadata: serde_json::Value::Null };
        let _ = saver.save(snapshot);
        drop(saver);
        read(folder.path(), &protection, 1).unwrap();
    }

    // A plain checkpoint in the place of an encrypted one is refused.
    let plain = tempfile::tempdir().unwrap();
    save(plain.path(), &without, 1);
    assert!(matches!(read(plain.path(), &protection, 1), Err(Error::Sealed { source: SealError::NotSealed, .. })));
}

#[test]
fn changed_cut_and_swapped_files_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let protection = encrypted();
    save(folder.path(), &protection, 1);
    save(folder.path(), &protection, 2);
    let check = |what: &str| {
        let error = read(folder.path(), &protection, 2).expect_err(what);
        assert!(error.is_damage(), "{what}: {error}");
        // Training goes on from the one before, with a warning.
        let found = manager(folder.path(), &protection).latest_good(IntegrityCheck::Contents).unwrap();
        assert_eq!((found.saved.step(), found.damaged[0].0), (1, 2), "{what}");
    };
    let (ours, before) = (files(folder.path(), 2), files(folder.path(), 1));
    for file in &ours {
        let whole = std::fs::read(file).unwrap();
        for at in [70, whole.len() / 2, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(file, &changed).unwrap();
            check(&format!("{file:?} changed at {at}"));
        }
        for length in [0, 63, whole.len() - 1] {
            std::fs::write(file, &whole[..length]).unwrap();
            check(&format!("{file:?} cut to {length}"));
        }
        std::fs::write(file, &whole).unwrap();
    }
    // Files of the same key and size, under each other's names; and a whole checkpoint under another step.
    let (one, two) = (std::fs::read(&ours[0]).unwrap(), std::fs::read(&ours[1]).unwrap());
    assert_eq!(one.len(), two.len());
    std::fs::write(&ours[0], &two).unwrap();
    std::fs::write(&ours[1], &one).unwrap();
    check("swapped");
    std::fs::write(&ours[0], &one).unwrap();
    std::fs::write(&ours[1], &two).unwrap();
    read(folder.path(), &protection, 2).unwrap();
    std::fs::copy(before.last().unwrap(), ours.last().unwrap()).unwrap();
    check("the manifest of another step");
}

#[test]
fn signed_checkpoints_are_read_by_whom_they_are_for() {
    let folder = tempfile::tempdir().unwrap();
    let ours = signed();
    save(folder.path(), &ours, 1);
    read(folder.path(), &ours, 1).unwrap();
    read(folder.path(), &Protection::default(), 1).unwrap();
    let both = Protection { encryption_key: encrypted().encryption_key, ..ours.clone() };
    save(&folder.path().join("both"), &both, 1);
    read(&folder.path().join("both"), &both, 1).unwrap();

    let stranger = Protection { trusted_keys: signed().trusted_keys, ..Protection::default() };
    let unknown = read(folder.path(), &stranger, 1).unwrap_err();
    assert!(matches!(unknown, Error::Signature { source: SignatureError::UnknownKey(_), .. }), "{unknown}");
    let plain = tempfile::tempdir().unwrap();
    save(plain.path(), &Protection::default(), 1);
    assert!(matches!(read(plain.path(), &ours, 1), Err(Error::Unsigned { .. })));
}

/// Somebody who can write there and knows the formats: checksums are right, the signature is not theirs.
#[test]
fn what_was_signed_cannot_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let ours = signed();
    save(folder.path(), &ours, 1);
    let names = files(folder.path(), 1);
    let manifest = names.last().unwrap();
    let text = std::fs::read_to_string(manifest).unwrap();

    // Other tensors of the same size, with the checksums of the manifest made anew.
    let (contents, signature) = text.split_once('\n').unwrap();
    let value: serde_json::Value = serde_json::from_str(contents).unwrap();
    let changed = value["contents"].to_string().replace("secret plan", "public plan");
    let forged = format!(r#"{{"version":1,"crc32":{},"contents":{changed}}}"#, crc32fast::hash(changed.as_bytes()));
    std::fs::write(manifest, format!("{forged}\n{signature}")).unwrap();
    assert!(matches!(read(folder.path(), &ours, 1), Err(Error::Signature { source: SignatureError::Wrong(_), .. })));
    std::fs::write(manifest, forged).unwrap();
    assert!(matches!(read(folder.path(), &ours, 1), Err(Error::Unsigned { .. })));
    std::fs::write(manifest, &text).unwrap();
    read(folder.path(), &ours, 1).unwrap();

    // The signed manifest of one step in the folder of another.
    save(folder.path(), &ours, 2);
    std::fs::copy(manifest, files(folder.path(), 2).last().unwrap()).unwrap();
    assert!(read(folder.path(), &ours, 2).is_err());

    // Other contents of a file: a CRC can be made for them, a SHA-256 cannot.
    let file = &names[0];
    let mut bytes = std::fs::read(file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(file, bytes).unwrap();
    assert!(read(folder.path(), &ours, 1).unwrap_err().is_damage());
}
