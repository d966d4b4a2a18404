//! The StableHLO language: module, ops, text, bytecode, builder, verify; and the reader of compiled XLA HLO.
