//! Profiles measured by others and made here, against the answers of XProf.

mod made;
mod measured;
