//! The configuration of a call: what the compiler of the custom call reads, as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::kernel::{Kernel, KernelCore};
use crate::vmem::GRANTED_BYTES;

impl Kernel {
    /// The `backend_config` of a `tpu_custom_call` with this kernel.
    pub fn backend_config(&self) -> String {
        let body = STANDARD.encode(self.text());
        let cost = self.cost;
        // Memory space 1 is VMEM. Without this the compiler grants its default.
        let vmem = if self.vmem_bytes > GRANTED_BYTES {
            format!(
                ", \"scoped_memory_configs\": [{{\"memory_space\":1, \"offset\": 0, \"size\": {}}}]",
                self.vmem_bytes
            )
        } else {
            String::new()
        };
        let device = match self.core() {
            KernelCore::TensorCore => "",
            // Arrays keep the tiles they have for TensorCores, so that none is copied for the call.
            KernelCore::SparseCore => {
                ", \"sparse_core_config\": {\"tiling\":\"TILING_COMPACT\"}, \"device_type\": \"DEVICE_TYPE_SPARSECORE\""
            }
        };
        format!(
            "{{\"custom_call_config\": {{\"body\": \"{body}\", \"cost_estimate\": {{\"flops\": {}, \"transcendentals\": {}, \
             \"bytes_accessed\": {}}}, \"needs_layout_passes\": true}}{device}{vmem}}}",
            cost.flops, cost.transcendentals, cost.bytes_accessed
        )
    }
}
