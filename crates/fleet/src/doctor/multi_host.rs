//! Checks of the variables that tell a process its place among many: which worker of which slice.

use chips::Slice;

use super::environment::shown;
use super::{Check, Context};
use crate::System;

/// Most hosts a name list may have before it is not looked at; the largest slices have a few thousand.
const MAX_HOSTS: usize = 100_000;

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    [accelerator(context), workers(context.system), megascale(context.system)].into_iter().flatten().collect()
}

fn hostnames(system: &System) -> Option<Vec<String>> {
    let text = system.text_var("TPU_WORKER_HOSTNAMES")?;
    Some(text.split(',').take(MAX_HOSTS).map(|h| h.trim().to_owned()).collect())
}

fn accelerator(context: &Context<'_>) -> Option<Check> {
    let name = "TPU_ACCELERATOR_TYPE";
    let text = context.system.text_var(name)?;
    let slice = match Slice::parse(text.trim()) {
        Ok(slice) => slice,
        Err(e) => {
            return Some(Check::fail(
                name,
                format!("{:?}: {e}", shown(&text)),
                format!("`unset {name}` or correct it"),
            ));
        }
    };
    if let Some(tpu) = context.tpus.iter().find(|t| t.generation != slice.generation()) {
        let detail = format!("{} is a {}, but this machine has {}", shown(&text), slice.generation(), tpu.generation);
        return Some(Check::fail(name, detail, format!("`unset {name}`: libtpu finds out by itself")));
    }
    let hosts = hostnames(context.system).map_or(0, |h| h.len());
    // One name stands for "only this machine", which is also how a slice is compiled for from outside.
    if hosts > 1 && hosts != slice.hosts() as usize {
        let detail = format!("{} has {} hosts, TPU_WORKER_HOSTNAMES names {hosts}", shown(&text), slice.hosts());
        return Some(Check::fail(name, detail, "make both describe the same slice, or unset both on a TPU VM"));
    }
    Some(Check::ok(name, shown(&text)))
}

fn workers(system: &System) -> Option<Check> {
    let name = "TPU_WORKER_ID";
    let hosts = hostnames(system);
    let id = system.text_var(name);
    if hosts.is_none() && id.is_none() {
        return None;
    }
    let count = hosts.as_ref().map(Vec::len);
    if let Some(hosts) = &hosts {
        let list = "TPU_WORKER_HOSTNAMES";
        let remedy = format!("list every host of the slice once, in worker order, in {list}");
        if hosts.iter().any(|h| h.is_empty() || h.contains(char::is_whitespace)) {
            return Some(Check::fail(list, "a name in it is empty or has a space", remedy));
        }
        let mut sorted: Vec<&String> = hosts.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(Check::fail(list, format!("{} is in it twice", shown(pair[0])), remedy));
        }
    }
    Some(match (id.as_deref().map(|t| (t, t.trim().parse::<usize>())), count) {
        (Some((text, Err(_))), _) => {
            Check::fail(name, format!("{:?} is not a number", shown(text)), format!("set {name} to 0, 1, 2, …"))
        }
        (Some((_, Ok(id))), Some(count)) if id >= count => Check::fail(
            name,
            format!("{id}, but TPU_WORKER_HOSTNAMES names only {count}"),
            format!("set {name} to this host's position in TPU_WORKER_HOSTNAMES, counted from 0"),
        ),
        (Some((_, Ok(id))), None) if id > 0 => {
            Check::warn(name, format!("{id}, but TPU_WORKER_HOSTNAMES is not set"), "set both, or neither on a TPU VM")
        }
        (None, Some(count)) if count > 1 => Check::warn(
            name,
            format!("not set, but TPU_WORKER_HOSTNAMES names {count} hosts"),
            format!("set {name} on each host to its position in TPU_WORKER_HOSTNAMES"),
        ),
        (id, count) => {
            let id = id.and_then(|(_, id)| id.ok()).unwrap_or_default();
            Check::ok(name, format!("worker {id} of {}", count.unwrap_or(1)))
        }
    })
}

fn megascale(system: &System) -> Option<Check> {
    let name = "MEGASCALE";
    let [count, id, coordinator, port] =
        ["MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT"]
            .map(|v| system.text_var(v).map(|text| (v, text)));
    let any = system.vars().any(|(k, v)| k.to_string_lossy().starts_with("MEGASCALE_") && !v.is_empty());
    if !any {
        return None;
    }
    for (variable, text) in [&count, &id, &port].into_iter().flatten() {
        if text.trim().parse::<u32>().is_err() {
            return Some(Check::fail(
                name,
                format!("{variable}={:?} is not a number", shown(text)),
                format!("correct or unset {variable}"),
            ));
        }
    }
    let number = |variable: &Option<(&str, String)>| variable.as_ref().and_then(|(_, t)| t.trim().parse::<u32>().ok());
    let remedy = "set MEGASCALE_NUM_SLICES, MEGASCALE_SLICE_ID and MEGASCALE_COORDINATOR_ADDRESS together, or none";
    Some(match (number(&count), number(&id), coordinator) {
        (Some(count), Some(id), _) if id >= count => {
            Check::fail(name, format!("slice {id} of {count}: slices count from 0"), remedy)
        }
        (Some(count), _, None) if count > 1 => Check::fail(
            name,
            format!("{count} slices, but no MEGASCALE_COORDINATOR_ADDRESS: libtpu will wait for ever"),
            remedy,
        ),
        (Some(count), None, _) if count > 1 => {
            Check::fail(name, format!("{count} slices, but no MEGASCALE_SLICE_ID"), remedy)
        }
        (None, _, _) => Check::warn(name, "MEGASCALE_NUM_SLICES is not set, other MEGASCALE variables are", remedy),
        (Some(count), id, _) => Check::ok(name, format!("slice {} of {count}", id.unwrap_or_default())),
    })
}
