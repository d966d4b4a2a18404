//! `tpu train` with data in buckets and on web servers: the losses of files here, to the bit; and what it costs to read from afar.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use testkit::{Random, StoreKind, StoreServer, WebFault, WebServer};
use weights::{Access, Store};

use crate::harness::{Bench, ran};
use crate::mesh_training::losses;

/// A training on tokens; `FILES` is to be replaced.
const TRAINING: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 32
n_positions = 16
n_embd = 16
n_layer = 1
n_head = 2

[data]
kind = "tokens"
files = [FILES]
bits = 16
sequence_length = 8
cache_dir = "cache"
cache_max_gib = 1

[optimizer]
name = "sgd"
learning_rate = 1e-2

[train]
steps = 6
batch_size = 4
log_every = 1
eval_every = 3
"#;

fn tokens() -> Vec<u8> {
    let mut random = Random::new(11);
    (0..20_000).flat_map(|_| ((random.next_u64() % 32) as u16).to_le_bytes()).collect()
}

/// Trains; the losses, and what was said.
#[track_caller]
fn trained(bench: &Bench, file: &str, folder: &str, environment: &[(&str, String)]) -> (Vec<f64>, String) {
    let mut command = bench.command(&["train", file, "--folder", folder, "-d", "cpu"]);
    command.envs(environment.iter().cloned());
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{folder}: {}", ran.stderr);
    (losses(bench, folder), ran.stderr)
}

fn bench(addresses: &[(&str, String)]) -> (Bench, Vec<f64>) {
    let bench = Bench::bare();
    bench.write("tokens.bin", tokens());
    bench.write("here.toml", TRAINING.replace("FILES", "\"tokens.bin\""));
    for (name, address) in addresses {
        bench.write(&format!("{name}.toml"), TRAINING.replace("FILES", &format!("\"{address}\"")));
    }
    let (here, _) = trained(&bench, "here.toml", "here", &[]);
    assert_eq!(here.len(), 6);
    (bench, here)
}

/// A metadata server that knows a zone, and no slice.
fn metadata_server(zone: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let _ = BufReader::new(client.try_clone().unwrap()).read_line(&mut line);
            let known = line.contains("/instance/zone ");
            let (status, body) =
                if known { ("200 OK", format!("projects/1/zones/{zone}")) } else { ("404 Not Found", String::new()) };
            let _ = write!(
                client,
                "HTTP/1.1 {status}\r\nMetadata-Flavor: Google\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

#[test]
fn data_in_buckets_gives_the_losses_of_files_here() {
    let Some(s3) = StoreServer::start("data_in_buckets_gives_the_losses", StoreKind::S3) else { return };
    let Some(google) = StoreServer::start("data_in_buckets_gives_the_losses", StoreKind::Google) else { return };
    let mut environment = s3.environment();
    environment.extend(google.environment());
    let access = environment.iter().fold(Access::default(), |access, (name, value)| access.with(name, value));
    for server in [&s3, &google] {
        Store::open_with(&server.location("data"), &access).unwrap().put("tokens.bin", &tokens()).unwrap();
    }
    let addresses = [("s3", s3.location("data/tokens.bin")), ("gs", google.location("data/tokens.bin"))];
    let (bench, here) = bench(&addresses);
    for (name, _) in &addresses {
        let (there, said) = trained(&bench, &format!("{name}.toml"), name, &environment);
        assert_eq!(there, here, "{name}: other losses");
        assert!(!said.contains("reading costs"), "{said}");
    }
    // A run that began with a file here goes on with its copy in a bucket.
    let mut more =
        bench.command(&["train", "s3.toml", "--folder", "here", "-d", "cpu", "--with", "train.steps=8", "--json"]);
    more.envs(environment.iter().cloned());
    let more = ran(more.output().unwrap());
    assert_eq!(more.code, Some(0), "{}", more.stderr);
    assert!(more.stdout.contains("\"first_step\": 6") || more.stdout.contains("\"first_step\":6"), "{}", more.stdout);
    // And one with other contents under that name does not.
    Store::open_with(&s3.location("data"), &access).unwrap().put("tokens.bin", &tokens()[2..]).unwrap();
    let mut other = bench.command(&["train", "s3.toml", "--folder", "here", "-d", "cpu", "--with", "train.steps=9"]);
    other.envs(environment.iter().cloned());
    let other = ran(other.output().unwrap());
    assert!(other.code == Some(2) && other.stderr.contains("hint: "), "{}", other.stderr);
    // The bucket is in US-CENTRAL1; a slice in Europe pays for what it reads.
    let metadata = ("GCE_METADATA_HOST", format!("127.0.0.1:{}", metadata_server("europe-west4-a")));
    environment.push(metadata);
    let (_, said) = trained(&bench, "gs.toml", "afar", &environment);
    assert!(said.contains("gs://bucket is in US-CENTRAL1, this slice in europe-west4-a"), "{said}");
    assert!(said.contains("$0.12 a GB (list price, 2023-12)"), "{said}");
}

#[test]
fn a_web_server_that_breaks_off_gives_the_losses_of_files_here() {
    let server = WebServer::start(tokens(), Some("one"));
    let (bench, here) = bench(&[("web", server.address("tokens.bin") + "?signature=hunter2")]);
    server.fail(WebFault::CutAfter(500), 5);
    let (there, said) = trained(&bench, "web.toml", "web", &[]);
    assert_eq!(there, here);
    assert!(!said.contains("hunter2"), "{said}");
    // What is kept is enough for another run, but for the question which version it is.
    server.heal();
    assert_eq!(trained(&bench, "web.toml", "again", &[]).0, here);
    assert_eq!(server.heal().0, ["0-0"]);
    // One that is replaced while the training reads it: the first answer has the version, those after it another one.
    let server = WebServer::start(tokens(), Some("one"));
    bench.write("web.toml", TRAINING.replace("FILES", &format!("\"{}\"", server.address("other.bin"))));
    server.fail_after(1, WebFault::Tag("two"), usize::MAX);
    let ran = bench.expect(2, &["train", "web.toml", "--folder", "replaced", "-d", "cpu"]);
    assert!(ran.stderr.contains("was changed while the training reads it"), "{}", ran.stderr);
}

#[test]
fn addresses_that_cannot_be_read_are_told() {
    let refused = |address: &str, expected: &str| {
        let bench = Bench::bare();
        bench.write("a.toml", TRAINING.replace("FILES", &format!("\"{address}\"")));
        let ran = bench.expect(2, &["train", "a.toml", "-d", "cpu"]);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{address}\n{}", ran.stderr);
    };
    refused("ftp://host/a.bin", "`ftp` is not known");
    refused("http://example.com/a.bin", "use https");
    refused("gs://bucket", "names a bucket");
    let server = WebServer::start(tokens(), Some("one"));
    server.fail(WebFault::Missing, usize::MAX);
    refused(&server.address("a.bin"), "a.bin");
}
