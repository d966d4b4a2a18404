//! A model that runs with changing sizes: one compiled program for each bucket, inputs padded, results cut back.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compile::optimize::Level;
use compile::{CacheUse, Program};
use serde::Serialize;
use tensor::{DType, Literal, Spec};

use super::padding;
use super::sizes::{BucketSource, Bucketing, Cuts, Form};
use crate::backend::{Backend, DeviceArray, LoadedProgram, Parameters, first_not_finite};
use crate::compiler::{WarmUp, WarmUpStep};
use crate::error::{Error, ValidationError};
use crate::signature::{Port, Signature};

/// Buckets that a warm-up may compile: more is a mistake in the choice of buckets.
const MAX_BUCKETS: usize = 1024;

/// A model whose sizes vary, compiled once for each bucket. Clones are the same model.
///
/// Padding is right for programs in which rows do not see each other, or which are told what is padding: by a mask among
/// their inputs, or by [`length_argument`](super::Dimension::length_argument). A mean over padded rows is wrong.
#[derive(Clone, Debug)]
pub struct BucketedProgram {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    backend: Backend,
    source: BucketSource,
    bucketing: Bucketing,
    cuts: Cuts,
    /// Arguments at the smallest bucket.
    arguments: Vec<Port>,
    roles: Vec<Role>,
    /// On the device once, for all buckets.
    parameters: Vec<Option<DeviceArray>>,
    /// Those of them that every bucket's program takes in bf16 where the source has f32.
    narrow: Vec<usize>,
    slots: Mutex<BTreeMap<Vec<usize>, Arc<Slot>>>,
    refused: AtomicU64,
}

/// What goes to an argument of the program.
#[derive(Clone, Debug)]
enum Role {
    Parameter,
    /// The next input, padded with this element.
    Input {
        fill: Vec<u8>,
    },
    /// The size of this dimension.
    Length(usize),
}

/// One bucket.
#[derive(Debug, Default)]
struct Slot {
    ready: Mutex<Option<Ready>>,
    runs: AtomicU64,
    given_elements: AtomicU64,
    padded_elements: AtomicU64,
}

#[derive(Clone, Debug)]
struct Ready {
    model: LoadedProgram,
    seconds: f64,
    because: String,
}

/// Results of a run, still on the device and with their padding.
#[derive(Debug)]
pub struct Padded {
    /// Results, each of its bucket's sizes.
    pub arrays: Vec<DeviceArray>,
    /// The bucket: one size for each dimension.
    pub bucket: Vec<usize>,
    /// The sizes that were asked for.
    pub sizes: Vec<usize>,
    cuts: Vec<Vec<usize>>,
}

impl Padded {
    /// Copies the results to the host, without their padding.
    pub fn to_host(&self) -> Result<Vec<Literal>, Error> {
        let results = self.arrays.iter().zip(&self.cuts).map(|(array, dims)| {
            let whole = array.to_host()?;
            if whole.dims() == dims {
                return Ok(whole);
            }
            let message = || ValidationError::Buckets(format!("{} has no part of sizes {dims:?}", array.spec()));
            padding::cut(&whole, dims).ok_or_else(|| message().into())
        });
        results.collect()
    }
}

/// What the buckets of a model did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketReport {
    /// Names of the dimensions that vary.
    pub dimensions: Vec<String>,
    /// Buckets that were compiled, smallest first.
    pub buckets: Vec<BucketUse>,
    /// Calls refused because no bucket holds their sizes.
    pub refused: u64,
}

/// What one bucket did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketUse {
    /// One size for each dimension.
    pub sizes: Vec<usize>,
    /// Calls that ran in it.
    pub runs: u64,
    /// Seconds it took to have its program: compiled, or loaded from a cache.
    pub compile_seconds: f64,
    /// What its program was compiled for.
    pub because: String,
    /// Elements of inputs that were given.
    pub given_elements: u64,
    /// Elements of inputs that the device worked on.
    pub padded_elements: u64,
}

