/*
 * gradient: ref's backward against central differences of ref's forward, everything in double. The
 * scalar differentiated is Σ <gradient arriving at an output, that output>.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "ops/op_case.h"
#include "tensor/dtype.h"

#define SAMPLES   24   // elements checked per tensor (all, when it has no more)
#define TOLERANCE 2e-6 // relative to the rms of the gradient plus the element itself

struct gradient_state {
    const struct op_case *c;
    struct mt_context ctx;
    struct mt_device *device;
    struct case_tensors initial;
    struct case_tensors work;
    struct case_tensors analytic;
    double worst; // share of the tolerance
    int checked;
    char failure[256];
};

/* Memory offset of the i-th element in row-major order. */
static int64_t element_offset(const struct mt_tensor *t, int64_t i)
{
    int64_t offset = 0;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        offset += i % t->dim[axis] * t->stride[axis];
        i /= t->dim[axis];
    }
    return offset;
}

static void reset(struct gradient_state *s, struct case_tensors *target)
{
    for (int i = 0; i < s->c->slots; i++) {
        memcpy(target->buffer[i].data, s->initial.buffer[i].data, s->initial.buffer[i].bytes);
    }
}

static double scalar(const struct gradient_state *s)
{
    double sum = 0.0;
    for (int i = 0; i < s->c->slots; i++) {
        if (s->c->slot[i].role != SLOT_GRAD_IN) continue;
        const struct mt_tensor *weight = &s->work.tensor[i];
        const struct mt_tensor *out = &s->work.tensor[s->c->slot[i].of];
        for (int64_t e = 0; e < mt_tensor_count(out); e++) {
            sum += mt_load(MT_F64, weight->data, element_offset(weight, e)) *
                   mt_load(MT_F64, out->data, element_offset(out, e));
        }
    }
    return sum;
}

static enum mt_status numeric(struct gradient_state *s, int input, int64_t offset, double *slope)
{
    double values[2];
    double original = ((const double *)s->initial.buffer[input].data)[offset];
    double step = 1e-5 * (1.0 + fabs(original));
    for (int side = 0; side < 2; side++) {
        reset(s, &s->work);
        ((double *)s->work.buffer[input].data)[offset] = original + (side == 0 ? step : -step);
        enum mt_status status = s->c->forward(s->device, s->c, s->work.tensor);
        if (status != MT_OK) return status;
        values[side] = scalar(s);
    }
    *slope = (values[0] - values[1]) / (2.0 * step);
    return MT_OK;
}

static enum mt_status check_slot(struct gradient_state *s, int index)
{
    const struct op_slot *slot = &s->c->slot[index];
    const struct mt_tensor *gradient = &s->analytic.tensor[index];
    const struct mt_tensor *before = &s->initial.tensor[index];
    int64_t count = mt_tensor_count(gradient);
    double squares = 0.0;
    for (int64_t e = 0; e < count; e++) {
        int64_t offset = element_offset(gradient, e);
        double value = mt_load(MT_F64, gradient->data, offset);
        if (slot->role == SLOT_GRAD_SUM) value -= mt_load(MT_F64, before->data, offset);
        squares += value * value;
    }
    double rms = count > 0 ? sqrt(squares / (double)count) : 0.0;
    for (int64_t sample = 0; sample < (count < SAMPLES ? count : SAMPLES); sample++) {
        int64_t e = count <= SAMPLES
                        ? sample
                        : (int64_t)mt_rng_below(7, (uint64_t)index, (uint64_t)sample, (uint64_t)count);
        int64_t offset = element_offset(gradient, e);
        double value = mt_load(MT_F64, gradient->data, offset);
        if (slot->role == SLOT_GRAD_SUM) value -= mt_load(MT_F64, before->data, offset);
        double slope = 0.0;
        enum mt_status status = numeric(s, slot->of, element_offset(&s->initial.tensor[slot->of], e), &slope);
        if (status != MT_OK) return status;
        double share = fabs(value - slope) / (TOLERANCE * (rms + fabs(value)) + 1e-9);
        s->checked++;
        if (!(share <= s->worst)) s->worst = share;
        if (!(share <= 1.0) && s->failure[0] == '\0') {
            (void)snprintf(s->failure, sizeof s->failure, "%s[%lld] is %.9g, finite difference %.9g",
                           slot->name, (long long)e, value, slope);
        }
    }
    return MT_OK;
}

static enum mt_status gradient_case(struct gradient_state *s)
{
    enum mt_status status = case_make_host(&s->ctx, s->c, true, &s->initial);
    if (status == MT_OK) status = case_make_host(&s->ctx, s->c, true, &s->work);
    if (status == MT_OK) status = case_make_host(&s->ctx, s->c, true, &s->analytic);
    if (status == MT_OK) status = s->c->forward(s->device, s->c, s->analytic.tensor);
    if (status == MT_OK) status = s->c->backward(s->device, s->c, s->analytic.tensor);
    for (int i = 0; i < s->c->slots && status == MT_OK; i++) {
        if (slot_written_by_backward(&s->c->slot[i]) && !s->c->slot[i].no_numeric) status = check_slot(s, i);
    }
    case_free(s->c, &s->initial);
    case_free(s->c, &s->work);
    case_free(s->c, &s->analytic);
    return status;
}

int mode_gradient(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    int passed = 0;
    int elements = 0;
    double worst = 0.0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        if (c->only_speed || c->no_gradient || c->backward == NULL || !case_selected(c, options)) continue;
        struct gradient_state s = {.c = c};
        mt_context_init(&s.ctx, NULL);
        enum mt_status status = mt_device_create(&s.ctx, "ref", 1, &s.device);
        if (status == MT_OK) status = gradient_case(&s);
        mt_device_destroy(s.device);
        if (status != MT_OK) {
            (void)snprintf(s.failure, sizeof s.failure, "%s: %.200s", mt_status_text(status), s.ctx.message);
        } else if (s.checked == 0) {
            (void)snprintf(s.failure, sizeof s.failure, "no element was checked");
        }
        bool ok = s.failure[0] == '\0';
        passed += ok;
        failures += !ok;
        elements += s.checked;
        if (s.worst > worst) worst = s.worst;
        if (!ok || options->verbose) {
            printf("%-4s %-24s %-56s %8.2g  %s\n", ok ? "ok" : "FAIL", mt_op_name(c->backward_op), c->label,
                   s.worst, s.failure);
        }
    }
    printf("gradients against finite differences, %d elements: worst %.2g of the tolerance\n", elements,
           worst);
    printf("%d passed, %d failed\n", passed, failures);
    return passed + failures == 0 ? 1 : failures;
}
