//! Attributes of the Shardy dialect, as bytecode encodes them.

use super::cursor::Cursor;
use super::tables::Tables;
use crate::error::Error;
use crate::ir::Attr;
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, MeshAttr, MeshRef, SdyAttr, TensorSharding};

/// Codes of attributes, shared with the writer.
pub(super) mod code {
    pub(in crate::bytecode) const MANUAL_AXES: u64 = 0;
    pub(in crate::bytecode) const MESH_AXIS: u64 = 1;
    pub(in crate::bytecode) const MESH: u64 = 2;
    pub(in crate::bytecode) const SUB_AXIS_INFO: u64 = 3;
    pub(in crate::bytecode) const AXIS_REF: u64 = 4;
    pub(in crate::bytecode) const DIMENSION_SHARDING: u64 = 5;
    pub(in crate::bytecode) const SHARDING: u64 = 6;
    pub(in crate::bytecode) const SHARDING_PER_VALUE: u64 = 7;
    pub(in crate::bytecode) const DIM_MAPPING: u64 = 8;
    pub(in crate::bytecode) const TENSOR_MAPPING: u64 = 9;
    pub(in crate::bytecode) const OP_SHARDING_RULE: u64 = 10;
    pub(in crate::bytecode) const AXIS_LIST: u64 = 11;
    pub(in crate::bytecode) const AXIS_LISTS: u64 = 12;
    pub(in crate::bytecode) const ALL_TO_ALL_PARAM: u64 = 13;
    pub(in crate::bytecode) const ALL_TO_ALL_PARAMS: u64 = 14;
    /// A sharding with partial sums.
    pub(in crate::bytecode) const SHARDING_UNREDUCED: u64 = 15;
    pub(in crate::bytecode) const SHARDING_PER_VALUE_UNREDUCED: u64 = 16;
    /// A sharding with partial results of another reduction.
    pub(in crate::bytecode) const SHARDING_REDUCTION: u64 = 17;
}

/// Decodes an attribute.
pub(super) fn attr(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let attr = match cursor.varint()? {
        code::MANUAL_AXES => {
            let count = cursor.count()?;
            let axes = (0..count).map(|_| tables.name(cursor).map(|name| name.to_string()));
            SdyAttr::ManualAxes(axes.collect::<Result<_, _>>()?)
        }
        code::MESH => SdyAttr::Mesh(mesh(tables, cursor)?),
        code::SHARDING => SdyAttr::Sharding(sharding(tables, cursor)?),
        code::SHARDING_UNREDUCED => {
            let mut sharding = sharding(tables, cursor)?;
            sharding.unreduced = axes(tables, cursor)?;
            SdyAttr::Sharding(sharding)
        }
        code::SHARDING_PER_VALUE | code::SHARDING_PER_VALUE_UNREDUCED => {
            let parts = tables.attrs(cursor)?.into_iter().map(|part| match part {
                Attr::Sdy(sdy) => match &*sdy {
                    SdyAttr::Sharding(sharding) => Ok(sharding.clone()),
                    _ => Err(cursor.error("a list of shardings holds something else")),
                },
                _ => Err(cursor.error("a list of shardings holds something else")),
            });
            SdyAttr::ShardingPerValue(parts.collect::<Result<_, _>>()?)
        }
        code::AXIS_LIST => SdyAttr::AxisList(axes(tables, cursor)?),
        code::AXIS_LISTS => {
            let count = cursor.count()?;
            let mut lists = Vec::with_capacity(count);
            for _ in 0..count {
                let index = cursor.varint()?;
                lists.push(axes(tables, &mut tables.encoded(cursor, index, "sdy", code::AXIS_LIST)?)?);
            }
            SdyAttr::AxisLists(lists)
        }
        code::ALL_TO_ALL_PARAMS => {
            let count = cursor.count()?;
            let mut params = Vec::with_capacity(count);
            for _ in 0..count {
                let index = cursor.varint()?;
                let mut param = tables.encoded(cursor, index, "sdy", code::ALL_TO_ALL_PARAM)?;
                params.push((axes(tables, &mut param)?, param.signed()?, param.signed()?));
            }
            SdyAttr::AllToAll(params)
        }
        code::OP_SHARDING_RULE => return op_sharding_rule(tables, cursor),
        code::SHARDING_REDUCTION => return Err(cursor.error("partial results other than sums are not supported")),
        code => return Err(cursor.error(format!("Shardy attribute code {code} is not known or stands alone"))),
    };
    Ok(Attr::Sdy(attr.into()))
}

