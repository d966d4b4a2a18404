//! What each argument of a program is for: batch inputs, parameters, optimizer state, caches.

use std::collections::BTreeSet;

use hlo::{Attr, DYNAMIC, Func, Module, Type};
use serde::Serialize;

use super::flow::Flow;
use crate::error::Error;

/// What an argument is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRole {
    /// A part of the batch, along this dimension.
    Batch {
        /// The dimension.
        dim: usize,
    },
    /// Weights: matmuls or look-ups read it.
    Parameter,
    /// State that is returned updated and that no matmul reads: moments of the optimizer, scales of norms.
    State,
    /// Keys and values of earlier tokens, one for each sample along this dimension.
    Cache {
        /// The dimension.
        dim: usize,
    },
    /// Anything else: counters, positions, seeds.
    Other,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Parameters come back changed.
    Training,
    /// They do not.
    Inference,
}

/// How the caller names the batch dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchName {
    /// Dimension `1` of argument `0`.
    Dimension(usize, usize),
    /// A symbolic size.
    Symbol(String),
}

impl std::str::FromStr for BatchName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || Error::BatchName(text.to_string());
        match text.split_once(':') {
            Some((argument, dim)) => {
                let number = |part: &str| part.trim().parse().map_err(|_| malformed());
                Ok(BatchName::Dimension(number(argument)?, number(dim)?))
            }
            None if !text.is_empty() && !text.contains(char::is_whitespace) && text.parse::<f64>().is_err() => {
                Ok(BatchName::Symbol(text.to_string()))
            }
            None => Err(malformed()),
        }
    }
}

/// The batch of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramBatch {
    /// Samples in the program; `None` where the program takes any number.
    pub size: Option<u64>,
    /// Arguments and their dimensions that hold it.
    pub dims: Vec<(usize, usize)>,
    /// Tokens of a sample: the second size of integer inputs, 1 where there is none.
    pub tokens_per_sample: u64,
}

/// The arguments of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// What a step is.
    pub kind: StepKind,
    /// One for each argument.
    pub arguments: Vec<ArgumentRole>,
    /// For each argument, the result that takes its place.
    pub results: Vec<Option<usize>>,
    /// Whether results take the place of arguments in memory, or the program keeps both.
    pub is_donated: bool,
    /// The batch.
    pub batch: ProgramBatch,
}

/// Finds the batch of a program: what the caller names, the symbolic size, or the leading size that its inputs share.
pub(crate) fn find_batch(module: &Module, func: &Func, name: Option<&BatchName>) -> Result<ProgramBatch, Error> {
    let symbolic: Vec<(usize, usize)> = func
        .inputs
        .iter()
        .enumerate()
        .flat_map(|(n, ty)| dims(ty).iter().enumerate().filter(|(_, d)| **d == DYNAMIC).map(move |(dim, _)| (n, dim)))
        .collect();
    if !symbolic.is_empty() {
        let symbols = symbols(module);
        if let Some(BatchName::Symbol(name)) = name
            && !symbols.is_empty()
            && !symbols.contains(name)
        {
            return Err(Error::NoSuchSymbol { name: name.clone(), symbols: symbols.into_iter().collect() });
        }
        let arguments: BTreeSet<usize> = symbolic.iter().map(|(n, _)| *n).collect();
        if symbols.len() > 1 || arguments.len() < symbolic.len() {
            return Err(Error::SeveralSymbols(symbols.into_iter().collect()));
        }
        return Ok(ProgramBatch { size: None, tokens_per_sample: tokens(func, &symbolic), dims: symbolic });
    }
    let is_updated = updated(func);
    let (size, first) = match name {
        Some(BatchName::Symbol(name)) => {
            return Err(Error::NoSuchSymbol { name: name.clone(), symbols: Vec::new() });
        }
        Some(&BatchName::Dimension(argument, dim)) => {
            let size = func.inputs.get(argument).and_then(|ty| dims(ty).get(dim).copied());
            let size = size.ok_or_else(|| Error::NoSuchDimension {
                argument,
                dim,
                arguments: func.inputs.len(),
                rank: func.inputs.get(argument).map(|ty| dims(ty).len()),
            })?;
            (size, Some((argument, dim)))
        }
        None => (leading_size(func, &is_updated).ok_or(Error::NoBatch)?, None),
    };
    let trains = is_training(func, &is_updated, Some(size));
    let shares = |n: usize, ty: &Type| (is_integer(ty) || trains) && !is_updated[n] && dims(ty).first() == Some(&size);
    let mut found: Vec<(usize, usize)> = first.into_iter().collect();
    for (n, ty) in func.inputs.iter().enumerate() {
        if shares(n, ty) && first.is_none_or(|(argument, _)| argument != n) {
            found.push((n, 0));
        }
    }
    let size = u64::try_from(size).ok().filter(|size| *size > 0).ok_or(Error::NoBatch)?;
    Ok(ProgramBatch { size: Some(size), tokens_per_sample: tokens(func, &found), dims: found })
}

