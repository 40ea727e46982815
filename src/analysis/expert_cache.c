/* Replaying choices through caches. The next use of every choice is found first, from the end. */
#include "analysis/expert_cache.h"

#include <math.h>
#include <stdbool.h>

const char *mt_cache_policy_name(enum mt_cache_policy policy)
{
    static const char *const names[MT_CACHE_POLICIES] = {"LRU", "LFU", "Belady"};
    return names[policy];
}

double mt_cache_miss_rate(const struct mt_cache_misses *misses, enum mt_cache_policy policy)
{
    return misses->tokens > 0 ? (double)misses->misses[policy] / (double)misses->tokens : NAN;
}

/* What is known of an expert while choices are replayed. Tokens are counted from 1; 0: none. */
struct expert {
    int64_t last;    // token that used it
    int64_t uses;    // tokens so far
    int64_t next;    // token that will use it; INT64_MAX: none
    bool cached;     // it is in the cache
    int64_t claimed; // token at hand that needs it
};

struct replay {
    const uint16_t *choices; // [tokens,slots]
    const int64_t *next;     // [tokens,slots]: token that uses the same expert next
    int64_t tokens;
    int slots, experts, capacity;
    struct expert *expert; // [experts]
    int cached;            // experts in the cache
};

/* True when a goes before b. */
static bool goes_before(enum mt_cache_policy policy, const struct expert *a, const struct expert *b)
{
    if (policy == MT_CACHE_BELADY) return a->next > b->next;
    if (policy == MT_CACHE_LFU && a->uses != b->uses) return a->uses < b->uses;
    return a->last < b->last;
}

static void make_room(struct replay *replay, enum mt_cache_policy policy, int64_t token)
{
    int out = -1;
    for (int j = 0; j < replay->experts; j++) {
        const struct expert *e = &replay->expert[j];
        if (!e->cached || e->claimed == token) continue;
        if (out < 0 || goes_before(policy, e, &replay->expert[out])) out = j;
    }
    replay->expert[out].cached = false; // there is one: a token has no more experts than there is room
    replay->cached--;
}

static void replay_token(struct replay *replay, enum mt_cache_policy policy, int64_t token,
                         struct mt_cache_misses *misses)
{
    const uint16_t *choice = replay->choices + (token - 1) * replay->slots;
    const int64_t *next = replay->next + (token - 1) * replay->slots;
    for (int s = 0; s < replay->slots; s++) replay->expert[choice[s]].claimed = token;
    for (int s = 0; s < replay->slots; s++) {
        struct expert *e = &replay->expert[choice[s]];
        if (e->last == token) continue; // named twice
        if (!e->cached) {
            misses->misses[policy]++;
            if (replay->cached == replay->capacity) make_room(replay, policy, token);
            e->cached = true;
            replay->cached++;
        }
        e->last = token;
        e->uses++;
        e->next = next[s];
    }
}

static void replay_all(struct replay *replay, enum mt_cache_policy policy, struct mt_cache_misses *misses)
{
    for (int j = 0; j < replay->experts; j++) replay->expert[j] = (struct expert){0};
    replay->cached = 0;
    for (int64_t token = 1; token <= replay->tokens; token++) replay_token(replay, policy, token, misses);
}

/* next[i]: the token that uses the expert of choice i next. Counts the experts that are used at all. */
static int64_t find_next(const struct replay *replay, int64_t *next)
{
    int64_t used = 0;
    for (int j = 0; j < replay->experts; j++) replay->expert[j] = (struct expert){.next = INT64_MAX};
    for (int64_t token = replay->tokens; token >= 1; token--) {
        int64_t place = (token - 1) * replay->slots;
        for (int s = 0; s < replay->slots; s++)
            next[place + s] = replay->expert[replay->choices[place + s]].next;
        for (int s = 0; s < replay->slots; s++) {
            struct expert *e = &replay->expert[replay->choices[place + s]];
            if (e->next == INT64_MAX && !e->cached) used++;
            e->cached = true; // here: used
            e->next = token;
        }
    }
    return used;
}

enum mt_status mt_expert_cache(struct mt_context *ctx, const uint16_t *choices, int64_t tokens, int slots,
                               int experts, int capacity, struct mt_cache_misses *misses)
{
    size_t uses = (size_t)tokens * (size_t)slots;
    void *next = NULL;
    void *expert = NULL;
    *misses = (struct mt_cache_misses){.tokens = tokens};
    if (capacity < slots || capacity > experts)
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "the cache has room for %d experts, expected %d (experts of a token) to %d (all experts)",
            capacity, slots, experts);
    for (size_t i = 0; i < uses; i++) {
        if (choices[i] >= experts)
            return mt_fail(ctx, MT_ERR_SHAPE, "a choice names expert %d, but there are only %d", choices[i],
                           experts);
    }
    if (tokens == 0) return MT_OK;
    enum mt_status status = mt_allocate_array(ctx, uses, sizeof(int64_t), &next);
    if (status == MT_OK) status = mt_allocate_array(ctx, (size_t)experts, sizeof(struct expert), &expert);
    if (status == MT_OK) {
        struct replay replay = {.choices = choices,
                                .next = next,
                                .tokens = tokens,
                                .slots = slots,
                                .experts = experts,
                                .capacity = capacity,
                                .expert = expert};
        misses->first = find_next(&replay, next);
        for (int p = 0; p < MT_CACHE_POLICIES; p++) replay_all(&replay, (enum mt_cache_policy)p, misses);
    }
    mt_release(ctx, next, uses * sizeof(int64_t));
    mt_release(ctx, expert, (size_t)experts * sizeof(struct expert));
    return status;
}
