/*
 * PCRE2 behind the interface of tokenizer/regex.h. Its own match limit bounds what is tried from one place of
 * the text, not a pattern that is quadratic in the text. So PCRE2 calls us before every item of the pattern
 * (automatic callouts), and the work of a text is
 *
 *     the number of calls · CALL_WORK + the bytes that each call is further on than the one before
 *
 * which does not depend on how fast or how busy the machine is.
 */
#define _GNU_SOURCE // memmem
#include "formats/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "formats/text/utf8.h"

#define MATCH_LIMIT         200000u // steps of one search, and so many more for every byte of the text:
#define MATCHES_PER_BYTE    8u      // real patterns need a few per character of the longest run
#define HEAP_LIMIT_KIB      65536u  // only the interpreter uses heap
#define JIT_STACK_FIRST     (64u * 1024)
#define JIT_STACK_MOST      (64u * 1024 * 1024)
#define MAX_COMPILED_LENGTH (16u * 1024 * 1024)
#define CALL_WORK           32 // an item costs about as much as so many bytes of a repeat
#define WORK_ALLOWED        (UINT64_C(1) << 30u)
#define WORK_PER_BYTE       8192u // real patterns need tens to hundreds
#define SCAN_BYTES          64    // shorter texts are first scanned for a byte a match can start with
#define BLOCK_HEADER        64    // keeps PCRE2's blocks aligned

/* Where PCRE2 gets memory; remembers whether it once got none. */
struct pcre_memory {
    struct mt_context *ctx; // borrowed
    bool failed;
};

struct mt_regex {
    struct mt_context *ctx; // borrowed; the one it was compiled with
    struct pcre_memory memory;
    pcre2_general_context *general;
    pcre2_code *code;
    bool jit;
    bool has_first;
    uint8_t first[32]; // bit set: a match may start with this byte; only if has_first
    bool is_literal;   // a non-empty text, found without PCRE2
    struct mt_byte_list literal;
};

struct mt_regex_matcher {
    struct mt_context *ctx; // borrowed
    struct pcre_memory memory;
    pcre2_general_context *general;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t work; // on the text in hand
    uint64_t most; // of it
    size_t place;  // of the last call, in the text
};

/* PCRE2 frees without the size, so each block carries it. */
static void *pcre_allocate(size_t bytes, void *self)
{
    struct pcre_memory *from = self;
    void *block = NULL;
    if (bytes > SIZE_MAX - BLOCK_HEADER || mt_allocate(from->ctx, bytes + BLOCK_HEADER, &block) != MT_OK) {
        from->failed = true;
        return NULL;
    }
    *(size_t *)block = bytes + BLOCK_HEADER;
    return (char *)block + BLOCK_HEADER;
}

static void pcre_release(void *memory, void *self)
{
    struct pcre_memory *from = self;
    if (memory == NULL) return;
    char *block = (char *)memory - BLOCK_HEADER;
    mt_release(from->ctx, block, *(size_t *)block);
}

static enum mt_status out_of_memory(struct mt_context *ctx)
{
    return mt_fail(ctx, MT_ERR_MEMORY, "no memory for a regular expression (%zu bytes in use)",
                   ctx->live_bytes);
}

void mt_regex_free(struct mt_regex *regex)
{
    if (regex == NULL) return;
    if (regex->code != NULL) pcre2_code_free(regex->code);
    if (regex->general != NULL) pcre2_general_context_free(regex->general);
    mt_byte_list_free(&regex->literal);
    mt_release(regex->ctx, regex, sizeof *regex);
}

static enum mt_status compile_code(struct mt_regex *regex, const char *pattern, const uint8_t *text,
                                   size_t bytes, uint32_t options)
{
    pcre2_compile_context *context = pcre2_compile_context_create(regex->general);
    if (context == NULL) return out_of_memory(regex->ctx);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 50);
    pcre2_set_max_pattern_length(context, MAX_COMPILED_LENGTH);
    int error = 0;
    size_t offset = 0;
    regex->code = pcre2_compile(text, bytes, PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_AUTO_CALLOUT | options,
                                &error, &offset, context);
    pcre2_compile_context_free(context);
    if (regex->code != NULL) return MT_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED) return out_of_memory(regex->ctx);
    char reason[128];
    if (pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason) < 0) reason[0] = '\0';
    return mt_fail(regex->ctx, MT_ERR_FORMAT, "the regular expression '%.200s' cannot be compiled: %s",
                   pattern, reason);
}