/// Whether some arguments come back as results: then those that do not, and are not weights, are inputs. Caches come back too.
fn is_training(func: &Func, is_updated: &[bool], batch: Option<i64>) -> bool {
    let bytes = |updated: bool| -> u64 {
        let of = func.inputs.iter().zip(is_updated).filter(|(ty, is)| **is == updated && is_float(ty));
        let of = of.filter(|(ty, _)| !may_be_cache(ty, batch));
        of.map(|(ty, _)| argument_bytes(ty)).fold(0, u64::saturating_add)
    };
    bytes(true) > bytes(false)
}

/// The leading size that integer inputs share, or in training all inputs that do not come back.
fn leading_size(func: &Func, is_updated: &[bool]) -> Option<i64> {
    let inputs = || func.inputs.iter().zip(is_updated).filter(|(ty, is)| !**is && !dims(ty).is_empty());
    let integers: Vec<&[i64]> = inputs().filter(|(ty, _)| is_integer(ty)).map(|(ty, _)| dims(ty)).collect();
    let rank = integers.iter().map(|dims| dims.len()).max();
    let sizes: BTreeSet<i64> = match rank {
        Some(rank) => integers.iter().filter(|dims| dims.len() == rank).map(|dims| dims[0]).collect(),
        None if is_training(func, is_updated, None) => inputs().map(|(ty, _)| dims(ty)[0]).collect(),
        None => BTreeSet::new(),
    };
    (sizes.len() == 1).then(|| sizes.first().copied()).flatten()
}

/// Finds the role of each argument of a static program.
pub(crate) fn find_roles(func: &Func, flow: &Flow, batch: ProgramBatch) -> Roles {
    let (results, is_donated) = results_of(func);
    let size = batch.size.and_then(|size| i64::try_from(size).ok());
    let in_batch = |n: usize| batch.dims.iter().find(|(argument, _)| *argument == n).map(|(_, dim)| *dim);
    let weight_bytes = |returned: bool| -> u64 {
        let weights = (0..func.inputs.len())
            .filter(|&n| in_batch(n).is_none() && flow.uses_of(n).next().is_some() && results[n].is_some() == returned)
            .filter(|&n| !returned || !may_be_cache(&func.inputs[n], size));
        weights.map(|n| argument_bytes(&func.inputs[n])).fold(0, u64::saturating_add)
    };
    let kind = if weight_bytes(true) > weight_bytes(false) { StepKind::Training } else { StepKind::Inference };
    let role = |n: usize| {
        let ty = &func.inputs[n];
        let is_state = is_float(ty) && results[n].is_some();
        match (in_batch(n), kind) {
            (Some(dim), StepKind::Inference) if is_state => ArgumentRole::Cache { dim },
            (Some(dim), _) => ArgumentRole::Batch { dim },
            (None, StepKind::Inference) if is_state && may_be_cache(ty, size) => {
                let held = dims(ty).iter().position(|d| Some(*d) == size);
                held.map_or(ArgumentRole::State, |dim| ArgumentRole::Cache { dim })
            }
            (None, _) if is_float(ty) && flow.uses_of(n).next().is_some() => ArgumentRole::Parameter,
            (None, _) if is_state => ArgumentRole::State,
            _ => ArgumentRole::Other,
        }
    };
    let arguments = (0..func.inputs.len()).map(role).collect();
    Roles { kind, arguments, results, is_donated, batch }
}

/// Whether an argument that comes back has a part for each sample, as keys and values have. The stacked weights of as many
/// layers look the same, but not all of a model is stacked.
fn may_be_cache(ty: &Type, batch: Option<i64>) -> bool {
    dims(ty).len() > 2 && batch.is_some_and(|batch| dims(ty).contains(&batch))
}

