/* Requests of an evaluation, and log-likelihoods out of replies. */
#include "eval/endpoint/completion_api.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "eval/endpoint/chat_api.h"
#include "text/plain_text.h"

#define MOST_STOPS    4
#define MOST_TOKENS   1e9
#define LEAST_LOG     (-1e30) // what endpoints write for a probability of 0 is above it
#define MOST_LOG      1e-3    // 0, rounded
#define WRITTEN_AHEAD 1       // tokens asked for beside the prompt's: 0 is refused by some endpoints

static const struct mt_json_limits reply_limits = {
    .max_bytes = (size_t)64 << 20, .max_values = 8000000, .max_depth = 32, .integers_as_real = true};

// ------------------------------------------------------------------ requests

static void put_stops(struct mt_text_writer *writer, const char *const *stop)
{
    if (stop == NULL || stop[0] == NULL) return;
    for (int i = 0; i < MOST_STOPS && stop[i] != NULL; i++)
        mt_text_put_string(writer, i == 0 ? ", \"stop\": [" : ", ", mt_text_of(stop[i]));
    mt_text_put(writer, "]");
}

enum mt_status mt_completion_request(const struct mt_completion *completion, struct mt_byte_list *body)
{
    struct mt_text_writer writer = {.text = *body};
    mt_text_put_string(&writer, "{\"model\": ", mt_text_of(completion->model));
    mt_text_put_string(
        &writer, completion->chat ? ", \"messages\": [{\"role\": \"user\", \"content\": " : ", \"prompt\": ",
        completion->prompt);
    if (completion->chat) mt_text_put(&writer, "}]");
    mt_text_putf(&writer, ", \"max_tokens\": %" PRId64, completion->max_tokens);
    mt_text_put_number(&writer, ", \"temperature\": ", completion->temperature);
    if (completion->temperature > 0.0) {
        if (completion->top_p < 1.0) mt_text_put_number(&writer, ", \"top_p\": ", completion->top_p);
        mt_text_putf(&writer, ", \"seed\": %" PRIu32, completion->seed);
    }
    put_stops(&writer, completion->stop);
    mt_text_put(&writer, "}");
    *body = writer.text;
    return writer.status;
}

enum mt_status mt_score_request(const char *model, struct mt_text whole, struct mt_byte_list *body)
{
    struct mt_text_writer writer = {.text = *body};
    mt_text_put_string(&writer, "{\"model\": ", mt_text_of(model));
    mt_text_put_string(&writer, ", \"prompt\": ", whole);
    mt_text_putf(&writer, ", \"max_tokens\": %d, \"temperature\": 0, \"echo\": true, \"logprobs\": 1}",
                 WRITTEN_AHEAD);
    *body = writer.text;
    return writer.status;
}

// ------------------------------------------------------------------ which tokens

/* `logprobs` of a reply: lists of the same length. */
struct token_lists {
    struct mt_json_node logprobs; // their parent
    struct mt_json_node tokens;
    struct mt_json_node logs;
    struct mt_json_node offsets, top;
    bool has_offsets, has_top;
    size_t count;
    int64_t prompt; // tokens, as `usage` says; -1: it does not
};

struct span {
    size_t start, end;
};

static const char *token_text(const struct token_lists *lists, size_t i)
{
    struct mt_json_node node = mt_json_element(&lists->tokens, i);
    const char *text = "";
    return mt_json_kind(&node) == MT_JSON_STRING && mt_json_as_string(&node, &text) == MT_OK ? text : "";
}

static size_t count_characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80 ? 1 : 0;
    return count;
}

static bool is_ascii(char byte)
{
    return (unsigned char)byte < 0x80;
}

/* Prompt and continuation, read backwards along the tokens. */
struct reading {
    struct mt_text whole;
    size_t context; // bytes: where the continuation begins
    size_t left;    // bytes that are not read yet
    bool in_run;    // reading pieces of characters
};

/*
 * Reads one token: as it stands there, else byte by byte. Characters that are not ASCII may be cut into
 * tokens that decode to nothing or to U+FFFD each: a run of such characters is read by any run of such
 * tokens. False: it says something else, or a run goes over the border.
 */
static bool read_token(struct reading *reading, const char *token)
{
    const char *text = reading->whole.text;
    size_t length = strlen(token);
    if (length > 0 && length <= reading->left && memcmp(text + reading->left - length, token, length) == 0) {
        reading->left -= length;
        reading->in_run = false;
        return true;
    }
    for (; length > 0; length--) {
        char byte = token[length - 1];
        if (!is_ascii(byte) && reading->in_run) continue;
        if (reading->left == reading->context || is_ascii(text[reading->left - 1]) != is_ascii(byte) ||
            (is_ascii(byte) && text[reading->left - 1] != byte))
            return false;
        reading->in_run = !is_ascii(byte);
        reading->left--;
        while (reading->in_run && reading->left > 0 && !is_ascii(text[reading->left - 1])) reading->left--;
        if (reading->left < reading->context) return false;
    }
    return true;
}

