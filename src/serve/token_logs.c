/* log p = logit - log Σ exp(logit), in double; ties of the likeliest go to the lowest id. */
#include "serve/token_logs.h"

#include <math.h>

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

static double log_sum(const float *logits, int64_t vocabulary)
{
    float most = logits[0];
    double sum = 0.0;
    for (int64_t i = 1; i < vocabulary; i++) most = logits[i] > most ? logits[i] : most;
    for (int64_t i = 0; i < vocabulary; i++) sum += exp((double)logits[i] - (double)most);
    return (double)most + log(sum);
}

void mt_token_logs_add(struct mt_token_logs *logs, int32_t id, const float *logits, int64_t vocabulary)
{
    if (logs->count == logs->capacity) return;
    struct mt_likely *own = logs->place + logs->count++ * (size_t)(logs->top + 1);
    struct mt_likely *likely = own + 1;
    double all = log_sum(logits, vocabulary);
    int found = 0;
    for (int64_t i = 0; i < vocabulary && logs->top > 0; i++) {
        if (found == logs->top && !(logits[i] > likely[found - 1].log)) continue;
        int at = found < logs->top ? found++ : found - 1;
        for (; at > 0 && logits[i] > likely[at - 1].log; at--) likely[at] = likely[at - 1];
        likely[at] = (struct mt_likely){.id = (int32_t)i, .log = logits[i]};
    }
    for (int i = 0; i < found; i++) likely[i].log = (float)((double)likely[i].log - all);
    for (int i = found; i < logs->top; i++) likely[i] = (struct mt_likely){.id = -1};
    *own = (struct mt_likely){.id = id, .log = (float)((double)logits[id] - all)};
}

const struct mt_likely *mt_token_logs_at(const struct mt_token_logs *logs, size_t place)
{
    return logs->place + place * (size_t)(logs->top + 1);
}
