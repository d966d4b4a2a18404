//! The functions being traced on this thread, innermost last, and how values of outer ones reach inner ones.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use hlo::OpKind;
use tensor::Literal;

use crate::Spec;
use crate::error::misuse;
use crate::graph::{Graph, Node, Prim};
use crate::line;
use crate::tensor::{Ref, Tensor};
use crate::tree::Tree;

/// A function being traced.
struct Frame {
    id: u64,
    graph: Graph,
    /// Values of the frame below that are inputs here, in the order of those inputs.
    captured: Vec<Tensor>,
    captured_as: HashMap<(u64, Ref), Ref>,
    /// Constants of outer frames written again here.
    constants: HashMap<(u64, Ref), Ref>,
    /// Values of the host written as constants here.
    literals: Vec<(Arc<Literal>, Ref)>,
}

thread_local! {
    static STACK: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    static SCOPE: RefCell<Rc<str>> = RefCell::new("".into());
}

/// Ids of frames; an id is never used twice on a thread, so a tensor of an ended trace is recognised.
fn next_id() -> u64 {
    thread_local! { static NEXT: Cell<u64> = const { Cell::new(1) }; }
    NEXT.with(|next| next.replace(next.get() + 1))
}

/// Removes the frame also when the traced function leaves by an error.
struct Pushed(usize);

impl Drop for Pushed {
    fn drop(&mut self) {
        STACK.with_borrow_mut(|stack| stack.truncate(self.0));
    }
}

/// A traced function, with the outer values it uses; they are its last inputs.
pub(crate) struct Closed {
    pub(crate) graph: Graph,
    pub(crate) captured: Vec<Tensor>,
}

/// Traces a function of inputs of these types.
pub(crate) fn closed(inputs: &[Spec], f: impl FnOnce(Vec<Tensor>) -> Vec<Tensor>) -> Closed {
    let id = next_id();
    let mut graph = Graph::default();
    let tensors: Vec<Tensor> =
        inputs.iter().map(|spec| Tensor::traced(id, graph.input(spec.clone()), spec.clone())).collect();
    let depth = STACK.with_borrow_mut(|stack| {
        stack.push(Frame {
            id,
            graph,
            captured: Vec::new(),
            captured_as: HashMap::new(),
            constants: HashMap::new(),
            literals: Vec::new(),
        });
        stack.len() - 1
    });
    let pushed = Pushed(depth);
    let here = Location::caller();
    let outputs = f(tensors);
    let (frame, outputs) = STACK.with_borrow_mut(|stack| {
        let outputs = outputs.iter().map(|tensor| resolve(stack, tensor, here)).collect();
        (stack.pop(), outputs)
    });
    drop(pushed);
    let Some(mut frame) = frame else { unreachable!("the frame was pushed above") };
    frame.graph.outputs = outputs;
    Closed { graph: frame.graph, captured: frame.captured }
}

/// Traces a function of a structure; gives the structure of its results too, known by types and shapes.
pub(crate) fn closed_over<I: Tree, O: Tree>(inputs: &I, f: impl FnOnce(&I) -> O) -> (Closed, O) {
    let mut result = None;
    let closed = closed(&inputs.specs(), |args| {
        let output = f(&inputs.with_leaves(args));
        result = Some(output.shapes());
        output.leaves()
    });
    let Some(result) = result else { unreachable!("the function was traced") };
    (closed, result)
}

/// Writes a node into the innermost function.
pub(crate) fn push(prim: Prim, inputs: &[&Tensor], results: Vec<Spec>, at: &'static Location<'static>) -> Vec<Tensor> {
    let at = line::current().unwrap_or(at);
    STACK.with_borrow_mut(|stack| {
        if stack.is_empty() {
            misuse(at, "tensors are computed inside a traced function only; call trace::trace or a jit around this");
        }
        let inputs = inputs.iter().map(|tensor| resolve(stack, tensor, at)).collect();
        let frame = stack.last_mut().unwrap_or_else(|| unreachable!("checked above"));
        let scope = SCOPE.with_borrow(Rc::clone);
        let first = Ref(frame.graph.specs.len() as u32);
        let num_results = results.len() as u32;
        let tensors =
            results.into_iter().map(|spec| Tensor::traced(frame.id, frame.graph.value(spec.clone()), spec)).collect();
        frame.graph.nodes.push(Node { prim, inputs, first, num_results, at, scope });
        tensors
    })
}

