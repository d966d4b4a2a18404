//! A file of lines that another process adds to: read on from where the last reading ended, whole lines only.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Longest line that is read; longer ones are passed over.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Bytes read at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes before the place reading goes on that must still be the same.
const MARK_BYTES: usize = 64;

/// What is found in the file.
pub(super) enum Found<'a> {
    /// The file is another one, or was cut: what was read of it no longer holds.
    Anew,
    /// A line, without its end.
    Line(&'a [u8]),
    /// A line that is too long.
    TooLong,
}

/// How far a reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All whole lines are read.
    AtEnd,
    /// There is more.
    More,
}

/// A file that grows.
#[derive(Debug)]
pub(super) struct GrowingFile {
    path: PathBuf,
    /// Device and inode of what was read.
    identity: Option<(u64, u64)>,
    /// Length and time of change when all was read.
    at_end: Option<(u64, i64, i64)>,
    offset: u64,
    /// The bytes before `offset`.
    mark: Vec<u8>,
    is_in_long_line: bool,
}

impl GrowingFile {
    pub(super) fn new(path: PathBuf) -> GrowingFile {
        GrowingFile { path, identity: None, at_end: None, offset: 0, mark: Vec::new(), is_in_long_line: false }
    }

    /// Bytes that were read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.offset
    }

    /// Reads on, about so many bytes at most. A file that is gone is as an empty one.
    pub(super) fn read(&mut self, budget_bytes: usize, mut hear: impl FnMut(Found)) -> io::Result<Progress> {
        let metadata = match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => metadata,
            // To open a pipe would wait for its writer.
            Ok(_) => return Err(io::Error::other("it is no file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.identity.is_some() {
                    self.begin_anew(None);
                    hear(Found::Anew);
                }
                return Ok(Progress::AtEnd);
            }
            Err(error) => return Err(error),
        };
        let identity = Some((metadata.dev(), metadata.ino()));
        if self.identity == identity && self.at_end == Some(stamp(&metadata)) {
            return Ok(Progress::AtEnd);
        }
        let mut file = File::open(&self.path)?;
        if self.identity != identity || metadata.len() < self.offset || !self.is_as_marked(&mut file)? {
            if self.identity.is_some() {
                hear(Found::Anew);
            }
            self.begin_anew(identity);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let progress = self.read_lines(&mut file, budget_bytes, &mut hear)?;
        self.at_end = (progress == Progress::AtEnd).then(|| stamp(&metadata));
        Ok(progress)
    }

    fn begin_anew(&mut self, identity: Option<(u64, u64)>) {
        *self = GrowingFile { identity, ..GrowingFile::new(std::mem::take(&mut self.path)) };
    }

    /// Whether the bytes before the place are those that were read: a file can be cut and grow again between two readings.
    fn is_as_marked(&self, file: &mut File) -> io::Result<bool> {
        let mut now = vec![0; self.mark.len()];
        file.seek(SeekFrom::Start(self.offset.saturating_sub(self.mark.len() as u64)))?;
        match file.read_exact(&mut now) {
            Ok(()) => Ok(now == self.mark),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read_lines(
        &mut self,
        file: &mut File,
        budget_bytes: usize,
        hear: &mut impl FnMut(Found),
    ) -> io::Result<Progress> {
        let mut pending: Vec<u8> = Vec::new();
        let mut piece = vec![0; PIECE_BYTES];
        let (mut read, began) = (0, self.offset);
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Ok(Progress::AtEnd);
            }
            read += count;
            pending.extend_from_slice(piece.get(..count).unwrap_or_default());
            let mut rest = pending.as_slice();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let (line, after) = (rest.get(..end).unwrap_or_default(), rest.get(end + 1..).unwrap_or_default());
                if std::mem::take(&mut self.is_in_long_line) {
                    hear(Found::TooLong);
                } else if !line.is_empty() {
                    hear(Found::Line(line));
                }
                rest = after;
            }
            if rest.len() > MAX_LINE_BYTES {
                self.is_in_long_line = true;
                rest = &[];
            }
            let kept = rest.len();
            self.pass(pending.get(..pending.len() - kept).unwrap_or_default());
            pending.drain(..pending.len() - kept);
            // A line that is longer than the budget is read to its end all the same, or nothing would ever be.
            if read >= budget_bytes && self.offset > began {
                return Ok(Progress::More);
            }
        }
    }

    /// Moves past bytes.
    fn pass(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        self.mark.extend_from_slice(bytes.get(bytes.len().saturating_sub(MARK_BYTES)..).unwrap_or_default());
        self.mark.drain(..self.mark.len().saturating_sub(MARK_BYTES));
    }
}

fn stamp(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What is heard, as one text: `!` for anew, `#` for a line that is too long.
    fn heard(file: &mut GrowingFile, budget_bytes: usize) -> (String, Progress) {
        let mut text = String::new();
        let progress = file.read(budget_bytes, |found| match found {
            Found::Anew => text.push('!'),
            Found::Line(line) => text.push_str(&format!("{};", String::from_utf8_lossy(line))),
            Found::TooLong => text.push('#'),
        });
        (text, progress.unwrap())
    }

    #[track_caller]
    fn check(file: &mut GrowingFile, expected: &str) {
        assert_eq!(heard(file, 1 << 30), (expected.to_string(), Progress::AtEnd));
    }

    #[test]
    fn lines_are_read_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut file = GrowingFile::new(path.clone());
        check(&mut file, "");
        std::fs::write(&path, "a\nb\nhal").unwrap();
        check(&mut file, "a;b;");
        check(&mut file, "");
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writer.write_all(b"f\n\n\xff\n").unwrap();
        check(&mut file, "half;\u{fffd};");
        // Cut and grown again between two readings, replaced, gone, back.
        std::fs::write(&path, "c\nd\ne\nf\ng\nh\ni\nj\n").unwrap();
        check(&mut file, "!c;d;e;f;g;h;i;j;");
        std::fs::write(folder.path().join("new"), "c\nd\n").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        check(&mut file, "!c;d;");
        std::fs::remove_file(&path).unwrap();
        check(&mut file, "!");
        check(&mut file, "");
        std::fs::write(&path, "k\n").unwrap();
        check(&mut file, "k;");
    }

    #[test]
    fn long_lines_are_passed_over_and_long_files_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let long = "x".repeat(3 * MAX_LINE_BYTES);
        std::fs::write(&path, format!("a\n{long}\nb\n")).unwrap();
        let mut file = GrowingFile::new(path.clone());
        check(&mut file, "a;#b;");
        let mut file = GrowingFile::new(path);
        let mut all = String::new();
        let parts = (1..).find(|_| {
            let (text, progress) = heard(&mut file, 1);
            all.push_str(&text);
            progress == Progress::AtEnd
        });
        assert_eq!(all, "a;#b;");
        assert!(parts.is_some_and(|parts| parts > 4), "{parts:?}");
    }

    #[test]
    fn what_is_no_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = GrowingFile::new(folder.path().to_path_buf());
        assert!(file.read(1, |_| ()).is_err());
    }
}
