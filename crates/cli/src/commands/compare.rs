//! `tpu chips compare`: generations, slices or GPUs side by side, and what each is to the first.

use chips::{Accelerator, ChipSpec, Generation, Gpu, Overrides, PriceKind, Slice};
use serde::Serialize;

use crate::args::CompareArgs;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::{Align, Output, Table};

/// What is compared.
struct Subject {
    name: String,
    chip: Accelerator,
    slice: Option<Slice>,
}

#[derive(Serialize)]
struct Record {
    version: u32,
    /// As given, in canonical form.
    names: Vec<String>,
    /// Of one chip.
    chip: Vec<Row>,
    /// Names of chips whose power is not published.
    power_not_published: Vec<String>,
    /// Names of chips without a published price.
    price_not_published: Vec<String>,
    /// Of the slices; empty where no slice is compared.
    slice: Vec<Row>,
    /// Of one chip-hour, by terms and region.
    prices: Vec<PriceRow>,
}

#[derive(Serialize)]
struct Row {
    quantity: String,
    unit: Unit,
    /// In the order of the names; `null` where there is none or none is known.
    values: Vec<Option<f64>>,
    /// Each value to the first.
    to_first: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct PriceRow {
    terms: PriceKind,
    region: &'static str,
    usd_per_chip_hour: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Unit {
    #[serde(rename = "count")]
    Count,
    #[serde(rename = "TFLOP/s")]
    Teraflops,
    #[serde(rename = "TOP/s")]
    Teraops,
    #[serde(rename = "FLOP/s")]
    Flops,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "GB/s")]
    Gigabytes,
    #[serde(rename = "FLOP/B")]
    Intensity,
    #[serde(rename = "tokens")]
    Tokens,
    #[serde(rename = "W")]
    Watts,
    #[serde(rename = "TFLOP/s/W")]
    PerWatt,
    #[serde(rename = "TFLOP/s per USD/h")]
    PerDollar,
    #[serde(rename = "USD")]
    Dollars,
}

const KINDS: [(PriceKind, &str); 4] = [
    (PriceKind::OnDemand, "on demand"),
    (PriceKind::Spot, "spot"),
    (PriceKind::Committed1Year, "committed 1 year"),
    (PriceKind::Committed3Years, "committed 3 years"),
];

pub(crate) fn run(args: &CompareArgs, output: &Output) -> Result<Answer, Failure> {
    let overrides = Overrides::parse(&args.overrides)?;
    let subjects: Vec<Subject> =
        args.names.iter().map(|name| Subject::read(name, &overrides)).collect::<Result<_, chips::Error>>()?;
    let without = |is_known: fn(&Accelerator) -> bool| {
        let unknown = subjects.iter().filter(|subject| !is_known(&subject.chip));
        unknown.map(|subject| subject.name.clone()).collect()
    };
    let record = Record {
        version: 1,
        names: subjects.iter().map(|subject| subject.name.clone()).collect(),
        chip: chip_rows(&subjects),
        power_not_published: without(|chip| chip.power_watts().is_some()),
        price_not_published: without(|chip| !chip.prices().is_empty()),
        slice: if subjects.iter().any(|subject| subject.slice.is_some()) { slice_rows(&subjects) } else { Vec::new() },
        prices: price_rows(&subjects),
    };
    output.record(&record, || text(&record))?;
    Ok(Answer::Yes)
}

impl Subject {
    fn read(name: &str, overrides: &Overrides) -> Result<Subject, chips::Error> {
        if let Some(generation) = Generation::from_name(name) {
            let chip = Accelerator::Tpu(generation.spec().with(overrides));
            return Ok(Subject { name: generation.to_string(), chip, slice: None });
        }
        if let Some(gpu) = Gpu::from_name(name) {
            return Ok(Subject { name: gpu.name.to_string(), chip: Accelerator::Gpu(gpu), slice: None });
        }
        let slice: Slice = name.parse()?;
        let chip = Accelerator::Tpu(slice.spec().with(overrides));
        Ok(Subject { name: slice.to_string(), chip, slice: Some(slice) })
    }

    fn tpu(&self) -> Option<&ChipSpec> {
        match &self.chip {
            Accelerator::Tpu(spec) => Some(spec),
            Accelerator::Gpu(_) => None,
        }
    }

    fn gpu(&self) -> Option<&'static Gpu> {
        match &self.chip {
            Accelerator::Tpu(_) => None,
            Accelerator::Gpu(gpu) => Some(gpu),
        }
    }
}

impl Row {
    fn of(
        subjects: &[Subject],
        quantity: impl Into<String>,
        unit: Unit,
        value: impl Fn(&Subject) -> Option<f64>,
    ) -> Row {
        let values: Vec<Option<f64>> = subjects.iter().map(value).collect();
        let first = values.first().copied().flatten().filter(|first| *first > 0.0);
        let to_first = values.iter().map(|value| Some((*value)? / first?)).collect();
        Row { quantity: quantity.into(), unit, values, to_first }
    }
}