static enum mt_status prepare(struct mt_regex *regex, const char *pattern, bool literal)
{
    struct mt_context *ctx = regex->ctx;
    regex->general = pcre2_general_context_create(pcre_allocate, pcre_release, &regex->memory);
    if (regex->general == NULL) return out_of_memory(ctx);
    struct mt_byte_list translated = {.ctx = ctx};
    enum mt_status status = literal ? mt_byte_list_append_text(&translated, pattern)
                                    : mt_regex_translate(ctx, pattern, &translated);
    uint32_t options = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    if (status == MT_OK) {
        // PCRE2 takes no NULL, which is what an empty list holds.
        const uint8_t *text = translated.data != NULL ? translated.data : (const uint8_t *)"";
        status = compile_code(regex, pattern, text, translated.count, options);
    }
    mt_byte_list_free(&translated);
    if (status != MT_OK) return status;
    // Without JIT (not built in, or no executable memory) the interpreter does the same, slower.
    regex->jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    if (regex->memory.failed) return out_of_memory(ctx);
    const uint8_t *bitmap = NULL;
    if (pcre2_pattern_info(regex->code, PCRE2_INFO_FIRSTBITMAP, &bitmap) == 0 && bitmap != NULL) {
        memcpy(regex->first, bitmap, sizeof regex->first);
        regex->has_first = true;
    }
    if (!literal || pattern[0] == '\0') return MT_OK;
    regex->is_literal = true;
    return mt_byte_list_append_text(&regex->literal, pattern);
}

enum mt_status mt_regex_compile(struct mt_context *ctx, const char *pattern, bool literal,
                                struct mt_regex **regex)
{
    void *memory = NULL;
    *regex = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_regex), &memory);
    if (status != MT_OK) return status;
    struct mt_regex *made = memory;
    made->ctx = ctx;
    made->memory.ctx = ctx;
    made->literal.ctx = ctx;
    status = prepare(made, pattern, literal);
    if (status != MT_OK) {
        mt_regex_free(made);
        return status;
    }
    *regex = made;
    return MT_OK;
}

void mt_regex_matcher_free(struct mt_regex_matcher *matcher)
{
    if (matcher == NULL) return;
    if (matcher->data != NULL) pcre2_match_data_free(matcher->data);
    if (matcher->context != NULL) pcre2_match_context_free(matcher->context);
    if (matcher->stack != NULL) pcre2_jit_stack_free(matcher->stack);
    if (matcher->general != NULL) pcre2_general_context_free(matcher->general);
    mt_release(matcher->ctx, matcher, sizeof *matcher);
}

static int count_work(pcre2_callout_block *block, void *self)
{
    struct mt_regex_matcher *matcher = self;
    size_t place = block->current_position;
    matcher->work += CALL_WORK + (place > matcher->place ? place - matcher->place : 0);
    matcher->place = place;
    return matcher->work > matcher->most ? PCRE2_ERROR_CALLOUT : 0;
}

enum mt_status mt_regex_matcher_create(struct mt_context *ctx, struct mt_regex_matcher **matcher)
{
    void *memory = NULL;
    *matcher = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_regex_matcher), &memory);
    if (status != MT_OK) return status;
    struct mt_regex_matcher *made = memory;
    made->ctx = ctx;
    made->memory.ctx = ctx;
    made->general = pcre2_general_context_create(pcre_allocate, pcre_release, &made->memory);
    if (made->general != NULL) {
        made->data = pcre2_match_data_create(1, made->general);
        made->context = pcre2_match_context_create(made->general);
        made->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, made->general);
    }
    uint32_t has_jit = 0;
    (void)pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
    if (made->data == NULL || made->context == NULL || (has_jit != 0 && made->stack == NULL)) {
        mt_regex_matcher_free(made);
        return out_of_memory(ctx);
    }
    pcre2_set_heap_limit(made->context, HEAP_LIMIT_KIB);
    (void)pcre2_set_callout(made->context, count_work, made);
    if (made->stack != NULL) pcre2_jit_stack_assign(made->context, NULL, made->stack);
    mt_regex_matcher_begin(made, 0);
    *matcher = made;
    return MT_OK;
}

