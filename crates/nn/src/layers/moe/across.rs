//! Expert parallelism: each device routes its own tokens, and all-to-alls bring tokens to the devices of their experts.

use std::sync::Arc;

use tensor::DType;
use trace::{PartitionSpec, Reduction, Tensor, Tree, axis_index, shard_map};

use super::rows::Rows;
use super::{Choice, Dispatch, ExpertBiases, MixtureOfExperts, Others, Usage, Weighted, flat};

/// How experts are sharded: the mesh axes of the examples, of the positions, of the experts, and of the width inside an expert.
pub(super) struct Across {
    batch: Vec<Arc<str>>,
    sequence: Vec<Arc<str>>,
    experts: Vec<Arc<str>>,
    inner: Vec<Arc<str>>,
    /// Devices along each of the axes of the experts.
    shares: Vec<usize>,
    /// Devices along the axes of the width inside an expert.
    inner_shares: usize,
    /// Sizes of the positions that a device has, and the width.
    part: Vec<usize>,
}

fn dims(dims: &[&[Arc<str>]]) -> PartitionSpec {
    PartitionSpec { dims: dims.iter().map(|axes| Some(axes.to_vec())).collect() }
}

/// Each device has all of every leaf.
fn replicated<T: Tree>(tree: &T) -> Vec<PartitionSpec> {
    tree.specs().iter().map(|spec| PartitionSpec::replicated(spec.dims.len())).collect()
}

/// Names as collectives take them.
fn names(axes: &[Arc<str>]) -> Vec<&str> {
    axes.iter().map(|axis| &**axis).collect()
}

impl Across {
    /// Of `[batch, positions, width]`. `None` without a mesh, or where the compiler splits the whole program well.
    pub(super) fn of(x: &Tensor, mixture: &MixtureOfExperts) -> Option<Across> {
        let rules = trace::current_rules()?;
        let axes = |logical_axis: &str, size: usize| {
            let sharding = rules.sharding(&[logical_axis], &[size]);
            sharding.dims.into_iter().flatten().next().unwrap_or_default()
        };
        let experts = axes("experts", mixture.gate.dim(0));
        let (batch, sequence) = (axes("batch", x.dim(0)), axes("sequence", x.dim(1)));
        let inner = axes("mlp", mixture.gate.dim(2));
        let across = Across {
            inner_shares: inner.iter().map(|axis| rules.mesh.size_of(axis).unwrap_or(1)).product(),
            part: dims(&[&batch, &sequence, &[]]).part_dims(&rules.mesh, x.dims()).ok()?,
            shares: experts.iter().map(|axis| rules.mesh.size_of(axis).unwrap_or(1)).collect(),
            batch,
            sequence,
            experts,
            inner,
        };
        let splits_rows = !(across.batch.is_empty() && across.sequence.is_empty() && across.experts.is_empty());
        let is_wanted = match mixture.dispatch {
            Dispatch::Dense => false,
            Dispatch::Capacity(_) => splits_rows,
            // Kernels know one device only.
            Dispatch::Grouped => true,
        };
        is_wanted.then_some(across)
    }

    #[track_caller]
    pub(super) fn apply(&self, mixture: &MixtureOfExperts, x: &Tensor) -> (Tensor, Usage) {
        match mixture.dispatch {
            Dispatch::Capacity(factor) => self.with_capacity(mixture, x, factor),
            Dispatch::Dense | Dispatch::Grouped => self.grouped(mixture, x),
        }
    }

    /// Mesh axes along which devices have positions of their own.
    fn positions(&self) -> Vec<Arc<str>> {
        self.batch.iter().chain(&self.sequence).cloned().collect()
    }

    /// Each device sends tokens to the devices of their experts (all-to-all) and gets them back. The capacity is that of its own
    /// tokens, so which tokens are dropped depends on the mesh. The matmuls between are left to the partitioner, which may overlap
    /// gathering weights with them.
    #[track_caller]
    fn with_capacity(&self, mixture: &MixtureOfExperts, x: &Tensor, factor: f64) -> (Tensor, Usage) {
        let positions = self.positions();
        let (over, experts) = (names(&positions), names(&self.experts));
        let split = dims(&[&self.batch, &self.sequence, &[]]);
        let others: Vec<Arc<str>> = positions.iter().filter(|axis| !self.experts.contains(axis)).cloned().collect();
        let vectors = dims(&[&self.experts, &others, &[]]);
        let weighted = [vectors.clone(), dims(&[&self.experts, &others])];
        let (by_choice, by_row) = (dims(&[&[], &positions]), dims(&[&positions]));
        let positions = [by_choice.clone(), by_choice, by_row.clone(), by_row];
        let usage = [PartitionSpec::replicated(1), PartitionSpec::replicated(1)];
        let router = replicated(&mixture.router);
        let inputs = replicated(&mixture.inputs);
        let ins = [vec![split.clone()], router, inputs].concat();
        let outs = [&weighted[..], &positions, &usage].concat();
        let (sent, rows, usage): (Weighted, Rows, Usage) = shard_map(
            &(x.clone(), mixture.router.clone(), mixture.inputs.clone()),
            &ins,
            &outs,
            |(x, router, inputs)| {
                let mine = MixtureOfExperts { router: router.clone(), inputs: inputs.clone(), ..mixture.clone() };
                let flat = flat(x);
                let choice = mine.route(&flat, &over);
                let (rows, positions) = mine.with_capacity(&flat, &choice, factor);
                let sent = Weighted {
                    vectors: self.exchanged(&rows.vectors, &experts),
                    weights: self.exchanged(&rows.weights, &experts),
                };
                (sent, positions, choice.usage)
            },
        );
        let inside = dims(&[&self.experts, &others, &self.inner]);
        let done = mixture.experts(&sent.vectors, &sent.weights, Some(&inside)).with_sharding_constraint(&vectors);
        let ins = [&[vectors][..], &positions].concat();
        let out = shard_map(&(done, rows), &ins, &[split], |(done, rows)| {
            rows.to_positions(&flat(&self.returned(done, &experts))).reshape(&self.part)
        });
        (out, usage)
    }

