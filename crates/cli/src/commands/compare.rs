//! `tpu chips compare`: generations or slices side by side, and what each is to the first.

use chips::{Generation, Overrides, PriceKind, Slice, Spec};
use serde::Serialize;

use crate::args::CompareArgs;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::{Align, Output, Table};

/// What is compared.
struct Subject {
    name: String,
    spec: Spec,
    slice: Option<Slice>,
}

#[derive(Serialize)]
struct Record {
    version: u32,
    /// As given, in canonical form.
    names: Vec<String>,
    /// Of one chip.
    chip: Vec<Row>,
    /// Of the slices; empty where only generations are compared.
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
    let record = Record {
        version: 1,
        names: subjects.iter().map(|subject| subject.name.clone()).collect(),
        chip: chip_rows(&subjects),
        slice: if subjects.iter().any(|subject| subject.slice.is_some()) { slice_rows(&subjects) } else { Vec::new() },
        prices: price_rows(&subjects),
    };
    output.record(&record, || text(&record))?;
    Ok(Answer::Yes)
}

impl Subject {
    fn read(name: &str, overrides: &Overrides) -> Result<Subject, chips::Error> {
        if let Some(generation) = Generation::from_name(name) {
            return Ok(Subject { name: generation.to_string(), spec: generation.spec().with(overrides), slice: None });
        }
        let slice: Slice = name.parse()?;
        Ok(Subject { name: slice.to_string(), spec: slice.spec().with(overrides), slice: Some(slice) })
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
    let row = |quantity: &str, unit, value: fn(&Spec) -> Option<f64>| {
        Row::of(subjects, quantity, unit, |subject| value(&subject.spec))
    };
    let mut rows = vec![
        row("bf16", Unit::Teraflops, |s| Some(s.rates.bf16_tflops.value)),
        row("fp8", Unit::Teraflops, |s| s.rates.fp8_tflops.value),
        row("int8", Unit::Teraops, |s| s.rates.int8_tops.value),
        row("int4", Unit::Teraops, |s| s.rates.int4_tops.value),
        row("HBM", Unit::Bytes, |s| Some(s.memory.hbm_bytes_per_chip.value as f64)),
        row("HBM bandwidth", Unit::Gigabytes, |s| Some(s.memory.hbm_gb_per_s.value)),
        row("bf16 for each byte of HBM", Unit::Intensity, |s| {
            Some(s.rates.bf16_tflops.value * 1e3 / s.memory.hbm_gb_per_s.value)
        }),
        row("VMEM", Unit::Bytes, |s| {
            Some(s.memory.vmem_bytes_per_core.value as f64 * f64::from(s.cores.tensor_cores_per_chip.value))
        }),
        row("devices", Unit::Count, |s| Some(f64::from(s.cores.devices_per_chip.value))),
        row("ICI links", Unit::Count, |s| Some(f64::from(s.network.ici_links_per_chip.value))),
        row("ICI link, one way", Unit::Gigabytes, |s| s.network.ici_gb_per_s_per_link_one_way.map(|f| f.value)),
        row("ICI, all links one way", Unit::Gigabytes, |s| {
            let link = s.network.ici_gb_per_s_per_link_one_way?.value;
            Some(link * f64::from(s.network.ici_links_per_chip.value))
        }),
        row("host link", Unit::Gigabytes, |s| s.host.pcie_gb_per_s_per_chip.map(|f| f.value)),
        row("DCN", Unit::Gigabytes, |s| s.network.dcn_gb_per_s_per_chip.map(|f| f.value)),
        row("chips in a pod", Unit::Count, |s| Some(f64::from(s.network.pod_chips.value))),
    ];
    for (kind, terms) in KINDS {
        let price = |subject: &Subject| Some(subject.spec.price(kind, None)?.usd_per_chip_hour);
        let with = |quantity: &str, of: fn(&Spec) -> f64| {
            let quantity = format!("{quantity}, {terms}");
            Row::of(subjects, quantity, Unit::Dollars, |subject| Some(price(subject)? / of(&subject.spec)))
        };
        let all = [
            with("chip-hour", |_| 1.0),
            with("bf16 PFLOP/s-hour", |s| s.rates.bf16_tflops.value / 1e3),
            with("HBM TB/s-hour", |s| s.memory.hbm_gb_per_s.value / 1e3),
        ];
        rows.extend(all.into_iter().filter(|row| row.values.iter().any(Option::is_some)));
    }
    rows
}

fn slice_rows(subjects: &[Subject]) -> Vec<Row> {
    let row = |quantity: &str, unit, value: fn(&Slice, &Spec) -> f64| {
        Row::of(subjects, quantity, unit, |subject| Some(value(subject.slice.as_ref()?, &subject.spec)))
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
            Some(subject.spec.price(kind, None)?.usd_per_chip_hour * f64::from(subject.slice.as_ref()?.chips()))
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
        let prices = subjects.iter().flat_map(|subject| subject.spec.prices.iter());
        let mut regions: Vec<&'static str> = prices.filter(|price| price.kind == terms).map(|p| p.region).collect();
        regions.sort_unstable();
        regions.dedup();
        for region in regions {
            let price = |subject: &Subject| {
                let here = subject.spec.prices.iter().find(|price| price.kind == terms && price.region == region);
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
    if record.prices.is_empty() {
        return text + "\n  no published price found; give one with --set\n";
    }
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
    text + "\n  prices above are the lowest of all regions; `tpu chips NAME` shows dates and sources\n"
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
            Unit::Teraflops => "TFLOP/s",
            Unit::Teraops => "TOP/s",
            Unit::Gigabytes => "GB/s",
            Unit::Intensity => "FLOP/B",
            Unit::Dollars => "USD",
            Unit::Flops => "FLOP/s",
            Unit::Count | Unit::Bytes => "",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::Bytes => human::bytes(value as u64),
            Unit::Flops => human::count(value),
            Unit::Dollars => format!("{value:.2}"),
            Unit::Intensity => format!("{value:.0}"),
            _ if value.fract() == 0.0 => format!("{value:.0}"),
            _ => format!("{value}"),
        }
    }
}
