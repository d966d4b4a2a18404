//! Where to run a program, split how, with which batch: a closed form prunes, the compiler ranks and confirms.

mod answer;
mod candidate;
mod facts;
pub(crate) mod flow;
pub(crate) mod gather;
mod goal;
mod load;
mod model;
mod rematerialized;
mod roles;
mod rough;
mod rules;
mod run;
mod source;

pub use answer::{Answer, Confidence, Plan, Refused};
pub use candidate::{Candidate, FlagSet, PrecisionChoice, Quantization, ShardingChoice, Variant, WindowedEinsum};
pub use facts::{Facts, ModelAxis};
pub use goal::{Goal, PlanCost};
pub use load::Load;
pub use model::{ModelChoice, ModelFigures, ModelSource, ModelStep, WriteStep, choice_of};
pub(crate) use roles::argument_bytes;
pub use roles::{ArgumentRole, BatchName, ProgramBatch, Roles, StepKind};
pub use rules::MeshShape;
pub use run::{Confirm, Progress, SearchOptions, search};
pub use source::{OneProgram, ProgramSource};
