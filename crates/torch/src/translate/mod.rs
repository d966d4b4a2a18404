//! A program as a function of traced tensors: everything that a Rust model has, an imported one has.

mod call;
mod layers;
mod looped;
mod mode;
mod ops;
mod run;
mod types;
mod views;

use std::collections::BTreeMap;

use tensor::{DType, Spec};
use trace::{Tensor, Tree};

use crate::error::Error;
use crate::graph::{ExportedProgram, InputRole, NodeArgument, OutputRole, SymExpr, SymInt};
use crate::translate::mode::Context;
use crate::translate::run::Translator;
use crate::translate::types::Scalar;

pub use layers::{LayerLoop, StackedTensor};
pub use mode::{ApplyOptions, ProgramMode};
pub use ops::{op_names, op_table, refused_ops};

/// Tensors that a program is given, by the user's names of arguments and the module's names of the rest.
#[derive(Clone, Debug, Tree)]
pub struct ProgramInputs {
    /// Parameters, as `layers.0.weight`.
    pub params: BTreeMap<String, Tensor>,
    /// Buffers.
    pub buffers: BTreeMap<String, Tensor>,
    /// Tensors that are part of the program.
    pub constants: BTreeMap<String, Tensor>,
    /// The arguments.
    pub inputs: BTreeMap<String, Tensor>,
}

/// What a program gives.
#[derive(Clone, Debug, Tree)]
pub struct ProgramOutputs {
    /// The user's results, in order; a result that is a number is a tensor without axes, one that is `None` is left out.
    pub outputs: Vec<Tensor>,
    /// Buffers and parameters that were written to, by name.
    pub mutated: BTreeMap<String, Tensor>,
    /// Arguments that were written to, by name.
    pub mutated_inputs: BTreeMap<String, Tensor>,
}

impl ExportedProgram {
    /// Names of the user's arguments, in order.
    pub fn argument_names(&self) -> Vec<&str> {
        let pairs = self.graph.inputs.iter().zip(&self.inputs);
        let own = pairs.filter(|(_, role)| **role == InputRole::User);
        own.filter_map(|(input, _)| match input {
            NodeArgument::Tensor(name) | NodeArgument::Int(SymInt::Name(name)) => Some(name.as_str()),
            _ => None,
        })
        .collect()
    }

    /// Symbols in the shapes of arguments.
    pub fn symbols(&self) -> Vec<String> {
        let mut symbols: Vec<String> = Vec::new();
        for name in self.argument_names() {
            let sizes = self.graph.tensors.get(name).map(|meta| meta.sizes.as_slice()).unwrap_or_default();
            for size in sizes {
                if let SymExpr::Symbol(symbol) = size
                    && !symbols.contains(symbol)
                {
                    symbols.push(symbol.clone());
                }
            }
        }
        symbols
    }

    /// Types and shapes of everything the program is given, when symbols have these values.
    pub fn specs(&self, symbols: &BTreeMap<String, i64>) -> Result<ProgramInputs, Error> {
        let mut all = ProgramInputs {
            params: BTreeMap::new(),
            buffers: BTreeMap::new(),
            constants: BTreeMap::new(),
            inputs: BTreeMap::new(),
        };
        for (input, role) in self.graph.inputs.iter().zip(&self.inputs) {
            let NodeArgument::Tensor(name) = input else { continue };
            let meta = self.graph.tensors.get(name);
            let meta = meta.ok_or_else(|| Error::damaged(format!("input `{name}` has no recorded type")))?;
            let dims = meta.sizes.iter().map(|size| call::positive(size.value(symbols)?));
            let tensor = Tensor::of(Spec::new(meta.dtype, dims.collect::<Result<Vec<_>, Error>>()?));
            match role {
                InputRole::Parameter(own) => all.params.insert(own.clone(), tensor),
                InputRole::Buffer(own) => all.buffers.insert(own.clone(), tensor),
                InputRole::Constant(own) => all.constants.insert(own.clone(), tensor),
                InputRole::User => all.inputs.insert(name.clone(), tensor),
                InputRole::Nothing => None,
            };
        }
        Ok(all)
    }

