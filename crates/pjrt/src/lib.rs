//! Safe client of any PJRT plugin: find, load, compile, transfer, execute, topology.
