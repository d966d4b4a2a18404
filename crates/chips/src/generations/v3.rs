//! Figures of TPU v3.

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::price::{Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::V3,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(2, &[DOC_V3]),
        devices_per_chip: Figure::new(2, &[LIBTPU]),
        mxus_per_core: Figure::new(2, &[DOC_V3, JAX]),
        mxu_edge: Figure::new(128, &[JAX]),
        matrix_ops_per_cycle_per_core: Figure::new(65_536, &[LIBTPU]),
        clock_ghz: Figure::noted(0.94, &[V4_SLIDES], "123e12 / 131072 per chip = 0.938"),
        sparse_cores_per_chip: None,
    },
    rates: Rates {
        bf16_tflops: Figure::noted(123.0, &[DOC_V3], "jax and the scaling book say 140"),
        int8_tops: Figure::new(None, &[JAX]),
        int4_tops: Figure::new(None, &[JAX]),
        fp8_tflops: Figure::new(None, &[JAX]),
        double_rate_types: Figure::new(&[], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::new(32 * GIB, &[DOC_V3]),
        usable_hbm_bytes_per_device: Figure::new(16_624_107_520, &[LIBTPU]),
        runtime_reserve: Figure::new(RESERVE_1024, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(900.0, &[DOC_V3], "jax says 825"),
        vmem_bandwidth_to_hbm: None,
        vmem_bytes_per_core: Figure::new(16 * MIB, &[JAX, LIBTPU]),
        cmem_bytes_per_chip: Figure::new(0, &[JAX]),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(4, &[TORUS]),
        ici_gb_per_s_per_link_one_way: Some(Figure::new(100.0, &[BOOK])),
        ici_gb_per_s_per_chip_both_ways: None,
        torus_dimensions: Figure::new(2, &[DOC_V3]),
        shapes: Figure::noted(
            ShapeRule::Listed(&[
                [2, 2, 1],
                [4, 4, 1],
                [4, 8, 1],
                [8, 8, 1],
                [8, 16, 1],
                [16, 16, 1],
                [16, 32, 1],
                [32, 32, 1],
            ]),
            &[JAX_HOSTS, CATALOG],
            "v3-8, v3-32, v3-64, v3-128, v3-256, v3-512, v3-1024, v3-2048",
        ),
        wrap: Figure::new(WrapRule::DimensionOf(32), &[SPANS_POD]),
        twist: Figure::new(TwistRule::Never, &[DOC_V3]),
        pod_chips: Figure::new(1024, &[DOC_V3]),
        pod_all_reduce_tb_per_s: Some(Figure::new(340.0, &[DOC_V3])),
        pod_bisection_tb_per_s: Some(Figure::new(6.4, &[DOC_V3])),
        dcn_gb_per_s_per_chip: None,
    },
    host: HostSpec {
        chips_per_host: Figure::noted(
            4,
            &[JAX_HOSTS, GKE_FAMILIES],
            "8 is also quoted; host bounds and machine types say 4",
        ),
        dram_gib: None,
        vcpus: None,
        nic: None,
        pcie_gb_per_s_per_chip: None,
        machine_types: Figure::new(
            &[
                machine("ct3-hightpu-4t", 4, Some(96), Some(340), HostCount::One),
                machine("ct3p-hightpu-4t", 4, Some(48), Some(340), HostCount::Any),
            ],
            &[GKE_NOTES, GKE_FAMILIES],
        ),
    },
    names: Names {
        device_kind: Figure::new("TPU v3", &[LIBTPU]),
        chip_config_name: Figure::new("default", &[LIBTPU]),
        accelerator_prefix: "v3",
        count_unit: Figure::new(CountUnit::Cores, &[DOC_V3]),
        tpu_api_type: Figure::new(Some("V3"), &[TPU_API]),
        runtime_version: Some(Figure::new("tpu-ubuntu2204-base", &[DOC_RUNTIMES])),
        gke_accelerator: Some(Figure::noted(
            "tpu-v3-slice",
            &[GKE_FAMILIES],
            "the single-host machine ct3-hightpu-4t is labelled tpu-v3-device",
        )),
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x0027, subsystem: Some(0x004f) }, &[TPU_INFO]),
    },
    power: Some(Figure::new(PowerWatts { minimum: 123, mean: 220, maximum: 262 }, &[DOC_V3])),
    prices: Cow::Borrowed(&[
        Price::catalog("us-central1", PriceKind::OnDemand, 2.0),
        Price::catalog("us-central1", PriceKind::Spot, 0.51),
    ]),
};
