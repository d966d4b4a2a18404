//! The planner on programs that others made.

mod search;
