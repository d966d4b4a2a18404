//! `tpu generate`, `bench`, `eval --task`, `serve` and `stage` on a small Llama.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Bench, arg};
use crate::quantize::model;

#[test]
fn answers_follow_a_schema() {
    let bench = Bench::bare();
    let folder = model(&bench, "model", None);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["n"], "additionalProperties": false});
    let file = bench.write("schema.json", schema.to_string());
    let generate = |file: &str| {
        let args = ["generate", arg(&folder), "--prompt", "x", "-n", "60", "--tokenizer", "bytes", "-d", "cpu"];
        [&args[..], &["--json-schema", file]].concat().iter().map(|word| word.to_string()).collect::<Vec<_>>()
    };
    let of = |words: Vec<String>| bench.json(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let answer = of(generate(arg(&file)));
    assert_eq!(answer["finish_reason"], "stop");
    let written: Value = serde_json::from_str(answer["text"].as_str().unwrap()).unwrap();
    assert!(written["n"].as_u64().is_some_and(|n| n <= 9), "{written}");
    let hostile = bench.write("hostile.json", r#"{"$ref": "https://example.com/schema"}"#);
    let words = generate(arg(&hostile));
    let refused = bench.expect(2, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refused.stderr.contains("JSON schema") && refused.stderr.contains("hint: "), "{}", refused.stderr);
}

#[test]
fn speed_and_tasks_are_measured() {
    let bench = Bench::bare();
    let folder = model(&bench, "model", None);
    let measure = ["bench", arg(&folder), "--tokenizer", "bytes", "-d", "cpu", "--concurrency", "2", "--requests", "3"];
    let found = bench.json(&[&measure[..], &["--input-length", "8", "--output-length", "4"]].concat());
    assert_eq!((found["requests"].as_u64(), found["compiled"].as_u64()), (Some(3), Some(0)), "{found}");
    for name in ["/output_tokens_per_second", "/ttft_seconds/p50", "/tpot_seconds/p99", "/latency_seconds/max"] {
        assert!(found.pointer(name).and_then(Value::as_f64).is_some_and(|value| value > 0.0), "{name}: {found}");
    }
    let long = bench.expect(2, &[&measure[..], &["--output-length", "500"]].concat());
    assert!(long.stderr.contains("64 positions"), "{}", long.stderr);

    let lines = [
        json!({"context": "the chip is", "choices": ["slow", "fast", "a"], "gold": 0}),
        json!({"target": 1, "arguments": [["a step", " of"], ["a step", " in"]]}),
    ];
    let file = bench.write("task.jsonl", lines.map(|line| format!("{line}\n")).concat());
    let eval = ["eval", arg(&folder), "--tokenizer", "bytes", "-d", "cpu", "--task", arg(&file)];
    let found = bench.json(&eval);
    assert_eq!(found["documents"], 2);
    assert!([0.0, 0.5, 1.0].contains(&found["acc"].as_f64().unwrap()) && found["acc_norm"].is_number(), "{found}");
    assert_eq!(bench.json(&[&eval[..], &["--limit", "1"]].concat())["documents"], 1);
    bench.write("task.jsonl", r#"{"context": "x"}"#);
    let wrong = bench.expect(2, &eval);
    assert!(wrong.stderr.contains("task.jsonl: line 1") && wrong.stderr.contains("hint: "), "{}", wrong.stderr);
    let neither = bench.expect(2, &["eval", arg(&folder)]);
    assert!(neither.stderr.contains("--data"), "{}", neither.stderr);
}

/// A process that is ready, and what it says then.
fn started(bench: &Bench, args: &[&str]) -> (Child, Value) {
    let mut child = bench.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    while !said.trim_end().ends_with('}') {
        assert!(stdout.read_line(&mut said).unwrap() > 0, "{said}");
    }
    (child, serde_json::from_str(&said).unwrap())
}

#[test]
fn two_hosts_write_what_one_writes() {
    let bench = Bench::bare();
    let folder = model(&bench, "model", None);
    let generate = ["generate", arg(&folder), "--prompt", "the chip", "-n", "12", "--tokenizer", "bytes", "-d", "cpu"];
    let greedy = [&generate[..], &["--temperature", "0"]].concat();
    let alone = bench.json(&greedy);
    let (mut host, record) =
        started(&bench, &["stage", arg(&folder), "--listen", "127.0.0.1:0", "-d", "cpu", "--json"]);
    let on_both = [&greedy[..], &["--stages", record["address"].as_str().unwrap()]].concat();
    assert_eq!(bench.json(&on_both)["tokens"], alone["tokens"]);
    // The host takes the next engine when one has gone.
    assert_eq!(bench.json(&on_both)["text"], alone["text"]);
    kill_process(Pid::from_child(&host), Signal::TERM).unwrap();
    assert!(host.wait().unwrap().success());
    let gone = bench.expect(2, &on_both);
    assert!(gone.stderr.contains(record["address"].as_str().unwrap()), "{}", gone.stderr);
    assert!(gone.stderr.contains("hint: "), "{}", gone.stderr);
}

#[test]
fn a_server_that_is_told_to_stop_ends_what_it_began() {
    let bench = Bench::bare();
    let folder = model(&bench, "model", None);
    let args = [
        "serve",
        arg(&folder),
        "--tokenizer",
        "bytes",
        "-d",
        "cpu",
        "--port",
        "0",
        "--no-warm-up",
        "--json",
        "--name",
        "m",
    ];
    let (mut server, record) = started(&bench, &args);
    let address = record["address"].as_str().unwrap().trim_start_matches("http://").to_string();
    let body =
        json!({"model": "m", "prompt": "x", "max_tokens": 60, "temperature": 0, "ignore_eos": true, "stream": true});
    let mut connection = TcpStream::connect(&address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    // Its head says that the request is taken.
    let mut answer = BufReader::new(connection);
    let mut status = String::new();
    answer.read_line(&mut status).unwrap();
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    let mut rest = String::new();
    answer.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(r#""finish_reason":"length""#) && rest.contains("data: [DONE]"), "{rest}");
    assert!(server.wait().unwrap().success());
    assert!(TcpStream::connect(&address).is_err());
}
