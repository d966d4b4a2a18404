//! `tpu hlo`: read, verify, count, print and convert StableHLO programs.

use std::collections::BTreeMap;

use ::hlo::text::{Form, Locations, PrintOptions};
use ::hlo::{Module, bytecode, text};
use serde::Serialize;

use super::compile::{read_input, write_file};
use crate::args::HloArgs;
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};

#[derive(Serialize)]
struct Record {
    version: u32,
    name: Option<String>,
    format: &'static str,
    stablehlo_version: Option<String>,
    producer: Option<String>,
    verified: bool,
    functions: usize,
    arguments: Vec<String>,
    results: Vec<String>,
    meshes: BTreeMap<String, i64>,
    constant_bytes: u64,
    ops: BTreeMap<String, u64>,
}

pub(crate) fn run(args: &HloArgs, output: &Output) -> Result<Answer, Failure> {
    let bytes = read_input(&args.file)?;
    let module = ::hlo::read(&bytes)?;
    let (module, verified) = if args.no_verify { (module, false) } else { (::hlo::verify(module)?.into_inner(), true) };
    if let Some(path) = &args.out {
        let is_bytecode = path.extension().is_some_and(|e| e == "bc");
        let converted = if is_bytecode { bytecode::write(&module)? } else { text::print(&module).into_bytes() };
        write_file(path, &converted)?;
    }
    if args.print {
        let options = PrintOptions {
            form: if args.generic { Form::Generic } else { Form::Pretty },
            locations: if args.locations { Locations::Aliases } else { Locations::Omit },
        };
        output.text(&text::print_with(&module, options))?;
        return Ok(Answer::Yes);
    }
    let record = record(&bytes, &module, verified);
    output.record(&record, || table(&record))?;
    Ok(Answer::Yes)
}

fn record(bytes: &[u8], module: &Module, verified: bool) -> Record {
    let mut ops = BTreeMap::new();
    let mut constant_bytes = 0;
    for op in module.funcs.iter().flat_map(|f| &f.ops) {
        *ops.entry(op.name.as_str().to_string()).or_default() += 1;
        if let Some(::hlo::Attr::Dense(dense)) = op.attr("value") {
            let each = ::hlo::element_bytes(&dense.ty).unwrap_or(0) as u64;
            constant_bytes += dense.ty.num_elements().unwrap_or(0).saturating_mul(each);
        }
    }
    let artifact = bytecode::artifact(bytes).ok();
    let entry = module.entry();
    let types = |types: &[::hlo::Type]| types.iter().map(ToString::to_string).collect();
    Record {
        version: 1,
        name: module.name.as_deref().map(str::to_string),
        format: if artifact.is_some() { "bytecode" } else { "text" },
        stablehlo_version: artifact
            .as_ref()
            .and_then(|a| a.stablehlo_version)
            .map(|(major, minor, patch)| format!("{major}.{minor}.{patch}")),
        producer: artifact.map(|a| a.producer),
        verified,
        functions: module.funcs.len(),
        arguments: entry.map_or_else(Vec::new, |f| types(&f.inputs)),
        results: entry.map_or_else(Vec::new, |f| types(&f.outputs)),
        meshes: module.meshes.iter().map(|m| (m.name.to_string(), m.mesh.device_count().unwrap_or(0))).collect(),
        constant_bytes,
        ops,
    }
}

fn table(record: &Record) -> String {
    let mut text = format!(
        "{}: {}, {} functions, {} ops{}\n",
        record.name.as_deref().unwrap_or("unnamed module"),
        record
            .stablehlo_version
            .as_ref()
            .map_or_else(|| record.format.to_string(), |v| format!("bytecode, StableHLO {v}")),
        record.functions,
        record.ops.values().sum::<u64>(),
        if record.verified { ", valid" } else { "" },
    );
    let list = |what: &str, types: &[String]| {
        let shown: Vec<&str> = types.iter().take(12).map(String::as_str).collect();
        let more = if types.len() > 12 { format!(", … {} more", types.len() - 12) } else { String::new() };
        format!("  {what} ({}): {}{more}\n", types.len(), shown.join(", "))
    };
    text.push_str(&list("arguments", &record.arguments));
    text.push_str(&list("results", &record.results));
    if record.constant_bytes > 0 {
        text.push_str(&format!("  constants: {}\n", crate::human::bytes(record.constant_bytes)));
    }
    for (name, devices) in &record.meshes {
        text.push_str(&format!("  mesh @{name}: {devices} devices\n"));
    }
    let mut ops: Vec<(&String, &u64)> = record.ops.iter().collect();
    ops.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), name.as_str()));
    let mut table = Table::new(&[Align::Right, Align::Left]);
    for (name, count) in ops {
        table.row([count.to_string(), name.clone()]);
    }
    text.push_str(&table.render());
    text
}
