/*
 * Decoders: reading them, and their stages. Between stages travel parts of tokens: some text, and whether the
 * token ends with it. A stage that needs a whole token holds its parts until the end.
 */
#include "formats/tokenizer/decode.h"

#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/bpe.h"

// ------------------------------------------------------------------ reading

static enum mt_status read_replace(const struct mt_json_node *node, struct mt_decoder_step *step)
{
    enum mt_status status = mt_pattern_read(node, &step->regex);
    return status == MT_OK ? mt_text_read(node, "content", &step->content) : status;
}

static enum mt_status read_strip(const struct mt_json_node *node, struct mt_decoder_step *step)
{
    const char *content = NULL;
    int64_t start = 0;
    int64_t stop = 0;
    enum mt_status status = mt_json_get_string(node, "content", &content);
    if (status == MT_OK) status = mt_json_get_integer(node, "start", 0, INT32_MAX, &start);
    if (status == MT_OK) status = mt_json_get_integer(node, "stop", 0, INT32_MAX, &stop);
    if (status != MT_OK) return status;
    size_t length = strlen(content);
    if (length == 0 || length != mt_utf8_length((uint8_t)content[0])) {
        return mt_json_fail(node, "has the content '%s', expected one character", mt_printable(content).text);
    }
    memcpy(step->metaspace.replacement, content, length);
    step->metaspace.replacement_bytes = length;
    step->strip_start = (size_t)start;
    step->strip_stop = (size_t)stop;
    return MT_OK;
}

static enum mt_status read_metaspace(const struct mt_json_node *node, struct mt_decoder_step *step)
{
    return mt_metaspace_read(node, &step->metaspace);
}

static enum mt_status read_step(const struct mt_json_node *node, const char *type, void *self)
{
    static const struct {
        const char *name;
        enum mt_decoder_kind kind;
        enum mt_status (*read)(const struct mt_json_node *node, struct mt_decoder_step *step); // or NULL
    } kinds[] = {
        {"ByteLevel", MT_DECODER_BYTE_LEVEL, NULL},       {"Replace", MT_DECODER_REPLACE, read_replace},
        {"ByteFallback", MT_DECODER_BYTE_FALLBACK, NULL}, {"Fuse", MT_DECODER_FUSE, NULL},
        {"Strip", MT_DECODER_STRIP, read_strip},          {"Metaspace", MT_DECODER_METASPACE, read_metaspace},
    };
    struct mt_decoder *decoder = self;
    size_t kind = 0;
    enum mt_status status = mt_component_find(node, "decoder", type, kinds, sizeof kinds[0],
                                              sizeof kinds / sizeof kinds[0], decoder->count, &kind);
    if (status != MT_OK) return status;
    struct mt_decoder_step *step = mt_decoder_add(decoder, kinds[kind].kind);
    return kinds[kind].read != NULL ? kinds[kind].read(node, step) : MT_OK;
}

enum mt_status mt_decoder_read(const struct mt_json_node *node, struct mt_decoder *decoder)
{
    *decoder = (struct mt_decoder){.ctx = node->ctx};
    enum mt_status status = mt_component_walk(node, "decoders", read_step, decoder);
    bool absent = node->value == NULL || mt_json_kind(node) == MT_JSON_NULL;
    if (absent) (void)mt_decoder_add(decoder, MT_DECODER_JOIN_SPACES);
    return status;
}

struct mt_decoder_step *mt_decoder_add(struct mt_decoder *decoder, enum mt_decoder_kind kind)
{
    struct mt_decoder_step *step = &decoder->steps[decoder->count++];
    *step = (struct mt_decoder_step){.kind = kind, .content.ctx = decoder->ctx};
    return step;
}

void mt_decoder_free(struct mt_decoder *decoder)
{
    for (size_t i = 0; i < decoder->count; i++) {
        mt_regex_free(decoder->steps[i].regex);
        mt_byte_list_free(&decoder->steps[i].content);
    }
    decoder->count = 0;
}

// ------------------------------------------------------------------ the stages