    /// `[experts, rows, ...]` of all experts as those that are here, with the rows of all devices that share the experts.
    ///
    /// Parts are joined along the axis they were split along: with one expert on a device nothing has to be moved in its memory.
    fn exchanged(&self, rows: &Tensor, experts: &[&str]) -> Tensor {
        let devices: usize = self.shares.iter().product();
        if devices == 1 {
            return rows.clone();
        }
        let (here, each, rest) = (rows.dim(0) / devices, rows.dim(1), &rows.dims()[2..]);
        let sent = rows.all_to_all(0, 0, experts).reshape(&[&[devices, here, each][..], rest].concat());
        sent.swap_axes(0, 1).reshape(&[&[here, devices * each][..], rest].concat())
    }

    /// The way back.
    fn returned(&self, rows: &Tensor, experts: &[&str]) -> Tensor {
        let devices: usize = self.shares.iter().product();
        if devices == 1 {
            return rows.clone();
        }
        let (here, each, rest) = (rows.dim(0), rows.dim(1) / devices, &rows.dims()[2..]);
        let by_device = rows.reshape(&[&[here, devices, each][..], rest].concat()).swap_axes(0, 1);
        by_device.reshape(&[&[devices * here, each][..], rest].concat()).all_to_all(0, 0, experts)
    }

    /// Each device computes the choices of its own experts, of all positions of those it shares experts with.
    #[track_caller]
    fn grouped(&self, mixture: &MixtureOfExperts, x: &Tensor) -> (Tensor, Usage) {
        let positions = self.positions();
        let over = names(&positions);
        let split = dims(&[&self.batch, &self.sequence, &[]]);
        let up = dims(&[&self.experts, &[], &self.inner]);
        let down = dims(&[&self.experts, &self.inner, &[]]);
        // In the type of the matmuls before they are gathered: half of the bytes travel.
        let weights = mixture.group_weights(x.dtype());
        // Devices that share the width inside an expert add up what they give: each has a part of the last bias.
        let biases = mixture
            .biases
            .as_ref()
            .map(|biases| ExpertBiases { down: &biases.down * (self.inner_shares as f64).recip(), ..biases.clone() });
        let inputs = (x.clone(), mixture.router.clone(), weights, biases, mixture.inputs.clone());
        let mut ins = vec![split.clone()];
        ins.extend(replicated(&mixture.router));
        let (of_gate, of_up, of_down) = &inputs.2;
        ins.extend([of_gate.shardings(&up), of_up.shardings(&up), of_down.shardings(&down)].concat());
        if mixture.biases.is_some() {
            let inner = dims(&[&self.experts, &self.inner]);
            ins.extend([inner.clone(), inner, dims(&[&self.experts, &[]])]);
        }
        ins.extend(replicated(&mixture.inputs));
        let (apart, alike): (Vec<&str>, Vec<&str>) =
            names(&self.experts).into_iter().partition(|axis| over.contains(axis));
        let summed: Vec<&str> = names(&self.inner).into_iter().chain(alike).collect();
        let outs = [split, PartitionSpec::replicated(1), PartitionSpec::replicated(1)];
        shard_map(&inputs, &ins, &outs, |(x, router, weights, biases, inputs)| {
            let mine = MixtureOfExperts {
                router: router.clone(),
                biases: biases.clone(),
                inputs: inputs.clone(),
                ..mixture.clone()
            };
            let flat = flat(x);
            let choice = mine.route(&flat, &over);
            let gathered = |tensor: &Tensor| tensor.all_gather(0, &apart[..]);
            let all = Choice {
                weights: gathered(&choice.weights),
                experts: gathered(&choice.experts),
                usage: choice.usage.clone(),
            };
            let shares = self.shares.iter().product();
            let others = (shares > 1).then(|| Others { first: self.first(weights.0.groups()), shares });
            let out = mine.grouped(&gathered(&flat), &all, weights, others.as_ref());
            let out = out.reduce_scatter(0, &apart[..]).all_reduce(&summed[..], Reduction::Sum);
            (out.reshape(x.dims()), choice.usage)
        })
    }

    /// The first expert of a device that has so many.
    fn first(&self, here: usize) -> Tensor {
        let place =
            self.experts.iter().zip(&self.shares).fold(Tensor::zeros(DType::I32, &[]), |place, (axis, &size)| {
                &(&place * size as f64) + &axis_index(axis)
            });
        &place * here as f64
    }
}
