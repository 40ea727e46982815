/* log p = logit - log Σ exp(logit), in double; ties of the likeliest go to the lowest id. */
#include "serve/token_logs.h"

enum mt_status mt_token_logs_create(struct mt_context *ctx, size_t places, int top,
                                    struct mt_token_logs *logs)
{
    void *memory = NULL;
    *logs = (struct mt_token_logs){.ctx = ctx, .top = top};
    enum mt_status status = mt_allocate_array(ctx, places, (size_t)(top + 1) * sizeof *logs->place, &memory);
    if (status != MT_OK) return status;
    logs->place = memory;
    logs->capacity = places;
    return MT_OK;
}

void mt_token_logs_free(struct mt_token_logs *logs)
{
    if (logs->ctx == NULL) return;
    mt_release(logs->ctx, logs->place, logs->capacity * (size_t)(logs->top + 1) * sizeof *logs->place);
    *logs = (struct mt_token_logs){0};
}

void mt_token_logs_add(struct mt_token_logs *logs, int32_t id, const float *logits, int64_t vocabulary)
{
    if (logs->count == logs->capacity) return;
    struct mt_likely *own = logs->place + logs->count++ * (size_t)(logs->top + 1);
    struct mt_likely *likely = own + 1;
    double all = mt_logits_log_sum(logits, vocabulary);
    int found = mt_logits_likeliest(logits, vocabulary, likely, logs->top);
    for (int i = 0; i < found; i++) likely[i].log = (float)((double)likely[i].log - all);
    for (int i = found; i < logs->top; i++) likely[i] = (struct mt_likely){.id = -1};
    *own = (struct mt_likely){.id = id, .log = (float)((double)logits[id] - all)};
}

const struct mt_likely *mt_token_logs_at(const struct mt_token_logs *logs, size_t place)
{
    return logs->place + place * (size_t)(logs->top + 1);
}