/* Tokens without a text right before token i. */
static size_t empty_before(const struct token_lists *lists, size_t i)
{
    size_t count = 0;
    while (count < i && token_text(lists, i - 1 - count)[0] == '\0') count++;
    return count;
}

/*
 * Endpoints that decode each token by itself lose the space a word begins with, and a token of nothing but a
 * space becomes one without a text. Reads a space that token i has lost: more stand there than tokens for
 * them.
 */
static void read_lost_space(struct reading *reading, const struct token_lists *lists, size_t i)
{
    size_t spaces = 0;
    size_t empty = empty_before(lists, i);
    const char *before = i > empty ? token_text(lists, i - 1 - empty) : "";
    size_t tail = strlen(before);
    while (spaces < reading->left - reading->context &&
           reading->whole.text[reading->left - 1 - spaces] == ' ')
        spaces++;
    if (spaces <= empty || (tail > 0 && before[tail - 1] == ' ')) return;
    reading->left--;
    reading->in_run = false;
}

/*
 * The tokens before `end` that spell the continuation. One that begins before it is not among them, unless it
 * is the only one. The token before the first must end as the prefix does.
 */
static bool find_by_text(const struct token_lists *lists, size_t end, struct mt_text whole, size_t context,
                         struct span *span)
{
    struct reading reading = {.whole = whole, .context = context, .left = whole.bytes};
    size_t i = end;
    while (i > 0) {
        const char *token = token_text(lists, i - 1);
        size_t length = strlen(token);
        bool goes_on = reading.in_run && (length == 0 || !is_ascii(token[length - 1]));
        if (reading.left <= context && !goes_on) break;
        bool space = length == 0 && !goes_on && whole.text[reading.left - 1] == ' ';
        if (space) reading.left--;
        if (!read_token(&reading, token)) return false;
        i--;
        const char *before = i > 0 ? token_text(lists, i - 1) : "x";
        bool piece = reading.in_run && (before[0] == '\0' || !is_ascii(before[strlen(before) - 1]));
        if (length > 0 && !piece && reading.left > context) read_lost_space(&reading, lists, i);
    }
    if (reading.left > context) return false;
    *span = (struct span){.start = reading.left < context && i + 1 < end ? i + 1 : i, .end = end};
    const char *last = i > 0 ? token_text(lists, i - 1) : "";
    if (last[0] == '\0' || reading.left == 0 || !is_ascii(whole.text[reading.left - 1])) return true;
    return last[strlen(last) - 1] == whole.text[reading.left - 1];
}

/* Where token i begins, in characters; -1: the reply does not say. */
static int64_t offset_of(const struct token_lists *lists, size_t i)
{
    struct mt_json_node node = mt_json_element(&lists->offsets, i);
    double value = -1.0;
    if (mt_json_kind(&node) == MT_JSON_NULL || mt_json_as_real(&node, 0.0, MOST_TOKENS, &value) != MT_OK)
        return -1;
    return (int64_t)value;
}

/*
 * The tokens before `end` from character `prefix` on; the prompt has `whole` characters. A token in front
 * that is not in the text, as one that begins texts, may have moved all of them by its length.
 */
static bool find_by_offset(const struct token_lists *lists, size_t end, int64_t prefix, int64_t whole,
                           struct span *span)
{
    const char *first = token_text(lists, 0);
    int64_t moved = end < lists->count ? offset_of(lists, end) - whole : 0;
    if (moved != 0 && moved != (int64_t)count_characters(first, strlen(first))) return false;
    int64_t last = 0;
    size_t start = end;
    for (size_t i = 0; i < end; i++) {
        int64_t offset = offset_of(lists, i);
        if (offset < last || offset >= whole + moved || (i == 0 && offset != 0)) return false;
        last = offset;
        if (start == end && offset >= prefix + moved) start = i;
    }
    // The whole continuation may lie in the last token.
    *span = (struct span){.start = start < end ? start : end - 1, .end = end};
    return true;
}

static enum mt_status find_span(const struct token_lists *lists, struct mt_text whole, size_t prefix,
                                struct span *span)
{
    size_t context = mt_context_bytes(whole.text, prefix);
    int64_t characters = (int64_t)count_characters(whole.text, whole.bytes);
    int64_t before = (int64_t)count_characters(whole.text, context);
    size_t most = lists->count;
    // Tokens of the answer stand behind the prompt's: none, or those asked for.
    for (size_t ahead = WRITTEN_AHEAD + 1; ahead > 0 && ahead - 1 < most; ahead--) {
        size_t end = most - (ahead - 1);
        if (lists->prompt >= 0 && (int64_t)end != lists->prompt) continue;
        if (find_by_text(lists, end, whole, context, span)) return MT_OK;
        if (lists->has_offsets && find_by_offset(lists, end, before, characters, span)) return MT_OK;
    }
    return mt_json_fail(&lists->logprobs,
                        "does not fit the question: neither the tokens' texts nor text_offset tell where the "
                        "prompt ends");
}

