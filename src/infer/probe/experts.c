/* Orders of experts, tried one after the other. */
#include "infer/probe/experts.h"

#include <stdio.h>
#include <string.h>

#include "infer/probe/fit.h"

/* How far the server is from the model with these sources. */
static enum mt_status run(struct mt_experts_search *s, double *noise)
{
    const int32_t *before = s->variants->source;
    s->variants->source = s->source;
    enum mt_status status = mt_probe_values_run(s->variants, s->values, s->strength, s->logs);
    s->variants->source = before;
    for (size_t i = 0; i < s->values->count && status == MT_OK; i++)
        s->logs[i] = s->values->server[i] - s->logs[i];
    *noise = mt_fit_typical(s->logs, s->values->text, s->values->count, s->scratch);
    return status;
}

enum order { OWN, NEXT, BEFORE, BACKWARDS, BY_DIGITS, DIGITS_BACK, ORDERS };

/* How many numbers below n come before e when they are sorted as texts. */
static int32_t rank_of(int32_t e, int32_t n)
{
    char own[16];
    int32_t rank = 0;
    (void)snprintf(own, sizeof own, "%d", (int)e);
    for (int32_t other = 0; other < n; other++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", (int)other);
        rank += strcmp(text, own) < 0 ? 1 : 0;
    }
    return rank;
}

static void set_order(struct mt_experts_search *s, enum order order)
{
    int32_t n = (int32_t)s->variants->experts;
    for (int32_t e = 0; e < n; e++) {
        switch (order) {
        case NEXT: s->source[e] = (e + 1) % n; break;
        case BEFORE: s->source[e] = (e + n - 1) % n; break;
        case BACKWARDS: s->source[e] = n - 1 - e; break;
        case BY_DIGITS: s->source[rank_of(e, n)] = e; break;
        case DIGITS_BACK: s->source[e] = rank_of(e, n); break;
        default: s->source[e] = e;
        }
    }
}

enum mt_status mt_experts_search(struct mt_experts_search *s)
{
    enum order best = OWN;
    set_order(s, OWN);
    enum mt_status status = run(s, &s->noise);
    for (enum order order = NEXT; order < ORDERS && status == MT_OK && s->noise > s->enough; order++) {
        double noise = 0.0;
        set_order(s, order);
        status = run(s, &noise);
        if (!(noise < s->noise)) continue;
        s->noise = noise;
        best = order;
    }
    set_order(s, best);
    return status;
}
