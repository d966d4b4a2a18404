//! Whether a model and its batch can lie on a mesh as a strategy says; if not, the nearest mesh on which they can.

use std::collections::{BTreeMap, BTreeSet};

use trace::{Axis, Mesh, Network, Site};

use super::ShardingRules;
use crate::error::Error;
use crate::stacked::Stages;
use crate::stacked::is_stacked;

/// Meshes tried at most for one that works.
const MOST_TRIED: usize = 20_000;
/// Numbers of devices just below the one wished that are tried; then powers of two.
const COUNTS_TRIED: usize = 256;
/// Axes that a mesh may lack.
const COMMON_AXES: [&str; 3] = ["data", "fsdp", "model"];

/// What a mesh has to carry, and where.
struct Load<'a> {
    parameters: &'a BTreeMap<String, Vec<usize>>,
    batch: &'a [(String, Vec<usize>)],
    site: &'a Site,
}

impl ShardingRules {
    /// Whether parameters and the arrays of a batch, shapes by names, can lie so on these devices. The error says which cannot,
    /// and names the nearest mesh on which all of them can.
    pub fn check(
        &self,
        parameters: &BTreeMap<String, Vec<usize>>,
        batch: &[(String, Vec<usize>)],
        site: &Site,
    ) -> Result<(), Error> {
        let load = Load { parameters, batch, site };
        let fault = match self.carries(&load) {
            Err(Error::Mesh(fault)) => fault,
            other => return other,
        };
        let advice = match self.nearest(&load) {
            Some(mesh) => format!("{mesh} would work"),
            None => self.batch_that_would_do(&load).unwrap_or_else(|| "no mesh like it would work".into()),
        };
        Err(Error::Mesh(format!("{fault}; {advice}")))
    }

    fn carries(&self, load: &Load<'_>) -> Result<(), Error> {
        let (mesh, site) = (&self.axis_rules.mesh, load.site);
        let wrong = |message: String| Err(Error::Mesh(message));
        if let Some(there) = site.devices.filter(|there| *there != mesh.num_devices()) {
            return wrong(format!("the mesh {mesh} has {} devices, but {} has {there}", mesh.num_devices(), site.name));
        }
        if !self.stages.is_empty() && !load.parameters.keys().any(|path| is_stacked(path)) {
            return wrong(format!("the mesh {mesh} has pipeline stages, but the model has no stacked layers to split"));
        }
        for (path, dims) in load.parameters {
            self.parameter(path, dims)?;
        }
        for (name, dims) in load.batch {
            self.batch(name, dims)?;
        }
        match site.torus.as_ref().and_then(|torus| torus.broken_ring(mesh)) {
            Some((axis, why)) => wrong(self.broken_ring(axis, &why, load)),
            None => Ok(()),
        }
    }

    /// Whether it carries everything and takes the batch in microbatches where it has stages.
    fn runs(&self, load: &Load<'_>) -> bool {
        let takes =
            |stages: &Stages, dims: &[usize]| dims.first().is_none_or(|examples| stages.parts_of(*examples).is_some());
        let stages = Stages::of(&self.axis_rules);
        self.carries(load).is_ok()
            && stages.is_none_or(|stages| load.batch.iter().all(|(_, dims)| takes(&stages, dims)))
    }

    /// What is split along an axis that is no ring, and why it is none.
    fn broken_ring(&self, axis: &Axis, why: &str, load: &Load<'_>) -> String {
        let is_along = |(path, dims): &(&String, &Vec<usize>)| {
            self.parameter(path, dims).is_ok_and(|sharding| sharding.axes().any(|name| *name == axis.name))
        };
        let split = load.parameters.iter().find(is_along);
        let what = split.map_or_else(
            || "the batch is split".to_string(),
            |(path, dims)| format!("`{path}` of shape {dims:?} is split"),
        );
        let (name, mesh) = (&axis.name, &self.axis_rules.mesh);
        format!("{what} along `{name}` of the mesh {mesh}, which is not a ring on {}: {why}", load.site.name)
    }

