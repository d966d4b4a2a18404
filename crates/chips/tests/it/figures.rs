//! Figures have sources and agree with each other.

use chips::{Accelerator, Generation, Gpu, Overrides, PciId, PriceKind};
use serde_json::Value;

fn walk(path: &str, value: &Value, visit: &mut impl FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("sources") {
                visit(path, fields);
            }
            fields.iter().for_each(|(name, field)| walk(&format!("{path}.{name}"), field, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(path, item, visit)),
        _ => {}
    }
}

#[test]
fn every_figure_has_a_source() {
    for generation in Generation::ALL {
        let json = serde_json::to_value(generation.spec()).unwrap();
        let mut figures = 0;
        walk(generation.name(), &json, &mut |path, figure| {
            let sources = figure["sources"].as_array().unwrap();
            assert!(!sources.is_empty() && sources.iter().all(|s| s.as_str().is_some_and(|s| !s.is_empty())), "{path}");
            figures += 1;
        });
        assert!(figures >= 30, "{generation}: {figures}");
        for price in generation.spec().prices.iter() {
            assert!(price.usd_per_chip_hour > 0.0 && price.usd_per_chip_hour < 20.0);
            assert!(!price.date.is_empty() && !price.source.is_empty() && !price.region.is_empty());
        }
    }
}

#[test]
fn clock_times_matrix_units_gives_the_documented_rate() {
    for generation in Generation::ALL {
        let spec = generation.spec();
        let computed = spec.matrix_ops_per_cycle_per_device() as f64 * spec.cores.clock_ghz.value * 1e9;
        let ratio = computed / spec.peak_ops_per_device("bf16");
        assert!((ratio - 1.0).abs() < 0.01, "{generation}: {ratio}");
    }
}

/// The 256x256 units do two multiply-adds per cell and cycle, or are more than documented: the notes say so.
#[test]
fn matrix_units_give_the_operations_per_cycle() {
    for generation in Generation::ALL {
        let cores = &generation.spec().cores;
        let edge = u64::from(cores.mxu_edge.value);
        let counted = 2 * edge * edge * u64::from(cores.mxus_per_core.value);
        let factor = if edge == 256 { 2 } else { 1 };
        assert_eq!(factor * counted, cores.matrix_ops_per_cycle_per_core.value, "{generation}");
    }
}

#[test]
fn usable_memory_is_a_little_less_than_a_devices_share() {
    for generation in Generation::ALL {
        let spec = generation.spec();
        let share = spec.memory.hbm_bytes_per_chip.value as f64 / f64::from(spec.cores.devices_per_chip.value);
        let ratio = spec.memory.usable_hbm_bytes_per_device.value as f64 / share;
        assert!((0.93..1.01).contains(&ratio), "{generation}: {ratio}");
    }
}

#[test]
fn links_follow_the_torus_and_add_up() {
    for generation in Generation::ALL {
        let network = &generation.spec().network;
        assert_eq!(network.ici_links_per_chip.value, 2 * network.torus_dimensions.value);
        if let (Some(link), Some(chip)) =
            (network.ici_gb_per_s_per_link_one_way, network.ici_gb_per_s_per_chip_both_ways)
        {
            let sum = 2.0 * link.value * f64::from(network.ici_links_per_chip.value);
            assert!((0.85..1.01).contains(&(sum / chip.value)), "{generation}: {sum} of {}", chip.value);
        }
    }
}

#[test]
fn rates_by_element_type() {
    let rate = |g: Generation, t| g.spec().peak_ops_per_device(t) / 1e12;
    assert_eq!(rate(Generation::V4, "i8"), 275.0);
    assert_eq!(rate(Generation::V5e, "i8"), 393.0);
    assert_eq!(rate(Generation::V5e, "i4"), 394.0);
    assert_eq!(rate(Generation::V5p, "f8E4M3FN"), 459.0);
    assert_eq!(rate(Generation::V5p, "f8E5M2"), 918.0);
    assert_eq!(rate(Generation::Tpu7x, "f8E4M3FN"), 2307.0);
    assert_eq!(rate(Generation::Tpu7x, "i8"), 1153.5);
    assert_eq!(rate(Generation::Tpu7x, "bf16"), 1153.5);
}

#[test]
fn identifiers_find_their_generation() {
    for generation in Generation::ALL {
        let id = generation.spec().names.pci.value;
        let subsystem = id.subsystem.unwrap_or(0x1234);
        assert_eq!(Generation::from_pci(PciId::GOOGLE, id.device, subsystem), Some(generation));
        assert_eq!(Generation::from_device_kind(generation.device_kind()), Some(generation));
        assert_eq!(Generation::from_name(generation.name()), Some(generation));
    }
    assert_eq!(Generation::from_pci(0x8086, 0x0063, 0), None);
    assert_eq!(Generation::from_name("v5"), None);
    assert_eq!(Generation::from_name("tpu-v6e-slice"), Some(Generation::V6e));
}