static const uint8_t replacement_character[3] = {0xEF, 0xBF, 0xBD}; // U+FFFD
static const uint8_t nothing[1] = {0};                              // where an empty text points

static enum mt_status feed(struct mt_decoder_run *run, size_t stage, const uint8_t *text, size_t bytes,
                           bool token_ends);

/* Hands on a part to the next stage, or to the output. */
static enum mt_status emit(struct mt_decoder_run *run, size_t stage, const uint8_t *text, size_t bytes,
                           bool token_ends)
{
    if (bytes == 0) text = nothing;
    if (stage + 1 < run->decoder->count) return feed(run, stage + 1, text, bytes, token_ends);
    return mt_byte_list_append(run->out, text, bytes);
}

// ------------------------------------------------------------------ bytes to text

/* Hands on the whole characters of held; what may still become one stays, unless this is the end. */
static enum mt_status emit_characters(struct mt_decoder_run *run, size_t stage, bool at_end)
{
    struct mt_byte_list *held = &run->stages[stage].held;
    size_t at = 0;
    size_t sent = 0;
    enum mt_status status = MT_OK;
    while (status == MT_OK && at < held->count) {
        size_t bad = 0;
        bool cut = false;
        size_t length = mt_utf8_check(held->data + at, held->count - at, &bad, &cut);
        if (length != 0) {
            at += length;
            continue;
        }
        if (cut && !at_end) break;
        if (at > sent) status = emit(run, stage, held->data + sent, at - sent, false);
        if (status == MT_OK) {
            status = emit(run, stage, replacement_character, sizeof replacement_character, false);
        }
        at += bad;
        sent = at;
    }
    if (status == MT_OK && at > sent) status = emit(run, stage, held->data + sent, at - sent, false);
    if (status != MT_OK) return status;
    if (held->count != 0) memmove(held->data, held->data + at, held->count - at);
    held->count -= at;
    return MT_OK;
}

