//! `tpu key`: keys that sign bundles and checkpoints, and the keys this user trusts.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trust::{
    AuditEvent, FileSignature, KeyId, KeySource, KeySourceError, Keyring, PublicKey, SealingKey, SecretKey,
    config_folder, create_private_folder, digest_file, sign_file, signature_path,
};
use weights::Protection;

use crate::args::{CheckpointKeyArgs, KeyArgs, KeyCommand};
use crate::audit::{Details, audited};
use crate::failure::{Answer, Failure, file};
use crate::output::{Align, Output, Table};

/// The key that signs where no other is named.
const DEFAULT_NAME: &str = "signing";

#[derive(Serialize)]
struct KeyRecord {
    id: KeyId,
    comment: String,
    /// The key as one line, as `--key` and `minisign -P` take it.
    public_key: String,
}

impl KeyRecord {
    fn of(key: &PublicKey) -> KeyRecord {
        let public_key = key.text().lines().last().unwrap_or_default().to_string();
        KeyRecord { id: key.id(), comment: key.comment().to_string(), public_key }
    }
}

pub(crate) fn run(args: &KeyArgs, output: &Output) -> Result<Answer, Failure> {
    match &args.command {
        KeyCommand::New { out, encryption: true, .. } => new_encryption(out.as_deref(), output)?,
        KeyCommand::New { out, comment, .. } => new(out.as_deref(), comment, output)?,
        KeyCommand::Trust { key } => {
            let key = PublicKey::open(key)?;
            let keyring = keyring()?;
            audited(AuditEvent::KeyTrust, key.id(), keyring.add(&key), |()| Details::new())?;
            let record = serde_json::json!({"version": 1, "trusted": KeyRecord::of(&key), "file": keyring.path()});
            output.record(&record, || format!("trusted: key {} ({})\n", key.id(), keyring.path().display()))?;
        }
        KeyCommand::Distrust { id } => {
            let removed = keyring()?.remove(id);
            let removed = audited(AuditEvent::KeyDistrust, id, removed, |was| vec![("was_trusted", (*was).into())])?;
            output.record(&serde_json::json!({"version": 1, "removed": removed}), || match removed {
                true => format!("key {id} is no longer trusted\n"),
                false => format!("key {id} was not trusted\n"),
            })?;
            return Ok(if removed { Answer::Yes } else { Answer::No });
        }
        KeyCommand::List => {
            let keys: Vec<KeyRecord> = keyring()?.keys()?.iter().map(KeyRecord::of).collect();
            output.record(&serde_json::json!({"version": 1, "trusted": keys}), || list_text(&keys))?;
        }
        KeyCommand::Sign { file, secret } => {
            let key = secret_key(secret.as_deref())?;
            let signed = audited(AuditEvent::KeySign, file.display(), sign_file(&key, file), |_| {
                vec![("key", key.id().to_string().into())]
            })?;
            let record = serde_json::json!({"version": 1, "key": key.id(), "signature": signed});
            output.record(&record, || format!("signed by key {}: {}\n", key.id(), signed.display()))?;
        }
        KeyCommand::Verify { file, key } => {
            let keys = trusted(key)?;
            let signature = FileSignature::open(&signature_path(file))?;
            signature.key_among(&keys)?;
            let comment = signature.check(&keys, digest_file(file)?)?;
            let record = serde_json::json!({"version": 1, "key": signature.key_id(), "comment": comment});
            output.record(&record, || format!("signed by key {}: {comment}\n", signature.key_id()))?;
        }
    }
    Ok(Answer::Yes)
}

