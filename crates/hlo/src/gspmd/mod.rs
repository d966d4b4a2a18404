//! Shardings as GSPMD writes them: which devices hold which part, as text, without names of axes. A mesh is found behind them, and with it
//! programs are read as Shardy would write them.

mod manual;
mod mesh;
mod shardy;
mod tiles;

pub use manual::{has_local_parts, with_manual_computations};
pub use mesh::{AxisSpec, mesh_sizes, spec_of, text_of};
pub use shardy::{FULL_TO_SHARD, SHARD_TO_FULL, as_shardy};
pub use tiles::{MAX_DEVICES, TileAssignment};

use crate::ir::{Attr, Attrs, Module, Type};

/// The attribute of arguments, results and custom calls that has a sharding.
pub const SHARDING: &str = "mhlo.sharding";

/// Names for axes that have none.
const NAMES: [&str; 8] = ["x", "y", "z", "w", "a", "b", "c", "d"];

/// The sharding that attributes have, of a value of a type; `Err` with the text where it is of another kind.
pub fn read<'a>(attrs: &'a Attrs, ty: &Type, devices: u64) -> Result<Option<TileAssignment>, &'a str> {
    let Some(text) = attrs.get(SHARDING).and_then(Attr::as_str) else { return Ok(None) };
    let tiles = ty.as_tensor().and_then(|ty| TileAssignment::read(text, ty.rank(), devices));
    tiles.map(Some).ok_or(text)
}

/// Names and sizes of the axes of the mesh that all shardings of a program are of, major to minor; `None` where they are not of one mesh in
/// its natural order.
pub fn mesh_axes(module: &Module, devices: u64) -> Option<Vec<(String, i64)>> {
    if devices > MAX_DEVICES {
        return None;
    }
    let mut all: Vec<TileAssignment> = Vec::new();
    let mut add = |attrs: &Attrs, ty: &Type| all.extend(read(attrs, ty, devices).ok().flatten());
    for func in &module.funcs {
        func.input_attrs.iter().zip(&func.inputs).for_each(|(attrs, ty)| add(attrs, ty));
        func.output_attrs.iter().zip(&func.outputs).for_each(|(attrs, ty)| add(attrs, ty));
        // Constraints may use axes that no argument has.
        func.ops.iter().filter(|op| op.num_results == 1).for_each(|op| add(&op.attrs, func.ty(op.first_result)));
    }
    let sizes = mesh_sizes(&all, devices).filter(|sizes| sizes.len() <= NAMES.len())?;
    Some(NAMES.iter().zip(sizes).map(|(name, size)| (name.to_string(), size)).collect())
}
