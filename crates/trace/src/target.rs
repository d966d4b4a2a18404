//! Which device a function is traced for: models choose forms of their layers by it.

use std::cell::Cell;

/// The kind of device a function is traced for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompileTarget {
    /// A TPU, or one that is not known yet.
    #[default]
    Any,
    /// The CPU device.
    Cpu,
    /// An NVIDIA GPU, compiled by XLA.
    Cuda,
}

thread_local! {
    static TARGET: Cell<CompileTarget> = const { Cell::new(CompileTarget::Any) };
}

/// The target of the function being traced.
pub fn current_target() -> CompileTarget {
    TARGET.get()
}

/// Runs `f`, which traces functions, for a target.
pub fn for_target<T>(target: CompileTarget, f: impl FnOnce() -> T) -> T {
    struct Restore(CompileTarget);
    impl Drop for Restore {
        fn drop(&mut self) {
            TARGET.set(self.0);
        }
    }
    let _restore = Restore(TARGET.replace(target));
    f()
}