    /// The values of symbols, from the shapes of arguments; what shapes leave open has no value.
    pub fn bound(&self, shapes: &BTreeMap<String, Vec<usize>>) -> Result<BTreeMap<String, i64>, Error> {
        let mut symbols: BTreeMap<String, i64> = BTreeMap::new();
        for name in self.argument_names() {
            let Some(meta) = self.graph.tensors.get(name) else { continue };
            let Some(dims) = shapes.get(name) else {
                let known: Vec<&str> = self.argument_names();
                return Err(Error::new(
                    format!("argument `{name}` has no value"),
                    format!("the program takes {}", known.join(", ")),
                ));
            };
            if dims.len() != meta.sizes.len() {
                let message =
                    format!("argument `{name}` has {} axes, and was exported with {}", dims.len(), meta.sizes.len());
                return Err(Error::new(message, "give a tensor of that many axes"));
            }
            for (size, dim) in meta.sizes.iter().zip(dims) {
                if let SymExpr::Symbol(symbol) = size {
                    symbols.entry(symbol.clone()).or_insert(*dim as i64);
                }
            }
        }
        for name in self.argument_names() {
            let (Some(meta), Some(dims)) = (self.graph.tensors.get(name), shapes.get(name)) else { continue };
            for (axis, (size, dim)) in meta.sizes.iter().zip(dims).enumerate() {
                let wanted = size.value(&symbols)?;
                if wanted != *dim as i64 {
                    return Err(Error::new(
                        format!("axis {axis} of argument `{name}` has {dim} elements, and was exported with {wanted}"),
                        "give a tensor of that size, or export with `dynamic_shapes`",
                    ));
                }
            }
        }
        for (symbol, value) in &symbols {
            let Some((least, most)) = self.ranges.get(symbol) else { continue };
            // 2 is what the exporter writes where 1 would do as well.
            let least = least.filter(|least| *least > 2);
            if least.is_some_and(|least| *value < least) || most.is_some_and(|most| *value > most) {
                let range =
                    format!("{} to {}", least.unwrap_or(1), most.map_or("any".to_string(), |most| most.to_string()));
                return Err(Error::new(
                    format!("size `{symbol}` is {value}, and was exported for {range}"),
                    "give inputs of other sizes, or export with another `Dim`",
                ));
            }
        }
        Ok(symbols)
    }

    /// Runs the program over traced tensors, as it was exported. Call it inside [`trace::trace`] or a jitted function.
    pub fn apply(&self, given: &ProgramInputs, symbols: &BTreeMap<String, i64>) -> Result<ProgramOutputs, Error> {
        self.apply_with(given, symbols, &ApplyOptions::default())
    }

