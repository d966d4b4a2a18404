//! RMS norm as two composites, forward and backward, which TPU compilers may get as kernels.

use hlo::Attrs;
use kernel::composites::{NormAttributes, RMS_NORM, RMS_NORM_BACKWARD};
use tensor::DType;
use trace::{PartitionSpec, Tensor, composite, custom_vjp, shard_map};

/// Rows divided by their root mean square, in `f32`, and its inverse.
fn normal(x: &Tensor, epsilon: f64) -> (Tensor, Tensor) {
    let wide = x.cast(DType::F32);
    let last = x.rank().saturating_sub(1);
    let inverse = (&wide.square().mean(&[last]) + epsilon).rsqrt().expand(-1);
    (&wide * &inverse, inverse)
}

/// What [`RMS_NORM`] means, over the last axis.
#[track_caller]
pub(super) fn plain(x: &Tensor, weight: &Tensor, epsilon: f64) -> Tensor {
    (&normal(x, epsilon).0 * &weight.cast(DType::F32)).cast(x.dtype())
}

/// What [`RMS_NORM_BACKWARD`] means.
fn backward((x, weight, ct): &(Tensor, Tensor, Tensor), epsilon: f64) -> (Tensor, Tensor) {
    let (normal, inverse) = normal(x, epsilon);
    let ct = ct.cast(DType::F32);
    let of_normal = &ct * &weight.cast(DType::F32);
    let along = (&of_normal * &normal).mean(&[1]).expand(-1);
    let of_x = &(&of_normal - &(&normal * &along)) * &inverse;
    (of_x.cast(x.dtype()), (&ct * &normal).sum(&[0]).expand(0))
}

/// The norm of `x [batch, positions, width]`, on each device of its own positions.
#[track_caller]
pub(super) fn fused(x: &Tensor, weight: &Tensor, epsilon: f64) -> Tensor {
    let inputs = (x.clone(), weight.clone());
    custom_vjp(
        &inputs,
        |inputs| {
            let of_x = sharding_of(&inputs.0);
            let shardings = [of_x.clone(), PartitionSpec::replicated(1)];
            shard_map(inputs, &shardings, &[of_x], |(x, weight)| {
                let rows = (as_rows(x), weight.expand(0));
                composite(RMS_NORM, attributes(epsilon), &rows, |(x, weight)| plain(x, weight, epsilon))
                    .reshape(x.dims())
            })
        },
        move |(x, weight): &(Tensor, Tensor), _: &Tensor, ct: &Tensor| {
            let of_x = sharding_of(x);
            // Each device has the gradient of the weight for its own positions.
            let axes = of_x.axes().cloned().collect();
            let parts = PartitionSpec { dims: vec![Some(axes), Some(Vec::new())] };
            let shardings = [of_x.clone(), PartitionSpec::replicated(1), of_x.clone()];
            let inputs = (x.clone(), weight.clone(), ct.clone());
            let (of_x, of_weight) = shard_map(&inputs, &shardings, &[of_x, parts], |(x, weight, ct)| {
                let rows = (as_rows(x), weight.expand(0), as_rows(ct));
                let (of_x, of_weight) =
                    composite(RMS_NORM_BACKWARD, attributes(epsilon), &rows, |rows| backward(rows, epsilon));
                (of_x.reshape(x.dims()), of_weight)
            });
            (of_x, of_weight.sum(&[0]).cast(weight.dtype()))
        },
    )
}

fn attributes(epsilon: f64) -> Attrs {
    NormAttributes { epsilon: epsilon as f32, result: None }.to_attrs()
}

fn as_rows(x: &Tensor) -> Tensor {
    x.reshape(&[x.dim(0) * x.dim(1), x.dim(2)])
}

/// How positions lie on the mesh; the width is whole.
fn sharding_of(x: &Tensor) -> PartitionSpec {
    trace::current_rules().map_or_else(
        || PartitionSpec::replicated(x.rank()),
        |rules| rules.sharding(&["batch", "sequence", ""], x.dims()),
    )
}
