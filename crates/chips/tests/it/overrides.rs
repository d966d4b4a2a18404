//! Overridden figures.

use chips::{Error, Generation, Overrides, PriceKind, Quantity};

const GIB: u64 = 1 << 30;

#[test]
fn memory_keeps_what_the_runtime_reserves() {
    let spec = Generation::Tpu7x.spec();
    let overridden = spec.with(&Overrides::parse(["v7_memory_gb=128"]).unwrap());
    assert_eq!(overridden.memory.hbm_bytes_per_chip.value, 128 * GIB);
    let reserve = 96 * GIB - spec.memory.usable_hbm_bytes_per_device.value;
    assert_eq!(overridden.memory.usable_hbm_bytes_per_device.value, 64 * GIB - reserve);
    assert_eq!(overridden.memory.hbm_bytes_per_chip.sources, ["override by the user"]);

    let same = spec.with(&Overrides::parse(["tpu7x_memory_gb=192"]).unwrap());
    assert_eq!(same.usable_hbm_bytes_per_device(8), spec.usable_hbm_bytes_per_device(8));

    let texts = ["v6e_usable_memory_gb=30", "v6e_memory_gb=64"];
    let both = Generation::V6e.spec().with(&Overrides::parse(texts).unwrap());
    assert_eq!(both.memory.usable_hbm_bytes_per_device.value, 30 * GIB);
}

#[test]
fn prices_and_rates() {
    let overrides = Overrides::parse(["v7_price=9.5", "v5e_price = 1", "V5P_MEMORY_GBPS=2460", "v6e_int8_tops=1800"]);
    let overrides = overrides.unwrap();
    let spec = Generation::Tpu7x.spec().with(&overrides);
    assert_eq!(spec.price(PriceKind::OnDemand, Some("us-central1")).unwrap().usd_per_chip_hour, 9.5);
    let spec = Generation::V5e.spec().with(&overrides);
    assert_eq!(spec.price(PriceKind::OnDemand, None).unwrap().usd_per_chip_hour, 1.0);
    assert_eq!(spec.price(PriceKind::Spot, Some("us-west4")).unwrap().usd_per_chip_hour, 0.6068);
    assert_eq!(Generation::V5p.spec().with(&overrides).memory.hbm_gb_per_s.value, 2460.0);
    assert_eq!(Generation::V6e.spec().with(&overrides).peak_ops_per_device("i8"), 1800e12);
    assert_eq!(Generation::V4.spec().with(&overrides), *Generation::V4.spec());
    assert_eq!(Overrides::parse(overrides.to_string().split(',')), Ok(overrides));
}

#[test]
fn every_key_is_accepted_and_changes_something() {
    let keys = Overrides::valid_keys();
    assert_eq!(keys.len(), Generation::ALL.len() * Quantity::ALL.len());
    for key in keys {
        let overrides = Overrides::parse([format!("{key}=3")]).unwrap();
        let changed = Generation::ALL.iter().filter(|g| g.spec().with(&overrides) != *g.spec()).count();
        assert_eq!(changed, 1, "{key}");
    }
}

#[test]
fn refusals() {
    let Err(Error::UnknownOverride { key, valid }) = Overrides::parse(["v7_memory=1"]) else { panic!() };
    assert_eq!(key, "v7_memory");
    assert!(valid.contains(&"tpu7x_memory_gb".to_owned()));
    for text in ["v7_memory_gb=-1", "v7_memory_gb=0", "v7_memory_gb=inf", "v7_memory_gb=much", "v7_memory_gb=1e10"] {
        assert!(matches!(Overrides::parse([text]), Err(Error::OverrideValue { .. })), "{text}");
    }
    assert!(matches!(Overrides::parse(["v7_memory_gb"]), Err(Error::MalformedOverride { .. })));
    assert!(Overrides::parse(["v7_price=0"]).is_ok());
}
