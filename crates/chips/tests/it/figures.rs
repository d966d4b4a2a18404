//! Figures have sources and agree with each other.

use chips::{Generation, PciId, PriceKind};
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
