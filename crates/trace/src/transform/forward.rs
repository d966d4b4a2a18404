//! Forward mode: tangents pushed through a graph beside its values.

use hlo::OpKind;

use crate::graph::{Combine, Graph, Node, Prim};
use crate::ops::collective::is_collective;
use crate::ops::constraint::constrained;
use crate::ops::{elementwise, index, linear, order, reduce, shape, window, write};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::backward::no_derivative;
use crate::transform::replay::Values;
use crate::transform::{again, nodes};

/// Outputs of a graph and their tangents; `None` is zero.
pub(crate) fn push_forward(
    graph: &Graph,
    inputs: &[Tensor],
    tangents: &[Option<Tensor>],
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let mut values = Values::new(graph, inputs);
    let mut of: Vec<Option<Tensor>> = vec![None; graph.specs.len()];
    for (&input, tangent) in graph.inputs.iter().zip(tangents) {
        of[input.0 as usize] = tangent.clone();
    }
    for node in &graph.nodes {
        let ins = values.inputs_of(node);
        let given: Vec<Option<Tensor>> = node.inputs.iter().map(|input| of[input.0 as usize].clone()).collect();
        let (outs, out_tangents) = if given.iter().all(Option::is_none) || matches!(node.prim, Prim::Stop) {
            (again(graph, node, &ins), vec![None; node.num_results as usize])
        } else {
            stack::on_behalf_of(node, || push_node(graph, node, &ins, &given))
        };
        values.set(node, outs);
        for (result, tangent) in node.results().zip(out_tangents) {
            of[result.0 as usize] = tangent;
        }
    }
    (values.outputs(graph), graph.outputs.iter().map(|output| of[output.0 as usize].clone()).collect())
}

fn push_node(
    graph: &Graph,
    node: &Node,
    ins: &[Tensor],
    given: &[Option<Tensor>],
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    match &node.prim {
        Prim::Scan(scan) => nodes::scan::jvp(scan, ins, given, node.at),
        Prim::While(looped) => nodes::while_::jvp(looped, ins, given, node.at),
        Prim::Cond(cond) => nodes::cond::jvp(cond, ins, given, node.at),
        Prim::Remat(remat) => push_forward(&remat.body, ins, given),
        Prim::Composite(composite) => push_forward(&composite.body, ins, given),
        Prim::Custom(custom) => nodes::custom::jvp(custom, ins, given).unwrap_or_else(|| {
            let message = "a function with custom_vjp has no forward-mode derivative (jvp): use grad or vjp";
            no_derivative(node, message)
        }),
        Prim::Named(_) | Prim::Moved(_) | Prim::Ordered => (again(graph, node, ins), given.to_vec()),
        Prim::Shard(sharding) => {
            let tangents = given.iter().map(|tangent| tangent.as_ref().map(|tangent| constrained(tangent, sharding)));
            (again(graph, node, ins), tangents.collect())
        }
        Prim::Manual(manual) => nodes::manual::jvp(manual, ins, given, node.at),
        Prim::Stop => (again(graph, node, ins), vec![None]),
        Prim::Op { kind, .. } => {
            let outs = again(graph, node, ins);
            let tangents = push_op(node, *kind, ins, &outs, given);
            (outs, tangents)
        }
    }
}