    /// Runs the program over traced tensors, in training or evaluation, with equal layers as loops. Tensors of these layers are
    /// given stacked, by the names of their stacks; what was written to them comes back so.
    pub fn apply_with(
        &self,
        given: &ProgramInputs,
        symbols: &BTreeMap<String, i64>,
        options: &ApplyOptions,
    ) -> Result<ProgramOutputs, Error> {
        let all = [&given.params, &given.buffers, &given.constants];
        let value_of = |name: &str| all.iter().find_map(|tensors| tensors.get(name)).cloned();
        let absent = |name: &str| Error::damaged(format!("`{name}` has no value"));
        let mut context = Context { loops: &options.loops, ..Context::of(options.mode.clone()) };
        context.remat = options.remat.clone();
        let mut members: BTreeMap<&str, &StackedTensor> = BTreeMap::new();
        for stack in options.loops.iter().flat_map(|layers| &layers.stacked) {
            context.stacks.insert(stack.name.clone(), value_of(&stack.name).ok_or_else(|| absent(&stack.name))?);
            members.extend(stack.members.iter().map(|member| (member.as_str(), stack)));
        }
        let mut translator = Translator::new(&self.graph, symbols, context);
        for (input, role) in self.graph.inputs.iter().zip(&self.inputs) {
            let name = match input {
                NodeArgument::Tensor(name) => name,
                NodeArgument::Int(SymInt::Name(name)) if *role == InputRole::User => {
                    let number = symbols.get(name).copied().ok_or_else(|| absent(name))?;
                    translator.bind_scalar(name, Scalar::Int(number));
                    continue;
                }
                _ => continue,
            };
            let value = match role {
                InputRole::Parameter(own) | InputRole::Buffer(own) | InputRole::Constant(own)
                    if members.contains_key(own.as_str()) =>
                {
                    continue;
                }
                InputRole::Parameter(own) => given.params.get(own),
                InputRole::Buffer(own) => given.buffers.get(own),
                InputRole::Constant(own) => given.constants.get(own),
                InputRole::User => given.inputs.get(name),
                InputRole::Nothing => continue,
            };
            translator.bind(name, value.ok_or_else(|| absent(name))?.clone());
        }
        translator.run()?;
        let mut result =
            ProgramOutputs { outputs: Vec::new(), mutated: BTreeMap::new(), mutated_inputs: BTreeMap::new() };
        for (output, role) in self.graph.outputs.iter().zip(&self.outputs) {
            let Some(tensor) = translator.output(output)? else { continue };
            match role {
                OutputRole::User | OutputRole::Loss => result.outputs.push(tensor),
                OutputRole::Mutation(name) => {
                    result.mutated.insert(name.clone(), tensor);
                }
                OutputRole::UserMutation(name) => {
                    result.mutated_inputs.insert(name.clone(), tensor);
                }
                OutputRole::Nothing => {}
            }
        }
        // Where the signature is silent, the ops say what was written.
        for (input, role) in self.graph.inputs.iter().zip(&self.inputs) {
            let NodeArgument::Tensor(name) = input else { continue };
            let Some(tensor) = translator.written(name)? else { continue };
            match role {
                InputRole::Parameter(own) | InputRole::Buffer(own) => {
                    result.mutated.entry(own.clone()).or_insert(tensor);
                }
                InputRole::User => {
                    result.mutated_inputs.entry(name.clone()).or_insert(tensor);
                }
                InputRole::Constant(_) | InputRole::Nothing => {}
            }
        }
        for stack in options.loops.iter().flat_map(|layers| &layers.stacked) {
            let parts: Vec<Tensor> = stack.members.iter().filter_map(|member| result.mutated.remove(member)).collect();
            if parts.len() == stack.members.len() {
                result.mutated.insert(stack.name.clone(), Tensor::stack(&parts, 0));
            } else if let Some(value) = translator.context.stacks.get(&stack.name).filter(|_| stack.is_written) {
                result.mutated.insert(stack.name.clone(), value.clone());
            }
        }
        Ok(result)
    }

    /// The program as StableHLO, traced with arguments of these shapes.
    pub fn trace(
        &self,
        name: &str,
        symbols: &BTreeMap<String, i64>,
    ) -> Result<(trace::Function, ProgramOutputs), Error> {
        let specs = self.specs(symbols)?;
        let mut failed = None;
        let traced = trace::trace(name, &specs, trace::Donate::Nothing, |given| match self.apply(given, symbols) {
            Ok(outputs) => outputs,
            Err(error) => {
                failed = Some(error);
                ProgramOutputs { outputs: Vec::new(), mutated: BTreeMap::new(), mutated_inputs: BTreeMap::new() }
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(traced?),
        }
    }

    /// Buffers and parameters that ops of the program write to, by name; what the signature says of it is not among them.
    pub fn written_tensors(&self) -> Vec<String> {
        layers::written_inputs(self)
    }

    /// Ops that have no translation, by name.
    pub fn missing_ops(&self) -> Vec<String> {
        let mut found = std::collections::BTreeSet::new();
        ops::missing_ops(&self.graph, &mut found);
        found.into_iter().collect()
    }

    /// The type of an argument.
    pub fn argument_type(&self, name: &str) -> Option<DType> {
        self.graph.tensors.get(name).map(|meta| meta.dtype)
    }
}
