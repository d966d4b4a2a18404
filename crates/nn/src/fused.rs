//! Which parts of a model are composites that TPUs run as fused kernels.

use hlo::Attrs;
use kernel::composites::{CrossEntropyAttributes, UseKernel};
use serde::{Deserialize, Serialize};

/// Whether a part is a composite that TPUs run as a fused kernel; every other device computes what it means in plain ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fused {
    /// Where it saves memory at less than a percent of the time of a step, by the estimate.
    #[default]
    Auto,
    /// Wherever the kernel takes its sizes.
    On,
    /// Never.
    Off,
}

impl Fused {
    /// What the composites of a loss say about it.
    pub(crate) fn attributes(self) -> Attrs {
        let use_kernel = if self == Fused::Auto { UseKernel::WhereFaster } else { UseKernel::Always };
        CrossEntropyAttributes { use_kernel }.to_attrs()
    }
}

/// Which parts of a model are fused kernels on TPUs; attention has [`AttentionImpl`](crate::layers::AttentionImpl).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kernels {
    /// RMS norms. Compilers fuse a norm with the ops around it, which no kernel does: `auto` is `off`.
    pub norm: Fused,
    /// The LM head fused with the loss: logits never reach HBM. `auto`: where the loss is taken in chunks of
    /// at least as many positions as the model is wide, the vocabulary is whole on every device and one core has a device.
    pub loss: Fused,
}
