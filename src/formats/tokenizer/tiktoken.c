/*
 * tiktoken.model: lines "<base64 of a token's bytes> <rank>"; the rank is the id. The merge rule is
 * tiktoken's: a piece that is a token stays whole, else the neighbours whose joined bytes have the lowest
 * rank merge first. As ranks belong to bytes, every way to cut a token into two tokens is a merge with the
 * token's rank, and BPE with those merges is the same thing.
 *
 * The file has neither the pattern that cuts the text nor the special tokens. A family says what they are:
 * o200k (gpt-oss) is known by its number of ranks, every other file is taken for one of the Kimi family. The
 * special tokens are the ids behind the ranks, named by tokenizer_config.json, else by the family.
 */
#include <stdio.h>

#include "formats/text/printable.h"
#include "formats/tokenizer/private.h"

#define MAX_TOKEN_BYTES 1024
#define MAX_LINE_BYTES  2048
#define MAX_MODEL_BYTES ((size_t)128 * 1024 * 1024)

#define ANY             "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER           "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER           "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define ENDING          "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
static const char kimi_pattern[] =
    "[\\p{Han}]+|" ANY UPPER "*" LOWER "+" ENDING "|" ANY UPPER "+" LOWER "*" ENDING "|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

#define O200K_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
static const char o200k_pattern[] =
    ANY O200K_UPPER "*" O200K_LOWER "+" ENDING "|" ANY O200K_UPPER "+" O200K_LOWER "*" ENDING "|"
                    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct special_name {
    int32_t id;
    const char *content; // NULL after the last
};

// o200k_harmony's; the others of its are reserved.
static const struct special_name o200k_names[] = {
    {199998, "<|startoftext|>"},
    {199999, "<|endoftext|>"},
    {200002, "<|return|>"},
    {200003, "<|constrain|>"},
    {200005, "<|channel|>"},
    {200006, "<|start|>"},
    {200007, "<|end|>"},
    {200008, "<|message|>"},
    {200012, "<|call|>"},
    {200018, "<|endofprompt|>"},
    {0, NULL},
};
static const struct special_name no_names[] = {{0, NULL}};

struct family {
    size_t ranks; // 0: any number
    const char *pattern;
    int32_t specials; // ids behind the ranks
    const struct special_name *names;
    const char *reserved; // what the others are called, with their id and "|>" behind it
};

static const struct family families[] = {
    {199998, o200k_pattern, 1090, o200k_names, "<|reserved_"},
    {0, kimi_pattern, 256, no_names, "<|reserved_token_"},
};

static const struct mt_json_limits config_limits = {
    .max_bytes = (size_t)16 * 1024 * 1024,
    .max_values = 1000000,
    .max_depth = 32,
    .integers_as_real = true, // model_max_length may be 10^30
};

struct line {
    const char *file;
    size_t number; // counting from 1
    uint8_t token[MAX_TOKEN_BYTES];
    size_t token_bytes;
    int64_t rank;
};

static enum mt_status bad_line(struct mt_context *ctx, const struct line *line, const char *what)
{
    return mt_fail(ctx, MT_ERR_FORMAT, "%s: line %zu %s", line->file, line->number, what);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

/* Base64 with its padding; strict. */
static enum mt_status read_base64(struct mt_context *ctx, struct line *line, const char *text, size_t length)
{
    line->token_bytes = 0;
    if (length == 0 || length % 4 != 0) return bad_line(ctx, line, "does not start with base64");
    for (size_t at = 0; at < length; at += 4) {
        bool last = at + 4 == length;
        int padding = last && text[at + 3] == '=' ? (text[at + 2] == '=' ? 2 : 1) : 0;
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            int value = i >= 4 - padding ? 0 : base64_value(text[at + (size_t)i]);
            if (value < 0) return bad_line(ctx, line, "does not start with base64");
            bits = bits << 6 | (uint32_t)value;
        }
        for (int i = 0; i < 3 - padding; i++) {
            if (line->token_bytes == MAX_TOKEN_BYTES)
                return bad_line(ctx, line, "has a token of more than 1024 bytes");
            line->token[line->token_bytes++] = (uint8_t)(bits >> (16 - 8 * i));
        }
        if ((padding == 1 && (bits & 0xFFu) != 0) || (padding == 2 && (bits & 0xFFFFu) != 0)) {
            return bad_line(ctx, line, "has base64 with bits left over");
        }
    }
    return MT_OK;
}

