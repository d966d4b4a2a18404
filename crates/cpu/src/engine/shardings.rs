//! How the arguments and results of a program are spread over its partitions: as it says, or as what it says implies.

use hlo::sdy::TensorSharding;
use hlo::{Attrs, Func, PropagatedShardings, Verified};

use super::{FreeShardings, PortType};
use crate::error::Error;
use crate::sharding::{Sharding, from_sdy};

/// Shardings of all arguments and all results.
pub(super) struct PortShardings {
    pub(super) arguments: Vec<Sharding>,
    pub(super) results: Vec<Sharding>,
    /// The same in terms of meshes; `None` where one is not.
    pub(super) edges: Option<PropagatedShardings>,
}

pub(super) fn replicated(arguments: &[PortType], results: &[PortType], num_partitions: usize) -> PortShardings {
    let all = |ports: &[PortType]| {
        ports.iter().map(|port| Sharding::replicated(port.rank(), num_partitions)).collect::<Vec<_>>()
    };
    PortShardings { arguments: all(arguments), results: all(results), edges: None }
}

/// What is written, and where nothing is, what is propagated there.
pub(super) fn of(
    module: &Verified,
    func: &Func,
    (arguments, results): (&[PortType], &[PortType]),
    num_partitions: usize,
    free: FreeShardings<'_>,
) -> Result<PortShardings, Error> {
    let propagated = hlo::propagate(module, func);
    let one = |port: &PortType, attrs: Option<&Attrs>, found: Option<&TensorSharding>, is_free: bool| {
        let none = Attrs::new();
        let attrs = attrs.unwrap_or(&none);
        let rank = port.rank();
        let fall_back = || Sharding::replicated(rank, num_partitions);
        match (Sharding::of(attrs, module, rank, num_partitions)?, found) {
            // Open dimensions of what is written may have been split further.
            (Some(_), Some(found)) if attrs.get("sdy.sharding").is_some() => {
                from_sdy(found, module, rank, num_partitions).map(|sharding| (sharding, Some(found.clone())))
            }
            (Some(written), _) => Ok((written, None)),
            (None, Some(found)) if is_free => match from_sdy(found, module, rank, num_partitions) {
                Ok(sharding) => Ok((sharding, Some(found.clone()))),
                Err(_) => Ok((fall_back(), None)),
            },
            (None, _) => Ok((fall_back(), None)),
        }
    };
    let argument = |(n, port): (usize, &PortType)| {
        let is_free = FreeShardings::is_free(free.arguments, n, false);
        one(port, func.input_attrs.get(n), propagated.arguments.get(n).and_then(Option::as_ref), is_free)
    };
    let result = |(n, port): (usize, &PortType)| {
        let is_free = FreeShardings::is_free(free.results, n, true);
        one(port, func.output_attrs.get(n), propagated.results.get(n).and_then(Option::as_ref), is_free)
    };
    let arguments: Vec<_> = arguments.iter().enumerate().map(argument).collect::<Result<_, Error>>()?;
    let results: Vec<_> = results.iter().enumerate().map(result).collect::<Result<_, Error>>()?;
    let is_known = |(sharding, edge): &(Sharding, Option<TensorSharding>)| edge.is_some() || sharding.is_replicated();
    let is_known = arguments.iter().chain(&results).all(is_known);
    let (arguments, before) = arguments.into_iter().unzip();
    let (results, after) = results.into_iter().unzip();
    let edges = is_known.then_some(PropagatedShardings { arguments: before, results: after });
    Ok(PortShardings { arguments, results, edges })
}
