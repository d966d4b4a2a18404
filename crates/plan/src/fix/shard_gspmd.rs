//! Sharding of programs without a mesh: what `mhlo.sharding` says is held whole is split.

use hlo::gspmd::{MAX_DEVICES, TileAssignment};
use hlo::{Attr, Func, Type};

use super::{FixKind, Proposal, Situation, entry, shard};
use crate::error::Error;
use crate::memory::BufferClass;

const SHARDING: &str = "mhlo.sharding";

pub(super) fn propose(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let module = situation.program.module();
    let devices = situation.request.partitions.or(situation.program.partitions()).map_or(1, u64::from);
    // With a mesh the other rule speaks; without any sharding devices may not be meant to share the work.
    let has_shardings =
        module.entry().is_some_and(|func| func.input_attrs.iter().any(|attrs| attrs.get(SHARDING).is_some()));
    if !module.meshes.is_empty() || !has_shardings || !(2..=MAX_DEVICES).contains(&devices) {
        return Ok(None);
    }
    let mut split = 0;
    let program = entry::edit(situation.program, |func| {
        for (index, argument) in situation.arguments.iter().enumerate() {
            if argument.class != BufferClass::Inputs
                && split_argument(func, index, argument.replaced_by, devices).is_some()
            {
                split += 1;
            }
        }
        split > 0
    })?;
    let Some(program) = program else { return Ok(None) };
    let title = format!("split {split} arguments that several devices hold whole");
    let detail = "adds collectives that gather them where they are used";
    Ok(Some(Proposal { program: Some(program), ..situation.proposal(FixKind::Sharding, title, detail) }))
}

/// Splits an argument, and the result that replaces it, over the devices that hold the same part of it.
fn split_argument(func: &mut Func, index: usize, result: Option<usize>, devices: u64) -> Option<()> {
    let tensor = func.inputs.get(index)?.as_tensor()?.clone();
    let bytes = tensor.num_elements()?.checked_mul(tensor.element.plain()?.size_bytes() as u64)?;
    if bytes < shard::WORTH_BYTES {
        return None;
    }
    let dims: Vec<u64> = tensor.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect::<Option<_>>()?;
    let tiles = match func.input_attrs.get(index)?.get(SHARDING) {
        Some(attr) => TileAssignment::read(attr.as_str()?, dims.len(), devices)?,
        None => TileAssignment::whole(dims.len(), devices),
    };
    let attr = Attr::string(tiles.split(&dims)?.to_string());
    func.input_attrs.get_mut(index)?.set(SHARDING, attr.clone());
    if let Some(result) = result
        && func.outputs.get(result).and_then(Type::as_tensor) == Some(&tensor)
    {
        func.output_attrs.get_mut(result)?.set(SHARDING, attr);
    }
    Some(())
}