impl BucketUse {
    /// Share of the elements the device worked on that were padding.
    pub fn waste_percent(&self) -> f64 {
        match self.padded_elements {
            0 => 0.0,
            padded => 100.0 * (padded - self.given_elements.min(padded)) as f64 / padded as f64,
        }
    }
}

impl BucketReport {
    /// Calls that ran.
    pub fn runs(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.runs).sum()
    }

    /// Share of all elements the device worked on that were padding.
    pub fn waste_percent(&self) -> f64 {
        let sum = |of: fn(&BucketUse) -> u64| self.buckets.iter().map(of).sum();
        BucketUse {
            sizes: Vec::new(),
            runs: 0,
            compile_seconds: 0.0,
            because: String::new(),
            given_elements: sum(|bucket| bucket.given_elements),
            padded_elements: sum(|bucket| bucket.padded_elements),
        }
        .waste_percent()
    }
}

impl fmt::Display for BucketReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.dimensions.join(" × ");
        writeln!(f, "{head:<16} {:>10} {:>8} {:>10}  compiled for", "runs", "waste", "compile")?;
        for bucket in &self.buckets {
            let sizes: Vec<String> = bucket.sizes.iter().map(usize::to_string).collect();
            let (sizes, waste) = (sizes.join(" × "), bucket.waste_percent());
            let (runs, seconds) = (bucket.runs, bucket.compile_seconds);
            writeln!(f, "{sizes:<16} {runs:>10} {waste:>6.1} % {seconds:>8.3} s  {}", bucket.because)?;
        }
        write!(f, "{:<16} {:>10} {:>6.1} %", "all", self.runs(), self.waste_percent())?;
        if self.refused > 0 {
            write!(f, "\n{} call(s) refused: larger than every bucket", self.refused)?;
        }
        Ok(())
    }
}

impl Backend {
    /// Prepares a model whose sizes vary. Nothing is compiled until a bucket is used or
    /// [`warm_up`](BucketedProgram::warm_up) asks for all of them; parameters are sent once. Each bucket's program is
    /// rewritten as [`prepare_program`](Backend::prepare_program) does; which parameters are in bf16 is decided by the
    /// smallest.
    pub fn prepare_bucketed(
        &self,
        source: impl Into<BucketSource>,
        parameters: &Parameters,
        bucketing: Bucketing,
    ) -> Result<BucketedProgram, Error> {
        let source = source.into();
        let Form { smallest, signature, cuts } = Form::read(&source, &bucketing)?;
        let taken = match self.config().optimization {
            Level::None => signature.clone(),
            level => {
                let bound = parameters.positions(&signature)?;
                let rewritten = self.rewrite(&smallest, level, |optimizer| optimizer.parameters(bound))?;
                Signature::read(rewritten.module())?
            }
        };
        let ports = signature.arguments.iter().zip(&taken.arguments).enumerate();
        let narrow = ports.filter(|(_, (from, to))| from.spec != to.spec).map(|(argument, _)| argument).collect();
        let parameters = self.send_parameters(smallest.name(), parameters, &signature, &taken)?;
        let roles = roles(&bucketing, &signature.arguments, &parameters)?;
        Ok(BucketedProgram {
            inner: Arc::new(Inner {
                backend: self.clone(),
                source,
                bucketing,
                cuts,
                arguments: signature.arguments,
                roles,
                parameters,
                narrow,
                slots: Mutex::default(),
                refused: AtomicU64::new(0),
            }),
        })
    }
}

