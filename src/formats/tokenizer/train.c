/* Learning a tokenizer: counting words, then merging the most frequent pair of symbols until done; and
 * writing it as tokenizer.json, with the tokenizer_config.json that goes with it. */
#include "formats/tokenizer/train.h"

#include "formats/text/utf8.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/split.h"
#include "formats/tokenizer/vocabulary.h"

#define FIRST_SLOTS 1024
#define NO_PAIR     UINT64_MAX

// How texts are cut, as tokenizer.json says it: the trainer reads it from here, as a tokenizer does.
#define PRE_TOKENIZER                                                                                        \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, "     \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}]}"

struct token {
    size_t start; // of its bytes, in token_text
    size_t bytes;
    int32_t left, right; // what it was merged of; -1: a byte
};

struct word {
    size_t start;   // of its bytes in word_text, and later of its symbols
    uint32_t count; // of its bytes, and later of its symbols
    int64_t times;  // it was seen
};

struct pair_count {
    uint64_t pair; // left << 32 | right; UINT64_MAX: free
    int64_t times;
};

struct mt_tokenizer_trainer {
    struct mt_context *ctx; // borrowed
    struct mt_splitter splitter;
    struct mt_regex_matcher *matcher;
    struct mt_byte_list repaired; // a text that was not valid UTF-8
    struct mt_split_spans spans;  // of the text being added

    struct mt_byte_list word_text;
    struct word *words; // in the order they were first seen
    size_t word_count, word_capacity;
    uint32_t *slots;   // of words, by hash: index + 1, or 0
    size_t slot_count; // a power of two

    int32_t *symbols;         // of all words: one for each byte of word_text, fewer in use the more is merged
    struct pair_count *pairs; // open addressing
    size_t pair_slots;        // a power of two
    size_t pair_count;

    struct mt_byte_list token_text;
    struct token *tokens; // the specials are not here: token i has the id i + specials
    size_t token_count, token_capacity;
};

// ------------------------------------------------------------------ learning

static enum mt_status add_token(struct mt_tokenizer_trainer *trainer, const uint8_t *text, size_t bytes,
                                int32_t left, int32_t right)
{
    enum mt_status status = MT_OK;
    trainer->tokens = mt_list_reserve(trainer->ctx, trainer->tokens, &trainer->token_capacity,
                                      sizeof *trainer->tokens, trainer->token_count + 1, &status);
    if (status != MT_OK) return status;
    trainer->tokens[trainer->token_count++] =
        (struct token){.start = trainer->token_text.count, .bytes = bytes, .left = left, .right = right};
    return mt_byte_list_append(&trainer->token_text, text, bytes);
}

static enum mt_status prepare(struct mt_tokenizer_trainer *trainer)
{
    static const char pre_tokenizer[] = PRE_TOKENIZER;
    struct mt_json json = {0};
    enum mt_status status = mt_json_parse(trainer->ctx, "pre-tokenizer", pre_tokenizer,
                                          sizeof pre_tokenizer - 1, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    const struct mt_json_node root = mt_json_root(&json);
    status = mt_splitter_read(&root, &trainer->splitter);
    mt_json_free(&json);
    if (status == MT_OK) status = mt_regex_matcher_create(trainer->ctx, &trainer->matcher);
    for (int byte = 0; status == MT_OK && byte < 256; byte++) {
        status = add_token(trainer, &(uint8_t){(uint8_t)byte}, 1, -1, -1);
    }
    return status;
}

enum mt_status mt_tokenizer_trainer_create(struct mt_context *ctx, struct mt_tokenizer_trainer **trainer)
{
    void *memory = NULL;
    *trainer = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **trainer, &memory);
    if (status != MT_OK) return status;
    struct mt_tokenizer_trainer *made = memory;
    made->ctx = ctx;
    made->repaired.ctx = ctx;
    made->spans.ctx = ctx;
    made->word_text.ctx = ctx;
    made->token_text.ctx = ctx;
    status = prepare(made);
    if (status != MT_OK) {
        mt_tokenizer_trainer_free(made);
        return status;
    }
    *trainer = made;
    return MT_OK;
}