fn chip_rows(subjects: &[Subject]) -> Vec<Row> {
    let row = |quantity: &str, unit, value: fn(&Accelerator) -> Option<f64>| {
        Row::of(subjects, quantity, unit, |subject| value(&subject.chip))
    };
    let tpu = |quantity: &str, unit, value: fn(&ChipSpec) -> Option<f64>| {
        Row::of(subjects, quantity, unit, |subject| value(subject.tpu()?))
    };
    let mut rows = vec![
        row("bf16", Unit::Teraflops, |c| Some(c.bf16_tflops())),
        row("fp8", Unit::Teraflops, Accelerator::fp8_tflops),
        row("int8", Unit::Teraops, Accelerator::int8_tops),
        tpu("int4", Unit::Teraops, |s| s.rates.int4_tops.value),
        row("HBM", Unit::Bytes, |c| Some(c.hbm_bytes() as f64)),
        row("HBM bandwidth", Unit::Gigabytes, |c| Some(c.hbm_gb_per_s())),
        row("bf16 for each byte of HBM", Unit::Intensity, |c| Some(c.bf16_tflops() * 1e3 / c.hbm_gb_per_s())),
        row("smallest compute-bound batch, bf16", Unit::Tokens, |c| Some(c.compute_bound_batch().bf16 as f64)),
        row("the same, 8-bit weights", Unit::Tokens, |c| Some(c.compute_bound_batch().weights_8_bit as f64)),
        row("the same, bf16 from VMEM", Unit::Tokens, |c| Some(c.compute_bound_batch().bf16_from_vmem? as f64)),
        row("power", Unit::Watts, |c| Some(f64::from(c.power_watts()?))),
        row("bf16 per watt", Unit::PerWatt, |c| Some(c.bf16_tflops() / f64::from(c.power_watts()?))),
        tpu("VMEM", Unit::Bytes, |s| {
            Some(s.memory.vmem_bytes_per_core.value as f64 * f64::from(s.cores.tensor_cores_per_chip.value))
        }),
        tpu("devices", Unit::Count, |s| Some(f64::from(s.cores.devices_per_chip.value))),
        tpu("ICI links", Unit::Count, |s| Some(f64::from(s.network.ici_links_per_chip.value))),
        tpu("ICI link, one way", Unit::Gigabytes, |s| s.network.ici_gb_per_s_per_link_one_way.map(|f| f.value)),
        tpu("ICI, all links one way", Unit::Gigabytes, |s| {
            let link = s.network.ici_gb_per_s_per_link_one_way?.value;
            Some(link * f64::from(s.network.ici_links_per_chip.value))
        }),
        tpu("host link", Unit::Gigabytes, |s| s.host.pcie_gb_per_s_per_chip.map(|f| f.value)),
        tpu("DCN", Unit::Gigabytes, |s| s.network.dcn_gb_per_s_per_chip.map(|f| f.value)),
        tpu("chips in a pod", Unit::Count, |s| Some(f64::from(s.network.pod_chips.value))),
    ];
    if subjects.iter().any(|subject| subject.gpu().is_some()) {
        rows.push(Row::of(subjects, "links between GPUs, one way", Unit::Gigabytes, |subject| {
            subject.gpu()?.links_gb_per_s_one_way.value
        }));
    }
    for (kind, terms) in KINDS {
        let price = |chip: &Accelerator| Some(chip.price(kind, None)?.usd_per_chip_hour);
        let with = |quantity: &str, unit, of: fn(&Accelerator, f64) -> f64| {
            let quantity = format!("{quantity}, {terms}");
            Row::of(subjects, quantity, unit, |subject| Some(of(&subject.chip, price(&subject.chip)?)))
        };
        let all = [
            with("chip-hour", Unit::Dollars, |_, usd| usd),
            with("bf16 per USD/h", Unit::PerDollar, |c, usd| c.bf16_tflops() / usd),
            with("bf16 PFLOP/s-hour", Unit::Dollars, |c, usd| usd / (c.bf16_tflops() / 1e3)),
            with("HBM TB/s-hour", Unit::Dollars, |c, usd| usd / (c.hbm_gb_per_s() / 1e3)),
        ];
        rows.extend(all.into_iter().filter(|row| row.values.iter().any(Option::is_some)));
    }
    rows
}

fn slice_rows(subjects: &[Subject]) -> Vec<Row> {
    let row = |quantity: &str, unit, value: fn(&Slice, &ChipSpec) -> f64| {
        Row::of(subjects, quantity, unit, |subject| Some(value(subject.slice.as_ref()?, subject.tpu()?)))
    };
    let mut rows = vec![
        row("slices", Unit::Count, |slice, _| f64::from(slice.num_slices())),
        row("chips", Unit::Count, |slice, _| f64::from(slice.chips())),
        row("devices", Unit::Count, |slice, _| f64::from(slice.devices())),
        row("hosts", Unit::Count, |slice, _| f64::from(slice.hosts())),
        row("bf16", Unit::Flops, |slice, spec| spec.rates.bf16_tflops.value * 1e12 * f64::from(slice.chips())),
        row("usable HBM on a device", Unit::Bytes, |slice, spec| {
            spec.usable_hbm_bytes_per_device(slice.devices_per_slice()) as f64
        }),
        row("usable HBM in all", Unit::Bytes, |slice, spec| {
            spec.usable_hbm_bytes_per_device(slice.devices_per_slice()) as f64 * f64::from(slice.devices())
        }),
        row("HBM bandwidth in all", Unit::Gigabytes, |slice, spec| {
            spec.memory.hbm_gb_per_s.value * f64::from(slice.chips())
        }),
    ];
    for (kind, terms) in KINDS {
        let row = Row::of(subjects, format!("hour, {terms}"), Unit::Dollars, |subject| {
            Some(subject.chip.price(kind, None)?.usd_per_chip_hour * f64::from(subject.slice.as_ref()?.chips()))
        });
        if row.values.iter().any(Option::is_some) {
            rows.push(row);
        }
    }
    rows
}

