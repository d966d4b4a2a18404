//! The client against a stand-in of the Cloud TPU API that knows Google's types and fails as told.

mod faults;
mod lives;
mod stand;
