//! `tpu serve`: a model over HTTP with OpenAI's API.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use infer::server::{EmbeddingServer, EmbeddingServerOptions, InferenceServer, ServerOptions};
use infer::{EmbedOptions, InferenceOptions};
use runtime::Backend;
use serde::Serialize;

use crate::args::ServeArgs;
use crate::commands::run::{isolate_again, must_isolate};
use crate::commands::{embed, generate};
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::stop;

/// Tokens of the longest sequence where none is asked for.
const DEFAULT_LENGTH: usize = 4096;
/// Tokens of a prompt that are read before others are decoded again.
const PREFILL_CHUNK: usize = 512;
/// Bytes of the longest request.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Where a key may be given.
const KEY_VARIABLE: &str = "TPUBRIDGE_API_KEY";

/// What `--json` prints once the server is ready.
#[derive(Serialize)]
struct Record {
    version: u32,
    address: String,
    model: String,
    max_length: usize,
    batch: usize,
}

pub(crate) fn run(args: &ServeArgs, output: &Output) -> Result<Answer, Failure> {
    let device = generate::device_config(&args.model)?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let api_keys = keys(args.api_keys.as_deref())?;
    if api_keys.is_empty() && !args.host.is_loopback() {
        eprintln!("warning: everybody who reaches {} may ask; give --api-keys FILE or ${KEY_VARIABLE}", args.host);
    }
    let folder = Path::new(&args.folder);
    let named = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let model = args.name.clone().or(named).unwrap_or_else(|| "model".into());
    if args.embeddings || infer::is_encoder(folder) {
        return serve_vectors(args, &Backend::auto(&device)?, model, api_keys, output);
    }
    let source = generate::open(&args.folder, &args.model)?;
    let max_length = args.max_length.unwrap_or(DEFAULT_LENGTH.min(source.max_positions()));
    let engine = InferenceOptions {
        rows: args.batch,
        max_length,
        prefill_chunk: PREFILL_CHUNK.min(max_length),
        ..generate::engine_options(&args.model)?
    };
    let options = ServerOptions {
        engine,
        model: model.clone(),
        api_keys,
        max_waiting: args.max_waiting,
        max_body_bytes: MAX_BODY_BYTES,
        is_warmed_up: !args.no_warm_up,
    };
    let backend = Backend::auto(&device)?;
    let progress = Progress::start();
    let address = SocketAddr::new(args.host, args.port);
    let server = InferenceServer::start(&backend, source, options, address, &mut |step| progress.step(step))?;
    drop(progress);
    let stop = stop::on_signal();
    let address = format!("http://{}", server.address()?);
    let record = Record { version: 1, address: address.clone(), model: model.clone(), max_length, batch: args.batch };
    output.record(&record, || format!("serving {model} at {address}/v1\n"))?;
    server.run(&stop, Duration::from_secs(args.drain))?;
    eprintln!("stopped");
    Ok(Answer::Yes)
}

/// Serves `/v1/embeddings` alone.
fn serve_vectors(
    args: &ServeArgs,
    backend: &Backend,
    model: String,
    api_keys: Vec<String>,
    output: &Output,
) -> Result<Answer, Failure> {
    let options = EmbeddingServerOptions {
        embed: EmbedOptions {
            max_length: args.max_length,
            batch: args.batch,
            tokenizer: args.model.tokenizer.clone(),
            ..embed::options(&args.embed, args.model.precision)
        },
        model: model.clone(),
        api_keys,
        max_waiting: args.max_waiting,
        max_body_bytes: MAX_BODY_BYTES,
    };
    let address = SocketAddr::new(args.host, args.port);
    let server = EmbeddingServer::start(backend, Path::new(&args.folder), options, address)?;
    let stop = stop::on_signal();
    let address = format!("http://{}", server.address()?);
    let max_length = server.max_length();
    let record = Record { version: 1, address: address.clone(), model: model.clone(), max_length, batch: args.batch };
    output.record(&record, || format!("serving vectors of {model} at {address}/v1\n"))?;
    server.run(&stop, Duration::from_secs(args.drain))?;
    eprintln!("stopped");
    Ok(Answer::Yes)
}

/// Keys of a file, one a line, or of the environment.
fn keys(file: Option<&Path>) -> Result<Vec<String>, Failure> {
    let text = match file {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?
        }
        None => return Ok(std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty()).into_iter().collect()),
    };
    let keys: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect();
    match (file, keys.is_empty()) {
        (Some(path), true) => Err(Failure::new(format!("{} has no keys", path.display())).hint("write one a line")),
        _ => Ok(keys),
    }
}
