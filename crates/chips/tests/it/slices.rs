//! Every listed accelerator type, every legal TPU7x slice, and limits read from libtpu.

use std::collections::BTreeSet;

use chips::{Generation, Slice, Twist};

fn lines(data: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    data.lines().filter(|l| !l.starts_with('#')).map(|l| l.split(' ').collect())
}

fn wrap_text(slice: &Slice) -> String {
    slice.wrap().map(|w| if w { 'w' } else { '-' }).iter().collect()
}

#[test]
fn every_listed_name() {
    let mut count = 0;
    for line in lines(include_str!("../data/slice_names.txt")) {
        let &[name, topology, config, bounds, devices, wrap] = line.as_slice() else { panic!("{line:?}") };
        let slice: Slice = name.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        let request = slice.topology_request();
        // MaxText writes v5p with libtpu's other name for it.
        assert_eq!(request.name, topology.replace("v5:", "v5p:"), "{name}");
        assert_eq!(request.chip_config_name, config, "{name}");
        assert_eq!(request.chips_per_host_bounds.map(|b| b.to_string()).join(","), bounds, "{name}");
        assert_eq!(slice.devices().to_string(), devices, "{name}");
        assert_eq!(wrap_text(&slice), wrap, "{name}");
        assert_eq!(topology.parse(), Ok(slice), "{name}");
        assert!(slice.is_default_shape(), "{name}");
        count += 1;
    }
    assert_eq!(count, 223);
}

#[test]
fn every_legal_tpu7x_slice_and_no_other() {
    let listed: BTreeSet<String> = lines(include_str!("../data/tpu7x_slices.txt")).map(|l| l.join(" ")).collect();
    let ours: BTreeSet<String> = Slice::all(Generation::Tpu7x)
        .iter()
        .map(|s| {
            let twist = if s.twist() == Twist::Twisted { "T" } else { "" };
            format!("{} {}{twist}", s.topology(), wrap_text(s))
        })
        .collect();
    assert_eq!(listed.len(), 446);
    assert_eq!(ours, listed);
}

#[test]
fn every_slice_is_consistent_and_prints_a_name_that_parses_back() {
    for generation in Generation::ALL {
        let all = Slice::all(generation);
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
        for slice in all {
            let name = slice.to_string();
            assert_eq!(name.parse(), Ok(slice), "{name}");
            assert_eq!(slice.topology_request().name.parse(), Ok(slice), "{name}");
            let seven = slice.times(7).unwrap();
            assert_eq!(seven.to_string().parse(), Ok(seven), "{name}");
            assert_eq!(seven.chips(), 7 * slice.chips());
            assert!(slice.chips() <= generation.spec().network.pod_chips.value, "{name}");
            let bounds = slice.chips_per_host_bounds();
            assert!(slice.shape().iter().zip(bounds).all(|(d, b)| d % b == 0), "{name}");
            assert_eq!(slice.device_ids().len(), slice.devices() as usize, "{name}");
            for machine in slice.machines() {
                assert_eq!(machine.machine_type.parse::<Slice>().map(|m| m.generation()), Ok(generation));
            }
        }
    }
}

#[test]
fn sizes_of_the_generations() {
    let sizes = |g| Slice::defaults(g).iter().map(Slice::accelerator_type).collect::<Vec<_>>().join(" ");
    assert_eq!(sizes(Generation::V2), "v2-8 v2-32 v2-128 v2-256 v2-512");
    assert_eq!(sizes(Generation::V3), "v3-8 v3-32 v3-64 v3-128 v3-256 v3-512 v3-1024 v3-2048");
    assert_eq!(
        sizes(Generation::V5e),
        "v5litepod-1 v5litepod-4 v5litepod-8 v5litepod-16 v5litepod-32 v5litepod-64 v5litepod-128 v5litepod-256"
    );
    assert!(sizes(Generation::V5p).starts_with("v5p-8 v5p-16 v5p-32 v5p-64 v5p-128 v5p-256 v5p-384"));
    assert!(sizes(Generation::V5p).ends_with(" v5p-17920"));
}

