//! OpenAI's own client against the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use infer::InferenceOptions;
use infer::server::{InferenceServer, ServerOptions};
use testkit::{Needed, repository, require};

use crate::harness::{cpu, opened, write_llama};

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.5,
    "tie_word_embeddings": false}"#;
const TEMPLATE: &str = "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}{% for m in messages %}\
    {% if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('unknown role ' ~ m.role) }}{% endif %}\
    {{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function.arguments.city }}</tool_call>{% endfor %}\n\
    {% endfor %}assistant:";

/// A folder with a small model of random weights.
pub(crate) fn folder(into: &Path) {
    std::fs::write(into.join("chat_template.jinja"), TEMPLATE).unwrap();
    write_llama(into, CONFIG, 0.0);
}

pub(crate) fn serve(folder: &Path, api_keys: &[&str], max_waiting: usize) -> (InferenceServer, Arc<AtomicBool>) {
    let source = opened(folder);
    let options = ServerOptions {
        engine: InferenceOptions { rows: 8, max_length: 512, prefill_chunk: 128, ..InferenceOptions::default() },
        model: "small".into(),
        api_keys: api_keys.iter().map(|key| key.to_string()).collect(),
        max_waiting,
        max_body_bytes: 64 << 10,
        is_warmed_up: false,
    };
    let server = InferenceServer::start(&cpu(), source, options, "127.0.0.1:0".parse().unwrap(), &mut |_| {}).unwrap();
    (server, Arc::new(AtomicBool::new(false)))
}

/// One request, and the whole answer.
fn asked(address: &std::net::SocketAddr, text: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    connection.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn openais_client_is_answered() {
    let Some(python) = require("openais_client_is_answered", Needed::OperatePython) else { return };
    let model = tempfile::tempdir().unwrap();
    folder(model.path());
    let (server, stop) = serve(model.path(), &["secret"], 256);
    let address = server.address().unwrap();
    let running = {
        let stop = stop.clone();
        std::thread::spawn(move || server.run(&stop, Duration::from_secs(60)))
    };
    let script = repository().join("crates/testkit/python/openai_client.py");
    let arguments = [&format!("http://{address}"), "secret", "small", "150", "64"];
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let get = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n")
    };
    let metrics = asked(&address, &get("/metrics"));
    for line in [
        "tpubridge_serve_running_requests 0",
        "tpubridge_serve_kv_pages{state=\"used\"} 0",
        "tpubridge_serve_kv_shared_pages 0",
        "tpubridge_serve_preemptions_total 0",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    // The client's prompts begin alike.
    let hits = metrics.lines().find_map(|line| line.strip_prefix("tpubridge_serve_prefix_hits_total "));
    assert!(hits.unwrap().parse::<f64>().unwrap() > 0.0, "{metrics}");
    // A body that is too long, or no JSON, ends in an answer and not in an end.
    let post = |body: &str| {
        let length = body.len();
        format!(
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
        )
    };
    assert!(asked(&address, &post("{")).starts_with("HTTP/1.1 400"));
    assert!(asked(&address, &post(&" ".repeat(70_000))).starts_with("HTTP/1.1 413"));
    // What is running ends before the server does.
    let last = {
        let body = post(r#"{"prompt": "Once", "max_tokens": 400, "temperature": 0, "ignore_eos": true}"#);
        std::thread::spawn(move || asked(&address, &body))
    };
    while !asked(&address, &get("/metrics")).contains("tpubridge_serve_running_requests 1") && !last.is_finished() {}
    stop.store(true, Ordering::Relaxed);
    assert!(last.join().unwrap().contains(r#""completion_tokens":400"#));
    running.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_flood_is_refused_and_the_rest_answered() {
    let model = tempfile::tempdir().unwrap();
    folder(model.path());
    let (server, stop) = serve(model.path(), &[], 2);
    let address = server.address().unwrap();
    let running = {
        let stop = stop.clone();
        std::thread::spawn(move || server.run(&stop, Duration::from_secs(60)))
    };
    let body = r#"{"prompt": "Once", "max_tokens": 200, "temperature": 0, "ignore_eos": true}"#;
    let text = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let crowd: Vec<_> = (0..40)
        .map(|_| {
            let text = text.clone();
            std::thread::spawn(move || asked(&address, &text))
        })
        .collect();
    let answers: Vec<String> = crowd.into_iter().map(|one| one.join().unwrap()).collect();
    let (taken, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.starts_with("HTTP/1.1 200"));
    assert!(taken.len() >= 10, "{} were answered", taken.len());
    assert!(refused.iter().all(|answer| answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1")));
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap();
}
