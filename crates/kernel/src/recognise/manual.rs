//! Ops that one device computes of its own parts: a manual computation of Shardy, or the calls that GSPMD has for it, as `shard_map` of
//! JAX writes them.

use std::sync::Arc;

use hlo::dims::AxisRef;
use hlo::gspmd::{FULL_TO_SHARD, SHARD_TO_FULL, SHARDING};
use hlo::sdy::SdyAttr;
use hlo::{Attr, Attrs, OpId, OpKind, Region, Type, Value};
use tensor::{DType, Spec};

use super::devices::{Partitioner, Split};
use super::write::Writer;
use crate::call::{static_spec, tensor_type};
use crate::error::Error;

/// An array and the axes along each of its dimensions.
pub(super) type Placed = (Value, Vec<Vec<AxisRef>>);

/// What was being written before a computation of one device was begun.
pub(super) struct Outside {
    operands: Vec<Placed>,
    /// The region and its ops, where the computation has one of its own.
    region: Option<(Region, Vec<OpId>)>,
}

impl Outside {
    /// Of a computation that has no region of its own.
    pub(super) fn nothing() -> Outside {
        Outside { operands: Vec::new(), region: None }
    }

    /// Of a computation whose operands are known at its end.
    pub(super) fn of(operands: Vec<Placed>, place: (Region, Vec<OpId>)) -> Outside {
        Outside { operands, region: Some(place) }
    }
}

fn internal() -> Error {
    Error::Internal("an array does not split evenly".into())
}

impl Writer<'_> {
    /// Begins what each device computes; what it has of each operand.
    pub(super) fn begin_on_device(
        &mut self,
        split: &Split,
        operands: Vec<Placed>,
    ) -> Result<(Vec<Value>, Outside), Error> {
        let mut parts = Vec::with_capacity(operands.len());
        for (value, axes) in &operands {
            let whole = static_spec(self.func.ty(*value)).ok_or_else(internal)?;
            let local = |(&size, axes): (&usize, &Vec<AxisRef>)| {
                let parts = split.parts(axes);
                size.is_multiple_of(parts).then(|| size / parts)
            };
            let dims: Option<Vec<usize>> = whole.dims.iter().zip(axes).map(local).collect();
            parts
                .push(Spec::new(whole.dtype, dims.filter(|dims| dims.len() == whole.dims.len()).ok_or_else(internal)?));
        }
        match &split.partitioner {
            Partitioner::Shardy(_) => {
                let region = self.func.add_region();
                let types = parts.iter().map(tensor_type);
                let arguments = types.map(|ty| self.func.add_argument(region, ty, None)).collect();
                let outside = self.enter(region);
                Ok((arguments, Outside { operands, region: Some(outside) }))
            }
            Partitioner::Gspmd => {
                let mut arguments = Vec::with_capacity(parts.len());
                for ((value, axes), part) in operands.iter().zip(&parts) {
                    let ty = self.func.ty(*value).clone();
                    let laid = self.marked("Sharding", *value, &split.gspmd(axes), ty);
                    arguments.push(self.marked(FULL_TO_SHARD, laid, "{manual}", tensor_type(part)));
                }
                Ok((arguments, Outside { operands: Vec::new(), region: None }))
            }
        }
    }

    /// Ends it; the whole arrays of what devices return.
    pub(super) fn end_on_device(
        &mut self,
        split: &Split,
        outside: Outside,
        results: Vec<Placed>,
    ) -> Result<Vec<Value>, Error> {
        let mut wholes: Vec<Type> = Vec::with_capacity(results.len());
        for (value, axes) in &results {
            let part = static_spec(self.func.ty(*value)).ok_or_else(internal)?;
            let dims: Vec<usize> =
                part.dims.iter().zip(axes).map(|(size, axes)| size.saturating_mul(split.parts(axes))).collect();
            wholes.push(tensor_type(&Spec::new(part.dtype, dims)));
        }
        match (&split.partitioner, outside.region) {
            (Partitioner::Shardy(mesh), Some(before)) => {
                let returned = results.iter().map(|(value, _)| *value).collect();
                self.op(OpKind::SdyReturn, returned, Attrs::new(), Vec::new());
                let body = self.leave(before);
                let per_value = |list: &[Placed]| {
                    let all = list.iter().map(|(_, axes)| split.shardy(mesh, axes)).collect();
                    Attr::Sdy(Arc::new(SdyAttr::ShardingPerValue(all)))
                };
                let axes = split.mesh.axes.iter().map(|(name, _)| name.clone()).collect();
                let mut attrs = Attrs::new();
                attrs.set("in_shardings", per_value(&outside.operands));
                attrs.set("out_shardings", per_value(&results));
                attrs.set("manual_axes", Attr::Sdy(Arc::new(SdyAttr::ManualAxes(axes))));
                let operands = outside.operands.iter().map(|(value, _)| *value).collect();
                Ok(self.op_with_region(OpKind::SdyManualComputation, operands, attrs, body, wholes))
            }
            _ => {
                let mut all = Vec::with_capacity(results.len());
                for ((value, axes), whole) in results.into_iter().zip(wholes) {
                    let ty = self.func.ty(value).clone();
                    let part = self.marked("Sharding", value, "{manual}", ty);
                    all.push(self.marked(SHARD_TO_FULL, part, &split.gspmd(&axes), whole));
                }
                Ok(all)
            }
        }
    }

    /// The sum over the first dimension, added up in a type.
    pub(super) fn sum_of_first(&mut self, value: Value, dtype: DType) -> Option<Value> {
        let spec = static_spec(self.func.ty(value))?;
        let wide = self.converted(value, dtype);
        let zero = self.constant(&Spec::new(dtype, Vec::new()), vec![0; dtype.size_bytes()]);
        let body = self.folding(OpKind::Add, dtype);
        let mut attrs = Attrs::new();
        attrs.set("dimensions", Attr::i64s(vec![0]));
        let sums = tensor_type(&Spec::new(dtype, spec.dims.get(1..)?));
        let sums = self.op_with_region(OpKind::Reduce, vec![wide, zero], attrs, body, vec![sums]);
        Some(self.converted(*sums.first()?, spec.dtype))
    }

    /// What reductions and collectives fold two numbers with.
    pub(super) fn folding(&mut self, kind: OpKind, dtype: DType) -> Region {
        let number = tensor_type(&Spec::new(dtype, Vec::new()));
        let region = self.func.add_region();
        let [a, b] = [(); 2].map(|()| self.func.add_argument(region, number.clone(), None));
        let before = self.enter(region);
        let folded = self.op(kind, vec![a, b], Attrs::new(), vec![number]);
        self.op(OpKind::Return, folded, Attrs::new(), Vec::new());
        self.leave(before)
    }

    /// A custom call that marks a value with a sharding of GSPMD.
    pub(super) fn marked(&mut self, target: &str, value: Value, sharding: &str, ty: Type) -> Value {
        let mut attrs = Attrs::new();
        attrs.set("call_target_name", Attr::string(target));
        attrs.set("backend_config", Attr::string(""));
        attrs.set(SHARDING, Attr::string(sharding));
        self.op(OpKind::CustomCall, vec![value], attrs, vec![ty]).first().copied().unwrap_or(value)
    }
}