void mt_tokenizer_trainer_free(struct mt_tokenizer_trainer *trainer)
{
    if (trainer == NULL) return;
    struct mt_context *ctx = trainer->ctx;
    mt_splitter_free(&trainer->splitter);
    mt_regex_matcher_free(trainer->matcher);
    mt_byte_list_free(&trainer->repaired);
    mt_split_spans_free(&trainer->spans);
    mt_release(ctx, trainer->symbols, trainer->word_text.count * sizeof *trainer->symbols);
    mt_byte_list_free(&trainer->word_text);
    mt_byte_list_free(&trainer->token_text);
    mt_release(ctx, trainer->words, trainer->word_capacity * sizeof *trainer->words);
    mt_release(ctx, trainer->slots, trainer->slot_count * sizeof *trainer->slots);
    mt_release(ctx, trainer->pairs, trainer->pair_slots * sizeof *trainer->pairs);
    mt_release(ctx, trainer->tokens, trainer->token_capacity * sizeof *trainer->tokens);
    mt_release(ctx, trainer, sizeof *trainer);
}

size_t mt_tokenizer_trainer_words(const struct mt_tokenizer_trainer *trainer, uint64_t *in_all)
{
    *in_all = 0;
    for (size_t i = 0; i < trainer->word_count; i++) *in_all += (uint64_t)trainer->words[i].times;
    return trainer->word_count;
}

// ------------------------------------------------------------------ words

/* The slot of a word: its own, or the free one where it goes. */
static size_t word_slot(const struct mt_tokenizer_trainer *trainer, const uint8_t *text, size_t bytes)
{
    size_t mask = trainer->slot_count - 1;
    size_t slot = (size_t)(mt_vocabulary_hash(text, bytes) >> 20) & mask;
    for (; trainer->slots[slot] != 0; slot = (slot + 1) & mask) {
        const struct word *word = &trainer->words[trainer->slots[slot] - 1];
        if (word->count == bytes && memcmp(trainer->word_text.data + word->start, text, bytes) == 0) break;
    }
    return slot;
}

/* Keeps at least half of the slots free. */
static enum mt_status grow_slots(struct mt_tokenizer_trainer *trainer)
{
    if (trainer->word_count + 1 <= trainer->slot_count / 2) return MT_OK;
    size_t old = trainer->slot_count;
    size_t count = old == 0 ? FIRST_SLOTS : old * 2;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(trainer->ctx, count, sizeof *trainer->slots, &memory);
    if (status != MT_OK) return status;
    mt_release(trainer->ctx, trainer->slots, old * sizeof *trainer->slots);
    trainer->slots = memory;
    trainer->slot_count = count;
    for (size_t i = 0; i < trainer->word_count; i++) {
        const struct word *word = &trainer->words[i];
        size_t slot = word_slot(trainer, trainer->word_text.data + word->start, word->count);
        trainer->slots[slot] = (uint32_t)i + 1;
    }
    return MT_OK;
}

static enum mt_status count_word(struct mt_tokenizer_trainer *trainer, const uint8_t *text, size_t bytes)
{
    enum mt_status status = grow_slots(trainer);
    if (status != MT_OK) return status;
    size_t slot = word_slot(trainer, text, bytes);
    if (trainer->slots[slot] != 0) {
        trainer->words[trainer->slots[slot] - 1].times++;
        return MT_OK;
    }
    if (trainer->word_count == UINT32_MAX - 1)
        return mt_fail(trainer->ctx, MT_ERR_USAGE, "the texts have too many different words");
    trainer->words = mt_list_reserve(trainer->ctx, trainer->words, &trainer->word_capacity,
                                     sizeof *trainer->words, trainer->word_count + 1, &status);
    if (status != MT_OK) return status;
    const struct word word = {.start = trainer->word_text.count, .count = (uint32_t)bytes, .times = 1};
    status = mt_byte_list_append(&trainer->word_text, text, bytes);
    if (status != MT_OK) return status;
    trainer->words[trainer->word_count++] = word;
    trainer->slots[slot] = (uint32_t)trainer->word_count;
    return MT_OK;
}

