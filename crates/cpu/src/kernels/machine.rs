//! What the CPU can do, found once, and the floating-point mode kernels run in.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::isa::CpuIsa;

/// The instruction sets a kernel may use. Each flag stands for a group that real processors have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    /// AVX2, FMA, F16C and POPCNT.
    pub(crate) avx2: bool,
    /// AVX-512 F, BW, DQ, VL and CD, with BMI2: what machine code made here is free to use.
    pub(crate) avx512: bool,
    pub(crate) avx512_bf16: bool,
    pub(crate) avx512_vnni: bool,
    pub(crate) avx512_vbmi: bool,
    pub(crate) avx512_fp16: bool,
    /// AMX tiles with bf16 and int8 dot products, and the kernel's permission to use them.
    pub(crate) amx: bool,
    /// Large results are written faster through the caches than past them.
    pub(crate) stores_near: bool,
    /// NEON of AArch64.
    pub(crate) neon: bool,
    /// Dot products of bytes with NEON: AArch64 since 8.4, and most of 8.2.
    pub(crate) dotprod: bool,
}

impl Machine {
    /// The machine this process runs on. Asks the kernel for the use of AMX tiles where there are any.
    pub(crate) fn detect() -> Machine {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("popcnt");
            let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("avx512cd");
            let avx512 = avx2 && wide && has!("bmi2");
            Machine {
                avx2,
                avx512,
                avx512_bf16: avx512 && has!("avx512bf16"),
                avx512_vnni: avx512 && has!("avx512vnni"),
                avx512_vbmi: avx512 && has!("avx512vbmi"),
                avx512_fp16: avx512 && has!("avx512fp16"),
                amx: avx512 && has!("avx512bf16") && amx_present() && amx_permitted(),
                stores_near: is_skylake_server(),
                ..Machine::default()
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected as has;
            let neon = has!("neon");
            Machine { neon, dotprod: neon && has!("dotprod"), ..Machine::default() }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            Machine::portable()
        }
    }

    /// This machine with no instruction set beyond a tier's; `None` where it lacks one that the tier is named after.
    pub(crate) fn limited_to(self, tier: CpuIsa) -> Option<Machine> {
        if !self.has(tier) {
            return None;
        }
        let portable = Machine { stores_near: self.stores_near, ..Machine::default() };
        let avx2 = Machine { avx2: self.avx2, ..portable };
        let avx512 = Machine { avx512: self.avx512, ..avx2 };
        Some(match tier {
            CpuIsa::Portable => portable,
            CpuIsa::Avx2 => avx2,
            CpuIsa::Avx512 => avx512,
            CpuIsa::Vnni => Machine { avx512_vnni: true, ..avx512 },
            CpuIsa::Amx | CpuIsa::Neon => self,
        })
    }

    /// This machine for so many threads.
    pub(crate) fn with_threads(self, threads: usize) -> Machine {
        // More of them wait for memory itself, which stores past the caches ask for less.
        const MOST: usize = 8;
        Machine { stores_near: self.stores_near && threads <= MOST, ..self }
    }

    /// The highest tier of this machine.
    pub(crate) fn tier(&self) -> CpuIsa {
        CpuIsa::ALL.into_iter().rev().find(|&tier| self.has(tier)).unwrap_or(CpuIsa::Portable)
    }

    /// Whether this machine has what a tier is named after.
    pub(crate) fn has(&self, tier: CpuIsa) -> bool {
        match tier {
            CpuIsa::Portable => true,
            CpuIsa::Neon => self.neon,
            CpuIsa::Avx2 => self.avx2,
            CpuIsa::Avx512 => self.avx512,
            CpuIsa::Vnni => self.avx512 && self.avx512_vnni,
            CpuIsa::Amx => self.amx,
        }
    }

    /// A machine of which nothing is known: every kernel has a path for it.
    #[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    pub(crate) fn portable() -> Machine {
        Machine::default()
    }
}

/// Whether the CPU has AMX tiles for bf16 and int8 matmuls.
#[cfg(target_arch = "x86_64")]
fn amx_present() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    let leaf = std::arch::x86_64::__cpuid_count(7, 0);
    leaf.edx & (BF16 | TILE | INT8) == BF16 | TILE | INT8
}

