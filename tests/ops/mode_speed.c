/*
 * speed: every timed case, held against a yardstick run in turns with it, so that a noisy machine slows
 * both: sgemm for cases that state flops, multiplications for those that state them, a threaded memcpy of the
 * same traffic for the others. The rate
 * printed is that of the best round; the share is the median over the rounds, each against the yardstick's
 * run just before it. A device with memory of its own is held against what it does best itself, measured
 * once: its product of two bf16 matrices of SQUARE², and its copy.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_case.h"
#include "ops/yardstick.h"

#define ROUNDS        9
#define ROUND_SECONDS 0.05 // a round repeats the call at least this long
#define SQUARE        8192
#define COPIED        ((int64_t)1 << 29) // bf16 numbers
#define BURST         8                  // calls a device is given before it is waited for

typedef enum mt_status (*case_call)(struct mt_device *device, const struct op_case *c, struct mt_tensor *t);

/* What a device with memory of its own reaches at best; 0 for a host's. */
struct device_best {
    double flops; // a second
    double bytes;
};

/* What a call does, at the least; 0 where the yardstick is another. */
struct speed_work {
    double flops;
    double multiplications;
    double bytes;
};

struct speed_state {
    const struct op_case *c;
    struct mt_context ctx;
    struct mt_device *device;
    struct case_tensors tensors;
    struct device_best best;
};

