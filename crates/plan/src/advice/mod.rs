//! What limits a program, and what would make it faster: each with the seconds it should save.

mod bits;
mod matmuls;
mod moves;
mod roofline;
mod state;
mod transfers;

use chips::Slice;
use compile::Program;
use serde::Serialize;
use xla::{HloModule, Users};

use crate::estimate::{Estimate, OpLine};
use crate::machine::Machine;
use crate::memory::ProgramArgument;

pub use roofline::{Roofline, RooflineOp};

/// What an advice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceKind {
    /// Arguments that could give their memory to results, and do not.
    Donation,
    /// Matmuls in f32 that could take bf16.
    Bf16Matmuls,
    /// Matmuls that wait for operands which could be of fewer bits.
    FewBits,
    /// Matmuls whose sizes leave parts of the MXU idle.
    Tiles,
    /// Copies and transposes that change a layout.
    Layouts,
    /// Collectives the core waits for.
    Collectives,
    /// Host transfers the core waits for.
    HostTransfers,
    /// Elementwise operations that pass values through device memory.
    Fusion,
    /// Sizes that are known only at run time.
    DynamicShapes,
}

/// One advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it is about.
    pub kind: AdviceKind,
    /// In one line.
    pub title: String,
    /// What to do.
    pub remedy: String,
    /// Seconds of a step that it should save.
    pub gain_s: f64,
    /// Bytes of device memory that it should save.
    pub gain_bytes: u64,
    /// Instructions or arguments it is about, most first.
    pub places: Vec<String>,
    /// Whether it is a rewrite of the program that can be applied.
    pub can_apply: bool,
    /// Whether the gain was checked by compiling the rewritten program.
    pub verified: bool,
}

impl Advice {
    fn new(kind: AdviceKind, title: String, remedy: impl Into<String>, gain_s: f64) -> Advice {
        Advice {
            kind,
            title,
            remedy: remedy.into(),
            gain_s,
            gain_bytes: 0,
            places: Vec::new(),
            can_apply: matches!(kind, AdviceKind::Donation | AdviceKind::Bf16Matmuls),
            verified: false,
        }
    }

    fn at(mut self, places: Vec<String>) -> Advice {
        self.places = places;
        self
    }
}

/// What every advisor looks at.
struct Scene<'a> {
    module: &'a HloModule,
    users: Users,
    machine: Machine,
    estimate: &'a Estimate,
}

/// Below this share of a step nothing is worth an advice.
const WORTH: f64 = 0.002;
/// Places an advice names.
const PLACES: usize = 6;

impl Scene<'_> {
    fn is_worth(&self, seconds: f64) -> bool {
        seconds > WORTH * self.estimate.step.seconds
    }

    /// Ops of a step with the instruction they stand for.
    fn ops(&self) -> impl Iterator<Item = (&OpLine, xla::InstructionId)> {
        self.estimate.ops.iter().filter_map(|op| Some((op, self.module.find(&op.name)?)))
    }
}

/// Names the places of most seconds.
fn places(mut found: Vec<(f64, &OpLine)>) -> Vec<String> {
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let place = |(seconds, op): &(f64, &OpLine)| {
        let source = if op.source.is_empty() { String::new() } else { format!(" ({})", op.source) };
        format!("{} {}: {:.3} ms{source}", op.name, op.shape, seconds * 1e3)
    };
    found.iter().take(PLACES).map(place).collect()
}

/// Everything that would help, most seconds first, then most bytes.
pub(crate) fn advise(
    program: &Program,
    module: &HloModule,
    slice: &Slice,
    estimate: &Estimate,
    arguments: &[ProgramArgument],
) -> Vec<Advice> {
    let scene = Scene { module, users: module.users(), machine: Machine::of(slice), estimate };
    let mut advice = Vec::new();
    advice.extend(matmuls::tiles(&scene));
    advice.extend(matmuls::f32_matmuls(&scene));
    advice.extend(bits::few_bits(&scene, arguments));
    advice.extend(moves::layouts(&scene));
    advice.extend(moves::unfused(&scene));
    advice.extend(transfers::collectives(&scene));
    advice.extend(transfers::host(&scene));
    advice.extend(state::donation(module, program.module(), arguments));
    advice.extend(state::dynamic_shapes(module));
    advice.sort_by(|a, b| b.gain_s.total_cmp(&a.gain_s).then(b.gain_bytes.cmp(&a.gain_bytes)));
    advice
}