fn roles(
    bucketing: &Bucketing,
    arguments: &[Port],
    parameters: &[Option<DeviceArray>],
) -> Result<Vec<Role>, ValidationError> {
    let role = |(index, port): (usize, &Port)| {
        let length = bucketing.dimensions.iter().position(|dimension| dimension.length == Some(index));
        let varies = bucketing.dimensions.iter().any(|d| d.arguments.iter().any(|&(argument, _)| argument == index));
        if parameters.get(index).is_some_and(Option::is_some) {
            if length.is_some() || varies {
                let message = format!("argument {index} is a parameter, whose size cannot vary");
                return Err(ValidationError::Buckets(message));
            }
            return Ok(Role::Parameter);
        }
        if let Some(dimension) = length {
            return Ok(Role::Length(dimension));
        }
        let number = bucketing.fill.get(&index).copied().unwrap_or(0.0);
        let fill = padding::element(port.spec.dtype, number);
        let message = || ValidationError::Buckets(format!("{} has no element for {number}", port.spec));
        Ok(Role::Input { fill: fill.ok_or_else(message)? })
    };
    arguments.iter().enumerate().map(role).collect()
}

impl BucketedProgram {
    /// Runs the model on inputs of any sizes that a bucket holds, and gives results of those sizes.
    ///
    /// Inputs are the program's arguments in order, without parameters and lengths.
    pub fn run(&self, inputs: &[Arc<Literal>]) -> Result<Vec<Literal>, Error> {
        self.start(inputs)?.to_host()
    }

    /// Starts the model; results stay on the device, padded, until they are asked for.
    pub fn start(&self, inputs: &[Arc<Literal>]) -> Result<Padded, Error> {
        let inner = &*self.inner;
        let by_argument = self.by_argument(inputs)?;
        let sizes = self.sizes(&by_argument)?;
        let bucket = self.bucket(&sizes)?;
        let slot = self.slot(&bucket);
        let model = self.model(&slot, &bucket, &|| format!("a call with {}", self.describe(&sizes)))?;
        let (mut given, mut padded) = (0, 0);
        let mut arrays = Vec::with_capacity(inputs.len());
        for (index, (role, input)) in inner.roles.iter().zip(&by_argument).enumerate() {
            let literal = match (role, input) {
                (Role::Length(dimension), _) => {
                    let length = i32::try_from(sizes[*dimension]).unwrap_or(i32::MAX).to_le_bytes().to_vec();
                    let message = || ValidationError::Buckets("a length is one i32".into());
                    Arc::new(Literal::new(DType::I32, [], length).ok_or_else(message)?)
                }
                (Role::Input { fill }, Some(literal)) => {
                    let dims = self.padded_dims(index, &bucket);
                    // What was given is looked at, not what it is padded with.
                    if inner.backend.config().strict_validation
                        && let Some(element) = first_not_finite(literal)
                    {
                        let name = inner.arguments[index].name.clone();
                        return Err(ValidationError::NotFinite { name, index: element }.into());
                    }
                    given += literal.num_elements() as u64;
                    let grown = if literal.dims() == dims {
                        Arc::clone(literal)
                    } else {
                        let given = Spec::new(literal.dtype(), literal.dims());
                        let message = || ValidationError::Buckets(format!("{given} cannot be padded to {dims:?}"));
                        Arc::new(padding::pad(literal, &dims, fill).ok_or_else(message)?)
                    };
                    padded += grown.num_elements() as u64;
                    grown
                }
                _ => continue,
            };
            arrays.push(inner.backend.send(&literal)?);
        }
        let results = model.run(&arrays)?;
        slot.runs.fetch_add(1, Ordering::Relaxed);
        slot.given_elements.fetch_add(given, Ordering::Relaxed);
        slot.padded_elements.fetch_add(padded, Ordering::Relaxed);
        let cuts = results.iter().enumerate().map(|(index, array)| {
            let mut dims = array.spec().dims.clone();
            for ((_, dim), dimension) in inner.cuts.iter().filter(|((result, _), _)| *result == index) {
                dims[*dim] = sizes[*dimension];
            }
            dims
        });
        Ok(Padded { cuts: cuts.collect(), arrays: results, bucket, sizes })
    }

