/* Chat completions as JSON. */
#include "eval/endpoint/chat_api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/json.h"
#include "formats/text/printable.h"

#define LEAST_SECRET 4

static const struct mt_json_limits reply_limits = {
    .max_bytes = (size_t)8 << 20, .max_values = 200000, .max_depth = 32, .integers_as_real = true};

enum mt_status mt_chat_request(const char *model, struct mt_text text, int64_t max_tokens, bool cold,
                               struct mt_byte_list *body)
{
    struct mt_text_writer writer = {.text = *body};
    mt_text_put_string(&writer, "{\"model\": ", mt_text_of(model));
    mt_text_put_string(&writer, ", \"messages\": [{\"role\": \"user\", \"content\": ", text);
    mt_text_put(&writer, "}]");
    if (cold) mt_text_put(&writer, ", \"temperature\": 0");
    if (max_tokens > 0) mt_text_putf(&writer, ", \"max_tokens\": %" PRId64, max_tokens);
    mt_text_put(&writer, "}");
    *body = writer.text;
    return writer.status;
}

/* Overwrites every occurrence of the key with '*'. Keys below four characters are no secret ("none", "x"). */
static void blot(char *text, size_t bytes, const char *key)
{
    size_t length = key != NULL ? strlen(key) : 0;
    if (length < LEAST_SECRET) return;
    for (size_t i = 0; i + length <= bytes; i++) {
        if (memcmp(text + i, key, length) == 0) memset(text + i, '*', length);
    }
}

static enum mt_status content_of(const struct mt_json_node *root, const char **content, bool *cut)
{
    struct mt_json_node choices;
    struct mt_json_node message;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_get_array(root, "choices", &choices);
    if (status != MT_OK) return status;
    if (mt_json_count(&choices) == 0) return mt_json_fail(&choices, "is empty");
    struct mt_json_node first = mt_json_element(&choices, 0);
    const char *why = "";
    status = mt_json_expect_object(&first);
    if (status == MT_OK) status = mt_json_optional_string(&first, "finish_reason", &why);
    *cut = strcmp(why, "length") == 0;
    if (status == MT_OK && mt_json_has(&first, "text")) return mt_json_get_string(&first, "text", content);
    if (status == MT_OK) status = mt_json_get_object(&first, "message", &message);
    *content = "";
    if (status != MT_OK || (*cut && !mt_json_has(&message, "content"))) return status;
    return mt_json_get_string(&message, "content", content);
}

void mt_reply_without_nul(struct mt_byte_list *body)
{
    static const char nul[] = "\\u0000";
    size_t length = sizeof nul - 1;
    for (size_t i = 0; i + length <= body->count; i++) {
        if (body->data[i] != '\\') continue;
        if (memcmp(body->data + i, nul, length) == 0) memcpy(body->data + i, "\\ufffd", length);
        i++; // what a backslash stands before is no beginning
    }
}

int64_t mt_reply_tokens(const struct mt_json_node *reply)
{
    static const char *const keys[] = {"prompt_tokens", "completion_tokens"};
    struct mt_json_node usage;
    int64_t sum = 0;
    if (!mt_json_member(reply, "usage", &usage) || mt_json_kind(&usage) != MT_JSON_OBJECT) return 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        double count = 0.0; // whole numbers are read as such
        if (mt_json_optional_real(&usage, keys[i], 0.0, 1e9, &count) == MT_OK) sum += (int64_t)count;
    }
    return sum;
}

enum mt_status mt_chat_reply(struct mt_context *ctx, const void *body, size_t bytes, const char *key,
                             struct mt_byte_list *text, int64_t *tokens, bool *cut)
{
    bool length = false;
    struct mt_json json = {0};
    const char *content = NULL;
    size_t before = text->count;
    enum mt_status status = mt_json_parse(ctx, "the reply", body, bytes, &reply_limits, &json);
    // The parser's own message may quote the text, and the text may be anything.
    if (status == MT_ERR_FORMAT) return mt_fail(ctx, MT_ERR_FORMAT, "the reply is not JSON");
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = content_of(&root, &content, &length);
    if (cut != NULL) *cut = length;
    if (status == MT_OK) status = mt_byte_list_append_text(text, content);
    if (status == MT_OK && tokens != NULL) *tokens = mt_reply_tokens(&root);
    if (status == MT_OK && text->count > before) blot((char *)text->data + before, text->count - before, key);
    mt_json_free(&json);
    return status;
}

/* The sentence of {"error": {"message": ...}}, {"error": ...}, {"message": ...} or {"detail": ...}; NULL:
 * none. */
static const char *message_of(const struct mt_json_node *root)
{
    static const char *const keys[] = {"error", "message", "detail"};
    const char *message = NULL;
    if (mt_json_kind(root) != MT_JSON_OBJECT) return NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && message == NULL; i++) {
        struct mt_json_node said;
        if (!mt_json_member(root, keys[i], &said)) continue;
        if (mt_json_kind(&said) == MT_JSON_OBJECT) (void)mt_json_optional_string(&said, "message", &message);
        if (mt_json_kind(&said) == MT_JSON_STRING) (void)mt_json_as_string(&said, &message);
    }
    return message;
}

enum mt_status mt_chat_refusal(struct mt_context *ctx, const void *body, size_t bytes, const char *key,
                               char *line, size_t line_bytes)
{
    struct mt_json json = {0};
    struct mt_byte_list whole = {.ctx = ctx};
    line[0] = '\0';
    enum mt_status status = mt_json_parse(ctx, "the reply", body, bytes, &reply_limits, &json);
    if (status == MT_ERR_FORMAT) return MT_OK; // it says nothing we could read
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    const char *message = message_of(&root);
    if (message != NULL) status = mt_byte_list_append_text(&whole, message);
    if (status == MT_OK && whole.count > 0) {
        // Blotted before it is cut: half a key is a key, too.
        blot((char *)whole.data, whole.count, key);
        (void)snprintf(line, line_bytes, "%s",
                       mt_printable_bytes((const char *)whole.data, whole.count).text);
    }
    mt_byte_list_free(&whole);
    mt_json_free(&json);
    return status;
}
