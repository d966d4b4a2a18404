//! A small API server for the tests: it keeps objects, and refuses what a real one would refuse.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Kinds that are known: the path of their collection, `apiVersion` and kind.
const KINDS: [(&str, &str, &str); 5] = [
    ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/training/jobsets", "jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("/apis/batch/v1/namespaces/training/jobs", "batch/v1", "Job"),
    ("/api/v1/namespaces/training/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/training/secrets", "v1", "Secret"),
    ("/api/v1/namespaces/training/pods", "v1", "Pod"),
];

/// What the server has and does.
#[derive(Default)]
pub(crate) struct Kept {
    /// Objects by path.
    pub(crate) objects: BTreeMap<String, Value>,
    /// Logs of pods by name.
    pub(crate) logs: BTreeMap<String, String>,
    /// Requests, `METHOD PATH`.
    pub(crate) requests: Vec<String>,
    /// Answers to a POST that are lost after their effect.
    pub(crate) lose_answers: u32,
    /// Every answer is this status.
    pub(crate) refuse: Option<u16>,
    made: u64,
}

/// A server; it ends with the test's process.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) kept: Arc<Mutex<Kept>>,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    kind: String,
    body: Vec<u8>,
}

impl Server {
    pub(crate) fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), shared.clone());
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Server { address, kept }
    }

    /// The object at a path, if it is there.
    pub(crate) fn object(&self, collection: usize, name: &str) -> Option<Value> {
        self.kept.lock().unwrap().objects.get(&format!("{}/{name}", KINDS[collection].0)).cloned()
    }

    pub(crate) fn put(&self, collection: usize, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_string();
        self.kept.lock().unwrap().objects.insert(format!("{}/{name}", KINDS[collection].0), object);
    }
}

fn serve(stream: TcpStream, kept: &Mutex<Kept>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let Some(request) = read(&mut reader) else { return };
    let mut kept = kept.lock().unwrap();
    kept.requests.push(format!("{} {}", request.method, request.path));
    let (code, answer) = match kept.refuse {
        Some(code) => (code, status(code, "refused by the test").to_string()),
        None => answer(&request, &mut kept),
    };
    if request.method == "POST" && kept.lose_answers > 0 {
        kept.lose_answers -= 1;
        return;
    }
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let (mut length, mut kind) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "content-type" => kind = value.trim().to_string(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_string(), decoded(value)));
    let query = query.split('&').filter_map(pair).collect();
    Some(Request { method, path: path.to_string(), query, kind, body })
}

fn decoded(text: &str) -> String {
    text.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",")
}

fn status(code: u16, message: &str) -> Value {
    let reason = if code == 404 { "NotFound" } else { "Refused" };
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": reason, "metadata": {} })
}

fn answer(request: &Request, kept: &mut Kept) -> (u16, String) {
    let refused = |code: u16, message: &str| (code, status(code, message).to_string());
    if let Some(pod) =
        request.path.strip_prefix("/api/v1/namespaces/training/pods/").and_then(|path| path.strip_suffix("/log"))
    {
        if request.query.get("container").map(String::as_str) != Some("worker") {
            return refused(400, "a container must be named");
        }
        return match kept.logs.get(pod) {
            Some(text) => (200, text.clone()),
            None => refused(400, "container \"worker\" is waiting to start"),
        };
    }
    let known = KINDS.iter().find(|(collection, ..)| {
        request.path == *collection
            || request
                .path
                .strip_prefix(collection)
                .is_some_and(|rest| rest.starts_with('/') && !rest[1..].contains('/'))
    });
    let Some((collection, version, kind)) = known else { return refused(404, "no such resource") };
    let is_item = request.path != *collection;
    match (request.method.as_str(), is_item) {
        ("GET", true) => match kept.objects.get(&request.path) {
            Some(object) => (200, object.to_string()),
            None => refused(404, "not found"),
        },
        ("GET", false) => {
            let selector = request.query.get("labelSelector").cloned().unwrap_or_default();
            let Some((label, value)) = selector.split_once('=') else { return refused(400, "a label must be chosen") };
            let chosen = kept.objects.iter().filter(|(path, object)| {
                path.starts_with(&format!("{collection}/")) && object["metadata"]["labels"][label] == value
            });
            let items: Vec<&Value> = chosen.map(|(_, object)| object).collect();
            (
                200,
                json!({ "kind": format!("{kind}List"), "apiVersion": version, "metadata": {}, "items": items })
                    .to_string(),
            )
        }
        ("POST", false) | ("PATCH", true) => {
            let expected = if request.method == "POST" { "application/json" } else { "application/apply-patch+yaml" };
            if request.kind != expected {
                return refused(415, "the type of the body is wrong");
            }
            if !request.query.contains_key("fieldManager") {
                return refused(400, "the field manager is missing");
            }
            let Ok(mut object) = serde_json::from_slice::<Value>(&request.body) else { return refused(400, "no JSON") };
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_string();
            if object["apiVersion"] != *version
                || object["kind"] != *kind
                || object["metadata"]["namespace"] != "training"
            {
                return refused(400, "the object does not belong here");
            }
            let path = format!("{collection}/{name}");
            if request.method == "POST" && kept.objects.contains_key(&path) {
                return refused(409, "already exists");
            }
            if is_item && path != request.path {
                return refused(400, "the name is another");
            }
            kept.made += 1;
            object["metadata"]["uid"] = format!("uid-{}", kept.made).into();
            object["metadata"]["creationTimestamp"] = "2026-11-17T11:00:00Z".into();
            kept.objects.insert(path, object.clone());
            (201, object.to_string())
        }
        ("DELETE", true) => {
            let options: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            if options["propagationPolicy"] != "Foreground" {
                return refused(400, "children would be left");
            }
            match kept.objects.remove(&request.path) {
                Some(object) => (200, object.to_string()),
                None => refused(404, "not found"),
            }
        }
        _ => refused(405, "no such method"),
    }
}