void mt_regex_matcher_begin(struct mt_regex_matcher *matcher, size_t bytes)
{
    matcher->work = 0;
    matcher->most = WORK_ALLOWED + WORK_PER_BYTE * (uint64_t)bytes;
    size_t most = (UINT32_MAX - MATCH_LIMIT) / MATCHES_PER_BYTE;
    uint32_t limit = MATCH_LIMIT + MATCHES_PER_BYTE * (uint32_t)(bytes < most ? bytes : most);
    pcre2_set_match_limit(matcher->context, limit);
}

static bool find_literal(const struct mt_regex *regex, const uint8_t *text, size_t bytes,
                         struct mt_regex_walk *walk)
{
    const struct mt_byte_list *literal = &regex->literal;
    const uint8_t *hit = memmem(text + walk->from, bytes - walk->from, literal->data, literal->count);
    if (hit == NULL) return false;
    walk->start = (size_t)(hit - text);
    walk->end = walk->start + literal->count;
    return true;
}

/* True when no byte of a short text can start a match: saves the call. */
static bool cannot_match(const struct mt_regex *regex, const uint8_t *text, size_t bytes, size_t from)
{
    if (!regex->has_first || bytes - from > SCAN_BYTES) return false;
    for (size_t i = from; i < bytes; i++) {
        if ((regex->first[text[i] / 8] & (1u << text[i] % 8)) != 0) return false;
    }
    return true;
}

static int call_pcre2(struct mt_regex_matcher *matcher, const struct mt_regex *regex, const uint8_t *text,
                      size_t bytes, size_t from)
{
    if (regex->jit)
        return pcre2_jit_match(regex->code, text, bytes, from, 0, matcher->data, matcher->context);
    return pcre2_match(regex->code, text, bytes, from, PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
}

static enum mt_status search(struct mt_regex_matcher *matcher, const struct mt_regex *regex,
                             const uint8_t *text, size_t bytes, struct mt_regex_walk *walk, bool *found)
{
    matcher->place = walk->from;
    int result = call_pcre2(matcher, regex, text, bytes, walk->from);
    *found = result >= 0;
    if (*found) {
        const size_t *positions = pcre2_get_ovector_pointer(matcher->data);
        walk->start = positions[0];
        walk->end = positions[1];
        // \K can put the start of a match behind its end or before the search: not a piece of this text.
        if (walk->start <= walk->end && walk->start >= walk->last_end) return MT_OK;
        return mt_fail(matcher->ctx, MT_ERR_FORMAT, "a regular expression gives a match that runs backwards");
    }
    if (result == PCRE2_ERROR_NOMATCH) return MT_OK;
    if (result == PCRE2_ERROR_NOMEMORY || result == PCRE2_ERROR_HEAPLIMIT) return out_of_memory(matcher->ctx);
    return mt_fail(
        matcher->ctx, MT_ERR_UNSUPPORTED,
        "a regular expression of the tokenizer needs too much work or memory on this text (PCRE2 error "
        "%d)",
        result);
}

enum mt_status mt_regex_next(struct mt_regex_matcher *matcher, const struct mt_regex *regex,
                             const uint8_t *text, size_t bytes, struct mt_regex_walk *walk, bool *found)
{
    *found = false;
    while (walk->from <= bytes) {
        if (regex->is_literal) {
            *found = find_literal(regex, text, bytes, walk);
        } else if (!cannot_match(regex, text, bytes, walk->from)) {
            enum mt_status status = search(matcher, regex, text, bytes, walk, found);
            if (status != MT_OK) return status;
        }
        if (!*found) return MT_OK;
        bool empty_again = walk->start == walk->end && walk->matched && walk->start == walk->last_end;
        if (!empty_again) {
            walk->from = walk->end;
            walk->last_end = walk->end;
            walk->matched = true;
            return MT_OK;
        }
        *found = false;
        walk->from += walk->from < bytes ? mt_utf8_length(text[walk->from]) : 1;
    }
    return MT_OK;
}
