//! Verification: a module against the specification.