/// Whether this is a Skylake, Cascade Lake or Cooper Lake server. A copy of 64 MiB takes 11.0 ms there through the caches, where
/// places are asked for early, and 14.2 ms past them; on a Sapphire Rapids 10.1 and 7.2 ms.
#[cfg(target_arch = "x86_64")]
fn is_skylake_server() -> bool {
    use std::arch::x86_64::__cpuid;
    let vendor = __cpuid(0);
    let signature = __cpuid(1).eax;
    let (family, model) = ((signature >> 8) & 15, ((signature >> 4) & 15) | ((signature >> 12) & 0xf0));
    let is_intel = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes) == [*b"Genu", *b"ineI", *b"ntel"];
    is_intel && family == 6 && model == 85
}

/// Whether the kernel lets this process use tile data; all threads of the process get the permission.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn amx_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let status: i64;
    // SAFETY: arch_prctl with this request takes two integers and touches no memory of the process.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => status,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    status == 0
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn amx_permitted() -> bool {
    false
}

/// While it lives, this thread takes denormal operands as zero and gives zero for denormal results, as XLA does.
///
/// A no-op where the mode is not known.
#[derive(Debug)]
pub(crate) struct FlushDenormals {
    before: control::Word,
    /// The mode belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl FlushDenormals {
    pub(crate) fn new() -> FlushDenormals {
        let before = control::read();
        control::write(before | control::FLUSH);
        FlushDenormals { before, _thread: PhantomData }
    }
}

impl Drop for FlushDenormals {
    fn drop(&mut self) {
        control::write(self.before);
    }
}

/// While it lives, this thread computes with denormals: what the reference interpreter expects.
#[derive(Debug)]
pub(crate) struct KeepDenormals {
    before: control::Word,
    _thread: PhantomData<*const ()>,
}

impl KeepDenormals {
    pub(crate) fn new() -> KeepDenormals {
        let before = control::read();
        control::write(before & !control::FLUSH);
        KeepDenormals { before, _thread: PhantomData }
    }
}

impl Drop for KeepDenormals {
    fn drop(&mut self) {
        control::write(self.before);
    }
}

/// The control word of SSE arithmetic.
#[cfg(target_arch = "x86_64")]
mod control {
    pub(super) type Word = u32;
    const FLUSH_TO_ZERO: Word = 1 << 15;
    const DENORMALS_ARE_ZERO: Word = 1 << 6;
    pub(super) const FLUSH: Word = FLUSH_TO_ZERO | DENORMALS_ARE_ZERO;

    pub(super) fn read() -> Word {
        let mut word = 0;
        // SAFETY: stores four bytes into `word`.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: loads four bytes of `word`, which came from `read` with defined mode bits added.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

/// The control register of reals, FPCR.
#[cfg(target_arch = "aarch64")]
mod control {
    pub(super) type Word = u64;
    /// FZ: of operands and of results, but for f16.
    pub(super) const FLUSH: Word = 1 << 24;

    pub(super) fn read() -> Word {
        let word;
        // SAFETY: reads a register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: the word came from `read`, with the mode bit set or cleared.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

/// Where the mode is not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) type Word = u32;
    pub(super) const FLUSH: Word = 0;

    pub(super) fn read() -> Word {
        0
    }

    pub(super) fn write(_: Word) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn denormals_flush_only_while_guarded() {
        let half_of_smallest_normal = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        assert!(half_of_smallest_normal() > 0.0);
        let guard = FlushDenormals::new();
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!(half_of_smallest_normal(), 0.0);
        }
        drop(guard);
        assert!(half_of_smallest_normal() > 0.0);
    }

    #[test]
    fn wider_sets_imply_narrower_ones() {
        let machine = Machine::detect();
        assert!(!machine.avx512 || machine.avx2);
        assert!(!machine.amx || machine.avx512_bf16);
        assert_eq!(Machine::portable(), Machine::default());
    }

    #[test]
    fn a_tier_has_what_the_tiers_below_it_have() {
        let all = Machine {
            avx2: true,
            avx512: true,
            avx512_bf16: true,
            avx512_vnni: true,
            avx512_vbmi: true,
            avx512_fp16: true,
            amx: true,
            ..Machine::default()
        };
        for tier in CpuIsa::ALL {
            let Some(machine) = all.limited_to(tier) else {
                assert_eq!(tier, CpuIsa::Neon);
                continue;
            };
            assert_eq!(machine.tier(), tier);
            assert_eq!(machine.limited_to(tier), Some(machine));
            assert!(machine.limited_to(CpuIsa::Amx).is_none() || tier == CpuIsa::Amx);
        }
        assert_eq!(Machine::portable().limited_to(CpuIsa::Avx2), None);
    }
}