/* Reads the line at *at and moves behind it; *empty for one without text. */
static enum mt_status read_line(struct mt_context *ctx, struct line *line, const char **at, const char *end,
                                bool *empty)
{
    const char *start = *at;
    const char *newline = memchr(start, '\n', (size_t)(end - start));
    const char *stop = newline != NULL ? newline : end;
    *at = newline != NULL ? newline + 1 : end;
    line->number++;
    if (stop > start && stop[-1] == '\r') stop--;
    *empty = stop == start;
    if (*empty) return MT_OK;
    if (stop - start > MAX_LINE_BYTES) return bad_line(ctx, line, "is too long");
    const char *space = memchr(start, ' ', (size_t)(stop - start));
    if (space == NULL) return bad_line(ctx, line, "is not '<base64> <rank>'");
    enum mt_status status = read_base64(ctx, line, start, (size_t)(space - start));
    if (status != MT_OK) return status;
    line->rank = 0;
    const char *digit = space + 1;
    if (digit == stop) return bad_line(ctx, line, "has no rank");
    for (; digit < stop; digit++) {
        if (*digit < '0' || *digit > '9') return bad_line(ctx, line, "has a rank that is not a number");
        line->rank = line->rank * 10 + (*digit - '0');
        if (line->rank >= MT_MAX_TOKENS) return bad_line(ctx, line, "has a rank that is too high");
    }
    return MT_OK;
}

static size_t count_lines(const char *text, size_t bytes)
{
    size_t lines = bytes > 0 && text[bytes - 1] != '\n' ? 1 : 0;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    return lines;
}

static enum mt_status read_ranks(struct mt_tokenizer *t, const char *name, const char *text, size_t bytes)
{
    size_t lines = count_lines(text, bytes);
    if (lines == 0 || lines > MT_MAX_TOKENS) {
        return mt_fail(t->ctx, MT_ERR_FORMAT, "%s: has %zu lines, expected one per token", name, lines);
    }
    struct mt_vocabulary *v = &t->bpe.vocabulary;
    enum mt_status status = mt_vocabulary_init(t->ctx, lines, lines, v);
    struct line line = {.file = name};
    const char *at = text;
    while (status == MT_OK && at < text + bytes) {
        bool empty = false;
        status = read_line(t->ctx, &line, &at, text + bytes, &empty);
        if (status != MT_OK || empty) continue;
        if ((size_t)line.rank >= lines)
            return bad_line(t->ctx, &line, "has a rank beyond the number of lines");
        status = mt_vocabulary_add(v, line.token, line.token_bytes, (int32_t)line.rank);
        if (status == MT_ERR_FORMAT)
            status = mt_fail_within(t->ctx, status, "%s: line %zu", name, line.number);
    }
    if (status != MT_OK) return status;
    // Special tokens start behind the ranks, so these must leave no hole.
    for (size_t id = 0; id < v->count; id++) {
        if (v->tokens[id].length < 0)
            return mt_fail(t->ctx, MT_ERR_FORMAT, "%s: no line has the rank %zu", name, id);
    }
    return MT_OK;
}

/* Calls for every cut of every token into two tokens: counts them, or adds them. */
static size_t walk_cuts(struct mt_bpe *bpe, bool add)
{
    const struct mt_vocabulary *v = &bpe->vocabulary;
    size_t found = 0;
    for (size_t id = 0; id < v->limit; id++) {
        size_t bytes = 0;
        const uint8_t *text = mt_vocabulary_text(v, (int32_t)id, &bytes);
        if (text == NULL || bytes < 2) continue;
        uint64_t whole = mt_vocabulary_hash(text, bytes);
        uint64_t prefix = 0;
        uint64_t power = 1; // factor^(bytes behind the cut)
        for (size_t i = 0; i < bytes; i++) power *= MT_VOCABULARY_FACTOR;
        uint64_t inverse = UINT64_C(1); // of the factor, by Newton's iteration
        for (int i = 0; i < 6; i++) inverse *= 2 - MT_VOCABULARY_FACTOR * inverse;
        for (size_t cut = 1; cut < bytes; cut++) {
            prefix = prefix * MT_VOCABULARY_FACTOR + text[cut - 1] + 1;
            power *= inverse;
            int32_t left = mt_vocabulary_find_hashed(v, text, cut, prefix);
            if (left < 0) continue;
            int32_t right = mt_vocabulary_find_hashed(v, text + cut, bytes - cut, whole - prefix * power);
            if (right < 0) continue;
            found++;
            if (add) mt_bpe_add_merge(bpe, left, right, (uint32_t)id, (int32_t)id);
        }
    }
    return found;
}

static enum mt_status make_model(struct mt_tokenizer *t, const char *name)
{
    t->bpe.raw_bytes = true;
    t->bpe.ignore_merges = true;
    enum mt_status status = mt_bpe_reserve_merges(&t->bpe, walk_cuts(&t->bpe, false));
    if (status != MT_OK) return status;
    (void)walk_cuts(&t->bpe, true);
    status = mt_bpe_finish(&t->bpe);
    for (int byte = 0; status == MT_OK && byte < 256; byte++) {
        if (t->bpe.byte_symbol[byte] >= 0) continue;
        return mt_fail(t->ctx, MT_ERR_FORMAT, "%s: the byte 0x%02X has no rank of its own", name,
                       (unsigned)byte);
    }
    return status;
}

