//! Object stores on this machine: an S3 server, and one that speaks Google Cloud Storage's XML API.
//!
//! The first is moto, from PyPI: it keeps objects, ranges, listings, conditional and multipart uploads and their rules as S3 does,
//! needs no privileges, and installs in seconds. The second is moto too, with Google's generations in front
//! (`crates/testkit/python/gcs_server.py`).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::present::{Needed, repository, require};

/// The interface of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Amazon's.
    S3,
    /// Google's.
    Google,
}

/// A server with a bucket called `bucket`, in memory. It ends with this value.
#[derive(Debug)]
pub struct StoreServer {
    kind: StoreKind,
    child: Child,
    port: u16,
}

impl StoreServer {
    /// Starts it, or reports the skip of a test.
    pub fn start(test: &str, kind: StoreKind) -> Option<StoreServer> {
        let python = require(test, Needed::StoresPython)?;
        let script = match kind {
            StoreKind::S3 => "s3_server.py",
            StoreKind::Google => "gcs_server.py",
        };
        let script = repository().join("crates/testkit/python").join(script);
        let mut command = Command::new(python);
        command.arg(script).arg("bucket").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the server speaks");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("the server printed `{line}`"));
        Some(StoreServer { kind, child, port })
    }

    /// Its interface.
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of a prefix of its bucket.
    pub fn location(&self, prefix: &str) -> String {
        match self.kind {
            StoreKind::S3 => format!("s3://bucket/{prefix}"),
            StoreKind::Google => format!("gs://bucket/{prefix}"),
        }
    }

    /// What a person would put into the environment.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        StoreServer::environment_of(self.kind, self.port)
    }

    /// What a person would put into the environment for a server of this kind at a port.
    pub fn environment_of(kind: StoreKind, port: u16) -> Vec<(&'static str, String)> {
        let address = format!("http://127.0.0.1:{port}");
        match kind {
            StoreKind::S3 => vec![
                ("AWS_ACCESS_KEY_ID", "test".into()),
                ("AWS_SECRET_ACCESS_KEY", "test".into()),
                ("AWS_ALLOW_HTTP", "true".into()),
                ("AWS_ENDPOINT_URL", address),
            ],
            StoreKind::Google => vec![("STORAGE_EMULATOR_HOST", address)],
        }
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
