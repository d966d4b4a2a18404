//! Where the profiler of a training is asked: its address in the settings, and the file in a run's folder that tells it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Where a training listens: `PORT` on the loopback interface, or `IP:PORT`. Port 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilerAddress(SocketAddr);

impl ProfilerAddress {
    /// The address for one of several processes: ports count up, so that processes of one machine do not collide.
    pub(crate) fn of_process(self, rank: usize) -> SocketAddr {
        let mut address = self.0;
        if address.port() != 0 {
            let port = usize::from(address.port()).saturating_add(rank);
            address.set_port(u16::try_from(port).unwrap_or(0));
        }
        address
    }
}

impl FromStr for ProfilerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ProfilerAddress, String> {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let port = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>();
        let address = port.map(loopback).or_else(|_| text.parse());
        address
            .map(ProfilerAddress)
            .map_err(|_| format!("`{text}` is no port and no IP:PORT, as in 9012 or 10.0.0.7:9012"))
    }
}

impl fmt::Display for ProfilerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Version of the file.
const VERSION: u32 = 1;

/// The profiler of a training under way, as its folder tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningProfiler {
    version: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process on its machine.
    pub pid: u32,
    /// Its number among the processes of the training.
    pub process: usize,
}

impl RunningProfiler {
    fn path(folder: &Path, process: usize) -> PathBuf {
        match process {
            0 => folder.join("profiler.json"),
            other => folder.join(format!("profiler-{other}.json")),
        }
    }

    /// What the folder of a run tells of the profiler of one of its processes.
    pub fn read(folder: &Path, process: usize) -> Result<RunningProfiler, Error> {
        let path = RunningProfiler::path(folder, process);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Error::new(format!("{}: {error}", path.display())).hint(
                "a training that can be profiled on demand writes this file: start it with --profiler PORT, or give HOST:PORT",
            )
        })?;
        let wrong = |why: &dyn fmt::Display| {
            Error::new(format!("{} is not the file of a running profiler: {why}", path.display()))
                .hint("start the training again with this version, or give HOST:PORT")
        };
        let read: RunningProfiler = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if read.version != VERSION {
            return Err(wrong(&format_args!("its version is {}, not {VERSION}", read.version)));
        }
        Ok(read)
    }
}

/// The file of a running profiler, which goes when the profiler does.
#[derive(Debug)]
pub(super) struct AddressFile {
    path: PathBuf,
    profiler: RunningProfiler,
}

impl AddressFile {
    pub(super) fn write(folder: &Path, address: SocketAddr, process: usize) -> std::io::Result<AddressFile> {
        let profiler = RunningProfiler { version: VERSION, address, pid: std::process::id(), process };
        std::fs::create_dir_all(folder)?;
        let mut file = weights::unfinished_file(folder, ".tmp")?;
        serde_json::to_writer_pretty(&mut file, &profiler)?;
        let path = RunningProfiler::path(folder, process);
        file.persist(&path).map_err(|error| error.error)?;
        Ok(AddressFile { path, profiler })
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        // Another run may have the folder by now: its file stays.
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        if serde_json::from_str::<RunningProfiler>(&text).is_ok_and(|found| found == self.profiler) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_on_the_loopback_interface() {
        let check = |text: &str, expected: &str| {
            let address: ProfilerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), expected);
        };
        check("9012", "127.0.0.1:9012");
        check("0", "127.0.0.1:0");
        check("localhost:9012", "127.0.0.1:9012");
        check("0.0.0.0:9012", "0.0.0.0:9012");
        check("[::1]:9012", "[::1]:9012");
        for wrong in ["", "x", "70000", "host:9012", "1.2.3.4"] {
            assert!(wrong.parse::<ProfilerAddress>().is_err(), "{wrong}");
        }
        let address: ProfilerAddress = "9012".parse().unwrap();
        assert_eq!(address.of_process(3).port(), 9015);
    }

    #[test]
    fn the_file_goes_with_its_profiler_but_not_with_that_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let address: SocketAddr = "127.0.0.1:9012".parse().unwrap();
        let file = AddressFile::write(folder.path(), address, 0).unwrap();
        assert_eq!(RunningProfiler::read(folder.path(), 0).unwrap().address, address);
        drop(file);
        assert!(RunningProfiler::read(folder.path(), 0).is_err());
        let file = AddressFile::write(folder.path(), address, 2).unwrap();
        let later = AddressFile::write(folder.path(), "127.0.0.1:9013".parse().unwrap(), 2).unwrap();
        drop(file);
        assert_eq!(RunningProfiler::read(folder.path(), 2).unwrap().address.port(), 9013);
        drop(later);
        std::fs::write(folder.path().join("profiler.json"), "{").unwrap();
        let error = RunningProfiler::read(folder.path(), 0).unwrap_err();
        assert!(error.to_string().contains("profiler.json"), "{error}");
    }
}
