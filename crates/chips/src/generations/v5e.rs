//! Figures of TPU v5e.

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::price::{Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::V5e,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(1, &[DOC_V5E]),
        devices_per_chip: Figure::new(1, &[LIBTPU]),
        mxus_per_core: Figure::new(4, &[DOC_V5E, JAX]),
        mxu_edge: Figure::new(128, &[DOC_V5E, JAX]),
        matrix_ops_per_cycle_per_core: Figure::new(131_072, &[LIBTPU]),
        clock_ghz: Figure::noted(1.5, &[BOOK, LIBTPU], "197e12 / 131072 = 1.503"),
        sparse_cores_per_chip: Some(Figure::new(0, &[DOC_V6E])),
    },
    rates: Rates {
        bf16_tflops: Figure::new(197.0, &[DOC_V5E]),
        int8_tops: Figure::new(Some(393.0), &[DOC_V5E]),
        int4_tops: Figure::noted(Some(788.0), &[JAX], "libtpu prices a plain int4 matmul at the int8 rate"),
        fp8_tflops: Figure::noted(
            None,
            &[JAX, LIBTPU],
            "no rate is documented; libtpu prices f8E5M2 matmuls at twice bf16, f8E4M3FN at bf16",
        ),
        double_rate_types: Figure::new(&["i8", "i4", "f8E5M2", "f8E4M3B11FNUZ"], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::noted(16 * GIB, &[DOC_V5E], "jax states 17.2e9 bytes"),
        usable_hbm_bytes_per_device: Figure::new(16_909_334_528, &[LIBTPU]),
        runtime_reserve: Figure::new(RESERVE_512, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(819.0, &[DOC_V5E], "the newest page rounds to 800 GiB/s"),
        vmem_bandwidth_to_hbm: Some(Figure::noted(22.0, &[BOOK], "rounded; only a part of it can load weights")),
        vmem_bytes_per_core: Figure::new(128 * MIB, &[JAX, LIBTPU, BOOK]),
        cmem_bytes_per_chip: Figure::new(0, &[JAX]),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(4, &[DOC_V6E]),
        ici_gb_per_s_per_link_one_way: Some(Figure::new(45.0, &[BOOK])),
        ici_gb_per_s_per_chip_both_ways: Some(Figure::noted(
            400.0,
            &[DOC_V5E],
            "older pages: 1600 Gb/s, one direction",
        )),
        torus_dimensions: Figure::new(2, &[DOC_V5E]),
        shapes: Figure::new(ShapeRule::Listed(UP_TO_16X16), &[DOC_V5E, MAXTEXT]),
        wrap: Figure::new(WrapRule::DimensionOf(16), &[MAXTEXT, BOOK]),
        twist: Figure::new(TwistRule::Never, &[DOC_V5E]),
        pod_chips: Figure::new(256, &[DOC_V5E]),
        pod_all_reduce_tb_per_s: Some(Figure::new(51.2, &[DOC_V5E])),
        pod_bisection_tb_per_s: Some(Figure::new(1.6, &[DOC_V5E])),
        dcn_gb_per_s_per_chip: Some(Figure::new(3.125, &[BOOK])),
    },
    host: HostSpec {
        chips_per_host: Figure::noted(8, &[DOC_V6E], "virtual machines have 1, 4 or 8; multi-host slices use 4"),
        dram_gib: Some(Figure::new(512.0, &[DOC_V6E])),
        vcpus: Some(Figure::noted(224, &[MACHINE_CSV], "of the 8-chip machine")),
        nic: Some(Figure::new("2 x 100 Gb/s per host, 6.4 Tb/s per pod", &[DOC_V6E])),
        pcie_gb_per_s_per_chip: Some(Figure::new(16.0, &[BOOK])),
        machine_types: Figure::noted(
            &[
                machine("ct5lp-hightpu-1t", 1, Some(24), Some(48), HostCount::One),
                machine("ct5lp-hightpu-8t", 8, Some(224), Some(384), HostCount::One),
                machine("ct5lp-hightpu-4t", 4, Some(112), Some(192), HostCount::Any),
                machine("ct5l-hightpu-1t", 1, Some(24), Some(48), HostCount::One),
                machine("ct5l-hightpu-4t", 4, Some(112), Some(192), HostCount::One),
                machine("ct5l-hightpu-8t", 8, Some(224), Some(384), HostCount::One),
            ],
            &[MACHINE_CSV],
            "ct5l machines are single devices, ct5lp machines join into slices",
        ),
    },
    names: Names {
        device_kind: Figure::new("TPU v5 lite", &[LIBTPU]),
        chip_config_name: Figure::new("default", &[LIBTPU, MAXTEXT]),
        accelerator_prefix: "v5litepod",
        count_unit: Figure::new(CountUnit::Chips, &[DOC_V5E]),
        tpu_api_type: Figure::new(Some("V5LITE_POD"), &[TPU_API]),
        runtime_version: Some(Figure::new("v2-alpha-tpuv5-lite", &[DOC_RUNTIMES])),
        gke_accelerator: Some(Figure::noted(
            "tpu-v5-lite-podslice",
            &[XPK],
            "ct5l machines are labelled tpu-v5-lite-device",
        )),
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x0063, subsystem: None }, &[TPU_INFO]),
    },
    power: None,
    prices: Cow::Borrowed(&[
        Price::catalog("us-central1", PriceKind::OnDemand, 1.2),
        Price::catalog("us-central1", PriceKind::Spot, 0.3422),
        Price::catalog("us-west4", PriceKind::OnDemand, 1.2),
        Price::catalog("us-west4", PriceKind::Spot, 0.6068),
        Price::catalog("europe-west4", PriceKind::OnDemand, 1.56),
        Price::catalog("europe-west4", PriceKind::Spot, 0.5356),
    ]),
};
