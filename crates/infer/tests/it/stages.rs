//! Pipeline stages, in one process and on several hosts, give the tokens of one device.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use channel::{Channel, Secret, Wait};
use infer::{Engine, InferenceOptions, KvLayout, Request, SamplingOptions, StageHosts, StageServer};

use crate::harness::{cpu, cpus, crowded, engine, opened, run, sized, write_llama};
use crate::schedules::any_schedule_gives_each_request_what_it_gets_alone;

/// Every third layer sees all positions, the others a window.
const WINDOWS: &str = r#"{"model_type": "gemma3_text", "vocab_size": 104, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 7, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 256,
    "initializer_range": 0.5, "sliding_window": 12, "sliding_window_pattern": 3, "query_pre_attn_scalar": 8}"#;
const EXPERTS: &str = r#"{"model_type": "deepseek_v3", "vocab_size": 104, "hidden_size": 32, "intermediate_size": 48,
    "moe_intermediate_size": 16, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4, "n_shared_experts": 1,
    "n_routed_experts": 8, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 8, "qk_nope_head_dim": 8,
    "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 2, "max_position_embeddings": 256,
    "initializer_range": 0.3}"#;
const GPT2: &str = r#"{"model_type": "gpt2", "vocab_size": 104, "n_embd": 32, "n_layer": 5, "n_head": 4, "n_positions": 256,
    "initializer_range": 0.4}"#;
const LLAMA: &str = r#"{"model_type": "llama", "vocab_size": 101, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.5,
    "tie_word_embeddings": false}"#;
const PATIENCE: Duration = Duration::from_secs(60);

fn written(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), config, 0.0);
    folder
}

/// Prompts of different lengths, some of several chunks and some that begin alike. One of them is drawn at a temperature.
fn requests(temperature: f64) -> Vec<Request> {
    let prompt = |first: u32, length: u32| (0..length).map(|n| (n * 7 + first) % 101).collect::<Vec<u32>>();
    let lengths = [3, 40, 17, 41, 1, 22];
    let of = |(n, length): (usize, &u32)| {
        let sampling = SamplingOptions {
            max_tokens: 10 + n,
            temperature: if n == 2 { temperature } else { 0.0 },
            ignore_eos: true,
            ..SamplingOptions::default()
        };
        Request { prompt: prompt(n as u32 % 2, *length), sampling }
    };
    lengths.iter().enumerate().map(of).collect()
}

fn answers(engine: &mut Engine) -> Vec<Vec<u32>> {
    answers_at(engine, 0.0)
}

fn answers_at(engine: &mut Engine, temperature: f64) -> Vec<Vec<u32>> {
    let ids: Vec<_> = requests(temperature).into_iter().map(|request| engine.add(request).unwrap()).collect();
    run(engine, &ids).iter().map(|answer| answer.numbers()).collect()
}

fn on(mesh: &str, options: InferenceOptions) -> InferenceOptions {
    InferenceOptions { mesh: Some(mesh.parse().unwrap()), ..options }
}

#[test]
fn stages_in_one_process_give_the_tokens_of_one_device() {
    let (backend, devices) = (cpu(), cpus(8));
    for (config, meshes) in [
        (WINDOWS, &["stage=2,model=4", "model=2,stage=4"][..]),
        (EXPERTS, &["stage=4,model=2"]),
        (GPT2, &["stage=2,model=4"]),
    ] {
        let folder = written(config);
        let expected = answers(&mut engine(&backend, folder.path(), &sized(4, 64)));
        for mesh in meshes {
            let mut staged = engine(&devices, folder.path(), &on(mesh, sized(4, 64)));
            assert_eq!(answers(&mut staged), expected, "{mesh} of {config}");
            let counts = staged.decode_counts();
            let stages: u64 = mesh.split("stage=").nth(1).unwrap()[..1].parse().unwrap();
            assert!(counts.most_in_flight >= stages.min(4), "steps of other rows fill the stages: {counts:?}");
        }
    }
}