    /// Compiles the program of every bucket ahead, on several threads.
    pub fn warm_up(&self, threads: NonZeroUsize, progress: &(dyn Fn(WarmUpStep<'_>) + Sync)) -> Result<WarmUp, Error> {
        let inner = &*self.inner;
        let mut buckets: Vec<Vec<usize>> = vec![Vec::new()];
        for dimension in &inner.bucketing.dimensions {
            let longer = |bucket: &Vec<usize>| {
                let sizes = dimension.buckets.sizes().iter();
                sizes.map(|&size| bucket.iter().copied().chain([size]).collect()).collect::<Vec<Vec<usize>>>()
            };
            buckets = buckets.iter().flat_map(longer).collect();
            if buckets.len() > MAX_BUCKETS {
                let message = format!("there are more than {MAX_BUCKETS} combinations of buckets");
                return Err(ValidationError::Buckets(message).into());
            }
        }
        let programs = buckets.iter().map(|bucket| self.program(bucket));
        let programs = programs.collect::<Result<Vec<Arc<Program>>, Error>>()?;
        let report = inner.backend.compiler().warm_up(&programs, threads, progress);
        let is_failed = |n: usize| report.failed.iter().any(|(failed, _)| *failed == n);
        for (n, (bucket, program)) in buckets.iter().zip(programs).enumerate() {
            if !is_failed(n) {
                let slot = self.slot(bucket);
                let mut ready = lock(&slot.ready);
                if ready.is_none() {
                    *ready = Some(self.prepare(&program, "a warm-up".into())?);
                }
            }
        }
        Ok(report)
    }

    /// How often each bucket ran, what was compiled for what, and how much was padding.
    pub fn report(&self) -> BucketReport {
        let inner = &*self.inner;
        let used = |(sizes, slot): (&Vec<usize>, &Arc<Slot>)| {
            let ready = lock(&slot.ready).clone()?;
            Some(BucketUse {
                sizes: sizes.clone(),
                runs: slot.runs.load(Ordering::Relaxed),
                compile_seconds: ready.seconds,
                because: ready.because,
                given_elements: slot.given_elements.load(Ordering::Relaxed),
                padded_elements: slot.padded_elements.load(Ordering::Relaxed),
            })
        };
        BucketReport {
            dimensions: inner.bucketing.dimensions.iter().map(|dimension| dimension.name.clone()).collect(),
            buckets: lock(&inner.slots).iter().filter_map(used).collect(),
            refused: inner.refused.load(Ordering::Relaxed),
        }
    }

    /// The input of each argument that is one.
    fn by_argument<'a>(&self, inputs: &'a [Arc<Literal>]) -> Result<Vec<Option<&'a Arc<Literal>>>, ValidationError> {
        let roles = &self.inner.roles;
        let expected = roles.iter().filter(|role| matches!(role, Role::Input { .. })).count();
        if inputs.len() != expected {
            return Err(ValidationError::InputCount { expected, given: inputs.len() });
        }
        let mut inputs = inputs.iter();
        let input = |role: &Role| if matches!(role, Role::Input { .. }) { inputs.next() } else { None };
        Ok(roles.iter().map(input).collect())
    }