/// For each argument the result that takes its place, by what the program says, else by equal types in order.
fn results_of(func: &Func) -> (Vec<Option<usize>>, bool) {
    let said: Vec<Option<usize>> = func
        .input_attrs
        .iter()
        .map(|attrs| usize::try_from(attrs.get(hlo::attr::ALIAS)?.as_int()?).ok())
        .map(|result| result.filter(|result| *result < func.outputs.len()))
        .collect();
    let is_donor = func.input_attrs.iter().any(|attrs| attrs.get(hlo::attr::DONOR).is_some());
    if said.iter().any(Option::is_some) {
        return (padded(said, func.inputs.len()), true);
    }
    let mut free: Vec<usize> = (0..func.outputs.len()).collect();
    let matched = func.inputs.iter().map(|ty| {
        let at = free.iter().position(|&result| &func.outputs[result] == ty && is_float(ty) && !dims(ty).is_empty())?;
        Some(free.remove(at))
    });
    (matched.collect(), is_donor)
}

fn padded(mut list: Vec<Option<usize>>, len: usize) -> Vec<Option<usize>> {
    list.resize(len, None);
    list
}

/// Which arguments come back.
fn updated(func: &Func) -> Vec<bool> {
    results_of(func).0.iter().map(Option::is_some).collect()
}

/// Names of symbolic sizes, as JAX leaves them.
fn symbols(module: &Module) -> BTreeSet<String> {
    let attrs = module.funcs.iter().flat_map(|func| &func.input_attrs);
    attrs.filter_map(|attrs| attrs.get("jax.global_constant").and_then(Attr::as_str)).map(str::to_string).collect()
}

/// Tokens of a sample: the size after the batch in integer inputs.
fn tokens(func: &Func, batch: &[(usize, usize)]) -> u64 {
    let sizes = batch.iter().filter(|(n, _)| func.inputs.get(*n).is_some_and(is_integer));
    let after = sizes.filter_map(|&(n, dim)| func.inputs.get(n).and_then(|ty| dims(ty).get(dim + 1)));
    after.filter_map(|&size| u64::try_from(size).ok()).max().unwrap_or(1).max(1)
}

pub(crate) fn dims(ty: &Type) -> &[i64] {
    ty.as_tensor().map_or(&[], |tensor| &tensor.dims)
}

fn is_integer(ty: &Type) -> bool {
    ty.as_tensor().and_then(|tensor| tensor.element.plain()).is_some_and(|dtype| !dtype.is_float())
}

pub(crate) fn is_float(ty: &Type) -> bool {
    ty.as_tensor().and_then(|tensor| tensor.element.plain()).is_some_and(|dtype| dtype.is_float())
}

