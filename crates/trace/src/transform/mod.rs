//! Programs made from programs: replayed, differentiated in both directions, run for a batch, and cut in two.

mod api;
mod backward;
mod batch;
mod forward;
mod nodes;
mod replay;
mod split;

pub use api::{grad, jvp, value_and_grad, value_and_grad_with, vjp};
pub(crate) use backward::{Pull, activity, forward, forward_from};
pub(crate) use batch::batch;
pub use batch::{vmap, vmap_along, vmap_axes};
pub(crate) use forward::push_forward;
pub(crate) use replay::{again, replay, replay_with};
pub(crate) use split::{Source, Split};
