/* Hides instruction sets from a process: every CPUID instruction of it traps, and the answer has fewer features.
 *
 * `run.py --isa TIER` preloads it (LD_PRELOAD), so that libraries that look at the CPU themselves (YNNPACK, oneDNN, Eigen, MKL)
 * keep to the tier as well. HELD_ISA names the tier: portable, avx2, avx512 or vnni. Linux on x86-64 with CPUID faulting only; where that
 * is missing the process ends, because its figures would not be those of the tier. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

/* Leaf 1, ECX: FMA, AVX, F16C. What has vectors since is made of these. */
#define AVX_CORE (BIT(12) | BIT(28) | BIT(29))
/* Leaf 7: AVX2, and BMI1 and BMI2, which came with it. VAES and VPCLMULQDQ are of AVX too. */
#define AVX2_CORE (BIT(3) | BIT(5) | BIT(8))
#define AVX2_MORE_C (BIT(9) | BIT(10))
/* Leaf 7: AVX-512 F, DQ, CD, BW, VL. */
#define AVX512_CORE (BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31))
/* Leaf 7, EBX: IFMA, PF, ER. ECX: VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ. EDX: 4VNNIW, 4FMAPS, VP2INTERSECT, AMX, FP16. */
#define AVX512_MORE_B (BIT(21) | BIT(26) | BIT(27))
#define AVX512_VNNI BIT(11)
#define AVX512_MORE_C (BIT(1) | BIT(6) | BIT(12) | BIT(14))
#define AVX512_MORE_D (BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25))

static enum { PORTABLE, AVX2, AVX512, VNNI } tier;
static int (*next_sigaction)(int, const struct sigaction *, struct sigaction *);
static struct sigaction others;

/* The registers that name features of vectors; the rest passes. */
static void answer(uint32_t leaf, uint32_t subleaf, uint32_t r[4]) {
    if (leaf == 1 && tier == PORTABLE) r[2] &= ~AVX_CORE;
    if (leaf != 7) return;
    if (subleaf == 0) {
        r[1] &= ~(AVX512_MORE_B | (tier <= AVX2 ? AVX512_CORE : 0) | (tier == PORTABLE ? AVX2_CORE : 0));
        r[2] &= ~(AVX512_MORE_C | (tier == VNNI ? 0 : AVX512_VNNI) | (tier == PORTABLE ? AVX2_MORE_C : 0));
        r[3] &= ~AVX512_MORE_D;
    } else {
        /* AVX-VNNI, AVX512-BF16, AMX, and the later ones of AVX. */
        r[0] = r[1] = r[3] = 0;
    }
}

static void on_trap(int number, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)r[REG_RIP];
    if (info->si_code == SI_KERNEL && at[0] == 0x0f && at[1] == 0xa2) {
        uint32_t v[4] = {(uint32_t)r[REG_RAX], 0, (uint32_t)r[REG_RCX], 0};
        uint32_t leaf = v[0], subleaf = v[2];
        syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1L);
        __asm__ volatile("cpuid" : "+a"(v[0]), "=b"(v[1]), "+c"(v[2]), "=d"(v[3]));
        syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0L);
        answer(leaf, subleaf, v);
        r[REG_RAX] = v[0], r[REG_RBX] = v[1], r[REG_RCX] = v[2], r[REG_RDX] = v[3];
        r[REG_RIP] += 2;
        return;
    }
    /* A real fault goes to whom the process wanted to have it, when the instruction is tried again. */
    next_sigaction(number, &others, NULL);
}

/* Nobody else gets the signal of the trap; a library's handler waits for a real fault. */
int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    if (!next_sigaction) next_sigaction = (__typeof__(next_sigaction))dlsym(RTLD_NEXT, "sigaction");
    if (number != SIGSEGV) return next_sigaction(number, new, old);
    if (old) *old = others;
    if (new) others = *new;
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("HELD_ISA");
    if (!name || !*name) return;
    if (!next_sigaction) next_sigaction = (__typeof__(next_sigaction))dlsym(RTLD_NEXT, "sigaction");
    tier = !strcmp(name, "portable") ? PORTABLE : !strcmp(name, "avx2") ? AVX2 : !strcmp(name, "avx512") ? AVX512 : VNNI;
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    others.sa_handler = SIG_DFL;
    if (next_sigaction(SIGSEGV, &action, NULL) || syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0L)) {
        fprintf(stderr, "hold.c: this CPU or kernel has no CPUID faulting; instruction sets cannot be hidden\n");
        _exit(2);
    }
}
