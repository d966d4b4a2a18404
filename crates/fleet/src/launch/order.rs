//! What a launcher tells a worker on its standard input: one line of JSON with the command, then one line for each order.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// Version of the first line. A worker of another release is refused by it.
const VERSION: u32 = 1;

/// Bytes of the first line at most.
pub(super) const MAX_ORDER_BYTES: u64 = 4 << 20;

/// What ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOrder {
    /// SIGTERM: save and stop.
    Terminate,
    /// SIGINT: the same, from a keyboard.
    Interrupt,
    /// SIGKILL.
    Kill,
}

impl StopOrder {
    /// The line.
    pub(super) fn line(self) -> &'static str {
        match self {
            StopOrder::Terminate => "terminate\n",
            StopOrder::Interrupt => "interrupt\n",
            StopOrder::Kill => "kill\n",
        }
    }

    pub(super) fn read(line: &str) -> Option<StopOrder> {
        [StopOrder::Terminate, StopOrder::Interrupt, StopOrder::Kill].into_iter().find(|order| order.line() == line)
    }

    pub(super) fn signal(self) -> Signal {
        match self {
            StopOrder::Terminate => Signal::TERM,
            StopOrder::Interrupt => Signal::INT,
            StopOrder::Kill => Signal::KILL,
        }
    }
}

/// The first line: what a worker starts. Words are bytes, since file names are.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartOrder {
    version: u32,
    command: Vec<Word>,
    pub(super) environment: Vec<(String, String)>,
    /// Variables that the process must not have.
    pub(super) without: Vec<String>,
    folder: Option<Word>,
    kill_after_ms: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

impl Word {
    fn of(word: &OsStr) -> Word {
        match word.to_str() {
            Some(text) => Word::Text(text.to_string()),
            None => Word::Bytes(word.as_bytes().to_vec()),
        }
    }

    fn os(&self) -> OsString {
        match self {
            Word::Text(text) => text.into(),
            Word::Bytes(bytes) => OsString::from_vec(bytes.clone()),
        }
    }
}

impl StartOrder {
    pub(super) fn new(
        command: &[OsString],
        environment: Vec<(String, String)>,
        folder: Option<PathBuf>,
        kill_after: Duration,
    ) -> StartOrder {
        StartOrder {
            version: VERSION,
            command: command.iter().map(|word| Word::of(word)).collect(),
            environment,
            // A run has one secret.
            without: vec!["TPUBRIDGE_SECRET_FILE".into()],
            folder: folder.map(|folder| Word::of(folder.as_os_str())),
            kill_after_ms: kill_after.as_millis().try_into().unwrap_or(u64::MAX),
        }
    }

    pub(super) fn line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|text| text + "\n")
    }

    pub(super) fn read(line: &str) -> Result<StartOrder, String> {
        let order: StartOrder = serde_json::from_str(line)
            .map_err(|error| format!("the launcher's order cannot be read, is it of another release? {error}"))?;
        match order.version {
            VERSION => Ok(order),
            other => Err(format!("the launcher speaks version {other}, this worker {VERSION}: install one release")),
        }
    }

    pub(super) fn command(&self) -> Vec<OsString> {
        self.command.iter().map(Word::os).collect()
    }

    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.os().into())
    }

    pub(super) fn kill_after(&self) -> Duration {
        Duration::from_millis(self.kill_after_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_way_to_a_worker() {
        let command = [OsString::from("tpu"), OsString::from_vec(vec![b'a', 0xff]), OsString::from("two words\n")];
        let order =
            StartOrder::new(&command, vec![("A".into(), "b".into())], Some("/run".into()), Duration::from_millis(1500));
        let line = order.line().unwrap();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let read = StartOrder::read(&line).unwrap();
        assert_eq!(read, order);
        assert_eq!((read.command(), read.kill_after()), (command.to_vec(), Duration::from_millis(1500)));
        for order in [StopOrder::Terminate, StopOrder::Interrupt, StopOrder::Kill] {
            assert_eq!(StopOrder::read(order.line()), Some(order));
        }
        assert_eq!(StopOrder::read("end\n"), None);
    }

    #[test]
    fn an_order_of_another_release_is_refused() {
        let line = StartOrder::new(&["a".into()], Vec::new(), None, Duration::ZERO).line().unwrap();
        let wrong = StartOrder::read(&line.replace("\"version\":1", "\"version\":2")).unwrap_err();
        assert!(wrong.contains("version 2"), "{wrong}");
        assert!(StartOrder::read("{}").unwrap_err().contains("another release"));
    }
}
