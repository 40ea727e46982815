/*
 * PCRE2 with a limit on the work for one text. PCRE2's own match limit starts anew at every byte a match may
 * start at, and does not count what a repeat swallows: it does not bound a pattern that is quadratic in the
 * text. So PCRE2 calls us before every item of the pattern (automatic callouts), and the work is
 *
 *     the number of calls · CALL_WORK + the bytes that each call is further on than the one before
 *
 * which is the same on every machine. The interpreter alone is used: the JIT would count its limits in
 * another way, and machines without it would judge differently.
 */
#include "eval/answers/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define CALL_WORK      32          // an item costs about as much as so many bytes of a repeat
#define WORK_ALLOWED   (1u << 29u) // half a second to a second and a half
#define WORK_PER_BYTE  1024u       // patterns that are linear in the text need less
#define HEAP_LIMIT_KIB 131072u     // for places to come back to
#define BLOCK_HEADER   64

struct mt_pattern {
    struct mt_context *ctx;
    pcre2_general_context *general;
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_match_data *data;
    uint64_t work;   // since the last mt_pattern_status
    uint64_t most;   // of it, for the text in hand
    size_t place;    // of the last call, in the text
    bool starved;    // a match could not be tried for want of memory
    bool over_limit; // or of work allowed
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
                      PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT, &problem,
                      &place, options);
    pcre2_compile_context_free(options);
    if (pattern->code != NULL) return MT_OK;
    char sentence[200] = "";
    (void)pcre2_get_error_message(problem, (PCRE2_UCHAR *)sentence, sizeof sentence);
    if (problem == PCRE2_ERROR_NOMEMORY || problem == PCRE2_ERROR_HEAP_FAILED)
        return mt_fail(pattern->ctx, MT_ERR_MEMORY, "out of memory for a pattern");
    return mt_fail(pattern->ctx, MT_ERR_USAGE, "the pattern '%.200s' is wrong at byte %zu: %s", text,
                   (size_t)place, sentence);
}

static int count_work(pcre2_callout_block *block, void *self)
{
    struct mt_pattern *pattern = self;
    size_t place = block->current_position;
    pattern->work += CALL_WORK + (place > pattern->place ? place - pattern->place : 0);
    pattern->place = place;
    return pattern->work > pattern->most ? PCRE2_ERROR_CALLOUT : 0;
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
    (void)pcre2_set_callout(made->limits, count_work, made);
    (void)pcre2_set_match_limit(made->limits, UINT32_MAX);
    (void)pcre2_set_depth_limit(made->limits, UINT32_MAX);
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
    bool starved = pattern->starved;
    bool over_limit = pattern->over_limit;
    pattern->work = 0;
    pattern->starved = false;
    pattern->over_limit = false;
    if (starved) return mt_fail(pattern->ctx, MT_ERR_MEMORY, "out of memory while matching a pattern");
    if (over_limit) return mt_fail(pattern->ctx, MT_ERR_LIMIT, "a pattern needs too much work on this text");
    return MT_OK;
}

bool mt_pattern_find(struct mt_pattern *pattern, const char *text, size_t bytes, size_t from,
                     struct mt_pattern_match *match)
{
    if (pattern->starved || pattern->over_limit) return false;
    pattern->most = WORK_ALLOWED + WORK_PER_BYTE * (uint64_t)bytes;
    pattern->place = from;
    int groups = pcre2_match(pattern->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, pattern->data,
                             pattern->limits);
    if (groups == PCRE2_ERROR_NOMEMORY) pattern->starved = true;
    // Every other error there can be is a limit: ours, or the heap's.
    if (groups < 0 && groups != PCRE2_ERROR_NOMATCH) pattern->over_limit = true;
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
    while (from <= bytes && mt_pattern_find(pattern, text, bytes, from, &next)) {
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
