//! `tpu chips`: the table of generations, or everything about one generation, slice or GPU.

use chips::{Accelerator, ChipSpec, ComputeBoundBatch, Figure, Generation, Gpu, Overrides, Price, PriceKind, Slice};
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
    generation: GenerationRecord<'a>,
}

/// A generation, and what follows from its figures.
#[derive(Serialize)]
struct GenerationRecord<'a> {
    #[serde(flatten)]
    spec: &'a ChipSpec,
    compute_bound_batch: ComputeBoundBatch,
}

#[derive(Serialize)]
struct GpuRecord {
    version: u32,
    gpu: &'static Gpu,
    compute_bound_batch: ComputeBoundBatch,
}

#[derive(Serialize)]
struct GenerationsRecord<'a> {
    version: u32,
    generations: Vec<GenerationRecord<'a>>,
}

#[derive(Serialize)]
struct SlicesRecord<'a> {
    version: u32,
    slices: &'a [Slice],
}

impl GenerationRecord<'_> {
    fn of(spec: &ChipSpec) -> GenerationRecord<'_> {
        GenerationRecord { spec, compute_bound_batch: spec.compute_bound_batch() }
    }
}

impl GenerationsRecord<'_> {
    fn of(specs: &[ChipSpec]) -> GenerationsRecord<'_> {
        GenerationsRecord { version: 1, generations: specs.iter().map(GenerationRecord::of).collect() }
    }
}

pub(crate) fn run(args: &ChipsArgs, output: &Output) -> Result<Answer, Failure> {
    if let Some(ChipsCommand::Compare(args)) = &args.command {
        return compare::run(args, output);
    }
    let overrides = Overrides::parse(&args.overrides)?;
    let Some(name) = &args.name else {
        let specs: Vec<ChipSpec> = Generation::ALL.iter().map(|g| g.spec().with(&overrides)).collect();
        output.record(&GenerationsRecord::of(&specs), || overview(&specs))?;
        return Ok(Answer::Yes);
    };
    match Generation::from_name(name) {
        Some(generation) if args.slices => {
            let slices = Slice::all(generation);
            output.record(&SlicesRecord { version: 1, slices: &slices }, || slice_list(&slices))?;
        }
        Some(generation) => {
            let spec = [generation.spec().with(&overrides)];
            output.record(&GenerationsRecord::of(&spec), || generation_text(&spec[0]))?;
        }
        None => {
            if let Some(gpu) = Gpu::from_name(name) {
                let compute_bound_batch = Accelerator::Gpu(gpu).compute_bound_batch();
                let record = GpuRecord { version: 1, gpu, compute_bound_batch };
                output.record(&record, || gpu_text(gpu, compute_bound_batch))?;
                return Ok(Answer::Yes);
            }
            let slice: Slice = name.parse()?;
            let spec = slice.spec().with(&overrides);
            let usable = spec.usable_hbm_bytes_per_device(slice.devices_per_slice());
            let generation = GenerationRecord::of(&spec);
            let record = SliceRecord { version: 1, slice: &slice, usable_hbm_bytes_per_device: usable, generation };
            output.record(&record, || slice_text(&slice, &spec, usable))?;
        }
    }
    Ok(Answer::Yes)
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value}") }
}

fn price(spec: &ChipSpec, kind: PriceKind) -> Option<String> {
    spec.price(kind, None).map(|p| format!("${:.2}", p.usd_per_chip_hour))
}

fn overview(specs: &[ChipSpec]) -> String {
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
        "BATCH",
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
            spec.compute_bound_batch().bf16.to_string(),
            spec.network.pod_chips.value.to_string(),
            price(spec, PriceKind::OnDemand).unwrap_or_else(|| "-".into()),
        ]);
    }
    let mut text = table.render();
    text += "\n  BATCH is the smallest that is compute bound: tokens for each reading of bf16 weights from HBM\n";
    text += "  `tpu chips v5e` shows one generation with sources, `tpu chips v5e --slices` its slices\n";
    text += "  `tpu chips compare v5e h100` sets it against a GPU\n";
    text
}

/// Figures one under the other, each with its first source and its note.
struct Figures(Table);

impl Figures {
    fn new() -> Figures {
        Figures(Table::new(&[Align::Left, Align::Right, Align::Left]))
    }

    fn add<T: Copy>(&mut self, name: &str, figure: &Figure<T>, show: impl Fn(T) -> String) {
        let mut remark = figure.sources.first().copied().unwrap_or("").to_string();
        if let Some(note) = figure.note {
            remark = format!("{remark} ({note})");
        }
        self.0.row([name.to_string(), show(figure.value), remark]);
    }

    fn known<T: Copy>(&mut self, name: &str, figure: &Option<Figure<T>>, show: impl Fn(T) -> String) {
        if let Some(figure) = figure {
            self.add(name, figure, show);
        }
    }

