/* PCRE2 with limits. */
#include "eval/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MATCH_LIMIT    1000000u
#define DEPTH_LIMIT    10000u
#define HEAP_LIMIT_KIB 16384u
#define MOST_MATCHES   100000
#define BLOCK_HEADER   64

struct mt_pattern {
    struct mt_context *ctx;
    pcre2_general_context *general;
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_match_data *data;
    bool starved; // a match could not be tried for want of memory
};

/* PCRE2 does not say how large a block was when it frees it, so the block does. */
static void *take(size_t bytes, void *self)
{
    void *block = NULL;
    if (bytes > SIZE_MAX - BLOCK_HEADER) return NULL;
    if (mt_allocate(self, bytes + BLOCK_HEADER, &block) != MT_OK) return NULL;
    *(size_t *)block = bytes + BLOCK_HEADER;
    return (char *)block + BLOCK_HEADER;
}

static void give(void *memory, void *self)
{
    if (memory == NULL) return;
    void *block = (char *)memory - BLOCK_HEADER;
    mt_release(self, block, *(size_t *)block);
}

static enum mt_status compile(struct mt_pattern *pattern, const char *text)
{
    int problem = 0;
    PCRE2_SIZE place = 0;
    pcre2_compile_context *options = pcre2_compile_context_create(pattern->general);
    if (options == NULL) return mt_fail(pattern->ctx, MT_ERR_MEMORY, "out of memory for a pattern");
    (void)pcre2_set_max_pattern_length(options, 65536);
    pattern->code =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C, &problem, &place, options);
    pcre2_compile_context_free(options);
    if (pattern->code != NULL) return MT_OK;
    char sentence[200] = "";
    (void)pcre2_get_error_message(problem, (PCRE2_UCHAR *)sentence, sizeof sentence);
    if (problem == PCRE2_ERROR_NOMEMORY || problem == PCRE2_ERROR_HEAP_FAILED)
        return mt_fail(pattern->ctx, MT_ERR_MEMORY, "out of memory for a pattern");
    return mt_fail(pattern->ctx, MT_ERR_USAGE, "the pattern '%.200s' is wrong at byte %zu: %s", text,
                   (size_t)place, sentence);
}

enum mt_status mt_pattern_create(struct mt_context *ctx, const char *text, struct mt_pattern **pattern)
{
    void *memory = NULL;
    *pattern = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **pattern, &memory);
    if (status != MT_OK) return status;
    struct mt_pattern *made = memory;
    made->ctx = ctx;
    made->general = pcre2_general_context_create(take, give, ctx);
    if (made->general == NULL) status = mt_fail(ctx, MT_ERR_MEMORY, "out of memory for a pattern");
    if (status == MT_OK) status = compile(made, text);
    if (status == MT_OK) {
        made->limits = pcre2_match_context_create(made->general);
        made->data = pcre2_match_data_create_from_pattern(made->code, made->general);
        if (made->limits == NULL || made->data == NULL)
            status = mt_fail(ctx, MT_ERR_MEMORY, "out of memory for a pattern");
    }
    if (status != MT_OK) {
        mt_pattern_free(made);
        return status;
    }
    (void)pcre2_set_match_limit(made->limits, MATCH_LIMIT);
    (void)pcre2_set_depth_limit(made->limits, DEPTH_LIMIT);
    (void)pcre2_set_heap_limit(made->limits, HEAP_LIMIT_KIB);
    *pattern = made;
    return MT_OK;
}

void mt_pattern_free(struct mt_pattern *pattern)
{
    if (pattern == NULL) return;
    pcre2_match_data_free(pattern->data);
    pcre2_match_context_free(pattern->limits);
    pcre2_code_free(pattern->code);
    pcre2_general_context_free(pattern->general);
    mt_release(pattern->ctx, pattern, sizeof *pattern);
}

enum mt_status mt_pattern_status(struct mt_pattern *pattern)
{
    if (!pattern->starved) return MT_OK;
    pattern->starved = false;
    return mt_fail(pattern->ctx, MT_ERR_MEMORY, "out of memory while matching a pattern");
}

bool mt_pattern_find(struct mt_pattern *pattern, const char *text, size_t bytes, size_t from,
                     struct mt_pattern_match *match)
{
    int groups = pcre2_match(pattern->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, pattern->data,
                             pattern->limits);
    if (groups == PCRE2_ERROR_NOMEMORY) pattern->starved = true;
    if (groups < 1) return false;
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(pattern->data);
    if (places[0] > places[1]) return false; // \K in a lookahead
    *match =
        (struct mt_pattern_match){.start = places[0], .end = places[1], .from = places[0], .to = places[1]};
    for (size_t group = 1; group < (size_t)groups; group++) {
        if (places[2 * group] == PCRE2_UNSET) continue;
        match->start = places[2 * group];
        match->end = places[2 * group + 1];
        break;
    }
    return true;
}

bool mt_pattern_find_last(struct mt_pattern *pattern, const char *text, size_t bytes,
                          struct mt_pattern_match *match)
{
    struct mt_pattern_match next;
    bool found = false;
    size_t from = 0;
    for (int i = 0; i < MOST_MATCHES && from <= bytes; i++) {
        if (!mt_pattern_find(pattern, text, bytes, from, &next)) break;
        *match = next;
        found = true;
        from = next.to;
        if (next.to > next.from) continue;
        // Behind an empty match: one whole character on.
        from++;
        while (from < bytes && ((unsigned char)text[from] & 0xC0u) == 0x80u) from++;
    }
    return found;
}
