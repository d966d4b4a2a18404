//! The PJRT C ABI as declarations, sizes and offsets held by tests.