/// Tangents of an op's results.
fn push_op(
    node: &Node,
    kind: OpKind,
    ins: &[Tensor],
    outs: &[Tensor],
    given: &[Option<Tensor>],
) -> Vec<Option<Tensor>> {
    let Prim::Op { attrs, combine, .. } = &node.prim else { return vec![None; outs.len()] };
    let whole = |n: usize| given[n].clone().unwrap_or_else(|| ins[n].zeros_like());
    let apply = |operands: &[Tensor]| {
        let specs = outs.iter().map(|out| out.spec().clone()).collect();
        write((kind, attrs.clone(), *combine), &operands.iter().collect::<Vec<_>>(), Some(specs))
    };
    match (kind, combine) {
        (OpKind::Sort, _) => order::pushed(attrs, *combine, ins, given),
        (OpKind::OptimizationBarrier, _) => given.to_vec(),
        // Linear in every operand that has a tangent.
        (
            OpKind::Reshape
            | OpKind::Transpose
            | OpKind::BroadcastInDim
            | OpKind::Slice
            | OpKind::Reverse
            | OpKind::ReducePrecision,
            _,
        ) => some(apply(&[whole(0)])),
        (OpKind::Convert, _) => {
            if outs[0].dtype().is_float() || outs[0].dtype().is_complex() {
                some(apply(&[whole(0)]))
            } else {
                vec![None]
            }
        }
        (kind, None | Some(Combine::Add)) if is_collective(kind) => some(apply(&[whole(0)])),
        (OpKind::Pad | OpKind::Concatenate, _) => some(apply(&(0..ins.len()).map(whole).collect::<Vec<_>>())),
        (OpKind::Reduce | OpKind::ReduceWindow, Some(Combine::Add)) => {
            some(apply(&[whole(0), ins[0].scalar_like(0.0)]))
        }
        (OpKind::Gather | OpKind::DynamicSlice, _) => {
            let mut operands = ins.to_vec();
            operands[0] = whole(0);
            some(apply(&operands))
        }
        (OpKind::DynamicUpdateSlice, _) => {
            let mut operands = ins.to_vec();
            (operands[0], operands[1]) = (whole(0), whole(1));
            some(apply(&operands))
        }
        (OpKind::Scatter, Some(Combine::Add | Combine::Replace)) => {
            let mut operands = ins.to_vec();
            (operands[0], operands[2]) = (whole(0), whole(2));
            some(apply(&operands))
        }
        (OpKind::Scatter, Some(Combine::Maximum | Combine::Minimum | Combine::Multiply)) => {
            vec![index::pushed_scatter(attrs, *combine, ins, given)]
        }
        (OpKind::DotGeneral | OpKind::Convolution, _) => {
            let mut sum: Option<Tensor> = None;
            for n in 0..2 {
                if let Some(tangent) = &given[n] {
                    let mut operands = ins.to_vec();
                    operands[n] = tangent.clone();
                    let term = apply(&operands).swap_remove(0);
                    sum = Some(match sum {
                        Some(sum) => sum + term,
                        None => term,
                    });
                }
            }
            vec![sum]
        }
        (OpKind::Reduce, Some(combine @ (Combine::Maximum | Combine::Minimum | Combine::Multiply))) => {
            // The gradient of each result says what each element weighs in it; equal extremes share.
            let axes = shape::usizes(attrs, "dimensions");
            let weights = reduce::transposed(*combine, attrs, &ins[0], &outs[0], &outs[0].full_like(1.0));
            vec![weights.map(|weights| (&weights * &whole(0)).sum(&axes))]
        }
        // Only the position is read of these.
        (OpKind::Reduce | OpKind::ReduceWindow, Some(Combine::ArgMaximum | Combine::ArgMinimum)) => {
            vec![None; outs.len()]
        }
        (OpKind::ReduceWindow, Some(Combine::Maximum | Combine::Minimum)) => {
            vec![window::selected(attrs, *combine, &ins[0], &whole(0))]
        }
        (OpKind::SelectAndScatter, _) => {
            // Linear in what is scattered; what selects has no derivative.
            let Some(source) = &given[1] else { return vec![None] };
            some(apply(&[ins[0].clone(), source.clone(), ins[2].clone()]))
        }
        (OpKind::Fft | OpKind::Cholesky | OpKind::TriangularSolve, _) => {
            vec![linear::pushed(kind, attrs, (ins, &outs[0]), given)]
        }
        (OpKind::Real | OpKind::Imag | OpKind::Complex | OpKind::ChloConj, _) => {
            vec![elementwise::pushed_complex(kind, ins, &outs[0], given)]
        }
        (OpKind::Abs, _) if ins[0].dtype().is_complex() => {
            vec![elementwise::pushed_complex(kind, ins, &outs[0], given)]
        }
        _ if elementwise::is_elementwise(kind) => {
            let mut sum: Option<Tensor> = None;
            for (n, tangent) in given.iter().enumerate() {
                let Some(tangent) = tangent else { continue };
                if let Some(term) = elementwise::partial(kind, ins, &outs[0], n, tangent) {
                    sum = Some(match sum {
                        Some(sum) => sum + term,
                        None => term,
                    });
                }
            }
            vec![sum]
        }
        _ => no_derivative(node, format!("{} has no forward-mode derivative (jvp)", kind.name())),
    }
}

fn some(results: Vec<Tensor>) -> Vec<Option<Tensor>> {
    results.into_iter().map(Some).collect()
}
