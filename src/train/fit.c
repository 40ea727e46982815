/* The ladder of sizes, from the fastest down, until one fits. */
#include "train/fit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/amount.h"

const char *mt_recompute_name(enum mt_recompute recompute)
{
    static const char *const names[] = {"none", "moe", "full"};
    return names[recompute];
}

/* Half of the tokens that come together; the same number: there are no fewer. */
static int64_t fewer_tokens(const struct mt_fit_freedom *freedom, int64_t tokens)
{
    if (tokens <= freedom->least_tokens) return tokens;
    int64_t together = tokens < freedom->step_tokens ? tokens : freedom->step_tokens;
    int64_t half = (together + 1) / 2;
    return half > freedom->least_tokens ? half : freedom->least_tokens;
}

/* The next ones; false: there are none. */
static bool next_sizes(const struct mt_fit_freedom *freedom, struct mt_fit_sizes *sizes)
{
    if (freedom->host_embedding && !sizes->host_embedding) {
        sizes->host_embedding = true;
        return true;
    }
    if (freedom->recompute && sizes->recompute != MT_RECOMPUTE_FULL) {
        sizes->recompute++;
        return true;
    }
    int64_t fewer = fewer_tokens(freedom, sizes->tokens);
    if (fewer == sizes->tokens) return false;
    bool host_embedding = sizes->host_embedding;
    *sizes = freedom->first;
    sizes->host_embedding = host_embedding;
    sizes->tokens = fewer;
    return true;
}

enum mt_status mt_fit_choose(const struct mt_fit_freedom *freedom, size_t room, mt_fit_counter *count,
                             void *self, struct mt_fit *fit)
{
    struct mt_fit_sizes sizes = freedom->first;
    bool more = true;
    fit->count = 0;
    fit->fits = false;
    fit->chosen = 0;
    while (more && !fit->fits) {
        assert(fit->count < MT_FIT_MOST);
        struct mt_fit_try *try = &fit->tried[fit->count++];
        *try = (struct mt_fit_try){.sizes = sizes};
        enum mt_status status = count(self, &sizes, &try->bytes);
        if (status != MT_OK) return status;
        fit->fits = try->bytes <= room;
        if (fit->fits || sizes.tokens == freedom->first.tokens) fit->chosen = fit->count - 1;
        more = next_sizes(freedom, &sizes);
    }
    return MT_OK;
}

enum mt_status mt_fit_spread(const struct mt_fit_freedom *freedom, size_t room, mt_fit_counter *count,
                             void *self, struct mt_spread *spread)
{
    struct mt_fit_sizes sizes = {.recompute =
                                     freedom->recompute ? MT_RECOMPUTE_FULL : freedom->first.recompute,
                                 .tokens = freedom->least_tokens,
                                 .host_embedding = freedom->host_embedding};
    int64_t most = spread->experts < spread->ranks ? spread->experts : spread->ranks;
    for (sizes.expert_ranks = 1; !spread->fits && (sizes.expert_ranks == 1 || sizes.expert_ranks <= most);
         sizes.expert_ranks++) {
        if (spread->ranks % sizes.expert_ranks != 0) continue;
        enum mt_status status = count(self, &sizes, &spread->least);
        if (status != MT_OK) return status;
        if (sizes.expert_ranks == 1) spread->alone = spread->least;
        spread->expert_ranks = sizes.expert_ranks;
        spread->fits = spread->least <= room;
    }
    return MT_OK;
}

void mt_spread_sentence(const struct mt_spread *spread, size_t room, char text[MT_SPREAD_BYTES])
{
    struct mt_bytes_text may = mt_bytes_in_words(room);
    struct mt_bytes_text least = mt_bytes_in_words(spread->least);
    int64_t sharing = spread->expert_ranks;
    if (room == SIZE_MAX)
        (void)snprintf(text, MT_SPREAD_BYTES,
                       "data parallel, every rank with all experts: nobody knows how much memory there is");
    else if (!spread->fits)
        (void)snprintf(text, MT_SPREAD_BYTES,
                       "nothing fits: with the experts over %" PRId64 " of %" PRId64
                       " ranks a rank needs at least %s, and %s may be used",
                       sharing, spread->ranks, least.text, may.text);
    else if (sharing == 1)
        (void)snprintf(
            text, MT_SPREAD_BYTES,
            "data parallel, every rank with all experts: a rank needs at least %s, and %s may be used",
            least.text, may.text);
    else
        (void)snprintf(text, MT_SPREAD_BYTES,
                       "%" PRId64 " of %" PRId64
                       " ranks share the experts: a rank with all of them needs at least %s, with its "
                       "share %s, and %s may be used",
                       sharing, spread->ranks, mt_bytes_in_words(spread->alone).text, least.text, may.text);
}
