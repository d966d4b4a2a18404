//! What a program takes and gives: types, shapes and names of its arguments and results.

use hlo::attr::{ALIAS, DONOR};
use hlo::sdy::SdyAttr;
use hlo::{Attr, Module, Type};
use tensor::Spec;
use trace::PartitionSpec;

use crate::error::ValidationError;

/// Type and shape of a value of a program, if its size is known.
fn spec_of(ty: &Type) -> Option<Spec> {
    let tensor = ty.as_tensor()?;
    let dims = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>()?;
    // A shape whose bytes cannot be counted cannot be held either.
    let dtype = tensor.element.plain()?;
    dims.iter().try_fold(dtype.size_bytes(), |bytes, &size| bytes.checked_mul(size))?;
    Some(Spec { dtype, dims })
}

/// The sharding that attributes of an argument or result state in Shardy's words, with whole axes of the mesh.
fn sharding_of(attrs: &hlo::Attrs) -> Option<PartitionSpec> {
    let Some(Attr::Sdy(attr)) = attrs.get("sdy.sharding") else { return None };
    let SdyAttr::Sharding(sharding) = &**attr else { return None };
    let dims = sharding.dims.iter().map(|dim| {
        let names = dim.axes.iter().map(|axis| axis.sub_axis.is_none().then(|| axis.name.as_str().into()));
        Some(Some(names.collect::<Option<Vec<_>>>()?))
    });
    Some(PartitionSpec { dims: dims.collect::<Option<Vec<_>>>()? })
}

/// An argument or result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name the program gives it, else its position.
    pub name: String,
    /// Type and shape.
    pub spec: Spec,
    /// Whether the program puts a result into the memory of this argument, if it is donated.
    pub is_taken: bool,
    /// How it lies on the program's mesh; `None` for programs of one device, and where the compiler decides.
    pub sharding: Option<PartitionSpec>,
}

/// What a program takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Arguments.
    pub arguments: Vec<Port>,
    /// Results.
    pub results: Vec<Port>,
}

impl Signature {
    /// Reads the entry function. Sizes must be known and types plain.
    pub fn read(module: &Module) -> Result<Signature, ValidationError> {
        let entry = module.entry().ok_or_else(|| ValidationError::Other("the program has no entry function".into()))?;
        let ports = |types: &[Type], attrs: &[hlo::Attrs], kind: &str, keys: &[&str]| {
            let port = |(index, ty): (usize, &Type)| {
                let named = keys.iter().find_map(|key| attrs.get(index)?.get(key).and_then(Attr::as_str));
                let name = named.map_or_else(|| format!("{kind} {index}"), str::to_string);
                let spec = spec_of(ty);
                let spec =
                    spec.ok_or_else(|| ValidationError::Other(format!("{name} is {ty}, whose size is not known")))?;
                let is_taken = [ALIAS, DONOR].iter().any(|key| attrs.get(index).is_some_and(|a| a.get(key).is_some()));
                let sharding = attrs.get(index).and_then(sharding_of);
                Ok(Port { name, spec, is_taken, sharding })
            };
            types.iter().enumerate().map(port).collect::<Result<Vec<Port>, ValidationError>>()
        };
        Ok(Signature {
            arguments: ports(&entry.inputs, &entry.input_attrs, "argument", &["tpubridge.name", "jax.arg_info"])?,
            results: ports(&entry.outputs, &entry.output_attrs, "result", &["tpubridge.name", "jax.result_info"])?,
        })
    }
}
