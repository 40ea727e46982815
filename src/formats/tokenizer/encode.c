/*
 * Encoding: added tokens in the raw text, normalizing, added tokens in the normalized text, cutting into
 * words, and BPE.
 *
 * The steps of the pre-tokenizer are applied depth first: a piece goes through all of them before the next
 * one is looked at. What becomes of a piece from some step on depends on its bytes alone, so short pieces are
 * remembered, with the step, in a cache: a word seen before costs one look-up, however many steps remain.
 * (The one exception, a piece at the very start of the text, which Metaspace may treat differently, is not
 * remembered.)
 */
#include "formats/text/utf8.h"
#include "formats/tokenizer/private.h"

#define CACHE_KEY_BYTES 24
#define CACHE_IDS       8
#define CACHE_ENTRIES   65536 // a power of two; one cache line each

struct cache_entry {
    uint32_t hash;
    uint8_t step;   // + 1; 0: free
    uint8_t length; // of the key
    uint8_t count;  // of the ids
    uint8_t padding;
    uint8_t key[CACHE_KEY_BYTES];
    int32_t ids[CACHE_IDS];
};

struct mt_token_scratch {
    struct mt_context *ctx;               // borrowed
    const struct mt_tokenizer *tokenizer; // borrowed; whose words the cache holds
    struct mt_regex_matcher *matcher;
    struct mt_normalizer_scratch normal;
    struct mt_bpe_scratch bpe;
    struct mt_byte_list repaired; // the text, when it was not valid UTF-8
    struct mt_byte_list work;     // the text of pieces; a stack
    struct mt_split_spans spans;  // a stack
    struct cache_entry *cache;
};

struct encoder {
    const struct mt_tokenizer *tokenizer;
    struct mt_token_scratch *scratch;
    struct mt_id_list *ids;
    bool skip_special;
};

struct piece {
    size_t start; // in scratch->work
    size_t bytes;
    bool at_origin; // begins where the text begins
    bool looked_up; // this very piece was not in the cache
};

enum mt_status mt_token_scratch_create(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                       struct mt_token_scratch **scratch)
{
    void *memory = NULL;
    *scratch = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_token_scratch), &memory);
    if (status != MT_OK) return status;
    struct mt_token_scratch *made = memory;
    made->ctx = ctx;
    made->tokenizer = tokenizer;
    made->normal.text.ctx = ctx;
    made->normal.other.ctx = ctx;
    made->normal.points.ctx = ctx;
    made->bpe.ctx = ctx;
    made->bpe.text.ctx = ctx;
    made->repaired.ctx = ctx;
    made->work.ctx = ctx;
    made->spans.ctx = ctx;
    status = mt_regex_matcher_create(ctx, &made->matcher);
    made->normal.matcher = made->matcher;
    if (status == MT_OK) {
        status = mt_allocate_array(ctx, CACHE_ENTRIES, sizeof *made->cache, &memory);
        made->cache = memory;
    }
    if (status != MT_OK) {
        mt_token_scratch_free(made);
        return status;
    }
    *scratch = made;
    return MT_OK;
}

void mt_token_scratch_free(struct mt_token_scratch *scratch)
{
    if (scratch == NULL) return;
    mt_regex_matcher_free(scratch->matcher);
    mt_normalizer_scratch_free(&scratch->normal);
    mt_bpe_scratch_free(&scratch->bpe);
    mt_byte_list_free(&scratch->repaired);
    mt_byte_list_free(&scratch->work);
    mt_split_spans_free(&scratch->spans);
    if (scratch->cache != NULL)
        mt_release(scratch->ctx, scratch->cache, CACHE_ENTRIES * sizeof *scratch->cache);
    mt_release(scratch->ctx, scratch, sizeof *scratch);
}

// ------------------------------------------------------------------ the cache

static uint32_t cache_hash(const uint8_t *key, size_t bytes, size_t step)
{
    uint64_t hash = bytes * 64 + step;
    while (bytes >= 8) {
        uint64_t word = 0;
        memcpy(&word, key, 8);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
        key += 8;
        bytes -= 8;
    }
    uint64_t tail = 0;
    memcpy(&tail, key, bytes);
    hash = (hash ^ tail) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32);
}

