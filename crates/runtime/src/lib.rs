//! Compile for a slice in a child process, and the compile cache.
