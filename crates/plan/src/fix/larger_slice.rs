//! More memory: the same mesh on chips that have more of it, or a larger mesh of the same chips.

use chips::{Generation, PriceKind, Slice};
use compile::{CompileRequest, Program};
use hlo::{Attr, Module, OpKind};

use super::{FixKind, Proposal, Situation};
use crate::error::Error;

/// Slices with larger chips that are proposed.
const OTHER_SLICES: usize = 2;

/// First larger meshes, then other chips, cheapest first.
pub(super) fn proposals(situation: &Situation<'_>) -> Result<Vec<Proposal>, Error> {
    let mut proposals = Vec::new();
    for factor in [2, 4] {
        proposals.extend(larger_mesh(situation, factor)?);
    }
    proposals.extend(other_chips(situation));
    Ok(proposals)
}

/// Same program, same number of devices, more memory on each.
fn other_chips(situation: &Situation<'_>) -> Vec<Proposal> {
    let here = situation.request.slice;
    let devices = here.devices();
    let limit = here.usable_hbm_bytes_per_device();
    let mut found: Vec<(f64, Slice)> = Vec::new();
    for generation in Generation::ALL {
        let fitting = Slice::defaults(generation).into_iter().filter(|slice| {
            slice.devices() >= devices
                && slice.usable_hbm_bytes_per_device() > limit
                && slice.usable_hbm_bytes_per_device() >= situation.needed_bytes
        });
        let price = |slice: &Slice| {
            let price = slice.spec().price(PriceKind::OnDemand, None);
            price.map_or(f64::INFINITY, |price| price.usd_per_chip_hour * f64::from(slice.chips()))
        };
        let smallest = fitting.min_by_key(|slice| (slice.devices(), slice.chips()));
        found.extend(smallest.map(|slice| (price(&slice), slice)));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.chips().cmp(&b.1.chips())));
    let proposal = |(price, slice): &(f64, Slice)| {
        let title = format!("use {slice}");
        let price =
            if price.is_finite() { format!("from ${price:.2} an hour on demand") } else { "no published price".into() };
        let detail = format!("{:.1} GiB on each device; {price}", slice.usable_hbm_bytes_per_device() as f64 / GIB);
        let mut proposal = situation.proposal(FixKind::Slice, title, detail);
        proposal.request = CompileRequest { slice: *slice, device_ids: None, ..proposal.request };
        proposal.options = vec!["--slice".into(), slice.to_string()];
        proposal
    };
    found.iter().take(OTHER_SLICES).map(proposal).collect()
}

const GIB: f64 = (1u64 << 30) as f64;

/// The same program over more chips of the same kind: one axis of its mesh grows.
fn larger_mesh(situation: &Situation<'_>, factor: i64) -> Result<Option<Proposal>, Error> {
    let module = situation.program.module();
    let here = situation.request.slice;
    let [mesh] = module.meshes.as_slice() else { return Ok(None) };
    // Inside a manual computation sizes are those of one device, and another mesh makes them wrong.
    let is_manual =
        module.funcs.iter().flat_map(|func| &func.ops).any(|op| op.kind() == Some(OpKind::SdyManualComputation));
    if is_manual || !mesh.mesh.device_ids.is_empty() || here.num_slices() > 1 {
        return Ok(None);
    }
    let Some(count) = mesh.mesh.device_count().and_then(|count| u32::try_from(count).ok()) else { return Ok(None) };
    let Some(devices) = u32::try_from(factor).ok().and_then(|factor| count.checked_mul(factor)) else {
        return Ok(None);
    };
    let Some(slice) = Slice::defaults(here.generation()).into_iter().find(|slice| slice.devices() == devices) else {
        return Ok(None);
    };
    let Some(axis) = widest_axis(module) else { return Ok(None) };
    let mut module = situation.program.verified().clone().into_inner();
    let Some(mesh) = module.meshes.first_mut() else { return Ok(None) };
    let Some(size) = mesh.mesh.axes.iter_mut().find(|(name, _)| *name == axis).map(|(_, size)| size) else {
        return Ok(None);
    };
    let before = *size;
    *size = before.saturating_mul(factor);
    let after = *size;
    // JAX repeats the mesh here in another form, which no longer holds.
    mesh.attrs.remove("stablehlo.mesh");
    if module.attrs.get("mhlo.num_partitions").is_some() {
        module.attrs.set("mhlo.num_partitions", Attr::i32(i32::try_from(devices).unwrap_or(i32::MAX)));
    }
    let title = format!("use {slice} with mesh axis {axis} of {after} instead of {before}");
    let detail = "each device holds a smaller part; the same batch is spread over more chips";
    let mut proposal = situation.proposal(FixKind::LargerMesh, title, detail);
    proposal.program = Some(Program::from_module(hlo::verify(module)?));
    proposal.request = CompileRequest { slice, device_ids: None, partitions: None, ..proposal.request };
    proposal.options = vec!["--slice".into(), slice.to_string()];
    Ok(Some(proposal))
}

/// The mesh axis that splits most bytes of arguments.
fn widest_axis(module: &Module) -> Option<String> {
    let func = module.entry()?;
    let mesh = &module.meshes.first()?.mesh;
    let mut best: Option<(u64, &String)> = None;
    for (name, size) in &mesh.axes {
        let split = func.inputs.iter().zip(&func.input_attrs).filter_map(|(ty, attrs)| {
            let Some(Attr::Sdy(attr)) = attrs.get("sdy.sharding") else { return None };
            let hlo::sdy::SdyAttr::Sharding(sharding) = &**attr else { return None };
            let uses = sharding.dims.iter().flat_map(|dim| &dim.axes).any(|axis| axis.name == *name);
            let tensor = ty.as_tensor()?;
            uses.then_some(tensor.num_elements()?)
        });
        let bytes = split.fold(0u64, u64::saturating_add);
        if *size > 1 && best.is_none_or(|(most, _)| bytes > most) {
            best = Some((bytes, name));
        }
    }
    best.map(|(_, name)| name.clone())
}
