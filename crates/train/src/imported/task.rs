//! An imported program as a task of the trainer: its state from the archive, its loss, what is measured.

use std::cell::RefCell;
use std::collections::BTreeMap;

use nn::{CrossEntropy, RematPolicy, mean_squared_error};
use tensor::DType;
use torch::{ApplyOptions, ProgramInputs, ProgramMode};
use trace::{Key, Tensor, Tree};

use super::arguments::{Given, shapes};
use super::{ArrayData, ImportedCarried, ImportedFrozen, ImportedModel, ImportedParams, ProgramLoss, StateRole};
use crate::config::{DataConfig, TrainConfig};
use crate::error::Error;
use crate::task::{GivenTensors, ModelTask};
use crate::trainer::Measures;

/// Targets with this value are ignored, as PyTorch's cross entropy does.
const IGNORE_INDEX: i32 = -100;

impl ImportedModel {
    /// The data of the file for this program.
    pub(crate) fn data(
        &self,
        config: &TrainConfig,
        beside: &std::path::Path,
        cache: &std::path::Path,
    ) -> Result<ArrayData, Error> {
        let batch = config.train.batch_size;
        let named = |names: [&str; 2]| names.map(str::to_string).to_vec();
        let mut data = match &config.data.source {
            DataConfig::Arrays { .. } => {
                let Some((datasets, names)) = config.arrays(beside)? else {
                    return Err(Error::new("the data are no arrays"));
                };
                let target = ["targets", "labels"].iter().find_map(|name| names.iter().position(|own| own == name));
                ArrayData { datasets, names, target, count: batch }
            }
            DataConfig::Shapes { .. } | DataConfig::Images { .. } => {
                let classes = self.classes().ok_or_else(|| {
                    Error::new("the result of the program does not tell how many classes there are")
                        .hint("set model.output to the result that has a class along its last axis")
                })?;
                let datasets = config.images(beside, self.channels()?, classes)?;
                ArrayData { datasets, names: named(["images", "labels"]), target: Some(1), count: batch }
            }
            DataConfig::Text { .. } | DataConfig::Tokens { .. } | DataConfig::Synthetic { .. } => {
                let of_result = self.classes().filter(|_| self.table.loss == ProgramLoss::CrossEntropy);
                let of_result = of_result.and_then(|classes| u32::try_from(classes).ok());
                let vocabulary = self.table.vocab_size.or(of_result).ok_or_else(|| {
                    Error::new("nothing says how many tokens the model knows").hint("set model.vocab_size")
                })?;
                let (datasets, sequence) = config.tokens(beside, vocabulary, cache)?;
                let names = named(["tokens", "targets"]);
                ArrayData { datasets, names, target: Some(1), count: batch * sequence }
            }
        };
        if let Some(target) = &self.table.target {
            let place = data.names.iter().position(|name| name == target);
            data.target = Some(place.ok_or_else(|| {
                Error::new(format!("model.target: the data has no array `{target}`"))
                    .hint(format!("it has {}", data.names.join(", ")))
            })?);
        }
        if self.table.loss != ProgramLoss::Output && data.target.is_none() {
            return Err(Error::new("nothing says what the result of the program is compared with")
                .hint(format!("set model.target to one of {}", data.names.join(", "))));
        }
        Ok(data)
    }

    /// The task, and whether the program can be run on batches of this data.
    pub(crate) fn task(
        &self,
        config: &TrainConfig,
        data: &ArrayData,
    ) -> Result<ModelTask<ImportedParams, ImportedCarried>, Error> {
        self.check(&config.run)?;
        let loss = TaskLoss {
            model: self.clone(),
            given: self.sources(&data.names, data.target)?,
            target: data.target,
            remat: config.run.remat.clone(),
        };
        let empty = self.empty()?;
        loss.rehearse(&empty, &shapes(&data.datasets.training.specs()))?;
        self.warn_of_mode();
        let (measured, model) = (loss.clone(), self.clone());
        let init = move |_: &Key| empty.map_leaves(|leaf| Tensor::zeros(leaf.dtype(), leaf.dims()));
        let task = ModelTask::new(
            config,
            init,
            move |params, carried, batch, key| loss.of(params, carried, batch, key),
            move |params, carried, batch| measured.measure(params, carried, batch),
            (data.count, None),
        );
        let given = move |_: &ImportedParams, _: &ImportedCarried| {
            let mut given = GivenTensors::default();
            for tensor in model.state()? {
                let (place, prefix) = match tensor.role {
                    StateRole::Trained => (&mut given.params, ""),
                    StateRole::Buffer => (&mut given.carried, "buffers."),
                    StateRole::FrozenParam => (&mut given.carried, "frozen.params."),
                    StateRole::FrozenBuffer => (&mut given.carried, "frozen.buffers."),
                    StateRole::Constant => (&mut given.carried, "frozen.constants."),
                };
                place.push((format!("{prefix}{}", tensor.name), model.value(&tensor)?));
            }
            Ok(given)
        };
        Ok(ModelTask { given: Some(Box::new(given)), ..task })
    }

    /// The state as zeros: its values are given.
    fn empty(&self) -> Result<(ImportedParams, ImportedCarried), Error> {
        let frozen = ImportedFrozen { params: BTreeMap::new(), buffers: BTreeMap::new(), constants: BTreeMap::new() };
        let mut carried = ImportedCarried { buffers: BTreeMap::new(), frozen };
        let mut params = BTreeMap::new();
        for tensor in self.state()? {
            let place = match tensor.role {
                StateRole::Trained => &mut params,
                StateRole::Buffer => &mut carried.buffers,
                StateRole::FrozenParam => &mut carried.frozen.params,
                StateRole::FrozenBuffer => &mut carried.frozen.buffers,
                StateRole::Constant => &mut carried.frozen.constants,
            };
            place.insert(tensor.name.to_string(), Tensor::of(tensor.spec));
        }
        if params.is_empty() {
            return Err(Error::new(format!("{} has no parameters that can be trained", self.path.display()))
                .hint("export a module whose parameters have requires_grad"));
        }
        Ok((params, carried))
    }
}