/* Cuts a piece by the steps from `step` on and counts what is left. */
static enum mt_status count_piece(struct mt_tokenizer_trainer *trainer, size_t step, const uint8_t *text,
                                  size_t bytes)
{
    enum mt_status status = MT_OK;
    if (step == trainer->splitter.count) {
        for (size_t at = 0; status == MT_OK && at < bytes; at += MT_TOKENIZER_LONGEST_LEARNT) {
            size_t rest = bytes - at;
            status = count_word(trainer, text + at,
                                rest < MT_TOKENIZER_LONGEST_LEARNT ? rest : MT_TOKENIZER_LONGEST_LEARNT);
        }
        return status;
    }
    size_t first = trainer->spans.count;
    status = mt_split(&trainer->splitter.steps[step], trainer->matcher, text, bytes, &trainer->spans);
    size_t end = trainer->spans.count;
    for (size_t i = first; status == MT_OK && i < end; i++) {
        struct mt_split_span span = trainer->spans.data[i]; // a copy: the list may move
        if (span.end > span.start)
            status = count_piece(trainer, step + 1, text + span.start, span.end - span.start);
    }
    trainer->spans.count = first;
    return status;
}

enum mt_status mt_tokenizer_trainer_add(struct mt_tokenizer_trainer *trainer, const void *text, size_t bytes)
{
    const uint8_t *valid = text;
    if (bytes == 0) return MT_OK;
    if (!mt_utf8_valid(valid, bytes)) {
        trainer->repaired.count = 0;
        enum mt_status status = mt_utf8_append_repaired(&trainer->repaired, valid, bytes);
        if (status != MT_OK) return status;
        valid = trainer->repaired.data;
        bytes = trainer->repaired.count;
    }
    trainer->spans.count = 0;
    mt_regex_matcher_begin(trainer->matcher, bytes);
    return count_piece(trainer, 0, valid, bytes);
}

// ------------------------------------------------------------------ pairs

static struct pair_count *pair_slot(struct pair_count *pairs, size_t slots, uint64_t pair)
{
    size_t slot = (size_t)((pair * MT_VOCABULARY_FACTOR) >> 32) & (slots - 1);
    while (pairs[slot].pair != pair && pairs[slot].pair != NO_PAIR) slot = (slot + 1) & (slots - 1);
    return &pairs[slot];
}

/* Makes room for `extra` more pairs with half of the slots free. Pairs that are no more are left behind. */
static enum mt_status grow_pairs(struct mt_tokenizer_trainer *trainer, size_t extra)
{
    if (trainer->pair_count + extra <= trainer->pair_slots / 2) return MT_OK;
    size_t slots = FIRST_SLOTS;
    while (slots / 4 < trainer->pair_count + extra) slots *= 2;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(trainer->ctx, slots, sizeof *trainer->pairs, &memory);
    if (status != MT_OK) return status;
    struct pair_count *pairs = memory;
    for (size_t i = 0; i < slots; i++) pairs[i].pair = NO_PAIR;
    size_t kept = 0;
    for (size_t i = 0; i < trainer->pair_slots; i++) {
        const struct pair_count *old = &trainer->pairs[i];
        if (old->pair == NO_PAIR || old->times == 0) continue;
        *pair_slot(pairs, slots, old->pair) = *old;
        kept++;
    }
    mt_release(trainer->ctx, trainer->pairs, trainer->pair_slots * sizeof *trainer->pairs);
    trainer->pairs = pairs;
    trainer->pair_slots = slots;
    trainer->pair_count = kept;
    return MT_OK;
}

/* Adds a word's pairs to the counts, or takes them away (sign -1). */
static enum mt_status count_pairs(struct mt_tokenizer_trainer *trainer, const struct word *word, int64_t sign)
{
    enum mt_status status = grow_pairs(trainer, word->count);
    if (status != MT_OK) return status;
    const int32_t *symbols = trainer->symbols + word->start;
    for (size_t i = 0; i + 1 < word->count; i++) {
        uint64_t pair = (uint64_t)symbols[i] << 32 | (uint32_t)symbols[i + 1];
        struct pair_count *found = pair_slot(trainer->pairs, trainer->pair_slots, pair);
        if (found->pair == NO_PAIR) {
            found->pair = pair;
            trainer->pair_count++;
        }
        found->times += sign * word->times;
    }
    return MT_OK;
}

