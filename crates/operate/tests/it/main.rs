//! Hosts that answer, differ and vanish; profiles measured by others and made here, against the answers of XProf.

mod made;
mod measured;
mod monitor;
