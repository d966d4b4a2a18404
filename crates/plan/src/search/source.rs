//! Where programs come from: a candidate goes in, the program to compile comes out.

use std::sync::Arc;

use compile::Program;
use compile::optimize::inlined_but_kernels;
use hlo::passes;
use hlo::{Attr, DYNAMIC, Keyword, Op, OpKind, Type, Verified};
use kernel::composites::{GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT};

use super::candidate::{Candidate, PrecisionChoice, ShardingChoice, Variant};
use super::facts::{Facts, REFERENCE_BATCH};
use super::flow::Flow;
use super::roles::{ArgumentRole, BatchName, Roles, argument_bytes, dims, find_batch, find_roles};
use super::{rematerialized, rules};
use crate::error::Error;

/// Makes programs for candidates. One StableHLO program whose arguments are split by rule is the first source; models
/// that write their own programs for a mesh and a batch are others.
pub trait ProgramSource: Sync {
    /// What is known without a compiler.
    fn facts(&self) -> &Facts;

    /// What is known of a candidate without a compiler.
    fn facts_for(&self, candidate: &Candidate) -> &Facts {
        let _ = candidate;
        self.facts()
    }

    /// Ways to write the step; `None` is as the program has it.
    fn variants(&self) -> Vec<Option<Variant>> {
        vec![None]
    }

    /// Devices the programs must run on; `None` where any number will do.
    fn devices(&self) -> Option<u64>;

    /// Bytes of the arguments on one device.
    fn argument_bytes(&self, candidate: &Candidate) -> f64;

    /// The program of a candidate.
    fn program(&self, candidate: &Candidate) -> Result<Program, Error>;
}

/// One StableHLO program.
#[derive(Debug)]
pub struct OneProgram {
    original: Verified,
    /// Static, with inlined calls: for the reference batch where the program takes any.
    reference: Verified,
    roles: Roles,
    flow: Flow,
    facts: Facts,
    reference_batch: u64,
    devices: Option<u64>,
}

impl OneProgram {
    /// Reads a program: text or bytecode.
    pub fn read(bytes: Vec<u8>, batch: Option<&BatchName>) -> Result<OneProgram, Error> {
        let mut module = hlo::read(&bytes)?;
        if module.entry().is_none_or(|func| func.body.is_none()) {
            return Err(Error::no_entry(&module));
        }
        rematerialized::mark(&mut module);
        let original = hlo::verify(module)?;
        let func = original.entry().ok_or_else(|| Error::no_entry(&original))?;
        let batch = find_batch(&original, func, batch)?;
        let devices = partitions(&original).filter(|devices| *devices > 1);
        let reference_batch = batch.size.unwrap_or(REFERENCE_BATCH);
        let reference = match batch.size {
            Some(_) => inlined_but_kernels(&original)?,
            None => passes::specialize(&original, &arguments(&func.inputs, reference_batch), None)?,
        };
        let func = reference.entry().ok_or_else(|| Error::no_entry(&reference))?;
        let flow = Flow::of(func);
        let roles = find_roles(func, &flow, batch);
        let facts = Facts::of(&reference, &roles, &flow, reference_batch);
        Ok(OneProgram { original, reference, roles, flow, facts, reference_batch, devices })
    }

    /// The role of each argument.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The program of a batch, static, with the ways of its arguments.
    fn with_batch(&self, batch: u64) -> Result<(Verified, Flow), Error> {
        if batch == self.reference_batch || self.roles.batch.size.is_some() {
            return Ok((self.reference.clone(), self.flow.clone()));
        }
        let func = self.original.entry().ok_or_else(|| Error::no_entry(&self.original))?;
        let module = passes::specialize(&self.original, &arguments(&func.inputs, batch), None)?;
        let flow = module.entry().map(Flow::of).unwrap_or_default();
        Ok((module, flow))
    }
}

impl ProgramSource for OneProgram {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn devices(&self) -> Option<u64> {
        self.devices
    }