/* Seconds per call over one round. */
static double time_op(struct speed_state *s, case_call call)
{
    int calls = 0;
    double start = omp_get_wtime();
    double now = start;
    int burst = mt_device_on_host(s->device) ? 1 : BURST;
    while (calls == 0 || now - start < ROUND_SECONDS) {
        for (int i = 0; i < burst; i++) {
            if (call(s->device, s->c, s->tensors.tensor) != MT_OK) return -1.0;
        }
        if (mt_device_synchronise(s->device) != MT_OK) return -1.0;
        calls += burst;
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

// ------------------------------------------------------------------ devices with memory of their own

enum { LEFT, RIGHT, RESULT };

static enum mt_status multiply_squares(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_gemm(device,
                   &(struct mt_gemm_args){
                       .a = t[LEFT], .b = t[RIGHT], .c = t[RESULT], .transpose_b = true, .alpha = 1.0f});
}

static enum mt_status copy_left(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_copy(device, &(struct mt_copy_args){.x = t[LEFT], .y = t[RIGHT]});
}

/* Three bf16 tensors of these dimensions: what `call` reaches, in calls a second; 0 on failure. */
static double best_rate(const char *device_name, int64_t rows, int64_t columns, int slots, case_call call)
{
    struct case_list list = {0};
    struct op_case *c = case_new(&list, MT_OP_gemm, "yardstick");
    for (int i = 0; i < slots; i++) {
        (void)case_slot(c, "matrix", SLOT_INPUT, MT_BF16, 2, (int64_t[]){rows, columns});
        c->slot[i].fill = FILL_REPEATED;
    }
    struct speed_state s = {.c = c};
    struct case_tensors host = {0};
    mt_context_init(&s.ctx, NULL);
    enum mt_status status = mt_device_create(&s.ctx, device_name, 0, &s.device);
    if (status == MT_OK) status = case_make_host(&s.ctx, c, false, &host);
    if (status == MT_OK) status = case_copy_to(s.device, c, &host, &s.tensors);
    double best = 0.0;
    for (int round = 0; round < ROUNDS && status == MT_OK; round++) {
        double seconds = time_op(&s, call);
        if (round > 0 && seconds > 0 && 1.0 / seconds > best) best = 1.0 / seconds;
    }
    case_free(c, &host);
    case_free(c, &s.tensors);
    mt_device_destroy(s.device);
    free(list.items);
    return best;
}

static bool find_best(const struct mode_options *options, struct device_best *best)
{
    const double side = SQUARE;
    best->flops = 2.0 * side * side * side * best_rate(options->device, SQUARE, SQUARE, 3, multiply_squares);
    best->bytes = 4.0 * (double)COPIED * best_rate(options->device, COPIED / SQUARE, SQUARE, 2, copy_left);
    printf("yardsticks of %s: %.1f TFLOP/s in a bf16 product of %d², %.2f TB/s in a copy\n", options->device,
           best->flops * 1e-12, SQUARE, best->bytes * 1e-12);
    return best->flops > 0.0 && best->bytes > 0.0;
}

/* As `measure`, against the device's own best. */
static bool measure_device(struct speed_state *s, const struct mode_options *options, enum mt_op op,
                           case_call call, struct speed_work work)
{
    bool by_flops = work.flops > 0;
    double best = 1e30;
    bool ok = time_op(s, call) > 0; // warm-up: scratch, libraries
    for (int round = 0; round < ROUNDS && ok; round++) {
        double seconds = time_op(s, call);
        ok = seconds > 0;
        if (seconds < best) best = seconds;
    }
    if (!ok) {
        printf("FAIL %s %s: %s\n", mt_op_name(op), s->c->label, s->ctx.message);
        return false;
    }
    double rate = (by_flops ? work.flops : work.bytes) / best;
    print_row(op, s->c->label, options, rate * (by_flops ? 1e-12 : 1e-9), by_flops ? "TFLOP/s" : "GB/s",
              100.0 * rate / (by_flops ? s->best.flops : s->best.bytes));
    return true;
}

// ------------------------------------------------------------------ the mode

/* The yardstick of a case, and how much it does in a run; NULL on no memory, or without sgemm. */
static struct yardstick *new_yardstick(const struct op_case *c, struct speed_work work, double *amount)
{
    int threads = omp_get_num_procs();
    if (work.flops > 0) {
        int64_t m = c->sgemm[0] != 0 ? c->sgemm[0] : 1024;
        int64_t n = c->sgemm[1] != 0 ? c->sgemm[1] : 1024;
        int64_t k = c->sgemm[2] != 0 ? c->sgemm[2] : 1024;
        *amount = 2.0 * (double)m * (double)n * (double)k;
        return yardstick_new_sgemm(m, n, k, threads);
    }
    if (work.multiplications > 0) {
        *amount = work.multiplications;
        return yardstick_new_multiplications(work.multiplications, threads);
    }
    *amount = work.bytes;
    return yardstick_new_copy((size_t)work.bytes, threads);
}

/* Times one direction and prints its row; returns false on failure. */
static bool measure(struct speed_state *s, const struct mode_options *options, enum mt_op op, case_call call,
                    struct speed_work work)
{
    if (s->best.flops > 0.0) return measure_device(s, options, op, call, work);
    double yard_amount = 0.0;
    struct yardstick *y = new_yardstick(s->c, work, &yard_amount);
    bool alone = work.flops > 0 && !yardstick_has_sgemm();
    if (y == NULL && !alone) return false;
    const char *unit = work.flops > 0 ? "GFLOP/s" : work.multiplications > 0 ? "Gmul/s" : "GB/s";
    double amount = work.flops > 0             ? work.flops
                    : work.multiplications > 0 ? work.multiplications
                                               : work.bytes;
    double best_op = 1e30;
    double shares[ROUNDS];
    bool ok = time_op(s, call) > 0; // warm-up: page faults, scratch
    for (int round = 0; round < ROUNDS && ok; round++) {
        double yard = alone ? (double)INFINITY : time_yardstick(y); // nothing to share with: infinite
        double op_seconds = time_op(s, call);
        ok = op_seconds > 0;
        if (op_seconds < best_op) best_op = op_seconds;
        shares[round] = (amount / op_seconds) / (yard_amount / yard);
    }
    yardstick_free(y);
    if (!ok) {
        printf("FAIL %s %s: %s\n", mt_op_name(op), s->c->label, s->ctx.message);
        return false;
    }
    qsort(shares, ROUNDS, sizeof shares[0], compare_doubles);
    print_row(op, s->c->label, options, amount / best_op * 1e-9, unit, 100.0 * shares[ROUNDS / 2]);
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
    struct speed_work forward = {c->flops, c->multiplications, c->bytes};
    struct speed_work backward = {c->backward_flops, 0.0, c->backward_bytes};
    if (c->flops > 0 || c->bytes > 0) ok = measure(s, options, c->op, c->forward, forward);
    if (ok && (c->backward_flops > 0 || c->backward_bytes > 0))
        ok = measure(s, options, c->backward_op, c->backward, backward);
    return ok;
}

/* Whether the device computes on memory of its own. */
static bool is_apart(const char *device_name)
{
    struct mt_context ctx;
    struct mt_device *device = NULL;
    mt_context_init(&ctx, NULL);
    bool apart = mt_device_create(&ctx, device_name, 0, &device) == MT_OK && !mt_device_on_host(device);
    mt_device_destroy(device);
    return apart;
}

int mode_speed(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    struct device_best best = {0};
    bool apart = is_apart(options->device);
    if (apart && !find_best(options, &best)) return -1;
    if (options->markdown) {
        printf("| op | case | reached | of the yardstick |\n|---|---|---|---|\n");
    } else if (!apart) {
        printf("yardsticks: OpenBLAS sgemm (%s kernels), memcpy, multiplications; %d threads\n",
               yardstick_openblas_name(), omp_get_num_procs());
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        bool timed = c->flops > 0 || c->bytes > 0 || c->backward_flops > 0 || c->backward_bytes > 0;
        if (!timed || (c->only_device && !apart) || !case_selected(c, options)) continue;
        struct speed_state s = {.c = c, .best = best};
        mt_context_init(&s.ctx, NULL);
        failures += !speed_case(&s, options);
        case_free(c, &s.tensors);
        mt_device_destroy(s.device);
    }
    return failures;
}
