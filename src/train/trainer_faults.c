/* When a number is none: which step, which layer, which term or which parameter. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/trainer_internal.h"

#define NO_LAYER   INT64_MAX
#define NAME_BYTES 320

/* A parameter's name, and its layer where it has one. */
static const char *name_of(const struct mt_param *param, char text[NAME_BYTES])
{
    if (param->layer < 0) return param->name;
    (void)snprintf(text, NAME_BYTES, "%s (layer %" PRId64 ")", param->name, param->layer);
    return text;
}

/* The first layer whose output is not finite; -1: what enters the first. */
static enum mt_status find_bad_layer(struct mt_trainer *trainer, int64_t *layer)
{
    const struct mt_tensor *number = &trainer->optimizer.number;
    *layer = NO_LAYER;
    for (int64_t i = -1; i < trainer->desc.layers; i++) {
        const struct mt_tensor *hidden = mt_model_hidden(trainer->model, i);
        double bad = 0.0;
        if (hidden == NULL) return MT_OK;
        enum mt_status status =
            mt_reduce(trainer->device,
                      &(struct mt_reduce_args){.x = *hidden, .out = *number, .kind = MT_REDUCE_NONFINITE});
        if (status == MT_OK) status = mt_device_download(trainer->device, &bad, number->data, sizeof bad);
        if (status != MT_OK) return status;
        if (bad == 0.0) continue;
        *layer = i;
        return MT_OK;
    }
    return MT_OK;
}

/* The first MoE layer with a term that is not finite, and the term. */
static int64_t find_bad_term(const struct mt_trainer *trainer, enum mt_term *term, double *value)
{
    int number = 0;
    for (int64_t i = 0; trainer->tensors.objective != NULL && i < trainer->desc.layers; i++) {
        if (!mt_model_layer_is_moe(&trainer->desc, i)) continue;
        const struct mt_layer_report *report = mt_objective_layer(trainer->tensors.objective, number++);
        for (int t = 0; t < MT_TERM_COUNT; t++) {
            if (report->weight[t] == 0.0 || isfinite(report->weight[t] * report->loss[t])) continue;
            *term = (enum mt_term)t;
            *value = report->loss[t];
            return i;
        }
    }
    return NO_LAYER;
}

enum mt_status mt_trainer_fail_loss(struct mt_trainer *trainer, const struct mt_model_loss *loss)
{
    struct mt_context *ctx = trainer->ctx;
    uint64_t step = trainer->record.step;
    enum mt_term term = (enum mt_term)0;
    double value = 0.0;
    int64_t layer = NO_LAYER;
    const struct mt_param *param = NULL;
    char name[NAME_BYTES];
    mt_context_forbid_allocation(ctx, NULL); // the run is over: looking around may cost something
    enum mt_status status = mt_optimizer_check(&trainer->optimizer, &param);
    if (status == MT_OK) status = find_bad_layer(trainer, &layer);
    if (status != MT_OK) return status;
    int64_t term_layer = find_bad_term(trainer, &term, &value);
    if (param != NULL) {
        return mt_fail(ctx, MT_ERR_NUMERIC,
                       "step %" PRIu64 ": the loss L is %g; %s holds a number that is not finite", step,
                       loss->task + loss->terms, name_of(param, name));
    }
    if (term_layer != NO_LAYER && (layer == NO_LAYER || term_layer <= layer)) {
        return mt_fail(ctx, MT_ERR_NUMERIC, "step %" PRIu64 ": term %s of layer %" PRId64 " is %g", step,
                       mt_term_name(term), term_layer, value);
    }
    if (layer == NO_LAYER)
        return mt_fail(ctx, MT_ERR_NUMERIC, "step %" PRIu64 ": the loss L_h is %g", step, loss->task);
    if (layer < 0) {
        return mt_fail(ctx, MT_ERR_NUMERIC,
                       "step %" PRIu64 ": the loss L_h is %g; the embedding of a token is not finite", step,
                       loss->task);
    }
    return mt_fail(ctx, MT_ERR_NUMERIC,
                   "step %" PRIu64 ": the loss L_h is %g; layer %" PRId64
                   " is the first whose output is not finite",
                   step, loss->task, layer);
}

enum mt_status mt_trainer_fail_gradient(struct mt_trainer *trainer, double norm)
{
    const struct mt_param *param = NULL;
    char name[NAME_BYTES];
    mt_context_forbid_allocation(trainer->ctx, NULL);
    const struct mt_params *params = trainer->tensors.params;
    enum mt_status status = mt_optimizer_find_bad_gradient(&trainer->optimizer, &param);
    // Each rank looks at its share, and names the first of all; every rank is here: the norm is everybody's.
    int64_t place = param != NULL ? param - params->trained : (int64_t)params->trained_count;
    int64_t first = -place;
    mt_comm_max_i64(trainer->comm, &first, 1);
    if (status == MT_OK && -first < (int64_t)params->trained_count) {
        status = mt_fail(trainer->ctx, MT_ERR_NUMERIC, "step %" PRIu64 ": the gradient of %s is not finite",
                         trainer->record.step, name_of(&params->trained[-first], name));
    }
    if (status == MT_OK) {
        status = mt_fail(trainer->ctx, MT_ERR_NUMERIC, "step %" PRIu64 ": the norm of the gradients is %g",
                         trainer->record.step, norm);
    }
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

enum mt_status mt_trainer_check_values(struct mt_trainer *trainer)
{
    const struct mt_param *param = NULL;
    char name[NAME_BYTES];
    enum mt_status status = mt_optimizer_check(&trainer->optimizer, &param);
    if (status != MT_OK || param == NULL) return status;
    return mt_fail(trainer->ctx, MT_ERR_NUMERIC,
                   "step %" PRIu64
                   ": %s or a moment of it holds a number that is not finite; it is not saved",
                   trainer->numbers.step, name_of(param, name));
}
