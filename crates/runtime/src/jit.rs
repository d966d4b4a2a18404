//! Traced Rust functions on a backend: compiled once for each set of shapes, called with one structure of host or device values.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compile::Program;
use tensor::Spec;
use trace::{Donate, Leaf, LogicalAxisRules, PartitionSpec, Role, Tensor, Tree};

use crate::backend::{Backend, DeviceArray, Input, LoadedProgram, Parameters};
use crate::error::{Error, ValidationError};
use crate::mesh::DeviceMesh;
use crate::values::{TreeArrays, no_value};

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

impl Backend {
    /// A Rust function over tensors, compiled as it is called: once for each set of types and shapes.
    ///
    /// ```
    /// use runtime::config::{Config, Mode, Target};
    /// use runtime::{Backend, ReadTensor};
    /// use trace::Tensor;
    ///
    /// let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu))?;
    /// let mut matmul = backend.jit(|(w, x): &(Tensor, Tensor)| w.matmul(x));
    /// let w = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = matmul.call((w, Tensor::from([1.0f32, 1.0])))?;
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), runtime::Error>(())
    /// ```
    pub fn jit<I: Tree, O: Tree>(&self, f: impl Fn(&I) -> O + 'static) -> Jit<I, O> {
        Jit::new(self, "jit", Donate::Nothing, f)
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
    program: LoadedProgram,
    results: O,
}

impl<I: Tree, O: Tree> Jit<I, O> {
    /// A function by that name; `donate` says which inputs give their memory to results.
    pub fn new(backend: &Backend, name: &str, donate: Donate, f: impl Fn(&I) -> O + 'static) -> Jit<I, O> {
        let f = Box::new(f);
        Jit { backend: backend.clone(), name: name.to_string(), donate, f, on: None, compiled: HashMap::new() }
    }

    /// The same function, whose first input gives its memory to the first result: the state of a training step. The inputs
    /// are a tuple, or a structure whose first field is that state.
    #[must_use]
    pub fn donate_first(mut self) -> Jit<I, O> {
        self.donate = Donate::First;
        self
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
        let traced = trace::for_target(self.backend.compile_target(), || match &self.on {
            None => trace::trace(&self.name, inputs, self.donate, f),
            Some(on) => {
                let placed = trace::LeafShardings { rules: &on.rules, of: &*on.of };
                trace::trace_on(&placed, &self.name, inputs, self.donate, f)
            }
        });
        let (function, results) = traced?;
        Ok((Arc::new(Program::from_module(function.module)), results))
    }

    /// Traces and compiles for inputs of these types and shapes, unless that was done. Compiling goes on in a thread of
    /// its own; `None` if `stop` was set before it ended.
    pub fn prepare(&mut self, inputs: &I, stop: &AtomicBool) -> Result<Option<&LoadedProgram>, Error> {
        let key = inputs.specs();
        if !self.compiled.contains_key(&key) {
            let (program, results) = self.program(inputs)?;
            let Some(model) = compile_unless(&self.backend, &program, self.on.as_ref(), stop)? else { return Ok(None) };
            self.compiled.insert(key.clone(), Compiled { program: model, results: results.shapes() });
        }
        Ok(self.compiled.get(&key).map(|compiled| &compiled.program))
    }

    /// Runs on a structure of values. Tensors on the host are sent first; those that are donated cannot be used afterwards.
    /// The results are on the device.
    pub fn call(&mut self, inputs: impl Borrow<I>) -> Result<O, Error> {
        let arrays = self.send(inputs.borrow())?;
        self.prepare(inputs.borrow(), &AtomicBool::new(false))?;
        let Some(compiled) = self.compiled.get(&inputs.borrow().specs()) else {
            return Err(ValidationError::Other(format!("{} was not compiled", self.name)).into());
        };
        let donated = self.donate.num_leaves(&inputs.borrow().paths());
        // Arrays that are donated may be the last handles of their memory.
        drop(inputs);
        let inputs: Vec<Input> = arrays
            .into_iter()
            .enumerate()
            .map(|(n, array)| if n < donated { Input::Donate(array) } else { Input::Keep(array) })
            .collect();
        let results = compiled.program.run(&inputs)?;
        compiled.results.with_arrays(results)
    }

    /// The arrays of a structure's leaves.
    fn send(&self, inputs: &I) -> Result<Vec<DeviceArray>, Error> {
        let leaves = inputs.paths().into_iter().zip(inputs.leaves());
        let arrays = leaves.map(|(path, leaf)| match (leaf.device_value::<DeviceArray>(), leaf.host_value()) {
            (Some(array), _) => Ok(array.clone()),
            (None, Some(literal)) => match &self.on {
                None => self.backend.send(literal),
                Some(on) => {
                    let sharding = (on.of)(Role::Input, &Leaf { path, spec: leaf.spec().clone() })?;
                    self.backend.send_on(&on.mesh, &sharding, literal)
                }
            },
            (None, None) => Err(no_value(&path, leaf.spec())),
        });
        arrays.collect()
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
) -> Result<Option<LoadedProgram>, Error> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let (theirs, program, mesh) = (backend.clone(), program.clone(), on.map(|on| on.mesh.clone()));
    let work = move || {
        let _ = sender.send(match &mesh {
            Some(mesh) => theirs.prepare_on(&program, mesh),
            None => theirs.prepare_program(&program, &Parameters::none()),
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

/// Tensors known by these types and shapes only.
pub fn shapes_of_specs(specs: &[Spec]) -> Vec<Tensor> {
    specs.iter().cloned().map(Tensor::of).collect()
}