#[test]
fn any_schedule_on_stages_gives_each_request_what_it_gets_alone() {
    let folder = written(LLAMA);
    let options = on("stage=2", crowded(5, 100));
    let counts = any_schedule_gives_each_request_what_it_gets_alone(&cpus(2), folder.path(), &options, 4..7);
    assert!(counts.prefix_tokens > 0 && counts.copied > 0 && counts.evicted > 0, "{counts:?}");
}

#[test]
fn programs_of_all_stages_are_compiled_beforehand() {
    let folder = written(LLAMA);
    let mut staged = engine(&cpus(2), folder.path(), &on("stage=2", sized(2, 32)));
    let mut last = (0, 0);
    staged.warm_up(&mut |done, all| last = (done, all)).unwrap();
    assert!(last.1 > 0);
    let compiled = staged.num_compiled();
    let short = SamplingOptions { max_tokens: 4, temperature: 0.0, ignore_eos: true, ..SamplingOptions::default() };
    let ids: Vec<_> =
        (1..4).map(|n| staged.add(Request { prompt: vec![5; 7 * n], sampling: short.clone() }).unwrap()).collect();
    run(&mut staged, &ids);
    assert_eq!(staged.num_compiled(), compiled);
}

#[test]
fn what_stages_cannot_do_is_refused() {
    let folder = written(LLAMA);
    let devices = cpus(2);
    let refused = |devices: &runtime::Backend, options: InferenceOptions| {
        let error = Engine::load(devices, &opened(folder.path()), &options).map(drop).unwrap_err();
        format!("{error}; {}", error.remedy().unwrap())
    };
    let on_rows = InferenceOptions { kv_layout: Some(KvLayout::Rows), ..on("stage=2", sized(2, 32)) };
    assert!(refused(&devices, on_rows).contains("in pages"));
    let host_pages = InferenceOptions { host_pages: 4, ..on("stage=2", sized(2, 32)) };
    assert!(refused(&devices, host_pages).contains("--kv-host-pages"));
    let message = refused(&cpus(8), on("stage=8", sized(2, 32)));
    assert!(message.contains("4 layers on 8") && message.contains("at most 4"), "{message}");
    let message = refused(&devices, at(&["127.0.0.1:1".into()], Secret::none()));
    assert!(message.contains("127.0.0.1:1") && message.contains("tpu stage"), "{message}");
    let message = refused(&devices, at(&["198.51.100.1:1".into()], Secret::none()));
    assert!(message.contains("tpu config secret"), "{message}");
}

fn secret(letter: &str) -> Secret {
    Secret::from_text(&letter.repeat(40)).unwrap()
}

/// A host with devices of its own.
fn host(folder: &Path, mesh: Option<&str>) -> StageServer {
    let mesh: Option<trace::Mesh> = mesh.map(|mesh| mesh.parse().unwrap());
    let backend = mesh.as_ref().map_or_else(cpu, |mesh| cpus(mesh.num_devices()));
    let at = ("127.0.0.1:0", &secret("s"));
    StageServer::start(&backend, &opened(folder), mesh.as_ref(), at, |_| {}).unwrap()
}

fn at(addresses: &[String], secret: Secret) -> InferenceOptions {
    InferenceOptions { stages: Some(StageHosts { addresses: addresses.to_vec(), secret }), ..sized(4, 64) }
}

