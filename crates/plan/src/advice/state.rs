//! What the program says of its arguments and sizes: memory that is not given back, sizes that are not known.

use xla::{HloModule, UNBOUNDED};

use super::{Advice, AdviceKind, PLACES};
use crate::donors::{self, Donors};
use crate::memory::ProgramArgument;

/// State whose memory results could take, and do not.
pub(super) fn donation(compiled: &HloModule, program: &hlo::Module, arguments: &[ProgramArgument]) -> Option<Advice> {
    let parameters = compiled.computation(compiled.entry()).parameters();
    let bytes =
        |index: usize| parameters.get(index).map_or(0, |&id| compiled.instruction(id).shape().padded_byte_size());
    let mut found: Vec<(u64, usize)> =
        donors::candidates(program, arguments, Donors::State).into_iter().map(|index| (bytes(index), index)).collect();
    let sum: u64 = found.iter().map(|(bytes, _)| bytes).sum();
    if sum < WORTH_BYTES {
        return None;
    }
    found.sort_by_key(|&(bytes, index)| (std::cmp::Reverse(bytes), index));
    let title = format!("{} arguments are replaced by results of their type and not donated", found.len());
    let remedy = "donate them: jax.jit(step, donate_argnums=...), or --apply; the caller must not read them afterwards";
    let place = |&(bytes, index): &(u64, usize)| {
        let name = arguments.get(index).map_or("", |argument| argument.name.as_str());
        let name = if name.is_empty() { format!("argument {index}") } else { name.to_string() };
        format!("{name}: {} MiB", bytes >> 20)
    };
    let mut advice = Advice::new(AdviceKind::Donation, title, remedy, 0.0);
    advice.gain_bytes = sum;
    Some(advice.at(found.iter().take(PLACES).map(place).collect()))
}

/// Less is not worth an advice.
const WORTH_BYTES: u64 = 1 << 20;

/// Arrays whose sizes change from run to run.
pub(super) fn dynamic_shapes(compiled: &HloModule) -> Option<Advice> {
    let is_dynamic = |shape: &xla::Shape| {
        shape.leaves().any(|leaf| {
            leaf.dynamic_dimensions().iter().any(|&dynamic| dynamic) || leaf.dimensions().contains(&UNBOUNDED)
        })
    };
    let found: Vec<&str> = compiled
        .instructions()
        .filter(|(_, instruction)| is_dynamic(instruction.shape()))
        .map(|(_, instruction)| instruction.name())
        .collect();
    if found.is_empty() {
        return None;
    }
    let title = format!("{} values have sizes that are known only at run time", found.len());
    let remedy = "pad to a few fixed sizes (buckets): every new size is another compilation, and bounded sizes are computed in full";
    let places = found.iter().take(PLACES).map(ToString::to_string).collect();
    Some(Advice::new(AdviceKind::DynamicShapes, title, remedy, 0.0).at(places))
}