/// The loss of a program on a batch.
#[derive(Clone)]
struct TaskLoss {
    model: ImportedModel,
    given: BTreeMap<String, Given>,
    target: Option<usize>,
    remat: RematPolicy,
}

impl TaskLoss {
    /// Runs the program on shapes: an error of the translation comes before anything is compiled.
    fn rehearse(&self, (params, carried): &(ImportedParams, ImportedCarried), batch: &[Tensor]) -> Result<(), Error> {
        let failed = RefCell::new(None);
        let inputs = (params.clone(), carried.clone(), batch.to_vec());
        trace::shapes_of(&inputs, |(params, carried, batch)| {
            let key = Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
            if let Err(error) = self.run(params, carried, batch, Some(&key)) {
                failed.borrow_mut().get_or_insert(error);
            }
        })?;
        match failed.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// The chosen result, and what the program carries on.
    fn run(
        &self,
        params: &ImportedParams,
        carried: &ImportedCarried,
        batch: &[Tensor],
        key: Option<&Key>,
    ) -> Result<(Tensor, ImportedCarried), torch::Error> {
        let model = &self.model;
        let program = model.archive.program();
        let inputs = model.arguments(&self.given, batch)?;
        let symbols =
            program.bound(&inputs.iter().map(|(name, tensor)| (name.clone(), tensor.dims().to_vec())).collect())?;
        let joined = |a: &BTreeMap<String, Tensor>, b: &BTreeMap<String, Tensor>| {
            let mut all = a.clone();
            all.extend(b.clone());
            // A second name has the value of the first.
            let tied = model.tied.iter().filter_map(|(name, first)| Some((name.clone(), all.get(first)?.clone())));
            let tied: Vec<_> = tied.collect();
            all.extend(tied);
            all
        };
        let given = ProgramInputs {
            params: joined(params, &carried.frozen.params),
            buffers: joined(&carried.buffers, &carried.frozen.buffers),
            constants: carried.frozen.constants.clone(),
            inputs,
        };
        let mode = key.map_or(ProgramMode::Evaluation, |key| ProgramMode::Training(key.clone()));
        let options = ApplyOptions { mode, loops: model.loops.clone(), remat: self.remat.clone() };
        let mut results = program.apply_with(&given, &symbols, &options)?;
        let mut next = carried.clone();
        for (name, value) in results.mutated {
            if let Some(buffer) = next.buffers.get_mut(&name) {
                *buffer = value.stop_gradient();
            }
        }
        let result = match self.model.result < results.outputs.len() {
            true => results.outputs.swap_remove(self.model.result),
            false => trace::refuse("the result that the loss is of is None"),
        };
        Ok((result, next))
    }

    /// The same where errors cannot be returned.
    fn run_or_refuse(
        &self,
        params: &ImportedParams,
        carried: &ImportedCarried,
        batch: &[Tensor],
        key: Option<&Key>,
    ) -> (Tensor, ImportedCarried) {
        match self.run(params, carried, batch, key) {
            Ok(results) => results,
            Err(error) => trace::refuse(format!("{error}; {}", error.remedy())),
        }
    }

    fn target<'a>(&self, batch: &'a [Tensor]) -> &'a Tensor {
        match self.target.and_then(|place| batch.get(place)) {
            Some(target) => target,
            None => trace::refuse("the batch has no target"),
        }
    }

    fn of(
        &self,
        params: &ImportedParams,
        carried: &ImportedCarried,
        batch: &[Tensor],
        key: Option<&Key>,
    ) -> (Tensor, ImportedCarried) {
        let (result, next) = self.run_or_refuse(params, carried, batch, key);
        let loss = match self.model.table.loss {
            ProgramLoss::CrossEntropy => {
                let target = integers(self.target(batch));
                if result.rank() != target.rank() + 1 {
                    trace::refuse(format!(
                        "cross_entropy of logits {} and targets {}: logits have one axis more, that of the classes",
                        result.spec(),
                        target.spec()
                    ));
                }
                let how = CrossEntropy { ignore_index: Some(IGNORE_INDEX), ..CrossEntropy::default() };
                how.mean(&result, &target)
            }
            ProgramLoss::Mse => {
                let target = self.target(batch);
                if result.dims() != target.dims() {
                    trace::refuse(format!("mse of {} and {}: shapes differ", result.spec(), target.spec()));
                }
                mean_squared_error(&result, target)
            }
            ProgramLoss::Output => {
                if result.num_elements() != 1 || !result.dtype().is_float() {
                    trace::refuse(format!("model.output is {}, and a loss is one float", result.spec()));
                }
                result.reshape(&[])
            }
        };
        (loss, next)
    }

    fn measure(&self, params: &ImportedParams, carried: &ImportedCarried, batch: &[Tensor]) -> Measures {
        if self.model.table.loss != ProgramLoss::CrossEntropy || self.target(batch).rank() != 1 {
            return Measures::new();
        }
        let (logits, _) = self.run_or_refuse(params, carried, batch, None);
        let is_right = logits.argmax(-1).equals(&integers(self.target(batch))).cast(DType::F32);
        Measures::from([("accuracy".to_string(), is_right.mean_all())])
    }
}

/// Labels as `i32`: files often have them wider.
fn integers(labels: &Tensor) -> Tensor {
    match labels.dtype() {
        DType::I32 => labels.clone(),
        _ => labels.cast(DType::I32),
    }
}
