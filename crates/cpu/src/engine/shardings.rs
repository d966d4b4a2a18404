//! How the arguments and results of a program are spread over its partitions: as it says, or as what it says implies.

use hlo::{Attrs, Func, Verified};

use super::{FreeShardings, PortType};
use crate::error::Error;
use crate::sharding::{Sharding, from_sdy};

/// Shardings of all arguments and all results.
pub(super) type PortShardings = (Vec<Sharding>, Vec<Sharding>);

pub(super) fn replicated(arguments: &[PortType], results: &[PortType], num_partitions: usize) -> PortShardings {
    let all = |ports: &[PortType]| {
        ports.iter().map(|port| Sharding::replicated(port.rank(), num_partitions)).collect::<Vec<_>>()
    };
    (all(arguments), all(results))
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
    let one = |port: &PortType, attrs: Option<&Attrs>, found: Option<&hlo::sdy::TensorSharding>, is_free: bool| {
        let none = Attrs::new();
        let attrs = attrs.unwrap_or(&none);
        let rank = port.rank();
        let fall_back = || Sharding::replicated(rank, num_partitions);
        match (Sharding::of(attrs, module, rank, num_partitions)?, found) {
            // Open dimensions of what is written may have been split further.
            (Some(_), Some(found)) if attrs.get("sdy.sharding").is_some() => {
                from_sdy(found, module, rank, num_partitions)
            }
            (Some(written), _) => Ok(written),
            (None, Some(found)) if is_free => {
                Ok(from_sdy(found, module, rank, num_partitions).unwrap_or_else(|_| fall_back()))
            }
            (None, _) => Ok(fall_back()),
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
    Ok((
        arguments.iter().enumerate().map(argument).collect::<Result<_, _>>()?,
        results.iter().enumerate().map(result).collect::<Result<_, _>>()?,
    ))
}
