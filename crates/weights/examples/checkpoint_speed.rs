//! Measures how fast checkpoints are saved and restored, plain, encrypted and signed, in turns:
//! `cargo run --release -p tpubridge-weights --example checkpoint_speed [FOLDER] [MIB] [ROUNDS]`.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use tensor::{DType, Literal};
use trust::{SealingKey, SecretKey};
use weights::{CheckpointManager, IntegrityCheck, Keep, Protection, Saver, Snapshot, SnapshotPiece, Store};

/// Bytes of one tensor.
const TENSOR_BYTES: usize = 32 << 20;

/// Seconds of each round.
#[derive(Default)]
struct Times {
    save: Vec<f64>,
    check: Vec<f64>,
    read: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let mib: usize = args.next().map_or(Ok(512), |text| text.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |text| text.parse())?;
    let tensors = (mib << 20).div_ceil(TENSOR_BYTES);
    let values = (0..tensors).map(|n| value(n as u64).map(Arc::new)).collect::<Option<Vec<_>>>().ok_or("no shape")?;
    let key = SecretKey::generate()?;
    let encrypted = Protection { encryption_key: Some(SealingKey::generate()?), ..Protection::default() };
    let trusted_keys = Some(vec![key.public("")]);
    let signed = Protection { signing_key: Some(Arc::new(key)), trusted_keys, ..Protection::default() };
    let both = Protection { encryption_key: encrypted.encryption_key.clone(), ..signed.clone() };
    let ways = [
        ("plain", Protection::default()),
        ("encrypted", encrypted),
        ("signed", signed),
        ("encrypted and signed", both),
    ];
    let mut times: Vec<Times> = ways.iter().map(|_| Times::default()).collect();
    for _ in 0..rounds {
        for ((_, protection), times) in ways.iter().zip(&mut times) {
            let place = tempfile::tempdir_in(&folder)?;
            measure(place.path(), protection, &values, times)?;
        }
    }
    println!(
        "{} MB, {rounds} rounds in turns, MB/s of the median round (of the fastest)\n",
        (tensors * TENSOR_BYTES) / 1_000_000
    );
    println!("| | save, fsync included | check of every byte | read |\n|---|---|---|---|");
    for ((name, _), times) in ways.iter().zip(&mut times) {
        let rate = |seconds: &mut Vec<f64>| {
            seconds.sort_by(f64::total_cmp);
            let of = |seconds: f64| (tensors * TENSOR_BYTES) as f64 / 1e6 / seconds;
            format!("{:.0} ({:.0})", of(seconds[seconds.len() / 2]), of(seconds[0]))
        };
        println!("| {name} | {} | {} | {} |", rate(&mut times.save), rate(&mut times.check), rate(&mut times.read));
    }
    Ok(())
}

/// Saves, checks and reads one checkpoint. What is read comes from the page cache, so that the disk is not what is measured.
fn measure(
    place: &std::path::Path,
    protection: &Protection,
    values: &[Arc<Literal>],
    times: &mut Times,
) -> Result<(), Box<dyn Error>> {
    let manager = CheckpointManager::at(Store::folder(place)).protected(protection.clone());
    let mut saver = Saver::new(manager.clone(), Keep::ALL)?;
    let named = values.iter().enumerate();
    let pieces = named.map(|(n, value)| SnapshotPiece::whole(format!("t{n}"), value.clone())).collect();
    let started = Instant::now();
    saver.save(Snapshot { step: 1, pieces, metadata: serde_json::Value::Null })?;
    times.save.push(started.elapsed().as_secs_f64());
    let started = Instant::now();
    let found = manager.latest_good(IntegrityCheck::Contents)?;
    times.check.push(started.elapsed().as_secs_f64());
    let started = Instant::now();
    let read: Result<Vec<Literal>, _> = (0..values.len()).map(|n| found.saved.read(&format!("t{n}"))).collect();
    let read = read?;
    times.read.push(started.elapsed().as_secs_f64());
    if read.iter().zip(values).any(|(read, value)| read.bytes() != value.bytes()) {
        return Err("what was read is not what was saved".into());
    }
    Ok(())
}

/// Bytes that do not repeat.
fn value(seed: u64) -> Option<Literal> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..TENSOR_BYTES / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    Literal::new(DType::U8, [TENSOR_BYTES], words.collect())
}
