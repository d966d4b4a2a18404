//! Reverse mode: a graph run forward with what its backward pass needs, and the backward pass.

use std::collections::HashMap;

use hlo::{Attrs, OpKind};

use crate::error::{At, Error, leave};
use crate::graph::{Combine, Graph, Node, Prim};
use crate::ops::collective::{self, is_collective};
use crate::ops::constraint::constrained;
use crate::ops::{contract, convolve, elementwise, index, linear, order, reduce, shape, window, write};
use crate::stack;
use crate::tensor::{Ref, Tensor};
use crate::transform::replay::Values;
use crate::transform::{again, nodes};

/// Cotangents of a node's inputs from those of its outputs.
pub(crate) type Pull = Box<dyn FnOnce(&[Option<Tensor>]) -> Vec<Option<Tensor>>>;

/// What the backward pass needs of one node.
struct Step {
    node: Node,
    ins: Vec<Tensor>,
    outs: Vec<Tensor>,
    /// Present for nodes with structure; ops are looked up by kind.
    pull: Option<Pull>,
}

/// What the backward pass needs of a graph.
pub(crate) struct Tape {
    steps: Vec<Step>,
    inputs: Vec<Ref>,
    outputs: Vec<Ref>,
    active: Vec<bool>,
}

/// For each value whether it changes with the marked inputs: reached from one, and of a type that has derivatives.
pub(crate) fn activity(graph: &Graph, inputs: &[bool]) -> Vec<bool> {
    let mut active = vec![false; graph.specs.len()];
    for (&input, &is_active) in graph.inputs.iter().zip(inputs) {
        active[input.0 as usize] = is_active && has_derivatives(graph, input);
    }
    for node in &graph.nodes {
        if !matches!(node.prim, Prim::Stop) && node.inputs.iter().any(|input| active[input.0 as usize]) {
            for result in node.results() {
                active[result.0 as usize] = has_derivatives(graph, result);
            }
        }
    }
    active
}

fn has_derivatives(graph: &Graph, value: Ref) -> bool {
    let dtype = graph.spec(value).dtype;
    dtype.is_float() || dtype.is_complex()
}

/// Runs a graph and keeps what a backward pass from the marked inputs needs.
pub(crate) fn forward(graph: &Graph, inputs: &[Tensor], active: &[bool]) -> (Vec<Tensor>, Tape) {
    forward_from(graph, inputs, active, &HashMap::new())
}

/// [`forward`], with some values already known.
pub(crate) fn forward_from(
    graph: &Graph,
    inputs: &[Tensor],
    active: &[bool],
    known: &HashMap<Ref, Tensor>,
) -> (Vec<Tensor>, Tape) {
    let active = activity(graph, active);
    let mut values = Values::new(graph, inputs);
    let mut steps = Vec::new();
    for node in &graph.nodes {
        let ins = values.inputs_of(node);
        let is_active = node.results().any(|result| active[result.0 as usize]);
        let flags: Vec<bool> = node.inputs.iter().map(|input| active[input.0 as usize]).collect();
        let (mut outs, pull) = match &node.prim {
            _ if !is_active => (again(graph, node, &ins), None),
            Prim::Scan(scan) => with_pull(stack::on_behalf_of(node, || nodes::scan::vjp(scan, &ins, &flags, node.at))),
            Prim::Cond(cond) => with_pull(stack::on_behalf_of(node, || nodes::cond::vjp(cond, &ins, &flags, node.at))),
            Prim::Composite(composite) => {
                let (outs, tape) = stack::on_behalf_of(node, || forward(&composite.body, &ins, &flags));
                let pull: Pull = Box::new(move |cts| tape.backward(cts.to_vec()));
                (outs, Some(pull))
            }
            Prim::Remat(remat) => with_pull(stack::on_behalf_of(node, || nodes::remat::vjp(remat, &ins, &flags))),
            Prim::Custom(custom) => {
                let known: Vec<Option<&Tensor>> = node.results().map(|result| known.get(&result)).collect();
                with_pull(stack::on_behalf_of(node, || nodes::custom::vjp(custom, &ins, &known)))
            }
            Prim::Manual(manual) => {
                with_pull(stack::on_behalf_of(node, || nodes::manual::vjp(manual, &ins, &flags, node.at)))
            }
            _ => (again(graph, node, &ins), None),
        };
        for (out, result) in outs.iter_mut().zip(node.results()) {
            if let Some(have) = known.get(&result) {
                *out = have.clone();
            }
        }
        values.set(node, outs.clone());
        if is_active {
            steps.push(Step { node: node.clone(), ins, outs, pull });
        }
    }
    let outputs = values.outputs(graph);
    (outputs, Tape { steps, inputs: graph.inputs.clone(), outputs: graph.outputs.clone(), active })
}

fn with_pull((outs, pull): (Vec<Tensor>, Pull)) -> (Vec<Tensor>, Option<Pull>) {
    (outs, Some(pull))
}

