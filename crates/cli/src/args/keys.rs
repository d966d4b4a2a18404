//! Arguments of what is kept, signed and encrypted: `tpu cache`, `tpu key`, and the keys of checkpoints.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CacheFolderArgs;

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    #[command(flatten)]
    pub(crate) folder: CacheFolderArgs,
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Entries, most recently used first.
    List,
    /// Hits, misses, hit rate, evictions, bytes, seconds saved.
    Stats,
    /// Remove every entry.
    Clear,
    /// Write entries to a bundle.
    Export {
        /// The bundle to write.
        bundle: PathBuf,
        /// Only entries whose key starts with one of these.
        #[arg(long = "key", value_name = "PREFIX")]
        keys: Vec<String>,
        /// Sign the bundle with the key in your configuration folder (`tpu key new`).
        #[arg(long)]
        sign: bool,
        /// Sign the bundle with the secret key in this file.
        #[arg(long, value_name = "FILE")]
        secret: Option<PathBuf>,
    },
    /// Add the entries of a bundle.
    Import {
        /// The bundle to read; its signature is FILE.minisig.
        bundle: PathBuf,
        /// Take it if this key signed it: a .pub file, or the key itself. Default: the keys of `tpu key list`.
        #[arg(long, value_name = "KEY")]
        key: Vec<String>,
        /// Take it without a signature: you know who made it. Its executables run as you.
        #[arg(long, conflicts_with = "key")]
        trust: bool,
    },
    /// Print the cache folder.
    Folder,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key: NAME.key, which signs, and NAME.pub, which checks.
    New {
        /// Where to, without an ending; default: `signing` in your configuration folder.
        #[arg(long, value_name = "NAME")]
        out: Option<PathBuf>,
        /// What the public key is called.
        #[arg(long, default_value = "")]
        comment: String,
        /// Make a key that encrypts checkpoints instead; default: `encryption` in your configuration folder.
        #[arg(long, conflicts_with = "comment")]
        encryption: bool,
    },
    /// Trust what a key signs.
    Trust {
        /// A .pub file, or the key itself.
        key: String,
    },
    /// No longer trust a key.
    Distrust {
        /// Its number, as `tpu key list` shows it.
        id: String,
    },
    /// Keys that are trusted.
    List,
    /// Sign a file: the signature is FILE.minisig.
    Sign {
        /// The file.
        file: PathBuf,
        /// The secret key; default: the one in your configuration folder.
        #[arg(long, value_name = "FILE")]
        secret: Option<PathBuf>,
    },
    /// Check a file against FILE.minisig.
    Verify {
        /// The file.
        file: PathBuf,
        /// A key that may have signed it; default: those that are trusted.
        #[arg(long, value_name = "KEY")]
        key: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointKeyArgs {
    /// Key that checkpoints are encrypted with: file:PATH, env:NAME, or command:LINE, which prints it.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) encryption_key: Option<String>,
    /// Read only checkpoints that this key signed: a .pub file, or the key itself. May be given several times.
    #[arg(long, value_name = "KEY")]
    pub(crate) trusted_key: Vec<String>,
}
