//! Traced Rust functions on a backend: compiled once for each set of shapes, run on structures of device arrays.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compile::Program;
use tensor::{Literal, Spec};
use trace::{Donate, Leaf, LogicalAxisRules, PartitionSpec, Role, Tensor, Tree};

use crate::backend::{Backend, DeviceArray, Input, Model, Parameters};
use crate::error::{Error, ValidationError};
use crate::mesh::DeviceMesh;

/// A structure whose tensors are arrays on a device.
#[derive(Clone, Debug)]
pub struct OnDevice<T> {
    structure: T,
    arrays: Vec<DeviceArray>,
}

impl<T: Tree> OnDevice<T> {
    /// A structure with these arrays as its leaves, in order.
    pub fn new(structure: &T, arrays: Vec<DeviceArray>) -> Result<OnDevice<T>, Error> {
        let (paths, specs) = (structure.paths(), structure.specs());
        if arrays.len() != specs.len() {
            return Err(ValidationError::InputCount { expected: specs.len(), given: arrays.len() }.into());
        }
        for ((path, spec), array) in paths.iter().zip(&specs).zip(&arrays) {
            if array.spec() != spec {
                let (expected, given) = (spec.to_string(), array.spec().to_string());
                return Err(ValidationError::Input { name: path.clone(), expected, given }.into());
            }
        }
        Ok(OnDevice { structure: structure.shapes(), arrays })
    }

    /// Types and shapes, in their structure.
    pub fn structure(&self) -> &T {
        &self.structure
    }

    /// The arrays, in order of the leaves.
    pub fn arrays(&self) -> &[DeviceArray] {
        &self.arrays
    }

    /// Paths of the leaves with their arrays.
    pub fn named(&self) -> impl Iterator<Item = (String, &DeviceArray)> {
        self.structure.paths().into_iter().zip(&self.arrays)
    }

    /// Copies everything to the host.
    pub fn to_host(&self) -> Result<Vec<(String, Literal)>, Error> {
        self.named().map(|(path, array)| Ok((path, array.to_host()?))).collect()
    }
}

/// How a function lies on a mesh.
#[derive(Clone)]
pub struct JitSharding {
    /// The devices.
    pub mesh: Arc<DeviceMesh>,
    /// The mesh, and what axes of activations mean.
    pub rules: LogicalAxisRules,
    /// The sharding of each input and output.
    pub of: Rc<LeafSharding>,
}

/// The sharding of an input or output of a traced function.
pub type LeafSharding = dyn Fn(Role, &Leaf) -> Result<PartitionSpec, trace::Error>;

/// The literal of a leaf, by its path and type.
pub type Host<'a> = &'a mut dyn FnMut(&str, &Spec) -> Result<Arc<Literal>, Error>;

impl Backend {
    /// Sends a structure's tensors: `host` gives the literal of each path.
    pub fn place<T: Tree>(&self, structure: &T, host: Host<'_>) -> Result<OnDevice<T>, Error> {
        let leaves = structure.paths().into_iter().zip(structure.specs());
        let arrays = leaves.map(|(path, spec)| self.send(&host(&path, &spec)?)).collect::<Result<Vec<_>, Error>>()?;
        OnDevice::new(structure, arrays)
    }

    /// Sends a structure's tensors to a mesh: `sharding` says how each path lies on it.
    pub fn place_on<T: Tree>(
        &self,
        mesh: &Arc<DeviceMesh>,
        structure: &T,
        sharding: &mut dyn FnMut(&str, &Spec) -> Result<PartitionSpec, Error>,
        host: Host<'_>,
    ) -> Result<OnDevice<T>, Error> {
        let leaves = structure.paths().into_iter().zip(structure.specs());
        let arrays = leaves.map(|(path, spec)| self.send_on(mesh, &sharding(&path, &spec)?, &host(&path, &spec)?));
        OnDevice::new(structure, arrays.collect::<Result<Vec<_>, Error>>()?)
    }
}

/// A Rust function over tensors, compiled for a backend as it is called: once for each set of types and shapes.
///
/// What it captures is part of the program and must not change between calls.
pub struct Jit<I, O> {
    backend: Backend,
    name: String,
    donate: Donate,
    f: Box<dyn Fn(&I) -> O>,
    on: Option<JitSharding>,
    compiled: HashMap<Vec<Spec>, Compiled<O>>,
}