/// `device_memory_bytes_limit` of the first device, libtpu 0.0.51.
#[test]
fn usable_memory_equals_libtpus_limit() {
    for (name, bytes) in [
        ("v2:2x2", 8_034_172_928),
        ("v2:4x4", 8_034_156_544),
        ("v2:16x16", 8_033_665_024),
        ("v3:2x2", 16_624_107_520),
        ("v3:4x4", 16_624_091_136),
        ("v3:32x32", 16_622_026_752),
        ("v4:2x2x1", 33_014_413_312),
        ("v4:4x4x8", 33_014_349_824),
        ("v4:4x8x8_twisted", 33_014_284_288),
        ("v4:16x16x16", 33_012_318_208),
        ("v5e:1x1", 16_909_336_064),
        ("v5e:2x2", 16_909_334_528),
        ("v5e:2x4", 16_909_332_480),
        ("v5e:4x4", 16_909_328_384),
        ("2xv5e:4x4", 16_909_328_384),
        ("v5e:16x16", 16_909_205_504),
        ("v5p:2x2x1", 102_786_660_352),
        ("v5p:2x2x2", 102_786_658_304),
        ("v5p:16x20x28", 102_782_074_880),
        ("v6e:1x1", 33_546_042_880),
        ("v6e:16x16", 33_545_912_320),
        ("tpu7x:1x1x1", 101_724_453_888),
        ("tpu7x:1x2x1", 101_724_452_864),
        ("tpu7x:2x2x1", 101_724_450_816),
        ("tpu7x:4x4x4", 101_724_389_376),
        ("tpu7x:4x8x64_twisted", 101_722_357_760),
        ("tpu7x:16x24x24", 101_715_017_728),
    ] {
        assert_eq!(Slice::parse(name).unwrap().usable_hbm_bytes_per_device(), bytes, "{name}");
    }
}

#[test]
fn hosts_and_machines() {
    let machines = |name: &str| {
        let slice = Slice::parse(name).unwrap();
        let list: Vec<_> = slice.machines().iter().map(|m| format!("{}*{}", m.count, m.machine_type)).collect();
        format!("{} {}", slice.hosts(), list.join(" "))
    };
    assert_eq!(machines("v2-32"), "4 ");
    assert_eq!(machines("v3-8"), "1 1*ct3-hightpu-4t 1*ct3p-hightpu-4t");
    assert_eq!(machines("v3-32"), "4 4*ct3p-hightpu-4t");
    assert_eq!(machines("v4-8"), "1 1*ct4p-hightpu-4t");
    assert_eq!(machines("v5e-1"), "1 1*ct5lp-hightpu-1t 1*ct5l-hightpu-1t");
    assert_eq!(machines("v5e-8"), "1 1*ct5lp-hightpu-8t 2*ct5lp-hightpu-4t 1*ct5l-hightpu-8t");
    assert_eq!(machines("v6e-16"), "4 4*ct6e-standard-4t");
    assert_eq!(machines("2xv6e-256"), "128 128*ct6e-standard-4t");
    assert_eq!(machines("tpu7x-2"), "1 1*tpu7x-standard-1t");
    assert_eq!(machines("tpu7x-4"), "1 ");
    assert_eq!(machines("tpu7x-128"), "16 16*tpu7x-standard-4t");
    assert_eq!(Slice::parse("v5e-8").unwrap().processes_per_slice(), 2);
}

#[test]
fn device_ids() {
    let ids = |name: &str| Slice::parse(name).unwrap().device_ids().collect::<Vec<_>>();
    assert_eq!(ids("v5e-4"), [0, 1, 2, 3]);
    assert_eq!(ids("tpu7x-2"), [0, 1]);
    assert_eq!(ids("2xv4-8"), [100_000, 100_001, 100_002, 100_003, 200_000, 200_001, 200_002, 200_003]);
}

#[test]
fn json_of_a_slice() {
    let json = serde_json::to_value(Slice::parse("v5p:4x4x8_twisted").unwrap()).unwrap();
    assert_eq!(json["name"], "v5p:4x4x8_twisted");
    assert_eq!(json["accelerator_type"], "v5p-256");
    assert_eq!(json["generation"], "v5p");
    assert_eq!(json["libtpu"]["wrap"], serde_json::json!([1, 1, 1]));
    assert_eq!(json["machines"][0]["count"], 32);
}