/* Tokens in the order of their bytes. */
static int compare_tokens(const struct mt_tokenizer_trainer *trainer, uint64_t a, uint64_t b)
{
    const struct token *left = &trainer->tokens[a];
    const struct token *right = &trainer->tokens[b];
    size_t shorter = left->bytes < right->bytes ? left->bytes : right->bytes;
    const uint8_t *text = trainer->token_text.data;
    int order = memcmp(text + left->start, text + right->start, shorter);
    return order != 0 ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Whether a pair is to be merged before another: the more frequent one, else the one whose bytes come first.
 */
static bool goes_first(const struct mt_tokenizer_trainer *trainer, const struct pair_count *a,
                       const struct pair_count *b)
{
    if (a->times != b->times) return a->times > b->times;
    int order = compare_tokens(trainer, a->pair >> 32, b->pair >> 32);
    if (order == 0) order = compare_tokens(trainer, a->pair & UINT32_MAX, b->pair & UINT32_MAX);
    return order < 0;
}

/* The next pair to be merged, which occurs at least twice; NULL: there is none. */
static const struct pair_count *best_pair(const struct mt_tokenizer_trainer *trainer)
{
    const struct pair_count *best = NULL;
    for (size_t i = 0; i < trainer->pair_slots; i++) {
        const struct pair_count *pair = &trainer->pairs[i];
        if (pair->pair == NO_PAIR || pair->times < 2) continue;
        if (best == NULL || goes_first(trainer, pair, best)) best = pair;
    }
    return best;
}

// ------------------------------------------------------------------ merging

/* Every word as the symbols of its bytes, and their pairs counted. */
static enum mt_status begin(struct mt_tokenizer_trainer *trainer)
{
    void *memory = NULL;
    size_t bytes = trainer->word_text.count;
    enum mt_status status = mt_allocate_array(trainer->ctx, bytes, sizeof *trainer->symbols, &memory);
    if (status != MT_OK) return status;
    trainer->symbols = memory;
    for (size_t i = 0; i < bytes; i++) trainer->symbols[i] = trainer->word_text.data[i];
    for (size_t i = 0; status == MT_OK && i < trainer->word_count; i++) {
        status = count_pairs(trainer, &trainer->words[i], 1);
    }
    return status;
}

static bool has_pair(const int32_t *symbols, size_t count, int32_t left, int32_t right)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (symbols[i] == left && symbols[i + 1] == right) return true;
    }
    return false;
}

/* Puts a token in place of its pair, wherever that occurs. */
static enum mt_status merge(struct mt_tokenizer_trainer *trainer, int32_t left, int32_t right, int32_t token)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < trainer->word_count; i++) {
        struct word *word = &trainer->words[i];
        int32_t *symbols = trainer->symbols + word->start;
        if (!has_pair(symbols, word->count, left, right)) continue;
        status = count_pairs(trainer, word, -1);
        if (status != MT_OK) return status;
        uint32_t kept = 0;
        for (uint32_t at = 0; at < word->count; at++) {
            bool found = at + 1 < word->count && symbols[at] == left && symbols[at + 1] == right;
            symbols[kept++] = found ? token : symbols[at];
            if (found) at++;
        }
        word->count = kept;
        status = count_pairs(trainer, word, 1);
    }
    return status;
}

enum mt_status mt_tokenizer_trainer_learn(struct mt_tokenizer_trainer *trainer, size_t tokens,
                                          struct mt_progress *progress)
{
    if (tokens < MT_TOKENIZER_LEAST || tokens > MT_TOKENIZER_MOST)
        return mt_fail(trainer->ctx, MT_ERR_USAGE, "%zu tokens are asked for, expected %d to %d", tokens,
                       MT_TOKENIZER_LEAST, MT_TOKENIZER_MOST);
    enum mt_status status = begin(trainer);
    while (status == MT_OK && trainer->token_count + MT_TOKENIZER_SPECIALS < tokens) {
        const struct pair_count *best = best_pair(trainer);
        if (best == NULL)
            return mt_fail(trainer->ctx, MT_ERR_USAGE,
                           "the texts give only %zu tokens of %zu: no other pair occurs twice",
                           trainer->token_count + MT_TOKENIZER_SPECIALS, tokens);
        int32_t left = (int32_t)(best->pair >> 32);
        int32_t right = (int32_t)(best->pair & UINT32_MAX);
        const struct token *a = &trainer->tokens[left];
        const struct token *b = &trainer->tokens[right];
        uint8_t text[MT_TOKENIZER_LONGEST_LEARNT]; // both come from one word
        size_t bytes = a->bytes + b->bytes;
        memcpy(text, trainer->token_text.data + a->start, a->bytes);
        memcpy(text + a->bytes, trainer->token_text.data + b->start, b->bytes);
        int32_t token = (int32_t)trainer->token_count;
        status = add_token(trainer, text, bytes, left, right);
        if (status == MT_OK) status = merge(trainer, left, right, token);
        if (progress != NULL)
            mt_progress_update(progress, (int64_t)trainer->token_count + MT_TOKENIZER_SPECIALS);
    }
    return status;
}

