//! A matmul on a mesh as each device's own: it multiplies its parts by `shard_map`, and devices with other inputs sum what they have.

use std::sync::Arc;

use trace::{PartitionSpec, Reduction, Tensor, shard_map};

/// Codes, scales and zero points of a weight `[in, out]`.
pub(crate) type WeightParts = (Tensor, Tensor, Option<Tensor>);

/// How a matmul lies on a mesh.
pub(crate) struct MeshParts {
    x: PartitionSpec,
    weight: PartitionSpec,
    scales: PartitionSpec,
    result: PartitionSpec,
    /// Mesh axes along which devices have other inputs.
    summed: Vec<Arc<str>>,
    /// Parts of the rows of activations.
    pub(crate) row_parts: usize,
}

impl MeshParts {
    /// Parts of `x [..., in]` and of a weight whose codes are sharded so. `None` without a mesh, or where a device would get parts of
    /// groups.
    pub(crate) fn of(x: &Tensor, (values, scales, _): &WeightParts, sharding: &PartitionSpec) -> Option<MeshParts> {
        let rules = trace::current_rules()?;
        let ([inputs, outputs], [_, columns]) = (sharding.dims.as_slice(), values.dims()) else { return None };
        let (inputs, outputs) = (inputs.clone()?, outputs.clone()?);
        let mesh = &rules.mesh;
        let input_parts = *sharding.parts(mesh, values.dims()).ok()?.first()?;
        let groups = *scales.dims().first()?;
        // One group of all inputs is every device's.
        let of_scales = if groups == 1 { Vec::new() } else { inputs.clone() };
        if groups > 1 && !groups.is_multiple_of(input_parts.max(1)) {
            return None;
        }
        let rows = x.rank().checked_sub(1)?;
        let axes: Vec<&str> = ["batch", "sequence"].into_iter().chain(std::iter::repeat("")).take(rows).collect();
        let of_rows = rules.sharding(&axes, &x.dims()[..rows]);
        let with = |last: &Vec<Arc<str>>| PartitionSpec {
            dims: of_rows.dims.iter().cloned().chain([Some(last.clone())]).collect(),
        };
        let (of_x, result) = (with(&inputs), with(&outputs));
        let row_parts = of_x.parts(mesh, x.dims()).ok()?.iter().take(rows).product();
        let dims: Vec<usize> = x.dims()[..rows].iter().chain([columns]).copied().collect();
        result.parts(mesh, &dims).ok()?;
        let scales = PartitionSpec { dims: vec![Some(of_scales), Some(outputs)] };
        Some(MeshParts { x: of_x, weight: sharding.clone(), scales, result, summed: inputs, row_parts })
    }

    /// Whether devices have other inputs.
    pub(crate) fn is_summed(&self) -> bool {
        !self.summed.is_empty()
    }

    /// What `matmul` makes of each device's own parts, summed over inputs.
    #[track_caller]
    pub(crate) fn run(
        &self,
        x: &Tensor,
        weight: WeightParts,
        matmul: impl FnOnce(&Tensor, &WeightParts) -> Tensor,
    ) -> Tensor {
        let mut shardings = vec![self.x.clone(), self.weight.clone(), self.scales.clone()];
        shardings.extend(weight.2.as_ref().map(|_| self.scales.clone()));
        let inputs = (x.clone(), weight);
        shard_map(&inputs, &shardings, std::slice::from_ref(&self.result), |(x, weight)| {
            let sum = matmul(x, weight);
            let summed: Vec<&str> = self.summed.iter().map(|name| &**name).collect();
            if summed.is_empty() { sum } else { sum.all_reduce(&summed[..], Reduction::Sum) }
        })
    }
}
