/*
 * compare: the device against ref on every case, and against itself with 1, 2 and 4 threads; with an option,
 * with one number of threads only, where what is looked for is not a number (sanitizers).
 * An element passes when |device - ref| <= tolerance · (rms of the ref tensor + |ref|). Padding between
 * rows must stay untouched.
 *
 * With bf16_inputs, for devices that round operands: every input is a number bf16 has, so that rounding it is
 * exact and only what an op rounds within itself is off. That is a share of the terms of a row's own sums,
 * and rows differ (the first queries of a sequence average few keys, a busy expert's gradient has many
 * terms): errors are then relative to the row's rms where that is the larger.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op_case.h"
#include "tensor/dtype.h"

#define THREAD_COUNTS 3

struct thread_counts {
    int count;
    int of[THREAD_COUNTS];
};

static struct thread_counts thread_counts_of(const struct mode_options *options)
{
    if (options->threads > 0) return (struct thread_counts){1, {options->threads}};
    return (struct thread_counts){THREAD_COUNTS, {1, 2, 4}};
}

#define EXACT_AT_MOST 1e-20 // a tolerance below this asks for the very same number

struct compare_state {
    const struct op_case *c;
    const struct mode_options *options;
    struct thread_counts threads;
    struct mt_context ctx;
    struct case_tensors initial;                // host data before anything ran
    struct case_tensors reference;              // after ref's forward and backward
    struct case_tensors fetched[THREAD_COUNTS]; // the device's results, back on the host
    // Not on the host: 16-bit results are rounded from the device's own sums, where the cpu leaves them to
    // ref. A sum a little to the other side of a tie is then a whole last place away.
    bool own_rounding;
    double worst;      // worst error as a share of its tolerance
    char failure[256]; // "" while all is well
};

static bool offset_is_padding(const struct mt_tensor *t, int64_t offset)
{
    if (t->rank < 2) return false;
    int64_t row = t->stride[t->rank - 2];
    return offset % row >= t->dim[t->rank - 1];
}

/* What the last place of a 16-bit number is worth, relative to it. */
static double last_place(enum mt_dtype dtype)
{
    if (dtype == MT_BF16) return 0x1p-7;
    return dtype == MT_F16 ? 0x1p-10 : 0.0;
}

/* The rms of the row, along the last axis, that element `offset` of the memory is in. */
static double row_rms(const struct mt_tensor *t, int64_t offset)
{
    int64_t width = t->dim[t->rank - 1];
    int64_t first = t->rank > 1 ? offset - offset % t->stride[t->rank - 2] : 0;
    double squares = 0.0;
    for (int64_t i = first; i < first + width; i++) {
        double value = mt_load(t->dtype, t->data, i);
        if (isfinite(value)) squares += value * value;
    }
    return sqrt(squares / (double)width);
}

static void compare_slot(struct compare_state *s, int index)
{
    const struct op_slot *slot = &s->c->slot[index];
    const struct mt_tensor *ref = &s->reference.tensor[index];
    const struct mt_tensor *got = &s->fetched[0].tensor[index];
    int64_t span = (int64_t)(s->reference.buffer[index].bytes / mt_dtype_bytes(slot->dtype));
    double squares = 0.0;
    for (int64_t i = 0; i < span; i++) {
        double value = mt_load(slot->dtype, ref->data, i);
        if (!offset_is_padding(ref, i) && isfinite(value)) squares += value * value;
    }
    int64_t count = mt_tensor_count(ref);
    double rms = count > 0 ? sqrt(squares / (double)count) : 0.0;
    double tolerance = slot->tolerance != 0.0 ? slot->tolerance : s->c->tolerance;
    if (s->own_rounding && tolerance > EXACT_AT_MOST) tolerance = fmax(tolerance, last_place(slot->dtype));
    if (tolerance > EXACT_AT_MOST) tolerance = fmax(tolerance, s->options->least_tolerance);
    for (int64_t i = 0; i < span; i++) {
        double expected = mt_load(slot->dtype, ref->data, i);
        double value = mt_load(slot->dtype, got->data, i);
        if (expected == value || (isnan(expected) && isnan(value))) continue;
        double scale = s->options->bf16_inputs ? fmax(rms, row_rms(ref, i)) : rms;
        double share = fabs(value - expected) / (tolerance * (scale + fabs(expected)) + 1e-300);
        if (slot->dtype == MT_I32 || offset_is_padding(ref, i) || isnan(share)) share = INFINITY;
        if (share > s->worst) s->worst = share;
        if (share > 1.0 && s->failure[0] == '\0') {
            (void)snprintf(s->failure, sizeof s->failure,
                           "%s[%lld]%s is %.9g, ref has %.9g (%.3g of the tolerance)", slot->name,
                           (long long)i, offset_is_padding(ref, i) ? " (padding)" : "", value, expected,
                           share);
        }
    }
}

static void compare_threads(struct compare_state *s, int index)
{
    for (int i = 1; i < s->threads.count; i++) {
        const struct mt_buffer *first = &s->fetched[0].buffer[index];
        const struct mt_buffer *other = &s->fetched[i].buffer[index];
        if (first->bytes == 0 || memcmp(first->data, other->data, first->bytes) == 0) continue;
        if (s->failure[0] == '\0') {
            (void)snprintf(s->failure, sizeof s->failure, "%s differs in bits between %d and %d threads",
                           s->c->slot[index].name, s->threads.of[0], s->threads.of[i]);
        }
    }
}

