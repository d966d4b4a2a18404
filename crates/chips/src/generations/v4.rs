//! Figures of TPU v4.

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::price::{Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::V4,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(2, &[DOC_V4]),
        devices_per_chip: Figure::noted(
            1,
            &[MAXTEXT, LIBTPU],
            "megacore; libtpu's topology gives two devices unless chip_config_name is megacore",
        ),
        mxus_per_core: Figure::new(4, &[DOC_V4, JAX]),
        mxu_edge: Figure::new(128, &[DOC_V4, JAX]),
        matrix_ops_per_cycle_per_core: Figure::noted(131_072, &[LIBTPU], "262144 for a megacore device"),
        clock_ghz: Figure::noted(1.05, &[V4_SLIDES, LIBTPU], "275e12 / 262144 = 1.049"),
        sparse_cores_per_chip: Some(Figure::noted(4, &[V4_PAPER], "not exposed by jax")),
    },
    rates: Rates {
        bf16_tflops: Figure::new(275.0, &[DOC_V4]),
        int8_tops: Figure::noted(
            Some(275.0),
            &[DOC_V4],
            "documented as bf16 or int8; libtpu prices an int8 matmul no faster than bf16",
        ),
        int4_tops: Figure::new(None, &[LIBTPU]),
        fp8_tflops: Figure::new(None, &[LIBTPU]),
        double_rate_types: Figure::new(&[], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::new(32 * GIB, &[DOC_V4]),
        usable_hbm_bytes_per_device: Figure::noted(
            33_014_413_312,
            &[LIBTPU],
            "megacore; without megacore libtpu reports 32,745,971,712 for each of the two devices of a chip",
        ),
        runtime_reserve: Figure::new(RESERVE_512, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(1200.0, &[DOC_V4], "jax says 1230"),
        vmem_bandwidth_to_hbm: None,
        vmem_bytes_per_core: Figure::new(16 * MIB, &[JAX, LIBTPU]),
        cmem_bytes_per_chip: Figure::noted(128 * MIB, &[JAX], "jax states 134e6 bytes"),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(6, &[TORUS]),
        ici_gb_per_s_per_link_one_way: Some(Figure::noted(45.0, &[BOOK], "50 nominal")),
        ici_gb_per_s_per_chip_both_ways: None,
        torus_dimensions: Figure::new(3, &[DOC_V4]),
        shapes: Figure::noted(
            ShapeRule::Cubes { below_a_cube: BELOW_A_CUBE, edge: 4, longest: 256, max_chips: 4096 },
            &[DOC_V4, XPK],
            "cubes of 4x4x4 joined by optical switches, at most 64 of them",
        ),
        wrap: Figure::new(WrapRule::WholeCubesOf(4), &[MAXTEXT, BOOK]),
        twist: Figure::noted(TwistRule::Doubled, &[DOC_V4], "A x A x 2A or A x 2A x 2A"),
        pod_chips: Figure::new(4096, &[DOC_V4]),
        pod_all_reduce_tb_per_s: Some(Figure::new(1100.0, &[DOC_V4])),
        pod_bisection_tb_per_s: Some(Figure::new(24.0, &[DOC_V4])),
        dcn_gb_per_s_per_chip: Some(Figure::new(6.25, &[BOOK])),
    },
    host: HostSpec {
        chips_per_host: Figure::new(4, &[MAXTEXT]),
        dram_gib: None,
        vcpus: Some(Figure::new(240, &[GKE_FAMILIES])),
        nic: None,
        pcie_gb_per_s_per_chip: Some(Figure::new(16.0, &[BOOK])),
        machine_types: Figure::new(
            &[machine("ct4p-hightpu-4t", 4, Some(240), Some(407), HostCount::Any)],
            &[XPK, GKE_FAMILIES],
        ),
    },
    names: Names {
        device_kind: Figure::new("TPU v4", &[LIBTPU]),
        chip_config_name: Figure::noted("megacore", &[MAXTEXT, LIBTPU], "libtpu's default is two devices per chip"),
        accelerator_prefix: "v4",
        count_unit: Figure::new(CountUnit::Cores, &[MAXTEXT]),
        tpu_api_type: Figure::new(Some("V4"), &[TPU_API]),
        runtime_version: Some(Figure::new("tpu-ubuntu2204-base", &[DOC_RUNTIMES])),
        gke_accelerator: Some(Figure::new("tpu-v4-podslice", &[XPK])),
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x005e, subsystem: None }, &[TPU_INFO]),
    },
    power: Some(Figure::new(PowerWatts { minimum: 90, mean: 170, maximum: 192 }, &[DOC_V4])),
    prices: Cow::Borrowed(&[
        Price::catalog("us-central2", PriceKind::OnDemand, 3.22),
        Price::catalog("us-central2", PriceKind::Spot, 0.9215),
    ]),
};