#[test]
fn prices_are_found_by_terms_and_region() {
    let v6e = Generation::V6e.spec();
    assert_eq!(v6e.price(PriceKind::OnDemand, Some("europe-west4")).unwrap().usd_per_chip_hour, 2.97);
    assert_eq!(v6e.price(PriceKind::Spot, None).unwrap().usd_per_chip_hour, 0.6518);
    assert_eq!(v6e.price(PriceKind::Committed3Years, Some("us-east5")).unwrap().usd_per_chip_hour, 1.22);
    assert_eq!(Generation::V5e.spec().price(PriceKind::Committed1Year, None), None);
    assert!(Generation::Tpu7x.spec().prices.is_empty());
}

#[test]
fn every_figure_of_a_gpu_has_a_source() {
    for gpu in Gpu::ALL {
        let json = serde_json::to_value(gpu).unwrap();
        let mut figures = 0;
        walk(gpu.name, &json, &mut |path, figure| {
            assert!(figure["sources"][0].as_str().is_some_and(|source| source.starts_with("https://")), "{path}");
            figures += 1;
        });
        assert_eq!(figures, 8, "{}", gpu.name);
        for price in gpu.prices {
            assert!(price.usd_per_chip_hour > 0.0 && price.usd_per_chip_hour < 20.0);
            assert!(!price.date.is_empty() && price.source.starts_with("https://") && !price.region.is_empty());
        }
        // Narrower types are never slower, and fp8 and int8 run alike.
        assert!(gpu.int8_tops.value >= 1.99 * gpu.bf16_tflops.value, "{}", gpu.name);
        assert!(gpu.fp8_tflops.value.is_none_or(|fp8| fp8 == gpu.int8_tops.value), "{}", gpu.name);
    }
}

#[test]
fn gpus_are_found_by_name_and_by_what_their_devices_report() {
    let name = |name: &str| Gpu::from_name(name).map(|gpu| gpu.name);
    for (given, expected) in [
        ("h200", Some("H200")),
        ("NVIDIA-H100", Some("H100")),
        ("nvidia a100", Some("A100")),
        ("NVIDIA H100 SXM", Some("H100")),
        ("amd mi300x", Some("MI300X")),
        ("L40", None),
        ("v5p", None),
        ("", None),
        ("nvidia", None),
    ] {
        assert_eq!(name(given), expected, "{given}");
    }
    let kind = |kind: &str| Gpu::from_device_kind(kind).map(|gpu| gpu.name);
    for (given, expected) in [
        ("NVIDIA H100 80GB HBM3", Some("H100")),
        ("NVIDIA A100-SXM4-80GB", Some("A100")),
        ("NVIDIA L40S", Some("L40S")),
        ("NVIDIA L4", Some("L4")),
        ("NVIDIA L40", None),
        ("NVIDIA GH200 480GB", Some("H200")),
        ("NVIDIA B200", Some("B200")),
        ("TPU v4", None),
    ] {
        assert_eq!(kind(given), expected, "{given}");
    }
}

#[test]
fn the_smallest_compute_bound_batch_follows_from_rate_and_bandwidth() {
    let batch = |generation: Generation| generation.spec().compute_bound_batch();
    // The scaling book: about 240 from HBM and 11 from VMEM on v5e, half of it with 8-bit weights.
    let v5e = batch(Generation::V5e);
    assert_eq!((v5e.bf16, v5e.weights_8_bit, v5e.bf16_from_vmem), (241, 121, Some(11)));
    let bf16 = Generation::ALL.map(|generation| batch(generation).bf16);
    assert_eq!(bf16, [65, 137, 230, 241, 167, 561, 313]);
    let gpu = |name: &str| Accelerator::Gpu(Gpu::from_name(name).unwrap()).compute_bound_batch().bf16;
    assert_eq!(["a100", "h100", "h200", "b200"].map(gpu), [154, 296, 207, 282]);
    // A user's bandwidth counts.
    let doubled = Overrides::parse(["v5e_memory_gbps=1638"]).unwrap();
    assert_eq!(Generation::V5e.spec().with(&doubled).compute_bound_batch().bf16, 121);
}

#[test]
fn power_is_the_design_power_or_the_highest_measured() {
    let tpu = |generation: Generation| Accelerator::Tpu(generation.spec().clone()).power_watts();
    assert_eq!(Generation::ALL.map(tpu), [None, Some(262), Some(192), None, None, None, None]);
    assert_eq!(Accelerator::Gpu(Gpu::from_name("h200").unwrap()).power_watts(), Some(700));
}
