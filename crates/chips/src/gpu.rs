//! GPUs that TPUs are compared with: rates, memory, power and prices.

use serde::Serialize;

use crate::figure::Figure;
use crate::price::{Price, PriceKind};
use crate::source::*;

/// What is known about a GPU. Rates are dense, without structured sparsity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gpu {
    /// `H100`; device kinds contain it.
    pub name: &'static str,
    /// Which board the figures are of: `NVIDIA H100 SXM`.
    pub board: &'static str,
    /// bfloat16 on matrix units, 10^12 operations per second.
    pub bf16_tflops: Figure<f64>,
    /// f32 outside of matrix units, 10^12 operations per second.
    pub f32_tflops: Figure<f64>,
    /// 8-bit floats; `None` inside means no native rate.
    pub fp8_tflops: Figure<Option<f64>>,
    /// int8, 10^12 operations per second.
    pub int8_tops: Figure<f64>,
    /// Device memory; the GB of a data sheet are 2^30 bytes, as the driver counts them.
    pub memory_bytes: Figure<u64>,
    /// Bandwidth of device memory, 10^9 bytes per second.
    pub memory_gb_per_s: Figure<f64>,
    /// Links to other GPUs, all of them in one direction, 10^9 bytes per second; `None` inside means there are none.
    pub links_gb_per_s_one_way: Figure<Option<f64>>,
    /// Thermal design power.
    pub tdp_watts: Figure<u32>,
    /// Prices of machines over the number of their GPUs; empty where none was found.
    pub prices: &'static [Price],
}

const GIB: u64 = 1 << 30;

/// A machine with several GPUs, as the catalog has it on Amazon's cloud in us-east-1.
const fn aws(usd_per_machine_hour: f64, gpus: f64) -> Price {
    Price {
        region: "aws us-east-1",
        kind: PriceKind::OnDemand,
        usd_per_chip_hour: usd_per_machine_hour / gpus,
        date: "2026-08-22",
        source: CATALOG_AWS,
    }
}

/// The machine and its GPUs, which the catalog lists apart, on Google's cloud in us-central1.
const fn gcp(kind: PriceKind, usd_per_machine_hour: f64, usd_per_gpus_hour: f64, gpus: f64) -> Price {
    Price::catalog("us-central1", kind, (usd_per_machine_hour + usd_per_gpus_hour) / gpus)
}

const HALF_OF_SPARSE: &str = "half of the rate with sparsity that the data sheet states";

static A100: Gpu = Gpu {
    name: "A100",
    board: "NVIDIA A100 SXM 80GB",
    bf16_tflops: Figure::new(312.0, &[NVIDIA_A100]),
    f32_tflops: Figure::new(19.5, &[NVIDIA_A100]),
    fp8_tflops: Figure::new(None, &[NVIDIA_A100]),
    int8_tops: Figure::new(624.0, &[NVIDIA_A100]),
    memory_bytes: Figure::new(80 * GIB, &[NVIDIA_A100]),
    memory_gb_per_s: Figure::new(2039.0, &[NVIDIA_A100]),
    links_gb_per_s_one_way: Figure::noted(Some(300.0), &[NVIDIA_A100], "600 both ways"),
    tdp_watts: Figure::new(400, &[NVIDIA_A100]),
    prices: &[
        gcp(PriceKind::OnDemand, 8.79698, 31.42464, 8.0),
        gcp(PriceKind::Spot, 5.07856, 18.1472, 8.0),
        aws(27.44705, 8.0),
    ],
};

static H100: Gpu = Gpu {
    name: "H100",
    board: "NVIDIA H100 SXM",
    bf16_tflops: Figure::noted(989.5, &[NVIDIA_H100], HALF_OF_SPARSE),
    f32_tflops: Figure::new(67.0, &[NVIDIA_H100]),
    fp8_tflops: Figure::noted(Some(1979.0), &[NVIDIA_H100], HALF_OF_SPARSE),
    int8_tops: Figure::noted(1979.0, &[NVIDIA_H100], HALF_OF_SPARSE),
    memory_bytes: Figure::new(80 * GIB, &[NVIDIA_H100]),
    memory_gb_per_s: Figure::new(3350.0, &[NVIDIA_H100]),
    links_gb_per_s_one_way: Figure::noted(Some(450.0), &[NVIDIA_H100], "900 both ways"),
    tdp_watts: Figure::new(700, &[NVIDIA_H100]),
    prices: &[
        gcp(PriceKind::OnDemand, 9.46006, 78.3724, 8.0),
        gcp(PriceKind::Spot, 5.6759, 47.0232, 8.0),
        aws(55.04, 8.0),
    ],
};

static H200: Gpu = Gpu {
    name: "H200",
    board: "NVIDIA H200 SXM",
    bf16_tflops: Figure::noted(989.5, &[NVIDIA_H200], HALF_OF_SPARSE),
    f32_tflops: Figure::new(67.0, &[NVIDIA_H200]),
    fp8_tflops: Figure::noted(Some(1979.0), &[NVIDIA_H200], HALF_OF_SPARSE),
    int8_tops: Figure::noted(1979.0, &[NVIDIA_H200], HALF_OF_SPARSE),
    memory_bytes: Figure::new(141 * GIB, &[NVIDIA_H200]),
    memory_gb_per_s: Figure::new(4800.0, &[NVIDIA_H200]),
    links_gb_per_s_one_way: Figure::noted(Some(450.0), &[NVIDIA_H200], "900 both ways"),
    tdp_watts: Figure::new(700, &[NVIDIA_H200]),
    prices: &[
        gcp(PriceKind::OnDemand, 12.266, 74.49392, 8.0),
        gcp(PriceKind::Spot, 7.35926, 43.0208, 8.0),
        aws(63.296, 8.0),
    ],
};