/* Appends the remembered ids of a piece, if it is in the cache. */
static enum mt_status cache_find(const struct encoder *e, const uint8_t *key, size_t bytes, size_t step,
                                 uint32_t hash, bool *found)
{
    const struct cache_entry *entry = &e->scratch->cache[hash & (CACHE_ENTRIES - 1)];
    *found = entry->hash == hash && entry->step == step + 1 && entry->length == bytes &&
             memcmp(entry->key, key, bytes) == 0;
    if (!*found) return MT_OK;
    enum mt_status status = mt_id_list_reserve(e->ids, CACHE_IDS);
    if (status != MT_OK) return status;
    memcpy(e->ids->data + e->ids->count, entry->ids, sizeof entry->ids);
    e->ids->count += entry->count;
    return MT_OK;
}

/* Remembers that a piece became the ids from `first` on. */
static void cache_store(const struct encoder *e, const uint8_t *key, size_t bytes, size_t step, uint32_t hash,
                        size_t first)
{
    size_t count = e->ids->count - first;
    if (count > CACHE_IDS) return;
    struct cache_entry *entry = &e->scratch->cache[hash & (CACHE_ENTRIES - 1)];
    entry->hash = hash;
    entry->step = (uint8_t)(step + 1);
    entry->length = (uint8_t)bytes;
    entry->count = (uint8_t)count;
    memcpy(entry->key, key, bytes);
    if (count != 0) memcpy(entry->ids, e->ids->data + first, count * sizeof *entry->ids);
}

// ------------------------------------------------------------------ pieces

static enum mt_status encode_piece(const struct encoder *e, size_t step, struct piece piece);

/* A word that no step cuts any more; where the model allows it, it is cut into parts that do not interact. */
static enum mt_status encode_word(const struct encoder *e, struct piece piece)
{
    const struct mt_bpe *bpe = &e->tokenizer->bpe;
    const uint8_t *word = e->scratch->work.data + piece.start;
    if (!bpe->has_cuts || e->tokenizer->byte_level || piece.looked_up) {
        return mt_bpe_encode(bpe, &e->scratch->bpe, word, piece.bytes, e->tokenizer->byte_level, e->ids);
    }
    size_t step = e->tokenizer->splitter.count;
    enum mt_status status = MT_OK;
    for (size_t at = 0; status == MT_OK && at < piece.bytes;) {
        size_t length = mt_bpe_cut(bpe, word + at, piece.bytes - at);
        bool cached = length <= CACHE_KEY_BYTES;
        bool found = false;
        uint32_t hash = cached ? cache_hash(word + at, length, step) : 0;
        if (cached) status = cache_find(e, word + at, length, step, hash, &found);
        if (status == MT_OK && !found) {
            size_t first = e->ids->count;
            status = mt_bpe_encode(bpe, &e->scratch->bpe, word + at, length, false, e->ids);
            if (status == MT_OK && cached) cache_store(e, word + at, length, step, hash, first);
        }
        at += length;
    }
    return status;
}

/* The text of a piece as a Metaspace or ByteLevel step rewrites it, on top of the work stack. */
static enum mt_status rewrite_metaspace(struct mt_byte_list *work, const struct mt_split_step *step,
                                        struct piece *piece)
{
    size_t start = work->count;
    // Reserved first: pieces are offsets, but the loop below holds pointers.
    enum mt_status status = mt_byte_list_reserve(work, (piece->bytes + 1) * 4);
    if (status != MT_OK) return status;
    const uint8_t *text = work->data + piece->start;
    size_t length = step->replacement_bytes;
    bool replaced_first =
        text[0] == ' ' || (piece->bytes >= length && memcmp(text, step->replacement, length) == 0);
    bool asks = step->prepend == MT_PREPEND_ALWAYS || (step->prepend == MT_PREPEND_FIRST && piece->at_origin);
    uint8_t *out = work->data + start;
    if (asks && !replaced_first) {
        memcpy(out, step->replacement, length);
        out += length;
    }
    for (size_t i = 0; i < piece->bytes; i++) {
        if (text[i] == ' ') {
            memcpy(out, step->replacement, length);
            out += length;
        } else {
            *out++ = text[i];
        }
    }
    work->count = (size_t)(out - work->data);
    piece->start = start;
    piece->bytes = work->count - start;
    return MT_OK;
}