/// The tensor as a value of the innermost function.
fn resolve(stack: &mut [Frame], tensor: &Tensor, at: &'static Location<'static>) -> Ref {
    if let (Some(literal), Some(frame)) = (tensor.host_value(), stack.last_mut()) {
        return constant(frame, literal, at);
    }
    let Some((id, value)) = tensor.place() else { misuse(at, tensor.not_traced()) };
    let Some(home) = stack.iter().position(|frame| frame.id == id) else {
        misuse(at, format!("{} belongs to a traced function that has ended: return it from there", tensor.spec()));
    };
    let mut current = (id, value);
    for n in home + 1..stack.len() {
        let (below, above) = stack.split_at_mut(n);
        let (outer, frame) = (&below[n - 1], &mut above[0]);
        current = (frame.id, capture(outer, frame, current, tensor.spec()));
    }
    current.1
}

/// A value of the host as a constant of a frame, written once.
fn constant(frame: &mut Frame, literal: &Arc<Literal>, at: &'static Location<'static>) -> Ref {
    if let Some((_, known)) = frame.literals.iter().find(|(have, _)| Arc::ptr_eq(have, literal)) {
        return *known;
    }
    let (prim, spec) = match Prim::constant(literal) {
        Ok(constant) => constant,
        Err(message) => misuse(at, message),
    };
    let first = frame.graph.value(spec);
    let scope = SCOPE.with_borrow(Rc::clone);
    frame.graph.nodes.push(Node { prim, inputs: Vec::new(), first, num_results: 1, at, scope });
    frame.literals.push((literal.clone(), first));
    first
}

/// The input of a frame that stands for a value of the frame below; a constant is written again instead.
fn capture(outer: &Frame, frame: &mut Frame, key: (u64, Ref), spec: &Spec) -> Ref {
    if let Some(&known) = frame.captured_as.get(&key).or_else(|| frame.constants.get(&key)) {
        return known;
    }
    let node = outer.graph.nodes.binary_search_by(|node| node.first.cmp(&key.1)).ok().map(|n| &outer.graph.nodes[n]);
    if let Some(node) = node
        && matches!(node.prim, Prim::Op { kind: OpKind::Constant, .. })
    {
        let value = frame.graph.value(spec.clone());
        frame.graph.nodes.push(Node { first: value, ..node.clone() });
        frame.constants.insert(key, value);
        return value;
    }
    let value = frame.graph.input(spec.clone());
    frame.captured.push(Tensor::traced(key.0, key.1, spec.clone()));
    frame.captured_as.insert(key, value);
    value
}

/// Names everything a function writes: profiles and memory reports show `name/inner/op`.
pub fn scope<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let inner: Rc<str> =
        SCOPE.with_borrow(|outer| if outer.is_empty() { name.into() } else { format!("{outer}/{name}").into() });
    within(inner, f)
}

/// Runs `f` in a scope given whole.
pub(crate) fn within<T>(scope: Rc<str>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Rc<str>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            if let Some(outer) = self.0.take() {
                SCOPE.set(outer);
            }
        }
    }
    let _restore = Restore(Some(SCOPE.replace(scope)));
    f()
}

/// Runs a rule of a node, so that what it writes keeps the node's line and scope.
pub(crate) fn on_behalf_of<T>(node: &Node, f: impl FnOnce() -> T) -> T {
    let _line = line::instead(node.at);
    within(node.scope.clone(), f)
}
