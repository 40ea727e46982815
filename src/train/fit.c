/* The ladder of sizes, from the fastest down, until one fits. */
#include "train/fit.h"

#include <assert.h>

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
    sizes->recompute = freedom->first.recompute;
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