impl Tape {
    /// Cotangents of the inputs from those of the outputs; `None` is zero.
    pub(crate) fn backward(self, cts: Vec<Option<Tensor>>) -> Vec<Option<Tensor>> {
        let mut of: HashMap<Ref, Tensor> = HashMap::new();
        let active = self.active;
        let is_active = |value: Ref| active[value.0 as usize];
        for (&output, ct) in self.outputs.iter().zip(cts) {
            if let Some(ct) = ct.filter(|_| is_active(output)) {
                accumulate(&mut of, output, ct);
            }
        }
        for step in self.steps.into_iter().rev() {
            let cts: Vec<Option<Tensor>> = step.node.results().map(|result| of.remove(&result)).collect();
            if cts.iter().all(Option::is_none) {
                continue;
            }
            let wanted: Vec<bool> = step.node.inputs.iter().map(|&input| is_active(input)).collect();
            let node = &step.node;
            let grads = stack::on_behalf_of(node, || match step.pull {
                Some(pull) => pull(&cts),
                None => pull_op(node, &step.ins, &step.outs, &cts, &wanted),
            });
            stack::on_behalf_of(node, || {
                for ((&input, grad), wanted) in node.inputs.iter().zip(grads).zip(wanted) {
                    if let Some(grad) = grad.filter(|_| wanted) {
                        accumulate(&mut of, input, grad);
                    }
                }
            });
        }
        self.inputs.iter().map(|input| of.get(input).cloned()).collect()
    }
}

fn accumulate(of: &mut HashMap<Ref, Tensor>, value: Ref, ct: Tensor) {
    let sum = match of.get(&value) {
        Some(have) => have + &ct,
        None => ct,
    };
    of.insert(value, sum);
}

/// Stops the trace: there is no derivative of that node.
pub(crate) fn no_derivative(node: &Node, message: impl Into<String>) -> ! {
    let at = At { file: node.at.file(), line: node.at.line(), column: node.at.column() };
    leave(Error::NotDifferentiable { at, message: message.into() })
}

/// Cotangents of an op's inputs.
fn pull_op(
    node: &Node,
    ins: &[Tensor],
    outs: &[Tensor],
    cts: &[Option<Tensor>],
    wanted: &[bool],
) -> Vec<Option<Tensor>> {
    let (kind, attrs, combine) = match &node.prim {
        Prim::Named(_) | Prim::Moved(_) | Prim::Ordered | Prim::Stop => return cts.to_vec(),
        Prim::Shard(sharding) => {
            return cts.iter().map(|ct| ct.as_ref().map(|ct| constrained(ct, sharding))).collect();
        }
        Prim::While(_) => no_derivative(
            node,
            "a while_loop has no gradient, since its number of rounds is not known: use scan with a fixed length",
        ),
        Prim::Op { kind, attrs, combine } => (*kind, attrs, *combine),
        _ => unreachable!("nodes with structure have a pull of their own"),
    };
    match kind {
        OpKind::OptimizationBarrier => return barrier(cts),
        OpKind::Sort => return order::transposed(attrs, combine, ins, cts),
        _ => {}
    }
    let Some(ct) = &cts[0] else { return vec![None; ins.len()] };
    (0..ins.len())
        .map(|n| if wanted[n] { pull_operand(node, (kind, attrs, combine), (ins, &outs[0]), n, ct) } else { None })
        .collect()
}

/// The cotangents behind a barrier of their own.
fn barrier(cts: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let given: Vec<&Tensor> = cts.iter().flatten().collect();
    let mut behind = write((OpKind::OptimizationBarrier, Attrs::new(), None), &given, None).into_iter();
    cts.iter().map(|ct| ct.as_ref().and_then(|_| behind.next())).collect()
}

/// The cotangent of one input of an op of one result.
fn pull_operand(
    node: &Node,
    (kind, attrs, combine): (OpKind, &Attrs, Option<Combine>),
    (ins, out): (&[Tensor], &Tensor),
    n: usize,
    ct: &Tensor,
) -> Option<Tensor> {
    match kind {
        OpKind::Reshape
        | OpKind::Transpose
        | OpKind::BroadcastInDim
        | OpKind::Slice
        | OpKind::Pad
        | OpKind::Concatenate
        | OpKind::Reverse
        | OpKind::Convert
        | OpKind::ReducePrecision => shape::transposed(kind, attrs, ins, n, ct),
        OpKind::DotGeneral => Some(contract::transposed(attrs, ins, n, ct)),
        OpKind::Convolution => convolve::transposed(attrs, ins, n, ct),
        OpKind::Reduce if n == 0 => combine
            .and_then(|combine| reduce::transposed(combine, attrs, &ins[0], out, ct))
            .or_else(|| no_derivative(node, "this reduction has no gradient")),
        OpKind::ReduceWindow if n == 0 => window::transposed(attrs, combine, &ins[0], ct)
            .or_else(|| no_derivative(node, "this reduction over windows has no gradient")),
        OpKind::Reduce | OpKind::ReduceWindow => None,
        OpKind::Gather | OpKind::Scatter | OpKind::DynamicSlice | OpKind::DynamicUpdateSlice => {
            index::transposed((kind, attrs, combine), ins, n, ct).or_else(|| match kind {
                OpKind::Scatter => no_derivative(node, "this scatter has no gradient"),
                _ => None,
            })
        }
        OpKind::Fft | OpKind::Cholesky | OpKind::TriangularSolve => linear::transposed(kind, attrs, (ins, out), n, ct),
        kind if is_collective(kind) => collective::transposed((kind, attrs, combine), ct)
            .or_else(|| no_derivative(node, "the extreme over devices has no gradient")),
        OpKind::SelectAndScatter => window::selection_transposed(attrs, combine, ins, n, ct),
        _ if elementwise::is_elementwise(kind) => elementwise::transposed_complex(kind, ins, out, n, ct)
            .or_else(|| elementwise::partial(kind, ins, out, n, ct)),
        _ => no_derivative(node, format!("{} has no gradient; wrap it in custom_vjp to give one", kind.name())),
    }
}
