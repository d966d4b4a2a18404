//! Where arguments go: which matmuls and look-ups read an argument that was only moved, sliced or converted on its way.

use std::collections::HashMap;

use hlo::{Attr, Definition, Func, Op, OpId, OpKind, Value};

use super::source::is_grouped_matmul;

/// An argument behind a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the argument.
    pub(crate) argument: usize,
    /// For each dimension of the value, the argument's dimension that it is (the major part of).
    pub(crate) dims: Vec<Option<usize>>,
}

/// An op that reads an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// The op.
    pub(crate) op: OpId,
    /// Which operand.
    pub(crate) operand: usize,
    /// The value read.
    pub(crate) value: Value,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// What the op is.
    pub(crate) kind: UseKind,
}

/// What reads an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseKind {
    /// A matmul or convolution.
    Matmul,
    /// Rows are taken by index.
    LookUp,
}

/// Matmuls and look-ups of arguments in a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// In program order.
    pub(crate) uses: Vec<Use>,
    /// For each argument, its dimensions that loops step through one by one: layers.
    pub(crate) stepped: Vec<Vec<usize>>,
}

impl Flow {
    /// Follows the arguments of a function whose calls are inlined.
    pub(crate) fn of(func: &Func) -> Flow {
        let mut origins: HashMap<Value, Origin> = HashMap::new();
        for (argument, &value) in func.args().iter().enumerate() {
            let rank = func.ty(value).as_tensor().map_or(0, |ty| ty.rank());
            origins.insert(value, Origin { argument, dims: (0..rank).map(Some).collect() });
        }
        let mut flow = Flow { uses: Vec::new(), stepped: vec![Vec::new(); func.args().len()] };
        for id in func.walk() {
            flow.op(func, id, &mut origins);
        }
        flow
    }

    /// Uses of one argument.
    pub(crate) fn uses_of(&self, argument: usize) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(move |site| site.origin.argument == argument)
    }

    fn op(&mut self, func: &Func, id: OpId, origins: &mut HashMap<Value, Origin>) {
        let op = func.op(id);
        let kind = match op.kind() {
            Some(OpKind::While) => return enter_loop(func, op, origins),
            Some(OpKind::OptimizationBarrier) => {
                for (&operand, result) in op.operands.iter().zip(op.results()) {
                    if let Some(origin) = origins.get(&operand).cloned() {
                        origins.insert(result, origin);
                    }
                }
                return;
            }
            Some(OpKind::DotGeneral | OpKind::Dot | OpKind::Convolution) => UseKind::Matmul,
            Some(OpKind::Composite) if is_grouped_matmul(op) => UseKind::Matmul,
            Some(OpKind::Gather) => UseKind::LookUp,
            Some(kind) => {
                let moved = op.operands.first().and_then(|value| Some((*value, origins.get(value)?)));
                if let Some((value, origin)) = moved
                    && let Some(origin) = self.moved(func, op, kind, value, origin)
                {
                    origins.extend(op.results().map(|result| (result, origin.clone())));
                }
                return;
            }
            None => return,
        };
        let read = match kind {
            UseKind::Matmul => &op.operands[..],
            UseKind::LookUp => op.operands.get(..1).unwrap_or_default(),
        };
        for (operand, &value) in read.iter().enumerate() {
            if let Some(origin) = origins.get(&value) {
                self.uses.push(Use { op: id, operand, value, origin: origin.clone(), kind });
            }
        }
    }

    /// What an op that moves elements makes of a value.
    fn moved(&mut self, func: &Func, op: &Op, kind: OpKind, value: Value, origin: &Origin) -> Option<Origin> {
        let from = func.ty(value).as_tensor()?;
        let to = func.ty(op.results().next()?).as_tensor()?;
        let dims = match kind {
            OpKind::Convert | OpKind::ReducePrecision | OpKind::Slice => origin.dims.clone(),
            OpKind::DynamicSlice => {
                for (dim, (&whole, &part)) in from.dims.iter().zip(&to.dims).enumerate() {
                    if let Some(stepped) = origin.dims.get(dim).copied().flatten()
                        && part == 1
                        && whole > 1
                        && !self.stepped[origin.argument].contains(&stepped)
                    {
                        self.stepped[origin.argument].push(stepped);
                    }
                }
                origin.dims.clone()
            }
            OpKind::Reshape => reshaped(&from.dims, &to.dims, &origin.dims)?,
            OpKind::Transpose => {
                let order = op.attr("permutation")?.as_i64s()?;
                order.iter().map(|&dim| origin.dims.get(usize::try_from(dim).ok()?).copied().flatten()).collect()
            }
            OpKind::BroadcastInDim => {
                let mut dims = vec![None; to.rank()];
                for (from, &at) in op.attr("broadcast_dimensions").and_then(Attr::as_i64s)?.iter().enumerate() {
                    *dims.get_mut(usize::try_from(at).ok()?)? = origin.dims.get(from).copied().flatten();
                }
                dims
            }
            _ => return None,
        };
        Some(Origin { argument: origin.argument, dims })
    }
}

