//! Plain loops compiled for the widest vectors of the machine.
#![allow(unsafe_code)]

use super::machine::Machine;

/// A loop that is compiled for the machine: [`WideLoop::run`] is to be `#[inline(always)]`, as is what it calls. A closure in its
/// place may become a function of its own, without the machine's vectors.
pub(crate) trait WideLoop {
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs a loop that is compiled for the machine.
#[inline]
pub(crate) fn wide_loop<L: WideLoop>(machine: &Machine, work: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma")]
        fn avx512<L: WideLoop>(work: L) -> L::Output {
            work.run()
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2<L: WideLoop>(work: L) -> L::Output {
            work.run()
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
    work.run()
}
