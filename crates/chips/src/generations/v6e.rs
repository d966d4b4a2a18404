//! Figures of TPU v6e (Trillium).

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::price::{Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

const fn committed(kind: PriceKind, usd_per_chip_hour: f64) -> Price {
    Price { region: "any", kind, usd_per_chip_hour, date: "2024-12", source: V6E_LAUNCH }
}

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::V6e,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(1, &[DOC_V6E]),
        devices_per_chip: Figure::new(1, &[LIBTPU]),
        mxus_per_core: Figure::noted(
            2,
            &[DOC_V6E, JAX],
            "one snapshot of the page said 4, which would agree with the rate at one multiply-add per cell",
        ),
        mxu_edge: Figure::new(256, &[DOC_V6E, JAX]),
        matrix_ops_per_cycle_per_core: Figure::noted(
            524_288,
            &[LIBTPU],
            "libtpu prices matmuls at up to 456k; twice what 2 units of 256x256 would do with one multiply-add per cell",
        ),
        clock_ghz: Figure::noted(1.75, &[DERIVED, LIBTPU], "918e12 / 524288 = 1.751"),
        sparse_cores_per_chip: Some(Figure::new(2, &[DOC_TPU7X, JAX])),
    },
    rates: Rates {
        bf16_tflops: Figure::new(918.0, &[DOC_V6E]),
        int8_tops: Figure::new(Some(1836.0), &[DOC_V6E]),
        int4_tops: Figure::noted(None, &[LIBTPU], "no rate is documented; libtpu prices it as int8"),
        fp8_tflops: Figure::noted(
            Some(918.0),
            &[DOC_TPU7X],
            "no gain over bf16; libtpu prices f8E5M2 matmuls at twice bf16",
        ),
        double_rate_types: Figure::new(&["i8", "i4", "f8E5M2", "f8E4M3B11FNUZ"], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::new(32 * GIB, &[DOC_V6E]),
        usable_hbm_bytes_per_device: Figure::new(33_546_041_344, &[LIBTPU]),
        runtime_reserve: Figure::new(RESERVE_512, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(1638.0, &[DOC_TPU7X], "1600 on the newest v6e page, 1640 on older ones"),
        vmem_bandwidth_to_hbm: None,
        vmem_bytes_per_core: Figure::new(128 * MIB, &[JAX, LIBTPU]),
        cmem_bytes_per_chip: Figure::new(0, &[JAX]),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(4, &[DOC_V6E]),
        ici_gb_per_s_per_link_one_way: Some(Figure::new(90.0, &[BOOK])),
        ici_gb_per_s_per_chip_both_ways: Some(Figure::noted(
            800.0,
            &[DOC_TPU7X],
            "3200 Gb/s one direction; an older page says 3584 Gb/s",
        )),
        torus_dimensions: Figure::new(2, &[DOC_V6E]),
        shapes: Figure::new(ShapeRule::Listed(UP_TO_16X16), &[DOC_V6E, MAXTEXT]),
        wrap: Figure::new(WrapRule::DimensionOf(16), &[MAXTEXT, BOOK]),
        twist: Figure::new(TwistRule::Never, &[DOC_V6E]),
        pod_chips: Figure::new(256, &[DOC_V6E]),
        pod_all_reduce_tb_per_s: Some(Figure::new(102.4, &[DOC_V6E])),
        pod_bisection_tb_per_s: Some(Figure::new(3.2, &[DOC_V6E])),
        dcn_gb_per_s_per_chip: Some(Figure::noted(12.5, &[DOC_TPU7X], "100 Gb/s")),
    },
    host: HostSpec {
        chips_per_host: Figure::noted(8, &[DOC_V6E], "virtual machines have 1, 4 or 8; multi-host slices use 4"),
        dram_gib: Some(Figure::noted(1536.0, &[DOC_V6E], "720 GB on a 4-chip machine")),
        vcpus: Some(Figure::noted(180, &[DOC_TPU7X, GKE_FAMILIES], "of the 4-chip and of the 8-chip machine")),
        nic: Some(Figure::new("4 x 200 Gb/s per host, 25.6 Tb/s per pod", &[DOC_V6E])),
        pcie_gb_per_s_per_chip: Some(Figure::new(32.0, &[BOOK])),
        machine_types: Figure::new(
            &[
                machine("ct6e-standard-1t", 1, Some(44), Some(176), HostCount::One),
                machine("ct6e-standard-8t", 8, Some(180), Some(1440), HostCount::One),
                machine("ct6e-standard-4t", 4, Some(180), Some(720), HostCount::Any),
            ],
            &[DOC_V6E, GKE_FAMILIES],
        ),
    },
    names: Names {
        device_kind: Figure::new("TPU v6 lite", &[LIBTPU]),
        chip_config_name: Figure::new("default", &[LIBTPU, MAXTEXT]),
        accelerator_prefix: "v6e",
        count_unit: Figure::new(CountUnit::Chips, &[DOC_V6E]),
        tpu_api_type: Figure::new(Some("V6E"), &[TPU_API]),
        runtime_version: Some(Figure::new("v2-alpha-tpuv6e", &[RECIPES])),
        gke_accelerator: Some(Figure::new("tpu-v6e-slice", &[XPK])),
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x006f, subsystem: None }, &[TPU_INFO]),
    },
    power: None,
    prices: Cow::Borrowed(&[
        Price::catalog("us-central1", PriceKind::OnDemand, 2.7),
        Price::catalog("us-central1", PriceKind::Spot, 0.6518),
        Price::catalog("us-east5", PriceKind::OnDemand, 2.7),
        Price::catalog("us-east5", PriceKind::Spot, 1.5437),
        Price::catalog("europe-west4", PriceKind::OnDemand, 2.97),
        Price::catalog("europe-west4", PriceKind::Spot, 1.782),
        committed(PriceKind::Committed1Year, 1.89),
        committed(PriceKind::Committed3Years, 1.22),
    ]),
};