/// Writes a key that encrypts; it exists in no other place.
fn new_encryption(out: Option<&Path>, output: &Output) -> Result<(), Failure> {
    let path = with_ending(&stem(out, "encryption")?, "key");
    let key = SealingKey::generate().map_err(Failure::new)?;
    let written = write_private(&path, &key.text());
    let details = |(): &()| vec![("key", key.id().into())];
    audited(AuditEvent::KeyNew, path.display(), written, details).map_err(|error| file("writing", &path, error))?;
    let record = serde_json::json!({"version": 1, "key": key.id(), "file": path});
    output.record(&record, || {
        let path = path.display();
        format!("encryption key {}: {path} (keep a copy: without it nothing can be read)\n", key.id())
    })
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

/// Where a key goes, without an ending.
fn stem(out: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    let stem = match out {
        Some(stem) => stem.to_path_buf(),
        None => folder()?.join(name),
    };
    if let Some(folder) = stem.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_private_folder(folder).map_err(|error| file("creating", folder, error))?;
    }
    Ok(stem)
}

fn new(out: Option<&Path>, comment: &str, output: &Output) -> Result<(), Failure> {
    let stem = stem(out, DEFAULT_NAME)?;
    let key = SecretKey::generate()?;
    let (secret, public) = (with_ending(&stem, "key"), with_ending(&stem, "pub"));
    audited(AuditEvent::KeyNew, secret.display(), key.save(&secret), |()| vec![("key", key.id().to_string().into())])?;
    std::fs::write(&public, key.public(comment).text()).map_err(|error| file("writing", &public, error))?;
    let record = serde_json::json!({
        "version": 1, "key": KeyRecord::of(&key.public(comment)), "secret_file": secret, "public_file": public,
    });
    output.record(&record, || {
        format!(
            "key {}\n  secret: {} (keep it; whoever has it signs as you)\n  public: {} (give it to whoever checks)\n",
            key.id(),
            secret.display(),
            public.display()
        )
    })
}

/// The key of a file, else the user's own.
pub(crate) fn secret_key(path: Option<&Path>) -> Result<SecretKey, Failure> {
    let path = match path {
        Some(path) => path.to_path_buf(),
        None => with_ending(&folder()?.join(DEFAULT_NAME), "key"),
    };
    if !path.exists() {
        return Err(Failure::new(format!("there is no key {}", path.display())).hint("make one with `tpu key new`"));
    }
    Ok(SecretKey::open(&path)?)
}

/// Keys to check with: the ones given, else those the user trusts.
pub(crate) fn trusted(given: &[String]) -> Result<Vec<PublicKey>, Failure> {
    if given.is_empty() {
        return Ok(keyring()?.keys()?);
    }
    Ok(given.iter().map(|key| PublicKey::open(key)).collect::<Result<_, _>>()?)
}

/// The keys that checkpoints are read with.
pub(crate) fn protection(keys: &CheckpointKeyArgs) -> Result<Protection, Failure> {
    let encryption_key = keys.encryption_key.as_ref().map(|source| source.parse::<KeySource>()?.key()).transpose();
    let encryption_key = encryption_key.map_err(|error: KeySourceError| {
        let remedy = error.remedy();
        Failure::new(error).hint(remedy)
    })?;
    let trusted_keys = if keys.trusted_key.is_empty() { None } else { Some(trusted(&keys.trusted_key)?) };
    Ok(Protection { encryption_key, trusted_keys, signing_key: None })
}

fn keyring() -> Result<Keyring, Failure> {
    Ok(Keyring::in_folder(&folder()?))
}

fn folder() -> Result<PathBuf, Failure> {
    config_folder(|name| std::env::var(name).ok())
        .ok_or_else(|| Failure::new("there is no configuration folder").hint("set $HOME or $XDG_CONFIG_HOME"))
}

/// `a.b` and `key` make `a.b.key`.
fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_os_string();
    name.push(".");
    name.push(ending);
    name.into()
}

fn list_text(keys: &[KeyRecord]) -> String {
    if keys.is_empty() {
        return "no key is trusted\n".into();
    }
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
    table.row(["KEY", "COMMENT", "PUBLIC KEY"]);
    keys.iter().for_each(|key| table.row([key.id.to_string(), key.comment.clone(), key.public_key.clone()]));
    table.render()
}