static enum mt_status add_prefix_space(struct mt_byte_list *work, struct piece *piece)
{
    if (work->data[piece->start] == ' ') return MT_OK;
    size_t start = work->count;
    enum mt_status status = mt_byte_list_reserve(work, piece->bytes + 1);
    if (status != MT_OK) return status;
    work->data[start] = ' ';
    memcpy(work->data + start + 1, work->data + piece->start, piece->bytes);
    work->count += piece->bytes + 1;
    piece->start = start;
    piece->bytes++;
    return MT_OK;
}

/* The piece in the byte-level alphabet, where the model cannot take bytes as they are. */
static enum mt_status to_byte_level(struct mt_byte_list *work, struct piece *piece)
{
    size_t start = work->count;
    enum mt_status status = mt_byte_list_reserve(work, piece->bytes * 2);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < piece->bytes; i++) {
        uint8_t character[4] = {0};
        size_t length = mt_utf8_encode(mt_byte_level_character(work->data[piece->start + i]), character);
        memcpy(work->data + work->count, character, length);
        work->count += length;
    }
    piece->start = start;
    piece->bytes = work->count - start;
    return MT_OK;
}

/* Applies one step to a piece and what follows to the pieces it leaves. */
static enum mt_status apply_step(const struct encoder *e, size_t index, struct piece piece)
{
    const struct mt_split_step *step = &e->tokenizer->splitter.steps[index];
    struct mt_token_scratch *scratch = e->scratch;
    size_t work_count = scratch->work.count;
    size_t span_count = scratch->spans.count;
    bool last = index + 1 == e->tokenizer->splitter.count;
    bool alphabet = step->kind == MT_SPLIT_BYTE_LEVEL && !(last && e->tokenizer->byte_level);
    struct piece whole = piece;
    enum mt_status status = MT_OK;
    if (step->kind == MT_SPLIT_METASPACE) status = rewrite_metaspace(&scratch->work, step, &whole);
    if (step->kind == MT_SPLIT_BYTE_LEVEL && step->add_prefix_space)
        status = add_prefix_space(&scratch->work, &whole);
    if (status == MT_OK) {
        status =
            mt_split(step, scratch->matcher, scratch->work.data + whole.start, whole.bytes, &scratch->spans);
    }
    size_t span_end = scratch->spans.count;
    for (size_t i = span_count; status == MT_OK && i < span_end; i++) {
        struct mt_split_span span = scratch->spans.data[i];
        if (span.start == span.end) continue;
        struct piece part = {.start = whole.start + span.start, .bytes = span.end - span.start};
        part.at_origin = piece.at_origin && span.start == 0;
        part.looked_up =
            piece.looked_up && part.start == piece.start && part.bytes == piece.bytes && !alphabet;
        size_t part_work = scratch->work.count;
        if (alphabet) status = to_byte_level(&scratch->work, &part);
        if (status == MT_OK) status = encode_piece(e, index + 1, part);
        scratch->work.count = part_work;
    }
    scratch->spans.count = span_count;
    scratch->work.count = work_count;
    return status;
}

/* Encodes a piece from step `step` on, through the cache. */
static enum mt_status encode_piece(const struct encoder *e, size_t step, struct piece piece)
{
    size_t steps = e->tokenizer->splitter.count;
    bool cached = step > 0 && piece.bytes <= CACHE_KEY_BYTES && !piece.at_origin && !piece.looked_up;
    // The key is copied: the stack it lies on may move.
    uint8_t key[CACHE_KEY_BYTES];
    uint32_t hash = 0;
    if (cached) {
        const uint8_t *text = e->scratch->work.data + piece.start;
        bool found = false;
        hash = cache_hash(text, piece.bytes, step);
        enum mt_status status = cache_find(e, text, piece.bytes, step, hash, &found);
        if (status != MT_OK || found) return status;
        memcpy(key, text, piece.bytes);
        piece.looked_up = true;
    }
    size_t first = e->ids->count;
    enum mt_status status = step < steps ? apply_step(e, step, piece) : encode_word(e, piece);
    if (status == MT_OK && cached) cache_store(e, key, piece.bytes, step, hash, first);
    return status;
}

// ------------------------------------------------------------------ the text

/* A stretch of normalized text without added tokens. */
static enum mt_status encode_stretch(const struct encoder *e, const uint8_t *text, size_t bytes,
                                     bool at_origin)
{
    struct mt_byte_list *work = &e->scratch->work;
    if (bytes == 0) return MT_OK;
    work->count = 0;
    enum mt_status status = mt_byte_list_append(work, text, bytes);
    if (status != MT_OK) return status;
    return encode_piece(e, 0, (struct piece){.start = 0, .bytes = bytes, .at_origin = at_origin});
}