/// Every region and terms that one of the subjects has a price for.
fn price_rows(subjects: &[Subject]) -> Vec<PriceRow> {
    let mut rows = Vec::new();
    for (terms, _) in KINDS {
        let prices = subjects.iter().flat_map(|subject| subject.chip.prices().iter());
        let mut regions: Vec<&'static str> = prices.filter(|price| price.kind == terms).map(|p| p.region).collect();
        regions.sort_unstable();
        regions.dedup();
        for region in regions {
            let price = |subject: &Subject| {
                let here = subject.chip.prices().iter().find(|price| price.kind == terms && price.region == region);
                here.map(|price| price.usd_per_chip_hour)
            };
            rows.push(PriceRow { terms, region, usd_per_chip_hour: subjects.iter().map(price).collect() });
        }
    }
    rows
}

fn text(record: &Record) -> String {
    let mut text = rows_text("PER CHIP", &record.names, &record.chip);
    if !record.slice.is_empty() {
        text += "\n";
        text += &rows_text("PER SLICE", &record.names, &record.slice);
    }
    if !record.prices.is_empty() {
        text += "\n";
        let mut table = Table::new(&[vec![Align::Left], vec![Align::Right; record.names.len()]].concat());
        table.row([vec!["USD PER CHIP-HOUR".to_string()], record.names.clone()].concat());
        for row in &record.prices {
            let terms = KINDS.iter().find(|(kind, _)| *kind == row.terms).map_or("", |(_, name)| name);
            let mut cells = vec![format!("{terms}, {}", row.region)];
            cells.extend(row.usd_per_chip_hour.iter().map(|usd| usd.map_or_else(dash, |usd| format!("{usd:.4}"))));
            table.row(cells);
        }
        text += &table.render();
    }
    text += "\n";
    text +=
        "  a batch counts the tokens that one reading of the weights serves; below the smallest, HBM is the limit\n";
    text += "  power is the design power (TDP) of a GPU and the highest measured power of a TPU chip\n";
    if !record.power_not_published.is_empty() {
        text += &format!("  power is not published: {}\n", record.power_not_published.join(", "));
    }
    if !record.prices.is_empty() {
        text += "  prices above are the lowest of all regions; `tpu chips NAME` shows dates and sources\n";
    }
    if !record.price_not_published.is_empty() {
        text += &format!("  no published price found: {}\n", record.price_not_published.join(", "));
        text += "  a TPU's can be given with --set, as in v7_price=12\n";
    }
    text
}

fn dash() -> String {
    "-".into()
}

fn rows_text(title: &str, names: &[String], rows: &[Row]) -> String {
    let ratios = names.iter().skip(1).map(|name| format!("{name}/{}", names[0]));
    let columns = [vec![Align::Left; 2], vec![Align::Right; 2 * names.len() - 1]].concat();
    let mut table = Table::new(&columns);
    let mut head = vec![title.to_string(), String::new()];
    head.extend(names.iter().cloned().chain(ratios));
    table.row(head);
    for row in rows {
        let mut cells = vec![row.quantity.clone(), row.unit.name().to_string()];
        cells.extend(row.values.iter().map(|value| value.map_or_else(dash, |value| row.unit.show(value))));
        cells.extend(row.to_first.iter().skip(1).map(|ratio| ratio.map_or_else(dash, |ratio| format!("{ratio:.2}"))));
        table.row(cells);
    }
    table.render()
}

impl Unit {
    /// What stands beside the quantity; empty where the value carries its unit.
    fn name(self) -> &'static str {
        match self {
            Unit::Teraflops | Unit::PerWatt | Unit::PerDollar => "TFLOP/s",
            Unit::Teraops => "TOP/s",
            Unit::Gigabytes => "GB/s",
            Unit::Intensity => "FLOP/B",
            Unit::Dollars => "USD",
            Unit::Flops => "FLOP/s",
            Unit::Tokens => "tokens",
            Unit::Watts => "W",
            Unit::Count | Unit::Bytes => "",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::Bytes => human::bytes(value as u64),
            Unit::Flops => human::count(value),
            Unit::Dollars | Unit::PerWatt => format!("{value:.2}"),
            Unit::PerDollar => format!("{value:.1}"),
            Unit::Intensity => format!("{value:.0}"),
            _ if value.fract() == 0.0 => format!("{value:.0}"),
            _ => format!("{value}"),
        }
    }
}
