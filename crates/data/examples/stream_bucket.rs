//! Streams objects of a bucket, by the raw client or as training data, and prints how fast that was and how much memory it took.
//!
//! `stream_bucket raw|data FOLDER ADDRESS...`: `benchmarks/data/run.py` compares them.

use std::error::Error;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use data::{RemoteData, RemoteOptions};
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, ObjectStoreExt};

type Failed = Box<dyn Error + Send + Sync>;

const PART_BYTES: u64 = 8 << 20;
const REQUESTS: usize = 8;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, folder, addresses @ ..] = arguments.as_slice() else {
        return Err("stream_bucket raw|data FOLDER ADDRESS...".into());
    };
    let started = Instant::now();
    let bytes = match mode.as_str() {
        "raw" => raw(Path::new(folder), addresses)?,
        "data" => data(Path::new(folder), addresses)?,
        _ => return Err(format!("`{mode}` is neither raw nor data").into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim().to_string();
    println!("{{\"mode\": \"{mode}\", \"bytes\": {bytes}, \"seconds\": {seconds:.3}, \"memory\": \"{most}\"}}");
    Ok(())
}

/// The client that both use, alone: so many ranges at once, each written to its place in a file.
fn raw(folder: &Path, addresses: &[String]) -> Result<u64, Failed> {
    weights::choose_cryptography();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut bytes = 0;
    for address in addresses {
        let (bucket, name) =
            address.trim_start_matches("s3://").split_once('/').ok_or("an address is s3://bucket/name")?;
        let store: Arc<dyn ObjectStore> = Arc::new(AmazonS3Builder::from_env().with_bucket_name(bucket).build()?);
        let path = object_store::path::Path::parse(name)?;
        let file = Arc::new(std::fs::File::options().create(true).write(true).truncate(true).open(folder.join("raw"))?);
        bytes += runtime.block_on(async {
            let size = store.head(&path).await?.size;
            let mut running = tokio::task::JoinSet::new();
            for start in (0..size).step_by(PART_BYTES as usize) {
                while running.len() >= REQUESTS {
                    running.join_next().await.ok_or("nothing runs")???;
                }
                let (store, path, file) = (store.clone(), path.clone(), file.clone());
                running.spawn(async move {
                    let part = store.get_range(&path, start..size.min(start + PART_BYTES)).await?;
                    file.write_all_at(&part, start)?;
                    Ok::<(), Failed>(())
                });
            }
            while let Some(part) = running.join_next().await {
                part??;
            }
            Ok::<u64, Failed>(size)
        })?;
    }
    Ok(bytes)
}

/// As a training reads it: through the cache, checked, from begin to end.
fn data(folder: &Path, addresses: &[String]) -> Result<u64, Failed> {
    let mut options = RemoteOptions::new(folder.join("cache"));
    options.cache_max_bytes = std::env::var("CACHE_MAX_BYTES").ok().and_then(|text| text.parse().ok());
    let remote = RemoteData::new(options)?;
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    for address in addresses {
        let mut reader = remote.open(address)?.reader();
        loop {
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
        }
    }
    Ok(bytes)
}
