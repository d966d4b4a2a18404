//! A preemption notice in mid-training: saved, stopped, told by an exit code of its own; taken up again.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use crate::harness::{Bench, arg, ran};

pub(crate) const ENDLESS: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 32
n_positions = 16
n_embd = 16
n_layer = 1
n_head = 2

[data]
kind = "synthetic"
sequence_length = 8

[optimizer]
name = "sgd"
learning_rate = 1e-2

[train]
steps = 10000000
batch_size = 2
log_every = 1
"#;

/// A metadata server: the value of `preempted` is FALSE until it is told otherwise, and requests that wait are kept.
pub(crate) struct Server {
    pub(crate) address: String,
    /// Request lines as they come.
    asked: Receiver<String>,
    pub(crate) waiting: Receiver<TcpStream>,
}

pub(crate) fn answer(stream: &mut TcpStream, etag: &str, body: &str) {
    let head =
        format!("HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nETag: {etag}\r\nContent-Length: {}\r\n", body.len());
    let _ = write!(stream, "{head}\r\n{body}");
}

pub(crate) fn server(preempted: bool) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ((ask, asked), (wait, waiting)) = (channel(), channel());
    std::thread::spawn(move || {
        let mut parked = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            assert!(head.iter().any(|line| line.eq_ignore_ascii_case("Metadata-Flavor: Google")), "{head:?}");
            let is_waiting = request.contains("wait_for_change=true");
            if request.contains("/instance/maintenance-event") {
                match is_waiting {
                    true => parked.push(stream),
                    false => answer(&mut stream, "m1", "NONE"),
                }
            } else if !request.contains("/computeMetadata/v1/instance/preempted") {
                // Which hosts a slice has, say: this machine is none of a slice.
                let nothing = "HTTP/1.1 404 Not Found\r\nMetadata-Flavor: Google\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(nothing.as_bytes()).unwrap();
                continue;
            } else {
                match is_waiting {
                    true => drop(wait.send(stream)),
                    false => answer(&mut stream, "p1", if preempted { "TRUE" } else { "FALSE" }),
                }
            }
            let _ = ask.send(request);
        }
    });
    Server { address, asked, waiting }
}

#[test]
fn a_notice_in_mid_training_saves_and_ends() {
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    let server = server(false);
    let args = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--json"];
    let mut command = bench.command(&args);
    command.env("GCE_METADATA_HOST", &server.address);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Steps are under way, and the server is waited for: then it speaks.
    assert!(lines.next().unwrap().unwrap().contains("step "));
    let mut stream = server.waiting.recv().unwrap();
    let reader = std::thread::spawn(move || lines.map(Result::unwrap).collect::<Vec<String>>());
    answer(&mut stream, "p2", "TRUE");
    drop(stream);
    let ran = ran(child.wait_with_output().unwrap());
    let said = reader.join().unwrap().join("\n");
    assert_eq!(ran.code, Some(75), "{}{said}", ran.stdout);
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(record["ended"], "preempted");
    assert!(said.contains("Google preempts this machine") && said.contains("is saved"), "{said}");
    let manager = weights::CheckpointManager::open(arg(&bench.path("run/checkpoints"))).unwrap();
    let saved = manager.latest_good(weights::IntegrityCheck::Contents).unwrap().saved;
    assert_eq!(Some(saved.step()), record["step"].as_u64());
    // It asked what is so first, then for the change from that.
    let asked: Vec<String> = server.asked.try_iter().filter(|line| line.contains("/preempted")).collect();
    assert!(!asked[0].contains('?') && asked[1].contains("last_etag=p1"), "{asked:?}");
    assert_eq!(asked.len(), 2);

    // The next run goes on, and is told at once by a server that has given its notice before.
    let again = self::server(true);
    let mut command = bench.command(&args);
    let output = command.env("GCE_METADATA_HOST", &again.address).output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", String::from_utf8_lossy(&output.stderr));
    let second: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(second["step"].as_u64() >= record["step"].as_u64(), "{second}");
}

#[test]
fn a_server_that_is_not_there_or_not_asked_changes_nothing() {
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    let short = ["train", arg(&file), "-d", "cpu", "--with", "train.steps=3"];
    // Nobody listens on the port of a listener that is gone.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = bench.command(&short).env("GCE_METADATA_HOST", gone).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let server = server(true);
    let mut command = bench.command(&[&short[..], &["--preemption-notice", "off"]].concat());
    let output = command.env("GCE_METADATA_HOST", &server.address).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.asked.try_iter().count(), 0);
}
