/* Added tokens: two tries and the rules around a match. */
#include "formats/tokenizer/added.h"

#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

// A word character as Rust's regular expressions see it.
static const char word_pattern[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";

static void trie_free(struct mt_context *ctx, struct mt_added_trie *trie)
{
    mt_release(ctx, trie->edges, trie->slots * sizeof *trie->edges);
    mt_release(ctx, trie->children, trie->slots * sizeof *trie->children);
    mt_release(ctx, trie->tokens, trie->node_capacity * sizeof *trie->tokens);
    *trie = (struct mt_added_trie){0};
}

void mt_added_tokens_free(struct mt_added_tokens *added)
{
    if (added->ctx == NULL) return;
    for (size_t i = 0; i < added->count; i++) {
        mt_byte_list_free(&added->tokens[i].content);
        mt_byte_list_free(&added->tokens[i].found_as);
    }
    mt_release(added->ctx, added->tokens, added->capacity * sizeof *added->tokens);
    trie_free(added->ctx, &added->raw);
    trie_free(added->ctx, &added->normalized);
    mt_regex_free(added->word);
    *added = (struct mt_added_tokens){0};
}

enum mt_status mt_added_tokens_add(struct mt_added_tokens *added, const char *content, size_t bytes,
                                   int32_t id, struct mt_added_token **token)
{
    *token = NULL;
    enum mt_status status = MT_OK;
    added->tokens = mt_list_reserve(added->ctx, added->tokens, &added->capacity, sizeof *added->tokens,
                                    added->count + 1, &status);
    if (status != MT_OK) return status;
    struct mt_added_token *made = &added->tokens[added->count++];
    *made = (struct mt_added_token){.id = id, .content.ctx = added->ctx, .found_as.ctx = added->ctx};
    *token = made;
    return mt_byte_list_append(&made->content, content, bytes);
}

static size_t edge_slot(const struct mt_added_trie *trie, uint32_t node, uint8_t byte)
{
    uint64_t edge = ((uint64_t)node << 8 | byte) + 1;
    size_t slot = (size_t)((edge * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (trie->slots - 1);
    while (trie->edges[slot] != 0 && trie->edges[slot] != edge) slot = (slot + 1) & (trie->slots - 1);
    return slot;
}

static void trie_add(struct mt_added_trie *trie, const struct mt_byte_list *text, uint32_t index)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text->count; i++) {
        size_t slot = edge_slot(trie, node, text->data[i]);
        if (trie->edges[slot] == 0) {
            trie->edges[slot] = ((uint64_t)node << 8 | text->data[i]) + 1;
            trie->children[slot] = (uint32_t)trie->node_count++;
        }
        node = trie->children[slot];
    }
    trie->first[text->data[0] / 8] |= (uint8_t)(1u << text->data[0] % 8);
    // Two tokens can be alike once normalized: the first keeps the text.
    if (trie->tokens[node] == 0) trie->tokens[node] = index + 1;
}

static enum mt_status trie_build(struct mt_added_tokens *added, bool normalized, struct mt_added_trie *trie)
{
    struct mt_context *ctx = added->ctx;
    size_t total = 0;
    for (size_t i = 0; i < added->count; i++) {
        if (added->tokens[i].normalized == normalized) total += added->tokens[i].found_as.count;
    }
    if (total == 0) return MT_OK;
    if (total > UINT32_MAX / 2) return mt_fail(ctx, MT_ERR_FORMAT, "the added tokens are too long");
    size_t slots = 16;
    while (slots < 2 * total) slots *= 2;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, total + 1, sizeof *trie->tokens, &memory);
    trie->tokens = memory;
    if (status != MT_OK) return status;
    trie->node_capacity = total + 1;
    trie->node_count = 1;
    status = mt_allocate_array(ctx, slots, sizeof *trie->edges, &memory);
    if (status != MT_OK) return status;
    uint64_t *edges = memory;
    status = mt_allocate_array(ctx, slots, sizeof *trie->children, &memory);
    if (status != MT_OK) {
        mt_release(ctx, edges, slots * sizeof *edges);
        return status;
    }
    trie->edges = edges;
    trie->children = memory;
    trie->slots = slots;
    for (size_t i = 0; i < added->count; i++) {
        const struct mt_added_token *token = &added->tokens[i];
        if (token->normalized == normalized && token->found_as.count != 0) {
            trie_add(trie, &token->found_as, (uint32_t)i);
        }
    }
    return MT_OK;
}

