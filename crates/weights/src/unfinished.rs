//! Files that get their name when they are whole, with the permissions of any file: what the umask lets.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file without a name of its own yet, in the folder where it will have one. Temporary files are their owner's alone as a
/// rule; this one will be read by whom the umask lets.
pub fn unfinished_file(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    let mode = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(prefix).permissions(mode).tempfile_in(folder)
}
