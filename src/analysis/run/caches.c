/*
 * Misses of caches of experts (analysis/expert_cache.h), of what the model chose: every domain on its own,
 * from an empty cache, its sequences one after another as they were read; then all domains after each other.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/run/run.h"

enum mt_status mt_analysis_read_caches(struct mt_analysis *run)
{
    const char *at = run->settings->cache;
    run->caches = 0;
    while (at != NULL) {
        char *end = NULL;
        bool digit = *at >= '0' && *at <= '9';
        long long number = digit ? strtoll(at, &end, 10) : 0;
        if (!digit || (*end != ',' && *end != '\0'))
            return mt_fail(run->ctx, MT_ERR_USAGE,
                           "--cache is '%.100s', expected numbers of experts, as in 8,16",
                           run->settings->cache);
        if (number < run->slots || number > run->experts)
            return mt_fail(run->ctx, MT_ERR_USAGE,
                           "--cache: room for %lld experts, expected %d (a token's experts) to %d", number,
                           run->slots, run->experts);
        if (run->caches == MT_ANALYSIS_CACHES)
            return mt_fail(run->ctx, MT_ERR_USAGE, "--cache lists more than %d sizes", MT_ANALYSIS_CACHES);
        run->capacity[run->caches++] = (int)number;
        at = *end == ',' ? end + 1 : NULL;
    }
    return MT_OK;
}

static struct mt_cache_misses *misses_of(const struct mt_analysis *run, int domain, int cache)
{
    return run->misses + ((size_t)domain * (size_t)run->caches + (size_t)cache) * (size_t)run->layers;
}

enum mt_status mt_analysis_replay_caches(struct mt_analysis *run)
{
    size_t count = ((size_t)run->domains + 1) * (size_t)run->caches * (size_t)run->layers;
    enum mt_status status = MT_OK;
    if (run->caches == 0) return MT_OK;
    run->misses = mt_arena_array(&run->arena, count, sizeof *run->misses, &status);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        int layer = (int)(i % (size_t)run->layers);
        int cache = (int)(i / (size_t)run->layers % (size_t)run->caches);
        int domain = (int)(i / (size_t)run->layers / (size_t)run->caches);
        int64_t tokens = 0;
        const uint16_t *choices = mt_collector_choices(run->model.collector[domain], layer, &tokens);
        status = mt_expert_cache(run->ctx, choices, tokens, run->slots, run->experts, run->capacity[cache],
                                 &misses_of(run, domain, cache)[layer]);
    }
    return status;
}

void mt_analysis_cache(const struct mt_analysis *run, int domain, int cache, int layer,
                       struct mt_analysis_misses *figures)
{
    const struct mt_cache_misses *misses = &misses_of(run, domain, cache)[layer];
    figures->tokens = misses->tokens;
    figures->first = misses->tokens > 0 ? (double)misses->first / (double)misses->tokens : NAN;
    for (int p = 0; p < MT_CACHE_POLICIES; p++)
        figures->misses[p] = mt_cache_miss_rate(misses, (enum mt_cache_policy)p);
}

void mt_analysis_mean_cache(const struct mt_analysis *run, int domain, int cache,
                            struct mt_analysis_misses *mean)
{
    *mean = (struct mt_analysis_misses){0};
    for (int i = 0; i < run->layers; i++) {
        struct mt_analysis_misses one;
        mt_analysis_cache(run, domain, cache, i, &one);
        mean->tokens = one.tokens;
        mean->first += one.first / run->layers;
        for (int p = 0; p < MT_CACHE_POLICIES; p++) mean->misses[p] += one.misses[p] / run->layers;
    }
}

// ------------------------------------------------------------------ JSON

static void put_misses(const struct mt_analysis_misses *misses, struct mt_json_text *text)
{
    mt_json_text_format(text, "\"tokens\": %" PRId64 ", \"first\": ", misses->tokens);
    mt_json_text_number(text, misses->first);
    for (int p = 0; p < MT_CACHE_POLICIES; p++) {
        mt_json_text_format(text, ", \"%s\": ", mt_cache_policy_name((enum mt_cache_policy)p));
        mt_json_text_number(text, misses->misses[p]);
    }
}

static void put_domain(const struct mt_analysis *run, int domain, struct mt_json_text *text)
{
    struct mt_analysis_misses misses;
    for (int c = 0; c < run->caches; c++) {
        mt_analysis_mean_cache(run, domain, c, &misses);
        mt_json_text_format(text, "%s\n   {\"experts\": %d, \"mean\": {", c > 0 ? "," : "[",
                            run->capacity[c]);
        put_misses(&misses, text);
        mt_json_text_format(text, "}, \"layers\": [");
        for (int i = 0; i < run->layers; i++) {
            mt_analysis_cache(run, domain, c, i, &misses);
            mt_json_text_format(text, "%s\n    {\"layer\": %" PRId64 ", ", i > 0 ? "," : "", run->number[i]);
            put_misses(&misses, text);
            mt_json_text_format(text, "}");
        }
        mt_json_text_format(text, "]}");
    }
    mt_json_text_format(text, "]");
}

void mt_analysis_put_caches(const struct mt_analysis *run, struct mt_json_text *text)
{
    if (run->caches == 0) return;
    mt_json_text_format(text, ",\n \"cache\": {\"overall\": ");
    put_domain(run, run->domains, text);
    mt_json_text_format(text, ",\n  \"by_domain\": {");
    for (int i = 0; i < run->domains; i++) {
        mt_json_text_format(text, i > 0 ? ", " : "");
        mt_json_text_string(text, run->domain[i].name);
        mt_json_text_format(text, ": ");
        put_domain(run, i, text);
    }
    mt_json_text_format(text, "}}");
}
