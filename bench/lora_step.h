/* A LoRA training step to be timed: its sizes, the options of a model for it, and its packed batch. */
#ifndef MT_BENCH_LORA_STEP_H
#define MT_BENCH_LORA_STEP_H

#include "model/model.h"

struct lora_step {
    int64_t tokens, length; // of the batch, and of each of its sequences
    int rank, rounds;
    enum mt_recompute recompute;
};

/* Parts that get a pair, NULL after the last, and the method: borrowed until a model is opened. */
static inline struct mt_model_options lora_step_options(const struct lora_step *step,
                                                        const char *const *adapted,
                                                        const struct mt_objective_config *method)
{
    struct mt_model_options options = {.tokens = step->tokens,
                                       .sequences = step->tokens / step->length,
                                       .positions = step->length,
                                       .backward = true,
                                       .recompute = step->recompute,
                                       .objective = method};
    options.selection.lora = adapted;
    options.selection.lora_rank = step->rank;
    options.selection.seed = 1;
    return options;
}

struct step_batch {
    int32_t *ids; // [2,T]: ids, then labels, the caller's to fill; offsets [B+1] behind them
    size_t numbers;
    struct mt_batch batch;
};

/* The caller closes, also after a failure. */
static inline enum mt_status step_batch_open(struct mt_context *ctx, const struct lora_step *step,
                                             struct step_batch *made)
{
    int64_t tokens = step->tokens;
    int64_t sequences = tokens / step->length;
    void *memory = NULL;
    *made = (struct step_batch){.numbers = (size_t)(2 * tokens + sequences + 1)};
    enum mt_status status = mt_allocate_array(ctx, made->numbers, sizeof *made->ids, &memory);
    if (status != MT_OK) return status;
    made->ids = memory;
    int32_t *offsets = made->ids + 2 * tokens;
    for (int64_t b = 0; b <= sequences; b++) offsets[b] = (int32_t)(b * step->length);
    made->batch = (struct mt_batch){.tokens = tokens,
                                    .sequences = sequences,
                                    .ids = made->ids,
                                    .labels = made->ids + tokens,
                                    .offsets = offsets,
                                    .training = true,
                                    .progress = 1.0};
    return MT_OK;
}

static inline void step_batch_close(struct mt_context *ctx, struct step_batch *made)
{
    mt_release(ctx, made->ids, made->numbers * sizeof *made->ids);
}

#endif
