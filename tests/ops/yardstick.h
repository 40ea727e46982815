/*
 * What this machine can do, the yardsticks of the speed mode: OpenBLAS's sgemm, a threaded memcpy, and
 * multiplications of 32-bit words, of whose products both halves are used, at the instruction-set level that
 * METIER_CPU_LEVEL names, or the machine's best.
 */
#ifndef MT_TESTS_YARDSTICK_H
#define MT_TESTS_YARDSTICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False in a build without OpenBLAS: then there is no sgemm to be held against. */
bool yardstick_has_sgemm(void);

/*
 * Debian 12's OpenBLAS does not know the newest processors and then falls back to SSE3 kernels, a fifth
 * of the speed. To be held against OpenBLAS at its best, the program restarts itself once with
 * OPENBLAS_CORETYPE set to what the processor can run. Returns if nothing needs to change.
 */
void yardstick_use_best_openblas(char **argv);

/* The kernels OpenBLAS picked: "SkylakeX", ... */
const char *yardstick_openblas_name(void);

struct yardstick; // opaque

/* Buffers for an M×N×K sgemm, a copy, or multiplications; NULL on no memory, or without sgemm. The caller
 * frees. */
struct yardstick *yardstick_new_sgemm(int64_t m, int64_t n, int64_t k, int threads);
struct yardstick *yardstick_new_copy(size_t bytes, int threads); // bytes read plus bytes written
struct yardstick *yardstick_new_multiplications(double count, int threads);
void yardstick_free(struct yardstick *y);

/* Runs it once. */
void yardstick_run(struct yardstick *y);

/* About `count` multiplications on one thread, at a level (yardstick_multiply.c, compiled for each). */
uint64_t yardstick_multiply_v1(int64_t count);
uint64_t yardstick_multiply_v3(int64_t count);
uint64_t yardstick_multiply_v4(int64_t count);
uint64_t yardstick_multiply_base(int64_t count);

#endif
