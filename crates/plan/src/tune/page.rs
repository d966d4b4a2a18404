//! The answer as a page.

use super::{TuneMeasure, Tuned};
use crate::report::{Sheet, SheetBlock, SheetCell, SheetSection, SheetTable, SheetTile, sheet_html};

/// Everything that was tried, as one file that needs no network.
pub fn tuned_page(tuned: &Tuned) -> String {
    let milliseconds = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
    let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / f64::from(1u32 << 30));
    let tile = |name, measure: &TuneMeasure| SheetTile {
        name,
        value: milliseconds(measure.step.seconds),
        below: format!("{} of {}", gib(measure.hbm_bytes), gib(measure.limit_bytes)),
    };
    let faster = SheetTile { name: "faster", value: format!("{:.2} ×", tuned.speedup), below: String::new() };
    let number = |value: Option<f64>, shown: fn(f64) -> String| match value {
        Some(value) => SheetCell::Number(shown(value), value),
        None => SheetCell::Words(String::new()),
    };
    let rows = tuned.trials.iter().map(|trial| {
        vec![
            SheetCell::Name(trial.name.clone()),
            SheetCell::Words(trial.outcome.name().into()),
            number(trial.step_s, |s| format!("{:.3} ms", s * 1e3)),
            number(trial.gain_s, |s| format!("{:.3} ms", s * 1e3)),
            number(trial.error_s, |s| format!("{:.3} ms", s * 1e3)),
            number(trial.hbm_bytes.map(|bytes| bytes as f64), |b| format!("{:.2} GiB", b / f64::from(1u32 << 30))),
            number(trial.results.map(|results| results.deviation), |d| format!("{d:.1e}")),
            SheetCell::Words(format!("{}. {}", trial.reason, trial.detail)),
        ]
    });
    let heads = vec!["change", "outcome", "#step", "#gain", "#error", "#HBM", "#results moved", "why"];
    let table = SheetTable { heads, rows: rows.collect(), what: "changes" };
    let flags = vec![
        SheetBlock::Words(format!("LIBTPU_INIT_ARGS=\"{}\"", tuned.libtpu_init_args())),
        SheetBlock::Words(format!("compiler_options={}", tuned.compiler_options())),
        SheetBlock::Words(tuned.configuration()),
    ];
    let words = |text: &str| SheetCell::Words(text.to_owned());
    let split = tuned.shardings.iter().map(|one| {
        let name = if one.name.is_empty() { format!("argument {}", one.argument) } else { one.name.clone() };
        vec![SheetCell::Name(name), words(&one.ty), words(&one.before), words(&one.after)]
    });
    let heads = vec!["argument", "type", "before", "after"];
    let mut layout = vec![SheetBlock::Table(SheetTable { heads, rows: split.collect(), what: "arguments" })];
    if let Some(mesh) = &tuned.mesh {
        layout.insert(0, SheetBlock::Words(format!("mesh {} in place of {}", mesh.after, mesh.before)));
    }
    let mut sections = vec![
        SheetSection { id: "changes", title: "What was tried", blocks: vec![SheetBlock::Table(table)] },
        SheetSection { id: "flags", title: "Flags", blocks: flags },
        SheetSection { id: "notes", title: "Notes", blocks: vec![SheetBlock::Notes(tuned.notes.clone())] },
    ];
    if tuned.mesh.is_some() || !tuned.shardings.is_empty() {
        sections.insert(1, SheetSection { id: "shardings", title: "Shardings", blocks: layout });
    }
    sheet_html(&Sheet {
        title: tuned.module.clone(),
        subject: tuned.slice.clone(),
        facts: Vec::new(),
        tiles: vec![tile("before", &tuned.before), tile("after", &tuned.after), faster],
        sections,
    })
}
