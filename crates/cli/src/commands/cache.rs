//! `tpu cache`: look at, bound, empty and move the compile cache.

use std::path::Path;

use compile::cache::{Cache, CacheConfig, CacheKey, Row, Stats, default_folder};
use compile::{BundleTrust, Moved};
use serde::Serialize;
use serde_json::json;
use trust::AuditEvent;

use crate::args::{CacheArgs, CacheCommand, CacheFolderArgs};
use crate::audit::{Details, audited};
use crate::commands::key;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::{Align, Output, Table};

#[derive(Serialize)]
struct StatsRecord<'a> {
    version: u32,
    folder: &'a Path,
    entries: u64,
    bytes: u64,
    #[serde(flatten)]
    stats: &'a Stats,
    hit_rate: f64,
}

#[derive(Serialize)]
struct ListRecord {
    version: u32,
    entries: Vec<Row>,
}

/// The cache the options name.
pub(crate) fn config(args: &CacheFolderArgs) -> CacheConfig {
    let folder = args.cache_dir.clone().or_else(|| default_folder(|name| std::env::var(name).ok()));
    let max_bytes = (args.cache_max_gib.max(0.0) * (1u64 << 30) as f64) as u64;
    CacheConfig { folder, max_bytes, ..CacheConfig::default() }
}

pub(crate) fn run(args: &CacheArgs, output: &Output) -> Result<Answer, Failure> {
    let config = config(&args.folder);
    let folder = config.folder.clone().ok_or(compile::CompileError::NoCacheFolder)?;
    let cache = Cache::open(&config)?;
    match &args.command {
        CacheCommand::Folder => output.record(&folder, || format!("{}\n", folder.display()))?,
        CacheCommand::List => {
            let record = ListRecord { version: 1, entries: cache.list()? };
            output.record(&record, || list_text(&record.entries))?;
        }
        CacheCommand::Stats => {
            let stats = cache.total_stats();
            let (entries, bytes) = cache.disk_usage()?;
            let record =
                StatsRecord { version: 1, folder: &folder, entries, bytes, stats: &stats, hit_rate: stats.hit_rate() };
            output.record(&record, || stats_text(&record))?;
        }
        CacheCommand::Clear => {
            let cleared = audited(AuditEvent::CacheClear, folder.display(), cache.clear(), |(entries, bytes)| {
                vec![("entries", json!(entries)), ("bytes", json!(bytes))]
            });
            let (entries, bytes) = cleared?;
            output.record(&json!({"version": 1, "entries": entries, "bytes": bytes}), || {
                format!("removed {entries} entries, {}\n", human::bytes(bytes))
            })?;
        }
        CacheCommand::Export { bundle, keys, sign, secret } => {
            let chosen = chosen_keys(&cache, keys)?;
            let key = (*sign || secret.is_some()).then(|| key::secret_key(secret.as_deref())).transpose()?;
            let moved = cache.export(chosen.as_deref(), bundle, key.as_ref());
            let moved = audited(AuditEvent::CacheExport, bundle.display(), moved, details)?;
            output.record(&moved, || {
                let (size, to) = (human::bytes(moved.bytes), bundle.display());
                format!("wrote {} entries, {size}, to {to}{}\n", moved.entries, signed_text(&moved))
            })?;
        }
        CacheCommand::Import { bundle, key, trust } => {
            let keys = if *trust { Vec::new() } else { key::trusted(key)? };
            let trust = if *trust { BundleTrust::Vouched } else { BundleTrust::SignedBy(&keys) };
            let moved = audited(AuditEvent::CacheImport, bundle.display(), cache.import(bundle, trust), details)?;
            output.record(&moved, || {
                let (size, signed) = (human::bytes(moved.bytes), signed_text(&moved));
                let skipped = moved.skipped;
                format!("added {} entries, {size}{signed}; {skipped} were there already or unreadable\n", moved.entries)
            })?;
        }
    }
    Ok(Answer::Yes)
}

fn details(moved: &Moved) -> Details {
    vec![("entries", json!(moved.entries)), ("bytes", json!(moved.bytes)), ("signed_by", json!(moved.signed_by))]
}

fn signed_text(moved: &Moved) -> String {
    moved.signed_by.map_or_else(String::new, |id| format!(", signed by key {id}"))
}

fn chosen_keys(cache: &Cache, prefixes: &[String]) -> Result<Option<Vec<CacheKey>>, Failure> {
    if prefixes.is_empty() {
        return Ok(None);
    }
    let rows = cache.list()?;
    let mut chosen = Vec::new();
    for prefix in prefixes {
        let found: Vec<CacheKey> =
            rows.iter().filter(|r| r.key.starts_with(prefix.as_str())).filter_map(|r| r.key.parse().ok()).collect();
        if found.is_empty() {
            return Err(
                Failure::new(format!("no entry's key starts with {prefix}")).hint("`tpu cache list` shows keys")
            );
        }
        chosen.extend(found);
    }
    Ok(Some(chosen))
}

fn list_text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "the cache is empty\n".into();
    }
    let mut table =
        Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["KEY", "MODULE", "TARGET", "COMPILER", "SIZE", "COMPILE", "OPTIONS"]);
    for row in rows {
        table.row([
            row.key[..12].to_string(),
            row.module.clone(),
            row.target.split(' ').next().unwrap_or("").to_string(),
            row.plugin.clone(),
            human::bytes(row.bytes),
            human::seconds(row.compile_seconds),
            row.options.join(" "),
        ]);
    }
    table.render()
}

fn stats_text(record: &StatsRecord<'_>) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right]);
    table.row(["folder".to_string(), record.folder.display().to_string()]);
    table.row(["entries".to_string(), record.entries.to_string()]);
    table.row(["size".to_string(), human::bytes(record.bytes)]);
    table.row(["hits".to_string(), record.stats.hits.to_string()]);
    table.row(["misses".to_string(), record.stats.misses.to_string()]);
    table.row(["hit rate".to_string(), format!("{:.1} %", record.hit_rate * 100.0)]);
    table.row(["evictions".to_string(), record.stats.evictions.to_string()]);
    table.row(["unreadable entries".to_string(), record.stats.unreadable.to_string()]);
    table.row(["compile time saved".to_string(), human::seconds(record.stats.seconds_saved)]);
    table.render()
}
