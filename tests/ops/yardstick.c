/* The yardsticks: OpenBLAS's sgemm on its own threads; memcpy and multiplications, a piece for each thread.
 */
#include "ops/yardstick.h"

#ifdef METIER_OPENBLAS
#include <cblas.h>
#endif
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct yardstick {
    int64_t m, n, k;         // 0 if no sgemm
    size_t bytes;            // to copy
    int64_t multiplications; // 0 for a copy
    int threads;
    float *a;
    float *b;
    float *c;
};

bool yardstick_has_sgemm(void)
{
#ifdef METIER_OPENBLAS
    return true;
#else
    return false;
#endif
}

void yardstick_use_best_openblas(char **argv)
{
#if defined(__x86_64__) && defined(METIER_OPENBLAS)
    if (getenv("OPENBLAS_CORETYPE") != NULL) return;
    const char *best = NULL;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = "HASWELL";
    if (best != NULL && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        best = "SKYLAKEX";
    const char *now = openblas_get_corename();
    bool outdated = strcmp(now, "Prescott") == 0 || strcmp(now, "Core2") == 0 || strcmp(now, "Nehalem") == 0;
    if (best == NULL || !outdated) return;
    if (setenv("OPENBLAS_CORETYPE", best, 1) != 0) return;
    (void)execv("/proc/self/exe", argv);
    (void)fprintf(stderr,
                  "op_cases: could not restart with OPENBLAS_CORETYPE=%s; sgemm is slower than it could be\n",
                  best);
#else
    (void)argv;
#endif
}

const char *yardstick_openblas_name(void)
{
#ifdef METIER_OPENBLAS
    return openblas_get_corename();
#else
    return "not built in";
#endif
}

static float *new_floats(size_t count)
{
    float *memory = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; memory != NULL && i < count; i++) memory[i] = (float)(i % 17) * 0.1f;
    return memory;
}

static struct yardstick *finish(struct yardstick *y)
{
    bool complete = y->a != NULL && y->b != NULL && (y->k == 0 || y->c != NULL);
    if (complete) return y;
    yardstick_free(y);
    return NULL;
}

struct yardstick *yardstick_new_sgemm(int64_t m, int64_t n, int64_t k, int threads)
{
    struct yardstick *y = yardstick_has_sgemm() ? calloc(1, sizeof *y) : NULL;
    if (y == NULL) return NULL;
    *y = (struct yardstick){.m = m, .n = n, .k = k, .threads = threads};
    y->a = new_floats((size_t)(m * k));
    y->b = new_floats((size_t)(n * k));
    y->c = new_floats((size_t)(m * n));
    return finish(y);
}

struct yardstick *yardstick_new_copy(size_t bytes, int threads)
{
    struct yardstick *y = calloc(1, sizeof *y);
    if (y == NULL) return NULL;
    *y = (struct yardstick){.bytes = bytes / 2, .threads = threads};
    y->a = new_floats(bytes / 2 / sizeof(float) + 1);
    y->b = new_floats(bytes / 2 / sizeof(float) + 1);
    return finish(y);
}

struct yardstick *yardstick_new_multiplications(double count, int threads)
{
    struct yardstick *y = calloc(1, sizeof *y);
    if (y == NULL) return NULL;
    *y = (struct yardstick){.multiplications = (int64_t)count, .threads = threads};
    return y;
}

void yardstick_free(struct yardstick *y)
{
    if (y == NULL) return;
    free(y->a);
    free(y->b);
    free(y->c);
    free(y);
}

static void run_copy(const struct yardstick *y)
{
    size_t piece = y->bytes / (size_t)y->threads;
#pragma omp parallel for num_threads(y->threads) schedule(static)
    for (int i = 0; i < y->threads; i++) {
        size_t start = piece * (size_t)i;
        memcpy((char *)y->b + start, (const char *)y->a + start,
               i == y->threads - 1 ? y->bytes - start : piece);
    }
}

static uint64_t multiply(int64_t count)
{
#if defined(__x86_64__)
    const char *level = getenv("METIER_CPU_LEVEL");
    bool v1 = level != NULL && strcmp(level, "v1") == 0;
    bool v3 = level != NULL && strcmp(level, "v3") == 0;
    if (v1 || !__builtin_cpu_supports("avx2")) return yardstick_multiply_v1(count);
    if (v3 || !__builtin_cpu_supports("avx512f")) return yardstick_multiply_v3(count);
    return yardstick_multiply_v4(count);
#else
    return yardstick_multiply_base(count);
#endif
}

static void run_multiplications(const struct yardstick *y)
{
    uint64_t sum = 0;
#pragma omp parallel for num_threads(y->threads) schedule(static) reduction(+ : sum)
    for (int i = 0; i < y->threads; i++) sum += multiply(y->multiplications / y->threads);
    __asm__ volatile("" : : "r"(sum)); // somebody wants to know
}

void yardstick_run(struct yardstick *y)
{
    if (y->multiplications != 0) {
        run_multiplications(y);
        return;
    }
    if (y->k == 0) {
        run_copy(y);
        return;
    }
#ifdef METIER_OPENBLAS
    openblas_set_num_threads(y->threads);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)y->m, (int)y->n, (int)y->k, 1.0f, y->a,
                (int)y->k, y->b, (int)y->k, 0.0f, y->c, (int)y->n);
#endif
}
