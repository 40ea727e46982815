/*
 * Chat templates in Jinja rendered for many conversations in one process, for comparison with jinja2:
 *     template_batch IN OUT
 * IN is JSON: [{"template": "...", "cases": [{variable: value, ...}, ...]}, ...]. bos_token, eos_token and
 * add_generation_prompt are trusted, all other strings carry the mark 1. OUT has a record for every case:
 * three texts, each a 32-bit count (little endian) and as many bytes: "ok" or the status; what was written,
 * or the message; the stretches that are marked and those generated, as "start-end," lists with a ";"
 * between. The time is 2024-07-26 13:05:09, a Friday.
 */
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/json_text.h"
#include "text/jinja/jinja.h"

static void write_record(FILE *out, const void *data, size_t count)
{
    uint32_t head = (uint32_t)count;
    (void)fwrite(&head, sizeof head, 1, out);
    if (count != 0) (void)fwrite(data, 1, count, out);
}

static enum mt_status write_spans(struct mt_json_text *text, const struct mt_jinja_span *spans, size_t count,
                                  bool marked)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        if (!marked || spans[i].mark != MT_JINJA_TRUSTED)
            status = mt_json_text_format(text, "%zu-%zu,", spans[i].start, spans[i].end);
    }
    return status;
}

static enum mt_status write_output(struct mt_context *ctx, const struct mt_jinja_output *output, FILE *out)
{
    struct mt_json_text spans;
    mt_json_text_init(&spans, ctx);
    enum mt_status status = write_spans(&spans, output->marks, output->mark_count, true);
    if (status == MT_OK) status = mt_json_text_format(&spans, ";");
    if (status == MT_OK) status = write_spans(&spans, output->generations, output->generation_count, false);
    write_record(out, "ok", 2);
    write_record(out, output->text, output->bytes);
    write_record(out, spans.bytes, spans.length);
    mt_json_text_free(&spans);
    return status;
}

static void write_failure(const struct mt_context *ctx, enum mt_status status, FILE *out)
{
    const char *text = mt_status_text(status);
    write_record(out, text, strlen(text));
    write_record(out, ctx->message, strlen(ctx->message));
    write_record(out, NULL, 0);
}

static enum mt_status set_variables(struct mt_jinja_values *values, const struct mt_json_node *variables)
{
    void *position = NULL;
    struct mt_json_node child;
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_json_next(variables, &position, &child)) {
        bool token = strcmp(child.key, "bos_token") == 0 || strcmp(child.key, "eos_token") == 0;
        struct mt_value value;
        value = mt_jinja_from_json(values, &child, token ? MT_JINJA_TRUSTED : 1);
        mt_jinja_values_set(values, child.key, value);
        status = mt_jinja_values_status(values);
    }
    return status;
}

static enum mt_status run_case(struct mt_context *ctx, const struct mt_jinja *template,
                               const struct mt_json_node *variables, FILE *out)
{
    const struct tm now = {.tm_year = 124,
                           .tm_mon = 6,
                           .tm_mday = 26,
                           .tm_hour = 13,
                           .tm_min = 5,
                           .tm_sec = 9,
                           .tm_wday = 5,
                           .tm_yday = 207};
    const struct mt_jinja_options options = {.now = &now};
    struct mt_jinja_values *values = NULL;
    struct mt_jinja_output output = {0};
    enum mt_status status = mt_jinja_values_create(ctx, &values);
    if (status == MT_OK) status = set_variables(values, variables);
    if (status == MT_OK) status = mt_jinja_render(template, values, &options, &output);
    if (status == MT_OK)
        status = write_output(ctx, &output, out);
    else
        write_failure(ctx, status, out);
    mt_jinja_output_free(&output);
    mt_jinja_values_free(values);
    return MT_OK;
}

static enum mt_status run_template(struct mt_context *ctx, const struct mt_json_node *item, FILE *out)
{
    const char *text = NULL;
    struct mt_json_node cases;
    struct mt_jinja *template = NULL;
    enum mt_status status = mt_json_get_string(item, "template", &text);
    if (status == MT_OK) status = mt_json_get_array(item, "cases", &cases);
    if (status != MT_OK) return status;
    enum mt_status parsed = mt_jinja_parse(ctx, "template", text, strlen(text), &template);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&cases); i++) {
        struct mt_json_node variables = mt_json_element(&cases, i);
        if (parsed == MT_OK)
            status = run_case(ctx, template, &variables, out);
        else
            write_failure(ctx, parsed, out);
    }
    mt_jinja_free(template);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: template_batch IN OUT\n");
        return 2;
    }
    const struct mt_json_limits limits = {
        .max_bytes = SIZE_MAX / 2, .max_values = SIZE_MAX / 2, .max_depth = 512};
    struct mt_context ctx;
    struct mt_json json;
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_json_read(&ctx, argv[1], &limits, &json);
    FILE *out = status == MT_OK ? fopen(argv[2], "wb") : NULL;
    if (status == MT_OK && out == NULL) status = mt_fail(&ctx, MT_ERR_IO, "cannot write %s", argv[2]);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        for (size_t i = 0; status == MT_OK && i < mt_json_count(&root); i++) {
            struct mt_json_node item = mt_json_element(&root, i);
            status = run_template(&ctx, &item, out);
        }
    }
    if (out != NULL && fclose(out) != 0) status = MT_ERR_IO;
    mt_json_free(&json);
    if (status == MT_OK) return 0;
    (void)fprintf(stderr, "template_batch: %s\n", ctx.message);
    return 1;
}
