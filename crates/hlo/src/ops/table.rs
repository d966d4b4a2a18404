//! The definition of each op of the list.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::def::{OpDef, VhloForm};
use super::*;
use crate::ir::{OpKind, for_each_op};

macro_rules! definitions {
    ($($variant:ident, $module:path, $name:literal;)*) => {
        impl OpKind {
            /// Its definition.
            pub const fn def(self) -> &'static OpDef {
                match self { $(OpKind::$variant => { use $module as op; &op::DEF })* }
            }
        }
    };
}
for_each_op!(definitions);

impl OpKind {
    /// The op a portable artifact names, as in `add_v1`, and the form it is stored in.
    pub fn from_vhlo(name: &str) -> Option<(OpKind, &'static VhloForm)> {
        type Entry = (OpKind, &'static VhloForm);
        static BY_VHLO: LazyLock<HashMap<&'static str, Entry>> = LazyLock::new(|| {
            OpKind::ALL
                .iter()
                .flat_map(|&kind| kind.def().vhlo.iter().map(move |form| (form.name, (kind, form))))
                .collect()
        });
        BY_VHLO.get(name).copied()
    }
}
