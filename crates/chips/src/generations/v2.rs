//! Figures of TPU v2.

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::price::{Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::V2,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(2, &[JAX, LIBTPU]),
        devices_per_chip: Figure::new(2, &[LIBTPU]),
        mxus_per_core: Figure::noted(1, &[JAX, LIBTPU], "libtpu prices 32.2k operations per cycle and core: one unit"),
        mxu_edge: Figure::new(128, &[JAX]),
        matrix_ops_per_cycle_per_core: Figure::new(32_768, &[LIBTPU]),
        clock_ghz: Figure::noted(0.7, &[DERIVED], "46e12 / 65536 per chip"),
        sparse_cores_per_chip: None,
    },
    rates: Rates {
        bf16_tflops: Figure::new(46.0, &[JAX]),
        int8_tops: Figure::new(None, &[JAX]),
        int4_tops: Figure::new(None, &[JAX]),
        fp8_tflops: Figure::new(None, &[JAX]),
        double_rate_types: Figure::new(&[], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::noted(16 * GIB, &[JAX], "jax states 16e9 bytes"),
        usable_hbm_bytes_per_device: Figure::new(8_034_172_928, &[LIBTPU]),
        runtime_reserve: Figure::new(RESERVE_1024, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(716.0, &[JAX], "Google's papers say 700"),
        vmem_bandwidth_to_hbm: None,
        vmem_bytes_per_core: Figure::new(16 * MIB, &[JAX, LIBTPU]),
        cmem_bytes_per_chip: Figure::new(0, &[JAX]),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(4, &[TORUS]),
        ici_gb_per_s_per_link_one_way: None,
        ici_gb_per_s_per_chip_both_ways: None,
        torus_dimensions: Figure::new(2, &[JAX_HOSTS]),
        shapes: Figure::noted(
            ShapeRule::Listed(&[[2, 2, 1], [4, 4, 1], [8, 8, 1], [8, 16, 1], [16, 16, 1]]),
            &[JAX_HOSTS, DOC_ZONES],
            "v2-8, v2-32, v2-128, v2-256, v2-512",
        ),
        wrap: Figure::new(WrapRule::DimensionOf(16), &[SPANS_POD]),
        twist: Figure::new(TwistRule::Never, &[JAX_HOSTS]),
        pod_chips: Figure::noted(256, &[CATALOG], "v2-512 is the largest slice listed"),
        pod_all_reduce_tb_per_s: None,
        pod_bisection_tb_per_s: None,
        dcn_gb_per_s_per_chip: None,
    },
    host: HostSpec {
        chips_per_host: Figure::new(4, &[JAX_HOSTS]),
        dram_gib: None,
        vcpus: None,
        nic: None,
        pcie_gb_per_s_per_chip: None,
        machine_types: Figure::noted(&[], &[GKE_FAMILIES], "offered through the TPU API only"),
    },
    names: Names {
        device_kind: Figure::new("TPU v2", &[LIBTPU]),
        chip_config_name: Figure::new("default", &[LIBTPU]),
        accelerator_prefix: "v2",
        count_unit: Figure::new(CountUnit::Cores, &[DOC_ZONES]),
        tpu_api_type: Figure::new(Some("V2"), &[TPU_API]),
        runtime_version: Some(Figure::new("tpu-ubuntu2204-base", &[DOC_RUNTIMES])),
        gke_accelerator: None,
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x0027, subsystem: Some(0x004e) }, &[TPU_INFO]),
    },
    power: None,
    prices: Cow::Borrowed(&[
        Price::catalog("us-central1", PriceKind::OnDemand, 1.125),
        Price::catalog("us-central1", PriceKind::Spot, 0.3375),
    ]),
};
