//! Plain loops compiled for the widest vectors of the machine.
#![allow(unsafe_code)]

use super::machine::Machine;

/// Calls a function that is compiled for the machine: what is inlined into it uses its vectors.
#[inline]
pub(crate) fn wide<R>(machine: &Machine, call: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma")]
        fn avx512<R>(call: impl FnOnce() -> R) -> R {
            call()
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2<R>(call: impl FnOnce() -> R) -> R {
            call()
        }
        if machine.avx512 {
            // SAFETY: the machine has these instructions.
            return unsafe { avx512(call) };
        }
        if machine.avx2 {
            // SAFETY: the machine has these instructions.
            return unsafe { avx2(call) };
        }
    }
    let _ = machine;
    call()
}

/// A loop that is compiled for the machine: [`WideLoop::run`] is to be `#[inline(always)]`, as is what it calls. A long closure may
/// become a function of its own instead, without the machine's vectors.
pub(crate) trait WideLoop {
    fn run(self);
}

/// Runs a loop that is compiled for the machine.
#[inline]
pub(crate) fn wide_loop(machine: &Machine, work: impl WideLoop) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma")]
        fn avx512(work: impl WideLoop) {
            work.run();
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(work: impl WideLoop) {
            work.run();
        }
        if machine.avx512 {
            // SAFETY: the machine has these instructions.
            return unsafe { avx512(work) };
        }
        if machine.avx2 {
            // SAFETY: the machine has these instructions.
            return unsafe { avx2(work) };
        }
    }
    let _ = machine;
    work.run();
}