#[test]
fn stages_on_other_hosts_give_the_tokens_of_one_device() {
    let folder = written(WINDOWS);
    let expected = answers_at(&mut engine(&cpu(), folder.path(), &sized(4, 64)), 0.8);
    let hosts = [host(folder.path(), Some("model=2")), host(folder.path(), None)];
    let addresses: Vec<String> = hosts.iter().map(|host| host.address().to_string()).collect();
    let options = at(&addresses, secret("s"));
    let mut spread = engine(&cpu(), folder.path(), &options);
    assert_eq!(answers_at(&mut spread, 0.8), expected);
    assert!(spread.decode_counts().most_in_flight >= 3);
    // A host has one engine at a time.
    let error = Engine::load(&cpu(), &opened(folder.path()), &options).map(drop).unwrap_err();
    assert!(error.to_string().contains("another engine"), "{error}");
    drop(spread);
    // Then the next one comes, here with two stages of its own.
    let deadline = Instant::now() + PATIENCE;
    let mut again = loop {
        match Engine::load(&cpus(2), &opened(folder.path()), &on("stage=2", options.clone())) {
            Ok(engine) => break engine,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert_eq!(answers_at(&mut again, 0.8), expected);
    assert!(again.decode_counts().most_in_flight >= 4);
}

#[test]
fn hosts_with_other_models_and_secrets_are_refused_by_name() {
    let (folder, other) = (written(LLAMA), tempfile::tempdir().unwrap());
    let refused = |host: &StageServer, of: &str| {
        let options = at(&[host.address().to_string()], secret(of));
        let error = Engine::load(&cpu(), &opened(folder.path()), &options).map(drop).unwrap_err();
        format!("{error}; {}", error.remedy().unwrap_or_default())
    };
    write_llama(other.path(), &LLAMA.replace("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5"), 0.0);
    let message = refused(&host(other.path(), None), "s");
    assert!(
        message.contains("num_hidden_layers") && message.contains("is 4 on the first host, and 5 here"),
        "{message}"
    );
    // The same sizes with other weights.
    let other = tempfile::tempdir().unwrap();
    write_llama(other.path(), LLAMA, 0.5);
    let weights = other.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let norm = bytes.windows(19).position(|word| word == b"\"model.norm.weight\"").expect("a norm");
    let offsets = String::from_utf8_lossy(&bytes[norm..norm + 120]).into_owned();
    let begin: usize = offsets.split("data_offsets\":[").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[data + begin + 2] ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let message = refused(&host(other.path(), None), "s");
    assert!(message.contains("weights of another model"), "{message}");
    let good = host(folder.path(), None);
    let message = refused(&good, "t");
    assert!(message.contains("TPUBRIDGE_SECRET"), "{message}");
}

#[test]
fn hostile_messages_end_in_errors_and_the_host_goes_on() {
    let folder = written(LLAMA);
    let expected = answers(&mut engine(&cpu(), folder.path(), &sized(4, 64)));
    let host = host(folder.path(), None);
    let wait = || Instant::now() + PATIENCE;
    for (first, hello) in [
        (&b"tpubridge stage 0"[..], &b"{}"[..]),
        (b"tpubridge stage 1", b"{}"),
        (b"tpubridge stage 1", b"[[[[[["),
        (b"tpubridge stage 1", &[0xff; 4096]),
    ] {
        let stream = TcpStream::connect(host.address()).unwrap();
        let channel = Channel::connect(stream, &secret("s"), b"tpubridge pipeline stage", wait()).unwrap();
        channel.send(&[first], &mut Wait::Until(wait())).unwrap();
        channel.send(&[hello], &mut Wait::Until(wait())).unwrap();
        let answer = channel.receive(1 << 16, &mut Wait::Until(wait())).unwrap();
        assert!(String::from_utf8(answer).unwrap().contains("Refused"));
    }
    let mut spread = engine(&cpu(), folder.path(), &at(&[host.address().to_string()], secret("s")));
    assert_eq!(answers(&mut spread), expected);
}

/// Carries bytes to another address, until it is cut.
fn proxy(to: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, streams) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let kept = streams.clone();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        for (from, into) in [(&near, &far), (&far, &near)] {
            let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    if into.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            });
        }
        kept.lock().unwrap().extend([near, far]);
    });
    (address, streams)
}

#[test]
fn a_host_that_goes_away_ends_requests_with_an_error() {
    let folder = written(LLAMA);
    let host = host(folder.path(), None);
    let (address, streams) = proxy(host.address());
    let mut spread = engine(&cpu(), folder.path(), &at(&[address.to_string()], secret("s")));
    for request in requests(0.0) {
        spread.add(request).unwrap();
    }
    while spread.step().unwrap().is_empty() {}
    for stream in streams.lock().unwrap().iter() {
        stream.shutdown(Shutdown::Both).unwrap();
    }
    let error = loop {
        if let Err(error) = spread.step() {
            break error;
        }
    };
    assert!(error.to_string().contains(&format!("stage 1 at {address} is gone")), "{error}");
    assert!(error.remedy().unwrap().contains("tpu stage"));
    // It stays an error, and does not wait.
    assert!(spread.step().is_err());
}