/* Runs the case on one device; backward starts from ref's forward results, so errors do not add up. */
static enum mt_status run_device(struct compare_state *s, struct mt_device *device,
                                 struct case_tensors *result)
{
    const struct op_case *c = s->c;
    struct case_tensors on_device;
    enum mt_status status = case_copy_to(device, c, &s->initial, &on_device);
    if (status != MT_OK) return status;
    status = c->forward(device, c, on_device.tensor);
    for (int i = 0; i < c->slots && status == MT_OK; i++) {
        if (!slot_written_by_forward(&c->slot[i])) continue;
        status = case_fetch(device, i, &on_device, result);
        if (status != MT_OK || c->backward == NULL || result == &s->reference) continue;
        status = mt_device_upload(device, on_device.buffer[i].data, s->reference.buffer[i].data,
                                  s->reference.buffer[i].bytes);
    }
    if (status == MT_OK && c->backward != NULL) status = c->backward(device, c, on_device.tensor);
    for (int i = 0; i < c->slots && status == MT_OK; i++) {
        if (slot_written_by_backward(&c->slot[i])) status = case_fetch(device, i, &on_device, result);
    }
    case_free(c, &on_device);
    return status;
}

static enum mt_status run_reference(struct compare_state *s)
{
    struct mt_device *device = NULL;
    enum mt_status status = mt_device_create(&s->ctx, "ref", 1, &device);
    if (status == MT_OK) status = run_device(s, device, &s->reference);
    mt_device_destroy(device);
    return status;
}

/* The device at one of its levels (NULL: its own choice), and what it made beside ref's. */
static enum mt_status run_level(struct compare_state *s, const char *level)
{
    struct mt_device *device = NULL;
    enum mt_status status = MT_OK;
    if (level != NULL && setenv("METIER_CPU_LEVEL", level, 1) != 0) return MT_ERR_INTERNAL;
    for (int i = 0; i < s->threads.count && status == MT_OK; i++) {
        device = NULL;
        status = mt_device_create(&s->ctx, s->options->device, s->threads.of[i], &device);
        if (status == MT_OK) s->own_rounding = !mt_device_on_host(device);
        if (status == MT_OK) status = run_device(s, device, &s->fetched[i]);
        mt_device_destroy(device);
    }
    for (int i = 0; i < s->c->slots && status == MT_OK; i++) {
        compare_slot(s, i);
        compare_threads(s, i);
    }
    return status;
}

static enum mt_status compare_case(struct compare_state *s)
{
    enum mt_status status = case_make_host(&s->ctx, s->c, false, &s->initial);
    if (status == MT_OK) status = case_make_host(&s->ctx, s->c, false, &s->reference);
    for (int i = 0; i < s->threads.count && status == MT_OK; i++) {
        status = case_make_host(&s->ctx, s->c, false, &s->fetched[i]);
    }
    if (status == MT_OK) status = run_reference(s);
    if (status == MT_OK && s->options->levels == 0) status = run_level(s, NULL);
    for (int i = 0; i < s->options->levels && status == MT_OK; i++)
        status = run_level(s, s->options->level[i]);
    if (status != MT_OK) {
        (void)snprintf(s->failure, sizeof s->failure, "%s: %.200s", mt_status_text(status), s->ctx.message);
    }
    case_free(s->c, &s->initial);
    case_free(s->c, &s->reference);
    for (int i = 0; i < s->threads.count; i++) case_free(s->c, &s->fetched[i]);
    if (s->ctx.live_bytes != 0 && s->failure[0] == '\0') {
        (void)snprintf(s->failure, sizeof s->failure, "%zu bytes leaked", s->ctx.live_bytes);
    }
    return status;
}

int mode_compare(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    int passed = 0;
    int skipped = 0;
    double worst = 0.0;
    // A device that computes on host memory falls back to ref; only others may lack an op.
    bool may_lack_ops = strcmp(options->device, "cpu") != 0;
    for (size_t i = 0; i < list->count; i++) {
        struct op_case filled = list->items[i];
        const struct op_case *c = &filled;
        if (c->only_speed || (c->only_device && !may_lack_ops) || !case_selected(c, options)) continue;
        filled.bf16_inputs = options->bf16_inputs;
        struct compare_state s = {.c = c, .options = options, .threads = thread_counts_of(options)};
        mt_context_init(&s.ctx, NULL);
        enum mt_status status = compare_case(&s);
        if (status == MT_ERR_UNSUPPORTED && may_lack_ops) {
            skipped++;
            continue;
        }
        bool ok = s.failure[0] == '\0';
        if (s.worst > worst) worst = s.worst;
        passed += ok;
        failures += !ok;
        if (!ok || options->verbose) {
            printf("%-4s %-24s %-56s %8.2g  %s\n", ok ? "ok" : "FAIL", mt_op_name(c->op), c->label, s.worst,
                   s.failure);
        }
    }
    printf("compare %s with ref, %s threads: worst error %.2g of its tolerance\n", options->device,
           options->threads > 0 ? "one number of" : "1/2/4", worst);
    printf("%d passed, %d failed, %d skipped\n", passed, failures, skipped);
    return passed + failures == 0 ? 1 : failures;
}