    /// The sizes of the dimensions, on which all inputs agree.
    fn sizes(&self, inputs: &[Option<&Arc<Literal>>]) -> Result<Vec<usize>, ValidationError> {
        let inner = &*self.inner;
        let mut sizes = vec![None; inner.bucketing.dimensions.len()];
        for (index, (port, literal)) in inner.arguments.iter().zip(inputs).enumerate() {
            let Some(literal) = literal else { continue };
            let mut expected = port.spec.dims.clone();
            if literal.dtype() == port.spec.dtype && literal.dims().len() == expected.len() {
                for (n, dimension) in inner.bucketing.dimensions.iter().enumerate() {
                    for &(_, dim) in dimension.arguments.iter().filter(|(argument, _)| *argument == index) {
                        expected[dim] = *sizes[n].get_or_insert(literal.dims()[dim]);
                    }
                }
                if literal.dims() == expected {
                    continue;
                }
            }
            let given = Spec::new(literal.dtype(), literal.dims()).to_string();
            let expected = Spec::new(port.spec.dtype, expected).to_string();
            return Err(ValidationError::Input { name: port.name.clone(), expected, given });
        }
        Ok(sizes.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn bucket(&self, sizes: &[usize]) -> Result<Vec<usize>, ValidationError> {
        let dimensions = &self.inner.bucketing.dimensions;
        let holding = dimensions.iter().zip(sizes).map(|(dimension, &size)| {
            dimension.buckets.holding(size).ok_or_else(|| {
                self.inner.refused.fetch_add(1, Ordering::Relaxed);
                let largest = dimension.buckets.sizes().last().copied().unwrap_or_default();
                ValidationError::BeyondBuckets { dimension: dimension.name.clone(), size, largest }
            })
        });
        holding.collect()
    }

    fn slot(&self, bucket: &[usize]) -> Arc<Slot> {
        let mut slots = lock(&self.inner.slots);
        if let Some(slot) = slots.get(bucket) {
            return Arc::clone(slot);
        }
        Arc::clone(slots.entry(bucket.to_vec()).or_default())
    }

    /// The model of a bucket. Callers that come while it is compiled wait for it, so it is compiled once.
    fn model(&self, slot: &Slot, bucket: &[usize], because: &dyn Fn() -> String) -> Result<LoadedProgram, Error> {
        let mut ready = lock(&slot.ready);
        if let Some(ready) = &*ready {
            return Ok(ready.model.clone());
        }
        let program = self.program(bucket)?;
        let made = self.prepare(&program, because())?;
        let model = made.model.clone();
        *ready = Some(made);
        Ok(model)
    }

    /// The program of a bucket, rewritten with its sizes known.
    fn program(&self, bucket: &[usize]) -> Result<Arc<Program>, Error> {
        let inner = &*self.inner;
        let program = inner.source.program(&inner.bucketing, bucket)?;
        match inner.backend.config().optimization {
            Level::None => Ok(program),
            level => {
                let narrow = inner.narrow.clone();
                inner.backend.rewrite(&program, level, |optimizer| optimizer.narrow_parameters(narrow))
            }
        }
    }

    fn prepare(&self, program: &Arc<Program>, because: String) -> Result<Ready, Error> {
        let inner = &*self.inner;
        let executable = inner.backend.compiler().compile(program, &[], CacheUse::ReadWrite)?;
        if executable.num_devices() != 1 {
            let present = inner.backend.devices().len();
            return Err(ValidationError::DeviceCount { needed: executable.num_devices(), present }.into());
        }
        let arguments = &executable.signature().arguments;
        let parameters_fit = arguments.len() == inner.parameters.len()
            && arguments
                .iter()
                .zip(&inner.parameters)
                .all(|(port, p)| p.as_ref().is_none_or(|p| *p.spec() == port.spec));
        if !parameters_fit {
            let message = "a bucket's program takes other parameters than the smallest one's".into();
            return Err(ValidationError::Buckets(message).into());
        }
        let seconds = executable.compile_seconds();
        Ok(Ready {
            model: inner.backend.model_of(executable, inner.parameters.clone(), &inner.arguments),
            seconds,
            because,
        })
    }

    fn padded_dims(&self, argument: usize, bucket: &[usize]) -> Vec<usize> {
        let mut dims = self.inner.arguments[argument].spec.dims.clone();
        for (dimension, &size) in self.inner.bucketing.dimensions.iter().zip(bucket) {
            for &(_, dim) in dimension.arguments.iter().filter(|(index, _)| *index == argument) {
                dims[dim] = size;
            }
        }
        dims
    }

    fn describe(&self, sizes: &[usize]) -> String {
        let dimensions = self.inner.bucketing.dimensions.iter();
        let named: Vec<String> = dimensions.zip(sizes).map(|(d, size)| format!("{} = {size}", d.name)).collect();
        named.join(", ")
    }
}

/// Counters and models stay meaningful after a panic elsewhere, so a poisoned lock is entered.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