static B200: Gpu = Gpu {
    name: "B200",
    board: "NVIDIA HGX B200",
    bf16_tflops: Figure::noted(2250.0, &[NVIDIA_B200], HALF_OF_SPARSE),
    f32_tflops: Figure::new(75.0, &[NVIDIA_B200]),
    fp8_tflops: Figure::noted(Some(4500.0), &[NVIDIA_B200], HALF_OF_SPARSE),
    int8_tops: Figure::noted(4500.0, &[NVIDIA_B200], HALF_OF_SPARSE),
    memory_bytes: Figure::noted(180 * GIB, &[NVIDIA_B200], "1440 GB in eight GPUs; 192 are on the board"),
    memory_gb_per_s: Figure::noted(8000.0, &[NVIDIA_B200], "64 TB/s in eight GPUs"),
    links_gb_per_s_one_way: Figure::noted(Some(900.0), &[NVIDIA_B200], "1800 both ways"),
    tdp_watts: Figure::new(1000, &[NVIDIA_B200]),
    // The catalog's entry for Google's cloud lists the machine without a price.
    prices: &[aws(113.9328, 8.0)],
};

static L40S: Gpu = Gpu {
    name: "L40S",
    board: "NVIDIA L40S",
    bf16_tflops: Figure::new(362.0, &[NVIDIA_L40S]),
    f32_tflops: Figure::new(91.6, &[NVIDIA_L40S]),
    fp8_tflops: Figure::new(Some(733.0), &[NVIDIA_L40S]),
    int8_tops: Figure::new(733.0, &[NVIDIA_L40S]),
    memory_bytes: Figure::noted(48 * GIB, &[NVIDIA_L40S], "GDDR6"),
    memory_gb_per_s: Figure::new(864.0, &[NVIDIA_L40S]),
    links_gb_per_s_one_way: Figure::new(None, &[NVIDIA_L40S]),
    tdp_watts: Figure::new(350, &[NVIDIA_L40S]),
    prices: &[aws(1.861, 1.0)],
};

static L4: Gpu = Gpu {
    name: "L4",
    board: "NVIDIA L4",
    bf16_tflops: Figure::noted(121.0, &[NVIDIA_L4], HALF_OF_SPARSE),
    f32_tflops: Figure::new(30.3, &[NVIDIA_L4]),
    fp8_tflops: Figure::noted(Some(242.0), &[NVIDIA_L4], HALF_OF_SPARSE),
    int8_tops: Figure::noted(242.0, &[NVIDIA_L4], HALF_OF_SPARSE),
    memory_bytes: Figure::noted(24 * GIB, &[NVIDIA_L4], "GDDR6"),
    memory_gb_per_s: Figure::new(300.0, &[NVIDIA_L4]),
    links_gb_per_s_one_way: Figure::new(None, &[NVIDIA_L4]),
    tdp_watts: Figure::new(72, &[NVIDIA_L4]),
    prices: &[
        gcp(PriceKind::OnDemand, 0.14679, 0.56004, 1.0),
        gcp(PriceKind::Spot, 0.08806, 0.3359, 1.0),
        aws(0.8048, 1.0),
    ],
};

static MI300X: Gpu = Gpu {
    name: "MI300X",
    board: "AMD Instinct MI300X",
    bf16_tflops: Figure::new(1307.4, &[AMD_MI300X]),
    f32_tflops: Figure::new(163.4, &[AMD_MI300X]),
    fp8_tflops: Figure::new(Some(2614.9), &[AMD_MI300X]),
    int8_tops: Figure::new(2614.9, &[AMD_MI300X]),
    memory_bytes: Figure::new(192 * GIB, &[AMD_MI300X]),
    memory_gb_per_s: Figure::new(5300.0, &[AMD_MI300X]),
    links_gb_per_s_one_way: Figure::noted(Some(448.0), &[AMD_MI300X], "seven links of 128 both ways"),
    tdp_watts: Figure::noted(750, &[AMD_MI300X], "of the whole board"),
    prices: &[],
};

impl Gpu {
    /// All GPUs.
    pub const ALL: [&'static Gpu; 7] = [&A100, &H100, &H200, &B200, &L40S, &L4, &MI300X];

    /// The GPU of a name in any case, with or without its maker: `h200`, `NVIDIA H200`, `nvidia-h200`.
    pub fn from_name(name: &str) -> Option<&'static Gpu> {
        let lower = name.trim().to_ascii_lowercase();
        let bare = ["nvidia", "amd"].iter().find_map(|maker| lower.strip_prefix(maker)).unwrap_or(&lower);
        let bare = bare.trim_start_matches([' ', '-', '_']);
        Self::ALL.into_iter().find(|gpu| gpu.name.eq_ignore_ascii_case(bare) || gpu.board.eq_ignore_ascii_case(&lower))
    }

    /// The GPU whose devices report this `device_kind`: `NVIDIA H100 80GB HBM3`. A variant with another board or host
    /// (PCIe, GH200) is taken for the GPU it is named after.
    pub fn from_device_kind(device_kind: &str) -> Option<&'static Gpu> {
        Self::ALL.into_iter().find(|gpu| {
            let mut ends = device_kind.match_indices(gpu.name).map(|(at, _)| at + gpu.name.len());
            // An `L40` is no `L4`.
            ends.any(|end| !device_kind[end..].starts_with(|next: char| next.is_ascii_alphanumeric()))
        })
    }
}
