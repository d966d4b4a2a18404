//! Figures of TPU v5p.

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::price::{Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::V5p,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(2, &[DOC_V5P]),
        devices_per_chip: Figure::noted(1, &[LIBTPU], "megacore: a device reports num_cores = 2"),
        mxus_per_core: Figure::new(4, &[DOC_V5P, JAX]),
        mxu_edge: Figure::new(128, &[DOC_V5P, JAX]),
        matrix_ops_per_cycle_per_core: Figure::noted(131_072, &[LIBTPU], "262144 for a megacore device"),
        clock_ghz: Figure::noted(1.75, &[DERIVED, LIBTPU], "459e12 / 262144 = 1.751"),
        sparse_cores_per_chip: Some(Figure::new(4, &[DOC_V5P, JAX])),
    },
    rates: Rates {
        bf16_tflops: Figure::new(459.0, &[DOC_V5P]),
        int8_tops: Figure::new(Some(918.0), &[JAX, BOOK]),
        int4_tops: Figure::noted(None, &[LIBTPU], "no rate is documented; libtpu prices it a little above int8"),
        fp8_tflops: Figure::noted(
            Some(459.0),
            &[DOC_V5P],
            "no gain over bf16; libtpu prices f8E5M2 matmuls at twice bf16",
        ),
        double_rate_types: Figure::new(&["i8", "i4", "f8E5M2", "f8E4M3B11FNUZ"], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::noted(95 * GIB, &[DOC_V5P], "physically 96 GiB = 103e9 bytes (jax)"),
        usable_hbm_bytes_per_device: Figure::noted(
            102_786_660_352,
            &[LIBTPU, MAXTEXT_LOGS],
            "95.73 GiB, above the documented 95; real chips report 95.74",
        ),
        runtime_reserve: Figure::new(RESERVE_512, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(2765.0, &[DOC_V5P], "jax says 2460"),
        vmem_bandwidth_to_hbm: None,
        vmem_bytes_per_core: Figure::new(64 * MIB, &[JAX, LIBTPU]),
        cmem_bytes_per_chip: Figure::new(0, &[JAX]),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(6, &[TORUS]),
        ici_gb_per_s_per_link_one_way: Some(Figure::new(90.0, &[BOOK])),
        ici_gb_per_s_per_chip_both_ways: Some(Figure::noted(
            1200.0,
            &[DOC_V5P],
            "older pages: 4800 Gb/s, one direction",
        )),
        torus_dimensions: Figure::new(3, &[DOC_V5P]),
        shapes: Figure::noted(
            ShapeRule::Cubes { below_a_cube: BELOW_A_CUBE, edge: 4, longest: 256, max_chips: 8960 },
            &[MAXTEXT, XPK],
            "at most 140 cubes of 4x4x4; the documentation states 6144 chips (16x16x24) as the largest single job",
        ),
        wrap: Figure::new(WrapRule::WholeCubesOf(4), &[DOC_V5P, MAXTEXT]),
        twist: Figure::noted(TwistRule::Doubled, &[DOC_V5P], "documented: 4x4x8, 4x8x8, 8x8x16, 8x16x16"),
        pod_chips: Figure::noted(8960, &[DOC_V5P], "largest single job 6144 chips"),
        pod_all_reduce_tb_per_s: None,
        pod_bisection_tb_per_s: None,
        dcn_gb_per_s_per_chip: Some(Figure::noted(6.25, &[DOC_V5P], "50 Gb/s")),
    },
    host: HostSpec {
        chips_per_host: Figure::new(4, &[DOC_V5P]),
        dram_gib: Some(Figure::noted(448.0, &[DOC_V5P], "documented as 448 GB")),
        vcpus: Some(Figure::new(208, &[DOC_V5P])),
        nic: None,
        pcie_gb_per_s_per_chip: Some(Figure::new(16.0, &[BOOK])),
        machine_types: Figure::new(
            &[machine("ct5p-hightpu-4t", 4, Some(208), Some(448), HostCount::Any)],
            &[XPK, GKE_FAMILIES],
        ),
    },
    names: Names {
        device_kind: Figure::new("TPU v5", &[LIBTPU]),
        chip_config_name: Figure::noted(
            "megacore",
            &[MAXTEXT],
            "libtpu 0.0.51 gives the same topology for default; megacore states the intent",
        ),
        accelerator_prefix: "v5p",
        count_unit: Figure::new(CountUnit::Cores, &[DOC_V5P]),
        tpu_api_type: Figure::new(Some("V5P"), &[TPU_API]),
        runtime_version: Some(Figure::new("v2-alpha-tpuv5", &[DOC_RUNTIMES])),
        gke_accelerator: Some(Figure::new("tpu-v5p-slice", &[XPK])),
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x0062, subsystem: None }, &[TPU_INFO]),
    },
    power: None,
    prices: Cow::Borrowed(&[
        Price::catalog("us-central1", PriceKind::OnDemand, 4.2),
        Price::catalog("us-central1", PriceKind::Spot, 0.8136),
        Price::catalog("us-east5", PriceKind::OnDemand, 4.2),
        Price::catalog("us-east5", PriceKind::Spot, 1.0588),
        Price::catalog("europe-west4", PriceKind::OnDemand, 4.2525),
        Price::catalog("europe-west4", PriceKind::Spot, 0.8499),
    ]),
};
