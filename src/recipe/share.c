/* How many rows every source of a mixture gives. */
#include <math.h>

#include "recipe/recipe.h"

/* One level of a mixture: what its parts can give and will give. */
struct shares {
    struct mt_context *ctx;
    const struct mt_recipe *recipe;
    int64_t *most;   // [source_count]: what a part has, or is allowed
    int64_t *gets;   // [source_count]
    bool *full;      // [source_count]: it gives all it can
    double *weights; // [source_count]
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is below a recipe; *at is the number of its first source and moves behind its last. */
static int64_t can_give(const struct mt_recipe *recipe, const int64_t *available, size_t *at)
{
    int64_t sum = 0;
    if (recipe->sources == NULL) sum = available[(*at)++];
    for (size_t i = 0; i < recipe->source_count; i++) {
        int64_t part = can_give(recipe->sources[i].recipe, available, at);
        sum += recipe->sources[i].count > 0 ? smaller(part, recipe->sources[i].count) : part;
    }
    return recipe->count > 0 ? smaller(sum, recipe->count) : sum;
}

static enum mt_status check_weights(const struct shares *s)
{
    for (size_t i = 0; i < s->recipe->source_count; i++) {
        if (s->weights[i] == 1.0) continue;
        return mt_fail(s->ctx, MT_ERR_USAGE,
                       "recipe %s: the weight of %s means nothing without a count to share", s->recipe->name,
                       s->recipe->sources[i].name);
    }
    return MT_OK;
}

/* Shares `left` by weight: whoever has less than his share gives all he has, until that happens to nobody. */
static int64_t fill_small_parts(const struct shares *s, int64_t left, double *weights)
{
    const struct mt_recipe *recipe = s->recipe;
    for (bool again = true; again;) {
        again = false;
        *weights = 0.0;
        for (size_t i = 0; i < recipe->source_count; i++) *weights += s->full[i] ? 0.0 : s->weights[i];
        for (size_t i = 0; i < recipe->source_count && !again; i++) {
            if (s->full[i] || (double)left * s->weights[i] / *weights < (double)s->most[i]) continue;
            s->gets[i] = s->most[i];
            left -= s->gets[i];
            s->full[i] = true;
            again = true;
        }
    }
    return left;
}

/* Whole numbers of the shares that are left: rounded down, then one more for the largest remainders. */
static void round_shares(const struct shares *s, int64_t left, double weights)
{
    const struct mt_recipe *recipe = s->recipe;
    int64_t rest = left;
    for (size_t i = 0; i < recipe->source_count; i++) {
        if (s->full[i]) continue;
        s->gets[i] = (int64_t)floor((double)left * s->weights[i] / weights);
        rest -= s->gets[i];
    }
    for (; rest > 0; rest--) {
        size_t best = recipe->source_count;
        double remainder = -1.0;
        for (size_t i = 0; i < recipe->source_count; i++) {
            double mine = (double)left * s->weights[i] / weights - (double)s->gets[i];
            if (s->full[i] || s->gets[i] >= s->most[i] || mine <= remainder) continue;
            best = i;
            remainder = mine;
        }
        if (best == recipe->source_count) return;
        s->gets[best]++;
    }
}

static enum mt_status share(struct mt_context *ctx, const struct mt_recipe *recipe, int64_t wanted,
                            const int64_t *available, int64_t *taken, size_t *at);

/* Parts with a count get it, where there is enough for all of them; else counts are what weights are. */
static int64_t give_counts(const struct shares *s, int64_t left)
{
    const struct mt_recipe *recipe = s->recipe;
    int64_t counted = 0;
    for (size_t i = 0; i < recipe->source_count; i++) counted += recipe->sources[i].count;
    bool enough = counted <= left;
    for (size_t i = 0; i < recipe->source_count; i++) {
        int64_t count = recipe->sources[i].count;
        if (!enough) s->weights[i] = (double)count;
        s->full[i] = enough ? count > 0 : count == 0;
        if (count > 0) s->most[i] = smaller(s->most[i], count);
        if (!enough || count == 0) continue;
        s->gets[i] = s->most[i];
        left -= s->gets[i];
    }
    return left;
}

static enum mt_status share_level(const struct shares *s, int64_t wanted, bool everything,
                                  const int64_t *available, int64_t *taken, size_t *at)
{
    const struct mt_recipe *recipe = s->recipe;
    enum mt_status status = MT_OK;
    double weights = 0.0;
    size_t ahead = *at;
    for (size_t i = 0; i < recipe->source_count; i++) {
        s->weights[i] = recipe->sources[i].weight;
        s->most[i] = can_give(recipe->sources[i].recipe, available, &ahead);
    }
    if (everything) status = check_weights(s);
    if (status != MT_OK) return status;
    int64_t left = give_counts(s, wanted);
    left = fill_small_parts(s, left, &weights);
    if (weights > 0.0) round_shares(s, left, weights);
    for (size_t i = 0; i < recipe->source_count && status == MT_OK; i++)
        status = share(s->ctx, recipe->sources[i].recipe, s->gets[i], available, taken, at);
    return status;
}

/* `wanted` rows of a recipe, or as many as there are where that is fewer; negative: all it says. */
static enum mt_status share(struct mt_context *ctx, const struct mt_recipe *recipe, int64_t wanted,
                            const int64_t *available, int64_t *taken, size_t *at)
{
    size_t ahead = *at;
    int64_t there = can_give(recipe, available, &ahead);
    bool everything = wanted < 0 && recipe->count == 0;
    if (recipe->sources == NULL) {
        taken[(*at)++] = wanted < 0 ? there : smaller(wanted, there);
        return MT_OK;
    }
    struct mt_arena arena;
    enum mt_status status = MT_OK;
    mt_arena_init(&arena, ctx, 4096);
    struct shares s = {.ctx = ctx, .recipe = recipe};
    s.most = mt_arena_array(&arena, recipe->source_count, sizeof *s.most, &status);
    s.gets = mt_arena_array(&arena, recipe->source_count, sizeof *s.gets, &status);
    s.full = mt_arena_array(&arena, recipe->source_count, sizeof *s.full, &status);
    s.weights = mt_arena_array(&arena, recipe->source_count, sizeof *s.weights, &status);
    if (everything) wanted = INT64_MAX; // parts give what they have, or their count
    if (wanted < 0) wanted = recipe->count;
    if (status == MT_OK) status = share_level(&s, wanted, everything, available, taken, at);
    mt_arena_free(&arena);
    return status;
}

enum mt_status mt_recipe_share(struct mt_context *ctx, const struct mt_recipe *recipe, int64_t wanted,
                               const int64_t *available, int64_t *taken)
{
    struct mt_recipe top = *recipe; // what is asked for stands in place of what the file says
    size_t at = 0;
    if (wanted > 0) top.count = wanted;
    return share(ctx, &top, -1, available, taken, &at);
}