// ------------------------------------------------------------------ replies

/* True when a list as long as the tokens is there. */
static bool has_list(const struct token_lists *lists, const char *key, struct mt_json_node *list)
{
    return mt_json_member(&lists->logprobs, key, list) && mt_json_kind(list) == MT_JSON_ARRAY &&
           mt_json_count(list) == lists->count;
}

static enum mt_status read_lists(const struct mt_json_node *root, const struct mt_json_node *choice,
                                 struct token_lists *lists)
{
    struct mt_json_node usage;
    double prompt = 0.0;
    *lists = (struct token_lists){.prompt = -1};
    bool has = mt_json_member(choice, "logprobs", &lists->logprobs) &&
               mt_json_kind(&lists->logprobs) == MT_JSON_OBJECT &&
               mt_json_member(&lists->logprobs, "tokens", &lists->tokens) &&
               mt_json_kind(&lists->tokens) == MT_JSON_ARRAY;
    lists->count = has ? mt_json_count(&lists->tokens) : 0;
    // Fewer would be the answer's alone.
    if (lists->count <= WRITTEN_AHEAD || !has_list(lists, "token_logprobs", &lists->logs))
        return mt_fail(root->ctx, MT_ERR_UNSUPPORTED, "the reply has no log-probabilities of the prompt");
    lists->has_offsets = has_list(lists, "text_offset", &lists->offsets);
    lists->has_top = has_list(lists, "top_logprobs", &lists->top);
    if (mt_json_member(root, "usage", &usage) && mt_json_kind(&usage) == MT_JSON_OBJECT &&
        mt_json_optional_real(&usage, "prompt_tokens", (double)(lists->count - WRITTEN_AHEAD),
                              (double)lists->count, &prompt) == MT_OK &&
        prompt > 0.0)
        lists->prompt = (int64_t)prompt;
    return MT_OK;
}

/* Whether nothing the reply names in place of token i is likelier. */
static bool is_likeliest(const struct token_lists *lists, size_t i, double log)
{
    struct mt_json_node other;
    void *position = NULL;
    bool any = false;
    if (!lists->has_top) return false;
    struct mt_json_node top = mt_json_element(&lists->top, i);
    if (mt_json_kind(&top) != MT_JSON_OBJECT) return false;
    while (mt_json_next(&top, &position, &other)) {
        double value = INFINITY;
        (void)mt_json_as_real(&other, LEAST_LOG, MOST_LOG, &value);
        if (value > log) return false;
        any = true;
    }
    return any;
}

static enum mt_status add_up(const struct token_lists *lists, const struct span *span,
                             struct mt_choice_score *score)
{
    *score = (struct mt_choice_score){.greedy = true};
    for (size_t i = span->start; i < span->end; i++) {
        double log = 0.0;
        struct mt_json_node node = mt_json_element(&lists->logs, i);
        if (i == 0 && mt_json_kind(&node) == MT_JSON_NULL)
            return mt_json_fail(&node, "is null: nothing stands before the continuation, not even a token "
                                       "that begins texts");
        enum mt_status status = mt_json_as_real(&node, LEAST_LOG, MOST_LOG, &log);
        if (status != MT_OK) return status;
        score->log_likelihood += log < 0.0 ? log : 0.0;
        score->greedy = score->greedy && is_likeliest(lists, i, log);
    }
    return MT_OK;
}

enum mt_status mt_score_reply(struct mt_context *ctx, const void *body, size_t bytes, struct mt_text whole,
                              size_t prefix, struct mt_choice_score *score, int64_t *tokens)
{
    struct mt_json json = {0};
    struct mt_json_node choices;
    struct token_lists lists;
    struct span span = {0};
    enum mt_status status = mt_json_parse(ctx, "the reply", body, bytes, &reply_limits, &json);
    // The parser's own message may quote the text, and the text may be anything.
    if (status == MT_ERR_FORMAT) return mt_fail(ctx, MT_ERR_FORMAT, "the reply is not JSON");
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = mt_json_get_array(&root, "choices", &choices);
    if (status == MT_OK && mt_json_count(&choices) == 0) status = mt_json_fail(&choices, "is empty");
    if (status == MT_OK) {
        struct mt_json_node first = mt_json_element(&choices, 0);
        status = mt_json_expect_object(&first);
        if (status == MT_OK) status = read_lists(&root, &first, &lists);
        if (status == MT_OK) status = find_span(&lists, whole, prefix, &span);
        if (status == MT_OK) status = add_up(&lists, &span, score);
        if (status == MT_OK) *tokens = mt_reply_tokens(&root);
    }
    mt_json_free(&json);
    return status;
}
