//! Printing of the source locations of a module, as aliases at the top of the text.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::ir::{Loc, Location, Module};
use crate::print::loc::write_body;

/// Numbers of the locations of a module, in an order where each comes after those it refers to.
pub(super) struct LocationTable<'m> {
    numbers: HashMap<*const Location, usize>,
    order: Vec<&'m Location>,
}

impl<'m> LocationTable<'m> {
    pub(super) fn of(module: &'m Module) -> Self {
        let mut table = LocationTable { numbers: HashMap::new(), order: Vec::new() };
        table.add(&module.loc);
        module.meshes.iter().for_each(|mesh| table.add(&mesh.loc));
        for func in &module.funcs {
            table.add(&func.loc);
            func.values.iter().for_each(|value| table.add(&value.loc));
            func.ops.iter().for_each(|op| table.add(&op.loc));
        }
        table
    }

    fn add(&mut self, loc: &'m Loc) {
        let Some(loc) = loc else { return };
        let mut pending: Vec<(&'m Arc<Location>, bool)> = vec![(loc, false)];
        while let Some((loc, children_done)) = pending.pop() {
            if self.numbers.contains_key(&Arc::as_ptr(loc)) {
                continue;
            }
            if children_done {
                self.order.push(loc);
                self.numbers.insert(Arc::as_ptr(loc), self.order.len());
                continue;
            }
            pending.push((loc, true));
            match &**loc {
                Location::File { .. } => {}
                Location::Name(_, child) => pending.extend(child.iter().map(|c| (c, false))),
                Location::CallSite { callee, caller } => {
                    pending.extend(caller.iter().chain(callee).map(|c| (c, false)));
                }
                Location::Fused(parts, _) => pending.extend(parts.iter().rev().flatten().map(|c| (c, false))),
            }
        }
    }

    /// Appends the definitions.
    pub(super) fn write_definitions(&self, out: &mut String) {
        for (i, location) in self.order.iter().enumerate() {
            let _ = write!(out, "#loc{} = loc(", i + 1);
            write_body(out, location, &mut |out, child| self.write_name(out, child));
            out.push_str(")\n");
        }
    }

    /// Appends ` loc(#loc1)`.
    pub(super) fn write_use(&self, out: &mut String, loc: &Loc) {
        out.push_str(" loc(");
        self.write_name(out, loc);
        out.push(')');
    }

    fn write_name(&self, out: &mut String, loc: &Loc) {
        match loc.as_ref().and_then(|loc| self.numbers.get(&Arc::as_ptr(loc))) {
            Some(number) => {
                let _ = write!(out, "#loc{number}");
            }
            None => out.push_str("unknown"),
        }
    }
}
