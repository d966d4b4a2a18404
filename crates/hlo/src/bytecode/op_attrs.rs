//! What an op is and the attributes it has, from how its dialect stores them.

use super::cursor::Cursor;
use super::legalize::legalize;
use super::program::{Header, Inside, Reader};
use crate::error::Error;
use crate::ir::{Attr, AttrName, Attrs, OpKind, OpName};
use crate::ops::Presence;

/// Whether a stored attribute may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

impl<'a> Reader<'a> {
    /// Adds the attributes an op keeps apart from the dictionary, in stored order.
    pub(super) fn own_attrs(&mut self, header: &mut Header<'a>, stored: &[(&'static str, Need)]) -> Result<(), Error> {
        let Some(mut cursor) = header.properties else { return Ok(()) };
        if !header.op.registered {
            if let Attr::Dict(dict) = self.tables.attr(&mut cursor)? {
                for (name, value) in dict.iter() {
                    header.attrs.set(AttrName::Owned(name.to_owned()), value.clone());
                }
            }
            return Ok(());
        }
        for &(name, need) in stored {
            let value = match need {
                Need::Required => Some(self.tables.attr(&mut cursor)?),
                Need::Optional => self.tables.optional_attr(&mut cursor)?,
            };
            if let Some(value) = value {
                header.attrs.set(name, value);
            }
        }
        match cursor.is_empty() {
            true => Ok(()),
            false => Err(cursor.error(format!(
                "`{}.{}` stores attributes this reader does not know",
                header.op.dialect, header.op.name
            ))),
        }
    }

    /// What the op is in our language, with its attributes.
    pub(super) fn named(
        &mut self,
        cursor: &Cursor<'_>,
        header: &mut Header<'a>,
        inside: Inside,
    ) -> Result<(OpName, Attrs), Error> {
        let full_name = format!("{}.{}", header.op.dialect, header.op.name);
        if header.op.dialect == "vhlo" {
            let (kind, form) = OpKind::from_vhlo(header.op.name).ok_or_else(|| {
                let producer = self.container.producer;
                cursor.error(format!("`{full_name}` is not known: the artifact ({producer}) is newer than this reader"))
            })?;
            let kind = match (header.op.name, inside.is_function) {
                ("return_v1", true) => OpKind::from_name("func.return").unwrap_or(kind),
                ("return_v1", false) => OpKind::from_name("stablehlo.return").unwrap_or(kind),
                _ => kind,
            };
            let stored: Vec<(&'static str, Need)> = form.attrs.iter().map(|&name| (name, Need::Required)).collect();
            self.own_attrs(header, &stored)?;
            let attrs = legalize(kind.def(), form, std::mem::take(&mut header.attrs))
                .map_err(|message| cursor.error(format!("`{full_name}`: {message}")))?;
            return Ok((OpName::Known(kind), attrs));
        }
        let Some(kind) = OpKind::from_name(&full_name) else {
            if header.op.registered && header.properties.is_some_and(|properties| !properties.is_empty()) {
                return Err(cursor.error(format!("`{full_name}` stores attributes in a way this reader does not know")));
            }
            self.own_attrs(header, &[])?;
            return Ok((OpName::Extern(full_name.into()), std::mem::take(&mut header.attrs)));
        };
        let def = kind.def();
        let mut stored: Vec<(&'static str, Need)> = def
            .attrs
            .iter()
            .map(|attr| match attr.presence {
                Presence::Required => (attr.name, Need::Required),
                _ => (attr.name, Need::Optional),
            })
            .collect();
        if full_name == "func.call" {
            stored.extend(["arg_attrs", "no_inline", "res_attrs"].map(|name| (name, Need::Optional)));
        }
        stored.sort_by_key(|(name, _)| *name);
        if let Some(properties) = header.properties {
            drop_late_attrs(&mut stored, count_integers(properties)?);
        }
        self.own_attrs(header, &stored)?;
        let mut attrs = std::mem::take(&mut header.attrs);
        def.drop_defaults(&mut attrs);
        Ok((OpName::Known(kind), attrs))
    }
}

/// Attributes that ops got after tools had begun to write plain StableHLO bytecode, which states no version.
pub(super) const LATE_ATTRS: &[&str] = &[
    "algorithm",
    "has_dynamic_root",
    "is_stable",
    "no_inline",
    "result_accuracy",
    "result_tilings",
    "source_target_pairs",
];

/// Leaves out late attributes while more attributes are expected than stored.
fn drop_late_attrs(stored: &mut Vec<(&'static str, Need)>, num_stored: usize) {
    for name in LATE_ATTRS {
        if stored.len() > num_stored {
            stored.retain(|entry| *entry != (*name, Need::Optional));
        }
    }
}

fn count_integers(mut cursor: Cursor<'_>) -> Result<usize, Error> {
    let mut count = 0;
    while !cursor.is_empty() {
        cursor.varint()?;
        count += 1;
    }
    Ok(count)
}
