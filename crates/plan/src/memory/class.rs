//! What device memory is used for.

use serde::Serialize;

/// What bytes of device memory hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferClass {
    /// Weights of the model.
    Parameters,
    /// What the optimizer keeps for each weight.
    OptimizerState,
    /// Other state that a step takes and gives back, such as a cache of keys and values.
    CarriedState,
    /// What a step works on.
    Inputs,
    /// Results with memory of their own; a result in the memory of a donated argument counts there.
    Outputs,
    /// Values of the forward pass that wait for the backward pass.
    Activations,
    /// What collectives read and write.
    Collectives,
    /// Everything else that lives only inside the program.
    Temporaries,
    /// Constants.
    Constants,
    /// The rest of the memory for temporaries: gaps between buffers, and scratch of the compiler's own.
    Gaps,
}

impl BufferClass {
    /// Every one, in the order of reports.
    pub const ALL: [BufferClass; 10] = [
        BufferClass::Parameters,
        BufferClass::OptimizerState,
        BufferClass::CarriedState,
        BufferClass::Inputs,
        BufferClass::Outputs,
        BufferClass::Activations,
        BufferClass::Collectives,
        BufferClass::Temporaries,
        BufferClass::Constants,
        BufferClass::Gaps,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            BufferClass::Parameters => "parameters",
            BufferClass::OptimizerState => "optimizer state",
            BufferClass::CarriedState => "carried state (caches)",
            BufferClass::Inputs => "inputs",
            BufferClass::Outputs => "outputs",
            BufferClass::Activations => "activations kept for backward",
            BufferClass::Collectives => "collective buffers",
            BufferClass::Temporaries => "temporaries",
            BufferClass::Constants => "constants",
            BufferClass::Gaps => "gaps and compiler scratch",
        }
    }
}
