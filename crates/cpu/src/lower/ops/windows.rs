//! Reductions over windows, and their gradient for maxima.
#![allow(unsafe_code)]

use hlo::{Op, Value};
use tensor::DType;

use super::dense_operands;
use super::routine::Routine;
use super::sorting::results;
use crate::attributes;
use crate::error::Error;
use crate::kernels::select_and_scatter::SelectAndScatter;
use crate::kernels::window::{ReduceWindow, Window};
use crate::lower::block::Lowering;
use crate::lower::region;

/// The window of an op.
fn window(lowering: &Lowering<'_>, op: &Op) -> Result<Window, Error> {
    let (_, dims) = lowering.array_type(op.operands[0])?;
    let rank = dims.len();
    let sizes = |name: &str| -> Result<Vec<usize>, Error> {
        Ok(attributes::ints_or(op, name, rank, 1)?.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect())
    };
    Ok(Window {
        window: sizes("window_dimensions")?,
        strides: sizes("window_strides")?,
        base_dilations: sizes("base_dilations")?,
        window_dilations: sizes("window_dilations")?,
        padding: attributes::padding(op, rank)?,
        dims,
    })
}

fn plain(lowering: &Lowering<'_>, value: Value) -> Option<DType> {
    lowering.func.ty(value).as_tensor()?.element.plain()
}

pub(crate) fn reduce_window(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let count = op.operands.len() / 2;
    let dtypes: Option<Vec<DType>> = op.operands[..count].iter().map(|&v| plain(lowering, v)).collect();
    let (Some(dtypes), Some(combine)) = (dtypes, region::combine(lowering.func, op.regions[0])) else {
        return Ok(None);
    };
    let Some(plan) = ReduceWindow::new(window(lowering, op)?, &dtypes, combine) else { return Ok(None) };
    let (inputs, outputs) = (dense_operands(lowering, op)?, results(lowering, op)?);
    let call = Routine::new("reduce_window", plan.footprint(), move |reads, writes, cores| {
        let (operands, inits) = reads.split_at(count);
        // SAFETY: operands, initial values and results have the shapes of the plan.
        unsafe { plan.run(operands, inits, writes, cores) }
    });
    lowering.step(inputs, outputs, call);
    Ok(Some(()))
}

pub(crate) fn select_and_scatter(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let func = lowering.func;
    let parts = (plain(lowering, op.operands[0]), region::program(func, op.regions[0]));
    let (Some(dtype), Some(select)) = parts else { return Ok(None) };
    // A scatter may promote: its result is then of another type.
    let mut others = op.operands[1..].iter().copied().chain(op.results());
    if !others.all(|value| plain(lowering, value) == Some(dtype)) {
        return Ok(None);
    }
    let Some(scatter) = region::combine(func, op.regions[1]) else { return Ok(None) };
    let Some(plan) = SelectAndScatter::new(window(lowering, op)?, dtype, select, scatter) else { return Ok(None) };
    let (inputs, outputs) = (dense_operands(lowering, op)?, results(lowering, op)?);
    let call = Routine::new("select_and_scatter", plan.footprint(), move |reads, writes, cores| {
        // SAFETY: operand, source, initial value and result have the shapes of the plan.
        unsafe { plan.run(reads[0], reads[1], reads[2], writes[0], cores) }
    });
    lowering.step(inputs, outputs, call);
    Ok(Some(()))
}
