/*
 * Fuzz target: bytes as a chat template in Jinja, rendered for conversations. What follows a NUL byte is
 * JSON: the variables of one more rendering. The output must be valid UTF-8 whose spans cover it, in order;
 * whatever the template asks for, a rendering ends within its limits.
 */
// With: src/text/jinja/*.c src/text/jinja/*/*.c
#include <stdlib.h>
#include <string.h>

#include "formats/text/utf8.h"
#include "text/jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static const char conversations[] =
    "[{\"messages\": [{\"role\": \"system\", \"content\": \"s <|x|>\"}, {\"role\": \"user\", \"content\": "
    "\"\\u00df \\u03a3 u\\n\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": "
    "\"a1\", "
    "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null, true]}}}]}, {\"role\": \"tool\", "
    "\"content\": \"r\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"},"
    " {\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"t\"}]}, {\"role\": "
    "\"assistant\", \"content\": \"<think>w</think>a\", \"reasoning_content\": \"\"}], \"tools\": null, "
    "\"add_generation_prompt\": false},"
    " {}]";

static void check_output(const struct mt_jinja_output *output)
{
    size_t at = 0;
    demand(mt_utf8_valid((const uint8_t *)output->text, output->bytes));
    demand(output->text[output->bytes] == '\0');
    for (size_t i = 0; i < output->mark_count; i++) {
        demand(output->marks[i].start == at && output->marks[i].end > at);
        demand(output->marks[i].mark <= MT_JINJA_MARK_LAST);
        at = output->marks[i].end;
    }
    demand(at == output->bytes);
    at = 0;
    for (size_t i = 0; i < output->generation_count; i++) {
        demand(output->generations[i].start >= at &&
               output->generations[i].end > output->generations[i].start);
        at = output->generations[i].end;
    }
    demand(at <= output->bytes);
}

static void render(struct mt_context *ctx, const struct mt_jinja *template,
                   const struct mt_json_node *variables)
{
    static const struct tm now = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207};
    const struct mt_jinja_options options = {
        .now = &now,
        .limits = {.steps = 200000, .output_bytes = (size_t)1 << 20, .memory_bytes = (size_t)32 << 20}};
    struct mt_jinja_values *values = NULL;
    struct mt_jinja_output output = {0};
    void *position = NULL;
    struct mt_json_node child;
    demand(mt_jinja_values_create(ctx, &values) == MT_OK);
    while (mt_json_next(variables, &position, &child)) {
        struct mt_value value;
        value = mt_jinja_from_json(values, &child, 7);
        mt_jinja_values_set(values, child.key, value);
        demand(mt_jinja_values_status(values) == MT_OK);
    }
    ctx->message[0] = '\0';
    enum mt_status status = mt_jinja_render(template, values, &options, &output);
    if (status == MT_OK)
        check_output(&output);
    else
        demand(ctx->message[0] != '\0' && status != MT_ERR_INTERNAL);
    mt_jinja_output_free(&output);
    mt_jinja_values_free(values);
}

static void render_all(struct mt_context *ctx, const struct mt_jinja *template, const char *text,
                       size_t bytes)
{
    struct mt_json_limits limits = mt_json_file_limits;
    struct mt_json json;
    if (mt_json_parse(ctx, "variables", text, bytes, &limits, &json) != MT_OK) return;
    struct mt_json_node root = mt_json_root(&json);
    if (mt_json_kind(&root) == MT_JSON_OBJECT) render(ctx, template, &root);
    if (mt_json_kind(&root) == MT_JSON_ARRAY) {
        for (size_t i = 0; i < mt_json_count(&root); i++) {
            struct mt_json_node item = mt_json_element(&root, i);
            if (mt_json_kind(&item) == MT_JSON_OBJECT) render(ctx, template, &item);
        }
    }
    mt_json_free(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    struct mt_jinja *template = NULL;
    mt_context_init(&ctx, NULL);
    const uint8_t *end = size != 0 ? memchr(data, '\0', size) : NULL;
    size_t bytes = end != NULL ? (size_t)(end - data) : size;
    if (mt_jinja_parse(&ctx, "fuzz", (const char *)data, bytes, &template) == MT_OK) {
        render_all(&ctx, template, conversations, sizeof conversations - 1);
        if (end != NULL) render_all(&ctx, template, (const char *)end + 1, size - bytes - 1);
        mt_jinja_free(template);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