struct Compiled<O> {
    model: Model,
    results: O,
}

impl<I: Tree, O: Tree> Jit<I, O> {
    /// A function by that name; `donate` says which inputs give their memory to results.
    pub fn new(backend: &Backend, name: &str, donate: Donate, f: impl Fn(&I) -> O + 'static) -> Jit<I, O> {
        let f = Box::new(f);
        Jit { backend: backend.clone(), name: name.to_string(), donate, f, on: None, compiled: HashMap::new() }
    }

    /// The same function on the devices of a mesh; `None` is one device.
    #[must_use]
    pub fn on(mut self, on: Option<JitSharding>) -> Jit<I, O> {
        self.on = on;
        self
    }

    /// The program for inputs of these types and shapes, and the structure of its results.
    pub fn program(&self, inputs: &I) -> Result<(Arc<Program>, O), Error> {
        let _span = tracing::debug_span!("trace", function = self.name).entered();
        let f = |inputs: &I| (self.f)(inputs);
        let (function, results) = match &self.on {
            None => trace::trace(&self.name, inputs, self.donate, f)?,
            Some(on) => {
                let placed = trace::LeafShardings { rules: &on.rules, of: &*on.of };
                trace::trace_on(&placed, &self.name, inputs, self.donate, f)?
            }
        };
        Ok((Arc::new(Program::from_module(function.module)), results))
    }

    /// Traces and compiles for inputs of these types and shapes, unless that was done. Compiling goes on in a thread of
    /// its own; `None` if `stop` was set before it ended.
    pub fn prepare(&mut self, inputs: &I, stop: &AtomicBool) -> Result<Option<&Model>, Error> {
        let key = inputs.specs();
        if !self.compiled.contains_key(&key) {
            let (program, results) = self.program(inputs)?;
            let Some(model) = compile_unless(&self.backend, &program, self.on.as_ref(), stop)? else { return Ok(None) };
            self.compiled.insert(key.clone(), Compiled { model, results: results.shapes() });
        }
        Ok(self.compiled.get(&key).map(|compiled| &compiled.model))
    }

    /// Runs on these arrays. Those that are donated cannot be used afterwards.
    pub fn call(&mut self, inputs: &I, arrays: &[DeviceArray]) -> Result<OnDevice<O>, Error> {
        self.prepare(inputs, &AtomicBool::new(false))?;
        let Some(compiled) = self.compiled.get(&inputs.specs()) else {
            return Err(ValidationError::Other(format!("{} was not compiled", self.name)).into());
        };
        let donated = match self.donate {
            Donate::Nothing => 0,
            Donate::Leading(count) => count,
        };
        let inputs: Vec<Input> = arrays
            .iter()
            .enumerate()
            .map(|(n, array)| if n < donated { Input::Donate(array.clone()) } else { Input::Keep(array.clone()) })
            .collect();
        let results = compiled.model.run(&inputs)?;
        OnDevice::new(&compiled.results, results)
    }

    /// Sets of types and shapes it was compiled for.
    pub fn num_compiled(&self) -> usize {
        self.compiled.len()
    }
}

/// Compiles in a thread of its own; gives up waiting when `stop` is set. The compiler cannot be interrupted: its thread
/// then goes on and its result is kept in the cache if the process lives that long.
fn compile_unless(
    backend: &Backend,
    program: &Arc<Program>,
    on: Option<&JitSharding>,
    stop: &AtomicBool,
) -> Result<Option<Model>, Error> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let (theirs, program, mesh) = (backend.clone(), program.clone(), on.map(|on| on.mesh.clone()));
    let work = move || {
        let _ = sender.send(match &mesh {
            Some(mesh) => theirs.prepare_on(&program, mesh),
            None => theirs.prepare_model(&program, &Parameters::none()),
        });
    };
    let thread = std::thread::Builder::new().name("tpubridge-compile".into()).spawn(work);
    let thread = thread.map_err(|error| {
        let path = std::path::Path::new("compile");
        compile::CompileError::io("starting a thread", path, error)
    })?;
    loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(model) => {
                let _ = thread.join();
                return model.map(Some);
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(None),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                return Err(ValidationError::Other("the compiler's thread ended without a result".into()).into());
            }
        }
    }
}

/// Abstract tensors of these types and shapes.
pub fn abstract_of(specs: &[Spec]) -> Vec<Tensor> {
    specs.iter().cloned().map(Tensor::of).collect()
}
