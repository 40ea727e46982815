/*
 * The cpu device: picks the instruction-set level and fills the table. Compiled once; the kernels
 * beside it are compiled once per level.
 */
#define _DEFAULT_SOURCE // syscall
#include "ops/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "ops/ref/ref.h"

struct cpu_level {
    const char *name; // what METIER_CPU_LEVEL may say
    const char *description;
    bool (*available)(void);
    const struct mt_op_impl *(*table)(void);
    const struct mt_op_impl *(*below)(void); // for what it lacks or does not take, before ref; NULL: none
};

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)

const struct mt_op_impl *mt_cpu_v1_table(void);
const struct mt_op_impl *mt_cpu_v3_table(void);
const struct mt_op_impl *mt_cpu_v4_table(void);
const struct mt_op_impl *mt_cpu_amx_table(void);

static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}

/*
 * The tile unit: the processor has it, and Linux grants it. A process must ask (its threads save 8 KiB more
 * once they use it), and asking again does no harm; a kernel that does not know the unit refuses.
 */
static bool has_amx(void)
{
#if defined(__linux__)
    const unsigned bf16_and_tile = 1u << 22 | 1u << 24;
    const long request_permission = 0x1023; // ARCH_REQ_XCOMP_PERM
    const long tile_data = 18;              // XFEATURE_XTILEDATA
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (!has_v4() || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    if ((edx & bf16_and_tile) != bf16_and_tile) return false;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

// Best first.
static const struct cpu_level levels[] = {
    {"amx", "x86-64-v4 and AMX", has_amx, mt_cpu_amx_table, mt_cpu_v4_table},
    {"v4", "x86-64-v4 (AVX-512)", has_v4, mt_cpu_v4_table, NULL},
    {"v3", "x86-64-v3 (AVX2)", has_v3, mt_cpu_v3_table, NULL},
    {"v1", "x86-64 (SSE2)", always, mt_cpu_v1_table, NULL},
};

#elif defined(__aarch64__)

const struct mt_op_impl *mt_cpu_neon_table(void);
const struct mt_op_impl *mt_cpu_sve_table(void);
const struct mt_op_impl *mt_cpu_bf16_table(void);

/* One of the extensions the kernel reports, as <asm/hwcap.h> numbers them. */
static bool has_extension(unsigned long kind, int bit)
{
#if defined(__linux__)
    return (getauxval(kind) >> bit & 1) != 0;
#else
    (void)kind;
    (void)bit;
    return false;
#endif
}

static bool has_sve(void)
{
    return has_extension(16, 22); // AT_HWCAP, HWCAP_SVE
}

static bool has_bf16(void)
{
    return has_extension(26, 14); // AT_HWCAP2, HWCAP2_BF16
}

// Best first.
static const struct cpu_level levels[] = {
    {"bf16", "aarch64 (NEON, BF16)", has_bf16, mt_cpu_bf16_table, mt_cpu_neon_table},
    {"sve", "aarch64 (SVE)", has_sve, mt_cpu_sve_table, mt_cpu_neon_table},
    {"neon", "aarch64 (NEON)", always, mt_cpu_neon_table, NULL},
};

#else

const struct mt_op_impl *mt_cpu_base_table(void);

static const struct cpu_level levels[] = {
    {"base", "portable", always, mt_cpu_base_table, NULL},
};

#endif

static enum mt_status pick_level(struct mt_context *ctx, const struct cpu_level **picked)
{
    const char *wanted = getenv("METIER_CPU_LEVEL");
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        bool named = wanted == NULL || wanted[0] == '\0' || strcmp(wanted, levels[i].name) == 0;
        if (named && levels[i].available()) {
            *picked = &levels[i];
            return MT_OK;
        }
    }
    return mt_fail(ctx, MT_ERR_USAGE, "METIER_CPU_LEVEL is '%s', which this machine or build does not have",
                   wanted);
}

enum mt_status mt_cpu_init(struct mt_device *device, int threads)
{
    const struct cpu_level *level = NULL;
    enum mt_status status = pick_level(device->ctx, &level);
    if (status != MT_OK) return status;
    status = mt_ref_init(device, 1);
    if (status != MT_OK) return status;
    const struct mt_op_impl *table = level->table();
    const struct mt_op_impl *below = level->below == NULL ? NULL : level->below();
    for (int op = 0; op < MT_OP_COUNT; op++) {
        const struct mt_op_impl ref = device->impl[op][0];
        int variants = 0;
        if (table[op].run != NULL) device->impl[op][variants++] = table[op];
        if (below != NULL && below[op].run != NULL) device->impl[op][variants++] = below[op];
        device->impl[op][variants] = ref;
        device->own[op] = variants > 0;
    }
    device->threads = threads > 0 ? threads : omp_get_num_procs();
    (void)snprintf(device->description, sizeof device->description, "cpu, %s, %d thread%s",
                   level->description, device->threads, device->threads == 1 ? "" : "s");
    return MT_OK;
}