/// Values that a loop hands from round to round unchanged are the same inside it and after it.
fn enter_loop(func: &Func, op: &Op, origins: &mut HashMap<Value, Origin>) {
    let &[condition, body] = &op.regions[..] else { return };
    let Some(&last) = func.region(body).ops.last() else { return };
    let handed_on = &func.op(last).operands;
    for (n, (operand, result)) in op.operands.iter().zip(op.results()).enumerate() {
        let Some(origin) = origins.get(operand).cloned() else { continue };
        let inner = handed_on.get(n).map(|&value| func.value(value).definition);
        if inner == Some(Definition::Argument(body, n as u32)) {
            for region in [condition, body] {
                if let Some(&argument) = func.region(region).args.get(n) {
                    origins.insert(argument, origin.clone());
                }
            }
            origins.insert(result, origin);
        }
    }
}

/// Dimensions after a reshape: where sizes are merged or split, the major part keeps the name.
fn reshaped(from: &[i64], to: &[i64], dims: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
    let mut result = vec![None; to.len()];
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        // Sizes of 1 come and go.
        if from[i] == 1 && to[j] != 1 {
            i += 1;
            continue;
        }
        if to[j] == 1 && from[i] != 1 {
            j += 1;
            continue;
        }
        let (first_from, first_to) = (i, j);
        let (mut left, mut right) = (from[i], to[j]);
        (i, j) = (i + 1, j + 1);
        while left != right {
            if left < right {
                left = left.checked_mul(*from.get(i)?)?;
                i += 1;
            } else {
                right = right.checked_mul(*to.get(j)?)?;
                j += 1;
            }
        }
        result[first_to] = dims.get(first_from).copied().flatten();
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_keep_the_major_part() {
        let check = |from: &[i64], to: &[i64], expected: &[Option<usize>]| {
            let dims: Vec<Option<usize>> = (0..from.len()).map(Some).collect();
            assert_eq!(reshaped(from, to, &dims).as_deref(), Some(expected), "{from:?} to {to:?}");
        };
        check(&[1, 256, 512], &[256, 512], &[Some(1), Some(2)]);
        check(&[256, 4, 64], &[256, 256], &[Some(0), Some(1)]);
        check(&[256, 256], &[256, 4, 64], &[Some(0), Some(1), None]);
        check(&[8, 4], &[4, 8], &[Some(0), None]);
    }

    #[test]
    fn arguments_are_followed_through_loops_slices_and_conversions() {
        let text = "func.func @main(%w: tensor<4x8x16xf32>, %x: tensor<2x8xbf16>) -> tensor<2x8xbf16> {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %four = stablehlo.constant dense<4> : tensor<i32>
            %0:3 = stablehlo.while(%i = %zero, %a = %w, %y = %x) : tensor<i32>, tensor<4x8x16xf32>, tensor<2x8xbf16>
            cond {
              %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %one = stablehlo.constant dense<1> : tensor<i32>
              %j = stablehlo.add %i, %one : tensor<i32>
              %s = stablehlo.dynamic_slice %a, %i, %zero, %zero, sizes = [1, 8, 16]
                : (tensor<4x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
              %r = stablehlo.reshape %s : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
              %b = stablehlo.convert %r : (tensor<8x16xf32>) -> tensor<8x16xbf16>
              %p = stablehlo.dot_general %y, %b, contracting_dims = [1] x [0]
                : (tensor<2x8xbf16>, tensor<8x16xbf16>) -> tensor<2x16xbf16>
              %q = stablehlo.dot_general %p, %b, contracting_dims = [1] x [1]
                : (tensor<2x16xbf16>, tensor<8x16xbf16>) -> tensor<2x8xbf16>
              stablehlo.return %j, %a, %q : tensor<i32>, tensor<4x8x16xf32>, tensor<2x8xbf16>
            }
            return %0#2 : tensor<2x8xbf16>
          }";
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let flow = Flow::of(module.entry().unwrap());
        assert_eq!(flow.stepped, [vec![0], vec![]]);
        let seen: Vec<(usize, Vec<Option<usize>>)> =
            flow.uses.iter().map(|site| (site.origin.argument, site.origin.dims.clone())).collect();
        // What the loop changes is no longer an argument.
        assert_eq!(seen, [(0, vec![Some(1), Some(2)]), (0, vec![Some(1), Some(2)])]);
    }
}
