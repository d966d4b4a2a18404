//! What processes say: line by line with the number of the process in front, and a file for each.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Bytes of a line at most; what is longer is told in parts.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Lines that are kept of a process's standard error, to be shown when it dies.
const LAST_LINES: usize = 6;

/// Which output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

/// Where the lines of all processes go.
#[derive(Clone)]
pub struct LaunchOutput {
    /// Lines of standard output.
    pub output: Arc<Mutex<dyn Write + Send>>,
    /// Lines of standard error.
    pub error: Arc<Mutex<dyn Write + Send>>,
}

impl LaunchOutput {
    /// Standard output and standard error of this process.
    pub fn standard() -> LaunchOutput {
        LaunchOutput { output: Arc::new(Mutex::new(io::stdout())), error: Arc::new(Mutex::new(io::stderr())) }
    }

    /// Both as standard error: what this process says itself on standard output is for programs.
    pub fn to_error() -> LaunchOutput {
        LaunchOutput { output: Arc::new(Mutex::new(io::stderr())), error: Arc::new(Mutex::new(io::stderr())) }
    }

    fn of(&self, stream: Stream) -> &Arc<Mutex<dyn Write + Send>> {
        match stream {
            Stream::Output => &self.output,
            Stream::Error => &self.error,
        }
    }
}

/// The two outputs of one process.
#[derive(Clone)]
pub(super) struct Told {
    prefix: String,
    output: LaunchOutput,
    log: Option<Arc<Mutex<File>>>,
    last: Arc<Mutex<VecDeque<String>>>,
}

impl Told {
    pub(super) fn new(prefix: String, output: &LaunchOutput, log: Option<File>) -> Told {
        Told { prefix, output: output.clone(), log: log.map(|file| Arc::new(Mutex::new(file))), last: Arc::default() }
    }

    /// The file of a process's output, which earlier runs have written to as well.
    pub(super) fn log(folder: &Path, process: usize) -> io::Result<File> {
        File::options().create(true).append(true).open(folder.join(format!("process-{process}.log")))
    }

    /// Tells everything that is read, until the end.
    pub(super) fn all(&self, stream: Stream, mut from: impl Read) {
        let mut pending = Vec::new();
        let mut bytes = vec![0; 16 << 10];
        loop {
            match from.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    pending.extend_from_slice(&bytes[..count]);
                    while let Some(end) = end_of_line(&pending) {
                        let rest = pending.split_off(end);
                        self.line(stream, &std::mem::replace(&mut pending, rest));
                    }
                }
            }
        }
        if !pending.is_empty() {
            self.line(stream, &pending);
        }
    }

    fn line(&self, stream: Stream, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let whole = [self.prefix.as_bytes(), line, b"\n"].concat();
        // A reader that is gone does not end the processes: their logs and their work go on.
        if let Ok(mut out) = self.output.of(stream).lock() {
            let _ = out.write_all(&whole).and_then(|()| out.flush());
        }
        if let Some(Ok(mut file)) = self.log.as_ref().map(|file| file.lock()) {
            let _ = file.write_all(&whole[self.prefix.len()..]);
        }
        if stream == Stream::Error
            && let Ok(mut last) = self.last.lock()
        {
            last.push_back(String::from_utf8_lossy(line).chars().take(400).collect());
            while last.len() > LAST_LINES {
                last.pop_front();
            }
        }
    }

    /// The last lines of standard error.
    pub(super) fn last_words(&self) -> Vec<String> {
        self.last.lock().map(|last| last.iter().cloned().collect()).unwrap_or_default()
    }
}

/// Where the first line ends, if all of it is there.
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n');
    end.map(|end| end + 1).or((bytes.len() >= MAX_LINE_BYTES).then_some(MAX_LINE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_number_of_their_process_and_files_have_not() {
        let folder = tempfile::tempdir().unwrap();
        let (output, error) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let both = LaunchOutput { output: output.clone(), error: error.clone() };
        let told = Told::new("[2] ".into(), &both, Some(Told::log(folder.path(), 2).unwrap()));
        told.all(Stream::Output, &b"one\ntwo"[..]);
        told.all(Stream::Error, &b"\xff bad\n"[..]);
        let long = vec![b'x'; MAX_LINE_BYTES + 3];
        told.all(Stream::Error, &long[..]);
        assert_eq!(output.lock().unwrap().as_slice(), b"[2] one\n[2] two\n");
        let said = error.lock().unwrap().clone();
        assert!(said.starts_with(b"[2] \xff bad\n[2] xxx"), "{}", String::from_utf8_lossy(&said[..40]));
        assert!(said.ends_with(b"x\n[2] xxx\n"));
        let file = std::fs::read(folder.path().join("process-2.log")).unwrap();
        assert!(file.starts_with(b"one\ntwo\n\xff bad\nxxx"));
        assert_eq!(told.last_words().len(), 3);
        assert_eq!(told.last_words()[2], "xxx");
    }
}