/* A token in the byte-level alphabet becomes bytes; one with any other character stays as it is. */
static enum mt_status byte_level_token(struct mt_decoder_run *run, size_t stage, const uint8_t *text,
                                       size_t bytes)
{
    struct mt_byte_list *held = &run->stages[stage].held;
    size_t before = held->count;
    size_t length = 0;
    enum mt_status status = mt_byte_list_reserve(held, bytes);
    if (status != MT_OK) return status;
    for (size_t at = 0; at < bytes; at += length) {
        int byte = mt_byte_level_byte(mt_utf8_decode(text + at, &length));
        if (byte < 0) {
            held->count = before;
            return mt_byte_list_append(held, text, bytes);
        }
        held->data[held->count++] = (uint8_t)byte;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ byte tokens

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The byte of "<0xNN>", or -1; "+N" is a number too for the reference. */
static int byte_of_token(const uint8_t *text, size_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int low = hex_digit(text[4]);
    if (low < 0) return -1;
    if (text[3] == '+') return low;
    int high = hex_digit(text[3]);
    return high < 0 ? -1 : high * 16 + low;
}

/* The run of byte tokens is over: text if it is valid as a whole, else a U+FFFD for each byte. */
static enum mt_status end_byte_run(struct mt_decoder_run *run, size_t stage)
{
    struct mt_byte_list *held = &run->stages[stage].held;
    enum mt_status status = MT_OK;
    if (held->count != 0 && mt_utf8_valid(held->data, held->count)) {
        status = emit(run, stage, held->data, held->count, true);
    } else {
        for (size_t i = 0; status == MT_OK && i < held->count; i++) {
            status = emit(run, stage, replacement_character, sizeof replacement_character, true);
        }
    }
    held->count = 0;
    return status;
}

static enum mt_status byte_fallback_token(struct mt_decoder_run *run, size_t stage, const uint8_t *text,
                                          size_t bytes)
{
    int byte = byte_of_token(text, bytes);
    if (byte >= 0) {
        uint8_t value = (uint8_t)byte;
        return mt_byte_list_append(&run->stages[stage].held, &value, 1);
    }
    enum mt_status status = end_byte_run(run, stage);
    return status == MT_OK ? emit(run, stage, text, bytes, true) : status;
}

// ------------------------------------------------------------------ the other stages

static enum mt_status replace_token(struct mt_decoder_run *run, size_t stage, const uint8_t *text,
                                    size_t bytes)
{
    const struct mt_decoder_step *step = &run->decoder->steps[stage];
    struct mt_regex_walk walk = {0};
    size_t copied = 0;
    bool found = bytes != 0;
    while (found) {
        enum mt_status status = mt_regex_next(run->matcher, step->regex, text, bytes, &walk, &found);
        if (status != MT_OK) return status;
        if (!found) break;
        if (walk.start > copied) status = emit(run, stage, text + copied, walk.start - copied, false);
        if (status == MT_OK) status = emit(run, stage, step->content.data, step->content.count, false);
        if (status != MT_OK) return status;
        copied = walk.end;
    }
    return emit(run, stage, text + copied, bytes - copied, true);
}

static bool is_strip_character(const struct mt_decoder_step *step, const uint8_t *text, size_t bytes)
{
    size_t length = step->metaspace.replacement_bytes;
    return bytes >= length && memcmp(text, step->metaspace.replacement, length) == 0;
}

static enum mt_status strip_part(struct mt_decoder_run *run, size_t stage, const uint8_t *text, size_t bytes,
                                 bool token_ends)
{
    const struct mt_decoder_step *step = &run->decoder->steps[stage];
    struct mt_decoder_stage *state = &run->stages[stage];
    size_t length = step->metaspace.replacement_bytes;
    while (!state->inside && bytes != 0) {
        if (state->stripped < step->strip_start && is_strip_character(step, text, bytes)) {
            state->stripped++;
            text += length;
            bytes -= length;
        } else {
            state->inside = true;
        }
    }
    for (size_t i = 0; token_ends && i < step->strip_stop && bytes >= length; i++) {
        if (!is_strip_character(step, text + bytes - length, length)) break;
        bytes -= length;
    }
    if (token_ends) {
        state->stripped = 0;
        state->inside = false;
    }
    return emit(run, stage, text, bytes, token_ends);
}

static enum mt_status metaspace_part(struct mt_decoder_run *run, size_t stage, const uint8_t *text,
                                     size_t bytes, bool token_ends)
{
    const struct mt_split_step *options = &run->decoder->steps[stage].metaspace;
    struct mt_decoder_stage *state = &run->stages[stage];
    bool drops = state->tokens == 0 && options->prepend != MT_PREPEND_NEVER;
    size_t length = 0;
    size_t sent = 0;
    enum mt_status status = MT_OK;
    for (size_t at = 0; status == MT_OK && at < bytes; at += length) {
        length = mt_utf8_length(text[at]);
        if (length != options->replacement_bytes || memcmp(text + at, options->replacement, length) != 0)
            continue;
        if (at > sent) status = emit(run, stage, text + sent, at - sent, false);
        if (status == MT_OK && !drops) status = emit(run, stage, (const uint8_t *)" ", 1, false);
        sent = at + length;
    }
    if (status == MT_OK) status = emit(run, stage, text + sent, bytes - sent, token_ends);
    if (token_ends) state->tokens++;
    return status;
}

static enum mt_status join_part(struct mt_decoder_run *run, size_t stage, const uint8_t *text, size_t bytes,
                                bool token_ends)
{
    enum mt_status status = MT_OK;
    if (run->stages[stage].tokens > 0) status = emit(run, stage, (const uint8_t *)" ", 1, false);
    if (token_ends) run->stages[stage].tokens++;
    return status == MT_OK ? emit(run, stage, text, bytes, token_ends) : status;
}

// ------------------------------------------------------------------ the chain

/* Stages that look at whole tokens only. */
static bool needs_whole_token(const struct mt_decoder_step *step)
{
    return step->kind == MT_DECODER_REPLACE || step->kind == MT_DECODER_BYTE_FALLBACK ||
           step->kind == MT_DECODER_BYTE_LEVEL || (step->kind == MT_DECODER_STRIP && step->strip_stop > 0);
}

static enum mt_status whole_token(struct mt_decoder_run *run, size_t stage, const uint8_t *text, size_t bytes)
{
    enum mt_status status = MT_OK;
    switch (run->decoder->steps[stage].kind) {
    case MT_DECODER_REPLACE: return replace_token(run, stage, text, bytes);
    case MT_DECODER_BYTE_FALLBACK: return byte_fallback_token(run, stage, text, bytes);
    case MT_DECODER_STRIP: return strip_part(run, stage, text, bytes, true);
    default: status = byte_level_token(run, stage, text, bytes); break;
    }
    return status == MT_OK ? emit_characters(run, stage, false) : status;
}

static enum mt_status feed(struct mt_decoder_run *run, size_t stage, const uint8_t *text, size_t bytes,
                           bool token_ends)
{
    const struct mt_decoder_step *step = &run->decoder->steps[stage];
    struct mt_decoder_stage *state = &run->stages[stage];
    if (needs_whole_token(step)) {
        if (token_ends && state->part.count == 0) return whole_token(run, stage, text, bytes);
        enum mt_status status = mt_byte_list_append(&state->part, text, bytes);
        if (status != MT_OK || !token_ends) return status;
        const uint8_t *whole = state->part.count != 0 ? state->part.data : nothing;
        status = whole_token(run, stage, whole, state->part.count);
        state->part.count = 0;
        return status;
    }
    switch (step->kind) {
    case MT_DECODER_RAW_BYTES: {
        enum mt_status status = mt_byte_list_append(&state->held, text, bytes);
        return status == MT_OK ? emit_characters(run, stage, false) : status;
    }
    case MT_DECODER_STRIP: return strip_part(run, stage, text, bytes, token_ends);
    case MT_DECODER_METASPACE: return metaspace_part(run, stage, text, bytes, token_ends);
    case MT_DECODER_JOIN_SPACES: return join_part(run, stage, text, bytes, token_ends);
    default: return emit(run, stage, text, bytes, false); // fuse: the one token ends with the text
    }
}

/* The end of the text, at one stage: what it held goes on, and one token in all ends. */
static enum mt_status end_stage(struct mt_decoder_run *run, size_t stage)
{
    enum mt_status status = MT_OK;
    switch (run->decoder->steps[stage].kind) {
    case MT_DECODER_BYTE_LEVEL:
    case MT_DECODER_RAW_BYTES:
        status = emit_characters(run, stage, true);
        return status == MT_OK ? emit(run, stage, NULL, 0, true) : status;
    case MT_DECODER_FUSE: return emit(run, stage, NULL, 0, true);
    case MT_DECODER_BYTE_FALLBACK: return end_byte_run(run, stage);
    default: return MT_OK;
    }
}

void mt_decoder_run_init(struct mt_decoder_run *run, const struct mt_decoder *decoder, struct mt_context *ctx,
                         struct mt_regex_matcher *matcher)
{
    *run = (struct mt_decoder_run){.decoder = decoder, .matcher = matcher};
    for (size_t i = 0; i < decoder->count; i++) {
        run->stages[i].held.ctx = ctx;
        run->stages[i].part.ctx = ctx;
    }
}

void mt_decoder_run_free(struct mt_decoder_run *run)
{
    for (size_t i = 0; i < run->decoder->count; i++) {
        mt_byte_list_free(&run->stages[i].held);
        mt_byte_list_free(&run->stages[i].part);
    }
}

enum mt_status mt_decoder_run_token(struct mt_decoder_run *run, const uint8_t *text, size_t bytes)
{
    if (run->decoder->count == 0) return mt_byte_list_append(run->out, text, bytes);
    return feed(run, 0, bytes != 0 ? text : nothing, bytes, true);
}

enum mt_status mt_decoder_run_end(struct mt_decoder_run *run)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < run->decoder->count; i++) status = end_stage(run, i);
    for (size_t i = 0; i < run->decoder->count; i++) {
        struct mt_decoder_stage *state = &run->stages[i];
        state->held.count = 0;
        state->part.count = 0;
        state->tokens = 0;
        state->stripped = 0;
        state->inside = false;
    }
    return status;
}
