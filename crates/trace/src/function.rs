//! A traced function as a program: names and types of what it takes and gives, and its StableHLO.

use hlo::{Attr, Attrs, FuncBuilder, ModuleBuilder, Verified, Visibility};

use crate::Spec;
use crate::emit::Emitter;
use crate::error::{Error, caught};
use crate::graph::Graph;
use crate::region::type_of;
use crate::stack;
use crate::tree::Tree;

/// Attribute of an argument: the result that takes its memory.
const ALIAS: &str = "tf.aliasing_output";
/// Attribute of an argument or result: its name.
const NAME: &str = "tpubridge.name";

/// Which inputs give their memory to results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Donate {
    /// None.
    #[default]
    Nothing,
    /// The leading inputs to the results at the same place, as far as types agree: the state of a training step.
    Leading(usize),
}

/// An input or output of a traced function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its path in the structure, as in `0.blocks.weight`.
    pub path: String,
    /// Type and shape.
    pub spec: Spec,
}

/// A traced function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The program.
    pub module: Verified,
    /// What it takes, in order.
    pub inputs: Vec<Leaf>,
    /// What it gives, in order.
    pub outputs: Vec<Leaf>,
}

/// Traces a function of tensors of these types and shapes: `inputs` is any structure whose tensors are
/// [`crate::Tensor::of`] a spec. Gives the program, and the structure of the results.
///
/// Errors name the line of the function that is wrong.
pub fn trace<I: Tree, O: Tree>(
    name: &str,
    inputs: &I,
    donate: Donate,
    f: impl FnOnce(&I) -> O,
) -> Result<(Function, O), Error> {
    caught(|| {
        let mut result = None;
        let closed = stack::closed(&inputs.specs(), |args| {
            let output = f(&inputs.with_leaves(args));
            let leaves = output.leaves();
            result = Some((output.shapes(), output.paths()));
            leaves
        });
        if let Some(outer) = closed.captured.first() {
            crate::error::misuse(
                std::panic::Location::caller(),
                format!("{} comes from a function that is being traced around this one", outer.spec()),
            );
        }
        let Some((result, paths)) = result else { unreachable!("the function was traced") };
        (closed.graph, result, paths)
    })
    .and_then(|(mut graph, result, paths)| {
        graph.prune();
        let leaves = |paths: Vec<String>, specs: Vec<Spec>| {
            paths.into_iter().zip(specs).map(|(path, spec)| Leaf { path, spec }).collect::<Vec<_>>()
        };
        let inputs = leaves(inputs.paths(), inputs.specs());
        let outputs = leaves(paths, graph.output_specs());
        let module = written(name, &graph, &inputs, &outputs, donate)?;
        Ok((Function { module, inputs, outputs }, result))
    })
}

/// Types and shapes of what a function gives, without a program.
pub fn shapes_of<I: Tree, O: Tree>(inputs: &I, f: impl FnOnce(&I) -> O) -> Result<O, Error> {
    caught(|| {
        let mut result = None;
        stack::closed(&inputs.specs(), |args| {
            let output = f(&inputs.with_leaves(args));
            result = Some(output.shapes());
            Vec::new()
        });
        let Some(result) = result else { unreachable!("the function was traced") };
        result
    })
}

fn written(name: &str, graph: &Graph, inputs: &[Leaf], outputs: &[Leaf], donate: Donate) -> Result<Verified, Error> {
    let broken = |violation: hlo::ops::Violation| {
        Error::Broken(hlo::Error::Verify(vec![hlo::Finding {
            func: "main".into(),
            op: String::new(),
            clause: violation.clause.into(),
            message: violation.message,
            source: None,
        }]))
    };
    let mut f = FuncBuilder::new("main");
    f.visibility(Visibility::Public);
    let donated = match donate {
        Donate::Nothing => 0,
        Donate::Leading(count) => count,
    };
    let named = |path: &str| {
        let mut attrs = Attrs::new();
        attrs.set(NAME, Attr::string(path));
        attrs
    };
    let arguments: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(n, leaf)| {
            let mut attrs = named(&leaf.path);
            if n < donated && outputs.get(n).is_some_and(|output| output.spec == leaf.spec) {
                attrs.set(ALIAS, Attr::i32(n as i32));
            }
            f.arg_with_attrs(type_of(&leaf.spec), attrs)
        })
        .collect();
    let results = Emitter::default().graph(&mut f, graph, &arguments).map_err(broken)?;
    let func = f.finish_with_attrs(&results, outputs.iter().map(|leaf| named(&leaf.path)).collect());
    let mut module = ModuleBuilder::new(name);
    module.func(func);
    hlo::verify(module.finish()).map_err(Error::Broken)
}
