//! Tensors with values: arrays of a device in structures, and their way to the host.

use std::sync::Arc;

use compile::Program;
use tensor::{Element, Literal, Spec};
use trace::{PartitionSpec, Tensor, Tree};

use crate::backend::{Backend, DeviceArray, LoadedProgram, Parameters};
use crate::error::{Error, ValidationError};
use crate::mesh::DeviceMesh;

impl From<DeviceArray> for Tensor {
    fn from(array: DeviceArray) -> Tensor {
        Tensor::on_device(array.spec().clone(), array)
    }
}

impl Backend {
    /// Compiles a program without parameters, ready to be called.
    pub fn load(&self, program: Program) -> Result<LoadedProgram, Error> {
        self.prepare_program(&Arc::new(program), &Parameters::none())
    }
}

impl LoadedProgram {
    /// Runs on tensors with values, one for each input; those on the host are sent first. The results are on the device.
    pub fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let arrays = inputs.iter().enumerate().map(|(n, input)| match (input.device_value(), input.host_value()) {
            (Some(array), _) => Ok(DeviceArray::clone(array)),
            (None, Some(literal)) => self.backend().send(literal),
            (None, None) => Err(no_value(&n.to_string(), input.spec())),
        });
        let arrays = arrays.collect::<Result<Vec<_>, Error>>()?;
        Ok(self.run(&arrays)?.into_iter().map(Tensor::from).collect())
    }
}

/// Reads tensors that have a value.
pub trait ReadTensor {
    /// Copies the value to the host, after waiting for it.
    fn to_host(&self) -> Result<Literal, Error>;

    /// All elements in row-major order.
    fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        Ok(self.to_host()?.to_vec()?)
    }

    /// The value of a tensor of one element.
    fn item<T: Element>(&self) -> Result<T, Error> {
        Ok(self.to_host()?.item()?)
    }
}

impl ReadTensor for Tensor {
    fn to_host(&self) -> Result<Literal, Error> {
        match (self.device_value::<DeviceArray>(), self.host_value()) {
            (Some(array), _) => array.to_host(),
            (None, Some(literal)) => Ok(Literal::clone(literal)),
            (None, None) => Err(no_value("the tensor", self.spec())),
        }
    }
}

/// Structures whose tensors are arrays on a device.
pub trait TreeArrays: Tree {
    /// Paths of the leaves with their arrays; an error if one is not on a device.
    fn arrays(&self) -> Result<Vec<(String, DeviceArray)>, Error>;

    /// The same structure with these arrays as its leaves, in order.
    fn with_arrays(&self, arrays: Vec<DeviceArray>) -> Result<Self, Error>;

    /// Copies all leaves to the host: their paths with their values.
    fn to_literals(&self) -> Result<Vec<(String, Literal)>, Error>;
}

impl<T: Tree> TreeArrays for T {
    fn arrays(&self) -> Result<Vec<(String, DeviceArray)>, Error> {
        let leaves = self.paths().into_iter().zip(self.leaves());
        let arrays = leaves.map(|(path, leaf)| match leaf.device_value::<DeviceArray>() {
            Some(array) => Ok((path, array.clone())),
            None => Err(ValidationError::NoValue { name: path, spec: leaf.spec().clone() }.into()),
        });
        arrays.collect()
    }

    fn with_arrays(&self, arrays: Vec<DeviceArray>) -> Result<T, Error> {
        let (paths, specs) = (self.paths(), self.specs());
        if arrays.len() != specs.len() {
            return Err(ValidationError::InputCount { expected: specs.len(), given: arrays.len() }.into());
        }
        for ((path, spec), array) in paths.iter().zip(&specs).zip(&arrays) {
            if array.spec() != spec {
                let (expected, given) = (spec.to_string(), array.spec().to_string());
                return Err(ValidationError::Input { name: path.clone(), expected, given }.into());
            }
        }
        Ok(self.with_leaves(arrays.into_iter().map(Tensor::from)))
    }

    fn to_literals(&self) -> Result<Vec<(String, Literal)>, Error> {
        self.paths().into_iter().zip(self.leaves()).map(|(path, leaf)| Ok((path, leaf.to_host()?))).collect()
    }
}

pub(crate) fn no_value(name: &str, spec: &Spec) -> Error {
    ValidationError::NoValue { name: name.to_string(), spec: spec.clone() }.into()
}

/// The value of a leaf, by its path and type.
pub type LeafValue<'a> = &'a mut dyn FnMut(&str, &Spec) -> Result<Arc<Literal>, Error>;

impl Backend {
    /// Sends a structure's tensors: `value` gives that of each path.
    pub fn place<T: Tree>(&self, structure: &T, value: LeafValue<'_>) -> Result<T, Error> {
        let leaves = structure.paths().into_iter().zip(structure.specs());
        let arrays = leaves.map(|(path, spec)| self.send(&value(&path, &spec)?)).collect::<Result<Vec<_>, Error>>()?;
        structure.with_arrays(arrays)
    }

    /// Sends a structure's tensors to a mesh: `sharding` says how each path lies on it.
    pub fn place_on<T: Tree>(
        &self,
        mesh: &Arc<DeviceMesh>,
        structure: &T,
        sharding: &mut dyn FnMut(&str, &Spec) -> Result<PartitionSpec, Error>,
        value: LeafValue<'_>,
    ) -> Result<T, Error> {
        let leaves = structure.paths().into_iter().zip(structure.specs());
        let arrays = leaves.map(|(path, spec)| self.send_on(mesh, &sharding(&path, &spec)?, &value(&path, &spec)?));
        structure.with_arrays(arrays.collect::<Result<Vec<_>, Error>>()?)
    }
}