    fn batch(&mut self, batch: ComputeBoundBatch) {
        let mut row = |name: &str, tokens: u64, how: &str| {
            self.0.row([name.to_string(), tokens.to_string(), format!("derived: {how}")]);
        };
        row("smallest compute-bound batch, tokens", batch.bf16, "bf16 rate / HBM bandwidth");
        row("the same, 8-bit weights", batch.weights_8_bit, "half as many bytes for each weight");
        if let Some(tokens) = batch.bf16_from_vmem {
            row("the same, bf16 weights in VMEM", tokens, "bf16 rate / VMEM bandwidth");
        }
    }
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "no native rate".to_string(), number)
}

fn generation_text(spec: &ChipSpec) -> String {
    let mut text = format!("{} ({})\n", spec.generation.display_name(), spec.names.device_kind.value);
    let mut figures = Figures::new();
    let count = |n: u32| n.to_string();
    figures.add("TensorCores per chip", &spec.cores.tensor_cores_per_chip, count);
    figures.add("devices per chip", &spec.cores.devices_per_chip, count);
    figures.add("matrix units per core", &spec.cores.mxus_per_core, count);
    figures.add("matrix unit edge", &spec.cores.mxu_edge, count);
    figures.add("clock, GHz", &spec.cores.clock_ghz, number);
    figures.known("SparseCores per chip", &spec.cores.sparse_cores_per_chip, count);
    figures.add("bf16, TFLOP/s", &spec.rates.bf16_tflops, number);
    figures.add("int8, TOP/s", &spec.rates.int8_tops, rate);
    figures.add("fp8, TFLOP/s", &spec.rates.fp8_tflops, rate);
    figures.add("HBM per chip", &spec.memory.hbm_bytes_per_chip, human::bytes);
    figures.add("usable HBM per device (2x2)", &spec.memory.usable_hbm_bytes_per_device, human::bytes);
    figures.add("HBM, GB/s", &spec.memory.hbm_gb_per_s, number);
    figures.batch(spec.compute_bound_batch());
    figures.add("VMEM per core", &spec.memory.vmem_bytes_per_core, human::bytes);
    figures.known("VMEM bandwidth / HBM bandwidth", &spec.memory.vmem_bandwidth_to_hbm, number);
    figures.add("ICI links", &spec.network.ici_links_per_chip, count);
    figures.known("ICI link one way, GB/s", &spec.network.ici_gb_per_s_per_link_one_way, number);
    figures.add("pod, chips", &spec.network.pod_chips, count);
    figures.known("DCN per chip, GB/s", &spec.network.dcn_gb_per_s_per_chip, number);
    figures.add("chips per host", &spec.host.chips_per_host, count);
    match &spec.power {
        Some(power) => figures
            .add("power, W (lowest, mean, highest)", power, |p| format!("{}, {}, {}", p.minimum, p.mean, p.maximum)),
        None => figures.0.row(["power, W", "not published", ""].map(String::from)),
    }
    figures.known("GKE accelerator", &spec.names.gke_accelerator, str::to_string);
    text.push_str(&figures.0.render());
    text + &prices_text(&spec.prices, "no published price found; give one with --set")
}

fn gpu_text(gpu: &Gpu, batch: ComputeBoundBatch) -> String {
    let mut figures = Figures::new();
    figures.add("bf16, TFLOP/s", &gpu.bf16_tflops, number);
    figures.add("fp8, TFLOP/s", &gpu.fp8_tflops, rate);
    figures.add("int8, TOP/s", &gpu.int8_tops, number);
    figures.add("f32, TFLOP/s", &gpu.f32_tflops, number);
    figures.add("HBM", &gpu.memory_bytes, human::bytes);
    figures.add("HBM, GB/s", &gpu.memory_gb_per_s, number);
    figures.batch(batch);
    figures
        .add("links one way, GB/s", &gpu.links_gb_per_s_one_way, |links| links.map_or_else(|| "none".into(), number));
    figures.add("design power (TDP), W", &gpu.tdp_watts, |watts| watts.to_string());
    format!("{}\n{}{}", gpu.board, figures.0.render(), prices_text(gpu.prices, "no published price found"))
}

fn prices_text(prices: &[Price], missing: &str) -> String {
    if prices.is_empty() {
        return format!("\n  {missing}\n");
    }
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Left, Align::Left]);
    table.row(["USD per chip-hour", "", "", "", ""]);
    for p in prices {
        let kind = match p.kind {
            PriceKind::OnDemand => "on demand",
            PriceKind::Spot => "spot",
            PriceKind::Committed1Year => "committed, 1 year",
            PriceKind::Committed3Years => "committed, 3 years",
        };
        let usd = format!("{:.4}", p.usd_per_chip_hour);
        table.row([p.region, kind, &usd, p.date, p.source].map(str::to_string));
    }
    format!("\n{}", table.render())
}

fn slice_text(slice: &Slice, spec: &ChipSpec, usable: u64) -> String {
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
    let batch = spec.compute_bound_batch().bf16;
    table.row(["compute-bound batch".to_string(), format!("from {batch} tokens on a chip (bf16 weights from HBM)")]);
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
