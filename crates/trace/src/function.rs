//! A traced function as a program: names and types of what it takes and gives, and its StableHLO.

use std::rc::Rc;

use hlo::attr::ALIAS;
use hlo::{Attr, Attrs, FuncBuilder, ModuleBuilder, Verified, Visibility};

use crate::emit::{Emitter, ShardingAttributes};
use crate::error::{Error, caught};
use crate::graph::Graph;
use crate::region::type_of;
use crate::sharding::{LogicalAxisRules, PartitionSpec, with_rules};
use crate::tree::Tree;
use crate::{Spec, stack};

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
    /// All of the first input to the first result: of a tuple, its first item; of a structure, its first field.
    First,
}

impl Donate {
    /// How many of the leaves at these paths, from the first, are donated.
    pub fn num_leaves(self, paths: &[String]) -> usize {
        let first = |path: &String| path.split('.').next().unwrap_or_default().to_string();
        match self {
            Donate::Nothing => 0,
            Donate::Leading(count) => count,
            Donate::First => {
                let of = paths.first().map(first);
                paths.iter().take_while(|path| Some(first(path)) == of).count()
            }
        }
    }
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

/// Where a leaf of a traced function stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Among what it takes.
    Input,
    /// Among what it gives.
    Output,
}

/// How a traced function lies on a mesh.
#[derive(Clone, Copy)]
pub struct LeafShardings<'a> {
    /// The mesh, and what axes of activations mean.
    pub rules: &'a LogicalAxisRules,
    /// The sharding of each input and output.
    pub of: &'a dyn Fn(Role, &Leaf) -> Result<PartitionSpec, Error>,
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
    traced(None, name, inputs, donate, f)
}

/// [`trace()`] for the devices of a mesh: tensors are whole as the function sees them, and the compiler splits them as it is
/// told.
pub fn trace_on<I: Tree, O: Tree>(
    placed: &LeafShardings<'_>,
    name: &str,
    inputs: &I,
    donate: Donate,
    f: impl FnOnce(&I) -> O,
) -> Result<(Function, O), Error> {
    traced(Some(placed), name, inputs, donate, f)
}

fn traced<I: Tree, O: Tree>(
    placed: Option<&LeafShardings<'_>>,
    name: &str,
    inputs: &I,
    donate: Donate,
    f: impl FnOnce(&I) -> O,
) -> Result<(Function, O), Error> {
    let rules = placed.map(|placed| Rc::new(placed.rules.clone()));
    caught(|| {
        let mut result = None;
        let closed = with_rules(rules.clone(), || {
            stack::closed(&inputs.specs(), |args| {
                let output = f(&inputs.with_leaves(args));
                let leaves = output.leaves();
                result = Some((output.shapes(), output.paths()));
                leaves
            })
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
        let mesh = placed.zip(rules.as_ref()).map(|(placed, rules)| (placed, ShardingAttributes::new(rules)));
        let module = written(name, &graph, (&inputs, &outputs), donate, mesh)?;
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

fn written(
    name: &str,
    graph: &Graph,
    (inputs, outputs): (&[Leaf], &[Leaf]),
    donate: Donate,
    mesh: Option<(&LeafShardings<'_>, ShardingAttributes)>,
) -> Result<Verified, Error> {
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
    let donated = donate.num_leaves(&inputs.iter().map(|leaf| leaf.path.clone()).collect::<Vec<_>>());
    let named = |side: Role, leaf: &Leaf| {
        let mut attrs = Attrs::new();
        attrs.set(NAME, Attr::string(&leaf.path));
        if let Some((placed, written)) = &mesh {
            let sharding = (placed.of)(side, leaf)?;
            let wrong = |error| Error::Mesh(format!("`{}`, {}: {error}", leaf.path, leaf.spec));
            sharding.parts(&placed.rules.mesh, &leaf.spec.dims).map_err(wrong)?;
            written.annotate(&mut attrs, &sharding);
        }
        Ok(attrs)
    };
    let arguments = inputs
        .iter()
        .enumerate()
        .map(|(n, leaf)| {
            let mut attrs = named(Role::Input, leaf)?;
            if n < donated && outputs.get(n).is_some_and(|output| output.spec == leaf.spec) {
                attrs.set(ALIAS, Attr::i32(n as i32));
            }
            Ok(f.arg_with_attrs(type_of(&leaf.spec), attrs))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let written = mesh.as_ref().map(|(_, written)| written.clone());
    let mut emitter = Emitter::new(written);
    let results = emitter.graph(&mut f, graph, &arguments).map_err(broken)?;
    let outputs = outputs.iter().map(|leaf| named(Role::Output, leaf)).collect::<Result<Vec<_>, Error>>()?;
    let func = f.finish_with_attrs(&results, outputs);
    let mut module = ModuleBuilder::new(name);
    if let Some((_, written)) = &mesh {
        written.module(&mut module);
    }
    module.func(func);
    for decomposition in emitter.funcs {
        module.func(decomposition);
    }
    hlo::verify(module.finish()).map_err(Error::Broken)
}