/* Names a special token from tokenizer_config.json, when it does. */
static enum mt_status configured_token(const struct mt_json_node *names, int32_t id,
                                       struct mt_json_node *entry, const char **content)
{
    char key[16];
    (void)snprintf(key, sizeof key, "%d", (int)id);
    *content = NULL;
    if (names == NULL || !mt_json_has(names, key)) return MT_OK;
    enum mt_status status = mt_json_get_object(names, key, entry);
    if (status == MT_OK) status = mt_json_get_string(entry, "content", content);
    if (status == MT_OK && ((*content)[0] == '\0' || strlen(*content) > MAX_TOKEN_BYTES)) {
        return mt_json_fail(entry, "has a content of %zu bytes, expected 1 to %d", strlen(*content),
                            MAX_TOKEN_BYTES);
    }
    return status;
}

static enum mt_status add_special(struct mt_tokenizer *t, const struct family *family,
                                  const struct mt_json_node *names, int32_t id)
{
    struct mt_json_node entry;
    struct mt_added_token *token = NULL;
    const char *content = NULL;
    char reserved[40];
    bool special = true;
    enum mt_status status = configured_token(names, id, &entry, &content);
    if (status == MT_OK && content != NULL) status = mt_json_optional_bool(&entry, "special", &special);
    if (status != MT_OK) return status;
    for (const struct special_name *name = family->names; content == NULL && name->content != NULL; name++)
        if (name->id == id) content = name->content;
    if (content == NULL) {
        (void)snprintf(reserved, sizeof reserved, "%s%d|>", family->reserved, (int)id);
        content = reserved;
    }
    for (size_t i = 0; i < t->added.count; i++) {
        const struct mt_byte_list *other = &t->added.tokens[i].content;
        if (other->count == strlen(content) && memcmp(other->data, content, other->count) == 0) {
            return mt_fail(t->ctx, MT_ERR_FORMAT, "the special token '%s' has two ids, %d and %d",
                           mt_printable(content).text, (int)t->added.tokens[i].id, (int)id);
        }
    }
    status = mt_added_tokens_add(&t->added, content, strlen(content), id, &token);
    if (status != MT_OK) return status;
    token->special = special;
    token->decodes_as_special = special;
    return mt_byte_list_append_text(&token->found_as, content);
}

static enum mt_status add_specials(struct mt_tokenizer *t, const struct family *family, const void *config,
                                   size_t config_bytes)
{
    struct mt_json json = {0};
    struct mt_json_node root;
    struct mt_json_node names;
    bool named = false;
    enum mt_status status = MT_OK;
    if (config != NULL) {
        status = mt_json_parse(t->ctx, "tokenizer_config.json", config, config_bytes, &config_limits, &json);
        if (status != MT_OK) return status;
        root = mt_json_root(&json);
        status = mt_json_expect_object(&root);
        if (status == MT_OK) status = mt_json_optional_object(&root, "added_tokens_decoder", &names, &named);
    }
    int32_t first = (int32_t)t->bpe.vocabulary.count;
    for (int32_t id = first; status == MT_OK && id < first + family->specials; id++) {
        status = add_special(t, family, named ? &names : NULL, id);
    }
    mt_json_free(&json);
    return status;
}

static enum mt_status read_model(struct mt_tokenizer *t, const char *name, const char *text, size_t bytes,
                                 const void *config, size_t config_bytes)
{
    if (bytes > MAX_MODEL_BYTES) {
        return mt_fail(t->ctx, MT_ERR_FORMAT, "%s: has %zu bytes, at most %zu are supported", name, bytes,
                       MAX_MODEL_BYTES);
    }
    enum mt_status status = read_ranks(t, name, text, bytes);
    if (status == MT_OK) status = make_model(t, name);
    const struct family *family = families; // the last one takes any number
    while (family->ranks != 0 && family->ranks != t->bpe.vocabulary.count) family++;
    if (status == MT_OK) status = add_specials(t, family, config, config_bytes);
    if (status == MT_OK) status = mt_splitter_add_matches(&t->splitter, family->pattern);
    if (status == MT_OK) mt_splitter_add_byte_level(&t->splitter);
    if (status == MT_OK) status = mt_id_list_append(&t->template_ids, MT_TEMPLATE_TEXT);
    (void)mt_decoder_add(&t->decoder, MT_DECODER_RAW_BYTES);
    return status;
}

enum mt_status mt_tokenizer_load_tiktoken(struct mt_context *ctx, const char *name, const void *text,
                                          size_t bytes, const void *config, size_t config_bytes,
                                          struct mt_tokenizer **tokenizer)
{
    struct mt_tokenizer *made = NULL;
    *tokenizer = NULL;
    enum mt_status status = mt_tokenizer_create(ctx, &made);
    if (status == MT_OK) status = read_model(made, name, text, bytes, config, config_bytes);
    if (status == MT_OK) status = mt_tokenizer_finish(made);
    if (status != MT_OK) {
        mt_tokenizer_free(made);
        return status;
    }
    *tokenizer = made;
    return MT_OK;
}