fn mesh(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<MeshAttr, Error> {
    let count = cursor.count()?;
    let mut axes = Vec::with_capacity(count);
    for _ in 0..count {
        let index = cursor.varint()?;
        let mut axis = tables.encoded(cursor, index, "sdy", code::MESH_AXIS)?;
        axes.push((tables.text(&mut axis)?.to_owned(), axis.signed()?));
    }
    Ok(MeshAttr { axes, device_ids: tables.integers(cursor)? })
}

fn axes(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Vec<AxisRef>, Error> {
    let count = cursor.count()?;
    let mut axes = Vec::with_capacity(count);
    for _ in 0..count {
        let index = cursor.varint()?;
        let mut axis = tables.encoded(cursor, index, "sdy", code::AXIS_REF)?;
        let name = tables.text(&mut axis)?.to_owned();
        let sub_axis = match axis.flagged()? {
            (_, false) => None,
            (index, true) => {
                let mut part = tables.encoded(&axis, index, "sdy", code::SUB_AXIS_INFO)?;
                Some((part.signed()?, part.signed()?))
            }
        };
        tables.weigh(1)?;
        axes.push(AxisRef { name, sub_axis });
    }
    Ok(axes)
}

fn sharding(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<TensorSharding, Error> {
    let mesh = match tables.attr(cursor)? {
        Attr::Symbol(name) => Some(MeshRef::Symbol(name.to_string())),
        Attr::Sdy(sdy) => match &*sdy {
            SdyAttr::Mesh(mesh) => Some(MeshRef::Inline(mesh.clone())),
            _ => None,
        },
        _ => None,
    };
    let mesh = mesh.ok_or_else(|| cursor.error("a sharding without its mesh"))?;
    let count = cursor.count()?;
    let mut dims = Vec::with_capacity(count);
    for _ in 0..count {
        let index = cursor.varint()?;
        let mut dim = tables.encoded(cursor, index, "sdy", code::DIMENSION_SHARDING)?;
        let axes = axes(tables, &mut dim)?;
        let is_closed = dim.byte()? != 0;
        let priority = match dim.flagged()? {
            (_, false) => None,
            (priority, true) => Some(i64::try_from(priority).map_err(|_| dim.error("a priority that is too large"))?),
        };
        tables.weigh(1)?;
        dims.push(DimensionSharding { axes, is_closed, priority });
    }
    Ok(TensorSharding { mesh, dims, replicated: axes(tables, cursor)?, unreduced: Vec::new() })
}

/// A rule how to shard an op we know nothing of: kept as the text it prints as.
fn op_sharding_rule(tables: &mut Tables<'_>, cursor: &mut Cursor<'_>) -> Result<Attr, Error> {
    let sizes = tables.integers(cursor)?;
    let mut mappings = || -> Result<String, Error> {
        let count = cursor.count()?;
        let mut tensors = Vec::with_capacity(count);
        for _ in 0..count {
            let index = cursor.varint()?;
            let mut tensor = tables.encoded(cursor, index, "sdy", code::TENSOR_MAPPING)?;
            let rank = tensor.count()?;
            let mut dims = Vec::with_capacity(rank);
            for _ in 0..rank {
                let index = tensor.varint()?;
                let mut dim = tables.encoded(&tensor, index, "sdy", code::DIM_MAPPING)?;
                dims.push(tables.integers(&mut dim)?.into_iter().map(factor_name).collect::<String>());
            }
            tensors.push(format!("[{}]", dims.join(", ")));
        }
        Ok(tensors.join(", "))
    };
    let (operands, results) = (mappings()?, mappings()?);
    let sizes: Vec<String> =
        sizes.iter().enumerate().map(|(i, size)| format!("{}={size}", factor_name(i as i64))).collect();
    let mut text = format!("#sdy.op_sharding_rule<({operands})->({results}) {{{}}}", sizes.join(", "));
    for group in ["reduction", "need_replication", "permutation", "blocked_propagation"] {
        let factors = tables.integers(cursor)?;
        if !factors.is_empty() {
            let names: Vec<String> = factors.into_iter().map(factor_name).collect();
            text.push_str(&format!(" {group}={{{}}}", names.join(", ")));
        }
    }
    if cursor.byte()? != 0 {
        text.push_str(", custom");
    }
    text.push('>');
    tables.weigh(text.len())?;
    Ok(Attr::Opaque(text.into()))
}

/// Factors are spelled `i` to `z`, then `z_1`, `z_2` and so on.
fn factor_name(factor: i64) -> String {
    match u8::try_from(factor) {
        Ok(factor @ 0..=17) => char::from(b'i' + factor).to_string(),
        _ => format!("z_{}", factor.saturating_sub(17)),
    }
}
