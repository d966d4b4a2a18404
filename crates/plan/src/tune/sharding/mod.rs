//! Shardings other than the given ones: the same program over the same devices, split in another way.
//!
//! `annotated.rs` reads and writes shardings of Shardy and of GSPMD (`gspmd.rs` finds the mesh behind the latter), `layout.rs` has the
//! other ways to split a program. All meshes are compiled, and the best of them is tried first; then sizes that an axis does not divide
//! (`pad.rs`), then groups of weights one by one.

mod annotated;
mod layout;
mod pad;

use std::collections::BTreeMap;

use compile::Program;
use serde::Serialize;

use super::judge::judge;
use super::{Search, TuneMeasure, TuneOutcome, TuneTrial, record};
use crate::error::Error;
use crate::memory::arguments;
pub(super) use annotated::MeshAxes;
use annotated::{Annotated, AxisSpec};
use layout::{Ground, Layout, apply};

/// Tries other meshes and layouts, best first, then other dimensions for groups of weights.
pub(super) fn search(search: &mut Search<'_, '_>) -> Result<(), Error> {
    let ground = match Ground::of(search.unkernelled(), None)? {
        Ok(ground) => ground,
        Err(reason) => {
            let mut trial = TuneTrial::new("shardings", "the same mesh may be used in other ways");
            (trial.outcome, trial.detail) = (TuneOutcome::Nothing, reason);
            search.trials.push(trial);
            return Ok(());
        }
    };
    let mut ranked: Vec<(Option<TuneMeasure>, Layout)> = Vec::new();
    for layout in ground.layouts() {
        let mut measure = None;
        if !search.is_over()
            && let Ok(changed) = search.resharded(search.unkernelled(), &|program| apply(program, &layout))?
        {
            (search.driver.progress)(&format!("trying: {}", layout.name));
            measure = search.compiled(&changed.program, &BTreeMap::new())?.ok();
        }
        ranked.push((measure, layout));
    }
    // What does not fit comes after all that does.
    let rank =
        |measure: &Option<TuneMeasure>| measure.as_ref().map_or((2, 0.0), |it| (u8::from(!it.fits), it.step.seconds));
    ranked.sort_by(|(a, _), (b, _)| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
    let mut is_settled = false;
    for (measure, layout) in ranked {
        // Layouts are made for the program as it was: one of them is taken, the others show what they would be worth.
        if !is_settled {
            let outcome = search.try_layout(&layout.name, layout.reason, &|program| apply(program, &layout))?;
            is_settled = outcome == TuneOutcome::Kept;
            if is_settled {
                search.mesh = Some(layout.mesh());
            }
        } else if let Some(measure) = measure {
            let mut trial = TuneTrial::new(&layout.name, layout.reason);
            record(&mut trial, &measure, &judge(&search.measure, &measure));
            trial.outcome = TuneOutcome::NoGain;
            search.trials.push(trial);
        }
    }
    let Ok(ground) = Ground::of(search.unkernelled(), search.mesh.as_ref())? else { return Ok(()) };
    for padding in pad::paddings(&ground) {
        search.try_layout(&padding.name, pad::REASON, &|program| pad::apply(program, &padding))?;
    }
    for layout in ground.groups() {
        search.try_layout(&layout.name, layout.reason, &|program| apply(program, &layout))?;
    }
    Ok(())
}

/// How an argument of the tuned program is split, where that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TuneSharding {
    /// Its number.
    pub argument: usize,
    /// Its name, where the program gives one.
    pub name: String,
    /// Its type.
    pub ty: String,
    /// `PartitionSpec` before; empty where the program did not say.
    pub before: String,
    /// `PartitionSpec` now.
    pub after: String,
    /// The result that takes its place, which is split in the same way.
    pub result: Option<usize>,
}

/// The mesh of a tuned program, where it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TuneMesh {
    /// Axes and sizes before, as `data=2 model=4`.
    pub before: String,
    /// Axes and sizes now.
    pub after: String,
}

/// What became of the mesh and of each argument. The mesh of the tuned program is given where it is known.
pub(super) fn changes(
    before: &Program,
    after: &Program,
    mesh: Option<&MeshAxes>,
) -> (Option<TuneMesh>, Vec<TuneSharding>) {
    let (Ok(old), Ok(new)) = (Annotated::read(before, None), Annotated::read(after, mesh)) else {
        return (None, Vec::new());
    };
    let mesh = (old.axes != new.axes).then(|| TuneMesh { before: old.mesh_name(), after: new.mesh_name() });
    let types = after.module().entry().map_or(&[][..], |func| &func.inputs);
    let names = arguments(after.module());
    let spelled = |annotated: &Annotated, spec: &Option<AxisSpec>| {
        spec.as_ref().map_or_else(String::new, |spec| annotated.partition_spec(spec))
    };
    // An axis of one device splits nothing, and GSPMD does not write it.
    let real = |spec: &Option<AxisSpec>| -> Option<AxisSpec> {
        let real = |axes: &Vec<usize>| axes.iter().copied().filter(|axis| new.parts(&[*axis]) > 1).collect();
        spec.as_ref().map(|spec| spec.iter().map(real).collect())
    };
    let pairs = old.arguments.iter().zip(&new.arguments).enumerate();
    let changed = pairs.filter(|(_, (a, b))| real(a) != real(b)).map(|(n, (a, b))| TuneSharding {
        argument: n,
        name: names.get(n).map_or_else(String::new, |argument| argument.name.clone()),
        ty: types.get(n).map_or_else(String::new, ToString::to_string),
        before: spelled(&old, a),
        after: spelled(&new, b),
        result: names.get(n).and_then(|argument| argument.replaced_by),
    });
    (mesh, changed.collect())
}
