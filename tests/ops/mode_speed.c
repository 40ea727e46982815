/*
 * speed: every timed case, held against a yardstick run in turns with it, so that a noisy machine slows
 * both: sgemm for cases that state flops, a threaded memcpy of the same traffic for the others. The rate
 * printed is that of the best round; the share is the median over the rounds, each against the yardstick's
 * run just before it.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_case.h"
#include "ops/yardstick.h"

#define ROUNDS        9
#define ROUND_SECONDS 0.05 // a round repeats the call at least this long

typedef enum mt_status (*case_call)(struct mt_device *device, const struct op_case *c, struct mt_tensor *t);

struct speed_state {
    const struct op_case *c;
    struct mt_context ctx;
    struct mt_device *device;
    struct case_tensors tensors;
};

/* Seconds per call over one round. */
static double time_op(struct speed_state *s, case_call call)
{
    int calls = 0;
    double start = omp_get_wtime();
    double now = start;
    while (calls == 0 || now - start < ROUND_SECONDS) {
        if (call(s->device, s->c, s->tensors.tensor) != MT_OK) return -1.0;
        (void)mt_device_synchronise(s->device);
        calls++;
        now = omp_get_wtime();
    }
    return (now - start) / calls;
}

static double time_yardstick(struct yardstick *y)
{
    int calls = 0;
    double start = omp_get_wtime();
    double now = start;
    while (calls == 0 || now - start < ROUND_SECONDS) {
        yardstick_run(y);
        calls++;
        now = omp_get_wtime();
    }
    return (now - start) / calls;
}

static void print_row(enum mt_op op, const char *label, const struct mode_options *options, double rate,
                      const char *unit, double percent)
{
    if (options->markdown) {
        printf("| %s | %s | %.1f %s | %.0f %% |\n", mt_op_name(op), label, rate, unit, percent);
    } else {
        printf("%-24s %-56s %8.1f %-8s %5.0f %%\n", mt_op_name(op), label, rate, unit, percent);
    }
    (void)fflush(stdout);
}

static int compare_doubles(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0.0) - (difference < 0.0);
}

/* Times one direction and prints its row; returns false on failure. */
static bool measure(struct speed_state *s, const struct mode_options *options, enum mt_op op, case_call call,
                    double flops, double bytes)
{
    int threads = omp_get_num_procs();
    const int64_t *sgemm = s->c->sgemm;
    bool by_flops = flops > 0;
    double yard_work = bytes;
    struct yardstick *y = NULL;
    if (by_flops) {
        int64_t m = sgemm[0] != 0 ? sgemm[0] : 1024;
        int64_t n = sgemm[1] != 0 ? sgemm[1] : 1024;
        int64_t k = sgemm[2] != 0 ? sgemm[2] : 1024;
        y = yardstick_new_sgemm(m, n, k, threads);
        yard_work = 2.0 * (double)m * (double)n * (double)k;
    } else {
        y = yardstick_new_copy((size_t)bytes, threads);
    }
    bool alone = by_flops && !yardstick_has_sgemm();
    if (y == NULL && !alone) return false;
    double best_op = 1e30;
    double shares[ROUNDS];
    double work = by_flops ? flops : bytes;
    bool ok = time_op(s, call) > 0; // warm-up: page faults, scratch
    for (int round = 0; round < ROUNDS && ok; round++) {
        double yard = alone ? (double)INFINITY : time_yardstick(y); // nothing to share with: infinite
        double op_seconds = time_op(s, call);
        ok = op_seconds > 0;
        if (op_seconds < best_op) best_op = op_seconds;
        shares[round] = (work / op_seconds) / (yard_work / yard);
    }
    yardstick_free(y);
    if (!ok) {
        printf("FAIL %s %s: %s\n", mt_op_name(op), s->c->label, s->ctx.message);
        return false;
    }
    qsort(shares, ROUNDS, sizeof shares[0], compare_doubles);
    print_row(op, s->c->label, options, work / best_op * 1e-9, by_flops ? "GFLOP/s" : "GB/s",
              100.0 * shares[ROUNDS / 2]);
    return true;
}

static bool speed_case(struct speed_state *s, const struct mode_options *options)
{
    const struct op_case *c = s->c;
    enum mt_status status = mt_device_create(&s->ctx, options->device, 0, &s->device);
    if (status == MT_OK) {
        struct case_tensors host;
        status = case_make_host(&s->ctx, c, false, &host);
        if (status == MT_OK) status = case_copy_to(s->device, c, &host, &s->tensors);
        case_free(c, &host);
    }
    if (status != MT_OK) {
        printf("FAIL %s %s: %s\n", mt_op_name(c->op), c->label, s->ctx.message);
        return false;
    }
    bool ok = true;
    if (c->flops > 0 || c->bytes > 0) ok = measure(s, options, c->op, c->forward, c->flops, c->bytes);
    if (ok && (c->backward_flops > 0 || c->backward_bytes > 0)) {
        ok = measure(s, options, c->backward_op, c->backward, c->backward_flops, c->backward_bytes);
    }
    return ok;
}

int mode_speed(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    if (options->markdown) {
        printf("| op | case | reached | of the yardstick |\n|---|---|---|---|\n");
    } else {
        printf("yardsticks: OpenBLAS sgemm (%s kernels), memcpy; %d threads\n", yardstick_openblas_name(),
               omp_get_num_procs());
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        bool timed = c->flops > 0 || c->bytes > 0 || c->backward_flops > 0 || c->backward_bytes > 0;
        if (!timed || !case_selected(c, options)) continue;
        struct speed_state s = {.c = c};
        mt_context_init(&s.ctx, NULL);
        failures += !speed_case(&s, options);
        case_free(c, &s.tensors);
        mt_device_destroy(s.device);
    }
    return failures;
}
