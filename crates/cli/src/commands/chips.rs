//! `tpu chips`: the table of generations, or everything about one generation or slice.

use chips::{Generation, Overrides, PriceKind, Slice, Spec};
use serde::Serialize;

use crate::args::{ChipsArgs, ChipsCommand};
use crate::commands::compare;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::{Align, Output, Table};

#[derive(Serialize)]
struct SliceRecord<'a> {
    version: u32,
    slice: &'a Slice,
    usable_hbm_bytes_per_device: u64,
    generation: &'a Spec,
}

#[derive(Serialize)]
struct GenerationsRecord<'a> {
    version: u32,
    generations: &'a [Spec],
}

#[derive(Serialize)]
struct SlicesRecord<'a> {
    version: u32,
    slices: &'a [Slice],
}

pub(crate) fn run(args: &ChipsArgs, output: &Output) -> Result<Answer, Failure> {
    if let Some(ChipsCommand::Compare(args)) = &args.command {
        return compare::run(args, output);
    }
    let overrides = Overrides::parse(&args.overrides)?;
    let Some(name) = &args.name else {
        let specs: Vec<Spec> = Generation::ALL.iter().map(|g| g.spec().with(&overrides)).collect();
        output.record(&GenerationsRecord { version: 1, generations: &specs }, || overview(&specs))?;
        return Ok(Answer::Yes);
    };
    match Generation::from_name(name) {
        Some(generation) if args.slices => {
            let slices = Slice::all(generation);
            output.record(&SlicesRecord { version: 1, slices: &slices }, || slice_list(&slices))?;
        }
        Some(generation) => {
            let spec = [generation.spec().with(&overrides)];
            output.record(&GenerationsRecord { version: 1, generations: &spec }, || generation_text(&spec[0]))?;
        }
        None => {
            let slice: Slice = name.parse()?;
            let spec = slice.spec().with(&overrides);
            let usable = spec.usable_hbm_bytes_per_device(slice.devices_per_slice());
            let record =
                SliceRecord { version: 1, slice: &slice, usable_hbm_bytes_per_device: usable, generation: &spec };
            output.record(&record, || slice_text(&slice, &spec, usable))?;
        }
    }
    Ok(Answer::Yes)
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value}") }
}

fn price(spec: &Spec, kind: PriceKind) -> Option<String> {
    spec.price(kind, None).map(|p| format!("${:.2}", p.usd_per_chip_hour))
}

fn overview(specs: &[Spec]) -> String {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row([
        "PER CHIP",
        "DEVICES",
        "BF16 TFLOP/S",
        "INT8 TOP/S",
        "FP8 TFLOP/S",
        "HBM",
        "HBM GB/S",
        "POD CHIPS",
        "USD/H",
    ]);
    for spec in specs {
        let rate = |r: Option<f64>| r.map_or_else(|| "-".into(), number);
        table.row([
            spec.generation.to_string(),
            spec.cores.devices_per_chip.value.to_string(),
            number(spec.rates.bf16_tflops.value),
            rate(spec.rates.int8_tops.value),
            rate(spec.rates.fp8_tflops.value),
            human::bytes(spec.memory.hbm_bytes_per_chip.value),
            number(spec.memory.hbm_gb_per_s.value),
            spec.network.pod_chips.value.to_string(),
            price(spec, PriceKind::OnDemand).unwrap_or_else(|| "-".into()),
        ]);
    }
    table.render() + "\n  `tpu chips v5e` shows one generation with sources, `tpu chips v5e --slices` its slices\n"
}

