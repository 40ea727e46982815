/* Shares by the largest piece first. */
#include "eval/run/shares.h"

#include <stdlib.h>

struct piece {
    uint64_t size;
    size_t number;
};

/* Falling sizes; the same ones in their order. */
static int larger_first(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->number < y->number ? -1 : (x->number > y->number ? 1 : 0);
}

static int least(const uint64_t *totals, int shares)
{
    int best = 0;
    for (int i = 1; i < shares; i++) {
        if (totals[i] < totals[best]) best = i;
    }
    return best;
}

enum mt_status mt_shares_make(struct mt_context *ctx, const uint64_t *sizes, size_t count, int shares,
                              int32_t *owner)
{
    void *memory[2] = {NULL};
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct piece), &memory[0]);
    if (status == MT_OK) status = mt_allocate_array(ctx, (size_t)shares, sizeof(uint64_t), &memory[1]);
    struct piece *pieces = memory[0];
    uint64_t *totals = memory[1];
    size_t used = 0;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        owner[i] = -1;
        if (sizes[i] > 0) pieces[used++] = (struct piece){.size = sizes[i], .number = i};
    }
    if (used > 1) qsort(pieces, used, sizeof *pieces, larger_first);
    for (size_t i = 0; i < used; i++) {
        int share = least(totals, shares);
        totals[share] += pieces[i].size;
        owner[pieces[i].number] = share;
    }
    mt_release(ctx, memory[0], count * sizeof(struct piece));
    mt_release(ctx, memory[1], (size_t)shares * sizeof(uint64_t));
    return status;
}