    /// The mesh most like this one that carries everything: other sizes of its axes, one more axis, no rings, or, where their
    /// number is free, fewer devices.
    fn nearest(&self, load: &Load<'_>) -> Option<Mesh> {
        let mesh = &self.axis_rules.mesh;
        let missing = COMMON_AXES.iter().filter(|name| mesh.size_of(name).is_none());
        let longer = missing.filter_map(|name| with_axis(mesh, name, 1));
        let kinds: Vec<Mesh> = std::iter::once(mesh.clone()).chain(longer).collect();
        let open = Some(mesh.without_rings()).filter(|open| open != mesh);
        let most = load.site.devices.unwrap_or(mesh.num_devices());
        let fewer = (1..most).rev().take(COUNTS_TRIED).chain((0..usize::BITS).rev().map(|n| 1 << n));
        let fewer = fewer.filter(|count| load.site.devices.is_none() && *count < most);
        let mut left = MOST_TRIED;
        for count in std::iter::once(most).chain(fewer) {
            for kind in kinds.iter().chain(&open) {
                let carries = |mesh: &Mesh| self.on(mesh).is_some_and(|other| other.runs(load));
                let found = alike(kind, count, &mut left).into_iter().find(carries);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// The same strategy and rules on another mesh.
    fn on(&self, mesh: &Mesh) -> Option<ShardingRules> {
        let mut sharding = ShardingRules::new(mesh, self.strategy).ok()?;
        sharding.rules.clone_from(&self.rules);
        sharding.is_pytorch = self.is_pytorch;
        sharding.axis_rules.microbatches = self.axis_rules.microbatches;
        Some(sharding)
    }

    /// Where nothing but the batch is wrong: one that would work.
    fn batch_that_would_do(&self, load: &Load<'_>) -> Option<String> {
        let examples = load.batch.iter().find_map(|(_, dims)| dims.first())?;
        let parts = self.axis_rules.mesh.size_along(self.batch.iter().map(|axis| &**axis))?;
        let enough = examples.div_ceil(parts).max(1).checked_mul(parts)?;
        let mut larger = load.batch.to_vec();
        for first in larger.iter_mut().filter_map(|(_, dims)| dims.first_mut()) {
            *first = enough;
        }
        self.carries(&Load { batch: &larger, ..*load }).ok().map(|()| format!("a batch of {enough} would work"))
    }
}

/// The same mesh with one more axis in a slice.
fn with_axis(mesh: &Mesh, name: &str, size: usize) -> Option<Mesh> {
    let axis = Axis { name: name.into(), size, network: Network::InSlice };
    Mesh::from_axes(mesh.axes().iter().cloned().chain([axis]).collect()).ok()
}

/// The same devices with an axis of another name, the first that is not there yet.
pub(super) fn renamed(mesh: &Mesh, axis: &str) -> Option<Mesh> {
    let name = COMMON_AXES.into_iter().find(|name| mesh.size_of(name).is_none())?;
    let mut axes = mesh.axes().to_vec();
    axes.iter_mut().find(|have| &*have.name == axis)?.name = name.into();
    Mesh::from_axes(axes).ok()
}

/// The same devices with an axis that takes half of the longest one.
pub(super) fn sharing_with(mesh: &Mesh, axis: &str) -> Option<Mesh> {
    let mut sizes: Vec<usize> = mesh.axes().iter().map(|axis| axis.size).collect();
    let can_share = |n: &usize| mesh.axes()[*n].network != Network::BetweenSlices && sizes[*n].is_multiple_of(2);
    let longest = (0..sizes.len()).filter(can_share).max_by_key(|n| sizes[*n])?;
    sizes[longest] /= 2;
    with_axis(&mesh.with_sizes(&sizes).ok()?, axis, 2)
}

/// Meshes with these axes and so many devices, most alike first. Slices stay as they are, and so do rings.
fn alike(mesh: &Mesh, devices: usize, left: &mut usize) -> Vec<Mesh> {
    let slices = mesh.num_slices();
    if !devices.is_multiple_of(slices) {
        return Vec::new();
    }
    let mut found = Vec::new();
    spread(mesh.axes(), devices / slices, &divisors(devices / slices), &mut Vec::new(), &mut found, left);
    let change = |sizes: &Vec<usize>| -> f64 {
        mesh.axes().iter().zip(sizes).map(|(axis, &size)| (axis.size as f64 / size as f64).ln().abs()).sum()
    };
    // Of equals the one whose first axes are long: those of the batch.
    found.reverse();
    found.sort_by(|a, b| change(a).total_cmp(&change(b)));
    found.iter().filter_map(|sizes| mesh.with_sizes(sizes).ok()).collect()
}

/// Every way to give devices, whose number has these divisors, to the axes after those that have theirs.
fn spread(
    axes: &[Axis],
    devices: usize,
    divisors: &[usize],
    sizes: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
    left: &mut usize,
) {
    if *left == 0 {
        return;
    }
    let Some(axis) = axes.get(sizes.len()) else {
        if devices == 1 {
            *left -= 1;
            found.push(sizes.clone());
        }
        return;
    };
    let is_between = axis.network == Network::BetweenSlices;
    // A ring of one device is not what was asked for.
    let least = if axis.network == Network::Ring { axis.size.min(2) } else { 1 };
    let choices = if is_between { std::slice::from_ref(&axis.size) } else { divisors };
    for &size in choices.iter().filter(|size| is_between || **size >= least && devices.is_multiple_of(**size)) {
        sizes.push(size);
        spread(axes, if is_between { devices } else { devices / size }, divisors, sizes, found, left);
        sizes.pop();
    }
}

fn divisors(number: usize) -> Vec<usize> {
    let small = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    small.flat_map(|divisor| [divisor, number / divisor]).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::Strategy;
    use super::*;

    fn shapes(shapes: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
        shapes.iter().map(|(name, dims)| (name.to_string(), dims.to_vec())).collect()
    }

    /// What is wrong with a model of width 64 and 96 inner channels on a mesh.
    fn fault(mesh: &str, strategy: Strategy, batch: usize, site: &Site) -> String {
        let parameters = shapes(&[
            ("layers.attention.query.weight", &[12, 64, 64]),
            ("layers.feed_forward.up.weight", &[12, 64, 96]),
            ("layers.norm.weight", &[12, 64]),
        ]);
        let sharding = ShardingRules::new(&mesh.parse().unwrap(), strategy).unwrap();
        let batch = shapes(&[("tokens", &[batch, 16])]);
        sharding
            .check(&parameters.into_iter().collect(), &batch, site)
            .err()
            .map_or_else(String::new, |e| e.to_string())
    }

    fn site(devices: usize) -> Site {
        Site { name: "a machine".into(), devices: Some(devices), torus: None }
    }

    #[test]
    fn a_mesh_that_carries_everything_is_named() {
        let check = |mesh: &str, strategy: Strategy, batch: usize, site: &Site, parts: &[&str]| {
            let text = fault(mesh, strategy, batch, site);
            assert!(parts.iter().all(|part| text.contains(part)), "{mesh} of {batch}: {text}");
        };
        let free = Site::default();
        // 96 divides by 3, 64 does not, and no batch of 8 does either: no mesh of six devices carries all of it.
        check("data=3,model=2", Strategy::Megatron, 8, &free, &["`tokens`", "[8, 16]", "; data=2,model=2 would work"]);
        check(
            "data=2,model=3",
            Strategy::Megatron,
            8,
            &free,
            &["query.weight", "[12, 64, 64]", "; data=2,model=2 would work"],
        );
        check("data=2,model=3", Strategy::Megatron, 8, &site(6), &["query.weight", "no mesh like it would work"]);
        check(
            "data=2,model=3",
            Strategy::Megatron,
            8,
            &site(8),
            &["6 devices, but a machine has 8", "; data=2,model=4 would work"],
        );
        check("data=8", Strategy::Data, 12, &site(8), &["`tokens`", "; a batch of 16 would work"]);
        check("data=8", Strategy::Hybrid, 12, &site(8), &["`tokens`", "; data=4,model=2 would work"]);
        check("stage=8,data=2", Strategy::Hybrid, 32, &site(16), &["`layers.", "; stage=4,data=4 would work"]);
        // A batch of 6 cannot be taken in microbatches for 4 stages and 2 devices.
        check("stage=8,data=1", Strategy::Hybrid, 6, &site(8), &["`layers.", "; stage=4,data=1,model=2 would work"]);
        check("dcn:replica=2,fsdp=3", Strategy::Hybrid, 8, &free, &["; dcn:replica=2,fsdp=2 would work"]);
        assert_eq!(fault("data=4,model=2", Strategy::Megatron, 8, &site(8)), "");
    }

    #[test]
    fn rings_are_only_where_links_close() {
        let torus = |x: usize, y: usize, wraps: [bool; 2]| Site {
            name: "v5e".into(),
            devices: Some(x * y),
            torus: Some(trace::Torus { extent: vec![x, y], wraps: wraps.to_vec() }),
        };
        let text = fault("data=4,ring:model=4", Strategy::Megatron, 16, &torus(4, 4, [false; 2]));
        for part in ["query.weight` of shape [12, 64, 64]", "not a ring on v5e", "; data=4,model=4 would work"] {
            assert!(text.contains(part), "{text}");
        }
        let half_open = torus(8, 16, [false, true]);
        let text = fault("data=16,ring:model=8", Strategy::Megatron, 16, &half_open);
        assert!(text.contains("which is 8 long; data=8,ring:model=16 would work"), "{text}");
        assert_eq!(fault("data=8,ring:model=16", Strategy::Megatron, 16, &half_open), "");
        assert_eq!(fault("data=4,ring:model=4", Strategy::Megatron, 16, &Site::default()), "");
        let text = fault("ring:data=8,model=16", Strategy::Megatron, 16, &half_open);
        assert!(text.contains("the batch is split along `data`"), "{text}");
    }

    #[test]
    fn the_search_ends_for_any_mesh() {
        let text = fault("data=65536,model=32767", Strategy::Hybrid, 7, &Site::default());
        assert!(text.contains("would work"), "{text}");
        let many = "a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=2,j=2,k=2,l=2,m=2,n=2,o=2,p=2";
        let text = fault(many, Strategy::Fsdp, 7, &site(1 << 16));
        assert!(text.contains("would work"), "{text}");
    }
}