    fn argument_bytes(&self, candidate: &Candidate) -> f64 {
        let Some(func) = self.reference.entry() else { return 0.0 };
        let ShardingChoice::ByRule(mesh) = candidate.sharding else {
            let all = func.inputs.iter().map(argument_bytes).fold(0, u64::saturating_add);
            return all as f64 / f64::from(candidate.slice.devices()).max(1.0);
        };
        let shardings = rules::shardings(func, &self.roles, &self.flow, mesh);
        let size_of = |axis: &&str| match *axis {
            "data" => mesh.data,
            "fsdp" => mesh.fsdp,
            _ => mesh.model,
        };
        let of = |(n, ty): (usize, &Type)| {
            let bytes = argument_bytes(ty) as f64;
            let model: u64 = shardings[n].iter().flatten().filter(|axis| **axis == "model").map(size_of).product();
            match self.roles.arguments[n] {
                // The reference batch need not divide the mesh.
                ArgumentRole::Batch { .. } | ArgumentRole::Cache { .. } => {
                    let samples = candidate.batch as f64 / self.reference_batch.max(1) as f64;
                    bytes * samples / (mesh.batch_parts() * model.max(1)) as f64
                }
                _ => bytes / shardings[n].iter().flatten().map(size_of).product::<u64>().max(1) as f64,
            }
        };
        func.inputs.iter().enumerate().map(of).sum()
    }

    fn program(&self, candidate: &Candidate) -> Result<Program, Error> {
        let (mut module, flow) = self.with_batch(candidate.batch)?;
        if candidate.precision == PrecisionChoice::Default {
            module = with_default_precision(module)?;
        }
        let module = match candidate.sharding {
            ShardingChoice::ByRule(mesh) if mesh.devices() > 1 => rules::annotate(&module, &self.roles, &flow, mesh)?,
            _ => module,
        };
        Ok(Program::from_module(module))
    }
}

/// Devices a program was made for, if it says so: a mesh says more than the number exporters leave at 1.
fn partitions(module: &Verified) -> Option<u64> {
    let mesh = module.meshes.iter().filter_map(|mesh| u64::try_from(mesh.mesh.device_count()?).ok()).max();
    let said = module.attrs.get("mhlo.num_partitions").and_then(Attr::as_int).and_then(|n| u64::try_from(n).ok());
    mesh.max(said)
}

/// Whether an op is a matmul of rows with the matrices of their groups, or its gradient.
pub(crate) fn is_grouped_matmul(op: &Op) -> bool {
    let name = op.attr("name").filter(|_| op.kind() == Some(OpKind::Composite)).and_then(Attr::as_str);
    name.is_some_and(|name| [GROUPED_MATMUL, GROUPED_MATMUL_GRADIENT].contains(&name))
}

/// Argument types with a size in place of the symbolic one.
fn arguments(types: &[Type], batch: u64) -> Vec<Type> {
    let size = i64::try_from(batch).unwrap_or(i64::MAX);
    let of = |ty: &Type| match ty {
        Type::Tensor(tensor) if dims(ty).contains(&DYNAMIC) => {
            let mut tensor = (**tensor).clone();
            tensor.dims.iter_mut().filter(|d| **d == DYNAMIC).for_each(|d| *d = size);
            Type::Tensor(Arc::new(tensor))
        }
        other => other.clone(),
    };
    types.iter().map(of).collect()
}

/// Whether a matmul asks for more than the default precision.
pub(crate) fn is_precise(op: &Op) -> bool {
    let Some(Attr::Array(precisions)) = op.attr("precision_config") else { return false };
    let is_matmul = matches!(op.kind(), Some(OpKind::DotGeneral | OpKind::Dot | OpKind::Convolution));
    is_matmul && precisions.iter().any(|p| !matches!(p, Attr::Keyword(Keyword::PrecisionDefault)))
}

fn with_default_precision(module: Verified) -> Result<Verified, Error> {
    let mut module = module.into_inner();
    for op in module.funcs.iter_mut().flat_map(|func| &mut func.ops).filter(|op| is_precise(op)) {
        if let Some(Attr::Array(precisions)) = op.attr("precision_config") {
            let default = vec![Attr::Keyword(Keyword::PrecisionDefault); precisions.len()];
            op.attrs.set("precision_config", Attr::Array(default.into()));
        }
    }
    Ok(hlo::verify(module)?)
}