/// Bytes of an argument; symbolic sizes count one.
pub(crate) fn argument_bytes(ty: &Type) -> u64 {
    let Some(tensor) = ty.as_tensor() else { return 0 };
    let bits = tensor.element.plain().map_or(0, |dtype| u64::from(dtype.bits()));
    let elements = tensor.dims.iter().map(|&d| if d == DYNAMIC { 1 } else { u64::try_from(d).unwrap_or(0) });
    elements.fold(1u64, u64::saturating_mul).saturating_mul(bits) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(text: &str, name: Option<&str>) -> Result<Roles, Error> {
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let func = module.entry().unwrap();
        let name = name.map(|name| name.parse().unwrap());
        let batch = find_batch(&module, func, name.as_ref())?;
        Ok(find_roles(func, &Flow::of(func), batch))
    }

    const TRAINING: &str = "func.func @main(%w: tensor<8x4xf32> {tf.aliasing_output = 0 : i32},
          %m: tensor<8x4xf32> {tf.aliasing_output = 1 : i32}, %n: tensor<i32>, %t: tensor<16x8xi32>)
          -> (tensor<8x4xf32>, tensor<8x4xf32>) {
        %x = stablehlo.convert %t : (tensor<16x8xi32>) -> tensor<16x8xf32>
        %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
        %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
          : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
        %m1 = stablehlo.add %m, %g : tensor<8x4xf32>
        %w1 = stablehlo.subtract %w, %m1 : tensor<8x4xf32>
        return %w1, %m1 : tensor<8x4xf32>, tensor<8x4xf32>
      }";

    #[test]
    fn a_training_step_is_told_by_what_comes_back() {
        let found = roles(TRAINING, None).unwrap();
        assert_eq!(found.kind, StepKind::Training);
        assert_eq!(
            found.arguments,
            [ArgumentRole::Parameter, ArgumentRole::State, ArgumentRole::Other, ArgumentRole::Batch { dim: 0 }]
        );
        assert_eq!((found.batch.size, found.batch.tokens_per_sample), (Some(16), 8));
        assert!(found.is_donated);
        let undonated =
            TRAINING.replace("{tf.aliasing_output = 0 : i32}", "").replace("{tf.aliasing_output = 1 : i32}", "");
        let found = roles(&undonated, None).unwrap();
        assert_eq!(
            found.arguments,
            [ArgumentRole::Parameter, ArgumentRole::State, ArgumentRole::Other, ArgumentRole::Batch { dim: 0 }]
        );
        assert!(!found.is_donated);
    }

    #[test]
    fn caches_come_back_and_parameters_do_not() {
        let text = "func.func @main(%w: tensor<8x8xbf16>, %c: tensor<2x4x6x8xbf16> {tf.aliasing_output = 1 : i32},
              %t: tensor<4x1xi32>) -> (tensor<4x8xbf16>, tensor<2x4x6x8xbf16>) {
            %r = stablehlo.reshape %t : (tensor<4x1xi32>) -> tensor<4x1xi32>
            %f = stablehlo.convert %r : (tensor<4x1xi32>) -> tensor<4x1xbf16>
            %b = stablehlo.broadcast_in_dim %f, dims = [0, 1] : (tensor<4x1xbf16>) -> tensor<4x8xbf16>
            %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0]
              : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
            return %y, %c : tensor<4x8xbf16>, tensor<2x4x6x8xbf16>
          }";
        let found = roles(text, None).unwrap();
        assert_eq!(found.kind, StepKind::Inference);
        assert_eq!(
            found.arguments,
            [ArgumentRole::Parameter, ArgumentRole::Cache { dim: 1 }, ArgumentRole::Batch { dim: 0 }]
        );
        assert_eq!(found.batch.tokens_per_sample, 1);
        // Long caches are larger than all weights; matmuls read them as they read weights.
        let long = text.replace("tensor<2x4x6x8xbf16>", "tensor<2x4x999x8xbf16>").replace(
            "return",
            "%k = stablehlo.slice %c [0:1, 0:4, 0:1, 0:8] : (tensor<2x4x999x8xbf16>) -> tensor<1x4x1x8xbf16>
             %m = stablehlo.reshape %k : (tensor<1x4x1x8xbf16>) -> tensor<4x8xbf16>
             %s = stablehlo.dot_general %y, %m, contracting_dims = [1] x [1]
               : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x4xbf16>
             return",
        );
        let found = roles(&long, None).unwrap();
        assert_eq!(found.kind, StepKind::Inference);
        assert_eq!(
            found.arguments,
            [ArgumentRole::Parameter, ArgumentRole::Cache { dim: 1 }, ArgumentRole::Batch { dim: 0 }]
        );
    }

    #[test]
    fn a_batch_that_cannot_be_found_is_named_by_the_caller() {
        let text = "func.func @main(%x: tensor<16x8xf32>, %w: tensor<8x4xf32>) -> tensor<16x4xf32> {
            %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
              : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
            return %y : tensor<16x4xf32>
          }";
        assert!(matches!(roles(text, None), Err(Error::NoBatch)));
        let found = roles(text, Some("0:0")).unwrap();
        assert_eq!(found.arguments, [ArgumentRole::Batch { dim: 0 }, ArgumentRole::Parameter]);
        assert_eq!(found.batch.size, Some(16));
        assert!(matches!(roles(text, Some("0:2")), Err(Error::NoSuchDimension { .. })));
        assert!(matches!(roles(text, Some("7:0")), Err(Error::NoSuchDimension { .. })));
        assert!(matches!(roles(text, Some("b")), Err(Error::NoSuchSymbol { .. })));
        for malformed in ["", "1", "0:x", "a b", ":"] {
            assert!(malformed.parse::<BatchName>().is_err(), "{malformed}");
        }
    }
}
