//! MLIR bytecode: reader of portable artifacts (VHLO) and of what is mixed into them.
