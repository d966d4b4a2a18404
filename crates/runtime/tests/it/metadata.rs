//! The metadata server of a TPU virtual machine, played by a server of the test's own: what it says, and what it should not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use runtime::distributed::{Coordinator, Given, MultiHostConfig};

/// An answer: status, whether it says that it is the server, and the body.
type Answer = (&'static str, bool, Vec<u8>);

/// A server that answers by the last word of the path, with 404 for what it does not know.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `failures` is how often it says that it is not ready before it answers.
    fn start(answers: BTreeMap<&'static str, Answer>, failures: usize) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, failures) = (asked.clone(), AtomicUsize::new(failures));
        // Ends with the process: it waits for nothing but connections.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &answers, &failures, &log);
            }
        });
        Server { address, asked }
    }

    fn resolve(&self, given: &Given) -> Result<Option<MultiHostConfig>, String> {
        let address = self.address.clone();
        let environment = move |variable: &str| (variable == "GCE_METADATA_HOST").then(|| address.clone());
        MultiHostConfig::from_metadata(given, environment).map_err(|error| error.to_string())
    }
}

fn serve(
    mut stream: TcpStream,
    answers: &BTreeMap<&'static str, Answer>,
    failures: &AtomicUsize,
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_ascii_lowercase());
    }
    let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_string();
    asked.lock().unwrap().push(path.clone());
    let knows_the_word = lines.iter().any(|line| line == "metadata-flavor: google");
    let not_ready = failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    let missing: Answer = ("404 Not Found", true, Vec::new());
    let prefix = "/computemetadata/v1/instance/attributes/";
    let (status, says_so, body) = match path.strip_prefix(prefix) {
        _ if not_ready => ("503 Service Unavailable", true, Vec::new()),
        Some(name) if knows_the_word => answers.get(name).cloned().unwrap_or(missing),
        _ => ("403 Forbidden", true, Vec::new()),
    };
    let flavor = if says_so { "Metadata-Flavor: Google\r\n" } else { "" };
    write!(stream, "HTTP/1.1 {status}\r\n{flavor}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

fn good(body: &str) -> Answer {
    ("200 OK", true, body.as_bytes().to_vec())
}

fn slice(worker: &str, endpoints: &str, tpu_env: &str) -> BTreeMap<&'static str, Answer> {
    BTreeMap::from([
        ("agent-worker-number", good(worker)),
        ("worker-network-endpoints", good(endpoints)),
        ("tpu-env", good(tpu_env)),
    ])
}

#[track_caller]
fn check(config: Option<MultiHostConfig>, processes: usize, id: usize, coordinator: &str) {
    let config = config.unwrap();
    assert_eq!((config.processes, config.process_id), (processes, id));
    assert_eq!(config.coordinator, Coordinator::Own(coordinator.to_string()));
    assert!(config.tpu_environment.is_empty(), "libtpu asks the server itself: {:?}", config.tpu_environment);
}

#[test]
fn a_slice_of_several_hosts() {
    let server = Server::start(slice("1", "unknown:uid:10.0.0.2,unknown:uid:10.0.0.3", "ZONE: 'z'\n"), 0);
    check(server.resolve(&Given::default()).unwrap(), 2, 1, "10.0.0.2:8476");
    assert_eq!(server.asked.lock().unwrap().len(), 3);
    // While it starts, it says so.
    let server = Server::start(slice("0", "t-0,t-1,t-2,t-3", ""), 2);
    check(server.resolve(&Given::default()).unwrap(), 4, 0, "t-0:8476");
}

#[test]
fn several_slices() {
    let tpu_env =
        "MEGASCALE_COORDINATOR_ADDRESS: '10.9.0.1:8080'\nMEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '2'\n";
    let server = Server::start(slice("1", "t-4,t-5", tpu_env), 0);
    check(server.resolve(&Given::default()).unwrap(), 6, 5, "10.9.0.1:8476");
    // The user says that there are more slices than the server knows: libtpu must be told.
    let server = Server::start(slice("1", "t-4,t-5", ""), 0);
    let given = Given { processes: Some(4), process_id: Some(3), coordinator: Some("first:1".into()) };
    let config = server.resolve(&given).unwrap().unwrap();
    let told: Vec<&str> = config.tpu_environment.iter().map(|variable| variable.value.as_str()).collect();
    assert_eq!(told, ["2", "1", "first:8080"]);
}

#[test]
fn machines_without_a_slice() {
    let none = |answers: BTreeMap<&'static str, Answer>| {
        assert_eq!(Server::start(answers, 0).resolve(&Given::default()), Ok(None));
    };
    none(BTreeMap::new());
    none(slice("0", "alone", ""));
    // Something else that listens there, a server that never gets ready, and one that sends elsewhere.
    none(BTreeMap::from([("agent-worker-number", ("200 OK", false, b"0".to_vec()))]));
    assert_eq!(Server::start(slice("0", "a,b", ""), usize::MAX).resolve(&Given::default()), Ok(None));
    none(BTreeMap::from([("agent-worker-number", ("302 Found", true, b"0".to_vec()))]));
    // Nobody there.
    let free = crate::processes::free_address();
    let environment = move |variable: &str| (variable == "GCE_METADATA_HOST").then(|| free.clone());
    assert_eq!(MultiHostConfig::from_metadata(&Given::default(), environment).unwrap(), None);
}

#[test]
fn hostile_answers_are_errors_that_name_the_attribute() {
    let refused = |answers: BTreeMap<&'static str, Answer>, parts: &[&str]| {
        let message = Server::start(answers, 0).resolve(&Given::default()).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
        assert!(message.len() < 400, "{} bytes", message.len());
    };
    refused(slice("-1", "a,b", ""), &["agent-worker-number"]);
    refused(slice(&"9".repeat(10_000), "a,b", ""), &["agent-worker-number"]);
    refused(slice("0", "a,b;rm -rf", ""), &["worker-network-endpoints", "names no host"]);
    refused(slice("0", "a,b", "MEGASCALE_SLICE_ID: 'x'"), &["tpu-env", "MEGASCALE_SLICE_ID"]);
    refused(slice("5", "a,b", ""), &["TPU_WORKER_ID", "2 hosts"]);
    let mut large = slice("0", "a,b", "");
    large.insert("worker-network-endpoints", ("200 OK", true, vec![b'a'; 3 << 20]));
    refused(large, &["worker-network-endpoints", "more than"]);
    let mut binary = slice("0", "a,b", "");
    binary.insert("tpu-env", ("200 OK", true, vec![0xFF, 0xFE]));
    refused(binary, &["tpu-env", "no text"]);
}
