//! What device memory is used for.

use serde::Serialize;

/// What bytes of device memory hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
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

impl Class {
    /// Every one, in the order of reports.
    pub const ALL: [Class; 10] = [
        Class::Parameters,
        Class::OptimizerState,
        Class::CarriedState,
        Class::Inputs,
        Class::Outputs,
        Class::Activations,
        Class::Collectives,
        Class::Temporaries,
        Class::Constants,
        Class::Gaps,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Class::Parameters => "parameters",
            Class::OptimizerState => "optimizer state",
            Class::CarriedState => "carried state (caches)",
            Class::Inputs => "inputs",
            Class::Outputs => "outputs",
            Class::Activations => "activations kept for backward",
            Class::Collectives => "collective buffers",
            Class::Temporaries => "temporaries",
            Class::Constants => "constants",
            Class::Gaps => "gaps and compiler scratch",
        }
    }
}