// ------------------------------------------------------------------ writing

static const char *const specials[MT_TOKENIZER_SPECIALS] = {"<pad>", "<bos>", "<eos>"};

/* The bytes of a token as characters of the byte-level alphabet; `out` has two bytes for each. */
static size_t spell(const struct mt_tokenizer_trainer *trainer, int32_t token, uint8_t *out)
{
    const struct token *wanted = &trainer->tokens[token];
    size_t length = 0;
    for (size_t i = 0; i < wanted->bytes; i++) {
        uint8_t character[4];
        uint8_t byte = trainer->token_text.data[wanted->start + i];
        size_t bytes = mt_utf8_encode(mt_byte_level_character(byte), character);
        memcpy(out + length, character, bytes);
        length += bytes;
    }
    return length;
}

static void write_head(struct mt_json_text *json)
{
    mt_json_text_format(json, "{\n \"version\": \"1.0\",\n \"truncation\": null,\n \"padding\": null,\n");
    mt_json_text_format(json, " \"added_tokens\": [");
    for (int i = 0; i < MT_TOKENIZER_SPECIALS; i++) {
        mt_json_text_format(json,
                            "%s\n  {\"id\": %d, \"content\": \"%s\", \"single_word\": false, "
                            "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
                            i == 0 ? "" : ",", i, specials[i]);
    }
    mt_json_text_format(json, "\n ],\n \"normalizer\": null,\n \"pre_tokenizer\": ");
    mt_json_text_format(json, "%s", PRE_TOKENIZER);
    mt_json_text_format(json, ",\n \"post_processor\": {\"type\": \"TemplateProcessing\",\n  \"single\": [");
    mt_json_text_format(json, "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
                              "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],\n  \"pair\": [");
    mt_json_text_format(json, "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
                              "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
                              "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}],\n");
    mt_json_text_format(json, "  \"special_tokens\": {\"<bos>\": {\"id\": \"<bos>\", \"ids\": [1], "
                              "\"tokens\": [\"<bos>\"]}}},\n");
    mt_json_text_format(json, " \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                              "\"trim_offsets\": true, \"use_regex\": true},\n");
    mt_json_text_format(json, " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                              "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                              "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n");
}

enum mt_status mt_tokenizer_trainer_write(const struct mt_tokenizer_trainer *trainer,
                                          struct mt_json_text *json)
{
    uint8_t text[4 * MT_TOKENIZER_LONGEST_LEARNT + 1]; // two tokens of a merge and the space between
    write_head(json);
    mt_json_text_format(json, "  \"vocab\": {");
    for (int i = 0; i < MT_TOKENIZER_SPECIALS; i++)
        mt_json_text_format(json, "%s\n   \"%s\": %d", i == 0 ? "" : ",", specials[i], i);
    for (size_t i = 0; i < trainer->token_count; i++) {
        mt_json_text_format(json, ",\n   ");
        mt_json_text_bytes(json, text, spell(trainer, (int32_t)i, text));
        mt_json_text_format(json, ": %zu", i + MT_TOKENIZER_SPECIALS);
    }
    mt_json_text_format(json, "},\n  \"merges\": [");
    for (size_t i = 256; i < trainer->token_count; i++) {
        size_t length = spell(trainer, trainer->tokens[i].left, text);
        text[length++] = ' ';
        length += spell(trainer, trainer->tokens[i].right, text + length);
        mt_json_text_format(json, "%s\n   ", i == 256 ? "" : ",");
        mt_json_text_bytes(json, text, length);
    }
    return mt_json_text_format(json, "]}\n}\n");
}

enum mt_status mt_tokenizer_config_write(struct mt_json_text *json)
{
    return mt_json_text_format(
        json, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"bos_token\": \"<bos>\",\n"
              "  \"eos_token\": \"<eos>\",\n  \"pad_token\": \"<pad>\",\n  \"add_bos_token\": true,\n"
              "  \"add_eos_token\": false,\n  \"clean_up_tokenization_spaces\": false\n}\n");
}