fn generation_text(spec: &Spec) -> String {
    let mut text = format!("{} ({})\n", spec.generation.display_name(), spec.names.device_kind.value);
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut add = |name: &str, value: String, sources: &[&str], note: Option<&str>| {
        let mut remark = sources.first().copied().unwrap_or("").to_string();
        if let Some(note) = note {
            remark = format!("{remark} ({note})");
        }
        table.row([name.to_string(), value, remark]);
    };
    macro_rules! figure {
        ($name:literal, $figure:expr, $show:expr) => {{
            let figure = &$figure;
            add($name, $show(figure.value), figure.sources, figure.note)
        }};
    }
    macro_rules! known {
        ($name:literal, $figure:expr, $show:expr) => {
            if let Some(figure) = &$figure {
                figure!($name, *figure, $show)
            }
        };
    }
    let count = |n: u32| n.to_string();
    let rate = |r: Option<f64>| r.map_or_else(|| "no native rate".to_string(), number);
    figure!("TensorCores per chip", spec.cores.tensor_cores_per_chip, count);
    figure!("devices per chip", spec.cores.devices_per_chip, count);
    figure!("matrix units per core", spec.cores.mxus_per_core, count);
    figure!("matrix unit edge", spec.cores.mxu_edge, count);
    figure!("clock, GHz", spec.cores.clock_ghz, number);
    known!("SparseCores per chip", spec.cores.sparse_cores_per_chip, count);
    figure!("bf16, TFLOP/s", spec.rates.bf16_tflops, number);
    figure!("int8, TOP/s", spec.rates.int8_tops, rate);
    figure!("fp8, TFLOP/s", spec.rates.fp8_tflops, rate);
    figure!("HBM per chip", spec.memory.hbm_bytes_per_chip, human::bytes);
    figure!("usable HBM per device (2x2)", spec.memory.usable_hbm_bytes_per_device, human::bytes);
    figure!("HBM, GB/s", spec.memory.hbm_gb_per_s, number);
    figure!("VMEM per core", spec.memory.vmem_bytes_per_core, human::bytes);
    figure!("ICI links", spec.network.ici_links_per_chip, count);
    known!("ICI link one way, GB/s", spec.network.ici_gb_per_s_per_link_one_way, number);
    figure!("pod, chips", spec.network.pod_chips, count);
    known!("DCN per chip, GB/s", spec.network.dcn_gb_per_s_per_chip, number);
    figure!("chips per host", spec.host.chips_per_host, count);
    known!("GKE accelerator", spec.names.gke_accelerator, str::to_string);
    text.push_str(&table.render());
    if !spec.prices.is_empty() {
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Left]);
        table.row(["USD per chip-hour", "", "", ""]);
        for p in spec.prices.iter() {
            let kind = match p.kind {
                PriceKind::OnDemand => "on demand",
                PriceKind::Spot => "spot",
                PriceKind::Committed1Year => "committed, 1 year",
                PriceKind::Committed3Years => "committed, 3 years",
            };
            table.row([
                p.region.to_string(),
                kind.to_string(),
                format!("{:.4}", p.usd_per_chip_hour),
                p.date.to_string(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render());
    } else {
        text.push_str("\n  no published price found; give one with --set\n");
    }
    text
}

fn slice_text(slice: &Slice, spec: &Spec, usable: u64) -> String {
    let request = slice.topology_request();
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let wrapped: Vec<&str> =
        slice.wrap().iter().zip(["x", "y", "z"]).filter(|(wraps, _)| **wraps).map(|(_, axis)| axis).collect();
    table.row(["generation".to_string(), spec.generation.display_name().to_string()]);
    table.row(["topology".to_string(), slice.topology()]);
    table.row(["wraps around".to_string(), if wrapped.is_empty() { "no axis".into() } else { wrapped.join(", ") }]);
    table.row(["slices".to_string(), slice.num_slices().to_string()]);
    table.row(["chips".to_string(), slice.chips().to_string()]);
    table.row(["TensorCores".to_string(), slice.cores().to_string()]);
    table.row(["devices".to_string(), slice.devices().to_string()]);
    table.row(["hosts".to_string(), slice.hosts().to_string()]);
    if let Some(machine) = slice.machines().first() {
        table.row(["machines".to_string(), format!("{} × {}", machine.count, machine.machine_type)]);
    }
    table.row(["usable HBM per device".to_string(), human::bytes(usable)]);
    table.row(["usable HBM in all".to_string(), human::bytes(usable.saturating_mul(u64::from(slice.devices())))]);
    let peak = spec.rates.bf16_tflops.value * f64::from(slice.chips());
    table.row(["bf16 peak".to_string(), format!("{} FLOP/s", human::count(peak * 1e12))]);
    for (name, kind) in [("on demand", PriceKind::OnDemand), ("spot", PriceKind::Spot)] {
        if let Some(p) = spec.price(kind, None) {
            let total = p.usd_per_chip_hour * f64::from(slice.chips());
            table.row([format!("price, {name}"), format!("${total:.2} an hour ({}, {})", p.region, p.date)]);
        }
    }
    table.row(["compiler topology".to_string(), request.name]);
    format!("{slice}\n{}", table.render())
}

fn slice_list(slices: &[Slice]) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["SLICE", "TOPOLOGY", "CHIPS", "DEVICES", "HOSTS"]);
    for slice in slices {
        table.row([
            slice.to_string(),
            slice.topology(),
            slice.chips().to_string(),
            slice.devices().to_string(),
            slice.hosts().to_string(),
        ]);
    }
    table.render()
}