enum mt_status mt_added_tokens_finish(struct mt_added_tokens *added)
{
    bool single_word = false;
    for (size_t i = 0; i < added->count; i++) single_word = single_word || added->tokens[i].single_word;
    enum mt_status status = MT_OK;
    if (single_word) status = mt_regex_compile(added->ctx, word_pattern, false, &added->word);
    if (status == MT_OK) status = trie_build(added, false, &added->raw);
    if (status == MT_OK) status = trie_build(added, true, &added->normalized);
    return status;
}

/* The longest text that starts at `at`, or NULL. */
static const struct mt_added_token *longest_at(const struct mt_added_tokens *added,
                                               const struct mt_added_trie *trie, const uint8_t *text,
                                               size_t bytes, size_t at, size_t *end)
{
    const struct mt_added_token *token = NULL;
    uint32_t node = 0;
    for (size_t i = at; i < bytes; i++) {
        size_t slot = edge_slot(trie, node, text[i]);
        if (trie->edges[slot] == 0) break;
        node = trie->children[slot];
        if (trie->tokens[node] != 0) {
            token = &added->tokens[trie->tokens[node] - 1];
            *end = i + 1;
        }
    }
    return token;
}

static enum mt_status is_word(const struct mt_added_tokens *added, struct mt_regex_matcher *matcher,
                              const uint8_t *text, bool *word)
{
    struct mt_regex_walk walk = {0};
    return mt_regex_next(matcher, added->word, text, mt_utf8_length(text[0]), &walk, word);
}

/* Whether a match stands alone, as single_word asks. */
static enum mt_status stands_alone(const struct mt_added_tokens *added, struct mt_regex_matcher *matcher,
                                   const uint8_t *text, size_t bytes, size_t start, size_t end, bool *alone)
{
    bool word_before = false;
    bool word_behind = false;
    enum mt_status status = MT_OK;
    if (start > 0) status = is_word(added, matcher, text + mt_utf8_previous(text, start), &word_before);
    if (status == MT_OK && end < bytes) status = is_word(added, matcher, text + end, &word_behind);
    *alone = !word_before && !word_behind;
    return status;
}

static size_t skip_space_left(const uint8_t *text, size_t start)
{
    size_t length = 0;
    while (start > 0) {
        size_t previous = mt_utf8_previous(text, start);
        if (!mt_unicode_is_space(mt_utf8_decode(text + previous, &length))) break;
        start = previous;
    }
    return start;
}

static size_t skip_space_right(const uint8_t *text, size_t bytes, size_t end)
{
    size_t length = 0;
    while (end < bytes && mt_unicode_is_space(mt_utf8_decode(text + end, &length))) end += length;
    return end;
}

enum mt_status mt_added_tokens_next(const struct mt_added_tokens *added, const struct mt_added_trie *trie,
                                    struct mt_regex_matcher *matcher, const uint8_t *text, size_t bytes,
                                    bool skip_special, struct mt_added_walk *walk)
{
    while (trie->slots != 0 && walk->from < bytes) {
        size_t start = walk->from;
        size_t end = 0;
        uint8_t byte = text[start];
        const struct mt_added_token *token = NULL;
        if ((trie->first[byte / 8] & (1u << byte % 8)) != 0)
            token = longest_at(added, trie, text, bytes, start, &end);
        if (token == NULL) {
            walk->from++;
            continue;
        }
        walk->from = end;
        if (skip_special && token->special) continue;
        bool alone = true;
        if (token->single_word) {
            enum mt_status status = stands_alone(added, matcher, text, bytes, start, end, &alone);
            if (status != MT_OK) return status;
        }
        if (!alone) continue;
        if (token->lstrip) {
            start = skip_space_left(text, start);
            if (start < walk->done) start = walk->done;
        }
        if (token->rstrip) end = skip_space_right(text, bytes, end);
        // A token inside the white space the last one swallowed still counts, without text before it.
        walk->text_start = walk->done;
        walk->text_end = walk->done < start ? start : walk->done;
        walk->done = end;
        walk->token = token;
        return MT_OK;
    }
    walk->text_start = walk->done < bytes ? walk->done : bytes;
    walk->text_end = bytes;
    walk->token = NULL;
    return MT_OK;
}