/* A stretch of raw text without unnormalized added tokens. */
static enum mt_status encode_raw(const struct encoder *e, const uint8_t *text, size_t bytes, bool at_origin)
{
    const struct mt_tokenizer *t = e->tokenizer;
    if (bytes == 0) return MT_OK;
    if (t->normalizer.count != 0) {
        enum mt_status status = mt_normalize(&t->normalizer, &e->scratch->normal, text, bytes, &at_origin);
        if (status != MT_OK) return status;
        text = e->scratch->normal.text.data;
        bytes = e->scratch->normal.text.count;
        if (bytes == 0) return MT_OK;
    }
    struct mt_added_walk walk = {0};
    do {
        enum mt_status status = mt_added_tokens_next(&t->added, &t->added.normalized, e->scratch->matcher,
                                                     text, bytes, e->skip_special, &walk);
        if (status != MT_OK) return status;
        bool origin = at_origin && walk.text_start == 0;
        status = encode_stretch(e, text + walk.text_start, walk.text_end - walk.text_start, origin);
        if (status == MT_OK && walk.token != NULL) status = mt_id_list_append(e->ids, walk.token->id);
        if (status != MT_OK) return status;
    } while (walk.token != NULL);
    return MT_OK;
}

static enum mt_status encode_text(const struct encoder *e, const uint8_t *text, size_t bytes)
{
    const struct mt_added_tokens *added = &e->tokenizer->added;
    struct mt_added_walk walk = {0};
    do {
        enum mt_status status = mt_added_tokens_next(added, &added->raw, e->scratch->matcher, text, bytes,
                                                     e->skip_special, &walk);
        if (status != MT_OK) return status;
        status = encode_raw(e, text + walk.text_start, walk.text_end - walk.text_start, walk.text_start == 0);
        if (status == MT_OK && walk.token != NULL) status = mt_id_list_append(e->ids, walk.token->id);
        if (status != MT_OK) return status;
    } while (walk.token != NULL);
    return MT_OK;
}

/* The post-processor's template around the text; a text that stands in it twice is copied. */
static enum mt_status encode_template(const struct encoder *e, const uint8_t *text, size_t bytes,
                                      bool add_special)
{
    const struct mt_id_list *template_ids = &e->tokenizer->template_ids;
    size_t first = SIZE_MAX;
    size_t count = 0;
    for (size_t i = 0; i < template_ids->count; i++) {
        enum mt_status status = MT_OK;
        if (template_ids->data[i] != MT_TEMPLATE_TEXT) {
            if (add_special) status = mt_id_list_append(e->ids, template_ids->data[i]);
        } else if (first == SIZE_MAX) {
            first = e->ids->count;
            if (bytes != 0) status = encode_text(e, text, bytes);
            count = e->ids->count - first;
        } else {
            status = mt_id_list_reserve(e->ids, count);
            for (size_t k = 0; status == MT_OK && k < count; k++) {
                e->ids->data[e->ids->count++] = e->ids->data[first + k];
            }
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_tokenizer_encode(const struct mt_tokenizer *tokenizer, struct mt_token_scratch *scratch,
                                   const void *text, size_t bytes, unsigned flags, struct mt_id_list *ids)
{
    const struct encoder e = {
        .tokenizer = tokenizer,
        .scratch = scratch,
        .ids = ids,
        .skip_special = (flags & MT_ENCODE_SPECIAL_TEXT_AS_TEXT) != 0,
    };
    if (scratch->tokenizer != tokenizer) {
        return mt_fail(scratch->ctx, MT_ERR_USAGE, "the scratch object was made for another tokenizer");
    }
    size_t before = ids->count;
    mt_regex_matcher_begin(scratch->matcher, bytes);
    enum mt_status status = MT_OK;
    const uint8_t *valid = text;
    if (!mt_utf8_valid(valid, bytes)) {
        scratch->repaired.count = 0;
        status = mt_utf8_append_repaired(&scratch->repaired, valid, bytes);
        valid = scratch->repaired.data;
        bytes = scratch->repaired.count;
    }
    if (status == MT_OK) status = encode_template(&e, valid, bytes, (flags & MT_ENCODE_ADD_SPECIAL) != 0);
    scratch->spans.count = 0;
    scratch->work.count = 0;
    if (status != MT_OK) ids->count = before;
    return status;
}
