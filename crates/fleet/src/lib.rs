//! Operate: doctor, setup.
