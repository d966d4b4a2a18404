//! Hosts that answer, differ and vanish; profiles measured by others and made here, against the answers of XProf; a dashboard.

mod dashboard;
mod diagnose;
mod hang;
mod made;
mod measured;
mod monitor;
