//! The planner on programs that others made.

mod report;
mod search;
mod tune;
