//! Figures of TPU7x (Ironwood).

use std::borrow::Cow;

use super::*;
use crate::figure::Figure;
use crate::generation::PciId;
use crate::shape::{ShapeRule, TwistRule, WrapRule};
use crate::source::*;
use crate::spec::*;

pub(super) static SPEC: ChipSpec = ChipSpec {
    generation: Generation::Tpu7x,
    cores: Cores {
        tensor_cores_per_chip: Figure::new(2, &[DOC_TPU7X]),
        devices_per_chip: Figure::noted(2, &[LIBTPU, MAXTEXT], "no megacore: each core is a device"),
        mxus_per_core: Figure::new(2, &[JAX]),
        mxu_edge: Figure::new(256, &[JAX]),
        matrix_ops_per_cycle_per_core: Figure::noted(
            524_288,
            &[LIBTPU],
            "libtpu prices matmuls at up to 445k; twice what 2 units of 256x256 would do with one multiply-add per cell",
        ),
        clock_ghz: Figure::noted(
            2.2,
            &[DERIVED],
            "1153.5e12 / 524288 per core; the latency-hiding scheduler of libtpu 0.0.51 counts 1900 cycles per microsecond",
        ),
        sparse_cores_per_chip: Some(Figure::noted(4, &[DOC_TPU7X], "two per core")),
    },
    rates: Rates {
        bf16_tflops: Figure::new(2307.0, &[DOC_TPU7X]),
        int8_tops: Figure::noted(
            None,
            &[JAX, LIBTPU],
            "the scaling book lists 4614; libtpu prices an int8 matmul as bf16",
        ),
        int4_tops: Figure::new(None, &[JAX, LIBTPU]),
        fp8_tflops: Figure::new(Some(4614.0), &[DOC_TPU7X]),
        double_rate_types: Figure::new(&["f8E4M3FN", "f8E5M2"], &[LIBTPU]),
    },
    memory: MemorySpec {
        hbm_bytes_per_chip: Figure::new(192 * GIB, &[DOC_TPU7X]),
        usable_hbm_bytes_per_device: Figure::noted(
            101_724_450_816,
            &[LIBTPU],
            "a device is one core: 94.74 GiB, twice that per chip",
        ),
        runtime_reserve: Figure::new(RESERVE_512, &[LIBTPU]),
        hbm_gb_per_s: Figure::noted(7380.0, &[DOC_TPU7X], "a published copy benchmark reaches 3210 GB/s per device"),
        vmem_bandwidth_to_hbm: None,
        vmem_bytes_per_core: Figure::new(64 * MIB, &[JAX, LIBTPU]),
        cmem_bytes_per_chip: Figure::new(0, &[JAX]),
    },
    network: NetworkSpec {
        ici_links_per_chip: Figure::new(6, &[TORUS]),
        ici_gb_per_s_per_link_one_way: Some(Figure::new(90.0, &[BOOK_NEWER])),
        ici_gb_per_s_per_chip_both_ways: Some(Figure::new(1200.0, &[DOC_TPU7X])),
        torus_dimensions: Figure::new(3, &[DOC_TPU7X]),
        shapes: Figure::new(
            ShapeRule::Cubes {
                below_a_cube: &[[1, 1, 1], [1, 2, 1], [2, 2, 1], [2, 2, 2], [2, 2, 4], [2, 4, 4]],
                edge: 4,
                longest: 256,
                max_chips: 9216,
            },
            &[LIBTPU_SLICES, MAXTEXT, XPK],
        ),
        wrap: Figure::new(WrapRule::WholeCubesOf(4), &[LIBTPU_SLICES, MAXTEXT]),
        twist: Figure::new(TwistRule::DoubledOrPowers { longest: 64 }, &[LIBTPU_SLICES]),
        pod_chips: Figure::new(9216, &[DOC_TPU7X]),
        pod_all_reduce_tb_per_s: None,
        pod_bisection_tb_per_s: None,
        dcn_gb_per_s_per_chip: Some(Figure::noted(12.5, &[DOC_TPU7X], "100 Gb/s")),
    },
    host: HostSpec {
        chips_per_host: Figure::new(4, &[DOC_TPU7X]),
        dram_gib: Some(Figure::noted(960.0, &[DOC_TPU7X], "documented as 960 GB")),
        vcpus: Some(Figure::new(224, &[DOC_TPU7X])),
        nic: None,
        pcie_gb_per_s_per_chip: None,
        machine_types: Figure::new(
            &[
                machine("tpu7x-standard-1t", 1, None, None, HostCount::One),
                machine("tpu7x-standard-4t", 4, Some(224), Some(960), HostCount::Any),
            ],
            &[XPK, DOC_TPU7X],
        ),
    },
    names: Names {
        device_kind: Figure::new("TPU7x", &[LIBTPU]),
        chip_config_name: Figure::new("default", &[LIBTPU, MAXTEXT]),
        accelerator_prefix: "tpu7x",
        count_unit: Figure::new(CountUnit::Cores, &[MAXTEXT, XPK]),
        tpu_api_type: Figure::noted(None, &[TPU_API], "Kubernetes Engine and Compute Engine only"),
        runtime_version: None,
        gke_accelerator: Some(Figure::new("tpu7x", &[XPK])),
        pci: Figure::new(PciId { vendor: PciId::GOOGLE, device: 0x0076, subsystem: None }, &[TPU_INFO]),
    },
    power: None,
    // No published price was found; an override supplies one.
    prices: Cow::Borrowed(&[]),
};
