//! Holds the declarations to the C header.

mod extension_fields;
mod fields;
mod offsets;
mod short_table;
mod sizes;

/// A field, its offset here and its offset in C.
type Field = (&'static str, usize, usize);

macro_rules! field_rows {
    ($($name:ident { $($field:ident $offset:literal),* },)*) => {
        [$($((
            concat!(stringify!($name), ".", stringify!($field)),
            std::mem::offset_of!($name, $field),
            $offset,
        ),)*)*]
    };
}
use field_rows;

fn check_fields(rows: &[Field]) {
    let wrong: Vec<_> = rows.iter().filter(|(_, ours, theirs)| ours != theirs).collect();
    assert!(wrong.is_empty(), "field, offset here, in C: {wrong:#?}");
}
